"""Reads images/Dockerfile, as far as the project's own file goes."""

import dataclasses
import pathlib
import re
import shlex

DOCKERFILE = pathlib.Path(__file__).parent.parent / "images" / "Dockerfile"
SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")


@dataclasses.dataclass
class Stage:
    """What is between one FROM and the next."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def of(self, instruction):
        """The arguments of each `instruction`."""
        return [arguments for each, arguments in self.instructions if each == instruction]

    def pairs(self, instruction):
        """What every ENV or LABEL sets: name to value, as written."""
        words = [word for arguments in self.of(instruction) for word in shlex.split(arguments)]
        assert all("=" in word for word in words), words
        return dict(word.split("=", 1) for word in words)


def instructions(text):
    """(instruction, arguments) of each line, comments left out and continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    split = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(name, arguments) for name, arguments in split]


def stages(text):
    """The arguments declared before the first FROM, and the stages; the last one is called `final`."""
    found, before = [], []
    for name, arguments in instructions(text):
        if name == "FROM":
            base, _, alias = arguments.partition(" AS ")
            found.append(Stage(alias or "final", base))
        elif found:
            found[-1].instructions.append((name, arguments))
        else:
            before.append((name, arguments))
    assert all(name == "ARG" for name, _ in before), before
    return dict(arguments.partition("=")[::2] for _, arguments in before), {stage.name: stage for stage in found}


def environment_of(variant, commit="0123456789ab"):
    """The variables that the image of `variant` sets, but for the search paths, which add to its base's."""
    _, found = stages(DOCKERFILE.read_text())
    variables = {}
    for name in ("base", variant, "final"):
        variables |= found[name].pairs("ENV")
    return {
        name: value.replace("${COMMIT}", commit) for name, value in variables.items() if name not in SEARCH_PATHS
    }
