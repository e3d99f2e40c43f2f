"""Real runs of the pipeline by kfp.local, on a few tiny images."""

import dataclasses
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import urllib.parse
import zipfile

import h5py
import pytest
from rich.console import Console

from lifecycle.registry.folder_registry import LocalRegistry
from lifecycle.runs.parameters import STEPS
from pipeline.__main__ import main
from pipeline.local.run import ANSI, LOG, NEXT, RunProgress, execute_run, interruptible, print_stopped, tell_end
from pipeline.local.run_folder import CHECKPOINTS, SHOWN, Run, prepare_run
from tests import site as sites
from tests.consoles import printed
from tests.narrow import narrow_pretrained, narrowed, quick_trainings
from tests.narrow_tasks import sitecustomize as narrow_tasks
from tests.prepared import evaluation_of
from tests.reference_graph import frozen, weights_of, write_graph
from tests.refusals import refused
from tests.tiny import write_salicon
from trainer.errors import ConflictError, MismatchError, NotFoundError, PlaceError, UserError
from trainer.evaluation import run_folders
from trainer.evaluation.compare import find_contestants
from trainer.evaluation.run_folders import RUN_FILE
from trainer.io import files
from trainer.machine.runtime import LOADING
from trainer.models.model_names import DEFAULT
from trainer.models.provenance import Provenance
from trainer.models.weight_sources import WeightSource
from trainer.network import model_folder
from trainer.network.msinet.keras_model import build_model
from trainer.places.queries import Queries
from trainer.training.settings import TrainConfig
from trainer.training.train import train

TIMEOUT_S = 600
TEMPORARY = "temporary"
NARROW = pathlib.Path(narrow_tasks.__file__).parent
EPOCHS = 3
RESUME = (sys.executable, "-m", "pipeline", "run", "--resume")


def command(run_dir, base_source, finetune_source, *others):
    return [
        *(sys.executable, "-m", "pipeline", "run", "--run-dir", str(run_dir)),
        *("--finetune-dataset", "salicon", "--allow-partial-data", "true", "initial_weights=none"),
        *(f"base_source={base_source}", f"finetune_source={finetune_source}"),
        *(f"{step}_{setting}" for step in STEPS for setting in ("image_size=32x40", "batch_size=2")),
        *(f"base_epochs={EPOCHS}", "finetune_epochs=1", "precision=float32", "gate=always"),
        *others,
    ]


def environment():
    """Environment variables of a run whose tasks use the narrow network."""
    paths = os.pathsep.join(filter(None, (str(NARROW), os.environ.get("PYTHONPATH", ""))))
    return os.environ | {"COLUMNS": "160", "MSINET_COMMIT": "abc", "PYTHONPATH": paths}


def run(folder, *arguments):
    (folder / TEMPORARY).mkdir(exist_ok=True)
    variables = environment() | {"TMPDIR": str(folder / TEMPORARY)}
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, env=variables)


@pytest.fixture(scope="module", autouse=True)
def narrow():
    with narrow_pretrained():
        yield


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """Working directory of the runs. Those in its folder `runs` share a cache, so only one fetches the data."""
    return tmp_path_factory.mktemp("workplace")


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """The parameters of a test set: SALICON's validation images in another source."""
    source = write_salicon(tmp_path_factory.mktemp("tested"), train_x=12, valid_x=52, seed=1)
    return "test_dataset=salicon", f"test_source={source}", "gate_on=test"


@pytest.fixture(scope="module")
def killed(workplace, moved, tested):
    """What the first run said until it was killed in the second epoch, and its processes a while later."""
    folder = workplace / "runs" / "first"
    with (workplace / "killed.txt").open("w") as said:
        arguments = command("runs/first", moved, moved, *tested)
        process = subprocess.Popen(arguments, cwd=workplace, stdout=said, env=environment())
    wait_for(folder / LOG, rf"training, epoch 2/{EPOCHS}: ")
    # The checkpoint of the previous epoch is written in parallel to the training.
    wait_until(lambda: list((folder / CHECKPOINTS / "base").glob("after-epoch-*.npz")))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not processes_of(folder))
    shutil.copy(folder / "report.html", workplace / "killed.html")
    return (workplace / "killed.txt").read_text(), processes_of(folder)


