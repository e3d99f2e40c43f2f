"""\
List the versions in the model registry, show one, draw their history, set the default, or let it answer alone.

Version 0 of every model is `pretrained`, the model that comes with the package. It is the default until a version
is better, and again after `set-default 0`. No registry holds it.

VERSION is a number or an alias, such as 3 or challenger, alone or after the model's name: msinet@3. The list has
each version's gain over the default of its day, with its interval, and what came of it. ! marks findings of the
check of the data. Scores of two versions are of different images: --json prints them, with the whole records.
history writes MODEL_history.html: a page with the default's quality over time, and why each version became it or
not.

What serves the model follows the default: endpoints of Vertex AI to which a run has deployed, and the folder
`serving` of other registries. promote gives it all traffic, and removes the versions before from there. With
--endpoint, that endpoint follows the default from now on.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lifecycle.registry import DefaultMove, PipelineConfig, Version, VertexRegistry, numbered, open_registry
from trainer.data import SPLIT_NAMES
from trainer.errors import NotFoundError, SettingError, UsageError, check
from trainer.evaluation import Lineage
from trainer.metrics import METRICS
from trainer.models import DEFAULT, PRETRAINED, PRETRAINED_VERSION, REGISTRY, Provenance, number_of
from trainer.reports import short_gain, summary_lines
from trainer.settings import Parser, add_settings, settings_of
from trainer.texts import printable

HELP = "list model versions, show one, draw their history, set the default, or give it all traffic"
COLUMNS = ("version", "date", "data", "gain", "over", "end", "alias", "place")
"""The headings of the table of versions."""
BECOMES, BECAME = "The candidate becomes the default", "The candidate became the default"
"""How a reason of the gate begins, and how it is told afterwards. The first is `evaluation.BECOMES`."""
UNKNOWN = "-"
"""A cell about which nothing is known."""


def configure(parser: Parser) -> None:
    parser.add_argument("action", choices=("list", "show", "history", "set-default", "promote"))
    parser.add_argument(
        "version",
        nargs="?",
        metavar="VERSION",
        help="number or alias. Without it, show prints the default version",
    )
    parser.add_argument("--json", action="store_true", help="print JSON: of list all versions, of show one")
    add_settings(parser, PipelineConfig, ("registry", "model_name", "endpoint"))


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    config = settings_of(PipelineConfig, parsed)
    registry, name = open_registry(config.registry), config.model_name
    versions = numbered(registry.versions(name))
    aliases = {DEFAULT: PRETRAINED_VERSION, **registry.aliases(name)}
    none = (
        f"there is no version of model {name!r} in {config.registry or REGISTRY}. A run of the pipeline with this "
        "registry and model_name adds one (`python -m pipeline run`, or `submit` on Vertex AI)"
    )
    check(bool(versions) or parsed.action == "list", none, NotFoundError)
    if parsed.version and parsed.action not in ("show", "set-default"):
        raise UsageError(
            f"{parsed.action} takes no version, but {parsed.version!r} is given. The action promote gives the "
            "default all traffic, and set-default VERSION chooses it"
        )
    # Other commands take NAME@VERSION, and the list prints it.
    chosen = (parsed.version or "").removeprefix(f"{name}@")
    chosen = str(PRETRAINED_VERSION) if chosen == PRETRAINED else chosen
    if parsed.action == "show":
        number = number_of(f"model {name!r}", chosen or DEFAULT, list(versions), aliases)
        if parsed.json:
            print(json.dumps(version_as_json(name, versions[number], aliases), indent=2))
        else:
            facts = version_facts(name, versions[number], aliases, registry.default_moves(name))
            print("\n".join(facts))
        _tell(versions[number])
        return 0
    if parsed.action == "history":
        _write_history(name, config.registry or REGISTRY, list(versions.values()), registry.default_moves(name))
        return 0
    if parsed.action == "set-default":
        check(bool(chosen), "name the version: `python -m pipeline registry set-default VERSION`", SettingError)
        number = number_of(f"model {name!r}", chosen, list(versions), aliases)
        registry.set_alias(name, DEFAULT, number)
        aliases = {DEFAULT: PRETRAINED_VERSION, **registry.aliases(name)}
        if _tell(versions[number]):
            print(f"note: commands that name no model, and the gate, go on with {PRETRAINED}", file=sys.stderr)
    if parsed.action == "promote":
        if config.endpoint:
            VertexRegistry.at(config.registry).follow(name, config.endpoint)
        registry.serve_default(name)
    if parsed.json:
        print(json.dumps([version_as_json(name, version, aliases) for version in versions.values()], indent=2))
    else:
        print(
            "\n".join(versions_table(name, versions.values(), aliases, registry.default_moves(name)))
            if versions
            else f"T{none[1:]}. The default is {PRETRAINED}, version 0."
        )
    return 0


def _write_history(name: str, place: str, versions: Sequence[Version], moves: Sequence[DefaultMove]) -> None:
    """Write the page of a registry into the working directory, and print its path."""
    from trainer.reports import HistoryEntry, HistoryMove, write_history

    path = pathlib.Path(f"{name}_history.html")
    entries = [
        HistoryEntry(each.number, each.created, each.end, each.facts, each.what_followed(moves))
        for each in versions
        if each.number != PRETRAINED_VERSION
    ]
    write_history(
        path,
        name,
        place,
        entries,
        [HistoryMove(each.since, each.version, each.by_person) for each in moves],
    )
    print(path.absolute())


def _tell(version: Version) -> bool:
    """Print what a user must know of a version that was trained on generated shapes. Return whether it was."""
    notice = Provenance(version.model_config).notice()
    if notice:
        print(f"note: {notice}", file=sys.stderr)
    return bool(notice)


def versions_table(
    name: str, versions: Iterable[Version], aliases: Mapping[str, int], moves: Sequence[DefaultMove]
) -> list[str]:
    """A line for each version of model `name`, below one of headings. Its last cell, the address, may be long."""
    rows = [COLUMNS, *(_row(name, version, _aliases_of(version, aliases), moves) for version in versions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    cells = ([f"{text:<{width}}" for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in cells]


def version_facts(
    name: str, version: Version, aliases: Mapping[str, int], moves: Sequence[DefaultMove]
) -> list[str]:
    """A version in about ten lines, with what the `moves` of the default say of it. Unknown facts are left out."""
    record, lineage = version.facts, version.facts.lineage
    names = _aliases_of(version, aliases)
    folder = lineage.folder
    report = pathlib.Path(folder, "report.html") if folder and "://" not in folder else None
    known = {
        "Model": f"{name}@{version.number}" + (f" ({', '.join(names)})" if names else ""),
        "Created": record.created.replace("T", " ").replace("+00:00", " UTC"),
        "Data": ", ".join(_data(step, lineage) for step in lineage.data),
        **{f"On {dataset}": _scores(scores) for dataset, scores in _metrics(version).items()},
        "Decision": record.reason.replace(BECOMES, BECAME, 1),
        **summary_lines(record),
        "Since": version.what_followed(moves),
        "Code": lineage.code_version,
        "Run": lineage.run,
        "Report": str(report) if report and report.is_file() else "",
        "Place": version.address,
    }
    width = max(len(key) for key, value in known.items() if value) + 3
    return [f"{key + ':':<{width}}{printable(str(value))}" for key, value in known.items() if value]


def version_as_json(name: str, version: Version, aliases: Mapping[str, int]) -> dict[str, Any]:
    """A version for programs: its whole record, with its name, number, aliases and address."""
    about = {"model": name, "version": version.number, "aliases": _aliases_of(version, aliases)}
    return {**about, "place": version.address, **version.record}


def _metrics(version: Version) -> dict[str, dict[str, float]]:
    """Dataset -> metric -> score. Another program may have written other metrics, and other values."""
    return {
        dataset: {metric: score for metric, score in scores.items() if isinstance(score, (int, float))}
        for dataset, scores in version.facts.metrics.items()
        if isinstance(scores, Mapping)
    }


def _aliases_of(version: Version, aliases: Mapping[str, int]) -> list[str]:
    return sorted(alias for alias, number in aliases.items() if number == version.number)


def _row(name: str, version: Version, aliases: Sequence[str], moves: Sequence[DefaultMove]) -> tuple[str, ...]:
    record = version.facts
    end = version.end or UNKNOWN
    end += ", rolled back" if version.is_rolled_back(moves) else ""
    return (
        f"{name}@{version.number}",
        printable((record.created or UNKNOWN)[:10]),
        printable(", ".join(Provenance(version.model_config).datasets)) or UNKNOWN,
        short_gain(record) or UNKNOWN,
        UNKNOWN if record.compared_with is None else str(record.compared_with),
        printable(f"{end} !" if record.findings else end),
        ", ".join(aliases) or UNKNOWN,
        printable(version.address),
    )


def _data(step: str, lineage: Lineage) -> str:
    """One prepared dataset of a run, such as `base salicon (160 training and 40 validation)`."""
    data = lineage.data_of(step)
    counts = " and ".join(f"{count:,} {SPLIT_NAMES[split]}" for split, count in data.counts.items())
    source = ", generated" if Provenance(vars(data)).is_sample else ""
    return f"{step} {data.dataset}{source}" + (f" ({counts})" if counts else "")


def _scores(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{METRICS[metric].label} {scores[metric]:.3f}" for metric in METRICS if metric in scores)
