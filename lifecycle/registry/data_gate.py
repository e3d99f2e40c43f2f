"""The gate of data before they are trained on: enough, and like the data of the current default model."""

import dataclasses
from collections.abc import Mapping, Sequence

from lifecycle.registry.register import judge_of, open_registry
from lifecycle.registry.settings import DataGateConfig
from lifecycle.registry.versions import Version
from trainer.data import FEATURES, Manifest, PreparedData
from trainer.errors import ContentError, GateError, check
from trainer.evaluation import Compared, EvaluateConfig, Lineage, Seen, ask_about, what_could_be_found
from trainer.machine import announce
from trainer.models import Provenance
from trainer.reports import ComparedData, DataStatement

TITLES = {"base": "Base data", "finetune": "Fine-tuning data", "test": "Test set"}
"""Name of prepared data -> their title."""


@dataclasses.dataclass(frozen=True)
class DataGate:
    """What the data of a run have to pass, beside the default of its model, before anything is trained."""

    config: DataGateConfig
    evaluation: EvaluateConfig
    registry: str
    """The registry, as in `register.open_registry`."""
    name: str
    """Name of the model in the registry."""
    data: Mapping[str, str]
    """`base`, `finetune` or `test` -> the folder of these data."""

    @property
    def _deciding(self) -> str:
        """The folder of the data that decide: the fine-tuning data, or the test set if the gate is on it."""
        return self.data["test" if self.evaluation.gate_on == "test" else "finetune"]

    def check_measurable(self) -> None:
        """Raise `UserError` unless the gate's metric can be computed on the data that decide.

        Example: `nss` needs fixations.
        """
        manifest = Manifest.load(self._deciding)
        self.evaluation.check_measurable(manifest.dataset, manifest.has_fixations)

    def compare(self) -> list[ComparedData]:
        """Compare the data with the data of the current default of the model, and ask the default about them."""
        announce("comparing the data with those of the default")
        default = open_registry(self.registry).default(self.name)
        return [_compared(step, folder, default) for step, folder in self.data.items()]

    def what_could_be_found(self) -> str:
        """Say which gain over the current default this run could find."""
        config, registry = self.evaluation, open_registry(self.registry)
        default, folder = registry.default(self.name), self._deciding
        manifest = Manifest.load(folder)
        if Provenance(vars(manifest)).is_sample:
            return ""
        n_seen = len(Seen.by(judge_of(default), []).among(folder))
        gain = default.facts.gain if default else None
        spread = gain.spread if gain and gain.metric == config.gate else None
        return what_could_be_found(config, manifest, n_seen, registry.next_decision(self.name), spread)

    def require(self, compared: Sequence[ComparedData]) -> tuple[list[str], list[str]]:
        """Return all that was found, and print it, and what of it holds a promotion.

        Raises:
            UserError: the fine-tuning data have too few images or observers, or there is a question and the gate
                is strict.
        """
        for each in compared:
            if each.title == TITLES["finetune"]:
                _require_enough(self.config, each)
        warnings = [text for each in compared for text in each.warnings]
        questions = [text for each in compared for text in each.questions]
        check(
            not questions or self.config.data_gate != "strict",
            f"data_gate is strict, and the data raise a question. {' '.join(questions)} Look at the report of "
            "this task. To train on them all the same, set data_gate=hold",
            GateError,
        )
        print(*DataStatement.of(compared).lines, sep="\n")
        return warnings, questions if self.config.data_gate == "hold" else []


def _compared(step: str, folder: str, default: Version | None) -> ComparedData:
    """The data of a step beside the default's."""
    data = PreparedData(folder)
    manifest = data.manifest
    lineage = default.facts.lineage if default else Lineage()
    earlier = lineage.data_of(step)
    now, last = data.statistics(), earlier.statistics
    if now is None:
        raise ContentError(f"{folder} has no statistics: prepare the dataset again")
    absent = ""
    if default is None:
        absent = "The current default is `pretrained`, whose data are not compared."
    elif (earlier.dataset or manifest.dataset) != manifest.dataset:
        absent, last = f"The current default, version {default.number}, had {earlier.dataset} here.", None
    elif last is None:
        absent = f"The current default, version {default.number}, has no statistics of these data."
    paired = Compared.with_model(folder, default.model if default and last is not None else None, step)
    has_same_people = bool(paired.comparable) and not paired.changed
    added = None
    if paired.n_before and not manifest.is_test_set:
        added = data.statistics(without={pair.now.digest for pair in paired.pairs})
    if added and added["images"] == now["images"]:
        added = None
    decided_on = default.facts.decided_on if default else ""
    decided = step == ("test" if PreparedData.is_test_set(decided_on) else "finetune")
    findings = ask_about(folder, judge_of(default), paired, decided)
    return ComparedData(TITLES[step], manifest, now, last, added, absent, has_same_people, findings)


def _require_enough(config: DataGateConfig, data: ComparedData) -> None:
    n_images, observers = data.now["images"], data.now["values"].get("observers")
    check(
        n_images >= config.min_images,
        f"{data.name} has {n_images:,} images, and min_images is {config.min_images:,}. Find out what is missing, "
        "or set another number",
        GateError,
    )
    if not config.min_observers:
        return
    median = FEATURES["observers"].shown(observers["quantiles"][2]) if observers else 0
    number = f"{median:.0f} observers of its median image" if observers else "observers that are not told apart"
    check(
        median >= config.min_observers,
        f"{data.name} has {number}, and min_observers is {config.min_observers}. Record more, or set another "
        "number",
        GateError,
    )
