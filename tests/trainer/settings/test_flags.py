"""Switches, groups of flags and the usage of a command."""

import dataclasses
from typing import ClassVar

import pytest

from tests.refusals import refused
from trainer.errors import UsageError
from trainer.settings.fields import as_type, setting
from trainer.settings.flags import Parser, add_settings, settings_of


@dataclasses.dataclass(frozen=True)
class Config:
    TITLE: ClassVar[str] = "data"

    flip: bool = setting(False, "Mirror.", group="augmentation")
    exact: bool = setting(True, "Exact.")
    size: int = setting(3, "Size.")


@pytest.fixture
def parser():
    parser = Parser(prog="it", takes="[NAME=VALUE ...]")
    parser.add_argument("--output-dir", metavar="DIR", required=True)
    add_settings(parser, Config)
    return parser


@pytest.mark.parametrize(
    ("line", "flip", "exact"),
    [
        ("", False, True),
        ("--flip --no-exact", True, False),
        ("--flip true --exact false", True, False),
        ("--flip=True --exact=no", True, False),
        ("--no-flip --exact 1", False, True),
        ("--flip a=1", True, True),
        ("--flip false a=1", False, True),
    ],
)
def test_switch_is_written_alone_or_with_a_word(parser, line, flip, exact):
    parsed, others = parser.parse_known_args(["--output-dir", "b", *line.split()])
    assert settings_of(Config, parsed) == Config(flip=flip, exact=exact)
    assert others == [word for word in line.split() if word == "a=1"]


@pytest.mark.parametrize("text", ["128", "128.0", "1.28e2"])
def test_integer_may_have_a_fraction_of_zero(parser, text):
    parsed, _ = parser.parse_known_args(["--output-dir", "b", f"--size={text}"])
    assert settings_of(Config, parsed).size == as_type("size", text, int) == 128


@pytest.mark.parametrize(
    "line", ["--flp", "--flip=maybe", "--no-flip=true", "--size=2.5", "--size=inf", "--size=nan", "--size=two"]
)
def test_mistake_in_a_flag_names_it(parser, line):
    with refused(UsageError, line.partition("=")[0]):
        parser.parse_known_args(["--output-dir", "b", *line.split()])
