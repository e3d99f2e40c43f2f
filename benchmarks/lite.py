"""Measure the network as a TFLite file: size, time, and scores on held-out images.

    python -m benchmarks.lite --model MODEL --dataset-dir PREPARED [--dataset-dir ...] [--images 140]

Converts the model with each quantization at the dataset's size. Predicts the dataset's validation images with
TensorFlow and with each file on all cores, one image at a time, and scores the maps as `evaluate` does: CC, KLD
and SIM at the size of the network without the padding, NSS at that of the image. 140 images of 240 x 320 take six
minutes on two idle cores. float32 should have the scores of the network, float16 should be within 0.001.
"""

import argparse
import itertools
import os
import pathlib
import statistics
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer import metrics, preprocess
from trainer.artifacts import Manifest
from trainer.config import QUANTIZATIONS
from trainer.data.tfrecords import Example, read
from trainer.models.find import find_model
from trainer.models.lite import convert, interpreter
from trainer.models.load import load_model
from trainer.progress import Tracker

Maps = npt.NDArray[np.float32]
SCORES = ("cc", "kld", "sim", "nss")


def main() -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="folder, or a registered name")
    parser.add_argument("--dataset-dir", action="append", required=True, help="a prepared dataset")
    parser.add_argument("--images", type=int, default=140, help="maximum number of validation images")
    arguments = parser.parse_args()
    for folder in arguments.dataset_dir:
        measure(find_model(arguments.model), pathlib.Path(folder), arguments.images)


def measure(model_folder: pathlib.Path, folder: pathlib.Path, max_images: int) -> None:
    """Print the table of one dataset."""
    manifest = Manifest.load(folder)
    model, size = load_model(model_folder), manifest.image_size
    network = tf.function(model, [tf.TensorSpec((1, *size, 3), tf.float32)])
    forms: dict[str, tuple[float, Callable[[Maps], Maps]]] = {
        "TensorFlow": (0, lambda image: network(image).numpy())
    }
    for quantization in QUANTIZATIONS:
        content = convert(model, size, quantization)
        forms[quantization] = len(content) / 1e6, interpreter(content, os.cpu_count())
    examples = list(itertools.islice(read(folder, "valid"), max_images))
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in forms}
    with Tracker(manifest.dataset, len(examples), "images") as tracker:
        for example in examples:
            expected = None
            for name, (_, predict) in forms.items():
                start = time.perf_counter()
                prediction = predict(example.stimulus[None].astype(np.float32))[0, ..., 0]
                seconds = time.perf_counter() - start
                expected = prediction if expected is None else expected
                difference = float(np.abs(prediction - expected).max())
                rows[name].append({"seconds": seconds, "difference": difference, **score(example, prediction)})
            tracker.advance()
    print(f"\n{manifest.dataset}, {len(examples)} images of {size[0]} x {size[1]}, {model_folder}\n")
    print("| form | MB | time | max difference | mean of max | CC | KLD | SIM | NSS |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (megabytes, _) in forms.items():
        print(row(name, megabytes, rows[name], rows["TensorFlow"]))


def score(example: Example, prediction: Maps) -> dict[str, float]:
    """The metrics of one prediction, (H, W)."""
    top, left, height, width = preprocess.content_box(example.original_size, prediction.shape)
    box = slice(top, top + height), slice(left, left + width)
    scores = {name: getattr(metrics, name)(prediction[box], example.density[box]) for name in ("cc", "kld", "sim")}
    if len(example.fixations):
        scores["nss"] = metrics.nss(preprocess.resize_back(prediction, example.original_size), example.fixations)
    return scores


def row(name: str, megabytes: float, ours: list[dict[str, float]], network: list[dict[str, float]]) -> str:
    """A row of the table; its time is the median of the ratios to the network's time for the same image."""
    ratio = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(ours, network, strict=True))
    milliseconds = 1e3 * statistics.median(image["seconds"] for image in ours)
    differences = [image["difference"] for image in ours]
    means = [
        f"{np.mean([image[metric] for image in ours if metric in image]):.4f}"
        if any(metric in image for image in ours)
        else ""
        for metric in SCORES
    ]
    return (
        f"| {name} | {megabytes:.1f} | {ratio:.2f} ({milliseconds:.0f} ms) | {max(differences):.1e} | "
        f"{np.mean(differences):.1e} | {' | '.join(means)} |"
    )


if __name__ == "__main__":
    main()
