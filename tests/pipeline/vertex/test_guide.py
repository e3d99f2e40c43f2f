"""docs/vertex.md from top to bottom: its commands in their order, by who is logged in, on a project on loopback.

Our own commands run. Of gcloud and Terraform only what matters here is followed: who acts, and what they make and
remove; their words are parsed by `make check-gcloud` and `make check-infra`.
"""

import dataclasses
import pathlib
import re
import shlex
import shutil
import subprocess
import tomllib

import hcl2
import pytest

from lifecycle.registry.register import open_registry, resolve_base_model
from pipeline.__main__ import main
from pipeline.commands import schedule
from pipeline.vertex import doctor, schedule_files
from tests import vertex_endpoints
from tests.guide import ROOT, Page
from tests.infra import PLAIN, environment_text
from tests.lifecycle.registry.test_contract import add
from tests.pipeline import test_images_command as test_images
from tests.pipeline.vertex import test_benchmark
from tests.pipeline.vertex.test_grants import terraform
from tests.test_docs import lines_of_make
from tests.vertex import LOCATION, NAMES, NOW, PARENT, PROJECT, Request, write_config
from tests.vertex_pipelines import ENDED
from tests.vertex_project import ROLES
from trainer.errors import UserError

ME, DEPLOYER = "ann@example.org", "deployer@example.iam.gserviceaccount.com"
DATA = f"gs://{PROJECT}-msinet-data"
OF_THE_SHELL = ("source", "printf", "unset")

clone, gcloud, jobs = test_images.clone, test_images.gcloud, test_benchmark.jobs
"""Fixtures: a repository, a gcloud that builds everything, and a project whose jobs print a result."""


class Shell:
    """A shell in which the commands of the guide are run; `run` takes one line."""

    def __init__(self, vertex, folder, registry):
        self.vertex, self.folder, self.registry = vertex, folder, registry
        self.variables = {}
        self.cli = self.default_credentials = "nobody"
        """Who gcloud acts as, and who Terraform and this project act as."""
        self.made = set()
        """What costs money and is not on the server: infrastructure and secrets."""

    def expanded(self, text):
        return re.sub(r"\$(\w+)", lambda name: self.variables[name[1]], text)

    def run(self, line):
        if re.match(r"(printf|sed) .* > |rm |cp ", line):
            subprocess.run(
                ["bash", "-ec", line], cwd=self.folder, env=self.variables | {"PATH": "/bin"}, check=True
            )
            return
        for part in re.split(r" \| | > ", line):
            self._command(shlex.split(part))

    def _command(self, words):
        name, *rest = words
        if name == "export":
            for word in rest:
                variable, _, value = word.partition("=")
                known = {"PROJECT": PROJECT, "LOCATION": LOCATION, "ME": ME, "DEPLOYER": DEPLOYER}
                self.variables[variable] = known.get(variable, value)
            return
        words = [self.expanded(word) for word in words]
        if name == "make":
            lines = [line for line in lines_of_make(*words[1:]) if " -m pipeline" in line]
            for line in lines:
                self._ours(shlex.split(line)[3:])
        elif words[:3] == ["python", "-m", "pipeline"]:
            self._ours(words[3:])
        elif name in ("gcloud", "terraform"):
            getattr(self, f"_{name}")(*words[1:])
        else:
            assert name in OF_THE_SHELL or "/" in name, words  # a path is where output goes

    def _ours(self, arguments):
        """Run a command of this project."""
        if "plan" not in arguments:  # which asks nobody
            assert self.default_credentials == DEPLOYER, arguments
        unfinished = [run for run, job in states(self.vertex).items() if job not in ENDED]
        latest = [*self.vertex.kept("runs")][-1:]
        replaced = {"RUN": next(iter(unfinished or latest), ""), f"vertex://{PROJECT}/{LOCATION}": self.registry}
        assert main([replaced.get(word, word) for word in arguments]) == 0, arguments

    def _terraform(self, *words):
        _, verb, *_ = words
        if verb in ("apply", "destroy"):
            assert self.default_credentials == ME, f"{self.default_credentials} may not {verb}"
            text = (self.folder / "infra" / "terraform.tfvars").read_text()
            known = hcl2.loads(text, serialization_options=PLAIN)
            assert known == {"project": PROJECT, "location": LOCATION, "deployers": [f"user:{ME}"]}
            assert not [word for word in words if "deployers" in word]
            (self.made.add if verb == "apply" else self.made.remove)("infrastructure")
            assert verb == "apply" or "delete_contents=true" in words

    def _gcloud(self, *words):
        line, given = " ".join(words), [word for word in words if not word.startswith("-")]
        if line.startswith("auth login"):
            self.cli = ME
        elif line.startswith("auth application-default login"):
            (account,) = [word.partition("=")[2] for word in words if "impersonate" in word] or [ME]
            self.default_credentials = account
        elif line.startswith(("config set auth/impersonate", "config unset auth/impersonate")):
            self.cli = words[3] if "set" in words else ME
        elif line.startswith("config"):
            self.cli = "somebody else" if "delete" in words else self.cli
        else:
            is_upload = line.startswith("storage cp") and given[-1].startswith(DATA)
            roles = [role for role, resource in terraform("deployer") if is_upload and resource == doctor.DATA]
            granted = any("storage.objects.create" in ROLES[role] for role in roles)
            assert self.cli == ME or (self.cli == DEPLOYER and granted), f"{self.cli} may not: gcloud {line}"
            self._on_the_service(line, given)

    def _on_the_service(self, line, given):
        endpoints = self.vertex.kept("endpoints")
        if line.startswith("storage cp"):
            bucket = self.vertex.state["project"].buckets[f"{PROJECT}-msinet-data"]
            bucket["objects"].append(f"{pathlib.Path(given[2]).name}/images.zip")
        elif line.startswith("secrets create"):
            self.made.add(given[2])
        elif line.startswith("secrets delete"):
            self.made.remove(given[2])
        elif line.startswith("ai endpoints undeploy-model"):
            for number, endpoint in endpoints.items():
                for deployed in list(endpoint["deployedModels"]):
                    body = {"deployedModelId": deployed["id"]}
                    self.ask("POST", f"endpoints/{number}:undeployModel", body)
        elif line.startswith("ai endpoints delete"):
            for number in list(endpoints):
                self.ask("DELETE", f"endpoints/{number}")
        elif line.startswith("ai models delete"):
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
    vertex.environment = dataclasses.replace(
        vertex.environment, parameters=parameters, build_service_account=account, image_tag="v2"
    )
    write_config(vertex.environment, clone / "configs")
    shutil.copytree(ROOT / "schedules", clone / "schedules")
    (clone / "infra").mkdir()
    monkeypatch.setattr(schedule, "FOLDER", clone / "schedules")
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    vertex.state["script"] = [("RUNNING", {}), ("SUCCEEDED", {"check-run": "SUCCEEDED"})]
    project = vertex.state["project"]
    project.buckets[f"{PROJECT}-msinet-data"] = {"location": "US-CENTRAL1", "objects": []}
    project.bind(f"b/{PROJECT}-msinet-data", f"serviceAccount:{account}", "roles/storage.objectViewer")
    project.repositories["msinet"]["tags"] |= {f"msinet-{kind}/v2" for kind in ("cpu", "gpu", "tpu", "serving")}
    add(open_registry(address), model)
    return Shell(vertex, clone, address)


