"""A sweep on Vertex AI: a custom job fetches the data, and a HyperparameterTuningJob trains the trials.

Vizier, which proposes the settings of the trials, appends them to the flags of the training. If there is a test
set, another custom job scores the best model on it. Below the bucket of the environment, in a folder of the
sweep's own, are `data`, `trials/NUMBER/model` and `evaluation`.
"""

import dataclasses
import datetime
import math
import pathlib
import secrets
import shlex
from collections.abc import Sequence
from typing import Any

from lifecycle.machines import AcceleratorConfig, TrainingPlan, TrainingSettings, make_plan
from lifecycle.registry import OWNER
from lifecycle.runs import PARAMETERS, PlannedRun
from pipeline.sweep import results
from pipeline.sweep.results import COMPLETE, FAILED, PRUNED, RUNNING, Trial, best_of
from pipeline.sweep.space import Categorical, Numerical, Sweep, keep, text_of
from pipeline.vertex import Jobs, custom_job
from trainer.errors import FailedError, UserError, check
from trainer.evaluation import Evaluation, ScoredDataset
from trainer.io import read_json, write_json
from trainer.network import EVALUATION, ModelFolder
from trainer.places import BucketPlace, stored_at
from trainer.settings import flag_of
from trainer.texts import format_duration
from trainer.training import TUNED_METRIC, TrainConfig

JOBS = "jobs.json"
"""File in the folder of a sweep that names its jobs."""
TIMEOUT_S = 24 * 3600
"""Vertex AI ends the jobs that fetch data and that score the best model after this time."""
TRAIN = [
    *("sh", "-c"),
    'exec python -m trainer train "$@" --output-dir="/gcs/${AIP_MODEL_DIR#gs://}" '
    '--checkpoint-dir="${AIP_CHECKPOINT_DIR%/}"',
    "trial",
]
"""The command of a trial, to which its flags are added. Vertex AI sets both variables, to folders of this trial
(CustomJobSpec.base_output_directory of its API)."""
LABEL = "sweep"
"""Label by which a later process finds a job of this sweep."""
OUTAGE = "the job continues, and the same command goes on"
POLL_S = 30.0
"""Pause between two looks at a job."""
STATES = {"succeeded": COMPLETE, "infeasible": FAILED}
"""State of a trial that has ended -> its name here. A trial that was stopped early has succeeded, too, but has
written no model."""


