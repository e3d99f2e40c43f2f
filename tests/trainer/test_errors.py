import pytest

from trainer.errors import UserError, first_line, printable, reported, visible


def test_a_name_is_shown_as_it_is_unless_it_cannot_be_printed():
    assert printable("ü 日/1.png") == "ü 日/1.png"
    assert printable("a\x1b[2J\n.png") == r"'a\x1b[2J\n.png'"
    assert printable("\udcff.png") == r"'\udcff.png'"


def test_a_missing_package_is_named_without_a_traceback():
    with pytest.raises(SystemExit, match="has no package nothere; run `make install`"), reported():
        import nothere  # noqa: F401


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two\n\tlines, é 日\u00a0x", "two\n\tlines, é 日\u00a0x"),
        ("\x1b]0;x\x07\x1b[2J\r\x9b31m", r"\x1b]0;x\x07\x1b[2J\r\x9b31m"),
        ("gnp\u202e.1\udcff", r"gnp\u202e.1\udcff"),
    ],
)
def test_a_text_cannot_control_a_terminal(text, expected):
    assert visible(text) == expected
    assert str(UserError(text)) == expected


def test_quoted_error_of_tensorflow_has_its_message_alone():
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        tf.io.decode_image(b"\xff\xd8\xff\xe0 cut off")
    assert "{{" in str(raised.value)
    text = first_line(raised.value)
    assert text
    assert not set("{}[]") & set(text)
