"""Shared parts of the HTML pages: render a template to a file; facts about data, code and trainings as text."""

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import jinja2

from trainer import files, generated, heat
from trainer.artifacts import SPLIT_NAMES, TEST
from trainer.evaluation.confidence import TIMES, size_text

Facts = list[tuple[str, Any]]
"""Facts as (name, value) pairs."""
HEADING = re.compile(r'<h([23]) id="([^"]+)">(.*?)</h[23]>')
"""Heading with an anchor, for the macro `heading`."""
NESTED = ("base_model", "identity")
"""Keys of a MODEL_CONFIG that repeat other trainings or other keys."""
SETTINGS = "settings"


def write(html: str | os.PathLike[str], template: str, **values: Any) -> None:
    """Render a template to the file `html`, which needs no other file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["headings"] = HEADING.findall
    page = environment.get_template(template).render(heat_stops=heat.HEAT_STOPS, **values)
    with files.replacing(html) as partial:
        partial.write_text(page, encoding="utf-8")


def manifest_facts(manifest: dict[str, Any]) -> Facts:
    """Return the facts about a prepared dataset, from the content of its `artifacts.Manifest`."""
    truth = manifest["ground_truth"]
    if manifest["blur_sigma_px"]:
        truth += f", blurred with sigma {manifest['blur_sigma_px']:g} px"
    sizes = sorted(manifest["original_sizes"].items(), key=lambda item: -item[1])
    shown = ", ".join(f"{size.replace('x', f' {TIMES} ')} ({count:,})" for size, count in sizes[:4])
    more = f" and {len(sizes) - 4} more" if len(sizes) > 4 else ""
    return [
        ("Source", manifest["source"]),
        ("Fingerprint", manifest["fingerprint"]),
        ("Images", f"{counts(manifest['counts'])} (complete: {counts(manifest['expected_counts'])})"),
        ("Split", "only tested on" if TEST in manifest["counts"] else manifest["split"]),
        ("Original sizes", shown + more),
        ("Network input", size_text(manifest["image_size"])),
        ("Ground truth", truth),
        ("Fixations", "known" if manifest["has_fixations"] else "not known"),
        *((name.capitalize(), manifest[name]) for name in ("licence", "citation") if manifest.get(name)),
        *([("Notes", " ".join(manifest["notes"]))] if manifest.get("notes") else []),
        ("Prepared by", manifest["code_version"]),
    ]


def code_facts(code_version: str) -> Facts:
    """Split the text of `artifacts.code_version()` into version and commit."""
    version, _, commit = code_version.partition("+")
    return [(name, fact) for name, fact in (("Version", version), ("Commit", commit)) if fact]


def grid(columns: Mapping[str, Facts]) -> dict[str, Any]:
    """Return the values of the macro `grid`: a row for each name, a column for each list of facts.

    A value that all columns share is shown once.
    """
    facts = [dict(pairs) for pairs in columns.values()]
    names = dict.fromkeys(name for pairs in facts for name in pairs)
    rows = []
    for name in names:
        values = [pairs.get(name, "\N{EN DASH}") for pairs in facts]
        is_shared = all(value == values[0] for value in values)
        rows.append((name, values[:1] if is_shared else values))
    return {"columns": list(columns), "rows": rows}


def counts(counts: dict[str, int]) -> str:
    """Format the numbers of images of all splits."""
    return " and ".join(f"{count:,} {SPLIT_NAMES[split]}" for split, count in counts.items())


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
