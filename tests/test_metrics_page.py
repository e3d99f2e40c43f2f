"""The code of docs/metrics.md answers what `evaluate_models` writes for the same images."""

import csv
import re

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from tests.guide import BLOCK, ROOT
from tests.narrow import narrowed
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.evaluation import Role
from trainer.evaluation.settings import EvaluateConfig
from trainer.network.model_folder import PER_IMAGE

SIZE = (301, 403)
"""(height, width) of the images, pixels: both are odd, and neither side is a multiple of what it shrinks to."""
SIGMA_PX = 13.4
"""1/30 of the longer side, to a tenth."""
BESIDE = (f"{SIZE[1]},9", f"9,{SIZE[0] + 0.5}", "-0.5,9")
"""Positions (x, y) less than a pixel outside of an image."""
AT_BORDER = (f"{SIZE[1] - 0.01:.2f},9.5", "0,30.5", f"40.5,{SIZE[0] - 1}")
"""Positions (x, y) in the last or first pixels of an image."""
SHRUNK = 4 * max(SIZE) * float(np.finfo(np.float32).eps)
"""Largest relative error of a pixel of a shrunk map: `evaluate_models` has both ends of what the pixel covers in
single precision, along both sides."""
READING = """
image = "image"
unit = "pixels"
confirmed = ["frequent"]
[columns]
x = "x"
y = "y"
duration = "duration"
"""
"""What the table means. Some positions are the same on all images."""
TOLERANCES = {"nss": 1e-6, "cc": 4 * SHRUNK, "kld": 4 * SHRUNK, "sim": 4 * SHRUNK}
"""Metric -> largest difference. No map shrinks for NSS. For the others two do, and each is divided by its sum."""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with `fixations.csv`, `maps` as `predict` writes them, and `evaluation`."""
    folder = tmp_path_factory.mktemp("metrics")
    random = np.random.default_rng(5)
    lines = ["image,x,y,duration"]
    for index in range(12):
        noise = ndimage.gaussian_filter(random.normal(size=(*SIZE, 3)), (9, 9, 0))
        path = folder / "study" / f"s{index:03d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.uint8(255 * (noise - noise.min()) / np.ptp(noise))).save(path)
        positions = [f"{x:.1f},{y:.1f}" for x, y in random.normal((200, 150), (60, 40), (30, 2)).clip(5, 295)]
        positions += [*BESIDE, *AT_BORDER, *positions[:3]]
        lines += [f"{path.name},{position},{200 + number}" for number, position in enumerate(positions)]
    for place in (folder / "study" / "fixations.csv", folder / "fixations.csv"):
        place.write_text("\n".join(lines) + "\n")
    (folder / "study" / "reading.toml").write_text(READING)
    with narrowed(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        predictable.write_model(folder / "model", predictable.network(1))
        fetch = ["fetch", "--dataset", "custom", "--source", "study"]
        main([*fetch, "--image-size", "48x64", "--output-dir", "data"])
        evaluate_models(EvaluateConfig(), folder / "model", {"study": folder / "data"}, folder / "evaluation")
        main(["predict", "study", "--model", str(folder / "model"), "--format", "npy", "--output-dir", "maps"])
    return folder


def test_code_of_the_page_answers_what_evaluate_writes(work, monkeypatch):
    text = (ROOT / "docs" / "metrics.md").read_text()
    (code,) = (block for language, block in BLOCK.findall(text) if language == "python")
    code, n_replaced = re.subn(r"sigma=[\d.]+\)", f"sigma={SIGMA_PX})", code)
    assert n_replaced == 1
    found = {}
    monkeypatch.chdir(work)
    exec(code, {"print": lambda image, *scores: found.update({str(image): scores})})
    with (work / "evaluation" / PER_IMAGE).open(newline="") as file:
        written = [row for row in csv.DictReader(file) if row["model"] == Role.CANDIDATE]
    assert len(written) > 1
    for row in written:
        for (metric, tolerance), score in zip(TOLERANCES.items(), found[row["image"]], strict=True):
            assert score == pytest.approx(float(row[metric]), abs=tolerance), (row["image"], metric)
