"""tests/test_serving.py in TensorFlow 2.15, which Google's serving containers run; `make test-serving`."""

import pytest

from tests.test_serving import *  # noqa: F403 - the same tests
from tests.test_serving import ROOT

PYTHON = ROOT / ".venv-serving" / "bin" / "python"


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def interpreter():
    assert PYTHON.exists(), f"there is no {PYTHON}; `make test-serving` sets it up"
    return str(PYTHON), "2.15."
