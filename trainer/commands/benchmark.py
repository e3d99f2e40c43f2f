"""\
Measure how fast this machine trains: images per second, memory, and when the first step has ended.

It trains for some steps by the loop of `train`, on images that it makes, and writes nothing. `python -m pipeline
benchmark` runs this here or on accelerators of Vertex AI, and keeps what it measured.
"""

import argparse
import json

from trainer.data import parse_image_size
from trainer.errors import SettingError, check
from trainer.settings import Parser, add_settings, settings_of
from trainer.training import Accelerator, TrainConfig

HELP = "measure how fast this machine trains"
SETTINGS = ("batch_size", "accumulation", "precision")
RESULT = "benchmark result: "
"""Begins the line of the result, which is JSON. In a log, other lines are around it."""


def configure(parser: Parser) -> None:
    parser.add_argument(
        "--image-size", default="240x320", help="Height and width of the images in pixels (default: %(default)s)."
    )
    parser.add_argument(
        "--steps", type=int, default=100, help="Steps to measure, after one that compiles (default: %(default)s)."
    )
    parser.add_argument(
        "--accelerator",
        default="",
        metavar="NAME",
        help="Accelerator, such as l4-2 (default: all GPUs, or the CPU).",
    )
    add_settings(parser, TrainConfig, SETTINGS)


def execute(parsed: argparse.Namespace) -> None:
    from trainer.machine import load_tensorflow
    from trainer.training import watch_training

    config, image_size = settings_of(TrainConfig, parsed), parse_image_size(parsed.image_size)
    check(parsed.steps >= 1, f"steps is {parsed.steps}. It must be at least 1", SettingError)
    if parsed.accelerator:
        Accelerator.named(parsed.accelerator)
    watch_training()
    load_tensorflow()
    from trainer.training import measure_speed

    result = measure_speed(config, image_size, parsed.steps, parsed.accelerator)
    print(f"{RESULT}{json.dumps(result)}", flush=True)
