"""Settings as fields of dataclasses: each with its default, its help and its range.

The settings themselves are in the `settings.py` of the packages that use them. Command-line flags and pipeline
parameters of the same names are derived from them.
"""

import dataclasses
import math
import operator
import re
from collections.abc import Collection, Mapping
from typing import Any, TypedDict, Unpack

from trainer.errors import Checks, SettingError, UnknownNameError, check, check_choice
from trainer.texts import nearest, shown

Value = bool | int | float | str
TYPE_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
LARGEST = 2**63 - 1
"""Largest integer of the API's types."""
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Range(TypedDict, total=False):
    """The values that a setting may have. A number with a bound is finite."""

    gt: float
    ge: float
    lt: float
    le: float
    choices: Collection[str]
    pattern: str
    """Regular expression of a whole text."""
    hint: str
    """Words for `pattern`, which follow "write" in a message."""


COMPARISONS = {
    "gt": ("above", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}
"""Bound of a `Range` -> its words, and what compares a value with it."""


def setting(default: Any, help: str, group: str = "", **limits: Unpack[Range]) -> Any:
    """A dataclass field with its default, the sentence that describes it to a user, and its range.

    `group` is the title under which helps show its flag, by default the TITLE of its class. The class has
    to call `check_ranges`.
    """
    return dataclasses.field(default=default, metadata={"help": help, "group": group, "range": limits})


def check_ranges(config: Any) -> None:
    """Check each setting of a dataclass against its range.

    Raises:
        UserError: with a line for each setting that is outside of its range: its name, its value and the range.
    """
    checks = Checks()
    for field in dataclasses.fields(config):
        with checks.collect():
            _check_range(field.name, getattr(config, field.name), field.metadata["range"])
    checks.raise_errors()


def _check_range(name: str, value: Any, limits: Range) -> None:
    if "choices" in limits:
        check_choice(name, value, limits["choices"])
    if "pattern" in limits and re.fullmatch(limits["pattern"], value) is None:
        raise SettingError(f"{name} is {value!r}. Write {limits['hint']}")
    bounds = [(*COMPARISONS[key], limits[key]) for key in COMPARISONS if key in limits]  # type: ignore[literal-required]
    is_finite = not bounds or abs(value) < math.inf
    if not (is_finite and all(holds(value, bound) for _, holds, bound in bounds)):
        shown = f"{value:g}" if isinstance(value, float) else value
        allowed = " and ".join(
            f"{words} {bound if isinstance(bound, int) else f'{bound:g}'}" for words, _, bound in bounds
        )
        raise SettingError(f"{name} is {shown}. It must be {allowed}{'' if is_finite else ', and finite'}")


def group_of(config: Any, field: "dataclasses.Field[Any]") -> str:
    """The title under which helps show the flag of a field of the dataclass `config`."""
    return str(field.metadata["group"] or getattr(config, "TITLE", "options"))


def configs_of(values: Mapping[str, Any], *configs: Any) -> list[Any]:
    """An instance of each dataclass in `configs`, from settings by name. One without a value has its default.

    Values are converted by `as_type`. Raises `UserError` for a name that is a setting of none of the dataclasses,
    with the nearest one, and for a value of another type.
    """
    kinds: dict[str, Any] = {field.name: field.type for config in configs for field in dataclasses.fields(config)}
    typed = {}
    for name, value in values.items():
        check(name in kinds, f"unknown setting {name!r}{nearest(name, kinds)}", UnknownNameError)
        typed[name] = as_type(name, value, kinds[name])
    return [
        config(**{field.name: typed[field.name] for field in fields if field.name in typed})
        for config in configs
        if (fields := dataclasses.fields(config))
    ]


def settings_text(settings: Mapping[str, Any]) -> str:
    """Write settings as parameters, such as `epochs=3 flip=true`."""
    return " ".join(f"{name}={_written(value)}" for name, value in settings.items())


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def boolean(text: str) -> bool:
    """Parse a word of WORDS, such as `yes`. Raises `ValueError` for any other word."""
    try:
        return WORDS[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def integer(text: str) -> int:
    """Parse an integer, also with a fraction of zero, as services write one that have a single type of number.

    Vertex AI's tuning jobs are reported to give a trial `128.0` (kuds/mesozoic-labs, pull request 127).
    """
    try:
        return int(text)
    except ValueError:
        if not (number := float(text)).is_integer():
            raise
        return int(number)


def flag_of(name: str) -> str:
    """The flag of the setting `name`. Example: `--batch-size` for `batch_size`."""
    return "--" + name.replace("_", "-")


def as_type(name: str, value: object, kind: type) -> Value:
    """Convert `value`, a string or a value from TOML, YAML or JSON, to `kind`: bool, int, float or str.

    Example: 128 for `"128.0"` and int.

    Every value that somebody gives for a parameter comes through here before anything reads it. Raises `UserError`
    with the parameter's `name` if the value is none of this type, or does not fit into the type's 64 bits.
    """
    try:
        return _as_type(value, kind)
    except ValueError:
        raise SettingError(f"{name} is {brief_value(value)}. It must be {TYPE_NAMES[kind]}") from None
    except OverflowError:
        raise SettingError(f"{name} is too large. It must be {TYPE_NAMES[kind]} of at most 64 bits") from None


def _as_type(value: object, kind: type) -> Value:
    if isinstance(value, bool) and kind is not bool:
        raise ValueError
    if isinstance(value, str):
        value = {bool: boolean, int: integer}.get(kind, kind)(value)
    if kind is float and isinstance(value, int):
        value = float(value)
    if kind is int and isinstance(value, float) and value.is_integer():  # JSON has one type of number
        value = int(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise OverflowError
    if not isinstance(value, kind):
        raise ValueError
    assert isinstance(value, Value)
    return value


def brief_value(value: object) -> str:
    """A value of any type for a message. Python writes no integer of more than 4,300 digits."""
    try:
        return shown(repr(value))
    except ValueError:
        return "a number of thousands of digits"
