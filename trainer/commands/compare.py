"""Compare models on the same images: which is better, and whether that is certain.

  python -m trainer compare runs/20260101-120000 runs/20260102-120000
  python -m trainer compare msinet@1 msinet@2 --html comparison.html
  python -m trainer compare models/msinet/1 another/model --dataset-dir data

MODEL is a run of the pipeline, the folder of an evaluation, a registered version (msinet@3, msinet@challenger,
models/msinet/2) or a model folder. Those that were evaluated bring the scores of each image along; a model folder
needs --dataset-dir, with which all are evaluated afresh. The first is what the others are compared with.
"""

import argparse
import contextlib
import json
import pathlib
import sys
from typing import Any

from trainer.config import HIGHER_IS_BETTER, MAX_CONFIDENCE
from trainer.errors import check
from trainer.settings_cli import STDOUT, output_file

HELP = "compare models, and say how certain it is which is better"


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="Two or more; the others are compared with the first.")
    add(
        "--dataset-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="What `fetch` wrote: evaluate all models on it; may be repeated.",
    )
    add("--metric", default="", help=f"Metric of the verdict: {', '.join(HIGHER_IS_BETTER)} (default: kld).")
    add("--confidence", type=float, default=0.95, metavar="FLOAT", help="Of the intervals (default: %(default)s).")
    add(
        "--html",
        type=output_file,
        metavar="FILE",
        help="Page to write, with the images on which the models differ most.",
    )
    add("--json", type=output_file, metavar="FILE", help="The comparison for a machine; - is the standard output.")


def execute(parsed: argparse.Namespace) -> None:
    level = parsed.confidence
    check(
        0 < level <= MAX_CONFIDENCE,
        f"--confidence is {level:g}; it must be above 0 and at most {MAX_CONFIDENCE}, such as 0.95",
    )
    # What is said meanwhile must not get into the JSON.
    with contextlib.redirect_stdout(sys.stderr) if parsed.json == STDOUT else contextlib.nullcontext():
        answer = _compare(parsed)
    if parsed.json == STDOUT:
        print(json.dumps(answer, indent=2))
    elif parsed.json:
        from trainer.files import write_json

        write_json(pathlib.Path(parsed.json), answer)


def _compare(parsed: argparse.Namespace) -> dict[str, Any]:
    from rich.console import Console

    from trainer.artifacts import prepared_by_name
    from trainer.evaluation.compare import as_json, compare
    from trainer.evaluation.contestants import find_contestants
    from trainer.evaluation.shared_scores import Networks, evaluate_afresh, find_shared
    from trainer.reports.compare_page import write_comparison
    from trainer.reports.terminal import print_comparison

    contestants = find_contestants(parsed.models)
    networks = Networks(contestants)
    if parsed.dataset_dir:
        found = evaluate_afresh(contestants, networks, prepared_by_name(parsed.dataset_dir))
    else:
        found = find_shared(contestants)
    results = {name: compare(name, each, parsed.metric, parsed.confidence) for name, each in found.items()}
    if parsed.html:
        write_comparison(contestants, networks, found, results, parsed.confidence, parsed.html)
    print_comparison(results, parsed.confidence, Console())
    if parsed.html:
        print(f"with pictures: {parsed.html}")
    places = {each.label: {"named": each.given, **each.facts} for each in contestants}
    return as_json(results, places, parsed.confidence)
