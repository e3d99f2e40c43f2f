import base64
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import google_crc32c
import pytest

from tests.gcs import upload
from tests.refusals import refused
from trainer.datasets import cache
from trainer.datasets.servers import Bucket, ChangedFileError, NoAnswerError, Web
from trainer.errors import MismatchError
from trainer.io.files import write_json
from trainer.places import buckets
from trainer.places.bucket_place import BucketPlace
from trainer.places.places import WebPlace

ROOT = pathlib.Path(__file__).parents[3]
ZIP = b"PK\x03\x04" + bytes(range(256)) * 4000
SHA256 = hashlib.sha256(ZIP).hexdigest()
OTHER = b"PK\x03\x04" + bytes(1_000_000)
SCRIPT = """
import pathlib, sys
from trainer.datasets import cache
from trainer.datasets.servers import Web
from trainer.places.places import WebPlace
print(cache.fetch_download(pathlib.Path(sys.argv[1]), Web(WebPlace(sys.argv[2]), allow_http=True)).sha256)
"""


def remote(address):
    return Web(WebPlace(address), allow_http=True)


def kept(root):
    """Names of the files in the cache, without the locks."""
    return sorted(path.name for path in root.rglob("*") if path.is_file() and path.name != cache.LOCK)


def lengths(site):
    """Number of GET requests, and from where they asked for the file."""
    return [headers.get("Range", "") for headers in site.asked()]


class Gate:
    """An answer that sends the first half of a file, and the rest when it is opened."""

    def __init__(self, content):
        self.content, self.half_sent, self.opened = content, threading.Event(), threading.Event()

    def __call__(self, handler):
        half = len(self.content) // 2
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(self.content)))
        handler.send_header("ETag", '"1"')
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(self.content[:half])
            self.half_sent.set()
            self.opened.wait(20)
            handler.wfile.write(self.content[half:])


def start(root, address):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(root), address],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("nothing happened for ten seconds")


def test_a_second_fetch_uses_what_the_first_has_kept(site, tmp_path, capsys):
    address = site.serve("/set.zip", ZIP)
    first = cache.fetch_download(tmp_path, remote(address))
    assert first.path.read_bytes() == ZIP
    assert (first.path.name, first.size_bytes, first.sha256) == ("set.zip", len(ZIP), SHA256)
    assert cache.fetch_download(tmp_path, remote(address)) == first == cache.find_download(tmp_path, address)
    assert len(site.asked()) == 3  # each time for the offer, and once for the file
    assert kept(tmp_path) == ["download.json", "set.zip"]
    assert "set.zip is in the cache" in capsys.readouterr().out


def test_a_file_that_its_server_has_changed_is_fetched_again(site, tmp_path):
    address = site.serve("/set.zip", ZIP, headers={"Content-Disposition": 'attachment; filename="old.zip"'})
    cache.fetch_download(tmp_path, remote(address))
    site.serve("/set.zip", OTHER, etag='"2"')
    assert cache.fetch_download(tmp_path, remote(address)).path.read_bytes() == OTHER
    assert kept(tmp_path) == ["download.json", "set.zip"]


def test_a_kept_file_that_somebody_changed_is_fetched_again(site, tmp_path):
    address = site.serve("/set.zip", ZIP)
    cache.fetch_download(tmp_path, remote(address)).path.write_bytes(b"PK\x03\x04")
    assert cache.find_download(tmp_path, address) is None
    assert cache.fetch_download(tmp_path, remote(address)).path.read_bytes() == ZIP


def test_without_an_answer_the_copy_is_used_and_a_line_says_so(site, tmp_path, capsys):
    address = site.serve("/set.zip", ZIP)
    first = cache.fetch_download(tmp_path, remote(address))
    site.answer("/set.zip", 503)
    assert cache.fetch_download(tmp_path, remote(address)) == first
    assert f"The copy of {first.time[:10]} in the cache is used" in capsys.readouterr().out


