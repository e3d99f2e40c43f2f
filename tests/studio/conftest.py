"""Fixtures of the tests of the studio: those of tests/trainer, and the runtime of the site."""

from tests.studio.site import runtime
from tests.trainer.conftest import browser, narrow, narrow_model, predictor

__all__ = ["browser", "narrow", "narrow_model", "predictor", "runtime"]
