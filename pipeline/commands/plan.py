"""\
Compare the accelerators: how long a training takes on each, what it costs, and what does not fit.

Times and prices are estimates. --accelerator NAME shows the plan of one of them, with what it rests on.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from pipeline.plan import plan
from pipeline.plan.settings import AcceleratorConfig
from trainer import accelerators, datasets
from trainer.config import FetchConfig, TrainConfig, parse_image_size
from trainer.errors import check

HELP = "compare the accelerators: time, cost, what fits"
TRAINING = ("epochs", "precision", "accumulation")
MACHINES = ("workers", "provisioning", "reduction_servers")
"""The settings of the training and of its machines that all accelerators are compared with."""


def configure(parser: argparse.ArgumentParser) -> None:
    known = {
        field.name: field
        for config in (FetchConfig, TrainConfig, AcceleratorConfig)
        for field in dataclasses.fields(config)
    }
    for name in ("dataset", "image_size", *TRAINING, *MACHINES):
        field = known[name]
        about = f"{field.metadata['help']} (default: {field.default!r})".replace("%", "%%")
        assert isinstance(field.type, type)
        parser.add_argument("--" + name.replace("_", "-"), type=field.type, default=field.default, help=about)
    parser.add_argument("--images", type=int, default=0, help="training images; 0 for those of the data set")
    parser.add_argument(
        "--batch-size", type=int, default=0, help="images in a step, over all replicas; 0 for each one's default"
    )
    parser.add_argument("--location", default="", help="region that must have them; anywhere if not given")
    parser.add_argument("--accelerator", default="", help="show the plan of this one")


def execute(parsed: argparse.Namespace, others: Sequence[str]) -> int:
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    training = TrainConfig(batch_size=parsed.batch_size, **{name: getattr(parsed, name) for name in TRAINING})
    data = _data(parsed)
    machines = {name: getattr(parsed, name) for name in MACHINES}
    if parsed.accelerator:
        one = AcceleratorConfig(parsed.accelerator, **machines)
        console.print(Markdown(plan.markdown(plan.make_plan(one, training, data, location=parsed.location))))
        return 0
    compared = plan.comparison(machines, training, data, location=parsed.location)
    fitting = {name: made for name, made in compared.items() if isinstance(made, plan.Plan)}
    if fitting:
        console.print(_table(fitting))
    if len(fitting) < len(compared):
        console.print(_reasons({name: str(why) for name, why in compared.items() if name not in fitting}))
    console.print(f"Times are estimates too: see --accelerator NAME. {accelerators.PRICE_SOURCE}", style="dim")
    return 0


def _data(parsed: argparse.Namespace) -> plan.DataSize:
    dataset = datasets.get(parsed.dataset)
    check(parsed.images >= 0, f"images is {parsed.images}; it must be at least 0")
    return plan.DataSize(
        images=parsed.images or dataset.n_train,
        valid_images=dataset.n_valid,
        image_size=parse_image_size(parsed.image_size) if parsed.image_size else dataset.image_size,
    )


def _table(fitting: dict[str, plan.Plan]) -> Any:
    from rich import box
    from rich.table import Table

    any_plan = next(iter(fitting.values()))
    table = Table(
        title=f"{any_plan.epochs} epochs of {any_plan.images} images at "
        f"{any_plan.image_size[0]}x{any_plan.image_size[1]}, {any_plan.config.provisioning}, "
        f"{any_plan.workers} machine{'s' if any_plan.workers > 1 else ''}",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    for heading in ("accelerator", "machine"):
        table.add_column(heading, no_wrap=True)
    for heading in ("chips", "batch", "precision", "memory", "time", "USD"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, made in fitting.items():
        table.add_row(
            name,
            made.accelerator.machine_type,
            str(made.replicas),
            str(made.batch_size),
            made.precision,
            f"{made.memory_bytes / made.usable_memory_bytes:.0%}",
            plan.duration(made.hours),
            "?" if made.cost_usd is None else f"{made.cost_usd:.2f}",
        )
    return table


def _reasons(reasons: dict[str, str]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("accelerator", no_wrap=True)
    table.add_column("does not fit")
    for name, reason in reasons.items():
        table.add_row(name, Text(reason))
    return table
