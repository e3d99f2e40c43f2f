"""The page of a training run: its loss curve, its epochs and its settings."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer import artifacts, files, generated
from trainer.errors import check
from trainer.reports import pages
from trainer.text import format_duration, now


def write_curve(model: str | os.PathLike[str], html: str | os.PathLike[str]) -> None:
    """Write the page of a model folder's training history; `UserError` if it has none."""
    folder = pathlib.Path(model)
    history = _read_history(folder / artifacts.HISTORY)
    best = max((i for i, row in enumerate(history) if row["best"]), default=len(history) - 1)
    valid = [row["valid_loss"] for row in history]
    seconds = sum(row["seconds"] for row in history)
    config = folder / artifacts.MODEL_CONFIG
    settings = files.read_json(config, "train the model again", artifacts.ModelConfig) if config.exists() else {}
    pages.write(
        html,
        "curve.html.jinja",
        title=_title(settings.get("dataset", ""), len(history)),
        head=_head(settings),
        notices=list(filter(None, [generated.of_model(settings)])),
        tiles=[
            ("Best validation loss", f"{valid[best]:.4f}", f"epoch {history[best]['epoch']}"),
            ("Steps", f"{sum(row['steps'] for row in history):,}", ""),
            ("Time", format_duration(seconds), "validation included"),
            ("Speed", f"{np.mean([row['images_per_s'] for row in history]):.3g}", "training images per second"),
        ],
        curve=pages.loss_curve([row["epoch"] for row in history], [row["loss"] for row in history], valid, best),
        rows=[
            row
            | {
                "best": i == best,
                "loss": f"{row['loss']:.4f}",
                "valid_loss": f"{row['valid_loss']:.4f}",
                "time": format_duration(row["seconds"]),
                "speed": f"{row['images_per_s']:.3g}",
            }
            for i, row in enumerate(history)
        ],
        legend=[(pages.GREY, "training"), (pages.BLUE, "validation"), (pages.ORANGE, "best epoch")],
        settings=pages.grid(pages.columns({"This training": settings or None})),
    )


def _title(dataset: str, n_epochs: int) -> str:
    on = f"Training on {dataset}" if dataset else "Training"
    return f"{on}: {n_epochs} epoch{'' if n_epochs == 1 else 's'}"


def _head(settings: Mapping[str, Any]) -> pages.Facts:
    """Return the facts that identify a training: its data, the base model, date, version and commit."""
    facts = [("Model", generated.origin(settings)), ("Date", now())]
    if settings.get("counts"):
        facts.insert(1, ("Data", f"{pages.counts(settings['counts'])} images"))
    return [(name, fact) for name, fact in facts if fact] + pages.code_facts(str(settings.get("code_version", "")))


def _read_history(path: pathlib.Path) -> list[dict[str, Any]]:
    lines = path.read_bytes().splitlines() if path.is_file() else []
    check(bool(lines), f"{path} has no epoch; name the folder of a trained model")
    return [files.parse_json(line, str(path), "train the model again", artifacts.Epoch) for line in lines]
