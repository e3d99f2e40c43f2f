"""A batch prediction that is killed at twenty random moments: each map is there once and whole in the end.

Minutes on two cores: `make test-kills` runs it; the file's name keeps it out of the other runs.
"""

import random

import pytest

from tests.narrow import narrowed
from tests.predicting import assert_whole, predict_killed, write_photos
from tests.trainer.predictable import network, write_model

KILLS, PHOTOS = 20, 300


@pytest.mark.slow
def test_twenty_kills_lose_and_double_nothing(tmp_path):
    keys = write_photos(tmp_path / "photos", PHOTOS)
    with narrowed():
        model = write_model(tmp_path / "model", network(4))
        killed = predict_killed(tmp_path / "photos", tmp_path / "out", model, KILLS, random.Random(0))
        assert_whole(tmp_path / "out", keys)
    print(f"{killed} of {KILLS} moments met the job")
    assert killed > KILLS / 2
