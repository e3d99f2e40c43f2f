"""What a model is worth on the pictures of laboratories that it has not seen, calibrated and not.

Each test set is predicted with a calibration that is fitted to all others, or if there is no other, to the other
half of its images, so that nothing is fitted to the images that are scored. The last calibration is fitted to all
sets but those that are only scored: `--write` puts it into a model's configuration. The network sees images at the
size at which the sets were prepared.

    python -m trainer fetch --dataset custom --test --source SET --image-size 240x320 ... --output-dir sets/SET
    python -m research.left_out sets/* --fit-only sets/osie-valid --score-only osie --kin mit1003,etocvd
    python -m research.left_out pages/fiwi --kind page --write trainer/models/pretrained
"""

import argparse
import dataclasses
import functools
import json
import pathlib
import tempfile
from typing import Any

import numpy as np

from trainer.data.prepared_data import Manifest
from trainer.errors import reported
from trainer.io import files
from trainer.machine.runtime import load_tensorflow
from trainer.metrics.metric_table import METRICS
from trainer.models.find import choose_model
from trainer.network import model_folder
from trainer.network.calibration import Calibration
from trainer.network.model_folder import MODEL_CONFIG, PAGE, PICTURE, for_kind
from trainer.prediction.predictor import Predictor


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
    parser.add_argument("--kind", default=PICTURE, choices=(PICTURE, PAGE), help="What the images are.")
    parser.add_argument("--write", type=pathlib.Path, help="Folder of the model that gets the last calibration.")
    parsed = parser.parse_args()
    load_tensorflow()
    from trainer.data import tfrecords
    from trainer.evaluation.evaluation import Role, Significance
    from trainer.evaluation.scoring import Scorer
    from trainer.training import fit_calibration

    model = choose_model(parsed.model).announced().folder
    manifests = {folder: Manifest.load(folder) for folder in (*parsed.sets, *parsed.fit_only)}
    (image_size,) = {manifest.image_size for manifest in manifests.values()}
    config = json.loads((model / MODEL_CONFIG).read_text())
    # That of pictures was fitted to these sets, if they are pictures.
    prior = (Calibration.of_config(config) if parsed.kind == PAGE else None) or fit_calibration.PRIOR
    with tempfile.TemporaryDirectory() as folder:
        network = Remembering(uncalibrated(model, pathlib.Path(folder), image_size, parsed.kind))
        data = {
            folder.name: fit_calibration.predict_shrunk(
                network, tfrecords.read_examples(folder, manifest.held_out), manifest.counts[manifest.held_out]
            )
            for folder, manifest in manifests.items()
        }
        kin = {name: group for group in (each.split(",") for each in parsed.kin) for name in group}
        rows = []
        for test_set in parsed.sets:
            related = [*kin.get(test_set.name, [test_set.name]), *parsed.score_only]
            others = [data[name] for name in data if name not in related]
            if others:
                fitted = [fit_calibration.best(together(others), prior)] * 2
            else:
                halves = [tuple(each[start::2] for each in data[test_set.name]) for start in (1, 0)]
                fitted = [fit_calibration.best(half, prior) for half in halves]
            print(test_set.name, *map(dataclasses.asdict, fitted[: 1 if others else 2]), flush=True)
            examples = tfrecords.read_examples(test_set, manifests[test_set].held_out)
            of_image = {key_of(each.stimulus): fitted[index % 2] for index, each in enumerate(examples)}
            networks = {"as it is": network, "calibrated": functools.partial(calibrated, network, of_image)}
            answering = {name: Answering(folder, each) for name, each in networks.items()}
            scorer = Scorer(test_set, manifests[test_set], answering)
            table = scorer.score(test_set.name)
            for name in networks:
                cells = []
                for gain in table.gains(name, Role.CENTER_BIAS, 0.95).values():
                    mark = "**" if gain.outcome == Significance.WORSE else ""
                    cells.append(f"{mark}{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}){mark}")
                rows.append(f"| {test_set.name}, {name} | {len(table.images)} | {' | '.join(cells)} |")
    print(f"| | images | {' | '.join(row.label for row in METRICS.values())} |")
    print("|---" * (len(METRICS) + 2) + "|")
    print("\n".join(rows))
    fit_on = [data[name] for name in data if name not in parsed.score_only]
    everything = dataclasses.asdict(fit_calibration.best(together(fit_on), prior))
    print("all", everything)
    if parsed.write:
        found = {"image_size": list(image_size), "calibration": everything}
        if parsed.kind != PICTURE:
            found |= {"settings": {"flip_prediction": model_folder.flips(for_kind(config, parsed.kind))}}
            found = {"kinds": {**config.get("kinds", {}), parsed.kind: found}}
        files.write_json(parsed.write / MODEL_CONFIG, config | found)


def uncalibrated(model: pathlib.Path, folder: pathlib.Path, image_size: tuple[int, int], kind: str) -> Predictor:
    """The network of a model for one kind of images without its calibration; `folder` becomes such a model."""
    config = for_kind(json.loads((model / MODEL_CONFIG).read_text()), kind)
    for file in model.iterdir():
        if file.name != MODEL_CONFIG:
            (folder / file.name).symlink_to(file.absolute())
    files.write_json(
        folder / MODEL_CONFIG, config | {"image_size": list(image_size), "calibration": None, "kinds": {}}
    )
    return Predictor(folder)


def key_of(image: Any) -> bytes:
    """What tells a prepared image, which a dataset stores as whole numbers, from others."""
    return np.rint(image).astype(np.uint8).tobytes()[::97]


class Remembering:
    """A network that predicts each image once, since all its maps are needed several times."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._maps: dict[bytes, Any] = {}

    def __call__(self, images: Any) -> Any:
        import tensorflow as tf

        keys = [key_of(image) for image in images]
        for key, image in zip(keys, images, strict=True):
            if key not in self._maps:
                self._maps[key] = self._predictor.predict_prepared(image[None])[0][..., None]
        return tf.stack([self._maps[key] for key in keys])


class Answering(Predictor):
    """A predictor with another network."""

    def __init__(self, folder: str, network: Any) -> None:
        super().__init__(folder)
        self._answer = network

    def predict_prepared(self, batch: Any, kind: str = PICTURE) -> Any:
        """Predict the maps, (n, H, W)."""
        return np.asarray(self._answer(batch))[..., 0]


def calibrated(network: Any, calibrations: Any, images: Any) -> Any:
    """The calibrated maps of prepared images, each by the calibration of its key."""
    import tensorflow as tf

    from trainer.network import tensorflow_calibration

    parts = [
        tensorflow_calibration.calibrated(calibrations[key_of(image)], network(image[None]), image[None])
        for image in images
    ]
    return tf.concat(parts, axis=0)


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
