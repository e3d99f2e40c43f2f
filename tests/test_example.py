"""The example pipeline: it runs on this machine, task by task, and compiles from the committed components."""

import json
import os
import pathlib
import subprocess
import sys

import yaml
from kfp import compiler
from kfp.components import load_component_from_file

from examples.reuse_components import COMPONENTS, example
from tests.narrow import narrow_pretrained
from tests.narrow_tasks import sitecustomize

ROOT = pathlib.Path(__file__).parents[1]
RUN = """
from kfp import local
from examples.reuse_components import example
local.init(local.SubprocessRunner(use_venv=False), pipeline_root="outputs", enable_caching=False)
example(settings={"max_examples": 16})
"""


def test_example_trains_and_evaluates_with_the_components_alone(tmp_path):
    narrow = pathlib.Path(sitecustomize.__file__).parent
    with narrow_pretrained():
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (narrow, ROOT)))}
        subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, env=environment, check=True, capture_output=True)
    (metrics,) = tmp_path.glob("outputs/*/evaluate-model/executor_output.json")
    values = json.loads(metrics.read_text())["artifacts"]["metrics"]["artifacts"][0]["metadata"]
    assert values["images"] == 16
    assert values["kld"] > 0
    (decision,) = tmp_path.glob("outputs/*/evaluate-model/decision")
    assert "The current default, `pretrained`, stays: " in decision.read_text()


def test_example_compiles_and_every_input_and_output_of_its_components_is_described(tmp_path):
    compiler.Compiler().compile(example, str(tmp_path / "example.yaml"))
    spec = yaml.safe_load((tmp_path / "example.yaml").read_text())
    assert set(spec["root"]["dag"]["tasks"]) == {"fetch-dataset", "train-msinet", "evaluate-model"}
    files = sorted(COMPONENTS.glob("*.yaml"))
    assert len(files) == 3
    for path in files:
        assert load_component_from_file(str(path)).component_spec.name == path.stem.replace("_", "-")
        root = yaml.safe_load(path.read_text())["root"]
        ports = [port for kind in ("inputDefinitions", "outputDefinitions") for port in root[kind].values()]
        assert all(each.get("description") for named in ports for each in named.values()), path
