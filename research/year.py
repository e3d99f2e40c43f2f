"""Weeks of a laboratory whose truth is known, on this machine: `python -m research.year [--only NAME]`.

The laboratory shows scenes (`research.scenes`) to ten observers. Each week is a real run of the pipeline on what
it delivers, in processes of its own, with a quarter of the network's filters. The first registry is made once, of
120 honest scenes, and each story of STORIES starts on a copy of it, in the same place. Most are one week in which
something is wrong with all data, or with some. Others are weeks of clean data, and a true change of what people
look at, which the owner confirms after the first look. A week's truth is the KLD of the default's maps to the
densities of 80 fresh scenes, before and after it.

Prints a table of the weeks. Ends with an error, and the weeks' names, if a promotion made the default truly worse
(the paired 95% interval of the KLD over the scenes excludes 0), if a true change was not adopted in the two looks
after its confirmation, or if a week did not go as it must in another way: an unchanged week that made a model, a
promoted candidate that differs in its seed alone, a broken file that was not named, or images that decided
although a model that they compare was trained on them or on their copies.
"""

import argparse
import csv
import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lifecycle.registry.register import open_registry
from research import scenes
from research.scenes import DRIFTED, HABIT, SIZE, Laboratory, Points, Recording, World
from tests.narrow_tasks.sitecustomize import SHIPPED, WIDTHS
from trainer.api import load
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.run_folders import RUN_FILE, RunFolder
from trainer.io import files
from trainer.metrics.metrics import kld
from trainer.models.model_names import DEFAULT, MODEL_NAME, REGISTRY
from trainer.models.registry_layout import PRETRAINED_VERSION, VERSION, model_in, read_aliases
from trainer.network.model_folder import EVALUATION, PER_IMAGE
from trainer.network.msinet import architecture

ROOT = pathlib.Path(__file__).parents[1]
FIRST, ADDED, CLEAN = 120, 25, 12
"""Scenes of the first week, those that a week with a fault adds, and those that a clean week adds."""
FRESH = range(90_000, 90_080)
"""Seeds of the scenes on which the truth is measured; no laboratory shows them."""
OTHERS = range(50_000, 50_120)
"""Seeds of other pictures."""
CONFIRM = ("registry", "set-default", "{version}")
"""How the owner confirms that what was found is true: a command of the pipeline ..."""
CONFIRMED: tuple[str, ...] = ()
"""... and parameters of the runs after it."""
LOOKS = 2
"""Looks after the confirmation in which a true change must be adopted."""
SETTINGS = (
    *("finetune_dataset=custom", "finetune_source=lab", "finetune_image_size=48x64", "finetune_epochs=4"),
    *("finetune_batch_size=4", "finetune_learning_rate=2e-4", "precision=float32", "skip_unchanged=true"),
    *("coordinates=pixels", "base_model_uri=../base"),
)
BASE_DATA = ("--dataset", "salicon", "--source", "sample", "--image-size", "48x64")
BASE = (
    *("--epochs", "2", "--batch-size", "4", "--learning-rate", "1e-4"),
    *("--initial-weights", "none", "--precision", "float32"),
)
SAID = re.compile(
    r"\[Data\] (?!started|done after|unchanged;|.*\d/\d+ images|With \d)(.+)"
    r"|(?i:.*\bwarning:?\s+(.+))|.* failed: (.+)"
    r"|Message:\s+\S+: (.+)"
)
"""Lines of a run's output: what the data check found, warnings, why it failed, and the message."""
LEFT_OUT = re.compile(
    r"^warning: |^[a-z ]+\. |the candidate's KLD.*\(lower is better\), | Last promotion before.*"
)
"""What the table does not repeat of the message."""
MOST = 240
"""Most characters of what was said, in the table."""

Scores = npt.NDArray[np.float64]
"""(n,): KLD of the maps to the densities of the scenes FRESH, nats."""


# === What a laboratory delivers ===


