"""Pictures of noise prove nothing about where people looked, so they are not asked."""

import pytest

from tests.trainer.data.recordings.grammar import without_maps


@pytest.fixture(autouse=True)
def without_witness(request, monkeypatch):
    """The pictures are asked in tests alone that use a fixture `seen` or `seen_photographs`."""
    if not {"seen", "seen_photographs"} & {*request.fixturenames}:
        without_maps(monkeypatch)
