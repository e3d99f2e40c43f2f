"""What a registry does only in a folder; test_numbered.py has what it does alike in a bucket."""

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from pipeline.__main__ import main
from pipeline.registry.numbered import LocalRegistry
from pipeline.registry.register import connect
from pipeline.registry.versions import NO_VERSION
from trainer import generated
from trainer.artifacts import DEFAULT
from trainer.errors import UserError

PROCESSES = 6


@pytest.fixture
def registry(tmp_path):
    return LocalRegistry(tmp_path / "models")


def _register(root, model, start, results):
    start.wait()
    results.put(LocalRegistry(root).add("msinet", model, {}, True, NO_VERSION))


def test_processes_registering_at_once_get_different_versions_and_one_default(registry, model):
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(PROCESSES), context.Queue()
    arguments = (registry.root, model, start, results)
    processes = [context.Process(target=_register, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(number for number, _ in outcomes) == list(range(1, PROCESSES + 1))
    assert [alias for _, alias in outcomes].count(DEFAULT) == 1
    assert len(registry.versions("msinet")) == PROCESSES
    assert (registry.default("msinet").number, DEFAULT) in outcomes


def test_leftovers_of_a_killed_writer_are_removed(registry, model):
    leftover = registry.root / "msinet" / f".partial-{os.getpid() + 1}-7"
    leftover.mkdir(parents=True)
    (leftover / "saved_model.pb").write_bytes(b"half")
    assert registry.add("msinet", model, {}, True, NO_VERSION) == (1, DEFAULT)
    assert not leftover.exists()


AS_ANOTHER_USER = """
import os, sys
from pipeline.registry.numbered import LocalRegistry
from trainer.errors import reported

registry = LocalRegistry.at(sys.argv[1])
registry.default("msinet")  # loads packages, which the other user may not be able to read
os.setegid(65534)
os.seteuid(65534)
with reported():
    getattr(registry, sys.argv[2])("msinet", *map(eval, sys.argv[3:]))
"""


@pytest.fixture
def shared(model):
    """A registry, with a version, in a folder that everybody may write."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        root = pathlib.Path(folder, "models")
        LocalRegistry(root).add("msinet", model, {}, True, NO_VERSION)
        for path in (root, root / "msinet"):
            path.chmod(0o777)
        yield root


def as_another_user(*arguments):
    command = [sys.executable, "-c", AS_ANOTHER_USER, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return finished.returncode, finished.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_second_user_of_a_folder_can_set_an_alias(shared):
    (shared / "msinet" / ".lock").chmod(0o644)
    assert as_another_user(shared, "set_alias", "'challenger'", "1") == (0, "")
    assert LocalRegistry(shared).aliases("msinet") == {DEFAULT: 1, "challenger": 1}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("use", [["check_writable"], ["set_alias", "'challenger'", "1"]])
def test_second_user_without_rights_is_told_before_and_after_a_training(use, shared):
    (shared / "msinet" / ".lock").chmod(0o600)
    status, said = as_another_user(shared, *use)
    assert status == 1
    assert said == (
        f"error: {shared}/msinet/.lock, which another user made, cannot be opened (Permission denied); have that "
        "user give you the right to read and write the folder (chmod)\n"
    )


@pytest.mark.parametrize("place", ["", "models"])
def test_registry_below_a_file_is_refused(place, model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write .*file.*Not a directory.*name another place"):
        LocalRegistry(tmp_path / "file" / place).add("msinet", model, {}, True, NO_VERSION)
    with pytest.raises(UserError, match=r"cannot write .*file.*Not a directory.*name another place"):
        LocalRegistry(tmp_path / "file" / place).check_writable("msinet")


def test_registry_is_in_the_working_directory_unless_it_is_named(tmp_path):
    for name, folder in (("", pathlib.Path("models")), (str(tmp_path), tmp_path)):
        registry = connect(name)
        assert isinstance(registry, LocalRegistry)
        assert registry.root == folder


def test_list_show_and_set_default_say_which_version_is_of_the_sample_set(registry, model, capsys):
    for run, source in (("first", "sample"), ("second", "gs://data/osie")):
        record = {"metrics": {}, "lineage": {"run": run, "model": {"source": source}}}
        registry.add("msinet", model, record, True, NO_VERSION)
    flags = ["--registry", str(registry.root)]
    assert main(["registry", "list", *flags]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert "  generated shapes  " in first
    assert "generated" not in second
    for version, said in (("1", True), ("2", False)):
        assert main(["registry", "show", version, "--json", *flags]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["lineage"]["run"] == {"1": "first", "2": "second"}[version]
        assert (generated.MARK in err) is said
        assert main(["registry", "set-default", version, *flags]) == 0
        assert (generated.MARK in capsys.readouterr().err) is said


def test_list_and_show_have_what_people_ask_for(registry, model, tmp_path, capsys):
    scores = {"auc_judd": 0.912, "nss": 2.9844, "cc": 0.7152, "kld": 0.6938}
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.html").touch()
    base = {"dataset": "salicon", "source": "gs://b/s"}
    data = {"base": {"dataset": "salicon", "counts": {"train": 10000, "valid": 5000}}}
    facts = {"run": "msinet-1", "folder": str(run), "code_version": "0.1.0+abc", "data": data}
    facts["model"] = {"dataset": "osie", "source": "gs://b/o", "base_model": base}
    record = {"metrics": {"osie": scores, "salicon": {"cc": 0.5}}, "decided_on": "osie", "reason": "It is better."}
    registry.add("msinet", model, {**record, "lineage": facts}, True, NO_VERSION)
    flags = ["--registry", str(registry.root)]
    assert main(["registry", "list", *flags]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["version", "date", "data", "KLD", "CC", "NSS", "alias", "place"]
    place = f"{registry.root}/msinet/1"
    _, date, *rest = line.split()
    assert line.split()[0] == "msinet@1"
    assert rest == ["salicon,", "osie", "0.694", "0.715", "2.984", "default", place]
    assert heading.index("place") == line.index(place)
    assert main(["registry", "show", *flags]) == 0
    known = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert known.pop("Created").strip().startswith(date)
    assert {name: value.strip() for name, value in known.items()} == {
        "Model": "msinet@1 (default)",
        "Data": "base salicon (10,000 training and 5,000 validation)",
        "On osie": "AUC-Judd 0.912, NSS 2.984, CC 0.715, KLD 0.694",
        "On salicon": "CC 0.500",
        "Decision": "It is better.",
        "Code": "0.1.0+abc",
        "Run": "msinet-1",
        "Report": str(run / "report.html"),
        "Place": place,
    }
    assert main(["registry", "list", "--json", *flags]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    about = {"model": "msinet", "version": 1, "aliases": ["default"], "place": place}
    assert entry.items() >= about.items()
    assert entry["metrics"]["osie"] == scores
