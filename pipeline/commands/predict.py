"""\
Predict the maps of any number of images: in processes here, or as tasks of Vertex AI or Kubeflow.

SOURCE is a folder, a gs:// folder, an archive, or a .txt file with an address in each line. OUTPUT is a folder or
gs://. A Parquet table in it has a row for each image: its size, its kind, where its peak is, how the attention is
spread, and the shares of the regions. With --format, it gets the maps too, named after the paths of the images:
the map of a/x.jpg is png/a/x.jpg.png. Images that cannot be read are in unread.csv with the reason.

The listing is cut into shards by bytes. A command that was killed at any moment goes on when it is started again.
With --env, each shard is a task there. --dry-run lists the images alone, and says how long which machines take,
and what they cost.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from lifecycle.machines import BatchMachines, PredictionPlan
from pipeline.commands.parameter_flags import add_environment
from pipeline.graph import Environment, load_environment
from trainer.batch import BatchConfig
from trainer.commands.shared_flags import add_model, add_region
from trainer.errors import SettingError, check
from trainer.places import stored_at
from trainer.prediction import PredictConfig
from trainer.settings import Parser, add_settings, settings_of

HELP = "predict the maps of any number of images"


def configure(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="folder, gs:// folder, archive, or .txt of addresses")
    parser.add_argument("output", metavar="OUTPUT", help="folder of the results, or gs://")
    add_environment(parser, default="")
    parser.add_argument("--dry-run", action="store_true", help="say what it takes, and predict nothing")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="with --env: write the pipeline alone")
    add_model(parser)
    add_region(parser)
    parser.add_argument("--processes", type=int, default=0, help="processes here. One for four processors if 0")
    add_settings(parser, PredictConfig)
    add_settings(parser, BatchConfig)
    add_settings(parser, BatchMachines)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from trainer.batch import collect_job, measure_source, plan_job, predict_shard

    predict, config = settings_of(PredictConfig, parsed), settings_of(BatchConfig, parsed)
    machines = settings_of(BatchMachines, parsed)
    if parsed.dry_run:
        plan = PredictionPlan.of(measure_source(parsed.source), machines, config)
        print(f"{plan.sizes.images:,} images, {plan.sizes.bytes / 1e9:,.3g} GB")
        print("\n".join(plan.table()))
        print("Times and prices are estimates (python -m pipeline plan says from what). Nothing was started.")
        return 0
    if parsed.env:
        environment = load_environment(parsed.env)
        return _start(environment, parsed, predict, config, machines)
    job = plan_job(parsed.source, parsed.output, parsed.model, predict, parsed.region, config)
    for shard in range(job.shards):
        predict_shard(parsed.output, shard, config, parsed.processes)
    print(f"{collect_job(parsed.output)}. The table is in {parsed.output}/table")
    return 0


def _start(
    environment: Environment,
    parsed: argparse.Namespace,
    predict: PredictConfig,
    config: BatchConfig,
    machines: BatchMachines,
) -> int:
    """Start the tasks in an environment, or write their pipeline."""
    from pipeline.graph import Prediction, write_prediction
    from pipeline.vertex import SentRun, Submission
    from trainer.prediction import parse_regions

    asked = Prediction(parsed.source, parsed.output, parsed.model, parsed.region, predict, config, machines)
    parse_regions(asked.regions)
    for name, address in (("SOURCE", asked.source), ("OUTPUT", asked.output)):
        _check_place(environment, name, address)
    if parsed.write:
        write_prediction(environment, asked, parsed.write)
        print(f"wrote {parsed.write}")
        return 0
    check(
        environment.target == "vertex",
        f"environment {environment.name} is for target {environment.target}, and only on vertex tasks are started "
        "from here. Write the pipeline with --write FILE, and upload it to Kubeflow",
        SettingError,
    )
    asked.machines.row.check_in(environment.location)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "predict.yaml")
        write_prediction(environment, asked, path)
        # The environment's parameters are those of a training.
        submission = Submission.prepare(dataclasses.replace(environment, parameters={}), {}, str(path))
    print(f"Checking bucket {environment.bucket} ...", file=sys.stderr, flush=True)
    submission.check_needs()
    submission.send()
    print(f"Run:     {submission.run}")
    print(f"Console: {SentRun(environment, submission.run).link}")
    return 0


def _check_place(environment: Environment, name: str, address: str) -> None:
    """Raise `SettingError` unless the tasks of an environment can have this place. `name` says which it is."""
    mount = environment.bucket if environment.volume_claim else ""
    below = f" or a path below {mount}, where they have the volume" if mount else ""
    is_there = bool(mount) and pathlib.PurePath(address).is_relative_to(mount)
    check(
        not stored_at(address).is_local or is_there,
        f"{name} is {address}, a place of this machine, which tasks of {environment.name} cannot have. "
        f"Give gs://{below}",
        SettingError,
    )