def test_a_killed_download_goes_on_in_the_next_process(site, tmp_path):
    gate = site.paths["/set.zip"] = Gate(ZIP)
    process = start(tmp_path, site.url + "/set.zip")
    assert gate.half_sent.wait(20)
    wait_for(lambda: any(path.stat().st_size > 200_000 for path in tmp_path.glob(f"*/{cache.PARTIAL}")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    gate.opened.set()
    arrived = next(tmp_path.glob(f"*/{cache.PARTIAL}")).stat().st_size
    assert cache.fetch_download(tmp_path, remote(site.serve("/set.zip", ZIP))).path.read_bytes() == ZIP
    assert lengths(site) == ["", "", "", f"bytes={arrived}-"]
    assert kept(tmp_path) == ["download.json", "set.zip"]


def test_two_processes_download_a_file_once(site, tmp_path):
    gate = site.paths["/set.zip"] = Gate(ZIP)
    processes = [start(tmp_path, site.url + "/set.zip")]
    assert gate.half_sent.wait(20)
    processes.append(start(tmp_path, site.url + "/set.zip"))
    assert "another process downloads" in processes[1].stdout.readline()
    gate.opened.set()
    digests = [process.communicate(timeout=20)[0].split()[-1] for process in processes]
    assert digests == [SHA256] * 2
    assert len(lengths(site)) == 3


def test_a_file_that_changed_since_the_cut_begins_anew(site, tmp_path):
    address = site.serve("/set.zip", ZIP, cuts=[300_000] * 20, has_ranges=False)
    with refused(NoAnswerError, address):
        cache.fetch_download(tmp_path, remote(address))
    assert kept(tmp_path) == ["partial", "partial.json"]
    site.serve("/set.zip", OTHER, etag='"2"')
    assert cache.fetch_download(tmp_path, remote(address)).path.read_bytes() == OTHER
    assert kept(tmp_path) == ["download.json", "set.zip"]


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_another_digest_than_the_published_one_is_refused_and_nothing_is_left(algorithm, site, tmp_path):
    address = site.serve("/set.zip", ZIP)
    right = f"{algorithm}:{hashlib.new(algorithm, ZIP).hexdigest()}"
    with refused(MismatchError, right, f"{algorithm}:000"):
        cache.fetch_download(tmp_path, remote(address), f"{algorithm}:000")
    assert kept(tmp_path) == []
    assert cache.fetch_download(tmp_path, remote(address), right).path.read_bytes() == ZIP


def test_a_kept_file_with_the_published_digest_outlasts_one_without(site, tmp_path):
    """Until its server has another file, which is refused; a kept file with another digest is not used."""
    address, digest = site.serve("/set.zip", ZIP), f"sha256:{SHA256}"
    first = cache.fetch_download(tmp_path, remote(address), digest)
    site.serve("/set.zip", OTHER, etag='"2"')
    with refused(MismatchError, digest):
        cache.fetch_download(tmp_path, remote(address), digest)
    assert cache.find_download(tmp_path, address) == first
    cache.fetch_download(tmp_path, remote(address))
    site.answer("/set.zip", 503)
    with pytest.raises(NoAnswerError):
        cache.fetch_download(tmp_path, remote(address), digest)
    assert cache.find_download(tmp_path, address) is None


def test_what_was_damaged_in_transit_is_refused_and_nothing_is_left(site, tmp_path):
    hashed = base64.b64encode(google_crc32c.Checksum(ZIP).digest()).decode()
    address = site.serve("/set.zip", OTHER, headers={"x-goog-hash": f"crc32c={hashed}"})
    with refused(NoAnswerError, "set.zip"):
        cache.fetch_download(tmp_path, remote(address))
    assert kept(tmp_path) == []


def test_the_folder_of_the_cache_is_chosen_or_that_of_the_environment(monkeypatch):
    monkeypatch.delenv(cache.VARIABLE)
    assert cache.cache_folder() == pathlib.Path.home() / ".cache" / "msinet"
    monkeypatch.setenv(cache.VARIABLE, "/data/cache")
    assert cache.cache_folder() == pathlib.Path("/data/cache")
    assert cache.cache_folder("~/x") == pathlib.Path.home() / "x"
    monkeypatch.setenv(cache.VARIABLE, "")
    assert cache.cache_folder() is None
    assert cache.cache_folder("") is None


# === Cloud Storage ===


def test_an_archive_on_cloud_storage_is_kept_and_resumed(tmp_path, bucket, monkeypatch):
    monkeypatch.setattr(buckets, "CHUNK_BYTES", 100_000)
    (tmp_path / "set.zip").write_bytes(ZIP)
    address = upload(bucket, tmp_path / "set.zip", "deep/set.zip")
    read = []
    download = type(bucket.blob("x")).download_as_bytes

    def counted(blob, *args, **options):
        read.append(options["start"])
        return download(blob, *args, **options)

    monkeypatch.setattr(type(bucket.blob("x")), "download_as_bytes", counted)
    first = cache.fetch_download(tmp_path / "cache", Bucket(BucketPlace(address)))
    assert first.path.read_bytes() == ZIP
    assert first.crc32c == first.offer.crc32c
    assert sorted(read) == list(range(0, len(ZIP), 100_000))
    read.clear()
    assert cache.fetch_download(tmp_path / "cache", Bucket(BucketPlace(address))) == first
    assert read == []
    # As if the process had been killed at this point.
    folder = first.path.parent
    (folder / cache.PARTIAL).write_bytes(ZIP[:650_000])
    write_json(folder / cache.PARTIAL_RECORD, vars(first.offer))
    first.path.unlink()
    assert cache.fetch_download(tmp_path / "cache", Bucket(BucketPlace(address))).path.read_bytes() == ZIP
    assert sorted(read) == list(range(650_000, len(ZIP), 100_000))


def test_a_new_generation_is_fetched_again(tmp_path, bucket):
    for content in (ZIP, OTHER):
        (tmp_path / "set.zip").write_bytes(content)
        address = upload(bucket, tmp_path / "set.zip")
        assert cache.fetch_download(tmp_path / "cache", Bucket(BucketPlace(address))).path.read_bytes() == content
    offer = Bucket(BucketPlace(address)).offer()
    (tmp_path / "set.zip").write_bytes(ZIP)
    upload(bucket, tmp_path / "set.zip")
    with pytest.raises(ChangedFileError), Bucket(BucketPlace(address)).receive(offer, 0) as (_, chunks):
        next(chunks)


def test_a_record_that_is_none_is_no_download(site, tmp_path):
    address = site.serve("/set.zip", ZIP)
    cache.fetch_download(tmp_path, remote(address))
    next(tmp_path.rglob(cache.RECORD)).write_text("null")
    assert cache.find_download(tmp_path, address) is None
    assert cache.fetch_download(tmp_path, remote(address)).path.read_bytes() == ZIP
