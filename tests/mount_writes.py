"""Writes what a run writes to a mounted bucket, without TensorFlow: `python -m tests.mount_writes MOUNT FOLDER`.

A program of its own, because another user than that of the tests may have to run it.
"""

import os
import pathlib
import sys

from lifecycle.registry.folder_registry import LocalRegistry
from trainer.errors import PlaceError, reported
from trainer.io import files
from trainer.models import model_names
from trainer.models.registry_layout import PRETRAINED_VERSION
from trainer.network import model_folder
from trainer.places.places import stored_at
from trainer.training.checkpoints import MARKER, Marker

BIG = bytes(range(256)) * 2**12
"""1 MiB."""
VARIABLES = f"{model_folder.SAVED_MODEL}/variables/variables.data-00000-of-00001"
MODEL = {
    f"{model_folder.SAVED_MODEL}/saved_model.pb": b"graph",
    VARIABLES: BIG,
    model_folder.MODEL_WEIGHTS: BIG,
    model_folder.HISTORY: b'{"epoch": 1}\n',
    model_folder.MODEL_CONFIG: b'{"best_epoch": 1}',
}
LINES = ("first\n", "second\n", "third\n")
RECORD = {"metrics": {"kld": 0.5}, "lineage": {}}


def write_model(folder, content=MODEL):
    """A folder as `train` leaves it, with files in folders."""
    with files.replacing(folder, last=model_folder.MODEL_CONFIG) as partial:
        for name, data in content.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_bytes(data)


def write_files(folder):
    """Reports and settings: written, replaced, read back."""
    report = folder / "below" / "report.html"
    for text in ("old", "new"):
        with files.replacing(report) as partial:
            partial.write_text(text)
    files.write_json(folder / "settings.json", {"seed": 1})
    assert (report.read_text(), files.read_json(folder / "settings.json", "", dict)) == ("new", {"seed": 1})
    files.check_output_path(folder / "not" / "made" / "yet")


def write_folders(folder):
    """Models: written, refused where one is, and written over a copy that was interrupted."""
    write_model(folder / "model")
    try:
        write_model(folder / "model")
    except PlaceError:
        pass
    else:
        raise AssertionError("a folder was replaced")
    for name in (files.UNFINISHED, "stale"):
        (folder / "again").mkdir(exist_ok=True)
        (folder / "again" / name).touch()
    write_model(folder / "again")
    for each in ("model", "again"):
        read = {name: (folder / each / name).read_bytes() for name in MODEL}
        assert read == MODEL
        assert files.is_taken(folder / each)


def write_checkpoints(folder):
    """Checkpoints, by a training that marks the folder: the newest two stay."""
    state = stored_at(folder / "state")
    state.check_writable()
    marker = Marker(state, {})
    marker.write()
    state.remove_leftovers()
    for index in range(3):
        marker.check()
        state.write(f"{index}.npz", lambda file: file.write(BIG))
        state.remove(f"{index - 2}.npz")
    assert MARKER in state.names()
    marker.remove()
    assert sorted(state.names()) == ["1.npz", "2.npz"]
    with state.open("2.npz") as file:
        assert file.read() == BIG


def write_logs(folder):
    """Events: a file that grows."""
    for line in LINES:
        with (folder / "events").open("a") as file:
            file.write(line)
    assert (folder / "events").read_text() == "".join(LINES)


def write_registry(folder):
    """A registry in a folder: two versions, and the default moved back."""
    registry = LocalRegistry.at(str(folder / "models"))
    registry.add("msinet", folder / "model", RECORD, True, PRETRAINED_VERSION)
    registry.add("msinet", folder / "again", RECORD, True, 1)
    registry.set_alias("msinet", model_names.DEFAULT, 1)
    assert [version.number for version in registry.versions("msinet")] == [1, 2]
    assert registry.default("msinet").number == 1


def change_owner_things(folder):
    """Modes and times of a file, which only its owner may set: a mount of another user refuses."""
    for change in (lambda path: path.chmod(0o600), lambda path: os.utime(path, (1, 1))):
        try:
            change(folder / "settings.json")
        except PermissionError:
            print("refused")


def main():
    files.MOUNT = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    with reported():
        for write in (write_files, write_folders, write_checkpoints, write_logs, write_registry):
            write(folder)
            print(write.__name__, flush=True)
        change_owner_things(folder)


if __name__ == "__main__":
    main()
