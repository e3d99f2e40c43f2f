import hashlib
import shutil

import pytest

from tests.small_sources import zipped
from tests.trainer.downloads.test_archives import publish
from trainer import datasets
from trainer.__main__ import main

SUM = "a" * 64


def test_the_command_lists_shows_and_records(internet, tmp_path, monkeypatch, capsys):
    contents = [zipped({"a": b"1"}), zipped({"b": b"2"})]
    publish(internet, "mit1003", contents)
    path = tmp_path / "trainer" / "datasets.py"
    path.parent.mkdir()
    shutil.copyfile(datasets.__file__, path)
    monkeypatch.setattr(datasets, "__file__", str(path))
    monkeypatch.setenv("MSINET_CACHE", str(tmp_path / "cache"))
    main(["datasets", "mit1003", "--record"])
    sums = [hashlib.sha256(content).hexdigest() for content in contents]
    assert all(f'"{each}")' in path.read_text() for each in sums)
    assert f"  SHA-256: {sums[0]}\n" in capsys.readouterr().out
    main(["datasets"])
    said = capsys.readouterr().out
    assert all(name in said for name in datasets.DATASETS)
    assert "2 of 2 archives cached" in said
    with pytest.raises(SystemExit, match="name the dataset whose SHA-256 to record"):
        main(["datasets", "--record"])
