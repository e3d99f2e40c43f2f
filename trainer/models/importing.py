"""Make a model's folder of weights that were trained elsewhere, and compare its maps with those of their graph.

This happens in the worker of `trainer.isolated`, which loads TensorFlow: a graph or a file of unknown origin can
end the process that reads it, or take all of its memory; and a training that imports weights configures
TensorFlow, which must not have started before.
"""

import dataclasses
import pathlib
import shutil
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import isolated
from trainer.artifacts import HISTORY, MODEL_CONFIG, TRAINING_IMAGES, SizedConfig, code_version
from trainer.errors import ContentError
from trainer.files import read_json, replacing
from trainer.isolated import Limits
from trainer.models.weight_files import LocalWeights

if TYPE_CHECKING:
    import keras

    from trainer.models.load import Matched
    from trainer.models.tensorflow_files import Graph

IMPORT_BYTES, PIXEL_BYTES = 6 * 10**9, 10_000
"""Memory for an import with small images, and more for each pixel. An import takes 2 GB, and 4 kB for a pixel."""
SECONDS, PIXEL_SECONDS = 900, 1e-3
"""Processor time, likewise. An import takes one minute; some five maps are predicted."""
NOT_MSI_NET = "it does not hold the weights of MSI-Net alone; get them from where they were published"
TOLERANCE = 1e-4
"""Maximum difference allowed between maps of the source's own graph and of the imported network, on 0..1. Another
order of float32 sums changes about 1e-6; another way of doubling a map changes 2e-2."""
NOT_COMPARED = "its maps were not compared"


@dataclasses.dataclass(frozen=True)
class Imported:
    """Result of an import."""

    summary: dict[str, Any]
    """The content of MODEL_CONFIG."""
    fingerprint: str
    """Digest (hex) of the source's files."""
    report: str
    """For people: each array with its layer and shape, the ignored arrays, and how the maps compare; one line for
    a model of this project."""
    compared: str
    """How the maps compare."""


