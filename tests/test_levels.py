"""Imports go down: the table of levels, and a walk through all imports that holds it."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).parent.parent
LEVELS = [
    line.split()
    for line in """
    trainer.errors trainer.evaluation.metric_table trainer.io.runtime
    trainer.io.progress
    trainer.io.untrusted
    trainer.config trainer.evaluation.metrics trainer.data.datasets trainer.training.accelerators trainer.io.files

    trainer.artifacts

    trainer.storage trainer.cli trainer.models.provenance
    trainer.data.downloads trainer.io.archive_files
    trainer.models.convolution
    trainer.models.layers trainer.data.preprocess trainer.io.pictures trainer.prediction.heat
    trainer.models.network
    trainer.data trainer.models
    trainer.training trainer.prediction
    trainer.evaluation
    trainer.evaluation.reports
    trainer.training.probe
    trainer.commands
    trainer.api trainer.__main__
    lifecycle.vertex_api lifecycle.machines.benchmark_results
    lifecycle.run_state lifecycle.webhook lifecycle.argo
    lifecycle.machines.plan lifecycle.registry
    lifecycle.machines.training_job
    lifecycle.parameters
    lifecycle.run_settings
    lifecycle.preflight
    lifecycle.run_outcome
    components
    pipeline.graph
    pipeline.local pipeline.vertex
    pipeline.commands
    pipeline.__main__
    studio.browser_settings
    studio.browser studio.difference
    studio.web_pages
    studio.designs
    studio.demo studio.verdicts
    studio.commands
    studio.__main__
    """.splitlines()
    if line.strip()
]
"""From the ground up. A module imports from the lines above its own; in a package, from the package too."""


def modules(root):
    """Name -> file of every module of the five packages."""
    folders = (root / package for package in ("trainer", "lifecycle", "components", "pipeline", "studio"))
    files = (path for folder in folders for path in folder.rglob("*.py"))
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in files
    }


def imports(path, known):
    """The modules among `known` that a file imports, anywhere in it."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            # `from a.b import c` names the module a.b.c, or c of the module a.b.
            imported |= {name, name.rpartition(".")[0]} & known
    return imported


def place(module):
    """The level of a module, and the name by which the table has it."""
    levels = [
        (level, name)
        for level, names in enumerate(LEVELS)
        for name in names
        if module == name or module.startswith(f"{name}.")
    ]
    assert levels, f"{module} has no place in the table of levels"
    return max(levels, key=lambda place: len(place[1]))


def upward(graph):
    """The imports that do not go down, of `graph`: module -> the modules that it imports."""
    return [
        f"{importer} imports {imported}"
        for importer, its_imports in graph.items()
        for imported in its_imports
        if place(importer)[1] != place(imported)[1] and place(importer)[0] <= place(imported)[0]
    ]


def cycle(graph):
    """Modules that import one another in a circle; empty if there are none."""
    left = {module: set(imported) for module, imported in graph.items()}
    while leaves := [module for module, imported in left.items() if not imported & set(left)]:
        for module in leaves:
            del left[module]
    return sorted(left)


def import_graph():
    known = modules(ROOT)
    packages = {module for module, path in known.items() if path.name == "__init__.py"}  # they import nothing
    return {
        module: imports(path, known.keys() - packages) - {module}
        for module, path in known.items()
        if module not in packages
    }


def test_every_import_goes_down():
    graph = import_graph()
    assert len(graph) > 100
    assert upward(graph) == []


def test_the_studio_uses_the_python_api_alone():
    """It is a tool around the model, as others may build one: what it needs, the API offers to all."""
    imported = {
        name
        for module, names in import_graph().items()
        if module.partition(".")[0] == "studio"
        for name in names
        if name.partition(".")[0] != "studio"
    }
    assert imported == {"trainer.api"}


def test_no_modules_import_one_another_in_a_circle():
    assert cycle(import_graph()) == []


def test_every_line_of_the_table_names_modules_that_exist():
    known = modules(ROOT)
    assert [name for names in LEVELS for name in names if name not in known] == []
