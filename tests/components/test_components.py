"""The function of each component, on a few tiny images."""

import dataclasses
import inspect
import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import sys
import typing
import urllib.parse

import pytest
from kfp import dsl
from kfp.dsl.types import artifact_types

from components.check_data import check_data
from components.check_run import check_run
from components.collect_training import collect_training
from components.deploy_version import deploy_version
from components.evaluate_model import evaluate_model
from components.fetch_dataset import fetch_dataset
from components.import_model import import_model
from components.plan_training import plan_training
from components.train_model import train_model
from components.upload_model import upload_model
from lifecycle.machines.settings import AcceleratorConfig, JobConfig
from lifecycle.machines.training_job import Outputs
from lifecycle.registry.settings import DataGateConfig
from tests import patches, vertex_endpoints
from tests.narrow import narrow_pretrained, narrowed, quick_trainings, shared_steps
from tests.narrow_tasks import sitecustomize
from tests.refusals import refused
from tests.serving.server import ask, loaded, serving
from tests.tiny import write_salicon
from tests.vertex import LOCATION, PROJECT
from trainer.__main__ import main
from trainer.data import prepared_data
from trainer.data.fetch import fingerprint_data
from trainer.errors import ConflictError, GateError, UnknownNameError, UserError
from trainer.evaluation.settings import EvaluateConfig
from trainer.io import files
from trainer.machine import untrusted
from trainer.models.weight_sources import WeightSource
from trainer.network import model_folder
from trainer.network.model_folder import ModelFolder
from trainer.settings.fields import configs_of
from trainer.training import loop
from trainer.training.accelerators import ACCELERATORS
from trainer.training.settings import TrainConfig

COMPONENTS = {
    component.name: component
    for component in (
        *(check_data, check_run, collect_training, deploy_version, evaluate_model, fetch_dataset),
        *(import_model, plan_training, train_model, upload_model),
    )
}
DATASET = "salicon"
NARROW = [str(pathlib.Path(sitecustomize.__file__).parent), str(pathlib.Path(__file__).parents[2])]
"""Folders that give other processes the narrow network too."""


def artifact(kind, path):
    return kind(name=path.name, uri=str(path), metadata={})


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with narrowed(), narrow_pretrained():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("components")


@pytest.fixture(scope="module")
def source(folder):
    """Fixations move in its validation images, so that any network is better than the centre bias."""
    return write_salicon(folder / "source", train_x=12, valid_x=52)


def fetch(folder, source, digest, test_of=""):
    """The prepared data; it is in `folder` with the preview."""
    data, preview = artifact(dsl.Dataset, folder / "prepared"), artifact(dsl.HTML, folder / "preview")
    place = {"dataset": DATASET, "source": source, "image_size": "32x40", "settings": {"allow_partial_data": True}}
    fetch_dataset.python_func(data, preview, **place, test_of=test_of, fingerprint=digest)
    return data


@pytest.fixture(scope="module")
def prepared(folder, source):
    digest = fingerprint_data(DATASET, source)
    data = fetch(folder, source, digest)
    manifest = prepared_data.Manifest.load(data.path)
    assert manifest.image_size == (32, 40)
    assert data.metadata == {"dataset": DATASET, "fingerprint": digest, **manifest.counts}
    assert "<html" in (folder / "preview").read_text().lower()
    return data


SETTINGS = dataclasses.asdict(TrainConfig(epochs=1, batch_size=2, initial_weights="none"))
START = {"step": "base", "accelerator": "", "checkpoint_dir": "", "initial_weights_fingerprint": ""}


def train(folder, dataset, settings=None, **changes):
    """The model of a base training with these changes; it is in `folder` with the other outputs."""
    outputs = {"model": artifact(dsl.Model, folder / "model"), "curve": artifact(dsl.HTML, folder / "curve")}
    train_model.python_func(settings=SETTINGS | (settings or {}), **START | changes, dataset=dataset, **outputs)
    return outputs["model"]


