"""What every registry does: in a folder, in a bucket, and on Vertex AI."""

import functools
import json
import multiprocessing
import queue
import threading

import pytest

from lifecycle.machines.settings import Target
from lifecycle.registry.register import open_registry, register_model, resolve_base_model
from lifecycle.registry.versions import Look
from lifecycle.runs import preflight
from lifecycle.runs.parameters import CONSOLE_FIELDS, DEFAULTS, Values
from pipeline.__main__ import main
from tests import patches
from tests.lifecycle.registry.places import BucketFiles, FolderFiles
from tests.prepared import evaluation_of
from tests.refusals import refused
from trainer.errors import ContentError, NotFoundError, UsageError, UserError
from trainer.io import files
from trainer.machine import package_version
from trainer.models.find import find_model
from trainer.models.model_names import CHALLENGER, DEFAULT
from trainer.models.registry_layout import PRETRAINED_VERSION
from trainer.models.weight_sources import WeightSource
from trainer.network import model_folder

SCORES = (model_folder.EVALUATION, model_folder.PER_IMAGE)


@pytest.fixture(params=["folder", "bucket", "vertex"])
def location(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "models")
    if request.param == "bucket":
        return f"gs://{request.getfixturevalue('bucket').name}/models"
    return request.getfixturevalue("address")


@pytest.fixture
def registry(location):
    return open_registry(location)


@pytest.fixture
def command(location, capsys):
    """Runs `registry ARGUMENT ...` on the registry; returns the printed lines."""

    def command(*arguments):
        capsys.readouterr()
        assert main(["registry", *arguments, "--registry", location]) == 0
        return capsys.readouterr().out.splitlines()

    return command


def record(name="msinet-1"):
    data = {
        "base": {"dataset": "salicon", "source": "gs://data/salicon", "fingerprint": "aa01"},
        "finetune": {"dataset": "fixationadd1000", "source": "gs://data/add1000", "fingerprint": "bb02"},
    }
    return {
        "metrics": {"fixationadd1000": {"kld": 0.4321, "information_gain": -0.1}, "salicon": {"kld": 0.5}},
        "compared_with": PRETRAINED_VERSION,
        "reason": "The candidate becomes the default: it is better.",
        "lineage": {"run": name, "code_version": "0.1.0+5f2a", "data": data, "model": {"epochs": 1}},
    }


def add(registry, model, name="msinet-1", promote=True, default=PRETRAINED_VERSION):
    """Register what the run of this name has made and compared with the version `default`."""
    return registry.add("msinet", model, record(name), promote, default)


@pytest.fixture
def look(registry, location, model, monkeypatch):
    """A scheduled run without its training: the number of its version; None if all is unchanged."""
    patches.replace(monkeypatch, package_version, "code_version", lambda: "0.1.0+5f2a")

    def look(promote=True, **parameters):
        values = {name: DEFAULTS[name] for name in CONSOLE_FIELDS}
        values |= {"finetune_source": "sample", "registry": location, "skip_unchanged": True, **parameters}
        arguments = {"settings": {}, **Values(values).form}
        prepared = preflight.check_run(arguments, {}, Target("local", "", "msinet-{}"))
        if not prepared.Output:
            return None
        run = record(f"msinet-{len(registry.versions('msinet')) + 1}")
        run["compared_with"] = registry.aliases("msinet").get(DEFAULT, PRETRAINED_VERSION)
        run["lineage"] |= {"inputs": prepared.Output, "base_version": prepared.base_version}
        number, alias = registry.add("msinet", model, run, promote, run["compared_with"])
        assert (alias == DEFAULT) is promote
        return number

    return look


@pytest.mark.parametrize("wins", [[], [1], [1, 2]])
@pytest.mark.parametrize(
    "other", [{"base_model_uri": "pretrained", "seed": 2}, {"base_model_uri": "msinet@default"}]
)
def test_schedules_of_one_model_train_once_each_on_the_same_data(look, wins, other):
    schedules = [{"base_model_uri": "pretrained"}, other] * 3
    assert [look(number in wins, **each) for number, each in enumerate(schedules, 1)] == [1, 2, *[None] * 4]


def test_schedules_that_replace_each_other_come_to_an_end(look):
    schedules = [{"base_model_uri": "pretrained", "seed": seed} for seed in (1, 2, 3)]
    assert [look(**each) for each in schedules * 3] == [1, 2, 3, *[None] * 6]


