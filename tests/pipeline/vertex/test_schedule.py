"""Schedules, as requests to a server on loopback: each action, its failures, and the checks before any request."""

import copy
import datetime
import json

import pytest
import yaml

from pipeline.__main__ import main
from pipeline.vertex import schedule
from tests.vertex import DROP, NAMES, PARENT, SERVICE_ACCOUNT, environment, write_config
from tests.vertex_pipelines import small
from trainer.errors import UserError

MONDAYS = ("--cron", "0 3 * * 1", "--timezone", "Europe/London")
SOON = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
LATER = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=400)).strftime("%Y-%m-%dT%H:%M")


@pytest.fixture
def do(vertex, tmp_path, capsys):
    """Runs `schedule VERB ...`, with a small template unless `own` (our pipeline); returns the printed lines."""
    config = write_config(vertex.environment, tmp_path)
    template = tmp_path / "small.yaml"
    template.write_text(yaml.safe_dump(small(base_epochs="NUMBER_INTEGER", base_source="STRING")))

    def do(verb, *arguments, own=False):
        capsys.readouterr()
        if verb in ("create", "replace") and not own:
            arguments = ("--template", str(template), *arguments)
        assert main(["schedule", verb, "--env", config, *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return do


def states(vertex):
    return {number: schedule["state"] for number, schedule in vertex.kept("schedules").items()}


# === Create ===


def test_request_to_create_is_what_the_api_documents(vertex, do):
    do("create", *MONDAYS, "--start", SOON + "Z", "--end", LATER + "Z", "base_epochs=2", own=True)
    (request,) = vertex.sent("POST", "/schedules")
    job = request.body["createPipelineJobRequest"].pop("pipelineJob")
    assert request.path == f"/v1/{PARENT}/schedules"
    assert request.body == {
        "displayName": "msinet-prod",
        "cron": "TZ=Europe/London 0 3 * * 1",
        "startTime": f"{SOON}:00Z",
        "endTime": f"{LATER}:00Z",
        "maxConcurrentRunCount": "1",
        "maxConcurrentActiveRunCount": "1",
        "createPipelineJobRequest": {"parent": PARENT},
    }
    # Scheduled runs once lost their labels and names on the way.
    assert job["displayName"] == "msinet-prod"
    assert job["labels"] == {"managed_by": "msinet-pipelines", "team": "vision"}
    assert job["serviceAccount"] == SERVICE_ACCOUNT
    assert job["runtimeConfig"]["gcsOutputDirectory"] == f"{vertex.environment.bucket}/runs"
    assert job["runtimeConfig"]["parameterValues"]["settings"]["base_epochs"] == 2
    assert job["pipelineSpec"]["pipelineInfo"] == {"name": "msinet", **job["pipelineSpec"]["pipelineInfo"]}


@pytest.mark.parametrize(("given", "sent"), [([], True), (["skip_unchanged=false"], False)])
def test_scheduled_run_trains_only_on_something_new_unless_told_otherwise(vertex, do, given, sent):
    do("create", *MONDAYS, *given, own=True)
    (request,) = vertex.sent("POST", "/schedules")
    job = request.body["createPipelineJobRequest"]["pipelineJob"]
    assert job["runtimeConfig"]["parameterValues"]["settings"]["skip_unchanged"] is sent


@pytest.mark.parametrize(("given", "times"), [([], "0 */6 * * *"), (["--cron", "30 * * * *"], "30 * * * *")])
def test_schedule_for_new_data_looks_often(vertex, do, given, times):
    do("create", "--when-changed", *given, own=True)
    (request,) = vertex.sent("POST", "/schedules")
    assert request.body["cron"] == f"TZ=UTC {times}"
    job = request.body["createPipelineJobRequest"]["pipelineJob"]
    assert job["runtimeConfig"]["parameterValues"]["settings"]["skip_unchanged"] is True


def test_there_is_never_a_second_schedule_of_one_name(vertex, do):
    do("create", *MONDAYS)
    with pytest.raises(UserError, match=r"schedule 'msinet-prod' already exists.*schedule replace"):
        do("create", *MONDAYS)
    do("create", *MONDAYS, "--name", "another")
    assert len(vertex.kept("schedules")) == 2
    vertex.kept("schedules")["7001"]["displayName"] = "msinet-prod"
    with pytest.raises(UserError, match=r"2 schedules 'msinet-prod'.*--name \(7000, 7001\)"):
        do("pause")
    assert do("show", "--name", "7001")[0] == "Schedule:  msinet-prod (7001), active"
    do("delete", "--name", "7001")
    assert states(vertex) == {"7000": "ACTIVE"}


def warned(lines):
    """The lines that are warnings."""
    return [line for line in lines if line.startswith("warning: ")]


def test_schedule_of_a_model_that_another_one_trains_is_made_with_a_warning(vertex, do):
    assert not warned(do("create", *MONDAYS, own=True))
    (line,) = warned(do("create", "--when-changed", "--name", "often", "seed=2", own=True))
    assert "often trains" in line
    assert "msinet-prod" in line
    assert not warned(do("create", *MONDAYS, "--name", "other", "model_name=other", own=True))
    assert not warned(do("create", *MONDAYS, "--name", "registry", "registry=gs://bucket/models", own=True))
    assert not warned(do("create", *MONDAYS, "--name", "small"))  # another pipeline
    (line,) = warned(do("replace", *MONDAYS, "--name", "often", own=True))
    assert "as msinet-prod:" in line
    do("delete")
    assert not warned(do("replace", *MONDAYS, "--name", "often", own=True))
    assert len(vertex.kept("schedules")) == 4


def test_dry_run_says_what_would_be_scheduled_and_sends_nothing(vertex, do):
    lines = do("create", *MONDAYS, "--dry-run", "--end", "2099-01-01", "base_epochs=3")
    facts = dict(line.split(":", 1) for line in lines[:-1])
    assert facts["Schedule"].strip() == "msinet-prod"
    assert facts["Times"].strip() == "TZ=Europe/London 0 3 * * 1"
    assert facts["End"].strip() == "Thu 2099-01-01 00:00 GMT"
    assert "base_epochs=3" in facts["Parameters"]
    assert lines[-1].startswith("Nothing was sent.")
    printed = json.loads("\n".join(do("create", *MONDAYS, "--dry-run", "--json")))
    assert not vertex.requests
    do("create", *MONDAYS)
    assert printed["schedule"] == vertex.sent("POST", "/schedules")[0].body


def test_schedule_has_the_first_accelerator_with_quota(vertex, do):
    vertex.state["project"].quotas["custom_model_training_nvidia_l4_gpus"] = {"": 0}
    said = do("create", *MONDAYS, "accelerator=l4,t4", "base_batch_size=0", own=True)
    assert said[0].startswith(
        "accelerator is t4, not l4: quota custom_model_training_nvidia_l4_gpus in us-central1 is 0"
    )
    request = vertex.sent("POST", "/schedules")[0].body["createPipelineJobRequest"]
    assert request["pipelineJob"]["runtimeConfig"]["parameterValues"]["accelerator"] == "t4"


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_bucket_and_quota_are_asked_for_before_anything_is_scheduled(vertex, do, verb):
    if verb == "replace":
        do("create", *MONDAYS)
    before, project = vertex.kept("schedules").copy(), vertex.state["project"]
    project.quotas["custom_model_training_nvidia_l4_gpus"] = {"": 64, "us-central1": 0}
    with pytest.raises(UserError, match=r"nvidia_l4_gpus in us-central1 is 0, but the plan takes 1"):
        do(verb, *MONDAYS, "accelerator=l4", "base_batch_size=0", own=True)
    next(iter(project.buckets.values()))["location"] = "EUROPE-WEST4"
    with pytest.raises(UserError, match="is in europe-west4, but runs are in us-central1"):
        do(verb, *MONDAYS)
    assert vertex.kept("schedules") == before


# === Look ===


def test_show_prints_parameters_labels_and_runs(vertex, do):
    do("create", *MONDAYS, "base_epochs=2")
    job = vertex.kept("schedules")["7000"]["createPipelineJobRequest"]["pipelineJob"]
    for run, number in (("auto-1", "7000"), ("auto-2", "other")):
        started = {"name": f"{NAMES}/pipelineJobs/{run}", "scheduleName": f"{NAMES}/schedules/{number}"}
        vertex.kept("runs")[run] = {"job": {**job, **started}, "asked": 0, "cancelled": False}
    lines = do("show")
    assert lines[:3] == [
        "Schedule:  msinet-prod (7000), active",
        "Console:   https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/schedules/7000?project=proj",
        "Times:     TZ=Europe/London 0 3 * * 1",
    ]
    assert "Next run:  Mon 2026-03-09 03:00 UTC" in lines
    assert "  base_epochs = 2" in lines
    assert "  label team = vision" in lines
    assert [line for line in lines if line.startswith("Run ")] == ["Run auto-1: pending"]


# === Change ===


def test_pause_resume_and_delete_are_sent_and_reported(vertex, do):
    do("create", *MONDAYS)
    assert do("pause") == ["msinet-prod (7000) is paused"]
    assert states(vertex) == {"7000": "PAUSED"}
    assert not [line for line in do("show") if line.startswith("Next run")]
    assert do("resume") == ["msinet-prod (7000) is active again"]
    assert states(vertex) == {"7000": "ACTIVE"}
    assert do("delete") == ["msinet-prod (7000) is deleted; runs that it started continue"]
    assert not vertex.kept("schedules")
    with pytest.raises(UserError, match="there is no schedule 'msinet-prod'"):
        do("delete")


def test_all_schedules_of_the_environment_are_deleted_and_no_others(vertex, do):
    do("create", *MONDAYS, own=True)
    do("create", "--when-changed", "--name", "new-data", own=True)
    other = copy.deepcopy(vertex.kept("schedules")["7000"])
    other["createPipelineJobRequest"]["pipelineJob"]["displayName"] = "msinet-test"
    vertex.kept("schedules")["8000"] = other | {"name": f"{NAMES}/schedules/8000"}
    with pytest.raises(UserError, match="--all is for delete"):
        do("pause", "--all")
    assert [line.split()[0] for line in do("delete", "--all")] == ["msinet-prod", "new-data"]
    assert list(vertex.kept("schedules")) == ["8000"]
    assert do("delete", "--all") == []


def test_replace_deletes_the_old_schedule_after_creating_the_new_one(vertex, do):
    do("create", *MONDAYS, "--end", LATER + "Z")
    vertex.requests.clear()
    lines = do("replace", "base_epochs=3")
    changes = [
        (request.method, request.path.rpartition("/")[2]) for request in vertex.requests if request.method != "GET"
    ]
    assert changes == [("POST", "schedules"), ("DELETE", "7000")]
    assert lines[0] == "Schedule:  msinet-prod (7001), active"
    (new,) = vertex.kept("schedules").values()
    assert (new["cron"], new["endTime"]) == ("TZ=Europe/London 0 3 * * 1", f"{LATER}:00Z")
    values = new["createPipelineJobRequest"]["pipelineJob"]["runtimeConfig"]["parameterValues"]
    assert values["base_epochs"] == 3
    do("pause")
    assert do("replace", "--cron", "0 5 * * 2")[0] == "Schedule:  msinet-prod (7002), paused"
    assert [new["cron"] for new in vertex.kept("schedules").values()] == ["TZ=UTC 0 5 * * 2"]


def test_old_schedule_stays_if_the_new_one_is_refused(vertex, do):
    do("create", *MONDAYS)
    with pytest.raises(UserError, match=r"cron 'TZ=UTC 0 25 \* \* 1' is not valid"):
        do("replace", "--cron", "0 25 * * 1")
    assert states(vertex) == {"7000": "ACTIVE"}
    assert not vertex.sent("DELETE")
    vertex.fail(403, method="DELETE")
    with pytest.raises(UserError, match=r"7001 .* 7000 .*delete --env prod --name 7000"):
        do("replace", "base_epochs=3")


@pytest.mark.parametrize("status", [DROP, 503])
def test_request_to_create_is_never_repeated(vertex, do, status):
    vertex.fail(status, method="POST", after=True)
    with pytest.raises(UserError, match="msinet-prod"):
        do("create", *MONDAYS)
    with pytest.raises(UserError, match="already exists"):
        do("create", *MONDAYS)
    assert len(vertex.sent("POST")) == 1


# === Refused before any request ===


def test_start_in_the_zone_is_sent_in_utc():
    year = datetime.datetime.now(datetime.UTC).year + 1
    timing = schedule.timing("0 3 * * 1", "America/New_York", f"{year}-07-01T12:00", f"{year}-12-24")
    request = schedule.SchedulePlan(environment("", "bucket"), {}, "mine", timing).request["schedule"]
    assert request["startTime"] == f"{year}-07-01T16:00:00Z"
    assert request["endTime"] == f"{year}-12-24T05:00:00Z"


# === Files ===


@pytest.fixture
def files(tmp_path):
    """Writes schedules/NAME.toml, or removes it if there is no text; returns the arguments of `apply`."""
    folder = tmp_path / "schedules"
    folder.mkdir()

    def write(**texts):
        for name, text in texts.items():
            path = folder / f"{name}.toml"
            if text:
                path.write_text(text)
            else:
                path.unlink()
        return "--folder", str(folder)

    return write


def test_apply_makes_the_service_equal_to_the_files_and_says_first_what_differs(vertex, do, files):
    weekly = 'cron = "0 3 * * 1"\ntimezone = "Europe/London"\n[parameters]\nbase_epochs = {}\n'
    folder = files(weekly=weekly.format(2), often="when_changed = true\npaused = true\n")
    assert do("apply", *folder, "--dry-run")[-1].startswith("Nothing was changed")
    assert not vertex.kept("schedules")
    do("apply", *folder)
    named = {each["displayName"]: each for each in vertex.kept("schedules").values()}
    assert {name: each["state"] for name, each in named.items()} == {
        "msinet-prod-often": "PAUSED",
        "msinet-prod-weekly": "ACTIVE",
    }
    assert named["msinet-prod-weekly"]["cron"] == "TZ=Europe/London 0 3 * * 1"
    assert do("apply", *folder)[-1] == "There is nothing to do."

    folder = files(weekly=weekly.format(3), often="")
    lines = do("apply", *folder)
    assert "    parameters.base_epochs: 2 -> 3" in lines
    assert any("no file" in line and "msinet-prod-often" in line for line in lines)
    assert len(vertex.kept("schedules")) == 2
    do("apply", *folder, "--prune")
    (left,) = vertex.kept("schedules").values()
    values = left["createPipelineJobRequest"]["pipelineJob"]["runtimeConfig"]["parameterValues"]
    assert (left["displayName"], values["settings"]["base_epochs"]) == ("msinet-prod-weekly", 3)


def test_apply_warns_of_schedules_of_one_model_that_stay(vertex, do, files):
    folder = files(weekly='cron = "0 3 * * 1"\n', often="when_changed = true\n")
    for flags in (["--dry-run"], []):
        lines = warned(do("apply", *folder, *flags))
        assert [("msinet-prod-often" in line, "msinet-prod-weekly" in line) for line in lines] == [
            (True, True)
        ] * 2
    assert not warned(do("apply", *folder))
    folder = files(weekly='cron = "0 4 * * 1"\n', often="")
    (line,) = warned(do("apply", *folder, "--dry-run"))
    assert "msinet-prod-weekly trains" in line
    assert not warned(do("apply", *folder, "--prune"))


def test_schedule_of_others_with_the_address_of_its_template_alone_is_left(vertex, do, files):
    folder = files(weekly='cron = "0 3 * * 1"\n')
    do("apply", *folder)
    other = copy.deepcopy(vertex.kept("schedules")["7000"]) | {
        "name": f"{NAMES}/schedules/8000",
        "displayName": "x",
    }
    job = other["createPipelineJobRequest"]["pipelineJob"]
    del job["pipelineSpec"]
    job |= {"templateUri": "https://us-central1-kfp.pkg.dev/proj/r/x/v1", "labels": {}}
    vertex.kept("schedules")["8000"] = other
    assert do("apply", *folder, "--prune")[-1] == "There is nothing to do."


def test_schedule_can_be_paused_by_its_file_while_an_image_is_missing(vertex, do, files):
    do("apply", *files(weekly='cron = "0 3 * * 1"\n'))
    vertex.state["project"].repositories["msinet"]["tags"].remove("msinet-cpu/v1")
    do("apply", *files(weekly='cron = "0 3 * * 1"\npaused = true\n'))
    assert states(vertex) == {"7000": "PAUSED"}


def test_one_wrong_file_stops_all_before_any_request_and_every_mistake_is_named(vertex, do, files):
    folder = files(
        good='cron = "0 3 * * 1"\n', bad='corn = "0 3 * * 1"\ntimezone = 3\n[parameters]\ngate = "kdl"\n'
    )
    with pytest.raises(UserError) as refused:
        do("apply", *folder)
    for named in ("bad.toml", "did you mean 'cron'", "timezone is 3", "gate is 'kdl'"):
        assert named in str(refused.value)
    for name in ("deep", "wide"):
        files(**{name: {"deep": f"a = {'[' * 1000}", "wide": "\n".join(f"a{n} = 1" for n in range(50_000))}[name]})
        with pytest.raises(UserError, match=rf"{name}\.toml"):
            do("apply", *folder)
        files(**{name: ""})
    with pytest.raises(UserError, match="docs/vertex"):
        do("apply", "--folder", "x" * 300)
    assert not vertex.requests
