"""Wheels made here, with their pins, so that something real can be installed without a network."""

import base64
import hashlib
import importlib.metadata
import pathlib
import zipfile

NOT_IN_A_WHEEL = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""What an installation adds to a package's metadata, and the list of files, which is made anew."""


def write_wheel(folder, name, version="1.0"):
    """Write a wheel of one empty module into `folder`; returns the line that pins it."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    wheel = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    information = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": b"",
        f"{information}/METADATA": metadata.encode(),
        f"{information}/WHEEL": wheel,
    }
    return _write(folder, name, version, "py3-none-any", files)


def repack(folder, name):
    """Write the wheel of an installed package into `folder`, as it came; returns the line that pins it."""
    package = importlib.metadata.distribution(name)
    files = {}
    for path in package.files:
        if path.suffix == ".pyc" or path.name in NOT_IN_A_WHEEL:
            continue
        script = path.parts[0] == ".."
        place = f"{name}-{package.version}.data/scripts/{path.name}" if script else path.as_posix()
        files[place] = pathlib.Path(path.locate()).read_bytes()
    tag = next(line for line in package.read_text("WHEEL").splitlines() if line.startswith("Tag: "))
    return _write(folder, name, package.version, tag.removeprefix("Tag: "), files)


def _write(folder, name, version, tag, files):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    record = ""
    for each, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{each},sha256={digest},{len(content)}\n"
    listed = f"{name}-{version}.dist-info/RECORD"
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in (files | {listed: f"{record}{listed},,\n".encode()}).items():
            entry = zipfile.ZipInfo(each)
            entry.external_attr = (0o100755 if ".data/scripts/" in each else 0o100644) << 16
            archive.writestr(entry, content)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
