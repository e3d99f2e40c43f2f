"""Templates, uploaded with kfp's client to a registry on loopback and submitted from there."""

import dataclasses
import pathlib

import pytest
import yaml

from pipeline.__main__ import main
from pipeline.graph import compiled
from tests.refusals import refused
from tests.vertex import write_config
from trainer.errors import SettingError


def test_upload_is_the_compiled_pipeline_with_its_tags(vertex, tmp_path, capsys):
    config = write_config(vertex.environment, tmp_path)
    assert main(["publish", "--env", config, "--tag", "latest", "--tag", "v1.2"]) == 0
    addresses = capsys.readouterr().out.splitlines()[:-1]
    version, *components = vertex.kept("templates")
    names = ("msinet", "fetch-dataset", "train-msinet", "evaluate-model")
    assert addresses == [
        f"{vertex.environment.template_repository}/{name}/{each}"
        for name, each in zip(names, (version, *components), strict=True)
    ]
    assert {name: tag for name, tag in vertex.kept("tags").items() if name.startswith("msinet:")} == {
        "msinet:latest": version,
        "msinet:v1.2": version,
    }
    path = tmp_path / "compiled.yaml"
    compiled.write_pipeline(vertex.environment, path)
    assert vertex.kept("templates")[version] == path.read_text()


def test_published_version_is_submitted_by_its_digest(vertex, tmp_path):
    address = compiled.publish(vertex.environment)[0]
    config = write_config(vertex.environment, tmp_path)
    assert main(["submit", "--env", config, "--template", address, "base_epochs=2"]) == 0
    (request,) = vertex.sent("POST", "/pipelineJobs")
    assert request.body["templateUri"] == address
    assert request.body["runtimeConfig"]["parameterValues"]["settings"]["base_epochs"] == 2
    assert request.body["pipelineSpec"] == yaml.safe_load(next(iter(vertex.kept("templates").values())))


@pytest.mark.parametrize(
    "repository", ["", "https://us-docker.pkg.dev/p/r", "http://us-kfp.pkg.dev/p/r", "https://evil.example/p/r"]
)
def test_mistake_is_named_before_anything_is_sent(vertex, repository):
    environment = dataclasses.replace(vertex.environment, template_repository=repository)
    with refused(SettingError, repository or "template_repository"):
        compiled.publish(environment)
    assert not vertex.requests


def test_tokens_of_kfp_in_the_home_folder_are_not_sent_to_loopback(vertex, monkeypatch, tmp_path):
    path = tmp_path / "registry_credentials.json"
    path.write_text('"secret"')
    monkeypatch.setattr("kfp.registry.registry_client.LOCAL_REGISTRY_CREDENTIAL", str(path))
    compiled.publish(vertex.environment)
    assert "secret" not in str(vertex.requests[0].headers)
    assert not list(pathlib.Path.cwd().glob("msinet_*.yaml"))
