"""Files of weights: which kind is at a path, what identifies their content, and those of Keras (HDF5) themselves.

`trainer.models.tensorflow_files` reads the other kinds. Loads neither TensorFlow nor Keras, because the pipeline
uses this module too.

HDF5 can lead out of a file, to other files of the machine: by links, and by datasets whose values are elsewhere.
Keras writes neither; links are not followed, and such datasets are refused.
"""

import dataclasses
import enum
import functools
import hashlib
import io
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

import h5py  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

from trainer.errors import ContentError, UserError, first_line, printable
from trainer.io import untrusted
from trainer.io.files import checksum, local_path
from trainer.io.untrusted import Limits

KINDS = (
    "a frozen graph (.pb, or a SavedModel folder), a TensorFlow checkpoint (its name up to .ckpt, or .index), or "
    "an HDF5 file of Keras (.weights.h5, .h5)"
)
"""The files that are read, for messages."""
SAVED_MODEL = "saved_model.pb"
PART = re.compile(r"\.(index|data-\d{5}-of-\d{5})$")
"""Endings of the names of a checkpoint's files."""
INSIDE = re.compile(rf"{re.escape(SAVED_MODEL)}|variables/[^/]+|[^/]+{PART.pattern}")
"""The files of a folder that weights are read from."""
MOST_GROUPS = 50
"""How deep groups may be nested; those of Keras have a level for each model or layer within another."""
LAYERS, VARS, NAME = "layers", "vars", "name"
LAYER_NAMES, WEIGHT_NAMES, OF_MODEL = "layer_names", "weight_names", "model_weights"
HDF5_LIMITS, TENSORFLOW_LIMITS = Limits(60, 3 * 10**9), Limits(900, 6 * 10**9)
"""What a file of weights may take to be read; MSI-Net's takes 1 s and 0.4 GB, and 5 s and 2 GB with TensorFlow."""
REMEDY = "get the weights again from where they were published"

Shape = tuple[int, ...]


class Kind(enum.Enum):
    """Kinds of weights."""

    SAVED_MODEL = enum.auto()
    CHECKPOINT = enum.auto()
    GRAPH = enum.auto()
    HDF5 = enum.auto()


@dataclasses.dataclass(frozen=True)
class LocalWeights:
    """Weights as local files."""

    path: pathlib.Path
    """A file, a folder, or the common name of a checkpoint's files."""
    model: pathlib.Path | None
    """The folder of the model, if the weights are those of a model of this project."""
    fingerprint: str
    """A digest (hex) of the files' names and checksums, the same wherever they are."""


@dataclasses.dataclass(frozen=True)
class Array:
    """One array of a file."""

    name: str
    """The name in the file."""
    shape: Shape
    """The shape that the file declares, which may be larger than any memory."""
    read: Callable[[], np.ndarray]
    """The values. Raises `ContentError` if they are damaged, or not within the file."""
    called: str
    """`layer/kernel`, possibly behind scopes, if the file has the layer's name; else empty."""
    object_path: str = ""
    """`attribute/kernel`, the path of objects to the layer, if the file has it."""

    @classmethod
    def of(cls, name: str, value: np.ndarray) -> Self:
        """Make an array that is in memory, and called by its name."""
        return cls(name, value.shape, lambda: value, name)


# === What is at a path ===


def kind_of_weights(path: pathlib.Path) -> tuple[Kind, pathlib.Path]:
    """Tell by its name which kind of weights is at a local path.

    Returns:
        The kind, and its file, its folder, or the common name of a checkpoint's files.

    Raises:
        UserError: nothing is there, or it is of an unknown kind.
    """
    if path.name == SAVED_MODEL:
        path = path.parent
    if (path / SAVED_MODEL).is_file():
        return Kind.SAVED_MODEL, path
    if prefix := _checkpoint_at(path):
        return Kind.CHECKPOINT, prefix
    if not path.exists():
        raise UserError(f"{printable(str(path))} does not exist; give {KINDS}")
    if path.is_file() and path.suffix == ".pb":
        return Kind.GRAPH, path
    if path.is_file() and path.suffix in (".h5", ".hdf5"):
        return Kind.HDF5, path
    what = f"is a folder without {SAVED_MODEL}" if path.is_dir() else "cannot be read as weights"
    raise UserError(f"{path} {what}; give {KINDS}")


