"""The compiled pipeline runs on a Kubeflow of this machine: `make check-cluster` runs this.

Each test is one thing that happens to runs on a cluster: they succeed, are cached, lose a pod or a node, end
early. All are started by Kubeflow's own client, and their tasks run in the image that images/Dockerfile describes.
The volume, the buckets and the receiver of messages are of this machine.
"""

import contextlib
import csv
import dataclasses
import http.server
import json
import os
import pathlib
import re
import threading
import time

import kfp
import kubernetes
import numpy as np
import polars
import pytest
import yaml
from PIL import Image

from lifecycle.machines import BatchMachines
from lifecycle.registry.register import open_registry
from lifecycle.runs import argo
from lifecycle.runs.parameters import CONSOLE_FIELDS, SETTINGS
from pipeline.graph import Prediction, compiled, write_prediction
from pipeline.graph.environment import Environment, layered_values
from tests import containers
from tests.cluster.cluster import ADDRESS, NAMESPACE
from tests.gcs import create_bucket, serving_buckets
from tests.refusals import assert_named
from trainer.batch import BatchConfig
from trainer.prediction import PredictConfig

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
BUCKET, BUCKETS_PORT, WEBHOOK_PORT = "msinet", 4443, 8900
SAMPLE = {
    "base_source": "sample",
    "finetune_source": "sample",
    "max_examples": 40,
    "checkpoint_minutes": 0.1,
}
"""Parameters with which the pipeline is compiled: few and small images, and checkpoints within seconds."""
LONG, LONGER = {"finetune_epochs": 10}, {"finetune_epochs": 100}
FIRST = {"sample": {}, "wrong": {"accelerator": "l5"}}
"""Runs that start at once, with another on a bucket: name -> parameters."""
CACHED = {
    "cancelled": {"model_name": "cancelled"} | LONGER,
    "v5e-4": {"accelerator": "v5e-4", "provisioning": "spot"},
    "imported": {"base_model_uri": "pretrained"},
    "again": {},
}
"""Runs that find tasks of the sample run in the cache, beside each other and a recurring one."""
POLICIES = {"OnError": 3e-5, "OnFailure": 4e-5}
"""Argo's policy for retries -> the learning rate of its run, so that each trains."""
pytestmark = pytest.mark.filterwarnings("ignore:This client only works with:FutureWarning")
RECORD = os.environ.get("RECORD")
"""Whether to write golden files."""
RECORDED = ROOT / "tests" / "golden" / "kubeflow"
PLACEHOLDER = r"\{\{\$\.inputs\.parameters\['(.*)'\]\}\}"
ENDED = ("SUCCEEDED", "FAILED", "CANCELED")
RUN_MINUTES = 30
"""Longest run."""
RESUMED = "resuming after epoch"
"""What a training says that goes on from a checkpoint."""
PICTURES = [f"{shard}/{index}.png" for shard in range(3) for index in range(10)]
"""Keys of pictures, those of a shard of a batch prediction in a folder."""
KILLED = 1
"""The shard whose pod is deleted."""
BROKEN = "1/broken.png"


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
        kubernetes.config.load_kube_config(str(cluster.kubeconfig))
        self.core = kubernetes.client.CoreV1Api()
        self.files = {}

    def compile(self, environment):
        """The path of the pipeline, compiled for the sample set in `environment`."""
        if environment.bucket not in self.files:
            path = self.cluster.folder / f"pipeline-{len(self.files)}.yaml"
            defaults = layered_values(environment.parameters, SAMPLE)
            compiled.write_pipeline(dataclasses.replace(environment, parameters=defaults), path)
            self.files[environment.bucket] = str(path)
        return self.files[environment.bucket]

    def start(self, name, environment=VOLUME, **parameters):
        """Start a run; its id. Parameters that are no fields of the form are keys of the field `settings`."""
        started = self.client.create_run_from_pipeline_package(
            self.compile(environment), arguments=form(parameters), run_name=name
        )
        return started.run_id

    def end(self, run):
        """Wait until a run has ended; its state."""
        return self.client.wait_for_run_completion(run, timeout=60 * RUN_MINUTES, sleep_duration=2).state

    def pods(self, run):
        """The executor pods of a run, newest last: (task, pod)."""
        items = self.core.list_namespaced_pod(NAMESPACE, label_selector=f"pipeline/runid={run}").items
        found = []
        for pod in sorted(items, key=lambda pod: pod.metadata.creation_timestamp):
            place = pod.metadata.annotations["workflows.argoproj.io/node-name"]
            if re.search(r"\.executor(\(\d+\))?$", place):
                found.append((argo.task_of(place), pod))
        return found

    def pod(self, run, task, ready):
        """Wait for a pod of a task for which `ready(pod)` is true, while the run goes on."""
        is_over = False
        while not is_over:
            is_over = self.client.get_run(run).state in ENDED
            for name, pod in reversed(self.pods(run)):
                if name == task and ready(pod):
                    return pod
            time.sleep(1)
        raise TimeoutError(f"run {run} has ended, and no pod of {task} was as expected")

    def predict(self, name, shard_bytes):
        """Start a batch prediction of the pictures on the volume at pictures/NAME, to predicted/NAME; its id."""
        asked = Prediction(
            source=f"{VOLUME.bucket}/pictures/{name}",
            output=f"{VOLUME.bucket}/predicted/{name}",
            model="pretrained",
            regions=["left:0%,0%,50%,100%"],
            predict=PredictConfig(format="png"),
            batch=BatchConfig(shard_gigabytes=shard_bytes / 10**9),
            machines=BatchMachines(machines=2),
        )
        path = self.cluster.folder / f"predict-{name}.yaml"
        write_prediction(VOLUME, asked, path)
        return self.client.create_run_from_pipeline_package(str(path), run_name=name).run_id

    def policy(self, run):
        """When Argo retries the tasks of a run; None before it has looked at its workflow."""
        (found,) = self.cluster.get("workflows", f"--selector=pipeline/runid={run}")
        return found["spec"].get("templateDefaults", {}).get("retryStrategy", {}).get("retryPolicy")

    def trained(self, run):
        """Wait until the fine-tuning of a run has written a checkpoint; its pod."""
        folder = self.cluster.folder / "volume" / "checkpoints" / run / "finetune"
        return self.pod(run, "train-model-2", ready=lambda pod: any(folder.glob("*.npz")))

    def resumed(self, run, lost):
        """Wait until another pod than `lost` has resumed the fine-tuning of a run from its checkpoint."""

        def ready(pod):
            with contextlib.suppress(kubernetes.client.ApiException):  # it has not started
                return pod.metadata.uid != lost.metadata.uid and RESUMED in self.log(pod)

        return self.pod(run, "train-model-2", ready)

    def runs_of(self, recurring):
        """The runs of a recurring run, oldest first."""
        listed = self.client.list_runs(page_size=100, sort_by="created_at asc").runs or []
        return [run for run in listed if run.recurring_run_id == recurring.recurring_run_id]

    def log(self, pod):
        """What the task in a pod has said."""
        return self.core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE, container="main")

    def record(self, name, run):
        """Keep what Kubeflow handed to each task of a run as golden files NAME-TASK.json, if that is asked for."""
        if not RECORD:
            return
        for task, pod in self.pods(run):
            words = main_of(pod).command
            message = json.loads(words[words.index("--executor_input") + 1])
            given = message.get("inputs", {}).get("parameterValues", {})
            for each, value in given.items():  # the launcher replaces them
                if isinstance(value, str) and (found := re.fullmatch(PLACEHOLDER, value)):
                    given[each] = given[found[1]]
            text = json.dumps(message, indent=1, sort_keys=True)
            (RECORDED / f"{name}-{task}.json").write_text(text + "\n")


