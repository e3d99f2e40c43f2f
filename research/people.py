"""How often intervals over images and people hold: `python -m research.people`.

Draws the scores of images that people with effects of their own looked at, and asks how often a 95% interval
contains the true mean: Student's over the images alone, that of an evaluation (`confidence.people_of`), and the
percentiles of a bootstrap that draws images and people at random (Owen 2007). A score is the sum of an effect of
the image with the standard deviation 1, one of the person, and one of both together; an image has the mean
of those who saw it.
"""

import numpy as np

from trainer.evaluation import confidence
from trainer.evaluation.per_image import LeftOut, PerImage

SAMPLES = 2000
REPLICATES = 500
DESIGNS = (
    # images, people, of whom see an image, effect of people, effect of both
    (50, 11, 11, 0.5, 1.0),
    (50, 11, 11, 0.2, 2.0),
    (50, 11, 11, 0.0, 2.0),
    (50, 11, 11, 1.0, 1.0),
    (200, 25, 25, 0.3, 1.0),
    (100, 5, 5, 0.5, 1.0),
    (50, 3, 3, 0.5, 1.0),
    (50, 16, 8, 0.5, 1.0),
    (100, 20, 2, 0.5, 1.0),
    (100, 20, 2, 0.0, 3.0),
    (100, 20, 1, 0.5, 1.0),
    (50, 400, 8, 0.5, 1.0),
)


def sample(
    rng: np.random.Generator, n_images: int, n_people: int, n_each: int, of_people: float, of_both: float
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of each image and person, and who saw which image, (n_images, n_people) each; the true mean is 0."""
    saw = np.argsort(rng.random((n_images, n_people)), axis=1) < n_each
    values = rng.normal(size=(n_images, 1)) + of_people * rng.normal(size=n_people)
    return values + of_both * rng.normal(size=saw.shape), saw


def table_of(values: np.ndarray, saw: np.ndarray) -> PerImage:
    """The scores of the images, with those without one of their people."""
    images, observers = np.nonzero(saw)
    sums, counts = (values * saw).sum(axis=1), saw.sum(axis=1)
    with np.errstate(invalid="ignore"):  # an image has nothing without its only observer
        without = (sums[images] - values[images, observers]) / (counts[images] - 1)
    names = [str(index) for index in range(len(values))]
    scores = {"model": {"nss": sums / counts}}
    return PerImage(names, scores, left_out=LeftOut(observers, {"model": {"nss": without}}, images))


def bootstrap(rng: np.random.Generator, values: np.ndarray, saw: np.ndarray) -> list[float]:
    """The 95% interval of the means of images and people that are drawn with replacement."""
    n_images, n_people = saw.shape
    people = rng.multinomial(n_people, np.full(n_people, 1 / n_people), REPLICATES)
    images = rng.multinomial(n_images, np.full(n_images, 1 / n_images), REPLICATES)
    counts = people @ saw.T
    scores = (people @ (values * saw).T) / np.maximum(1, counts)  # an image without any of its people drops out
    means = (images * scores).sum(axis=1) / (images * (counts > 0)).sum(axis=1)
    return [float(end) for end in np.percentile(means, [2.5, 97.5])]


def main() -> None:
    """Print the share of the intervals that contain the true mean, with their mean length."""
    print("| images | people | of an image | effect of people | of both | images alone | evaluation | bootstrap |")
    print("|---" * 8 + "|")
    for design in DESIGNS:
        rng, found = np.random.default_rng(0), []
        for _ in range(SAMPLES):
            values, saw = sample(rng, *design)
            table = table_of(values, saw)
            alone = confidence.mean_interval(table.values("model", "nss"))
            found.append([alone, table.intervals("model", 0.95)["nss"], bootstrap(rng, values, saw)])
        low, high = np.moveaxis(np.array(found, np.float64), -1, 0)
        held, lengths = ((low <= 0) & (high >= 0)).mean(axis=0), (high - low).mean(axis=0)
        cells = [f"{share:.1%} ({length:.2f})" for share, length in zip(held, lengths, strict=True)]
        print(f"| {' | '.join(map(str, design))} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
