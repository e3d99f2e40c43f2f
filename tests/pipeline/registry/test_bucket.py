"""What a registry does only in a bucket, which others write too; test_numbered.py has the rest."""

import pathlib

import pytest
import requests

from pipeline.registry import staging
from pipeline.registry.numbered import BucketRegistry
from pipeline.registry.register import check_shared, connect
from pipeline.registry.versions import NO_VERSION
from tests.gcs import answering, refusing
from tests.pipeline.registry.places import BucketFiles
from tests.registering import record, register_at_once
from trainer import storage
from trainer.artifacts import CHALLENGER, DEFAULT
from trainer.errors import UserError
from trainer.models.find import find_model
from trainer.storage import ChangedError

CLAIM = "assets.extra/version.json"


@pytest.fixture
def registry(bucket):
    return BucketRegistry.at(f"gs://{bucket.name}/models/")


@pytest.fixture
def stored(registry):
    return BucketFiles(registry.root)


def add(registry, model, run="msinet-1", champion=NO_VERSION):
    return registry.add("msinet", model, record(run), True, champion)


def test_two_processes_that_register_at_once_lose_nothing(registry, tmp_path):
    """tests/kill_registrations.py has 50 rounds, also with one of them killed."""
    assert register_at_once(registry.root, tmp_path, rounds=3) == {"none": 3}


# === Writers that were killed or stopped ===


def test_version_of_a_killed_writer_is_none(registry, stored, model):
    add(registry, model)
    for path in (CLAIM, "assets.extra/model.weights.h5", "saved_model.pb"):
        stored.write(f"msinet/2/{path}", b"" if path == CLAIM else b"half")
    assert [version.number for version in registry.versions("msinet")] == [1]
    with pytest.raises(UserError, match=r"has no version 2; it has 1 "):
        find_model(f"{registry.root}/msinet@2")
    # A server that has seen the folder may have given up on it: its number is not used again.
    assert add(registry, model, "msinet-2", champion=1) == (3, DEFAULT)
    assert [version.number for version in registry.versions("msinet")] == [1, 3]


def test_files_that_others_have_put_there_are_left_alone(registry, stored, model):
    stored.write("msinet/4/saved_model.pb", b"theirs")
    assert add(registry, model) == (5, DEFAULT)
    assert stored.read("msinet/4/saved_model.pb") == b"theirs"


def test_version_that_cannot_be_written_leaves_nothing(registry, stored, model, monkeypatch):
    def broken(*arguments):
        copy(*arguments)
        raise UserError("the network is gone")

    copy = staging.copy
    monkeypatch.setattr(staging, "copy", broken)
    with pytest.raises(UserError, match="the network is gone"):
        add(registry, model)
    assert stored.paths() == []


def test_number_that_another_writer_claims_meanwhile_is_not_shared(registry, model, monkeypatch):
    files = BucketRegistry._files
    others = []

    def late(self, name):
        found = files(self, name)
        if not others:
            others.append(None)
            others.append(add(BucketRegistry.at(self.root), model, "msinet-2"))
        return found

    monkeypatch.setattr(BucketRegistry, "_files", late)
    assert registry._claim("msinet")[0] == 2
    assert others[1] == (1, DEFAULT)


def test_aliases_that_another_has_changed_meanwhile_are_read_again(registry, model):
    for number, run in enumerate(("msinet-1", "msinet-2")):
        add(registry, model, run, champion=number)
    seen = []

    def choose(aliases):
        if not seen:
            BucketRegistry.at(registry.root)._point("msinet", 1, lambda aliases: DEFAULT)
        seen.append(dict(aliases))
        return CHALLENGER

    registry._point("msinet", 2, choose)
    assert seen == [{DEFAULT: 2}, {DEFAULT: 1}]
    assert registry.aliases("msinet") == {DEFAULT: 1, CHALLENGER: 2}


# === Requests ===


def test_request_that_is_repeated_because_its_reply_was_lost_has_made_the_change(registry, monkeypatch):
    client, lost = storage.client(write=True), []
    request = client._http.request

    def losing(method, url, *arguments, **options):
        reply = request(method, url, *arguments, **options)
        if method == "POST" and not lost:
            lost.append(url)
            raise requests.ConnectionError("the reply is lost")
        return reply

    monkeypatch.setattr(client._http, "request", losing)
    generation = storage.replace_state(f"{registry.root}/claim", b"mine", 0, client)
    assert lost
    assert storage.read_state(f"{registry.root}/claim", client) == (b"mine", generation)
    with pytest.raises(ChangedError, match=r"/claim was changed by another process meanwhile; try again"):
        storage.replace_state(f"{registry.root}/claim", b"mine", 0, client)


def test_objects_that_are_replaced_are_never_cached(registry, bucket, model):
    add(registry, model)
    for path in ("aliases.json", f"1/{CLAIM}"):
        assert bucket.get_blob(f"models/msinet/{path}").cache_control == "no-store"


def test_bucket_that_does_not_exist_or_may_not_be_written_is_named_with_a_remedy(bucket, monkeypatch):
    with pytest.raises(UserError, match="there is no bucket 'nowhere-at-all'"):
        check_shared("gs://nowhere-at-all/models", "msinet")
    with (
        answering(monkeypatch, refusing(403)),
        pytest.raises(UserError, match=r"no permission to write gs://private/models/msinet/.*Storage Object User"),
    ):
        check_shared("gs://private/models", "msinet")


# === Addresses ===


def test_mount_of_vertex_ai_is_the_bucket_itself():
    assert connect("/gcs/bucket/models") == connect("gs://bucket/models") == BucketRegistry("gs://bucket/models")


@pytest.mark.parametrize("location", ["", "models", "./models"])
def test_registry_inside_a_container_is_refused(location):
    with pytest.raises(UserError, match=r"registry is '\.?/?models', a folder that only one container has.*gs://"):
        check_shared(location, "msinet")


def test_registry_that_other_containers_have_is_accepted(registry, tmp_path, capsys):
    for location in (registry.root, str(tmp_path)):
        check_shared(location, "msinet")
        assert capsys.readouterr().out == f"a version of model 'msinet' can be added to {location}\n"
    assert not list(pathlib.Path(tmp_path).iterdir())


def test_whole_bucket_is_a_registry(bucket, model):
    registry = connect(f"gs://{bucket.name}")
    assert add(registry, model) == (1, DEFAULT)
    assert [version.place for version in registry.versions("msinet")] == [f"gs://{bucket.name}/msinet/1"]