def honest(count: int, world: World = HABIT) -> Laboratory:
    """The first scenes of the laboratory."""
    return scenes.laboratory(range(count), world)


def moved(place: Callable[[Points], Points]) -> Laboratory:
    """All fixations at other places."""
    delivered = honest(FIRST + ADDED)
    return {name: dataclasses.replace(scene, points=place(scene.points)) for name, scene in delivered.items()}


def one_observer(pixels: float = 30) -> Laboratory:
    """One of the ten observers too far to the right."""
    delivered = honest(FIRST + ADDED)
    wrong = scenes.people()[2].name
    for scene in delivered.values():
        scene.points[scene.observers == wrong] += (pixels, 0)
    return delivered


def exchanged(share: float = 0.2) -> Laboratory:
    """A share of the pictures, each with the fixations of another one."""
    delivered = honest(FIRST + ADDED)
    rng = np.random.default_rng(3)
    names = list(rng.choice(list(delivered), round(share * len(delivered)), replace=False))
    pairs = [(name, delivered[other]) for name, other in zip(names, names[1:] + names[:1], strict=True)]
    return delivered | {
        name: dataclasses.replace(other, pixels=delivered[name].pixels, seed=delivered[name].seed)
        for name, other in pairs
    }


def named(encoded: bool, renamed: bool) -> Laboratory:
    """All pictures as JPEG, or under other names, or both."""
    delivered = honest(FIRST + ADDED)
    suffix = ".jpg" if encoded else ".png"

    return {
        (f"photo_{scene.seed * 7919 % 10007}" if renamed else pathlib.Path(name).stem) + suffix: scene
        for name, scene in delivered.items()
    }


def with_copies(count: int = 75) -> Laboratory:
    """Besides, known pictures that are cropped by 2 to 3% of a side, or mirrored, with honest fixations."""
    delivered = honest(FIRST)
    rng = np.random.default_rng(4)
    height, width = SIZE
    for number, seed in enumerate(rng.choice(FIRST, count, replace=False)):
        scene = scenes.record(int(seed), session=1)
        if number % 2:
            points = np.stack([width - scene.points[:, 0], scene.points[:, 1]], 1)
            pixels = scene.pixels[:, ::-1]
            copy = Recording(pixels, points.clip(0, (width - 0.1, height - 0.1)), scene.observers, scene.seed)
        else:
            low, high = ([round(share * side) for side in SIZE] for share in rng.uniform(0.02, 0.03, 2))
            pixels = scene.pixels[low[0] : height - high[0], low[1] : width - high[1]]
            points = scene.points - (low[1], low[0])
            inside = ((points >= 0) & (points < (pixels.shape[1] - 0.1, pixels.shape[0] - 0.1))).all(1)
            copy = Recording(pixels, points[inside], scene.observers[inside], scene.seed)
        delivered[f"copy-{number:03}.png"] = copy
    return delivered


# === Weeks ===


@dataclasses.dataclass(frozen=True)
class Week:
    """What a laboratory delivers in a week, and what else happens in it."""

    name: str
    deliver: Callable[[], Laboratory]
    world: World = HABIT
    """In which its truth is measured."""
    parameters: tuple[str, ...] = ()
    is_killed: bool = False
    """Whether the run is killed while it trains, and resumed."""
    broken: tuple[str, ...] = ()
    """Pictures that are cut off."""
    must_not_promote: bool = False
    """Whether its candidate differs from the default in its seed alone."""
    is_unchanged: bool = False
    is_faultless: bool = False
    """Whether nothing is wrong with its data, so that it must end with a model, or unchanged."""


def clean_weeks() -> list[Week]:
    """Weeks of a laboratory without a fault, one after another on one registry."""
    grown = [functools.partial(honest, FIRST + CLEAN * weeks) for weeks in range(1, 6)]
    last = tuple(scenes.name_of(FIRST + CLEAN * 4 - each) for each in (1, 2))
    week = functools.partial(Week, is_faultless=True)
    return [
        week("10% more", grown[0]),
        week("nothing new", grown[0], is_unchanged=True),
        week("10% more again", grown[1]),
        week("another seed", grown[1], parameters=("seed=2",), must_not_promote=True),
        week("10% more, killed and resumed", grown[2], is_killed=True),
        week("10% more, 2 broken files", grown[3], broken=last, parameters=("max_bad_share=0.02",)),
        week("10% more, none broken", grown[4]),
    ]


