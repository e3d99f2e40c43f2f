import contextlib
import errno
import socket
import threading
import time

import pytest

from trainer import storage
from trainer.downloads import connections, receiving, web
from trainer.downloads.addresses import RefusedError, Rule
from trainer.downloads.offers import ChangedError, NoAnswerError, Offer, name_of
from trainer.downloads.web import Web
from trainer.errors import UserError

PRIVATE = Rule(private=True)
ZIP = b"PK\x03\x04" + bytes(range(256)) * 4000
"""A megabyte that begins as a ZIP archive does."""


def downloaded(address, path, rule=PRIVATE):
    remote = Web(address, rule)
    remote.transfer(path, remote.offer())
    return path.read_bytes()


# === What a server says ===


def test_an_offer_is_what_the_server_says_without_sending_the_file(site):
    address = site.serve("/set.zip", ZIP, etag='"a"', modified="Mon, 01 Jan 2024 00:00:00 GMT")
    offer = Web(address, PRIVATE).offer()
    assert offer == Offer("set.zip", len(ZIP), "", '"a"', "Mon, 01 Jan 2024 00:00:00 GMT")
    assert [method for method, _, _ in site.requests] == ["HEAD"]
    hashed = site.serve("/h.zip", ZIP, headers={"x-goog-hash": "md5=AAAA,crc32c=n03x6A=="})
    assert Web(hashed, PRIVATE).offer().crc32c == "9f4df1e8"


def test_a_server_that_refuses_head_is_asked_by_get(site):
    def only_get(handler):
        handler.say(*((200, ZIP) if handler.command == "GET" else (405,)), {"ETag": '"b"'})

    site.paths["/set.zip"] = only_get
    assert Web(site.url + "/set.zip", PRIVATE).offer() == Offer("set.zip", len(ZIP), etag='"b"')


