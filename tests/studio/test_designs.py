"""Pictures of pages in the Chromium of this machine, and the places of their elements."""

import dataclasses
import socket

import numpy as np
import pytest
from PIL import Image

from studio import browser
from studio.designs import Element, offered, parse_element, read_all, take_design
from studio.web_pages import open_page
from tests import site
from tests.refusals import refused
from tests.studio.pages import CONFIG, needs_browser, needs_driver, serving
from trainer.api import Region
from trainer.errors import MismatchError, NotFoundError, SettingError, UnreachableError

STYLE = """<style>
  body { margin: 0; height: 900px; background: rgb(10, 20, 30) }
  div { position: absolute; width: 80px; height: 40px; background: rgb(200, 0, 0) }
</style>"""
PAGES = {
    "/": f"""{STYLE}<div id=buy style="left: 20.4px; top: 30px"></div><div id=low style="top: 700px"></div>
      <div id=half style="left: 380px; top: 100px"></div><div id=none style="display: none"></div>
      <div id=flat style="height: 0"></div><div class=two></div><div class=two></div>
      <div class=one hidden></div><div class=one style="left: 100px; top: 200px"></div>
      <div id=clear style="opacity: 0"></div>""",
    "/scripted": f"""{STYLE}<script>
      alert("stop"); confirm("stop");
      addEventListener("load", () => setTimeout(() => document.body.insertAdjacentHTML(
        "beforeend", '<div id=late style="left: 10px; top: 20px"></div>'), 300));
      fetch("/slow");
    </script>""",
    "/slow": "slow",
    "/moving": f"""{STYLE}<style>@keyframes move {{ from {{ translate: 0 }} to {{ translate: 100px }} }}
      #buy {{ animation: move 3600s forwards }}</style><div id=buy style="left: 20px; top: 30px"></div>""",
    "/gone": 410,
    "/endless": "<script>for (;;);</script>",
}
BUY = Element("buy", "#buy")


@pytest.fixture(scope="module")
def address():
    needs_browser()
    with serving(PAGES) as address:
        yield address


def sides(region):
    return region.x, region.y, region.width, region.height


def test_the_picture_has_the_size_of_the_window_and_the_elements_are_where_it_shows_them(address, capsys):
    elements = [BUY, Element("half", "#half"), Element("one", ".one")]
    shot = take_design(f"{address}/", elements, CONFIG)
    assert shot.pixels.shape == (300, 400, 3)
    assert [region.name for region in shot.regions] == ["buy", "half", "one"]
    assert [sides(region) for region in shot.regions] == [(20, 30, 80, 40), (380, 100, 20, 40), (100, 200, 80, 40)]
    for region in shot.regions:
        rows, columns = region.box((300, 400))
        inside = shot.pixels[rows, columns][1:-1, 1:-1]
        assert (inside == (200, 0, 0)).all()
    assert (shot.pixels[150, 300] == (10, 20, 30)).all()
    assert capsys.readouterr().err == f"note: 25% of '#half' is in the picture of {address}/\n"


def test_the_whole_page_has_what_is_below_the_window(address):
    shot = take_design(f"{address}/", [Element("low", "#low")], dataclasses.replace(CONFIG, full_page=True))
    assert shot.pixels.shape == (900, 400, 3)
    assert sides(shot.regions[0]) == (0, 700, 80, 40)
    assert (shot.pixels[720, 40] == (200, 0, 0)).all()


def test_what_a_script_adds_is_found_whatever_else_it_does(address):
    (region,) = take_design(f"{address}/scripted", [Element("late", "#late")], CONFIG).regions
    assert sides(region) == (10, 20, 80, 40)


def test_animations_are_at_their_end_and_two_pictures_are_the_same(address):
    shots = [take_design(f"{address}/moving", [BUY], CONFIG) for _ in range(2)]
    assert sides(shots[0].regions[0]) == (120, 30, 80, 40)
    np.testing.assert_array_equal(shots[0].pixels, shots[1].pixels)


def test_a_file_is_a_page(tmp_path, address):
    odd, plain = tmp_path / "a page#1.html", tmp_path / "page.html"
    for path in (odd, plain):
        path.write_text(f"{STYLE}<style>:target {{ left: 50px }}</style><div id=buy></div>")
    assert sides(take_design(str(odd), [BUY], CONFIG).regions[0]) == (0, 0, 80, 40)
    assert sides(take_design(f"{plain}#buy", [BUY], CONFIG).regions[0]) == (50, 0, 80, 40)


