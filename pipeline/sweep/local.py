"""A sweep on this machine: Optuna proposes the settings of each trial, and the trials train one after another.

The folder of a sweep:

sweep.json             the sweep that it belongs to
TRIALS                 Optuna's study
data/, test/           prepared data, fetched once
trials/003/            log of the third trial, its validation losses, and the model if it is the best
evaluation-003/        scores of its model on the test set

A sweep that was interrupted or killed goes on by the same command. Finished trials are not repeated, and the
interrupted one resumes from its last checkpoint.
"""

import math
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from lifecycle.machines import DataSize, Measurement, Target, fit_to_data
from lifecycle.runs import PARAMETERS
from pipeline.local import TASK_ENVIRONMENT, locked_run
from pipeline.sweep import results
from pipeline.sweep.results import COMPLETE, FAILED, PRUNED, Trial, best_of
from pipeline.sweep.space import Categorical, Sweep, assignments, keep, kept_base
from trainer.data import PreparedData
from trainer.errors import Checks, ContentError, FailedError, PlaceError, check, terminable
from trainer.evaluation import Evaluation, ScoredDataset
from trainer.models import find_model
from trainer.network import EVALUATION
from trainer.settings import Value
from trainer.texts import format_duration
from trainer.training import LOSSES_FILE, read_losses

TRIALS, STUDY = "trials.sqlite3", "sweep"
LOG, LOSSES, MODEL, CHECKPOINTS = "log.txt", "losses.jsonl", "model", "checkpoints"
"""Names in the folder of a trial."""
POLL_S = 0.2
"""Pause between two looks at the losses of a trial."""
MOST_FAILURES = 3
"""A sweep ends if so many first trials fail. What is wrong is then hardly in their settings."""
KILLED = "ended by signal"
NOT_ENDED = "the sweep goes on"
SECONDS, REASON = "seconds", "reason"
"""What a trial keeps in Optuna's study beside its values and losses."""


def describe_here(sweep: Sweep, folder: pathlib.Path, trials: int, hours: float) -> list[str]:
    """What a sweep would do in a folder, or has left to do, and how long that takes as far as it is known.

    Raises `UserError` if the folder is another sweep's.
    """
    has_begun = kept_base(sweep, folder) is not None and (folder / TRIALS).exists()
    done = _finished(open_study(folder)) if has_begun else []
    data = DataSize.of(sweep.shared.data[sweep.step])
    epochs = max(each.trainings[sweep.step].training.epochs for each in sweep.check())
    measured = [each for each in Measurement.all() if each.is_local]
    time_text = (
        "not known before the first trial. `python -m pipeline benchmark --target local` measures this machine"
    )
    if done:
        time_text = _time_left(done, trials) or "none is left"
    elif measured:
        newest = measured[0]
        pixels = data.image_size[0] * data.image_size[1] / (newest.image_size[0] * newest.image_size[1])
        seconds = trials * (newest.start_s + epochs * data.images / newest.images_per_s * pixels)
        time_text = (
            f"about {format_duration(seconds)} if none is stopped, without validation (measured {newest.date}, "
            f"batch {newest.batch_size} in {newest.precision})"
        )
    number = f"{trials} (all there are)" if trials == sweep.size else str(trials)
    limit = f", none started after {hours:g} hours" if hours else ""
    present = sweep.present()
    return [
        f"Trials:   {number} on this machine (environment {sweep.environment.name}), one after another{limit}",
        *([f"Done:     {len(done)}, in {folder}"] if done else []),
        *([f"Trial 1:  {' '.join(assignments(present))}, as without the sweep"] if present and not done else []),
        f"Data:     {sweep.data_text}, {data.images} training images, up to {epochs} epochs a trial",
        *(f"Search:   {name}: {form}" for name, form in sweep.search.items()),
        f"Time:     {time_text}",
    ]


def _time_left(done: Sequence[Trial], trials: int) -> str:
    """The time of the trials that are left, by their mean so far, such as `about 2 h left`. Empty if none is."""
    seconds = [each.seconds for each in done if each.state != FAILED]
    left = trials - len(done)
    return f"about {format_duration(left * sum(seconds) / len(seconds))} left" if seconds and left > 0 else ""


