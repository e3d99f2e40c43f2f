"""Real sweeps on this machine, of tiny trainings of the narrow network."""

import dataclasses
import json
import math
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

import optuna
import pytest

from lifecycle.machines import benchmark_results
from lifecycle.machines.benchmark_results import LOCAL, Measurement
from pipeline.__main__ import main
from pipeline.graph.environment import load_environment
from pipeline.local.run import locked_run
from pipeline.sweep.local import (
    CHECKPOINTS,
    LOG,
    LOSSES,
    MODEL,
    NOT_ENDED,
    SECONDS,
    TRIALS,
    Search,
    describe_here,
    folder_of,
    open_study,
)
from pipeline.sweep.results import COMPLETE, FAILED, Trial, publish
from pipeline.sweep.space import read_sweep
from tests.narrow_tasks import sitecustomize
from tests.prepared import write_prepared
from tests.refusals import refused
from tests.tiny import write_salicon
from trainer.errors import ContentError, FailedError, MismatchError, PlaceError, UserError
from trainer.network.model_folder import MODEL_CONFIG
from trainer.training.hypertune import LOSSES_FILE, read_losses

TIMEOUT_S = 600


def write_sweep(folder, search, fixed='base_dataset = "osie"', epochs=2, weights='initial_weights = "none"'):
    path = folder / "mine.toml"
    common = f'base_batch_size = 2\nbase_epochs = {epochs}\nprecision = "float32"\n{weights}'
    path.write_text(f"[parameters]\n{common}\n{fixed}\n[search]\n{search}\n")
    return path


@pytest.fixture
def narrow(monkeypatch):
    """The processes of trials have the narrow network."""
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(sitecustomize.__file__).parent), prepend=os.pathsep)


@pytest.fixture
def prepared(tmp_path, narrow, monkeypatch):
    """The folder of a sweep in the working directory, whose data is there: six images of 32 x 40 pixels."""
    monkeypatch.chdir(tmp_path)
    write_prepared(tmp_path / "sweeps" / "mine" / "data")
    return tmp_path / "sweeps" / "mine"


def states_of(folder):
    """How Optuna has each trial, also those that were interrupted."""
    return [each.state.name for each in open_study(folder).trials]


