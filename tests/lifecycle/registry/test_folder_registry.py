"""Registries in TensorFlow Serving's layout; test_contract.py has what the Vertex AI registry does too."""

import collections
import itertools
import json
import multiprocessing
import os
import pathlib
import shutil
import sys

import pytest

from lifecycle.registry.folder_registry import LOCK, BucketRegistry, LocalRegistry
from lifecycle.registry.register import check_shared, lineage_of, open_registry
from lifecycle.registry.version_zero import exported_pretrained
from tests.lifecycle.registry.places import BucketFiles, FolderFiles
from tests.refusals import refused
from tests.registering import record, register_at_once
from trainer.errors import ContentError, NotFoundError, SettingError, UserError
from trainer.io.files import PARTIAL
from trainer.models import registry_layout
from trainer.models.find import find_model
from trainer.models.model_names import CHALLENGER, DEFAULT
from trainer.models.registry_layout import PRETRAINED_VERSION
from trainer.models.weight_sources import WeightSource
from trainer.network import model_folder
from trainer.places.bucket_place import BucketPlace

RECORD = "assets.extra/version.json"
WHOLE = ["saved_model.pb", "variables/variables.index"]
"""The files of a SavedModel here."""
STEPS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.copyfile", "http.client.send"}
"""Events of Python at which a process is killed."""
PROCESSES = 6


@pytest.fixture
def folder(tmp_path):
    return LocalRegistry(tmp_path / "models")


@pytest.fixture
def remote(bucket):
    return BucketRegistry.at(f"gs://{bucket.name}/models/")


