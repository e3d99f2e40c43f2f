"""Look at the model registry, and say which version is the default."""

import argparse
import json
from collections.abc import Sequence

from pipeline.parameters import PARAMETERS
from trainer.config import check

HELP = "look at the registry"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "show", "set-default"))
    parser.add_argument("version", type=int, nargs="?", help="of show (the default if not given) and set-default")
    for name in ("registry", "model_name"):
        wanted = PARAMETERS[name]
        parser.add_argument("--" + name.replace("_", "-"), default=wanted.default, help=wanted.help)


def execute(parsed: argparse.Namespace, others: Sequence[str]) -> int:
    from pipeline.registry import connect
    from trainer.artifacts import DEFAULT, REGISTRY

    registry, name = connect(parsed.registry), parsed.model_name
    if parsed.action == "set-default":
        check(parsed.version is not None, "which version? write `python -m pipeline registry set-default VERSION`")
        registry.set_alias(name, DEFAULT, parsed.version)
    versions, aliases = registry.versions(name), registry.aliases(name)
    check(bool(versions), f"there is no version of model {name!r} in {parsed.registry or REGISTRY}")
    if parsed.action == "show":
        wanted = aliases.get(DEFAULT) if parsed.version is None else parsed.version
        found = [each for each in versions if each.number == wanted]
        check(bool(found), f"model {name!r} has no version {wanted}; see `python -m pipeline registry list`")
        print(json.dumps(found[0].record, indent=2))
        return 0
    for version in versions:
        names = [alias for alias, number in aliases.items() if number == version.number]
        print(f"{version.number:>4}  {version.record['created']}  {version.place}  {', '.join(names)}".rstrip())
    return 0
