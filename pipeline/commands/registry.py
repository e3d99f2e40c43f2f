"""Look at the model registry, and say which version is the default."""

import argparse
import json
from collections.abc import Mapping, Sequence

from pipeline.parameters import PARAMETERS
from trainer.config import check

HELP = "look at the registry"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "show", "set-default"))
    parser.add_argument(
        "version", nargs="?", help="number or alias, of show (the default if not given) and of set-default"
    )
    for name in ("registry", "model_name"):
        wanted = PARAMETERS[name]
        parser.add_argument("--" + name.replace("_", "-"), default=wanted.default, help=wanted.help)


def execute(parsed: argparse.Namespace, others: Sequence[str]) -> int:
    from pipeline.registry import connect
    from trainer.artifacts import DEFAULT, REGISTRY

    registry, name = connect(parsed.registry), parsed.model_name
    if parsed.action == "set-default":
        check(parsed.version is not None, "which version? write `python -m pipeline registry set-default VERSION`")
        registry.set_alias(name, DEFAULT, _number(parsed.version, registry.aliases(name)))
    versions, aliases = registry.versions(name), registry.aliases(name)
    check(bool(versions), f"there is no version of model {name!r} in {parsed.registry or REGISTRY}")
    if parsed.action == "show":
        wanted = aliases.get(DEFAULT) if parsed.version is None else _number(parsed.version, aliases)
        found = [each for each in versions if each.number == wanted]
        check(bool(found), f"model {name!r} has no version {wanted}; see `python -m pipeline registry list`")
        print(json.dumps(found[0].record, indent=2))
        return 0
    for version in versions:
        names = [alias for alias, number in aliases.items() if number == version.number]
        print(f"{version.number:>4}  {version.record['created']}  {version.place}  {', '.join(names)}".rstrip())
    return 0


def _number(version: str, aliases: Mapping[str, int]) -> int:
    """The version that a number or an alias names."""
    if version.isdecimal():
        return int(version)
    known = ", ".join(sorted(aliases)) or "there is none"
    check(version in aliases, f"{version!r} is neither a version's number nor an alias ({known})")
    return aliases[version]