def test_model_that_lost_to_a_default_before_meets_the_new_one(look):
    first, second, third = ({"base_model_uri": "pretrained", "seed": seed} for seed in (1, 2, 3))
    assert [look(True, **first), look(False, **second), look(True, **third)] == [1, 2, 3]
    assert [look(False, **second), look(**second), look(**first)] == [4, None, None]


def test_promotion_of_its_own_model_is_nothing_new_to_a_run_that_starts_from_the_default(look, registry):
    assert look(base_model_uri="pretrained") == 1
    start = {"base_model_uri": "msinet@default", "seed": 2}
    assert [look(**start) for _ in range(3)] == [2, None, None]
    assert [look(**start, gate="cc"), look(**start)] == [3, None]  # 3 was made from 2
    registry.set_alias("msinet", DEFAULT, 1)  # what 2 started from and was compared with
    assert look(**start) is None
    assert look(base_model_uri="pretrained", seed=4) == 4  # beats 1, and was made of neither 2 nor 3
    assert [look(False, **start), look(**start)] == [5, None]
    registry.set_alias("msinet", DEFAULT, 3)
    assert look(**start) is None


def test_new_version_of_another_model_is_a_new_start(look, registry, model):
    registry.add("base", model, record(), True, PRETRAINED_VERSION)
    start = {"base_model_uri": "base@default"}
    assert [look(**start), look(**start)] == [1, None]
    registry.add("base", model, record("msinet-2"), True, 1)
    assert [look(**start), look(**start), look(base_model_uri="base@2")] == [2, None, 3]


def test_code_without_a_commit_is_never_unchanged(look, monkeypatch):
    patches.replace(monkeypatch, package_version, "code_version", lambda: "0.1.0+5f2a-dirty")
    assert [look(base_model_uri="pretrained") for _ in range(2)] == [1, 2]


def test_base_model_is_a_version_of_the_registry_by_alias_or_number(registry, location, model):
    with refused(NotFoundError, "msinet@default", "pretrained"):
        resolve_base_model("msinet@default", location)
    for number in (1, 2):
        add(registry, model, f"msinet-{number}", promote=number == 1)
    assert resolve_base_model("msinet@0", location) == ("pretrained", "msinet@0")
    places = [version.address for version in registry.versions("msinet")]
    named = ("msinet@default", "msinet@1", "msinet@challenger", "msinet@2")
    found = [(places[0], "msinet@1")] * 2 + [(places[1], "msinet@2")] * 2
    assert [resolve_base_model(name, location) for name in named] == found
    assert WeightSource(places[0]).fingerprint()
    with refused(UserError, 3):
        resolve_base_model("msinet@3", location)
    for other in ("", "pretrained", "author:salicon", "gs://bucket/model@3", "./msinet@default"):
        assert resolve_base_model(other, location) == (other, "")


def test_pretrained_is_the_default_until_a_version_is_promoted_or_chosen(registry, location, model, command):
    assert add(registry, model, promote=False) == (1, CHALLENGER)
    assert (registry.default("msinet"), registry.aliases("msinet")) == (None, {CHALLENGER: 1})
    assert resolve_base_model("msinet@default", location) == ("pretrained", "msinet@0")
    shown = json.loads("\n".join(command("list", "--json")))
    assert [(each["version"], each["aliases"]) for each in shown] == [(0, [DEFAULT]), (1, [CHALLENGER])]
    assert command("show")[0].split()[1] == "msinet@0"
    assert add(registry, model, "msinet-2", promote=False) == (2, CHALLENGER)
    assert registry.aliases("msinet") == {CHALLENGER: 2}
    command("set-default", "1")
    assert registry.aliases("msinet") == {DEFAULT: 1, CHALLENGER: 2}
    assert registry.default("msinet").number == 1


@pytest.mark.parametrize("name", ["0", "pretrained", "msinet@0"])
def test_pretrained_becomes_the_default_again(registry, location, model, command, name):
    for number in (1, 2):
        add(registry, model, f"msinet-{number}", default=number - 1)
    _, shipped, *others = command("set-default", name)
    assert shipped.split()[-2:] == [DEFAULT, "pretrained"]
    assert not any(DEFAULT in line for line in others)
    assert (registry.default("msinet"), registry.aliases("msinet")) == (None, {})
    assert resolve_base_model("msinet@default", location) == ("pretrained", "msinet@0")
    command("set-default", name)
    assert [(move.version, move.by_person) for move in registry.default_moves("msinet")] == [
        (1, False),
        (2, False),
        (0, True),
    ]
    # The gate goes on from it, and a person too.
    assert add(registry, model, "msinet-3", default=2) == (3, CHALLENGER)
    assert add(registry, model, "msinet-4", default=PRETRAINED_VERSION) == (4, DEFAULT)
    command("set-default", "2")
    assert registry.aliases("msinet") == {DEFAULT: 2, CHALLENGER: 3}


