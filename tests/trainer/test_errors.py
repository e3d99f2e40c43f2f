import re

import pytest

from tests.refusals import refused
from trainer.errors import (
    Checks,
    MistakesError,
    SettingError,
    UnknownNameError,
    UserError,
    check,
    check_choice,
    look_up,
    reported,
)
from trainer.texts import LINE_CHARACTERS, MOST_LINES, first_line, nearest, printable, visible


def test_a_name_is_shown_as_it_is_unless_it_cannot_be_printed():
    assert printable("ü 日/1.png") == "ü 日/1.png"
    assert printable("a\x1b[2J\n.png") == r"'a\x1b[2J\n.png'"
    assert printable("\udcff.png") == r"'\udcff.png'"


def test_a_missing_package_is_named_without_a_traceback():
    with pytest.raises(SystemExit, match=r"has no package nothere\. Run `make install`"), reported():
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


def test_message_about_a_long_value_is_short_and_ends_with_the_remedy():
    remedy = "it must be a number; see docs/data.md"
    value = "a\x1b" * 100_000
    message = f"x is {value!r}; {remedy}"
    for error in (UserError(message), UserError(f"a.toml: {UserError(message)}"), OSError(message)):
        with pytest.raises(SystemExit) as raised, reported():
            raise error
        text = str(raised.value)
        assert len(text) < LINE_CHARACTERS + 100
        assert "x is 'a" in text[:30]
        assert text.endswith(remedy)


def test_the_first_and_the_last_of_many_lines_are_shown():
    lines = str(MistakesError([f"mistake {n}" for n in range(10_000)])).split("\n")
    assert (lines[1], lines[-1]) == ("mistake 0", "mistake 9999")
    assert len(lines) == MOST_LINES + 1


def test_usual_messages_are_shown_whole():
    message = "\n".join(["x" * LINE_CHARACTERS] * MOST_LINES)
    assert str(UserError(message)) == message


def test_a_mistake_keeps_its_kind_where_it_is_named_and_collected():
    with refused(SettingError, "a.toml", "epochs", 0):
        try:
            check(False, "epochs is 0", SettingError)
        except UserError as error:
            raise error.within("a.toml") from None
    checks = Checks()
    with checks.collect("base training"):
        check_choice("gate", "c", ("kld", "cc"))
    with refused(SettingError, "base training: gate is 'c'", "'cc'"):
        checks.raise_errors()
    with checks.collect():
        look_up("dataset", "osi", {"osie": 1})
    with refused(MistakesError, "2 mistakes", "base training: gate", "'osie'"):
        checks.raise_errors()
    with refused(UnknownNameError, "'osi'", "osie"), reported():
        look_up("dataset", "osi", {"osie": 1})


def test_a_test_of_a_refusal_fails_for_another_kind_and_another_value():
    for kind, named in ((UnknownNameError, "epochs"), (SettingError, "epoch"), (SettingError, "1")):
        with pytest.raises((AssertionError, SettingError)), refused(kind, named):
            check(False, "epochs is 10", SettingError)
    with pytest.raises(AssertionError), refused(UnknownNameError), reported():
        check(False, "epochs is 10", SettingError)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("epochz", ["base_epochs", "finetune_epochs"]),
        ("epochs", ["base_epochs", "finetune_epochs"]),
        ("finetune_epoch", ["finetune_epochs"]),
        ("Gate", ["gate"]),
        ("nothing", []),
    ],
)
def test_near_names_are_found_without_their_prefix(name, meant):
    choices = ["base_epochs", "finetune_epochs", "gate"]
    assert re.findall("'(.*?)'", nearest(name, choices)) == meant
