"""Compares the speed of `predict` with that of its bare network, and measures its memory against the image count.

    python -m benchmarks.predict_throughput [--images 1000] [--image-size 240x320] [--skip-memory]

It takes an hour on 2 idle cores with 1000 images, minutes with 100. The exit status is 1 if `predict` reaches less
than 90% of the bare network's images/s, or if its peak memory grows by more than a tenth from a quarter of the
images to all of them.

The images are parts of scikit-image's photos, enlarged or shrunk, with noise like a camera's. One of 20 is a JPEG
of 4000 x 3000 pixels. The others have sides of 200 to 2000 pixels (as many between 200 and 400 as between 1000 and
2000); of 19 of them, 10 are JPEG, 5 PNG, 2 WebP, 1 GIF and 1 grey TIFF. From the 201st on, they are links to the
earlier ones.

The bare network gets prepared batches from memory; `predict` reads files and writes maps as 8-bit PNG. Both take
turns on the same images in one process, and alternate in going first; the first, short turn does not count. Next
to images per second of wall time are images per second of CPU time, which other work on the machine affects less.

The memory is the peak resident memory of `python -m trainer predict` as its own process, with a network of 48 x 64
pixels, so that reading and writing take most of the time.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import keras
import numpy as np
from PIL import Image
from skimage import data

from trainer.artifacts import MODEL_CONFIG, WEIGHTS
from trainer.config import MEGAPIXEL, PREDICT_DEFAULTS, parse_image_size
from trainer.files import write_json
from trainer.model import build_model
from trainer.picture import read_picture
from trainer.prediction.inputs import Input, find_inputs
from trainer.prediction.predict import predict
from trainer.prediction.predictor import Predictor
from trainer.prediction.results import name_results

MIN_RATIO, MAX_GROWTH = 0.9, 1.1
PHOTOS = ("astronaut", "chelsea", "coffee", "rocket")
FORMATS = 10 * ["jpg"] + 5 * ["png"] + 2 * ["webp"] + ["gif", "tif"]
LARGE, SIDES = (4000, 3000), (200, 2000)
DISTINCT = 200
TURN_IMAGES = 48
MEMORY_SIZE = (48, 64)


def write_images(folder: pathlib.Path, count: int) -> list[Input]:
    """Write `count` images of the mix; returns them as inputs."""
    folder.mkdir()
    random = np.random.default_rng(0)
    photos = [Image.fromarray(getattr(data, name)()) for name in PHOTOS]
    for index in range(min(count, DISTINCT)):
        photo = photos[random.integers(len(photos))]
        suffix = FORMATS[random.integers(len(FORMATS))]
        width, height = (int(np.exp(random.uniform(*np.log(SIDES).tolist()))) for _ in range(2))
        if index % 20 == 10:
            (width, height), suffix = LARGE, "jpg"
        left, top = (random.uniform(0, side / 3) for side in photo.size)
        box = (left, top, left + photo.width * 0.6, top + photo.height * 0.6)
        pixels = np.asarray(photo.resize((width, height), Image.Resampling.BICUBIC, box), np.int16)
        noisy = pixels + random.integers(-3, 4, pixels.shape, np.int16)
        image = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
        (image.convert("L") if suffix == "tif" else image).save(folder / f"{index:04d}.{suffix}")
    originals = sorted(folder.iterdir())
    for index in range(DISTINCT, count):
        source = originals[index % DISTINCT]
        (folder / f"{index:04d}{source.suffix}").hardlink_to(source)
    return find_inputs([str(folder)]).inputs


def write_model(folder: pathlib.Path, image_size: tuple[int, int]) -> pathlib.Path:
    """Write the folder of an untrained model."""
    folder.mkdir()
    keras.utils.set_random_seed(1)
    build_model((None, None), "float32").save_weights(folder / WEIGHTS)
    write_json(folder / MODEL_CONFIG, {"image_size": image_size})
    return folder


class Clock:
    """Adds up the wall time and the CPU time of its calls."""

    def __init__(self, run: Callable[[Sequence[Input]], None]) -> None:
        self._run = run
        self.wall_s = self.cpu_s = 0.0
        self.images = 0

    def time(self, images: Sequence[Input]) -> str:
        """Run on these images; returns images per second as text, in brackets per second of CPU time."""
        wall, cpu = time.perf_counter(), time.process_time()
        self._run(images)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.wall_s, self.cpu_s = self.wall_s + wall, self.cpu_s + cpu
        self.images += len(images)
        return f"{len(images) / wall:.3f} ({len(images) / cpu:.3f})"

    def __str__(self) -> str:
        per_s, per_cpu_s = self.images / self.wall_s, self.images / self.cpu_s
        return f"{per_s:8.3f} images/s, {per_cpu_s:8.3f} per second of CPU time"


def throughput(predictor: Predictor, inputs: Sequence[Input], results: pathlib.Path) -> float:
    """Print the rates of both; returns the rate of `predict` divided by that of the bare network."""
    prepared: list[np.ndarray] = []

    def bare(_: Sequence[Input]) -> None:
        for start in range(0, len(prepared), PREDICT_DEFAULTS.batch_size):
            predictor.predict_prepared(np.stack(prepared[start : start + PREDICT_DEFAULTS.batch_size]))

    def whole(images: Sequence[Input]) -> None:
        for outcome in predict(predictor, images, name_results(images, results, ["png"])):
            assert not outcome.error, outcome.error

    clocks = {"bare network": Clock(bare), "predict": Clock(whole)}
    turns = [inputs[start : start + TURN_IMAGES] for start in range(0, len(inputs), TURN_IMAGES)]
    for number, images in enumerate([turns[0][: 2 * PREDICT_DEFAULTS.batch_size], *turns]):
        prepared[:] = [predictor.prepare(read_picture(image.read(10**9), image.name)) for image in images]
        if number == 1:  # turn 0 was the warm-up
            clocks = {"bare network": Clock(bare), "predict": Clock(whole)}
        ordered = list(clocks)[:: 1 if number % 2 else -1]
        rates = {name: clocks[name].time(images) for name in ordered}
        print(f"turn {number}: " + ", ".join(f"{name} {rates[name]}" for name in clocks), flush=True)
    for name, clock in clocks.items():
        print(f"{name:>14}: {clock}")
    first, second = clocks.values()
    print(f"ratio {first.wall_s / second.wall_s:.3f}, of CPU time {first.cpu_s / second.cpu_s:.3f}")
    return first.wall_s / second.wall_s


def peak_mb(model: pathlib.Path, inputs: Sequence[Input], results: pathlib.Path) -> float:
    """Run the command; returns its peak resident memory."""
    arguments = [sys.executable, "-m", "trainer", "predict", *(image.name for image in inputs)]
    arguments += ["--model", str(model), "--output-dir", str(results)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert not process.returncode
    return usage.ru_maxrss * 1024 / 10**6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--image-size", default="240x320")
    parser.add_argument("--skip-memory", action="store_true")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        inputs = write_images(folder / "images", parsed.images)
        megapixels = [np.prod(Image.open(image.name).size) / MEGAPIXEL for image in inputs]
        print(f"{len(inputs)} images, {np.mean(megapixels):.2f} megapixels on average", flush=True)
        failed = False
        if not parsed.skip_memory:
            model = write_model(folder / "small", MEMORY_SIZE)
            peaks = [peak_mb(model, part, folder / "maps") for part in (inputs[: len(inputs) // 4], inputs)]
            print(
                f"peak memory with a quarter of the images {peaks[0]:.0f} MB, with all {peaks[1]:.0f} MB",
                flush=True,
            )
            failed = peaks[1] > MAX_GROWTH * peaks[0]
        predictor = Predictor(write_model(folder / "model", parse_image_size(parsed.image_size)))
        failed |= throughput(predictor, inputs, folder / "results") < MIN_RATIO
    sys.exit(failed)


if __name__ == "__main__":
    main()
