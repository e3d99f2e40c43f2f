"""Reports on paper, by Chromium: the colours of charts, no controls, and tables as wide as the paper."""

import re
import zlib
from collections import Counter

import pytest

from trainer.reports import pages, report

COLORED = (pages.BLUE, pages.ORANGE)
PAPER_PX = 688
"""Width of A4 without margins of 14 mm."""


@pytest.fixture(scope="module")
def page(browser, evaluated, tmp_path_factory):
    path = tmp_path_factory.mktemp("printed") / "report.html"
    report.write_report(evaluated, path)
    page = browser.new_page(viewport={"width": PAPER_PX, "height": 1000}, color_scheme="dark")
    page.goto(path.as_uri())
    yield page
    page.close()


def fills(pdf: bytes) -> Counter[str]:
    """How often each colour is set for filling in the drawings of a PDF: hexadecimal colour -> count."""
    found: Counter[str] = Counter()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            drawing = zlib.decompress(stream)
        except zlib.error:  # a font or a picture in another coding
            continue
        for numbers in re.findall(rb"(?:^|\s)([\d.]+ [\d.]+ [\d.]+) rg\b", drawing):
            found["#" + "".join(f"{round(255 * float(each)):02x}" for each in numbers.split())] += 1
    return found


def test_charts_keep_their_colours_without_a_setting_of_the_reader(page):
    plain, with_backgrounds = (fills(page.pdf(format="A4", print_background=which)) for which in (False, True))
    assert plain == with_backgrounds
    drawn = page.locator("[style*='background: #']").evaluate_all(
        "all => all.filter(each => each.offsetParent).map(each => each.getAttribute('style').match(/#\\w{6}/)[0])"
    )
    for color in COLORED:
        assert drawn.count(color) > 10
        assert plain[color] >= drawn.count(color)


def test_paper_has_no_control_and_no_table_is_cut(page):
    page.emulate_media(media="print")
    for name in ("button", "select", "input", ".contents", ".controls"):
        assert not any(each.is_visible() for each in page.locator(name).all()), name
    widths = page.locator(".scroll").evaluate_all("all => all.map(each => [each.scrollWidth, each.clientWidth])")
    assert len(widths) > 3
    assert all(inside <= outside for inside, outside in widths)
    page.emulate_media(media="screen")
