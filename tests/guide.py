"""The pages of the documentation, with their commands."""

import dataclasses
import pathlib
import re
import shlex
import shutil

ROOT = pathlib.Path(__file__).parent.parent
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
GCLOUD = shutil.which("gcloud") or ""


@dataclasses.dataclass(frozen=True)
class Page:
    """A page of the documentation, by its path in the repository."""

    name: str

    @property
    def path(self) -> pathlib.Path:
        return ROOT / self.name

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def prose(self) -> str:
        """The page without its blocks."""
        return BLOCK.sub("", self.text)

    def part(self, first: str, last: str = "") -> str:
        """The sections from the one whose heading begins with `first` to the one of `last`, or to the end."""
        sections = re.split(r"(?m)^(?=## )", self.text)
        (start,) = [index for index, each in enumerate(sections) if each.startswith(f"## {first}")]
        ends = [index for index, each in enumerate(sections) if last and each.startswith(f"## {last}")]
        return "".join(sections[start : ends[0] + 1 if ends else len(sections)])

    @property
    def spans(self) -> list[str]:
        """The code within sentences."""
        return re.findall(r"`([^`\n]+)`", self.prose)

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command in a block of shell, up to its redirection."""
        blocks = [text for language, text in BLOCK.findall(self.text) if language == "sh"]
        lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
        parts = [part for line in lines for part in re.split(r" && | > ", line) if part.strip()]
        return [words for part in parts if (words := shlex.split(part, comments=True))]


PAGES = [
    Page(name) for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md")
]
PAGES += [Page(path.relative_to(ROOT).as_posix()) for path in sorted((ROOT / "docs").rglob("*.md"))]
RESEARCH = [Page(path.relative_to(ROOT).as_posix()) for path in sorted((ROOT / "research").glob("*.md"))]
"""Pages of evidence, whose links are checked and whose commands are not: they are those of their day."""