OFFERING = """<!doctype html><style>
  body { margin: 0; height: 900px; font: 10px/1 monospace }
  body > * { position: absolute; margin: 0; padding: 0; border: 0; box-sizing: border-box }
  body > * { width: 60px; height: 20px }
  .filled { background: rgb(200, 0, 0) }
  label + input { top: 20px }
</style>
<h1 style="left: 0; width: 400px">A
  heading</h1>
<button id=buy style="left: 0; top: 30px">Buy</button>
<button id=ember1234 data-testid=later style="left: 100px; top: 30px">Buy</button>
<a href=# class="r17 filled" style="left: 200px; top: 30px">Read it</a>
<a href=# style="left: 300px; top: 30px">A link of text</a>
<div style="top: 60px"><label for=x>Street</label><input id=x name=street style="width: 60px; height: 20px"></div>
<div style="left: 100px; top: 60px"><label>City</label><input value=secret style="width: 60px; height: 20px"></div>
<img src="a%20b.png" style="left: 200px; top: 60px; width: 40px; height: 40px">
<button style="left: 300px; top: 60px"><svg style="width: 60px; height: 20px"></svg></button>
<button id=small style="left: 0; top: 150px; width: 10px">1</button>
<button id=gone style="left: 100px; top: 150px; opacity: 0">2</button>
<button id=under style="left: 200px; top: 150px">3</button>
<p class=filled style="left: 190px; top: 140px; width: 90px; height: 50px"></p>
<button id=below style="left: 0; top: 700px">4</button>"""


def test_own_elements_of_a_page_are_offered_with_selectors_that_find_each(tmp_path):
    needs_browser()
    page = tmp_path / "page.html"
    page.write_text(OFFERING)
    offers = offered(open_page(str(page), (), CONFIG, 10**6, with_offers=True))
    assert [(kind, region.name, region.selector) for kind, region in offers] == [
        ("heading", "A heading", "h1"),
        ("button", "Buy", "#buy"),
        ("button", "Buy 2", 'button[data-testid="later"]'),
        ("button", "Read it", "a.filled"),
        ("field", "Street", "#x"),
        ("field", "City", "body > div:nth-of-type(2) > input"),
        ("image", "a%20b.png", "img"),
        ("button", "button", "body > button:nth-of-type(3)"),
    ]
    regions = [dataclasses.replace(region, selector="") for _, region in offers]
    assert sides(regions[1]) == (0, 30, 60, 20)
    elements = [Element(region.name, region.selector) for _, region in offers]
    assert list(take_design(str(page), elements, CONFIG).regions) == regions
    whole = open_page(str(page), (), dataclasses.replace(CONFIG, full_page=True), 10**6, with_offers=True)
    assert ("button", Region("4", 0, 700, 60, 20, selector="#below")) in offered(whole)


def test_a_region_with_a_selector_is_where_the_page_has_it_and_a_picture_has_its_place(tmp_path, address):
    regions = [Region("buy", 0, 0, 50, 50, selector="#buy"), Region("corner", 300, 200, 90, 90)]
    shot = tmp_path / "shot.png"
    Image.new("RGB", (400, 300)).save(shot)
    page, picture = read_all([f"{address}/", str(shot)], regions, [], CONFIG, 10**6)
    assert {each.name: sides(each) for each in page.regions} == {
        "buy": (20, 30, 80, 40),
        "corner": (300, 200, 90, 90),
    }
    assert {each.name: sides(each) for each in picture.regions} == {
        "buy": (0, 0, 50, 50),
        "corner": (300, 200, 90, 90),
    }
    with refused(MismatchError, "'#none'", 1, 0):
        read_all([f"{address}/"], [Region("none", 0, 0, 50, 50, selector="#none")], [], CONFIG, 10**6)


FRAMES = "<style>body, iframe { margin: 0; border: 0; width: 100px; height: 100px; float: left }</style>"
RED = "<body style='background: rgb(200, 0, 0)'>"


def red_frames(addresses, opened):
    """Which of the frames that `opened` makes a page of are red."""
    frames = "".join(f'<iframe src="{address}"></iframe>' for address in addresses)
    wide = dataclasses.replace(CONFIG, viewport_width=100 * len(addresses))
    shot = take_design(opened(f"<!doctype html>{FRAMES}<main>{frames}</main>"), [], wide)
    return [tuple(shot.pixels[50, 100 * index + 50]) == (200, 0, 0) for index in range(len(addresses))]


