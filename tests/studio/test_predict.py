"""`python -m studio predict`: maps of pages and of images on the web."""

import json

import numpy as np
import pytest
from PIL import Image

from studio.__main__ import main
from tests.golden.inputs import image
from tests.refusals import refused
from tests.studio.demo import encoded
from tests.studio.pages import needs_browser, serving
from trainer.errors import NotFoundError, SettingError

pytestmark = pytest.mark.usefixtures("narrow")

SIZE = (40, 100)
PAGE = "<body style='background: red'>"


def test_pages_and_images_on_the_web_are_predicted(narrow_model, tmp_path, monkeypatch, capsys):
    needs_browser()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "own.html").write_text(PAGE)
    pages = {"/a/page": PAGE, "/photo.png": encoded(image(0, 1, *SIZE)[0]), "/gone": 410}
    flags = ["--no-sandbox", "--viewport-width=300", "--viewport-height=200", "--json=-", "--format=overlay"]
    with serving(pages) as address:
        named = [*(f"{address}{path}" for path in pages), "site/own.html"]
        with pytest.raises(SystemExit) as left:
            main(["predict", *named, *flags, f"--model={narrow_model}"])
    assert left.value.code == 1
    page, picture, gone, own = json.loads(capsys.readouterr().out)["images"]
    assert (page["height"], page["width"]) == (200, 300)
    assert (picture["height"], picture["width"]) == SIZE
    assert f"{address}/gone was answered with HTTP status 410" in gone["error"]
    overlays = [each["results"]["overlay"] for each in (page, picture, own)]
    assert overlays == ["127.0.0.1-a-page-attention.png", "photo-attention.png", "site/own-attention.png"]
    assert np.asarray(Image.open(tmp_path / overlays[0])).shape == (200, 300, 3)


def test_an_image_of_this_machine_is_for_the_trainer(narrow_model):
    with refused(SettingError, "photo.png"):
        main(["predict", "https://example.com", "photo.png", f"--model={narrow_model}"])


@pytest.mark.parametrize("page", ["nothere.html", "nothere.html#price"])
def test_a_page_that_does_not_exist_is_refused_before_anything_is_loaded(page, capsys):
    with refused(NotFoundError, "nothere.html"):
        main(["predict", page])
    assert capsys.readouterr() == ("", "")
