"""Exports from manuals are read right or asked about, and their judge tells a right reading from a wrong one."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from tests.trainer.data.recordings import manuals

POINTS = [(10.2, 20.7, "Anna"), (30.0, 5.5, "Anna"), (61.4, 40.1, "Ben")]
PIXELS = np.array([[20, 10], [5, 30], [40, 61]])


def study(**fields):
    """A study of one picture with POINTS."""
    drawn = manuals.Study(0, None, "own_table", "picture", random.Random(0))
    drawn.points = {"stimuli/a.png": POINTS}
    for name, value in fields.items():
        setattr(drawn, name, value)
    return drawn


def example(pixels=PIXELS, observers=(0, 0, 1), name="a.png"):
    """A prepared picture."""
    return SimpleNamespace(name=name, fixations=np.asarray(pixels), observers=np.asarray(observers))


def test_judge_accepts_what_was_drawn():
    assert manuals.compare(study(), [example()], True) is None


def test_judge_accepts_any_order():
    assert manuals.compare(study(), [example(PIXELS[::-1], (7, 3, 3))], True) is None


def test_judge_accepts_people_who_are_not_told_apart():
    assert manuals.compare(study(), [example(observers=(0, 0, 0))], True) is None


def test_judge_sees_people_mixed_up():
    assert "people" in manuals.compare(study(), [example(observers=(0, 1, 1))], True)


@pytest.mark.parametrize("pixels", [PIXELS + 3, PIXELS[:, ::-1], PIXELS[:2], np.concatenate([PIXELS, PIXELS[:1]])])
def test_judge_sees_fixations_moved_swapped_missing_and_repeated(pixels):
    assert "stimuli/a.png" in manuals.compare(study(), [example(pixels, [0] * len(pixels))], True)


def test_judge_sees_a_missing_picture():
    assert "missing" in manuals.compare(study(), [], True)


def test_judge_takes_one_of_two_copies():
    twice = [(2 * x, 2 * y, person) for x, y, person in POINTS]
    drawn = study(points={"small/a.png": POINTS, "large/a.png": twice}, copies={"large/a.png": "small/a.png"})
    assert manuals.compare(drawn, [example(PIXELS * 2, name="large/a.png")], True) is None
    assert manuals.compare(drawn, [example(PIXELS, name="large/a.png")], True) is not None


def test_seed_draws_the_same_study_again(tmp_path):
    written = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        drawn = manuals.draw_study(3, folder, "metro_maps")
        files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        written.append((drawn.points, files))
    assert written[0] == written[1]
    assert sum(map(len, written[0][0].values())) > 0


@pytest.mark.parametrize("seed", range(24))
def test_study_is_read_right_or_asked_about(seed):
    outcome = manuals.run(seed)
    assert outcome.result != "wrong" or outcome.facts, outcome.detail  # facts that no reader can know
    assert outcome.told != "wrong", outcome.told_detail
