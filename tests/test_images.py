"""The images' recipe: what it copies is enough, what it names exists, and what the code relies on is set.

There is no image to build here: the Dockerfile is parsed, and its files are run from a folder of their own.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml

from pipeline.__main__ import parse_arguments
from pipeline.graph.environment import IMAGE_KINDS, Environment, load_environment
from tests.images import DOCKERFILE, environment_of, stages
from trainer.training.accelerators import ACCELERATORS

ROOT = DOCKERFILE.parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VARIANTS = ("cpu", "gpu", "tpu")
ARGUMENTS, STAGES = stages(DOCKERFILE.read_text())
BUILD = yaml.safe_load((ROOT / "images" / "cloudbuild.yaml").read_text())


def image_of(variant):
    """The stages that an image is made of, first to last."""
    return [STAGES["base"], STAGES[variant], STAGES["final"]]


def copied():
    """Every source of a COPY, as the project's paths, for all variants."""
    for stage in STAGES.values():
        for arguments in stage.of("COPY"):
            *sources, _ = arguments.split()
            for source in sources:
                yield from {source.replace("${VARIANT}", variant) for variant in VARIANTS}


# === The Dockerfile ===


def test_what_is_installed_is_checked_by_its_hash_and_built_by_what_is_pinned():
    installed = [
        command
        for stage in STAGES.values()
        for arguments in stage.of("RUN")
        for command in arguments.split("&&")
        if "pip install" in command
    ]
    assert len(installed) == 3
    assert all("--require-hashes" in each or "--editable ." in each for each in installed)
    assert all("--no-deps" in each for each in installed)
    assert all("--no-build-isolation" in each for each in installed[1:])


@pytest.mark.parametrize(("variant", "user"), [("cpu", "1000"), ("gpu", "1000"), ("tpu", "0")])
def test_runs_as_another_user_than_root_unless_the_chips_belong_to_root(variant, user):
    instructions = [each for stage in image_of(variant) for each in stage.instructions]
    names = [name for name, _ in instructions]
    assert instructions[names.index("USER")][1] == "${RUN_AS}"
    assert environment_of(variant)["RUN_AS"] == user
    assert names.count("USER") == 1
    # Whatever writes to the image comes before.
    assert not {"RUN", "COPY", "ADD"} & set(names[names.index("USER") :])
    assert any("useradd" in arguments and "--uid 1000" in arguments for arguments in STAGES["final"].of("RUN"))


