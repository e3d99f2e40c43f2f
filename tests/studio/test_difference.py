"""What changes from one design to another: drawn, and in figures."""

import numpy as np
import pytest

from studio.difference import draw_difference, share_moved
from trainer.api import CHANGE, Change
from trainer.prediction.saliency_map import SaliencyMap, Screen

Y, X = np.mgrid[:120, :160]
MAP = np.exp(-((X - 50) ** 2 + (Y - 60) ** 2) / 800).astype(np.float32)
GREY = np.full((120, 160, 3), 100, np.uint8)


def test_difference_is_blue_where_the_second_has_more_and_orange_where_less():
    drawn = np.asarray(draw_difference(GREY, CHANGE.limit * (MAP - MAP[:, ::-1]), ("a", "b")))
    assert drawn.shape[0] > 120
    more, less = (drawn[60, x + (drawn.shape[1] - 160) // 2].astype(int) for x in (50, 109))
    assert more[2] > more[0] + 50
    assert less[0] > less[2] + 50


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0.0248, 0.0267, False), (0.437, 0.451, False), (0.04, 0.031, False), (0.04, 0.029, True), (0.4, 0.45, True)],
)
def test_a_change_is_clear_from_a_quarter_of_the_share_or_four_points_on(before, after, expected):
    assert Change.is_clear(before, after) == Change.is_clear(after, before) == expected


def test_what_is_elsewhere_is_moved():
    before = np.zeros((10, 20), np.float32)
    before[2:4, 5:10] = 0.5  # sum 5
    before[8, 15] = 1.0
    after = np.roll(before, 1, axis=1)
    after[2:4] = before[2:4]
    assert share_moved(before, 3 * before) == pytest.approx(0)
    assert share_moved(before, after) == pytest.approx(1 / 6)


def test_of_a_long_page_what_is_elsewhere_is_the_mean_over_its_screens():
    before, after = np.random.default_rng(0).random((2, 5, 400, 640), np.float32)
    rows = [slice(top, top + 400) for top in (0, 400, 800, 1200, 1500)]  # the last two overlap

    def joined(parts):
        return SaliencyMap([Screen(*each) for each in zip(rows, parts, strict=True)])

    expected = np.mean([share_moved(*pair) for pair in zip(before, after, strict=True)])
    assert share_moved(joined(before), joined(after)) == pytest.approx(expected)
    scaled = [part * (1 + index) for index, part in enumerate(after)]
    assert share_moved(joined(before), joined(scaled)) == pytest.approx(expected, rel=1e-5)