def main_of(pod):
    (main,) = [each for each in pod.spec.containers if each.name == "main"]
    return main


def form(parameters):
    """The arguments of a run."""
    fields = {name: value for name, value in parameters.items() if name in CONSOLE_FIELDS}
    settings = {name: value for name, value in parameters.items() if name not in CONSOLE_FIELDS}
    return fields | ({SETTINGS: settings} if settings else {})


@pytest.fixture(scope="module")
def kubeflow(cluster):
    """Kubeflow, set up as docs/kubeflow.md says, with a volume."""
    volume = cluster.folder / "volume"
    volume.mkdir()
    os.chown(volume, 1000, 1000)
    cluster.kubectl("apply", "--filename=-", content=[*volume_of(volume), *fitted(), webhook_secret()])
    guided = yaml.safe_load((ROOT / "docs/kubernetes/workflow-defaults.yaml").read_text())
    cluster.set_workflow_defaults(guided["data"]["workflowDefaults"])
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
def storage_address():
    """The address of a Cloud Storage with the bucket BUCKET, which the policy gives to pods."""
    with serving_buckets(ADDRESS, BUCKETS_PORT) as url:
        create_bucket(url, BUCKET)
        yield url


@pytest.fixture(scope="module")
def registered(cluster):
    """Lists the versions of a model on the volume that are of some runs."""

    def listed(name, *runs):
        versions = open_registry(str(cluster.folder / "volume" / "models")).versions(name)
        return [version for version in versions if version.record["lineage"]["run"] in runs]

    return listed


