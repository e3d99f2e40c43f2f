"""What `trainer.witness.judge` says of right and of wrong positions, by the maps of `pretrained`.

    python -m research.witnesses SET [SET ...]

A set is a folder with pictures and a table `fixations.csv` with the columns image, observer, x, y (pixels). The
predicted maps are kept beside them in `maps.npz`. Random pictures and people are drawn from a set, and positions
are read wrongly on purpose. Printed are, for each number of pictures and of people, the shares of AGREES and of
CONTRADICTS with right positions and with each fault. Where a third of the pictures is wrong, these are a group.
"""

import argparse
import csv
import pathlib
from collections import Counter, defaultdict

import numpy as np
from PIL import Image

from trainer.prediction import Predictor
from trainer.witness import Looked, Verdict, judge, to_grid

MODEL = pathlib.Path(__file__).parent.parent / "trainer/models/pretrained"
PICTURES, PEOPLE = (6, 9, 12, 20, 40), (1, 5, 15)
MOST_POINTS = 40
"""So many positions of a person in a picture are used, drawn at random: mouse samples are hundreds."""


def flipped(points, down, right):
    return np.abs(np.array([down, right]) - points)


FAULTS = {
    "x + 17%": lambda points, aspect, random: np.add(points, (0, 0.17)),
    "both + 6%": lambda points, aspect, random: np.add(points, 0.06),
    "x + 8%": lambda points, aspect, random: np.add(points, (0, 0.08)),
    "y - 8%": lambda points, aspect, random: np.subtract(points, (0.08, 0)),
    "times .667": lambda points, aspect, random: points / 1.5,
    "times .8": lambda points, aspect, random: points * 0.8,
    "times 1.25": lambda points, aspect, random: points * 1.25,
    "times .8 from the centre": lambda points, aspect, random: (points - 0.5) * 0.8 + 0.5,
    "x times .75 from the centre": lambda points, aspect, random: (points - 0.5) * (1, 0.75) + 0.5,
    "y upwards": lambda points, aspect, random: flipped(points, 1, 0),
    "x and y exchanged": lambda points, aspect, random: points[:, ::-1] * (aspect, 1 / aspect),
    "uniform": lambda points, aspect, random: random.random(points.shape),
    "centred": lambda points, aspect, random: random.normal(0.5, 0.15, points.shape).clip(0, 0.999),
}
MIXED = ("x + 17%", "both + 6%", "times .8", "times 1.25", "y upwards")
"""Faults of a third of the pictures, or of one person of five."""


def read_set(folder):
    """The maps, and of each picture its aspect and observer -> positions in shares of its sides."""
    names, rows = [], defaultdict(lambda: defaultdict(list))
    with (folder / "fixations.csv").open() as table:
        for row in csv.DictReader(table):
            rows[row["image"]][row["observer"]].append((float(row["y"]), float(row["x"])))
    names = sorted(rows)
    pictures = {name: Image.open(folder / name).convert("RGB") for name in names}
    kept = folder / "maps.npz"
    if not kept.is_file():
        predictor = Predictor(MODEL)
        np.savez(kept, **{name: to_grid(predictor.predict(np.asarray(pictures[name]))) for name in names})
    maps = np.load(kept)
    looked = []
    for name in names:
        width, height = pictures[name].size
        people = {who: np.array(points) / (height, width) for who, points in rows[name].items()}
        looked.append((width / height, people))
    return [maps[name] for name in names], looked


def draw(looked, n, n_people, random):
    """Draw n pictures that some of `n_people` people have seen, and who these are."""
    everybody = sorted({who for _, people in looked for who in people})
    while True:
        who = random.permutation(everybody)[:n_people].tolist()
        seen = [place for place, (_, people) in enumerate(looked) if any(each in people for each in who)]
        if len(seen) >= n:
            return random.permutation(seen)[:n].tolist(), who
        n_people += 1


def testify(maps, looked, n, n_people, fault, random):
    """The verdict on a random part of a set, with a fault."""
    chosen, who = draw(looked, n, n_people, random)
    mixed = MIXED[random.integers(len(MIXED))]
    where = []
    for place, number in enumerate(chosen):
        aspect, people = looked[number]
        parts = []
        for each in [each for each in who if each in people]:
            points = people[each][random.permutation(len(people[each]))[:MOST_POINTS]]
            own = fault
            if fault == "a third of the pictures":
                own = mixed if place < n // 3 else ""
            elif fault == "one person":
                own = mixed if each == who[0] else ""
            parts.append(FAULTS[own](points, aspect, random) if own in FAULTS else points)
        points = np.concatenate(parts)
        where.append(Looked(points, np.full(len(points), 1 / len(points)), aspect))
    if fault == "pictures exchanged":
        where = [*where[1:], where[0]]
    groups = ["some"] * (n // 3) + ["others"] * (n - n // 3) if fault == "a third of the pictures" else ()
    return judge([maps[number] for number in chosen], where, groups).verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=pathlib.Path)
    parser.add_argument("--right", type=int, default=60, help="draws with right positions")
    parser.add_argument("--wrong", type=int, default=10, help="draws with each fault")
    args = parser.parse_args()
    faults = ["", *FAULTS, "pictures exchanged", "a third of the pictures", "one person"]
    for folder in args.sets:
        maps, looked = read_set(folder)
        n_people = len({who for _, people in looked for who in people})
        for people in sorted({min(each, n_people) for each in PEOPLE}):
            for n in [n for n in PICTURES if n <= len(maps)]:
                random, line = np.random.default_rng(n), []
                for fault in faults:
                    if fault == "one person" and people == 1:
                        continue
                    n_draws = args.wrong if fault else args.right
                    said = Counter(testify(maps, looked, n, people, fault, random) for _ in range(n_draws))
                    agrees, contradicts = said[Verdict.AGREES] / n_draws, said[Verdict.CONTRADICTS] / n_draws
                    line.append(f"{fault or 'right'} {agrees:.2f} {contradicts:.2f}")
                print(f"{folder.name}, {n} pictures, {people} people: {', '.join(line)}", flush=True)


if __name__ == "__main__":
    main()
