"""docs/vertex.md, docs/vertex-reference.md and docs/serving.md, on a project on loopback.

Their commands are typed in their order, by who is logged in. Our own commands run. Of all others only what matters
here is followed (tests/walker.py); their words are parsed by `make check-gcloud` and `make check-infra`.
"""

import copy
import dataclasses
import pathlib
import re
import shlex
import shutil
import tomllib

import hcl2
import pytest

from lifecycle.registry.register import open_registry, resolve_base_model
from lifecycle.registry.vertex_registry import VertexRegistry
from pipeline.__main__ import main
from pipeline.commands import schedule
from pipeline.vertex import rights, schedule_files
from tests import vertex_endpoints
from tests.guide import ROOT, Page
from tests.infra import PLAIN, environment_text
from tests.lifecycle.registry.test_contract import add
from tests.lifecycle.registry.test_endpoint import maps, predictions
from tests.pipeline import test_images_command as test_images
from tests.pipeline.vertex import test_benchmark
from tests.pipeline.vertex.test_grants import terraform
from tests.refusals import refused
from tests.test_docs import lines_of_make
from tests.vertex import LOCATION, NAMES, NOW, PARENT, PROJECT, Request, write_config
from tests.vertex_pipelines import ENDED
from tests.vertex_regions import two_environments
from tests.walker import NOBODY, Walker
from trainer.errors import NotFoundError

ME, DEPLOYER = "ann@example.org", "deployer@example.iam.gserviceaccount.com"
DATA = f"gs://{PROJECT}-msinet-data"
FIRST, REFERENCE, SERVING = (Page(f"docs/{name}.md") for name in ("vertex", "vertex-reference", "serving"))
OFFLINE = ("plan", "compile")
"""Commands that ask nobody."""
TAG = "v2"

clone, gcloud, jobs = test_images.clone, test_images.gcloud, test_benchmark.jobs
"""Fixtures: a repository, a gcloud that builds everything, and a project whose jobs print a result."""


class Shell(Walker):
    """A shell in which our own commands run against `vertex`, whose registry has the address `registry`."""

    def __init__(self, vertex, folder, registry, model):
        super().__init__(folder, PROJECT)
        self.vertex, self.registry, self.model = vertex, registry, model
        self.values = {"PROJECT": PROJECT, "LOCATION": LOCATION, "ME": ME, "DEPLOYER": DEPLOYER, "TAG": TAG}
        self.lists(FIRST.text.partition("\n## ")[0])

    def ours(self, words):
        super().ours(words)
        if words[0] == "make":
            lines = [line for line in lines_of_make(*words[1:]) if " -m pipeline" in line]
            for line in lines:
                self._run(shlex.split(line)[3:])
        elif words[2] == "pipeline":
            self._run(words[3:])

    def _run(self, arguments):
        """Run `python -m pipeline`."""
        remote = arguments[0] not in OFFLINE and ("--registry" in arguments or arguments[0] != "registry")
        if remote and self.default_credentials != DEPLOYER:
            self.complain(f"{self.default_credentials} acts")
        unfinished = [run for run, job in states(self.vertex).items() if job not in ENDED]
        latest = [*self.vertex.kept("runs")][-1:]
        replaced = {"RUN": next(iter(unfinished or latest), ""), f"vertex://{PROJECT}/{LOCATION}": self.registry}
        assert main([replaced.get(word, word) for word in arguments]) == 0, arguments
        given = dict(word.split("=", 1) for word in arguments if re.match(r"\w+=", word))
        if "endpoint" in given:  # what the last task of the run does
            VertexRegistry.at(self.registry).deploy("msinet", 1, given["endpoint"], int(given["traffic"]))
        if arguments[0] == "images":
            self.make("file of the template")
            for kind in ("cpu", "gpu", "tpu", "serving"):
                repository = f"{LOCATION}-docker.pkg.dev/{PROJECT}/msinet"
                self.make(f"pushed {repository}/msinet-{kind}:{TAG}", inside=f"repository {repository}")
        if self.vertex.kept("schedules"):
            self.make("schedule msinet-prod-weekly")
        else:
            self.remove("schedule msinet-prod-weekly")

    def acts(self, role, call):
        super().acts(role, call)
        if role == NOBODY or self.cli == ME:
            return
        (address,) = [word for word in call.given if word.startswith("gs://")][:1] or [""]
        resource = rights.DATA if address.startswith(DATA) else rights.BUCKET if address else rights.PROJECT
        if self.cli != DEPLOYER or (role, resource) not in terraform("deployer"):
            self.complain(f"{self.cli} may not do this")

    def other(self, words):
        super().other(words)
        line = " ".join(words)
        if words[0] == "terraform" and "apply" in words:
            known = hcl2.loads(
                (self.folder / "infra" / "terraform.tfvars").read_text(), serialization_options=PLAIN
            )
            assert known == {"project": PROJECT, "location": LOCATION, "deployers": [f"user:{ME}"]}
            assert not [word for word in words if "deployers" in word]
        elif line.startswith("gcloud storage cp") and (found := re.search(rf"{DATA}\S*", line)):
            bucket = self.vertex.state["project"].buckets[f"{PROJECT}-msinet-data"]
            assert found[0]
            bucket["objects"].append(f"{pathlib.Path(words[3]).name}/images.zip")
        elif line.startswith("gcloud ai endpoints create"):
            (title,) = re.findall(r"--display-name=(\S+)", line)
            vertex_endpoints.add(self.vertex, title)
        elif line.startswith("gcloud ai endpoints undeploy-model"):
            for number, endpoint in self.vertex.kept("endpoints").items():
                for deployed in list(endpoint["deployedModels"]):
                    self.ask("POST", f"endpoints/{number}:undeployModel", {"deployedModelId": deployed["id"]})
        elif line.startswith("gcloud ai endpoints delete"):
            for number in list(self.vertex.kept("endpoints")):
                self.ask("DELETE", f"endpoints/{number}")
        elif line.startswith("gcloud ai models delete"):
            self.vertex.kept("models").clear()

    def ask(self, method, path, body=None):
        status, content = self.vertex.answer(Request(method, f"/v1/{PARENT}/{path}", {}, body or {}))
        assert status == 200, content


