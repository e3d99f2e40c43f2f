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
import pathlib
from collections.abc import Sequence

from lifecycle.machines import BatchMachines, PredictionPlan
from pipeline.commands.parameter_flags import add_environment
from pipeline.commands.shard_tasks import check_place, start_tasks
from pipeline.graph import load_environment
from trainer.batch import BatchConfig
from trainer.commands.shared_flags import add_model, add_region
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
        from pipeline.graph import Prediction, write_prediction
        from trainer.prediction import parse_regions

        environment = load_environment(parsed.env)
        asked = Prediction(parsed.source, parsed.output, parsed.model, parsed.region, predict, config, machines)
        parse_regions(parsed.region)
        for name in ("source", "output"):
            check_place(environment, name.upper(), getattr(parsed, name))
        return start_tasks(
            environment, machines, lambda path: write_prediction(environment, asked, path), parsed.write
        )
    job = plan_job(parsed.source, parsed.output, parsed.model, predict, parsed.region, config)
    for shard in range(job.shards):
        predict_shard(parsed.output, shard, config, parsed.processes)
    print(f"{collect_job(parsed.output)}. The table is in {parsed.output}/table")
    return 0