@pytest.fixture(scope="module")
def runs(kubeflow, storage_address):
    """The ids of the runs that start at once: name -> id."""
    on_bucket = dataclasses.replace(VOLUME, bucket=f"gs://{BUCKET}/msinet", volume_claim="")
    started = {name: kubeflow.start(name, **parameters) for name, parameters in FIRST.items()}
    # On fewer images, so that no other run finds its data in the cache, on which nothing else is trained.
    return started | {"bucket": kubeflow.start("bucket", on_bucket, max_examples=36)}


@pytest.fixture(scope="module")
def cached(kubeflow, runs):
    """The ids of the runs that start when the sample run has ended: name -> id."""
    assert kubeflow.end(runs["sample"]) == "SUCCEEDED"
    return {name: kubeflow.start(name, **parameters) for name, parameters in CACHED.items()}


@pytest.fixture(scope="module")
def recurring(kubeflow, cached):
    """A recurring run of a model of its own, whose runs go on one after the other."""
    return kubeflow.client.create_recurring_run(
        kubeflow.client.get_experiment(experiment_name="Default").experiment_id,
        "weekly",
        interval_second=30,
        max_concurrency=1,
        pipeline_package_path=kubeflow.compile(VOLUME),
        params=form({"model_name": "weekly", "skip_unchanged": True}),
    )


def tasks(kubeflow, run):
    return [task for task, _ in kubeflow.pods(run)]


def told(messages, run):
    """What a run that has ended has posted, without the last line, which names the run."""
    (text,) = [text for text in messages if text.endswith(f"\nRun {run}")]
    return text.removesuffix(f"\nRun {run}")


def test_wrong_parameter_ends_the_run_at_its_first_task(kubeflow, runs, messages):
    run = runs["wrong"]
    assert kubeflow.end(run) == "FAILED"
    kubeflow.record("wrong", run)
    (pod,) = [pod for task, pod in kubeflow.pods(run) if task == "check-run"]
    assert "'l5'" in kubeflow.log(pod)
    text = told(messages, run)
    assert text.startswith("msinet: failed at ")
    assert "'l5'" in text


def test_sample_run_registers_a_version(kubeflow, runs, registered, messages):
    run = runs["sample"]
    assert kubeflow.end(run) == "SUCCEEDED"
    kubeflow.record("sample", run)
    (version,) = registered("msinet", run)
    assert told(messages, run).startswith(f"msinet@{version.number}: challenger.")