@dataclasses.dataclass
class StartedSweep:
    """The jobs of a sweep, and the `gs://` folder of its data and its trials."""

    root: str
    """Folder of the sweep. Its end labels the jobs, so it is written down before the first job is created."""
    fetch_job: str = ""
    tuning_job: str = ""
    """Name of the tuning job. Empty until the data is fetched."""
    score_job: str = ""
    """Name of the job that scores the best model. Empty until the trials have ended, and without a test set."""
    trials: int = 0
    parallel: int = 0
    hours: float = 0.0
    base_model: str = ""
    """What all trials start from. Empty for base training."""

    def save(self, folder: pathlib.Path) -> None:
        """Write the jobs to the folder of the sweep."""
        write_json(folder / JOBS, dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: pathlib.Path, sweep: Sweep) -> "StartedSweep | None":
        """The jobs of the sweep in a folder. None if it was not started. Raises `UserError` for another sweep."""
        if not (folder / JOBS).exists():
            return None
        keep(sweep, folder)
        return cls(**read_json(folder / JOBS, "remove the folder", dict[str, Any]))

    @classmethod
    def start(cls, sweep: Sweep, folder: pathlib.Path, trials: int, parallel: int, hours: float) -> "StartedSweep":
        """Write down a sweep for `follow`. Raises `UserError` if bucket, images or quota are missing."""
        environment, (plan, _) = sweep.environment, worst(sweep)
        images, plans = environment.image_of("{}"), {sweep.step: plan}
        run = PlannedRun(images, plans, bucket=environment.bucket, environment=environment.name, jobs=parallel)
        run.check_before_start(environment)
        sweep.shared_flags()
        base = keep(sweep, folder)
        now = datetime.datetime.now(datetime.UTC)
        root = f"{environment.bucket}/sweeps/{sweep.name}-{now:%Y%m%d%H%M%S}{secrets.token_hex(2)}"
        started = cls(root, trials=trials, parallel=parallel, hours=hours, base_model=base)
        started.save(folder)
        return started

    def jobs(self, sweep: Sweep) -> list[str]:
        """A sweep that was started: its trials, and the console's page of each job that is recorded."""
        titles = {"Data": self.fetch_job, "Tuning": self.tuning_job, "Test set": self.score_job}
        service = Jobs(sweep.environment, POLL_S)
        return [
            f"Started:  {self.trials} trials, {self.parallel} at a time, below {self.root}",
            *(f"{title + ':':<10}{service.link(job)}" for title, job in titles.items() if job),
        ]

    def follow(self, sweep: Sweep, folder: pathlib.Path) -> int:
        """Start the jobs of a sweep one after another, follow them to their end, and publish the results.

        Ctrl-C ends the watching, not a job that was started. A job that scores and fails is named in the results.

        Returns the exit status. Raises `UserError` if the job that fetches the data or the tuning job did not
        succeed.
        """
        service = Jobs(sweep.environment, POLL_S)

        def rest() -> str:
            return f", and the same command {'goes on' if self.tuning_job else 'then starts the trials'}"

        with service.watching(rest):
            if not self.fetch_job:
                fetch = [*sweep.data_flags(sweep.step), f"--output-dir={_mounted(self.root)}/data"]
                self.fetch_job = _start_on_cpu(
                    sweep, service, self.root, "data", ["python", "-m", "trainer", "fetch"], fetch
                )
                self.save(folder)
            if not self.tuning_job:
                print(f"Data:     {service.link(self.fetch_job)}", flush=True)
                fetched = service.wait(self.fetch_job, OUTAGE)
                if failure := service.failure(fetched, "job that fetches the data"):
                    (folder / JOBS).unlink()  # the same command starts another
                    raise FailedError(failure)
                self.tuning_job = service.start_once(tuning_job(sweep, self), LABEL)
                self.save(folder)
            print(f"Tuning:   {self.trials} trials, {service.link(self.tuning_job)}", flush=True)
            seen: set[str] = set()
            job = service.wait(self.tuning_job, OUTAGE, lambda job: _print_ended(sweep, job, seen))
            finished = _with_model(self.root)
            trials = [
                dataclasses.replace(each, state=PRUNED)
                if each.state == COMPLETE and each.number not in finished
                else each
                for each in (trial_of(sweep, trial) for trial in job.trials)
            ]
            best, tested = best_of(trials), results.score_sentence(None)
            if best and sweep.has_test_set:
                if not self.score_job:
                    scoring = [_scoring(sweep, self, best)]
                    self.score_job = _start_on_cpu(sweep, service, self.root, "score", ["sh", "-c"], scoring)
                    self.save(folder)
                link = service.link(self.score_job)
                print(f"Test set: {link}", flush=True)
                service.wait(self.score_job, OUTAGE)
                scores = _scores(self)
                tested = results.score_sentence(scores, f"the job that scores it wrote no result, see {link}")
        results.publish(sweep, trials, folder, tested)
        _remove_leftovers(self.root, best)
        if best:
            print(f"Model:    {self.root}/trials/{best.number}/model")
        failure = service.failure(job, "tuning job")
        check(not failure, f"{failure}. Remove {folder} to start another", FailedError)
        results.check_found(trials)
        return 0


# === Before it starts ===


def worst(sweep: Sweep) -> tuple[TrainingPlan, TrainingSettings]:
    """The plan of the trial that takes longest, as far as known, and its settings.

    Example: the trial with the most epochs.
    """
    settled = max(sweep.check(), key=lambda each: each.plans[sweep.step].most_hours)
    return settled.plans[sweep.step], settled.trainings[sweep.step]


