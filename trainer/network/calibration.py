"""Calibrated maps, which spread as far as observers do, also on pictures of other kinds than those trained on.

A network that has learned from the observers of one laboratory ranks the places of other pictures well, but is too
certain of them. A calibrated map is a mixture of two: the network's map to a power, and a Gaussian bias near the
centre, such as above and left of it on pages. The share of the bias grows with the entropy of the network's map,
because a map without a clear peak says little. The numbers are part of a model's configuration, and of the model
wherever it predicts:
`trainer.network.tensorflow_calibration` applies them in TensorFlow, `trainer.network.onnx_graph` in ONNX.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.errors import ContentError

SMALL = 1e-20
"""Keeps logarithms and quotients finite."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """The numbers of a calibration."""

    exponent: float
    """The power of the network's map."""
    bias_logit: float
    """Log odds of the share of the centre bias for a uniform map."""
    bias_slope: float
    """How much the log odds fall with each nat by which the entropy of a map is below that of a uniform one."""
    bias_height: float
    """Standard deviation of the centre bias from top to bottom, divided by the image's height."""
    bias_width: float
    """Standard deviation of the centre bias from left to right, divided by the image's width."""
    bias_y: float = 0.0
    """Distance of the bias' peak below the middle of the image, divided by its height."""
    bias_x: float = 0.0
    """Distance of the bias' peak to the right of the middle of the image, divided by its width."""

    @property
    def numbers(self) -> NDArray[np.float32]:
        """The numbers as an optimizer varies them, (7) float32. Numbers that must be positive are logarithms.

        Example: an exponent of 1.0 is 0.0.
        """
        exponent, height, width = np.log([self.exponent, self.bias_height, self.bias_width])
        places = self.bias_y, self.bias_x
        return np.array([exponent, self.bias_logit, self.bias_slope, height, width, *places], np.float32)

    @classmethod
    def of_numbers(cls, numbers: Iterable[float]) -> "Calibration":
        """The calibration with these `numbers`, each rounded to four significant digits, such as 0.1235 for
        0.123456.
        """
        exponent, logit, slope, height, width, y, x = numbers
        values = np.exp(exponent), logit, slope, np.exp(height), np.exp(width), y, x
        return cls(*(float(f"{value:.4g}") for value in values))

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> "Calibration | None":
        """The calibration of a model, by the content of its MODEL_CONFIG. None if it has none.

        A model of an earlier version has no place of the bias, which then is the middle.

        Raises:
            ContentError: it has other numbers, as the calibration of a later version may.
        """
        numbers = config.get("calibration")
        if not numbers:
            return None
        fields = {field.name: field.default for field in dataclasses.fields(cls)}
        needed = [name for name, default in fields.items() if default is dataclasses.MISSING]
        if not set(needed) <= set(numbers) <= set(fields):
            raise ContentError(
                f"the model's calibration has {', '.join(numbers)}, but should have {', '.join(fields)}"
            )
        return cls(**{name: float(value) for name, value in numbers.items()})
