"""Settings reach the training equally on every target: really compiled, planned and parsed, but not trained."""

import dataclasses
import inspect
import types

import pytest
from google.protobuf import json_format
from kfp import dsl

from components.plan_training import plan_training
from components.train_model import train_model
from lifecycle.runs.parameters import parameter_name
from lifecycle.runs.settled import settle
from pipeline.graph.dag import build_pipeline
from pipeline.graph.environment import TARGET_NAMES, load_environment
from tests.prepared import write_prepared
from trainer import __main__ as trainer
from trainer.data.prepared_data import Manifest
from trainer.training import step, train
from trainer.training.accelerators import ACCELERATORS
from trainer.training.settings import TrainConfig
from trainer.training.strategy import Cluster, Devices
from trainer.training.train import Job

OTHER = TrainConfig(
    recipe="best",
    epochs=3,
    batch_size=16,
    accumulation=2,
    learning_rate=3e-4,
    learning_rate_scaling="sqrt",
    warmup_epochs=0.5,
    schedule="cosine",
    flip=True,
    flip_prediction=True,
    calibrate=False,
    patience=2,
    seed=7,
    precision="float32",
    initial_weights="none",
    checkpoint_minutes=2.5,
    deterministic=False,
    profile_steps="3-5",
)
"""For each setting a value other than its default."""
PLACES = {"registry": "gs://bucket/models", "checkpoint_dir": "gs://bucket/state", "finetune_batch_size": 0}
"""Parameters of the run beside those of base training."""
VERTEX_ONLY = ("profile_steps",)
"""Settings that the other targets refuse."""


