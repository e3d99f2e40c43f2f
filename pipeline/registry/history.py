"""The scores over time of the versions that were the default, all measured on one prepared dataset."""

import hashlib
import pathlib
from typing import Any

from pipeline.registry.versions import Registry, Version
from trainer import files
from trainer.artifacts import IMAGES, Manifest
from trainer.errors import check
from trainer.evaluation.confidence import CONFIDENCE
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS
from trainer.models.find import find_model
from trainer.reports.score_history import Term

REMEDY = "remove it, and all versions are evaluated again"


def terms(registry: Registry, name: str, data: pathlib.Path, kept: pathlib.Path) -> list[Term]:
    """Find the terms of all defaults of model `name`, oldest first, with their scores on the images in `data`.

    Args:
        registry: Where the versions are.
        name: Name of the model.
        data: Prepared dataset; the same at each call.
        kept: JSON file of the scores, which makes the next call evaluate new versions only.
    """
    manifest, images = Manifest.load(data), (data / IMAGES).read_bytes() if (data / IMAGES).exists() else b""
    prepared = f"{manifest.fingerprint}, images {hashlib.sha256(images).hexdigest()[:16]}"
    versions = {version.number: version for version in registry.versions(name)}
    moves = [(since, versions[number]) for since, number in registry.default_moves(name) if number in versions]
    check(bool(moves), f"no version of model {name!r} has been the default; a run of the pipeline adds one")
    scores = files.read_json(kept, REMEDY, dict[str, dict[str, Any]]) if kept.exists() else {}
    found = []
    for since, version in moves:
        # A registry may be removed and begun again: then a number has another model, of another time.
        key = f"{version.address} of {version.created} on {prepared}"
        if key not in scores:
            print(f"evaluate {name}@{version.number}", flush=True)
            scores[key] = _scores(version, data, manifest)
            files.write_json(kept, scores)
        found.append(Term(f"{name}@{version.number}", since, **scores[key]))
    return found


def _scores(version: Version, data: pathlib.Path, manifest: Manifest) -> dict[str, Any]:
    from trainer.evaluation.scoring import Scorer
    from trainer.evaluation.seen import Seen
    from trainer.prediction.predictor import Predictor

    model = find_model(version.address)
    table = Scorer(data, manifest, {CANDIDATE: Predictor(model)}).score(f"version {version.number}")
    return {
        "means": table.means(CANDIDATE),
        "intervals": table.intervals(CANDIDATE, CONFIDENCE),
        "bias": table.means(CENTER_BIAS),
        "seen": len(Seen.by(model, []).among(data)),
        "images": len(table.images),
        "units": table.n_units,
    }
