"""The training loop learns, is repeatable, resumes, and reports errors."""

import dataclasses
import json
import pathlib
import re
import shutil
import signal
import types
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import tensorflow as tf

from tests.narrow import narrowed, quick_trainings, unexported
from tests.prepared import write_prepared
from tests.reference_graph import write_checkpoint
from tests.refusals import refused
from tests.weight_files import by_layer, narrow_weights, write_legacy
from trainer.data import batches, prepared_data
from trainer.data.prepared_data import Manifest
from trainer.errors import ConflictError, ContentError, FailedError, MismatchError, PlaceError, SettingError
from trainer.machine import runtime
from trainer.models.weight_sources import WeightSource
from trainer.network.architecture import PIXELS
from trainer.network.load import load_model
from trainer.network.model_folder import HISTORY, MODEL_CONFIG, MODEL_WEIGHTS, TRAINING_IMAGES
from trainer.network.msinet.architecture import ENCODER
from trainer.network.networks import DEFAULT_NETWORK
from trainer.training import host, loop
from trainer.training.accelerators import ACCELERATORS
from trainer.training.loop import CompiledSteps, compile_steps
from trainer.training.recipes import RECIPES, Recipe
from trainer.training.settings import TrainConfig
from trainer.training.strategy import Cluster, Devices
from trainer.training.train import Job, initial_model, train

CONFIG = TrainConfig(epochs=2, batch_size=2, learning_rate=1e-4, precision="float32", initial_weights="none")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared")


@pytest.fixture(scope="module")
def trained(dataset, tmp_path_factory):
    """One complete run with steps of its own: (model folder, folder of checkpoints)."""
    folder = tmp_path_factory.mktemp("trained")
    with narrowed(), unexported(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "compile_steps", keep)
        train(CONFIG, dataset, folder / "model", folder / "checkpoints")
    return folder / "model", folder / "checkpoints"


@pytest.fixture(scope="module")
def trained_narrow(dataset, tmp_path_factory):
    """The same run for `quick` tests."""
    return quickly_trained(CONFIG, dataset, tmp_path_factory.mktemp("narrow"))


def quickly_trained(config, dataset, folder):
    """A whole run of the narrow network in `folder`: (model folder, folder of checkpoints)."""
    with quick_trainings():
        train(config, dataset, folder / "model", folder / "checkpoints")
    return folder / "model", folder / "checkpoints"


@pytest.fixture
def quick():
    """Quick trainings, for tests of the loop that do not depend on the size of the network."""
    with quick_trainings():
        yield


