"""Read the regions of a JSON file: one that the demo's page saves, or that `predict --json` writes."""

import os
import pathlib

from trainer.errors import check
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
    content = read_json(pathlib.Path(path), REMEDY, list[MarkedRegion] | Predicted)
    regions = _marked(content) if isinstance(content, list) else _predicted(content)
    check(bool(regions), f"{printable(str(path))} has no regions: {REMEDY}")
    return regions


def _marked(entries: list[MarkedRegion]) -> list[Region]:
    first = [entry for entry in entries if entry["picture"] == entries[0]["picture"]]
    return [parse_region("{region}:{x!r},{y!r},{width!r},{height!r}".format_map(entry)) for entry in first]


def _predicted(content: Predicted) -> list[Region]:
    regions = (image["regions"] for image in content["images"] if image.get("regions"))
    first: list[WrittenRegion] = next(regions, [])
    return [parse_region(each["region"]) for each in first]