def test_tpu_variables_are_those_of_the_pjrt_runtime_and_the_library_is_where_they_say():
    variables = environment_of("tpu")
    assert variables["PJRT_DEVICE"] == "TPU"
    assert variables["NEXT_PLUGGABLE_DEVICE_USE_C_API"] == "true"
    assert variables["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] == "/lib/libtpu.so"
    assert not {"PJRT_DEVICE", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"} & set(environment_of("gpu"))


CAPABILITIES = {
    "NVIDIA_TESLA_V100": (7, 0),
    "NVIDIA_TESLA_T4": (7, 5),
    "NVIDIA_TESLA_A100": (8, 0),
    "NVIDIA_A100_80GB": (8, 0),
    "NVIDIA_L4": (8, 9),
    "NVIDIA_H100_80GB": (9, 0),
}
"""Compute capability of each GPU (NVIDIA: CUDA GPU Compute Capability)."""
CUDNN_OLDEST = {(9, 3): (5, 0), (9, 11): (7, 5)}
"""First cuDNN release -> the oldest compute capability that it has kernels for; 9.11 dropped those before Turing
(conda-forge/tensorflow-feedstock, pull request 457). TensorFlow 2.20 is built for 6.0 to 9.0 (its .bazelrc)."""


def test_pinned_cudnn_convolves_on_every_gpu_of_the_table():
    pins = (ROOT / "requirements" / "gpu.txt").read_text()
    pinned = tuple(map(int, re.search(r"^nvidia-cudnn-cu12==(\d+)\.(\d+)\.", pins, re.MULTILINE).groups()))
    oldest = CUDNN_OLDEST[max(release for release in CUDNN_OLDEST if release <= pinned)]
    for row in ACCELERATORS.values():
        if row.image == "gpu":
            assert CAPABILITIES[row.chip.vertex_type] >= oldest, f"{row.name} has no kernels in cuDNN {pinned}"


# === What is in it ===


@pytest.fixture
def image_folder(tmp_path):
    """The files of the image and nothing else: no tests, no git."""
    for source in copied():
        target = tmp_path / source
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / source, target)
    return tmp_path


def test_what_is_copied_is_enough_to_compile(image_folder):
    def run(*arguments):
        variables = os.environ | environment_of("cpu", "0123456789ab") | {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *arguments]
        finished = subprocess.run(command, cwd=image_folder, env=variables, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    where = run(
        "-c", "import trainer.machine.package_version as a; print(a.__file__); print(a.code_version())"
    ).splitlines()
    assert pathlib.Path(where[0]).is_relative_to(image_folder)
    assert where[1].endswith("+0123456789ab")
    run("-m", "pipeline", "compile", "--target", "vertex", "--output", "compiled.yaml")
    assert "msinet-cpu" in (image_folder / "compiled.yaml").read_text()


# === Cloud Build ===


def steps(prefix):
    return [step for step in BUILD["steps"] if step["id"].startswith(prefix)]


def test_images_are_named_as_an_environment_names_them():
    known = {"target": "vertex", "project": "p", "location": "us-central1", "bucket": "gs://b"}
    there = {"image_repository": "l-docker.pkg.dev/p/r", "image_tag": "v1"}
    environment = Environment("prod", **known, **there)
    values = {"${_IMAGE_REPOSITORY}": there["image_repository"], "${_TAG}": there["image_tag"], "${_COMMIT}": "c"}

    def filled(text):
        return re.sub(r"\$\{\w+\}", lambda found: values[found[0]], text)

    images = {kind: environment.image_of(kind) for kind in IMAGE_KINDS}
    assert list(map(filled, BUILD["images"])) == list(images.values())
    for kind, image in images.items():
        repository = image.removesuffix(":v1")
        (build,), (push,) = steps(f"build-{kind}"), steps(f"push-{kind}")
        words = list(map(filled, build["args"]))
        tags = [words[i + 1] for i, word in enumerate(words) if word == "--tag"]
        # The next build takes its layers from what this one pushes as `cache`.
        assert tags == [words[words.index("--cache-from") + 1], image] == [f"{repository}:cache", image]
        assert list(map(filled, push["args"])) == ["push", "--all-tags", repository]
    (publish,) = steps("publish-")
    assert filled(publish["name"]) == environment.image


def test_build_begins_with_a_check_that_it_makes_the_images_that_the_environment_names():
    check, *others = BUILD["steps"]
    assert all("waitFor" in step for step in others)
    assert all(step["waitFor"] == [check["id"]] for step in steps("build-"))
    assert check["name"] == ARGUMENTS["BASE"]
    environment = load_environment("vertex")
    values = {"_ENV": "vertex", "_IMAGE_REPOSITORY": environment.image_repository, "_TAG": environment.image_tag}

    def run(**given):
        program = re.sub(r"\$\{(\w+)\}", lambda found: (values | given)[found[1]], check["args"][1])
        command = [sys.executable, "-I", "-S", "-c", program]  # as in that image: without any package
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert run().returncode == 0, run().stderr
    for name in ("_TAG", "_IMAGE_REPOSITORY"):
        wrong = run(**{name: "other"})
        assert wrong.returncode == 1
        assert environment.image_repository in wrong.stderr
        assert environment.image_tag in wrong.stderr
        assert "other" in wrong.stderr


def test_template_is_published_by_the_real_command_after_all_images():
    (publish,) = steps("publish-")
    assert set(publish["waitFor"]) == {step["id"] for step in steps("push-")}
    assert all(step["waitFor"] == [step["id"].replace("push", "build")] for step in steps("push-"))
    assert publish["entrypoint"] == "python"
    module, name, *arguments = publish["args"]
    assert (module, name) == ("-m", "pipeline")
    parsed, others = parse_arguments(arguments)
    assert parsed.command == "publish"
    assert not others
