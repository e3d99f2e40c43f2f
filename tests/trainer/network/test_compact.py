"""Models in compact form: what 8 bits change, the same bytes each time, damaged files, and what is read."""

import hashlib
import pathlib
import shutil

import numpy as np
import pytest

from tests.gcs import upload
from tests.refusals import refused
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.errors import ContentError, NotFoundError
from trainer.io.files import read_json, write_json
from trainer.models.find import find_model
from trainer.models.weight_sources import WeightSource
from trainer.network import compact, weights
from trainer.network.arrays import SCALE
from trainer.network.load import load_model
from trainer.network.model_folder import (
    COMPACT_WEIGHTS,
    MODEL_CONFIG,
    TRAINING_IMAGES,
    WEIGHTS_SHA256,
    ModelFolder,
)
from trainer.network.msinet import architecture

pytestmark = pytest.mark.usefixtures("narrow")

CONFIG = {"dataset": "osie", "image_size": [64, 80], "identity": {"seed": 1}, "scores": {"osie": {"kld": 0.5}}}
SEEN = {"abc": {"train": ["0f"], "valid": ["f0"]}}
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def network():
    return predictable.network(7)


@pytest.fixture(scope="module")
def exported(network, tmp_path_factory):
    """The compact form of a narrow model, as the command writes it."""
    folder = tmp_path_factory.mktemp("compact")
    predictable.write_model(folder / "float", network)
    write_json(folder / "float" / MODEL_CONFIG, CONFIG)
    write_json(folder / "float" / TRAINING_IMAGES, SEEN)
    main(["export", "--model", str(folder / "float"), "--format", "int8", "--output", str(folder / "int8")])
    return folder / "int8"


@pytest.fixture
def copy(exported, tmp_path):
    return pathlib.Path(shutil.copytree(exported, tmp_path / "copy"))


def kernel(*shape):
    return RANDOM.normal(size=shape).astype(np.float32) * 10.0 ** RANDOM.integers(-6, 3, shape[-1])


# === The numbers ===


def test_weights_change_by_half_of_their_channels_scale_at_most():
    given = kernel(3, 3, 5, 40).astype(np.float32)
    multiples, scale = compact.quantize(given)
    assert (multiples.dtype, scale.dtype, scale.shape) == (np.int8, np.float32, (40,))
    assert (np.abs(multiples).max(axis=(0, 1, 2)) == 127).all()
    error = np.abs(multiples * scale - given)
    # Beside the multiple, the scale and the product are rounded to float32: each by 2^-24 of at most 127 scales.
    assert (error <= scale * (0.5 + 2 * 127 * 2**-24)).all()
    assert (error.max(axis=(0, 1, 2)) > scale / 4).all()
    given[..., 1] = 0
    restored = compact.expanded(compact.decode_compact(compact.encode_compact({("a", "kernel"): given})))
    assert not restored["a", "kernel"][..., 1].any()


def test_only_kernels_are_quantized_and_equal_weights_are_equal_bytes(monkeypatch):
    arrays = {("b", "kernel"): kernel(1, 1, 3, 4).astype(np.float32), ("b", "bias"): kernel(4).astype(np.float32)}
    content = compact.encode_compact(arrays)
    restored = compact.expanded(compact.decode_compact(content))
    np.testing.assert_array_equal(restored["b", "bias"], arrays["b", "bias"])
    multiples, scale = compact.quantize(arrays["b", "kernel"])
    np.testing.assert_array_equal(restored["b", "kernel"], multiples * scale)
    assert {value.dtype for value in restored.values()} == {np.dtype(np.float32)}
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert compact.encode_compact(dict(reversed(arrays.items()))) == content
    assert compact.encode_compact({**arrays, ("b", "bias"): arrays["b", "bias"] + 1}) != content


# === The export ===


