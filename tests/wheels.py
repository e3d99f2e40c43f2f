"""Wheels made here, with their pins, so that something real can be installed without a network."""

import base64
import hashlib
import zipfile


def write_wheel(folder, name, version="1.0"):
    """Write a wheel of one empty module into `folder`; returns the line that pins it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": b"",
        f"{name}-{version}.dist-info/METADATA": metadata.encode(),
        f"{name}-{version}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for each, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{each},sha256={digest},{len(content)}\n"
    files[f"{name}-{version}.dist-info/RECORD"] = (
        record.encode() + f"{name}-{version}.dist-info/RECORD,,\n".encode()
    )
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in files.items():
            archive.writestr(each, content)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
