"""Make a model's folder of weights that were trained elsewhere, and compare its maps with those of their graph."""

import pathlib
import shutil
import zlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.artifacts import HISTORY, MODEL_CONFIG, SizedConfig, code_version
from trainer.errors import ContentError, first_line
from trainer.files import read_json
from trainer.model import build_model
from trainer.models import weight_files, weights
from trainer.models.local_weights import Imported, LocalWeights
from trainer.models.saved_model import write_model
from trainer.models.weight_files import Graph
from trainer.models.weights import Matched

TOLERANCE = 1e-4
"""Maximum difference allowed between maps of the source's own graph and of the imported network, on 0..1. Another
order of float32 sums changes about 1e-6; another way of doubling a map changes 2e-2."""
NOT_COMPARED = "its maps were not compared"


def convert(
    local: LocalWeights, source: str, output: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Make a model's folder (see `trainer.artifacts`) of local weights.

    If the weights are a graph that can be run here, its map of one image is compared with the network's. A model
    of this project keeps its configuration and its history. Weights of unknown origin can end the process, or take
    all of its memory: `trainer.models.importing` calls this function in a worker.

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
    contents = weight_files.read(local.path)
    network = build_model((None, None), "float32")
    matched = weights.match(contents.arrays, weights.shapes(network), source)
    if matched.is_encoder:
        raise ContentError(f"{source} {weights.ENCODER_ALONE}")
    weights.assign(network, matched)
    difference, compared = compare(network, contents.graph, image_size, source)
    facts = {"source": source, "kind": contents.kind, "fingerprint": local.fingerprint}
    summary = _summary(local, matched, dataset, image_size, {**facts, "difference": difference})
    _write(output, network, local, summary)
    report = f"{source}: a model of this project, {_count(matched)}"
    if local.model is None:
        report = "\n".join([f"{source}: {contents.kind}", *_table(matched), compared])
    return Imported(summary, local.fingerprint, report, compared)


def compare(
    network: keras.Model, graph: Graph | None, image_size: tuple[int, int], source: str
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
    except (tf.errors.OpError, ValueError, TypeError, LookupError) as error:
        return None, f"{NOT_COMPARED}: its graph does not run here ({first_line(error)})"
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
    local: LocalWeights, matched: Matched, dataset: str, size: tuple[int, int], facts: dict[str, Any]
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


def _write(folder: pathlib.Path, network: keras.Model, local: LocalWeights, summary: dict[str, Any]) -> None:
    folder.mkdir()
    history = local.model and local.model / HISTORY
    if history and history.is_file():
        shutil.copy(history, folder / HISTORY)
    else:
        (folder / HISTORY).write_text("")  # no epochs
    write_model(network, folder, tuple(summary["image_size"]), summary)


def _count(matched: Matched) -> str:
    return f"{len(matched.values)} arrays with {sum(value.size for value in matched.values.values()):,} weights"


def _table(matched: Matched) -> list[str]:
    width = max(len(row.name) for row in matched.rows)
    lines = [
        f"  {row.name:<{width}}  {row.layer}/{row.role:<6}  {'x'.join(map(str, row.shape))}"
        for row in matched.rows
    ]
    lines.append(_count(matched))
    for reason in sorted(set(matched.ignored.values())):
        names = [name for name, why in matched.ignored.items() if why == reason]
        lines.append(f"ignored, {reason}: {weights.listed(names)}")
    return lines
