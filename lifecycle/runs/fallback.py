"""What follows a run on Vertex AI whose training got no machine: the next accelerator, then the next region.

The run's own last task starts it (`components/fall_back.py`), so it also follows a run that a schedule, an upload
or the console has started. The next run is the same job in another place, with the same images, parameters and
registry.

Example: with `accelerator=l4,t4` and the regions us-central1 and europe-west4, the run `msinet-1` takes an l4 in
us-central1, `msinet-1-next2` a t4 there, and `msinet-1-next3` an l4 in europe-west4.
"""

import contextlib
import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lifecycle.registry import Address
from lifecycle.runs.outcome import JOB
from lifecycle.runs.parameters import DEFAULTS, FINETUNE, STEPS, Values
from lifecycle.runs.settled import settle
from lifecycle.vertex import (
    TIMEOUT_S,
    Run,
    has_cached_tasks,
    parent_of,
    reported_errors,
    retried,
    run_link,
    service_client,
)
from trainer.settings import Value

NO_MACHINE = "(?i)resources are insufficient|resource_pool_exhausted|exceed quota limits"
"""Pattern in the error of a training that got no machine, as people quote it (docs/vertex.md, Troubleshooting)."""
REGIONAL = ("tensorboard", "persistent_resource")
"""Parameters that name a resource of one region. A run in another region goes without it."""
NEXT = re.compile(r"(.+)-next(\d+)")
"""Id of a run that follows another, such as `msinet-1-next2`."""
LONGEST_ID, LONGEST_LABEL = 128, 63
"""Characters of a run's id, and of the value of a label, at most."""
ORIGINAL = "first_"
"""Beginning of the keys of labels with the accelerators of the first run, such as `first_accelerator=l4_t4`."""
KEPT = ("displayName", "pipelineSpec", "templateUri", "serviceAccount", "network", "encryptionSpec")
"""Fields of a job that are the same in the next one."""
GOOGLES = ("goog-", "vertex-ai-")
"""Beginnings of labels that the service adds."""
COMPARED = 100
"""Number of the latest runs in a region among which a run with the same parameters is looked for."""


class Place(NamedTuple):
    """A region where runs can start, and where their outputs go there."""

    location: str
    bucket: str
    """`gs://` prefix, as in an environment."""


def step_without_machine(failed: Mapping[str, str]) -> str:
    """The training step that got no machine, `base` or `finetune`. Empty if something else has failed.

    `failed` has the error of each failed task, by its title.
    """
    lacking = (step for step, title in STEPS.items() if re.search(NO_MACHINE, failed.get(title, "")))
    return next(lacking, "")


def next_accelerators(values: Values, step: str, used: Mapping[str, str]) -> dict[str, str]:
    """The parameters with which the training `step` takes the next accelerator. Empty if none is left.

    Example: with `accelerator=v5e-1,l4,t4`, they are `{"accelerator": "l4,t4"}` after v5e-1.

    Args:
        values: All parameters of the run that failed.
        step: The training that got no machine.
        used: Training step -> its accelerator in this run. A base training keeps its accelerator if the
            fine-tuning got none: it has ended, and is found in the cache.
    """
    parameter = f"{step}_accelerator" if values[f"{step}_accelerator"] else "accelerator"
    names = accelerator_names(values[parameter])
    left = names[names.index(used[step]) + 1 :]
    kept = {f"{name}_accelerator": each for name, each in used.items() if name != step and step == FINETUNE}
    return {parameter: ",".join(left), **kept} if left else {}


def accelerator_names(value: Value) -> list[str]:
    """The names in a list of accelerators, such as `l4, t4`."""
    return [name.strip() for name in str(value).split(",")]


def next_run_id(run: str) -> str:
    """The id of the run that follows `run`, so that it starts once however often it is asked for.

    Example: `msinet-1-next2` follows `msinet-1`, and `msinet-1-next3` follows that.
    """
    found = NEXT.fullmatch(run)
    first, number = (found[1], int(found[2])) if found else (run, 1)
    ending = f"-next{number + 1}"
    return first[: LONGEST_ID - len(ending)] + ending


# === The last task of a run ===


def fall_back(
    registry: str, compiled: Mapping[str, Any], places: Sequence[Mapping[str, str]], status: Any
) -> None:
    """Start the next run if a training of this run got no machine, and print why it is started or not.

    Args:
        registry: Registry of the run.
        compiled: Parameters that the pipeline was compiled with, from the environment.
        places: The regions in the order in which they are tried, each as the fields of a `Place`.
        status: `dsl.PipelineTaskFinalStatus` of all other tasks.

    Raises:
        UserError: the service refuses the next run, or cannot be reached.
    """
    name = re.fullmatch(JOB, status.pipeline_job_resource_name or "")
    if status.state != "FAILED" or name is None:
        print("no training has failed, so no other run follows")
        return
    address = Address.found(registry)
    here = Address(name[1], name[2], address.endpoint if address else "")
    run = Run(_ask(here, lambda service: service.get_pipeline_job(name=name[0], timeout=TIMEOUT_S)))
    following = _following(run, compiled, [Place(**each) for each in places], here.location)
    print(following.why)
    if not following.location:
        return
    there, started = dataclasses.replace(here, location=following.location), next_run_id(name[3])
    if running := _unfinished(there, following.job["runtimeConfig"]["parameterValues"]):
        print(f"Run {running} has the same parameters and has not ended, so no other is started")
        return
    _start(there, started, following.job)
    print(f"Run {started}: {run_link(there, started)}")


