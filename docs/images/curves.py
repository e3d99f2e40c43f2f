"""Draw docs/images/curves.png: the validation loss after each epoch of the trainings in docs/results.md.

    python docs/images/curves.py results          # the folder of these trainings; seconds

It contains base_RATE and finetune_RATE, the folders of the trained models.
"""

import json
import pathlib
import sys

from matplotlib.figure import Figure

from trainer import artifacts
from trainer.reports import charts

PANELS = {"base": "Base training, mouse tracking", "finetune": "Fine-tuning, eye tracking"}
COLORS = {"3e-6": charts.GREY, "1e-5": charts.BLUE, "3e-5": charts.ORANGE}
OUTPUT = pathlib.Path(__file__).with_name("curves.png")


def main(results: str) -> None:
    """Write the image."""
    figure = Figure(figsize=(9, 3.4), dpi=150, layout="constrained")
    for axes, (step, title) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        for rate, color in COLORS.items():
            history = pathlib.Path(results, f"{step}_{rate}", artifacts.HISTORY)
            if not history.exists():
                continue
            rows = [json.loads(line) for line in history.read_text().splitlines()]
            losses = [row["valid_loss"] for row in rows]
            axes.plot([row["epoch"] for row in rows], losses, "o-", color=color, markersize=4, label=rate)
            best = min(rows, key=lambda row: row["valid_loss"])
            (ring,) = axes.plot(best["epoch"], best["valid_loss"], "o", color=color, markersize=11)
            ring.set(markerfacecolor="none", markeredgewidth=1.6)
        axes.set(title=title, xlabel="epoch", ylabel="validation loss (KLD)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dfe3e8", linewidth=0.8)
        axes.legend(title="learning rate", frameon=False)
    figure.savefig(OUTPUT)


if __name__ == "__main__":
    main(*sys.argv[1:])
