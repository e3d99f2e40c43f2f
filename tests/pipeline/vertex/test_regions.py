"""Several environments: which fit together, and what submit, schedule, doctor and publish do with them."""

import dataclasses

import pytest
import yaml

from pipeline.__main__ import main
from pipeline.graph import load_environments
from pipeline.vertex import SentRun, Submission
from tests.refusals import assert_named, refused
from tests.vertex import ELSEWHERE, LOCATION, SERVING
from tests.vertex_pipelines import small
from tests.vertex_regions import (
    EU_BUCKET,
    SEVERAL,
    last_task,
    regions,
    two_environments,
    without_machine,
    written,
)
from trainer.errors import AmbiguousError, MismatchError, NotFoundError, SettingError, UnknownNameError

TUNED = ("base_model_uri=pretrained", "accelerator=l4", "finetune_batch_size=0")
LACKING = without_machine("custom-training-job-2")


@pytest.fixture
def both(vertex, address, tmp_path):
    """The names of two environments, for --env."""
    return written(two_environments(vertex, address), tmp_path)


@pytest.fixture
def follow(vertex, tmp_path, monkeypatch):
    """When a run that is followed has failed, its last task has run, as on Vertex AI."""
    real = SentRun.follow

    def follow(sent, *arguments):
        status = real(sent, *arguments)
        if status == 1:
            last_task(vertex, sent.run, tmp_path)
        return status

    monkeypatch.setattr(SentRun, "follow", follow)


def sent_specs(vertex):
    return [entry["job"]["pipelineSpec"] for entry in vertex.kept("runs").values()]


# === Which environments fit together ===


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"location": LOCATION}, (AmbiguousError, "prod", "prod-eu", LOCATION)),
        ({"project": "other"}, (MismatchError, "project", "'proj'", "'other'", "prod-eu")),
        ({"image_tag": "v2"}, (MismatchError, "image_tag", "'v1'", "'v2'")),
        ({"parameters": {"seed": 7}}, (MismatchError, "registry", f"vertex://proj/{ELSEWHERE}", "[parameters]")),
        ({"target": "kubeflow"}, (MismatchError, "prod-eu", "kubeflow")),
    ],
)
def test_environments_in_which_a_run_would_not_be_the_same_are_refused(
    vertex, address, tmp_path, changes, refusal
):
    with refused(*refusal):
        load_environments(written(two_environments(vertex, address, **changes), tmp_path))
    assert not vertex.requests


def test_parameter_that_one_environment_alone_has_is_named(vertex, address, tmp_path):
    prod, eu = two_environments(vertex, address)
    eu = dataclasses.replace(eu, parameters={**eu.parameters, "base_epochs": 5})
    with refused(MismatchError, "base_epochs", 5, "prod-eu"):
        load_environments(written((prod, eu), tmp_path))
    board = f"projects/proj/locations/{ELSEWHERE}/tensorboards/1"
    eu = dataclasses.replace(eu, parameters={**prod.parameters, "tensorboard": board})
    assert load_environments(written((prod, eu), tmp_path)).places == [
        (LOCATION, prod.bucket),
        (ELSEWHERE, eu.bucket),
    ]


def test_versions_of_all_regions_are_in_one_bucket(vertex, address, tmp_path):
    registry = f"vertex://proj/{LOCATION}?serving={SERVING}"
    environments = [
        dataclasses.replace(each, parameters={"registry": registry}) for each in two_environments(vertex, address)
    ]
    with refused(SettingError, registry, "models"):
        load_environments(written(environments, tmp_path))


def test_one_environment_is_as_before_and_an_unknown_one_is_named(both):
    first = both.partition(",")[0]
    assert not load_environments(first).places
    with refused(UnknownNameError, "prod-eo"):
        load_environments(f"{first},prod-eo")


# === Submit ===


def test_run_whose_training_gets_no_machine_is_followed_into_the_next_region(vertex, both, follow, capsys):
    vertex.state["scripts"] = [LACKING, [("SUCCEEDED", {})]]
    assert main(["submit", "--wait", "--env", both, *TUNED]) == 0
    assert regions(vertex) == [LOCATION, ELSEWHERE]
    first, second = vertex.kept("runs")
    assert second == f"{first}-next2"
    out = capsys.readouterr().out
    assert_named(out, second, ELSEWHERE)
    assert f"locations/{ELSEWHERE}/runs/{second}" in out
    first, second = sent_specs(vertex)
    assert first == second
    assert first["root"]["dag"]["tasks"]["fall-back"]["triggerPolicy"] == {
        "strategy": "ALL_UPSTREAM_TASKS_COMPLETED"
    }


