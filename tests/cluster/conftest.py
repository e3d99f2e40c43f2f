"""The cluster of the checks in this folder, in the namespaces that `make check-cluster` has made."""

import contextlib
import os
import pathlib

import pytest

from tests.cluster.cluster import Cluster


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory):
    """Kubernetes without a node: its API server, scheduler and controllers."""
    tools, python = (pathlib.Path(os.environ[f"CLUSTER_{name}"]).absolute() for name in ("TOOLS", "PYTHON"))
    with contextlib.closing(Cluster(tmp_path_factory.mktemp("cluster"), tools, python)) as cluster:
        cluster.start_kubernetes()
        yield cluster


@pytest.fixture(scope="session")
def cluster(kubernetes):
    """A node and Kubeflow beside it, if the variable KFP names a folder of its programs."""
    if not (folder := os.environ.get("KFP")):
        pytest.skip("KFP=FOLDER names no folder with the programs of Kubeflow (research/kubeflow.md)")
    kubernetes.start_kubeflow(pathlib.Path(folder).absolute(), [pathlib.Path(os.environ["CLUSTER_IMAGE"])])
    return kubernetes
