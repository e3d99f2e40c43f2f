"""The words for scores, gains and their significance: for pages, terminals and error messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.artifacts import TEST_SUFFIX
from trainer.evaluation.confidence import MIN_IMAGES, Gain, Share

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
FEW_IMAGES = 10
"""Shares of the way over fewer images get a warning."""
LARGEST_PERCENT = 1000
"""A share beyond this, positive or negative, means only that the images are too few for it."""
BETTER, WORSE, NOT_SIGNIFICANT, SAME = "better", "worse", "not significant", "the same"


def significance(gain: Gain) -> str:
    """BETTER or WORSE if the interval excludes 0, else NOT_SIGNIFICANT; SAME if no image has a difference."""
    if not (gain.better_on or gain.worse_on):
        return SAME
    if gain.low is not None and gain.low > 0:
        return BETTER
    return WORSE if gain.high is not None and gain.high < 0 else NOT_SIGNIFICANT


def p_value_text(value: float) -> str:
    """A p-value with three decimals, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def percent(level: float) -> str:
    """A confidence level of 0..1 as a percentage, such as `95%`."""
    return f"{100 * level:g}%"


def signed(value: float | None) -> str:
    """Four decimals with a sign; no sign if they are all 0."""
    text = f"{value:+.4f}"
    return (text if text.strip("+-0.") else "0.0000").replace("-", MINUS)


def too_few(n_images: int, level: float) -> str:
    """A clause for comparisons without a confidence interval."""
    images = "1 image is" if n_images == 1 else f"{n_images:,} images are"
    return f"{images} too few for a {percent(level)} confidence interval, which needs {MIN_IMAGES} or more"


def size_text(size: tuple[int, int]) -> str:
    """Height and width with a multiplication sign, such as `240 x 320`."""
    return f"{size[0]} {TIMES} {size[1]}"


def share_text(share: Share) -> str:
    """A share of the way to the ceiling in percent, with its interval, such as `80% (74 to 86)`.

    Numbers beyond LARGEST_PERCENT are only named as such, such as `65% (< -1000 to 81)`.
    """
    if share.share is None or share.low is None or share.high is None:
        return "undefined"
    point, low, high = map(_bounded_percent, (share.share, share.low, share.high))
    return f"{point}% ({low} to {high})"


def _bounded_percent(share: float) -> str:
    value = round(100 * share)
    sign = ("< " if value < 0 else "> ") if abs(value) > LARGEST_PERCENT else ""
    return f"{sign}{max(-LARGEST_PERCENT, min(value, LARGEST_PERCENT))}".replace("-", MINUS)


def share_notes(undefined: Sequence[str], n_metrics: int, n_images: int, level: float) -> list[str]:
    """Sentences about the shares of the way: why some of `n_metrics` have none, and that few images say little."""
    notes, is_few = [], n_images < FEW_IMAGES
    images = f"{'only ' if is_few else ''}{n_images:,} image{'' if n_images == 1 else 's'}"
    if undefined:
        remedy = "; more images are needed" if is_few else ""
        notes.append(
            f"Undefined for {', '.join(undefined)}: over {images}, the {percent(level)} confidence interval of "
            f"people's gain over the centre bias does not lie above 0{remedy}."
        )
    if is_few and len(undefined) < n_metrics:
        notes.append(f"Over {images}, these shares say little.")
    return notes


def ceiling_scope(ceiling: Mapping[str, Any]) -> str:
    """The images and observers of a ceiling, as one sentence."""
    fewest, _, most = ceiling["n_observers"]
    observers = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    left_out = ceiling["n_too_few"]
    rest = f" ({left_out:,} with fewer than two left out)" if left_out else ""
    n_images, n_all = ceiling["n_images"], ceiling["n_chosen_of"]
    images = (
        f"{n_images:,} of {n_all:,} images, chosen at random,"
        if n_images + left_out < n_all
        else f"{n_images:,} images"
    )
    return f"{images} with {observers} observers each{rest}"


def images_of(name: str) -> str:
    """What the images of a dataset of an evaluation are called, such as `test images of osie`."""
    is_test_set = name.endswith(TEST_SUFFIX)
    return f"test images of {name.removesuffix(TEST_SUFFIX)}" if is_test_set else f"validation images of {name}"
