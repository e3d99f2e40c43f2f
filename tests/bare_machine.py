"""Types the commands of a page as its reader does, where nothing is lent: `python3 -m tests.bare_machine PAGE...`.

Each block of `sh` and `python` runs in the page's order, in one shell, in a new clone of this repository below an
empty home. A page of PAGES_OF_SECTIONS has several readers: each of its sections starts from a clone of its own.
What cannot run as it is written has a mark in MARKS. This module needs Python alone, since its machine has nothing
else. `.ci/on_debian trixie python3 -m tests.bare_machine README.md` makes such a machine.
"""

import dataclasses
import os
import pathlib
import random
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator

from tests.guide import BLOCK, ROOT

BUILT_FOR_TENSORFLOW = sys.version_info < (3, 14)
"""Whether this machine's Python has a TensorFlow. Where it has none, the commands that need one must say so."""
REFUSAL = "TensorFlow 2.20 is built for Python 3.11 to 3.13"
PAGES_OF_SECTIONS = ("README.md",)
SHELL = f"""
set -e
say() {{ printf '== %s\\n' "$1"; }}
serve() {{
  local address=$1; shift
  set -m; "$@" & set +m
  for _ in {{1..900}}; do
    {shlex.quote(sys.executable)} -c "from urllib import request as r; r.urlopen('$address')" 2>/dev/null && break
    kill -0 $! || {{ say "ended, and did not serve $address"; exit 1; }}
    sleep 1
  done
  kill -INT -- -$!; wait $! || true
}}
refused() {{
  local said
  said=$("$@" 2>&1) && {{ say "was not refused"; exit 1; }}
  grep --quiet "{REFUSAL}" <<<"$said" || {{ printf '%s\\n' "$said"; exit 1; }}
  say "refused, as it must be with this Python"
}}
"""
"""What the script of a page calls. `serve` waits until a command's address answers, then sends Ctrl-C."""


@dataclasses.dataclass(frozen=True)
class Skip:
    """A command that is not run."""

    why: str


@dataclasses.dataclass(frozen=True)
class More:
    """A command that is run with words added to it."""

    words: str
    why: str


@dataclasses.dataclass(frozen=True)
class Serve:
    """A command that serves an address until Ctrl-C, which it is sent once the address answers."""

    address: str


Mark = Skip | More | Serve
DEMO = Serve("http://127.0.0.1:8000")
DOWNLOADS = Skip("it downloads datasets from their authors' servers")
CLOUD = Skip("it needs a project on Google Cloud, and the tests of guides of services walk it")
SMALL = More("finetune_image_size=72x96", "minutes in place of a quarter of an hour")
BROWSER = Skip("it needs Chromium, with which tests/studio opens pages")
SERVER = Skip("it needs Docker and a version of one's own, and tests/serving sends its requests")
NPM = Skip("it needs npm, with which tests/studio builds the page")

OWN = (
    "make run-pipeline base_model_uri=pretrained finetune_dataset=custom finetune_source=FOLDER "
    "coordinates=pixels recipe=small"
)

MARKS: dict[str, dict[str, Mark]] = {
    "README.md": {
        OWN: SMALL,
        "make run-pipeline base_source=": DOWNLOADS,
        "make run-pipeline TARGET=vertex": CLOUD,
        "make images": CLOUD,
        "python -m pipeline compile --env prod": CLOUD,
        "make schedule": CLOUD,
        "python -m pipeline runs": CLOUD,
        "make demo": DEMO,
        "make test": More(
            "ARGS='-m numerics' && make test ARGS=tests/components",
            "the whole takes minutes, and runs beside this",
        ),
    },
    "docs/quickstart.md": {
        "make demo": DEMO,
        OWN: SMALL,
        "make run-pipeline base_model_uri=pretrained finetune_source=": DOWNLOADS,
        "python -m trainer train --dataset-dir data --output-dir model2": More("--epochs 1", "ten take long"),
        "tensorboard": Serve("http://127.0.0.1:6006"),
    },
    "docs/demo.md": {
        "make demo": DEMO,
        "make demo ARGS='--model models/msinet/3": Skip("a new clone has no third version"),
        "make demo ARGS='--host 0.0.0.0'": Skip("it listens beyond this machine"),
        "make site": NPM,
        "python -m http.server": NPM,
    },
    "docs/check.md": {"python -m studio check examples/landing.html": BROWSER},
    "docs/data.md": {
        "make run-pipeline base_model_uri=pretrained finetune_dataset=osie": DOWNLOADS,
        "make run-pipeline": SMALL,
    },
    "docs/serving.md": {
        "docker": SERVER,
        "python -m pipeline registry": SERVER,
        "curl": SERVER,
        "python -c": SERVER,
        "python docs/serving/client.py": SERVER,
        "gcloud": CLOUD,
        "make run-pipeline": CLOUD,
        "python -m pipeline predict gs://": CLOUD,
    },
    "docs/sweep.md": {
        "python -m pipeline sweep configs/sweeps/finetune.toml --env prod": CLOUD,
        "python -m pipeline sweep configs/sweeps/finetune.toml --trials 10": More("--trials 2", "nine minutes"),
    },
}
"""By page, the commands that do not run as they are written, by their first words; the most words count."""

