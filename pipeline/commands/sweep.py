"""\
Search for the settings of a training with the lowest validation loss.

A TOML file says what is searched (docs/sweep.md): [search] has a list of values or a range for any setting of a
training on which that loss depends, and [parameters] what all trials share. The environment says where the trials
run: one after another on this machine, or as a tuning job on Vertex AI. Data is fetched once.

The same command goes on with a sweep that was interrupted: finished trials are not repeated, and the interrupted
one resumes from its last checkpoint. On this machine, more --trials go on with a sweep that has ended.
"""

import argparse
import math
import pathlib
from collections.abc import Sequence

from pipeline.commands.parameter_flags import add_environment, confirmed
from pipeline.graph import load_environment
from trainer.errors import MismatchError, SettingError, check
from trainer.settings import Parser

HELP = "search for the best settings of a training"
FOLDER = pathlib.Path("sweeps")


def configure(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="TOML file of the sweep, such as configs/sweeps/finetune.toml"
    )
    add_environment(parser, default="local")
    parser.add_argument("--trials", type=int, default=20, help="number of trials (default: %(default)s)")
    parser.add_argument(
        "--hours",
        type=float,
        default=0.0,
        help="start no trial after this many hours, which each call on this machine counts anew. 0 for no limit",
    )
    parser.add_argument(
        "--parallel", type=int, default=1, help="on Vertex AI: trials at the same time (default: %(default)s)"
    )
    parser.add_argument(
        "--sweep-dir",
        default="",
        metavar="DIR",
        help=f"folder of the sweep. If empty {FOLDER}/FILE, or on Vertex AI {FOLDER}/FILE-ENV",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and start nothing")
    parser.add_argument("--yes", action="store_true", help="on Vertex AI: start the jobs without asking")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from pipeline.local import locked_run
    from pipeline.sweep import StartedSweep, describe_here, describe_on_vertex, read_sweep, run_here

    check(parsed.trials >= 1, f"trials is {parsed.trials}. It must be at least 1", SettingError)
    check(
        0 <= parsed.hours < math.inf, f"hours is {parsed.hours:g}. It must be at least 0, and finite", SettingError
    )
    check(parsed.parallel >= 1, f"parallel is {parsed.parallel}. It must be at least 1", SettingError)
    path = pathlib.Path(parsed.file)
    sweep = read_sweep(path, load_environment(parsed.env), parsed.env)
    name = path.stem if sweep.environment.target == "local" else f"{path.stem}-{sweep.environment.name}"
    folder = pathlib.Path(parsed.sweep_dir or FOLDER / name)
    parsed.trials = int(min(parsed.trials, sweep.size))
    if sweep.environment.target == "local":
        check(
            parsed.parallel == 1,
            "--parallel is for Vertex AI. On one machine, trials would share its devices",
            SettingError,
        )
        print("\n".join(describe_here(sweep, folder, parsed.trials, parsed.hours)), flush=True)
        if parsed.dry_run:
            print("Nothing was started.")
            return 0
        return run_here(sweep, folder, parsed.trials, parsed.hours)
    offer = describe_on_vertex(sweep, parsed.trials, parsed.parallel, parsed.hours)
    if parsed.dry_run:
        started = StartedSweep.load(folder, sweep)
        lines = started.jobs(sweep) if started else [*offer, "Nothing was started."]
        print("\n".join(lines))
        return 0
    with locked_run(folder, "sweep"):
        started = StartedSweep.load(folder, sweep)
        if started is None:
            if not confirmed("\n".join(offer), parsed.yes, "Nothing was started."):
                return 0
            started = StartedSweep.start(sweep, folder, parsed.trials, parsed.parallel, parsed.hours)
        for name in ("trials", "parallel", "hours"):
            given, kept = getattr(parsed, name), getattr(started, name)
            check(
                given == kept,
                f"--{name} is {given:g}, but this sweep was started with {kept:g}, which cannot change. Give "
                f"--{name} {kept:g}, or start another with --sweep-dir",
                MismatchError,
            )
        return started.follow(sweep, folder)
