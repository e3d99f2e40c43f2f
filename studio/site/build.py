"""Writes the site: the files of the demo page, the model as ONNX files, and the runtime for browsers from npm.

`page/server.js` takes the place of the demo's module of that name, which alone speaks to a server. All else of the
page is the demo's. What the browser computes is compared with Python in the tests. Averaging and calibration come
as a graph for each kind of images, so that the browser repeats none of it.
"""

import base64
import hashlib
import importlib.metadata
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

from studio.demo.app import PAGE, POLICY, facts
from trainer.api import MismatchError, Model, NotFoundError, UnreachableError
from trainer.tools import COLORS_CSS, FORMATS, check

OWN = pathlib.Path(__file__).parent / "page"
RUNTIME = "onnxruntime-web"
VERSION = "1.30.0"
SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
"""Of the package's archive, as npm publishes it."""
RELEASE = importlib.metadata.version("msinet-pipelines").partition(".dev")[0]
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
PRIVACY = "Images stay in this browser, which runs the model."


def build_site(model: Model, runtime: bytes, folder: pathlib.Path) -> None:
    """Write the site for a model into a folder, over the files of an earlier one.

    Args:
        model: exported with kernels of 8 bits.
        runtime: the archive that `fetch_runtime` returns.
        folder: made if it is not there.

    Raises:
        UserError: the model's weights are damaged, the archive is another one, or nothing can be written.
    """
    files = _unpack(runtime)
    shutil.copytree(PAGE, folder, dirs_exist_ok=True)
    shutil.copytree(OWN, folder, dirs_exist_ok=True)
    shutil.copy(COLORS_CSS, folder)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    index = folder / "index.html"
    index.write_text(index.read_text().replace("<head>", f"<head>\n{policy}", 1))
    manifest = json.loads((OWN / "manifest.json").read_text())  # with which the folder is an extension, too
    (folder / "manifest.json").write_text(json.dumps({**manifest, "version": RELEASE}))
    told = facts(model, FORMATS.browser_names, PRIVACY, opens_addresses=False)
    for kind, part in model.export_parts(folder).items():
        told["kinds"][kind] |= part
    (folder / "facts.json").write_text(json.dumps(told))
    (folder / "onnxruntime").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "onnxruntime" / name).write_bytes(content)
    for name in ("LICENSE", "NOTICE"):
        text = importlib.metadata.distribution("msinet-pipelines").read_text(f"licenses/{name}")
        (folder / name).write_text(text or "")


def fetch_runtime() -> bytes:
    """Fetch the archive of the runtime with npm, which keeps it in its cache.

    Raises:
        UserError: there is no npm, or it cannot fetch the package.
    """
    npm = shutil.which("npm")
    if not npm:
        raise NotFoundError("the site's runtime for browsers comes from npm, which is not there: install Node.js")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"{RUNTIME}@{VERSION}", "--silent", "--pack-destination", folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        archives = list(pathlib.Path(folder).glob("*.tgz"))
        if done.returncode or not archives:
            reason = done.stderr.strip() or f"status {done.returncode}"
            raise UnreachableError(
                f"npm cannot fetch {RUNTIME} {VERSION} ({reason}): check your connection, or name your mirror in "
                "npm's setting `registry`"
            )
        return archives[0].read_bytes()


def _unpack(archive: bytes) -> dict[str, bytes]:
    """The contents of RUNTIME_FILES, by name. Raises `UserError` for another archive than the pinned one."""
    found = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    check(
        found == SHA512,
        f"npm's {RUNTIME} {VERSION} is not what was published: its SHA-512 is {found}, not {SHA512}: "
        "use another mirror",
        MismatchError,
    )
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        members = {name: package.extractfile(f"package/dist/{name}") for name in RUNTIME_FILES}
        return {name: member.read() for name, member in members.items() if member}