def test_accelerators_of_a_region_come_before_the_next_region(vertex, both, follow):
    script = without_machine("custom-training-job")
    vertex.state["scripts"] = [script, script, script]
    assert main(["submit", "--wait", "--env", both, *SEVERAL]) == 1
    assert regions(vertex) == [LOCATION, LOCATION, ELSEWHERE]


def test_accelerators_of_the_environment_itself_fall_back_without_another_region(
    vertex, address, tmp_path, follow, capsys
):
    prod, _ = two_environments(vertex, address)
    several = dict(argument.split("=") for argument in SEVERAL)
    prod = dataclasses.replace(prod, parameters={**prod.parameters, **several, "base_model_uri": "pretrained"})
    vertex.state["scripts"] = [LACKING, [("SUCCEEDED", {})]]
    given = ["--env", written([prod], tmp_path)]
    assert main(["submit", "--dry-run", *given]) == 0
    assert_named(capsys.readouterr().out, "Without", LOCATION, "accelerator")
    assert main(["submit", "--wait", *given]) == 0
    assert regions(vertex) == [LOCATION, LOCATION]
    first, second = (entry["job"]["runtimeConfig"]["parameterValues"] for entry in vertex.kept("runs").values())
    assert (first["accelerator"], second["accelerator"]) == ("v5e-1,l4", "l4")


def test_other_failure_ends_the_run_in_the_first_region(vertex, both, follow):
    vertex.state["scripts"] = [[("FAILED", {"custom-training-job-2": ("FAILED", "exit status 1")})]]
    assert main(["submit", "--wait", "--env", both, *TUNED]) == 1
    assert regions(vertex) == [LOCATION]


def test_three_regions_are_tried_in_turn(vertex, address, tmp_path):
    """The server has two regions, so the third is seen in the compiled pipeline, and in what is followed."""
    prod, eu = two_environments(vertex, address)
    asia = dataclasses.replace(eu, name="prod-asia", location="asia-east1", bucket="gs://asia-runs")
    spec = yaml.safe_load(compiled(written((prod, eu, asia), tmp_path), tmp_path))
    task = spec["root"]["dag"]["tasks"]["fall-back"]["inputs"]["parameters"]
    places = task["places"]["runtimeValue"]["constant"]
    assert [place["location"] for place in places] == [LOCATION, ELSEWHERE, "asia-east1"]
    every = dataclasses.replace(prod, further=(eu, asia))
    Submission.prepare(eu, {}, run="msinet-1-next2").send()
    later = SentRun(every, "msinet-1").following()
    assert later
    assert (later.run, later.environment.name) == ("msinet-1-next2", "prod-eu")
    assert [each.name for each in later.environment.further] == ["prod-asia"]
    assert later.following() is None


def compiled(environments, folder):
    path = folder / "mine.yaml"
    assert main(["compile", "--env", environments, "--output", str(path)]) == 0
    return path.read_text()


def test_region_of_the_pipeline_is_known_to_the_run_alone(both, tmp_path):
    text = compiled(both, tmp_path)
    spec = yaml.safe_load(text)
    tasks = {}
    for component in (spec["root"], *spec["components"].values()):
        tasks |= component.get("dag", {}).get("tasks", {})
    places = [
        task["inputs"]["parameters"]["location"]["runtimeValue"]["constant"]
        for task in tasks.values()
        if "location" in task.get("inputs", {}).get("parameters", {})
    ]
    assert len(places) == 6  # Check, Data, and plan and job of both trainings
    assert set(places) == {"{{$.pipeline_google_cloud_location}}"}
    assert "fall-back" not in compiled(both.partition(",")[0], tmp_path)


def test_what_happens_without_a_machine_is_said_before_and_without_waiting(vertex, both, tmp_path, capsys):
    assert main(["submit", "--env", both, "--dry-run", *TUNED]) == 0
    assert_named(capsys.readouterr().out, LOCATION, ELSEWHERE)
    assert main(["submit", "--env", both, *TUNED]) == 0
    assert_named(capsys.readouterr().out.splitlines()[-1], LOCATION, ELSEWHERE)
    alone = both.partition(",")[0]
    assert main(["submit", "--env", alone, *SEVERAL]) == 0
    assert_named(capsys.readouterr().out.splitlines()[-1], "nothing", "--wait", "environment")
    assert main(["submit", "--env", alone, *TUNED]) == 0
    assert "nothing" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lacking", "kind", "named"),
    [
        ("bucket", NotFoundError, (EU_BUCKET,)),
        ("region of the bucket", NotFoundError, (EU_BUCKET, "us-central1")),
        ("quota", NotFoundError, ("custom_model_training_nvidia_l4_gpus", 0)),
        ("accelerator", SettingError, ("v5e-1",)),
    ],
)
def test_every_region_is_checked_before_anything_is_sent(vertex, both, lacking, kind, named):
    project, given = vertex.state["project"], list(TUNED)
    if lacking == "bucket":
        del project.buckets[EU_BUCKET]
    elif lacking == "region of the bucket":
        project.buckets[EU_BUCKET]["location"] = "US-CENTRAL1"
    elif lacking == "quota":
        project.quotas["custom_model_training_nvidia_l4_gpus"] = {"": 64, ELSEWHERE: 0}
    else:
        given[1] = "accelerator=v5e-1"
    with refused(kind, "prod-eu", ELSEWHERE, *named):
        main(["submit", "--env", both, *given])
    assert not regions(vertex)


