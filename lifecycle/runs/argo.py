"""What Argo Workflows knows of a run on Kubeflow, asked from a pod of the run.

Kubeflow tells the last task of a run the state of the others. This state is often behind: it stays RUNNING when
all other tasks have ended well, or when a pod was lost. The workflow knows which tasks failed, and their logs say
why.
"""

import base64
import gzip
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod with the namespace and the credentials of its account."""
LAST_LINES = 200
"""Lines of a log in which its error is looked for."""
TIMEOUT_S = 20.0


def failed_in_workflow(name: str) -> dict[str, str]:
    """Task that failed -> why, in the workflow `name` in the namespace of this pod. Empty if none failed.

    Example: `{"check-run": "there are 3 images"}`.

    Raises an exception of `kubernetes` or urllib3 if the cluster cannot be asked.
    """
    from kubernetes import client, config  # type: ignore[import-untyped]

    config.load_incluster_config()
    namespace = (ACCOUNT / "namespace").read_text().strip()
    workflow = client.CustomObjectsApi().get_namespaced_custom_object(
        "argoproj.io", "v1alpha1", namespace, "workflows", name, _request_timeout=TIMEOUT_S
    )
    failures = {}
    for task, node in failed_nodes(workflow["status"]).items():
        pod = re.sub(r"-(\d+)$", rf"-{node['templateName']}-\1", node["id"])
        try:
            log = client.CoreV1Api().read_namespaced_pod_log(
                pod, namespace, container="main", tail_lines=LAST_LINES, _request_timeout=TIMEOUT_S
            )
        except client.ApiException:  # the pod is gone
            log = ""
        causes = [line.removeprefix("error: ") for line in log.splitlines() if line.startswith("error: ")]
        failures[task] = causes[-1] if causes else str(node.get("message", ""))
    return failures


def failed_nodes(status: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Task that failed -> the last of its pods, as nodes of the `status` of a workflow of Kubeflow Pipelines.

    The tasks of a branch are after those around it.
    """
    nodes = status.get("nodes")
    if nodes is None:  # Argo packs what is large
        nodes = json.loads(gzip.decompress(base64.b64decode(status["compressedNodes"])))
    pods: dict[str, dict[str, Any]] = {}
    ends: dict[str, str] = {}
    for node in sorted(nodes.values(), key=lambda node: str(node.get("startedAt"))):
        place = re.sub(r"\(\d+\)$", "", node["name"])  # without the number of the attempt
        if node["type"] == "Pod":
            pods[place] = node
        elif node["type"] == "Retry":  # of several attempts. There is none where nothing is retried
            ends[place] = node["phase"]
    failed = [place for place, pod in pods.items() if ends.get(place, pod["phase"]) in ("Failed", "Error")]
    return {task_of(place): pods[place] for place in failed}


def task_of(place: str) -> str:
    """The name of the task to which a driver or an executor belongs.

    `place` is the name of its node in a workflow. Example: of `root.check-run-driver`, `check-run`.
    """
    *_, above, last = (part.partition("(")[0] for part in place.split("."))
    return above if last == "executor" else last.removesuffix("-driver")
