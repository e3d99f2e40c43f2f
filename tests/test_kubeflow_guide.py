"""docs/kubeflow.md from top to bottom, from an empty project: what its commands need, make and remove.

`python -m pipeline compile` runs; gcloud, kubectl, docker and kfp are followed.
"""

import functools
import pathlib
import shutil

import pytest

from pipeline.__main__ import main
from tests.guide import ROOT, Page
from tests.walker import Walker

PAGE = Page("docs/kubeflow.md")
NEEDED = {
    "gcloud auth login": "nobody is logged in",
    "gcloud auth application-default login": "nobody is logged in for this project",
    "gcloud components install": "there is no program gke-gcloud-auth-plugin",
    "gcloud services enable artifactregistry": "there is no api container.googleapis.com",
    "gcloud compute regions describe": "there is no limits of the region",
    "gcloud artifacts repositories create": "there is no repository us-central1-docker.pkg.dev/proj/msinet",
    "gcloud auth configure-docker": "there is no docker login us-central1-docker.pkg.dev",
    "gcloud artifacts repositories add-iam": "there is no grant roles/artifactregistry.reader",
    "gcloud storage buckets add-iam": "there is no grant roles/storage.objectUser",
    "gcloud container clusters update": "there is no driver standard-rwx",
    "for kind in": "there is no pushed us-central1-docker.pkg.dev/proj/msinet/msinet-cpu:v1",
    'sed "s/my-project': "there is no environment cluster",
    "export KUBEFLOW": "nothing sets $KUBEFLOW",
    "kubectl port-forward": "there is no service port 8080",
    "kubectl delete namespace": "never removed: claim msinet",
    "gcloud container clusters delete": "never removed: cluster msinet",
    'gcloud storage rm --recursive "gs://$BUCKET"\n': "never removed: bucket gs://proj-own",
    "gcloud artifacts repositories delete": "never removed: repository us-central1-docker.pkg.dev/proj/msinet",
    "gcloud projects remove-iam": "never removed: grant roles/container.defaultNodeServiceAccount",
}
"""A line of the page -> what is missed by somebody whose page does not have it."""


@functools.cache
def compiled(environment, words):
    """The file that `python -m pipeline compile` writes; `environment` is the content of that of its `--env`."""
    assert main(words[3:]) == 0
    return pathlib.Path(value_of("--output", words)).read_text()


def value_of(flag, words):
    return words[words.index(flag) + 1]


class Shell(Walker):
    def ours(self, words):
        super().ours(words)
        if words[3] == "compile":
            name = value_of("--env", words)
            path = self.folder / "configs" / f"{name}.toml"
            if path.exists():
                (self.folder / value_of("--output", words)).write_text(compiled(path.read_text(), tuple(words)))
            else:
                self.complain(f"there is no environment {name}")


def walked(text, folder, monkeypatch):
    """The problems of somebody who types the commands of `text`, and the walker."""
    for name in ("configs", "docs/kubernetes"):
        shutil.copytree(ROOT / name, folder / name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("pipeline.graph.environment.CONFIGS", folder / "configs")
    walker = Shell(folder, "proj")
    walker.lists(PAGE.part("1.", "1."))
    walker.walk(text)
    return [*walker.problems, *(f"never removed: {thing}" for thing in walker.left())], walker


def test_guide_makes_all_that_it_uses_and_removes_what_costs_money(tmp_path, monkeypatch):
    problems, walker = walked(PAGE.text, tmp_path, monkeypatch)
    assert not problems
    first, *others = walker.runs
    assert (first["accelerator"], first["base_source"], first["finetune_source"]) == ("cpu", "sample", "sample")
    assert len(others) == 3


@pytest.mark.parametrize("start", NEEDED)
def test_page_without_one_of_its_commands_is_not_followed(start, tmp_path, monkeypatch):
    lines = PAGE.text.splitlines(keepends=True)
    left = [line for line in lines if not line.startswith(start)]
    assert len(left) == len(lines) - 1
    problems, _ = walked("".join(left), tmp_path, monkeypatch)
    assert any(problem.startswith(NEEDED[start]) for problem in problems), problems