def describe_on_vertex(sweep: Sweep, trials: int, parallel: int, hours: float) -> list[str]:
    """What a sweep would do, how long it takes and what it costs at most, if no trial is stopped early."""
    plan, _ = worst(sweep)
    at_once = f", {parallel} at a time" if parallel > 1 else ", one after another"
    number = f"{trials} (all there are)" if trials == sweep.size else str(trials)
    limit = f", none started after {hours:g} hours" if hours else ""
    usd = "unknown" if plan.most_cost_usd is None else f"at most about {trials * plan.most_cost_usd:.2f} USD"
    each = f"{plan.machines.workers} x {plan.accelerator.name}, {plan.machines.provisioning}"
    return [
        f"Trials:   {number} on Vertex AI{at_once}{limit}, each on {each}",
        f"Data:     {sweep.data_text}, {plan.data.images} training images, up to {plan.training.epochs} epochs a "
        "trial",
        *(f"Search:   {name}: {form}" for name, form in sweep.search.items()),
        f"Time:     at most about {format_duration(3600 * plan.most_hours * math.ceil(trials / parallel))} "
        f"(up to {format_duration(3600 * plan.most_hours)} a trial, {plan.time_basis}), after the data is fetched",
        f"Cost:     {usd}, and that of a CPU while data is fetched{' and scored' * sweep.has_test_set}",
    ]


def _labels(root: str, title: str) -> dict[str, str]:
    """The label that one job of a sweep has, and no other, such as `{"sweep": "202611281030001f2e-data"}`."""
    return {LABEL: f"{root.rpartition('-')[2]}-{title}"}


def _start_on_cpu(
    sweep: Sweep, service: Jobs, root: str, title: str, command: Sequence[str], args: Sequence[str]
) -> str:
    """Start a command in a custom job on a CPU. Returns the job's name."""
    environment, (plan, settings) = sweep.environment, worst(sweep)
    job = custom_job(
        f"msinet-sweep-{sweep.name}-{title}",
        make_plan(AcceleratorConfig(), TrainConfig(), plan.data, location=environment.location),
        environment.image,
        command,
        args,
        timeout_s=TIMEOUT_S,
        account=settings.job.training_service_account,
        network=settings.job.training_network,
        labels={**OWNER, **environment.labels, **_labels(root, title)},
    )
    return service.start_once(job, LABEL)


def tuning_job(sweep: Sweep, started: StartedSweep) -> dict[str, Any]:
    """The API's HyperparameterTuningJob of a sweep."""
    plan, settings = worst(sweep)
    environment, job = sweep.environment, settings.job
    fixed = [
        *sweep.shared_flags(),
        f"--dataset-dir={_mounted(started.root)}/data",
        f"--accelerator={plan.accelerator.name}",
        *([f"--base-model={started.base_model}"] if started.base_model else []),
    ]
    image = environment.image_of(plan.accelerator.image)
    specification = {
        "worker_pool_specs": plan.worker_pool_specs(image, TRAIN, fixed),
        "scheduling": {
            "timeout": f"{round(3600 * plan.timeout(job.timeout_hours))}s",
            "strategy": plan.scheduling_strategy,
            "max_wait_duration": f"{round(3600 * job.max_wait_hours)}s",
            "restart_job_on_worker_restart": job.restart_training,
        },
        "service_account": job.training_service_account,
        "network": job.training_network,
        "tensorboard": job.tensorboard,
        "persistent_resource_id": job.persistent_resource,
        "base_output_directory": {"output_uri_prefix": f"{started.root}/trials"},
    }
    study: dict[str, Any] = {
        "metrics": [{"metric_id": TUNED_METRIC, "goal": "MINIMIZE"}],
        "parameters": [_specification(name, form) for name, form in sweep.search.items()],
        "median_automated_stopping_spec": {"use_elapsed_duration": False},  # like Optuna's median pruner
        "measurement_selection_type": "BEST_MEASUREMENT",  # the model has the weights of the best epoch
    }
    if started.hours:
        limit = {"max_duration": f"{round(3600 * started.hours)}s"}
        study["study_stopping_config"] = {"maximum_runtime_constraint": limit}
    return {
        "display_name": f"msinet-sweep-{sweep.name}",
        "study_spec": study,
        "max_trial_count": started.trials,
        "parallel_trial_count": started.parallel,
        "trial_job_spec": specification,
        "labels": {**OWNER, **job.labels, **_labels(started.root, "tuning")},
    }


