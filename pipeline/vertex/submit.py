"""Starts runs of the pipeline on Vertex AI. Everything that can be checked is checked before the first request.

The id of a run is in the request, so a repeated request never starts a second run.
"""

import dataclasses
import datetime
import json
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from lifecycle.machines import TrainingPlan
from lifecycle.registry import OWNER
from lifecycle.runs import (
    PARAMETERS,
    REGIONAL,
    STEPS,
    PlannedRun,
    Values,
    accelerator_names,
    next_accelerators,
    settle,
    step_without_machine,
)
from lifecycle.vertex import Run, has_cached_tasks, parent_of, titles_of
from pipeline.graph import PIPELINE_NAME, Environment, Template, layered_values
from pipeline.vertex.accelerator_choice import choose_accelerators
from pipeline.vertex.runs import SentRun
from trainer.errors import MismatchError, UserError, check
from trainer.settings import Value, settings_text


@dataclasses.dataclass(frozen=True)
class Planned:
    """A job that a run or a schedule starts: its environment, and the API's PipelineJob as JSON."""

    environment: Environment
    job: Mapping[str, Any]

    @cached_property
    def values(self) -> Values:
        """All parameters of our pipeline. Empty for any other pipeline."""
        chosen = Template(self.job["pipelineSpec"])
        if chosen.name != PIPELINE_NAME:
            return Values()
        return Values.converted(chosen.values(self.job["runtimeConfig"]["parameterValues"])).complete

    @cached_property
    def plans(self) -> Mapping[str, TrainingPlan]:
        """The plan of each training step of our pipeline. Empty for any other pipeline."""
        # Nothing here was given by a person, as far as it has its default.
        return settle(self.values, "vertex", self.environment.location, given={}).plans if self.values else {}

    def estimates(self) -> list[str]:
        """One line per training step of our pipeline: its machines, and its estimated time and cost."""
        return plan_lines(self.plans)

    def summary(self, **first: str) -> list[str]:
        """The run in about ten lines: `first`, then its project, account, parameters and estimates.

        Example: `submission.summary(Run="msinet-1")` begins with the line `Run:        msinet-1`.
        """
        environment, job = self.environment, self.job
        chosen = Template(job["pipelineSpec"])
        defaults, given = chosen.values(), chosen.values(job["runtimeConfig"]["parameterValues"])
        changed = {name: value for name, value in sorted(given.items()) if value != defaults.get(name)}
        images = f"{environment.image_repository}, tag {environment.image_tag}"
        facts = {
            **first,
            "Project": f"{environment.project}, {environment.location}",
            "Account": environment.service_account or "the default account of Vertex AI",
            "Outputs": f"below {job['runtimeConfig']['gcsOutputDirectory']}",
            "Template": job.get("templateUri", f"{chosen.name}, in this request, with images of {images}"),
            "Parameters": settings_text(changed) or "as in the template",
        }
        return [*(f"{name + ':':<12}{value}" for name, value in facts.items()), *self.estimates()]

    @property
    def locations(self) -> list[str]:
        """The regions in which a run tries in turn to get machines, without anybody who waits. Otherwise empty."""
        return [place.location for place in Template(self.job["pipelineSpec"]).places]

    @property
    def fallback(self) -> list[str]:
        """Sentences about what happens if a training gets no machine and nobody waits."""
        parameters = [name for name, value in self.values.effective.items() if name.endswith("accelerator")]
        several = any("," in str(self.values[name]) for name in parameters)
        first, *further = self.locations or [self.environment.location]
        ways = [*(["with the next accelerator"] if several else []), *(f"in {each}" for each in further)]
        if self.locations and ways:
            trained = ", unless it would repeat a base training" if "base" in self.plans else ""
            return [
                f"Without a machine in {first}, the run fails, and its last task starts another one "
                f"{', then '.join(ways)}{trained}"
            ]
        if several:
            return [
                "Without a machine, nothing falls back unless `submit --wait` waits, or the environment itself "
                "names the accelerators"
            ]
        return []

    def with_one_accelerator(self) -> tuple[Self, list[str]]:
        """The same with one accelerator instead of several, and sentences about the others before it.

        Example: `accelerator is l4, not v5e-1: quota custom_model_training_tpu_v5e in us-central1 is 0, ...`.

        A run that falls back by itself keeps those after it. Raises `UserError` if no accelerator is left.
        """
        chosen, sentences = choose_accelerators(self.environment, self.values)
        if self.locations:
            lists = {name: accelerator_names(self.values[name]) for name in chosen}
            chosen = {name: ",".join(lists[name][lists[name].index(first) :]) for name, first in chosen.items()}
        return (self.changed(chosen) if chosen else self), sentences

    @property
    def in_further_regions(self) -> "list[Planned]":
        """The same in each further environment, as the last task of a run makes it (`lifecycle.runs.fallback`)."""
        regional = {name: "" for name in REGIONAL if self.values.get(name)}
        own, moved = self.changed(regional) if regional else self, []
        for each in self.environment.further:
            runtime = {**own.job["runtimeConfig"], "gcsOutputDirectory": f"{each.bucket}/runs"}
            moved.append(Planned(each, {**own.job, "runtimeConfig": runtime}))
        return moved

    def changed(self, values: Mapping[str, Value]) -> Self:
        """The same with these values of parameters of our pipeline."""
        runtime = self.job["runtimeConfig"]
        given = Values({**Values.of_form(runtime["parameterValues"]), **values}).form
        return dataclasses.replace(self, job={**self.job, "runtimeConfig": {**runtime, "parameterValues": given}})

    def check_needs(self) -> None:
        """Raise `UserError` if something is missing without which no run starts: the bucket, images or quota.

        It is asked for in the region of each environment.

        A pipeline of others needs its bucket alone.
        """
        environment = self.environment
        pattern = Template(self.job["pipelineSpec"]).image_pattern if self.values else ""
        run = PlannedRun(pattern, self.plans, self.values, environment.bucket, environment.name)
        run.check_before_start(environment)
        for planned in self.in_further_regions:
            try:
                planned.with_one_accelerator()[0].check_needs()
            except UserError as error:
                raise error.within(f"environment {planned.environment.name}") from None


