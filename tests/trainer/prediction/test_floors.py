"""What a region's place has without its content."""

import numpy as np
import pytest

from tests.golden.inputs import image
from tests.trainer import predictable
from trainer.prediction.floors import floor_of, painted_over
from trainer.prediction.predictor import Predictor
from trainer.prediction.regions import Region, measure_regions
from trainer.prediction.screens import rows_of_screens

pytestmark = pytest.mark.usefixtures("narrow")


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("floors") / "model"
    predictable.write_model(folder, predictable.network(3))
    return Predictor(folder)


def test_a_box_gets_the_median_of_the_ring_around_it():
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[8:22, 10:50] = (200, 100, 50)  # a ring of 2 pixels around the box, of the 3 that count
    pixels[10:20, 12:48] = 255
    before = pixels.copy()
    painted = painted_over(pixels, (slice(10, 20), slice(12, 48)))
    np.testing.assert_array_equal(pixels, before)
    assert (painted[10:20, 12:48] == (200, 100, 50)).all()
    painted[10:20, 12:48] = 255
    np.testing.assert_array_equal(painted, before)


def test_the_median_of_an_even_number_is_the_lower_one_and_a_whole_image_has_no_ring():
    pixels = np.zeros((2, 4, 3), np.uint8)
    pixels[:, 2:] = (3, 5, 7)
    assert (painted_over(pixels, (slice(0, 2), slice(0, 4))) == 0).all()
    assert (painted_over(pixels, (slice(0, 2), slice(0, 2)))[:, :2] == (3, 5, 7)).all()


@pytest.mark.parametrize("text", ["a:5,4,30,20", "a:0,0,10,100%", "a:50%,90%,50%,10%"])
def test_a_floor_is_the_share_after_painting(predictor, text):
    pixels = image(3, 1, 60, 90)[0]
    region = Region.parse(text.replace("100%", "60"))
    saliency = predictor.predict(pixels)
    (measured,) = measure_regions(saliency, [region])
    painted = painted_over(pixels, region.box(pixels.shape[:2]))
    (expected,) = measure_regions(predictor.predict(painted), [region])
    assert floor_of(predictor, pixels, saliency, measured) == pytest.approx(expected.share, rel=1e-6)


def test_on_a_long_page_the_floor_is_of_the_region_on_its_screen(predictor):
    pixels = np.concatenate([image(seed, 1, 100, 400)[0] for seed in range(14)])
    screens = rows_of_screens(pixels.shape, "desktop")
    edge = screens[0].stop
    region = Region("a", 50, edge - 30, 100, 90)  # 60 rows are on the second screen
    saliency = predictor.predict(pixels, "desktop")
    (measured,) = measure_regions(saliency, [region])
    assert measured.screen == 2
    alone = pixels[screens[1]]
    inside = Region("a", 50, 0, 100, 60)
    (on_screen,) = measure_regions(predictor.predict(painted_over(alone, inside.box(alone.shape[:2]))), [inside])
    assert floor_of(predictor, pixels, saliency, measured) == pytest.approx(on_screen.share, rel=1e-6)
