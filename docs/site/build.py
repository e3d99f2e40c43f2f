"""Build the site from the pages of the repository: `make docs` runs this, and it needs no network.

The pages link to one another, to pictures and to files of the repository. Zensical reads one folder, so they and
all files that they link to are copied into build/docs/pages with the same layout, and the site is built beside it.
The reference of the Python API is made from docstrings. A link of a built page that leads nowhere is an error.
"""

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

from docs.site import links

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "docs"
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "examples/README.md",
    "tests/golden/README.md",
)
"""Pages outside of docs/."""
API = ("trainer.api",)
"""The public API."""
MODULES = (
    "trainer.config",
    "trainer.datasets",
    "trainer.accelerators",
    "trainer.metric_table",
    "trainer.metrics",
    "trainer.losses",
    "trainer.model",
    "trainer.preprocess",
    "trainer.artifacts",
)
"""Modules that people read to understand the numbers."""
FENCE = re.compile(r"( *)(`{3,}|~{3,})")
BLOCK = re.compile(r" {0,3}([-*] |\d+\. |\|)")
"""Begin of a list or a table."""


def main() -> None:
    shutil.rmtree(BUILD, ignore_errors=True)
    pages = BUILD / "pages"
    for source in [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]:
        text = source.read_text()
        for target in sorted(linked_files(source, text)):
            copy = pages / target.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, copy)
        name = "index.md" if source == ROOT / "README.md" else source.relative_to(ROOT)
        _write(pages / name, readable(text))
    _write(pages / "reference" / "api.md", _reference("Python API", API))
    _write(pages / "reference" / "modules.md", _reference("Modules", MODULES))
    shutil.copyfile(pathlib.Path(__file__).with_name("zensical.toml"), BUILD / "zensical.toml")
    command = [pathlib.Path(sys.executable).with_name("zensical"), "build", "--strict"]
    if subprocess.run(command, cwd=BUILD, check=False).returncode:
        sys.exit("error: the site could not be built, as said above; correct the page")
    if broken := links.broken(BUILD / "site"):
        sys.exit("\n".join([*broken, f"error: {len(broken)} links of the site lead nowhere; correct them"]))
    print(f"built {BUILD.relative_to(ROOT)}/site; open its index.html in a browser")


def linked_files(page: pathlib.Path, text: str) -> set[pathlib.Path]:
    """The files of the repository that a page links to, other pages apart."""
    targets = (page.parent / target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target)
    return {path.resolve() for path in targets if path.is_file() and path.suffix != ".md"}


def readable(text: str) -> str:
    """A page for Python-Markdown, which reads lists, tables, and code in lists less freely than GitHub does."""
    lines: list[str] = []
    fence = shift = ""
    for line in text.splitlines():
        previous = lines[-1] if lines else ""
        found = FENCE.match(line)
        if found and not fence:
            fence, shift = found[2], " " * (4 - len(found[1])) if 0 < len(found[1]) < 4 else ""
        elif found and found[2] == fence:
            fence = ""
        elif not fence:
            shift = ""
            after_text = previous.strip() and not previous.startswith(" ") and not BLOCK.match(previous)
            if after_text and BLOCK.match(line):
                lines.append("")
        lines.append(shift + line)
    return "\n".join(lines) + "\n"


def _reference(title: str, modules: Sequence[str]) -> str:
    """A page with the docstrings of modules."""
    return "\n".join([f"# {title}", "", *(f"::: {module}\n" for module in modules)])


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main()