def run_here(sweep: Sweep, folder: pathlib.Path, trials: int, hours: float) -> int:
    """Run a sweep to its end, or go on with one, and publish its results. Returns the exit status."""
    from optuna.exceptions import StorageInternalError  # if it is missing, say so before the data is fetched

    deadline = time.monotonic() + 3600 * (hours or math.inf)
    with locked_run(folder, "sweep") as lock, terminable():
        base = keep(sweep, folder)
        model = str(find_model(base)) if base else ""
        for name, target in ((sweep.step, "data"), *([("test", "test")] if sweep.has_test_set else [])):
            if not PreparedData(folder / target).is_there:
                _call(["fetch", *sweep.data_flags(name), f"--output-dir={folder / target}"])
        _check_fits(sweep, folder)
        search = Search(sweep, folder, model, lock)
        try:
            search.run(trials, deadline)
        except KeyboardInterrupt:
            so_far = f" Finished trials: {folder / results.REPORT}" if search.trials else ""
            print(f"The trial has saved its state. The same command goes on.{so_far}", flush=True)
            raise
        except StorageInternalError as error:
            reason = str(error.__cause__).partition("\n")[0]
            raise PlaceError(
                f"cannot write {folder / TRIALS}: {reason}. If the disk is full, free some, and the same command "
                "goes on"
            ) from None
        best = best_of(search.trials)
        scores = _score(folder, best) if sweep.has_test_set and best else None
        results.publish(sweep, search.trials, folder, results.score_sentence(scores))
        results.check_found(search.trials)
    return 0


def _check_fits(sweep: Sweep, folder: pathlib.Path) -> None:
    """Raise `UserError` if the prepared data cannot fill the batch of a trial.

    Example: a batch of 64 for 40 training images.
    """
    manifest, checks = PreparedData(folder / "data").manifest, Checks()
    for settled in sweep.check():
        with checks.collect():
            fit_to_data(settled.trainings[sweep.step], manifest, Target("local", "", ""))
    checks.raise_errors()


def _call(arguments: Sequence[str]) -> None:
    """Run a command of the trainer, which shows its own progress. Raises `UserError` if it fails."""
    status = subprocess.run(
        [sys.executable, "-m", "trainer", *arguments], env=os.environ | TASK_ENVIRONMENT
    ).returncode
    check(status == 0, f"`trainer {arguments[0]}` ended with status {status}. See above", FailedError)


def _score(folder: pathlib.Path, best: Trial) -> ScoredDataset:
    """The scores of the best trial's model on the test set."""
    output = folder / f"evaluation-{best.number:03d}"
    content = output / EVALUATION
    if not content.exists():
        model, data = folder_of(folder, best.number) / MODEL, folder / "test"
        flags = [f"--model={model}", f"--dataset-dir={data}", f"--output-dir={output}"]
        command = [sys.executable, "-m", "trainer", "evaluate", *flags, f"--report={output}.html"]
        print(f"Scoring trial {best.number} on the test set: {output}.html", flush=True)
        with output.with_suffix(".txt").open("w") as log:
            # Its status says nothing: a model below the centre bias is an error there, and a result here.
            subprocess.run(command, stdout=log, stderr=log, env=os.environ | TASK_ENVIRONMENT)
        check(content.exists(), f"the model was not scored on the test set. See {log.name}", FailedError)
    return Evaluation.read(output, "remove it").deciding


def folder_of(folder: pathlib.Path, number: int) -> pathlib.Path:
    """The folder of a trial, such as `sweeps/mine/trials/003`."""
    return folder / "trials" / f"{number:03d}"


def open_study(folder: pathlib.Path) -> Any:
    """Optuna's study of a sweep, a new one if there is none. Raises `UserError` for a file that is none."""
    import optuna
    import sqlalchemy

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = (folder / TRIALS).absolute()
    try:
        # Without a pool, no connection is left open.
        storage = optuna.storages.RDBStorage(
            f"sqlite:///{path}", engine_kwargs={"poolclass": sqlalchemy.pool.NullPool}
        )
        return optuna.create_study(
            storage=storage,
            study_name=STUDY,
            direction="minimize",
            pruner=optuna.pruners.MedianPruner(),
            load_if_exists=True,
        )
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError) as error:
        reason = str(error).partition("\n")[0]
        raise ContentError(f"cannot use {path}: {reason}. Remove {folder} to start again") from None