def test_default_of_pretrained_that_never_moved_is_no_move(registry, model, command):
    add(registry, model, promote=False)
    command("set-default", "0")
    assert registry.aliases("msinet") == {CHALLENGER: 1}
    assert registry.default_moves("msinet") == []


def test_look_at_what_a_default_before_was_made_of_meets_pretrained_again(look, registry):
    first, second = ({"base_model_uri": "pretrained", "seed": seed} for seed in (1, 2))
    assert [look(True, **first), look(True, **second)] == [1, 2]
    registry.set_alias("msinet", DEFAULT, PRETRAINED_VERSION)
    assert look(**first) is None  # its comparison with `pretrained` is known
    assert look(**second) == 3


def test_what_happened_to_a_version_since_its_promotion_is_shown(registry, model, command):
    for number, promote in enumerate((True, True, False, True), 1):
        content = record(f"msinet-{number}") | {
            "promote": promote,
            "compared_with": 2 if number == 4 else number - 1,
        }
        registry.add("msinet", model, content, promote, content["compared_with"])

    def since(number):
        lines = dict(line.split(":", 1) for line in command("show", str(number)))
        assert "becomes the default" not in lines["Decision"]
        return lines.get("Since", "").strip().split(" on ")[0]

    assert [since(number) for number in (1, 2, 3, 4)] == [
        "Version 2 replaced it",
        "Version 4 replaced it",
        "",
        "",
    ]
    command("set-default", "2")
    assert since(4) == "A person rolled it back to version 2"
    assert since(2) == "A person made it the default"
    command("set-default", "3")
    assert since(2) == "A person made version 3 the default"


@pytest.mark.parametrize(("promote", "default"), [(False, 1), (True, PRETRAINED_VERSION)])
def test_model_that_is_not_promoted_or_was_compared_with_nothing_becomes_the_challenger(
    registry, model, promote, default
):
    add(registry, model)
    assert add(registry, model, "msinet-2", promote, default) == (2, CHALLENGER)
    assert registry.aliases("msinet") == {DEFAULT: 1, CHALLENGER: 2}


def test_model_compared_with_a_default_that_has_moved_since_does_not_become_it(registry, model):
    add(registry, model)
    add(registry, model, "msinet-2", default=1)
    assert add(registry, model, "msinet-3", default=1) == (3, CHALLENGER)
    assert registry.aliases("msinet") == {DEFAULT: 2, CHALLENGER: 3}


def test_run_that_registers_again_finds_its_version(registry, model):
    assert add(registry, model) == add(registry, model) == (1, DEFAULT)
    assert [version.number for version in registry.versions("msinet")] == [1]
    assert registry.aliases("msinet") == {DEFAULT: 1}


def test_folder_without_an_export_is_refused(registry, tmp_path):
    with refused(ContentError, tmp_path, "saved_model"):
        add(registry, tmp_path)
    assert registry.versions("msinet") == []


def test_check_finds_a_registry_that_can_be_written(registry, model):
    registry.check_writable("msinet")
    add(registry, model)
    registry.check_writable("msinet")
    assert registry.aliases("msinet") == {DEFAULT: 1}


def test_version_keeps_the_model_its_record_and_the_scores_of_each_image(registry, model, tmp_path):
    for name in SCORES:
        (tmp_path / name).write_text(name)
    registry.add("msinet", model, record(), True, PRETRAINED_VERSION, evaluation=tmp_path)
    default = registry.default("msinet")
    assert (default.number, default.record["lineage"]) == (1, record()["lineage"])
    kept = {path.name: path.read_text() for path in default.model.iterdir() if path.name != "version.json"}
    assert kept == {
        model_folder.MODEL_WEIGHTS: "weights",
        model_folder.MODEL_CONFIG: (model / model_folder.MODEL_CONFIG).read_text(),
        model_folder.HISTORY: '{"epoch": 1}\n',
        **dict(zip(SCORES, SCORES, strict=True)),
    }
    found = find_model(default.address)
    assert [(found / name).read_text() for name in SCORES] == list(SCORES)
    add(registry, model, "msinet-2", default=1)
    assert not any((registry.default("msinet").model / name).exists() for name in SCORES)


