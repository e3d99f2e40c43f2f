"""\
List the versions in the model registry, show one, or set the default version.

VERSION is a number or an alias, such as 3 or challenger, alone or after the model's name: msinet@3. The scores in
the list are those on the data that decided whether the version became the default. --json prints whole records,
for programs.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from pipeline.graph.parameters import PipelineConfig
from pipeline.registry.register import connect
from pipeline.registry.versions import Version, as_json, facts, table
from trainer import generated
from trainer.artifacts import DEFAULT, REGISTRY
from trainer.cli import Parser, add_settings, settings
from trainer.errors import check
from trainer.models.find import number_of

HELP = "list model versions, show one, or set the default"


def configure(parser: Parser) -> None:
    parser.add_argument("action", choices=("list", "show", "set-default"))
    parser.add_argument(
        "version", nargs="?", metavar="VERSION", help="number or alias; show without it shows the default version"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: of list all versions, of show one")
    add_settings(parser, PipelineConfig, ("registry", "model_name"))


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    config = settings(PipelineConfig, parsed)
    registry, name = connect(config.registry), config.model_name
    versions = {version.number: version for version in registry.versions(name)}
    aliases = registry.aliases(name)
    none = (
        f"there is no version of model {name!r} in {config.registry or REGISTRY}; a run of the pipeline with this "
        "registry and model_name adds one (`python -m pipeline run`, or `submit` on Vertex AI)"
    )
    check(bool(versions) or parsed.action == "list", none)
    # Other commands take NAME@VERSION, and the list prints it.
    chosen = (parsed.version or "").removeprefix(f"{name}@")
    if parsed.action == "show":
        number = number_of(f"model {name!r}", chosen or DEFAULT, list(versions), aliases)
        if parsed.json:
            print(json.dumps(as_json(name, versions[number], aliases), indent=2))
        else:
            print("\n".join(facts(name, versions[number], aliases)))
        _tell(versions[number])
        return 0
    if parsed.action == "set-default":
        check(bool(chosen), "name the version: `python -m pipeline registry set-default VERSION`")
        number = number_of(f"model {name!r}", chosen, list(versions), aliases)
        registry.set_alias(name, DEFAULT, number)
        aliases = registry.aliases(name)
        _tell(versions[number])
    if parsed.json:
        print(json.dumps([as_json(name, version, aliases) for version in versions.values()], indent=2))
    else:
        print("\n".join(table(name, versions.values(), aliases)) if versions else f"T{none[1:]}")
    return 0


def _tell(version: Version) -> None:
    """Print what a user must know of a version that was trained on generated shapes."""
    if notice := generated.of_model(version.model_config):
        print(f"note: {notice}", file=sys.stderr)
