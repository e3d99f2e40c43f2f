"""The fixtures of tests/trainer that the tests of the studio take too: a browser, and a narrow network."""

from tests.trainer.conftest import browser, narrow, narrow_model, predictor

__all__ = ["browser", "narrow", "narrow_model", "predictor"]
