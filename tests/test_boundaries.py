"""What may load what: the pipeline is light, the trainer knows no pipeline, and `--help` loads nothing slow.

Each check runs in a fresh process, since this one has long loaded everything.
"""

import importlib.util
import pathlib
import pkgutil
import subprocess
import sys

import trainer

REPORT = "import sys; print(*sys.modules)"
STANDARD_LIBRARY_ONLY = (
    "trainer",
    "trainer.training.accelerators",
    "trainer.settings.fields",
    "trainer.datasets.table",
    "trainer.data.prepared_data",
    "trainer.errors",
    "trainer.io.files",
    "trainer.metrics.metric_table",
    "trainer.settings.flags",
    "trainer.commands.predict",
)
TRAINER_MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(trainer.__path__, "trainer.")
    if not module.name.endswith("__main__")
)


def modules_after(code):
    """Names of the modules that a fresh interpreter has loaded after `code`, and those it had before."""
    arguments = [sys.executable, "-c", f"{REPORT}\n{code}\n{REPORT}"]
    finished = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    return set(lines[-1].split()), set(lines[0].split())


def loaded(modules, *packages):
    return sorted(
        name for name in modules if any(name == each or name.startswith(f"{each}.") for each in packages)
    )


def test_every_module_beside_the_trainer_loads_no_tensorflow_or_keras():
    code = """
import importlib, pkgutil, components, lifecycle, pipeline, studio
for package in (components, lifecycle, pipeline, studio):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""
    modules, _ = modules_after(code)
    assert all(loaded(modules, package) for package in ("components", "lifecycle", "pipeline", "studio", "kfp"))
    assert not loaded(modules, "tensorflow", "keras")


def test_help_and_the_comparison_of_accelerators_need_neither_tensorflow_nor_the_cloud():
    commands = "main(['plan'])\ntry: main(['run', '--help'])\nexcept SystemExit: pass"
    modules, _ = modules_after(f"from pipeline.__main__ import main\n{commands}")
    assert "pipeline.commands.plan" in modules
    assert not loaded(modules, "tensorflow", "keras", "numpy", "kfp", "google.cloud.aiplatform", "pydantic")


def test_trainer_loads_no_pipeline_library():
    imports = "\n".join(f"import {name}" for name in (*TRAINER_MODULES, "trainer.__main__"))
    modules, _ = modules_after(imports)
    assert set(TRAINER_MODULES) <= modules
    assert not loaded(modules, "kfp", "google.cloud.aiplatform", "lifecycle", "pipeline", "components", "studio")


def test_shared_tables_load_the_standard_library_only():
    modules, before = modules_after(f"import {', '.join(STANDARD_LIBRARY_ONLY)}")
    others = {each.partition(".")[0] for each in modules - before} - sys.stdlib_module_names
    assert others - {"typing_extensions"} == {"trainer"}


def test_network_is_written_in_keras_alone():
    """Another backend must be able to run it, so none of its lines names TensorFlow."""
    source = pathlib.Path(importlib.util.find_spec("trainer.network.msinet.keras_model").origin).read_text()
    assert "import keras" in source or "from keras" in source
    assert "import tensorflow" not in source
    assert "from tensorflow" not in source
