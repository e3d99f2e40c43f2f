"""The runs, schedules and templates of tests/vertex.py.

`server.state["script"]` is the course of each run: a list of (state of the run, {task: its state}), one for each
request for the run; the last one stays. A failed task has ("FAILED", message). A run may have a script of its own:
those of `server.state["scripts"]` are for the runs in the order in which they start.
"""

import email.parser
import email.policy
import hashlib
import re

import yaml

from tests.vertex import ELSEWHERE, LOCATION, NAMES, NOW, ApiError, check_labels, matches, operation, page, route

END = "2026-03-02T11:02:05Z"
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
NEXT_RUN = "2026-03-09T03:00:00Z"
PENDING = ("PENDING", {})


def small(**parameters):
    """A compiled pipeline of two tasks, with optional parameters of these types."""
    definitions = {name: {"parameterType": kind, "isOptional": True} for name, kind in parameters.items()}
    components = {"comp-fingerprint": {"executorLabel": "exec-work"}, "comp-work": {"executorLabel": "exec-work"}}
    tasks = {
        "look": {"componentRef": {"name": "comp-fingerprint"}, "taskInfo": {"name": "Look"}},
        "work": {
            "componentRef": {"name": "comp-work"},
            "taskInfo": {"name": "Work"},
            "cachingOptions": {"enableCache": True},
        },
    }
    return {
        "pipelineInfo": {"name": "small"},
        "schemaVersion": "2.1.0",
        "sdkVersion": "kfp-2.17.0",
        "deploymentSpec": {"executors": {"exec-work": {"container": {"image": "small", "command": ["true"]}}}},
        "components": components,
        "root": {"dag": {"tasks": tasks}, "inputDefinitions": {"parameters": definitions}},
    }


@route("POST", "pipelineJobs")
def create(server, request):
    return _create(server, request.body, request.query["pipelineJobId"], _names(request))


def _names(request):
    """The parent of the resources in the region of a request, with the project's number."""
    return NAMES.replace(LOCATION, ELSEWHERE) if f"/{ELSEWHERE}/" in request.path else NAMES


def _create(server, job, run, names):
    runs = server.kept("runs")
    if not re.fullmatch(r"[a-z][-a-z0-9]{0,127}", run):
        raise ApiError(400, f"pipelineJobId {run!r} is not valid")
    if run in runs:
        raise ApiError(409, f"The PipelineJob {NAMES}/pipelineJobs/{run} already exists")
    _check_job(job)
    created = {**job, "name": f"{names}/pipelineJobs/{run}", "createTime": NOW}
    runs[run] = {"job": created, "asked": 0, "cancelled": False}
    if scripts := server.state.get("scripts"):
        runs[run]["script"] = scripts.pop(0)
    return _shown(server, runs[run])


def _check_job(job):
    check_labels(job.get("labels", {}))
    if not job["runtimeConfig"].get("gcsOutputDirectory", "").startswith("gs://"):
        raise ApiError(400, "gcsOutputDirectory must be a Cloud Storage address")
    definitions = job["pipelineSpec"]["root"].get("inputDefinitions", {}).get("parameters", {})
    for name in job["runtimeConfig"].get("parameterValues", {}):
        if name not in definitions:
            raise ApiError(400, f"parameter {name} is not in the pipeline's input definitions")


def _shown(server, entry):
    script = entry.get("script") or server.state.get("script", [PENDING])
    state, tasks = script[min(entry["asked"], len(script) - 1)]
    if entry["cancelled"]:
        state, tasks = "CANCELLED", {}
    run = entry["job"]["name"].rpartition("/")[2]
    details = [_task(1, 0, run, "RUNNING")]
    details += [_task(number, 1, name, how) for number, (name, how) in enumerate(tasks.items(), 2)]
    times = {"startTime": NOW, **({"endTime": END} if state in ENDED else {})}
    failed = [name for name, how in tasks.items() if how[0] == "FAILED"]
    error = {"error": {"code": 9, "message": f"The DAG failed because of {failed}"}} if state == "FAILED" else {}
    detail = {"taskDetails": details if tasks else []}
    return {**entry["job"], "state": f"PIPELINE_STATE_{state}", "jobDetail": detail, **times, **error}


def _task(number, parent, name, how):
    state, message = (how, "") if isinstance(how, str) else how
    task = {"taskId": str(number), "taskName": name, "state": state, "createTime": NOW, "startTime": NOW}
    task |= {"parentTaskId": str(parent)} if parent else {}
    task |= {"endTime": END} if state in ENDED else {}
    return {**task, "error": {"code": 9, "message": message}} if message else task


def _run(server, request, run):
    entry, name = server.kept("runs").get(run), f"{_names(request)}/pipelineJobs/{run}"
    if not entry or entry["job"]["name"] != name:
        raise ApiError(404, f"The PipelineJob {name} was not found")
    return entry


@route("GET", r"pipelineJobs/([^/:]+)")
def get(server, request, run):
    entry = _run(server, request, run)
    shown = _shown(server, entry)
    entry["asked"] += 1
    return shown


