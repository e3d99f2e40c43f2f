import dataclasses
import hashlib

import pytest

from tests import author_forms
from tests.gcs import upload
from tests.refusals import refused
from tests.small_sources import listed_objects, zipped
from trainer.__main__ import main
from trainer.data import fetch
from trainer.data.prepared_data import Manifest
from trainer.datasets import cache, published_archives, table as datasets
from trainer.datasets.table import Dataset
from trainer.errors import AmbiguousError, MismatchError
from trainer.places import archive_files
from trainer.places.places import DrivePlace, WebPlace

HTML = "text/html; charset=utf-8"


def publish(site, dataset, contents, monkeypatch=None):
    """Serve archives where the authors of a dataset publish them, as each host does: drive, redirects, http.

    With `monkeypatch`, the published digests are theirs.
    """
    row = Dataset.named(dataset)
    if monkeypatch:
        digests = [
            each.digest and f"md5:{hashlib.md5(one).hexdigest()}"
            for each, one in zip(row.archives, contents, strict=True)
        ]
        published = tuple(map(lambda each, one: dataclasses.replace(each, digest=one), row.archives, digests))
        monkeypatch.setitem(datasets.DATASETS, dataset, dataclasses.replace(row, archives=published))
    for archive, content in zip(row.archives, contents, strict=True):
        if isinstance(archive.place, DrivePlace):
            identifier = archive.place.drive_id
            confirmed = "drive.usercontent.google.com/download?confirm=t&id=" + identifier
            page = f'<form id="download-form" action="https://{confirmed.replace("&", "&amp;")}"></form>'
            path = f"drive.google.com/uc?export=download&id={identifier}"
            site.answer(path, 200, page.encode(), Content_Type=HTML)
            name = f'attachment; filename="{archive.name}"'
            site.serve(confirmed, content, etag="", modified="now", headers={"Content-Disposition": name})
        elif "github.com" in archive.address:
            there = "codeload.github.com/x/zip/master"
            site.answer(archive.address.removeprefix("https://"), 302, Location=f"https://{there}")
            site.serve(there, content, etag='W/"abc"', headers={"Content-Length": ""})
            site.paths[there] = lambda handler, content=content: chunked(handler, content)
        elif "dropbox" in archive.address:
            there = "dl.dropboxusercontent.com/cd/0/get/x/file"
            site.answer(archive.address.removeprefix("https://"), 302, Location=f"https://{there}")
            site.serve(there, content)
        else:
            site.serve(archive.address.partition("://")[2], content, modified="now")


def chunked(handler, content):
    """GitHub's answer: no length."""
    handler.send_response(200)
    for name, value in (
        ("Transfer-Encoding", "chunked"),
        ("ETag", 'W/"abc"'),
        ("Content-Type", "application/zip"),
    ):
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("dataset", ["salicon", "mit1003", "cat2000", "osie", "fiwi", "fixationadd1000"])
def test_a_dataset_on_every_host_is_fetched_by_itself(dataset, internet, gcs_url, tmp_path, capsys, monkeypatch):
    """In its authors' form, from its public place, and a second time from the cache."""
    row, n = Dataset.named(dataset), 5
    names = author_forms.write(dataset, tmp_path / "published", n)
    if row.split != "given":  # as if these were all, which the shuffle of the reference splits
        row = dataclasses.replace(row, n_train=len(names) - 1, n_valid=1)
        monkeypatch.setitem(datasets.DATASETS, dataset, row)
    files = [tmp_path / "published" / archive.name for archive in row.archives]
    if dataset == "fixationadd1000":
        publish_in_bucket(files[0], gcs_url, monkeypatch)
    else:
        publish(internet, dataset, [file.read_bytes() for file in files], monkeypatch)
    manifest = fetch_set(dataset, tmp_path, "set")
    assert sum(manifest.counts.values()) >= n
    assert manifest.source == " ".join(archive.address for archive in row.archives)
    assert manifest.fingerprint == fetch.fingerprint_data(dataset, "")
    listed = listed_objects(tmp_path / "set")
    assert [each.name for each in listed] == [archive.name for archive in row.archives]
    assert [each.sha256 for each in listed] == [sha256(file.read_bytes()) for file in files]
    said = capsys.readouterr().out
    assert said.index("Please cite: ") < said.index(f"download {row.archives[0].name} from ")
    assert fetch_set(dataset, tmp_path, "again") == manifest
    said = capsys.readouterr().out
    assert said.count("is in the cache: ") == len(files)
    assert "Please cite" not in said


@pytest.mark.parametrize(
    "dataset", [name for name, row in datasets.DATASETS.items() if row.archives[:1] and row.archives[0].digest]
)
def test_an_archive_without_the_published_digest_is_refused(dataset, internet, tmp_path):
    row, other = Dataset.named(dataset), zipped({"a": b"1"})
    publish(internet, dataset, [other] * len(row.archives))
    with refused(MismatchError, f"md5:{hashlib.md5(other).hexdigest()}", row.archives[0].digest):
        fetch_set(dataset, tmp_path, "set")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != cache.LOCK]


