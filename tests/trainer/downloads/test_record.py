import hashlib
import pathlib
import runpy
import shutil
import subprocess
import sys

import pytest

from tests.small_sources import zipped
from tests.trainer.downloads.test_archives import publish
from trainer import datasets
from trainer.__main__ import main
from trainer.commands.datasets import record

SUM = "a" * 64


def test_a_sha256_is_written_into_its_row_alone(tmp_path):
    """All forms of a row: on one line, on several, in a tuple of one, and with a sum that was another."""
    path = tmp_path / "datasets.py"
    shutil.copyfile(datasets.__file__, path)
    chosen = [datasets.get(name).archives[-1].address for name in ("salicon", "cat2000", "dutomron", "osie")]
    sums = dict.fromkeys(chosen, SUM)
    assert sorted(record(path, sums)) == sorted(chosen)
    assert record(path, sums) == []
    assert record(path, {chosen[0]: "b" * 64}) == chosen[:1]
    ruff = pathlib.Path(sys.executable).with_name("ruff")
    settings = ["--config", str(pathlib.Path(datasets.__file__).parents[1] / "pyproject.toml")]
    for check in (["format"], ["check"]):
        subprocess.run([ruff, *check, *settings, path], check=True, capture_output=True)
    read = runpy.run_path(str(path))
    for name, row in datasets.DATASETS.items():
        for before, after in zip(row.archives, read["DATASETS"][name].archives, strict=True):
            expected = "b" * 64 if before.address == chosen[0] else sums.get(before.address, before.sha256)
            assert (after.address, after.name, after.sha256) == (before.address, before.name, expected)


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
