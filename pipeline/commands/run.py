"""\
Run the pipeline on this machine.

Without --env, the environment is `sample` (a small set of patterns, drawn on the spot: minutes on two cores)
unless base_source or finetune_source is given; then it is `local` (the paper's settings). Parameters go before
those of the environment, and those before the defaults below. A parameter is written --base-epochs 3 or
base_epochs=3.

The run's folder has the log, the report and all outputs, but for data that another run beside it has fetched
already: that stays where it is, so keep that run as long as you compare on its data. A run that was killed or
failed goes on with --resume: data whose source did not change is not fetched again, and training continues from
its last checkpoint.
"""

import argparse
from collections.abc import Sequence

from pipeline.commands.flags import add_environment, add_parameters, passed_parameters

HELP = "run it on this machine"


def configure(parser: argparse.ArgumentParser) -> None:
    add_environment(parser, default="")
    parser.add_argument("--run-dir", default="", help="folder of the run; runs/TIME if not given")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="latest",
        default="",
        help="folder of a run to go on with; the latest if empty",
    )
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from rich.console import Console

    from pipeline.local import run
    from pipeline.local.prepare import prepare

    given = passed_parameters(parsed, assignments)
    return run.execute(prepare(parsed.env, parsed.run_dir, parsed.resume, given), Console())