def test_a_run_that_registers_again_undoes_no_roll_back(registry, model):
    add(registry, model)
    assert add(registry, model, "msinet-2", default=1) == (2, DEFAULT)
    registry.set_alias("msinet", DEFAULT, 1)
    assert add(registry, model, "msinet-2", default=1) == (2, CHALLENGER)
    assert registry.aliases("msinet")[DEFAULT] == 1


def test_register_takes_metrics_and_decision_from_the_evaluation(registry, model, tmp_path, capsys):
    evaluation = evaluation_of({"candidate": {"kld": 0.4}, "uniform": {"kld": 2.0}})
    evaluation.write(tmp_path)
    (tmp_path / model_folder.PER_IMAGE).write_text("dataset,image,model,kld\n")

    def registered(run):
        lineage = record(run)["lineage"]
        return register_model(registry, "msinet", str(model), str(tmp_path), PRETRAINED_VERSION, lineage)

    assert registered("msinet-1") == (1, DEFAULT)
    written = registry.versions("msinet")[0].record
    assert (written["metrics"], written["decided_on"]) == ({"osie": {"kld": 0.4}}, "osie")
    assert (written["lineage"], written["reason"]) == (record()["lineage"], evaluation.reason)
    assert "warning" not in capsys.readouterr().out
    # Compared with no version, while another run has registered one.
    assert registered("msinet-2") == (2, CHALLENGER)
    (warning,) = capsys.readouterr().out.splitlines()
    assert "moved the default of model 'msinet' from version 0 to 1 " in warning
    assert "registry set-default 2" in warning
    registry.set_alias("msinet", DEFAULT, PRETRAINED_VERSION)
    register_model(registry, "msinet", str(model), str(tmp_path), 1, record("msinet-3")["lineage"])
    assert "moved the default of model 'msinet' from version 1 to 0 " in capsys.readouterr().out


# === Command line ===


def test_default_is_moved_by_number_or_alias(registry, model, command):
    add(registry, model)
    add(registry, model, "msinet-2", promote=False, default=1)
    places = [version.address for version in registry.versions("msinet")]
    for version, aliases in (
        ("2", {DEFAULT: 2, CHALLENGER: 2}),
        ("msinet@1", {DEFAULT: 1, CHALLENGER: 2}),
        ("challenger", {DEFAULT: 2, CHALLENGER: 2}),
    ):
        lines = command("set-default", version)
        assert [line.split()[-1] for line in lines[1:]] == ["pretrained", *places]
        assert registry.aliases("msinet") == aliases
        assert registry.default("msinet").record["lineage"]["run"] == f"msinet-{aliases[DEFAULT]}"


def test_moves_of_the_default_are_kept_in_order(registry, model):
    assert registry.default_moves("msinet") == []
    registry.add("msinet", model, {**record(), "promote": True}, True, PRETRAINED_VERSION)
    registry.add("msinet", model, {**record("msinet-2"), "promote": False}, False, 1)
    registry.add("msinet", model, {**record("msinet-3"), "promote": True}, True, 1)
    registry.add("msinet", model, {**record("msinet-3"), "promote": True}, True, 1)  # again
    moves = registry.default_moves("msinet")
    assert [(move.version, move.by_person) for move in moves] == [(1, False), (3, False)]
    assert [move.since for move in moves] == sorted(move.since for move in moves)
    assert all(move.since.tzinfo for move in moves)


def test_moves_by_hand_are_kept_as_such(registry, model):
    for number, promote in enumerate((True, True, False), 1):
        content = {**record(f"msinet-{number}"), "promote": promote}
        registry.add("msinet", model, content, promote, number - 1)
    for number in (1, 3, 3, 2):
        registry.set_alias("msinet", DEFAULT, number)
    moves = [(move.version, move.by_person) for move in registry.default_moves("msinet")]
    assert moves == [(1, False), (2, False), (1, True), (3, True), (2, True)]


def test_version_is_shown_by_number_or_alias(registry, model, command):
    add(registry, model)
    add(registry, model, "msinet-2", promote=False, default=1)
    for version, number in (([], 1), (["2"], 2), (["challenger"], 2), (["msinet@challenger"], 2)):
        shown = json.loads("\n".join(command("show", *version, "--json")))
        assert (shown["version"], shown["lineage"]["run"]) == (number, f"msinet-{number}")
        assert command("show", *version)[0].split()[1] == f"msinet@{number}"


