"""What is checked before anything is fetched: the same by `submit`, a local run, and the first task of any run."""

import dataclasses
import inspect
import json
import pathlib
import typing
from typing import Any

import pytest
import yaml
from google.protobuf import json_format

from components.check_run import check_run
from lifecycle.machines.settings import Target
from lifecycle.runs import preflight
from lifecycle.runs.parameters import (
    CONSOLE_FIELDS,
    DEFAULTS,
    PARAMETERS,
    Values,
    parameter_name,
)
from pipeline.__main__ import main
from pipeline.graph.compiled import Template, write_pipeline
from pipeline.graph.dag import build_pipeline
from pipeline.graph.environment import REQUIRED_KEYS, Environment, load_environment
from pipeline.local.run_folder import prepare_run
from pipeline.vertex import schedule_files
from pipeline.vertex.submit import Submission
from tests import patches
from tests.refusals import assert_named, refused
from tests.vertex import ELSEWHERE
from trainer.data import fetch
from trainer.data.settings import FetchConfig
from trainer.errors import MistakesError, NotFoundError, PlaceError, SettingError, UnknownNameError, UserError
from trainer.evaluation import version_record
from trainer.machine import package_version, runtime

ROOT = pathlib.Path(__file__).parents[3]
LOCAL = Target("local", "", "msinet-{}")
SAMPLE = {"base_source": "sample", "finetune_source": "sample", "initial_weights": "none"}
PRETRAINED = {"base_model_uri": "pretrained", "finetune_source": "sample"}
WRONG: list[dict[str, Any]] = [
    *({f"{step}_dataset": name} for step in ("base", "finetune", "test") for name in ("salicn", "x", "SALICON")),
    *(
        {f"{step}_image_size": text}
        for step in ("base", "finetune")
        for text in ("100x100", "240", "0x8", "8x8192")
    ),
    *({f"{step}_epochs": number} for step in ("base", "finetune") for number in (0, -1)),
    *({f"{step}_batch_size": -number} for step in ("base", "finetune") for number in (1, 2)),
    *({f"{step}_learning_rate": rate} for step in ("base", "finetune") for rate in (0.0, -1.0, float("inf"))),
    *({f"{step}_workers": number} for step in ("base", "finetune") for number in (0, -3)),
    *({f"{step}_accelerator": name} for step in ("base", "finetune") for name in ("l5", "v5e", "tpu")),
    *({"accelerator": name} for name in ("L4", "l4-3", "v5e4", "gpu", "h200")),
    *({"provisioning": name} for name in ("Spot", "preemptible", "flex")),
    *({"gate": name} for name in ("kdl", "KLD", "auc", "sometimes")),
    *({"gate_on": name} for name in ("base", "validation", "test")),
    *({"gate_margin": number} for number in (-0.1, float("nan"))),
    *({"gate_confidence": number} for number in (1.0, -0.5, 95.0)),
    *({"recipe": name} for name in ("smal", "fast")),
    *({"recipe": "small", name: value} for name, value in (("base_epochs", 10), ("flip", False), ("patience", 9))),
    *({parameter_name("schedule", "base"): name} for name in ("cosin", "linear")),
    *({"precision": name} for name in ("float64", "fp16")),
    *({"accumulation": number} for number in (0, -4)),
    *({"patience": -number} for number in (1, 2)),
    *({"test_share": number} for number in (1.0, -0.1)),
    {"test_source": "gs://b/osie"},
    {"test_dataset": "fixationadd1000", "test_source": "sample"},
    *({"columns": text} for text in ("x=a", "image", "pupil=p")),
    *({"coordinates": text} for text in ("degrees", "px")),
    *({"screen_size": text} for text in ("1080", "0x5")),
    {"blur_px": 3.0},
    {"split": "random"},
    *({"max_bad_share": number} for number in (1.0, -0.01)),
    *({"data_gate": name} for name in ("strong", "off")),
    *({"min_images": -1}, {"min_observers": -1}, {"max_examples": -1}),
    *({"model_name": name} for name in ("../mine", "", "a b")),
    *({"registry": place} for place in ("s3://bucket/models", "gs:///models", "vertex://p")),
    {"checkpoint_dir": "s3://b/c"},
    *({"traffic": number} for number in (0, 101)),
    *({"training_labels": text} for text in ("team=Vision Lab", "team")),
    {"tensorboard": "projects/p"},
    {"training_service_account": "me"},
    {"profile_steps": "5-3"},
    {"checkpoint_minutes": -1.0},
    {"finetune_dataset": "custom"},
]
"""Parameters that no target accepts; each has one mistake, in one or both trainings."""


