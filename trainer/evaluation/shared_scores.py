"""What several models were measured on alike: scores of the same images, found in evaluations or made afresh."""

import dataclasses
import functools
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainer import artifacts, files, metrics
from trainer.config import HIGHER_IS_BETTER
from trainer.errors import UserError
from trainer.evaluation import wording
from trainer.evaluation.contestants import Contestant, Measured
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS, UNIFORM, PerImage
from trainer.loading import load_tensorflow

AT_NETWORK_SIZE = ("cc", "kld", "sim")
"""Metrics that are computed at the size of the network's input, so that two sizes give two figures."""
ABOVE_CENTER_BIAS = ("information_gain",)
"""Metrics that are relative to the centre bias of the training images."""
REMEDY = "evaluate all on the same images with --dataset-dir DIR, the folder of a prepared data set"

Files = dict[str, dict[str, pathlib.Path]]
"""Image -> `stimulus`, `density` or the label of a model -> its picture."""


@dataclasses.dataclass(frozen=True)
class Shared:
    """What all models were measured on, in one data set."""

    table: PerImage
    """Label -> scores; CENTER_BIAS beside the models."""
    notes: list[str]
    """What must be known to read them."""
    folder: pathlib.Path | None
    """Prepared data with these images, where there is some."""


def find_shared(contestants: Sequence[Contestant]) -> dict[str, Shared]:
    """What the models have in common of their evaluations, by data set.

    Raises:
        UserError: one of them was not evaluated, or they have no image or no metric in common.
    """
    for each in contestants:
        if not each.measured:
            raise UserError(f"{each.given} is a model without scores; {REMEDY}")
    found, left_out = {}, []
    for dataset in dict.fromkeys(dataset for each in contestants for dataset in each.measured):
        lacking = [each.label for each in contestants if dataset not in each.measured]
        if lacking:
            left_out.append(f"{dataset}, on which {' and '.join(lacking)} {_were(lacking)} not evaluated")
            continue
        shared = _shared({each.label: each.measured[dataset] for each in contestants})
        if any(shared.table.scores.values()):
            found[dataset] = shared
        else:
            counts = ", ".join(
                f"{each.label} {len(each.measured[dataset].table.images):,}" for each in contestants
            )
            left_out.append(f"{dataset}, of which they have no image and metric in common (images: {counts})")
    if not found:
        raise UserError(f"there is nothing to compare but {'; '.join(left_out)}; {REMEDY}")
    for shared in found.values():
        shared.notes.extend(f"Left out: {each}." for each in left_out)
    return found


def _shared(measured: Mapping[str, Measured]) -> Shared:
    """The images that all models have, and what is not the same about them."""
    first, *others = measured.values()
    shared = set(first.table.images).intersection(*(each.table.images for each in others))
    images = [image for image in first.table.images if image in shared]
    tables = {label: each.table.only(images).scores.get(CANDIDATE, {}) for label, each in measured.items()}
    sizes = _distinct(tuple(each.manifest["image_size"]) for each in measured.values())
    # The training images make the centre bias, and a setting may take fewer of the same data.
    data = _distinct(
        (each.manifest["fingerprint"], each.manifest["counts"]["train"]) for each in measured.values()
    )
    left_out = {*(AT_NETWORK_SIZE if len(sizes) > 1 else ()), *(ABOVE_CENTER_BIAS if len(data) > 1 else ())}
    in_all = [metric for metric in HIGHER_IS_BETTER if all(metric in table for table in tables.values())]
    kept = [metric for metric in in_all if metric not in left_out]
    scores = {label: {metric: table[metric] for metric in kept} for label, table in tables.items()}
    folder = None
    if len(sizes) == len(data) == 1 and kept:
        bias = first.table.only(images).scores[CENTER_BIAS]
        scores[CENTER_BIAS] = {metric: bias[metric] for metric in kept}
        folder = next((each.folder for each in measured.values() if each.folder is not None), None)
    return Shared(PerImage(images, scores), _notes(measured, len(images), data, sizes), folder)