def _specification(name: str, form: Numerical | Categorical) -> dict[str, Any]:
    """The API's ParameterSpec of a searched parameter. Its id is the flag of a trial, such as `learning-rate`."""
    identity = {"parameter_id": _id(name)}
    if isinstance(form, Categorical):
        return {**identity, "categorical_value_spec": {"values": list(map(text_of, form.values))}}
    kind = "integer_value_spec" if PARAMETERS[name].kind is int else "double_value_spec"
    scale = "UNIT_LOG_SCALE" if form.log else "UNIT_LINEAR_SCALE"
    return {**identity, kind: {"min_value": form.low, "max_value": form.high}, "scale_type": scale}


def _id(name: str) -> str:
    return flag_of(PARAMETERS[name].field).removeprefix("--")


def _mounted(address: str) -> str:
    """The path at which machines of Vertex AI have a `gs://` address. Example: `gs://b/data` is `/gcs/b/data`."""
    return str(stored_at(address).mounted)


# === While it runs, and afterwards ===


def _scoring(sweep: Sweep, started: StartedSweep, best: Trial) -> str:
    """The script that fetches the test set, and scores the model of the best trial on it."""
    root = _mounted(started.root)
    data = shlex.join([*sweep.data_flags("test"), "--output-dir=/tmp/test"])
    model = shlex.join([f"--model={root}/trials/{best.number}/model", f"--output-dir={root}/evaluation"])
    evaluate = f"python -m trainer evaluate --dataset-dir=/tmp/test {model}"
    return f"python -m trainer fetch {data} && {evaluate}"


def _scores(started: StartedSweep) -> ScoredDataset | None:
    """The scores on the test set. None if there are none. A model below the centre bias has some."""
    try:
        content = BucketPlace(started.root).read(f"evaluation/{EVALUATION}")
    except UserError:
        return None
    return Evaluation.parse(content, f"{started.root}/evaluation/{EVALUATION}", "remove it").deciding


def trial_of(sweep: Sweep, trial: Any) -> Trial:
    """The trial that a Trial of the API describes."""
    names = {_id(name): name for name in sweep.search}
    measured = list(trial.measurements) or ([trial.final_measurement] if trial.final_measurement.metrics else [])
    ends = trial.end_time or datetime.datetime.now(datetime.UTC)
    return Trial(
        int(trial.id),
        {
            names[each.parameter_id]: PARAMETERS[names[each.parameter_id]].convert(each.value)
            for each in trial.parameters
            if each.parameter_id in names
        },
        STATES.get(trial.state.name.lower(), RUNNING),
        {each.step_count: each.metrics[0].value for each in measured if each.metrics},
        (ends - trial.start_time).total_seconds() if trial.start_time else 0.0,
        trial.infeasible_reason,
    )


def _print_ended(sweep: Sweep, job: Any, seen: set[str]) -> None:
    """Print the trials that have ended and are not in `seen`, and add them to it."""
    for each in job.trials:
        trial = trial_of(sweep, each)
        if trial.state == RUNNING or each.id in seen:
            continue
        seen.add(each.id)
        loss = f"validation loss {trial.loss:.4f}" if trial.losses else f"failed: {trial.reason or 'see its log'}"
        settings = " ".join(f"{name}={text_of(value)}" for name, value in trial.values.items())
        print(f"Trial {trial.number}: {settings}: {loss}, {format_duration(trial.seconds)}", flush=True)


def _with_model(root: str) -> set[int]:
    """The numbers of the trials that have written a model, also if `_remove_leftovers` has removed it."""
    names = BucketPlace(f"{root}/trials").sizes()
    return {int(name.split("/")[0]) for name in names if name.endswith(f"/model/{ModelFolder.LAST}")}


def _remove_leftovers(root: str, best: Trial | None) -> None:
    """Remove the checkpoints of all trials, and all models but the best one. Of the others, MODEL_CONFIG stays."""
    trials = BucketPlace(f"{root}/trials").connected()
    for name in trials.sizes():
        folder = name.split("/")[1:2]
        is_best = best is not None and name.startswith(f"{best.number}/model/")
        is_kept = is_best or name.endswith(f"/model/{ModelFolder.LAST}")
        if folder == ["checkpoints"] or (folder == ["model"] and not is_kept):
            trials.remove(name)