def first_task(values, target=LOCAL):
    fields = Values({**{name: DEFAULTS[name] for name in CONSOLE_FIELDS}, **values}).form
    return preflight.check_run({"settings": {}, **fields}, {}, target)


def message(call, *arguments):
    with refused(UserError) as caught:
        call(*arguments)
    return str(caught.value)


def test_a_hundred_wrong_parameters_are_refused_in_the_same_words_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vertex = load_environment("vertex")
    assert len(WRONG) >= 100
    for wrong in WRONG:
        values = {**SAMPLE, **wrong}
        (name, *_) = reversed(wrong)
        known = name, PARAMETERS[name].field, str(wrong[name])
        told = {
            "first task": message(first_task, values),
            "local run": message(prepare_run, "local", "run", "", values),
            "submit": message(Submission.prepare, vertex, {"accelerator": "cpu", "base_model_uri": "", **values}),
        }
        local = name in ("accelerator", "base_accelerator", "finetune_accelerator", "profile_steps")
        assert told["first task"] == told["local run"], wrong
        # Machines on Vertex AI reach fewer places, which may be one more mistake.
        assert told["first task"] in told["submit"] or local, (wrong, told)
        assert all(any(each in text for each in known) for text in told.values()), (wrong, told)


# === Parameters of a base training that a run does not have ===

REPLACED: list[dict[str, Any]] = [
    {"base_dataset": "osie"},
    {"base_source": "gs://bucket/salicon"},
    {"base_image_size": "72x96"},
    {"base_batch_size": 4},
    {"base_epochs": 3},
    {"base_accelerator": "cpu"},
    {"initial_weights": "none"},
    {"base_source": "sample", "base_learning_rate": 1e-4},
]


def write_environment(folder, target, **parameters):
    """A file of an environment whose runs fine-tune `pretrained`; its path."""
    places = dict.fromkeys(REQUIRED_KEYS[target], "x") | {"location": "us-central1", "bucket": "gs://b"}
    keys = {"target": target, **{name: places[name] for name in REQUIRED_KEYS[target]}}
    tables = (keys, {**PRETRAINED, **parameters})
    texts = ["\n".join(f"{name} = {json.dumps(value)}" for name, value in table.items()) for table in tables]
    path = folder / f"{target}.toml"
    path.write_text("\n[parameters]\n".join(texts))
    return str(path)


def console(environment, **filled):
    """Start a run of the environment's compiled pipeline with these parameters filled into its form."""
    template = Template(json_format.MessageToDict(build_pipeline(environment).pipeline_spec))
    form = {name: value for name, value in template.defaults().items() if name in (*CONSOLE_FIELDS, "settings")}
    return preflight.check_run({**form, **Values(filled).form}, template.compiled(), LOCAL)


@pytest.fixture
def ways(tmp_path, monkeypatch):
    """Ways to start a run whose environment has a model in place of base training -> functions of parameters."""
    monkeypatch.chdir(tmp_path)
    vertex = load_environment(write_environment(tmp_path, "vertex", base_batch_size=0))
    local = write_environment(tmp_path, "local", base_batch_size=0)

    def schedule(parameters):
        lines = [f"{name} = {json.dumps(value)}" for name, value in parameters.items()]
        pathlib.Path("schedules").mkdir(exist_ok=True)
        pathlib.Path("schedules/weekly.toml").write_text("\n".join(['cron = "0 3 * * 1"', "[parameters]", *lines]))
        return schedule_files.read_schedules(vertex, pathlib.Path("schedules"))

    return {
        "console": lambda given: console(load_environment(local), **given),
        "local run": lambda given: prepare_run(local, "run", "", given),
        "submit": lambda given: Submission.prepare(vertex, given),
        "schedule file": schedule,
    }


@pytest.mark.parametrize("given", REPLACED, ids=lambda given: "-".join(given))
def test_parameter_of_base_training_beside_a_base_model_is_refused_in_the_same_words_everywhere(ways, given):
    told = {way: message(start, given).removeprefix("schedules/weekly.toml: ") for way, start in ways.items()}
    assert len(set(told.values())) == 1, list(told.items())
    assert_named(told["console"], *given, "base_model_uri=pretrained")