def test_export_says_what_the_8_bits_change(exported, network, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["export", "--model", str(exported.parent / "float"), "--format", "int8", "--output", "again"])
    out, err = capsys.readouterr()
    assert f"model: {exported.parent}/float (MSI-Net, trained on osie)\n" in err
    size = sum(file.stat().st_size for file in exported.iterdir()) / 1e6
    assert f"wrote again, {size:.1f} MB, for images of 64 x 80 pixels" in out
    said = out.split("at most ")[1].split(", and by ")
    largest, mean = float(said[0]), float(said[1].split()[0])
    image = RANDOM.integers(0, 256, (1, 64, 80, 3)).astype(np.float32)
    difference = np.abs(load_model(find_model("again"))(image).numpy() - network(image).numpy())
    assert 0 < mean < largest < 0.2
    assert mean / 5 < difference.mean() < mean * 5
    assert (tmp_path / "again" / COMPACT_WEIGHTS).read_bytes() == (exported / COMPACT_WEIGHTS).read_bytes()


# === Damaged ===


def flip(folder):
    content = bytearray((folder / COMPACT_WEIGHTS).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / COMPACT_WEIGHTS).write_bytes(content)


def forget(folder):
    write_json(folder / MODEL_CONFIG, CONFIG)


def replace(folder):
    (folder / COMPACT_WEIGHTS).write_bytes(b"another file")
    digest = hashlib.sha256(b"another file").hexdigest()
    write_json(folder / MODEL_CONFIG, {**CONFIG, WEIGHTS_SHA256: digest})


def retyped(name, kind):
    """Write the array `name` of a compact model as another type, with the checksum of the new file."""

    def damage(folder):
        path = folder / COMPACT_WEIGHTS
        with np.load(path) as archive:
            members = {each: archive[each] for each in archive.files}
        members[name] = members[name].astype(kind)
        np.savez(path, **members)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        write_json(folder / MODEL_CONFIG, {**CONFIG, WEIGHTS_SHA256: digest})

    return damage


def grow(folder):
    with (folder / COMPACT_WEIGHTS).open("r+b") as file:
        file.truncate(3 * 10**9)


@pytest.mark.parametrize(
    ("damage", "kind", "named"),
    [
        (flip, ContentError, ("copy/weights.int8.npz", "config.json")),
        (forget, ContentError, ("copy/weights.int8.npz", "config.json", None)),
        (replace, ContentError, ("copy/weights.int8.npz",)),
        (lambda folder: (folder / MODEL_CONFIG).unlink(), ContentError, ("copy/config.json",)),
        (lambda folder: (folder / COMPACT_WEIGHTS).unlink(), NotFoundError, ("copy",)),
        (retyped("conv1_conv1_1/kernel", np.uint8), ContentError, ("MSI-Net",)),
        (retyped("conv1_conv1_1/kernel", np.float32), ContentError, ("MSI-Net",)),
        (retyped("conv1_conv1_1/bias", np.int8), ContentError, ("MSI-Net",)),
        (retyped("conv1_conv1_1/scale", "U4"), ContentError, ("MSI-Net",)),
        (grow, ContentError, ("3,000,000,000",)),
    ],
)
def test_damaged_model_is_named(copy, damage, kind, named):
    damage(copy)
    with refused(kind, *named):
        weights.read_weights(find_model(str(copy)))


# === As a model ===


def test_found_model_is_its_folder_and_its_weights_are_those_of_the_file(exported):
    assert find_model(str(exported)) == exported
    stored = compact.read_compact(exported / COMPACT_WEIGHTS, compact.decode_compact)
    read = weights.read_weights(exported)
    assert read.keys() == architecture.weight_shapes().keys()
    for (layer, role), value in read.items():
        scale = stored[layer, SCALE] if role == "kernel" else 1
        np.testing.assert_array_equal(value, stored[layer, role] * scale)
    assert ModelFolder(exported).training_images() == SEEN


# === As weights, and from Cloud Storage ===


def test_compact_models_are_sources_of_weights_here_and_on_cloud_storage(exported, bucket):
    address = upload(bucket, exported)
    digest = WeightSource(str(exported)).fingerprint()
    assert WeightSource(address).fingerprint() == digest
    for source in (str(exported), address):
        with WeightSource(source).opened() as local:
            assert local.fingerprint == digest
            assert read_json(local.model / MODEL_CONFIG, "", dict)["dataset"] == "osie"
            assert local.path.name == COMPACT_WEIGHTS
