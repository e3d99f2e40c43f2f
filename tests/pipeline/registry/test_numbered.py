"""Registries in TensorFlow Serving's layout; test_contract.py has what the Vertex AI registry does too."""

import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from pipeline.__main__ import main
from pipeline.registry.numbered import BucketRegistry, LocalRegistry
from pipeline.registry.register import check_shared, connect, lineage
from pipeline.registry.versions import NO_VERSION
from tests.gcs import answering, refusing
from tests.pipeline.registry.places import BucketFiles, FolderFiles
from tests.registering import record, register_at_once
from trainer import artifacts
from trainer.artifacts import CHALLENGER, DEFAULT
from trainer.errors import UserError
from trainer.models.find import find_model
from trainer.models.weight_sources import fingerprint

RECORD = "assets.extra/version.json"
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


def test_version_is_a_savedmodel_with_the_trainers_model_inside(registry, stored, model):
    assert add(registry, model) == (1, DEFAULT)
    assert stored.read("msinet/1/saved_model.pb") == b"graph"
    assert stored.read("msinet/1/variables/variables.index") == b"index"
    assert registry.default("msinet").place == f"{registry.address}/msinet/1"
    # TensorFlow Serving takes every folder for a version.
    assert {path.split("/")[1] for path in stored.paths() if path.count("/") > 1} == {"1"}


def test_a_model_is_found_by_its_alias_in_the_registry(registry, model):
    add(registry, model)
    add(registry, model, 2, promote=False)
    for alias, number in (("@default", 1), ("", 1), ("@challenger", 2), ("@2", 2)):
        found = find_model(f"{registry.address}/msinet{alias}")
        assert (found / artifacts.WEIGHTS).read_bytes() == b"weights"
        assert found.parent.name == str(number)
        assert fingerprint(f"{registry.address}/msinet{alias}") == fingerprint(str(model))


# === Damaged ===


def test_damaged_aliases_and_records_are_named_with_a_remedy(registry, stored, model):
    add(registry, model)
    stored.write(f"msinet/1/{RECORD}", b"{")
    with pytest.raises(UserError, match=r"1/assets\.extra/version\.json .*restore it, or remove"):
        registry.versions("msinet")
    assert add(registry, model, 2) == (2, DEFAULT)  # damage is no reason to lose another model
    stored.write("msinet/aliases.json", b"no")
    with pytest.raises(UserError, match=r"aliases\.json .*remove it, then set the default"):
        registry.default("msinet")


def test_incomplete_version_is_named_with_its_missing_files(registry, stored, model):
    add(registry, model)
    stored.remove(f"msinet/1/assets.extra/{artifacts.MODEL_CONFIG}")
    for use in (registry.versions, registry.check_writable):
        with pytest.raises(UserError, match=r"version 1 .* has no config\.json"):
            use("msinet")
    stored.remove("msinet/1/assets.extra")
    with pytest.raises(UserError, match=r"has no version\.json"):
        registry.default("msinet")
    assert add(registry, model, 2) == (2, DEFAULT)


def test_removed_default_is_named_with_a_remedy(registry, stored, model):
    for number in (1, 2):
        add(registry, model, number)
    stored.remove("msinet/2")
    with pytest.raises(UserError, match=r"no version 2 .*versions: 1\).*set-default VERSION"):
        registry.default("msinet")


def test_name_that_is_not_registered_leaves_nothing_behind(registry, stored, model):
    add(registry, model)
    with pytest.raises(UserError, match="msient"):
        main(["registry", "set-default", "1", "--registry", registry.address, "--model-name", "msient"])
    with pytest.raises(UserError, match="msient"):
        registry.set_alias("msient", DEFAULT, 1)
    registry.check_writable("msient")
    assert {path.split("/")[0] for path in stored.paths()} == {"msinet"}


# === The same run again ===


@pytest.mark.parametrize("again", [made("msinet-2"), made(folder="/elsewhere")])
def test_run_that_is_resumed_finds_its_version(registry, model, again):
    assert registry.add("msinet", model, made(), True, NO_VERSION) == (1, DEFAULT)
    assert registry.add("msinet", model, again, False, 1) == (1, DEFAULT)
    assert [version.record["lineage"] for version in registry.versions("msinet")] == [made()["lineage"]]


def test_run_killed_before_its_alias_was_written_gets_it(registry, stored, model):
    registry.add("msinet", model, made(), True, NO_VERSION)
    stored.remove(f"msinet/{artifacts.ALIASES}")
    assert registry.add("msinet", model, made("msinet-2"), True, NO_VERSION) == (1, DEFAULT)
    assert registry.aliases("msinet") == {DEFAULT: 1}


def test_model_with_another_run_or_scores_is_another_version(registry, model):
    registry.add("msinet", model, made(), True, NO_VERSION)
    assert registry.add("msinet", model, made("msinet-2", "/runs/b"), False, 1) == (2, CHALLENGER)
    assert registry.add("msinet", model, made(kld=0.4), False, 1) == (3, CHALLENGER)


