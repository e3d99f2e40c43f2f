"""Evaluate a model in all metrics, compared with baselines."""

import argparse

from trainer.commands.shared_flags import add_model
from trainer.data import FetchConfig, HeldOutConfig
from trainer.errors import SettingError, check
from trainer.evaluation import EvaluateConfig
from trainer.io import temporary_folder_beside
from trainer.machine import announce
from trainer.settings import Parser, add_settings, output_dir, output_file, settings_of

HELP = "evaluate a model, compared with baselines"


def configure(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument(
        "--dataset-dir",
        required=True,
        action="append",
        metavar="DIR",
        help="Output folder of `fetch`. May be repeated. The first one decides, unless gate_on is test.",
    )
    parser.add_argument("--champion", metavar="DIR", help="The current default model, as --model.")
    parser.add_argument(
        "--output-dir", type=output_dir, required=True, metavar="DIR", help="Folder to write the evaluation to."
    )
    parser.add_argument(
        "--report",
        type=output_file,
        metavar="HTML",
        help="Write a page with the results. The browser prints it as a PDF.",
    )
    add_settings(parser, EvaluateConfig)
    add_settings(parser, HeldOutConfig)
    add_settings(
        parser, FetchConfig, ("allow_partial_data", "private_sources", "test_share", *FetchConfig.OF_RECORDINGS)
    )


def execute(parsed: argparse.Namespace) -> None:
    from trainer.models import choose_model, find_model

    config, held_out = settings_of(EvaluateConfig, parsed), settings_of(HeldOutConfig, parsed)
    test_share = settings_of(FetchConfig, parsed).test_share
    check(
        bool(held_out.test_dataset or not test_share),
        f"test_share is {test_share:g}, but test_dataset is empty: name the dataset that it is a share of",
        SettingError,
    )
    model, champion = (
        choose_model(parsed.model).announced().folder,
        parsed.champion and find_model(parsed.champion),
    )

    # After what a mistake in a name ends: these load SciPy and Matplotlib.
    from rich.console import Console

    from trainer.data import PreparedData
    from trainer.evaluation import Evaluation, evaluate_models
    from trainer.reports import REGISTERS_NOTHING, print_evaluation

    Evaluation.check_output(parsed.output_dir)
    with temporary_folder_beside(parsed.output_dir) as folder:
        data = parsed.dataset_dir
        if held_out.test_dataset:
            data = [*data, _fetch(held_out, parsed, f"{folder}/prepared")]
        evaluation = evaluate_models(config, model, PreparedData.by_name(data), parsed.output_dir, champion)
    if parsed.report:
        announce(f"drawing {parsed.report}")
        from trainer.reports import write_report

        write_report(parsed.output_dir, parsed.report, registers=False)
    print_evaluation(evaluation, Console(), registers=False)
    if parsed.report:
        print(f"Report: {parsed.report}")
    evaluation.require_baseline()
    print(f"wrote {parsed.output_dir}")
    print(f"{REGISTERS_NOTHING} Use --champion to compare with a default model.")


def _fetch(held_out: HeldOutConfig, parsed: argparse.Namespace, folder: str) -> str:
    """Fetch the test set into `folder`, at the image size of the first dataset. Returns `folder`."""
    from trainer.data import Manifest, fetch_dataset

    trained = Manifest.load(parsed.dataset_dir[0])
    config = settings_of(
        FetchConfig,
        parsed,
        dataset=held_out.test_dataset,
        source=held_out.test_source,
        image_size="x".join(map(str, trained.image_size)),
    )
    FetchConfig.check_recordings([config])
    fetch_dataset(config, folder, test_of=held_out.test_dataset)
    return folder
