"""The ceilings of pyproject.toml, which shut out later releases. CONTRIBUTING.md says of each why, and until when.

`python -m tests.ceilings` prints the requirements without them, as overrides for uv: `make check-newest` installs
these and runs the tests. `python -m tests.ceilings --due` names the ceilings whose day has come.
"""

import datetime
import re
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.guide import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROW = re.compile(r"^\| (`[^|]+`) \| [^|]+ \| (\d{4}-\d{2}-\d{2}) \|$", re.MULTILINE)
OTHER_MACHINES = ("gpu", "tpu")
"""The extras that the machine of a test does not install."""


def requirements(without: tuple[str, ...] = ()) -> list[Requirement]:
    """What pyproject.toml requires, but for these extras and for the project's own ones."""
    lines = list(PROJECT["dependencies"])
    for extra, more in PROJECT["optional-dependencies"].items():
        lines += more if extra not in without else []
    return [each for each in map(Requirement, lines) if each.name != PROJECT["name"]]


def ceilings(requirement: Requirement) -> set[str]:
    """The parts of a requirement that shut out later releases, such as `kfp<2.18`."""
    return {f"{requirement.name}{each}" for each in requirement.specifier if not each.operator.startswith(">")}


def table() -> dict[str, datetime.date]:
    """The day of the next look at each ceiling, by the table of CONTRIBUTING.md."""
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    return {
        name: datetime.date.fromisoformat(day) for names, day in rows for name in re.findall("`([^`]+)`", names)
    }


def overrides() -> list[str]:
    """The requirements that have a ceiling, without it. uv takes them in place of what other packages ask for."""
    found = []
    for requirement in requirements(without=OTHER_MACHINES):
        if ceilings(requirement):
            floors = [str(each) for each in requirement.specifier if each.operator.startswith(">")]
            requirement.specifier = SpecifierSet(",".join(floors))
            found.append(str(requirement))
    return found


def main(arguments: list[str]) -> None:
    """Print the overrides, or name the ceilings whose day has come."""
    if not arguments:
        print("\n".join(overrides()))
        return
    due = [f"{name} ({day})" for name, day in table().items() if day <= datetime.date.today()]
    if due:
        sys.exit(f"look at these ceilings again, and write a later day into CONTRIBUTING.md: {', '.join(due)}")


if __name__ == "__main__":
    main(sys.argv[1:])