def test_lineage_has_the_folder_that_resumed_runs_share(model):
    (model.parent / "msinet-2026").mkdir()
    place = shutil.move(model, model.parent / "msinet-2026" / "model")
    assert lineage("msinet-2026", {}, str(place))["folder"] == str(model.parent)
    assert lineage("msinet-2027", {}, str(place))["folder"] == str(place)
    with pytest.raises(UserError, match="prepared dataset"):
        lineage("run", {"base": str(model.parent)}, str(place))


# === A folder ===


def _register(root, model, start, results):
    start.wait()
    results.put(LocalRegistry(root).add("msinet", model, {}, True, NO_VERSION))


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize(
    ("mode", "use", "status"),
    [
        (0o644, ["set_alias", "'challenger'", "1"], 0),
        (0o600, ["set_alias", "'challenger'", "1"], 1),
        (0o600, ["check_writable"], 1),
    ],
)
def test_second_user_of_a_folder_is_told_before_a_training_what_the_lock_needs(model, mode, use, status):
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place).chmod(0o755)
        root = pathlib.Path(place, "models")
        add(LocalRegistry(root), model)
        for path in (root, root / "msinet"):
            path.chmod(0o777)
        (root / "msinet" / ".lock").chmod(mode)
        command = [sys.executable, "-c", AS_ANOTHER_USER, root, *use]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert finished.returncode == status, finished.stderr
        assert (f"{root}/msinet/.lock" in finished.stderr) is (status == 1)
        assert ("challenger" in LocalRegistry(root).aliases("msinet")) is (status == 0)


# === A bucket, which others write too ===


def test_two_processes_that_register_at_once_lose_nothing(remote, tmp_path):
    """tests/kill_registrations.py has 50 rounds, also with one of them killed."""
    assert register_at_once(remote.root, tmp_path, rounds=3) == {"none": 3}


def test_version_of_a_killed_writer_is_none(remote, stored, model):
    add(remote, model)
    for path in (RECORD, "assets.extra/model.weights.h5", "saved_model.pb"):
        stored.write(f"msinet/2/{path}", b"" if path == RECORD else b"half")
    assert [version.number for version in remote.versions("msinet")] == [1]
    with pytest.raises(UserError, match=r"has no version 2; it has 1 "):
        find_model(f"{remote.root}/msinet@2")
    # A server that has seen the folder may have given up on it: its number is not used again.
    assert add(remote, model, 2) == (3, DEFAULT)
    assert [version.number for version in remote.versions("msinet")] == [1, 3]


def test_files_that_others_have_put_there_are_left_alone(remote, stored, model):
    stored.write("msinet/4/saved_model.pb", b"theirs")
    assert add(remote, model) == (5, DEFAULT)
    assert stored.read("msinet/4/saved_model.pb") == b"theirs"


def test_number_that_another_writer_claims_meanwhile_is_not_shared(remote, model, monkeypatch):
    files = BucketRegistry._files
    others = []

    def late(self, name):
        found = files(self, name)
        if not others:
            others.append(None)
            others.append(self.add("msinet", model, record("msinet-2"), True, NO_VERSION))
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
            BucketRegistry.at(remote.root)._point("msinet", 1, lambda aliases: DEFAULT)
        seen.append(dict(aliases))
        return CHALLENGER

    remote._point("msinet", 2, choose)
    assert seen == [{DEFAULT: 2}, {DEFAULT: 1}]
    assert remote.aliases("msinet") == {DEFAULT: 1, CHALLENGER: 2}


def test_objects_that_are_replaced_are_never_cached(remote, bucket, model):
    add(remote, model)
    for path in ("aliases.json", f"1/{RECORD}"):
        assert bucket.get_blob(f"models/msinet/{path}").cache_control == "no-store"


# === Places ===


def test_places_of_registries(bucket, model, tmp_path):
    assert connect("/gcs/bucket/models") == connect("gs://bucket/models") == BucketRegistry("gs://bucket/models")
    assert connect("") == LocalRegistry(pathlib.Path("models"))
    assert connect(str(tmp_path)) == LocalRegistry(tmp_path)
    whole = connect(f"gs://{bucket.name}")
    assert add(whole, model) == (1, DEFAULT)
    assert [version.place for version in whole.versions("msinet")] == [f"gs://{bucket.name}/msinet/1"]


def test_registry_that_only_one_container_has_is_refused(remote, tmp_path, capsys):
    for location in ("", "models", "./models"):
        with pytest.raises(UserError, match=r"models', a folder that only one container has"):
            check_shared(location, "msinet")
    for location in (remote.root, str(tmp_path)):
        check_shared(location, "msinet")
        assert location in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_bucket_that_does_not_exist_or_may_not_be_written_is_named_with_a_remedy(bucket, monkeypatch):
    with pytest.raises(UserError, match="there is no bucket 'nowhere-at-all'"):
        check_shared("gs://nowhere-at-all/models", "msinet")
    with (
        answering(monkeypatch, refusing(403)),
        pytest.raises(UserError, match=r"no permission to write gs://private/models/msinet/.*Storage Object User"),
    ):
        check_shared("gs://private/models", "msinet")
