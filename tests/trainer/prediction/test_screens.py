"""A long page is predicted, measured and compared screen by screen; any other image is what it was."""

import numpy as np
import pytest
from PIL import Image

from tests.golden.inputs import image
from trainer.network.inference import Inference
from trainer.network.preprocess import Frame
from trainer.prediction import predict
from trainer.prediction.inputs import find_inputs
from trainer.prediction.predictor import Predictor
from trainer.prediction.regions import Region, focus, measure_regions
from trainer.prediction.screens import count_screens, rows_of_screens

pytestmark = pytest.mark.usefixtures("narrow")

PAGE = (2000, 640)
N_SCREENS = 5


@pytest.fixture(scope="module")
def page():
    return np.concatenate([image(seed, 1, 400, 640)[0] for seed in range(N_SCREENS)])


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((800, 1280), 1),
        ((1280, 10_000), 1),  # a panorama
        ((3072, 1280), 1),  # a phone's screen at three pixels a point, or a portrait
        ((3073, 1280), 4),
        ((3840, 1360), 5),
        ((2600, 1280), 1),
        ((16_384, 1280), 20),
        ((65_535, 2000), 52),
        ((1265, 390), 1),
        ((1266, 390), 2),
        ((16_384, 390), 19),
        ((600, 160), 1),  # a banner
        ((20_000, 319), 1),
    ],
)
def test_only_long_pages_are_cut(size, expected):
    assert count_screens(size) == expected


def test_a_known_kind_of_screen_decides():
    assert [count_screens((2600, 1280), kind) for kind in ("desktop", "phone")] == [3, 1]
    assert [count_screens((1920, 1280), kind) for kind in ("desktop", "phone")] == [1, 1]
    assert [count_screens((6000, 1080), kind) for kind in ("desktop", "phone")] == [9, 3]


@pytest.mark.parametrize(("height", "n_screens"), [(2000, 5), (3073, 4), (65_535, 52)])
def test_screens_are_equally_high_and_cover_all_rows(height, n_screens):
    rows = np.arange(height)
    parts = [rows[each] for each in rows_of_screens(height, n_screens)]
    np.testing.assert_array_equal(np.concatenate(parts), rows)
    assert np.ptp([len(part) for part in parts]) <= 1


@pytest.mark.parametrize("size", [(64, 80), (300, 500), (480, 200), (900, 160), (90, 1000)])
def test_an_image_that_is_no_long_page_has_the_bits_of_the_network(narrow_model, predictor, size):
    pixels = image(3, 1, *size)[0]
    predicted = Inference(narrow_model, (64, 80))(Frame((64, 80)).image(pixels)[None])[0]
    expected = np.clip(Frame.back(predicted, size), 0, 1)
    np.testing.assert_array_equal(predictor.predict(pixels), expected)


def test_each_screen_has_the_map_of_the_screen_alone(predictor, page):
    whole = predictor.predict(page)
    assert whole.shape == PAGE
    for rows in rows_of_screens(PAGE[0], N_SCREENS):
        alone = predictor.predict(page[rows])
        np.testing.assert_array_equal(whole[rows], alone / alone.max())
    small = predictor.predict(page, size=(500, 160))
    for index in range(N_SCREENS):
        part = small[100 * index : 100 * (index + 1)]
        assert part.max() == 1
        assert np.corrcoef(part.ravel(), whole[400 * index : 400 * (index + 1)][::4, ::4].ravel())[0, 1] > 0.9


def test_prepared_screens_are_restored_to_the_page(predictor, page):
    prepared = predictor.prepare(page)
    assert prepared.shape == (N_SCREENS, 64, 80, 3)
    restored = Predictor.restore(predictor.predict_prepared(prepared), PAGE)
    np.testing.assert_allclose(restored, predictor.predict(page), atol=1e-4)


def test_many_images_and_pages_are_paired_with_their_maps(tmp_path, predictor, page):
    sizes = [(40, 100), (120, 50), (64, 80)]
    pictures = [image(seed, 1, *size)[0] for seed, size in enumerate(sizes)]
    pictures.insert(1, page)
    pictures.insert(4, page[::-1])
    for index, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(tmp_path / f"{index}.png")
    (tmp_path / "bad.png").write_bytes(b"no image")
    inputs = find_inputs([str(tmp_path)])[0]
    paths = [{"npy": tmp_path / "maps" / f"{index}.npy"} for index in range(len(inputs))]
    regions = [Region("low", 0, 0, 10, 10)]
    results = list(predict.predict_images(predictor, inputs, paths, regions=regions))
    assert [bool(result.error) for result in results] == [False] * 5 + [True]
    for pixels, result in zip(pictures, results, strict=False):
        map_ = np.load(result.written["npy"])
        np.testing.assert_allclose(map_, predictor.predict(pixels), atol=1e-4)
        assert result.as_json()["screens"] == (N_SCREENS if len(pixels) == PAGE[0] else 1)


# === Figures ===


def test_a_region_is_measured_on_the_screen_that_has_most_of_it(predictor, page):
    map_ = predictor.predict(page)
    texts = [
        (10, 420, 200, 300),
        (20, 700, 300, 250),
        (0, 1650, 640, 60),
        (300, 1700, 300, 200),
        (0, 0, 640, 2000),
    ]
    regions = [Region(str(index), *text) for index, text in enumerate(texts)]
    found = measure_regions(map_, regions)
    assert [each.screen for each in found] == [2, 3, 5, 5, 1]
    inside = [(10, 20, 200, 300), (20, 0, 300, 150), (0, 50, 640, 60), (300, 100, 300, 200), (0, 0, 640, 400)]
    for each, box in zip(found, inside, strict=True):
        top = 400 * (each.screen - 1)
        (alone,) = measure_regions(map_[top : top + 400], [Region("alone", *box)])
        assert (each.share, each.area, each.peak) == (alone.share, alone.area, alone.peak)
        assert each.peak_at == (alone.peak_at[0] + top, alone.peak_at[1])
    assert found[4].share == 1
    ranked = sorted(found[2:4], key=lambda each: -each.share)
    assert [each.rank for each in (*ranked, found[0], found[1], found[4])] == [1, 2, 1, 1, 1]
    assert measure_regions(map_[:400], [Region("a", 0, 0, 9, 9)])[0].screen is None


def test_focus_is_the_mean_over_the_screens(predictor, page):
    map_ = predictor.predict(page)
    parts = [map_[rows] for rows in rows_of_screens(PAGE[0], N_SCREENS)]
    assert focus(map_) == pytest.approx(np.mean([focus(part) for part in parts]))
