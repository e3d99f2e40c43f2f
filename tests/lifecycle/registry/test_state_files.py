"""The files beside the versions of a model: their form, and that of earlier versions."""

import json

import pytest

from lifecycle.registry import state_files
from lifecycle.registry.state_files import LedgerEntry, MoveEntry
from lifecycle.registry.state_layout import DECISIONS, DEFAULTS
from trainer.errors import ContentError
from trainer.models.registry_layout import ALIASES

LOOK = {
    "number": 1,
    "since": "2026-01-04T03:00:00+00:00",
    "run": "r",
    "folder": "f",
    "made_of": "",
    "compared_with": 0,
}
WRITTEN = {
    ALIASES: {"default": 3, "challenger": 4},
    DEFAULTS: [{"version": 1, "since": "2026-01-04"}, {"version": 3, "since": "2026-03-02", "by": "gate"}],
    DECISIONS: [LOOK],
}


@pytest.mark.parametrize("file", WRITTEN)
def test_what_is_read_is_written_in_the_same_form(file):
    content = json.dumps(WRITTEN[file], indent=2) + "\n"
    assert state_files.text_of(state_files.parse(content.encode(), file, file)) == content
    assert not state_files.parse(None, file, file)


def test_entries_are_objects():
    assert state_files.parse(json.dumps([LOOK]).encode(), DECISIONS, "") == [LedgerEntry(**LOOK)]
    moves = state_files.parse(json.dumps(WRITTEN[DEFAULTS]).encode(), DEFAULTS, "")
    assert moves == [MoveEntry(1, "2026-01-04"), MoveEntry(3, "2026-03-02", "gate")]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (ALIASES, {"default": "three"}),
        (DEFAULTS, [{"version": 1}]),
        (DECISIONS, [{**LOOK, "run": 3}]),
        (DECISIONS, {}),
    ],
)
def test_a_damaged_file_is_named(file, content):
    with pytest.raises(ContentError, match=rf"gs://b/{file} is damaged .*remove it"):
        state_files.parse(json.dumps(content).encode(), file, f"gs://b/{file}")
