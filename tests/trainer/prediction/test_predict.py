"""Maps of many images have the values of the network and of the golden postprocessing, in bounded memory."""

import dataclasses
import json
import os
import pathlib
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.gcs import upload
from tests.golden.inputs import image
from tests.refusals import refused
from trainer.__main__ import main
from trainer.errors import PlaceError, UserError
from trainer.network import load
from trainer.network.hdf5_files import encode_hdf5
from trainer.network.model_folder import MODEL_WEIGHTS
from trainer.network.preprocess import Frame
from trainer.network.weights import read_weights
from trainer.prediction import predict
from trainer.prediction.heat import blend
from trainer.prediction.inputs import find_inputs
from trainer.prediction.predictor import Predictor
from trainer.prediction.regions import PEAK_LEVEL
from trainer.prediction.settings import PREDICT_FORMATS

pytestmark = pytest.mark.usefixtures("narrow")

SIZES = [(40, 100), (120, 50), (64, 80), (7, 9)]


def test_the_help_names_every_format(capsys):
    with pytest.raises(SystemExit):
        main(["predict", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, format_ in PREDICT_FORMATS.items():
        assert f"{name} ({format_.help})" in shown


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of images in the working directory: `0.png` to `2.png`, and `more/3.png`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "more").mkdir(parents=True)
    for index, size in enumerate(SIZES):
        name = f"photos/{'more/' if index == 3 else ''}{index}.png"
        Image.fromarray(image(index, 1, *size)[0]).save(name)
    return tmp_path


def run(narrow_model, *arguments):
    main(["predict", *map(str, arguments), "--model", str(narrow_model)])


def pixels(path):
    return np.asarray(Image.open(path))


def test_maps_are_the_golden_postprocessing_of_the_networks_prediction(narrow_model, photos):
    run(narrow_model, "photos", "--output-dir", "maps", "--format", "png,png16,npy")
    network = tf.function(load.load_model(narrow_model))
    for index, size in enumerate(SIZES):
        stem = f"maps/{'more/' if index == 3 else ''}{index}"
        prepared = Frame((64, 80)).image(image(index, 1, *size)[0])
        expected = network(prepared[None]).numpy()[0, ..., 0]
        levels, fine, map_ = pixels(f"{stem}.png"), pixels(f"{stem}-16bit.png"), np.load(f"{stem}.npy")
        assert (levels.dtype, fine.dtype, map_.dtype) == (np.uint8, np.uint16, np.float32)
        # In a batch of another size the network's last bits differ.
        np.testing.assert_allclose(map_, Frame.back(expected, size).clip(0, 1), atol=1e-4)
        np.testing.assert_array_equal(levels, np.rint(map_ * np.float32(255)))
        np.testing.assert_array_equal(fine, np.rint(map_ * np.float32(65535)))
    assert len(list((photos / "maps").rglob("*.*"))) == 3 * len(SIZES)


def test_a_bad_image_is_reported_and_the_others_are_predicted(narrow_model, photos, capsys):
    (photos / "photos" / "1.png").write_bytes(b"<html>")
    with pytest.raises(SystemExit) as left:
        run(narrow_model, "photos", "missing.jpg", "--output-dir", "maps", "--json", "-")
    assert left.value.code == 1
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["failed"] == 2
    images = ["photos/0.png", "photos/1.png", "photos/2.png", "photos/more/3.png", "missing.jpg"]
    assert [row["image"] for row in summary["images"]] == images
    assert ["error" in row for row in summary["images"]] == [False, True, False, False, True]
    expected = {"results": {"png": "maps/0.png"}, "height": 40, "width": 100}
    assert summary["images"][0].items() >= expected.items()
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert errors[0].startswith("error: photos/1.png is not a JPEG")
    assert errors[1:] == ["error: cannot read missing.jpg: No such file or directory"]
    assert "3 of 5 images predicted, see maps" in err


def test_files_alone_get_their_maps_next_to_them(narrow_model, predictor, photos, capsys):
    before = pixels("photos/0.png")
    run(narrow_model, "photos/0.png", str(photos / "photos" / "2.png"))
    expected = predictor.predict(before)
    drawn = pixels("photos/0-attention.png").astype(int)
    np.testing.assert_allclose(drawn, blend(before, expected), atol=2)
    np.testing.assert_array_equal(pixels("photos/0.png"), before)
    names = sorted(path.name for path in (photos / "photos").iterdir() if path.is_file())
    assert names == ["0-attention.png", "0.png", "1.png", "2-attention.png", "2.png"]
    out = capsys.readouterr().out
    assert f"2 of 2 images predicted, see photos/0-attention.png, {photos}/photos/2-attention.png\n" in out
    run(narrow_model, "photos/0.png", "--format", "npy,png", "--json", "out.json")
    np.testing.assert_allclose(np.load("photos/0-attention.npy"), expected, atol=1e-4)
    written = json.loads(pathlib.Path("out.json").read_text())["images"][0]["results"]
    assert written == {"npy": "photos/0-attention.npy", "png": "photos/0-attention-map.png"}


def test_json_has_peak_and_focus_without_regions(narrow_model, predictor, photos, capsys):
    run(narrow_model, "photos/0.png", "--json", "-")
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["schema"] == 2
    (image,) = summary["images"]
    expected = predictor.predict(pixels("photos/0.png"))
    y, x = image["peak_at"]
    assert expected[y, x] >= PEAK_LEVEL * expected.max()
    highest = np.sort(expected, axis=None)[-round(expected.size / 10) :]
    assert image["focus"] == pytest.approx(highest.sum() / expected.sum(), rel=1e-3)
    assert f"peak at x {x}, y {y}, and {image['focus']:.0%} of the attention is on 10% of the image\n" in err


def test_images_on_cloud_storage_are_predicted(narrow_model, predictor, photos, bucket):
    place = upload(bucket, "photos")
    run(narrow_model, f"{place}/more", f"{place}/0.png", "--output-dir", "maps", "--format", "npy,overlay")
    written = sorted(path.name for path in (photos / "maps").iterdir())
    assert written == ["0-overlay.png", "0.npy", "3-overlay.png", "3.npy"]
    expected = predictor.predict(pixels("photos/0.png"))
    np.testing.assert_allclose(np.load("maps/0.npy"), expected, atol=1e-4)
    with refused(PlaceError, f"{place}/0.png", "--output-dir"):
        run(narrow_model, f"{place}/0.png")


def test_names_are_printed_literally(narrow_model, photos, capsys):
    names = ["[draft] :smile:.png", "new\nline.png"]
    for name in names:
        (photos / name).write_bytes((photos / "photos" / "0.png").read_bytes())
    run(narrow_model, *names, "--region", "[/old]:1,2,3,4", "--region", "new\nregion:1,2,3,4")
    out = capsys.readouterr().out
    for name in ("[draft] :smile:.png", r"'new\nline.png'", "[/old]", r"'new\nregion'"):
        assert name in out


# === Memory ===


def test_images_in_memory_do_not_grow_with_the_number_of_images(predictor, photos):
    """At most eight images per thread have been read but not written."""
    counted = threading.Lock()
    ahead, done = [0], 0

    def counting(image):
        def read(max_bytes):
            with counted:
                ahead[0] += 1
            return image.read(max_bytes)

        return dataclasses.replace(image, read=read)

    (small,) = find_inputs(["photos/more/3.png"])[0]
    inputs = [counting(small)] * 60
    most = 0
    for _ in predict.predict_images(predictor, inputs, [{}] * len(inputs)):
        done += 1
        most = max(most, ahead[0] - done)
    assert done == 60
    assert most <= 8 * (os.cpu_count() or 1) + 1


def test_a_prediction_that_is_not_finite_is_refused(narrow_model, photos):
    weights = {"/".join(key): value for key, value in read_weights(narrow_model).items()}
    weights["decoder_conv4/kernel"] = np.full_like(weights["decoder_conv4/kernel"], 3e38)
    folder = photos / "diverged"
    shutil.copytree(narrow_model, folder)
    (folder / MODEL_WEIGHTS).write_bytes(encode_hdf5(weights))
    with pytest.raises(UserError, match="the model's prediction is not finite"):
        next(predict.predict_images(Predictor(folder), find_inputs(["photos"])[0], [{}] * 4))
