"""Tables of text: quotes, cells of several lines, and commas in numbers."""

import numpy as np
import pytest

from trainer.data.recordings.text_table import open_text
from trainer.errors import UserError


def read(text, texts=(0,), numbers=(1, 2)):
    """The header, the columns, and how many rows were left out."""
    table = open_text(text.encode(), "t.csv", lambda cells: "x" in cells)
    columns, ragged = table.read(numbers, texts)
    values = {
        number: each.tolist() if isinstance(each, np.ndarray) else [each.labels[code] for code in each.codes]
        for number, each in columns.items()
    }
    return table.header, values, ragged


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["512,345", "8,125", "1,024"], [512.345, 8.125, 1.024]),
        (["512,3", "8", "1,024"], [512.3, 8, 1.024]),
        (["512.5", "8", "7"], [512.5, 8, 7]),
    ],
)
@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_decimal_commas_are_read_beside_other_delimiters(cells, expected, delimiter):
    lines = [delimiter.join(row) for row in (("image", "x", "y"), *(("a", cell, "1") for cell in cells))]
    assert read("\n".join(lines))[1][1] == expected


@pytest.mark.parametrize("n_before", [3, 2000])
@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_a_comma_that_may_separate_thousands_is_refused(delimiter, n_before):
    rows = [("image", "x", "y"), *[("a", "512", "7")] * n_before, ("a", "1,024", "8")]
    with pytest.raises(UserError, match=r"t\.csv has '1,024' in its column 'x', which may be a thousand or a"):
        read("\n".join(map(delimiter.join, rows)))


ROWS = ["image,x,y", "a,1,2", "b,3,4", "c,5,6", "d,7,8"]


@pytest.mark.parametrize("closing", ["", 'e,9"'])
def test_a_quote_that_is_not_closed_takes_no_rows(closing):
    lines = [ROWS[0], ROWS[1], '"b,3,4', *ROWS[3:], closing]
    with pytest.raises(UserError, match=r"t\.csv has a quote in line 3 that begins a cell and is not closed; re"):
        read("\n".join(lines))
    with pytest.raises(UserError, match="has a quote in line 5 that begins a cell"):
        read("\n".join([*ROWS[:4], '"d,7,8']))


def test_a_quote_within_a_cell_is_a_character():
    assert read("\n".join([ROWS[0], 'a 12",1,2', *ROWS[2:]]))[1][0] == ['a 12"', "b", "c", "d"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cells_and_names_of_columns_may_have_several_lines(end):
    lines = ['"image', 'name",x,y', '"a', 'b",1,2', "c,3,4"]
    header, values, ragged = read(end.join(lines))
    assert header == ["image name", "x", "y"]
    assert (values[1], values[2], ragged) == ([1, 3], [2, 4], 0)
    assert values[0] == [f"a{end}b", "c"]
