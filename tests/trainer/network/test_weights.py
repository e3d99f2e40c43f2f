"""Weights are matched by name and shape in files of every kind."""

import dataclasses

import h5py
import numpy as np
import pytest
import tensorflow as tf

from tests import reference_graph, weight_files as written
from tests.refusals import refused
from trainer.errors import ContentError
from trainer.network import matching, tensorflow_files
from trainer.network.arrays import Array
from trainer.network.msinet import architecture
from trainer.network.networks import DEFAULT_NETWORK

SLOTS = {
    "conv1/conv1_1/kernel/Adam": np.ones((3, 3, 3, 16), np.float32),
    "Adam/m/conv1/conv1_1/kernel": np.ones((3, 3, 3, 16), np.float32),
    "beta1_power": np.float32(0.9),
}


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with written.narrow_weights():
        yield


@pytest.fixture(scope="module")
def expected(narrow):
    return architecture.weight_shapes()


@pytest.fixture(scope="module")
def definition(narrow):
    return reference_graph.frozen()


@pytest.fixture(scope="module")
def checkpoint(narrow, tmp_path_factory):
    return reference_graph.write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model_salicon_cpu.ckpt", SLOTS
    )


def matched(path, expected):
    return matching.match(DEFAULT_NETWORK, tensorflow_files.read_contents(path).arrays, str(path))


def assert_golden(found):
    assert len(found.values) == 46
    for layer, (kernel, bias) in written.by_layer().items():
        np.testing.assert_array_equal(found.values[layer, "kernel"], kernel)
        np.testing.assert_array_equal(found.values[layer, "bias"], bias)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("port.weights.h5", written.write_port),
        ("older.weights.h5", written.write_unnamed_port),
        ("oldest.weights.h5", written.write_numbered_port),
        ("legacy.h5", written.write_legacy),
        ("whole.h5", lambda path: written.write_legacy(path, group="model_weights")),
    ],
)
def test_every_layout_of_keras_gives_each_layer_its_weights(name, write, tmp_path, expected):
    assert_golden(matched(write(tmp_path / name), expected))


def test_frozen_graph_gives_each_layer_its_weights(definition, tmp_path, expected):
    found = matched(reference_graph.write_graph(tmp_path / "model.pb", definition), expected)
    assert_golden(found)
    assert found.rows[0] == matching.Row("conv1/conv1_1/kernel", "conv1_conv1_1", "kernel", (3, 3, 3, 16))
    assert not found.ignored


@pytest.mark.parametrize("inner", ["", "saved_model.pb"])
def test_frozen_saved_model_under_a_scope_gives_each_layer_its_weights(definition, tmp_path, expected, inner):
    folder = reference_graph.write_saved_model(tmp_path / "saved", definition, "import")
    found = matched(folder / inner, expected)
    assert_golden(found)
    assert found.rows[0].name == "import/conv1/conv1_1/kernel"


