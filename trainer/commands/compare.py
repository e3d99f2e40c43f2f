"""Compare models on the same images: which one is better, and is the difference significant?

  python -m trainer compare runs/20260101-120000 runs/20260102-120000
  python -m trainer compare msinet@1 msinet@2 --html comparison.html
  python -m trainer compare models/msinet/1 another/model --dataset-dir data
  python -m trainer compare model --dataset-dir data

MODEL is a run of the pipeline, the folder of an evaluation, a registered version (msinet@3, msinet@challenger,
models/msinet/2), a model folder, pretrained, or author:salicon (see `import-weights`). All models are compared
with the first one. One model alone is compared with the default: msinet if it was trained on real data, else
pretrained. A model that was evaluated has stored scores. A model folder has none, so it needs --dataset-dir, which
evaluates all models again.
"""

import argparse
import dataclasses
import sys
from typing import Any

from trainer.errors import SettingError, check
from trainer.machine import announce
from trainer.metrics import LEAD, METRICS
from trainer.settings import output_file, summarize

HELP = "compare models, and test which one is significantly better"


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "models",
        nargs="+",
        metavar="MODEL",
        help="Two or more models. All are compared with the first. One is compared with the default model.",
    )
    add(
        "--dataset-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="Output folder of `fetch`. Evaluate all models on it. May be repeated.",
    )
    add("--metric", default="", help=f"Metric of the verdict: {', '.join(METRICS)} (default: {LEAD}).")
    add(
        "--confidence",
        type=float,
        default=0.95,
        metavar="FLOAT",
        help="Level of the confidence intervals (default: %(default)s).",
    )
    add(
        "--html",
        type=output_file,
        metavar="FILE",
        help="Write a page with the images on which the models differ most.",
    )
    add("--json", type=output_file, metavar="FILE", help="Write the comparison as JSON. - is the standard output.")


def execute(parsed: argparse.Namespace) -> None:
    level = parsed.confidence
    check(0 < level < 1, f"--confidence is {level:g}. It must be between 0 and 1, such as 0.95", SettingError)
    summarize(parsed.json, lambda: _compare(parsed))


def _compare(parsed: argparse.Namespace) -> dict[str, Any]:
    from rich.console import Console

    from trainer.data import PreparedData
    from trainer.evaluation import Comparison
    from trainer.models import find_opponent
    from trainer.reports import print_comparison

    models = parsed.models
    if len(models) == 1 and (opponent := find_opponent(models[0])):
        print(f"model: {models[0]} is compared with {opponent}", file=sys.stderr, flush=True)
        models = [opponent.name, *models]
    datasets = PreparedData.by_name(parsed.dataset_dir)
    comparison = Comparison.of(models, datasets, parsed.metric, parsed.confidence)
    if parsed.html:
        announce(f"drawing {parsed.html}")
        from trainer.reports import write_comparison

        write_comparison(comparison, parsed.html)
    print_comparison(comparison, Console())
    for contestant in comparison.contestants:
        if contestant.notice:
            print(contestant.notice)
    if parsed.html:
        print(f"Report: {parsed.html}")
    return {
        "confidence": parsed.confidence,
        "models": {each.label: {"named": each.name, **each.facts} for each in comparison.contestants},
        "datasets": {name: dataclasses.asdict(result) for name, result in comparison.results.items()},
    }
