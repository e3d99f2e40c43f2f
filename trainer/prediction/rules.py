"""The numbers by which maps are cut into screens and drawn, for programs in other languages."""

from typing import Any

from trainer.prediction.heat import CHANGE, DIMMED, HEAT, OPACITY
from trainer.prediction.screens import ONE_SCREEN, SCREENS, TALL


def drawing_rules() -> dict[str, Any]:
    """Return what a page in a browser needs to cut and draw maps as Python does, as values for JSON.

    Returns:
        - `screens`: kind of screen -> [width, height], pixels, such as `"phone": [390, 844]`
        - `tall`, `one_screen`: ratios of height and width, as in `trainer.prediction.screens`
        - `heat`, `change`: 256 colours each, such as `"#000004"`
        - `change_limit`: difference of two maps, each divided by its mean, that gets the last colour
        - `opacity`, `dimmed`: as in `trainer.prediction.heat`
    """
    return {
        "screens": {name: [width, height] for name, (height, width) in SCREENS.items()},
        "tall": TALL,
        "one_screen": ONE_SCREEN,
        "heat": HEAT.stops(256),
        "change": CHANGE.stops(256),
        "change_limit": CHANGE.limit,
        "opacity": OPACITY,
        "dimmed": DIMMED,
    }
