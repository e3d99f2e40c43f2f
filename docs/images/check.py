"""Make the picture of docs/check.md: docs/images/check.jpg.

python -m docs.images.check pretrained      # a model as for `check --model`; a minute
"""

import contextlib
import os
import pathlib
import sys
import tempfile

from PIL import Image

from trainer.__main__ import main

ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = ROOT / "examples" / "landing.html"


def draw(model: str) -> None:
    """Write the map of the example's page, as `check --output-dir` does."""
    arguments = [
        str(PAGE),
        "--baseline",
        f"{PAGE}#b",
        "--selector",
        "#buy",
        "--selector",
        "#photo",
        "--max-drop",
        "20%",
    ]
    arguments += ["--no-sandbox"] * (os.geteuid() == 0)
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(SystemExit):  # the button falls short
            main(["check", *arguments, "--model", model, "--output-dir", folder])
        picture = Image.open(pathlib.Path(folder, "design-attention.png"))
        picture.save(ROOT / "docs" / "images" / "check.jpg", quality=88)


if __name__ == "__main__":
    draw(sys.argv[1])