@dataclasses.dataclass(frozen=True)
class Submission(Planned):
    """A run to start, with its id."""

    run: str

    @classmethod
    def prepare(
        cls,
        environment: Environment,
        passed: Mapping[str, Value],
        source: str = "",
        caching: str = "as-compiled",
        run: str = "",
    ) -> Self:
        """The submission of a run, checked as far as possible without a request to Vertex AI.

        Args:
            environment: Where to run.
            passed: Parameters that override those of the environment, which override the template's defaults.
            source: The template: a file, or an address in Artifact Registry. If empty, it is compiled for the
                environment.
            caching: One of `compiled.CACHING`.
            run: Id of the run, such as `msinet-20261128103000-1f2e`. Generated if empty.

        Raises `UserError` for parameters that the pipeline or the trainer would refuse.
        """
        job = compose(environment, passed, source, caching)
        return cls(environment, job, run or _new_id(job))

    @property
    def request(self) -> dict[str, Any]:
        """The request, as JSON."""
        parent = parent_of(self.environment)
        return {"parent": parent, "pipelineJobId": self.run, "pipelineJob": dict(self.job)}

    def send(self) -> None:
        """Start the run. Raises `UserError` if Vertex AI refuses it or cannot be reached."""
        from google.cloud.aiplatform_v1 import CreatePipelineJobRequest

        SentRun(self.environment, self.run).create(CreatePipelineJobRequest.from_json(json.dumps(self.request)))

    def fall_back(self, failed: Self) -> Self | None:
        """A further run after one in which a training got no machine, with the accelerators that are left.

        Tasks before this training, a base training among them, then come from the cache.

        Args:
            failed: The same run with the accelerators that were chosen, which has failed.

        Returns:
            None if something else has failed, or no accelerator is left. Also None, with a sentence that says so,
            if without caching a base training would be paid again.
        """
        job = SentRun(failed.environment, failed.run).find()
        step = step_without_machine(Run(job, titles_of(failed.job["pipelineSpec"])).failed_tasks)
        used = {name: plan.accelerator.name for name, plan in failed.plans.items()}
        changes = next_accelerators(self.values, step, used) if step else {}
        if not changes:
            return None
        if step == "finetune" and "base" in used and not has_cached_tasks(failed.job["pipelineSpec"]):
            print(
                f"{STEPS[step]} got no machine. Without caching, another run would repeat {STEPS['base'].lower()}."
            )
            return None
        further = self.changed(changes)
        return dataclasses.replace(further, run=_new_id(further.job))