@pytest.fixture(scope="module")
def interrupted(killed, workplace, moved, tested):
    """The same command by `make`, and Ctrl-C, which both get, in its training: its status, and what it said."""
    makefile = "run:\n\t" + shlex.join(command("runs/first", moved, moved, *tested)).replace("$", "$$")
    (workplace / "Makefile").write_text(makefile)
    log = workplace / "runs" / "first" / LOG
    earlier = log.read_text()
    with (workplace / "interrupted.txt").open("w") as said:
        process = subprocess.Popen(
            ["make", "run"], cwd=workplace, stdout=said, stderr=said, env=environment(), start_new_session=True
        )
        wait_for(log, re.escape(earlier) + r"[\s\S]*resuming after ")
        os.killpg(process.pid, signal.SIGINT)
        process.wait(TIMEOUT_S)
    return process.returncode, (workplace / "interrupted.txt").read_text()


@pytest.fixture(scope="module")
def first(interrupted, workplace, moved, tested):
    """The end of the first run, by the command that started it; the registry was empty."""
    return run(workplace, *command("runs/first", moved, moved, *tested))


def test_first_run_registers_the_default(first, workplace):
    assert first.returncode == 0, first.stdout + first.stderr
    registry = LocalRegistry(workplace / "models")
    assert registry.aliases("msinet") == {DEFAULT: 1}
    assert (workplace / "models" / "msinet" / "1" / "saved_model.pb").is_file()
    base, finetuned = (
        sorted((workplace / "runs" / "first").glob(f"msinet-*/{task}/model/saved_model"))
        for task in ("train-model", "train-model-2")
    )
    assert (len(base), len(finetuned)) == (0, 1)
    lineage = registry.default("msinet").record["lineage"]
    assert lineage["data"]["finetune"]["counts"] == {"train": 6, "valid": 3}
    assert lineage["data"]["test"]["counts"] == {"test": 3}
    assert {step: data["statistics"]["images"] for step, data in lineage["data"].items()} == {
        **dict.fromkeys(STEPS, 9),
        "test": 3,
    }
    record = registry.default("msinet").record
    assert (list(record["metrics"]), record["decided_on"]) == (["salicon-test", "salicon"], "salicon-test")
    assert lineage["run"].startswith("msinet-")
    assert lineage["folder"] == str(workplace / "runs" / "first")


def test_run_shows_each_step_and_ends_with_metrics_report_and_version(killed, interrupted, first, workplace):
    lines, all_said = first.stdout.splitlines(), killed[0] + interrupted[1] + first.stdout
    steps = set(re.findall(r"(?m)^\[(.+)\] done after", all_said))
    assert len(steps) == 12
    assert set(STEPS.values()) | {"Evaluation", "Registration"} <= steps
    if sys.platform == "linux":  # then each of the starts loads it once, for all tasks
        assert (workplace / "runs" / "first" / LOG).read_text().count(LOADING) == 3
    assert any(line.startswith(f"[{STEPS['base']}] epoch {EPOCHS}/{EPOCHS}: loss") for line in lines)
    assert any({"candidate", "default", "gain"} <= set(line.split()) for line in lines)
    assert any(line.startswith("KLD ↓") for line in lines)
    assert any(line.startswith("Test images of salicon: 3, with ") for line in lines)
    assert "Registered: msinet version 1 (default)" in lines
    assert "generated shapes" not in first.stdout
    assert f"Report:     {pathlib.Path('runs/first/report.html')}" in lines
    assert "executor_input" not in first.stdout
    assert "INFO:tensorflow" not in first.stdout
    assert not first.stderr


def test_page_of_a_run_exists_from_its_start_with_the_data_before_the_training_and_reads_itself_again(
    killed, workplace
):
    page = (workplace / "killed.html").read_text()
    assert killed[0].index("Report:     runs/first/report.html") < killed[0].index("] started")
    assert "<strong>Running</strong>" in page
    assert '<meta http-equiv="refresh"' in page
    assert {"data_base.html", "data_finetune.html"} <= set(re.findall(r'href="([^"#]+)"', page))
    assert re.search(rf"{STEPS['base']}: epoch 1/{EPOCHS}: loss ", page)
    assert "training and validation loss by epoch" in page


def test_run_ends_with_the_message_that_is_the_same_on_all_targets(first):
    (message,) = [line for line in first.stdout.splitlines() if line.startswith("Message: ")]
    assert "msinet@1: promoted. The candidate becomes the default" in message


def test_run_leaves_its_reports_and_log_and_nothing_in_the_temporary_folder(first, workplace):
    folder = workplace / "runs" / "first"
    for name in SHOWN.values():
        assert (folder / name).read_bytes().startswith(b"<!doctype html>")
    assert "Executing task 'upload-model'" in (folder / LOG).read_text()
    assert "refresh" not in (folder / "report.html").read_text()
    assert not (folder / CHECKPOINTS).exists()
    assert not list((workplace / TEMPORARY).iterdir())


