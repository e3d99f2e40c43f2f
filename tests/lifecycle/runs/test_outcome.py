"""What people are told at the end of a run, by the state of its tasks and by what it has registered."""

import base64
import datetime
import functools
import http.server
import json
import pathlib
import threading
import types

import kubernetes
import pytest
from kfp.dsl.executor import Executor

from components.report_end import report_end
from lifecycle.registry.folder_registry import LocalRegistry
from lifecycle.registry.state_layout import DEFAULTS
from lifecycle.runs import argo, webhook
from pipeline.vertex.submit import Submission
from tests.vertex import NAMES, PROJECT, ApiError, route
from trainer.io.files import read_json, write_json
from trainer.models.model_names import DEFAULT
from trainer.models.registry_layout import PRETRAINED_VERSION

REASON = "The current default stays: KLD worse by 0.1 (interval -0.2 to 0.0). 3 of the 90 images are left out."


@pytest.fixture
def registry(tmp_path):
    return LocalRegistry(tmp_path / "models")


@pytest.fixture
def added(registry, model):
    """Function: adds the version of a run, with this decision."""

    def add(run, promote, compared_with=PRETRAINED_VERSION, decided=True):
        record = {"metrics": {}, "reason": REASON, "promote": promote, "decided": decided, "lineage": {"run": run}}
        return registry.add("msinet", model, record, promote, compared_with)

    return add


@pytest.fixture
def told(registry, capsys, monkeypatch):
    """Function: runs the task at the end of the run `run`, and returns what it prints."""
    monkeypatch.setattr(webhook, "post", lambda text, address: "")

    def tell(run, state, name=""):
        ended = types.SimpleNamespace(state=state, error_message="", pipeline_job_resource_name=name)
        report_end.python_func("msinet", str(registry.root), {}, run, "", False, ended)
        return capsys.readouterr().out

    return tell


def aged(registry, **since):
    """Move all moves of the default into the past."""
    path = registry.root / "msinet" / DEFAULTS
    moves = read_json(path, "", list)
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(**since)
    write_json(path, [{**move, "since": moment.isoformat()} for move in moves])


def test_version_is_told_with_the_decision_the_reason_and_the_weeks_since_the_last_promotion(
    registry, added, told
):
    added("run-1", True)
    assert told("run-1", "SUCCEEDED").startswith(f"msinet@1: promoted. {REASON}\n")
    aged(registry, weeks=6, days=2)
    added("run-2", False, 1)
    for state in ("SUCCEEDED", "COMPLETE", "RUNNING"):  # Kubeflow's state may be behind
        text = told("run-2", state)
        assert text.startswith(f"msinet@2: challenger. {REASON} ")
        assert "version 1, 6 weeks ago" in text
        assert "\nRun run-2" in text
    added("run-3", False, 1, decided=False)
    assert told("run-3", "SUCCEEDED").startswith("msinet@3: not decided. ")
    added("run-4", True, 1)
    text = told("run-4", "SUCCEEDED")
    assert text.startswith("msinet@4: promoted. ")
    assert "version 1, 6 weeks ago" in text
    added("run-5", True, 1)  # compared with 1, but the default is 4
    assert told("run-5", "SUCCEEDED").startswith("msinet@5: challenger. ")


def test_move_by_a_person_is_told_as_one(registry, added, told):
    added("run-1", True)
    added("run-2", True, 1)
    registry.set_alias("msinet", DEFAULT, 1)
    aged(registry, weeks=3, days=1)
    added("run-3", False, 1)
    text = told("run-3", "SUCCEEDED")
    assert "Rolled back to version 1 by a person, 3 weeks ago." in text
    assert "promotion" not in text
    text = told("run-4", "SUCCEEDED")  # unchanged
    assert "Rolled back to version 1 by a person, 3 weeks ago." in text
    assert "is this model" not in text
    registry.set_alias("msinet", DEFAULT, 3)
    assert "Version 3 was made the default by a person, less than a week ago." in told("run-4", "SUCCEEDED")
    registry.set_alias("msinet", DEFAULT, PRETRAINED_VERSION)
    assert "Rolled back to version 0 by a person, less than a week ago." in told("run-4", "SUCCEEDED")
    # The run that made version 2 had promoted it.
    text = told("run-2", "SUCCEEDED")
    assert text.startswith("msinet@2: promoted. ")
    assert "A person rolled it back to version 1" in text


