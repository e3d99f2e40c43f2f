import hashlib

from tests.small_sources import zipped
from tests.trainer.datasets.test_published_archives import publish
from trainer.__main__ import main
from trainer.datasets import table as datasets
from trainer.datasets.published_archives import Origin
from trainer.datasets.table import Dataset


def test_the_command_lists_and_shows(internet, tmp_path, monkeypatch, capsys):
    contents = [zipped({"a": b"1"}), zipped({"b": b"2"})]
    publish(internet, "mit1003", contents, monkeypatch)
    monkeypatch.setenv("MSINET_CACHE", str(tmp_path / "cache"))
    Origin.published(Dataset.named("mit1003")).fetch(tmp_path / "cache")
    capsys.readouterr()
    main(["datasets", "mit1003"])
    said = capsys.readouterr().out
    assert f"  published digest: md5:{hashlib.md5(contents[0]).hexdigest()}\n" in said
    assert all(f"  SHA-256: {hashlib.sha256(content).hexdigest()}\n" in said for content in contents)
    main(["datasets"])
    said = capsys.readouterr().out
    assert all(name in said for name in datasets.DATASETS)
    assert "2 of 2 archives cached" in said
