"""The initial weights of a network."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest

from tests.reference_graph import write_checkpoint
from tests.weight_files import by_layer, write_legacy
from trainer.artifacts import WEIGHTS
from trainer.config import TrainConfig
from trainer.errors import UserError
from trainer.training.train import initial_model

SIZE = (16, 16)


@pytest.fixture(scope="module")
def vgg16(tmp_path_factory):
    """A VGG16 no-top file in Keras' layout, and its network."""
    network = keras.applications.VGG16(include_top=False, weights=None)
    layers = {layer.name: layer.get_weights() for layer in network.layers}
    path = tmp_path_factory.mktemp("vgg16") / "vgg16_notop.h5"
    return write_legacy(path, layers, roles=("W_1:0", "b_1:0")), network


def start(source, **more):
    return initial_model(TrainConfig(initial_weights=str(source)), SIZE, "float32", more.get("base_model"))


def test_encoder_gets_vgg16_with_the_channels_of_its_first_kernel_reversed(vgg16):
    path, network = vgg16
    model = start(path)
    kernel, bias = network.get_layer("block1_conv1").get_weights()
    np.testing.assert_array_equal(model.get_layer("conv1_conv1_1").kernel, kernel[:, :, ::-1])
    np.testing.assert_array_equal(model.get_layer("conv1_conv1_1").bias, bias)
    last = network.get_layer("block5_conv3").get_weights()[0]
    np.testing.assert_array_equal(model.get_layer("conv5_conv5_3").kernel, last)


def test_layers_without_vgg16_are_seeded(vgg16):
    kernels = []
    for seed in (1, 1, 2):
        config = TrainConfig(initial_weights=str(vgg16[0]), seed=seed)
        model = initial_model(config, SIZE, "float32", None)
        kernels.append(model.get_layer("aspp_conv2").get_weights()[0])
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert (kernels[0] != kernels[2]).mean() > 0.9


def test_from_scratch_has_larger_kernels_than_with_an_encoder(vgg16):
    scratch, with_encoder = (
        start(source).get_layer("aspp_conv1_2").get_weights()[0].std() for source in ("none", vgg16[0])
    )
    fan_in, fan_out = 9 * 1280, 9 * 256
    assert scratch == pytest.approx((2 / fan_in) ** 0.5, rel=0.05)  # He et al. 2015, equation 10
    assert with_encoder == pytest.approx((2 / (fan_in + fan_out)) ** 0.5, rel=0.05)  # Glorot, Bengio 2010, eq. 16


def test_any_file_of_the_whole_network_can_be_the_start(tmp_path):
    model = start(write_checkpoint(tmp_path / "model_salicon_gpu.ckpt"))
    for layer, pair in by_layer().items():
        for array, expected in zip(model.get_layer(layer).get_weights(), pair, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_a_missing_file_is_refused_with_the_known_formats(tmp_path):
    with pytest.raises(UserError, match=r"nothing\.h5 does not exist; give a frozen graph"):
        start(tmp_path / "nothing.h5")


def test_weights_of_another_shape_are_refused(tmp_path, monkeypatch):
    from trainer import model

    monkeypatch.setattr(model, "VGG16_BLOCKS", ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512, 512, 500)))
    path = tmp_path / "other.weights.h5"
    model.build_model(SIZE).save_weights(path)
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"MSI-Net\. .* do not fit: .*500\), conv5_conv5_3/kernel is"):
        start(path)


def test_base_model_without_weights_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"model\.weights\.h5 does not exist"):
        start("none", base_model=tmp_path)


def test_base_model_must_be_whole(tmp_path, vgg16):
    shutil.copy(vgg16[0], tmp_path / WEIGHTS)
    with pytest.raises(UserError, match=r"model\.weights\.h5 holds the weights of an encoder alone"):
        start("none", base_model=tmp_path)


def test_settings_of_the_paper_are_the_defaults():
    assert dataclasses.asdict(TrainConfig()) | {"epochs": 10, "batch_size": 1, "learning_rate": 1e-5} == (
        dataclasses.asdict(TrainConfig())
    )