def _new_id(job: Mapping[str, Any]) -> str:
    """An id for a run of this job, such as `msinet-20261128103000-1f2e`."""
    name, now = job["pipelineSpec"]["pipelineInfo"]["name"], datetime.datetime.now(datetime.UTC)
    return f"{name}-{now:%Y%m%d%H%M%S}-{secrets.token_hex(2)}"


def compose(
    environment: Environment,
    passed: Mapping[str, Value],
    source: str = "",
    caching: str = "as-compiled",
    defaults: Mapping[str, Value] | None = None,
) -> dict[str, Any]:
    """The API's PipelineJob for a run, as JSON. Other arguments and errors are as for `Submission.prepare`.

    `defaults` are values of parameters that neither the environment nor `passed` sets, as far as the template has
    them.
    """
    environment.require_target("vertex")
    chosen = Template.load(environment, source, caching)
    names, regions = zip(
        *((each.name, each.location) for each in (environment, *environment.further)), strict=True
    )
    check(
        not environment.further or chosen.places == environment.places,
        f"template {source} does not try {' and then '.join(regions)}. Compile or publish it with "
        f"--env {','.join(names)}",
        MismatchError,
    )
    unset = {**(defaults or {}), **environment.derived}
    arguments: dict[str, Any] = {name: value for name, value in unset.items() if name in chosen.parameters}
    arguments |= {**environment.parameters, **passed}
    if chosen.name == PIPELINE_NAME:
        given = layered_values(unset, environment.parameters, passed)
        # A template of the environment has its parameters as defaults, also those that a recipe replaced.
        values = {**{name: PARAMETERS[name].default for name in environment.parameters}, **given}
        every = Values({**Values.converted(chosen.values()), **values})
        settle(every, "vertex", environment.location, given, passed)
        lost = every.without_effect  # the first task could not tell them from what a person gave
        arguments = Values({name: value for name, value in values.items() if name not in lost}).form
    chosen.check_names(arguments)
    job = {
        "displayName": f"{chosen.name}-{environment.name}",
        "labels": {**OWNER, **environment.labels},
        "runtimeConfig": {
            "gcsOutputDirectory": f"{environment.bucket}/runs",
            "parameterValues": arguments,
        },
        "pipelineSpec": chosen.spec,
        "serviceAccount": environment.service_account,
        "network": environment.network,
        "templateUri": chosen.uri,
    }
    return {key: value for key, value in job.items() if value}


def plan_lines(plans: Mapping[str, TrainingPlan]) -> list[str]:
    """One line for each plan, by the step that it is for: machines, time and cost.

    Example: `Base training: 1 x l4, standard, about 2 h to 5 h, about 2.30 to 5.75 USD`.
    """
    return [
        f"{STEPS[step]}: {made.machines.workers} x {made.accelerator.name}, {made.machines.provisioning}, about "
        f"{made.time_text}"
        + ("" if made.most_cost_usd is None else f", about {made.cost_text} USD")
        + (f" ({made.time_basis})" if made.measured else "")
        for step, made in plans.items()
    ]
