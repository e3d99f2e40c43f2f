"""How often weekly retraining promotes a model that is not better: `python -m research.promotions`.

Simulates years of 52 decisions by the gate's own rule (`trainer.evaluation.confidence`). Each week has a candidate
of its own and other validation images, which is the worst case: what weeks share only makes errors coincide. The
gains on images have the spread of two trainings of one network, paired, as in results.md: from 0.03
KLD (base training with and without a setting) to 0.2 (before and after fine-tuning). They are normal, or skewed to
either side as a gamma distribution of shape 4 (skewness 1). The second table has images in groups of 2 to 60, such
as pages of a site, whose gains correlate: groups of unequal sizes, and few of them. The third table has candidates
that are better each week.
"""

import numpy as np
from scipy import stats

from trainer.evaluation.confidence import DECISIONS_A_YEAR, decision_level, grouped_interval, skewed_interval

YEARS = 4000
SPREADS = (0.03, 0.1)
IMAGES = (75, 300, 1000)
GROUPS = (8, 10, 12, 20, 30, 60)
GROUP_SIZES = (2, 60)
"""The sizes of groups are between these, their logarithms in equal shares."""
CORRELATIONS = (0.0, 0.1, 0.3, 0.6)
"""The correlations of the gains on two images of a group."""
GAINS = (0.01, 0.02, 0.05)
LEVELS = np.array([decision_level(0.95, decision) for decision in range(1, DECISIONS_A_YEAR + 1)])


def draws(rng: np.random.Generator, shape: str, size: tuple[int, int]) -> np.ndarray:
    """Standardized gains: mean 0 and variance 1."""
    if shape == "normal":
        return rng.standard_normal(size)
    skewed = (rng.gamma(4.0, size=size) - 4) / 2
    return skewed if shape == "right" else -skewed


def is_promoted(rng: np.random.Generator, shape: str, years: int, n: int) -> tuple[np.ndarray, ...]:
    """Whether weekly gains on n images of models that are no better lead to a promotion, each (years,).

    By the gate's interval, by Student's at the same levels, and by Student's 95% interval each week.
    """
    promoted = np.zeros((3, years), bool)
    for level in LEVELS:
        gains = draws(rng, shape, (years, n))
        t = gains.mean(1) / gains.std(1, ddof=1) * np.sqrt(n)
        least = stats.t.ppf([(1 + level) / 2, 0.975], n - 1)
        promoted[1:] |= t > least[:, None]
        # Only where Student's interval or its neighbourhood excludes 0 can the other one do so.
        for year in np.flatnonzero(t > 0.6 * least[0]):
            low, _ = skewed_interval(gains[year], level) or (0.0, 0.0)
            promoted[0, year] |= low > 0
    return tuple(promoted)


def group_means(
    rng: np.random.Generator, shape: str, correlation: float, years: int, n_groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and mean gains of groups, (years, n_groups) each; the gains of single images are standardized."""

    def means(n_images: np.ndarray) -> np.ndarray:
        if shape == "normal":
            return np.asarray(rng.standard_normal(n_images.shape) / np.sqrt(n_images))
        skewed = np.asarray((rng.gamma(4.0 * n_images) / n_images - 4) / 2)
        return skewed if shape == "right" else -skewed

    least, most = GROUP_SIZES
    sizes = np.exp(rng.uniform(np.log(least), np.log(most + 1), (years, n_groups))).astype(int)
    shared = means(np.ones_like(sizes))
    return sizes, np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * means(sizes)


def is_promoted_by_groups(
    rng: np.random.Generator, shape: str, correlation: float, years: int, n_groups: int
) -> tuple[np.ndarray, ...]:
    """Whether weekly gains in groups, of models that are no better, lead to a promotion, each (years,).

    By the gate's interval, by Hall's and by Student's of the groups' means, and by the robust standard error of
    the mean over images (CR1, Student's t with one degree of freedom less than groups).
    """
    promoted = np.zeros((4, years), bool)
    for level in LEVELS:
        sizes, gains = group_means(rng, shape, correlation, years, n_groups)
        least = stats.t.ppf((1 + level) / 2, n_groups - 1)
        t = gains.mean(1) / gains.std(1, ddof=1) * np.sqrt(n_groups)
        promoted[2] |= t > least
        for year in np.flatnonzero(t > 0.5 * least):
            ends = [of(gains[year], level) or (0.0, 0.0) for of in (grouped_interval, skewed_interval)]
            promoted[:2, year] |= [low > 0 for low, _ in ends]
        shares = sizes / sizes.sum(1, keepdims=True)
        mean = (shares * gains).sum(1, keepdims=True)
        variance = n_groups / (n_groups - 1) * ((shares * (gains - mean)) ** 2).sum(1)
        promoted[3] |= mean[:, 0] / np.sqrt(variance) > least
    return tuple(promoted)


def main() -> None:
    """Print the tables of research/results.md."""
    rng = np.random.default_rng(0)
    print("| images | gains | year with a false promotion | by Student's t | with a 95% interval each week |")
    print("|---|---|---|---|---|")
    for n in IMAGES:
        for shape in ("normal", "right", "left"):
            rates = [promoted.mean() for promoted in is_promoted(rng, shape, YEARS, n)]
            print(f"| {n} | {shape} | {' | '.join(f'{rate:.1%}' for rate in rates)} |", flush=True)
    print()
    print(
        "| groups | correlation | gains | year with a false promotion | by Hall | by Student | over images (CR1) |"
    )
    print("|---|---|---|---|---|---|---|")
    for n in GROUPS:
        for correlation in CORRELATIONS:
            for shape in ("normal", "right", "left"):
                years = is_promoted_by_groups(rng, shape, correlation, YEARS, n)
                shares = " | ".join(f"{promoted.mean():.1%}" for promoted in years)
                print(f"| {n} | {correlation} | {shape} | {shares} |", flush=True)
    print()
    print("| gain, KLD | spread | images | 1st decision | 12th | 52nd | within 12 | 95% interval |")
    print("|---|---|---|---|---|---|---|---|")
    for gain in GAINS:
        for spread in SPREADS:
            for n in IMAGES:
                shift = gain / spread * np.sqrt(n)
                power = stats.nct.sf(stats.t.ppf((1 + LEVELS) / 2, n - 1), n - 1, shift)
                plain = stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, shift)
                within = 1 - np.prod(1 - power[:12])
                cells = (power[0], power[11], power[51], within, plain)
                print(f"| {gain} | {spread} | {n} | {' | '.join(f'{cell:.0%}' for cell in cells)} |")


if __name__ == "__main__":
    main()
