"""What is written down exists: commands, flags, files, pins; and nothing of the machine it was written on."""

import functools
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline.graph.parameters import PARAMETERS
from trainer.artifacts import COMPACT_WEIGHTS
from trainer.models import pretrained

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
OTHER_PAGES = [ROOT / name for name in ("CHANGELOG.md", "examples/README.md", "tests/golden/README.md")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MACHINES = ("cpu", "gpu", "tpu")
SETS = (*MACHINES, "dev")
LINUX = {"sys_platform": "linux", "platform_machine": "x86_64"}
LINUX_ON_ARM = {"sys_platform": "linux", "platform_machine": "aarch64"}
MAC = {"sys_platform": "darwin", "platform_machine": "arm64"}
PLATFORMS = {
    "cpu": (LINUX, LINUX_ON_ARM, MAC),
    "gpu": (LINUX,),
    "tpu": (LINUX,),
    "dev": (LINUX, LINUX_ON_ARM, MAC),
}
MAKE_OPTIONS = {"TARGET", "ENV", "RUN_DIR", "RESUME", "ARGS", "GPU"}


def documented():
    """(page, line) of every line of code in the documentation, commands over several lines joined."""
    for page in PAGES:
        text = page.read_text()
        fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
        for block in [*fenced, *inline]:
            for line in block.replace("\\\n", " ").splitlines():
                yield page.relative_to(ROOT), line.partition(" #")[0].strip()


def commands(pattern):
    found = [(page, line, match) for page, line in documented() for match in re.finditer(pattern, line)]
    assert found, f"no page has a command like {pattern}"
    return found


@functools.cache
def help_of(*module_and_command):
    arguments = [sys.executable, "-m", *module_and_command, "--help"]
    finished = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return finished.stdout if finished.returncode == 0 else ""


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout, so nothing says which files are the project's")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def requirements(name):
    """Each requirement of requirements/NAME.txt; every one must be a plain pin with hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", "")
    found = []
    for line in text.splitlines():
        if not line.startswith("#"):
            assert re.fullmatch(
                r"[a-z0-9-]+==[0-9][0-9a-z.+]*( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", line
            ), line
            found.append(Requirement(line.partition("--hash")[0]))
    return found


def pins(name, platform=LINUX, python="3.11"):
    """Version of each package that requirements/NAME.txt has for a platform."""
    machine = {**platform, "python_version": python, "python_full_version": f"{python}.0"}
    kept = [each for each in requirements(name) if each.marker is None or each.marker.evaluate(machine)]
    return {each.name: str(each.specifier).removeprefix("==") for each in kept}


def required(extra, platform, python):
    """The requirements in pyproject.toml for a platform, with one extra and the extras that it includes."""
    machine = {**platform, "python_version": python, "python_full_version": f"{python}.0"}
    extras = PROJECT["optional-dependencies"]
    lines = [*map(Requirement, PROJECT["dependencies"] + extras[extra])]
    included = [name for line in lines if line.name == PROJECT["name"] for name in line.extras]
    lines += [Requirement(line) for name in included for line in extras[name]]
    others = [line for line in lines if line.name != PROJECT["name"]]
    return [line for line in others if line.marker is None or line.marker.evaluate(machine)]


# === Commands ===


def test_documented_make_commands_exist():
    targets = set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page, line, match in commands(r"(?:^|&& |\$ )make ((?:[a-z-]+(?: |$))+)"):
        unknown = set(match[1].split()) - targets
        assert not unknown, f"{page}: {line}"


def test_documented_run_parameters_exist():
    for page, line, _ in commands(r"make run-pipeline\b.*="):
        names = set(re.findall(r"(\w+)=", line.partition("make run-pipeline")[2]))
        assert names <= set(PARAMETERS) | MAKE_OPTIONS, f"{page}: {line}"


def test_documented_module_commands_and_flags_exist():
    for page, line, match in commands(r"python -m (trainer|pipeline)(?: ([a-z][a-z-]*))?([^|;&]*)"):
        module, command, rest = match.groups()
        text = help_of(module, command) if command else help_of(module)
        assert text, f"{page}: {line}: there is no such command"
        for flag in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest):
            assert re.search(rf"{flag}(?![a-z-])", text), f"{page}: {line}: it has no {flag}"
        if module == "pipeline" and command == "run":
            assert set(re.findall(r"(?<!\S)(\w+)=", rest)) <= set(PARAMETERS), f"{page}: {line}"


def test_documented_scripts_and_modules_exist():
    for page, line in documented():
        for script in re.findall(r"(?:^|\s)(?:\S*/)?python ((?!-)\S+\.py)", line):
            assert (ROOT / script).is_file(), f"{page}: {line}"
        for module in re.findall(r"python -m ((?:benchmarks|tests)[\w.]*)", line):
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), f"{page}: {line}"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_contributors_are_sent_to_exist(page):
    paths = set(re.findall(r"`((?:trainer|pipeline|components|tests)/[\w/.]*)`", (ROOT / page).read_text()))
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_guides_use_plain_words():
    guides = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    rare = r"\b(to be had|telephones?|anew|likewise|certainly|goes on where|what is no|is no image|processors?)\b"
    for page in guides:
        if page.name not in ("log.md", "results.md"):
            found = re.search(rare, page.read_text(), re.IGNORECASE)
            assert not found, f"{page.relative_to(ROOT)}: {found[0]}"


def prose(page):
    """The text of a page without its blocks of code."""
    return re.sub(r"^ *(```|~~~).*?^ *\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@functools.cache
def anchors(page):
    """The anchors that GitHub gives to the headings of a page, and those that its HTML names."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose(page)), re.MULTILINE)
    headings = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return headings | set(re.findall(r'<\w+ (?:id|name)="([^"]+)"', prose(page)))


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for link in re.findall(r"""(?:\]\(|(?:href|src)=["'])([^)\s"']+)""", prose(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link:
            assert target.exists(), link
            assert not anchor or target.suffix != ".md" or anchor in anchors(target.resolve()), link


# === Files ===


def test_golden_files_are_there():
    named = re.findall(r"^## (\S+\.npz)", (ROOT / "tests/golden/README.md").read_text(), re.MULTILINE)
    assert {"msinet_reference.npz", "metrics_reference.npz"} <= set(named)
    for name in named:
        assert (ROOT / "tests/golden" / name).stat().st_size > 10_000
    assert (ROOT / "pipeline.yaml").stat().st_size > 10_000


def test_tracked_files_name_no_machine_and_no_registry():
    patterns = [
        r"/(?:home|Users)/[A-Za-z]\w*",
        r"https?://[^\s\"'`)]*/simple\b",
        r"--(?:extra-)?index-url[ =]\S",
        r"--find-links[ =]\S",
        r" @ file:///\w",
    ]
    if len(ROOT.parts) > 2:
        patterns.append(re.escape(f"{ROOT}") + r"\b")
    for path in tracked_files():
        if path == pathlib.Path(__file__):
            continue  # it has the patterns themselves
        found = re.search("|".join(patterns).encode(), path.read_bytes())
        assert not found, f"{path.relative_to(ROOT)} has {found[0]!r}"


def test_no_data_and_no_weights_are_tracked():
    big = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in tracked_files()}
    assert not [name for name in big if re.search(r"\.(h5|zip|gz|mat|tfrecord|pb)$", name)]
    shipped = (pretrained.FOLDER / COMPACT_WEIGHTS).relative_to(ROOT).as_posix()
    assert not [name for name, size in big.items() if size > (26_000_000 if name == shipped else 6_000_000)]


# === Pins ===


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("name", SETS)
def test_pins_satisfy_the_project(name, python):
    for platform in PLATFORMS[name]:
        pinned = pins(name, platform, python)
        for requirement in required(name, platform, python):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not pinned: run `make requirements`"
            assert requirement.specifier.contains(version), f"{requirement} is pinned at {version}"


@pytest.mark.parametrize("name", MACHINES)
def test_each_set_has_one_tensorflow(name):
    for platform in PLATFORMS[name]:
        pinned = pins(name, platform)
        versions = [version for each, version in pinned.items() if re.fullmatch(r"tensorflow(-cpu|-tpu)?", each)]
        assert versions == ["2.19.1" if name == "tpu" else "2.20.0"]


def test_tools_bring_no_tensorflow_of_their_own():
    assert not [each.name for each in requirements("dev") if each.name.startswith("tensorflow")]


def test_sets_agree_on_every_version():
    cpu = pins("cpu")
    for name in ("gpu", "dev"):  # an older TensorFlow drives TPUs, and asks for older packages
        other = pins(name)
        shared = cpu.keys() & other.keys()
        assert len(shared) > 50
        assert {each: other[each] for each in shared} == {each: cpu[each] for each in shared}


@pytest.mark.parametrize("name", ["uv", "tpu-check", "serving", "audit"])
def test_the_other_sets_are_pinned_with_hashes(name):
    assert requirements(name)


@pytest.mark.parametrize("name", MACHINES)
def test_machines_get_no_development_tools(name):
    assert not {"pytest", "ruff", "mypy"} & set(pins(name))
