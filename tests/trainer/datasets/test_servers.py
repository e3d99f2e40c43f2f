"""What servers offer, and transfers that are cut, refused or of another file."""

import email.utils
import logging
import socket
import urllib.parse

import pytest

from tests.refusals import refused
from trainer.datasets import cache, servers
from trainer.datasets.servers import NoAnswerError, Offer, Web, archive_name
from trainer.errors import PlaceError, SettingError
from trainer.io import files
from trainer.places.places import WebPlace

ZIP = b"PK\x03\x04" + bytes(range(256)) * 4000
"""A megabyte that begins as a ZIP archive does."""


def web(address):
    return Web(WebPlace(address), allow_http=True)


def downloaded(address, root):
    return cache.fetch_download(root, web(address)).path.read_bytes()


def test_an_offer_is_what_the_server_says_without_sending_the_file(site):
    modified = email.utils.formatdate(1.7e9, usegmt=True)
    address = site.serve("/set.zip", ZIP, etag='"a"', modified=modified)
    assert web(address).offer() == Offer("set.zip", len(ZIP), "", '"a"', modified)
    hashed = site.serve("/h.zip", ZIP, headers={"x-goog-hash": "md5=AAAA,crc32c=n03x6A=="})
    assert web(hashed).offer().crc32c == "9f4df1e8"
    damaged = site.serve("/d.zip", ZIP, headers={"x-goog-hash": "crc32c=n03x6"})
    assert web(damaged).offer().crc32c == ""


@pytest.mark.parametrize(
    ("disposition", "url", "name"),
    [
        ('attachment; filename="maps.zip"', "https://h.org/download?id=3", "maps.zip"),
        ("attachment; filename*=UTF-8''k%C3%A4se.tar.gz", "https://h.org/x", "käse.tar.gz"),
        ("", "https://h.org/a/b%20c.tgz?x=1", "b c.tgz"),
    ],
)
def test_an_archive_has_the_name_that_its_server_gives_it(disposition, url, name):
    assert archive_name({"Content-Disposition": disposition}, "it", url) == name


