"""Builds the images of images/Dockerfile and runs the whole sample pipeline in them: `make check-images`.

Each task of pipeline.yaml runs by the command that the file has, in a container of the image that the file names:
as the image's user, on a read-only root, with a bucket of root's mounted at /gcs by gcsfuse. The trainings run by
the command of the custom job's worker. It needs root, Go, and Debian's buildah, debootstrap, bubblewrap and fuse3.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import yaml

from pipeline.graph.environment import load_environment
from tests import containers, mounting
from tests.backend import Backend

SPEC = mounting.ROOT / "pipeline.yaml"
RUN = "msinet-1"
REGISTRY = "/gcs/runs/registry"
LAST_LINES = 25
NAMES = ("cpu", "tpu")


def timed(title, call):
    """Call, and print the title with the time that it took; the result."""
    print(f"{title} ...", flush=True)
    started = time.monotonic()
    result = call()
    print(f"{title}: {time.monotonic() - started:.1f} s", flush=True)
    return result


def built(store, variants, logs):
    """Build what the folder of images does not have yet; variant -> image."""
    if not store.has(containers.BASE):
        timed("Debian", store.make_base)
    return {
        each: timed(f"image {each}", lambda each=each: store.build(each, logs / f"{each}.log"))
        for each in variants
    }


def run_pipeline(image, folder):
    """Run the sample pipeline in containers of `image`; raises `CalledProcessError` if a task fails."""
    with mounting.bucket(folder / "gcs", *mounting.OWNED_BY_ROOT) as (mounted, bucket):
        mount = mounted.parent
        emulator = {"STORAGE_EMULATOR_HOST": bucket.client.api_endpoint}

        def start(title, name, command, variables):
            assert name.rpartition("/")[2].startswith("msinet-cpu:"), name
            timed(title, lambda: contained(image, command, emulator | variables, mount, folder))

        spec = next(yaml.safe_load_all(SPEC.read_text()))
        backend = Backend(spec, f"gs://{bucket.name}/root/{RUN}", mount, start)
        backend.run(**load_environment("sample").parameters, registry=REGISTRY)


def contained(image, command, variables, mount, folder):
    """Run a command in a container, and show the end of its log if it fails."""
    log = folder / "task.log"
    with tempfile.TemporaryDirectory(dir=folder) as scratch, log.open("w") as output:
        pathlib.Path(scratch).chmod(0o1777)
        command = image.command(command, variables, {"/tmp": scratch, "/gcs": mount})
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode
    if status:
        print("\n".join(log.read_text().splitlines()[-LAST_LINES:]))
        sys.exit(f"error: status {status}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--store", type=pathlib.Path, help="folder of the images; they are removed if none is named"
    )
    parser.add_argument("--built", action="store_true", help="take the images that the folder has")
    arguments = parser.parse_args()
    if lacking := containers.missing() or mounting.missing():
        sys.exit(f"error: {lacking}")
    with tempfile.TemporaryDirectory(prefix="msinet-images-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        store = containers.Store(arguments.store or folder / "store")
        if not arguments.built:
            built(store, NAMES[:1], folder)
        with store.opened("localhost/msinet-cpu") as image:
            run_pipeline(image, folder)


if __name__ == "__main__":
    main()