def test_terminal_shows_every_step_with_its_state_and_last_line(first, workplace):
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    log = (workplace / "runs" / "first" / LOG).read_text().splitlines()
    with RunProgress(console, Queries([])) as progress:
        for line in log[: next(index for index, line in enumerate(log) if "epoch 2/" in line) + 1]:
            progress.feed(line)
    shown = ANSI.sub("", printed(console))
    assert re.search(r"(?m)^Base training: data +done +\d+ s", shown)
    assert re.search(rf"(?m)^Base training +running +\d+ s +training, epoch 2/{EPOCHS}: ", shown)
    assert re.search(r"(?m)^Evaluation +waiting", shown)
    assert "executor_input" not in shown


def test_run_with_nothing_new_ends_before_it_reads_the_data(first, workplace, moved, tested):
    ended = run(workplace, *command("runs/same", moved, moved, *tested, "skip_unchanged=true"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    steps = set(re.findall(r"(?m)^\[(.+)\] (?:done after|unchanged; result)", ended.stdout))
    assert steps == {"Check"}
    assert "Unchanged:  msinet already has a version" in ended.stdout
    assert "version 1" in ended.stdout
    assert len(LocalRegistry(workplace / "models").versions("msinet")) == 1


def test_resumed_run_keeps_its_parameters_and_is_unfinished_if_others_are_passed(first, workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    again = prepare_run("", "", "runs/first", {"gate": "never"})
    assert again.folder == workplace / "runs" / "first"
    assert again.parameters == Run.load(again.folder).parameters | {"gate": "never"}
    same = prepare_run("local", "runs/first", "", {})
    assert (same.environment, same.finished, again.finished) == ("local", True, False)
    with refused(MismatchError, "local", "sample", "--env"):
        prepare_run("sample", "runs/first", "", {})
    # A finished run needs neither its registry nor its inputs.
    stored = dataclasses.replace(Run.load(again.folder), folder=pathlib.Path("runs/kept"))
    stored.parameters["registry"] = "runs/first/log.txt"
    stored.folder.mkdir()
    stored.save()
    assert prepare_run("", "", "runs/kept", {}).finished
    with refused(PlaceError, "runs/first/log.txt/msinet"):
        prepare_run("", "", "runs/kept", {"gate": "never"})


def test_finished_run_shows_its_result_again_and_does_nothing_else(first, workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    log = (workplace / "runs" / "first" / LOG).read_bytes()
    console = Console(file=io.StringIO(), width=160)
    assert execute_run(prepare_run("", "", "runs/first", {}), console) == 0
    assert "Run runs/first has finished" in printed(console)
    result = first.stdout[first.stdout.rindex("Report:") : first.stdout.index("Message:")]
    assert printed(console).endswith(result)
    assert (workplace / "runs" / "first" / LOG).read_bytes() == log
    assert len(LocalRegistry(workplace / "models").versions("msinet")) == 1


def test_failed_attempt_says_why_and_shows_nothing_of_the_previous_one(first, workplace, tmp_path):
    folder = workplace / "runs" / "again"
    shutil.copytree(workplace / "runs" / "first", folder)
    (tmp_path / "notes.txt").touch()
    failed = run(workplace, *RESUME, "runs/again", f"base_source={tmp_path}")
    assert failed.returncode == 1
    (reason,) = re.findall(r"(?m)^Base training: data failed: (.*)$", failed.stdout)
    assert failed.stdout.count(reason) == 2  # when the task failed, and at the end
    assert "Log:        runs/again/log.txt" in failed.stdout
    assert "Resume:     make run-pipeline RESUME=runs/again" in failed.stdout
    assert "Traceback" not in failed.stdout + failed.stderr
    assert not re.search("(?m)^(KLD|The candidate)", failed.stdout)
    assert failed.stdout.count("Report:") == 1  # at the start
    # The other data was not fetched again, so its pages remain.
    pages = {"data_finetune.html", "data_test.html", "report.html"}
    assert {path.name for path in folder.glob("*.html")} == pages
    page = (folder / "report.html").read_text()
    assert "<strong>Failed</strong>" in page
    assert "<code>make run-pipeline RESUME=runs/again</code> goes on." in page
    assert 'href="data_finetune.html"' in page
    assert "refresh" not in page
    with refused(UserError, "again", "evaluation"):
        find_contestants([str(folder), str(workplace / "runs" / "first")])
    assert Run.load(folder).parameters["base_source"] == str(tmp_path)


def wait_for(path, pattern):
    """Wait until the file at `path` contains `pattern`, and return its text."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        text = path.read_text() if path.exists() else ""
        if re.search(pattern, text):
            return text
        time.sleep(0.05)
    raise AssertionError(f"{pattern} is not in {text}")


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def processes_of(folder):
    """Ids of the running processes with `folder` in their command line."""
    processes = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in arguments and int(entry.name) != os.getpid():
            processes.append(int(entry.name))
    return processes


def arrays(path):
    """Name -> bytes of every array in an HDF5 file."""
    datasets = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, node: datasets.update({name: node[()].tobytes()} if hasattr(node, "shape") else {})
        )
    return datasets


def test_killed_run_leaves_no_process_and_resumes_to_the_model_of_an_unbroken_training(
    killed, first, workplace, tmp_path
):
    assert not killed[1]
    assert first.returncode == 0, first.stdout
    assert "Base training: data] unchanged. Result reused from an earlier run" in first.stdout
    assert f"[{STEPS['base']}] epoch 1/" not in first.stdout
    resumed = Run.load(workplace / "runs" / "first").output("train-model", "model")
    config = TrainConfig(**files.read_json(resumed / model_folder.MODEL_CONFIG, "", dict)["settings"])
    (fetched,) = (workplace / "runs" / "first").glob(f"{run_folders.RUN_ATTEMPTS}/fetch-dataset/prepared")
    with quick_trainings():
        train(config, fetched, tmp_path / "unbroken", tmp_path / "checkpoints")
    weights, of_unbroken = (
        arrays(model / model_folder.MODEL_WEIGHTS) for model in (resumed, tmp_path / "unbroken")
    )
    assert len(weights) > 30
    assert weights == of_unbroken


def test_interrupted_run_ends_its_tasks_and_shows_how_to_resume(tmp_path, moved, monkeypatch):
    arguments = command("mine", moved, moved)
    process = subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment())
    wait_for(tmp_path / "mine" / LOG, "Executing task 'fetch-dataset'")
    monkeypatch.chdir(tmp_path)
    with refused(ConflictError, "run", "mine"):
        execute_run(prepare_run("", "", "mine", {}), Console(file=io.StringIO()))
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    assert "Interrupted." in output
    assert "make run-pipeline RESUME=mine" in output
    page = (tmp_path / "mine" / "report.html").read_text()
    assert "<strong>Interrupted</strong><div><p><code>make run-pipeline RESUME=mine</code>" in page
    assert "refresh" not in page
    assert "Traceback" not in output
    assert not processes_of(tmp_path / "mine")


def test_interrupted_training_saves_its_state_and_says_where_it_goes_on(interrupted, first):
    """`first` goes on there, and another test compares its weights with those of an unbroken training."""
    status, said = interrupted
    (step,) = re.findall(r"saved at step (\d) of 3, epoch [23] of 3", said)
    assert f", step {step} (" in first.stdout[first.stdout.index("resuming after ") :].partition("\n")[0]
    assert status
    assert "Interrupted." in said
    assert "RESUME=runs/first" in said
    assert "Traceback" not in said


SAVES = """
import signal, sys, time

def save(*_):
    print("saving", flush=True)
    time.sleep(1)
    sys.exit(print("saved"))

signal.signal(signal.SIGINT, save)
print("ready", flush=True)
time.sleep(600)
"""
"""A worker that takes a second to save its state."""


@pytest.mark.parametrize(
    ("signals", "says"),
    [
        ([signal.SIGINT], "saved"),
        ([signal.SIGTERM, signal.SIGTERM], "saved"),  # `make` passes on its own
        ([signal.SIGINT, signal.SIGINT], ""),
    ],
)
def test_second_interrupt_ends_a_task_at_once_that_is_saving_its_state(signals, says):
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", SAVES], **options) as worker, interruptible(worker) as received:
        assert worker.stdout.readline() == "ready\n"
        signal.raise_signal(signals[0])
        assert worker.stdout.readline() == "saving\n"
        for number in signals[1:]:
            signal.raise_signal(number)
        assert worker.stdout.read().strip() == says
    assert received == signals


def files_with_a_secret(run_folder):
    """Names of the files below a folder that have the word SECRET, those of ZIPs too."""

    def has_secret(content):
        return b"SECRET" in content.upper()

    def contents(path):
        yield path.name.encode()
        yield path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from (archive.read(name) for name in archive.namelist())

    files_below = [path for path in run_folder.rglob("*") if path.is_file()]
    return {path.name for path in files_below if any(map(has_secret, contents(path)))}


def test_the_query_of_a_signed_address_is_in_no_file_but_the_private_record_of_the_run(
    moved, tmp_path, monkeypatch
):
    """Once in a run that ends well, and once in one whose server does not answer, which libraries log."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(pathlib.Path(moved).rglob("*")):
            archive.write(path, path.relative_to(moved))
    monkeypatch.setenv("MSINET_CACHE", str(tmp_path / "cache"))
    query = """?sig=a<b%2F"'TOPSECRET77"""
    with sites.running() as site:
        address = f"{site.url}/set.zip{query}"
        site.serve(f"/set.zip{urllib.parse.unquote(query)}", content.getvalue())
        good = run(tmp_path, *command("good", address, address, "private_sources=true"))
    secure = address.replace("http:", "HTTPS:")
    lost = run(tmp_path, *command("lost", secure, secure))
    assert (good.returncode, lost.returncode) == (0, 1), good.stderr + lost.stderr
    assert "Retrying" in (tmp_path / "lost" / LOG).read_text()
    for name in ("good", "lost"):
        assert files_with_a_secret(tmp_path / name) == {RUN_FILE}
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / name).iterdir()}
        assert (modes[RUN_FILE], modes[LOG]) == (0o600, 0o600)
    assert files_with_a_secret(tmp_path) == {RUN_FILE}
    assert "SECRET" not in good.stdout + good.stderr + lost.stdout + lost.stderr


def test_published_model_is_fine_tuned_and_below_the_centre_bias_fails_the_run_with_that_reason(
    first, workplace, moved, fixed
):
    assert first.returncode == 0
    with narrowed():
        weights = weights_of(build_model((None, None), "float32"))
    write_graph(workplace / "msi-net.pb", frozen(weights=weights))
    started = command("runs/bad", "", fixed, "base_model_uri=msi-net.pb", "model_name=bad")
    base = "base_epochs", "base_batch_size", "base_so", "initial_w"
    failed = run(workplace, *(each for each in started if not each.startswith(base)))
    assert failed.returncode == 1
    steps = re.findall(r"(?m)^\[(.+)\] done after", failed.stdout)
    assert {"Base model: import", "Base model", STEPS["finetune"]} <= set(steps)
    assert not {STEPS["base"], f"{STEPS['base']}: plan"} & set(steps)
    (config,) = (workplace / "runs" / "bad").glob(f"msinet-*/train-model-2/model/{model_folder.MODEL_CONFIG}")
    imported = json.loads(config.read_text())["base_model"]["imported"]
    assert (imported["source"], imported["kind"]) == ("msi-net.pb", "frozen graph")
    assert imported["fingerprint"] == WeightSource(str(workplace / "msi-net.pb")).fingerprint()
    assert not (workplace / "runs" / "bad" / "curve_base.html").exists()
    assert re.search(
        r"(?m)^Evaluation failed: The candidate is worse than the centre bias in KLD \(", failed.stdout
    )
    assert any(line.startswith("KLD ↓") for line in failed.stdout.splitlines())
    assert "Report:     runs/bad/report.html" in failed.stdout
    assert (workplace / "runs" / "bad" / "report.html").stat().st_size > 1000
    assert "Traceback" not in failed.stdout + failed.stderr
    assert LocalRegistry(workplace / "models").versions("bad") == []


@pytest.mark.parametrize("passed", [True, False])
def test_run_that_stops_after_its_evaluation_says_that_nothing_is_registered(passed, tmp_path):
    stopped = Run(tmp_path / "run", "sample", {})
    reason = "The candidate becomes the default: it is better."
    evaluation = evaluation_of({}, passed_baseline=passed, datasets={}, run="msinet-2026", reason=reason)
    evaluation.write(stopped.folder / "msinet-2026" / "evaluate-model" / "evaluation")
    stopped.save()
    console = Console(file=io.StringIO(), width=160)
    with RunProgress(console, Queries([])) as progress:
        assert print_stopped(stopped, progress, 128 + signal.SIGINT, console) == 130
    text = printed(console)
    resume = f"make run-pipeline RESUME={stopped.folder}"
    assert (f"Registered: not yet. `{resume}` goes on\n" in text) is passed
    assert ("The candidate would become the default: it is better" in text) is passed
    assert "becomes" not in text
    assert f"Resume:     {resume} [PARAMETER=VALUE ...]\n" in text


def test_reports_of_a_run_that_stops_before_its_registration_say_what_the_candidate_would_become(
    first, workplace, tmp_path
):
    assert first.returncode == 0, first.stdout + first.stderr
    shutil.copytree(workplace / "runs" / "first", tmp_path / "run")
    stopped = Run.load(tmp_path / "run")
    stopped.output("upload-model", "executor_output.json").unlink()
    assert "Becomes the default" in (stopped.folder / "report.html").read_text()
    console = Console(file=io.StringIO(), width=160)
    with RunProgress(console, Queries([])) as progress:
        print_stopped(stopped, progress, 128 + signal.SIGINT, console)
    page = (stopped.folder / "report.html").read_text()
    assert "Becomes the default" not in page
    assert "Would become the default" in page


@pytest.mark.parametrize(
    ("source", "alias", "registry", "try_it", "listed"),
    [
        ("gs://data/osie", "default", "", "make demo", ""),
        ("sample", "default", "", "make demo ARGS='--model msinet@7'", ""),
        (
            "gs://data/osie",
            "default",
            "gs://bucket/m/",
            "make demo ARGS='--model gs://bucket/m/msinet@7'",
            " --registry gs://bucket/m/",
        ),
        (
            "gs://data/osie",
            "default",
            "vertex://p/l?staging=gs://bucket/m",
            "",
            " --registry 'vertex://p/l?staging=gs://bucket/m'",
        ),
    ],
)
def test_run_ends_with_what_to_do_next(source, alias, registry, try_it, listed, tmp_path):
    said = source == "sample"
    ended = Run(tmp_path / "run", "sample", {"registry": registry}, finished=True)
    attempt = ended.folder / "msinet-2026"
    evaluation = evaluation_of({}, datasets={}, model_configs={"candidate": {"source": source}})
    evaluation.write(attempt / "evaluate-model" / "evaluation")
    outputs = {"parameterValues": {"version": 7, "alias": alias}}
    files.write_json(attempt / "upload-model" / "executor_output.json", outputs)
    ended.save()
    console = Console(file=io.StringIO(), width=160)
    assert execute_run(ended, console) == 0
    lines = printed(console).splitlines()
    assert [line for line in lines if line.startswith("Try it:")] == ([f"Try it:     {try_it}"] if try_it else [])
    assert f"All models: python -m pipeline registry list{listed}" in lines
    assert (f"Next:       {NEXT}" in lines) is said
    assert (Provenance({"source": "sample"}).notice("The candidate") in lines) is said


@pytest.mark.parametrize("failed", [{}, {"Fine-tuning": "out of memory"}])
def test_end_is_told_posted_and_kept_for_the_summary(failed, hook, model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    record = {"metrics": {}, "reason": "It is the first.", "promote": True, "lineage": {"run": "msinet-2026"}}
    record |= {"decision": 7}
    LocalRegistry(tmp_path / "models").add("msinet", model, record, True, 0)
    ended = Run(tmp_path / "runs" / "mine", "sample", {"registry": str(tmp_path / "models")}, finished=not failed)
    outputs = {"parameterValues": {"version": 1, "alias": "default"}}
    files.write_json(ended.folder / "msinet-2026" / "upload-model" / "executor_output.json", outputs)
    ended.save()
    monkeypatch.setenv("MSINET_WEBHOOK", hook.address)
    hook.statuses = [500, 403]  # which is no reason to fail
    console = Console(file=io.StringIO(), width=160)
    tell_end(ended, failed, console)
    result = "msinet: failed at Fine-tuning" if failed else "msinet@1: promoted"
    text = printed(console)
    assert (f"Message:    {result}. It is the first." in text) is not bool(failed)
    assert "403" in text
    assert hook.address.strip() not in text
    assert hook.received[0][1]["text"].startswith(f"{result}. ")
    assert main(["runs", "--summary", "--env", "local"]) == 0
    _, line, *why = capsys.readouterr().out.splitlines()
    assert line.split(maxsplit=3)[2:] == ["mine", result]
    told = [] if failed else ["Decided: Decision 7 of its year."]
    assert [each.strip() for each in why] == told
    for run in ([], ["mine"]):
        assert main(["runs", "show", *run, "--env", "local"]) == 0
        assert capsys.readouterr().out.splitlines()[2:] == [f"Result:  {result}", *told]
    with refused(NotFoundError, "run", "yours"):
        main(["runs", "show", "yours", "--env", "local"])