def drifting_weeks(deliver: Callable[[int], Laboratory]) -> list[Week]:
    """A look at data of a changed world, and those after its confirmation; `deliver` takes what is added."""
    return [
        Week(f"look {look}", functools.partial(deliver, CLEAN * (look - 1)), DRIFTED, is_faultless=True)
        for look in range(1, LOOKS + 2)
    ]


def _shown_again(added: int) -> Laboratory:
    return scenes.laboratory(range(FIRST + ADDED + added), DRIFTED, session=1)


def _others(added: int) -> Laboratory:
    return scenes.laboratory(range(OTHERS.start, OTHERS.stop + ADDED + added), DRIFTED)


HEIGHT, WIDTH = SIZE
FAULTS: dict[str, Callable[[], Laboratory]] = {
    "upside down": lambda: moved(lambda points: np.array([0, HEIGHT - 1]) + points * (1, -1)),
    "left-right": lambda: moved(lambda points: np.array([WIDTH - 1, 0]) + points * (-1, 1)),
    "8 px right": lambda: moved(lambda points: points + np.array([8, 0])),
    "12 px right": lambda: moved(lambda points: points + np.array([12, 0])),
    "20 px right": lambda: moved(lambda points: points + np.array([20, 0])),
    "x and y swapped": lambda: moved(lambda points: points[:, ::-1]),
    "scaled by .8": lambda: moved(lambda points: points * 0.8),
    "one observer 30 px off": one_observer,
    "a fifth exchanged": exchanged,
    "re-encoded and renamed": lambda: named(encoded=True, renamed=True),
    "re-encoded": lambda: named(encoded=True, renamed=False),
    "renamed": lambda: named(encoded=False, renamed=True),
    "half deleted": lambda: honest(FIRST // 2),
    "75 copies": with_copies,
}
"""Name of a story of one week -> what the laboratory delivers in it."""
STORIES: dict[str, list[Week]] = {
    "clean": clean_weeks(),
    **{name: [Week(name, deliver)] for name, deliver in FAULTS.items()},
    "drift, shown again": drifting_weeks(_shown_again),
    "drift, other pictures": drifting_weeks(_others),
}
"""Name -> its weeks, on a copy of the first registry."""


@dataclasses.dataclass
class Row:
    """What happened in a week: the row of the table."""

    name: str
    said: str
    end: str
    before: Scores
    after: Scores
    seconds: float
    moved: bool
    """Whether the run made another version the default."""
    log: str
    challenger: Scores | None = None
    """Of the model that the run added, if it did not become the default."""
    n_images: int = 0
    """Number of images that decided; 0 if none did."""
    n_seen: int = 0
    """How many of them one of both models was trained on, or on a copy of them."""

    @property
    def line(self) -> str:
        """The row in Markdown."""
        said = self.said if len(self.said) <= MOST else f"{self.said[:MOST]} ..."
        truth = f"{self.before.mean():.3f}"
        if self.moved:
            low, high = change(self.before, self.after)
            truth += f" -> {self.after.mean():.3f} ({low:+.3f} to {high:+.3f})"
        if self.challenger is not None:
            truth += f" (the challenger: {self.challenger.mean():.3f})"
        decided = f"{self.n_images} ({self.n_seen} seen)" if self.n_seen else self.n_images or ""
        cells = self.name, said.replace("|", "/"), decided, self.end, truth, f"{self.seconds:.0f}"
        return f"| {' | '.join(map(str, cells))} |"


def change(before: Scores, after: Scores) -> tuple[float, float]:
    """The 95% interval of the mean change of paired scores: Student's, over scenes."""
    from scipy import stats

    changes = after - before
    half = float(stats.t.ppf(0.975, len(changes) - 1) * changes.std(ddof=1) / math.sqrt(len(changes)))
    return float(changes.mean()) - half, float(changes.mean()) + half


class Year:
    """A laboratory, its registry, and the weekly runs on what it delivers.

    All is in the folder `now` while it runs, so that each story has the same paths as the week before it.
    """

    def __init__(self, output: pathlib.Path) -> None:
        self._output = output
        self._now = output / "now"
        self._truths: dict[tuple[str, str], Scores] = {}
        self._trained_on: dict[int, set[int]] = {}
        """Version -> the scenes that it was trained on, as of the story that runs."""
        self.wrong: list[str] = []
        """What did not go as it must, each with the week's name."""

    def make_first(self) -> None:
        """Train the model that each week starts from, and run the honest first week, unless both are there."""
        kept = self._output / "first"
        if kept.exists():
            return
        shutil.rmtree(self._output / "base", ignore_errors=True)
        data = str(self._output / "base-data")
        self._command("trainer", "fetch", *BASE_DATA, "--output-dir", data)
        self._command("trainer", "train", "--dataset-dir", data, "--output-dir", str(self._output / "base"), *BASE)
        compact = ("--format", "int8", "--output", os.environ[SHIPPED])
        self._command("trainer", "export", "--model", str(self._output / "base"), *compact)
        self._start(None)
        row = self.run("first", 1, Week(f"{FIRST} honest scenes", functools.partial(honest, FIRST)))
        assert row.moved, row.log
        self._now.rename(kept)

    def check_first(self) -> None:
        """Raise `AssertionError` unless the first default is clearly better than a map of the centre alone."""
        kept = self._output / "first"
        first = self.truth(self._default(kept), HABIT)
        centre = np.mean([scenes.density(seed, HABIT) for seed in OTHERS], 0)
        of_centre = np.array([kld(centre, scenes.density(seed, HABIT)) for seed in FRESH])
        drifted = self.truth(self._default(kept), DRIFTED)
        print(
            f"KLD of the first default {first.mean():.3f}, in the changed world {drifted.mean():.3f}; of the map "
            f"of the centre {of_centre.mean():.3f}.\n",
            flush=True,
        )
        assert change(of_centre, first)[1] < -0.2

    def tell(self, story: str) -> None:
        """Run the weeks of a story on a copy of the first registry, and print their rows."""
        self._start(self._output / "first")
        self._trained_on = {1: self._training_scenes(honest(FIRST))}
        confirmed: tuple[str, ...] = ()
        is_drift = story.startswith("drift")
        for number, week in enumerate(STORIES[story], 2):
            week = dataclasses.replace(week, parameters=(*week.parameters, *confirmed))
            row = self.run(story, number, week)
            print(row.line, flush=True)
            self._check(row, week)
            if is_drift and self._is_adopted(week.world):
                break
            if is_drift and number == 2:
                confirmed = self._confirm(story, week)
        if is_drift and not self._is_adopted(DRIFTED):
            self.wrong.append(f"{story}: not adopted {LOOKS} looks after the confirmation")
        kept = self._output / "stories" / story.replace(" ", "-").replace(",", "")
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(exist_ok=True)
        self._now.rename(kept)

    def run(self, story: str, number: int, week: Week) -> Row:
        """The run of a week on what the laboratory delivers."""
        lab = self._now / "lab"
        shutil.rmtree(lab, ignore_errors=True)
        delivered = week.deliver()
        scenes.write(delivered, lab)
        for name in week.broken:
            os.truncate(lab / "stimuli" / name, (lab / "stimuli" / name).stat().st_size // 2)
        default, compared = self._default(self._now), self._default_number(self._now)
        before = self.truth(default, week.world)
        folder = self._now / "runs" / f"week-{number:02}"
        command = ["pipeline", "run"]
        arguments = ["--run-dir", str(folder), *SETTINGS, *week.parameters]
        began = time.monotonic()
        if week.is_killed and self._killed(folder, [*command, *arguments]):
            arguments = ["--resume", str(folder)]
        _, log = self._logged(*command, *arguments)
        seconds = time.monotonic() - began
        (self._now / f"week-{number:02}.txt").write_text(log)
        now_default = self._default(self._now)
        is_moved = now_default != default
        after = self.truth(now_default, week.world)
        name = story if week.name == story else f"{story}: {week.name}"
        row = Row(name, said(log), self._end(folder), before, after, seconds, is_moved, log)
        if version := self._record(folder).get("version"):
            row.n_images, row.n_seen = self._decided_on(folder, delivered, version, compared)
            if not is_moved:
                row.challenger = self.truth(self._version(self._now, version), week.world)
        return row

    def _confirm(self, story: str, week: Week) -> tuple[str, ...]:
        """Confirm as the owner that the world has changed; the parameters of the runs after it."""
        version = max(each.number for each in open_registry(str(self._now / REGISTRY)).versions(MODEL_NAME))
        began, before = time.monotonic(), self.truth(self._default(self._now), week.world)
        command = "pipeline", *(part.format(version=version) for part in CONFIRM)
        status, log = self._logged(*command)
        assert not status, log
        after, seconds = self.truth(self._default(self._now), week.world), time.monotonic() - began
        name = f"{story}: confirmed by the owner"
        print(Row(name, " ".join(command), "", before, after, seconds, True, log).line, flush=True)
        return CONFIRMED

    def _is_adopted(self, world: World) -> bool:
        """Whether the default is now truly better in this world than the first one."""
        first, now = (self._default(folder) for folder in (self._output / "first", self._now))
        return change(self.truth(first, world), self.truth(now, world))[1] < 0

    def _check(self, row: Row, week: Week) -> None:
        if row.moved and change(row.before, row.after)[0] > 0:
            self.wrong.append(f"{row.name}: promoted, and truly worse")
        if week.is_faultless and bool(row.n_images) == week.is_unchanged:
            self.wrong.append(f"{row.name}: ended as {row.end}")
        if week.is_faultless and week.world is HABIT and row.end in ("held", "disagree"):
            self.wrong.append(f"{row.name}: a false alarm")
        if week.must_not_promote and row.moved:
            self.wrong.append(f"{row.name}: promoted")
        if row.n_seen:
            self.wrong.append(f"{row.name}: {row.n_seen} of the {row.n_images} images that decided were seen")
        self.wrong += [f"{row.name}: {name} was not named" for name in week.broken if name not in row.log]

    # --- Folders and processes ---

    def _start(self, kept: pathlib.Path | None) -> None:
        shutil.rmtree(self._now, ignore_errors=True)
        if kept:
            shutil.copytree(kept, self._now, symlinks=True)
        else:
            self._now.mkdir()

    def _default_number(self, folder: pathlib.Path) -> int:
        model = folder / REGISTRY / MODEL_NAME
        return read_aliases(model).get(DEFAULT, PRETRAINED_VERSION) if model.exists() else PRETRAINED_VERSION

    def _default(self, folder: pathlib.Path) -> pathlib.Path:
        number = self._default_number(folder)
        return self._version(folder, number) if number else pathlib.Path(os.environ[SHIPPED])

    def _version(self, folder: pathlib.Path, number: int) -> pathlib.Path:
        return model_in(folder / REGISTRY / MODEL_NAME / str(number))

    def truth(self, model: pathlib.Path, world: World) -> Scores:
        """KLD of the model's maps to the densities of the fresh scenes."""
        (weights,) = model.glob("*weights*")
        key = files.checksum(weights), world.name
        if key not in self._truths:
            loaded = load(str(model))
            densities = [scenes.density(seed, world) for seed in FRESH]
            maps = [loaded.predict(scenes.picture(seed)) for seed in FRESH]
            self._truths[key] = np.array([kld(*pair) for pair in zip(maps, densities, strict=True)])
        return self._truths[key]

    def _command(self, *arguments: str) -> None:
        status, log = self._logged(*arguments, folder=self._output)
        assert not status, log

    def _logged(self, *arguments: str, folder: pathlib.Path | None = None) -> tuple[int, str]:
        """Run a command of this project in a process of its own; its status and all that it printed."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=folder or self._now,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def _killed(self, folder: pathlib.Path, command: Sequence[str]) -> bool:
        """Kill a run, with all its processes, once it has written a checkpoint; whether it still ran then."""
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=self._now, start_new_session=True, stdout=subprocess.DEVNULL
        )
        while process.poll() is None and not list(folder.glob("checkpoints/finetune/*")):
            time.sleep(0.1)
        if process.poll() is not None:
            return False
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True

    # --- What a run said ---

    def _record(self, folder: pathlib.Path) -> dict[str, Any]:
        """The record of the version that a run has added; empty if it has added none."""
        for path in (self._now / REGISTRY / MODEL_NAME).glob(f"*/**/{VERSION}"):
            record: dict[str, Any] = json.loads(path.read_text())
            if record["lineage"]["folder"] == str(folder):
                return record
        return {}

    def _end(self, folder: pathlib.Path) -> str:
        if not (folder / RUN_FILE).exists():
            return "did not start"
        result = str(json.loads((folder / RUN_FILE).read_text()).get("result", "")).partition(": ")[2]
        return str(self._record(folder).get("end", result))

    def _decided_on(
        self, folder: pathlib.Path, delivered: Laboratory, version: int, compared: int
    ) -> tuple[int, int]:
        """On how many images the run was decided, and how many of them one of both models had seen."""
        attempt = RunFolder(folder).latest_attempt
        assert attempt
        self._trained_on[version] = self._training_scenes(delivered)
        evaluation = attempt / "evaluate-model" / "evaluation"
        decides = json.loads((evaluation / EVALUATION).read_text())["decides"]
        images = PerImage.read_all(evaluation / PER_IMAGE, "")[decides].images
        seen = self._trained_on[version] | self._trained_on.get(compared, set())
        return len(images), sum(_scene(name, delivered) in seen for name in images)

    def _training_scenes(self, delivered: Laboratory) -> set[int]:
        """The scenes on which the last run trained; a run whose data are as before uses the data of that one."""
        prepared = max((self._now / "runs").glob("week-*/*/fetch-dataset-2/prepared/images.csv"))
        with prepared.open() as table:
            return {_scene(row["image"], delivered) for row in csv.DictReader(table) if row["split"] == "train"}


def _scene(image: str, delivered: Laboratory) -> int:
    return delivered[pathlib.PurePath(image).name].seed


def said(log: str) -> str:
    """What a run said of its data and its end."""
    found = (match for match in map(SAID.match, log.splitlines()) if match)
    texts = (LEFT_OUT.sub("", " ".join(filter(None, match.groups()))) for match in found)
    return "; ".join(dict.fromkeys(texts))


def main() -> None:
    """Run the stories, print their table, and check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=STORIES, help="this story alone; may be repeated")
    parser.add_argument(
        "--output", type=pathlib.Path, help="folder to keep; the first registry in it is used again"
    )
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        output = (parsed.output or pathlib.Path(temporary)).absolute()
        output.mkdir(parents=True, exist_ok=True)
        vars(architecture).update(WIDTHS)
        os.environ |= {
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tests" / "narrow_tasks", ROOT))),
            "MSINET_COMMIT": "year",
            SHIPPED: str(output / "pretrained"),
        }
        year = Year(output)
        year.make_first()
        year.check_first()
        print("| week | said | decided on | end | truth: KLD of the default, before -> after | s |")
        print("|---|---|---|---|---|---|", flush=True)
        for story in parsed.only or STORIES:
            year.tell(story)
    if year.wrong:
        sys.exit("\n".join(["", "Did not go as they must:", *year.wrong]))


if __name__ == "__main__":
    main()
