"""How often weekly retraining promotes a model that is not better: `python -m research.promotions`.

Simulates years of 52 decisions by the gate's own rule (`trainer.evaluation.confidence`). Each week has a candidate
of its own and other validation images, which is the worst case: what weeks share only makes errors coincide. The
gains on images, `GAINS`, have mean 0 and standard deviation 1. The first table is about images, the second about
groups of 2 to 60, such as pages of a site, whose gains correlate: groups of unequal sizes, and few of them. The
others have candidates that are better each week, with the spread of two trainings of one network, paired, as in
results.md: from 0.03 KLD (base training with and without a setting) to 0.2 (before and after fine-tuning).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from trainer.evaluation.confidence import (
    DECISIONS_A_YEAR,
    MIN_DECIDING,
    decision_level,
    detectable_gain,
    lower_ends,
)

YEARS = 2000
IMAGES = (MIN_DECIDING, 30, 50, 75, 100, 150, 300)
GROUPS = (MIN_DECIDING, 30, 60)
GROUP_SIZES = (2, 60)
"""The sizes of groups are between these, their logarithms in equal shares."""
CORRELATIONS = (0.0, 0.3, 0.6)
"""The correlations of the gains on two images of a group."""
WORSE = 0.1
"""So many spreads are models of the last column worse."""
SPREADS = (0.03, 0.1)
MEANS = (0.01, 0.02, 0.05)
SAMPLES = 1000
"""Samples behind a probability of a promotion."""
ALPHAS = [(1 - decision_level(0.95, decision)) / 2 for decision in range(1, DECISIONS_A_YEAR + 1)]

Size = tuple[int, ...]
Draw = Callable[[np.random.Generator, Size], np.ndarray]
Rule = Callable[[np.ndarray, float], np.ndarray]
"""Whether the mean of each row, (k, n), is found to be above 0 with an error of `alpha` at most: (k,)."""


# === Gains ===


def normal(rng: np.random.Generator, size: Size) -> np.ndarray:
    """The gains that Student's t assumes."""
    return rng.standard_normal(size)


def gamma(shape: float) -> Draw:
    """Gains with a long tail on the winning side; their skewness is 2 / sqrt(shape)."""
    return lambda rng, size: (rng.gamma(shape, size=size) - shape) / math.sqrt(shape)


def lognormal(sigma: float) -> Draw:
    """Gains with a heavier tail on the winning side."""
    mean, spread = math.exp(sigma**2 / 2), math.sqrt(math.exp(sigma**2) * (math.exp(sigma**2) - 1))
    return lambda rng, size: (rng.lognormal(0, sigma, size) - mean) / spread


def students(freedom: float) -> Draw:
    """Gains with heavy tails on both sides."""
    return lambda rng, size: rng.standard_t(freedom, size) / math.sqrt(freedom / (freedom - 2))


def losses(share: float, spreads: float) -> Draw:
    """A share of the images loses so many standard deviations of all gains; the gains of the others are normal."""
    spread = math.sqrt(1 - share * (1 - share) * spreads**2)

    def draw(rng: np.random.Generator, size: Size) -> np.ndarray:
        others = spread / math.sqrt(1 - share) * rng.standard_normal(size)
        return np.where(rng.random(size) < share, -spreads, others) + share * spreads

    return draw


def mirrored(draw: Draw) -> Draw:
    """The same with the tail on the losing side."""
    return lambda rng, size: -draw(rng, size)


GAINS: dict[str, Draw] = {
    "normal": normal,
    "gamma, to the right": gamma(4),
    "gamma, to the left": mirrored(gamma(4)),
    "lognormal, to the right": lognormal(1),
    "lognormal, to the left": mirrored(lognormal(1)),
    "t with 3 degrees": students(3),
    "5% lose four spreads": losses(0.05, 4),
    # Beyond what was asked for, and in the end beyond what holds.
    "exponential, to the left": mirrored(gamma(1)),
    "lognormal 1.2, to the left": mirrored(lognormal(1.2)),
    "10% lose three spreads": losses(0.1, 3),
    "3% lose five spreads": losses(0.03, 5),
    "2% lose six spreads": losses(0.02, 6),
    "lognormal 1.5, to the left": mirrored(lognormal(1.5)),
    "1% lose nine spreads": losses(0.01, 9),
}
OF_GROUPS = list(GAINS)[:7]
OF_POWER = ("normal", "gamma, to the right", "gamma, to the left", "lognormal, to the right", "t with 3 degrees")


def group_means(draw: Draw, correlation: float, n_groups: int) -> Draw:
    """Mean gains of groups; what the images of a group share and what each has of its own is drawn alike."""

    def means(rng: np.random.Generator, size: Size) -> np.ndarray:
        least, most = GROUP_SIZES
        sizes = np.exp(rng.uniform(np.log(least), np.log(most + 1), size)).astype(int)
        own = draw(rng, (int(sizes.sum()),))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        of_images = np.add.reduceat(own, starts).reshape(size) / sizes
        return np.asarray(np.sqrt(correlation) * draw(rng, size) + np.sqrt(1 - correlation) * of_images)

    return means


# === Rules ===


def gate(gains: np.ndarray, alpha: float) -> np.ndarray:
    """The rule of the gate."""
    return lower_ends(gains, alpha) > 0


