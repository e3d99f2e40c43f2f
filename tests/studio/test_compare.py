"""`python -m studio compare`: the figures of two designs, and where a region is on the second."""

import json

import numpy as np
import pytest
from PIL import Image

from studio.__main__ import main
from studio.difference import share_moved
from tests.golden.inputs import image
from tests.refusals import refused
from tests.studio.demo import written
from tests.studio.pages import CONFIG, needs_browser
from trainer.errors import MismatchError

pytestmark = pytest.mark.usefixtures("narrow")

SIZES = [(40, 100), (120, 50), (64, 80)]


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """The working directory, with `0.png` to `2.png`."""
    monkeypatch.chdir(tmp_path)
    for index, size in enumerate(SIZES):
        Image.fromarray(image(index, 1, *size)[0]).save(f"{index}.png")
    return tmp_path


def run(narrow_model, *arguments):
    main(["compare", *map(str, arguments), "--model", str(narrow_model)])


def pixels(path):
    return np.asarray(Image.open(path))


def test_two_designs_are_compared(narrow_model, pictures, capsys):
    Image.open("2.png").resize((160, 128)).save("larger.png")
    regions = ["--region", "left:0%,0%,50%,100%", "--region", "right:50%,0%,50%,100%"]
    run(narrow_model, "2.png", "larger.png", "--output-dir", "maps", "--json", "-", *regions)
    summary = json.loads(capsys.readouterr().out)
    left, right = summary["regions"]
    assert left["share_change"] == pytest.approx(-right["share_change"], abs=1e-6)
    assert left["share_change"] == left["second"]["share"] - left["first"]["share"]
    assert (left["clear"], right["clear"], summary["moved"] < 0.12) == (False, False, True)
    assert left["first"]["share"] + right["first"]["share"] == pytest.approx(1)
    assert pixels(summary["picture"]).shape[0] > 64
    elsewhere = ["--region", "left:0,0,40,64", "--region-b", "left:80,0,80,128"]
    run(narrow_model, "2.png", "larger.png", "--json", "-", *elsewhere)
    (moved,) = json.loads(capsys.readouterr().out)["regions"]
    assert moved["first"]["share"] == left["first"]["share"]
    assert moved["second"]["share"] == right["second"]["share"]
    with refused(MismatchError, "0.png", "1.png", 100, 40):
        run(narrow_model, "0.png", "1.png", "--output-dir", "none")
    assert not (pictures / "none").exists()


def test_a_long_design_is_compared_screen_by_screen(narrow_model, predictor, pictures, capsys):
    screens = [written(450, 720, seed) for seed in range(5)]
    pages = [np.concatenate(screens), np.concatenate([*screens[:4], screens[4][:, ::-1]])]
    for name, pixels_ in zip("ab", pages, strict=True):
        Image.fromarray(pixels_).save(f"{name}.png")
    Image.fromarray(pages[1]).resize((360, 1125)).save("small.png")
    regions = ["--region", "top:0,0,320,300", "--region", "end:0,1900,320,300"]
    run(narrow_model, "a.png", "b.png", "--json", "-", "--output-dir", "maps", *regions)
    summary = json.loads(capsys.readouterr().out)
    top, end = summary["regions"]
    assert (top["share_change"], top["first"]["screen"], end["second"]["screen"]) == (0, 1, 5)
    last, turned = (predictor.predict(page[1800:]) for page in pages)
    assert summary["moved"] == pytest.approx(share_moved(last, turned) / 5, abs=1e-4)
    assert end["share_change"] == pytest.approx(
        turned[100:400, :320].sum() / turned.sum() - last[100:400, :320].sum() / last.sum(), abs=1e-4
    )
    run(narrow_model, "a.png", "small.png", "--json", "-", *regions)
    again = json.loads(capsys.readouterr().out)["regions"][1]
    assert again["second"]["share"] == pytest.approx(end["second"]["share"], abs=0.02)


def test_an_html_file_is_compared_as_the_browser_shows_it(narrow_model, pictures, capsys):
    needs_browser()
    for name, left in (("a", 10), ("b", 200)):
        box = f"position: absolute; left: {left}px; top: 30px; width: 80px; height: 40px; background: red"
        (pictures / f"{name}.html").write_text(f"<!doctype html><body><div style='{box}'></div>")
    window = [f"--viewport-{side}={getattr(CONFIG, f'viewport_{side}')}" for side in ("width", "height")]
    flags = [*window, "--timeout-s=200", *["--no-sandbox"] * (not CONFIG.sandbox), "--json=-", "--output-dir=maps"]
    run(narrow_model, "a.html", "b.html", *flags, "--region=box:10,30,80,40", "--region-b=box:200,30,80,40")
    summary = json.loads(capsys.readouterr().out)
    assert (summary["first"], summary["picture"]) == ("a.html", "maps/a-to-b.png")
    (box,) = summary["regions"]
    assert box["first"]["area"] == box["second"]["area"] == pytest.approx(80 * 40 / (400 * 300))
