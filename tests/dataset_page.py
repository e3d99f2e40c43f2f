"""Writes the sections of docs/datasets.md from `trainer.data.datasets`: `python -m tests.dataset_page`."""

import pathlib
import re

from trainer.data.datasets import DATASETS, DRIVE, OWN_SHARE, Dataset
from trainer.data.source_layout import ROLES

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "datasets.md"
BLOCK = re.compile(r"(?s)(?<=\n## One by one\n).*?(?=\n## )")
WIDTH = 40
STANDS_FOR = {"{name}": "NAME", "{suffix}": "png", "{split}": "SPLIT", "{folder}": "CATEGORY"}
SPLITS = {
    "given": "by its folders `train/` and `val/`",
    "shuffle": "by the seeded shuffle of the original MSI-Net code",
    "shuffle_per_category": "by the same seeded shuffle in each category",
}
HOLDS = {
    "stimulus": "image",
    "map": "map: where people looked, as a density",
    "fixations": "fixations",
    "split": "split",
}


def link(place) -> str:
    """A link to an archive; Cloud Storage and Google Drive by the address that a browser takes."""
    address = place.address
    if address.startswith(DRIVE):
        address = f"https://drive.google.com/uc?id={address.removeprefix(DRIVE)}"
    return f"[{place.name}]({address.replace('gs://', 'https://storage.googleapis.com/')})"


def tree(row: Dataset) -> list[str]:
    """A line for each kind of file that is used."""
    kinds = [(rule.path, HOLDS[rule.role] + (" of all images" if rule.reader else "")) for rule in row.files]
    if not kinds and row.archives:
        kinds = [("stimuli/{name}.jpg", HOLDS["stimulus"]), ("fixation/{name}.png", HOLDS["map"])]
    elif not kinds:
        kinds = [(f"{folder}/{{name}}.png", HOLDS[ROLES[folder]]) for folder in ("stimuli", "maps", "fixations")]
    for old, new in STANDS_FOR.items():
        kinds = [(path.replace(old, new), holds) for path, holds in kinds]
    return [f"{path:<{WIDTH}} {holds}" for path, holds in kinds]


def section(name: str, row: Dataset) -> str:
    """The section of a dataset."""
    height, width = row.image_size
    tables = [rule.path for rule in row.files if rule.role == "split"]
    split = f"by its table `{tables[0]}`" if tables else SPLITS[row.split]
    counts = f"{row.n_train:,} for training, {row.n_valid:,} for validation, split {split}"
    if row.any_count:
        kept, whole = OWN_SHARE
        counts = f"any number; {kept} of {whole} are for training, unless folders or a column say otherwise"
    lines = [f"### {name}"]
    lines += [f"- **Home**: <{row.homepage}>"] if row.homepage else ["- **Home**: your own recordings"]
    if row.archives:
        known = ", ".join(each.name for each in row.archives if each.digest) or "none"
        lines += [f"- **Archives**: {', '.join(map(link, row.archives))}; with a published digest: {known}"]
        lines += [f"- **Licence**: {row.licence}"]
    lines += [f"- **Images**: {counts}", f"- **Network input**: {height} x {width} (height x width)"]
    if not any(rule.role == "map" for rule in row.files) and row.files:
        lines += [f"- **Maps**: made from the points with a Gaussian of {row.blur_sigma_px:g} px"]
    lines += [f"- **Cite**: {row.citation}"] if row.citation else []
    return "\n".join([*lines, "", "```text", *tree(row), "```", ""])


def sections() -> str:
    """The text below the heading."""
    return "\n".join(section(name, row) for name, row in DATASETS.items())


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: sections(), PAGE.read_text()))