def _notes(measured: Mapping[str, Measured], n_images: int, data: list[Any], sizes: list[Any]) -> list[str]:
    """What is not the same about the evaluations, in numbers."""
    notes = []
    counts = {label: len(each.table.images) for label, each in measured.items()}
    if max(counts.values()) > n_images:
        listed = ", ".join(f"{label} on {count:,}" for label, count in counts.items())
        notes.append(
            f"Compared on the {n_images:,} images that all were evaluated on ({listed}); sAUC also depends on the "
            "fixations of those left out."
        )
    if len(data) > 1:
        listed = ", ".join(f"{fingerprint[:8]} with {n_train:,}" for fingerprint, n_train in data)
        notes.append(
            f"The data is not the same (fingerprint and training images: {listed}): images of one name may have "
            f"other maps. Left out: {_labels(ABOVE_CENTER_BIAS)}, which is above another centre bias."
        )
    if len(sizes) > 1:
        notes.append(
            f"Left out: {_labels(AT_NETWORK_SIZE)}, which depend on the size of the network's input, here "
            f"{' and '.join(map(wording.size, sizes))}; with --dataset-dir all are evaluated at one size."
        )
    return notes


def _labels(names: Collection[str]) -> str:
    return ", ".join(metrics.LABELS[each] for each in names)


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def _were(labels: Collection[str]) -> str:
    return "was" if len(labels) == 1 else "were"


# === With the networks ===


class Networks:
    """The networks of the models, loaded when they are needed first."""

    def __init__(self, contestants: Sequence[Contestant]) -> None:
        self._contestants = contestants

    @functools.cached_property
    def gone(self) -> list[str]:
        """Those whose model folder is no longer there, and where it was."""
        return [f"{each.label} ({each.facts['model']})" for each in self._contestants if each.model is None]

    def scorer(self, folder: pathlib.Path) -> Any:
        """A `Scorer` of all networks on prepared data."""
        manifest, networks = artifacts.Manifest.load(folder), self._loaded
        from trainer.evaluation.scoring import Scorer

        return Scorer(folder, manifest, networks)

    @functools.cached_property
    def _loaded(self) -> dict[str, Any]:
        if self.gone:
            raise UserError(f"no longer there: {', '.join(self.gone)}; name the model's own folder or its version")
        load_tensorflow()
        from trainer.evaluation.scoring import Network
        from trainer.models.load import load_model

        return {each.label: Network(load_model(each.model)) for each in self._contestants if each.model}


def evaluate_afresh(
    contestants: Sequence[Contestant], networks: Networks, datasets: Mapping[str, pathlib.Path]
) -> dict[str, Shared]:
    """Evaluate all models on the `valid` split of prepared data sets; `UserError` where one has no images."""
    manifests = artifacts.load_manifests(datasets)
    found = {}
    for name, folder in datasets.items():
        table = networks.scorer(folder).score(f"evaluate {name}")
        del table.scores[UNIFORM]
        found[name] = Shared(table, _size_notes(contestants, manifests[name].image_size), folder)
    return found


def _size_notes(contestants: Sequence[Contestant], image_size: tuple[int, int]) -> list[str]:
    """Which models were trained at another size than they are evaluated at."""
    notes = []
    for each in contestants:
        path = each.model / artifacts.MODEL_CONFIG if each.model else None
        if path is None or not path.is_file():
            continue
        trained = tuple(files.read_json(path, REMEDY).get("image_size", image_size))
        if trained != image_size:
            notes.append(
                f"{each.label} was trained at {wording.size(trained)}, this data is {wording.size(image_size)}: "
                "at its own size it may be better."
            )
    return notes


def draw(networks: Networks, shared: Shared, images: Collection[str], folder: pathlib.Path) -> Files:
    """Write the pictures of some images; none, and a note that says why, where data or a model is gone."""
    if shared.folder is None or networks.gone:
        gone = ", ".join(networks.gone) or "the data they were evaluated on"
        shared.notes.append(f"No pictures: no longer there is {gone}. With --dataset-dir there are some.")
        return {}
    folder.mkdir(parents=True)
    stems = {image: folder / f"{index:06d}" for index, image in enumerate(images)}
    drawn: Files = networks.scorer(shared.folder).draw(stems)
    return drawn
