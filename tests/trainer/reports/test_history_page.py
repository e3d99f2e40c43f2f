"""The page of a registry over time: what its pictures are made of, and that it fits a phone."""

import datetime
import re

import pytest

from tests import browser
from trainer.evaluation.version_record import VersionRecord
from trainer.reports import history_page
from trainer.reports.history_page import HistoryEntry, HistoryMove

START = datetime.datetime(2026, 3, 1, 3, tzinfo=datetime.UTC)
WEEK = datetime.timedelta(weeks=1)


def entry(number, end="challenger", opponent=0, mean=0.05, metric="kld", **record):
    gain = {"metric": metric, "mean": mean, "low": mean - 0.03, "high": mean + 0.03, "level": 0.97, "n_images": 90}
    content = {"compared_with": opponent, "gain": gain, "decision": number, "end": end, **record}
    return HistoryEntry(number, START + number * WEEK, end, VersionRecord.of(content))


def on_test_set(kld, fingerprint="f1"):
    return {"metrics": {"osie-test": {"kld": kld}}, "lineage": {"data": {"test": {"fingerprint": fingerprint}}}}


def write(folder, versions, moves=()):
    path = folder / "history.html"
    history_page.write_history(path, "msinet", "models", versions, moves)
    return path


@pytest.fixture
def year():
    """Twelve versions of all ends, with a roll-back, and their moves."""
    ends = ("promoted", "challenger", "promoted", "not decided", "challenger", "held", "promoted", "disagree")
    versions, default, moves = [], 0, []
    for number in range(1, 13):
        end = ends[(number - 1) % len(ends)]
        known = {"n_images": 40, "mean": -0.01, "low": -0.05, "high": 0.03, "level": 0.95, "verdict": "not worse"}
        data = {"finetune": {"counts": {"train": 90 + 25 * number, "valid": 25}}, "test": {"fingerprint": "f1"}}
        metrics = {"osie-test": {"kld": 0.7 - 0.01 * number}}
        versions.append(entry(number, end, default, known=known, metrics=metrics, lineage={"data": data}))
        if end == "promoted":
            default = number
            moves.append(HistoryMove(versions[-1].created, number, False))
    moves.append(HistoryMove(versions[-1].created + WEEK / 2, 3, True))
    return versions, moves


def test_gains_add_up_over_the_defaults_between():
    versions = [
        entry(1, mean=0.05),
        entry(2, opponent=1, mean=-0.02),
        entry(3, opponent=1, mean=0.04),
        entry(4, opponent=3, mean=0.1, metric="cc"),  # not to be added to others
        entry(5, opponent=4, mean=0.1),  # over one that has no place
        entry(6, opponent=0, mean=0.01),
        HistoryEntry(7, START, "", VersionRecord()),  # of another program
    ]
    heights, ends = history_page._cumulative(versions, "kld")
    assert heights == pytest.approx({0: 0, 1: 0.05, 2: 0.03, 3: 0.09, 6: 0.01})
    assert ends[3] == pytest.approx((0.06, 0.12))
    assert history_page._cumulative([HistoryEntry(7, START, "", VersionRecord())], "kld") == ({}, {})


def test_scores_on_a_test_set_are_shown_as_long_as_its_images_are_the_same():
    versions = [
        entry(1, **on_test_set(0.8, "f0")),
        entry(2, **on_test_set(0.7)),
        entry(3),
        entry(4, **on_test_set(0.6)),
    ]
    assert history_page._test_set(versions) == "osie-test"
    assert history_page._tested(versions, "osie-test", "kld") == {2: 0.7, 4: 0.6}
    assert history_page._test_set([entry(1, metrics={"osie": {"kld": 0.5}})]) == ""


def test_page_has_a_picture_of_each_known_thing_and_why_each_version_ended_so(tmp_path, year):
    page = write(tmp_path, *year).read_text()
    assert page.count("<svg") == 4
    assert not re.search(r"(src|href)=\"(?!#)", page)
    rows = re.findall(r"<tr><th scope=\"row\">(\d+)<small>", page)
    assert rows == [str(number) for number in range(12, 0, -1)]
    assert "Decision 12 of its year." in page
    assert page.count("the default</small>") == 1
    assert ">3<small>2026-03-22</small></th><td>promoted<small>the default</small>" in page
    for shown in ("held", "disagree", "not decided", "moved by a person"):
        assert f"</b>{shown}</span>" in page


def test_what_is_not_known_has_no_picture(tmp_path):
    page = write(tmp_path, [HistoryEntry(1, START, "", VersionRecord(metrics={"osie": {"kld": 0.5}}))]).read_text()
    assert "<svg" not in page
    assert "moved by a person" not in page
    page = write(tmp_path, [entry(1, **on_test_set(0.7))], [HistoryMove(START, 1, False)]).read_text()
    assert page.count("<svg") == 2


@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_a_screen(tmp_path, year, width):
    address = write(tmp_path, *year).as_uri()
    with browser.chromium() as chromium:
        context = chromium.new_context(viewport={"width": width, "height": 900})
        watched = browser.Watched(context, address)
        assert watched.page.evaluate("document.documentElement.scrollWidth") == width
        assert watched.troubles == []
