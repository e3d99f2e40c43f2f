"""Train on a prepared dataset. Run the same command again to resume an interrupted training."""

import argparse
import dataclasses
import json
import shlex

from trainer.commands.shared_flags import MODEL
from trainer.data import CACHES
from trainer.errors import SettingError, check
from trainer.network import ModelFolder
from trainer.settings import (
    Parser,
    add_settings,
    configs_of,
    flag_of,
    output_dir,
    output_dir_or_address,
    output_file,
    settings_of,
)
from trainer.texts import some
from trainer.training import TrainConfig

HELP = "train on a prepared dataset"


def configure(parser: Parser) -> None:
    parser.add_argument(
        "--dataset-dir", required=True, metavar="DIR", help="Prepared dataset, written by `fetch`."
    )
    parser.add_argument(
        "--output-dir", type=output_dir, required=True, metavar="DIR", help="Folder of the model to write."
    )
    parser.add_argument(
        "--checkpoint-dir",
        type=output_dir_or_address,
        metavar="DIR",
        help="Folder or gs:// address for checkpoints (default: next to the model).",
    )
    parser.add_argument(
        "--base-model",
        metavar="MODEL",
        help=f"Model to fine-tune, instead of initial weights: only with it, a recipe sets its values for "
        f"fine-tuning. {MODEL}.",
    )
    parser.add_argument(
        "--initial-weights-fingerprint",
        default="",
        metavar="DIGEST",
        help="Digest that the file of initial weights must have (default: any).",
    )
    parser.add_argument(
        "--accelerator",
        default="",
        metavar="NAME",
        help="Accelerator, such as l4-2 (default: all GPUs, or the CPU).",
    )
    parser.add_argument(
        "--cache",
        default="auto",
        choices=CACHES,
        help="Where to keep the decoded images: memory, disk (a temporary file), stream (nowhere: the shards are "
        "read in each epoch), or auto, the first of these with room (default: %(default)s).",
    )
    parser.add_argument(
        "--logs-dir",
        type=output_dir_or_address,
        default="",
        metavar="DIR",
        help="Folder or gs:// address for TensorBoard logs (default: $AIP_TENSORBOARD_LOG_DIR if it is set).",
    )
    parser.add_argument(
        "--curve", type=output_file, metavar="HTML", help="HTML page to write, with the learning curve."
    )
    parser.add_argument(
        "--settings",
        type=parse_settings,
        metavar="JSON",
        help="All settings as one JSON object, in place of their flags: the pipeline gives its jobs those that it "
        "has settled.",
    )
    add_settings(parser, TrainConfig)


def parse_settings(text: str) -> TrainConfig:
    """Type of the flag `--settings`, such as `{"batch_size": 1, ...}`. Raises `UserError` unless all are there."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise SettingError(f"--settings is {text}: {error}") from None
    check(isinstance(values, dict), f"--settings is {text}: write a JSON object", SettingError)
    (config,) = configs_of(values, TrainConfig)
    missing = [field.name for field in dataclasses.fields(TrainConfig) if field.name not in values]
    check(not missing, f"--settings has no {some(missing)}: it takes all settings of a training", SettingError)
    assert isinstance(config, TrainConfig)
    return config


def chosen_settings(parsed: argparse.Namespace) -> TrainConfig:
    """The settings of the flags, after their recipe. Or what `--settings` gives, which is settled already.

    Raises `UserError` for both, and for flags that contradict the recipe.
    """
    if not parsed.settings:
        return settings_of(TrainConfig, parsed).with_recipe(bool(parsed.base_model), vars(parsed), named=flag_of)
    typed = [field.name for field in dataclasses.fields(TrainConfig) if field.name in vars(parsed)]
    check(not typed, f"--settings has all settings: leave out {' and '.join(map(flag_of, typed))}", SettingError)
    config: TrainConfig = parsed.settings
    return config


def execute(parsed: argparse.Namespace) -> None:
    from trainer.models import find_model
    from trainer.training import train_checked

    checkpoints = parsed.checkpoint_dir or ModelFolder(parsed.output_dir).checkpoints
    train_checked(
        chosen_settings(parsed),
        parsed.dataset_dir,
        parsed.output_dir,
        checkpoints,
        find_model(parsed.base_model) if parsed.base_model else None,
        accelerator=parsed.accelerator,
        logs=parsed.logs_dir,
        cache=parsed.cache,
        initial_weights_fingerprint=parsed.initial_weights_fingerprint,
    )
    if parsed.curve:
        from trainer.reports import write_curve

        write_curve(parsed.output_dir, parsed.curve)
        print(f"wrote the learning curve to {parsed.curve}")
    print(f"the checkpoints in {checkpoints} are no longer needed: remove them to free the space")
    folders = f"--model {shlex.quote(parsed.output_dir)} --dataset-dir {shlex.quote(parsed.dataset_dir)}"
    print(f"next: python -m trainer evaluate {folders} --output-dir evaluation --report report.html")
