"""Writes the sections of docs/datasets.md from `trainer.datasets.table`: `python -m tests.dataset_page`."""

import pathlib
import re

from trainer.datasets.table import DATASETS, Dataset
from trainer.places.places import DrivePlace, place_of

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "datasets.md"
BLOCK = re.compile(r"(?s)(?<=\n## One by one\n).*?(?=\n## )")
WIDTH = 40
STANDS_FOR = {"{name}": "NAME", "{suffix}": "png", "{split}": "SPLIT", "{folder}": "CATEGORY"}
SPLITS = {
    "given": "its folders `train/` and `val/`",
    "shuffle": "seeded shuffle",
    "shuffle_per_category": "seeded shuffle of each category",
}
LEGEND = """"MD5" marks an archive with a known MD5. Sizes are height x width. The seeded shuffle is from the
original MSI-Net code. A map shows where people looked, as a density.

"""
"""What the lines of the sections mean."""
HOLDS = {
    "stimulus": "image",
    "map": "map",
    "fixations": "fixations",
    "split": "split",
}


def link(place) -> str:
    """A link to an archive, and whether its MD5 is known.

    Cloud Storage and Google Drive are linked by the address that a browser takes.
    """
    address = place.address
    if isinstance(on_drive := place_of(address), DrivePlace):
        address = f"https://drive.google.com/uc?id={on_drive.drive_id}"
    linked = f"[{place.name}]({address.replace('gs://', 'https://storage.googleapis.com/')})"
    return f"{linked} (MD5)" if place.digest else linked


def tree(row: Dataset) -> list[str]:
    """A line for each kind of file that is used."""
    kinds = [(rule.path, HOLDS[rule.role] + (" of all images" if rule.reader else "")) for rule in row.files]
    if not kinds:
        kinds = [("stimuli/{name}.jpg", HOLDS["stimulus"]), ("fixation/{name}.png", HOLDS["map"])]
    for old, new in STANDS_FOR.items():
        kinds = [(path.replace(old, new), holds) for path, holds in kinds]
    return [f"{path:<{WIDTH}} {holds}" for path, holds in kinds]


def section(name: str, row: Dataset) -> str:
    """The section of a dataset. Its home and its numbers of images are in the table of the page."""
    height, width = row.image_size
    tables = [rule.path for rule in row.files if rule.role == "split"]
    split = f"its table `{tables[0]}`" if tables else SPLITS[row.split]
    lines = [f"### {name}"]
    lines += [f"- **Archives**: {', '.join(map(link, row.archives))}", f"- **Licence**: {row.licence}"]
    lines += [f"- **Split**: {split}. **Network input**: {height} x {width}"]
    if not any(rule.role == "map" for rule in row.files) and row.files:
        lines += [f"- **Maps**: a Gaussian of {row.blur_sigma_px:g} px at each point"]
    return "\n".join([*lines, "", "```text", *tree(row), "```", ""])


def sections() -> str:
    """The text below the heading: a section for each public dataset."""
    return LEGEND + "\n".join(section(name, row) for name, row in DATASETS.items() if row.archives)


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: sections(), PAGE.read_text()))
