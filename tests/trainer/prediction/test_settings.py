"""The settings of `predict` are numbers that can be used."""

import pytest

from trainer.config import PredictConfig
from trainer.errors import UserError


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_limit_that_is_no_number_above_zero_is_refused(value):
    with pytest.raises(UserError, match=r"^most_megapixels is \S+; use a number above 0 that is not infinite$"):
        PredictConfig(most_megapixels=value)


@pytest.mark.parametrize("value", [1e300, 1e308])
def test_any_other_limit_is_a_number_of_pixels(value):
    assert PredictConfig(most_megapixels=value).most_pixels == 10**18
