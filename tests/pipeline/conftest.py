import pytest

from pipeline.registry.address import VERTEX
from tests.tiny import write_salicon
from tests.vertex import LOCATION, PROJECT, SERVING
from trainer import artifacts


@pytest.fixture(scope="session")
def moved(tmp_path_factory):
    """A source whose centre bias is wrong on its validation images: any network is better."""
    return write_salicon(tmp_path_factory.mktemp("moved"), train_x=12, valid_x=52)


@pytest.fixture(scope="session")
def fixed(tmp_path_factory):
    """A source whose centre bias is right on its validation images: no network is better."""
    return write_salicon(tmp_path_factory.mktemp("fixed"), train_x=32, valid_x=32)


@pytest.fixture
def model(tmp_path):
    """A folder laid out as `train` leaves it; the registry reads none of it but the configuration."""
    folder = tmp_path / "model"
    variables = folder / artifacts.SAVED_MODEL / "variables"
    variables.mkdir(parents=True)
    (folder / artifacts.SAVED_MODEL / "saved_model.pb").write_bytes(b"graph")
    (variables / "variables.index").write_bytes(b"index")
    (folder / artifacts.WEIGHTS).write_bytes(b"weights")
    (folder / artifacts.HISTORY).write_text('{"epoch": 1}\n')
    (folder / artifacts.MODEL_CONFIG).write_text('{"best_epoch": 1, "image_size": [32, 40]}')
    return folder


@pytest.fixture
def address(vertex, bucket):
    """The address of the registry on the server of the tests."""
    options = f"endpoint={vertex.environment.endpoint}&staging=gs://{bucket.name}/models&serving={SERVING}"
    return f"{VERTEX}{PROJECT}/{LOCATION}?{options}"