@pytest.mark.parametrize(
    ("state", "result"),
    [("SUCCEEDED", "unchanged"), ("COMPLETE", "unchanged"), ("FAILED", "failed"), ("CANCELLED", "failed")],
)
def test_run_without_a_version_is_unchanged_or_has_failed(added, told, state, result):
    added("run-1", True)
    text = told("run-2", state)
    assert text.startswith(f"msinet: {result}. ")
    assert "version 1" in text


def test_run_that_fails_after_its_registration_says_both(added, told):
    added("run-1", True)
    text = told("run-1", "FAILED")
    assert text.startswith("msinet: failed. ")
    assert "Version 1 is registered" in text


def test_registry_that_cannot_be_read_does_not_fail_the_run(registry, added, told):
    added("run-1", True)
    (registry.root / "msinet" / "aliases.json").write_text("{")
    text = told("run-1", "SUCCEEDED")
    assert text.startswith("msinet: succeeded. ")
    assert "aliases.json" in text


@pytest.mark.parametrize("form", ["vertex", "kubeflow"])
def test_task_takes_the_state_in_the_form_of_each_service(registry, added, capsys, monkeypatch, tmp_path, form):
    """As Vertex AI documents it, and as the driver of Kubeflow Pipelines 2.17.0 writes it (resolve.go:471)."""
    monkeypatch.setattr(webhook, "post", lambda text, address: "")
    added("run-1", True)
    status = {"state": "FAILED", "pipelineTaskName": "exit-handler-1", "error": {}}
    status["pipelineJobResourceName"] = "msinet-x7k2p"
    if form == "vertex":
        status["error"] = {"code": 9, "message": "The DAG failed because some tasks failed."}
    values = {
        "model_name": "msinet",
        "registry": "elsewhere",
        "settings": {"registry": str(registry.root)},
        "run": "run-2",
        "webhook": "",
    }
    inputs = {"parameterValues": {**values, "only_failures": True, "status": status}}
    message = {"inputs": inputs, "outputs": {"outputFile": str(tmp_path / "out.json")}}
    Executor(message, report_end.python_func).execute()
    text = capsys.readouterr().out
    assert "msinet: failed. " in text
    assert ("some tasks failed" in text) is (form == "vertex")


# === On Kubeflow ===

WORKFLOWS = pathlib.Path(__file__).parents[2] / "golden" / "kubeflow_workflows"
LOG = "KFP Executor: ...\nerror: unknown accelerator 'l5'. Did you mean 'l4'?\nError: exit status 1\n"


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """Function: the API of Kubernetes answers with a recorded workflow, and with the log of a failed pod."""
    answers = {}

    class Kubernetes(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            self.send_response(200 if path in answers else 404)
            self.end_headers()
            self.wfile.write(answers.get(path, b"{}"))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kubernetes)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def configure():
        address = kubernetes.client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        kubernetes.client.Configuration.set_default(address)

    def record(name, run):
        (tmp_path / "namespace").write_text("kubeflow")
        content = (WORKFLOWS / f"{name}.json").read_bytes()
        answers[f"/apis/argoproj.io/v1alpha1/namespaces/kubeflow/workflows/{run}"] = content
        for node in json.loads(content)["status"]["nodes"].values():
            if node["type"] == "Pod" and node["phase"] == "Failed":
                pod = "-".join([run, node["templateName"], node["id"].rpartition("-")[2]])
                answers[f"/api/v1/namespaces/kubeflow/pods/{pod}/log"] = LOG.encode()

    monkeypatch.setattr(kubernetes.config, "load_incluster_config", configure)
    monkeypatch.setattr(argo, "ACCOUNT", tmp_path)
    yield record
    server.shutdown()
    thread.join()
    server.server_close()
    kubernetes.client.Configuration.set_default(None)


