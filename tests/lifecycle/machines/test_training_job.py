"""What Vertex AI and Kubeflow receive of a plan, as the real launcher sends it, and where a step keeps things."""

import dataclasses
import json

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.protobuf import json_format

from lifecycle.machines.gke_pods import Pod
from lifecycle.machines.plan import DataSize, make_plan
from lifecycle.machines.settings import AcceleratorConfig, JobConfig, Target, TrainingSettings, parse_labels
from lifecycle.machines.training_job import checkpoint_folder, fit_to_data
from tests.prepared import manifest_of
from tests.refusals import refused
from tests.vertex import LOCATION, PROJECT
from trainer.errors import SettingError
from trainer.training.accelerators import ACCELERATORS
from trainer.training.settings import TrainConfig

IMAGE = "us-central1-docker.pkg.dev/proj/msinet/msinet-gpu:v1"
COMMAND = ["python", "-m", "trainer", "train"]
RUN, SALT = "0b3a7c52-6a5c-4c39-9d5e-1f1b1f4f8a01", "5d6ff1de-9c0b-4c36-8a0c-7d3c7e9b2a02"
SETTINGS = json.dumps(dataclasses.asdict(TrainConfig(initial_weights='a "b\\.h5', learning_rate=3e-4)))
ARGS = ["--base-model=", f"--settings={SETTINGS}"]

