"""Each file, however malformed, gets its map or a reason."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.trainer import malformed
from trainer.__main__ import main

pytestmark = pytest.mark.usefixtures("narrow")

SIZES = {"one-pixel.png": (1, 1), "banner.png": (10, 20_000), "pole.png": (20_000, 10), "line.webp": (1, 3000)}


@pytest.fixture(scope="module")
def predicted(narrow_model, tmp_path_factory):
    """The folder; file -> the expected outcome; the command's JSON."""
    folder = tmp_path_factory.mktemp("malformed")
    (folder / "in").mkdir()
    expected = malformed.write(folder / "in")
    arguments = ["--model", str(narrow_model), "--output-dir", str(folder / "out"), "--format", "png,overlay"]
    with pytest.raises(SystemExit) as left:
        main(["predict", str(folder / "in"), *arguments, "--json", str(folder / "rows.json")])
    assert left.value.code == 1
    return folder, expected, json.loads((folder / "rows.json").read_text())


def test_every_file_has_a_map_or_a_reason(predicted):
    folder, expected, answer = predicted
    rows = {row["image"].removeprefix(f"{folder / 'in'}/"): row for row in answer["images"]}
    assert rows.keys() == expected.keys()
    wrong = {}
    for name, (outcome, reason) in expected.items():
        error = rows[name].get("error")
        came = malformed.FAILS if error else malformed.MAP
        if outcome != came or (error and (reason not in error or name not in error)):
            wrong[name] = error or "a map"
    assert not wrong
    assert answer["failed"] == sum("error" in row for row in rows.values())


def test_maps_have_their_images_sizes(predicted):
    folder, _, answer = predicted
    done = {row["image"].rpartition("/")[2]: row for row in answer["images"] if "error" not in row}
    for name, size in SIZES.items():
        assert (done[name]["height"], done[name]["width"]) == size
        assert np.asarray(Image.open(done[name]["results"]["png"])).shape == size
        assert np.asarray(Image.open(done[name]["results"]["overlay"])).shape == (*size, 3)
    assert len(list((folder / "out").rglob("*"))) == 2 * len(done) + 1  # and the folder of one
