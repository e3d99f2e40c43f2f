"""Processes that register models at once in a bucket: all at the same moment, killed, or stopped for a while."""

import multiprocessing
import os
import signal
import time

from lifecycle.registry import state_layout
from lifecycle.registry.folder_registry import BucketRegistry
from lifecycle.registry.versions import GRAPH
from trainer.errors import UserError
from trainer.models.model_names import DEFAULT
from trainer.models.registry_layout import PRETRAINED_VERSION
from trainer.network import model_folder
from trainer.places.buckets import storage_client

NAME = "msinet"
STOPPED_S = 1.0
SPAWN = multiprocessing.get_context("spawn")


class Writer:
    """A process that registers one model after the other, as told."""

    def __init__(self, address, folder):
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_register_as_told, args=(theirs, address, folder))
        self._process.start()
        theirs.close()

    def send(self, run, default):
        self._pipe.send((run, default))

    def receive(self):
        """(number, alias) of the version, or what went wrong; None if the process was killed."""
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            return None

    def signal(self, number):
        os.kill(self._process.pid, number)

    def end(self):
        self._pipe.close()
        self._process.join()


def _register_as_told(pipe, address, folder):
    registry = BucketRegistry.at(address)
    registry.versions(NAME)
    pipe.send("ready")
    while True:
        try:
            run, default = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(registry.add(NAME, write_model(folder / run, run), record(run), True, default))
        except UserError as error:
            pipe.send(str(error))


def record(run):
    return {"metrics": {"osie": {"kld": 0.5}}, "lineage": {"run": run}}


def write_model(folder, run):
    """The files of a model, with the name of the run in place of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / model_folder.SAVED_MODEL).mkdir(exist_ok=True)
    (folder / model_folder.SAVED_MODEL / "saved_model.pb").write_text(run)
    for name in (model_folder.MODEL_WEIGHTS, model_folder.MODEL_CONFIG, model_folder.HISTORY):
        (folder / name).write_text(run)
    return folder


def register_at_once(address, folder, rounds, random=None):
    """Let two processes register a model each in every round; returns what happened, by how often it did.

    Args:
        address: of the registry.
        folder: for the models.
        rounds: how many rounds.
        random: a `random.Random` that disturbs the first process in a round: with SIGKILL, with SIGSTOP for a
            while, or not at all. None disturbs it never.
    """
    registry = BucketRegistry.at(address)
    writers = [Writer(address, folder) for _ in range(2)]
    assert [writer.receive() for writer in writers] == ["ready", "ready"]
    events = {}
    for number in range(rounds):
        runs = [f"run-{number}-{index}" for index in range(2)]
        default = registry.aliases(NAME).get(DEFAULT, PRETRAINED_VERSION)
        for writer, run in zip(writers, runs, strict=True):
            writer.send(run, default)
        disturbance = _disturb(writers[0], random) if random else "none"
        outcomes = [writer.receive() for writer in writers]
        if disturbance == "kill":
            assert outcomes[0] is None or isinstance(outcomes[0], tuple)
            writers[0].end()
            writers[0] = Writer(address, folder)
            assert writers[0].receive() == "ready"
        for index, outcome in enumerate(outcomes):
            if outcome is None:
                events["killed"] = events.get("killed", 0) + 1
                writers[index].send(runs[index], default)  # as a pipeline repeats the task
                outcomes[index] = writers[index].receive()
        events[disturbance] = events.get(disturbance, 0) + 1
        _check_round(registry, runs, outcomes)
    for writer in writers:
        writer.end()
    _check_all(registry, rounds, "killed" in events)
    return events


def _disturb(writer, random):
    kind = random.choice(["none", "kill", "kill", "stop"])
    if kind == "none":
        return kind
    time.sleep(random.uniform(0, 0.3))
    if kind == "kill":
        writer.signal(signal.SIGKILL)
    else:
        writer.signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        writer.signal(signal.SIGCONT)
    return kind


def _check_round(registry, runs, outcomes):
    """Both have a version of their own, which has what they wrote, and one of them is the default."""
    versions = {version.number: version for version in registry.versions(NAME)}
    assert len({number for number, _ in outcomes}) == 2, outcomes
    for run, (number, _) in zip(runs, outcomes, strict=True):
        assert versions[number].record["lineage"]["run"] == run
    aliases = registry.aliases(NAME)
    assert set(aliases.values()) <= set(versions)
    assert aliases[DEFAULT] in {number for number, _ in outcomes}


def _check_all(registry, rounds, killed):
    """Each run has exactly one version, and it is whole."""
    versions = {version.record["lineage"]["run"]: version for version in registry.versions(NAME)}
    assert len(registry.versions(NAME)) == len(versions) == 2 * rounds
    if killed:
        registry.serve_default(NAME)
    default = registry.aliases(NAME)[DEFAULT]
    bucket, _, root = registry.address.removeprefix("gs://").partition("/")
    found = {}
    for blob in storage_client().list_blobs(bucket, prefix=f"{root}/{NAME}/"):
        number, _, path = blob.name.removeprefix(f"{root}/{NAME}/").partition("/")
        if number == state_layout.SERVING:
            assert path == f"{default}/{GRAPH}"
        elif path:
            found.setdefault(int(number), {})[path] = blob
    for run, version in versions.items():
        blobs = found[version.number]
        assert len(blobs) == 5
        weights = blobs[f"{model_folder.ASSETS_EXTRA}/{model_folder.MODEL_WEIGHTS}"]
        assert weights.download_as_bytes() == run.encode()
