"""\
Run the pipeline on this machine.

Without --env, the environment is `sample` (a small synthetic dataset, minutes on two cores). If you name a
dataset for a training step, or a source other than `sample`, it is `local` (the paper's settings). There, without
a source or with an empty one, such as base_source=, a dataset is downloaded from its public source. Parameters
that you pass override the environment, and the environment overrides the defaults below. A recipe that you pass
overrides each of its settings there. Write a parameter as --base-epochs 3 or base_epochs=3.

The run's folder contains the log, the report and all outputs, except data that another run in the same folder has
already fetched. That data stays in the other run, so keep it as long as you compare on its data. --resume resumes
a run that was killed or failed: it does not fetch unchanged data again, and training continues from its last
checkpoint.
"""

import argparse
from collections.abc import Sequence

from pipeline.commands.parameter_flags import add_environment, add_parameters, passed_parameters
from trainer.settings import Parser

HELP = "run the pipeline on this machine"


def configure(parser: Parser) -> None:
    add_environment(parser, default="")
    parser.add_argument("--run-dir", default="", help="folder of the run. If empty, runs/TIME")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="latest",
        default="",
        help="folder of a run to resume. The latest run if empty",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and start nothing")
    add_parameters(parser)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from rich.console import Console

    from pipeline.local import describe_run, execute_run, prepare_run

    passed = passed_parameters(parsed, assignments)
    run = prepare_run(parsed.env, parsed.run_dir, parsed.resume, passed)
    if parsed.dry_run:
        print("\n".join([*describe_run(run), "Nothing was started."]))
        return 0
    return execute_run(run, Console())
