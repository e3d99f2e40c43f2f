"""A long page is predicted, measured and compared screen by screen. Any other image is what it was."""

import numpy as np
import pytest
from PIL import Image

from tests.golden.inputs import image
from tests.kinds import page, sky
from trainer.network.inference import Inference
from trainer.network.preprocess import Frame
from trainer.prediction import predict
from trainer.prediction.inputs import find_inputs
from trainer.prediction.kinds import screen_of, text_height
from trainer.prediction.regions import Region, focus, measure_regions
from trainer.prediction.saliency_map import screens_of
from trainer.prediction.screens import DESKTOP, PHONE, WHOLE, rows_of_screens

pytestmark = pytest.mark.usefixtures("narrow")

SIZE = (2000, 700)
ROWS = [(0, 438), (438, 876), (876, 1314), (1314, 1752), (1562, 2000)]
"""Of a desktop's screens on a page of this size."""


@pytest.fixture(scope="module")
def long_page():
    return page(*SIZE)


def ends(rows):
    return [(each.start, each.stop) for each in rows]


# === Where screens are ===


@pytest.mark.parametrize(
    ("size", "screen", "expected"),
    [
        ((800, 1280), DESKTOP, [(0, 800)]),
        ((801, 1280), DESKTOP, [(0, 800), (1, 801)]),
        ((1600, 1280), DESKTOP, [(0, 800), (800, 1600)]),
        ((1972, 1280), DESKTOP, [(0, 800), (800, 1600), (1172, 1972)]),
        ((300, 1280), DESKTOP, [(0, 300)]),
        ((2400, 1000), PHONE, [(0, 2400)]),
        ((2401, 1000), PHONE, [(0, 2400), (1, 2401)]),
        ((9000, 1280), WHOLE, [(0, 9000)]),
        ((600, 160), PHONE, [(0, 600)]),  # a banner
        ((1, 1), DESKTOP, [(0, 1)]),
    ],
)
def test_screens_begin_at_the_top_and_the_last_one_ends_with_the_page(size, screen, expected):
    assert ends(rows_of_screens(size, screen)) == expected


@pytest.mark.parametrize("height", [438, 439, 875, 876, 877, 2000])
def test_what_is_below_a_screen_does_not_move_it(height):
    before, after = (rows_of_screens((each, 700), DESKTOP) for each in (height, height + 300))
    whole = [each for each in before if each.start % 438 == 0 and each.stop <= height]
    assert set(ends(whole)) - {(0, height)} <= set(ends(after))


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (page(*SIZE), DESKTOP),
        (page(438, 700), DESKTOP),
        (page(437, 700), WHOLE),
        (np.repeat(np.repeat(page(*SIZE), 2, axis=0), 2, axis=1), DESKTOP),  # a screen of twice the density
        (np.repeat(np.repeat(page(400, 200), 5, axis=0), 5, axis=1), PHONE),  # its text is large
        (page(1200, 500), PHONE),  # narrower than a desktop's page
        (sky(2000, 700), WHOLE),
    ],
)
def test_content_and_width_tell_what_is_seen_at_a_time(pixels, expected):
    assert screen_of(pixels, 0.0 if expected == WHOLE and len(pixels) > 500 else 1.0) == expected
    assert screen_of(pixels, 0.4) == WHOLE


def test_the_height_of_text_is_a_share_of_the_width():
    drawn = page(1000, 700)
    assert 0.008 < text_height(drawn) < 0.016
    doubled = np.repeat(np.repeat(drawn, 2, axis=0), 2, axis=1)
    assert text_height(doubled) == pytest.approx(text_height(drawn), abs=0.002)
    assert text_height(np.full((100, 700, 3), 255, np.uint8)) == 1


# === Maps ===


@pytest.mark.parametrize("size", [(64, 80), (300, 500), (480, 200), (900, 160), (90, 1000)])
def test_an_image_that_is_no_long_page_has_the_bits_of_the_network(narrow_model, predictor, size):
    pixels = image(3, 1, *size)[0]
    predicted = Inference(narrow_model, (64, 80))(Frame((64, 80)).image(pixels)[None])[0]
    expected = np.clip(Frame.back(predicted, size), 0, 1)
    found = predictor.predict(pixels)
    np.testing.assert_array_equal(found, expected)
    assert ends(each.rows for each in found.screens) == [(0, size[0])]


def test_each_screen_has_the_map_of_the_screen_alone(predictor, long_page):
    whole = predictor.predict(long_page)
    assert whole.shape == SIZE
    assert ends(each.rows for each in whole.screens) == ROWS
    shown = 0
    for rows, seen in whole.screens:
        alone = np.asarray(predictor.predict(long_page[rows], WHOLE))
        np.testing.assert_array_equal(seen, alone / alone.max())
        np.testing.assert_array_equal(whole[shown : rows.stop], seen[shown - rows.start :])
        shown = rows.stop
    small = predictor.predict(long_page, size=(500, 175))
    for (rows, seen), (_, large) in zip(small.screens, whole.screens, strict=True):
        assert seen.max() == 1
        assert seen.shape == (rows.stop - rows.start, 175)
        at = np.linspace(0, len(large) - 1, len(seen)).round().astype(int)
        assert np.corrcoef(seen.ravel(), large[at][:, 2::4].ravel())[0, 1] > 0.9