def test_graph_inside_functions_gives_each_layer_its_weights(definition, tmp_path, expected):
    """As in the published SavedModel: signature -> function -> function, and the constants in the last."""

    def whole(images):
        return tf.graph_util.import_graph_def(definition, {"input": images}, ["output:0"], name="")[0]

    spec = tf.TensorSpec((None, None, None, 3), tf.float32, "input_1")
    module = tf.Module()
    module.serve = tf.function(lambda images: tf.function(whole)(images), input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    contents = tensorflow_files.read_contents(tmp_path)
    assert contents.kind == "frozen SavedModel"
    assert_golden(matching.match(DEFAULT_NETWORK, contents.arrays, "published"))


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001"])
def test_checkpoint_gives_each_layer_its_weights_and_leaves_the_optimizers(checkpoint, expected, ending):
    found = matched(checkpoint.with_name(checkpoint.name + ending), expected)
    assert_golden(found)
    assert found.ignored == dict.fromkeys(SLOTS, "an optimizer's")


def test_checkpoint_of_objects_gives_each_layer_its_weights(tmp_path, expected):
    prefix = tf.train.Checkpoint(model=written.Port()).write(str(tmp_path / "port"))
    assert_golden(matched(tmp_path.joinpath(prefix), expected))


def vgg16(roles=("kernel", "bias")):
    """The encoder under the names of VGG16's layers in Keras."""
    encoder = {layer: written.by_layer()[layer] for layer in architecture.ENCODER}
    return {f"block{layer[4]}_conv{layer[-1]}": pair for layer, pair in encoder.items()}


def test_vgg16_of_keras_is_an_encoder_whose_first_kernel_expects_bgr(tmp_path, expected):
    top = {"predictions": (np.ones((4096, 1000), np.float32), np.ones(1000, np.float32))}
    path = written.write_legacy(tmp_path / "vgg16.h5", vgg16() | top, roles=("W_1:0", "b_1:0"))
    found = matched(path, expected)
    assert found.is_encoder
    kernels = written.by_layer()
    np.testing.assert_array_equal(found.values["conv1_conv1_1", "kernel"], kernels["conv1_conv1_1"][0][:, :, ::-1])
    np.testing.assert_array_equal(found.values["conv5_conv5_3", "kernel"], kernels["conv5_conv5_3"][0])
    assert set(found.ignored.values()) == {"of no layer"}


@pytest.mark.parametrize("scope", ["", "vgg_16/conv{block}/"])
def test_vgg16_of_the_reference_and_of_slim_is_an_encoder_that_expects_rgb(tmp_path, expected, scope):
    tensors = {}
    for layer in architecture.ENCODER:
        for role, value in zip(("weights", "biases"), written.by_layer()[layer], strict=True):
            tensors[f"{scope.format(block=layer[4])}{layer[6:]}/{role}"] = value
    path = tmp_path / "vgg16_hybrid.ckpt"
    tf.raw_ops.SaveV2(
        prefix=str(path), tensor_names=list(tensors), shape_and_slices=[""] * 26, tensors=list(tensors.values())
    )
    found = matched(path, expected)
    assert found.is_encoder
    np.testing.assert_array_equal(found.values["conv1_conv1_1", "kernel"], written.by_layer()["conv1_conv1_1"][0])


# === Refused files ===


def arrays(changes):
    """The golden arrays with a graph's names, and `changes`: name -> array or None."""
    return [
        Array.of(name, value)
        for name, value in {**written.golden_weights(), **changes}.items()
        if value is not None
    ]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"aspp/conv2/bias": None, "decoder/conv4/kernel": None},
            ("2 of 46", "aspp_conv2/bias (64,)", "decoder_conv4/kernel (3, 3, 16, 1)"),
        ),
        (
            {"aspp/conv2/bias": None, "Conv2D_7/folded": np.ones(64, np.float32)},
            ("Conv2D_7/folded (64,)",),
        ),
        (
            {"aspp/conv2/bias": np.ones(9, np.float32), "aspp/conv1_1/bias": np.ones((9, 9), np.float32)},
            (2, "aspp/conv1_1/bias", "(9, 9)", "aspp/conv2/bias", "(9,)", "(64,)"),
        ),
        ({"aspp/conv2/bias": np.full(64, np.nan, np.float32)}, ("aspp/conv2/bias",)),
    ],
)
def test_faults_are_listed(expected, changes, named):
    with refused(ContentError, *named):
        matching.match(DEFAULT_NETWORK, arrays(changes), "it")


def test_two_arrays_with_the_same_name_must_be_equal(expected):
    twice = [*arrays({}), *[dataclasses.replace(each, name=f"copy/{each.name}") for each in arrays({})]]
    assert len(matching.match(DEFAULT_NETWORK, twice, "it").values) == 46
    other = twice[-1].read() + 1
    twice[-1] = dataclasses.replace(twice[-1], name="copy", read=lambda: other)
    with refused(ContentError, "copy", "decoder/conv4/bias", "decoder_conv4/bias"):
        matching.match(DEFAULT_NETWORK, twice, "it")


def test_another_number_of_layers_is_another_network(tmp_path, expected):
    path = written.write_numbered_port(tmp_path / "fewer.weights.h5")
    with h5py.File(path, "r+") as file:
        del file["layers/conv2d_22"]
    with refused(ContentError, "MSI-Net", "VGG16", "layers/conv2d/vars/0"):
        matched(path, expected)
