"""The trainer's command line: one subcommand for each thing it does."""

import argparse
import os
import sys
from collections.abc import Callable

from trainer.config import CACHES, EvaluateConfig, FetchConfig, TrainConfig
from trainer.errors import reported
from trainer.settings_cli import Parser, add_settings, settings


def _fetch(arguments: argparse.Namespace) -> None:
    from trainer.fetch import fetch_dataset
    from trainer.report import write_preview

    fetch_dataset(settings(FetchConfig, arguments), arguments.output_dir)
    if arguments.preview:
        write_preview(arguments.output_dir, arguments.preview)


def _train(arguments: argparse.Namespace) -> None:
    from trainer.report import write_curve
    from trainer.train import train

    config = settings(TrainConfig, arguments)
    checkpoints = arguments.checkpoint_dir or f"{arguments.output_dir.rstrip('/')}.checkpoints"
    train(
        config,
        arguments.dataset_dir,
        arguments.output_dir,
        checkpoints,
        arguments.base_model,
        accelerator=arguments.accelerator,
        logs=arguments.logs_dir,
        cache=arguments.cache,
    )
    if arguments.curve:
        write_curve(arguments.output_dir, arguments.curve)


def _evaluate(arguments: argparse.Namespace) -> None:
    from trainer.artifacts import Manifest
    from trainer.evaluate import evaluate, require_baseline
    from trainer.report import write_report

    folders = {Manifest.load(folder).dataset: folder for folder in arguments.dataset_dir}
    config = settings(EvaluateConfig, arguments)
    evaluation = evaluate(config, arguments.model, folders, arguments.output_dir, arguments.champion)
    if arguments.report:
        write_report(arguments.output_dir, arguments.report)
    require_baseline(evaluation)


def _predict(arguments: argparse.Namespace) -> None:
    from trainer.predict import predict

    predict(arguments.model, arguments.images, arguments.output_dir)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m trainer", description="Prepare data, train MSI-Net, evaluate it, use it.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

    def command(name: str, run: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=help)
        added.set_defaults(run=run)
        return added

    fetch = command("fetch", _fetch, "Fetch a data set, check it, and write it as shards of the network's size.")
    add_settings(fetch, FetchConfig)
    fetch.add_argument("--output-dir", required=True, metavar="DIR", help="Folder of the prepared data set.")
    fetch.add_argument("--preview", metavar="HTML", help="Page with a grid of stimuli and their maps to write.")

    train = command("train", _train, "Train on a prepared data set; the same command again goes on where it was.")
    train.add_argument("--dataset-dir", required=True, metavar="DIR", help="What `fetch` wrote.")
    train.add_argument("--output-dir", required=True, metavar="DIR", help="Folder of the model to write.")
    train.add_argument(
        "--checkpoint-dir", metavar="DIR", help="Folder for the run's state (default: beside the model)."
    )
    train.add_argument("--base-model", metavar="DIR", help="Model to start from, in place of initial weights.")
    train.add_argument(
        "--accelerator", default="", metavar="NAME", help="What to train on, such as l4-2 (default: what is here)."
    )
    train.add_argument(
        "--cache", default="auto", choices=CACHES, help="Where to keep the decoded images (default: %(default)s)."
    )
    train.add_argument(
        "--logs-dir", default="", metavar="DIR", help="Folder for TensorBoard (default: AIP_TENSORBOARD_LOG_DIR)."
    )
    train.add_argument("--curve", metavar="HTML", help="Page with the curve of the losses to write.")
    add_settings(train, TrainConfig)

    evaluate = command("evaluate", _evaluate, "Evaluate a model with seven metrics against its baselines.")
    evaluate.add_argument("--model", required=True, metavar="DIR", help="Folder of the model.")
    evaluate.add_argument(
        "--dataset-dir", required=True, action="append", metavar="DIR", help="What `fetch` wrote; may be repeated."
    )
    evaluate.add_argument("--champion", metavar="DIR", help="Folder of the present default model.")
    evaluate.add_argument("--output-dir", required=True, metavar="DIR", help="Folder of the evaluation to write.")
    evaluate.add_argument("--report", metavar="HTML", help="Page with the results to write.")
    add_settings(evaluate, EvaluateConfig)

    predict = command("predict", _predict, "Write the saliency map of each image as a PNG of the image's size.")
    predict.add_argument("images", nargs="+", metavar="IMAGE")
    predict.add_argument("--model", required=True, metavar="DIR", help="Model folder, or a registered version's.")
    predict.add_argument("--output-dir", required=True, metavar="DIR", help="Folder of the maps.")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run the command line `arguments` (those of the process without them)."""
    parsed = _parser().parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with reported():
        parsed.run(parsed)


if __name__ == "__main__":
    main(sys.argv[1:])
