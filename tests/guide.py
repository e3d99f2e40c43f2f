"""Reads the commands of a page of docs/, and lets bash run them with programs that note their arguments."""

import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from tests.infra import blocks, environment_text, filled
from tests.vertex import PROJECT

DOCS = pathlib.Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("gcloud", "terraform", "python", "make")
BUILTINS = ("export", "unset", "source")
COMMAND = rf"(?:python -m|{'|'.join(PROGRAMS[:2])}|make) "
FILLED_IN = {"=my-project": f"={PROJECT}", "you@example.com": "ann@example.org"}
"""An example of the pages -> what a reader writes in its place."""
GCLOUD = shutil.which("gcloud") or ""
PREAMBLE = r"""
set -euo pipefail
note() { printf '%s\x1f' "$@" >> "$NOTES"; printf '\x1e' >> "$NOTES"; }
python() { note python "$@"; }
make() { note make "$@"; }
terraform() {
  note terraform "$@"
  if [[ $2 == output ]]; then local name="OUT_${!#}"; printf '%s' "${!name}"; fi
}
gcloud() {
  note gcloud "$@"
  if [[ $1 == config && -n $REAL_GCLOUD ]]; then "$REAL_GCLOUD" "$@" --quiet; fi
}
"""
"""What bash finds in place of the programs. `gcloud config` needs no network: the real one runs too."""


@dataclasses.dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    name: str

    @property
    def text(self) -> str:
        """The page."""
        return (DOCS / self.name).read_text()

    @property
    def prose(self) -> str:
        """The page without its blocks."""
        return BLOCK.sub("", self.text)

    @property
    def commands(self) -> list[str]:
        """Each line of a block of shell, and each command in a sentence, in the order of the page."""
        found = []
        for part in re.finditer(rf"{BLOCK.pattern}|`({COMMAND}[^`]*)`", self.text, BLOCK.flags):
            language, block, inline = part.groups()
            if inline:
                found.append(" ".join(inline.split()))
            elif language == "sh":
                lines = block.replace("\\\n", " ").splitlines()
                found += [" ".join(line.split()) for line in lines if line.strip()]
        return found

    @property
    def spans(self) -> list[str]:
        """The code within sentences."""
        return re.findall(r"`([^`]+)`", self.prose)


@functools.cache
def run(page: Page) -> list[list[str]]:
    """Each call of a program by the commands of the page, with the name of the program, as bash makes it."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(page, pathlib.Path(folder))


def _run(page: Page, folder: pathlib.Path) -> list[list[str]]:
    for name in ("configs", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    (folder / ".venv/bin/activate").touch()
    # The names of the first line hold for every page.
    script = "\n".join([PREAMBLE, Page("vertex.md").commands[0], *page.commands])
    for example, own in FILLED_IN.items():
        script = script.replace(example, own)
    notes = folder / "notes"
    outputs = {f"OUT_{name}": filled(str(body["value"])) for name, body in blocks("output").items()}
    variables = {"NOTES": str(notes), "REAL_GCLOUD": GCLOUD, "CLOUDSDK_CONFIG": str(folder / "gcloud")}
    environment = os.environ | outputs | {"OUT_environment": environment_text()} | variables
    finished = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    return [call.split("\x1f")[:-1] for call in notes.read_text().split("\x1e")[:-1]]
