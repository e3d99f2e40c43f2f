"""`import-weights`: HDF5, graphs, checkpoints, names of nothing, and models whose config.json is damaged."""

import functools
import multiprocessing
import os
import pathlib
import random
import shutil

import h5py
import numpy as np

from tests.fuzz import documents, model, names, weights
from tests.fuzz.verdicts import Input, command, expect
from trainer.artifacts import SAVED_MODEL
from trainer.models import apart, local_import

HEIGHT, WIDTH = model.SIZE
LIMITS = apart.Limits(seconds=30, memory_bytes=3 * 10**9, usual_bytes=10**9)
"""Of an import here, whose network is narrow: below the time after which an input hangs."""


class Target:
    def __init__(self, folder: pathlib.Path) -> None:
        self._model = model.written(folder)
        self._maker = weights.Maker(self._model.network, self._model.folder / "model.weights.h5")
        _share_tensorflow()
        self._run(folder / "warm-up", str(self._model.folder))()
        whole = folder / "warm-up" / "out" / "model" / SAVED_MODEL
        assert not whole.exists(), "the import ran in a process that has not loaded tests.fuzz.targets.importing"

    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        (folder / "in").mkdir()
        kind = source.random()
        if kind < 0.08:
            return self._named(source, folder)
        if kind < 0.12:
            return self._special(source, folder)
        if kind < 0.2:
            return self._config(source, folder)
        made = self._maker.make(folder / "in", source)
        compare = functools.partial(self._compare, made, folder)
        return Input(made.kind, self._run(folder, str(made.path)), compare, made.is_sound, outputs=folder / "out")

    def _run(self, folder: pathlib.Path, place: str) -> functools.partial[None]:
        output = str(folder / "out" / "model")
        return functools.partial(
            command, "import-weights", "--output-dir", output, "--image-size", f"{HEIGHT}x{WIDTH}", "--", place
        )

    def _compare(self, made: weights.Weights, folder: pathlib.Path) -> None:
        """The model that was written has the values that h5py reads, or those that were packed."""
        expect(made.kind not in weights.ELSEWHERE, "its values are those of another file of this machine")
        written = _arrays(folder / "out" / "model" / "model.weights.h5")
        expect(
            all(np.isfinite(value).all() for value in written.values()), "the model has values that are not finite"
        )
        if made.path.name == "x.weights.h5":
            theirs = _arrays(made.path)
            wrong = [name for name, value in written.items() if not np.array_equal(value, theirs.get(name))]
        elif made.is_edited:
            theirs = _arrays(self._model.folder / "model.weights.h5")
            wrong = [name for name, value in written.items() if not np.array_equal(value, theirs[name])]
        else:
            wrong = []
        expect(not wrong, f"other values than in the file: {', '.join(wrong[:5])}")

    def _named(self, source: random.Random, folder: pathlib.Path) -> Input:
        name = names.name(source)
        return Input("name", self._run(folder, name), names=(name,), outputs=folder / "out")

    def _special(self, source: random.Random, folder: pathlib.Path) -> Input:
        path = folder / "in" / source.choice(("x.h5", "x.pb", "x.weights.h5", "x.index", "saved_model.pb"))
        kind = source.choice(("pipe", "device", "dangling", "self", "folder", "empty", "up"))
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "empty":
            path.write_bytes(b"")
        else:
            path.symlink_to({"device": "/dev/zero", "dangling": "nowhere", "self": path.name, "up": ".."}[kind])
        named = path if source.random() < 0.6 else path.parent
        return Input(f"special {kind}", self._run(folder, str(named)), outputs=folder / "out")

    def _config(self, source: random.Random, folder: pathlib.Path) -> Input:
        shutil.copy(self._model.folder / "model.weights.h5", folder / "in")
        kind, content = documents.document(model.CONFIG, source)
        (folder / "in" / "config.json").write_bytes(content)
        return Input(f"config.json, {kind}", self._run(folder, str(folder / "in")), outputs=folder / "out")


def _share_tensorflow() -> None:
    """Let imports run in forks of one process that has loaded TensorFlow, and not load it each for itself."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["tests.fuzz.targets.importing"])
    for module, name, value in ((apart, "PROCESSES", forks), (local_import, "LIMITS", LIMITS)):
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, value)


def _arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Name -> values of the layers in a file, by h5py alone."""
    arrays: dict[str, np.ndarray] = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and name.startswith("layers/"):
            arrays[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(add)
    return arrays
