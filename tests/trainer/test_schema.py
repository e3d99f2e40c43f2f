"""Values of JSON are taken as the types that they should have, or refused with the place where they differ."""

import dataclasses
from typing import Annotated, Any, TypedDict

import pytest

from trainer.schema import MismatchError, read


@dataclasses.dataclass(frozen=True)
class Inner:
    name: str
    size: tuple[int, int] = (1, 2)


class Needed(TypedDict):
    share: float
    inner: Inner


class Outer(Needed, total=False):
    many: list[Inner | None]
    numbers: dict[str, Annotated[int, lambda number: "" if number else "and that is nothing"]]
    nested: "Outer"


def test_values_are_taken_as_their_types():
    content = {"share": 1, "inner": {"name": "a", "size": [3, 4]}, "many": [None, {"name": "b"}], "more": [{}]}
    found = read({**content, "nested": content, "numbers": {"x": -1}}, Outer)
    expected = {"share": 1.0, "inner": Inner("a", (3, 4)), "many": [None, Inner("b")], "more": [{}]}
    assert found == {**expected, "nested": expected, "numbers": {"x": -1}}
    assert isinstance(found["share"], float)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ([], dict[str, Any], "the whole is [], not an object"),
        (True, int, "the whole is True, not a whole number"),
        (1.0, int, "the whole is 1.0, not a whole number"),
        (1, bool, "the whole is 1, not true or false"),
        ("1", float | None, "the whole is '1', not a number or null"),
        ("\x1b" * 99, int, f"the whole is '{chr(92)}x1b"),
        ({"a": [1, "x"]}, dict[str, list[int]], "a[1] is 'x', not a whole number"),
        ([1], tuple[int, int], "the whole is [1], not a list of 2"),
        ({"share": 1}, Outer, "the whole has no 'inner'"),
        ({"share": 1, "inner": {}}, Outer, "inner has no 'name'"),
        ({"share": 1, "inner": {"name": "a", "x": 1}}, Outer, "inner has 'x', which is unknown"),
        ({"share": 1, "inner": {"name": "a"}, "numbers": {"b": 0}}, Outer, "numbers.b is 0, and that is nothing"),
        ({"share": 1, "inner": {"name": "a"}, "nested": {}}, Outer, "nested has no 'inner'"),
        ({"share": 1, "inner": {"name": "a"}, "many": [3]}, Outer, "many[0] is 3, not an object"),
    ],
)
def test_other_values_are_refused_with_their_place(value, kind, message):
    with pytest.raises(MismatchError) as error:
        read(value, kind)
    assert str(error.value).startswith(message)
    assert len(str(error.value)) < 120
