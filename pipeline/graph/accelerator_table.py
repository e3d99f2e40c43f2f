"""All accelerators side by side, and the regions that have one."""

import re
from collections.abc import Mapping
from typing import Any

from lifecycle.machines import AcceleratorConfig, DataSize, TrainingPlan, make_plan
from trainer.errors import SettingError, UserError, check
from trainer.texts import nearest
from trainer.training import ACCELERATORS, TrainConfig


def check_region(location: str) -> None:
    """Raise `UserError` unless `location` is empty or has the form of a region, such as `us-central1`."""
    check(
        not location or re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", location) is not None,
        f"location is {location!r}. Write a region, such as us-central1{nearest(location, known_regions())}",
        SettingError,
    )


def known_regions() -> set[str]:
    """The regions with an accelerator. There is no table of all other regions."""
    return {region for row in ACCELERATORS.values() for region in row.chip.regions}


def compare_accelerators(
    machines: Mapping[str, Any], training: TrainConfig, data: DataSize, *, location: str = ""
) -> dict[str, TrainingPlan | str]:
    """For each accelerator, its plan or the reason why it does not fit. Arguments are as for `make_plan`.

    `machines` are the fields of `AcceleratorConfig` other than the accelerator, such as {"workers": 2}.
    """

    def attempt(name: str) -> TrainingPlan | str:
        try:
            return make_plan(AcceleratorConfig(accelerator=name, **machines), training, data, location=location)
        except UserError as error:
            return str(error)

    return {name: attempt(name) for name in ACCELERATORS}
