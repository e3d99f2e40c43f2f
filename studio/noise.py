"""How far a share moves when nothing changes for people, so that a limit inside of it is told."""

from trainer.api import Change

SMALL_SHARE, SMALL_PART = 0.03, 0.5
"""A share below the first moves by up to the second, as a part of itself, when a page moves by 1 to 4 pixels."""
CAUSE = "when the same image is saved again, scaled or moved by 4 pixels"


def noise_of(share: float) -> float:
    """Return the part of its share, 0..1, that a region may lose though nothing changes for people.

    Example:
        >>> noise_of(0.1), noise_of(0.4), noise_of(0.01)
        (0.25, 0.1, 0.5)
    """
    return SMALL_PART if share < SMALL_SHARE else min(Change.CLEAR_PART, Change.CLEAR_SHARE / share)
