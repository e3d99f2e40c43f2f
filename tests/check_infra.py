"""Terraform and the google provider itself judge infra/: `make check-infra` runs this.

The provider's schema validates the files, and a plan of an empty project shows what they would make. The
credentials are made up: a plan of what does not exist yet asks Google nothing.
"""

import json
import os
import re
import shutil
import subprocess

import pytest
import yaml
from google.cloud.aiplatform_v1.types import PipelineJob
from google.protobuf import json_format

from tests.infra import FOLDER, FURTHER, PROJECT, blocks, environment_text

TERRAFORM = shutil.which("terraform") or shutil.which("tofu")
SETTINGS = {"GOOGLE_OAUTH_ACCESS_TOKEN": "made-up", "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
TEMPLATE = f"https://us-central1-kfp.pkg.dev/{PROJECT}/msinet-templates/msinet/sha256:{'0' * 64}"
SHARED = "europe-west4-docker.pkg.dev/shared-project/images"
VARIABLES = ("-var", f"project={PROJECT}", "-var", 'deployers=["user:ann@example.org"]')


def terraform(folder, *arguments):
    """What Terraform does in a folder, with nobody to ask."""
    command = [TERRAFORM, f"-chdir={folder}", *arguments]
    return subprocess.run(command, env=os.environ | SETTINGS, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of infra/ with its provider."""
    if TERRAFORM is None:
        pytest.skip("there is no terraform and no tofu on the PATH")
    copied = tmp_path_factory.mktemp("infra")
    for path in FOLDER.glob("*.tf"):
        shutil.copy(path, copied)
    begun = terraform(copied, "init", "-backend=false", "-input=false", "-no-color")
    if "could not connect to" in " ".join(begun.stderr.split()):  # its lines are wrapped
        pytest.skip(
            "the registry of Terraform cannot be reached; TF_CLI_CONFIG_FILE can name a mirror of its providers"
        )
    assert begun.returncode == 0, begun.stderr
    return copied


def planned(folder, *variables):
    """The plan of an empty project, as JSON."""
    made = terraform(
        folder, "plan", "-input=false", "-no-color", "-lock=false", "-out=plan", *VARIABLES, *variables
    )
    assert made.returncode == 0, made.stderr
    return json.loads(terraform(folder, "show", "-json", "plan").stdout)


@pytest.fixture(scope="module")
def plan(folder):
    return planned(folder)


@pytest.fixture(scope="module")
def plan_with_trigger(folder):
    return planned(
        folder, "-var", f"retrain_template={TEMPLATE}", "-var", 'retrain_parameters={accelerator="l4", seed=3}'
    )


@pytest.fixture(scope="module")
def plan_with_other_options(folder):
    return planned(
        folder,
        *("-var", f"image_repository={SHARED}", "-var", "tensorboard=true", "-var", f"further_location={FURTHER}"),
        *("-var", f"release_repository=projects/{PROJECT}/locations/us-central1/connections/c/repositories/r"),
    )


def addresses(plan):
    return {change["address"].partition("[")[0] for change in plan["resource_changes"]}


def test_files_are_formatted(folder):
    checked = terraform(folder, "fmt", "-check", "-diff")
    assert checked.returncode == 0, checked.stdout


def test_files_are_valid_by_the_schema_of_the_provider(folder):
    answer = json.loads(terraform(folder, "validate", "-json").stdout)
    assert answer["diagnostics"] == []
    assert answer["valid"]


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("uniform_bucket_level_access", "uniform_bucket_acces", "Unsupported argument"),
        ('public_access_prevention    = "enforced"', "public_access_prevention = true ? [] : []", "attribute"),
    ],
)
def test_mistake_is_refused(folder, tmp_path, good, bad, said):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, symlinks=True)
    path = tmp_path / "storage.tf"
    assert good in path.read_text()
    path.write_text(path.read_text().replace(good, bad))
    answer = json.loads(terraform(tmp_path, "validate", "-json").stdout)
    assert not answer["valid"]
    assert said in str(answer["diagnostics"])


def test_plan_makes_every_resource_but_those_of_options_only_if_they_are_asked_for(
    plan, plan_with_trigger, plan_with_other_options
):
    everything = {".".join(name) for name in blocks("resource")}
    trigger = {name for name in everything if re.search(r"\.(trigger|retrain|storage_publishes)", name)}
    others = {
        name
        for name in everything
        if re.search(r"\.((agent|pipeline_shared)_images|trainings|release|\w*further_runs)", name)
    }
    assert addresses(plan) == everything - trigger - others
    storage = "data.google_storage_project_service_account.storage"
    assert addresses(plan_with_trigger) == {storage} | everything - others
    assert addresses(plan_with_other_options) == {"data.google_project.own"} | everything - trigger
    assert (len(trigger), len(others)) == (8, 9)
    assert {tuple(change["change"]["actions"]) for change in plan["resource_changes"]} == {("create",)}


def test_new_data_starts_a_run_of_the_template_that_ends_if_nothing_is_new(plan_with_trigger):
    by_address = {change["address"]: change["change"]["after"] for change in plan_with_trigger["resource_changes"]}
    workflow = yaml.safe_load(by_address["google_workflows_workflow.retrain[0]"]["source_contents"])
    check, submit, _ = workflow["main"]["steps"]
    (pattern,) = re.findall(r'name, "(.+)"\)\)}$', check["check"]["switch"][0]["condition"])
    named = ("_SUCCESS", "recordings/_SUCCESS", "recordings/a.png", "a_SUCCESS", "_SUCCESS/a.png")
    assert [bool(re.search(pattern, name)) for name in named] == [True, True, False, False, False]
    request = submit["submit"]["args"]
    parent = f"projects/{PROJECT}/locations/us-central1"
    assert request["url"] == f"https://us-central1-aiplatform.googleapis.com/v1/{parent}/pipelineJobs"
    assert request["auth"] == {"type": "OAuth2"}
    job = json_format.ParseDict(request["body"], PipelineJob.pb(PipelineJob()))
    assert job.template_uri == TEMPLATE
    assert job.runtime_config.gcs_output_directory == f"gs://{PROJECT}-msinet-runs/runs"
    values = json_format.MessageToDict(job)["runtimeConfig"]["parameterValues"]
    assert values == {"accelerator": "l4", "seed": 3, "settings": {"skip_unchanged": True}}


def test_images_of_another_project_are_granted_there_and_named_by_the_environment(plan_with_other_options):
    changes = {each["address"]: each["change"]["after"] for each in plan_with_other_options["resource_changes"]}
    for name in ("agent_images", "pipeline_shared_images"):
        grant = changes[f"google_artifact_registry_repository_iam_member.{name}[0]"]
        assert f"{grant['location']}-docker.pkg.dev/{grant['project']}/{grant['repository']}" == SHARED
    environment = plan_with_other_options["planned_values"]["outputs"]["environment"]["value"]
    assert f'image_repository = "{SHARED}"' in environment


def test_planned_environment_is_the_one_that_other_tests_read(plan):
    planned = plan["planned_values"]["outputs"]["environment"]["value"]
    assert [line.strip() for line in planned.splitlines()] == environment_text().splitlines()


@pytest.mark.skipif(TERRAFORM is None, reason="there is no terraform and no tofu on the PATH")
def test_template_of_the_trigger_is_one_version_and_no_tag(tmp_path):
    shutil.copy(FOLDER / "variables.tf", tmp_path)  # needs no provider
    for end, taken in (
        ("v1", False),
        ("latest", False),
        (f"sha256:{'0' * 63}", False),
        (f"sha256:{'0' * 64}", True),
    ):
        address = TEMPLATE.replace(f"sha256:{'0' * 64}", end)
        finished = terraform(
            tmp_path, "plan", "-input=false", "-no-color", *VARIABLES, "-var", f"retrain_template={address}"
        )
        assert (finished.returncode == 0) is taken, end
        assert ("var.retrain_template" in finished.stderr) is not taken
