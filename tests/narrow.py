"""MSI-Net with a quarter of each layer's filters, for tests that are about all but the network's size.

It has the same layers in 1.6 instead of 24.9 million parameters, so that its training, checkpoints, weights and
exports cost a tenth. No layer has fewer filters than `trainer.convolution.MIN_CHANNELS`, except the last one, so
that its step is computed by the same operations.
"""

import contextlib
from collections.abc import Iterator

import pytest

from trainer import model

WIDTHS = {
    "VGG16_BLOCKS": ((16, 16), (32, 32), (64, 64, 64), (128, 128, 128), (128, 128, 128)),
    "ASPP_FILTERS": 64,
    "DECODER_FILTERS": (32, 16, 16),
}
"""By name of the constant in `trainer.model`."""


@contextlib.contextmanager
def narrowed() -> Iterator[None]:
    """Within it, `trainer.model.build_model` makes the narrow network."""
    with pytest.MonkeyPatch.context() as patch:
        for name, width in WIDTHS.items():
            patch.setattr(model, name, width)
        yield


@pytest.fixture(scope="module")
def narrow_network() -> Iterator[None]:
    """All networks of a module are narrow, and so are the models that it reads.

    A session's fixtures may be made before this one or after it: they say themselves what they need.
    """
    with narrowed():
        yield
