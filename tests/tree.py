"""The tree of CONTRIBUTING.md, made from the first sentence of each module: `python -m tests.tree` writes it."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"(?s)(?<=## Tree\n```\n).*?(?=```)")
WIDTH = 26
OTHERS = {
    "pipeline.yaml": "Compiled for Vertex AI; pipeline-kubeflow.yaml for Kubeflow. `make compile` writes both.",
    "Makefile": "Every command.",
    "configs/": "Environments: sample, local, vertex, kubeflow.",
    "images/": "One Dockerfile for cpu, gpu and tpu, the build that publishes them, and one for serving.",
    "infra/": "Terraform: APIs, buckets, registries, accounts.",
    "requirements/": "Pins with hashes.",
    "benchmarks/": "Scripts that measure; docs/benchmarks.md has their figures.",
    "docs/": "Guides, results, decisions (adr/), the log of experiments; site/ builds the site.",
    "examples/": "Images for the commands of the guides, with their licences.",
    "tests/": "Mirrors the packages; golden/ has what the reference returned.",
}


def sentence(path):
    """The first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=[.?:])\s(?=[A-Z`])", paragraph)[0].rstrip(":")


def lines(folder, depth=0):
    """A line for a package, and for each module and package in it."""
    indent = "  " * depth
    yield f"{indent + folder.name + '/':<{WIDTH}} {sentence(folder / '__init__.py')}"
    for path in sorted(folder.glob("*.py")):
        if not path.name.startswith("__"):
            yield f"{indent + '  ' + path.name:<{WIDTH}} {sentence(path)}"
    for path in sorted(folder.glob("*/__init__.py")):
        yield from lines(path.parent, depth + 1)


def tree():
    """The content of the code block."""
    others = [f"{name:<{WIDTH}} {title}" for name, title in OTHERS.items()]
    packages = [line for name in ("trainer", "components", "pipeline") for line in lines(ROOT / name)]
    return "\n".join([*others[:2], *packages, *others[2:]]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: tree(), PAGE.read_text()))
