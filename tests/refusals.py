"""What a test asserts of a mistake: its kind and the values that its message names, not the sentence."""

import re
from contextlib import contextmanager

import pytest


@contextmanager
def refused(kind, *named):
    """Within this context, a mistake of this kind is raised, and its message has each of the values as a word.

    Example: `with refused(SettingError, "timeout_hours", 200):`. A command that ends with the message counts too.
    The context gives what `pytest.raises` gives.
    """
    with pytest.raises((kind, SystemExit)) as caught:
        yield caught
    error = caught.value
    # A command ends with the message of a mistake that it has reported.
    assert isinstance(error.__context__ if isinstance(error, SystemExit) else error, kind), repr(error)
    assert_named(str(error), *named)


def assert_named(text, *named):
    """Assert that each value stands in a text as a word of its own: 2 does not stand in `20`."""
    for value in map(str, named):
        assert re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text), f"{value} is not named by: {text}"