@pytest.fixture(scope="module")
def model(folder, prepared):
    with shared_steps():
        model = train(folder, prepared, step="finetune", checkpoint_dir=str(folder / "checkpoints"))
    assert (folder / "checkpoints" / "finetune").is_dir()
    assert "<html" in (folder / "curve").read_text().lower()
    return model


def test_data_that_changed_since_its_fingerprint_is_refused(prepared, source, tmp_path):
    with refused(ConflictError, DATASET):
        fetch(tmp_path, source, "another")


def test_data_that_a_run_does_not_need_are_not_fetched(tmp_path):
    data = fetch(tmp_path, str(tmp_path / "nowhere"), "")
    assert not list(pathlib.Path(data.path).iterdir())
    assert "does not need these data" in (tmp_path / "preview").read_text()


def test_initial_weights_that_changed_since_the_plan_are_refused_by_task_and_job(prepared, tmp_path):
    path = tmp_path / "vgg.h5"
    path.write_bytes(b"new")
    start, digest = {"initial_weights": str(path)}, {"initial_weights_fingerprint": "old"}
    with refused(UserError, path, "old"):
        train(tmp_path, prepared, start, **digest)
    (pool,) = planned(tmp_path, prepared, **start, **digest)[0].worker_pool_specs
    with refused(UserError, path, "old"):
        main(["train", *pool["container_spec"]["args"]])


def test_model_is_imported_only_if_it_is_unchanged_since_its_fingerprint(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(NARROW))  # an import has a process of its own
    patches.replace(
        monkeypatch, untrusted, "end_untrusted", lambda: None
    )  # one for both: TensorFlow takes seconds to load
    imported = artifact(dsl.Model, tmp_path / "imported")
    digest = WeightSource(model.path).fingerprint()
    assert import_model.python_func(model.path, DATASET, "32x40", digest, imported) == imported.uri
    assert imported.metadata == {"source": model.path, "fingerprint": digest}
    config = (tmp_path / "imported" / model_folder.MODEL_CONFIG).read_text()
    assert ModelFolder(tmp_path / "imported").training_images() == ModelFolder(model.path).training_images() != {}
    assert json.loads(config) == json.loads(pathlib.Path(model.path, model_folder.MODEL_CONFIG).read_text())
    assert "46 arrays" in capsys.readouterr().out
    with refused(ConflictError, model.path):
        import_model.python_func(model.path, DATASET, "32x40", "other", artifact(dsl.Model, tmp_path / "again"))


def test_retry_in_another_pod_resumes_from_the_checkpoint_outside_of_the_first(
    prepared, tmp_path, monkeypatch, capsys
):
    run, salt = "0b3a7c52-6a5c-4c39-9d5e-1f1b1f4f8a01", "5d6ff1de-9c0b-4c36-8a0c-7d3c7e9b2a02"
    uri = f"minio://mlpipeline/v2/artifacts/msinet/{run}/train-model/{salt}/model"
    volume = tmp_path / "volume"
    arguments = START | {"settings": SETTINGS, "checkpoint_dir": str(volume)}

    def attempt(pod):
        # The launcher of a new pod starts with empty folders; the address of the output stays.
        monkeypatch.setattr(artifact_types, "_MINIO_LOCAL_MOUNT_PREFIX", f"{tmp_path / pod}/")
        model = dsl.Model(name="model", uri=uri)
        curve = artifact(dsl.HTML, tmp_path / f"{pod}.html")
        train_model.python_func(**arguments, dataset=prepared, model=model, curve=curve)
        return model

    synchronize = loop.Loop._synchronize

    def lose_the_node(*given):
        os.kill(os.getpid(), signal.SIGTERM)
        synchronize(*given)

    with quick_trainings():
        with monkeypatch.context() as patch:
            patch.setattr(loop.Loop, "_synchronize", lose_the_node)
            with pytest.raises(SystemExit) as ended:
                attempt("pod-1")
        assert ended.value.code == 143
        assert [path.parent for path in volume.rglob("*.npz")] == [volume / run / "base"]
        model = attempt("pod-2")
    assert "resuming after epoch 0" in capsys.readouterr().out
    assert model.path.startswith(str(tmp_path / "pod-2"))
    assert model.uri == uri
    assert model.metadata["best_epoch"] == 1