def _finished(study: Any) -> list[Trial]:
    """The finished trials of Optuna's study, in order."""
    from optuna.trial import TrialState

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    return [
        Trial(
            number,
            each.params,
            FAILED if REASON in each.user_attrs else COMPLETE if each.state == TrialState.COMPLETE else PRUNED,
            each.intermediate_values,
            each.user_attrs[SECONDS],
            each.user_attrs.get(REASON, ""),
        )
        for number, each in enumerate(finished, start=1)
    ]


class Search:
    """The trials of a sweep in a folder.

    Args:
        sweep: what is searched.
        folder: of the sweep, with its prepared data.
        base_model: folder of the model that a fine-tuning starts from. Empty for a base training.
        lock: file descriptor of the lock on the folder, which each trial keeps until it has ended.
    """

    def __init__(self, sweep: Sweep, folder: pathlib.Path, base_model: str, lock: int) -> None:
        self.sweep, self.folder, self._base_model, self._lock = sweep, folder, base_model, lock
        self._study = open_study(folder)
        if not self._study.get_trials(deepcopy=False) and (present := sweep.present()):
            self._study.enqueue_trial(present)  # so that the best one is compared with what there is

    @property
    def trials(self) -> list[Trial]:
        """The finished trials, in order."""
        return _finished(self._study)

    def run(self, trials: int, deadline: float) -> None:
        """Run trials until there are `trials` in all. None is started after the deadline, on the monotonic clock.

        Raises `UserError` if `MOST_FAILURES` trials fail before one succeeds.
        """
        self._retry_interrupted()
        self._clean()
        while len(self.trials) < trials and time.monotonic() < deadline:
            self._run_trial(len(self.trials) + 1, trials)
            self._clean()
            done = self.trials
            results.write_page(self.sweep, done, self.folder, results.score_sentence(None, NOT_ENDED))
            failed = [each for each in done if each.state == FAILED]
            check(
                len(failed) < MOST_FAILURES or len(failed) < len(done),
                f"all {len(done)} trials failed, the last one with: {done[-1].reason} (see "
                f"{folder_of(self.folder, len(done)) / LOG}). Correct the file, and remove {self.folder}",
                FailedError,
            )

    def _retry_interrupted(self) -> None:
        """Queue the trial again that was running when an earlier process ended, with its values and its folder."""
        from optuna.trial import TrialState

        for each in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._study.tell(each.number, state=TrialState.FAIL)
            if each.params:
                spent = {SECONDS: each.user_attrs.get(SECONDS, 0.0)}
                self._study.enqueue_trial(each.params, user_attrs=spent)

    def _run_trial(self, number: int, trials: int) -> None:
        import optuna
        from optuna.trial import TrialState

        # A seed for each trial, so that a sweep which was interrupted proposes what it would have proposed.
        seed = int(self.sweep.fixed.get("seed", PARAMETERS["seed"].default)) + number
        self._study.sampler = optuna.samplers.TPESampler(seed=seed)
        trial, values = self._ask()
        tried, others = [each.values for each in self.trials], optuna.samplers.RandomSampler(seed=seed)
        while values in tried:  # the same training again, on which TPE may insist
            self._study.tell(trial, state=TrialState.FAIL)
            self._study.sampler = others
            trial, values = self._ask()
        print(f"Trial {number} of {trials}: {' '.join(assignments(values))}", flush=True)
        start = time.monotonic() - trial.user_attrs.get(SECONDS, 0.0)
        try:
            state, reason = self._train(trial, values, folder_of(self.folder, number))
        finally:  # the time until an interruption counts, too
            seconds = time.monotonic() - start
            trial.set_user_attr(SECONDS, seconds)
        losses = self._study.trials[trial.number].intermediate_values
        if state == COMPLETE:
            self._study.tell(trial, min(losses.values()))
        else:  # for the search, a failed trial is one that is worse than all others
            if state == FAILED:
                trial.set_user_attr(REASON, reason)
            self._study.tell(trial, state=TrialState.PRUNED)
        loss = f"lowest {min(losses.values()):.4f}, " if losses else ""
        words = {
            COMPLETE: "",
            PRUNED: f", pruned after epoch {max(losses, default=0)}",
            FAILED: f", failed: {reason}",
        }
        left = _time_left(self.trials, trials)
        print(f"  {loss}{format_duration(seconds)}{words[state]}{f', {left}' * bool(left)}", flush=True)

    def _ask(self) -> tuple[Any, dict[str, Value]]:
        """A new trial of the study, and its values, such as `{"patience": 2}`."""
        trial = self._study.ask()
        return trial, {name: _suggest(trial, name, form) for name, form in self.sweep.search.items()}

    def _train(self, trial: Any, values: Mapping[str, Value], folder: pathlib.Path) -> tuple[str, str]:
        """Train a trial and report the loss of each epoch. Returns how it ended, and why if it failed.

        Example: `(COMPLETE, "")`, or FAILED and the reason.

        One that a signal ended, such as for lack of memory, goes on once from its last checkpoint.
        """
        state, reason = self._attempt(trial, values, folder)
        if reason.startswith(KILLED):
            print(f"  {reason}. Trying again", flush=True)
            state, reason = self._attempt(trial, values, folder)
        return state, reason

    def _attempt(self, trial: Any, values: Mapping[str, Value], folder: pathlib.Path) -> tuple[str, str]:
        """Train a trial in a process of its own. Returns as `_train`."""
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            *(sys.executable, "-m", "pipeline.sweep.worker"),
            *self.sweep.training_flags(values),
            f"--dataset-dir={self.folder / 'data'}",
            f"--output-dir={folder / MODEL}",
            f"--checkpoint-dir={folder / CHECKPOINTS}",
            *([f"--base-model={self._base_model}"] if self._base_model else []),
        ]
        variables = {**os.environ, **TASK_ENVIRONMENT, LOSSES_FILE: str((folder / LOSSES).absolute())}
        epochs = self.sweep.settle(values).trainings[self.sweep.step].training.epochs
        known = set(self._study.trials[trial.number].intermediate_values)
        earlier = read_losses(folder / LOSSES)
        if earlier:
            print(f"  goes on after epoch {max(earlier)}", flush=True)

        def is_worse() -> bool:
            for epoch, loss in read_losses(folder / LOSSES).items():
                if epoch not in known:
                    known.add(epoch)
                    trial.report(loss, epoch)
                    if epoch not in earlier:
                        print(f"  epoch {epoch}/{epochs}: validation loss {loss:.4f}", flush=True)
                    if epoch < epochs and trial.should_prune():
                        return True
            return False

        with (folder / LOG).open("a") as log:
            # In a session of its own: Ctrl-C reaches this process, whose end lets the trial save its state.
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=variables,
                start_new_session=True,
                pass_fds=[self._lock],
            )
            try:
                while process.poll() is None:
                    if is_worse():
                        process.kill()
                        process.wait()
                        return PRUNED, ""
                    time.sleep(POLL_S)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()
        # A training saves its state at SIGTERM, and then ends as a shell reports a signal: 128 plus its number.
        number = max(-process.returncode, process.returncode - 128)
        if number > 0:
            return FAILED, f"{KILLED} {number}"
        if process.returncode:
            lines = [line for line in (folder / LOG).read_text(errors="replace").splitlines() if line.strip()]
            return FAILED, lines[-1].removeprefix("error: ") if lines else f"exit status {process.returncode}"
        return (PRUNED if is_worse() else COMPLETE), ""  # the same, however quick the training was

    def _clean(self) -> None:
        """Remove the checkpoints of finished trials, and all models but the best trial's."""
        done = self.trials
        best = best_of(done)
        for each in done:
            shutil.rmtree(folder_of(self.folder, each.number) / CHECKPOINTS, ignore_errors=True)
            if each is not best:
                shutil.rmtree(folder_of(self.folder, each.number) / MODEL, ignore_errors=True)


def _suggest(trial: Any, name: str, form: Any) -> Value:
    if isinstance(form, Categorical):
        value: Value = trial.suggest_categorical(name, form.values)
    elif PARAMETERS[name].kind is int:
        value = trial.suggest_int(name, form.low, form.high, log=form.log)
    else:
        value = trial.suggest_float(name, form.low, form.high, log=form.log)
    return value
