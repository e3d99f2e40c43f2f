"""Tables of text: quotes, cells of several lines, and commas in numbers."""

import pytest

from tests.refusals import refused
from trainer.data.recordings.tables import read_head, read_table
from trainer.errors import ContentError


@pytest.fixture
def read(tmp_path):
    """Reads a text: its header, its columns image, x and y from `first` on, and how many rows were left out."""

    def read(text, first=0):
        path = tmp_path / "t.csv"
        path.write_bytes(text.encode())
        head = read_head(path, path.name, {})
        frame, n_ragged = read_table(path, path.name, head, {"image": first, "x": first + 1, "y": first + 2})
        return head.header, frame.to_dict(as_series=False), n_ragged

    return read


def test_a_table_of_more_columns_than_any_export_has_is_named(read):
    with refused(ContentError, "t.csv", "5,003", "4,096"):
        read(
            "\n".join(",".join(["a", "1", "2", *["3"] * 5000]) for _ in range(3)).replace("a,1,2", "image,x,y", 1)
        )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["512,345", "8,125", "1,024"], [512.345, 8.125, 1.024]),
        (["512,3", "8", "1,024"], [512.3, 8, 1.024]),
        (["512.5", "8", "7"], [512.5, 8, 7]),
    ],
)
@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_decimal_commas_are_read_beside_other_delimiters(cells, expected, delimiter, read):
    lines = [delimiter.join(row) for row in (("image", "x", "y"), *(("a", cell, "1") for cell in cells))]
    assert read("\n".join(lines))[1]["x"] == expected


@pytest.mark.parametrize("n_before", [3, 2000])
@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_a_comma_that_may_separate_thousands_is_refused(delimiter, n_before, read):
    rows = [("image", "x", "y"), *[("a", "512", "7")] * n_before, ("a", "1,024", "8")]
    with refused(ContentError, "t.csv", "'1,024'", "'x'"):
        read("\n".join(map(delimiter.join, rows)))


def test_a_header_is_found_by_names_however_they_are_written(tmp_path):
    """Lines before it may have more delimiters, and its cells blanks of any kind, or several lines."""
    path = tmp_path / "t.csv"
    path.write_text('study,1,2,3,4\n\nimage,"Gaze\n X",Gaze\N{NO-BREAK SPACE} Y\na,1,2\n')
    head = read_head(path, path.name, {"x": "gaze x", "y": "Gaze Y"})
    assert (head.header, head.sample) == (["image", "Gaze X", "Gaze Y"], [["a", "1", "2"]])


ROWS = ["image,x,y", "a,1,2", "b,3,4", "c,5,6", "d,7,8"]


@pytest.mark.parametrize("closing", ["", 'e,9"'])
def test_a_quote_that_is_not_closed_takes_no_rows(closing, read):
    with refused(ContentError, "t.csv"):
        read("\n".join([ROWS[0], ROWS[1], '"b,3,4', *ROWS[3:], closing]))


@pytest.mark.parametrize(
    "cell",
    [
        r'"say \"hi\""',
        r'"hi\", b.png, \"you"',
        r'"a\",b.png,\""',
        r'"\""',
        r'"a\\\"b"',
        r'"one\",b.png,5,6,\"two"',
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_quote_that_is_escaped_by_a_backslash_is_named_with_its_line(cell, delimiter, read):
    lines = ["note,image,x,y", "fine,a.png,1,2", f"{cell},a.png,3,4", "fine,c.png,5,6"]
    with refused(ContentError, "t.csv", 3):
        read("\n".join(lines).replace(",", delimiter), first=1)


def test_a_backslash_before_a_quote_that_is_written_as_it_should_be_is_a_letter(read):
    cells = {
        r'"C:\data\"': "C:\\data\\",
        r'"{""a"":""say \""hi\""""}"': r'{"a":"say \"hi\""}',
        '12" wide': '12" wide',
    }
    _, values, ragged = read("\n".join(["image,x,y", *(f"{cell},1,2" for cell in cells)]))
    assert (values["image"], ragged) == (list(cells.values()), 0)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cells_and_names_of_columns_may_have_several_lines(end, read):
    lines = ['"image', 'name",x,y', '"a', 'b",1,2', "c,3,4"]
    header, values, ragged = read(end.join(lines))
    assert header == ["image name", "x", "y"]
    assert (values["x"], values["y"], ragged) == ([1, 3], [2, 4], 0)
    assert values["image"] == [f"a{end}b", "c"]
