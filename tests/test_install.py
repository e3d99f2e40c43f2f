"""What `make` installs, and with which settings. The tests build their own packages and need no network."""

import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import threading

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
demo = ["server"]
dev = ["example[demo]"]
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
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    wheels, pins = tmp_path / "wheels", tmp_path / "requirements"
    pins.mkdir()
    shutil.copy(ROOT / "requirements" / "uv.py", pins)
    plain = write_wheel(wheels, "plain")
    (pins / "cpu.txt").write_text(plain + write_wheel(wheels, "cpus"))
    (pins / "gpu.txt").write_text(plain + write_wheel(wheels, "cuda"))
    (pins / "dev.txt").write_text(plain + write_wheel(wheels, "server"))
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


def install(project, *arguments, **environment):
    return make_with_wheels(project, "install", *arguments, **environment)


def make_with_wheels(project, *arguments, **environment):
    settings = {
        "PIP_FIND_LINKS": str(project / "wheels"),
        "PIP_NO_INDEX": "1",
        "UV_CACHE_DIR": str(project / "cache"),
    }
    return make(*arguments, folder=project, **settings | environment)


def installed(project):
    folder = next((project / ".venv").glob("lib/python*/site-packages"))
    return {path.name.partition("-")[0] for path in folder.glob("*.dist-info")}


# === What is installed ===


def test_pins_are_installed_once(project):
    finished = install(project)
    assert finished.returncode == 0, finished.stderr
    assert installed(project) == {"plain", "cpus", "server", "example"}
    assert "Nothing to be done" in install(project).stdout


@pytest.mark.parametrize("forbidden", ["", "1"])
def test_bytecode_is_written_only_if_imports_may_not_write_it(project, forbidden):
    assert install(project, PYTHONDONTWRITEBYTECODE=forbidden).returncode == 0
    written = list(project.glob(".venv/lib/python*/site-packages/__pycache__/plain.*.pyc"))
    assert len(written) == bool(forbidden)


@linux_x86
def test_gpu_packages_replace_the_cpu_packages_until_gpu_is_0(project):
    assert install(project).returncode == 0
    assert install(project, "GPU=1").returncode == 0
    assert installed(project) == {"plain", "cuda", "server", "example"}
    # The choice is remembered without GPU=1, also when the pins change.
    assert "Nothing to be done" in install(project).stdout
    os.utime(project / "requirements" / "gpu.txt", (2**31, 2**31))
    assert install(project).returncode == 0
    assert installed(project) == {"plain", "cuda", "server", "example"}
    assert install(project, "GPU=0").returncode == 0
    assert installed(project) == {"plain", "cpus", "server", "example"}


@linux_x86
def test_failed_installation_for_gpus_is_repeated_for_gpus(project):
    pins = project / "requirements" / "gpu.txt"
    right = pins.read_text()
    pins.write_text(right.replace("cuda==1.0", "cuda==2.0"))
    assert install(project, "GPU=1").returncode != 0
    pins.write_text(right)
    assert install(project).returncode == 0
    assert installed(project) == {"plain", "cuda", "server", "example"}


def test_packages_of_the_user_survive_a_change_of_the_pins(project):
    assert install(project).returncode == 0
    write_wheel(project / "wheels", "mine")
    uv = project / ".venv" / "bin" / "uv"
    own = [uv, "pip", "install", "--no-index", "--find-links", project / "wheels", "mine"]
    subprocess.run([*own, "--python", project / ".venv" / "bin" / "python"], check=True, capture_output=True)
    os.utime(project / "pyproject.toml", (2**31, 2**31))
    assert "Nothing to be done" not in install(project).stdout
    assert installed(project) == {"plain", "cpus", "server", "example", "mine"}


def test_demo_installs_its_packages_first(project):
    (project / "trainer.py").write_text("import server, sys; print('serving', *sys.argv[1:])")
    finished = make_with_wheels(project, "demo", "ARGS=--port 8080")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.endswith("serving demo --port 8080\n")
    assert installed(project) == {"plain", "cpus", "server", "example"}


def test_pins_without_the_demos_packages_are_named(project):
    (project / "requirements" / "dev.txt").write_text("")
    finished = install(project)
    assert "needs what requirements/ does not pin" in failure(finished, project)
    assert "server" in finished.stderr


# === What cannot be installed ===


def failure(finished, project):
    """The last sentence of an installation that failed."""
    assert finished.returncode != 0
    assert not (project / ".venv" / ".installed").exists()
    lines = [line for line in finished.stderr.splitlines() if not line.startswith("make: ***")]
    return lines[-1]


