"""What reads other people's files, and files that it reads: for tests/test_bad_samples.py and `make fuzz`.

A reader is given one file, sound or damaged. It returns if it accepts the file, and raises `RefusedError` with its
sentence if it refuses it; any other exception is a traceback that a user would have seen.
"""

import contextlib
import dataclasses
import io
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image
from scipy import io as mat

from tests import reference_graph, small_sources, weight_files
from tests.golden.inputs import image
from tests.narrow import narrowed, unexported
from tests.trainer import predictable
from trainer.errors import UserError
from trainer.io.files import write_json
from trainer.network.importing import convert_weights
from trainer.network.model_folder import MODEL_CONFIG
from trainer.network.weight_files import LocalWeights

PICTURES = ("photo.jpg", "photo.png", "photo.webp", "photo.gif", "photo.tif", "photo.bmp")
FORMATS = {"jpg": "JPEG", "tif": "TIFF"}
SIZE = small_sources.SIZE
"""(height, width) of the pictures, pixels."""


class RefusedError(Exception):
    """The file was refused; the message is what the user is told."""


@dataclasses.dataclass(frozen=True)
class Reader:
    """What reads a file, with sound ones: name -> content."""

    sound: dict[str, bytes]
    read: Callable[[str, bytes], None]
    """Reads content under the name of a sound file."""


@contextlib.contextmanager
def opened(name: str, folder: pathlib.Path) -> Iterator[Reader]:
    """The reader of this name, which writes below an empty folder; its networks are narrow."""
    with narrowed(), unexported(), READERS[name](folder) as reader:
        yield reader


def command(main: Callable[[list[str]], Any], *arguments: object) -> None:
    """Run a command in this process."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = main(list(map(str, arguments)))
    except SystemExit as left:
        status = left.code
    if isinstance(status, str):
        raise RefusedError(status)
    if status:
        raise RefusedError(said.getvalue())


def trainer(*arguments: object) -> None:
    from trainer.__main__ import main

    command(main, *arguments)


def pictures() -> dict[str, bytes]:
    """A small picture in each format."""
    written = {}
    for name in PICTURES:
        buffer = io.BytesIO()
        ending = name.rpartition(".")[2]
        Image.fromarray(image(1, 1, *SIZE)[0]).save(buffer, FORMATS.get(ending, ending.upper()))
        written[name] = buffer.getvalue()
    return written


def _new(folder: pathlib.Path) -> pathlib.Path:
    made = folder / uuid.uuid4().hex
    made.mkdir(parents=True)
    return made


def _put(folder: pathlib.Path, name: str, content: bytes) -> pathlib.Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return path


def _model(folder: pathlib.Path) -> pathlib.Path:
    """The folder of a narrow model with seeded weights."""
    predictable.write_model(folder / "model", predictable.network(3))
    write_json(folder / "model" / MODEL_CONFIG, {"image_size": SIZE})
    return folder / "model"


@contextlib.contextmanager
def _predict(folder: pathlib.Path) -> Iterator[Reader]:
    model = _model(folder)

    def read(name: str, content: bytes) -> None:
        here = _new(folder)
        trainer("predict", _put(here, name, content), "--model", model, "--output-dir", here / "maps")

    yield Reader(pictures(), read)


@contextlib.contextmanager
def _fetch(folder: pathlib.Path) -> Iterator[Reader]:
    """Archives, a picture, a MATLAB file and a table, each in a source whose other files are sound."""
    osie = small_sources.files(small_sources.write_tree(folder / "osie", 3))
    small_sources.write_tar(folder / "set.tar.gz", osie)
    points = np.zeros((1, 1), [("fixations", "O")])
    points[0, 0]["fixations"] = small_sources.POINTS[:, ::-1] + 1
    matlab = io.BytesIO()
    mat.savemat(matlab, {"gaze": points}, do_compression=True)
    table = "image,x,y\n" + "".join(
        f"{index}.png,{x},{y}\n" for index in (1, 2, 3) for y, x in small_sources.POINTS
    )
    stimuli = {name: content for name, content in osie.items() if name.startswith("stimuli/")}
    salicon = {}
    for split, index in (("train", 1), ("train", 2), ("val", 3)):
        salicon[f"images/{split}/{index}.png"] = osie[f"stimuli/{index}.png"]
        salicon[f"maps/{split}/{index}.png"] = osie[f"fixation/{index}.png"]
        salicon[f"fixations/{split}/{index}.mat"] = matlab.getvalue()
    sources: dict[str, tuple[str, dict[str, bytes], str]] = {
        "2.png": ("osie", osie, "stimuli/2.png"),
        "2.mat": ("salicon", salicon, "fixations/train/2.mat"),
        "fixations.csv": ("custom", stimuli, "fixations.csv"),
    }

    def read(name: str, content: bytes) -> None:
        here = _new(folder)
        if name in sources:
            dataset, others, place = sources[name]
            for other, sound in others.items():
                _put(here / "set", other, sound)
            _put(here / "set", place, content)
            source = here / "set"
        else:
            dataset, source = "osie", _put(here, name, content)
        trainer(
            *("fetch", "--dataset", dataset, "--source", source, "--output-dir", here / "data", "--cache-dir", ""),
            *("--image-size", "x".join(map(str, SIZE)), "--allow-partial-data", "true"),
            *(("--split", "shuffle", "--coordinates", "pixels") if dataset == "custom" else ()),
        )

    sound = {
        "set.zip": small_sources.zipped(osie),
        "set.tar.gz": (folder / "set.tar.gz").read_bytes(),
        "2.png": osie["stimuli/2.png"],
        "2.mat": matlab.getvalue(),
        "fixations.csv": table.encode(),
    }
    yield Reader(sound, read)


@contextlib.contextmanager
def _import_weights(folder: pathlib.Path) -> Iterator[Reader]:
    """What `import-weights` does in its own process, without the process."""
    network = predictable.network(3)
    arrays = reference_graph.weights_of(network)
    graph = reference_graph.frozen(weights=arrays)
    network.save_weights(folder / "x.weights.h5")
    layers: dict[str, tuple[Any, ...]] = {}
    for name, value in arrays.items():
        layer = name.rpartition("/")[0].replace("/", "_")
        layers[layer] = (*layers.get(layer, ()), value)
    weight_files.write_legacy(folder / "legacy.h5", layers)
    names, values = list(arrays), list(arrays.values())
    tf.raw_ops.SaveV2(
        prefix=str(folder / "x.ckpt"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
    )
    checkpoint = {path.name: path.read_bytes() for path in folder.glob("x.ckpt*")}
    sound = {name: (folder / name).read_bytes() for name in ("x.weights.h5", "legacy.h5")}

    def read(name: str, content: bytes) -> None:
        here = _new(folder)
        for other, whole in checkpoint.items() if name in checkpoint else ():
            _put(here, other, whole)
        path = _put(here, name, content)
        if name in checkpoint:
            path = here / "x.ckpt"
        with _refusing():
            convert_weights(LocalWeights(path, None, "0"), str(path), here / "model", "salicon", SIZE)

    yield Reader({**sound, "x.pb": graph.SerializeToString(), **checkpoint}, read)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Errors of users inside the block are refusals, and so is a lack of memory, which a worker reports."""
    try:
        yield
    except (UserError, OSError, MemoryError) as error:
        raise RefusedError(f"error: {error}") from None


READERS: dict[str, Callable[[pathlib.Path], contextlib.AbstractContextManager[Reader]]] = {
    "predict": _predict,
    "fetch": _fetch,
    "import-weights": _import_weights,
}