def test_fine_tuning_starts_from_the_base_model_and_keeps_checkpoints_next_to_its_output(
    model, prepared, tmp_path
):
    with quick_trainings():
        train(tmp_path, prepared, step="finetune", base_model=model)
    config = json.loads((tmp_path / "model" / model_folder.MODEL_CONFIG).read_text())
    assert config["base_model"]["best_epoch"] == model.metadata["best_epoch"] == 1
    assert (tmp_path / "model.checkpoints").is_dir()


OTHERS = {"evaluate_base": False, "data_warnings": [], "questions": []}


def evaluate(folder, prepared, model, registry, tested=None, **changes):
    outputs = {
        "evaluation": artifact(dsl.Artifact, folder / "evaluation"),
        "metrics": artifact(dsl.Metrics, folder / "metrics"),
        "decision": artifact(dsl.Markdown, folder / "decision.md"),
        "report": artifact(dsl.HTML, folder / "report"),
    }
    others = {name: changes.pop(name, default) for name, default in OTHERS.items()}
    config = {"settings": dataclasses.asdict(EvaluateConfig(**changes)), **others}
    place = {"model_name": "msinet", "registry": str(registry)}
    nothing = tested or artifact(dsl.Dataset, folder / "nothing")
    data = {"base_data": prepared, "finetune_data": prepared, "test_data": nothing}
    evaluate_model.python_func(**config, **place, run="run-1", **data, model=model, **outputs)
    return outputs, place, data


TOLD = {"inputs": "digest", "base_version": "msinet@0", "endpoint": "maps", "platform": "vertex"}


def test_evaluated_model_is_registered_with_its_metrics_and_origin(prepared, model, tmp_path):
    registry = tmp_path / "models"
    outputs, place, data = evaluate(tmp_path, prepared, model, registry, evaluate_base=True, gate="always")
    evaluation = json.loads((tmp_path / "evaluation" / model_folder.EVALUATION).read_text())
    assert list(evaluation["datasets"]) == [DATASET, f"{DATASET}-2"]
    scores = evaluation["datasets"][DATASET]["models"]["candidate"]
    n_images = evaluation["datasets"][DATASET]["n_images"]
    assert outputs["metrics"].metadata.items() >= {**scores, "images": n_images}.items()
    assert (tmp_path / "decision.md").read_text().startswith("# Becomes the default\n")
    assert "<dt>Run</dt><dd>run-1</dd>" in (tmp_path / "report").read_text()

    registered = artifact(dsl.Model, tmp_path / "registered")
    uploaded = upload_model.python_func(
        **place, **data, run="run-1", **TOLD, model=model, evaluation=outputs["evaluation"], registered=registered
    )
    assert uploaded == (1, "default", "maps")
    assert registered.uri == str(tmp_path / "models/msinet/1")
    record = json.loads((tmp_path / "models" / "msinet" / "1" / "assets.extra" / "version.json").read_text())
    assert record["metrics"][DATASET] == evaluation["datasets"][DATASET]["models"]["candidate"]
    assert (record["lineage"]["run"], record["lineage"]["base_version"]) == ("run-1", "msinet@0")
    assert record["lineage"]["data"]["base"]["fingerprint"] == prepared.metadata["fingerprint"]

    again, _, _ = evaluate(tmp_path / "again", prepared, model, tmp_path / "models")
    assert json.loads((tmp_path / "again/evaluation" / model_folder.EVALUATION).read_text())["decision"] == 2
    ledger = json.loads((tmp_path / "models/msinet/decisions.json").read_text())
    looks = [(each["number"], each["run"], each["compared_with"]) for each in ledger]
    assert looks == [(1, "run-1", 0)]  # the second decides nothing: there are too few images
    metrics = again["metrics"].metadata
    assert (metrics["gain_kld"], metrics["default_kld"]) == (0, metrics["kld"])
    assert again["evaluation"].metadata == {"champion": 1, "promote": False}
    left_out = data | {"base_data": artifact(dsl.Dataset, tmp_path / "nothing")}
    registered = artifact(dsl.Model, tmp_path / "registered")
    uploaded = upload_model.python_func(
        **place,
        **left_out,
        run="run-2",
        **TOLD | {"platform": "kubeflow"},
        model=model,
        evaluation=again["evaluation"],
        registered=registered,
    )
    assert uploaded == (2, "challenger", "")
    # Kubeflow's launcher refuses an output outside of the run's folder.
    assert registered.uri == str(tmp_path / "registered")
    assert registered.metadata["resourceName"] == str(tmp_path / "models/msinet/2")
    record = json.loads((tmp_path / "models" / "msinet" / "2" / "assets.extra" / "version.json").read_text())
    assert list(record["lineage"]["data"]) == ["finetune"]


