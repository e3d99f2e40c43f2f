"""Builds the images of images/Dockerfile and runs the whole sample pipeline in them: `make check-images`.

Each task of pipeline.yaml runs by the command that the file has, in a container of the image that the file names:
as the image's user, on a read-only root, with a bucket of root's mounted at /gcs by gcsfuse. The trainings run by
the command of the custom job's worker. It needs root, Go, and Debian's buildah, debootstrap, bubblewrap and fuse3.
"""

import argparse
import contextlib
import functools
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import yaml

from pipeline.graph.environment import load_environment
from tests import containers, mounting, tpu_runtime
from tests.backend import Backend
from tests.install_requirements import PROGRAM
from trainer.io.files import UNFINISHED

SPEC = mounting.ROOT / "pipeline.yaml"
RUN = "msinet-1"
REGISTRY = "gs://{bucket}/registry"
ON_CPUS = {"accelerator": "cpu", "base_model_uri": ""}
"""Parameters in place of those that configs/vertex.toml has for a run on Vertex AI."""


class Tasks:
    """Runs containers that may write to /tmp and to the mount alone, and prints each one's title and time.

    Args:
        folder: for logs, and for what is written to /tmp.
        writable: path in the containers -> folder of this machine.
        variables: of all containers.
    """

    def __init__(self, folder, writable=None, variables=None):
        self.folder, self.writable, self.variables = folder, writable or {}, variables or {}
        self.done = 0

    def run(self, title, image, command, variables=None):
        """Run one container, and return what it said; if it fails, show the end of that, and exit."""
        self.done += 1
        log = self.folder / f"{self.done}.log"
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch, log.open("w") as output:
            pathlib.Path(scratch).chmod(0o1777)
            writable = self.writable | {"/tmp": scratch}
            command = image.command(command, self.variables | (variables or {}), writable)
            finished = timed(title, subprocess.run, command, stdout=output, stderr=subprocess.STDOUT)
        if finished.returncode:
            print("\n".join(log.read_text().splitlines()[-containers.LAST_LINES :]))
            sys.exit(f"error: {title}: status {finished.returncode}")
        return log.read_text()


def timed(title, call, *arguments, **options):
    """The result of a call; prints the title, and the time that it took."""
    print(f"{title}:", end=" ", flush=True)
    started = time.monotonic()
    result = call(*arguments, **options)
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    return result


def run_pipeline(image, folder):
    """Run the sample pipeline in containers of `image`; the number of containers."""
    with mounting.bucket(folder / "gcs", *mounting.OWNED_BY_ROOT) as (mounted, bucket):
        mount = mounted.parent
        tasks = Tasks(folder, {"/gcs": mount}, {"STORAGE_EMULATOR_HOST": bucket.client.api_endpoint})

        def start(title, name, command, variables):
            assert name.rpartition("/")[2].startswith("msinet-cpu:"), name
            tasks.run(title, image, command, variables)

        spec = next(yaml.safe_load_all(SPEC.read_text()))
        backend = Backend(spec, f"gs://{bucket.name}/root/{RUN}", mount, start)
        sample = load_environment("sample").parameters
        backend.run(**ON_CPUS, **sample, registry=REGISTRY.format(bucket=bucket.name))
        names = {blob.name for blob in bucket.list_blobs()}
        assert len([name for name in names if re.fullmatch(r"registry/msinet/1/.*/version\.json", name)]) == 1, (
            names
        )
        assert not [name for name in names if ".partial-" in name or name.endswith(UNFINISHED)]
        return tasks.done


def check(store, folder):
    """Build both images and run what runs here; the number of containers."""
    if not store.has(containers.BASE):
        timed("base image", store.make_base)
    build = functools.partial(timed, log=folder / "build.log")
    with store.opened(build("cpu image", store.build, "cpu")) as image:
        done = run_pipeline(image, folder)
    with store.opened(build("tpu image", store.build, "tpu")) as image:
        tasks = Tasks(folder)
        tasks.run("training step loaded", image, ["python", "-c", PROGRAM], tpu_runtime.OFF_HOST)
        program = pathlib.Path(tpu_runtime.__file__).read_text()
        variables = tpu_runtime.OFF_HOST | {"LD_BIND_NOW": "1"}
        said = tasks.run("TPU system asked for", image, ["python", "-c", program], variables)
        assert '"unbound": []' in said, said
        assert "TPU initialization failed: No " in said, said
    return done + tasks.done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=pathlib.Path, help="folder of the images, which then stay (15 GB)")
    arguments = parser.parse_args()
    if lacking := containers.missing() or mounting.missing():
        sys.exit(f"error: {lacking}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="msinet-images-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        with contextlib.closing(containers.Store(arguments.store or folder / "store")) as store:
            done = check(store, folder)
    print(f"{done} containers ended well, in {(time.monotonic() - started) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
