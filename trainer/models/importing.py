"""A model folder from weights that were trained elsewhere."""

import dataclasses
import os
import pathlib
import shutil
import zlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.artifacts import HISTORY, MODEL_CONFIG, code_version
from trainer.errors import UserError, first_line
from trainer.files import read_json, replacing
from trainer.model import build_model
from trainer.models import weight_files, weight_sources, weights
from trainer.models.frozen_graph import Graph
from trainer.models.saved_model import write_model
from trainer.models.weight_sources import LocalWeights, check_import
from trainer.models.weights import Matched

TOLERANCE = 1e-4
"""Largest difference allowed between maps of the source's own graph and of the imported network, on 0..1. Sums of
float32 in another order differ by some 1e-6, another way to double a map by 2e-2."""
NOT_COMPARED = "its answer was not compared"


@dataclasses.dataclass(frozen=True)
class Imported:
    """What an import did."""

    summary: dict[str, Any]
    """The content of MODEL_CONFIG."""
    fingerprint: str
    """Digest (hex) of the source's files."""
    report: str
    """A table for people: each array, its layer and shape; what was ignored; how the answers compare."""


def import_model(
    source: str, output: str | os.PathLike[str], dataset: str = "salicon", image_size: str = ""
) -> Imported:
    """Make a model folder (see `trainer.artifacts`) of the weights at `source`.

    Where the source is a graph that can be run here, it and the imported network answer the same image first.
    A model of this project keeps its configuration and its history.

    Args:
        source: as `trainer.models.weight_sources.opened`.
        output: folder to write; it must be empty or not exist.
        dataset: name of the data set that the weights were trained on.
        image_size: (height x width) to which images are fitted, such as 240x320; empty for the data set's.

    Raises:
        UserError: there is nothing at the source, it is damaged or of another network, it answers otherwise than
            the imported network, or the output cannot be written. Nothing is left at `output` then.
    """
    size, output = check_import(source, output, dataset, image_size), pathlib.Path(output)
    with weight_sources.opened(source) as found:
        contents = weight_files.read(found.path)
        network = build_model((None, None), "float32")
        matched = weights.match(contents.arrays, weights.shapes(network), source)
        if matched.is_encoder:
            raise UserError(f"{source} {weights.ENCODER_ALONE}")
        weights.assign(network, matched)
        difference, compared = compare(network, contents.graph, size, source)
        facts = {"source": source, "kind": contents.kind, "fingerprint": found.fingerprint}
        summary = _summary(found, matched, dataset, size, {**facts, "difference": difference})
        _write(output, network, found, summary)
    report = "\n".join([f"{source}: {contents.kind}", *_table(matched), compared])
    return Imported(summary, found.fingerprint, report)


def compare(
    network: keras.Model, graph: Graph | None, image_size: tuple[int, int], source: str
) -> tuple[float | None, str]:
    """The largest difference of the maps of a network and of a graph, on 0..1, and the sentence that says so.

    None where the graph cannot be run. Raises `UserError` for a difference above `TOLERANCE`.
    """
    obstacle = "it holds weights alone" if graph is None else graph.obstacle
    if graph is None or obstacle:
        return None, f"{NOT_COMPARED}: {obstacle}"
    image = np.random.default_rng(0).integers(0, 256, (1, *image_size, 3)).astype(np.float32)
    try:
        theirs = graph.answer(image)
    except (tf.errors.OpError, ValueError) as error:
        return None, f"{NOT_COMPARED}: its graph does not run here ({first_line(error)})"
    ours = network(image).numpy()
    if theirs.shape != ours.shape:
        raise UserError(
            f"{source} answers with {theirs.shape} where MSI-Net answers {ours.shape}: another network"
        )
    difference = float(np.abs(theirs - ours).max())
    size = "x".join(map(str, image_size))
    if not difference <= TOLERANCE:
        raise UserError(
            f"{source} has the weights of MSI-Net, but its own graph answers otherwise: {difference:.2g} at most "
            f"on 0..1, {TOLERANCE:g} is allowed (random image of {size}). It is another network"
        )
    return (
        difference,
        f"its own graph and the imported network differ by {difference:.2g} at most on 0..1 ({size})",
    )


def _summary(
    found: LocalWeights, matched: Matched, dataset: str, size: tuple[int, int], facts: dict[str, Any]
) -> dict[str, Any]:
    """MODEL_CONFIG of the imported model; `identity` is what a training that starts from it must agree with."""
    if found.model is not None:
        remedy = "give the folder of a model that `train` or `import-weights` wrote"
        return dict(read_json(found.model / MODEL_CONFIG, remedy))
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


def _write(output: pathlib.Path, network: keras.Model, found: LocalWeights, summary: dict[str, Any]) -> None:
    with replacing(output) as folder:
        folder.mkdir()
        history = found.model and found.model / HISTORY
        if history and history.is_file():
            shutil.copy(history, folder / HISTORY)
        else:
            (folder / HISTORY).write_text("")  # no epoch here
        write_model(network, folder, tuple(summary["image_size"]), summary)


def _table(matched: Matched) -> list[str]:
    width = max(len(row.name) for row in matched.rows)
    lines = [
        f"  {row.name:<{width}}  {row.layer}/{row.role:<6}  {'x'.join(map(str, row.shape))}"
        for row in matched.rows
    ]
    total = sum(value.size for value in matched.values.values())
    lines.append(f"{len(matched.values)} arrays with {total:,} weights")
    for why in sorted(set(matched.ignored.values())):
        names = [name for name, reason in matched.ignored.items() if reason == why]
        lines.append(f"ignored, {why}: {weights.listed(names)}")
    return lines