def test_registered_model_is_deployed_once_its_export_gives_the_map_of_its_evaluation(
    prepared, model, tmp_path, vertex, bucket
):
    address = {"endpoint": vertex.environment.endpoint, "staging": f"gs://{bucket.name}/models"}
    address["serving"] = "host/project/images/msinet-serving:1"
    registry = f"vertex://{PROJECT}/{LOCATION}?{urllib.parse.urlencode(address)}"
    users = vertex_endpoints.add(vertex, "maps")
    outputs, place, data = evaluate(tmp_path, prepared, model, registry, gate="always")
    registered = artifact(dsl.Model, tmp_path / "registered")
    version, _, endpoint = upload_model.python_func(
        **place, **data, run="run-1", **TOLD, model=model, evaluation=outputs["evaluation"], registered=registered
    )
    assert re.fullmatch(r"projects/\w+/locations/[\w-]+/models/\d+@1", registered.metadata["resourceName"])
    assert registered.uri.endswith(f"aiplatform.googleapis.com/v1/{registered.metadata['resourceName']}")

    def answer(version, body):
        with serving(loaded(model.path)) as (served, _):
            return ask(served, body)[:2]

    vertex.state["answer"] = answer
    deploy_version.python_func(**place, endpoint=endpoint, traffic=10, version=version)
    assert [deployed["modelVersionId"] for deployed in users["deployedModels"]] == ["1"]


def test_first_model_is_compared_with_pretrained_and_its_data_with_none(prepared, model, tmp_path):
    outputs, place, data = evaluate(
        tmp_path, prepared, model, tmp_path / "models", data_warnings=["<b> is darker."]
    )
    assert outputs["evaluation"].metadata == {"champion": 0, "promote": False}
    said = (tmp_path / "decision.md").read_text()
    assert "Not decided, so the current default, `pretrained`, stays: there are 3 validation images" in said
    assert "&lt;b&gt; is darker." in (tmp_path / "report").read_text()
    report = artifact(dsl.HTML, tmp_path / "data.html")
    gate = dataclasses.asdict(DataGateConfig())
    trainings = {"base_training": SETTINGS, "finetune_training": SETTINGS}
    place |= {"platform": "local", "location": "", "evaluation": {}, **trainings}
    assert check_data.python_func(settings=gate, **place, **data, report=report) == ([], [])
    assert "The current default is <code>pretrained</code>" in pathlib.Path(report.path).read_text()
    with refused(GateError, "min_images", "1,000"):
        check_data.python_func(settings=gate | {"min_images": 1000}, **place, **data, report=report)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"finetune_training": {"batch_size": 32}}, (UserError, "finetune", "batch_size", 32)),
        (
            {"base_training": {}, "finetune_training": {"batch_size": 5, "accumulation": 2}},
            (UserError, "batch_size", 5, 2),
        ),
        ({"evaluation": {"gate": "nss"}}, (UserError, "nss", "fixations")),
    ],
)
def test_training_or_gate_that_does_not_fit_the_data_is_refused_before_any_training(
    prepared, tmp_path, changes, named
):
    nothing = artifact(dsl.Dataset, tmp_path / "nothing")
    inputs = {"base_data": nothing, "finetune_data": prepared, "test_data": nothing, "base_training": {}}
    inputs |= {"platform": "local", "location": "", "settings": {}, "evaluation": {}, "finetune_training": {}}
    inputs |= {"model_name": "msinet", "registry": str(tmp_path / "models"), **changes}
    with refused(*named):
        check_data.python_func(**inputs, report=artifact(dsl.HTML, tmp_path / "data.html"))


