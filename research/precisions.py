"""What bfloat16 changes in predictions: all metrics in pairs with float32, and how far the peaks move.

    python -m trainer fetch ... --output-dir sets/SET
    python -m research.precisions sets/* --model pretrained

Takes a second an image and set, on a CPU that multiplies bfloat16; on another, it emulates nothing and fails.
"""

import argparse
import pathlib

import numpy as np

from trainer.data.prepared_data import Manifest
from trainer.errors import reported
from trainer.machine.runtime import load_tensorflow
from trainer.metrics.metric_table import METRICS
from trainer.models.find import choose_model


def main() -> None:
    """Print a table of the gains of bfloat16 over float32, in Markdown, and the distances of the peaks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=pathlib.Path, help="Prepared data, named by its folder.")
    parser.add_argument("--model", default="pretrained")
    parsed = parser.parse_args()
    load_tensorflow()
    from trainer.evaluation.confidence import gain
    from trainer.evaluation.scoring import Scorer
    from trainer.prediction.predictor import Predictor
    from trainer.prediction.regions import peak_of

    folder = choose_model(parsed.model).announced().folder
    predictors = {precision: Predictor(folder, precision) for precision in ("float32", "bfloat16")}
    print(*(each.runtime for each in predictors.values()), sep="\n")
    print(f"| bfloat16 over float32 | images | {' | '.join(row.label for row in METRICS.values())} |")
    print("|---" * (len(METRICS) + 2) + "|")
    for path in parsed.sets:
        manifest, moved = Manifest.load(path), []

        def compare(example, name, predictions, background, moved=moved) -> None:
            before, after = (np.array(peak_of(predictions[each])) for each in predictors)
            moved.append(np.abs(after - before).max() / max(predictions["float32"].shape))

        table = Scorer(path, manifest, predictors, each=compare).score(path.name)
        cells = []
        for metric, row in METRICS.items():
            if metric not in table.scores["float32"]:  # it needs fixations, and the set has maps alone
                cells.append("")
                continue
            of = gain(table.values("bfloat16", metric), table.values("float32", metric), row.higher_is_better)
            cells.append(f"{of.mean:+.5f} ({of.low:+.5f} to {of.high:+.5f})")
        print(f"| {path.name} | {len(table.images)} | {' | '.join(cells)} |", flush=True)
        share, most = np.mean(np.array(moved) > 0), max(moved)
        print(f"peaks of {path.name}: {share:.0%} move, by {most:.2%} of the longer side at most")


if __name__ == "__main__":
    with reported():
        main()
