"""Small prepared datasets for tests, in the layout of `trainer.data.fetch`."""

import io
import pathlib

import numpy as np
from PIL import Image

from tests.golden.inputs import fixation_map, image
from trainer.data import center_bias
from trainer.data.prepared_data import CENTER_BIAS, IMAGES, ORIGINALS, Manifest
from trainer.data.tfrecords import Example, Original, ShardWriter, serialize, serialize_original
from trainer.evaluation.evaluation import Evaluation, ScoredDataset
from trainer.network.preprocess import Frame


def manifest_of(**facts) -> Manifest:
    """The manifest of a prepared dataset of which no file is there."""
    usual = {
        "dataset": "osie",
        "source": "gs://b/osie",
        "fingerprint": "aaaa",
        "image_size": (32, 40),
        "counts": {"train": 6, "valid": 3},
        "expected_counts": {"train": 6, "valid": 3},
        "split": "given",
        "ground_truth": "density",
        "blur_sigma_px": 0.0,
        "has_fixations": True,
        "original_sizes": {},
        "shards": {},
        "originals": [],
        "code_version": "",
    }
    return Manifest(**(usual | facts))


def evaluation_of(models, **facts) -> Evaluation:
    """An evaluation of dataset `osie`, with these mean scores."""
    scored = ScoredDataset(True, manifest_of(), models, {}, {}, n_images=3, n_units=3, pictures=[])
    usual = {
        "datasets": {"osie": scored},
        "decides": "osie",
        "gate": "kld",
        "gate_margin": 0.0,
        "gate_confidence": 0.95,
        "shown_confidence": 0.95,
        "passed_baseline": True,
        "promote": True,
        "reason": "It is the first.",
        "model_configs": {"candidate": None},
        "code_version": "1",
    }
    return Evaluation(**(usual | facts))


def write_prepared(
    folder: pathlib.Path,
    n_train: int = 6,
    n_valid: int = 3,
    size: tuple[int, int] = (32, 40),
    n_fixations: int = 12,
) -> pathlib.Path:
    """Seeded images with five blobs each; `n_fixations` are drawn from the blobs."""
    folder.mkdir(parents=True)
    counts, shards = {"train": n_train, "valid": n_valid}, {}
    original = (2 * size[0], 2 * size[1])
    densities, lines = [], ["split,image,digest,group,hash,recording"]
    for split, n in counts.items():
        with ShardWriter(folder, split, n, size) as writer, ShardWriter(folder, ORIGINALS, n, size) as kept:
            for index in range(n):
                seed = 10 * index + (split == "valid")
                density = fixation_map(seed, 1, *size)[0, ..., 0]
                rng = np.random.default_rng(seed)
                flat = rng.choice(density.size, n_fixations, p=density.ravel() / density.sum())
                points = np.stack(np.divmod(flat, size[1]), axis=1).astype(np.int64)
                stimulus = image(seed, 1, *size)[0]
                name = f"{split}/{index}.jpg"
                lines.append(f"{split},{name},{split}-{index},,,{seed}")
                writer.write(serialize(Example(index, name, stimulus, density, original, 2 * points, points)))
                densities.append(density / density.sum())
                if split == "valid":
                    kept.write(serialize_original(_original(name, stimulus, density)))
        shards[split] = writer.names
    folds = np.zeros((center_bias.FOLDS, *center_bias.SIZE), np.float32)
    for index, density in enumerate(densities):
        block = np.kron(density, np.ones((4, 4)))[:120, :160]
        folds[center_bias.CenterBias.fold_of(index), : block.shape[0], : block.shape[1]] += block
    np.save(folder / CENTER_BIAS, folds)
    (folder / IMAGES).write_text("\n".join(lines) + "\n")
    Manifest(
        dataset="osie",
        source="tests",
        fingerprint=f"{n_train}-{n_valid}-{size}",
        image_size=size,
        counts=counts,
        expected_counts=counts,
        split="given",
        ground_truth="density",
        blur_sigma_px=0.0,
        has_fixations=n_fixations > 0,
        original_sizes={f"{original[0]}x{original[1]}": n_train + n_valid},
        shards=shards,
        originals=kept.names,
        code_version="tests",
    ).save(folder)
    return folder


def _original(name: str, stimulus: np.ndarray, density: np.ndarray) -> Original:
    """The original of a prepared image, twice as large."""
    file = io.BytesIO()
    Image.fromarray(stimulus.astype(np.uint8).repeat(2, 0).repeat(2, 1)).save(file, "PNG")
    top, left, height, width = Frame(Original.MAP_SIZE).box(density.shape)
    compared = Frame(Original.MAP_SIZE).map(density)[top : top + height, left : left + width]
    return Original(name, file.getvalue(), np.round(compared).astype(np.uint8))
