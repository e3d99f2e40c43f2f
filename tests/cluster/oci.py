"""Images of containers that have one program."""

import hashlib
import io
import json
import pathlib
import tarfile


def write_image(path, name, program, *, called, arguments=()):
    """Write an OCI archive of an image that has one static program, /bin/CALLED.

    Args:
        path: of the archive.
        name: of the image, as a pod names it.
        program: path of the program on this machine.
        called: name of the program in the image.
        arguments: with which it starts if a pod says nothing else.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("bin", "tmp", "etc"):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(member)
        member = tar.gettarinfo(program, f"bin/{called}")
        member.mode, member.uid, member.gid = 0o755, 0, 0
        with pathlib.Path(program).open("rb") as file:
            tar.addfile(member, file)
    blobs = {}

    def add(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    layers = [add(layer.getvalue(), "layer.v1.tar")]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": [f"/bin/{called}", *arguments], "User": "65532"},
        "rootfs": {"type": "layers", "diff_ids": [layers[0]["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"),
        "layers": layers,
    }
    described = add(json.dumps(manifest).encode(), "manifest.v1+json")
    described["annotations"] = {"io.containerd.image.name": name}
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()
    blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    with tarfile.open(path, "w") as tar:
        for path_inside, content in blobs.items():
            member = tarfile.TarInfo(path_inside)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