def publish_in_bucket(file, gcs_url, monkeypatch):
    from google.cloud import storage as gcs

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    upload(gcs.Client.create_anonymous_client().create_bucket("hmm-ml-models"), file, "fixation/add1000.tar.gz")
    # The same file has the same fingerprint in every place.
    assert fetch.fingerprint_data("fixationadd1000", "") == fetch.fingerprint_data("osie", str(file))


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def fetch_set(dataset, folder, output):
    arguments = ["--dataset", dataset, "--image-size", "24x32", "--allow-partial-data", "true"]
    main(["fetch", *arguments, "--cache-dir", str(folder / "cache"), "--output-dir", str(folder / output)])
    return Manifest.load(folder / output)


def test_two_datasets_in_one_archive_are_downloaded_once(internet, tmp_path, capsys):
    author_forms.write("osie", tmp_path / "published", 5)
    (archive,) = (tmp_path / "published").iterdir()
    publish(internet, "osie", [archive.read_bytes()])
    for dataset in ("osie-mouse", "osie"):
        assert fetch_set(dataset, tmp_path, dataset).dataset == dataset
    said = capsys.readouterr().out
    assert (said.count("gaze-beyond-pixels.zip from https"), said.count("is in the cache: ")) == (1, 1)


def test_without_an_answer_the_fetch_takes_the_cache(internet, tmp_path, capsys):
    author_forms.write("fiwi", tmp_path / "published", 4)
    publish(internet, "fiwi", [(tmp_path / "published" / "webpage_dataset.zip").read_bytes()])
    first = fetch_set("fiwi", tmp_path, "set")
    internet.paths.clear()
    assert fetch_set("fiwi", tmp_path, "again") == first
    assert "in the cache is used" in capsys.readouterr().out


def test_addresses_can_be_given_instead(internet, tmp_path, capsys):
    """Without a cache the downloads go with the fetch. What may be a key is neither shown nor recorded."""
    author_forms.write("salicon", tmp_path / "made", 4)
    names = ("images", "maps", "fixations")
    for name in names:
        content = (tmp_path / "made" / f"{name}.zip").read_bytes()
        internet.serve(f"data.example.org/{name}.zip?key=secret", content)
    plain = " ".join(f"https://data.example.org/{name}.zip" for name in names)
    source = " ".join(f"{each}?key=secret" for each in plain.split())
    arguments = ["fetch", "--image-size", "24x32", "--allow-partial-data", "true", "--source", source]
    main([*arguments, "--output-dir", str(tmp_path / "sets" / "set")])
    manifest = Manifest.load(tmp_path / "sets" / "set")
    assert manifest.fingerprint == fetch.fingerprint_data("salicon", source)
    assert manifest.source == plain
    assert "secret" not in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "sets").iterdir()] == ["set"]


def test_a_fingerprint_tells_the_states_of_a_file_apart(internet):
    source = "https://data.example.org/a.zip"
    seen = set()
    for content, etag in ((b"PK\3\4", '"1"'), (b"PK\3\4", '"2"'), (b"PK\3\4!", '"2"')):
        internet.serve("data.example.org/a.zip", content, etag=etag)
        seen.add(fetch.fingerprint_data("osie", source))
    assert len(seen) == 3


def test_two_archives_of_one_name_are_refused(internet, tmp_path):
    hosts = ("data.example.org", "github.com")
    for host in hosts:
        internet.serve(f"{host}/a.zip", zipped({"a": b"1"}))
    origin = published_archives.Origin.given([WebPlace(f"https://{host}/a.zip") for host in hosts])
    with refused(AmbiguousError, 2, "a.zip"):
        origin.fetch(tmp_path)


def test_an_archive_that_is_damaged_is_said(internet, tmp_path):
    """And is not kept: its server has the same length and ETag for the good one."""
    good = zipped({f"{role}/{index}.png": b"1" * 100 for role in ("stimuli", "maps") for index in range(9)})
    bad_member = good.replace(b"1" * 100, b"1" * 99 + b"2")
    arguments = ["fetch", "--dataset", "osie", "--source", "https://data.example.org/a.zip", "--output-dir"]
    arguments += [str(tmp_path / "set"), "--cache-dir", str(tmp_path / "cache"), "--allow-partial-data", "true"]
    for content, reason in ((good[:-30], "File is not a zip file"), (bad_member, "Bad CRC-32")):
        internet.serve("data.example.org/a.zip", content)
        with refused(archive_files.DamagedArchiveError, "a.zip", reason):
            main(arguments)
        assert not [path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != cache.LOCK]
