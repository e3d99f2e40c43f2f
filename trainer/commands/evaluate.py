"""Evaluate a model in all metrics, compared with baselines."""

import argparse

from trainer.config import EvaluateConfig
from trainer.settings_cli import MODEL, add_settings, output_dir, output_file, settings

HELP = "evaluate a model, compared with baselines"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, metavar="DIR", help=f"{MODEL}.")
    parser.add_argument(
        "--dataset-dir",
        required=True,
        action="append",
        metavar="DIR",
        help="Output folder of `fetch`. May be repeated; the first dataset decides.",
    )
    parser.add_argument("--champion", metavar="DIR", help="The current default model, as --model.")
    parser.add_argument(
        "--output-dir", type=output_dir, required=True, metavar="DIR", help="Folder to write the evaluation to."
    )
    parser.add_argument("--report", type=output_file, metavar="HTML", help="Write a page with the results.")
    add_settings(parser, EvaluateConfig)


def execute(parsed: argparse.Namespace) -> None:
    from rich.console import Console

    from trainer.artifacts import prepared_by_name
    from trainer.evaluation.evaluate import evaluate
    from trainer.evaluation.gate import require_baseline
    from trainer.models.find import find_model
    from trainer.reports.report import write_report
    from trainer.reports.terminal import print_evaluation

    folders = prepared_by_name(parsed.dataset_dir)
    config = settings(EvaluateConfig, parsed)
    model, champion = find_model(parsed.model), parsed.champion and find_model(parsed.champion)
    evaluation = evaluate(config, model, folders, parsed.output_dir, champion)
    if parsed.report:
        write_report(parsed.output_dir, parsed.report)
    print_evaluation(evaluation, Console())
    require_baseline(evaluation)
    print("This command registers nothing; the pipeline does. Use --champion to compare with a default model.")
