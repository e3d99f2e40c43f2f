"""docs/kubeflow.md, followed as far as it goes without a cluster: our commands run, and kfp parses its own."""

import re
import shlex
import tomllib

import pytest
import yaml
from kfp.cli import run as kfp_run
from kfp.cli.utils.parsing import parse_parameter_value

from pipeline.__main__ import main, parse
from pipeline.graph.environment import CONFIGS, load_environment
from pipeline.graph.parameters import PARAMETERS, convert, require_sources, validate
from pipeline.plan.places import SCRATCH
from tests.test_makefile import ROOT
from trainer.accelerators import ACCELERATORS

GUIDE = (ROOT / "docs" / "kubeflow.md").read_text()
MANIFESTS = ROOT / "docs" / "kubernetes"
TOOLS = ("export", "make", "source", "gcloud", "kubectl", "docker", "cp", "kfp", "python")
KFP = "kfp --endpoint http://localhost:8080 run create "


def commands(beginning=""):
    """The words of each command of the guide's blocks that begins with `beginning`."""
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", GUIDE, re.M | re.S) for line in block.splitlines()]
    found = [shlex.split(line) for line in lines if line.startswith(beginning)]
    assert found, f"the guide has no command that begins with {beginning!r}"
    return found


def manifest(name):
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def started():
    """The parameters of each run that the guide starts, as kfp reads them."""
    for words in commands(KFP):
        assert words[words.index("--package-file") + 1] == "cluster.yaml"
        existing = [str(ROOT / "pipeline-kubeflow.yaml") if word == "cluster.yaml" else word for word in words]
        context = kfp_run.create.make_context("create", existing[5:])  # raises an error for an unknown flag
        pairs = [word.split("=", maxsplit=1) for word in context.params["args"]]
        yield {name: parse_parameter_value(value) for name, value in pairs}


def test_every_command_is_one_of_a_known_tool():
    assert {words[0] for words in commands()} == set(TOOLS)


def test_guide_compiles_its_copy_of_the_example(tmp_path, capsys):
    (copied,) = commands("cp ")
    assert (ROOT / copied[1]) == CONFIGS / "kubeflow.toml"
    (compiled,) = commands("python -m pipeline compile")
    mine = tmp_path / "cluster.toml"
    mine.write_text((ROOT / copied[1]).read_text().replace("my-bucket", "a-bucket"))
    values = {"cluster": str(mine), "cluster.yaml": str(tmp_path / "cluster.yaml")}
    main([values.get(word, word) for word in compiled[3:]])
    assert "wrote" in capsys.readouterr().out
    assert "gs://a-bucket/msinet/models" in (tmp_path / "cluster.yaml").read_text()
    assert copied[2] == f"configs/{compiled[compiled.index('--env') + 1]}.toml"


def test_other_commands_of_ours_are_parsed():
    for words in commands("python -m pipeline"):
        parse(words[3:])


def test_runs_of_the_guide_have_parameters_that_the_pipeline_accepts():
    environment = load_environment("kubeflow")
    for given in started():
        converted = {name: convert(name, value) for name, value in given.items()}
        assert converted == given, "the API refuses values of another type"
        values = {**environment.derived, **environment.parameters, **converted}
        validate(values, "kubeflow")
        require_sources(values)


def test_first_run_is_that_of_the_sample():
    first, *_ = started()
    assert first == tomllib.loads((CONFIGS / "sample.toml").read_text())["parameters"]


def test_node_pools_are_machines_of_the_table():
    machines = {row.machine_type: row for row in ACCELERATORS.values()}
    rows = {}
    for words in commands("gcloud container node-pools create"):
        flags = dict(word.removeprefix("--").partition("=")[::2] for word in words[5:])
        row = machines.get(flags["machine-type"])
        if row is None:
            assert flags["machine-type"] == "e2-standard-16"  # a CPU pool may be any with these cores
            continue
        rows[words[4]] = row
        label = row.node_selector.get("cloud.google.com/gke-accelerator")
        expected = f"type={label},count={row.chips},gpu-driver-version=latest" if label else None
        assert flags.get("accelerator") == expected
        assert words[4].removesuffix("-spot") == row.name
        assert ("spot" in flags) == words[4].endswith("-spot")
    assert set(rows) == {"l4-spot", "v5e-4-spot"}


def test_files_of_the_guide_exist_and_none_is_left_out():
    named = {word for words in commands("kubectl") for word in words if word.startswith("docs/")}
    assert named == {f"docs/kubernetes/{path.name}" for path in MANIFESTS.iterdir()}


def test_lost_pods_are_retried_and_other_failures_are_not():
    (patch,) = manifest("workflow-defaults.yaml")
    retry = yaml.safe_load(patch["data"]["workflowDefaults"])["spec"]["templateDefaults"]["retryStrategy"]
    assert retry["retryPolicy"] == "Always"
    terms = [term.strip() for term in retry["expression"].split("||")]
    assert terms == [
        "lastRetry.status == 'Error'",
        "lastRetry.exitCode == '143'",
        "lastRetry.message contains 'node shutdown'",
    ]


def test_volume_and_pipeline_root_fit_the_environment():
    (claim,) = manifest("volume.yaml")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    (root,) = manifest("pipeline-root.yaml")
    place = load_environment("kubeflow").bucket
    assert root["data"]["defaultPipelineRoot"] == f"{place}/runs"
    assert not place.startswith(SCRATCH)


def test_policy_is_for_pods_with_tpu_chips():
    policy, binding = manifest("tpu-locked-memory.yaml")
    (condition,) = policy["spec"]["matchConditions"]
    assert f'"{ACCELERATORS["v5e-1"].resource_name}"' in condition["expression"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


@pytest.mark.parametrize("name", ["bucket", "volume_claim", "registry", "checkpoint_dir", "checkpoint_minutes"])
def test_names_in_the_guide_are_keys_and_parameters(name):
    assert f"`{name}`" in GUIDE
    assert name in PARAMETERS or name in tomllib.loads((CONFIGS / "kubeflow.toml").read_text())
