"""\
Prepare a dataset of any number of images: in processes here, or as tasks of Vertex AI or Kubeflow.

DATASET, SOURCE and the settings are as in `python -m trainer fetch`. It writes the same files in one process: use
it for some ten thousand images. Here, the listing is cut into shards by bytes, and each is prepared by a process
of its own, with room for its part of the source alone. A command that was killed at any moment goes on when it is
started again, and prepares no shard twice.

With --env, each shard is a task there. OUTPUT is then gs:// on Vertex AI, and on Kubeflow a folder of the
environment's volume. A training takes OUTPUT as it is, by base_source=OUTPUT. --dry-run lists the images alone.
"""

import argparse
import dataclasses
import math
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.machines import BatchMachines
from pipeline.commands.parameter_flags import add_environment
from pipeline.commands.shard_tasks import check_place, start_tasks
from pipeline.graph import Environment, Preparation, load_environment, write_preparation
from trainer.data import FetchConfig
from trainer.datasets import Dataset
from trainer.errors import FailedError, PlaceError, SettingError, check
from trainer.io import check_output_path
from trainer.places import Stored, stored_at
from trainer.settings import Parser, add_settings, advising_flags, settings_of
from trainer.texts import visible

if TYPE_CHECKING:
    from trainer.data import Manifest

HELP = "prepare a dataset of any number of images"


def configure(parser: Parser) -> None:
    parser.add_argument(
        "dataset", metavar="DATASET", help="name of a dataset, or custom for recordings of your own"
    )
    parser.add_argument(
        "source", metavar="SOURCE", help="folder, gs:// folder, archives, or '' for the dataset's public source"
    )
    parser.add_argument("output", metavar="OUTPUT", help="folder of the prepared dataset, or gs://")
    add_environment(parser, default="")
    parser.add_argument(
        "--dry-run", action="store_true", help="say how many shards there are, and prepare nothing"
    )
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="with --env: write the pipeline alone")
    parser.add_argument("--test", action="store_true", help="prepare a test set, as `trainer fetch --test` does")
    parser.add_argument(
        "--shard-gigabytes",
        type=float,
        default=FetchConfig.SHARD_GIGABYTES,
        help="bytes at the source of the images of a shard (default: %(default)g)",
    )
    names = {field.name for field in dataclasses.fields(FetchConfig)} - {"dataset", "source"}
    add_settings(parser, FetchConfig, names)
    add_settings(parser, BatchMachines)


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    with advising_flags(FetchConfig):
        return _execute(parsed)


def _execute(parsed: argparse.Namespace) -> int:
    config, machines = settings_of(FetchConfig, parsed), settings_of(BatchMachines, parsed)
    FetchConfig.check_recordings([config])
    Dataset.named(config.dataset)
    check(
        parsed.shard_gigabytes > 0,
        f"--shard-gigabytes is {parsed.shard_gigabytes:g}, and must be above 0",
        SettingError,
    )
    asked = Preparation(config, parsed.output, machines, parsed.shard_gigabytes, parsed.test)
    if parsed.dry_run:
        _print_sizes(asked)
        return 0
    if parsed.env:
        environment = load_environment(parsed.env)
        _check_places(environment, asked)
        return start_tasks(environment, machines, partial(write_preparation, environment, asked), parsed.write)
    manifest = _prepare(asked)
    print("".join(f"note: {visible(note)}\n" for note in manifest.notes), end="")
    counts = ", ".join(f"{split} {count:,}" for split, count in manifest.counts.items())
    print(f"{parsed.output} has the images of {manifest.dataset}: {counts}")
    return 0


def _prepare(asked: Preparation) -> "Manifest":
    """Prepare what is left of a dataset here, each shard by a process of its own."""
    from trainer.data import PreparedData

    config = asked.config
    check(
        stored_at(asked.output).is_local,
        f"OUTPUT is {asked.output}. Without --env, name a local folder",
        PlaceError,
    )
    check_output_path(asked.output, into=True)
    prepared = PreparedData(asked.output)
    if prepared.is_there:
        prepared.check_is_of(config, asked.test_of)
    else:
        sizes = prepared.decide(config, test_of=asked.test_of, shard_gigabytes=asked.shard_gigabytes)
        for shard in range(len(sizes)):
            print(f"shard {shard + 1} of {len(sizes)}", flush=True)
            words = [asked.output, str(shard), config.source]
            status = subprocess.run([sys.executable, "-m", "trainer.data.stages", *words], check=False).returncode
            check(
                status == 0,
                f"shard {shard + 1} of {len(sizes)} ended with status {status}. The same command goes on with it",
                FailedError,
            )
    return prepared.merge()


def _print_sizes(asked: Preparation) -> None:
    """Say how large a source is, and what would prepare it."""
    from trainer.batch import measure_source

    config, machines = asked.config, asked.machines
    check(
        all(isinstance(place, Stored) for place in config.places) and bool(config.places),
        f"--dry-run lists a folder, here or on gs://, and SOURCE is {config.shown.source!r}. Leave it out",
        SettingError,
    )
    sizes = measure_source(config.source)
    shards = max(1, math.ceil(sizes.bytes / (10**9 * asked.shard_gigabytes)))
    print(f"{sizes.images:,} images and maps, {sizes.bytes / 1e9:,.3g} GB: about {shards:,} shards")
    price = machines.row.usd_per_hour(machines.provisioning)
    each = "" if price is None else f", about {price:.2f} USD an hour each"
    at_once = min(shards, machines.machines)
    print(f"With --env: {at_once:,} x {machines.row.machine_type} at a time, {machines.provisioning}{each}")
    print("Nothing was started.")


def _check_places(environment: Environment, asked: Preparation) -> None:
    """Raise `SettingError` unless the tasks of an environment can have the places."""
    for place in asked.config.places:
        check(
            place.shown == place.text,
            f"the address of {place.shown} has a query, perhaps a key, which the pipeline would show. Put the "
            "archive on gs://",
            SettingError,
        )
        if isinstance(place, Stored):
            check_place(environment, "SOURCE", place.text)
    check_place(environment, "OUTPUT", asked.output)
    check(
        environment.target == "vertex" or stored_at(asked.output).is_local,
        f"OUTPUT is {asked.output}, but on Kubeflow all tasks write into one folder. Set volume_claim in "
        f"{environment.name}, and name a folder below its bucket",
        SettingError,
    )
