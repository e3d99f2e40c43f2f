"""List the versions in the model registry, show one, or set the default version."""

import argparse
import json
import sys
from collections.abc import Sequence

from pipeline.graph.parameters import PipelineConfig
from pipeline.registry.register import connect
from pipeline.vertex import checks
from trainer import generated
from trainer.artifacts import DEFAULT, REGISTRY
from trainer.errors import check
from trainer.models.registry_layout import number_of
from trainer.parser import Parser
from trainer.settings_cli import add_settings, settings

HELP = "list model versions, show one, or set the default"


def configure(parser: Parser) -> None:
    parser.add_argument("action", choices=("list", "show", "set-default"))
    parser.add_argument("version", nargs="?", help="number or alias; show without it shows the default version")
    add_settings(parser, PipelineConfig, ("registry", "model_name"))


def execute(parsed: argparse.Namespace, assignments: Sequence[str]) -> int:
    config = settings(PipelineConfig, parsed)
    checks.refuse_examples({"registry": config.registry})
    registry, name = connect(config.registry), config.model_name
    versions = {version.number: version for version in registry.versions(name)}
    aliases = registry.aliases(name)
    check(bool(versions), f"there is no version of model {name!r} in {config.registry or REGISTRY}")
    if parsed.action == "show":
        number = number_of(f"model {name!r}", parsed.version or DEFAULT, list(versions), aliases)
        print(json.dumps(versions[number].record, indent=2))
        if notice := generated.of_model(versions[number].model_config):
            print(f"note: {notice}", file=sys.stderr)
        return 0
    if parsed.action == "set-default":
        check(parsed.version is not None, "name the version: `python -m pipeline registry set-default VERSION`")
        number = number_of(f"model {name!r}", parsed.version, list(versions), aliases)
        registry.set_alias(name, DEFAULT, number)
        aliases = registry.aliases(name)
    for version in versions.values():
        names = [alias for alias, number in aliases.items() if number == version.number]
        fields = [f"{version.number:>4}", version.record.get("created", ""), version.place, ", ".join(names)]
        fields += [generated.MARK] if generated.is_sample(version.model_config) else []
        print("  ".join(fields).rstrip())
    return 0