def wait_until(condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_free(folder):
    """Whether no process of a sweep has its folder."""
    try:
        with locked_run(folder, "sweep"):
            return True
    except UserError:
        return False


def test_killed_sweep_resumes_the_interrupted_trial_and_repeats_none(tmp_path, narrow, moved, monkeypatch, capsys):
    tested = write_salicon(tmp_path / "tested", train_x=12, valid_x=52, seed=1)
    fixed = (
        f'base_source = "{moved}"\nallow_partial_data = true\nbase_image_size = "32x40"\n'
        f'test_dataset = "salicon"\ntest_source = "{tested}"\ncheckpoint_minutes = 1e-6'
    )
    path = write_sweep(tmp_path, "base_learning_rate = { min = 1e-6, max = 1e-3, log = true }", fixed)
    command = [sys.executable, "-m", "pipeline", "sweep", str(path), "--trials", "3"]
    folder = tmp_path / "sweeps" / "mine"
    first, second = folder_of(folder, 1), folder_of(folder, 2)
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until(lambda: list((second / CHECKPOINTS).glob("after-epoch-*.npz")) or process.poll() is not None)
    process.kill()
    process.wait()
    wait_until(lambda: is_free(folder))  # the trial saves its state and stops
    before = (first / LOG).read_bytes()

    monkeypatch.chdir(tmp_path)
    assert main([*command[3:], "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "Done:     1, in " in planned
    assert re.search(r"Time: +about .* left\n", planned)

    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert again.returncode == 0, again.stdout + again.stderr
    assert states_of(folder) == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    assert (first / LOG).read_bytes() == before
    assert "resuming after" in (second / LOG).read_text()

    # The model of the best trial is kept, and nothing else that is large.
    losses = [read_losses(folder_of(folder, number) / LOSSES) for number in (1, 2, 3)]
    assert [list(each) for each in losses] == [[1, 2]] * 3
    (model,) = (folder / "trials").glob(f"*/{MODEL}")
    best = json.loads((model / MODEL_CONFIG).read_text())
    assert best["valid_loss"] == min(loss for each in losses for loss in each.values())
    assert not list((folder / "trials").glob(f"*/{CHECKPOINTS}"))

    # What it prints is a run with the settings of that model, and how it does on the test set.
    (line,) = [line for line in again.stdout.splitlines() if line.startswith("Next run: ")]
    found = re.search(r"make run-pipeline ENV=local .*base_learning_rate=(\S+)", line)
    assert float(found[1]) == best["settings"]["learning_rate"]
    assert re.search(r"On the 3 images of the test set, its KLD is \d\.\d+ \(centre bias: ", again.stdout)
    page = (folder / "sweep.html").read_text()
    assert f"base_learning_rate={found[1]}" in page
    assert page.count("<svg") == 2

    # The same command shows the result again; another sweep in its folder is refused.
    assert main(command[3:]) == 0
    assert capsys.readouterr().out.endswith(again.stdout[again.stdout.index("Best:") :])
    write_sweep(tmp_path, "base_learning_rate = { min = 1e-6, max = 1e-2, log = true }", fixed)
    for arguments in (command[3:], [*command[3:], "--dry-run"]):
        with refused(MismatchError, "mine", "search"):
            main(arguments)


def add_finished(folder, sweep, losses, count):
    """Put finished trials with these losses by epoch into the study of a sweep."""
    study = open_study(folder)
    for _ in range(count):
        study.add_trial(
            optuna.trial.create_trial(
                params={"base_learning_rate": 1e-5},
                distributions={"base_learning_rate": optuna.distributions.FloatDistribution(1e-6, 1e-3)},
                value=min(losses),
                intermediate_values=dict(enumerate(losses, start=1)),
                user_attrs={SECONDS: 1.0},
            )
        )


def test_trial_that_is_worse_than_the_median_is_pruned(prepared, tmp_path, capsys):
    path = write_sweep(tmp_path, "base_learning_rate = { min = 1e-6, max = 1e-3 }", epochs=200)
    add_finished(prepared, read_sweep(path, load_environment("local")), losses=[0.01] * 200, count=5)
    assert main(["sweep", str(path), "--trials", "6"]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"Trial 6 of 6: base_learning_rate=\S+\n  epoch 1/200: .*\n  lowest \S+ \d+ s, pruned after epoch 1\n", out
    )
    assert states_of(prepared) == ["COMPLETE"] * 5 + ["PRUNED"]
    assert {each.name for each in folder_of(prepared, 6).iterdir()} == {LOG, LOSSES}
    assert re.search(r"(?m)^ +6 .* pruned *$", out)


def test_trial_that_fails_is_named_and_does_not_stop_the_others(prepared, tmp_path, capsys):
    (tmp_path / "bad.h5").write_bytes(b"no weights")
    path = write_sweep(tmp_path, f"initial_weights = ['{tmp_path}/bad.h5', 'none']", epochs=1, weights="")
    assert main(["sweep", str(path), "--trials", "2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"failed: .*bad\.h5", out)
    assert re.search(r"(?m)^Best: +initial_weights=none$", out)


def test_sweep_without_a_complete_trial_is_an_error(prepared, tmp_path):
    (tmp_path / "bad.h5").write_bytes(b"no weights")
    (tmp_path / "worse.h5").write_bytes(b"no weights")
    search = f"initial_weights = ['{tmp_path}/bad.h5', '{tmp_path}/worse.h5']"
    path = write_sweep(tmp_path, search, epochs=1, weights="")
    with refused(FailedError, 1, "trials"):
        main(["sweep", str(path), "--trials", "1"])


def test_batch_that_the_images_cannot_fill_is_refused_before_a_trial_starts(prepared, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[parameters]\nbase_dataset = "osie"\n[search]\nbase_batch_size = [2, 64]\n')
    with refused(UserError, 64):
        main(["sweep", str(path)])
    assert not (prepared / TRIALS).exists()


class Analytic(Search):
    """A search whose trials have a known loss, and which is interrupted in the trial `interrupted`."""

    interrupted = 0

    def _train(self, trial, values, folder):
        if folder.name == f"{self.interrupted:03d}":
            raise KeyboardInterrupt
        trial.report((values["base_learning_rate"] - 3e-4) ** 2 + values["flip"], 1)
        return COMPLETE, ""


def test_interrupted_search_proposes_what_an_unbroken_one_does(tmp_path):
    search = "base_learning_rate = { min = 1e-6, max = 1e-3, log = true }\nflip = [true, false]"
    sweep = read_sweep(write_sweep(tmp_path, search), load_environment("local"))
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    whole, broken = Analytic(sweep, tmp_path / "whole", "", 0), Analytic(sweep, tmp_path / "broken", "", 0)
    whole.run(15, math.inf)
    for broken.interrupted in (1, 4, 13):
        with pytest.raises(KeyboardInterrupt):
            broken.run(15, math.inf)
    broken.interrupted = 0
    broken = Analytic(sweep, tmp_path / "broken", "", 0)
    broken.run(15, math.inf)
    assert [each.values for each in broken.trials] == [each.values for each in whole.trials]
    assert whole.trials[0].values == {"base_learning_rate": 1e-5, "flip": False}  # as without the sweep
    assert len({each.values["base_learning_rate"] for each in whole.trials}) == 15


@pytest.mark.parametrize("form", ["[1.2345678e-05, 2.3456789e-05]", "{ min = 1e-6, max = 1e-4, log = true }"])
def test_values_keep_their_digits(tmp_path, capsys, form):
    fixed = 'base_dataset = "osie"'
    sweep = read_sweep(write_sweep(tmp_path, f"base_learning_rate = {form}", fixed), load_environment("local"))
    sweep = dataclasses.replace(
        sweep, environment=dataclasses.replace(sweep.environment, parameters={"base_learning_rate": 1.2345678e-05})
    )
    search = Slow(sweep, tmp_path, "", 0)
    search.run(1, math.inf)
    assert search.trials[0].values == sweep.present() == {"base_learning_rate": 1.2345678e-05}
    publish(sweep, search.trials, tmp_path, "")
    assert re.search(r"Next run: .*base_learning_rate=1\.2345678e-05", capsys.readouterr().out)


def test_value_next_to_a_bound_is_not_rounded_beyond_it(tmp_path):
    path = write_sweep(tmp_path, "warmup_epochs = { min = 1.9999990, max = 1.9999999 }", epochs=2)
    search = Slow(read_sweep(path, load_environment("local")), tmp_path, "", 0)
    search.run(1, math.inf)
    assert 1.9999990 <= search.trials[0].values["warmup_epochs"] <= 1.9999999


def test_no_trial_repeats_another_until_all_are_tried(tmp_path):
    search = (
        "flip = [true, false]\npatience = { min = 1, max = 3 }\nlearning_rate_schedule = ['constant', 'cosine']"
    )
    sweep = read_sweep(write_sweep(tmp_path, search), load_environment("local"))
    assert sweep.size == 12
    found = Slow(sweep, tmp_path, "", 0)
    found.run(12, math.inf)
    assert len({tuple(each.values.items()) for each in found.trials}) == 12


def test_renamed_file_goes_on_with_the_trials_of_its_folder(tmp_path):
    path = write_sweep(tmp_path, "flip = [true, false]")
    Slow(read_sweep(path, load_environment("local")), tmp_path, "", 0).run(1, math.inf)
    renamed = path.rename(tmp_path / "ours.toml")
    assert len(Slow(read_sweep(renamed, load_environment("local")), tmp_path, "", 0).trials) == 1


@pytest.mark.parametrize(("kills", "state"), [(1, COMPLETE), (2, FAILED)])
@pytest.mark.parametrize(("end", "number"), [("kill -9 $$", 9), ("exit 143", 15)])
def test_trial_that_a_signal_ends_is_tried_once_more(tmp_path, monkeypatch, kills, state, end, number):
    program, attempts = tmp_path / "python", tmp_path / "attempts"
    program.write_text(
        f"#!/bin/sh\necho >> {attempts}\n[ $(wc -l < {attempts}) -le {kills} ] && {end}\n"
        f'echo \'{{"global_step": "1", "valid_loss": "0.5"}}\' > "${LOSSES_FILE}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    sweep = read_sweep(write_sweep(tmp_path, "flip = [true, false]"), load_environment("local"))
    with locked_run(tmp_path, "sweep") as lock:
        search = Search(sweep, tmp_path, "", lock)
        search.run(1, math.inf)
    (trial,) = search.trials
    assert (trial.state, trial.reason) == (state, "" if state == COMPLETE else f"ended by signal {number}")
    assert len(attempts.read_text().splitlines()) == 2


def test_damaged_study_is_refused_with_what_to_remove(tmp_path):
    sweep = read_sweep(write_sweep(tmp_path, "flip = [true, false]"), load_environment("local"))
    (tmp_path / TRIALS).write_bytes(b"no study" * 1000)
    with refused(ContentError, TRIALS, tmp_path):
        Search(sweep, tmp_path, "", 0)


def test_full_disk_is_an_error_after_which_the_sweep_goes_on(prepared, tmp_path):
    path = write_sweep(tmp_path, "flip = [true, false]", epochs=1)
    sweep = read_sweep(path, load_environment("local"))
    Slow(sweep, prepared, "", 0).run(1, math.inf)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # as if there were no room for more
        with refused(PlaceError, TRIALS):
            main(["sweep", str(path)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert main(["sweep", str(path)]) == 0


def test_first_trial_has_the_present_settings_although_the_study_exists(tmp_path):
    sweep = read_sweep(
        write_sweep(tmp_path, "base_learning_rate = { min = 1e-6, max = 1e-3 }"), load_environment("local")
    )
    open_study(tmp_path)
    search = Slow(sweep, tmp_path, "", 0)
    search.run(1, math.inf)
    assert search.trials[0].values == sweep.present() == {"base_learning_rate": 1e-5}


def test_no_trial_is_started_after_the_hours(tmp_path):
    sweep = read_sweep(write_sweep(tmp_path, "flip = [true, false]"), load_environment("local"))
    search = Slow(sweep, tmp_path, "", 0)
    search.run(5, time.monotonic() + 0.1)
    assert len(search.trials) == 1


def test_time_until_an_interruption_counts_and_what_has_finished_can_be_seen(tmp_path):
    sweep = read_sweep(write_sweep(tmp_path, "flip = [true, false]"), load_environment("local"))
    Slow(sweep, tmp_path, "", 0).run(1, math.inf)
    page = (tmp_path / "sweep.html").read_text()
    assert "Sweep mine: 1 trial<" in page
    assert NOT_ENDED in page
    with pytest.raises(KeyboardInterrupt):
        Interrupted(sweep, tmp_path, "", 0).run(2, math.inf)
    search = Slow(sweep, tmp_path, "", 0)
    search.run(2, math.inf)
    assert search.trials[1].seconds >= 0.4


def test_time_of_the_first_trials_is_by_the_newest_measurement_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark_results, "FILE", tmp_path / "measured.json")
    old = Measurement(LOCAL, "2026-01-02", 1.0, None, 30.0, (240, 320), 1, 1, "float32", 100, "1 CPU", "")
    old.keep()
    dataclasses.replace(old, date="2026-02-03", batch_size=4).keep()
    sweep = read_sweep(write_sweep(tmp_path, "flip = [true, false]"), load_environment("local"))
    (line,) = [line for line in describe_here(sweep, tmp_path, 2, 0) if line.startswith("Time:")]
    assert "measured 2026-02-03, batch 4" in line


@pytest.mark.parametrize("source", ["", "sample"])
def test_losses_on_generated_shapes_are_called_so(tmp_path, capsys, source):
    fixed = f'base_dataset = "osie"\nbase_source = "{source}"'
    sweep = read_sweep(write_sweep(tmp_path, "flip = [true, false]", fixed), load_environment("local"))
    publish(sweep, [Trial(1, {"flip": True}, COMPLETE, {1: 0.5}, 1.0)], tmp_path, "")
    shown = {
        "These scores are of generated shapes" in text
        for text in (capsys.readouterr().out, (tmp_path / "sweep.html").read_text())
    }
    assert shown == {source == "sample"}


class Slow(Search):
    """A search whose trials take a while."""

    def _train(self, trial, values, folder):
        time.sleep(0.2)
        trial.report(1.0, 1)
        return COMPLETE, ""


class Interrupted(Search):
    """A search that is interrupted during its next trial."""

    def _train(self, trial, values, folder):
        time.sleep(0.2)
        raise KeyboardInterrupt
