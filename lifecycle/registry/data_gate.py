"""The gate of data before they are trained on: enough, and like those of the current default model."""

from collections.abc import Mapping, Sequence

from lifecycle.registry.register import open_registry
from lifecycle.registry.settings import DataGateConfig
from trainer.data import prepared_data, statistics
from trainer.errors import UserError, check
from trainer.evaluation import gate
from trainer.evaluation.reports.data_comparison import ComparedData
from trainer.evaluation.settings import EvaluateConfig
from trainer.models import model_folder

TITLES = {"base": "Base data", "finetune": "Fine-tuning data", "test": "Test set"}
"""Name of prepared data -> their title."""


def compare_data(location: str, name: str, data: Mapping[str, str]) -> list[ComparedData]:
    """Compare prepared data with those that the current default of model `name` was trained on.

    Args:
        location: The registry, as in `register.open_registry`.
        name: Name of the model in the registry.
        data: `base`, `finetune` or `test` -> the folder of these data.
    """
    default = open_registry(location).default(name)
    lineage = default.record.get("lineage", {}) if default else {}
    known: set[str] = set()
    for splits in model_folder.training_images(default.model).values() if default else ():
        known.update(*splits.values())
    compared = []
    for step, folder in data.items():
        manifest, earlier = prepared_data.Manifest.load(folder), lineage.get("data", {}).get(step, {})
        now, last = statistics.read_statistics(folder), earlier.get("statistics")
        if now is None:
            raise UserError(f"{folder} has no statistics: {prepared_data.PREPARE_AGAIN}")
        absent = ""
        if default is None:
            absent = "The current default is `pretrained`, whose data are not compared."
        elif earlier.get("dataset", manifest.dataset) != manifest.dataset:
            absent, last = f"The current default, version {default.number}, had {earlier['dataset']} here.", None
        elif last is None:
            absent = f"The current default, version {default.number}, has no statistics of these data."
        is_known = known and last is not None and not manifest.is_test_set
        added = statistics.read_statistics(folder, without=known) if is_known else None
        if added and added["images"] == now["images"]:
            added = None
        compared.append(ComparedData(TITLES[step], manifest, now, last, added, absent))
    return compared


def require(config: DataGateConfig, compared: Sequence[ComparedData]) -> list[str]:
    """Return the warnings about large differences, which are printed too.

    Raises:
        UserError: the fine-tuning data have too few images or observers, or a difference is large and the gate is
            strict.
    """
    for each in compared:
        if each.title == TITLES["finetune"]:
            _require_enough(config, each)
    warnings = [text for each in compared for text in each.warnings]
    check(
        not warnings or config.data_gate != "strict",
        f"data_gate is strict, and the data differ from those of the current default. {' '.join(warnings)} Look "
        "at the report of this task; to train on them all the same, set data_gate=warn",
    )
    lines = [f"warning: {text}" for text in warnings]
    if any(each.last for each in compared):
        lines = lines or ["no large difference was found"]
    else:
        lines = [f"nothing to compare with: {text}" for text in dict.fromkeys(each.absent for each in compared)]
    print(*lines, sep="\n")
    return warnings


def check_gate(config: EvaluateConfig, data: Mapping[str, str]) -> None:
    """Raise `UserError` unless the gate's metric can be computed on the data that decide.

    `data` has the folders of the prepared data: `finetune`, and `test` if the gate decides on test images.
    """
    decides = "test" if config.gate_on == "test" else "finetune"
    manifest = prepared_data.Manifest.load(data[decides])
    gate.check_measurable(config, manifest.dataset, manifest)


def _require_enough(config: DataGateConfig, data: ComparedData) -> None:
    n_images, observers = data.now["images"], data.now["values"].get("observers")
    check(
        n_images >= config.min_images,
        f"{data.name} has {n_images:,} images, and min_images is {config.min_images:,}; find out what is missing, "
        "or set another number",
    )
    if not config.min_observers:
        return
    median = statistics.FEATURES["observers"].shown(observers["quantiles"][2]) if observers else 0
    number = f"{median:.0f} observers of its median image" if observers else "observers that are not told apart"
    check(
        median >= config.min_observers,
        f"{data.name} has {number}, and min_observers is {config.min_observers}; record more, or set another "
        "number",
    )
