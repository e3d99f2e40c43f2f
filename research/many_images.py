"""A batch prediction against its network alone, and against a loop over ONNX Runtime with Pillow.

    python -m research.many_images FOLDER   # JPEGs of 1 to 12 megapixels: --make 400 draws them there at first

Each way predicts images of the folder in a process of its own, one way after another in several rounds. The table
has the clock and processor seconds of an image, the share of the best network alone, and the largest resident
memory of a process. The loop has the same network as an ONNX file, and resizes with Pillow.
So its maps differ slightly.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image, ImageOps

MEGAPIXELS = (1, 12)
SIZE = (240, 320)


def make(folder: pathlib.Path, count: int) -> None:
    """Write `count` JPEGs of noise with a photograph's spectrum, each octave of MEGAPIXELS as likely."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    height, width = 1024, 1365
    frequencies = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    for index, megapixels in enumerate(np.exp(random.uniform(*np.log(MEGAPIXELS), count))):
        noise = random.normal(size=(3, height, width))
        shaped = np.fft.irfft2(np.fft.rfft2(noise) / np.maximum(frequencies, 1 / width) ** 1.2, (height, width))
        scaled = 128 + 50 * (shaped - shaped.mean()) / shaped.std()
        image = Image.fromarray(np.uint8(np.clip(scaled, 0, 255)).transpose(1, 2, 0))
        factor = (megapixels * 10**6 / (height * width)) ** 0.5
        image = image.resize((round(width * factor), round(height * factor)), Image.Resampling.BICUBIC)
        grain = random.normal(0, 3, (image.height, image.width, 1))
        Image.fromarray(np.uint8(np.clip(np.asarray(image) + grain, 0, 255))).save(
            folder / f"{index:05}.jpg", quality=88
        )


# === Ways, each in a process ===


def network(parallel: int, count: int) -> None:
    """The network alone, on one prepared image."""
    from concurrent.futures import ThreadPoolExecutor

    from trainer.models import choose_model
    from trainer.prediction import Predictor

    predictor = Predictor(choose_model("pretrained").folder, parallel=parallel)
    image = np.random.default_rng(0).uniform(0, 255, (1, *SIZE, 3)).astype(np.float32)
    predictor.predict_prepared(image)
    with timed(), ThreadPoolExecutor(parallel) as threads:
        list(threads.map(lambda _: predictor.predict_prepared(image), range(count)))


def batch(folder: str, format: str) -> None:
    """A job as `python -m pipeline predict` does it, without its listing."""
    from trainer.batch import BatchConfig, plan_job, predict_shard
    from trainer.prediction import PredictConfig

    with tempfile.TemporaryDirectory(dir=pathlib.Path(folder).parent) as output:
        config = BatchConfig(shard_gigabytes=100)
        plan_job(folder, output, "pretrained", PredictConfig(format=format), config=config)
        with timed():
            predict_shard(output, 0)


def loop(folder: str, count: int) -> None:
    """One image after another: Pillow, ONNX Runtime, Pillow."""
    import onnxruntime

    from trainer.__main__ import main as trainer

    with tempfile.TemporaryDirectory(dir=pathlib.Path(folder).parent) as output:
        trainer(["export", "--model=pretrained", "--format=onnx", f"--output={output}/model.onnx"])
        session = onnxruntime.InferenceSession(f"{output}/model.onnx")
        with timed():
            for path in sorted(pathlib.Path(folder).iterdir())[:count]:
                image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
                padded = ImageOps.pad(image, SIZE[::-1], Image.Resampling.BOX, color=(126, 126, 126))
                found = session.run(["output"], {"input": np.float32(padded)[None]})[0][0, ..., 0]
                drawn = ImageOps.fit(Image.fromarray(np.uint8(np.rint(255 * found))), image.size)
                drawn.save(f"{output}/{path.stem}.png", compress_level=1)


@contextlib.contextmanager
def timed() -> Iterator[None]:
    """Print the clock and processor seconds of the block, with children, and the largest memory of a process."""
    begin, used = time.perf_counter(), _processor_seconds()
    yield
    clock, used = time.perf_counter() - begin, _processor_seconds() - used
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    memory = max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 10**6
    print(json.dumps({"clock": clock, "processor": used, "memory": memory}))


def _processor_seconds() -> float:
    times = os.times()
    return sum(times[:4])


# === The rounds ===


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--make", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--few", type=int, default=40, help="images of the network alone and of the loop")
    parsed = parser.parse_args()
    folder = pathlib.Path(parsed.folder)
    if parsed.make:
        make(folder, parsed.make)
    count, cpus = len(list(folder.iterdir())), os.cpu_count() or 1
    ways: dict[str, tuple[str, int]] = {
        "network alone, one image at a time": (f"network(1, {parsed.few})", parsed.few),
        f"network alone, {cpus} images at a time": (f"network({cpus}, {parsed.few})", parsed.few),
        "batch, table alone": (f"batch({str(folder)!r}, '')", count),
        "batch, maps as PNG": (f"batch({str(folder)!r}, 'png')", count),
        "loop over ONNX Runtime": (f"loop({str(folder)!r}, {parsed.few})", parsed.few),
    }
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(parsed.rounds):
        for name, (call, n_images) in ways.items():
            code = f"from research import many_images; many_images.{call}"
            said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
            found = json.loads(said.splitlines()[-1])
            measured[name].append({**found, **{key: found[key] / n_images for key in ("clock", "processor")}})
    best = {key: min(_median(rows, key) for rows in list(measured.values())[:2]) for key in ("clock", "processor")}
    print("| way | clock, s an image | of the network | processor, s an image | of the network | memory, GB |")
    print("|---|---|---|---|---|---|")
    for name, rows in measured.items():
        cells = []
        for key in ("clock", "processor"):
            seconds = _median(rows, key)
            cells += [f"{seconds:.3f}", f"{best[key] / seconds:.2f}"]
        print(f"| {name} | {' | '.join(cells)} | {max(row['memory'] for row in rows):.2f} |")


def _median(rows: Sequence[dict[str, float]], key: str) -> float:
    return statistics.median(row[key] for row in rows)


if __name__ == "__main__":
    main()