def test_parameter_of_base_training_is_taken_where_it_has_an_effect(ways, tmp_path):
    for way, start in ways.items():
        start({})
        start({"evaluate_base": True, "base_dataset": "osie", "base_source": "sample"})
        start({"base_model_uri": "", "base_source": "sample", "base_epochs": 3})
        if way != "console":  # which sends all fields of its form
            assert_named(message(start, {"base_dataset": "salicon"}), "base_dataset", "base_model_uri=pretrained")
    weights = tmp_path / "weights.h5"
    weights.write_bytes(b"")
    described = {"base_model_uri": str(weights), "base_dataset": "osie", "base_image_size": "72x96"}
    assert ways["local run"](described).parameters["base_dataset"] == "osie"


def test_what_submit_sends_is_accepted_by_the_first_task_of_another_environments_template(tmp_path):
    """An environment's parameters of base training, without effect, are not sent as if a person had given them."""
    compiled = load_environment(write_environment(tmp_path, "vertex"))
    write_pipeline(compiled, tmp_path / "template.yaml")
    other = load_environment(write_environment(tmp_path, "vertex", base_batch_size=8, base_epochs=2))
    job = Submission.prepare(other, {"finetune_epochs": 3}, str(tmp_path / "template.yaml")).job
    outputs = console(compiled, **Values.of_form(job["runtimeConfig"]["parameterValues"]))
    assert outputs.finetune_training["epochs"] == 3


def test_recipe_in_place_of_an_environments_settings_is_accepted_by_the_first_task(tmp_path):
    environment = load_environment(write_environment(tmp_path, "vertex", finetune_epochs=5, finetune_source=""))
    job = Submission.prepare(environment, {"recipe": "best"}).job
    local = dataclasses.replace(environment, target="local")
    with refused(UserError, "finetune_epochs", "recipe"):
        console(local, recipe="best", finetune_source="sample")
    sent = Values.of_form(job["runtimeConfig"]["parameterValues"]) | {"finetune_source": "sample"}
    assert console(local, **sent).finetune_training["recipe"] == "best"