def test_neither_credentials_nor_cookies_are_sent(site, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    address = site.serve("/set.zip", ZIP, headers={"Set-Cookie": "session=1; Path=/"})
    downloaded(address, tmp_path / "set.zip")
    assert len(site.requests) == 2
    assert not {"Authorization", "Cookie"} & {name for _, _, headers in site.requests for name in headers}


@pytest.mark.parametrize(
    ("disposition", "url", "name"),
    [
        ('attachment; filename="maps.zip"', "https://h.org/download?id=3", "maps.zip"),
        ("attachment; filename*=UTF-8''k%C3%A4se.tar.gz", "https://h.org/x", "käse.tar.gz"),
        ("", "https://h.org/a/b%20c.tgz?x=1", "b c.tgz"),
    ],
)
def test_an_archive_has_the_name_that_its_server_gives_it(disposition, url, name):
    assert name_of({"Content-Disposition": disposition}, "it", url) == name


@pytest.mark.parametrize(
    ("disposition", "message"),
    [
        ('attachment; filename="../../.bashrc.zip"', "which is no plain name"),
        ('attachment; filename=".hidden.zip"', "which is no plain name"),
        ('attachment; filename="a\x1b[31m/x.zip"', "which is no plain name"),
        (f'attachment; filename="{"x" * 300}.zip"', "which is no plain name"),
        ('attachment; filename="paper.pdf"', r"is named 'paper.pdf', which is not the name of an archive \(.zip"),
        ("", "has no file name, which is not"),
    ],
)
def test_other_names_are_refused(disposition, message):
    with pytest.raises(UserError, match=message) as caught:
        name_of({"Content-Disposition": disposition}, "it", "https://h.org/")
    assert str(caught.value).isprintable()


# === Transfers ===


def test_a_cut_transfer_goes_on_where_it_ended(site, tmp_path):
    address = site.serve("/set.zip", ZIP, cuts=[300_000, 300_000])
    assert downloaded(address, tmp_path / "set.zip") == ZIP
    asked = site.asked()
    assert [headers.get("Range") for headers in asked] == [None, "bytes=300000-", "bytes=600000-"]
    assert [headers.get("If-Range") for headers in asked[1:]] == ['"1"', '"1"']


def test_a_weak_etag_is_no_promise_of_the_same_bytes(site, tmp_path):
    """RFC 9110, 13.1.5: If-Range takes a strong ETag or a date."""
    address = site.serve("/set.zip", ZIP, etag='W/"1"', modified="Mon, 01 Jan 2024 00:00:00 GMT", cuts=[300_000])
    assert downloaded(address, tmp_path / "set.zip") == ZIP
    assert site.asked()[-1]["If-Range"] == "Mon, 01 Jan 2024 00:00:00 GMT"
    address = site.serve("/set.zip", ZIP, etag='W/"1"', cuts=[300_000])
    (tmp_path / "set.zip").unlink()
    assert downloaded(address, tmp_path / "set.zip") == ZIP
    assert "Range" not in site.asked()[-1]


@pytest.mark.parametrize("settings", [{"has_ranges": False}, {"etag": ""}])
def test_a_server_that_cannot_go_on_begins_again(site, tmp_path, settings):
    address = site.serve("/set.zip", ZIP, cuts=[300_000], **settings)
    assert downloaded(address, tmp_path / "set.zip") == ZIP
    assert len(site.asked()) == 2


def test_a_body_without_a_length_is_received(site, tmp_path):
    def chunked(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if handler.command == "GET":
            for start in range(0, len(ZIP), 2**16):
                part = ZIP[start : start + 2**16]
                handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            handler.wfile.write(b"0\r\n\r\n")

    site.paths["/set.zip"] = chunked
    assert downloaded(site.url + "/set.zip", tmp_path / "set.zip") == ZIP


def test_a_body_that_is_too_short_is_an_error_and_keeps_what_has_arrived(site, tmp_path):
    address = site.serve("/set.zip", ZIP, cuts=[1000] * 20, has_ranges=False)
    with pytest.raises(NoAnswerError, match=r"the connection ended after 1000 of 1024004 bytes; what has"):
        downloaded(address, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").stat().st_size == 1000


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_file_that_is_too_large_is_refused_and_removed(site, tmp_path, monkeypatch, is_announced):
    monkeypatch.setattr(receiving, "MOST_BYTES", 500_000)

    def endless(handler):
        handler.close_connection = True
        handler.say(200, ZIP * 3, {"Content-Length": ""})

    site.paths["/set.zip"] = endless
    address = site.serve("/set.zip", ZIP) if is_announced else site.url + "/set.zip"
    with pytest.raises(UserError, match=r"has more than 0\.0005 GB" if is_announced else "does not end: "):
        downloaded(address, tmp_path / "set.zip")
    assert not list(tmp_path.iterdir())


def test_a_file_without_room_is_refused_before_it_comes(site, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LEFT_BYTES", 10**18)
    with pytest.raises(UserError, match=r"takes 0.00102 GB more, but .* has room for 0; free some, or set"):
        downloaded(site.serve("/set.zip", ZIP), tmp_path / "set.zip")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_and_nothing_is_left(site, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(receiving, "check_kind", full)
    with pytest.raises(UserError, match=r"cannot write .*set.zip \(No space left on device\)"):
        downloaded(site.serve("/set.zip", ZIP), tmp_path / "set.zip")
    assert not list(tmp_path.iterdir())


def test_a_file_that_changes_meanwhile_is_noticed(site, tmp_path):
    address = site.serve("/set.zip", ZIP)
    remote = Web(address, PRIVATE)
    offer = remote.offer()
    (tmp_path / "set.zip").write_bytes(ZIP[:1000])
    site.serve("/set.zip", ZIP[:-1], etag='"2"')
    with pytest.raises(ChangedError):
        remote.transfer(tmp_path / "set.zip", offer)


def test_a_transfer_that_hardly_moves_counts_as_cut(site, tmp_path, monkeypatch):
    monkeypatch.setattr(receiving, "SLOW_S", -1)
    monkeypatch.setattr(receiving, "SLOW_BYTES", 10**9)
    with pytest.raises(NoAnswerError, match=r"the connection ended after \d+ of 1024004 bytes"):
        downloaded(site.serve("/set.zip", ZIP, has_ranges=False), tmp_path / "set.zip")


def test_a_busy_server_is_asked_again(site, tmp_path):
    answers = [503, 429, 200]

    def busy(handler):
        status = answers.pop(0) if handler.command == "GET" else 200
        handler.say(status, ZIP, {"Retry-After": "0"})

    site.paths["/set.zip"] = busy
    remote = Web(site.url + "/set.zip", PRIVATE)
    remote.transfer(tmp_path / "set.zip", Offer("set.zip", len(ZIP)))
    assert (tmp_path / "set.zip").read_bytes() == ZIP


# === Servers that send no archive ===


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"wants a login \(HTTP 401\)"),
        (403, r"refuses access: it wants a login, or does not serve this network \(HTTP 403\)"),
        (404, r"127.0.0.1 has nothing there \(HTTP 404\)"),
        (410, "has nothing there any more"),
        (429, r"has had too many requests \(HTTP 429\); try again later"),
        (500, r"has an error \(HTTP 500\); try again later"),
        (302, r"does not send it \(HTTP 302\)"),
    ],
)
def test_a_refusal_is_one_sentence(site, status, message):
    with pytest.raises(NoAnswerError, match=message) as caught:
        Web(site.answer("/set.zip", status), PRIVATE).offer()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/zip"])
def test_a_page_instead_of_an_archive_is_said(site, tmp_path, kind):
    address = site.answer("/set.zip", 200, b"\n<!DOCTYPE html><title>Log in</title>", Content_Type=kind)
    with pytest.raises(NoAnswerError, match=r"answers with a web page instead of .*: it wants a login, the net"):
        downloaded(address, tmp_path / "set.zip")
    assert not list(tmp_path.iterdir())


def test_something_else_than_an_archive_is_said(site, tmp_path):
    with pytest.raises(NoAnswerError, match=r"sends is no .zip archive: it begins with b'%PDF-1.7'"):
        downloaded(site.serve("/set.zip", b"%PDF-1.7 ..."), tmp_path / "set.zip")
    assert not list(tmp_path.iterdir())


def test_a_loop_of_redirects_ends(site):
    with pytest.raises(NoAnswerError, match=r"leads through more than 10 redirects, the last to http://127\."):
        Web(site.answer("/set.zip", 302, Location="/set.zip"), PRIVATE).offer()


def test_redirects_are_followed_by_hand(site, tmp_path):
    site.serve("/there/set.zip", ZIP)
    address = site.answer("/here", 303, Location="there/set.zip")
    assert downloaded(address, tmp_path / "set.zip") == ZIP
    assert Web(address, PRIVATE).offer().name == "set.zip"


def test_a_server_that_is_not_there_is_said(site, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NoAnswerError, match=r"127.0.0.1: .*Connection refused; try again later"):
        Web(f"http://127.0.0.1:{port}/set.zip", PRIVATE).offer()
    with pytest.raises(NoAnswerError, match=r"nowhere.invalid: its name does not resolve"):
        Web("https://nowhere.invalid/set.zip", PRIVATE).offer()


def test_a_silent_server_is_given_up(site, monkeypatch):
    monkeypatch.setattr(web, "READ_S", 0.05)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(NoAnswerError, match=r"Read timed out.*; try again later"),
    ):
        Web(f"http://127.0.0.1:{silent.getsockname()[1]}/set.zip", PRIVATE).offer()


# === Where a server leads to ===


def test_an_untrusted_certificate_is_said(internet, monkeypatch):
    internet.serve("/set.zip", ZIP)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(NoAnswerError, match=r"data.example.org has no certificate that this machine trusts \("):
        Web("https://data.example.org/set.zip", Rule()).offer()


def test_a_redirect_away_from_https_or_to_a_private_address_is_not_followed(internet):
    for location, message in (
        ("http://data.example.org/set.zip", "which is not https"),
        ("https://169.254.169.254/latest/meta-data", "169.254.169.254 is an address of a private network"),
        ("https://metadata.google.internal/x", "metadata.google.internal is an address of a private network"),
        ("file:" + "///etc/passwd", "which is not https"),
        ("https://data.example.org/\x1b[31m", "characters that none may have"),
    ):
        internet.answer("/set.zip", 302, Location=location)
        with pytest.raises(RefusedError, match=message) as caught:
            Web("https://data.example.org/set.zip", Rule()).offer()
        assert str(caught.value).isprintable()
    assert {path for _, path, _ in internet.requests} == {"/set.zip"}


def test_a_name_that_leads_to_this_machine_gets_nothing(site, monkeypatch):
    """The name is public, as its text goes, but its address is not: the connection ends before a byte is sent."""
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: look_up("127.0.0.1", *rest, **more))
    got = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def listen():
            connection, _ = server.accept()
            with connection:
                got.append(connection.recv(100))

        thread = threading.Thread(target=listen)
        thread.start()
        with pytest.raises(RefusedError, match=r"data.example.org leads to 127.0.0.1: 127.0.0.1 is an address"):
            Web(f"https://data.example.org:{port}/set.zip", Rule()).offer()
        thread.join()
    assert got == [b""]