def test_a_server_that_never_answers_is_named_first_and_asked_twice(monkeypatch, capsys):
    monkeypatch.setattr(servers, "FIRST_TIMEOUT_S", (0.2, 0.2))
    monkeypatch.setattr(servers, "PAUSE_S", 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/set.zip"
        with refused(NoAnswerError, address):
            web(address).offer()
        silent.settimeout(0.1)
        for _ in range(servers.FIRST_ATTEMPTS):
            silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()
    assert address in capsys.readouterr().out


@pytest.mark.parametrize("name", ["../../.bashrc.zip", ".hidden.zip", "a\x1b[31m.zip", "paper.pdf", ""])
def test_other_names_are_refused(name):
    with refused(SettingError, "it"):
        archive_name({"Content-Disposition": f'attachment; filename="{name}"'}, "it", "https://h.org/")


def test_a_cut_transfer_goes_on_where_it_ended(site, tmp_path):
    address = site.serve("/set.zip", ZIP, cuts=[len(ZIP), 300_000, 300_000])
    assert downloaded(address, tmp_path) == ZIP
    asked = site.asked()[1:]
    assert [headers.get("Range") for headers in asked] == [None, "bytes=300000-", "bytes=600000-"]
    assert [headers.get("If-Range") for headers in asked[1:]] == ['"1"', '"1"']


def test_a_weak_etag_is_no_promise_of_the_same_bytes(site, tmp_path):
    """RFC 9110, 13.1.5: If-Range takes a strong ETag or a date."""
    modified = email.utils.formatdate(1.7e9, usegmt=True)
    address = site.serve("/set.zip", ZIP, etag='W/"1"', modified=modified, cuts=[len(ZIP), 300_000])
    assert downloaded(address, tmp_path) == ZIP
    assert site.asked()[-1]["If-Range"] == modified
    address = site.serve("/other.zip", ZIP, etag='W/"1"', cuts=[len(ZIP), 300_000])
    assert downloaded(address, tmp_path) == ZIP
    assert "Range" not in site.asked()[-1]


@pytest.mark.parametrize("settings", [{"has_ranges": False}, {"etag": ""}])
def test_a_server_that_cannot_go_on_begins_again(site, tmp_path, settings):
    address = site.serve("/set.zip", ZIP, cuts=[len(ZIP), 300_000], **settings)
    assert downloaded(address, tmp_path) == ZIP
    assert len(site.asked()) == 3


def test_a_transfer_that_is_cut_three_times_keeps_what_has_arrived(site, tmp_path):
    address = site.serve("/set.zip", ZIP, cuts=[len(ZIP), *[1000] * servers.ATTEMPTS])
    with refused(NoAnswerError, "set.zip"):
        downloaded(address, tmp_path)
    (partial,) = tmp_path.glob(f"*/{cache.PARTIAL}")
    assert partial.read_bytes() == ZIP[:3000]
    assert downloaded(address, tmp_path) == ZIP


def test_a_file_without_room_is_refused_before_it_comes(site, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LEFT_BYTES", 10**18)
    with refused(PlaceError, "set.zip"):
        downloaded(site.serve("/set.zip", ZIP), tmp_path)
    assert not list(tmp_path.rglob(cache.PARTIAL))


def test_a_busy_server_is_asked_again(site, tmp_path):
    answers = [503, 429, 200, 500, 200]
    site.paths["/set.zip"] = lambda handler: handler.say(answers.pop(0), ZIP, {"Retry-After": "0"})
    assert downloaded(site.url + "/set.zip", tmp_path) == ZIP


@pytest.mark.parametrize(
    ("status", "body", "headers", "named"),
    [
        (404, b"", {}, [404]),
        (500, b"", {}, [500]),
        (200, b"<!DOCTYPE html><title>Log in</title>", {"Content_Type": "text/html"}, []),
        (302, b"", {}, [302]),
        (302, b"", {"Location": "file:" + "///etc/passwd"}, []),
        (302, b"", {"Location": "http://[::1/x.zip"}, []),
    ],
)
def test_what_is_no_archive_names_the_address(site, status, body, headers, named):
    with refused(NoAnswerError, "set.zip", *named):
        web(site.answer("/set.zip", status, body, **headers)).offer()


def test_redirects_are_followed(site, tmp_path):
    site.serve("/there/set.zip", ZIP)
    address = site.answer("/here", 303, Location="there/set.zip")
    assert downloaded(address, tmp_path) == ZIP
    assert web(address).offer().name == "set.zip"


@pytest.mark.parametrize("begin", ["http://127.0.0.1:1/", "/again?", "ftp://127.0.0.1/", "http://127.0.0.1:x/"])
@pytest.mark.parametrize("query", ["sig=SECRET", "sig=a<b%22SECRET'"])
def test_the_query_of_a_redirect_is_in_no_message_and_in_no_log(begin, query, site, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "urllib3")
    address = site.answer("/here", 302, Location=f"{begin}x.zip?{query}")
    site.paths[f"/again?x.zip?{urllib.parse.unquote(query)}"] = lambda handler: handler.close()
    with refused(NoAnswerError, address) as caught:
        web(address).offer()
    assert "connectionpool" in {record.module for record in caplog.records}
    assert "SECRET" not in f"{caught.value} {caplog.text}"


def test_a_server_that_is_not_there_is_said_without_the_query(monkeypatch):
    monkeypatch.setattr(servers, "PAUSE_S", 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"http://127.0.0.1:{port}/set.zip", "https://nowhere.invalid/set.zip"):
        with refused(NoAnswerError, address) as caught:
            web(f"{address}?key=secret").offer()
        assert "secret" not in str(caught.value)


def test_an_untrusted_certificate_is_said(internet, monkeypatch):
    internet.serve("/set.zip", ZIP)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with refused(NoAnswerError, "https://data.example.org/set.zip", "certificate"):
        Web(WebPlace("https://data.example.org/set.zip")).offer()


def test_a_redirect_away_from_https_is_followed_only_where_http_is_allowed(internet):
    internet.serve("data.example.org/set.zip", ZIP)
    internet.answer("github.com/set.zip", 302, Location="http://data.example.org/set.zip")
    with refused(NoAnswerError, "https://github.com/set.zip", "https"):
        Web(WebPlace("https://github.com/set.zip")).offer()
    assert web("https://github.com/set.zip").offer().size_bytes == len(ZIP)