def test_guide_leaves_nothing_that_costs_money_and_nobody_does_what_they_may_not(shell, vertex, capsys):
    page = Page("docs/vertex.md").text.partition("\n## Without Terraform")[0]
    steps = re.split(r"(?m)^## ", page)[1:]
    assert len(steps) == 11
    for step in steps:
        if step.startswith("11."):
            # What a schedule has started meanwhile, and what `endpoint=` has deployed.
            (started,) = vertex.kept("schedules").values()
            job = started["createPipelineJobRequest"]["pipelineJob"] | {
                "name": f"{NAMES}/pipelineJobs/late",
                "createTime": NOW,
            }
            vertex.kept("runs")["late"] = {"job": job, "asked": 0, "cancelled": False, "script": [("RUNNING", {})]}
            endpoint = vertex_endpoints.add(vertex, "maps", deployedModels=[{"id": "1"}], trafficSplit={"1": 100})
            assert shell.made == {"infrastructure", "msinet-webhook"}
            assert endpoint["deployedModels"]
        for block in re.findall(r"(?m)^ *```sh\n((?:.*\n)*?) *```", step):
            for line in block.splitlines():
                shell.run(line.strip())
    assert len(vertex.kept("runs")) > 3
    assert set(states(vertex).values()) <= set(ENDED)
    assert not vertex.kept("schedules")
    assert not vertex.kept("endpoints")
    assert not vertex.kept("models")
    assert not shell.made


def test_example_of_a_schedule_works_with_a_registry_without_versions(vertex, tmp_path):
    shutil.copy(ROOT / "schedules" / "weekly.toml.example", tmp_path / "weekly.toml")
    (wanted,) = schedule_files.read_schedules(vertex.environment, tmp_path)
    uri = wanted.plan.job["runtimeConfig"]["parameterValues"]["base_model_uri"]
    assert resolve_base_model(uri, str(tmp_path / "models")) == (uri, "")
    with pytest.raises(UserError, match="has no version yet"):
        resolve_base_model("msinet@default", str(tmp_path / "models"))
