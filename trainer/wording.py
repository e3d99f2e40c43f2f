"""Numbers in words: levels, gains, sizes, and numbers of images, for sentences, tables and pages."""

from collections.abc import Sequence

__all__ = [
    "MINUS",
    "TIMES",
    "count_text",
    "in_groups",
    "p_value_text",
    "percent",
    "signed",
    "size_text",
    "too_few",
]

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"


def p_value_text(value: float) -> str:
    """A p-value with three decimals, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def percent(level: float) -> str:
    """A confidence level of 0..1 as a percentage, such as `95%` or `99.9%`."""
    return f"{100 * level:.4g}%"


def signed(value: float | None) -> str:
    """Four decimals with a sign, such as `+0.0521`. No sign if they are all 0."""
    text = f"{value:+.4f}"
    return (text if text.strip("+-0.") else "0.0000").replace("-", MINUS)


def count_text(n: int, of_groups: bool) -> str:
    """A number of images, or of groups of images, such as `12 groups`."""
    return f"{n:,} {'group' if of_groups else 'image'}{'' if n == 1 else 's'}"


def in_groups(n_units: int, n_images: int) -> str:
    """Say that images belong to `n_units` groups, such as ` in 12 groups`. Empty if none belong together."""
    return f" in {count_text(n_units, of_groups=True)}" if n_units < n_images else ""


def too_few(n_images: int, level: float, of_groups: bool, least: int) -> str:
    """A clause for comparisons without a confidence interval, which needs `least` images or groups.

    Example: `1 image is too few for a 95% confidence interval, which needs 2 or more`.
    """
    images = f"{count_text(n_images, of_groups)} {'is' if n_images == 1 else 'are'}"
    return f"{images} too few for a {percent(level)} confidence interval, which needs {least} or more"


def size_text(size: Sequence[int]) -> str:
    """Height and width with a multiplication sign, such as `240 x 320`."""
    return f"{size[0]} {TIMES} {size[1]}"