def _checkpoint_at(path: pathlib.Path) -> pathlib.Path | None:
    """The common name of a checkpoint's files; None if `path` is not a checkpoint."""
    prefix = path.parent / PART.sub("", path.name)  # `with_name` refuses the folders . and /
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    if prefix.name != path.name:
        raise UserError(f"{path} is a part of a checkpoint whose {prefix}.index is missing; copy all of its files")
    indexes = sorted(path.glob("*.index")) if path.is_dir() else []
    if len(indexes) > 1:
        raise UserError(f"{path} has several checkpoints; name one: {', '.join(file.stem for file in indexes)}")
    return indexes[0].with_suffix("") if indexes else None


def fingerprint_files(source: str) -> str:
    """Compute a digest (hex) of the names and checksums of the weight files at `source`, wherever that is."""
    path = whole(source)
    if not path.is_dir():
        files = {file.name: file for file in path.parent.glob("*") if belongs_to(file.name, path.name)}
    else:
        contents = [*path.glob("*"), *path.glob("variables/*")]
        files = {name: file for file in contents if INSIDE.fullmatch(name := file.relative_to(path).as_posix())}
    return digest({name: checksum(file) for name, file in files.items() if file.is_file()})


def digest(checksums: Mapping[str, str]) -> str:
    """A digest (hex) of files: name -> CRC32C, 8 hex digits."""
    lines = sorted(f"{name}\t{crc}\n" for name, crc in checksums.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def whole(source: str) -> pathlib.Path:
    """The path of a source; for a file of a checkpoint the common name of its files."""
    path = local_path(source)
    return path.with_name(PART.sub("", path.name)) if PART.search(path.name) else path


def belongs_to(file: str, name: str) -> bool:
    """Whether `name` is that of the file, or of the checkpoint that the file belongs to."""
    return file == name or (PART.sub("", file) == name and bool(PART.search(file)))


# === Weights from others, read in a worker ===


def read_in_worker(path: pathlib.Path, shapes: Collection[Shape], what: str) -> list[Array]:
    """Read weights of any kind in the worker of `trainer.io.untrusted`.

    Args:
        path: as in `kind_of_weights`.
        shapes: the arrays of these shapes are read; of all others only names and shapes.
        what: the weights, for messages.

    Raises:
        ContentError: they are damaged, or take more time or memory than HDF5_LIMITS or TENSORFLOW_LIMITS.
        UserError: as `kind_of_weights`.
    """
    kind, path = kind_of_weights(path)
    is_hdf5 = kind is Kind.HDF5
    function = "weight_files.read_fitting_hdf5" if is_hdf5 else "tensorflow_files.read_fitting_tensorflow"
    limits = HDF5_LIMITS if is_hdf5 else TENSORFLOW_LIMITS
    try:
        arrays: list[Array] = untrusted.call(
            f"trainer.models.{function}", path, frozenset(shapes), file=what, remedy=REMEDY, limits=limits
        )
    finally:
        if not is_hdf5:
            untrusted.end()  # the worker has TensorFlow in its memory
    return arrays


def read_fitting_hdf5(path: pathlib.Path, shapes: Collection[Shape]) -> list[Array]:
    """Read an HDF5 file as `fitting` does."""
    return fitting(read_hdf5(path)[1], shapes)


def fitting(arrays: Iterable[Array], shapes: Collection[Shape]) -> list[Array]:
    """Read the values of the arrays of these shapes into memory; of the others there are no values any more."""
    return [
        dataclasses.replace(
            array, read=functools.partial(np.asarray, array.read() if array.shape in shapes else None)
        )
        for array in arrays
    ]


# === Files of Keras ===


def read_hdf5(path: pathlib.Path) -> tuple[str, list[Array]]:
    """The layout of an HDF5 file, for messages, and its arrays of floats; their values are read later.

    Raises:
        ContentError: it is damaged, not a file of Keras, or has values in another file.
    """
    with _reading(path) as file:
        objects = {"": file["/"]}

        def add(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if name.count("/") >= MOST_GROUPS:  # each level takes longer than the one before it
                raise ContentError(f"{path} has groups in more than {MOST_GROUPS} others: {REMEDY}")
            objects[name] = item

        file.visititems(add)  # each object once, behind no link that leads elsewhere
        objects = dict(sorted(objects.items()))
        if LAYER_NAMES in file.attrs or OF_MODEL in objects:
            return "HDF5 file of Keras' legacy layout", list(_legacy(objects, path))
        return "HDF5 file of Keras", list(_current(objects, path))


def encode_hdf5(arrays: Mapping[str, npt.NDArray[np.float32]]) -> bytes:
    """The content of a file as `keras.Model.save_weights` writes it: the same bytes for the same arrays.

    It is made in memory: a file that HDF5 cannot write, as on a full disk, ends the process when HDF5 closes it.

    Args:
        arrays: `layer/kernel` and `layer/bias`, in the order of the network's layers; Keras numbers them.
    """
    numbers: dict[str, str] = {}
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, value in arrays.items():
            layer, _, role = name.rpartition("/")
            number = numbers.setdefault(layer, f"conv2d_{len(numbers)}" if numbers else "conv2d")
            group = file.require_group(f"{LAYERS}/{number}/{VARS}")
            group.attrs[NAME] = layer
            group[{"kernel": "0", "bias": "1"}[role]] = value
    return content.getvalue()  # no copy is made, in spite of the name; a view would outlive the file object


@contextmanager
def _reading(path: pathlib.Path) -> Iterator[h5py.File]:
    """Open a file, and translate the errors of what is read from it inside the block."""
    try:
        with h5py.File(path) as file:
            yield file
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise ContentError(
            f"{path} is damaged or not an HDF5 file of Keras ({first_line(error)}); copy it again"
        ) from None


def _legacy(objects: dict[str, h5py.Group | h5py.Dataset], path: pathlib.Path) -> Iterator[Array]:
    """Read files of `save` and `save_weights` of Keras 1 and 2: layers by name, each with its weights in order."""
    root = OF_MODEL if OF_MODEL in objects else ""
    for layer in _names(objects[root], LAYER_NAMES):
        group = f"{root}/{layer}".lstrip("/")
        for name in _names(objects[group], WEIGHT_NAMES):
            dataset = objects[f"{group}/{name}"]
            if _has_floats(dataset, path):
                read = functools.partial(_values, path, f"{group}/{name}")
                yield Array(f"{layer}/{name}", dataset.shape, read, f"{layer}/{_role(dataset)}")


def _current(objects: dict[str, h5py.Group | h5py.Dataset], path: pathlib.Path) -> Iterator[Array]:
    """Read the layout of `save_weights` of Keras 3, and of 2.13 for .weights.h5: groups `vars` by attribute path.

    Since Keras 3.6 a group has the layer's name; before, a layer in a list is known only by its path.
    """
    for name, dataset in objects.items():
        group, _, index = name.rpartition("/")
        if group.rpartition("/")[2] != VARS or not _has_floats(dataset, path):
            continue
        object_path, attributes = group.removesuffix(VARS).rstrip("/"), objects[group].attrs
        called = _text(attributes[NAME]) if NAME in attributes else ""
        role = _role(dataset) if index in ("0", "1") else index
        read = functools.partial(_values, path, name)
        yield Array(name, dataset.shape, read, f"{called}/{role}" if called else "", f"{object_path}/{role}")


def _has_floats(item: h5py.Group | h5py.Dataset, path: pathlib.Path) -> bool:
    """Whether this is an array of floats; raises `ContentError` if its values are elsewhere."""
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.dtype.kind != "f":
        return False
    stored = item.id.get_create_plist()
    if stored.get_layout() == h5py.h5d.VIRTUAL or stored.get_external_count():
        raise ContentError(f"{path} has the values of {item.name} in another file; write the weights with values")
    return True


def _values(path: pathlib.Path, name: str) -> np.ndarray:
    with _reading(path) as file:
        return np.asarray(file[name])


def _role(dataset: h5py.Dataset) -> str:
    """Role of an array of a convolution, from its shape."""
    return "kernel" if len(dataset.shape) > 1 else "bias"


def _names(group: h5py.Group, attribute: str) -> list[str]:
    """The names in an attribute."""
    return [_text(name) for name in np.atleast_1d(group.attrs[attribute]).flat]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