def student(gains: np.ndarray, alpha: float) -> np.ndarray:
    """Student's t."""
    n = gains.shape[1]
    return np.asarray(gains.mean(1) / gains.std(1, ddof=1) * np.sqrt(n) > stats.t.isf(alpha, n - 1))


def hall(gains: np.ndarray, alpha: float, margin: float = 0.0) -> np.ndarray:
    """Hall's transformation of Student's t (Journal of the Royal Statistical Society B 54, 1992).

    It decided until 2026-11-28; with `margin`, a less favourable skewness, and Student's t besides for groups.
    """
    n, mean = gains.shape[1], gains.mean(1) / gains.std(1, ddof=1)
    skewness = stats.skew(gains, axis=1, bias=False) - margin
    t = np.sqrt(n) * (mean + skewness / 3 * mean**2 + skewness**2 / 27 * mean**3 + skewness / (6 * n))
    return np.asarray(t > stats.t.isf(alpha, n - 1))


def hall_of_groups(gains: np.ndarray, alpha: float) -> np.ndarray:
    """What decided on groups."""
    both: np.ndarray = hall(gains, alpha, 0.6) & student(gains, alpha)
    return both


# === Tables ===


def years(
    rng: np.random.Generator, draw: Draw, n: int, rules: list[Rule], shift: float = 0.0, n_years: int = YEARS
) -> list[float]:
    """The share of years with a promotion by each rule, of models whose mean gain is `shift`."""
    promoted = np.zeros((len(rules), n_years), bool)
    for alpha in ALPHAS:
        gains = draw(rng, (n_years, n)) + shift
        # Only where Student's t or its neighbourhood excludes 0 can another rule do so.
        t = gains.mean(1) / gains.std(1, ddof=1) * np.sqrt(n)
        likely = np.flatnonzero(t > 0.5 * stats.t.isf(alpha, n - 1))
        for row, rule in zip(promoted, rules, strict=True):
            row[likely] |= rule(gains[likely], alpha)
    return [float(row.mean()) for row in promoted]


def found_by_hall(gains: np.ndarray, alpha: float) -> float:
    """The mean gain with which Hall's interval promotes half of these samples, (k, n), of a mean gain of 0."""
    low, high = 0.0, 8.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if hall(gains + middle, alpha).mean() >= 0.5 else (middle, high)
    return high


def print_row(*cells: object) -> None:
    """Print a row of a table at once."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_header(*cells: str) -> None:
    """Print the head of a table."""
    print()
    print_row(*cells)
    print_row(*["---"] * len(cells))


def print_promises() -> None:
    """Years with a promotion of models that are no better, or worse: images, then groups."""
    rng = np.random.default_rng(0)
    print_header("gains", "rule", *(f"{n} images" for n in IMAGES))
    for name, draw in GAINS.items():
        rows = [
            years(rng, draw, n, [gate, hall, student]) + years(rng, draw, n, [gate, hall], -WORSE) for n in IMAGES
        ]
        labels = ("the gate", "Hall", "Student", "the gate, worse", "Hall, worse")
        for label, shares in zip(labels, zip(*rows, strict=True), strict=True):
            print_row(name, label, *(f"{share:.1%}" for share in shares))
    print_header("gains", "correlation", *(f"{n} groups: the gate, before" for n in GROUPS))
    for name in OF_GROUPS:
        for correlation in CORRELATIONS:
            cells = []
            for n in GROUPS:
                draw = group_means(GAINS[name], correlation, n)
                cells.append(years(rng, draw, n, [gate, hall_of_groups], n_years=YEARS // 4))
            print_row(name, correlation, *(f"{now:.1%}, {before:.1%}" for now, before in cells))


def print_power() -> None:
    """Gains that are found half of the time, and how often a better model is promoted."""
    rng = np.random.default_rng(1)
    decisions = (1, 12, DECISIONS_A_YEAR)
    print_header("gains", "images", *(f"decision {number}: the gate, Hall" for number in decisions), "expected")
    for name in OF_POWER:
        for n in (MIN_DECIDING, 30, 50, 75, 100, 300):
            gains = GAINS[name](rng, (SAMPLES, n))
            cells = []
            for number in decisions:
                alpha = ALPHAS[number - 1]
                # The ends of gains that are all larger are larger by the same.
                cells.append(f"{-np.median(lower_ends(gains, alpha)):.2f}, {found_by_hall(gains, alpha):.2f}")
            expected = [detectable_gain(1.0, n, decision_level(0.95, number)) for number in decisions]
            print_row(name, n, *cells, ", ".join(f"{gain:.2f}" for gain in expected))
    print_header("gain, KLD", "spread", "images", "1st decision", "12th", "52nd", "within 12", "Hall: 1st", "12th")
    for n in (50, 75, 100, 300, 1000):
        gains = rng.standard_normal((SAMPLES, n))
        ends = [lower_ends(gains, alpha) for alpha in (*ALPHAS[:12], ALPHAS[-1])]
        for mean in MEANS:
            for spread in SPREADS:
                powers = [float((end > -mean / spread).mean()) for end in ends]
                before = [float(hall(gains + mean / spread, ALPHAS[index]).mean()) for index in (0, 11)]
                within = 1 - math.prod(1 - power for power in powers[:12])
                shares = (powers[0], powers[11], powers[12], within, *before)
                print_row(mean, spread, n, *(f"{share:.0%}" for share in shares))


def main() -> None:
    """Print the tables of research/results.md."""
    print_promises()
    print_power()


if __name__ == "__main__":
    main()
