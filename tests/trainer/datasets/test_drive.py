import pytest

from tests import drive as drive_site
from tests.drive import HTML, ID, QUOTA, serve, serve_large
from tests.refusals import refused
from trainer.datasets import cache
from trainer.datasets.servers import Drive, NoAnswerError, Offer
from trainer.places.places import DrivePlace

ZIP = b"PK\x03\x04" + bytes(range(256)) * 4000
ASKED, PAGE, CONFIRMED = drive_site.asked(), drive_site.page(), drive_site.confirmed()


@pytest.fixture
def drive(internet):
    """Google Drive with a large file; the site that plays it."""
    serve_large(internet, ZIP)
    return internet


def remote():
    return Drive(DrivePlace(f"drive:{ID}"))


def test_a_large_file_is_behind_the_page_of_confirmation(drive):
    assert remote().offer() == Offer("images.zip", len(ZIP), "", "", "Tue, 02 Jan 2024 00:00:00 GMT")
    assert [path for _, path, _ in drive.requests][-1] == CONFIRMED.removeprefix("drive.usercontent.google.com")


def test_a_cut_download_asks_for_the_page_again_and_goes_on(drive, tmp_path):
    serve(drive, CONFIRMED, ZIP, cuts=[0, 300_000])
    found = cache.fetch_download(tmp_path, remote())
    assert found.path.read_bytes() == ZIP
    assert found.path.name == "images.zip"
    ranges = [(headers["Range"], headers["If-Range"]) for headers in drive.asked() if "Range" in headers]
    assert ranges == [("bytes=300000-", "Tue, 02 Jan 2024 00:00:00 GMT")]


def test_a_small_file_comes_at_once(internet, tmp_path):
    serve(internet, ASKED, ZIP)
    assert cache.fetch_download(tmp_path, remote()).path.read_bytes() == ZIP


@pytest.mark.parametrize("behind", [False, True])
def test_a_file_over_its_quota_is_said(drive, behind):
    drive.answer(CONFIRMED if behind else PAGE, 200, QUOTA.encode(), Content_Type=HTML)
    with refused(NoAnswerError, f"https://drive.google.com/file/d/{ID}/view"):
        remote().offer()


def test_a_file_that_is_not_shared_is_said(drive):
    drive.answer("accounts.google.com/v3/signin", 200, b"<!doctype html><html>Sign in", Content_Type=HTML)
    drive.answer(ASKED, 302, Location="https://accounts.google.com/v3/signin")
    with refused(NoAnswerError, f"drive:{ID}"):
        remote().offer()
