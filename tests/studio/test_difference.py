"""What changes from one design to another: drawn, and in figures."""

import numpy as np

from studio.difference import draw_difference
from trainer.heat import CHANGE_LIMIT

Y, X = np.mgrid[:120, :160]
MAP = np.exp(-((X - 50) ** 2 + (Y - 60) ** 2) / 800).astype(np.float32)
GREY = np.full((120, 160, 3), 100, np.uint8)


def test_difference_is_blue_where_the_second_has_more_and_orange_where_less():
    drawn = np.asarray(draw_difference(GREY, CHANGE_LIMIT * (MAP - MAP[:, ::-1]), ("a", "b")))
    assert drawn.shape[0] > 120
    more, less = (drawn[60, x + (drawn.shape[1] - 160) // 2].astype(int) for x in (50, 109))
    assert more[2] > more[0] + 50
    assert less[0] > less[2] + 50
