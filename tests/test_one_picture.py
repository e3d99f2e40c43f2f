"""One picture, one answer: the same eight files at each door get the map that `trainer.api` gives them."""

import base64
import io
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import httpx
import numpy as np
import polars as pl
import pytest
from PIL import Image

from studio.demo.app import shrink_maps
from studio.site.build import build_site
from tests.browser import Watched
from tests.eight_files import write_files
from tests.guide import ROOT
from tests.serving import server
from tests.studio import demo, site
from tests.studio.test_site_kinds import PREDICT
from tests.trainer import conftest
from trainer.__main__ import main
from trainer.api import Model, Region, load, measure
from trainer.batch import BatchConfig, plan_job, predict_shard
from trainer.prediction import PredictConfig

browser, runtime = conftest.browser, site.runtime

CLIENTS = ROOT / "docs" / "serving"
REGIONS = ("left:0%,0%,50%,100%", "middle:30%,40%,40%,20%", "corner:75%,5%,20%,15%", "foot:10%,80%,80%,15%")
EXACT = 1e-3
LEVEL = 1 / 255
PRINTED = 1e-3
"""A tenth of a percent: the last digit of a share that is printed."""
ALIKE = 0.99
"""Least correlation with a map of which the image was resized in another way."""
BINARY = {"content-type": "application/octet-stream"}


class Given(NamedTuple):
    """What a door needs."""

    paths: dict
    """Name -> path of each file."""
    folder: pathlib.Path
    """For what the door writes."""
    model: Model
    """That answers."""
    expected: dict
    """Name -> the map of the Python API."""
    fixture: Callable
    """Returns a fixture by name, or skips the test."""


class Answer(NamedTuple):
    """What a door says of a file."""

    map: np.ndarray
    """(h, w) of the image's size, or (n, h, w) of its n screens as a page draws them, 0..1."""
    step: float = 0.0
    """Difference of two neighbouring values of the map. 0 for floats."""
    seen: dict = {}  # noqa: RUF012 - never changed
    """`page`, `seen_as` and `screens` as far as the door tells them."""
    shares: tuple = ()
    """Of REGIONS, if the door measures them."""


# === Doors: each returns name of a file -> its answer ===


def command_line(given):
    """`predict` with floats and figures."""
    return _of_predict(given, "npy", lambda path: Answer(np.load(path)))


def command_line_png(given):
    return _of_predict(given, "png", lambda path: _grey(path.read_bytes()))


def _of_predict(given, format, read):
    answers = {}
    for name, told in zip(given.paths, given.fixture("outcomes"), strict=True):
        seen = {"page": told["page"], "seen_as": told["seen_as"]}
        shares = tuple(each["share"] for each in told["regions"])
        answers[name] = read(pathlib.Path(told["results"][format]))._replace(seen=seen, shares=shares)
    return answers


def page(given):
    """The demo's page in a browser: what it draws and measures."""
    address = given.fixture("demo_address")
    with given.fixture("browser").new_context() as context:
        context.add_init_script(site.BASE64)
        shown = Watched(context, f"{address}/").page
        return {name: _of_browser(shown, path, given.expected[name].shape) for name, path in given.paths.items()}


def page_png(given):
    """What the demo's page lets download."""
    address = f"{given.fixture('demo_address')}/map.png"
    contents = {name: path.read_bytes() for name, path in given.paths.items()}
    return {
        name: _grey(httpx.post(address, content=content, headers=BINARY, timeout=60).content)
        for name, content in contents.items()
    }


def site_alone(given):
    """The site, whose network runs in the browser."""
    build_site(given.model, given.fixture("runtime"), given.folder / "site")
    with site.opening(given.fixture("browser"), given.folder / "site", site.ISOLATED) as watched:
        return {
            name: _of_browser(watched.page, path, given.expected[name].shape) for name, path in given.paths.items()
        }


def _of_browser(shown, path, size):
    boxes = [Region.parse(each).box(size) for each in REGIONS]
    regions = [
        {"x": x.start, "y": y.start, "width": x.stop - x.start, "height": y.stop - y.start} for y, x in boxes
    ]
    told = shown.evaluate(PREDICT, [base64.b64encode(path.read_bytes()).decode(), {}, regions])
    maps = site.received(told["values"]).reshape(len(told["windows"]), told["height"], told["width"])
    seen = {"page": told["page"], "seen_as": told["seenAs"], "screens": told["windows"]}
    return Answer(maps, seen=seen, shares=tuple(told["shares"]))


def container(given):
    """The server of a version: one request with all files, as endpoints and KServe get it."""
    instances = [server.instance(path.read_bytes()) for path in given.paths.values()]
    _, answer, _ = server.ask(given.fixture("endpoint"), {"instances": instances})
    return {
        name: _grey(base64.b64decode(each["b64"]))._replace(
            seen={"seen_as": each["seen_as"], "screens": each["windows"]}
        )
        for name, each in zip(given.paths, answer["predictions"], strict=True)
    }


