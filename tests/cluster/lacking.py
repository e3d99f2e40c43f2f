"""Says what this machine lacks for the checks in this folder, before anything is built for them.

python -m tests.cluster.lacking [FOLDER], where FOLDER has the programs of Kubeflow Pipelines
"""

import os
import pathlib
import shutil
import sys

from tests import containers

PROGRAMS = ("containerd", "ctr", "runc", "mariadbd", "mariadb-install-db", "dnsmasq", "catatonit", "ip", "unshare")
PACKAGES = "containerd runc containernetworking-plugins mariadb-server dnsmasq-base catatonit iproute2"
KUBEFLOW = (
    *(f"bin/{name}" for name in ("apiserver", "driver", "launcher-v2", "persistence", "scheduledworkflow")),
    "manifests/kustomize",
)
"""What is in the folder of Kubeflow Pipelines."""


def lacking(folder=None):
    """What is missing, one line for each remedy; empty if nothing is."""
    if os.geteuid() != 0:
        return ["root is needed, for nodes and networks of their own"]
    found = []
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        found.append(f"missing: {', '.join(missing)} (Debian: apt-get install {PACKAGES})")
    if folder:
        found += filter(None, [containers.missing()])
        if missing := [name for name in KUBEFLOW if not pathlib.Path(folder, name).exists()]:
            found.append(f"{folder} has no {', '.join(missing)} (research/kubeflow.md)")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(f"error: {line}" for line in lacking(*sys.argv[1:])) or None)
