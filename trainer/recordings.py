"""The settings of the user's own recordings (the dataset `custom`): how they are written."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from trainer.errors import UserError, check

CUSTOM = "custom"
"""Name of the dataset that is the user's own recordings."""
COORDINATES = ("auto", "pixels", "fraction", "degrees")
SPLITS = ("auto", "shuffle", "folders", "column")
COLUMNS = ("image", "x", "y", "observer", "trial", "duration", "time", "fixation", "valid", "event", "split")
"""The roles that a column of a table can have."""
SETTINGS = ("columns", "coordinates", "screen_size", "image_on_screen", "blur_px", "pixels_per_degree", "split")
"""Fields of `FetchConfig` that describe the user's own recordings."""


def check_settings(settings: Any) -> None:
    """Raise `UserError` if a setting of a `FetchConfig` is malformed, or needs another that is not given."""
    parse_columns(settings.columns)
    check(
        settings.coordinates != "degrees" or settings.pixels_per_degree > 0,
        "coordinates is degrees, but pixels_per_degree is not given; set it to the pixels of one degree",
    )
    if settings.screen_size:
        parse_screen_size(settings.screen_size)
    check(
        settings.image_on_screen != "fit" or bool(settings.screen_size),
        "image_on_screen is fit, but screen_size is not given; set it, such as 1080x1920",
    )


def check_used(configs: Sequence[Any]) -> None:
    """Raise `UserError` if a `FetchConfig` describes one's own recordings, but none has the dataset `custom`."""
    if any(config.dataset == CUSTOM for config in configs):
        return
    for config in configs:
        for field in dataclasses.fields(config):
            if field.name in SETTINGS and getattr(config, field.name) != field.default:
                raise UserError(
                    f"{field.name} describes recordings of your own (dataset {CUSTOM}), but the dataset is "
                    f"{config.dataset}; leave it out"
                )


def parse_screen_size(text: str) -> tuple[int, int]:
    """(height, width) in pixels of a text such as `1080x1920`; raises `UserError` if it is malformed."""
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise UserError(f"screen_size is {text!r}; write height x width in pixels, such as 1080x1920")
    return int(match[1]), int(match[2])


def parse_columns(text: str) -> dict[str, str]:
    """Parse a text such as `image=stimulus,x=gx,y=gy`: role in COLUMNS -> name of the column.

    Raises:
        UserError: the text is malformed, or names something unknown.
    """
    if re.search(rf";\s*({'|'.join(COLUMNS)})\s*=", text):
        raise UserError(f"columns is {text!r}; separate the pairs with commas")
    named: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(f"columns is {text!r}; write pairs such as image=stimulus,x=gx,y=gy")
        if role not in COLUMNS:
            raise UserError(f"columns names {role!r}; what a column may hold is: {', '.join(COLUMNS)}")
        if role in named:
            raise UserError(f"columns names {role} twice: {named[role]} and {name}; keep one")
        named[role] = name
    if ("x" in named) != ("y" in named):
        raise UserError(f"columns is {text!r}; name both x and y, or neither")
    return named
