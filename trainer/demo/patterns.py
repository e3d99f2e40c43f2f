"""Generated odd-one-out patterns as examples: those of the sample dataset, larger."""

import dataclasses
import io

from trainer.data import sample

SIZE = (480, 640)
COUNT = 100
"""Number of different patterns; higher numbers repeat them."""


def draw(number: int) -> bytes:
    """Draw pattern `number`; returns a PNG."""
    wanted = dataclasses.replace(sample.settings("salicon"), size=SIZE)
    buffer = io.BytesIO()
    sample.generate_pattern(wanted, number % COUNT).stimulus.save(buffer, "PNG")
    return buffer.getvalue()