def batch(given):
    """A batch prediction, whose processes are others."""
    output, source = given.folder / "batch", next(iter(given.paths.values())).parent
    plan_job(
        str(source),
        str(output),
        "pretrained",
        PredictConfig(format="png"),
        REGIONS,
        BatchConfig(precision="float32"),
    )
    predict_shard(str(output), 0)
    rows = {row["key"]: row for row in pl.read_parquet(output / "table/00000.parquet").rows(named=True)}
    answers = {}
    for name, path in given.paths.items():
        row = rows[path.name]
        shares = tuple(each["share"] for each in row["regions"])
        drawn = _grey((output / "png" / f"{path.name}.png").read_bytes())
        answers[name] = drawn._replace(seen={"page": row["page"]}, shares=shares)
    return answers


def _run(script, *arguments):
    command = [sys.executable, CLIENTS / script, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _grey(content):
    with Image.open(io.BytesIO(content)) as image:
        assert (image.format, image.mode) == ("PNG", "L")
        return Answer(np.asarray(image) * np.float32(LEVEL), LEVEL)


DOORS = {
    "command line": command_line,
    "command line, PNG": command_line_png,
    "page": page,
    "page, PNG": page_png,
    "site": site_alone,
    "container": container,
    "batch": batch,
}


@pytest.fixture(scope="module")
def model():
    return load("pretrained")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("eight"))


@pytest.fixture(scope="module")
def expected(model, paths):
    """Name -> the map of the Python API."""
    return {name: model.predict(path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def outcomes(paths, tmp_path_factory):
    """What `predict` says of each file in JSON."""
    folder = tmp_path_factory.mktemp("predicted")
    regions = [f"--region={each}" for each in REGIONS]
    results = [f"--output-dir={folder}", "--format=npy,png", f"--json={folder / 'outcome.json'}"]
    main(["predict", *map(str, paths.values()), "--model=pretrained", *results, *regions])
    return json.loads((folder / "outcome.json").read_text())["images"]


@pytest.fixture(scope="module")
def demo_address(model):
    with demo.serving(model) as address:
        yield address


@pytest.fixture(scope="module")
def endpoint():
    with server.serving(server.loaded("pretrained")) as (address, _):
        yield address


@pytest.fixture
def given(paths, tmp_path, model, expected, request):
    return Given(paths, tmp_path, model, expected, request.getfixturevalue)


def differences(answers, expected):
    """Name -> the largest difference of a door's map, beyond the rounding to its levels, and of its shares."""
    found = {}
    for name, answer in answers.items():
        wanted = expected[name] if answer.map.ndim == 2 else shrink_maps(expected[name])
        assert answer.map.shape == wanted.shape, name
        shares = [each.share for each in measure(expected[name], *REGIONS)] if answer.shares else []
        apart = np.abs(np.subtract(answer.shares, shares)).max(initial=0)
        found[name] = float(np.abs(answer.map - wanted).max()) - answer.step / 2, float(apart)
    return found


@pytest.mark.parametrize("door", DOORS)
def test_the_same_eight_files_have_the_same_maps_at_each_door(door, given):
    answers = DOORS[door](given)
    assert list(answers) == list(given.expected)
    for name, (of_map, of_shares) in differences(answers, given.expected).items():
        assert of_map <= EXACT, name
        assert of_shares <= PRINTED, name
        wanted, seen = given.expected[name], answers[name].seen
        assert seen.get("page", wanted.page) == pytest.approx(wanted.page, abs=EXACT), name
        assert seen.get("seen_as") in (None, given.model.seen_as(wanted.page)), name
        screens = [[rows.start, rows.stop] for rows, _ in wanted.screens]
        assert seen.get("screens", screens) == screens, name


@pytest.mark.parametrize(
    ("name", "kind"), [("photograph.jpg", "picture"), ("transparent.png", "picture"), ("page.png", "page")]
)
def test_the_guides_client_of_an_onnx_file_draws_nearly_the_same_map(given, name, kind):
    pytest.importorskip("onnxruntime")
    exported, written = given.folder / "model.onnx", given.folder / "map.png"
    main(["export", "--model=pretrained", "--format=onnx-int8", f"--kind={kind}", f"--output={exported}"])
    _run("client_onnx.py", exported, given.paths[name], written)
    answer, wanted = _grey(written.read_bytes()), given.expected[name]
    assert answer.map.shape == wanted.shape
    # It resizes with Pillow, and cuts off the padding by parts of pixels.
    assert np.corrcoef(answer.map.ravel(), wanted.ravel())[0, 1] > ALIKE
