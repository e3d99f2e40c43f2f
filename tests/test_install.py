"""What `make` installs, from nothing: an interpreter, and an index of packages that are made here.

uv and setuptools are the real ones, packed again as wheels, so nothing needs a network.
"""

import os
import shutil
import sys

import pytest

from tests.test_makefile import ROOT, make
from tests.wheels import repack, write_wheel

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "example"
version = "1"
dependencies = ["plain"]
[project.optional-dependencies]
cpu = ["cpus"]
gpu = ["cuda"]
studio = ["server"]
dev = ["example[studio]", "tools"]
[tool.setuptools]
packages = []
"""
linux_x86 = pytest.mark.skipif(
    os.uname()[::4] != ("Linux", "x86_64"), reason="TensorFlow for GPUs needs Linux x86-64"
)


@pytest.fixture(scope="session")
def index(tmp_path_factory):
    """A folder of wheels, and the pins of uv and of what builds a project."""
    folder = tmp_path_factory.mktemp("wheels")
    return folder, repack(folder, "uv"), repack(folder, "setuptools")


@pytest.fixture
def project(tmp_path, index):
    """The Makefile with pins of fake packages."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "checks.mk", tmp_path / "tests")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "home").mkdir()
    wheels, uv, setuptools = index
    pins = tmp_path / "requirements"
    pins.mkdir()
    shutil.copy(ROOT / "requirements" / "uv.py", pins)
    plain = write_wheel(wheels, "plain")
    (pins / "cpu.txt").write_text(plain + write_wheel(wheels, "cpus") + setuptools)
    (pins / "gpu.txt").write_text(plain + write_wheel(wheels, "cuda") + setuptools)
    (pins / "dev.txt").write_text(plain + write_wheel(wheels, "server") + write_wheel(wheels, "tools"))
    (pins / "uv.txt").write_text(uv)
    return tmp_path


@pytest.fixture
def install(project, index, monkeypatch):
    """Runs `make` with an empty home, the interpreter of these tests, and nothing of their environment."""
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_", "PYTHON", "VIRTUAL_ENV"))]:
        monkeypatch.delenv(name)
    settings = {
        "HOME": str(project / "home"),
        "PATH": os.pathsep.join((f"{sys.base_prefix}/bin", "/usr/bin", "/bin")),
        "PIP_FIND_LINKS": str(index[0]),
        "PIP_NO_INDEX": "1",
    }
    return lambda *arguments, target="install": make(target, *arguments, folder=project, **settings)


def installed(project):
    folder = next((project / ".venv").glob("lib/python*/site-packages"))
    there = {path.name.partition("-")[0] for path in folder.glob("*.dist-info")}
    return there - {"pip", "setuptools", "uv"}


@linux_x86
def test_gpu_packages_replace_the_cpu_packages_until_gpu_is_0(project, install):
    assert install().returncode == 0
    assert install("GPU=1").returncode == 0
    assert installed(project) == {"plain", "cuda", "server", "tools", "example"}
    # The choice is remembered without GPU=1, also when the pins change.
    assert "Nothing to be done" in install().stdout
    os.utime(project / "requirements" / "gpu.txt", (2**31, 2**31))
    assert install().returncode == 0
    assert installed(project) == {"plain", "cuda", "server", "tools", "example"}
    assert install("GPU=0").returncode == 0
    assert installed(project) == {"plain", "cpus", "server", "tools", "example"}


def test_pins_are_installed_once_and_only_with_the_pinned_hash(project, install):
    pins = project / "requirements" / "cpu.txt"
    right = pins.read_text()
    kept, _, _ = right.rpartition("--hash=")
    pins.write_text(f"{kept}--hash=sha256:{'0' * 64}\n")
    refused = install()
    assert refused.returncode != 0
    assert "hash" in refused.stderr.lower()
    pins.write_text(right)
    assert install().returncode == 0
    assert installed(project) == {"plain", "cpus", "server", "tools", "example"}
    assert "Nothing to be done" in install().stdout


def test_gpu_is_one_or_zero(project, install):
    finished = install("GPU=$(shell touch pwned)")
    assert finished.returncode != 0
    assert "GPU is 1 for NVIDIA GPUs or 0 for none" in finished.stderr
    assert not (project / "pwned").exists()


def test_the_demo_installs_its_own_packages_and_other_commands_add_theirs(project, install):
    finished = install(target=".venv/.demo")
    assert finished.returncode == 0, finished.stderr
    assert " + " not in finished.stderr
    assert installed(project) == {"plain", "server", "example"}
    (plain,) = project.glob(".venv/lib/python*/site-packages/plain-*.dist-info")
    first = plain.stat().st_ino
    assert install().returncode == 0
    assert installed(project) == {"plain", "cpus", "server", "tools", "example"}
    assert plain.stat().st_ino == first
    # All that the demo needs is there now: it uses this environment, with its pins.
    assert "Installing" not in install("--dry-run", target="demo").stdout


@pytest.mark.parametrize(("pins", "name"), [("dev", "server"), ("cpu", "setuptools")])
def test_the_demo_takes_no_package_with_another_hash(pins, name, project, install):
    path = project / "requirements" / f"{pins}.txt"
    text = path.read_text()
    digest = text.partition(f"{name}==")[2].partition("sha256:")[2][:64]
    path.write_text(text.replace(digest, "0" * 64))
    refused = install(target=".venv/.demo")
    assert refused.returncode != 0
    assert "hash" in refused.stderr.lower()
    assert name in refused.stderr


def test_a_package_that_is_not_pinned_is_named(project, install):
    pyproject = project / "pyproject.toml"
    pyproject.write_text(PYPROJECT.replace('"plain"', '"plain", "extraordinary"'))
    refused = install()
    assert refused.returncode != 0
    assert "extraordinary" in refused.stderr
    assert "make requirements" in refused.stderr


def test_a_project_that_cannot_be_built_says_why_and_blames_no_pins(project, install):
    (project / "pyproject.toml").write_text(PYPROJECT.replace("packages = []", 'packages = ["nothere"]'))
    refused = install(target=".venv/.demo")
    assert refused.returncode != 0
    assert "nothere" in refused.stderr
    assert "make requirements" not in refused.stderr
