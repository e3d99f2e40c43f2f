"""Drawn odd-one-out patterns, for those who have no picture at hand: the sample set's, larger."""

import dataclasses
import io

from trainer.data import sample

SIZE = (480, 640)
COUNT = 100
"""So many different patterns; then they come again."""


def draw(number: int) -> bytes:
    """Pattern `number` as PNG."""
    wanted = dataclasses.replace(sample.settings("salicon"), size=SIZE)
    buffer = io.BytesIO()
    sample.generate_pattern(wanted, number % COUNT).stimulus.save(buffer, "PNG")
    return buffer.getvalue()