def states(vertex):
    """Each run -> its state."""
    runs = vertex.kept("runs")
    script = vertex.state["script"]
    return {
        run: "CANCELLED" if job["cancelled"] else job.get("script", script)[-1][0] for run, job in runs.items()
    }


@pytest.fixture
def inside(clone, monkeypatch):
    monkeypatch.chdir(clone)


@pytest.fixture
def shell(jobs, clone, inside, gcloud, address, model, monkeypatch):
    vertex = jobs
    parameters = tomllib.loads(environment_text())["parameters"]
    account = vertex.environment.service_account
    models = f"gs://{vertex.environment.bucket.split('/')[2]}/models"
    vertex.environment = dataclasses.replace(
        vertex.environment, parameters=parameters, build_service_account=account, image_tag=TAG, models=models
    )
    write_config(vertex.environment, clone / "configs")
    _, other = two_environments(vertex, str(vertex.environment.derived["registry"]))
    write_config(other, clone / "configs")
    shutil.copy(ROOT / "configs" / "vertex.toml", clone / "configs")
    shutil.copytree(ROOT / "schedules", clone / "schedules")
    (clone / "infra").mkdir()
    monkeypatch.setattr(schedule, "FOLDER", clone / "schedules")
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    vertex.state["script"] = [("RUNNING", {}), ("SUCCEEDED", {"check-run": "SUCCEEDED"})]
    project = vertex.state["project"]
    project.buckets[f"{PROJECT}-msinet-data"] = {"location": "US-CENTRAL1", "objects": []}
    project.bind(f"b/{PROJECT}-msinet-data", f"serviceAccount:{account}", "roles/storage.objectViewer")
    project.repositories["msinet"]["tags"] |= {f"msinet-{kind}/{TAG}" for kind in ("cpu", "gpu", "tpu", "serving")}
    add(open_registry(address), model)
    return Shell(vertex, clone, address, model)


def parameters_of(run):
    return run["job"]["runtimeConfig"]["parameterValues"]


def leave_a_run(vertex):
    """A run that a schedule has started meanwhile."""
    (started, *_) = vertex.kept("runs").values()
    job = started["job"] | {"name": f"{NAMES}/pipelineJobs/late", "createTime": NOW}
    vertex.kept("runs")["late"] = {"job": job, "asked": 0, "cancelled": False, "script": [("RUNNING", {})]}


def test_first_guide_leaves_nothing_that_costs_money_and_nobody_does_what_they_may_not(shell, vertex):
    shell.walk(FIRST.part("1.", "7."))
    leave_a_run(vertex)
    assert {"infrastructure", "configuration msinet"} < set(shell.left())
    shell.walk(FIRST.part("8.", "8."))
    assert shell.problems == []
    first, *others = map(parameters_of, vertex.kept("runs").values())
    assert (first["accelerator"], first["finetune_source"]) == ("cpu", "sample")
    assert len(others) > 2
    assert set(states(vertex).values()) <= set(ENDED)
    assert not vertex.kept("models")
    assert shell.left() == []


