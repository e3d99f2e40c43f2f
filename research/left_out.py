"""What a model is worth on the pictures of laboratories that it has not seen, calibrated and not.

Each test set is predicted with a calibration that is fitted to all others, so that nothing is fitted to the images
that are scored. The last calibration is fitted to all sets but those that are only scored: `--write` puts it into
a model's configuration.

    python -m trainer fetch --dataset custom --test --source SET --image-size 240x320 ... --output-dir sets/SET
    python -m research.left_out sets/* --fit-only sets/osie-valid --score-only osie --kin mit1003,etocvd
"""

import argparse
import dataclasses
import functools
import json
import pathlib
from typing import Any

import numpy as np

from trainer.data.prepared_data import Manifest
from trainer.errors import reported
from trainer.evaluation.metric_table import METRICS
from trainer.io import files
from trainer.io.runtime import load_tensorflow
from trainer.models.find import find_answering
from trainer.models.model_folder import MODEL_CONFIG


def main() -> None:
    """Print the calibrations and a table of all metrics, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=pathlib.Path, help="Prepared test sets, named by their folders.")
    parser.add_argument("--model", default="pretrained")
    parser.add_argument(
        "--fit-only", nargs="*", type=pathlib.Path, default=[], help="Prepared data that is not scored."
    )
    parser.add_argument("--score-only", nargs="*", default=[], help="Names of sets that nothing is fitted to.")
    parser.add_argument(
        "--kin", action="append", default=[], help="Names of sets with images in common, with commas."
    )
    parser.add_argument("--write", type=pathlib.Path, help="Folder of the model that gets the last calibration.")
    parsed = parser.parse_args()
    load_tensorflow()
    from trainer.data import tfrecords
    from trainer.evaluation.confidence import gain
    from trainer.evaluation.per_image import CENTER_BIAS
    from trainer.evaluation.scoring import Scorer
    from trainer.models.load import load_model
    from trainer.training import fit_calibration

    model = find_answering(parsed.model).folder
    network = Remembering(load_model(model).network)
    answering = functools.partial(predictor_of, model)
    manifests = {folder: Manifest.load(folder) for folder in (*parsed.sets, *parsed.fit_only)}
    data = {
        folder.name: fit_calibration.predict_shrunk(
            network, tfrecords.read_examples(folder, manifest.held_out), manifest.counts[manifest.held_out]
        )
        for folder, manifest in manifests.items()
    }
    kin = {name: group for group in (each.split(",") for each in parsed.kin) for name in group}
    rows = []
    for folder in parsed.sets:
        related = [*kin.get(folder.name, [folder.name]), *parsed.score_only]
        others = [name for name in data if name not in related]
        calibration = fit_calibration.best(together([data[name] for name in others]))
        print(folder.name, dataclasses.asdict(calibration), flush=True)
        networks = {"as it is": network, "calibrated": functools.partial(calibrated, network, calibration)}
        scorer = Scorer(folder, manifests[folder], {name: answering(each) for name, each in networks.items()})
        table = scorer.score(folder.name)
        for name in networks:
            cells = []
            for metric, row in METRICS.items():
                ours, bias = (table.values(model, metric) for model in (name, CENTER_BIAS))
                of = gain(ours, bias, row.higher_is_better)
                mark = "**" if of.high is not None and of.high < 0 else ""
                cells.append(f"{mark}{of.mean:+.3f} ({of.low:+.3f} to {of.high:+.3f}){mark}")
            rows.append(f"| {folder.name}, {name} | {len(table.images)} | {' | '.join(cells)} |")
    print(f"| | images | {' | '.join(row.label for row in METRICS.values())} |")
    print("|---" * (len(METRICS) + 2) + "|")
    print("\n".join(rows))
    everything = dataclasses.asdict(
        fit_calibration.best(together([data[name] for name in data if name not in parsed.score_only]))
    )
    print("all", everything)
    if parsed.write:
        config = json.loads((parsed.write / MODEL_CONFIG).read_text())
        files.write_json(parsed.write / MODEL_CONFIG, config | {"calibration": everything})


class Remembering:
    """A network that predicts each image once, since all its maps are needed twice."""

    def __init__(self, network: Any) -> None:
        import tensorflow as tf

        self._forward = tf.function(network, autograph=False)
        self._maps: dict[bytes, Any] = {}

    def __call__(self, images: Any) -> Any:
        import tensorflow as tf

        keys = [np.asarray(image).tobytes()[::97] for image in images]
        if any(key not in self._maps for key in keys):
            self._maps |= dict(zip(keys, self._forward(images).numpy(), strict=True))
        return tf.stack([self._maps[key] for key in keys])


def predictor_of(folder: pathlib.Path, network: Any) -> Any:
    """A predictor with the input size of the model in `folder` and another network."""
    from trainer.prediction.predictor import Predictor

    predictor = Predictor(folder)
    predictor._network = lambda images: np.asarray(network(images))[..., 0]
    return predictor


def calibrated(network: Any, calibration: Any, images: Any) -> Any:
    """The calibrated maps of prepared images."""
    from trainer.models import tensorflow_calibration

    return tensorflow_calibration.calibrated(calibration, network(images), images)


def together(parts: list[Any]) -> Any:
    """The data of several sets for `fit_calibration`, repeated so that each counts about the same."""
    import tensorflow as tf

    most = max(len(part[0]) for part in parts)
    repeats = [round(most / len(part[0])) for part in parts]
    return tuple(
        tf.concat([tf.repeat(part[k], n, axis=0) for part, n in zip(parts, repeats, strict=True)], axis=0)
        for k in range(4)
    )


if __name__ == "__main__":
    with reported():
        main()
