"""A year of weekly retraining, on this machine: `python -m research.year STIMULI MAPS OUTPUT`.

STIMULI and MAPS are folders of pictures and of their maps, of the same names; results.md used OSIE's. Each
week is a real run of the pipeline with `skip_unchanged`, in processes of its own, with a quarter of the network's
filters. Every eight weeks a hundred pictures are added. Besides, in some weeks a few files are broken, the new
pictures are dark, the run is killed and resumed, or only the seed differs, so that the candidate is no better.

Prints a table of the weeks, and ends with an error if the default is not better at the end of the year, if a
comparison used an image that either model was trained on, if a model was registered twice, if a broken file was
not named, or if a candidate that differs in the seed alone was promoted.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
from PIL import Image

from pipeline.local import run_folder
from tests.narrow_tasks.sitecustomize import SHIPPED
from trainer.data import prepared_data
from trainer.evaluation import per_image, run_folders
from trainer.evaluation.per_image import CHAMPION
from trainer.io import files
from trainer.models import model_folder
from trainer.models.find import PRETRAINED_VERSION, VERSION, model_in, read_aliases
from trainer.models.model_folder import EVALUATION, PER_IMAGE, WEIGHTS

ROOT = pathlib.Path(__file__).parents[1]
WEEKS = 52
FIRST, ADDED = 150, 100
"""Pictures in the first week, and those that are added in each week of GROWS."""
GROWS = (9, 17, 25, 33, 41)
BROKEN = (17, 33)
"""Weeks of GROWS in which one of the added pictures and one of the added maps are cut off."""
SHIFTED = 41
"""The week of GROWS whose added pictures are dark."""
KILLED = 25
"""The week whose run is killed while it trains, and resumed."""
RESEEDED = (5, 13, 21, 29, 37, 45, 49)
"""Weeks in which only the seed changes: their candidates are no better than the default."""
DARK = 0.25
SETTINGS = (
    *("finetune_dataset=custom", "finetune_image_size=64x80", "finetune_epochs=4", "finetune_batch_size=4"),
    *("finetune_learning_rate=1e-4", "precision=float32", "skip_unchanged=true"),
)
BASE_DATA = ("--dataset", "salicon", "--source", "sample", "--image-size", "64x80")
BASE = (
    *("--epochs", "2", "--batch-size", "4", "--learning-rate", "1e-4"),
    *("--initial-weights", "none", "--precision", "float32"),
)


@dataclasses.dataclass
class Week:
    """What happened in one week: the row of the table."""

    number: int
    event: str
    end: str
    images: int = 0
    compared: int = 0
    candidate: float = float("nan")
    default: float = float("nan")
    version: int = 0
    compared_with: int = 0
    """Number of the default version at that time; 0 for `pretrained`."""
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """The row in Markdown."""
        if not self.version:
            return f"| {self.number} | {self.event} | | | | | {self.end} | {self.seconds:.0f} |"
        scores = f"{self.candidate:.3f} | {self.default:.3f}"
        end = f"version {self.version}, {self.end}"
        cells = self.number, self.event, self.images, self.compared, scores, end, f"{self.seconds:.0f}"
        return f"| {' | '.join(map(str, cells))} |"


class Year:
    """A laboratory whose pictures become more, and the weekly runs on them."""

    def __init__(self, stimuli: pathlib.Path, maps: pathlib.Path, output: pathlib.Path) -> None:
        self._sources = stimuli, maps
        self._names = sorted(path.stem for path in maps.iterdir())
        np.random.default_rng(0).shuffle(self._names)
        self._output = output
        self._lab = output / "lab"
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tests" / "narrow_tasks", ROOT))),
            "MSINET_COMMIT": "year",
            SHIPPED: str(self._output / "pretrained"),
        }
        self.broken: set[str] = set()

    def add(self, count: int, week: int) -> None:
        """Add pictures to the laboratory's folder, as they are in this week."""
        added, self._names = self._names[:count], self._names[count:]
        for name in added:
            for source, kind in zip(self._sources, ("stimuli", "maps"), strict=True):
                (path,) = source.glob(f"{name}.*")
                target = self._lab / kind / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
                if kind == "stimuli" and week == SHIFTED:
                    pixels = np.asarray(Image.open(target)) * DARK
                    Image.fromarray(pixels.astype(np.uint8)).save(target)
        if week in BROKEN:
            for name, kind in zip(added, ("stimuli", "maps"), strict=False):
                (target,) = (self._lab / kind).glob(f"{name}.*")
                os.truncate(target, target.stat().st_size // 2)
                self.broken.add(name)

    def run(self, week: int, *parameters: str) -> Week:
        """The run of a week, killed and resumed in week KILLED."""
        event = ", ".join(
            text
            for text, weeks in (
                ("first", (1,)),
                (f"{ADDED} images more", GROWS),
                ("2 broken files", BROKEN),
                ("they are dark", (SHIFTED,)),
                ("killed, resumed", (KILLED,)),
                ("another seed", RESEEDED),
            )
            if week in weeks
        )
        folder = self._output / "runs" / f"week-{week:02}"
        command = [sys.executable, "-m", "pipeline", "run"]
        began = time.monotonic()
        killed = week == KILLED and self._killed(folder, [*command, "--run-dir", str(folder), *parameters])
        arguments = ["--resume", str(folder)] if killed else ["--run-dir", str(folder), *parameters]
        with (self._output / f"week-{week:02}.txt").open("w") as log:
            subprocess.run(
                [*command, *arguments], cwd=self._output, env=self._environment, stdout=log, stderr=log, check=True
            )
        row = Week(week, event, "unchanged", seconds=time.monotonic() - began)
        if (attempt := self._task(week, "evaluate-model")) is not None:
            self._read(row, attempt / "evaluation")
        return row

    def _killed(self, folder: pathlib.Path, command: list[str]) -> bool:
        """Kill a run, with all its processes, once it has written a checkpoint; whether it still ran then."""
        process = subprocess.Popen(
            command, cwd=self._output, env=self._environment, start_new_session=True, stdout=subprocess.DEVNULL
        )
        while process.poll() is None and not list(folder.glob("checkpoints/finetune/*")):
            time.sleep(0.2)
        if process.poll() is not None:
            return False
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True

    def _task(self, week: int, task: str) -> pathlib.Path | None:
        attempt = run_folders.latest_attempt(self._output / "runs" / f"week-{week:02}")
        return attempt / task if attempt and (attempt / task).exists() else None

    def _read(self, row: Week, evaluation: pathlib.Path) -> None:
        """Fill in the row of a run that made a model, and check what it was compared on."""
        results = json.loads((evaluation / EVALUATION).read_text())
        decided = results["datasets"][results["decides"]]
        row.compared = decided["n_images"]
        row.candidate = decided["models"]["candidate"]["kld"]
        row.default = decided["models"].get(CHAMPION, {}).get("kld", float("nan"))
        uploaded = self._task(row.number, "upload-model")
        assert uploaded is not None
        outcome = files.read_json(uploaded / "executor_output.json", "", run_folder.TaskRecord)["parameterValues"]
        row.version, row.end = (
            int(outcome["version"]),
            "promoted" if outcome["alias"] == "default" else "not promoted",
        )
        record = json.loads((self._version(row.version) / VERSION).read_text())
        row.compared_with = record["compared_with"]
        row.images = len(list((self._lab / "stimuli").iterdir()))
        self._check_unseen(row, evaluation)

    def _check_unseen(self, row: Week, evaluation: pathlib.Path) -> None:
        """Raise `AssertionError` if the candidate or the default was trained on an image of their comparison."""
        decides = json.loads((evaluation / EVALUATION).read_text())["decides"]
        table = per_image.read_scores(evaluation / PER_IMAGE, "")[decides]
        digests = {
            image.name: image.digest
            for prepared in self._output.glob("runs/week-*/*/fetch-dataset-2/prepared")
            for image in prepared_data.images(prepared, ["valid"])
        }
        compared = {digests[name] for name in table.images}
        for version in {row.version, row.compared_with} - {PRETRAINED_VERSION}:
            seen = model_folder.training_images(self._version(version))
            trained_on = {digest for images in seen.values() for digest in images["train"]}
            assert trained_on
            assert not compared & trained_on, f"week {row.number}: version {version} was trained on what decides"

    def _version(self, number: int) -> pathlib.Path:
        return model_in(self._output / f"models/msinet/{number}")

    def make_base(self) -> None:
        """Train the model that each week starts from, on generated pictures; it is also `pretrained` here."""
        data = str(self._output / "base-data")
        self._trainer("fetch", *BASE_DATA, "--output-dir", data)
        self._trainer("train", "--dataset-dir", data, "--output-dir", str(self.base_model), *BASE)
        compact = ("--format", "int8", "--output", self._environment[SHIPPED])
        self._trainer("export", "--model", str(self.base_model), *compact)

    @property
    def base_model(self) -> pathlib.Path:
        """The model that each week starts from."""
        return self._output / "base"

    def _trainer(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "trainer", *arguments]
        subprocess.run(command, cwd=self._output, env=self._environment, check=True, stdout=subprocess.DEVNULL)

    def gain(self) -> dict[str, float]:
        """The gain in KLD of the last default over the first on the last validation images, with its interval."""
        aliases = read_aliases(self._version(1).parents[1])
        prepared = max(self._output.glob("runs/week-*/*/fetch-dataset-2/prepared"))
        output = self._output / "evaluation"
        models = ("--model", str(self._version(aliases["default"])), "--champion", str(self._version(1)))
        self._trainer("evaluate", *models, "--dataset-dir", str(prepared), "--output-dir", str(output))
        results = json.loads((output / EVALUATION).read_text())
        gain: dict[str, float] = results["datasets"][results["decides"]]["gains"]["kld"]
        return gain

    def check(self, weeks: list[Week]) -> None:
        """Raise `AssertionError` unless the year went as the first lines of this module promise."""
        made = [week for week in weeks if week.version]
        digests = {files.checksum(self._version(week.version) / WEIGHTS) for week in made}
        assert len(digests) == len(made), "a model was registered twice"
        assert all(week.end == "unchanged" for week in weeks if not week.event), "an unchanged week made a model"
        assert not [week.number for week in made if week.number in RESEEDED and week.end == "promoted"]
        named = "".join(path.read_text() for path in self._output.glob("week-*.txt"))
        assert self.broken
        assert all(f"{name}." in named for name in self.broken), "a broken file was not named"
        gain = self.gain()
        shown = f"{gain['mean']:.3f} ({gain['low']:.3f} to {gain['high']:.3f}) on {gain['n_images']} images"
        print(f"The last default is better than the first by a KLD of {shown}.")
        assert gain["low"] > 0, "the default did not improve"


def main() -> None:
    """Run the year, print its table, and check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("stimuli", "maps", "output"):
        parser.add_argument(name, type=lambda text: pathlib.Path(text).absolute())
    parsed = parser.parse_args()
    year = Year(parsed.stimuli, parsed.maps, parsed.output)
    year.make_base()
    year.add(FIRST, 1)
    print("| week | what was new | images | compared on | KLD of the candidate | of the default | end | s |")
    print("|---|---|---|---|---|---|---|---|")
    weeks, seed = [], 1
    for number in range(1, WEEKS + 1):
        if number in GROWS:
            year.add(ADDED, number)
        seed += number in RESEEDED
        places = f"base_model_uri={year.base_model}", f"finetune_source={parsed.output}/lab"
        week = year.run(number, *SETTINGS, *places, f"seed={seed}")
        weeks.append(week)
        print(week.line, flush=True)
    year.check(weeks)


if __name__ == "__main__":
    main()
