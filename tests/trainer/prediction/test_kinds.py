"""Pages are told from pictures, and predicted at the size that the model has for them."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from tests import kinds
from tests.golden.inputs import image
from tests.kinds import CALIBRATION, PAGES, page, partly_drawn, sky
from tests.refusals import refused
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.errors import SettingError, UserError
from trainer.io.files import write_json
from trainer.network.calibration import Calibration
from trainer.network.inference import Inference
from trainer.network.model_folder import MODEL_CONFIG, PAGE, PICTURE, ModelFolder
from trainer.prediction.kinds import page_weight
from trainer.prediction.predictor import Predictor

pytestmark = pytest.mark.usefixtures("narrow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return kinds.write_model(tmp_path_factory.mktemp("kinds") / "model")


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (page(), 1),
        (page(ground="#f4efe6"), 1),
        (page(4000, 700), 1),
        (page(400, 500), 1),
        (page(800, 700), 1),
        (page(280, 700), 1),
        (page(900, 300), 1),
        (sky(), 0),
        (sky(700, 400), 0),
        (np.full((400, 700, 3), 255, np.uint8), 0),
        (np.zeros((1, 1, 3), np.uint8), 0),
        (np.zeros((3, 700, 3), np.uint8), 0),
        (image(3, 1, 400, 700)[0], 0),
    ],
)
def test_a_page_is_drawn_whatever_its_shape(pixels, expected):
    assert page_weight(pixels) == expected


def test_an_image_between_the_kinds_is_a_mixture_of_both_maps(folder):
    predictor = Predictor(folder)
    pixels = partly_drawn()
    assert 0.05 < page_weight(pixels) < 0.95
    mixed = predictor.predict(pixels)
    weights = {PICTURE: 1 - mixed.page, PAGE: mixed.page}
    expected = sum(weight * np.asarray(predictor.predict(pixels, kind=kind)) for kind, weight in weights.items())
    np.testing.assert_allclose(mixed, expected, atol=1e-6)
    assert predictor.seen_as(mixed.page).startswith("seen as ")
    np.testing.assert_array_equal(predictor.predict(pixels, kind=mixed.page), mixed)


def test_one_row_more_moves_a_weight_little():
    pixels = partly_drawn()
    assert page_weight(pixels[:-1]) == pytest.approx(page_weight(pixels), abs=0.01)


def test_a_kind_has_its_own_size_averaging_and_calibration(folder):
    assert ModelFolder(folder).image_sizes == {PICTURE: (64, 80), PAGE: (40, 72)}
    predictor = Predictor(folder)
    # A copy: a second network of the same seed has other weights if another thread draws random numbers meanwhile.
    plain = shutil.copytree(folder, folder.parent / "plain")
    write_json(plain / MODEL_CONFIG, {"dataset": "osie", **PAGES})
    prepared = predictor.prepare(page(), kind=PAGE)
    assert {kind: each.shape for kind, each in prepared.inputs.items()} == {PAGE: (1, 40, 72, 3)}
    expected = Inference(plain, (40, 72))(prepared.inputs[PAGE])
    np.testing.assert_array_equal(predictor.forward(prepared)[PAGE], expected)
    np.testing.assert_array_equal(predictor.predict(page()), Predictor(plain).predict(page()))
    np.testing.assert_array_equal(predictor.predict(sky(), kind=PAGE), Predictor(plain).predict(sky()))
    assert np.abs(predictor.predict(page(), kind=PICTURE) - predictor.predict(page())).max() > 0.05


def test_a_model_without_kinds_sees_all_images_alike(folder, tmp_path):
    other = predictable.write_model(tmp_path / "model", predictable.network(5))
    predictor = Predictor(other)
    assert predictor.weights(1.0) == {PICTURE: 1}
    np.testing.assert_array_equal(predictor.predict(page(), kind=PICTURE), predictor.predict(page()))
    assert predictor.seen_as(1.0) == ""
    with refused(SettingError, PAGE):
        predictor.predict(page(), kind=PAGE)


def test_predict_says_as_what_it_saw_each_image(folder, tmp_path, capsys):
    for name, pixels in {"page": page(), "sky": sky()}.items():
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    found = {}
    for asked in ("", PICTURE):
        flags = ["--kind", asked] if asked else []
        main(["predict", str(tmp_path), "--model", str(folder), "--json", str(tmp_path / "found.json"), *flags])
        images = json.loads((tmp_path / "found.json").read_text())["images"]
        found[asked] = [(each["kind"], each["page"], each["seen_as"]) for each in images]
    as_page = (PAGE, 1, "seen as a page, at 40 x 72 pixels")
    as_picture = (PICTURE, 0, "seen as a picture, at 64 x 80 pixels")
    assert found == {"": [as_page, as_picture], PICTURE: [as_picture] * 2}
    assert "1 seen as a page, at 40 x 72 pixels" in capsys.readouterr().out
    with refused(UserError, "poster"):
        main(["predict", str(tmp_path), "--model", str(folder), "--kind", "poster"])


def test_an_export_is_for_one_kind(folder, tmp_path):
    for kind, size in ((PICTURE, (64, 80)), (PAGE, (40, 72))):
        path = tmp_path / f"{kind}.onnx"
        main(["export", "--model", str(folder), "--format", "onnx", "--kind", kind, "--output", str(path)])
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        assert session.get_modelmeta().custom_metadata_map["image_size"] == f"{size[0]}x{size[1]}"
        predictor = Predictor(folder, "float32")
        prepared = predictor.prepare(page(), kind=kind).inputs[kind]
        (maps,) = session.run(None, {"input": prepared})
        # Float32 sums in another order; the calibration takes a root, which stretches small values.
        np.testing.assert_allclose(maps[..., 0], predictor.predict_prepared(prepared, kind), atol=1e-3)
    plain = predictable.write_model(tmp_path / "plain", predictable.network(5))
    for model, written in ((folder, "int8"), (plain, "onnx")):
        asked = ["--kind", PAGE, "--format", written, "--output", str(tmp_path / "no")]
        with refused(SettingError, "--kind"):
            main(["export", "--model", str(model), *asked])


def test_a_damaged_size_of_a_kind_is_refused_by_its_numbers(folder, tmp_path):
    model = predictable.write_model(tmp_path / "model", predictable.network(5))
    write_json(model / MODEL_CONFIG, {"image_size": [64, 80], "kinds": {PAGE: PAGES | {"image_size": [41, 72]}}})
    with refused(UserError, "41, 72"):
        Predictor(model)
    assert Calibration.of_config({"calibration": CALIBRATION}).bias_y == 0