@pytest.fixture(scope="module", autouse=True)
def exhausted():
    """TensorFlow's error for exhausted memory. TensorFlow raises it after ten seconds, while other tests run."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(tf.zeros, [2**50])


KEPT: list[CompiledSteps] = []
"""What `keep` has made."""


def keep(*arguments):
    KEPT.append(compile_steps(*arguments))
    return KEPT[-1]


def test_each_step_is_compiled_once(trained):
    (compiled,) = KEPT
    assert compiled.train.experimental_get_tracing_count() == 1
    assert compiled.validate.experimental_get_tracing_count() == 1


def history(model: pathlib.Path) -> list[dict]:
    rows = [json.loads(line) for line in (model / HISTORY).read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in ("seconds", "images_per_s")} for row in rows]


def weights(path: pathlib.Path) -> dict[str, np.ndarray]:
    arrays = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: arrays.update({name: item[:]}) if hasattr(item, "shape") else None)
    assert len(arrays) == 46
    return arrays


def test_training_writes_a_whole_model_and_the_loss_falls(trained):
    model, _ = trained
    assert {path.name for path in model.iterdir()} == {HISTORY, MODEL_CONFIG, MODEL_WEIGHTS, TRAINING_IMAGES}
    first, second = history(model)
    assert (first["epoch"], first["steps"], first["best"]) == (1, 3, True)
    assert second["loss"] < first["loss"]
    config = json.loads((model / MODEL_CONFIG).read_text())
    assert config["settings"] == dataclasses.asdict(CONFIG.with_batch(CONFIG.batch_size))
    assert config["valid_loss"] == min(row["valid_loss"] for row in history(model))


@pytest.mark.numerics
def test_two_runs_of_one_command_give_the_same_losses_and_weights(dataset, trained, tmp_path):
    with narrowed(), unexported():
        train(CONFIG, dataset, tmp_path / "model", tmp_path / "checkpoints")
    assert history(tmp_path / "model") == history(trained[0])
    for name, values in weights(tmp_path / "model" / MODEL_WEIGHTS).items():
        np.testing.assert_array_equal(values, weights(trained[0] / MODEL_WEIGHTS)[name], err_msg=name)


def test_finished_run_started_again_writes_the_same_model_without_training(
    dataset, trained_narrow, quick, tmp_path, capsys
):
    train(CONFIG, dataset, tmp_path / "model", trained_narrow[1])
    train(CONFIG, dataset, tmp_path / "model", trained_narrow[1])  # and into the same folder
    assert "epoch 1/2" not in capsys.readouterr().out
    assert history(tmp_path / "model") == history(trained_narrow[0])


def test_machine_that_leaves_first_at_the_end_is_not_lost(dataset, trained_narrow, quick, tmp_path, monkeypatch):
    gather = Devices.gather

    def closed_once_written(devices, values):
        if (tmp_path / "model").exists():
            raise tf.errors.UnavailableError(None, None, "Socket closed")
        return gather(devices, values)

    monkeypatch.setattr(Devices, "gather", closed_once_written)
    assert train(CONFIG, dataset, tmp_path / "model", trained_narrow[1])["best_epoch"] in (1, 2)


THERE = "collective ops is aborted by: /job:worker/replica:0/task:1"
HERE = "cuDNN launch failure: /job:worker/replica:0/task:0/device:GPU:0"


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (tf.errors.InternalError(None, None, THERE), SystemExit, "(/job:worker/replica:0/task:1)"),
        (tf.errors.UnavailableError(None, None, "Socket closed"), SystemExit, "(Socket closed)"),
        (tf.errors.InternalError(None, None, "CUDA_ERROR_ILLEGAL_ADDRESS"), tf.errors.InternalError, ""),
        (tf.errors.InternalError(None, None, HERE), tf.errors.InternalError, ""),
    ],
)
def test_only_an_error_of_another_machine_says_that_it_is_lost(dataset, error, expected, said, capsys):
    two = Devices(tf.distribute.get_strategy(), "gpu", None, Cluster({"worker": ["here", "there"]}))
    job = Job(CONFIG, Manifest.load(dataset), two, "float32")
    with pytest.raises(expected), job.errors_explained():
        raise error
    printed = capsys.readouterr().out
    assert said in printed
    assert ("lost another machine" in printed) == bool(said)


@pytest.mark.parametrize(("needed", "remedy"), [(0, ["NCCL_DEBUG=INFO"]), (2**50, [1073741824, "--shm-size"])])
def test_gpus_that_nccl_cannot_connect_are_explained_by_the_shared_memory(dataset, monkeypatch, needed, remedy):
    monkeypatch.setattr(host, "NCCL_SHARED_BYTES", needed)
    one = Devices(tf.distribute.get_strategy(), "gpu", None, Cluster({"worker": ["localhost"]}))
    job = Job(CONFIG, Manifest.load(dataset), one, "float32")
    sentence = "NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail."
    with refused(FailedError, "unhandled system error", *remedy), job.errors_explained():
        raise tf.errors.InternalError(None, None, sentence)
    with pytest.raises(tf.errors.InternalError), job.errors_explained():
        raise tf.errors.InternalError(None, None, "CUDA_ERROR_ILLEGAL_ADDRESS")


def test_a_folder_other_than_the_model_of_this_run_is_not_overwritten(dataset, trained_narrow, quick, tmp_path):
    other = dataclasses.replace(CONFIG, seed=7)
    with refused(PlaceError, trained_narrow[0]):
        train(other, dataset, trained_narrow[0], tmp_path / "state")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    with refused(PlaceError, tmp_path / "notes"):
        train(CONFIG, dataset, tmp_path / "notes", tmp_path / "state2")
    assert (tmp_path / "notes" / "mine.txt").read_text() == "keep"


@pytest.mark.numerics
def test_training_can_be_lengthened(dataset, trained_narrow, quick, tmp_path):
    shutil.copytree(trained_narrow[1], tmp_path / "state")
    longer = dataclasses.replace(CONFIG, epochs=3)
    train(longer, dataset, tmp_path / "model", tmp_path / "state")
    assert history(tmp_path / "model")[:2] == history(trained_narrow[0])
    assert len(history(tmp_path / "model")) == 3


@pytest.mark.numerics
def test_training_resumes_from_the_last_intact_checkpoint(dataset, trained_narrow, quick, tmp_path, capsys):
    shutil.copytree(trained_narrow[1], tmp_path / "state")
    newest = max((tmp_path / "state").glob("after-epoch-*.npz"), key=lambda path: path.stat().st_mtime)
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    train(CONFIG, dataset, tmp_path / "model", tmp_path / "state")
    assert "skipping checkpoint" in capsys.readouterr().out
    assert history(tmp_path / "model") == history(trained_narrow[0])
    for name, values in weights(tmp_path / "model" / MODEL_WEIGHTS).items():
        np.testing.assert_array_equal(values, weights(trained_narrow[0] / MODEL_WEIGHTS)[name], err_msg=name)


@pytest.mark.numerics
def test_training_that_is_told_to_stop_within_an_epoch_resumes_to_the_same_bits(
    dataset, trained_narrow, quick, tmp_path, monkeypatch, capsys
):
    synchronize = loop.Loop._synchronize

    def after_a_signal(*arguments):
        signal.raise_signal(signal.SIGTERM)
        synchronize(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "_synchronize", after_a_signal)
        with pytest.raises(SystemExit):
            train(CONFIG, dataset, tmp_path / "model", tmp_path / "state")
    train(CONFIG, dataset, tmp_path / "model", tmp_path / "state")
    assert "resuming after epoch 0, step 1 " in capsys.readouterr().out
    assert history(tmp_path / "model") == history(trained_narrow[0])
    for name, values in weights(tmp_path / "model" / MODEL_WEIGHTS).items():
        np.testing.assert_array_equal(values, weights(trained_narrow[0] / MODEL_WEIGHTS)[name], err_msg=name)


@pytest.mark.numerics
def test_training_that_reads_its_shards_in_each_epoch_gives_the_bits_of_one_in_memory_also_after_a_stop(
    quick, tmp_path, monkeypatch
):
    monkeypatch.setattr(prepared_data, "MIN_EXAMPLES", 1)
    dataset = write_prepared(tmp_path / "prepared", n_train=10)
    monkeypatch.setattr(batches, "BLOCK_BYTES", 3 * 4 * 32 * 40)  # three images are shuffled together
    synchronize, taken = loop.Loop._synchronize, []

    def with_a_signal(*arguments):
        taken.append(arguments[0].progress.step)
        if len(taken) == 2:
            signal.raise_signal(signal.SIGTERM)
        synchronize(*arguments)

    train(CONFIG, dataset, tmp_path / "memory", tmp_path / "in memory", cache="memory")
    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "_synchronize", with_a_signal)
        with pytest.raises(SystemExit):
            train(CONFIG, dataset, tmp_path / "stream", tmp_path / "streamed", cache="stream")
    assert 0 < taken[-1] < 5
    train(CONFIG, dataset, tmp_path / "stream", tmp_path / "streamed", cache="stream")
    assert history(tmp_path / "stream") == history(tmp_path / "memory")
    for name, values in weights(tmp_path / "stream" / MODEL_WEIGHTS).items():
        np.testing.assert_array_equal(values, weights(tmp_path / "memory" / MODEL_WEIGHTS)[name], err_msg=name)


def test_damaged_shards_are_told_in_the_step_that_reads_them(quick, tmp_path, monkeypatch):
    dataset = write_prepared(tmp_path / "prepared")
    (shard,) = dataset.glob("train-*")
    content = bytearray(shard.read_bytes())
    content[-5] ^= 255
    shard.write_bytes(content)
    with refused(ContentError, "osie"):
        train(CONFIG, dataset, tmp_path / "model", tmp_path / "state", cache="stream")


FLIPPED = dataclasses.replace(CONFIG, flip=True)


@pytest.fixture(scope="module")
def flipped(dataset, tmp_path_factory):
    return quickly_trained(FLIPPED, dataset, tmp_path_factory.mktemp("flipped"))


@pytest.mark.numerics
def test_training_with_mirrored_images_resumes_to_the_same_bits(dataset, flipped, quick, tmp_path):
    shutil.copytree(flipped[1], tmp_path / "state")
    newest = max((tmp_path / "state").glob("after-epoch-*.npz"), key=lambda path: path.stat().st_mtime)
    newest.unlink()
    train(FLIPPED, dataset, tmp_path / "model", tmp_path / "state")
    assert history(tmp_path / "model") == history(flipped[0])
    for name, values in weights(tmp_path / "model" / MODEL_WEIGHTS).items():
        np.testing.assert_array_equal(values, weights(flipped[0] / MODEL_WEIGHTS)[name], err_msg=name)


def test_mirrored_images_change_the_training(flipped, trained_narrow):
    assert history(flipped[0]) != history(trained_narrow[0])


def test_a_model_that_averages_is_trained_like_others_and_may_change_its_mind(
    dataset, trained_narrow, quick, tmp_path
):
    places = tmp_path / "model", tmp_path / "state"
    for flips in (True, False):  # the second one trains nothing more, and writes the model again
        config = dataclasses.replace(CONFIG, flip_prediction=flips)
        summary = train(config, dataset, *places)
        assert history(tmp_path / "model") == history(trained_narrow[0])
        assert summary["settings"]["flip_prediction"] == flips == load_model(tmp_path / "model").flips


def test_training_without_progress_stops_when_patience_ends(dataset, quick, tmp_path):
    still = dataclasses.replace(CONFIG, epochs=9, patience=2, learning_rate=1e-30)
    for _ in range(2):  # the second one trains nothing more
        train(still, dataset, tmp_path / "model", tmp_path / "state")
        assert [row["best"] for row in history(tmp_path / "model")] == [True, False, False]


def test_recipe_is_trained_and_recorded_with_its_settings(dataset, quick, tmp_path, monkeypatch):
    few = Recipe("few", base={"epochs": 1, "flip": True}, finetune={"epochs": 2, "patience": 2})
    monkeypatch.setitem(RECIPES, "few", few)
    config = dataclasses.replace(CONFIG, epochs=TrainConfig.epochs, recipe="few")
    base = train(config.with_recipe(False), dataset, tmp_path / "base", tmp_path / "base-state")
    tuned = train(
        config.with_recipe(True), dataset, tmp_path / "tuned", tmp_path / "tuned-state", tmp_path / "base"
    )
    for summary, *expected in ((base, 1, True, 0), (tuned, 2, False, 2)):
        assert summary["settings"]["recipe"] == "few"
        assert [summary["settings"][name] for name in ("epochs", "flip", "patience")] == expected


def test_fine_tuning_starts_from_the_base_model(dataset, trained_narrow, quick, tmp_path):
    still = dataclasses.replace(CONFIG, epochs=1, learning_rate=1e-12)
    summary = train(still, dataset, tmp_path / "model", tmp_path / "state", base_model=trained_narrow[0])
    exported = min(row["valid_loss"] for row in history(trained_narrow[0]))
    assert summary["valid_loss"] == pytest.approx(exported, rel=1e-4)
    assert summary["base_model"]["best_epoch"] in (1, 2)


def test_msinet_weights_file_can_be_the_initial_weights(dataset, trained_narrow, quick, tmp_path):
    path = str(shutil.copy(trained_narrow[0] / MODEL_WEIGHTS, tmp_path))
    digest = WeightSource(path).fingerprint()
    still = dataclasses.replace(CONFIG, epochs=1, learning_rate=1e-12, initial_weights=path)
    summary = train(still, dataset, tmp_path / "model", tmp_path / "state", initial_weights_fingerprint=digest)
    assert summary["valid_loss"] == pytest.approx(
        min(r["valid_loss"] for r in history(trained_narrow[0])), rel=1e-4
    )

    with h5py.File(path, "r+") as file:
        file[next(iter(weights(pathlib.Path(path))))][:] = 0
    with refused(MismatchError, f"initial_weights_fingerprint '{digest[:12]}"):
        train(still, dataset, tmp_path / "again", tmp_path / "state")
    with refused(ConflictError, path, digest):
        train(still, dataset, tmp_path / "again", tmp_path / "new", initial_weights_fingerprint=digest)
    assert not (tmp_path / "again").exists()


def test_start_without_a_file_leaves_no_digest_behind(trained):
    config = json.loads((trained[0] / MODEL_CONFIG).read_text())
    assert "initial_weights_fingerprint" not in config["identity"]  # so that older checkpoints can resume


def test_loss_that_is_not_finite_stops_with_the_step_and_the_images(dataset, trained_narrow, quick, tmp_path):
    path = shutil.copy(trained_narrow[0] / MODEL_WEIGHTS, tmp_path)
    with h5py.File(path, "r+") as file:
        for name in weights(path):
            file[name][:] *= 1e18
    wild = dataclasses.replace(CONFIG, initial_weights=str(path))
    with refused(FailedError, "nan", "epoch 1") as caught:
        train(wild, dataset, tmp_path / "model", tmp_path / "state")
    assert len(re.findall(r"train/\d\.jpg", str(caught.value))) == 2
    assert not (tmp_path / "model").exists()


def test_batch_too_large_for_the_memory_is_refused_with_the_size_that_fits(dataset, quick, tmp_path):
    share = 0.3 * runtime.available_bytes() / DEFAULT_NETWORK.cost.memory_bytes["cpu"]["float32"]
    side = int((share * PIXELS) ** 0.5) // 8 * 8
    copy = shutil.copytree(dataset, tmp_path / "prepared")
    dataclasses.replace(Manifest.load(copy), image_size=(side, side)).save(copy)
    config = dataclasses.replace(CONFIG, batch_size=6, precision="float32")
    with refused(SettingError, 6) as caught:
        train(config, copy, tmp_path / "model", tmp_path / "state")
    assert re.search(r"batch_size to at most [2-4], or accumulation to [23]$", str(caught.value))


def test_out_of_memory_in_a_step_suggests_a_smaller_batch(dataset, quick, exhausted, tmp_path, monkeypatch):
    steps = CompiledSteps(train=lambda *_: exhausted.result(), validate=None, predict=None)
    # `monkeypatch` ends after `quick`: by itself it would leave what `quick` has put there.
    with monkeypatch.context() as patch:
        patch.setattr(loop, "compile_steps", lambda *_: steps)
        with refused(FailedError, 2, "32x40", "batch_size to 1", "accumulation to 2"):
            train(CONFIG, dataset, tmp_path / "model", tmp_path / "state")


# === The batch size, for simulated devices ===


def batch_for(config, kind="gpu", replicas=2, accelerator="", images=10_000, image_size=(240, 320)):
    strategy = types.SimpleNamespace(num_replicas_in_sync=replicas)
    chip = ACCELERATORS[accelerator].chip if accelerator else None
    data = types.SimpleNamespace(counts={"train": images}, image_size=image_size)
    config = dataclasses.replace(config, precision="float32")
    return Job.resolve(config, data, Devices(strategy, kind, chip, Cluster({})), accelerator).config


@pytest.mark.parametrize(
    ("machine", "batch_size"),
    [
        ({"replicas": 1}, 32),
        ({"replicas": 2}, 64),
        ({"replicas": 2, "accelerator": "l4-2"}, 64),
        ({"replicas": 2, "images": 11}, 10),
        ({"replicas": 2, "image_size": (720, 960)}, 2 * 6),
        ({"replicas": 8, "kind": "tpu"}, 256),
        ({"replicas": 1, "kind": "cpu"}, 1),
        ({"replicas": 2, "kind": "cpu"}, 2),
    ],
)
def test_default_batch_is_that_of_the_devices_named_or_not(machine, batch_size):
    chosen = batch_for(TrainConfig(batch_size=0), **machine)
    assert (chosen.batch_size, chosen.learning_rate_scaling) == (batch_size, "capped")


# === The initial weights ===

INPUT = (16, 16)


@pytest.fixture(scope="module")
def vgg16(tmp_path_factory):
    """A file of a narrow VGG16 in the layout of Keras' no-top file, and its layers."""
    with narrow_weights():
        layers = {f"block{name[4]}_conv{name[-1]}": pair for name, pair in by_layer().items() if name in ENCODER}
        path = tmp_path_factory.mktemp("vgg16") / "vgg16_notop.h5"
        yield write_legacy(path, layers, roles=("W_1:0", "b_1:0")), layers