def test_each_screen_is_told_before_it_is_predicted_and_what_that_raises_ends_it(predictor, long_page):
    told = []
    found = predictor.predict(long_page, begin=lambda number, count: told.append((number, count)))
    assert told == [(number + 1, len(ROWS)) for number in range(len(ROWS))]
    np.testing.assert_array_equal(found, predictor.predict(long_page))

    def leave(number, count):
        told.append(number)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        predictor.predict(long_page, begin=leave)
    assert told[-1] == 1


def test_a_footer_changes_nothing_above_it(predictor, long_page):
    with_footer = np.concatenate([long_page, np.full((300, 700, 3), 34, np.uint8)])
    before, after = predictor.predict(long_page), predictor.predict(with_footer)
    for earlier, later in zip(before.screens[:4], after.screens[:4], strict=True):
        assert earlier.rows == later.rows
        np.testing.assert_array_equal(earlier.map, later.map)


def test_one_row_more_moves_no_share(predictor, long_page):
    regions = [Region("a", 30, 20, 300, 40), Region("b", 100, 300, 200, 100)]
    for height in (437, 438, 500, 1050, 1680):  # about the shapes of a screen, 1.5 and 2.4 of the width
        shares = [
            [each.share for each in measure_regions(predictor.predict(long_page[:h]), regions)]
            for h in (height, height + 1)
        ]
        np.testing.assert_allclose(*shares, rtol=0.1)  # where the image ends, its last row is seen


def test_a_map_computed_from_another_is_of_one_screen(predictor, long_page):
    whole = predictor.predict(long_page)
    assert len(screens_of(whole)) == 5
    for plain in (whole**2, whole[:], np.array(whole), whole.copy()):
        (only,) = screens_of(plain)
        assert only.map is plain


def test_an_image_is_seen_like_another(predictor, long_page):
    first = predictor.predict(long_page)
    doubled = np.repeat(np.repeat(255 - long_page, 2, axis=0), 2, axis=1)
    second = predictor.predict(doubled, like=first)
    assert second.shape == first.shape
    assert ends(each.rows for each in second.screens) == ROWS
    assert second.page == first.page


def test_many_images_and_pages_are_paired_with_their_maps(tmp_path, predictor, long_page):
    sizes = [(40, 100), (120, 50), (64, 80)]
    pictures = [image(seed, 1, *size)[0] for seed, size in enumerate(sizes)]
    pictures.insert(1, long_page)
    pictures.insert(4, long_page[::-1])
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
        assert result.as_json()["screens"] == (5 if len(pixels) == SIZE[0] else 1)


# === Figures ===


def test_a_region_is_measured_on_the_screen_that_has_most_of_it(predictor, long_page):
    map_ = predictor.predict(long_page)
    boxes = {
        (10, 460, 200, 300): 2,
        (20, 760, 300, 250): 3,
        (0, 1600, 640, 60): 4,  # wholly on two screens: the upper one
        (0, 1700, 640, 60): 5,  # wholly on the last one alone
        (300, 1800, 300, 200): 5,
        (0, 0, 640, 2000): 1,
    }
    regions = [Region(str(index), *box) for index, box in enumerate(boxes)]
    found = measure_regions(map_, regions)
    assert [each.screen for each in found] == list(boxes.values())
    for each, (x, y, width, height) in zip(found, boxes, strict=True):
        rows, seen = map_.screens[each.screen - 1]
        top, bottom = max(y, rows.start), min(y + height, rows.stop)
        (alone,) = measure_regions(seen, [Region("alone", x, top - rows.start, width, bottom - top)])
        assert (each.share, each.area, each.peak) == (alone.share, alone.area, alone.peak)
        assert each.peak_at == (alone.peak_at[0] + rows.start, alone.peak_at[1])
    ranked = sorted(found[3:5], key=lambda each: -each.share)
    assert [each.rank for each in (*ranked, *found[:3], found[5])] == [1, 2, 1, 1, 1, 1]
    assert measure_regions(map_.screens[0].map, [Region("a", 0, 0, 9, 9)])[0].screen is None


def test_focus_is_the_mean_over_the_screens(predictor, long_page):
    map_ = predictor.predict(long_page)
    assert focus(map_) == pytest.approx(np.mean([focus(each.map) for each in map_.screens]))


def test_a_screen_that_somebody_asks_for_decides(predictor):
    pixels = sky(2000, 700)
    assert [len(predictor.predict(pixels, asked).screens) for asked in ("", WHOLE, DESKTOP, PHONE)] == [1, 1, 5, 2]