def test_local_run_hands_its_first_task_no_parameter_without_effect(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = prepare_run("sample", "run", "", {"base_model_uri": "pretrained"})
    outputs = console(Environment("local"), **run.parameters.effective)
    assert outputs.base_model == "pretrained"
    assert outputs.base_digest  # evaluate_base


@pytest.mark.parametrize(
    ("own", "accelerator", "said"), [(True, "v5e-4", True), (True, "l4", False), (False, "v5e-4", False)]
)
def test_first_task_on_kubeflow_says_that_root_of_its_pods_is_nobody_to_a_tpu(
    own, accelerator, said, tmp_path, monkeypatch, capsys
):
    patches.replace(monkeypatch, runtime, "has_own_users", lambda: own)
    places = {"registry": "gs://bucket/models", "checkpoint_dir": "gs://bucket/checkpoints"}
    monkeypatch.setattr(preflight, "check_writable", lambda address: None)
    monkeypatch.setattr(preflight, "check_shared", lambda *address: None)
    values = {**PRETRAINED, **places, "accelerator": accelerator, "finetune_batch_size": 0}
    first_task(values, Target("kubeflow", "", "msinet-{}"))
    out = capsys.readouterr().out
    assert ("hostUsers" in out and accelerator in out) == said


def test_all_mistakes_are_in_one_list(tmp_path):
    wrong = {
        "gate": "kdl",
        "finetune_epochs": 0,
        "finetune_batch_size": -1,
        "precision": "float64",
        "model_name": "/",
    }
    with refused(MistakesError) as caught:
        first_task({**SAMPLE, **wrong, "finetune_source": str(tmp_path / "nowhere")})
    lines = caught.value.lines
    for name in ("gate is 'kdl'", "epochs is 0", "batch_size is -1", "precision is", "model_name is", "nowhere"):
        assert sum(name in line for line in lines) == 1, name
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"settings": {"finetune_epoch": 3}}, (UnknownNameError, "finetune_epoch", "finetune_epochs")),
        ({"settings": {"gate": "cc"}}, (SettingError, "settings", "gate")),
        ({"settings": {"finetune_epochs": "many"}}, (SettingError, "finetune_epochs", "many")),
    ],
)
def test_mistake_in_the_settings_of_the_form_is_named(changes, named):
    arguments = {name: DEFAULTS[name] for name in CONSOLE_FIELDS} | SAMPLE
    arguments = {name: value for name, value in arguments.items() if name in CONSOLE_FIELDS} | changes
    with refused(*named):
        preflight.check_run(arguments, {}, LOCAL)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        *((settings, (SettingError, "settings")) for settings in ([1], True, float("nan"), "x", 7)),
        ({1: 2}, (UnknownNameError, 1)),
        ({"finetune_epochs": {}}, (SettingError, "finetune_epochs")),
    ],
    ids=repr,
)
def test_settings_that_are_no_object_of_parameters_are_a_users_mistake(settings, named, tmp_path):
    arguments = {name: DEFAULTS[name] for name in CONSOLE_FIELDS} | SAMPLE | {"settings": settings}
    arguments = {name: value for name, value in arguments.items() if name in (*CONSOLE_FIELDS, "settings")}
    with refused(*named):
        preflight.check_run(arguments, {}, LOCAL)
    (spec, *_) = yaml.safe_load_all((ROOT / "pipeline.yaml").read_text())
    spec["root"]["inputDefinitions"]["parameters"]["settings"]["defaultValue"] = settings
    template = tmp_path / "template.yaml"
    template.write_text(yaml.safe_dump(spec))
    with refused(*named):
        Submission.prepare(load_environment("vertex"), {}, str(template))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("test_share", 10**400),
        ("gate_margin", "1" + 400 * "0" + "."),
        ("finetune_epochs", 10**30),
        ("finetune_epochs", "9" * 5000),
        ("seed", 2**64),
        ("seed", 1e300),
        ("finetune_epochs", [3]),
        ("gate", {"cc": 1}),
        ("test_share", True),
    ],
    ids=lambda value: str(value)[:20],
)
def test_value_of_another_type_or_too_large_for_it_is_named_on_every_way(name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toml = json.dumps(value).replace(": ", " = ")
    pathlib.Path("schedules").mkdir()
    pathlib.Path("schedules/weekly.toml").write_text(f'cron = "0 3 * * 1"\n[parameters]\n{name} = {toml}\n')
    pathlib.Path("mine.toml").write_text(f'target = "local"\n[parameters]\n{name} = {toml}\n')
    ways = {
        "first task": (first_task, {name: value}),
        "environment": (main, ["run", "--env", "mine.toml"]),
        "schedule file": (main, ["schedule", "apply", "--env", "vertex", "--folder", "schedules"]),
        "command line": (main, ["run", f"{name}={value}"]),
    }
    for way, (call, given) in ways.items():
        assert name in message(call, given), way


def test_integer_that_python_writes_only_in_hexadecimal_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("mine.toml").write_text(f'target = "local"\n[parameters]\nseed = 0x{"f" * 9000}\n')
    with refused(SettingError, "seed"):
        main(["run", "--env", "mine.toml"])


def test_fields_and_settings_are_all_parameters_again():
    values = {**DEFAULTS, "finetune_epochs": 3, "gate": "cc"}
    arguments = Values(values).form
    assert set(arguments) == {*CONSOLE_FIELDS, "settings"}
    assert Values.of_form(arguments) == values


def test_outputs_of_the_first_task_are_those_of_its_component():
    """Kfp reads them from the source of the component, so they stand there too."""
    declared = inspect.signature(check_run.python_func).return_annotation.__annotations__
    expected = typing.get_type_hints(preflight.CheckedRun)
    assert declared == {name: typing.get_origin(kind) or kind for name, kind in expected.items()}
    assert list(declared) == list(expected)
    inputs = inspect.signature(check_run.python_func).parameters
    fields = [name for name in inputs if name in (*CONSOLE_FIELDS, "settings")]
    assert fields == [*CONSOLE_FIELDS, "settings"]


def test_first_task_reads_what_the_run_needs_and_nothing_else(tmp_path, monkeypatch):
    read = []
    patches.replace(
        monkeypatch, fetch, "fingerprint_data", lambda dataset, *place: read.append(dataset) or f"of {dataset}"
    )
    outputs = first_task({**PRETRAINED, "finetune_epochs": 3})
    assert read == ["fixationadd1000"]
    assert (outputs.base_digest, outputs.finetune_digest, outputs.test_digest) == ("", "of fixationadd1000", "")
    assert outputs.base_model == "pretrained"
    assert outputs.base_model_digest
    assert not outputs.weights_digest
    assert outputs.finetune_training["epochs"] == 3
    assert outputs.data["max_bad_share"] == FetchConfig().max_bad_share
    weights = tmp_path / "vgg.h5"
    weights.write_bytes(b"weights")
    outputs = first_task(
        {**SAMPLE, "initial_weights": str(weights), "test_dataset": "osie", "test_source": "sample"}
    )
    assert read[1:] == ["salicon", "fixationadd1000", "osie"]
    assert outputs.weights_digest
    assert not outputs.base_model_digest


def test_every_setting_that_a_model_depends_on_decides_whether_there_is_anything_new(monkeypatch):
    patches.replace(monkeypatch, package_version, "code_version", lambda: "1.0+abc")
    digest = preflight.digest_of_run(DEFAULTS, "data")
    for name, parameter in PARAMETERS.items():
        changed = preflight.digest_of_run({**DEFAULTS, name: "another"}, "data") != digest
        is_place = parameter.field in ("source", "test_source")
        assert changed == (parameter.config in preflight.MODEL_CONFIGS and not is_place), name
    assert preflight.digest_of_run(DEFAULTS, "other data") != digest
    for unknown in ("1.0+abc-dirty", "1.0"):
        patches.replace(monkeypatch, package_version, "code_version", lambda: unknown)  # noqa: B023
        assert preflight.digest_of_run(DEFAULTS, "data") == version_record.Lineage.UNKNOWN


# === Places ===


def test_checkpoints_can_be_written_and_nothing_is_left(tmp_path, bucket):
    for address in (str(tmp_path / "checkpoints"), f"gs://{bucket.name}/checkpoints"):
        preflight.check_writable(address)
    assert list((tmp_path / "checkpoints").iterdir()) == list(bucket.list_blobs()) == []
    (tmp_path / "file").write_text("")
    for address in (str(tmp_path / "file"), "gs://nobody/state"):
        with refused(PlaceError, "checkpoint_dir", address):
            preflight.check_writable(address)


def test_image_that_is_not_there_is_named_before_anything_is_fetched(vertex, bucket):
    served = vertex.environment.image_of("serving")
    place = f"vertex://proj/us-central1?endpoint={vertex.environment.endpoint}&serving={served}"
    values = {**PRETRAINED, "registry": place}
    target = Target("vertex", "us-central1", "us-docker.pkg.dev/proj/other/msinet-{}:v9")
    with refused(NotFoundError, "us-docker.pkg.dev/proj/other/msinet-cpu:v9"):
        first_task(values, target)
    known = dataclasses.replace(target, image_pattern=vertex.environment.image_of("{}"))
    assert first_task(values, known).Output


def test_run_joins_the_experiment_that_is_named(vertex):
    served = vertex.environment.image_of("serving")
    place = f"vertex://proj/us-central1?endpoint={vertex.environment.endpoint}&serving={served}"
    values = {**PRETRAINED, "registry": place, "experiment": "photographs"}
    target = Target("vertex", "us-central1", vertex.environment.image_of("{}"))
    for run in ("first", "second"):
        fields = Values({**{name: DEFAULTS[name] for name in CONSOLE_FIELDS}, **values}).form
        here = preflight.check_run(fields, {}, target, run)
    (experiment,) = [each for each in vertex.kept("contexts").values() if each.get("schemaTitle")]
    assert experiment["schemaTitle"] == "system.Experiment"
    children = [name.rpartition("/")[2] for name in experiment["children"]]
    assert children == ["first", "second"]
    assert not vertex.sent("POST", f"/{ELSEWHERE}/")
    there = preflight.check_run(fields, {}, dataclasses.replace(target, location=ELSEWHERE), "third")
    assert there.Output == here.Output  # so that a later run finds the model of either region
    # A run is known to the metadata of its region alone.
    added = vertex.sent("POST", ":addContextChildren")[-1]
    assert f"/{ELSEWHERE}/" in added.path
    assert all(f"/{ELSEWHERE}/" in name for name in added.body["childContexts"])
    with refused(SettingError, "experiment", "photographs", "registry", "models"):
        first_task({**values, "registry": ""})
