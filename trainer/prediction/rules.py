"""The numbers by which images are told apart, cut into screens and drawn, for programs in other languages."""

from typing import Any

from trainer.prediction.heat import CHANGE, DIMMED, HEAT, OPACITY
from trainer.prediction.kinds import DRAWN, EDGE, MOST_PX, RUN_PX, WIDE
from trainer.prediction.screens import DESKTOP_PX, NARROWEST_PX, ONE_SCREEN, SCREENS, TALL


def drawing_rules() -> dict[str, Any]:
    """Return what a page in a browser needs to see images and draw maps as Python does, as values for JSON.

    Returns:
        - `screens`: kind of screen -> [width, height], pixels, such as `"phone": [390, 844]`
        - `tall`, `one_screen`: ratios of height and width, as in `trainer.prediction.screens`
        - `narrowest_px`, `desktop_px`: widths, likewise
        - `page`: the numbers of `trainer.prediction.kinds`, in lower case, such as `"drawn": 0.015`
        - `heat`, `change`: 256 colours each, such as `"#000004"`
        - `change_limit`: difference of two maps, each divided by its mean, that gets the last colour
        - `opacity`, `dimmed`: as in `trainer.prediction.heat`
    """
    return {
        "screens": {name: [width, height] for name, (height, width) in SCREENS.items()},
        "tall": TALL,
        "one_screen": ONE_SCREEN,
        "narrowest_px": NARROWEST_PX,
        "desktop_px": DESKTOP_PX,
        "page": {"wide": WIDE, "most_px": MOST_PX, "run_px": RUN_PX, "edge": EDGE, "drawn": DRAWN},
        "heat": HEAT.stops(256),
        "change": CHANGE.stops(256),
        "change_limit": CHANGE.limit,
        "opacity": OPACITY,
        "dimmed": DIMMED,
    }
