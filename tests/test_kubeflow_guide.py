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
from pipeline.plan.fit import SCRATCH
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
    """The file and the parameters of each run that the guide starts, as kfp reads them."""
    for words in commands(KFP):
        file = words[words.index("--package-file") + 1]
        existing = [str(ROOT / "pipeline-kubeflow.yaml") if word == file else word for word in words]
        context = kfp_run.create.make_context("create", existing[5:])  # raises an error for an unknown flag
        pairs = [word.split("=", maxsplit=1) for word in context.params["args"]]
        yield file, {name: parse_parameter_value(value) for name, value in pairs}


def test_every_command_is_one_of_a_known_tool():
    assert {words[0] for words in commands()} == set(TOOLS)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """File of the guide -> the defaults of its parameters; compiled by the guide's commands."""
    folder = tmp_path_factory.mktemp("guide")
    (copied,) = commands("cp ")
    mine = folder / "cluster.toml"
    mine.write_text(
        (ROOT / copied[1]).read_text().replace("my-bucket", "a-bucket").replace("my-project", "a-project")
    )
    defaults = {}
    for words in commands("python -m pipeline compile"):
        assert copied == ["cp", "configs/kubeflow.toml", f"configs/{words[words.index('--env') + 1]}.toml"]
        file = words[words.index("--output") + 1]
        places = {"cluster": str(mine), file: str(folder / file)}
        main([places.get(word, word) for word in words[3:]])
        spec = next(yaml.safe_load_all((folder / file).read_text()))
        entries = spec["root"]["inputDefinitions"]["parameters"]
        defaults[file] = {name: entry["defaultValue"] for name, entry in entries.items()}
    return defaults


def test_compiled_files_are_those_that_are_run(compiled):
    assert {file for file, _ in started()} == set(compiled)
    for defaults in compiled.values():
        assert defaults["registry"] == "gs://a-bucket/msinet/models"
        assert defaults["checkpoint_dir"] == "gs://a-bucket/msinet/checkpoints"


def test_first_run_is_that_of_the_sample(compiled):
    (file, given), *_ = started()
    assert given == {}
    sample = tomllib.loads((CONFIGS / "sample.toml").read_text())["parameters"]
    assert {name: compiled[file][name] for name in sample} == sample


def test_other_commands_of_ours_are_parsed():
    for words in commands("python -m pipeline"):
        parse(words[3:])


def test_runs_of_the_guide_have_parameters_that_the_pipeline_accepts(compiled):
    for file, given in started():
        assert {name: convert(name, value) for name, value in given.items()} == given  # the API converts nothing
        defaults = {
            name: convert(name, value) for name, value in compiled[file].items() if PARAMETERS[name].kind is str
        }
        values = {**defaults, **given}
        validate(values, "kubeflow")
        require_sources(values)


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
    (mutation,) = policy["spec"]["mutations"]
    # To raise the limit, and to write, as root, to the folders of user 1000.
    assert 'add: ["SYS_RESOURCE", "DAC_OVERRIDE"]' in mutation["jsonPatch"]["expression"]


@pytest.mark.parametrize("name", ["bucket", "volume_claim", "registry", "checkpoint_dir", "checkpoint_minutes"])
def test_names_in_the_guide_are_keys_and_parameters(name):
    assert f"`{name}`" in GUIDE
    assert name in PARAMETERS or name in tomllib.loads((CONFIGS / "kubeflow.toml").read_text())
