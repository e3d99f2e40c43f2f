"""The witness: which reading of positions agrees with maps that know where people look."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from trainer import witness
from trainer.witness import GRID, Looked, Verdict, better_reading, judge, odd_observers

N, N_POINTS = 30, 60
ASPECT = 4 / 3


def scenes(n=N, seed=0):
    """Densities with a few blobs of their own and one in the centre, and maps that know them with noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[: GRID[0], : GRID[1]]
    centre = np.exp(-((y / GRID[0] - 0.5) ** 2 + (x / GRID[1] - 0.5) ** 2) / 0.08)
    densities, maps = [], []
    for _ in range(n):
        spots = np.zeros(GRID)
        spots[random.integers(4, GRID[0] - 4, 3), random.integers(4, GRID[1] - 4, 3)] = 1
        density = 400 * gaussian_filter(spots, 3) + centre
        densities.append(density / density.sum())
        maps.append(density + gaussian_filter(random.normal(size=GRID), 2) + 5 * centre)
    return densities, maps


def draw(density, n, random):
    flat = random.choice(density.size, n, p=density.ravel())
    return (np.stack(np.divmod(flat, GRID[1]), 1) + random.random((n, 2))) / GRID


@pytest.fixture(scope="module")
def world():
    random = np.random.default_rng(1)
    densities, maps = scenes()
    return maps, [draw(density, N_POINTS, random) for density in densities], densities


def looked(points, change):
    return [Looked(np.clip(change(each), 0, 0.999), np.full(len(each), 1 / len(each)), ASPECT) for each in points]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: p, ""),
        (lambda p: np.add(p, (0, 0.01)), ""),
        (lambda p: np.stack([1 - p[:, 0], p[:, 1]], 1), "y were upside down"),
        (lambda p: np.stack([p[:, 0], 1 - p[:, 1]], 1), "x were from right to left"),
        (lambda p: 1 - p, "they were turned by 180 degrees"),
        (lambda p: p[:, ::-1] * (ASPECT, 1 / ASPECT), "x and y were exchanged"),
        (lambda p: np.add(p, (0, 0.08)), "all were moved by 8% of the width to the right"),
        (lambda p: p - (0.1, 0), "all were moved by 10% of the height up"),
        (lambda p: p * 0.8, "they were scaled by 0.8 from the upper left corner"),
        (lambda p: (p - 0.5) / 2 + 0.5, "they were scaled by 0.5 from the centre"),
    ],
)
def test_a_wrong_reading_is_named_and_a_right_one_is_not(change, text, world):
    maps, points, _ = world
    for n in (2 * witness.FEWEST, N):
        reading = better_reading(maps[:n], looked(points[:n], change))
        assert (reading.text if reading else "") == text
    assert better_reading(maps[: witness.FEWEST - 1], looked(points[: witness.FEWEST - 1], change)) is None


def test_a_habit_that_all_images_share_is_no_evidence(world):
    """People look to the upper left of each image, the maps at their centre; nothing else is known."""
    random = np.random.default_rng(2)
    maps = [world[0][0] + gaussian_filter(random.normal(size=GRID), 2) for _ in range(N)]
    points = [random.normal(0.25, 0.1, (N_POINTS, 2)) for _ in range(N)]
    assert better_reading(maps, looked(points, lambda p: p)) is None


def test_densities_are_read_as_fixations_are(world):
    maps, _, densities = world
    levels = [(255 * each / each.max()).astype(np.uint8) for each in densities]
    honest = [Looked.of_density(each, (240, 320)) for each in levels]
    assert better_reading(maps, honest) is None
    reading = better_reading(maps, [Looked.of_density(each[::-1], (240, 320)) for each in levels])
    assert reading.text == "y were upside down"
    assert honest[0].weights.sum() == pytest.approx(1)


def test_agreement_is_the_same_for_maps_of_any_scale(world):
    maps, points, _ = world
    where = looked(points, lambda p: p)
    found = witness.agreement(maps, where)
    assert found == pytest.approx(witness.agreement([3 * each + 7 for each in maps], where))
    assert found.mean() > 0.5


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p, random: p, None),
        (lambda p, random: np.add(p, (0, 0.2)), "all were moved by 20% of the width to the right"),
        (lambda p, random: np.stack([1 - p[:, 0], p[:, 1]], 1), "y were upside down"),
        (lambda p, random: random.random(p.shape), ""),
    ],
)
def test_a_person_who_disagrees_with_the_others_is_found(change, text, world):
    _, _, densities = world
    random = np.random.default_rng(3)
    images = []
    for density in densities:
        each = [draw(density, 6, random) for _ in range(10)]
        each[4] = np.clip(change(each[4], random), 0, 0.999)
        images.append((np.concatenate(each), np.repeat(np.arange(10), 6), ASPECT))
    odd = odd_observers(images)
    assert set(odd) == (set() if text is None else {4})
    if text is not None:
        assert (odd[4].text if odd[4] else "") == text


def test_one_person_alone_is_compared_with_nobody(world):
    assert odd_observers([(each, np.zeros(len(each), np.int64), ASPECT) for each in world[1]]) == {}


