"""Look at the model registry, and say which version is the default."""

import argparse
import json
from collections.abc import Sequence

from pipeline.graph.parameters import PARAMETERS
from trainer.errors import check

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
    from pipeline.registry.register import connect
    from trainer.artifacts import DEFAULT, REGISTRY
    from trainer.models.registry_layout import number_of

    registry, name = connect(parsed.registry), parsed.model_name
    versions, aliases = registry.versions(name), registry.aliases(name)
    found = {each.number: each for each in versions}
    check(bool(found), f"there is no version of model {name!r} in {parsed.registry or REGISTRY}")
    if parsed.action == "show":
        number = number_of(f"model {name!r}", parsed.version or DEFAULT, list(found), aliases)
        print(json.dumps(found[number].record, indent=2))
        return 0
    if parsed.action == "set-default":
        check(parsed.version is not None, "which version? write `python -m pipeline registry set-default VERSION`")
        number = number_of(f"model {name!r}", parsed.version, list(found), aliases)
        registry.set_alias(name, DEFAULT, number)
        aliases = registry.aliases(name)
    for version in versions:
        names = [alias for alias, number in aliases.items() if number == version.number]
        print(f"{version.number:>4}  {version.record['created']}  {version.place}  {', '.join(names)}".rstrip())
    return 0
