"""Pictures of pages in the Chromium of this machine, and the places of their elements."""

import contextlib
import dataclasses
import pathlib
import socket
import stat
import tempfile
import time

import numpy as np
import pytest

from tests import site
from tests.trainer.attention.pages import CONFIG, HANGS, needs_browser, serving
from tests.trainer.demo import encoded, picture
from trainer import scratch
from trainer.attention import browser, page
from trainer.attention.page import Element, parse_element, take
from trainer.errors import UserError

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
      Document.prototype.querySelectorAll = () => [];
      alert("stop"); confirm("stop");
      addEventListener("load", () => setTimeout(() => document.body.insertAdjacentHTML(
        "beforeend", '<div id=late style="left: 10px; top: 20px"></div>'), 300));
      fetch("/slow");
    </script>""",
    "/slow": "slow",
    "/moving": f"""{STYLE}<style>@keyframes move {{ from {{ translate: 0 }} to {{ translate: 100px }} }}
      #buy {{ animation: move 3600s forwards }}</style><div id=buy style="left: 20px; top: 30px"></div>""",
    "/there": "<script>location.replace('/')</script>",
    "/gone": 410,
    "/picture": encoded(picture(40, 50)),
    "/hangs": HANGS,
    "/endless": "<script>for (;;);</script>",
    "/high": "<body style='margin: 0; height: 20000px'>",
}
BUY = Element("buy", "#buy")