def test_people_with_few_fixations_and_a_common_habit_are_not_accused():
    """Thirty people in each of twelve laboratories look twice at a fifth of the images, once in the middle."""
    for seed in range(12):
        random = np.random.default_rng(seed)
        densities, _ = scenes(60, seed)
        images = []
        for density in densities:
            who = random.choice(30, 6, replace=False)
            points = draw(density, 12, random)
            points[::2] = np.clip(random.normal(0.5, 0.1, points[::2].shape), 0, 0.999)
            images.append((points, np.repeat(who, 2), ASPECT))
        assert odd_observers(images) == {}, seed


FAULTS = {
    "y upwards": lambda p: np.stack([1 - p[:, 0], p[:, 1]], 1),
    "x from the right": lambda p: np.stack([p[:, 0], 1 - p[:, 1]], 1),
    "exchanged": lambda p: p[:, ::-1] * (ASPECT, 1 / ASPECT),
    "x + 17%": lambda p: np.add(p, (0, 0.17)),
    "x + 8%": lambda p: np.add(p, (0, 0.08)),
    "both + 6%": lambda p: p + 0.06,
    "times .667": lambda p: p / 1.5,
    "times .8": lambda p: p * 0.8,
    "times 1.25": lambda p: p * 1.25,
    "x times .75 from the centre": lambda p: (p - 0.5) * (1, 0.75) + 0.5,
}


def of_world(seed, n=N, n_points=N_POINTS):
    """Maps of scenes, and where people looked."""
    random = np.random.default_rng(seed + 1000)
    densities, maps = scenes(n, seed)
    return maps, [draw(density, n_points, random) for density in densities]


def verdicts(change, n=N, n_points=N_POINTS, seeds=range(10), groups=()):
    """The verdict on worlds of several seeds, whose positions are changed."""
    worlds = [of_world(seed, n, n_points) for seed in seeds]
    return [judge(maps, change(points), groups).verdict for maps, points in worlds]


def test_a_right_reading_is_proven():
    for seed in range(10):
        maps, points = of_world(seed)
        testimony = judge(maps, looked(points, lambda p: p))
        assert testimony.verdict is Verdict.AGREES, seed
        assert testimony.better is None
        assert (testimony.n_images, testimony.agreement) == (
            N,
            witness.agreement(maps, looked(points, np.array)).mean(),
        )
        assert f"{testimony.agreement:.2f}" in testimony.text


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_reading_is_contradicted(fault):
    for seed in range(5):
        maps, points = of_world(seed)
        testimony = judge(maps, looked(points, FAULTS[fault]))
        assert testimony.verdict is Verdict.CONTRADICTS, seed
        assert testimony.better.agreement > testimony.agreement
        assert str(testimony.better) in testimony.text


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("n", [3, 6, 9])
def test_a_wrong_reading_is_never_proven_by_few_images(fault, n):
    assert Verdict.AGREES not in verdicts(lambda points: looked(points, FAULTS[fault]), n, 20, range(20))


def test_few_images_prove_nothing():
    for n in range(witness.FEWEST):
        assert {*verdicts(lambda points: looked(points, np.array), n)} == {Verdict.SILENT}


def test_chance_is_neither_proven_nor_another_reading():
    """Positions at random and in the middle, images in any order, and maps that know nothing."""
    random = np.random.default_rng(4)
    for change in (
        lambda points: looked(points, lambda p: random.random(p.shape)),
        lambda points: looked(points, lambda p: random.normal(0.5, 0.15, p.shape)),
        lambda points: looked([points[each] for each in random.permutation(len(points))], np.array),
    ):
        assert {*verdicts(change)} == {Verdict.SILENT}
    for make in (np.zeros, lambda shape: random.random(1) * np.ones(shape), random.random):
        maps = [make(GRID) for _ in range(N)]
        assert judge(maps, looked(of_world(0)[1], np.array)).verdict is Verdict.SILENT


@pytest.mark.parametrize(
    ("moved", "text"), [(1, "they were of the image before"), (-1, "they were of the next image")]
)
def test_fixations_of_the_neighbours_are_known(moved, text):
    maps, points = of_world(0)[:2]
    exchanged = [points[(each - moved) % len(points)] for each in range(len(points))]
    testimony = judge(maps, looked(exchanged, np.array))
    assert (testimony.verdict, testimony.better.text) == (Verdict.CONTRADICTS, text)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_third_of_the_images_that_is_wrong_prevents_a_proof_if_told_apart(fault):
    def change(points):
        n_wrong = len(points) // 3
        return looked(points[:n_wrong], FAULTS[fault]) + looked(points[n_wrong:], np.array)

    sizes = ["600 x 800"] * 3 + ["480 x 640"] * 6
    assert Verdict.AGREES not in verdicts(change, 9, groups=sizes)


def test_a_group_of_images_is_contradicted_by_its_label():
    maps, points = of_world(0)
    sizes = ["600 x 800"] * 12 + ["480 x 640"] * (N - 12)
    where = looked(points[:12], FAULTS["y upwards"]) + looked(points[12:], np.array)
    testimony = judge(maps, where, sizes)
    assert (testimony.verdict, testimony.group) == (Verdict.CONTRADICTS, "600 x 800")
    assert (testimony.better.text, testimony.better.n_images) == ("y were upside down", 12)
    assert "600 x 800" in testimony.text


def test_groups_do_not_prevent_a_proof():
    sizes = ["600 x 800"] * 10 + ["480 x 640"] * (N - 11) + ["1 x 1"]
    assert {*verdicts(lambda points: looked(points, np.array), groups=sizes)} == {Verdict.AGREES}