DOCUMENTED = {
    "cpu": ("n1-standard-16", "", 0),
    "t4": ("n1-standard-8", "NVIDIA_TESLA_T4", 1),
    "t4-2": ("n1-standard-16", "NVIDIA_TESLA_T4", 2),
    "t4-4": ("n1-standard-32", "NVIDIA_TESLA_T4", 4),
    "v100": ("n1-standard-8", "NVIDIA_TESLA_V100", 1),
    "v100-2": ("n1-standard-16", "NVIDIA_TESLA_V100", 2),
    "v100-4": ("n1-standard-32", "NVIDIA_TESLA_V100", 4),
    "v100-8": ("n1-standard-64", "NVIDIA_TESLA_V100", 8),
    "l4": ("g2-standard-8", "NVIDIA_L4", 1),
    "l4-2": ("g2-standard-24", "NVIDIA_L4", 2),
    "l4-4": ("g2-standard-48", "NVIDIA_L4", 4),
    "l4-8": ("g2-standard-96", "NVIDIA_L4", 8),
    "a100": ("a2-highgpu-1g", "NVIDIA_TESLA_A100", 1),
    "a100-2": ("a2-highgpu-2g", "NVIDIA_TESLA_A100", 2),
    "a100-4": ("a2-highgpu-4g", "NVIDIA_TESLA_A100", 4),
    "a100-8": ("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),
    "a100-80gb": ("a2-ultragpu-1g", "NVIDIA_A100_80GB", 1),
    "a100-80gb-2": ("a2-ultragpu-2g", "NVIDIA_A100_80GB", 2),
    "a100-80gb-4": ("a2-ultragpu-4g", "NVIDIA_A100_80GB", 4),
    "a100-80gb-8": ("a2-ultragpu-8g", "NVIDIA_A100_80GB", 8),
    "h100": ("a3-highgpu-1g", "NVIDIA_H100_80GB", 1),
    "h100-2": ("a3-highgpu-2g", "NVIDIA_H100_80GB", 2),
    "h100-4": ("a3-highgpu-4g", "NVIDIA_H100_80GB", 4),
    "h100-8": ("a3-highgpu-8g", "NVIDIA_H100_80GB", 8),
    "v5e-1": ("ct5lp-hightpu-1t", "1x1", 1),
    "v5e-4": ("ct5lp-hightpu-4t", "2x2", 4),
    "v5e-8": ("ct5lp-hightpu-8t", "2x4", 8),
}
"""Machine type, accelerator type or topology, and count, of Vertex AI's page on compute for custom training."""


def documented(name):
    """The MachineSpec as JSON of the API."""
    machine, what, count = DOCUMENTED[name]
    if name == "cpu":
        return {"machineType": machine}
    if name.startswith("v5e"):
        return {"machineType": machine, "tpuTopology": what}
    return {"machineType": machine, "acceleratorType": what, "acceleratorCount": count}


def planned(accelerator, **machines):
    config = AcceleratorConfig(accelerator=accelerator, **{"provisioning": "spot", **machines})
    return make_plan(config, TrainConfig(batch_size=0), DataSize(10_000, 0, (240, 320)))


@pytest.mark.parametrize(
    ("name", "provisioning", "resource", "selector"),
    [
        ("cpu", "standard", "", {}),
        ("cpu", "spot", "", {"cloud.google.com/gke-spot": "true"}),
        ("t4-4", "standard", "nvidia.com/gpu", {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}),
        (
            "a100-80gb",
            "flex-start",
            "nvidia.com/gpu",
            {
                "cloud.google.com/gke-accelerator": "nvidia-a100-80gb",
                "cloud.google.com/gke-flex-start": "true",
            },
        ),
        (
            "v5e-8",
            "spot",
            "google.com/tpu",
            {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                "cloud.google.com/gke-tpu-topology": "2x4",
                "cloud.google.com/gke-spot": "true",
            },
        ),
    ],
)
def test_pod_asks_for_its_chips_and_its_node(name, provisioning, resource, selector):
    plan = planned(name, provisioning=provisioning)
    assert plan.accelerator.resource_name == resource
    pod = Pod.on(plan.accelerator, plan.machines.provisioning)
    assert pod.node_selector == selector
    bought = [key for key in selector if key in ("cloud.google.com/gke-spot", "cloud.google.com/gke-flex-start")]
    assert [(each["key"], each["operator"], each["effect"]) for each in pod.tolerations] == [
        (key, "Exists", "NoSchedule") for key in bought
    ]


@pytest.mark.parametrize("name", ACCELERATORS)
def test_pod_asks_for_what_its_node_can_give(name):
    """GKE reserves 0.06 + 0.01 + 0.01 + 0.01 of 8 cores, and 1 + 0.8 + 0.8 + 0.84 of 30 GiB."""
    plan = planned(name)
    pod = Pod.on(plan.accelerator, plan.machines.provisioning)
    cores, gibibytes = int(pod.cpu), int(pod.memory.removesuffix("Gi"))
    exact = {"t4": (6, 24), "a100-8": (94, 641), "v5e-1": (22, 41)}
    assert (cores, gibibytes) == exact.get(name, (cores, gibibytes))
    assert 0.75 * plan.accelerator.vcpus <= cores < plan.accelerator.vcpus
    assert 0.8 * plan.accelerator.host_memory_gb <= gibibytes < plan.accelerator.host_memory_gb


# === What the launcher sends ===


@pytest.fixture
def attempt(vertex, tmp_path, monkeypatch):
    """Run the container of CustomTrainingJobOp once for a plan, as Vertex AI does."""
    from google.cloud import aiplatform
    from google_cloud_pipeline_components.container.v1.custom_job import launcher
    from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

    vertex.state["job"] = lambda command: ["SUCCEEDED"]
    client = aiplatform.gapic.JobServiceClient(
        credentials=AnonymousCredentials(),
        transport="rest",
        client_options={"api_endpoint": vertex.environment.endpoint},
    )
    # The launcher asks the location's public address, with the account of the machine.
    monkeypatch.setattr(aiplatform.gapic, "JobServiceClient", lambda **kwargs: client)
    spec = json_format.MessageToDict(CustomTrainingJobOp.pipeline_spec)
    inputs = spec["components"]["comp-custom-training-job"]["inputDefinitions"]["parameters"]
    container = spec["deploymentSpec"]["executors"]["exec-custom-training-job"]["container"]
    defaults = {name: each.get("defaultValue", "") for name, each in inputs.items()}
    place = {"project": PROJECT, "location": LOCATION, "persistent_resource_id": "", "display_name": "msinet-base"}

    def run(plan, **given):
        given["worker_pool_specs"] = plan.worker_pool_specs(IMAGE, COMMAND, ARGS)
        given["strategy"] = plan.scheduling_strategy
        arguments = []
        for argument in container["args"]:
            for name, value in {**defaults, **place, **given}.items():
                text = value if isinstance(value, str) else json.dumps(value)
                argument = argument.replace(f"{{{{$.inputs.parameters['{name}']}}}}", text)
            output = "{{$.outputs.parameters['gcp_resources'].output_file}}"
            arguments.append(argument.replace(output, str(tmp_path / "out" / "gcp_resources")))
        assert not any("{{" in argument for argument in arguments)
        launcher.main(arguments)

    return run


@pytest.fixture
def launch(attempt, vertex, tmp_path):
    """Run the container of CustomTrainingJobOp in a task of its own, and return the job that it created."""
    from google.cloud.aiplatform_v1.types import CustomJob

    def run(plan, **given):
        attempt(plan, **given)
        (tmp_path / "out" / "gcp_resources").unlink()
        # The client writes enumerations as numbers: read and write it again, with names.
        sent = json_format.ParseDict(vertex.sent("POST", "customJobs")[-1].body, CustomJob.pb()())
        return json_format.MessageToDict(sent)

    return run


def test_launcher_sends_the_documented_machine_of_every_accelerator(launch):
    assert list(DOCUMENTED) == [name for name, row in ACCELERATORS.items() if row.chip.on_vertex]
    for name in DOCUMENTED:
        sent = launch(planned(name))
        (pool,) = sent["jobSpec"]["workerPoolSpecs"]
        assert pool["machineSpec"] == documented(name)
        assert int(pool["replicaCount"]) == 1
        assert pool["containerSpec"] == {"imageUri": IMAGE, "command": COMMAND, "args": ARGS}


def test_launcher_sends_the_pools_of_several_machines_in_their_order(launch):
    plan = planned("l4-4", workers=3, provisioning="standard")
    sent = launch(plan, timeout="3600s")
    leader, workers = sent["jobSpec"]["workerPoolSpecs"]
    assert [int(pool["replicaCount"]) for pool in (leader, workers)] == [1, 2]
    assert leader == {**workers, "replicaCount": "1"}
    assert leader["machineSpec"] == documented("l4-4")
    assert sent["jobSpec"]["scheduling"] == {"timeout": "3600s", "strategy": "STANDARD"}


def test_launcher_sends_a_disk_for_images_that_do_not_fit_into_memory(launch):
    config = AcceleratorConfig(accelerator="l4", workers=2)
    plan = make_plan(config, TrainConfig(batch_size=0), DataSize(1_000_000, 0, (240, 320)))
    for pool in launch(plan)["jobSpec"]["workerPoolSpecs"]:
        assert pool["diskSpec"] == {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 410}


@pytest.mark.parametrize(
    ("platform", "resource", "size"), [("vertex", "", 410), ("vertex", "gpus-1", 100), ("kubeflow", "", 100)]
)
def test_only_a_machine_that_is_made_for_the_job_gets_a_disk_for_it(platform, resource, size):
    config = AcceleratorConfig(accelerator="l4")
    settings = TrainingSettings(TrainConfig(batch_size=0), config, JobConfig(persistent_resource=resource))
    counts = {"train": 999_999, "valid": 1}
    manifest = manifest_of(counts=counts, image_size=(240, 320))
    _, plan = fit_to_data(settings, manifest, Target(platform, "", "image-{}"))
    assert plan.disk_gb == size
    assert ("disk_spec" in plan.worker_pool_specs(IMAGE, COMMAND, ARGS)[0]) == (size > 100)


@pytest.mark.parametrize(("provisioning", "strategy"), [("spot", "SPOT"), ("flex-start", "FLEX_START")])
def test_launcher_sends_the_strategy(launch, provisioning, strategy):
    assert launch(planned("a100", provisioning=provisioning))["jobSpec"]["scheduling"]["strategy"] == strategy


@pytest.mark.parametrize("status", [429, 503])
def test_retry_of_the_launcher_repeats_a_refused_request_and_starts_no_second_job(attempt, vertex, status):
    """The output `gcp_resources` is what the launcher finds of an earlier attempt."""
    vertex.state["job"] = lambda command: ["FAILED"]
    vertex.fail(status, times=2, method="POST", path="customJobs")
    for _ in range(2):
        with pytest.raises(GoogleAPICallError):
            attempt(planned("l4"))
    assert not vertex.kept("jobs")
    for _ in range(2):
        with pytest.raises(SystemExit):
            attempt(planned("l4"))
    assert len(vertex.kept("jobs")) == 1
    assert len(vertex.sent("POST", "customJobs")) == 3


# === What outlives the machine ===


def output(run, salt, root="gs://bucket/v2/artifacts"):
    """The address of a model as Kubeflow's driver makes it."""
    return f"{root}/msinet/{run}/train-model/{salt}/model"


@pytest.mark.parametrize("root", ["gs://bucket/root", "minio://mlpipeline/v2/artifacts", "s3://bucket"])
def test_checkpoints_on_kubeflow_are_below_their_run(root):
    """A run that is retried as a whole gets another SALT."""
    places = [
        checkpoint_folder("gs://b/state/", "base", output(run, salt, root), "/anywhere/model")
        for run, salt in [(RUN, SALT), (RUN, RUN), (SALT, SALT)]
    ]
    assert places == [f"gs://b/state/{run}/base" for run in (RUN, RUN, SALT)]


def test_checkpoints_on_this_machine_are_where_they_are_asked_for(tmp_path):
    model = str(tmp_path / "model")
    assert checkpoint_folder("runs/1/checkpoints", "base", model, model) == "runs/1/checkpoints/base"
    assert checkpoint_folder("", "base", model, model) == f"{model}.checkpoints"


def test_setting_of_a_job_that_vertex_ai_would_reject_is_refused():
    with refused(SettingError, "tensorboard", "training_service_account"):
        JobConfig(tensorboard="projects/p/locations/l/tensorboards/1")
    with refused(SettingError, "training_labels", "Team=Vision"):
        JobConfig(training_labels="Team=Vision")


def test_labels_are_read():
    assert parse_labels("") == {}
    assert parse_labels("team=vision, run=a_1-b,empty=") == {"team": "vision", "run": "a_1-b", "empty": ""}


@pytest.mark.parametrize(
    "text",
    ["team", "1team=x", "=x", "team=" + "x" * 64],
)
def test_label_that_vertex_ai_would_reject_is_refused(text):
    with refused(SettingError, "training_labels", text.partition(",")[0]):
        parse_labels(text)