def test_model_is_tested_on_a_set_of_its_own_that_decides(prepared, model, tmp_path):
    source = write_salicon(tmp_path / "source", train_x=12, valid_x=52, n_valid=4, seed=1)
    known = pathlib.Path(tmp_path, "source/images/val/val_2.png")
    shutil.copy(write_salicon(tmp_path / "first", 12, 52) + "/images/train/train_4.png", known)
    digest = fingerprint_data(DATASET, source)
    tested = fetch(tmp_path, source, digest, test_of=DATASET)
    assert tested.metadata == {"dataset": DATASET, "fingerprint": digest, "test": 4}
    assert "Test images" in (tmp_path / "preview").read_text()
    outputs, place, data = evaluate(tmp_path, prepared, model, tmp_path / "models", tested, gate_on="test")
    evaluation = json.loads((tmp_path / "evaluation" / model_folder.EVALUATION).read_text())
    assert list(evaluation["datasets"]) == [f"{DATASET}-test", DATASET]
    tests = evaluation["datasets"][f"{DATASET}-test"]
    assert (tests["n_images"], tests["left_out"]) == (3, ["val_2.png"])
    assert outputs["metrics"].metadata.items() >= {**tests["models"]["candidate"], "images": 3}.items()
    assert (
        "1 of the 4 test images of salicon is in the training data, or in a group with images that are, so it is "
        "left out: val_2.png." in (evaluation["reason"])
    )
    registered = artifact(dsl.Model, tmp_path / "registered")
    uploaded = upload_model.python_func(
        **place, **data, run="run-1", **TOLD, model=model, evaluation=outputs["evaluation"], registered=registered
    )
    assert uploaded == (1, "challenger", "")
    record = json.loads((tmp_path / "models" / "msinet" / "1" / "assets.extra" / "version.json").read_text())
    assert record["lineage"]["data"]["test"]["counts"] == {"test": 4}
    assert record["decided_on"] == f"{DATASET}-test"


def planned(folder, prepared, **changes):
    """The outputs of plan_training for a job on Vertex AI, and its artifacts."""
    workspace, plan = artifact(dsl.Artifact, folder / "workspace"), artifact(dsl.Markdown, folder / "plan")
    where = {"platform": "vertex", "location": "us-central1", "image_pattern": "host/msinet-{}:v1"}
    job = dataclasses.asdict(JobConfig(timeout_hours=2.5, training_labels="team=vision"))
    settings = job | dataclasses.asdict(AcceleratorConfig()) | SETTINGS
    start = {name: value for name, value in START.items() if name not in settings}
    settings |= {name: value for name, value in changes.items() if name in settings}
    others = where | start | {name: value for name, value in changes.items() if name not in settings}
    outputs = plan_training.python_func(
        settings=settings, **others, dataset=prepared, workspace=workspace, plan=plan
    )
    return outputs, workspace, plan


