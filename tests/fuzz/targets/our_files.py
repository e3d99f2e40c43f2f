"""Files that this project writes and reads again, damaged by hand: of data, evaluations, runs and the registry."""

import functools
import pathlib
import random
import shutil
import sys
from collections.abc import Callable

from tests.fuzz import documents, model
from tests.fuzz.mutate import cut, mutated
from tests.fuzz.verdicts import Input, RefusedError, command

SIZE = "x".join(map(str, model.SIZE))
RUN = {
    "environment": "sample",
    "parameters": {"seed": 1, "base_epochs": 1},
    "finished": True,
    "earlier": ["msinet-0"],
}
VERSION = {"version": 1, "created": "2026-01-01T00:00:00+00:00", "metrics": {"salicon": {"kld": 0.5}}}
ATTEMPT = "msinet-1/evaluate-model/evaluation"


class Target:
    def __init__(self, folder: pathlib.Path) -> None:
        self._model = model.written(folder)
        self._whole = folder / "whole"
        data, evaluation = self._whole / "data", self._whole / "evaluation"
        command(
            "fetch", "--dataset", "salicon", "--source", "sample", "--image-size", SIZE, "--max-examples", "3",
            "--output-dir", str(data),
        )  # fmt: skip
        self._evaluate(data, evaluation)
        for name in ("run", "other"):
            shutil.copytree(evaluation, self._whole / name / ATTEMPT)
            _write(self._whole / name / "run.json", RUN)
        for number in ("1", "2"):
            version = self._whole / "models" / "msinet" / number / "assets.extra"
            version.mkdir(parents=True)
            shutil.copy(self._model.folder / "config.json", version)
            (version / "model.weights.h5").symlink_to(self._model.folder / "model.weights.h5")
            _write(version / "version.json", {**VERSION, "version": int(number)})
        _write(self._whole / "models" / "msinet" / "aliases.json", {"default": 1, "challenger": 2})
        self._uses: tuple[tuple[str, str, Callable[[pathlib.Path, random.Random], Callable[[], None]]], ...] = (
            ("data", "manifest.json", self._evaluated),
            ("data", "*", self._evaluated),
            ("run", f"{ATTEMPT}/evaluation.json", self._compared),
            ("run", f"{ATTEMPT}/per_image.csv", self._compared),
            ("run", "run.json", self._compared),
            ("run", "run.json", self._resumed),
            ("models", "msinet/aliases.json", self._registry),
            ("models", "msinet/1/assets.extra/version.json", self._registry),
            ("models", "msinet/2/assets.extra/config.json", self._registry),
        )

    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        part, pattern, use = source.choice(self._uses)
        place = pathlib.Path(shutil.copytree(self._whole / part, folder / part, symlinks=True))
        path = source.choice(sorted(place.glob(pattern)))
        kind = self._damage(path, source)
        return Input(f"{path.name}, {kind}", use(place, source), outputs=folder / "out")

    def _damage(self, path: pathlib.Path, source: random.Random) -> str:
        chance = source.random()
        if chance < 0.06:
            path.unlink()
            return "missing"
        if chance < 0.12:
            path.unlink()
            path.mkdir()
            return "a folder"
        if path.suffix == ".json":
            kind, content = documents.document(documents.read(path), source)
            path.write_bytes(content)
            return kind
        path.write_bytes((cut if source.random() < 0.4 else mutated)(path.read_bytes(), source))
        return "damaged"

    def _evaluate(self, data: pathlib.Path, output: pathlib.Path) -> None:
        here = ("--model", str(self._model.folder), "--dataset-dir", str(data))
        command("evaluate", *here, "--allow-partial-data", "true", "--output-dir", str(output))

    def _evaluated(self, place: pathlib.Path, source: random.Random) -> Callable[[], None]:
        return functools.partial(self._evaluate, place, place.parent / "out" / "evaluation")

    def _compared(self, place: pathlib.Path, source: random.Random) -> Callable[[], None]:
        return functools.partial(command, "compare", str(place), str(self._whole / "other"))

    def _resumed(self, place: pathlib.Path, source: random.Random) -> Callable[[], None]:
        return functools.partial(_prepare_again, place)

    def _registry(self, place: pathlib.Path, source: random.Random) -> Callable[[], None]:
        actions = (("list",), ("show",), ("show", "1"), ("set-default", "2"), ("set-default", "challenger"))
        return functools.partial(_pipeline, "registry", *source.choice(actions), "--registry", str(place))


def _write(path: pathlib.Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(documents.written(value))


def _pipeline(*arguments: str) -> None:
    """Run `python -m pipeline` in this process."""
    from pipeline.__main__ import run

    sys.argv = ["pipeline", *arguments]
    try:
        status = run()
    except SystemExit as left:
        print(left.code, file=sys.stderr)
        raise RefusedError from None
    if status:
        raise RefusedError


def _prepare_again(folder: pathlib.Path) -> None:
    """What `python -m pipeline run --resume` checks before it starts anything."""
    from pipeline.local.prepare import prepare_run
    from trainer.errors import UserError

    try:
        prepare_run("", "", str(folder), {})
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise RefusedError from None
