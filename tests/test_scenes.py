"""The scenes of `research.scenes`, of which it is known where people look."""

import numpy as np
import pytest
from PIL import Image

from research import scenes
from research.scenes import DRIFTED, HABIT, KINDS, SIZE
from trainer.data.fetch import fetch_dataset
from trainer.data.prepared_data import IMAGES
from trainer.data.settings import FetchConfig
from trainer.metrics.metrics import kld

SEEDS = range(40)


@pytest.mark.parametrize("world", [HABIT, DRIFTED], ids=lambda world: world.name)
def test_density_is_a_distribution_that_follows_the_kinds_of_objects(world):
    densities = [scenes.density(seed, world) for seed in SEEDS]
    near = {kind: [] for kind in KINDS}
    for seed, where in zip(SEEDS, densities, strict=True):
        assert where.shape == SIZE
        assert where.sum() == pytest.approx(1)
        assert (where > 0).all()
        for thing in scenes.things(seed):
            near[thing.kind].append(where[int(thing.y), int(thing.x)])
    means = {kind: np.mean(values) for kind, values in near.items()}
    assert sorted(means, key=means.get) == sorted(KINDS, key=world.interest.get)


def test_worlds_share_their_pictures_and_not_where_people_look():
    one, other = (scenes.record(3, world) for world in (HABIT, DRIFTED))
    assert np.array_equal(one.pixels, other.pixels)
    assert np.mean([kld(scenes.density(seed, HABIT), scenes.density(seed, DRIFTED)) for seed in SEEDS]) > 0.5


def test_fixations_follow_the_density_and_are_inside():
    """KLD of the fixations' histogram in blocks of 16 pixels: of the density far less than of another scene's."""
    height, width = SIZE
    side = 16
    rng = np.random.default_rng(0)
    where, other = (scenes.density(seed, HABIT) for seed in (5, 6))
    points = np.concatenate([scenes.look(where, each, rng) for each in scenes.people() for _ in range(100)])
    assert (points >= 0).all()
    assert (points < (width, height)).all()
    x, y = points.astype(int).T
    counts = np.zeros(SIZE)
    np.add.at(counts, (y, x), 1)

    def blocks(values):
        return values.reshape(height // side, side, width // side, side).sum((1, 3))

    assert kld(blocks(where), blocks(counts)) < 0.05
    assert kld(blocks(other), blocks(counts)) > 0.5


def test_a_seed_decides_all_of_a_scene_and_a_session_its_fixations():
    again = scenes.record(7)
    assert np.array_equal(again.pixels, scenes.record(7).pixels)
    assert np.array_equal(again.points, scenes.record(7).points)
    assert set(again.observers) == {each.name for each in scenes.people()}
    session = scenes.record(7, session=1)
    assert np.array_equal(session.pixels, again.pixels)
    assert session.points.shape != again.points.shape or not np.allclose(session.points, again.points)
    assert not np.array_equal(scenes.record(8).pixels, again.pixels)


def test_custom_reads_each_picture_and_all_its_fixations(tmp_path):
    shown = scenes.laboratory(range(20))
    scenes.write(shown, tmp_path / "lab")
    name = scenes.name_of(3)
    with Image.open(tmp_path / "lab" / "stimuli" / name) as image:
        assert np.array_equal(np.asarray(image), shown[name].pixels)
    fetch_dataset(FetchConfig("custom", str(tmp_path / "lab"), "48x64", coordinates="pixels"), tmp_path / "data")
    rows = (tmp_path / "data" / IMAGES).read_text().splitlines()
    columns = rows[0].split(",")
    read = {cells[columns.index("image")]: cells for cells in (row.split(",") for row in rows[1:])}
    assert {image: int(cells[columns.index("fixations")]) for image, cells in read.items()} == {
        name: len(scene.points) for name, scene in shown.items()
    }
    assert {cells[columns.index("observers")] for cells in read.values()} == {"10"}
