"""The pins of requirements/: complete, with hashes, and the same versions on every machine."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests import ceilings
from tests.ceilings import PROJECT
from tests.guide import ROOT

LINUX = {"sys_platform": "linux", "platform_machine": "x86_64"}
LINUX_ON_ARM = {"sys_platform": "linux", "platform_machine": "aarch64"}
MAC = {"sys_platform": "darwin", "platform_machine": "arm64"}
PLATFORMS = {
    "cpu": (LINUX, LINUX_ON_ARM, MAC),
    "gpu": (LINUX,),
    "tpu": (LINUX,),
    "dev": (LINUX, LINUX_ON_ARM, MAC),
}
LINE = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.+]*( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")


def requirements(name):
    """Each requirement of requirements/NAME.txt."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", "").splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert [line for line in pinned if not LINE.fullmatch(line)] == []
    return [Requirement(line.partition("--hash")[0]) for line in pinned]


def applies(requirement, platform, python):
    machine = {**platform, "python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker is None or requirement.marker.evaluate(machine)


def pins(name, platform=LINUX, python="3.11"):
    """Version of each package that requirements/NAME.txt has for a platform."""
    kept = [each for each in requirements(name) if applies(each, platform, python)]
    return {each.name: str(each.specifier).removeprefix("==") for each in kept}


def required(extra):
    """The requirements in pyproject.toml with the pipeline, one extra and the extras that it includes."""
    extras = PROJECT["optional-dependencies"]
    lines = [*map(Requirement, PROJECT["dependencies"] + extras["pipeline"] + extras[extra])]
    included = [name for line in lines if line.name == PROJECT["name"] for name in line.extras]
    lines += [Requirement(line) for name in included for line in extras[name]]
    return [line for line in lines if line.name != PROJECT["name"]]


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("name", PLATFORMS)
def test_pins_satisfy_the_project(name, python):
    for platform in PLATFORMS[name]:
        pinned = pins(name, platform, python)
        for requirement in required(name):
            if applies(requirement, platform, python):
                version = pinned.get(canonicalize_name(requirement.name))
                assert version is not None, f"{requirement.name} is not pinned: run `make requirements`"
                assert requirement.specifier.contains(version), f"{requirement} is pinned at {version}"


@pytest.mark.parametrize("name", ["cpu", "gpu", "tpu"])
def test_machines_have_one_tensorflow_and_no_tools(name):
    for platform in PLATFORMS[name]:
        pinned = pins(name, platform)
        versions = [pinned[each] for each in pinned if re.fullmatch(r"tensorflow(-cpu|-tpu)?", each)]
        assert versions == ["2.19.1" if name == "tpu" else "2.20.0"]
        assert not {"pytest", "ruff", "mypy"} & pinned.keys()
    assert not [each for each in pins("dev") if each.startswith("tensorflow")]


def test_sets_agree_on_every_version():
    cpu = pins("cpu")
    for name in ("gpu", "dev"):  # an older TensorFlow drives TPUs, and asks for older packages
        other = pins(name)
        shared = cpu.keys() & other.keys()
        assert len(shared) > 50
        assert {each: other[each] for each in shared} == {each: cpu[each] for each in shared}


@pytest.mark.parametrize("name", ["uv", "tpu-check", "gpu-check", "tensorflow-2.15", "cluster", "audit"])
def test_the_other_sets_are_pinned_with_hashes(name):
    assert requirements(name)


def test_each_ceiling_has_a_reason_and_a_day_of_the_next_look():
    assert ceilings.table().keys() == set().union(*map(ceilings.ceilings, ceilings.requirements()))


def test_no_ceiling_shuts_out_a_patch_release():
    """But that of libtpu, whose releases 0.0.N each have an interface of their own."""
    pinned = {name: version for each in PLATFORMS for name, version in pins(each).items()}
    tpu = pins("tpu")
    for requirement in ceilings.requirements():
        name = canonicalize_name(requirement.name)
        version = Version(tpu[name] if requirement.name == "tensorflow-tpu" else pinned.get(name, "0"))
        patch = f"{version.major}.{version.minor}.{version.micro + 1}"
        if ceilings.ceilings(requirement) and name in pinned and name != "libtpu":
            assert requirement.specifier.contains(patch), f"{requirement} shuts out {patch}"


def test_overrides_allow_the_next_major_release():
    by_name = {each.name: each.specifier for each in map(Requirement, ceilings.overrides())}
    assert {"kfp", "google-cloud-aiplatform", "keras", "tensorflow-cpu"} <= by_name.keys()
    assert [name for name, specifier in by_name.items() if not specifier.contains("9999.0")] == []
