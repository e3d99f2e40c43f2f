"""Make a model's folder of weights that were trained elsewhere.

This happens in the worker of `trainer.machine.untrusted`, which loads TensorFlow, for two reasons. A file of
unknown origin can end the process that reads it, or take all of its memory. A training that imports weights
configures TensorFlow, which must not have started before.
"""

import dataclasses
import pathlib
import shutil
import zlib
from typing import TYPE_CHECKING, Any

from trainer.io import read_json, replacing
from trainer.machine import Limits, call_untrusted, code_version, end_untrusted
from trainer.network.model_folder import HISTORY, MODEL_CONFIG, TRAINING_IMAGES, ModelFolder, SizedConfig
from trainer.network.networks import DEFAULT_NETWORK
from trainer.network.weight_files import LocalWeights
from trainer.texts import some

if TYPE_CHECKING:
    from trainer.network.matching import Matched

IMPORT_BYTES, PIXEL_BYTES = 6 * 10**9, 10_000
"""Memory for an import with small images, and more for each pixel. An import takes 2 GB, and 4 kB for a pixel."""
NAMED = 12
"""Ignored arrays that a report names."""
SECONDS, PIXEL_SECONDS = 900, 1e-3
"""Processor time, likewise. An import takes one minute. The check of the export predicts three maps."""
NOT_MSI_NET = "it does not hold the weights of MSI-Net alone. Get them from where they were published"


@dataclasses.dataclass(frozen=True)
class Imported:
    """Result of an import."""

    summary: dict[str, Any]
    """The content of MODEL_CONFIG."""
    fingerprint: str
    """Digest (hex) of the source's files."""
    report: str
    """For people: each array with its layer and shape, and the ignored arrays. One line for a model of this
    project."""

    @classmethod
    def of(
        cls, local: LocalWeights, source: str, output: pathlib.Path, dataset: str, image_size: tuple[int, int]
    ) -> "Imported":
        """Import weights as `convert_weights` does, in the worker. Nothing is left at `output` after an error.

        Raises:
            ContentError: as `convert_weights`, or the import takes more time or memory than MSI-Net's, or crashes.
            UserError: the output exists or cannot be written.
        """
        n_pixels = image_size[0] * image_size[1]
        limits = Limits(SECONDS + PIXEL_SECONDS * n_pixels, IMPORT_BYTES + PIXEL_BYTES * n_pixels)
        try:
            with replacing(output, last=MODEL_CONFIG) as folder:
                imported: Imported = call_untrusted(
                    f"{__name__}.convert_here",
                    *(local, source, folder, dataset, image_size),
                    file=source,
                    remedy=NOT_MSI_NET,
                    limits=limits,
                )
        finally:
            end_untrusted()  # the worker has TensorFlow in its memory
        return imported


# === In the worker ===


def convert_here(
    local: LocalWeights, source: str, folder: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Load TensorFlow in this process, without GPUs, and import weights with it."""
    from trainer.machine import load_tensorflow

    load_tensorflow()
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # a training would find its memory taken
    return convert_weights(local, source, folder, dataset, image_size)


def convert_weights(
    local: LocalWeights, source: str, output: pathlib.Path, dataset: str, image_size: tuple[int, int]
) -> Imported:
    """Make a model's folder (see `trainer.network.model_folder`) of local weights.

    A model of this project keeps its configuration and its history. Weights from elsewhere become a model of the
    default network.

    Args:
        local: the weights.
        source: where they come from, for messages and for the model's record.
        output: folder to write, which does not exist. After an error the caller removes it.
        dataset: name of the dataset that the weights were trained on.
        image_size: (H, W) to which images are fitted, pixels.

    Raises:
        ContentError: the weights are damaged or belong to another network.
        UserError, OSError: the output cannot be written.
    """
    from trainer.network import load, tensorflow_files
    from trainer.network.keras_networks import build_network
    from trainer.network.saved_model import write_model  # here and below: TensorFlow is loaded now

    contents = tensorflow_files.read_contents(local.path)
    architecture = ModelFolder(local.model).architecture if local.model else DEFAULT_NETWORK
    network = build_network(architecture, (None, None), "float32")
    matched = load.assign_arrays(network, contents.arrays, source, whole=True)
    facts = {"source": source, "kind": contents.kind, "fingerprint": local.fingerprint}
    summary = _summary(local, matched, dataset, image_size, facts)
    output.mkdir()
    (output / HISTORY).write_text("")  # no epochs
    for name in (HISTORY, TRAINING_IMAGES):
        if local.model and (local.model / name).is_file():
            shutil.copy(local.model / name, output / name)
    write_model(network, output, tuple(summary["image_size"]), summary)
    report = f"{source}: a model of this project, {_count(matched)}"
    if local.model is None:
        report = "\n".join([f"{source}: {contents.kind}", *_table(matched)])
    return Imported(summary, local.fingerprint, report)


def _summary(
    local: LocalWeights, matched: "Matched", dataset: str, size: tuple[int, int], facts: dict[str, Any]
) -> dict[str, Any]:
    """MODEL_CONFIG of the imported model. A training from it resumes only with the same `identity`.

    Example: `{"imported": "8d3f02c1"}` is the identity of weights from elsewhere, a CRC-32 of their values.
    """
    if local.model is not None:
        remedy = "give the folder of a model that `train` or `import-weights` wrote"
        return dict(read_json(local.model / MODEL_CONFIG, remedy, SizedConfig))
    checksum = 0
    for key in sorted(matched.values):
        checksum = zlib.crc32(matched.values[key].tobytes(), checksum)
    return {
        "network": DEFAULT_NETWORK.name,
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
    width = max(len(row.name) for row in matched.rows)
    lines = [
        f"  {row.name:<{width}}  {row.layer}/{row.role:<6}  {'x'.join(map(str, row.shape))}"
        for row in matched.rows
    ]
    lines.append(_count(matched))
    for reason in sorted(set(matched.ignored.values())):
        names = [name for name, why in matched.ignored.items() if why == reason]
        lines.append(f"ignored, {reason}: {some(names, NAMED)}")
    return lines