def test_a_proxy_of_the_environment_may_be_private(internet, tmp_path):
    internet.serve("/set.zip", ZIP)
    assert downloaded("https://data.example.org/set.zip", tmp_path / "set.zip", Rule()) == ZIP
    with pytest.raises(NoAnswerError, match=r"the proxy does not reach other\.example\.org \(403 Forbidden\)"):
        Web("https://other.example.org/set.zip", Rule()).offer()


# === Servers that say what is wrong ===


@pytest.mark.parametrize(
    "location", ["http://[::1/x.zip", "//[", "http://a..b/x.zip", f"http://{'a' * 70}.com/x.zip"]
)
def test_a_redirect_to_no_address_is_named(site, location):
    address = site.answer("/r", 302, Location=location)
    with pytest.raises(NoAnswerError, match="no address"):
        Web(address, PRIVATE).offer()


@pytest.mark.parametrize("disposition", ["filename*99999=a; filename*=utf-8''%00.zip", "filename*=idna''%ff.zip"])
def test_a_malformed_name_is_not_taken(site, disposition):
    address = site.serve("/set.zip", ZIP, headers={"Content-Disposition": f"attachment; {disposition}"})
    assert Web(address, PRIVATE).offer().name == "set.zip"


def test_a_length_that_is_no_number_is_unknown(site):
    address = site.serve("/set.zip", ZIP, headers={"Content-Length": "9" * 5000})
    assert Web(address, PRIVATE).offer().size_bytes is None


