"""Reports validation losses to a search for settings, where a training is one of its trials.

The file and its lines are as in Google's package cloudml-hypertune (hypertune/hypertune.py in
GoogleCloudPlatform/cloudml-hypertune). Vertex AI reads them in the trials of a HyperparameterTuningJob. A
search on this machine (`python -m pipeline sweep`) reads the same file.
"""

import json
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

LOSSES_FILE = "CLOUD_ML_HP_METRIC_FILE"
"""This variable names the file. In a trial without it, the file is DEFAULT_FILE."""
DEFAULT_FILE = "/tmp/hypertune/output.metrics"  # noqa: S108
TRIAL = "CLOUD_ML_TRIAL_ID"
"""Vertex AI sets this variable in trials, to their number (community-content/vertex_model_garden/model_oss/util/
hypertune_utils.py in GoogleCloudPlatform/vertex-ai-samples)."""
TUNED_METRIC = "valid_loss"
"""Name of what is minimized."""
MOST_LINES = 100


def report(history: Sequence[Mapping[str, Any]]) -> None:
    """Write the validation loss of each epoch of a `Progress.history`, if this training is a trial.

    Each call writes the whole file, in place as that package does, for the last MOST_LINES epochs. A line is
    one JSON object. Its values are texts but for the time. A search judges the best epoch. If that lies
    before these epochs, it takes the place of the first.
    """
    if not {LOSSES_FILE, TRIAL} & os.environ.keys():
        return
    last = history[-MOST_LINES:]
    best = min(history, key=lambda row: float(row["valid_loss"]))
    path = pathlib.Path(os.environ.get(LOSSES_FILE, DEFAULT_FILE))
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "timestamp": time.time(),
            "trial": os.environ.get(TRIAL, "0"),
            TUNED_METRIC: str(float(row["valid_loss"])),
            "global_step": str(row["epoch"]),
        }
        for row in (last if best in last else [best, *last[1:]])
    ]
    path.write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))


def read_losses(path: pathlib.Path) -> dict[int, float]:
    """The validation losses in a file of `report`, by epoch from 1. Empty if it does not exist yet.

    A line that is being written is left out. Example: `{1: 0.91, 2: 0.84}`.
    """
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text().rpartition("\n")[0].splitlines())
    return {int(line["global_step"]): float(line[TUNED_METRIC]) for line in lines}
