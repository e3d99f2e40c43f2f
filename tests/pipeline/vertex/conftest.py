import pytest


@pytest.fixture
def project(vertex):
    """The project on the server of the tests, which lacks nothing."""
    return vertex.state["project"]
