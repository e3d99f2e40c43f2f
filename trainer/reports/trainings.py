"""The data and settings of trainings, each setting once, for a table of a page."""

from collections.abc import Mapping
from typing import Any

from trainer import generated
from trainer.evaluation.wording import TIMES
from trainer.reports.pages import Facts

NESTED = ("base_model", "identity")
"""Keys of a MODEL_CONFIG that repeat other trainings or other keys."""
SETTINGS = "settings"


def columns(models: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Facts]:
    """Return the facts about the training of each model, of its base model and so on.

    Args:
        models: Label -> content of MODEL_CONFIG, if the model has one.

    Returns:
        Label of the training, such as "Candidate, training 2: osie" -> its facts, a model's last training first.
        Models that share a base model share its column.
    """
    found: list[tuple[list[str], str, Mapping[str, Any]]] = []
    for label, config in models.items():
        chain = list(generated.trainings(config))
        for number, training in zip(range(len(chain), 0, -1), chain, strict=True):
            same = [labels for labels, _, other in found if other == training]
            if same:
                same[0].append(label)
            else:
                # The same training has the same number in all models: it has the same base model.
                count = f", training {number}" if len(chain) > 1 else ""
                found.append(([label], count + _data(training), training))
    return {f"{' and '.join(labels)}{rest}": _facts(training) for labels, rest, training in found}


def _data(training: Mapping[str, Any]) -> str:
    name = generated.dataset(training)
    return f": {name}" if name else ""


def _facts(training: Mapping[str, Any]) -> Facts:
    """Return the keys of a MODEL_CONFIG and its settings; a setting with a key's name is marked `(as set)`."""
    facts = {name: value for name, value in training.items() if name not in (*NESTED, SETTINGS)}
    for name, value in (training.get(SETTINGS) or {}).items():
        facts[f"{name} (as set)" if name in facts else name] = value
    return [pair for name, value in facts.items() for pair in _pairs(name, value)]


def _pairs(name: str, value: Any) -> Facts:
    if isinstance(value, dict):
        return [pair for key, part in value.items() for pair in _pairs(f"{name}.{key}", part)]
    return [(name, f" {TIMES} ".join(map(str, value)) if isinstance(value, list) else value)]
