"""Values of JSON as the types that they should have. Standard library only."""

import dataclasses
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Union

WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
SHOWN = 60
"""Letters of a value in a message."""


class MismatchError(Exception):
    """A value that has another type; the message says where: `image_size[0] is "a", not a whole number`."""


def read(value: Any, kind: Any) -> Any:
    """`value`, as `json.loads` returns it, as a value of a type.

    Args:
        value: it may have more keys than a TypedDict, but not more than a dataclass has fields.
        kind: a scalar; a TypedDict; a dataclass; list, tuple or dict[str, ...] of such; a union of such; Any. Of
            `Annotated[..., check]`, check(value) returns what is wrong with it, for people, or nothing.

    Raises:
        MismatchError: it is no such value.
    """
    return _read(value, kind, "")


def _read(value: Any, kind: Any, place: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        result = _read(value, arguments[0], place)
        if wrong := next(filter(None, (check(result) for check in arguments[1:])), ""):
            raise MismatchError(f"{_subject(place)} is {_shown(value)}, {wrong}")
        return result
    if origin in (Union, types.UnionType):
        return _read_any(value, arguments, place)
    if origin in (list, tuple):
        return origin(_read_list(_checked(value, list, place), arguments, origin, place))
    if origin is dict:
        items = _checked(value, dict, place).items()
        return {name: _read(each, arguments[1], _below(place, name)) for name, each in items}
    if typing.is_typeddict(kind):
        return _read_fields(value, kind, kind.__required_keys__, place)
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(value, kind, place)
    if kind is float and type(value) is int:
        return float(value)
    return _checked(value, kind, place)


def _read_any(value: Any, kinds: tuple[Any, ...], place: str) -> Any:
    errors = []
    for kind in kinds:
        try:
            return _read(value, kind, place)
        except MismatchError as error:
            errors.append(error)
    words = [WORDS[kind] for kind in kinds if kind in WORDS]
    if len(words) == len(kinds):
        raise MismatchError(f"{_subject(place)} is {_shown(value)}, not {' or '.join(words)}")
    raise errors[0]


def _read_list(values: list[Any], kinds: tuple[Any, ...], origin: type, place: str) -> Iterator[Any]:
    if origin is tuple and Ellipsis not in kinds:
        if len(values) != len(kinds):
            raise MismatchError(f"{_subject(place)} is {_shown(values)}, not a list of {len(kinds)}")
    else:
        kinds = kinds[:1] * len(values)
    for index, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        yield _read(value, kind, f"{place}[{index}]")


def _read_fields(value: Any, kind: Any, required: Collection[str], place: str) -> dict[str, Any]:
    fields = _checked(value, dict, place)
    if missing := sorted(required - fields.keys()):
        raise MismatchError(f"{_subject(place)} has no {missing[0]!r}")
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        name: _read(each, _bare(hints[name]), _below(place, name)) if name in hints else each
        for name, each in fields.items()
    }


def _read_dataclass(value: Any, kind: Any, place: str) -> Any:
    fields, missing = dataclasses.fields(kind), dataclasses.MISSING
    required = {each.name for each in fields if each.default is missing and each.default_factory is missing}
    given = _read_fields(value, kind, required, place)
    if unknown := sorted(given.keys() - {each.name for each in fields}):
        raise MismatchError(f"{_subject(place)} has {unknown[0]!r}, which is unknown")
    return kind(**given)


def _bare(hint: Any) -> Any:
    """A field's type without `Required` or `NotRequired`."""
    is_marked = typing.get_origin(hint) in (typing.Required, typing.NotRequired)
    return typing.get_args(hint)[0] if is_marked else hint


def _checked(value: Any, kind: Any, place: str) -> Any:
    # True is an int in Python, and not in JSON.
    if type(value) is not kind:
        raise MismatchError(f"{_subject(place)} is {_shown(value)}, not {WORDS[kind]}")
    return value


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _subject(place: str) -> str:
    return place or "the whole"


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