class Following(NamedTuple):
    """The run that follows another, or none."""

    why: str
    """A sentence: why it follows, or why none does."""
    location: str = ""
    """Its region. Empty if none follows."""
    job: Mapping[str, Any] = {}
    """The API's PipelineJob, as JSON."""


def _following(run: Run, compiled: Mapping[str, Any], places: Sequence[Place], here: str) -> Following:
    """What follows a run in the region `here`.

    Nothing does if something else has failed, if no region is left, or if a base training would be paid again.
    """
    step = step_without_machine(run.failed_tasks)
    if not step:
        return Following("The run did not fail for lack of a machine, so no other run follows")
    values = Values({**DEFAULTS, **Values.converted(compiled), **Values.of_form(run.arguments)})
    used = {name: plan.accelerator.name for name, plan in settle(values, "vertex", here, given={}).plans.items()}
    lacking = f"{STEPS[step]} got no {used[step]} in {here}"
    has_trained = step == FINETUNE and "base" in used
    changes = next_accelerators(values, step, used)
    if changes and (not has_trained or has_cached_tasks(run.content["pipelineSpec"])):
        parameter, left = next(iter(changes.items()))
        job = _job(run, changes, _with_original(_labels(run), parameter, values[parameter]))
        return Following(f"{lacking}. Another run takes {left}", here, job)
    if has_trained:
        return Following(f"{lacking}. Another run would repeat {STEPS['base'].lower()}, so none follows")
    locations = [place.location for place in places]
    further = places[locations.index(here) + 1 :] if here in locations else ()
    if not further:
        return Following(f"{lacking}, and no other region is left")
    labels, original = _without_original(_labels(run))
    regional = {name: "" for name in REGIONAL if values[name]}
    job = _job(run, {**original, **regional}, labels, further[0].bucket)
    without = f", without {' and '.join(regional)}" if regional else ""
    return Following(f"{lacking}. Another run starts in {further[0].location}{without}", further[0].location, job)


def _job(run: Run, changes: Mapping[str, Value], labels: Mapping[str, str], bucket: str = "") -> dict[str, Any]:
    """The job of a run as JSON of the API, with other parameters and labels, and if given another bucket."""
    runtime = {key: value for key, value in run.content["runtimeConfig"].items() if value}
    runtime["parameterValues"] = Values({**Values.of_form(run.arguments), **changes}).form
    if bucket:
        runtime["gcsOutputDirectory"] = f"{bucket}/runs"
    kept = {key: run.content[key] for key in KEPT if run.content.get(key)}
    return {**kept, "runtimeConfig": runtime, "labels": dict(labels)}


# The first run's accelerators travel in labels, because the parameters have only those that are left.


def _labels(run: Run) -> dict[str, str]:
    """The labels of a run, without those that the service adds."""
    labels = run.content.get("labels", {})
    return {key: text for key, text in labels.items() if not key.startswith(GOOGLES)}


def _with_original(labels: Mapping[str, str], parameter: str, accelerators: Value) -> dict[str, str]:
    """The labels, and one that says which accelerators the first run had, unless an earlier run has added it.

    A list that is too long for a label is lost: the next region then gets the accelerators that are left.
    """
    text = "_".join(accelerator_names(accelerators))
    added = {ORIGINAL + parameter: text} if len(text) <= LONGEST_LABEL else {}
    return {**added, **labels}


def _without_original(labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The labels without those of `_with_original`, and the parameters that these restore."""
    keys = {ORIGINAL + name: name for name in ("accelerator", *(f"{step}_accelerator" for step in STEPS))}
    restored = {name: ",".join(labels[key].split("_")) for key, name in keys.items() if key in labels}
    return {key: text for key, text in labels.items() if key not in keys}, restored


# === The service ===


def _ask(region: Address, call: Callable[[Any], Any]) -> Any:
    """The answer to `call`, a request to the service of pipelines there."""
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    service = service_client(PipelineServiceClient, region)
    with reported_errors(f"runs in {region.location}"):
        return retried(lambda: call(service))


def _unfinished(region: Address, arguments: Mapping[str, Any]) -> str:
    """Id of a run there that follows another one, has these arguments, and has not ended. Empty if none does.

    The next run of a schedule may fail too while the run that followed the last one is still training.
    """
    from google.cloud.aiplatform_v1 import ListPipelineJobsRequest

    request = ListPipelineJobsRequest(
        parent=parent_of(region),
        order_by="create_time desc",
        page_size=COMPARED,
        read_mask={"paths": ["name", "state", "runtime_config"]},
    )

    def latest(service: Any) -> list[Any]:
        return list(itertools.islice(service.list_pipeline_jobs(request, timeout=TIMEOUT_S), COMPARED))

    for job in _ask(region, latest):
        run, found = job.name.rpartition("/")[2], Run(job)
        if NEXT.fullmatch(run) and not found.has_ended and found.arguments == arguments:
            return str(run)
    return ""


def _start(region: Address, run: str, job: Mapping[str, Any]) -> None:
    """Start a run. Nothing happens if an earlier attempt of this task has started it."""
    from google.api_core.exceptions import Conflict
    from google.cloud.aiplatform_v1 import CreatePipelineJobRequest

    content = {"parent": parent_of(region), "pipelineJobId": run, "pipelineJob": dict(job)}
    request = CreatePipelineJobRequest.from_json(json.dumps(content))

    def create(service: Any) -> None:
        with contextlib.suppress(Conflict):
            service.create_pipeline_job(request, timeout=TIMEOUT_S)

    _ask(region, create)
