"""Imports go down: the table of levels, and a walk through all imports that holds it."""

import ast
import functools
import pathlib

from trainer.doors import homes_of

ROOT = pathlib.Path(__file__).parent.parent
LEVELS = [
    line.split()
    for line in """
    trainer.doors trainer.texts
    trainer.errors
    trainer.machine
    trainer.io
    trainer.pictures trainer.places
    trainer.settings
    trainer.network
    trainer.prediction
    trainer.datasets trainer.metrics
    trainer.witness
    trainer.data
    trainer.wording
    trainer.models
    trainer.batch trainer.training
    trainer.evaluation
    trainer.reports
    trainer.commands
    trainer.api trainer.tools trainer.__main__
    lifecycle.vertex
    lifecycle.machines lifecycle.registry
    lifecycle.runs
    components
    pipeline.graph
    pipeline.local pipeline.vertex
    pipeline.sweep
    pipeline.commands
    pipeline.__main__
    studio.browser_settings
    studio.browser studio.difference
    studio.emptiness studio.noise studio.web_pages
    studio.designs
    studio.demo studio.verdicts
    studio.site studio.verdict_pictures
    studio.commands
    studio.__main__
    serving.settings
    serving.maps serving.model
    serving.app
    serving.__main__
    """.splitlines()
    if line.strip()
]
"""From the ground up. A module imports from the lines above its own; in a package, from the package too."""


def modules(root):
    """Name -> file of every module of the six packages."""
    packages = ("trainer", "lifecycle", "components", "pipeline", "studio", "serving")
    folders = (root / package for package in packages)
    files = (path for folder in folders for path in folder.rglob("*.py"))
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in files
    }


def imports(path, known):
    """The modules among `known` that a file imports, anywhere in it, also through a door."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            homes = doors().get(node.module or "", {})
            names = [f"{homes.get(alias.name, node.module)}.{alias.name}" for alias in node.names]
        for name in names:
            # `from a.b import c` names the module a.b.c, or c of the module a.b.
            imported |= {name, name.rpartition(".")[0]} & known
    return imported


@functools.cache
def doors():
    """Room -> name -> the module that has it, of every room with a door."""
    stubs = {room: path.with_suffix(".pyi") for room, path in modules(ROOT).items()}
    return {
        room: {name: f"{room}.{home}" for name, home in homes_of(stub).items()}
        for room, stub in stubs.items()
        if stub.exists()
    }


def place(module):
    """The level of a module, and the name by which the table has it."""
    levels = [
        (level, name)
        for level, names in enumerate(LEVELS)
        for name in names
        if module == name or module.startswith(f"{name}.")
    ]
    assert len(levels) == 1, f"{module} has {len(levels)} places in the table of levels: {levels}"
    return levels[0]


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
    packages = {"trainer", "lifecycle", "pipeline", "studio", "serving"}  # empty, and above nothing
    return {
        module: imports(path, known.keys() - packages) - {module}
        for module, path in known.items()
        if module not in packages
    }


def test_every_import_goes_down():
    graph = import_graph()
    assert len(graph) > 100
    assert upward(graph) == []


def test_the_studio_uses_the_python_api_and_the_tools_alone():
    """It is a tool around the model, as others may build one: what it needs, these two offer to all."""
    imported = {
        name
        for module, names in import_graph().items()
        if module.partition(".")[0] == "studio"
        for name in names
        if name.partition(".")[0] != "studio"
    }
    assert imported == {"trainer.api", "trainer.tools"}


def reached_from(graph, modules):
    """The modules, and all that they import, directly or through others."""
    reached, ahead = set(), set(modules)
    while ahead:
        module = ahead.pop()
        reached.add(module)
        ahead |= graph[module] - reached
    return reached


def test_predictions_need_nothing_that_downloads_or_imports_weights():
    """Whoever runs `predict` gives it a model: `author:NAME` is resolved where the command line is read."""
    reached = reached_from(import_graph(), ["trainer.commands.predict"])
    above = ("trainer.datasets", "trainer.evaluation", "trainer.training", "trainer.models.author")
    assert {module for module in reached if module.startswith((*above, "trainer.network.importing"))} == set()


def test_what_never_runs_in_a_pod_is_in_the_pipeline_alone():
    """The tasks of a run lead to every module of `lifecycle`, and to none of `pipeline` or `studio`."""
    graph = import_graph()
    reached = reached_from(graph, {module for module in graph if module.startswith("components")})
    reached |= {module.rpartition(".")[0] for module in reached}  # a package runs before its modules
    shared = {module for module in graph if module.startswith("lifecycle.")}
    assert shared - reached == set()
    assert {module for module in reached if module.startswith(("pipeline", "studio"))} == set()


def test_no_modules_import_one_another_in_a_circle():
    assert cycle(import_graph()) == []


def test_every_line_of_the_table_names_modules_that_exist():
    known = modules(ROOT)
    assert [name for names in LEVELS for name in names if name not in known] == []