def test_job_of_a_plan_trains_and_its_model_is_collected_without_a_copy(tmp_path, prepared, monkeypatch):
    outputs, workspace, plan = planned(tmp_path, prepared)
    (pool,) = outputs.worker_pool_specs
    assert pool["machine_spec"] == ACCELERATORS["cpu"].machine_spec
    assert pool["container_spec"]["image_uri"] == "host/msinet-cpu:v1"
    assert (outputs.timeout, outputs.labels, outputs.job_dir) == (
        "9000s",
        {"team": "vision"},
        workspace.uri,
    )
    assert "# Training on cpu" in pathlib.Path(plan.path).read_text()

    container = pool["container_spec"]
    python, option, module, *command = container["command"]
    assert (python, option) == ("python", "-m")
    monkeypatch.setattr(sys, "argv", [module, *command, *container["args"]])
    monkeypatch.delitem(sys.modules, f"{module}.__main__")
    with quick_trainings():
        runpy.run_module(module, run_name="__main__")
    model, curve = artifact(dsl.Model, tmp_path / "elsewhere"), artifact(dsl.HTML, tmp_path / "curve")
    uri = collect_training.python_func("projects/1/customJobs/2", workspace, model, curve)
    assert uri == model.uri == f"{workspace.path}/model"
    assert list(pathlib.Path(workspace.path, "model.checkpoints").glob("*.npz"))
    assert files.read_json(pathlib.Path(model.uri) / model_folder.MODEL_CONFIG, "", dict)["dataset"] == DATASET
    assert model.metadata["best_epoch"] == 1
    assert "<html" in pathlib.Path(curve.path).read_text().lower()


def test_plan_of_a_local_run_leaves_batch_memory_and_precision_to_its_devices(tmp_path, prepared, capsys):
    """A GPU on this machine may have float16 and another memory size than the CPU's row."""
    local = {"platform": "local", "location": "", "precision": "float16"}
    outputs, *_ = planned(tmp_path, prepared, **local, batch_size=0)
    assert outputs == Outputs(settings=SETTINGS | {"precision": "float16", "batch_size": 0})
    assert "on this machine: the default batch" in capsys.readouterr().out
    planned(tmp_path / "given", prepared, **local, batch_size=4, accumulation=2)
    assert "on this machine: 1 steps per epoch of batch 4" in capsys.readouterr().out
    for changes in ({"batch_size": 7}, {"batch_size": 3, "accumulation": 2}):
        with refused(UserError, *changes, *changes.values()):
            planned(tmp_path / "refused", prepared, **local | changes)
    assert not (tmp_path / "refused").exists()


def test_outputs_of_the_plan_are_those_of_its_component():
    """Kfp reads them from the source of the component, so they stand there too."""
    declared = inspect.signature(plan_training.python_func).return_annotation.__annotations__
    expected = typing.get_type_hints(Outputs)
    assert declared == {name: typing.get_origin(kind) or kind for name, kind in expected.items()}
    assert list(declared) == list(expected)


@pytest.mark.parametrize("kind", [int, float])
def test_settings_have_the_types_of_their_fields_after_their_way_through_json(kind):
    """kfp.local makes each integer a float; Kubeflow writes each float without a fraction as an integer."""
    config = TrainConfig(recipe="best", epochs=3, warmup_epochs=2.0, learning_rate=3e-4, initial_weights='a "b\\')
    sent = {
        name: kind(value) if type(value) in (int, float) and value == int(value) else value
        for name, value in dataclasses.asdict(config).items()
    }
    (received,) = configs_of(json.loads(json.dumps(sent)), TrainConfig)
    assert received == config
    assert {type(value) for value in vars(received).values()} == {str, int, float, bool}
    assert all(type(getattr(received, field.name)) is field.type for field in dataclasses.fields(config))
    with refused(UnknownNameError, "epoch", "epochs"):
        configs_of({"epoch": 3}, TrainConfig)
