"""Images of images/Dockerfile, built by buildah, and their containers, which can write to named folders only.

Neither a daemon nor a registry is needed. The base image of the Dockerfile is replaced by Debian 12 with Debian's
own Python 3.11, made by debootstrap. As a program this writes an image to an archive:

    python -m tests.containers cpu msinet-cpu.tar
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent
TOOLS = ("buildah", "debootstrap", "bwrap", "setpriv")
BASE = "localhost/python:3.11"
TAG = "here"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""As in the base image of the Dockerfile."""
PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
RELEASE = "bookworm"
LAST_LINES = 25
"""Lines of a log that an error shows."""
# What pip on this machine needs to reach its index.
PIP_SETTINGS = ("/etc/ssl/certs", "/etc/pip.conf")


def missing():
    """What this machine lacks to build images; empty if nothing."""
    if os.geteuid() != 0:
        return "root is needed"
    tools = [tool for tool in TOOLS if not shutil.which(tool)]
    return f"missing: {', '.join(tools)} (Debian: apt-get install buildah debootstrap bubblewrap)" if tools else ""


@dataclasses.dataclass
class Store:
    """The images of one folder, which can be removed as a whole."""

    folder: pathlib.Path

    def buildah(self, *arguments, **options):
        """Run buildah, without a daemon and without cgroups."""
        places = ("--root", self.folder / "images", "--runroot", self.folder / "run")
        variables = os.environ | {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        return subprocess.run(["buildah", *places, *arguments], env=variables, check=True, text=True, **options)

    def _asked(self, *arguments):
        return self.buildah(*arguments, capture_output=True).stdout.strip()

    def has(self, image):
        """Whether an image of this name has been built."""
        return bool(self._asked("images", "--quiet", "--filter", f"reference={image}"))

    def make_base(self):
        """Make the image BASE of Debian's packages."""
        tree = self.folder / "debian"
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, tree],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (tree / "usr/bin/python").symlink_to("python3")
        (tree / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink(missing_ok=True)
        container = self._asked("from", "scratch")
        self.buildah("add", "--quiet", container, tree, "/", capture_output=True)
        self.buildah("config", "--env", f"PATH={PATH}", container)
        self.buildah("commit", "--quiet", "--rm", container, BASE, capture_output=True)
        shutil.rmtree(tree)

    def build(self, variant, log):
        """Build the image of `variant` and return its name."""
        image = f"localhost/msinet-{variant}"
        volumes = [f"--volume={path}:{path}:ro" for path in PIP_SETTINGS if pathlib.Path(path).exists()]
        arguments = (f"--build-arg=VARIANT={variant}", "--build-arg=COMMIT=0123456789ab", *volumes)
        flags = ("--layers=false", "--pull-never", f"--from={BASE}", "--file=images/Dockerfile", f"--tag={image}")
        try:
            with log.open("w") as output:
                self.buildah("bud", *flags, *arguments, ".", cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        except subprocess.CalledProcessError as error:
            print("\n".join(log.read_text().splitlines()[-LAST_LINES:]))
            sys.exit(f"error: the {variant} image cannot be built: status {error.returncode}")
        for removal in (("rm", "--all"), ("rmi", "--prune")):  # of the stages, which buildah leaves
            self.buildah(*removal, capture_output=True)
        return image

    def close(self):
        """Remove the containers, and unmount what buildah leaves mounted, so that the folder can be removed."""
        self.buildah("rm", "--all", capture_output=True)
        places = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        for place in reversed([place for place in places if place.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", place], check=True)

    @contextlib.contextmanager
    def opened(self, image):
        """The tree of an image as a folder, and its configuration."""
        container = self._asked("from", "--pull-never", image)
        try:
            config = json.loads(self._asked("inspect", "--type", "image", image))["OCIv1"]["config"]
            yield Image(pathlib.Path(self._asked("mount", container)), config)
        finally:
            self.buildah("rm", container, capture_output=True)


@dataclasses.dataclass
class Image:
    """The tree of an image."""

    tree: pathlib.Path
    config: dict

    def command(self, command, variables, writable):
        """The command that runs `command` in a container of this image.

        Its user, working directory and variables are the image's, its network is the machine's, and its root is
        read-only but for the folders `writable`, path in the container -> folder of this machine.
        """
        user = self.config["User"]
        home = next(line.split(":")[5] for line in self._users() if line.split(":")[2] == user)
        variables = dict(each.split("=", 1) for each in self.config["Env"]) | {"HOME": home} | variables
        sandbox = ["bwrap", "--bind", self.tree, "/", "--proc", "/proc", "--dev", "/dev"]
        sandbox += ["--ro-bind", "/sys", "/sys", "--clearenv"]  # libtpu counts the processors there
        for place, folder in writable.items():
            sandbox += ["--bind", folder, place]
        sandbox += ["--remount-ro", "/", "--chdir", self.config["WorkingDir"]]
        sandbox += ["--unshare-pid", "--unshare-ipc", "--die-with-parent"]
        for name, value in variables.items():
            sandbox += ["--setenv", name, value]
        # Only root may give up root.
        sandbox += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        return [
            *sandbox,
            "setpriv",
            "--reuid",
            user,
            "--regid",
            user,
            "--clear-groups",
            "--no-new-privs",
            *command,
        ]

    def _users(self):
        return (self.tree / "etc/passwd").read_text().splitlines()


def main():
    """Build the image of the variant that the first argument names, and write it to the archive of the second."""
    if lacking := missing():
        sys.exit(f"error: {lacking}")
    variant, archive = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    archive.parent.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="msinet-images-") as folder,
        contextlib.closing(Store(pathlib.Path(folder))) as store,
    ):
        store.make_base()
        image = store.build(variant, archive.with_suffix(".log"))
        store.buildah("push", "--quiet", image, f"oci-archive:{archive}:{image}:{TAG}")


if __name__ == "__main__":
    main()
