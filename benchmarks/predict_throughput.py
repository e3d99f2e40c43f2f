"""How fast `predict` is beside its bare network, and how much memory it takes for how many images.

    python -m benchmarks.predict_throughput [--images 1000] [--image-size 240x320] [--skip-memory]

Takes an hour on 2 idle cores with 1000 images, minutes with 100. Exits with 1 where `predict` makes less than 90%
of the bare network's images/s, or where the peak of its memory grows by more than a tenth from a quarter of the
images to all of them.

The images are parts of scikit-image's photographs, enlarged or shrunk, with noise as a camera's. One of 20 is a
JPEG of 4000 x 3000 pixels; the others have sides of 200 to 2000 pixels (as many between 200 and 400 as between
1000 and 2000), and of 19 of them 10 are JPEG, 5 PNG, 2 WebP, 1 GIF and 1 grey TIFF. From the 201st on they are
links to the ones before.

Bare is the network called on prepared batches in memory; `predict` reads files and writes maps as 8-bit PNG. Both
take turns on the same images, each first in every other turn, in one process; the first, short turn does not
count. Beside images/s stands how many images a second of processor time makes, which other work on the machine
changes less.

The memory is the peak (resident) of `python -m trainer predict` as a process of its own, with a network of 48 x 64
pixels, which leaves the time to what is read and written.
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

RATIO_AT_LEAST, GROWTH_AT_MOST = 0.9, 1.1
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket")
FORMATS = 10 * ["jpg"] + 5 * ["png"] + 2 * ["webp"] + ["gif", "tif"]
LARGE, SIDES = (4000, 3000), (200, 2000)
DISTINCT = 200
TURN_IMAGES = 48
MEMORY_SIZE = (48, 64)


def write_images(folder: pathlib.Path, count: int) -> list[Input]:
    """So many images of the mix; as inputs."""
    folder.mkdir()
    random = np.random.default_rng(0)
    photographs = [Image.fromarray(getattr(data, name)()) for name in PHOTOGRAPHS]
    for index in range(min(count, DISTINCT)):
        photograph = photographs[random.integers(len(photographs))]
        suffix = FORMATS[random.integers(len(FORMATS))]
        width, height = (int(np.exp(random.uniform(*np.log(SIDES).tolist()))) for _ in range(2))
        if index % 20 == 10:
            (width, height), suffix = LARGE, "jpg"
        left, top = (random.uniform(0, side / 3) for side in photograph.size)
        box = (left, top, left + photograph.width * 0.6, top + photograph.height * 0.6)
        pixels = np.asarray(photograph.resize((width, height), Image.Resampling.BICUBIC, box), np.int16)
        noisy = pixels + random.integers(-3, 4, pixels.shape, np.int16)
        picture = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
        (picture.convert("L") if suffix == "tif" else picture).save(folder / f"{index:04d}.{suffix}")
    drawn = sorted(folder.iterdir())
    for index in range(DISTINCT, count):
        source = drawn[index % DISTINCT]
        (folder / f"{index:04d}{source.suffix}").hardlink_to(source)
    return find_inputs([str(folder)]).inputs


def write_model(folder: pathlib.Path, image_size: tuple[int, int]) -> pathlib.Path:
    """A network that nothing has trained."""
    folder.mkdir()
    keras.utils.set_random_seed(1)
    build_model((None, None), "float32").save_weights(folder / WEIGHTS)
    write_json(folder / MODEL_CONFIG, {"image_size": image_size})
    return folder


class Clock:
    """Adds up seconds of the wall and of all processors over its calls."""

    def __init__(self, run: Callable[[Sequence[Input]], None]) -> None:
        self._run = run
        self.wall_s = self.processor_s = 0.0
        self.images = 0

    def time(self, images: Sequence[Input]) -> str:
        """Run on these images, and say how fast."""
        wall, processor = time.perf_counter(), time.process_time()
        self._run(images)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        self.wall_s, self.processor_s = self.wall_s + wall, self.processor_s + processor
        self.images += len(images)
        return f"{len(images) / wall:.3f} ({len(images) / processor:.3f})"

    def __str__(self) -> str:
        per_s, per_processor_s = self.images / self.wall_s, self.images / self.processor_s
        return f"{per_s:8.3f} images/s, {per_processor_s:8.3f} per second of processor time"


def throughput(predictor: Predictor, inputs: Sequence[Input], results: pathlib.Path) -> float:
    """Print both rates; `predict`'s over the bare network's."""
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
        most = 10**9
        prepared[:] = [predictor.prepare(read_picture(each.read(most), each.name)) for each in images]
        if number == 1:  # what came before has warmed up
            clocks = {"bare network": Clock(bare), "predict": Clock(whole)}
        ordered = list(clocks)[:: 1 if number % 2 else -1]
        rates = {name: clocks[name].time(images) for name in ordered}
        print(f"turn {number}: " + ", ".join(f"{name} {rates[name]}" for name in clocks), flush=True)
    for name, clock in clocks.items():
        print(f"{name:>14}: {clock}")
    first, second = clocks.values()
    print(
        f"ratio {first.wall_s / second.wall_s:.3f}, of processor time {first.processor_s / second.processor_s:.3f}"
    )
    return first.wall_s / second.wall_s


def peak_mb(model: pathlib.Path, inputs: Sequence[Input], results: pathlib.Path) -> float:
    """Peak of the resident memory of the command."""
    arguments = [sys.executable, "-m", "trainer", "predict", *(each.name for each in inputs)]
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
        megapixels = [np.prod(Image.open(each.name).size) / MEGAPIXEL for each in inputs]
        print(f"{len(inputs)} images, {np.mean(megapixels):.2f} megapixels in the mean", flush=True)
        failed = False
        if not parsed.skip_memory:
            model = write_model(folder / "small", MEMORY_SIZE)
            peaks = [peak_mb(model, part, folder / "maps") for part in (inputs[: len(inputs) // 4], inputs)]
            print(
                f"peak memory with a quarter of the images {peaks[0]:.0f} MB, with all {peaks[1]:.0f} MB",
                flush=True,
            )
            failed = peaks[1] > GROWTH_AT_MOST * peaks[0]
        predictor = Predictor(write_model(folder / "model", parse_image_size(parsed.image_size)))
        failed |= throughput(predictor, inputs, folder / "results") < RATIO_AT_LEAST
    sys.exit(failed)


if __name__ == "__main__":
    main()