def network_from(source, **more):
    return initial_model(TrainConfig(initial_weights=str(source)), INPUT, "float32", more.get("base_model"))


def test_encoder_gets_vgg16_with_the_channels_of_its_first_kernel_reversed(vgg16):
    path, layers = vgg16
    model = network_from(path)
    kernel, bias = layers["block1_conv1"]
    np.testing.assert_array_equal(model.get_layer("conv1_conv1_1").kernel, kernel[:, :, ::-1])
    np.testing.assert_array_equal(model.get_layer("conv1_conv1_1").bias, bias)
    np.testing.assert_array_equal(model.get_layer("conv5_conv5_3").kernel, layers["block5_conv3"][0])


def test_layers_without_vgg16_are_seeded(vgg16):
    kernels = []
    for seed in (1, 1, 2):
        config = TrainConfig(initial_weights=str(vgg16[0]), seed=seed)
        model = initial_model(config, INPUT, "float32", None)
        kernels.append(model.get_layer("aspp_conv2").get_weights()[0])
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert (kernels[0] != kernels[2]).mean() > 0.9


def test_from_scratch_has_larger_kernels_than_with_an_encoder(vgg16):
    scratch, with_encoder = (
        network_from(source).get_layer("aspp_conv1_2").get_weights()[0].std() for source in ("none", vgg16[0])
    )
    fan_in, fan_out = 9 * (64 + 128 + 128), 9 * 64
    assert scratch == pytest.approx((2 / fan_in) ** 0.5, rel=0.05)  # He et al. 2015, equation 10
    assert with_encoder == pytest.approx((2 / (fan_in + fan_out)) ** 0.5, rel=0.05)  # Glorot, Bengio 2010, eq. 16


def test_any_file_of_the_whole_network_can_be_the_start(vgg16, tmp_path):
    model = network_from(write_checkpoint(tmp_path / "model_salicon_gpu.ckpt"))
    for layer, pair in by_layer().items():
        for array, expected in zip(model.get_layer(layer).get_weights(), pair, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_settings_of_the_paper_are_the_defaults():
    assert dataclasses.asdict(TrainConfig()) | {"epochs": 10, "batch_size": 1, "learning_rate": 1e-5} == (
        dataclasses.asdict(TrainConfig())
    )
