"""The table of networks, and which one a model has."""

import pytest

from tests.refusals import refused
from trainer.errors import UnknownNameError
from trainer.io.files import write_json
from trainer.network.keras_networks import BUILDERS, build_network
from trainer.network.model_folder import MODEL_CONFIG, ModelFolder
from trainer.network.networks import DEFAULT_NETWORK, NETWORKS, network_of


@pytest.mark.parametrize("config", [{}, {"network": "msinet"}])
def test_a_model_that_names_no_network_is_msinet(config):
    assert network_of(config) is DEFAULT_NETWORK is NETWORKS["msinet"]


def test_an_unknown_network_is_refused_with_the_known_ones(tmp_path):
    write_json(tmp_path / MODEL_CONFIG, {"network": "msinett", "image_size": [16, 16]})
    for ask in (lambda folder: ModelFolder(folder).architecture, lambda folder: ModelFolder(folder).image_sizes):
        with refused(UnknownNameError, "msinett", "msinet"):
            ask(tmp_path)


def test_a_folder_without_configuration_has_the_default(tmp_path):
    assert ModelFolder(tmp_path).architecture is DEFAULT_NETWORK


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_each_network_says_what_the_trainer_asks(network):
    shapes = network.weight_shapes()
    assert {role for _, role in shapes} == {"kernel", "bias"}
    assert set(network.encoder) <= set(network.layers)
    assert network.layer_called(f"scope/{network.layers[0]}") == (network.layers[0], False)
    assert network.layer_called("dense") == ("", False)
    assert network.cost.flop > 0
    assert [network.fits(size) for size in ([network.stride] * 2, [network.stride, 0], [network.stride])] == [
        True,
        False,
        False,
    ]


def test_each_network_is_built_by_its_name():
    assert BUILDERS.keys() == NETWORKS.keys()
    for name, network in NETWORKS.items():
        assert build_network(network, (None, None), "float32").name == name
