"""What `make` installs, and with which settings. The tests build their own packages and need no network."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

from tests.test_makefile import ROOT, make
from tests.wheels import write_wheel

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


@pytest.fixture
def project(tmp_path):
    """The Makefile with pins of fake packages; its environment uses pip, uv and setuptools of this one."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "checks.mk", tmp_path / "tests")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    wheels, pins = tmp_path / "wheels", tmp_path / "requirements"
    pins.mkdir()
    shutil.copy(ROOT / "requirements" / "uv.py", pins)
    plain = write_wheel(wheels, "plain")
    (pins / "cpu.txt").write_text(plain + write_wheel(wheels, "cpus"))
    (pins / "gpu.txt").write_text(plain + write_wheel(wheels, "cuda"))
    (pins / "dev.txt").write_text(plain + write_wheel(wheels, "server") + write_wheel(wheels, "tools"))
    (pins / "uv.txt").write_text("")
    environment = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"])
    (environment / "bin" / "uv").symlink_to(pathlib.Path(sys.executable).parent / "uv")
    (environment / ".uv").touch()
    return tmp_path


@pytest.fixture(autouse=True)
def no_settings_of_uv(monkeypatch):
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)


def install(project, *arguments, target="install"):
    settings = {
        "PIP_FIND_LINKS": str(project / "wheels"),
        "PIP_NO_INDEX": "1",
        "UV_CACHE_DIR": str(project / "cache"),
    }
    return make(target, *arguments, folder=project, **settings)


def installed(project):
    folder = next((project / ".venv").glob("lib/python*/site-packages"))
    return {path.name.partition("-")[0] for path in folder.glob("*.dist-info")}


@linux_x86
def test_gpu_packages_replace_the_cpu_packages_until_gpu_is_0(project):
    assert install(project).returncode == 0
    assert install(project, "GPU=1").returncode == 0
    assert installed(project) == {"plain", "cuda", "server", "tools", "example"}
    # The choice is remembered without GPU=1, also when the pins change.
    assert "Nothing to be done" in install(project).stdout
    os.utime(project / "requirements" / "gpu.txt", (2**31, 2**31))
    assert install(project).returncode == 0
    assert installed(project) == {"plain", "cuda", "server", "tools", "example"}
    assert install(project, "GPU=0").returncode == 0
    assert installed(project) == {"plain", "cpus", "server", "tools", "example"}


def test_pins_are_installed_once_and_only_with_the_pinned_hash(project):
    pins = project / "requirements" / "cpu.txt"
    right = pins.read_text()
    kept, _, _ = right.rpartition("--hash=")
    pins.write_text(f"{kept}--hash=sha256:{'0' * 64}\n")
    refused = install(project)
    assert refused.returncode != 0
    assert "hash" in refused.stderr.lower()
    pins.write_text(right)
    assert install(project).returncode == 0
    assert installed(project) == {"plain", "cpus", "server", "tools", "example"}
    assert "Nothing to be done" in install(project).stdout


def test_gpu_is_one_or_zero(project):
    finished = install(project, "GPU=$(shell touch pwned)")
    assert finished.returncode != 0
    assert "GPU is 1 for NVIDIA GPUs or 0 for none" in finished.stderr
    assert not (project / "pwned").exists()


def test_the_demo_installs_its_own_packages_and_other_commands_add_theirs(project):
    finished = install(project, target=".venv/.demo")
    assert finished.returncode == 0, finished.stderr
    assert " + " not in finished.stderr
    assert installed(project) == {"plain", "server", "example"}
    (plain,) = project.glob(".venv/lib/python*/site-packages/plain-*.dist-info")
    first = plain.stat().st_ino
    assert install(project).returncode == 0
    assert installed(project) == {"plain", "cpus", "server", "tools", "example"}
    assert plain.stat().st_ino == first
    # All that the demo needs is there now: it uses this environment, with its pins.
    assert "Installing" not in install(project, "--dry-run", target="demo").stdout


def test_the_demo_takes_no_package_with_another_hash(project):
    pins = project / "requirements" / "dev.txt"
    text = pins.read_text()
    pins.write_text(text.replace(text.partition("server")[2].partition("sha256:")[2][:64], "0" * 64))
    refused = install(project, target=".venv/.demo")
    assert refused.returncode != 0
    assert "hash" in refused.stderr.lower()
