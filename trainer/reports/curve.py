"""The page of a training run: its loss curve, its epochs and its settings."""

import os
import pathlib

import numpy as np

from trainer import artifacts, files, generated
from trainer.errors import check, format_duration, now
from trainer.reports import pages

REMEDY = "train the model again"


def write_curve(model: str | os.PathLike[str], html: str | os.PathLike[str]) -> None:
    """Write the page of a model folder's training history; `UserError` if it has none."""
    path = pathlib.Path(model, artifacts.HISTORY)
    lines = path.read_bytes().splitlines() if path.is_file() else []
    check(bool(lines), f"{path} has no epoch; name the folder of a trained model")
    history = [files.parse_json(line, str(path), REMEDY, artifacts.Epoch) for line in lines]
    config = pathlib.Path(model, artifacts.MODEL_CONFIG)
    settings = files.read_json(config, REMEDY, artifacts.ModelConfig) if config.exists() else {}
    best = max((i for i, row in enumerate(history) if row["best"]), default=len(history) - 1)
    valid = [row["valid_loss"] for row in history]
    on = f"Training on {settings['dataset']}" if settings.get("dataset") else "Training"
    data = f"{pages.counts(settings['counts'])} images" if settings.get("counts") else ""
    head = (("Model", generated.origin(settings)), ("Data", data), ("Date", now()))
    pages.write(
        html,
        "curve.html.jinja",
        title=f"{on}: {len(history)} epoch{'' if len(history) == 1 else 's'}",
        head=[(name, fact) for name, fact in head if fact]
        + pages.code_facts(str(settings.get("code_version", ""))),
        notices=list(filter(None, [generated.of_model(settings)])),
        tiles=[
            ("Best validation loss", f"{valid[best]:.4f}", f"epoch {history[best]['epoch']}"),
            ("Steps", f"{sum(row['steps'] for row in history):,}", ""),
            ("Time", format_duration(sum(row["seconds"] for row in history)), "validation included"),
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