@pytest.fixture(params=["folder", "remote"])
def registry(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def stored(request):
    """The files of the registry of the test."""
    name = "registry" if "registry" in request.fixturenames else "remote"
    address = request.getfixturevalue(name).address
    return (BucketFiles if address.startswith("gs://") else FolderFiles)(address)


def made(run="msinet-1", folder="/runs/a", kld=0.5):
    return {"metrics": {"salicon": {"kld": kld}}, "lineage": {"run": run, "folder": folder}}


def add(registry, model, number=1, promote=True):
    """Register what the run of this number has made and compared with the version before."""
    return registry.add("msinet", model, made(f"msinet-{number}", f"/runs/{number}"), promote, number - 1)


def test_a_model_is_found_by_its_alias_in_the_registry(registry, model):
    add(registry, model)
    add(registry, model, 2, promote=False)
    for alias, number in (("@default", 1), ("", 1), ("@challenger", 2), ("@2", 2)):
        found = find_model(f"{registry.address}/msinet{alias}")
        assert (found / model_folder.MODEL_WEIGHTS).read_bytes() == b"weights"
        assert found.parent.name == str(number)
        assert (
            WeightSource(f"{registry.address}/msinet{alias}").fingerprint()
            == WeightSource(str(model)).fingerprint()
        )


def test_moves_without_their_file_are_told_by_the_versions(registry, stored, model):
    for number in (1, 2):
        registry.add("msinet", model, {**made(f"msinet-{number}", str(number)), "promote": True}, True, number - 1)
    registry.set_alias("msinet", DEFAULT, 1)
    stored.remove("msinet/defaults.json")  # as its remedy says
    assert [move.version for move in registry.default_moves("msinet")] == [1, 2]
    registry.set_alias("msinet", DEFAULT, 2)
    registry.set_alias("msinet", DEFAULT, 1)
    assert [move.version for move in registry.default_moves("msinet")] == [1, 2, 1]


def test_moves_of_an_earlier_version_do_not_say_who_moved(registry, stored, model):
    for number in (1, 2):
        add(registry, model, number)
    since = "2026-03-02T10:00:00+00:00"
    stored.write("msinet/defaults.json", json.dumps([{"version": v, "since": since} for v in (1, 2, 1)]).encode())
    moves = [(move.version, move.by_person) for move in registry.default_moves("msinet")]
    assert moves == [(1, False), (2, False), (1, True)]


# === Damaged ===


def test_damaged_aliases_and_records_are_named_with_a_remedy(registry, stored, model):
    add(registry, model)
    stored.write(f"msinet/1/{RECORD}", b"{")
    with refused(ContentError, "1/assets.extra/version.json"):
        registry.versions("msinet")
    assert add(registry, model, 2) == (2, DEFAULT)  # damage is no reason to lose another model
    stored.write("msinet/aliases.json", b"no")
    with refused(ContentError, "aliases.json"):
        registry.default("msinet")


def test_incomplete_version_is_named_with_its_missing_files(registry, stored, model):
    add(registry, model)
    stored.remove(f"msinet/1/assets.extra/{model_folder.MODEL_CONFIG}")
    for use in (registry.versions, registry.check_writable):
        with refused(ContentError, "version 1", "config.json"):
            use("msinet")
    stored.remove("msinet/1/assets.extra")
    with refused(ContentError, "version 1", "version.json"):
        registry.default("msinet")
    assert add(registry, model, 2) == (2, DEFAULT)


def test_removed_default_is_named_with_a_remedy(registry, stored, model):
    for number in (1, 2):
        add(registry, model, number)
    stored.remove("msinet/2")
    with refused(NotFoundError, "msinet", 2, "0, 1", "set-default"):
        registry.default("msinet")


# === The same run again ===


@pytest.mark.parametrize("again", [made("msinet-2"), made(folder="/elsewhere")])
def test_run_that_is_resumed_finds_its_version(registry, model, again):
    assert registry.add("msinet", model, made(), True, PRETRAINED_VERSION) == (1, DEFAULT)
    assert registry.add("msinet", model, again, False, 1) == (1, DEFAULT)
    assert [version.record["lineage"] for version in registry.versions("msinet")] == [made()["lineage"]]


def test_run_killed_before_its_alias_was_written_gets_it(registry, stored, model):
    registry.add("msinet", model, made(), True, PRETRAINED_VERSION)
    stored.remove(f"msinet/{registry_layout.ALIASES}")
    assert registry.add("msinet", model, made("msinet-2"), True, PRETRAINED_VERSION) == (1, DEFAULT)
    assert registry.aliases("msinet") == {DEFAULT: 1}


def test_model_with_another_run_or_scores_is_another_version(registry, model):
    registry.add("msinet", model, made(), True, PRETRAINED_VERSION)
    assert registry.add("msinet", model, made("msinet-2", "/runs/b"), False, 1) == (2, CHALLENGER)
    assert registry.add("msinet", model, made(kld=0.4), False, 1) == (3, CHALLENGER)


def test_lineage_has_the_folder_that_resumed_runs_share(model):
    (model.parent / "msinet-2026").mkdir()
    place = shutil.move(model, model.parent / "msinet-2026" / "model")
    assert lineage_of("msinet-2026", {}, str(place))["folder"] == str(model.parent)
    assert lineage_of("msinet-2027", {}, str(place))["folder"] == str(place)
    with pytest.raises(UserError, match="prepared dataset"):
        lineage_of("run", {"base": str(model.parent)}, str(place))


# === What TensorFlow Serving finds ===


def served(stored):
    """Number of a version in `serving` -> its files."""
    found = {}
    for path in stored.paths():
        if path.startswith("msinet/serving/"):
            number, _, file = path.removeprefix("msinet/serving/").partition("/")
            found.setdefault(number, []).append(file)
    return found


def test_only_the_default_is_served_also_when_it_goes_back(registry, stored, model):
    graph = model / model_folder.SAVED_MODEL / "saved_model.pb"
    for number in (1, 2):
        graph.write_text(f"graph {number}")
        add(registry, model, number)
        assert served(stored) == {str(number): WHOLE}
    add(registry, model, 3, promote=False)
    assert served(stored) == {"2": WHOLE}
    registry.set_alias("msinet", DEFAULT, 1)
    assert served(stored) == {"1": WHOLE}
    assert stored.read("msinet/serving/1/saved_model.pb") == b"graph 1"
    registry.set_alias("msinet", CHALLENGER, 2)
    assert served(stored) == {"1": WHOLE}
    assert [version.number for version in registry.versions("msinet")] == [1, 2, 3]


def test_registry_of_an_earlier_version_serves_its_default_once_it_is_promoted(registry, stored, model):
    add(registry, model)
    stored.remove("msinet/serving")
    assert registry.default("msinet").number == 1
    registry.serve_default("msinet")
    assert served(stored) == {"1": WHOLE}


def test_pretrained_is_served_once_it_is_the_default_again(registry, stored, model):
    add(registry, model)
    registry.set_alias("msinet", DEFAULT, PRETRAINED_VERSION)
    assert list(served(stored)) == ["0"]
    stored.remove("msinet/serving")
    registry.serve_default("msinet")
    assert list(served(stored)) == ["0"]
    exported = exported_pretrained().saved_model
    assert stored.read("msinet/serving/0/saved_model.pb") == (exported / "saved_model.pb").read_bytes()
    assert len(served(stored)["0"]) == len([path for path in exported.rglob("*") if path.is_file()])
    registry.set_alias("msinet", DEFAULT, 1)
    assert served(stored) == {"1": WHOLE}


def test_pretrained_that_cannot_be_exported_changes_nothing(registry, stored, model, monkeypatch, tmp_path):
    add(registry, model)
    exported_pretrained.cache_clear()
    monkeypatch.setattr(model_folder, "PRETRAINED_FOLDER", tmp_path / "gone")
    with pytest.raises(UserError, match="pretrained"):
        registry.set_alias("msinet", DEFAULT, PRETRAINED_VERSION)
    assert (registry.aliases("msinet"), served(stored)) == ({DEFAULT: 1}, {"1": WHOLE})


def _set_default_and_die(address, number, at):
    """Move the default in a process that is gone at its step `at`; whether it came to its end."""
    child = os.fork()
    if not child:
        steps = itertools.count(1)

        def die(event, arguments):
            if event in STEPS and next(steps) == at:
                os._exit(9)

        sys.addaudithook(die)
        open_registry(address).set_alias("msinet", DEFAULT, number)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_killed_anywhere_something_whole_is_served_and_the_same_command_ends_it(registry, stored, model):
    for number in (1, 2):
        add(registry, model, number)
    kills = collections.Counter()
    for target, start in ((1, 2), (2, 1)):
        for at in itertools.count(1, 3):
            registry.set_alias("msinet", DEFAULT, start)
            ended = _set_default_and_die(registry.address, target, at)
            assert WHOLE in served(stored).values()
            if isinstance(registry, LocalRegistry):
                highest = max(number for number in served(stored) if number.isdecimal())
                assert served(stored)[highest] == WHOLE
            registry.set_alias("msinet", DEFAULT, target)
            assert served(stored) == {str(target): WHOLE}
            if ended:
                break
            kills[target] += 1
    assert min(kills[1], kills[2]) > 2


# === A folder ===


def _register(root, model, start, results):
    start.wait()
    results.put(LocalRegistry(root).add("msinet", model, {}, True, PRETRAINED_VERSION))


def test_processes_registering_at_once_get_different_versions_and_one_default(folder, model):
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(PROCESSES), context.Queue()
    arguments = (folder.root, model, start, results)
    processes = [context.Process(target=_register, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(number for number, _ in outcomes) == list(range(1, PROCESSES + 1))
    assert [alias for _, alias in outcomes].count(DEFAULT) == 1
    assert len(folder.versions("msinet")) == PROCESSES
    assert (folder.default("msinet").number, DEFAULT) in outcomes


def test_next_writer_removes_what_a_killed_one_has_left(folder, model):
    add(folder, model)
    partial = folder.root / "msinet" / f"{PARTIAL}killed" / "2"
    partial.mkdir(parents=True)
    (partial / "saved_model.pb").write_bytes(b"half")
    folder.set_alias("msinet", DEFAULT, 1)
    assert {path.name for path in partial.parents[1].glob(".*")} == {LOCK}


# === A bucket, which others write too ===


def test_two_processes_that_register_at_once_lose_nothing(remote, tmp_path):
    """tests/kill_registrations.py has 50 rounds, also with one of them killed."""
    assert register_at_once(remote.address, tmp_path, rounds=3) == {"none": 3}


def test_version_of_a_killed_writer_is_none(remote, stored, model):
    add(remote, model)
    for path in (RECORD, "assets.extra/model.weights.h5", "saved_model.pb"):
        stored.write(f"msinet/2/{path}", b"" if path == RECORD else b"half")
    assert [version.number for version in remote.versions("msinet")] == [1]
    with refused(UserError, 2, "0, 1"):
        find_model(f"{remote.address}/msinet@2")
    # A server that has seen the folder may have given up on it: its number is not used again.
    assert add(remote, model, 2) == (3, DEFAULT)
    assert [version.number for version in remote.versions("msinet")] == [1, 3]


def test_number_that_another_writer_claims_meanwhile_is_not_shared(remote, model, monkeypatch):
    files = BucketRegistry._files
    others = []

    def late(self, name):
        found = files(self, name)
        if not others:
            others.append(None)
            others.append(self.add("msinet", model, record("msinet-2"), True, PRETRAINED_VERSION))
        return found

    monkeypatch.setattr(BucketRegistry, "_files", late)
    assert remote._claim("msinet")[0] == 2
    assert others[1] == (1, DEFAULT)


def test_aliases_that_another_has_changed_meanwhile_are_read_again(remote, model):
    for number in (1, 2):
        add(remote, model, number)
    seen = []

    def choose(aliases):
        if not seen:
            BucketRegistry.at(remote.address)._point("msinet", 1, lambda aliases: DEFAULT)
        seen.append(dict(aliases))
        return CHALLENGER

    remote._point("msinet", 2, choose)
    assert seen == [{DEFAULT: 2}, {DEFAULT: 1}]
    assert remote.aliases("msinet") == {DEFAULT: 1, CHALLENGER: 2}


# === Places ===


def test_places_of_registries(bucket, model, tmp_path):
    assert (
        open_registry("/gcs/bucket/models")
        == open_registry("gs://bucket/models")
        == BucketRegistry(BucketPlace("gs://bucket/models"))
    )
    assert open_registry("") == LocalRegistry(pathlib.Path("models"))
    assert open_registry(str(tmp_path)) == LocalRegistry(tmp_path)
    whole = open_registry(f"gs://{bucket.name}")
    assert add(whole, model) == (1, DEFAULT)
    assert [version.address for version in whole.versions("msinet")] == [f"gs://{bucket.name}/msinet/1"]


def test_registry_that_only_one_container_has_is_refused(remote, tmp_path, capsys):
    for location in ("", "models", "./models"):
        with refused(SettingError, "registry", "models"):
            check_shared(location, "msinet")
    for location in (remote.address, str(tmp_path)):
        check_shared(location, "msinet")
        assert location in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