@pytest.fixture(scope="module")
def address():
    needs_browser()
    with serving(PAGES) as address:
        yield address


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """No profile stays in the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(scratch.LOCAL)] == []


def sides(region):
    return region.x, region.y, region.width, region.height


def test_the_picture_has_the_size_of_the_window_and_the_elements_are_where_it_shows_them(address, capsys):
    elements = [BUY, Element("half", "#half"), Element("one", ".one")]
    shot = take(f"{address}/", elements, CONFIG)
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
    shot = take(f"{address}/", [Element("low", "#low")], dataclasses.replace(CONFIG, full_page=True))
    assert shot.pixels.shape == (900, 400, 3)
    assert sides(shot.regions[0]) == (0, 700, 80, 40)
    assert (shot.pixels[720, 40] == (200, 0, 0)).all()


def test_what_a_script_adds_is_found_whatever_else_it_does(address):
    (region,) = take(f"{address}/scripted", [Element("late", "#late")], CONFIG).regions
    assert sides(region) == (10, 20, 80, 40)


def test_animations_are_at_their_end_and_two_pictures_are_the_same(address):
    shots = [take(f"{address}/moving", [BUY], CONFIG) for _ in range(2)]
    assert sides(shots[0].regions[0]) == (120, 30, 80, 40)
    np.testing.assert_array_equal(shots[0].pixels, shots[1].pixels)


def test_a_page_that_leads_to_another_is_that_one(address):
    assert sides(take(f"{address}/there", [BUY], CONFIG).regions[0]) == (20, 30, 80, 40)


def test_a_file_is_a_page(tmp_path, address):
    path = tmp_path / "a page#1.html"
    path.write_text(PAGES["/"])
    assert sides(take(str(path), [BUY], CONFIG).regions[0]) == (20, 30, 80, 40)


def test_a_file_may_have_a_fragment(tmp_path, address):
    path = tmp_path / "page.html"
    path.write_text(f"{STYLE}<style>:target {{ left: 50px }}</style><div id=buy></div>")
    assert sides(take(f"{path}#buy", [BUY], CONFIG).regions[0]) == (50, 0, 80, 40)


FRAMES = "<style>body, iframe { margin: 0; border: 0; width: 100px; height: 100px; float: left }</style>"
RED = "<body style='background: rgb(200, 0, 0)'>"


def red_frames(addresses, opened):
    """Which of the frames that `opened` makes a page of are red."""
    frames = "".join(f'<iframe src="{address}"></iframe>' for address in addresses)
    wide = dataclasses.replace(CONFIG, viewport_width=100 * len(addresses))
    shot = take(opened(f"<!doctype html>{FRAMES}<main>{frames}</main>"), [], wide)
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
    with pytest.raises(UserError, match=rf"^{own.url}/away does not load"):
        take(f"{own.url}/away", [], CONFIG)
    assert f"did not get {own.other}/red" in capsys.readouterr().err
    assert len(own.requests) == 1


@pytest.mark.parametrize(
    ("path", "selector", "message"),
    [
        ("/", "#nosuch", "selector '#nosuch' matches nothing on .*/; check it in"),
        ("/", "##", "selector '##' is not one of CSS"),
        ("/", "#none", "selector '#none' has no size on .*: it is hidden"),
        ("/", "#flat", "selector '#flat' has no size on"),
        ("/", "#clear", "selector '#clear' has no size on"),
        ("/", ".two", "selector '.two' matches 2 elements on"),
        (
            "/",
            "#low",
            "'#low' is outside of the picture of .*400 pixels wide and 300 high: it begins 0 .* 700 from",
        ),
        ("/nosuch", "#buy", "/nosuch was answered with HTTP status 404; check the address"),
        ("/gone", "#buy", "/gone was answered with HTTP status 410"),
        ("/picture", "#buy", "/picture is image/png, not a web page; save it, and give the file"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(address, path, selector, message):
    with pytest.raises(UserError, match=message) as raised:
        take(address + path, [Element("it", selector)], CONFIG)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("path", ["/hangs", "/endless"])
def test_a_page_has_limited_time(address, path):
    config = dataclasses.replace(CONFIG, timeout_s=15)
    with pytest.raises(
        UserError, match=f"{path} was not there after 15 s; check that it loads, or raise --timeout-s"
    ):
        take(address + path, [], config)


def test_a_whole_page_has_a_largest_height(address):
    config = dataclasses.replace(CONFIG, full_page=True)
    with pytest.raises(UserError, match="/high is 20,000 pixels high, and at most 16,384 are possible"):
        take(f"{address}/high", [], config)


def test_an_address_where_nobody_answers_is_named_without_its_password(address):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UserError, match=rf"^http://{place}/ does not load \(net::ERR_CONNECTION_REFUSED\)"):
            take(f"http://me:secret@{place}/", [], CONFIG)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nosuch.html", "nosuch.html is no file; give an HTML file, an address or a picture"),
        ("http:///path", "names no host"),
        ("http://[/", "is no address"),
        ("http://127.0.0.1\\@example.org/", "has characters that none may have"),
    ],
)
def test_names_that_are_no_page_are_refused_without_a_browser(monkeypatch, name, message):
    monkeypatch.setenv(browser.VARIABLE, "/nosuch")
    with pytest.raises(UserError, match=message):
        take(name, [], CONFIG)


def test_without_a_browser_the_remedy_is_said(monkeypatch):
    monkeypatch.setattr(browser, "NAMES", ("no-such-browser",))
    monkeypatch.setattr(browser, "APPLICATIONS", ())
    monkeypatch.delenv(browser.VARIABLE, raising=False)
    with pytest.raises(UserError, match=r"no Chromium was found .*install one .*or set CHROME_PATH to its path"):
        take("http://127.0.0.1:9/", [], CONFIG)
    monkeypatch.setenv(browser.VARIABLE, "/nosuch")
    with pytest.raises(UserError, match="CHROME_PATH is '/nosuch', which is no program"):
        take("http://127.0.0.1:9/", [], CONFIG)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo No usable sandbox! >&2; exit 1", "does not start with its sandbox.* with --no-sandbox"),
        (
            "echo 'cannot open display' >&2; exit 7",
            r"ended with status 7 \(cannot open display\); try it by itself",
        ),
        ("exit 0", r"ended with status 0 \(it said nothing\)"),
        ("exec sleep 100", "was not there after 2 s"),
    ],
)
def test_a_browser_that_does_not_start_is_explained(tmp_path, monkeypatch, script, message):
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(browser.VARIABLE, str(program))
    with pytest.raises(UserError, match=message):
        take("http://127.0.0.1:9/", [], dataclasses.replace(CONFIG, timeout_s=2))


@pytest.mark.parametrize("sandbox", [True, False])
def test_the_sandbox_is_left_out_only_if_that_is_asked_for(tmp_path, monkeypatch, sandbox):
    program, arguments = tmp_path / "browser", tmp_path / "arguments"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {arguments}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(browser.VARIABLE, str(program))
    with pytest.raises(UserError, match="ended with status 0"):
        take("http://127.0.0.1:9/", [], dataclasses.replace(CONFIG, timeout_s=20, sandbox=sandbox))
    given = arguments.read_text().splitlines()
    assert "--remote-debugging-pipe" in given
    assert ("--no-sandbox" not in given) == sandbox


def living(group):
    """The processes of a group that have not ended; what nobody waited for is a zombie."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            found += [path.parent.name] * (int(its_group) == group and state not in "ZX")
    return found


@pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="processes are listed as Linux does it")
def test_the_browser_ends_with_its_context(address):
    with browser.running(60, CONFIG.sandbox) as running:
        group = running._process.pid
        assert living(group)
    end = time.monotonic() + 20
    while living(group) and time.monotonic() < end:
        time.sleep(0.1)
    assert living(group) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#buy", Element("buy", "#buy")),
        ("buy=#cta", Element("buy", "#cta")),
        ("the button = .hero > a", Element("the button", ".hero > a")),
        (".hero h1", Element(".hero h1", ".hero h1")),
        ('a[href="/buy"]', Element('a[href="/buy"]', 'a[href="/buy"]')),
        ('buy=a[href="/buy"]', Element("buy", 'a[href="/buy"]')),
        ("#buy span", Element("#buy span", "#buy span")),
    ],
)
def test_a_selector_may_have_a_name(text, expected):
    assert parse_element(text) == expected


@pytest.mark.parametrize("text", ["", " ", "buy=", "buy= "])
def test_an_empty_selector_is_refused(text):
    with pytest.raises(UserError, match="is empty; give one of CSS, such as '#buy', or with a name: buy='#buy'"):
        parse_element(text)


def test_the_script_is_part_of_the_package():
    assert pathlib.Path(page.__file__).with_name("page.js").is_file()