@pytest.mark.parametrize(
    ("recorded", "name", "state", "text"),
    [
        ("wrong", "msinet-dx8wr", "FAILED", "msinet: failed at check-run. unknown accelerator 'l5'. Did you mean"),
        # Its state was RUNNING, since a driver failed: no launcher wrote another.
        ("driver-failed", "msinet-rzxns", "RUNNING", "msinet: failed at named-model."),
        ("same-again", "msinet-jnnq5", "RUNNING", "msinet: unchanged."),
    ],
)
def test_workflow_on_kubeflow_says_what_failed(registry, told, cluster, recorded, name, state, text):
    cluster(recorded, name)
    assert told("run-1", state, name).startswith(text)


@pytest.mark.parametrize("retried", [True, False])
def test_failed_task_is_found_whether_tasks_are_retried_or_not(retried):
    """Kubeflow Pipelines before 2.17 retries no task by default: its workflow has pods alone."""
    nodes = read_json(WORKFLOWS / "wrong.json", "", dict)["status"]["nodes"]
    kept = {name: node for name, node in nodes.items() if retried or node["type"] == "Pod"}
    assert list(argo.failed_nodes({"nodes": kept})) == ["check-run"]


@pytest.mark.parametrize("answers", [True, False])
def test_workflow_that_cannot_be_read_leaves_the_state(added, told, cluster, tmp_path, monkeypatch, answers):
    (tmp_path / "namespace").write_text("kubeflow")
    if not answers:
        closed = kubernetes.client.Configuration(host="http://127.0.0.1:9")
        configure = functools.partial(kubernetes.client.Configuration.set_default, closed)
        monkeypatch.setattr(kubernetes.config, "load_incluster_config", configure)
    added("run-1", True)
    assert told("run-1", "RUNNING", "msinet-x7k2p").startswith("msinet@1: promoted.")


# === On Vertex AI ===


@route("GET", "/v1/projects/([^/]+)/secrets/([^/]+)/versions/latest:access")
def access(server, request, project, name):
    if name not in server.kept("secrets"):
        raise ApiError(403, f"Permission 'secretmanager.versions.access' denied on secret {name}")
    return {"payload": {"data": base64.b64encode(server.kept("secrets")[name].encode()).decode()}}


@pytest.fixture
def failed(vertex):
    """The state of a run on Vertex AI with a task that failed."""
    vertex.state["script"] = [("RUNNING", {"check-run": "SUCCEEDED", "upload-model": ("FAILED", "No space.")})]
    job = Submission.prepare(vertex.environment, {}).job
    Submission(vertex.environment, job, "msinet-1").send()
    return types.SimpleNamespace(
        state="FAILED",
        error_message="The DAG failed.",
        pipeline_job_resource_name=f"{NAMES}/pipelineJobs/msinet-1",
    )


def test_failure_names_the_task_and_its_message_and_goes_to_the_address_in_the_secret(
    vertex, address, failed, hook, capsys
):
    hook.statuses = [200]
    vertex.kept("secrets")["hook"] = hook.address
    secret = f"projects/{PROJECT}/secrets/hook"
    report_end.python_func("msinet", address, {}, "msinet-1", secret, True, failed)
    ((_, posted),) = hook.received
    assert posted["text"].startswith("msinet: failed at Registration. No space.")
    assert posted["text"].splitlines()[1].startswith("Run msinet-1: https://console.cloud.google.com/")
    assert capsys.readouterr().out == f"{posted['text']}\n"
    done = types.SimpleNamespace(**{**vars(failed), "state": "SUCCEEDED"})
    report_end.python_func("msinet", address, {}, "msinet-1", secret, True, done)
    assert len(hook.received) == 1


def test_secret_that_may_not_be_read_is_told_in_the_log(vertex, address, failed, capsys):
    report_end.python_func("msinet", address, {}, "msinet-1", f"projects/{PROJECT}/secrets/hook", False, failed)
    assert "secretmanager.versions.access" in capsys.readouterr().out


def test_failed_run_is_told_even_if_vertex_ai_does_not_say_what_failed(vertex, address, failed, capsys):
    vertex.fail(403, times=9, method="GET", path="pipelineJobs")
    report_end.python_func("msinet", address, {}, "msinet-1", "", True, failed)
    assert capsys.readouterr().out.startswith("msinet: failed. The DAG failed.")