NEEDS_TENSORFLOW = re.compile(r"make (install|run-pipeline|test)\b|python -m pipeline")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of a page, with the heading above it: one of a shell, or a program in Python."""

    heading: str
    text: str
    language: str = "sh"


def commands(page: str) -> list[Command]:
    """The commands in the blocks of a page, one a line. A line that ends with a backslash goes on in the next."""
    found = []
    text = (ROOT / page).read_text()
    for match in BLOCK.finditer(text):
        language, block = match.groups()
        above = re.findall(r"^## (.*)$", text[: match.start()], re.MULTILINE)
        heading = above[-1] if above else ""
        if language == "python":
            found.append(Command(heading, block, language))
        elif language == "sh":
            lines = re.sub(r"\\\n\s*", "", block).splitlines()
            found += [Command(heading, line.strip()) for line in lines if line.strip()]
    return found


def readings(page: str) -> dict[str, list[Command]]:
    """What each reader of a page types, by the name of the page or of the section."""
    found: dict[str, list[Command]] = {}
    for command in commands(page):
        name = f"{page}, {command.heading}" if page in PAGES_OF_SECTIONS else page
        found.setdefault(name, []).append(command)
    return found


def bare(text: str) -> str:
    """A command without the comment behind it."""
    return re.sub(r"\s+# .*$", "", text)


def mark_of(page: str, command: Command) -> Mark | None:
    """The mark of a command whose first words are the longest that the command begins with."""
    marks = MARKS.get(page, {})
    begun = [words for words in marks if command.text.startswith(words)]
    return marks[max(begun, key=len)] if begun else None


def script(page: str, typed: list[Command]) -> Iterator[str]:
    """The lines of a shell script that runs these commands, and says each before it does.

    Programs in Python continue those above them, as in one session of its interpreter.
    """
    yield SHELL
    session = ""
    for command in typed:
        mark = mark_of(page, command)
        text = f"{bare(command.text)} {mark.words}" if isinstance(mark, More) else command.text
        if isinstance(mark, Skip):
            yield f"say {shlex.quote(f'skipped, since {mark.why}: {bare(text)}')}"
            continue
        yield f"say {shlex.quote(text)}"
        if command.language == "python":
            session += text
            yield f"python - <<'END_OF_BLOCK'\n{session}\nEND_OF_BLOCK"
        elif isinstance(mark, Serve):
            yield f"serve {shlex.quote(mark.address)} {text}"
        elif not BUILT_FOR_TENSORFLOW and NEEDS_TENSORFLOW.match(text):
            yield f"refused {bare(command.text)}"
        else:
            yield text


def walk(page: str, name: str, typed: list[Command]) -> bool:
    """Run the commands of one reader in a clone and a home of its own; returns whether all of them succeeded."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        folder = pathlib.Path(home, "project")
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
        write_recordings(folder / "FOLDER")
        if page == "docs/data.md":
            write_examples(folder)
        kept = re.compile(r"(PATH|LANG|(PIP|UV|SSL|REQUESTS)_\w+)$")
        environment = {key: value for key, value in os.environ.items() if kept.match(key)}
        environment |= {"HOME": home, "TERM": "dumb"}
        lines = "\n".join(script(page, typed))
        finished = subprocess.run(["bash", "-c", lines], cwd=folder, env=environment, stdin=subprocess.DEVNULL)
    result = "all commands work" if finished.returncode == 0 else f"FAILED with {finished.returncode}"
    took_s = time.monotonic() - start
    print(f"== {name}: {result}, {took_s:.0f} s, Python {sys.version.split()[0]}", flush=True)
    return finished.returncode == 0


def write_recordings(folder: pathlib.Path, images: int = 30, people: int = 4) -> None:
    """Write what README calls FOLDER: grey images with a bright square, and the CSV of who looked at it."""
    chance = random.Random(0)
    rows = ["participant,image,x,y,duration"]
    for number in range(images):
        left, top = chance.randrange(84), chance.randrange(60)
        write_square(folder / f"{number:02}.png", 90, left, top)
        for person in range(people):
            for _ in range(5):
                x, y = left + chance.uniform(0, 12), top + chance.uniform(0, 12)
                rows.append(f"P{person},{number:02}.png,{x:.1f},{y:.1f},200")
    (folder / "fixations.csv").write_text("\n".join(rows) + "\n")


def write_examples(folder: pathlib.Path) -> None:
    """Write the three folders of docs/data.md, `lab`, `tool` and `study`, with the table of the page."""
    (table,) = re.findall(r"```csv\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), re.DOTALL)
    for number, name in enumerate(("label", "menu", "page", "poster", "shelf")):
        write_square(folder / "lab" / "images" / f"{name}.png", 90, 10 * number, 5 * number)
    (folder / "lab" / "fixations.csv").write_text(table)
    for number in range(1, 6):
        for kind, background in {"stimuli": 90, "maps": 10}.items():
            write_square(folder / "tool" / kind / f"page-{number}.png", background, 10 * number, 5 * number)
    for number, place in enumerate(
        (
            "train/spring/1",
            "train/spring/2",
            "train/summer/1",
            "val/winter/1",
            "val/winter/2",
            "test/fall/1",
            "test/fall/2",
        )
    ):
        write_square(folder / "study" / "stimuli" / f"{place}.png", 90, 10 * number, 5 * number)
        write_square(
            folder / "study" / "fixations" / f"{place}.png", 0, 10 * number + 4, 5 * number + 4, side=2, bright=255
        )


def write_square(
    path: pathlib.Path, background: int, left: int, top: int, side: int = 12, bright: int = 240
) -> None:
    """Write a grey PNG of 96 x 72 pixels with a bright square."""
    row = bytes([background] * 96)
    crossing = row[:left] + bytes([bright] * side) + row[left + side :]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(grey_png(96, [crossing if top <= y < top + side else row for y in range(72)]))


def grey_png(width: int, lines: list[bytes]) -> bytes:
    """A PNG of 8 bits, of these lines of pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, len(lines), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def main(pages: list[str]) -> None:
    """Walk these pages; the exit status is an error if a command of any failed."""
    each = [(page, *reading) for page in pages for reading in readings(page).items()]
    worked = [walk(page, name, typed) for page, name, typed in each]
    sys.exit(0 if all(worked) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