@route("GET", "pipelineJobs")
def list_runs(server, request):
    query = dict(request.query)
    jobs = [_shown(server, entry) for entry in reversed(server.kept("runs").values())]
    jobs = [job for job in jobs if job["name"].startswith(f"{_names(request)}/")]
    expression = query.pop("filter", "")
    selected = [
        job
        for job in jobs
        if matches(expression, {**job, "pipelineName": job["pipelineSpec"]["pipelineInfo"]["name"]})
    ]
    fields = [re.sub("_(.)", lambda part: part[1].upper(), name) for name in query["readMask"].split(",")]
    return page("pipelineJobs", [{name: job[name] for name in fields if name in job} for job in selected], query)


@route("POST", r"pipelineJobs/([^/:]+):cancel")
def cancel(server, request, run):
    _run(server, request, run)["cancelled"] = True
    return {}


# === Schedules ===


def is_cron(text):
    """Whether `text` has five fields whose numbers are possible, behind a time zone."""
    parts = re.fullmatch(r"(?:TZ=\S+ )?([\d*/,-]+) ([\d*/,-]+) ([\d*/,-]+) ([\w*/,-]+) ([\w*/,-]+)", text)
    limits = (59, 23, 31, 12, 7)
    return parts and all(
        int(number) <= limit
        for field, limit in zip(parts.groups(), limits, strict=True)
        for number in re.findall(r"\d+", field)
    )


@route("POST", "schedules")
def create_schedule(server, request):
    schedule = request.body
    if not is_cron(schedule["cron"]):
        raise ApiError(400, f"cron {schedule['cron']!r} is not valid")
    if int(schedule.get("maxConcurrentRunCount", 0)) < 1:
        raise ApiError(400, "maxConcurrentRunCount must be at least 1")
    _check_job(schedule["createPipelineJobRequest"]["pipelineJob"])
    schedules = server.kept("schedules")
    number = str(7000 + server.state.setdefault("schedules made", 0))
    server.state["schedules made"] += 1
    made = {"name": f"{NAMES}/schedules/{number}", "state": "ACTIVE", "createTime": NOW, "startTime": NOW}
    schedules[number] = {**made, **schedule, "nextRunTime": NEXT_RUN}
    return schedules[number]


def _schedule(server, number):
    try:
        return server.kept("schedules")[number]
    except KeyError:
        raise ApiError(404, f"The Schedule {NAMES}/schedules/{number} was not found") from None


@route("GET", r"schedules/(\d+)")
def get_schedule(server, request, number):
    return _schedule(server, number)


@route("GET", "schedules")
def list_schedules(server, request):
    return page("schedules", list(server.kept("schedules").values()), request.query)


@route("POST", r"schedules/(\d+):(pause|resume)")
def pause_or_resume(server, request, number, verb):
    schedule = _schedule(server, number)
    expected = "ACTIVE" if verb == "pause" else "PAUSED"
    if schedule["state"] != expected:
        raise ApiError(400, f"the schedule is {schedule['state']}, not {expected}")
    schedule["state"] = "PAUSED" if verb == "pause" else "ACTIVE"
    return {}


@route("DELETE", r"schedules/(\d+)")
def delete_schedule(server, request, number):
    _schedule(server, number)
    del server.kept("schedules")[number]
    return operation(server, "google.protobuf.Empty", {})


# === Templates ===


@route("POST", "/templates")
def upload_template(server, request):
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.raw)
    parts = {
        part.get_param("name", header="content-disposition"): part.get_content() for part in form.iter_parts()
    }
    content = parts["content"] if isinstance(parts["content"], bytes) else parts["content"].encode()
    name = yaml.safe_load(content)["pipelineInfo"]["name"]
    version = f"sha256:{hashlib.sha256(content).hexdigest()}"
    server.kept("templates")[version] = content.decode()
    for tag in filter(None, parts.get("tags", "").strip().split(",")):
        server.kept("tags")[f"{name}:{tag}"] = version
    return f"{name}/{version}"


@route("GET", r"/templates/msinet/(.+)")
def download_template(server, request, version):
    if not version.startswith("sha256:"):
        raise ApiError(500, "Internal error encountered.")  # what the real one has answered for tags
    if version not in server.kept("templates"):
        raise ApiError(404, f"version {version} was not found")
    return server.kept("templates")[version]


# === Vertex ML Metadata ===


@route("POST", "metadataStores/default/contexts")
def create_context(server, request):
    name = request.query["contextId"]
    if name in server.kept("contexts"):
        raise ApiError(409, f"Context {name} already exists.")
    assert request.body["schemaTitle"] == "system.Experiment"
    server.kept("contexts")[name] = {**request.body, "children": []}
    return {"name": f"{NAMES}/metadataStores/default/contexts/{name}", **request.body}


@route("POST", r"metadataStores/default/contexts/([\w-]+):addContextChildren")
def add_children(server, request, name):
    server.kept("contexts")[name]["children"] += request.body["childContexts"]
    return {}
