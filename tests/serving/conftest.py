"""The fixture of tests/trainer that the tests of the server take too: a narrow network."""

from tests.trainer.conftest import narrow

__all__ = ["narrow"]
