"""\
Compare the accelerators: time, cost, and which ones are left out and why. The lowest price at worst comes first.

Prices are estimates, and so is each time that is not marked as measured by `python -m pipeline benchmark` at the
same batch, accumulation and precision (configs/measured.json). Estimates are ranges, since it is not known how
much of its peak speed a chip reaches. An accelerator may be the cheapest if its price at best is not above the
lowest price at worst, unless another number of its chips is cheaper. --accelerator NAME shows the plan for one
accelerator, and what it is based on.
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lifecycle.machines import AcceleratorConfig, DataSize, Measurement, TrainingPlan, make_plan
from pipeline.graph import check_region, compare_accelerators, known_regions
from trainer.data import FetchConfig
from trainer.datasets import Dataset
from trainer.errors import SettingError, check
from trainer.settings import Parser, add_settings, settings_of
from trainer.texts import format_duration, nearest
from trainer.training import ACCELERATORS, Accelerator, Estimate, TrainConfig

HELP = "compare the accelerators: time, cost, and which fit"
DATA = ("dataset", "image_size")
TRAINING = ("epochs", "precision", "accumulation")
MACHINES = ("workers", "provisioning")
"""Settings that are the same for all accelerators in the comparison."""


def configure(parser: Parser) -> None:
    add_settings(parser, FetchConfig, DATA)
    add_settings(parser, TrainConfig, TRAINING)
    add_settings(parser, AcceleratorConfig, MACHINES)
    parser.add_argument("--images", type=int, default=0, help="training images. 0 for the size of the dataset")
    parser.add_argument(
        "--batch-size",
        type=int,
        default=0,
        help="images per step over all replicas. 0 for the default of each accelerator",
    )
    parser.add_argument("--location", default="", help="region that must offer the accelerators. Any if empty")
    parser.add_argument("--accelerator", default="", help="show the plan for this accelerator only")


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    from rich.console import Console
    from rich.markdown import Markdown

    check_region(parsed.location)
    console = Console()
    training, fetched = settings_of(TrainConfig, parsed), settings_of(FetchConfig, parsed)
    data = DataSize.of(fetched)
    check(parsed.images >= 0, f"images is {parsed.images}. It must be at least 0", SettingError)
    data = dataclasses.replace(data, images=parsed.images or data.images)
    if parsed.accelerator:
        chosen = make_plan(settings_of(AcceleratorConfig, parsed), training, data, location=parsed.location)
        console.print(Markdown(chosen.markdown(chosen.timeout(0))))
        return 0
    machines = {name: value for name, value in vars(parsed).items() if name in MACHINES}
    compared = compare_accelerators(machines, training, data, location=parsed.location)
    plans = {name: entry for name, entry in compared.items() if isinstance(entry, TrainingPlan)}
    reasons = {name: str(why) for name, why in compared.items() if name not in plans}
    check(len(set(reasons.values())) != 1 or bool(plans), next(iter(reasons.values()), ""), SettingError)
    if plans:
        _print_whole(_plan_table(plans), console)
    if reasons:
        console.print(_reason_table(reasons))
    notes = [
        "Times are estimated unless marked as measured. --accelerator NAME shows their basis. The first has the "
        "lowest price at worst. Others may be cheapest if their price at best is not above it, and no other "
        "number of their chips is cheaper.",
        *_local_notes(training, data),
    ]
    notes.append(Accelerator.PRICE_SOURCE)
    if Dataset.named(fetched.dataset).any_count and not parsed.images:
        notes.append(f"{fetched.dataset} has any number of images. --images sets another than {data.images}.")
    if any(entry.has_other_prices for entry in plans.values()):
        notes.append(f"~ marks prices of {Accelerator.PRICE_REGION}. Prices of {parsed.location} differ.")
    console.print(*notes, style="dim")
    known = known_regions()
    if parsed.location and parsed.location not in known:
        near = nearest(parsed.location, known)
        print(f"warning: no accelerator in {parsed.location}. Check that it is a region{near}", file=sys.stderr)
    return 0


def _local_notes(training: TrainConfig, data: DataSize) -> Iterator[str]:
    """A sentence for each measurement of this machine, with the batch and the precision that were measured."""
    for each in Measurement.all():
        if each.is_local:
            pixels = math.prod(data.image_size) / math.prod(each.image_size)
            seconds = training.epochs * data.images / each.images_per_s * pixels
            yield (
                f"This machine ({each.devices}), batch {each.batch_size} in {each.precision}: about "
                f"{format_duration(seconds)} without validation (measured {each.date})."
            )


def _print_whole(table: Any, console: Any) -> None:
    """Print a table with all of its columns: a narrow terminal wraps its lines, where rich would cut them."""
    from rich.console import Console

    width = max(console.width, console.measure(table, options=console.options.update(max_width=1000)).maximum)
    Console(width=width).print(table)


def _plan_table(plans: dict[str, TrainingPlan]) -> Any:
    from rich import box
    from rich.table import Table

    any_plan = next(iter(plans.values()))
    data, machines = any_plan.data, any_plan.machines
    table = Table(
        title=f"{any_plan.training.epochs} epochs of {data.images} images at "
        f"{data.image_size[0]}x{data.image_size[1]}, {machines.provisioning}, "
        f"{machines.workers} machine{'s' if machines.workers > 1 else ''}",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    for heading in ("accelerator", "machine"):
        table.add_column(heading, no_wrap=True)
    for heading in ("batch", "precision", "time", "USD"):
        table.add_column(heading, justify="right", no_wrap=True)
    shows_disks = any(each.disk_spec for each in plans.values())
    if shows_disks:
        table.add_column("disk GB", justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    cheapest = _marks("cheapest", plans, {name: each.cost_range_usd for name, each in plans.items()})
    fastest = _marks("fastest", plans, {name: each.hours_range for name, each in plans.items()})
    for name, entry in sorted(plans.items(), key=lambda item: _price_first(item[1])):
        marks = [cheapest.get(name, ""), fastest.get(name, ""), entry.time_basis if entry.measured else ""]
        table.add_row(
            name,
            entry.accelerator.machine_type,
            str(entry.batch_size),
            entry.precision,
            entry.time_text,
            f"{'~' * entry.has_other_prices}{entry.cost_text}",
            *([str(entry.disk_gb)] if shows_disks else []),
            ", ".join(filter(None, marks)),
        )
    return table


def _price_first(entry: TrainingPlan) -> tuple[float, float]:
    """The key to sort by price, then by time, each at worst. Unknown prices come last."""
    return (math.inf if entry.most_cost_usd is None else entry.most_cost_usd, entry.most_hours)


def _marks(
    word: str, plans: Mapping[str, TrainingPlan], estimates: Mapping[str, Estimate | None]
) -> dict[str, str]:
    """The mark of each accelerator that may be the cheapest, or the fastest.

    It may be if its best estimate is not above the lowest of the worst estimates. Example: of 1 to 4 USD, 3 to 5
    USD and 5 to 9 USD, the first two may be the cheapest.

    Chips of one kind reach the same share of their peak in any number, though the share is not known. So an
    accelerator is not marked if another number of its chips is better at both ends.
    """
    known = {name: each for name, each in estimates.items() if each}
    least_at_worst = min((each.most for each in known.values()), default=math.inf)

    def is_beaten(name: str) -> bool:
        alike = [known[other] for other in known if plans[other].accelerator.chip is plans[name].accelerator.chip]
        return any(each.least < known[name].least and each.most < known[name].most for each in alike)

    possible = [name for name, each in known.items() if each.least <= least_at_worst and not is_beaten(name)]
    return {name: word if len(possible) == 1 else f"may be {word}" for name in possible}


def _reason_table(reasons: dict[str, str]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("accelerator", max_width=24)
    table.add_column("left out because")
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        machine = ACCELERATORS[name].machine_type
        names.setdefault(reason.removeprefix(f"{name} ").removeprefix(f"({machine}) "), []).append(name)
    for reason, of_names in names.items():
        table.add_row(Text(", ".join(of_names)), Text(reason))
    return table