def test_a_name_is_measured_in_bytes():
    with pytest.raises(UserError, match="no plain name"):
        name_of(
            {"Content-Disposition": f"attachment; filename*=UTF-8''{'%C3%A4' * 130}.zip"}, "it", "https://h.org/"
        )


@pytest.mark.parametrize("said", [{"Content-Length": "0"}, {"Content-Length": "123"}, {"ETag": '"2"'}])
def test_a_server_whose_answer_to_head_is_of_something_else_is_asked_by_get(site, tmp_path, said):
    def answer(handler):
        handler.say(200, ZIP, {"ETag": '"1"', **(said if handler.command == "HEAD" else {})})

    site.paths["/set.zip"] = answer
    remote = Web(f"{site.url}/set.zip", PRIVATE)
    with pytest.raises(ChangedError):
        remote.transfer(tmp_path / "x", remote.offer())
    (tmp_path / "x").unlink(missing_ok=True)
    remote.transfer(tmp_path / "x", remote.offer())
    assert (tmp_path / "x").read_bytes() == ZIP


def test_a_rest_that_is_longer_than_offered_is_of_another_file(site, tmp_path):
    def answer(handler):
        start = len(ZIP) // 2
        handler.say(206, ZIP[start:] + b"more", {"Content-Range": f"bytes {start}-{len(ZIP) - 1}/{len(ZIP)}"})

    site.paths["/set.zip"] = answer
    (tmp_path / "x").write_bytes(ZIP[: len(ZIP) // 2])
    with pytest.raises(ChangedError):
        Web(f"{site.url}/set.zip", PRIVATE).transfer(tmp_path / "x", Offer("set.zip", len(ZIP), etag='"1"'))


def test_a_server_whose_headers_never_end_is_given_up(monkeypatch):
    monkeypatch.setattr(connections, "HEADERS_S", 0.3)
    over = threading.Event()

    def drip(server):
        for _ in range(web.FIRST_ATTEMPTS):
            connection = server.accept()[0]
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            with contextlib.suppress(OSError):
                while not over.wait(0.02):
                    connection.sendall(b"x")
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as slow:
        thread = threading.Thread(target=drip, args=(slow,))
        thread.start()
        begin = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"timed out.*; try again later"):
            Web(f"http://127.0.0.1:{slow.getsockname()[1]}/set.zip", PRIVATE).offer()
        assert time.monotonic() - begin < 20
        over.set()
        thread.join()


def test_a_server_that_sends_hardly_anything_each_time_is_given_up(site, tmp_path):
    address = site.serve("/set.zip", ZIP, cuts=[1000] * 100)
    with pytest.raises(NoAnswerError, match=r"the connection ended after 6000 of 1024004 bytes; what has arrived"):
        downloaded(address, tmp_path / "set.zip")
    assert (tmp_path / "set.zip").read_bytes() == ZIP[:6000]
