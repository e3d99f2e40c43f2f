import pytest

from tests.tiny import write_salicon


@pytest.fixture(scope="session")
def moved(tmp_path_factory):
    """A source whose centre bias is wrong on its validation images: any network is better."""
    return write_salicon(tmp_path_factory.mktemp("moved"), train_x=12, valid_x=52)


@pytest.fixture(scope="session")
def fixed(tmp_path_factory):
    """A source whose centre bias is right on its validation images: no network is better."""
    return write_salicon(tmp_path_factory.mktemp("fixed"), train_x=32, valid_x=32)