def test_reference_goes_on_after_the_images_and_removes_what_it_makes(shell, vertex):
    shell.walk(FIRST.part("1.", "4."))
    before = shell.left()
    shell.walk(REFERENCE.part("Quota", "New code"))
    assert {"schedule msinet-prod-weekly", "secret msinet-webhook"} <= set(shell.left())
    vertex_endpoints.add(vertex, "maps", deployedModels=[{"id": "1"}], trafficSplit={"1": 100})
    shell.walk(REFERENCE.part("Clean up", "Clean up"))
    assert shell.problems == []
    assert shell.left() == before
    assert not vertex.kept("schedules")
    assert not vertex.kept("endpoints")


def test_serving_goes_on_after_a_run_and_what_it_makes_is_removed(shell, vertex):
    shutil.copytree(ROOT / "docs" / "serving", "docs/serving")
    pathlib.Path("examples").mkdir()
    shutil.copy(ROOT / "examples" / "coffee.jpg", "examples")
    add(open_registry("models"), shell.model)
    vertex.state["answer"] = lambda version, body: (200, predictions(maps(10)))
    shell.walk(FIRST.part("1.", "6."))
    shell.lists(SERVING.text.partition("\n## ")[0])
    shell.walk(SERVING.text)
    assert "endpoint of ENDPOINT_ID" in shell.left()
    shell.walk(REFERENCE.part("Clean up", "Clean up") + FIRST.part("8.", "8."))
    assert shell.problems == []
    assert shell.left() == []


def test_project_without_terraform_has_what_the_reference_makes_and_removes(tmp_path):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    walker = Walker(tmp_path, PROJECT)
    walker.values = {"PROJECT": PROJECT, "LOCATION": LOCATION}
    walker.walk(FIRST.part("1.", "1."))
    walker.walk(REFERENCE.part("Without Terraform", "Without Terraform"))
    assert walker.problems == []
    assert walker.left() == ["configuration msinet"]
    made = tomllib.loads((tmp_path / "configs" / "prod.toml").read_text())
    named = tomllib.loads((ROOT / "configs" / "vertex.toml").read_text())
    assert made["image_repository"] == f"{LOCATION}-docker.pkg.dev/{PROJECT}/msinet"
    assert made["service_account"] == f"msinet-pipeline@{PROJECT}.iam.gserviceaccount.com"
    assert named.keys() - made.keys() == {"build_service_account"}


@pytest.mark.parametrize(
    ("start", "missed"),
    [
        ("docker run", "there is no service port 8080"),
    ],
)
def test_serving_without_one_of_its_commands_is_not_followed(start, missed, tmp_path):
    shutil.copytree(ROOT / "docs" / "serving", tmp_path / "docs" / "serving")
    walker = Walker(tmp_path, PROJECT)
    walker.lists(SERVING.text.partition("\n## ")[0])
    walker.values = {"PROJECT": PROJECT, "LOCATION": LOCATION, "TAG": TAG}
    walker.variables |= {"PROJECT": PROJECT, "LOCATION": LOCATION}
    walker.cli = walker.default_credentials = DEPLOYER
    image = f"pushed {LOCATION}-docker.pkg.dev/{PROJECT}/msinet/msinet-serving:{TAG}"
    walker.things |= dict.fromkeys(
        (image, "packages", "file configs/prod.toml", "api aiplatform.googleapis.com"), ""
    )
    walker.things[f"bucket gs://{PROJECT}-msinet-runs"] = "infrastructure"
    whole = copy.deepcopy(walker)
    whole.walk(SERVING.text)
    assert whole.problems == []
    lines = SERVING.text.splitlines(keepends=True)
    walker.walk("".join(line for line in lines if not line.startswith(start)))
    assert any(problem.startswith(missed) for problem in walker.problems), walker.problems


def test_example_of_a_schedule_works_with_a_registry_without_versions(vertex, tmp_path):
    shutil.copy(ROOT / "schedules" / "weekly.toml.example", tmp_path / "weekly.toml")
    (wanted,) = schedule_files.read_schedules(vertex.environment, tmp_path)
    uri = wanted.plan.job["runtimeConfig"]["parameterValues"]["base_model_uri"]
    assert resolve_base_model(uri, str(tmp_path / "models")) == (uri, "")
    with refused(NotFoundError, "base_model_uri", "msinet@default", "base_model_uri=pretrained"):
        resolve_base_model("msinet@default", str(tmp_path / "models"))