def test_template_must_be_compiled_for_the_same_regions(vertex, both, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small()))
    with refused(MismatchError, str(path), LOCATION, ELSEWHERE, "prod,prod-eu"):
        main(["submit", "--env", both, "--template", str(path)])
    mine = tmp_path / "mine.yaml"
    compiled(both, tmp_path)
    assert main(["submit", "--env", both, "--template", str(mine), *TUNED]) == 0
    # Whoever starts it: the console and the trigger of uploads know the template alone.
    assert main(["submit", "--env", both.partition(",")[0], "--template", str(mine), *TUNED]) == 0
    assert all("fall-back" in spec["root"]["dag"]["tasks"] for spec in sent_specs(vertex))


# === Schedule, doctor, publish ===


def test_schedule_is_in_the_first_region_and_its_runs_fall_back(vertex, both, tmp_path, capsys):
    folder = tmp_path / "schedules"
    folder.mkdir()
    lines = ["cron = '0 3 * * 1'", "[parameters]", 'base_model_uri = "pretrained"', 'accelerator = "v5e-1,l4"']
    (folder / "weekly.toml").write_text("\n".join([*lines, "finetune_batch_size = 0"]))
    command = ["schedule", "apply", "--env", both, "--folder", str(folder)]
    assert main([*command, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert_named(out, "msinet-prod-weekly", LOCATION, ELSEWHERE)
    assert "note: " in out
    assert main(command) == 0
    (kept,) = vertex.kept("schedules").values()
    job = kept["createPipelineJobRequest"]["pipelineJob"]
    assert "fall-back" in job["pipelineSpec"]["root"]["dag"]["tasks"]
    assert job["runtimeConfig"]["parameterValues"]["accelerator"] == "v5e-1,l4"
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "There is nothing to do."
    assert main(["schedule", "apply", "--env", both.partition(",")[0], "--folder", str(folder)]) == 0
    assert_named(capsys.readouterr().out, "template", "nothing", "environment")


def test_schedule_is_not_made_if_a_further_region_lacks_something(vertex, both, tmp_path):
    folder = tmp_path / "schedules"
    folder.mkdir()
    (folder / "weekly.toml").write_text("cron = '0 3 * * 1'")
    del vertex.state["project"].buckets[EU_BUCKET]
    with refused(NotFoundError, "prod-eu", EU_BUCKET):
        main(["schedule", "apply", "--env", both, "--folder", str(folder)])
    assert not vertex.kept("schedules")


def test_doctor_checks_each_region(vertex, both, capsys):
    assert main(["doctor", "--env", both, *TUNED]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("Environment ")] == [
        f"Environment prod, {LOCATION}",
        f"Environment prod-eu, {ELSEWHERE}",
    ]
    assert f"bucket gs://{EU_BUCKET} is in {ELSEWHERE}" in out
    # The account of the runs starts runs only where the last task of one does.
    right = "roles/aiplatform.user on project proj"
    first, second = out.split("Environment prod-eu")
    assert (first.count(right), second.count(right)) == (3, 2)
    project = vertex.state["project"]
    project.quotas["custom_model_training_nvidia_l4_gpus"] = {"": 64, ELSEWHERE: 0}
    assert main(["doctor", "--env", both, *TUNED]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "✗" in line)
    assert_named(line, "custom_model_training_nvidia_l4_gpus", ELSEWHERE)


def test_published_template_falls_back(vertex, both, capsys):
    assert main(["publish", "--env", both]) == 0
    address = capsys.readouterr().out.splitlines()[0]
    template = vertex.kept("templates")[address.rpartition("/")[2]]
    assert "fall-back" in yaml.safe_load(template)["root"]["dag"]["tasks"]