@pytest.mark.parametrize("wrong", ["--hash=sha256:" + "0" * 64, ""])
def test_package_without_the_pinned_hash_is_refused_until_it_has_it(project, wrong):
    pins = project / "requirements" / "cpu.txt"
    right = pins.read_text()
    kept, _, _ = right.rpartition("--hash=")
    pins.write_text(f"{kept}{wrong}\n")
    finished = install(project)
    assert failure(finished, project).startswith("error: the packages could not be installed, as said above")
    assert "hash" in finished.stderr.lower()
    pins.write_text(right)
    assert install(project).returncode == 0
    assert "Nothing to be done" in install(project).stdout


def test_unreachable_index_is_an_error_with_a_remedy(project):
    nowhere = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:1/index", "UV_HTTP_RETRIES": "0"}
    for wheel in project.glob("wheels/*"):
        wheel.unlink()
    sentence = failure(install(project, **nowhere), project)
    assert "check your connection, or name your mirror with UV_DEFAULT_INDEX or with pip's index-url" in sentence


@pytest.mark.parametrize("missing", ["plain>=2", "unpinned"])
def test_pins_that_do_not_fit_the_project_are_named(project, missing):
    path = project / "pyproject.toml"
    path.write_text(PYPROJECT.replace('"plain"', f'"{missing}"'))
    finished = install(project)
    assert "needs what requirements/ does not pin" in failure(finished, project)
    assert "`make requirements`" in failure(finished, project)
    assert missing.partition(">")[0] in finished.stderr


@pytest.mark.parametrize("value", ["2", "yes", "", "$(shell touch pwned)"])
def test_gpu_is_one_or_zero(project, value):
    finished = install(project, f"GPU={value}")
    assert finished.returncode != 0
    assert "GPU is 1 for NVIDIA GPUs or 0 for none" in finished.stderr
    assert not (project / "pwned").exists()


@pytest.mark.parametrize(
    ("gpu", "here", "message"),
    [
        (1, "Darwin arm64", "TensorFlow 2.20 for GPUs is built for Linux x86_64; this Python is for Darwin arm64"),
        (
            1,
            "Linux aarch64",
            "TensorFlow 2.20 for GPUs is built for Linux x86_64; this Python is for Linux aarch64",
        ),
        (
            0,
            "Darwin x86_64",
            "for CPUs is built for Linux x86_64, Linux aarch64, Darwin arm64; this Python is for Darwin",
        ),
    ],
)
def test_machine_without_a_build_of_tensorflow_is_named(project, gpu, here, message):
    (site,) = (project / ".venv").glob("lib/python*/site-packages")
    system, machine = here.split()
    fake = f"import platform; platform.system = lambda: '{system}'; platform.machine = lambda: '{machine}'\n"
    (site / "fake.pth").write_text(fake)
    finished = install(project, f"GPU={gpu}")
    sentence = failure(finished, project)
    assert sentence.startswith("error: ")
    assert message in sentence
    assert installed(project) == set()


# === With the settings of pip ===


@pytest.fixture
def mirror(project):
    """The address of an index on loopback with the wheels, and the paths of the requests to it."""
    requested = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            super().do_GET()

        def log_message(self, *arguments):
            pass

    for wheel in (project / "wheels").iterdir():
        page = project / "mirror" / "index" / wheel.name.partition("-")[0] / "index.html"
        page.parent.mkdir(parents=True)
        shutil.copy(wheel, page.parent)
        page.write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    handler = functools.partial(Handler, directory=project / "mirror")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/index/", requested
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("place", ["variable", "file"])
def test_packages_come_from_the_mirror_that_pip_uses(project, mirror, place):
    address, requested = mirror
    settings = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": ""}
    if place == "variable":
        settings["PIP_INDEX_URL"] = address
    else:
        (project / "pip.conf").write_text(f"[install]\nindex-url = {address}\n")
        settings["PIP_CONFIG_FILE"] = str(project / "pip.conf")
    finished = install(project, **settings)
    assert finished.returncode == 0, finished.stderr
    assert any(path.endswith("/plain-1.0-py3-none-any.whl") for path in requested)
    assert installed(project) == {"plain", "cpus", "server", "example"}


def test_mirror_of_uv_also_provides_uv_itself(project, mirror):
    address, requested = mirror
    plain, _ = (project / "requirements" / "cpu.txt").read_text().splitlines()
    (project / "requirements" / "uv.txt").write_text(plain)
    (project / ".venv" / ".uv").unlink()
    finished = install(project, PIP_NO_INDEX="0", PIP_FIND_LINKS="", UV_DEFAULT_INDEX=address)
    assert finished.returncode == 0, finished.stderr
    assert requested[0] == "/index/plain/"
    assert installed(project) == {"plain", "cpus", "server", "example"}