@pytest.fixture
def own():
    """A site with a red page, and addresses that lead to it by another name of the machine; it knows who asked."""
    needs_browser()
    with site.running() as own:
        own.other = own.url.replace("127.0.0.1", "localhost")
        own.answer("/red", 200, RED.encode(), Content_Type="text/html")
        own.answer("/away", 302, Location=f"{own.other}/red")
        own.answer(
            "/inner", 200, f'{FRAMES}<iframe src="{own.other}/red"></iframe>'.encode(), Content_Type="text/html"
        )
        yield own


def test_a_page_shows_its_own_host_and_nothing_of_others_in_a_private_network(own, capsys):
    def opened(text):
        own.answer("/", 200, text.encode(), Content_Type="text/html")
        return own.url

    assert red_frames(["/red", f"{own.other}/red", "/away", "/inner"], opened) == [True, False, False, False]
    assert {headers["Host"] for _, _, headers in own.requests} == {own.url.removeprefix("http://")}
    assert f"note: {own.url} did not get {own.other}/red: a page may load" in capsys.readouterr().err


def test_a_file_shows_its_own_folder_and_no_other_file_or_machine_of_a_private_network(own, tmp_path, capsys):
    folder = tmp_path / "site"
    folder.mkdir()
    for path in (folder / "red.html", tmp_path / "secret.html"):
        path.write_text(RED)
    (folder / "link.html").symlink_to(tmp_path / "secret.html")

    def opened(text):
        (folder / "page.html").write_text(text)
        return str(folder / "page.html")

    names = ["red.html", "link.html", "../secret.html", f"{own.url}/red"]
    assert red_frames(names, opened) == [True, False, False, False]
    assert own.requests == []
    assert f"{folder.as_uri()}/link.html, {tmp_path.as_uri()}/secret.html" in capsys.readouterr().err


def test_a_page_that_leads_to_another_machine_of_a_private_network_does_not_load(own, capsys):
    with refused(UnreachableError, f"{own.url}/away"):
        take_design(f"{own.url}/away", [], CONFIG)
    assert f"did not get {own.other}/red" in capsys.readouterr().err
    assert len(own.requests) == 1


@pytest.mark.parametrize(
    ("path", "selector", "kind", "named"),
    [
        ("/", "#none, #flat, #clear", MismatchError, (3, 0)),
        ("/", "#low", MismatchError, ("'#low'", 700)),
        ("/gone", "#buy", UnreachableError, ("gone", 410)),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(address, path, selector, kind, named):
    with refused(kind, *named) as raised:
        take_design(address + path, [Element("it", selector)], CONFIG)
    assert "\n" not in str(raised.value)


def test_a_page_has_limited_time(address):
    with refused(UnreachableError, f"{address}/endless", "5 s"):
        take_design(f"{address}/endless", [], dataclasses.replace(CONFIG, timeout_s=5))


def test_an_address_where_nobody_answers_is_named_without_its_password(address):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
        with refused(UnreachableError, f"http://{place}/", "net::ERR_CONNECTION_REFUSED"):
            take_design(f"http://me:secret@{place}/", [], CONFIG)


def write_program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("sandbox", [True, False])
def test_the_sandbox_is_left_out_only_if_that_is_asked_for(tmp_path, monkeypatch, sandbox):
    needs_driver()
    arguments = tmp_path / "arguments"
    program = write_program(tmp_path / "browser", f'printf "%s\\n" "$@" > {arguments}')
    monkeypatch.setenv(browser.VARIABLE, program)
    with refused(NotFoundError, program):
        take_design("http://127.0.0.1:9/", [], dataclasses.replace(CONFIG, timeout_s=20, sandbox=sandbox))
    assert ("--no-sandbox" not in arguments.read_text().splitlines()) == sandbox


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#buy", Element("buy", "#buy")),
        ("the button = .hero > a", Element("the button", ".hero > a")),
        ('a[href="/buy"]', Element('a[href="/buy"]', 'a[href="/buy"]')),
        ('buy=a[href="/buy"]', Element("buy", 'a[href="/buy"]')),
        ("#buy span", Element("#buy span", "#buy span")),
    ],
)
def test_a_selector_may_have_a_name(text, expected):
    assert parse_element(text) == expected
    with refused(SettingError, "'buy= '"):
        parse_element("buy= ")