def import_local(
    local: LocalWeights, source: str, output: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Import weights as `convert` does, in the worker; nothing is left at `output` after an error.

    Raises:
        ContentError: as `convert`; or the import takes more time or memory than MSI-Net's, or crashes.
        UserError: the output exists or cannot be written.
    """
    n_pixels = image_size[0] * image_size[1]
    limits = Limits(SECONDS + PIXEL_SECONDS * n_pixels, IMPORT_BYTES + PIXEL_BYTES * n_pixels)
    try:
        with replacing(output, last=MODEL_CONFIG) as folder:
            imported: Imported = isolated.call(
                f"{__name__}.convert_here",
                *(local, source, folder, dataset, image_size),
                file=source,
                remedy=NOT_MSI_NET,
                limits=limits,
            )
    finally:
        isolated.end()  # the worker has TensorFlow in its memory
    return imported


# === In the worker ===


def convert_here(
    local: LocalWeights, source: str, folder: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Load TensorFlow in this process, without GPUs, and import weights with it."""
    from trainer.runtime import load_tensorflow

    load_tensorflow()
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # a training would find its memory taken
    return convert(local, source, folder, dataset, image_size)


def convert(
    local: LocalWeights, source: str, output: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Make a model's folder (see `trainer.artifacts`) of local weights.

    If the weights are a graph that can be run here, its map of one image is compared with the network's. A model
    of this project keeps its configuration and its history.

    Args:
        local: the weights.
        source: where they come from, for messages and for the model's record.
        output: folder to write, which does not exist; what is there after an error is for the caller to remove.
        dataset: name of the dataset that the weights were trained on.
        image_size: (H, W) to which images are fitted, pixels.

    Raises:
        ContentError: the weights are damaged, belong to another network, or give other maps than the network.
        UserError, OSError: the output cannot be written.
    """
    from trainer.model import build_model  # here and below: TensorFlow is loaded now
    from trainer.models import load, tensorflow_files
    from trainer.models.saved_model import write_model

    contents = tensorflow_files.read(local.path)
    network = build_model((None, None), "float32")
    matched = load.assign_arrays(network, contents.arrays, source)
    if matched.is_encoder:
        raise ContentError(f"{source} {load.ENCODER_ALONE}")
    difference, compared = compare(network, contents.graph, image_size, source)
    facts = {"source": source, "kind": contents.kind, "fingerprint": local.fingerprint}
    summary = _summary(local, matched, dataset, image_size, {**facts, "difference": difference})
    output.mkdir()
    (output / HISTORY).write_text("")  # no epochs
    for name in (HISTORY, TRAINING_IMAGES):
        if local.model and (local.model / name).is_file():
            shutil.copy(local.model / name, output / name)
    write_model(network, output, tuple(summary["image_size"]), summary)
    report = f"{source}: a model of this project, {_count(matched)}"
    if local.model is None:
        report = "\n".join([f"{source}: {contents.kind}", *_table(matched), compared])
    return Imported(summary, local.fingerprint, report, compared)


def compare(
    network: "keras.Model", graph: "Graph | None", image_size: tuple[int, int], source: str
) -> tuple[float | None, str]:
    """Compare the maps of a network and of a graph for a random image.

    Returns:
        The maximum difference on 0..1, None if the graph cannot be run, and a sentence about it.

    Raises:
        ContentError: the difference is above `TOLERANCE`.
    """
    obstacle = "it holds weights alone" if graph is None else graph.obstacle
    if graph is None or obstacle:
        return None, f"{NOT_COMPARED}: {obstacle}"
    image = np.random.default_rng(0).integers(0, 256, (1, *image_size, 3)).astype(np.float32)
    try:
        theirs = graph.run(image)
    except ValueError as error:
        return None, f"{NOT_COMPARED}: its graph does not run here ({error})"
    ours = network(image).numpy()
    if (theirs.shape, theirs.dtype) != (ours.shape, ours.dtype):
        raise ContentError(
            f"{source} returns maps of {theirs.shape} {theirs.dtype}, but MSI-Net returns {ours.shape} "
            f"{ours.dtype}: it is another network"
        )
    difference = float(np.abs(theirs - ours).max())
    size = "x".join(map(str, image_size))
    if not difference <= TOLERANCE:
        raise ContentError(
            f"{source} has the weights of MSI-Net, but its own graph gives other maps: the maximum difference is "
            f"{difference:.2g} on 0..1, {TOLERANCE:g} is allowed (random image of {size}). It is another network"
        )
    return (
        difference,
        f"maps of its own graph and of the imported network differ by at most {difference:.2g} on 0..1 ({size})",
    )


def _summary(
    local: LocalWeights, matched: "Matched", dataset: str, size: tuple[int, int], facts: dict[str, Any]
) -> dict[str, Any]:
    """MODEL_CONFIG of the imported model; a training from it resumes only with the same `identity`."""
    if local.model is not None:
        remedy = "give the folder of a model that `train` or `import-weights` wrote"
        return dict(read_json(local.model / MODEL_CONFIG, remedy, SizedConfig))
    checksum = 0
    for key in sorted(matched.values):
        checksum = zlib.crc32(matched.values[key].tobytes(), checksum)
    return {
        "dataset": dataset,
        "image_size": list(size),
        "imported": facts,
        "code_version": code_version(),
        "identity": {"imported": f"{checksum:08x}"},
        "best_epoch": 0,
    }


def _count(matched: "Matched") -> str:
    return f"{len(matched.values)} arrays with {sum(value.size for value in matched.values.values()):,} weights"


def _table(matched: "Matched") -> list[str]:
    from trainer.models.load import listed

    width = max(len(row.name) for row in matched.rows)
    lines = [
        f"  {row.name:<{width}}  {row.layer}/{row.role:<6}  {'x'.join(map(str, row.shape))}"
        for row in matched.rows
    ]
    lines.append(_count(matched))
    for reason in sorted(set(matched.ignored.values())):
        names = [name for name, why in matched.ignored.items() if why == reason]
        lines.append(f"ignored, {reason}: {listed(names)}")
    return lines
