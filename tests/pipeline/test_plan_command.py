import re

import pytest

from pipeline.__main__ import main
from trainer.errors import UserError
from trainer.training.accelerators import ACCELERATORS, PRICE_SOURCE


@pytest.fixture
def output(monkeypatch, capsys):
    """Run the command and return its lines, unwrapped."""

    def run(*arguments, columns="200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["plan", *arguments]) == 0
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return run


def row(lines, name):
    (cells,) = [line.split() for line in lines if line.split()[:1] == [name]]
    return cells


def test_table_compares_all_accelerators_on_salicon(output):
    lines = output()
    assert "10 epochs of 10000 images at 240x320, standard, 1 machine" in lines[0]
    assert row(lines, "v5e-4") == ["v5e-4", "ct5lp-hightpu-4t", "128", "bfloat16", "6", "min", "0.57"]
    assert row(lines, "t4")[:4] == ["t4", "n1-standard-8", "32", "float16"]
    (left_out,) = [" ".join(line.split()) for line in lines if "left out" in line or "h100-2" in line][1:]
    assert left_out.startswith("h100, h100-2, h100-4 is not offered as standard; set provisioning to spot")
    assert all(row(lines, name) for name in ACCELERATORS if name not in left_out.split(" is ")[0].split(", "))
    assert PRICE_SOURCE in " ".join(lines)


def test_table_follows_its_flags(output):
    lines = output(
        *("--dataset", "fixationadd1000", "--epochs", "3", "--images", "400", "--batch-size", "256"),
        *("--workers", "2", "--provisioning", "spot", "--location", "europe-west4"),
    )
    assert "3 epochs of 400 images at 360x360, spot, 2 machines" in lines[0]
    assert row(lines, "h100-8")[2] == "256"
    text = " ".join(" ".join(lines).split())
    assert "set batch_size to at most 142" in text
    assert "v5e-4 trains on one machine" in text


def test_cheapest_comes_first_and_it_and_the_fastest_are_marked(output):
    lines = [line.split() for line in output()]
    shown = [cells for cells in lines if "min" in cells and cells[0] in ACCELERATORS]
    prices = [float(cells[cells.index("min") + 1]) for cells in shown]
    assert prices == sorted(prices)
    marked = {cells[0]: cells[-1] for cells in shown if not re.fullmatch(r"[\d.]+", cells[-1])}
    assert marked == {shown[0][0]: "cheapest", "h100-8": "fastest"}


def test_prices_of_another_region_are_marked(output):
    text = "\n".join(output("--location", "europe-west4"))
    assert re.search(r"^ ?l4 .* min +~0\.\d\d", text, re.MULTILINE)
    assert "~ marks prices of us-central1; those of europe-west4 differ." in " ".join(text.split())
    assert "~" not in "\n".join(output("--location", "us-central1"))


@pytest.mark.parametrize("columns", ["40", "80"])
def test_no_column_is_cut(output, columns):
    (line,) = [line for line in output("--location", "me-west1", columns=columns) if line.split()[:1] == ["cpu"]]
    assert line.split() == ["cpu", "n1-standard-16", "1", "float32", "12", "h", "48", "min", "~11.19"]
    (line,) = [line for line in output("--location", "us-west8", columns=columns) if line.split()[:1] == ["cpu"]]
    assert line.endswith("~11.19  cheapest, fastest")


def test_region_without_accelerators_may_be_none(capsys):
    assert main(["plan", "--location", "us-west8"]) == 0
    assert "did you mean 'us-west4'" in capsys.readouterr().err

    assert main(["plan", "--location", "us-west1"]) == 0
    assert not capsys.readouterr().err


def test_word_that_is_no_region_is_refused():
    with pytest.raises(UserError, match=r"'us-west'; .* did you mean 'us-west"):
        main(["plan", "--location", "us-west"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--accelerator", "v5e-3"], "'v5e-3'; did you mean 'v5e-"),
        (["--image-size", "100x100"], "image_size is 100x100"),
        (["--workers", "0"], "^workers is 0; it must be at least 1$"),
        (["--accelerator", "h100"], "h100 .*standard"),
    ],
)
def test_mistake_is_reported(arguments, named):
    with pytest.raises(UserError, match=named):
        main(["plan", *arguments])
