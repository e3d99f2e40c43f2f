"""How often the intervals of `trainer.evaluation.confidence` hold the true mean, and see a gain that is none.

Draws images with replacement from populations whose mean is known: the paired differences of KLD in an evaluation
with a champion, and two distributions. Beside it a plain BCa bootstrap and Student's interval.

    python -m benchmarks.interval_coverage EVALUATION

Three minutes on one core; docs/log.md has what it said.
"""

import argparse
import pathlib
import warnings

import numpy as np
import numpy.typing as npt
from scipy import stats

from trainer import artifacts
from trainer.evaluation import per_image
from trainer.evaluation.confidence import RESAMPLES, Interval, Values, gains_of, interval

CONFIDENCE = 0.95
SIZES = (6, 8, 10, 20, 40, 140)
DRAWS = 500


def bca(values: Values) -> Interval:
    found = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, rng=0).confidence_interval
    return found.low, found.high


def student(values: Values) -> Interval:
    found = stats.ttest_1samp(values, 0).confidence_interval(CONFIDENCE)
    return found.low, found.high


FORMS = {"as used": lambda values: interval(values, CONFIDENCE), "BCa": bca, "Student": student}


def differences(evaluation: pathlib.Path) -> Values:
    table = next(iter(per_image.read(evaluation / artifacts.PER_IMAGE, "evaluate again").values()))
    return gains_of(table.scores["candidate"]["kld"], table.scores["champion"]["kld"], higher_is_better=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evaluation", type=pathlib.Path)
    random = np.random.default_rng(1)
    populations: dict[str, npt.NDArray[np.float64]] = {
        "differences of KLD": differences(parser.parse_args().evaluation),
        "normal": random.normal(size=20_000),
        "lognormal": random.lognormal(size=20_000),
    }
    warnings.simplefilter("ignore")
    print(f"{'population':20}{'images':>8}" + "".join(f"{name:>16}" for name in FORMS))
    for name, population in populations.items():
        truth = population.mean()
        for size in SIZES:
            draws = np.random.default_rng(size).choice(population, (DRAWS, size))
            cells = []
            for form in FORMS.values():
                low, high = np.array([form(draw) for draw in draws], float).T
                cells.append(f"{np.mean((low <= truth) & (truth <= high)):.3f} / {np.mean(low > truth):.3f}")
            print(f"{name:20}{size:>8}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
