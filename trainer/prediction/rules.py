"""The numbers by which images are told apart, cut into screens and drawn, for programs in other languages."""

from typing import Any

from trainer.prediction import kinds
from trainer.prediction.heat import CHANGE, GROUND, HEAT, OPACITY, STRENGTHS
from trainer.prediction.screens import DESKTOP_PX, NARROWEST_PX, SCREENS


def drawing_rules() -> dict[str, Any]:
    """Return what a page in a browser needs to see images and draw maps as Python does, as values for JSON.

    Returns:
        - `screens`: kind of screen -> its height, divided by its width
        - `narrowest_px`, `desktop_px`: least widths, as in `trainer.prediction.screens`
        - `content`: the numbers of `trainer.prediction.kinds`
        - `heat`, `change`: 256 colours each, such as `"#000004"`
        - `strengths`: how much of each colour of `heat` is shown, 0..1
        - `change_limit`: difference of two maps, each divided by its mean, that gets the last colour
        - `opacity`, `ground`: as in `trainer.prediction.heat`
    """
    return {
        "screens": SCREENS,
        "narrowest_px": NARROWEST_PX,
        "desktop_px": DESKTOP_PX,
        "content": {
            "drawn": kinds.DRAWN,
            "most_px": kinds.MOST_PX,
            "run_px": kinds.RUN_PX,
            "edge": kinds.EDGE,
            "small_text": kinds.SMALL_TEXT,
            "strips": kinds.STRIPS,
            "strokes": kinds.STROKES,
            "thinnest": kinds.THINNEST,
        },
        "heat": HEAT.stops(256),
        "strengths": STRENGTHS.tolist(),
        "change": CHANGE.stops(256),
        "change_limit": CHANGE.limit,
        "opacity": OPACITY,
        "ground": GROUND,
    }
