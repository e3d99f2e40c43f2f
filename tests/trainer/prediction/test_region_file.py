"""Regions of a JSON file: as `predict` writes it, and as the demo's page saves it."""

import dataclasses
import http.server
import json
import pathlib
import threading

import pytest

import trainer.demo
from tests.browser import chromium
from trainer.errors import UserError
from trainer.prediction.regions import Measure, Region, read_regions

REGIONS = [Region("buy, now: here", 20, 300, 160, 48), Region("logo", 5, 2, 20, 8)]
SAVED = """async ([address, regions]) => {
  const { toJson } = await import(address);
  const measure = { share: 0.1, area: 0.2, ratio: 0.5, peak: 1, peakAt: { x: 1, y: 2 }, rank: 1 };
  const measures = regions.map(() => measure);
  const picture = (slot, regions) => ({ slot, name: `${slot}.png`, regions, measures });
  const moved = regions.map((region) => ({ ...region, x: 0 }));
  return await toJson([picture("A", regions), picture("B", moved)]).text();
}"""


def test_regions_that_predict_writes(tmp_path):
    percent = Region("logo", 5, 2.5, 20, 8, percent=True)
    entries = [Measure(each, 0.1, 0.2, 0.5, 1, (1, 2), 1).as_json() for each in (REGIONS[0], percent)]
    images = [{"image": "bad.png", "error": "it is no image"}, {"image": "a.png", "regions": entries}]
    path = tmp_path / "predicted.json"
    path.write_text(json.dumps({"model": "m", "images": images}))
    assert read_regions(path) == [REGIONS[0], percent]


def test_regions_that_the_page_saves_are_those_of_its_first_picture(tmp_path):
    page = pathlib.Path(trainer.demo.__file__).parent / "page"

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=page)

        def log_message(self, *arguments):
            pass

    sides = [dataclasses.asdict(each) for each in REGIONS]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        opened = browser.new_page()
        opened.goto(f"{address}icon.svg")
        text = opened.evaluate(SAVED, [f"{address}save.js", sides])
        server.shutdown()
    path = tmp_path / "saved.json"
    path.write_text(text)
    assert len(json.loads(text)) == 4
    assert read_regions(path) == REGIONS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not JSON"),
        ("[]", "has no regions: give the JSON file of regions that the demo's page saves"),
        ('{"images": []}', "has no regions"),
        ('{"images": [{"image": "a.png", "regions": []}]}', "has no regions"),
        ('{"regions": []}', "is damaged"),
        ("7", "is damaged"),
        ('[{"picture": "A", "region": "logo", "x": "1"}]', "is damaged"),
        ('[{"picture": "A", "region": "logo", "x": 1, "y": 2, "width": 0, "height": 1}]', "'logo:1,.* is empty"),
        ('[{"picture": "A", "region": "logo", "x": NaN, "y": 2, "width": 1, "height": 1}]', "is not of the form"),
        ('{"images": [{"regions": [{"region": "logo"}]}]}', "region 'logo' is not of the form"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "regions.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_regions(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nosuch.json does not exist: give the JSON file"):
        read_regions(tmp_path / "nosuch.json")
