import pytest

from trainer.text import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.4, "0 s"),
        (64.6, "65 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (3569.0, "59 min"),
        (3599.0, "1 h 0 min"),
        (3720.0, "1 h 2 min"),
        (46_080.0, "12 h 48 min"),
    ],
)
def test_duration_has_one_or_two_units(seconds, text):
    assert format_duration(seconds) == text
