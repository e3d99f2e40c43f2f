"""Reads the regions of a JSON file: one that the demo's page saves, or that `predict --json` writes."""

import os
import pathlib
from typing import Any

from trainer import schema
from trainer.errors import ContentError, check
from trainer.files import read_json
from trainer.prediction.regions import Region, parse_region
from trainer.records import MarkedRegion, Predicted, WrittenRegion
from trainer.text import printable

REMEDY = "give the JSON file of regions that the demo's page saves, or that `predict --region ... --json` writes"


def read_regions(path: str | os.PathLike[str]) -> list[Region]:
    """Read the regions of the first picture in a file that has some, in the order of the file.

    Raises:
        UserError: it cannot be read, is another file, or has no regions.
    """
    content = read_json(pathlib.Path(path), REMEDY, Any)
    place = printable(str(path))
    try:
        regions = _marked(content) if isinstance(content, list) else _predicted(content)
    except schema.MismatchError as error:
        raise ContentError(f"{place} is not a file of regions ({error}): {REMEDY}") from None
    check(bool(regions), f"{place} has no regions: {REMEDY}")
    return regions


def _marked(content: list[Any]) -> list[Region]:
    entries: list[MarkedRegion] = schema.read(content, list[MarkedRegion])
    first = [entry for entry in entries if entry["picture"] == entries[0]["picture"]]
    return [parse_region("{region}:{x!r},{y!r},{width!r},{height!r}".format_map(entry)) for entry in first]


def _predicted(content: Any) -> list[Region]:
    images = schema.read(content, Predicted)["images"]
    first: list[WrittenRegion] = next((image["regions"] for image in images if image.get("regions")), [])
    return [parse_region(each["region"]) for each in first]