def test_version_that_does_not_exist_is_named_and_changes_nothing(registry, model, command):
    add(registry, model)
    for version in ("9", "newest", "other@1"):
        for action in ("show", "set-default"):
            with refused(UserError, version, "0, 1"):
                command(action, version)
    for name, alias, number in (
        ("msinet", DEFAULT, 5),
        ("msinet", CHALLENGER, 0),
        ("msient", DEFAULT, 1),
        ("msient", DEFAULT, 0),
    ):
        with refused(UserError, name, number):
            registry.set_alias(name, alias, number)
    assert registry.aliases("msinet") == {DEFAULT: 1}


@pytest.mark.parametrize("action", ["promote", "list"])
def test_version_is_refused_where_none_is_chosen(registry, model, command, action):
    add(registry, model)
    with refused(UsageError, action, 1):
        command(action, "1")


def test_the_images_that_a_version_was_trained_on_are_kept_with_it(registry, model):
    add(registry, model)
    files.write_json(model / model_folder.TRAINING_IMAGES, {"aa01": {"train": ["0f"], "valid": []}})
    add(registry, model, "msinet-2", promote=True, default=1)
    first, second = registry.versions("msinet")
    assert model_folder.ModelFolder(registry.default("msinet").model).training_images() == {
        "aa01": {"train": ["0f"], "valid": []}
    }
    assert (first.number, second.number) == (1, 2)


def a_look(run, model, compared_with=PRETRAINED_VERSION):
    return Look(f"msinet-{run}", model, compared_with)


def _decide(location, run, model, start, results):
    registry = open_registry(location)
    start.wait()
    results.put(registry.decide("msinet", a_look(run, model)))


def test_looks_at_once_have_different_numbers_and_a_killed_one_keeps_its_own(location, registry, model):
    look = functools.partial(a_look, model=model.with_name("elsewhere") / "model")
    assert registry.decide("msinet", look(0)) == 1  # its run is killed before it registers anything
    runs = range(1, 5)
    spawn = multiprocessing.get_context("spawn")
    # The server of Vertex AI answers this process alone.
    kinds = (threading.Thread, threading.Barrier, queue.Queue)
    worker_of, barrier, results_of = kinds if "vertex" in location else (spawn.Process, spawn.Barrier, spawn.Queue)
    start, results = barrier(len(runs)), results_of()
    places = {run: model / str(run) for run in runs}
    workers = [worker_of(target=_decide, args=(location, run, places[run], start, results)) for run in runs]
    for worker in workers:
        worker.start()
    numbers = sorted(results.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    assert numbers == [2, 3, 4, 5]
    assert registry.decide("msinet", look(0)) == 1
    assert registry.next_decision("msinet") == 6


def test_undecided_look_does_not_count(registry, model):
    first, second, third = (a_look(run, model / str(run)) for run in (1, 2, 3))
    assert [registry.decide("msinet", each) for each in (first, second)] == [1, 2]
    registry.undecided("msinet", second)
    assert registry.next_decision("msinet") == 2
    registry.add("msinet", model, {**record("msinet-2"), "decided": False}, False, PRETRAINED_VERSION)
    assert registry.next_decision("msinet") == 2
    assert [registry.decide("msinet", each) for each in (third, second)] == [2, 3]


def test_look_and_the_version_that_it_registered_are_one_decision(registry, model):
    for run in (1, 2):
        assert registry.decide("msinet", a_look(run, model / str(run), run - 1)) == run
        content = record(f"msinet-{run}") | {"compared_with": run - 1}
        registry.add("msinet", model, content, True, run - 1)
    assert registry.next_decision("msinet") == 3


def test_versions_of_a_registry_without_a_ledger_count(registry, model):
    assert registry.next_decision("msinet") == 1
    for number, compared_with in enumerate((PRETRAINED_VERSION, 1, 1), 1):
        content = record(f"msinet-{number}") | {"compared_with": compared_with}
        registry.add("msinet", model, content, number == 1, compared_with)
    assert registry.next_decision("msinet") == registry.decide("msinet", a_look(9, model, 1)) == 4


def test_damaged_ledger_is_named_with_a_remedy(registry, model, location):
    registry.decide("msinet", a_look(1, model))
    staging = getattr(registry, "staging", location)
    kept = BucketFiles if staging.startswith("gs://") else FolderFiles
    kept(staging).write("msinet/decisions.json", b"[{}]")
    with refused(ContentError, "decisions.json"):
        registry.decide("msinet", a_look(1, model))