class ReachedError(Exception):
    """Raised instead of training, with the arguments of the call."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared", n_train=300, n_valid=1)


@pytest.fixture(scope="module")
def pipelines():
    specs = {target: build_pipeline(load_environment(target)).pipeline_spec for target in TARGET_NAMES}
    return {target: json_format.MessageToDict(spec) for target, spec in specs.items()}


def arguments(pipeline, name, values, planned=None):
    """The arguments of the compiled task `name`: constants, and outputs of the first task and of the plan."""
    dags = [
        pipeline["root"]["dag"],
        *(entry["dag"] for entry in pipeline["components"].values() if "dag" in entry),
    ]
    task = next(dag["tasks"][name] for dag in dags if name in dag["tasks"])
    values_by_argument = {}
    for argument, source in task["inputs"]["parameters"].items():
        if output := source.get("taskOutputParameter"):
            values_by_argument[argument] = getattr(planned, output["outputParameterKey"])
        elif parameter := source.get("componentInputParameter"):
            values_by_argument[argument] = values[parameter.removeprefix("pipelinechannel--check-run-")]
        else:
            values_by_argument[argument] = source["runtimeValue"]["constant"]
    return values_by_argument


@pytest.fixture
def reached(pipelines, data, tmp_path, monkeypatch):
    """Function: target -> settings and accelerator that base training is called with, and the text of the plan."""

    def stop(config, *places, accelerator, **others):
        raise ReachedError(config, accelerator)

    def artifact(target, name):
        return dsl.Artifact(uri=str(tmp_path / target / name))

    def start(target, values):
        (tmp_path / target).mkdir()
        inputs = {"dataset": dsl.Dataset(uri=str(data))}
        plan = {name: artifact(target, name) for name in ("workspace", "plan")}
        task = arguments(pipelines[target], "plan-training", values)
        planned = plan_training.python_func(**task, **inputs, **plan)
        if target == "vertex":
            container = planned.worker_pool_specs[0]["container_spec"]
            trainer.main([*container["command"], *container["args"]][3:])
        outputs = {name: artifact(target, name) for name in ("model", "curve")}
        task = arguments(pipelines[target], "train-model", values, planned)
        names = inspect.signature(train_model.python_func).parameters  # the others select the node on Kubeflow
        own = {name: value for name, value in task.items() if name in names}
        train_model.python_func(**own, **inputs, **outputs)

    def run(target, accelerator, changes):
        here = {} if target == "local" else {"accelerator": accelerator}
        changed = {parameter_name(name, "base"): value for name, value in changes.items()}
        values = {**PLACES, **here, **changed}
        settled = settle(values, target, load_environment(target).location)
        outputs = {
            "base_training": settled.trainings["base"].by_name(),
            "checkpoint_dir": "",
            "weights_digest": "",
        }
        with pytest.raises(ReachedError) as reached:
            start(target, outputs)
        return *reached.value.args, (tmp_path / target / "plan").read_text()

    monkeypatch.setattr(train, "train", stop)
    return run


def resolved(config, named, accelerator, data):
    """The settings as `train` resolves them on the devices of `accelerator`, whose name `named` may be empty."""
    row = ACCELERATORS[accelerator]
    chips = types.SimpleNamespace(num_replicas_in_sync=row.chips)
    devices = Devices(chips, row.image, row.chip if named else None, Cluster({"worker": ["localhost"]}))
    precision = row.chip.precision if config.precision == "auto" else config.precision
    config = dataclasses.replace(config, precision=precision)
    return Job.resolve(config, Manifest.load(data), devices, named).config


def test_other_settings_are_all_of_them():
    for field in dataclasses.fields(TrainConfig):
        assert getattr(OTHER, field.name) != field.default


@pytest.mark.parametrize("named", ["all but the recipe", "recipe"])
def test_every_setting_reaches_the_training_equally_on_every_target(reached, data, named):
    others = {name: value for name, value in vars(OTHER).items() if name not in (*VERTEX_ONLY, "recipe")}
    changes = {"recipe": OTHER.recipe} if named == "recipe" else others
    calls = {target: reached(target, "l4", changes)[:2] for target in TARGET_NAMES}
    assert [accelerator for _, accelerator in calls.values()] == ["", "l4", "l4"]
    given = TrainConfig(**changes).with_recipe(fine_tuning=False)
    precision = "bfloat16" if given.precision == "auto" else given.precision
    planned = dataclasses.replace(given, precision=precision)
    assert [config for config, _ in calls.values()] == [given, planned, planned]
    trained = [resolved(config, accelerator, "l4", data) for config, accelerator in calls.values()]
    assert trained == [planned] * len(TARGET_NAMES)


@pytest.mark.parametrize("target", ["vertex", "kubeflow"])
def test_job_gets_one_accelerator_of_several(reached, target):
    _, accelerator, text = reached(target, "v5e-1, l4", {})
    assert accelerator == "v5e-1"
    assert text.startswith("# Training on v5e-1\n")


@pytest.mark.parametrize("target", ["vertex", "kubeflow"])
def test_accelerator_of_one_training_overrides_that_of_both(reached, target):
    _, named, plan = reached(target, "t4", {"batch_size": 8, "base_accelerator": "l4"})
    assert named == "l4"
    assert plan.startswith("# Training on l4")


@pytest.mark.parametrize(
    ("accelerator", "accumulation", "batch_size", "rate"),
    [
        ("cpu", 1, 1, 1e-5),
        ("cpu", 4, 4, 4e-5),
        ("l4", 1, 32, 3.2e-4),
        ("l4", 2, 64, 6.4e-4),
        ("l4-2", 1, 64, 6.4e-4),
        ("v5e-4", 2, 256, 1.28e-3),
    ],
)
def test_default_batch_and_its_learning_rate_are_those_of_the_plan_on_every_target(
    reached, data, accelerator, accumulation, batch_size, rate
):
    for target in TARGET_NAMES:
        changes = {"batch_size": 0, "accumulation": accumulation}
        config, named, plan = reached(target, accelerator, changes)
        assert config.batch_size == (0 if target == "local" else batch_size)
        trained = resolved(config, named, accelerator, data)
        assert (trained.batch_size, step.peak_learning_rate(trained)) == (batch_size, pytest.approx(rate))
        assert target == "local" or f"| Batch | {batch_size} images per step" in plan