def test_pod_asks_for_what_the_plan_says_and_waits_for_it(kubeflow, cached, recurring):
    run = cached["v5e-4"]
    pod = kubeflow.pod(run, "train-model", ready=lambda pod: pod.status.conditions)
    kubeflow.client.terminate_run(run)
    (condition,) = pod.status.conditions
    assert condition.reason == "Unschedulable"
    assert "didn't match Pod's node affinity/selector" in condition.message
    assert main_of(pod).resources.limits["google.com/tpu"] == "4"
    assert ("cloud.google.com/gke-spot", "Exists", "NoSchedule") in [
        (each.key, each.operator, each.effect) for each in pod.spec.tolerations
    ]
    (name,) = [each.name for each in main_of(pod).volume_mounts if each.mount_path == "/dev/shm"]
    (volume,) = [each for each in pod.spec.volumes if each.name == name]
    assert volume.empty_dir.medium == "Memory"


def test_stopped_pod_is_resumed_and_a_cancelled_run_leaves_no_version(kubeflow, cached, registered, messages):
    run = cached["cancelled"]
    pod = kubeflow.trained(run)
    kubeflow.cluster.kubectl("delete", "pod", pod.metadata.name, "--wait=false")  # as on a node that is drained
    kubeflow.resumed(run, pod)
    kubeflow.client.terminate_run(run)
    assert kubeflow.end(run) in ("CANCELED", "FAILED")
    assert not registered("cancelled", run)
    assert not any(run in text for text in messages)


def test_recurring_run_trains_once(kubeflow, recurring, registered, messages):
    first, second = kubeflow.cluster.until(
        "scheduledworkflow",
        lambda: (ended := [run for run in kubeflow.runs_of(recurring) if run.state in ENDED])[1:] and ended[:2],
        seconds=60 * RUN_MINUTES,
    )
    kubeflow.client.delete_recurring_run(recurring.recurring_run_id)
    kubeflow.record("recurring", second.run_id)
    assert [first.state, second.state] == ["SUCCEEDED"] * 2
    (version,) = registered("weekly", first.run_id, second.run_id)
    assert told(messages, first.run_id).startswith(f"weekly@{version.number}: challenger.")
    assert told(messages, second.run_id).startswith("weekly: unchanged.")


def test_same_run_again_takes_its_model_from_the_cache(kubeflow, cached):
    run = cached["again"]
    assert kubeflow.end(run) == "SUCCEEDED"
    kubeflow.record("again", run)
    assert not {"fetch-dataset", "train-model", "train-model-2"} & set(tasks(kubeflow, run))


def test_model_of_its_own_is_fine_tuned(kubeflow, cached, registered):
    run = cached["imported"]
    assert kubeflow.end(run) == "SUCCEEDED"
    kubeflow.record("imported", run)
    assert "train-model" not in tasks(kubeflow, run)
    (version,) = registered("msinet", run)
    assert not version.model_config["base_model"]["dataset"].startswith("sample")


def test_bucket_in_place_of_the_volume(kubeflow, runs, storage_address, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage_address)
    run = runs["bucket"]
    assert kubeflow.end(run) == "SUCCEEDED"
    kubeflow.record("bucket", run)
    (version,) = open_registry(f"gs://{BUCKET}/msinet/models").versions("msinet")
    assert version.record["lineage"]["run"] == run


