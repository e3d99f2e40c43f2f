"""Schedules, as requests to a server on loopback: each action, its failures, and the checks before any request."""

import copy
import datetime
import shutil

import pytest
import yaml

from pipeline.__main__ import main
from pipeline.commands import schedule as schedule_command
from pipeline.vertex import schedule
from pipeline.vertex.schedule_files import EXAMPLE
from tests.refusals import refused
from tests.vertex import DROP, NAMES, PARENT, SERVICE_ACCOUNT, environment, write_config
from tests.vertex_pipelines import small
from trainer.errors import (
    AmbiguousError,
    FailedError,
    MistakesError,
    NotFoundError,
    PlaceError,
    SettingError,
    UnreachableError,
    UsageError,
    UserError,
)

MONDAYS = 'cron = "0 3 * * 1"\ntimezone = "Europe/London"\n'
SOON = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
LATER = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=400)).strftime("%Y-%m-%dT%H:%M")


@pytest.fixture
def do(vertex, tmp_path, capsys):
    """Runs `schedule VERB ...`; returns the printed lines."""
    config = write_config(vertex.environment, tmp_path)

    def do(verb, *arguments):
        capsys.readouterr()
        assert main(["schedule", verb, "--env", config, *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return do


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


@pytest.fixture
def template(tmp_path):
    """The arguments that choose a small pipeline, which is not ours."""
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(small(base_epochs="NUMBER_INTEGER", base_source="STRING")))
    return "--template", str(path)


def make_from_flags(vertex, name="msinet-prod", **parameters):
    """A schedule as `schedule create` made it from flags, before schedules were files."""
    when = schedule.timing("0 3 * * 1", "Europe/London")
    return schedule.create(schedule.prepare_schedule(vertex.environment, name, when, parameters))


def states(vertex):
    return {number: schedule["state"] for number, schedule in vertex.kept("schedules").items()}


def sent_values(vertex):
    """The parameters in the last request for a schedule: the fields of the form."""
    job = vertex.sent("POST", "/schedules")[-1].body["createPipelineJobRequest"]["pipelineJob"]
    return job["runtimeConfig"]["parameterValues"]


# === Create ===


def test_a_dry_run_without_files_shows_what_the_example_would_make_and_asks_nobody(
    vertex, do, tmp_path, monkeypatch
):
    folder = tmp_path / "clone"
    folder.mkdir()
    shutil.copy(schedule_command.FOLDER / EXAMPLE, folder)
    monkeypatch.setattr(schedule_command, "FOLDER", folder)
    said = do("apply", "--dry-run")
    assert "create  msinet-prod-weekly" in said
    assert any("TZ=Europe/London 0 3 * * 1" in line for line in said)
    assert str(folder / EXAMPLE) in said[-1]
    assert not vertex.requests
    with refused(NotFoundError, folder):  # which is for the dry run alone
        do("apply")


def test_request_to_create_is_what_the_api_documents(vertex, do, files):
    limits = f'start = "{SOON}Z"\nend = "{LATER}Z"\n'
    do("apply", *files(weekly=f"{MONDAYS}{limits}[parameters]\nbase_epochs = 2\n"))
    (request,) = vertex.sent("POST", "/schedules")
    job = request.body["createPipelineJobRequest"].pop("pipelineJob")
    assert request.path == f"/v1/{PARENT}/schedules"
    assert request.body == {
        "displayName": "msinet-prod-weekly",
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


@pytest.mark.parametrize(("given", "sent"), [("", True), ("skip_unchanged = false", False)])
def test_scheduled_run_trains_only_on_something_new_unless_told_otherwise(vertex, do, files, given, sent):
    do("apply", *files(weekly=f"{MONDAYS}[parameters]\n{given}\n"))
    assert sent_values(vertex)["settings"]["skip_unchanged"] is sent


@pytest.mark.parametrize(("given", "times"), [("", "0 */6 * * *"), ('cron = "30 * * * *"\n', "30 * * * *")])
def test_schedule_for_new_data_looks_often(vertex, do, files, given, times):
    do("apply", *files(often=f"when_changed = true\n{given}"))
    (request,) = vertex.sent("POST", "/schedules")
    assert request.body["cron"] == f"TZ=UTC {times}"
    assert sent_values(vertex)["settings"]["skip_unchanged"] is True


def test_there_is_never_a_second_schedule_of_one_name(vertex, do, files):
    do("apply", *files(weekly=MONDAYS, often="when_changed = true\n"))
    first, second = vertex.kept("schedules").values()
    second["displayName"] = first["displayName"] = "msinet-prod-weekly"
    with refused(AmbiguousError, 2, "msinet-prod-weekly", 7000, 7001):
        do("apply", *files())
    with refused(AmbiguousError, 2, "msinet-prod-weekly", "--name", 7000, 7001):
        do("pause", "--name", "msinet-prod-weekly")
    assert do("show", "--name", "7001")[0] == "Schedule:  msinet-prod-weekly (7001), active"
    do("delete", "--name", "7001")
    vertex.kept("schedules")["7000"]["createPipelineJobRequest"]["pipelineJob"]["labels"] = {}  # somebody else's
    with refused(PlaceError, "'msinet-prod-weekly'", "--name msinet-prod-weekly"):
        do("apply", *files(often=""))
    assert states(vertex) == {"7000": "ACTIVE"}


def warned(lines):
    """The lines that are warnings."""
    return [line for line in lines if line.startswith("warning: ")]


def test_schedule_of_a_model_that_another_one_trains_is_made_with_a_warning(vertex, do, files, template, tmp_path):
    assert not warned(do("apply", *files(weekly=MONDAYS)))
    (line,) = warned(do("apply", *files(often="when_changed = true\n[parameters]\nseed = 2\n")))
    assert "msinet-prod-often trains" in line
    assert "as msinet-prod-weekly:" in line
    others = {"other": 'model_name = "other"', "registry": 'registry = "gs://bucket/models"'}
    assert not warned(
        do("apply", *files(**{name: f"{MONDAYS}[parameters]\n{text}" for name, text in others.items()}))
    )
    assert len(vertex.kept("schedules")) == 4
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "small.toml").write_text(MONDAYS)
    assert not warned(do("apply", "--folder", str(tmp_path / "others"), *template))  # another pipeline


def test_dry_run_says_what_would_be_scheduled_and_sends_nothing(vertex, do, files, template):
    folder = files(weekly=f"{MONDAYS}end = 2099-01-01\n[parameters]\nbase_epochs = 3\n")
    first, *lines, last = do("apply", *folder, *template, "--dry-run")
    assert first.split() == ["create", "msinet-prod-weekly"]
    facts = {name.strip(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    assert facts["Times"] == "TZ=Europe/London 0 3 * * 1"
    assert facts["End"] == "Thu 2099-01-01 00:00 GMT"
    assert "base_epochs=3" in facts["Parameters"]
    assert last.startswith("Nothing was changed")
    assert not [request for request in vertex.requests if request.method != "GET"]


def test_schedule_has_the_first_accelerator_with_quota(vertex, do, files):
    vertex.state["project"].quotas["custom_model_training_nvidia_l4_gpus"] = {"": 0}
    folder = files(weekly=f'{MONDAYS}[parameters]\naccelerator = "l4,t4"\nbase_batch_size = 0\n')
    said = do("apply", *folder)
    assert said[0].startswith(
        "msinet-prod-weekly: accelerator is t4, not l4: quota custom_model_training_nvidia_l4_gpus in us-central1 "
        "is 0"
    )
    assert sent_values(vertex)["accelerator"] == "t4"
    assert do("apply", *folder)[-1] == "There is nothing to do."


@pytest.mark.parametrize("is_new", [True, False])
def test_bucket_and_quota_are_asked_for_before_anything_is_scheduled(vertex, do, files, is_new):
    if not is_new:
        do("apply", *files(weekly=MONDAYS))
    before, project = vertex.kept("schedules").copy(), vertex.state["project"]
    folder = files(weekly=f'{MONDAYS}[parameters]\naccelerator = "l4"\nbase_batch_size = 0\n')
    project.quotas["custom_model_training_nvidia_l4_gpus"] = {"": 64, "us-central1": 0}
    with refused(NotFoundError, "custom_model_training_nvidia_l4_gpus", "us-central1", 0, 1):
        do("apply", *folder)
    next(iter(project.buckets.values()))["location"] = "EUROPE-WEST4"
    with refused(NotFoundError, "bucket", "europe-west4", "us-central1"):
        do("apply", *folder)
    assert vertex.kept("schedules") == before


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_schedule_from_flags_is_refused_with_what_to_write_in_its_place(vertex, do, verb):
    with refused(UsageError, f"schedule {verb}", "schedules/NAME.toml", "schedule apply --env ENV"):
        do(verb, "--cron", "0 3 * * 1", "--when-changed", "base_epochs=2")
    assert not vertex.requests


# === Look ===


def test_show_prints_parameters_labels_and_runs(vertex, do, files, template):
    do("apply", *files(weekly=f"{MONDAYS}[parameters]\nbase_epochs = 2\n"), *template)
    job = vertex.kept("schedules")["7000"]["createPipelineJobRequest"]["pipelineJob"]
    for run, number in (("auto-1", "7000"), ("auto-2", "other")):
        started = {"name": f"{NAMES}/pipelineJobs/{run}", "scheduleName": f"{NAMES}/schedules/{number}"}
        vertex.kept("runs")[run] = {"job": {**job, **started}, "asked": 0, "cancelled": False}
    lines = do("show", "--name", "msinet-prod-weekly")
    assert lines[:3] == [
        "Schedule:  msinet-prod-weekly (7000), active",
        "Console:   https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/schedules/7000?project=proj",
        "Times:     TZ=Europe/London 0 3 * * 1",
    ]
    assert "Next run:  Mon 2026-03-09 03:00 UTC" in lines
    assert "  base_epochs = 2" in lines
    assert "  label team = vision" in lines
    assert [line for line in lines if line.startswith("Run ")] == ["Run auto-1: pending"]


# === Change ===


def test_pause_resume_and_delete_are_sent_and_reported(vertex, do, files):
    do("apply", *files(weekly=MONDAYS))
    named = ("--name", "msinet-prod-weekly")
    assert do("pause", *named) == ["msinet-prod-weekly (7000) is paused"]
    assert states(vertex) == {"7000": "PAUSED"}
    assert not [line for line in do("show") if line.startswith("Next run")]
    assert do("resume", "--name", "7000") == ["msinet-prod-weekly (7000) is active again"]
    assert states(vertex) == {"7000": "ACTIVE"}
    assert do("delete", *named) == ["msinet-prod-weekly (7000) is deleted, but runs that it started continue"]
    assert not vertex.kept("schedules")
    with refused(NotFoundError, "msinet-prod-weekly"):
        do("delete", *named)


@pytest.mark.parametrize("named", [(), ("--name", "msinet-prod"), ("--name", "7000"), ("--all",)])
def test_schedule_that_was_made_from_flags_is_listed_and_deleted(vertex, do, named):
    make_from_flags(vertex, base_epochs=2)
    (line,) = do("list")
    assert line.startswith("7000  active     TZ=Europe/London 0 3 * * 1  msinet-prod  next run")
    assert "  base_epochs = 2" in do("show")
    assert do("pause") == ["msinet-prod (7000) is paused"]
    assert do("delete", *named) == ["msinet-prod (7000) is deleted, but runs that it started continue"]
    assert not vertex.kept("schedules")


def test_all_schedules_of_the_environment_are_deleted_and_no_others(vertex, do, files):
    make_from_flags(vertex)
    do("apply", *files(often="when_changed = true\n"))
    other = copy.deepcopy(vertex.kept("schedules")["7000"])
    other["createPipelineJobRequest"]["pipelineJob"]["displayName"] = "msinet-test"
    vertex.kept("schedules")["8000"] = other | {"name": f"{NAMES}/schedules/8000"}
    with refused(SettingError, "--all", "delete"):
        do("pause", "--all")
    with refused(AmbiguousError, 2, "msinet-prod (7000)", "msinet-prod-often (7001)"):
        do("delete")
    assert [line.split()[0] for line in do("delete", "--all")] == ["msinet-prod", "msinet-prod-often"]
    assert list(vertex.kept("schedules")) == ["8000"]
    assert do("delete", "--all") == []
    with refused(NotFoundError, "prod", 0):
        do("pause")


def test_apply_deletes_the_old_schedule_after_creating_the_new_one(vertex, do, files):
    limit = f'end = "{LATER}Z"\n'
    do("apply", *files(weekly=MONDAYS + limit))
    vertex.requests.clear()
    lines = do("apply", *files(weekly=f"{MONDAYS}{limit}[parameters]\nbase_epochs = 3\n"))
    changes = [
        (request.method, request.path.rpartition("/")[2]) for request in vertex.requests if request.method != "GET"
    ]
    assert changes == [("POST", "schedules"), ("DELETE", "7000")]
    assert lines[-1] == "Done: change msinet-prod-weekly (7001)"
    (new,) = vertex.kept("schedules").values()
    assert (new["cron"], new["endTime"]) == ("TZ=Europe/London 0 3 * * 1", f"{LATER}:00Z")
    assert sent_values(vertex)["settings"]["base_epochs"] == 3
    do("pause")
    do("apply", *files(weekly='cron = "0 5 * * 2"\n'))
    assert states(vertex) == {"7002": "PAUSED"}
    assert vertex.kept("schedules")["7002"]["cron"] == "TZ=UTC 0 5 * * 2"


def test_old_schedule_stays_if_the_new_one_is_refused(vertex, do, files):
    do("apply", *files(weekly=MONDAYS))
    with refused(UnreachableError, "TZ=UTC 0 25 * * 1"):
        do("apply", *files(weekly='cron = "0 25 * * 1"\n'))
    assert states(vertex) == {"7000": "ACTIVE"}
    assert not vertex.sent("DELETE")
    vertex.fail(403, method="DELETE")
    with refused(FailedError, 7001, "delete --env prod --name 7000"):
        do("apply", *files(weekly='cron = "0 5 * * 1"\n'))


@pytest.mark.parametrize("status", [DROP, 503])
def test_request_to_create_is_never_repeated(vertex, do, files, status):
    vertex.fail(status, method="POST", after=True)
    with refused(UnreachableError, "msinet-prod-weekly"):
        do("apply", *files(weekly=MONDAYS))
    assert do("apply", *files())[-1] == "There is nothing to do."
    assert len(vertex.sent("POST")) == 1


# === Refused before any request ===


def test_start_in_the_zone_is_sent_in_utc():
    year = datetime.datetime.now(datetime.UTC).year + 1
    timing = schedule.timing("0 3 * * 1", "America/New_York", f"{year}-07-01T12:00", f"{year}-12-24")
    request = schedule.SchedulePlan(environment("", "bucket"), {}, "mine", timing).request["schedule"]
    assert request["startTime"] == f"{year}-07-01T16:00:00Z"
    assert request["endTime"] == f"{year}-12-24T05:00:00Z"


# === Files ===


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
    with refused(MistakesError, "bad.toml", "corn", "cron", "timezone", 3, "gate", "kdl"):
        do("apply", *folder)
    for name in ("deep", "wide"):
        files(**{name: {"deep": f"a = {'[' * 1000}", "wide": "\n".join(f"a{n} = 1" for n in range(50_000))}[name]})
        with refused(UserError, f"{name}.toml"):
            do("apply", *folder)
        files(**{name: ""})
    with refused(NotFoundError, "docs/vertex-reference.md"):
        do("apply", "--folder", "x" * 300)
    assert not vertex.requests