def test_killed_shard_of_a_batch_prediction_is_predicted_again(kubeflow):
    volume = kubeflow.cluster.folder / "volume"
    source, output = volume / "pictures" / "some", volume / "predicted" / "some"
    random = np.random.default_rng(0)
    for key in PICTURES:
        (source / key).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (300, 400, 3), np.uint8)).save(source / key)
    sizes = [(source / key).stat().st_size for key in PICTURES]
    (source / BROKEN).write_bytes(b"no picture")
    run = kubeflow.predict("some", shard_bytes=sum(sizes) / 3 + min(sizes) / 2)
    maps, manifest = output / "png" / str(KILLED), output / "shards" / f"{KILLED:05}.json"
    kubeflow.cluster.until("ml-pipeline", lambda: any(maps.glob("*.png")), seconds=60 * RUN_MINUTES)
    (lost,) = [pod for _, pod in kubeflow.pods(run) if f"shard {KILLED + 1} of 3" in kubeflow.log(pod)]
    kubeflow.cluster.kubectl("delete", "pod", lost.metadata.name, "--force", "--grace-period=0")
    assert not manifest.exists()
    assert kubeflow.end(run) == "SUCCEEDED"
    pods = kubeflow.pods(run)
    assert lost.metadata.uid not in [pod.metadata.uid for _, pod in pods]
    assert sorted(task for task, _ in pods) == ["collect-predictions", "plan-predictions", *["predict-shard"] * 3]
    tables = [f"table/{shard:05}.parquet" for shard in range(3)]
    rows = polars.concat([polars.read_parquet(output / name) for name in tables])
    assert sorted(rows["key"]) == sorted([*PICTURES, BROKEN])
    lists = [f"shards/{shard:05}.{ending}" for shard in range(3) for ending in ("json", "parquet")]
    ends = ["job.json", "summary.json", "unread.csv"]
    found = sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file())
    assert found == sorted([*ends, *lists, *tables, *(f"png/{key}.png" for key in PICTURES)])
    assert {path.name for path in output.iterdir() if path.is_dir()} == {"png", "shards", "table"}
    with (output / "unread.csv").open() as file:
        assert [row["key"] for row in csv.DictReader(file)] == [BROKEN]


def test_batch_prediction_without_readable_pictures_fails_and_says_so(kubeflow):
    source = kubeflow.cluster.folder / "volume" / "pictures" / "broken"
    source.mkdir(parents=True)
    for index in range(11):
        (source / f"{index}.png").write_bytes(b"no picture")
    run = kubeflow.predict("broken", shard_bytes=10**9)
    assert kubeflow.end(run) == "FAILED"
    (pod,) = [pod for task, pod in kubeflow.pods(run) if task == "predict-shard"]
    (reason,) = [line for line in kubeflow.log(pod).splitlines() if line.startswith("error: ")]
    assert_named(reason, "11", "max_bad_share", "0.png")
    assert "collect-predictions" not in tasks(kubeflow, run)


def test_lost_pods_and_a_lost_node_are_resumed_and_two_runs_register_at_once(kubeflow, cached, registered):
    """Argo makes lost pods again, whatever the policy. No other run goes on, since it would lose the node too."""
    lost = {}
    for policy, rate in POLICIES.items():
        defaults = {"spec": {"templateDefaults": {"retryStrategy": {"limit": "2", "retryPolicy": policy}}}}
        kubeflow.cluster.set_workflow_defaults(yaml.safe_dump(defaults))
        run = kubeflow.start(policy, model_name="shared", finetune_learning_rate=rate, **LONG)
        kubeflow.cluster.until(
            "workflow-controller", lambda run=run, policy=policy: kubeflow.policy(run) == policy
        )
        lost[run] = None
    for run in lost:
        lost[run] = kubeflow.trained(run)
        kubeflow.cluster.kubectl("delete", "pod", lost[run].metadata.name, "--force", "--grace-period=0")
    lost = {run: kubeflow.resumed(run, pod) for run, pod in lost.items()}
    kubeflow.cluster.lose_node()
    for run, pod in lost.items():
        assert kubeflow.resumed(run, pod).spec.node_name == kubeflow.cluster.node
    assert [kubeflow.end(run) for run in lost] == ["SUCCEEDED"] * 2
    versions = registered("shared", *lost)
    assert {version.record["lineage"]["run"] for version in versions} == set(lost)
    assert {version.number for version in versions} == {1, 2}
