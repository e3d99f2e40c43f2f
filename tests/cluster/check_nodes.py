"""Kubernetes accepts what a training asks for, and places it on the nodes of GKE: `make check-cluster` runs this.

The nodes are objects without a kubelet. They have the labels, the taints and the allocatable resources that Google
documents for the machine types, and the API server adds the tolerations of extended resources, as GKE's does.
"""

import json
import re

import pytest

from lifecycle.machines import gke_pods
from lifecycle.machines.plan import DataSize, TrainingPlan
from pipeline.graph.accelerator_table import compare_accelerators
from tests.cluster.cluster import PAUSE
from trainer.data.settings import FetchConfig
from trainer.training.accelerators import PROVISIONING, SPOT
from trainer.training.settings import TrainConfig

NOT_READY = "node.kubernetes.io/not-ready"
"""Taint of a node until the controllers have seen that it is ready."""
GPUS = {
    "t4": "nvidia-tesla-t4",
    "v100": "nvidia-tesla-v100",
    "l4": "nvidia-l4",
    "a100": "nvidia-tesla-a100",
    "a100-80gb": "nvidia-a100-80gb",
    "h100": "nvidia-h100-80gb",
}
"""GPU -> its value of the label gke-accelerator. This and the labels: GKE's pages on GPUs and TPUs in Standard."""
TOPOLOGIES = {"v5e-1": "1x1", "v5e-4": "2x2", "v5e-8": "2x4"}
SPOT_TAINT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
"""Taint that a pool of Spot nodes may have."""


def plans(provisioning):
    """The plans of all accelerators that are bought in this way."""
    data = DataSize.of(FetchConfig(dataset="salicon"))
    compared = compare_accelerators({"provisioning": provisioning}, TrainConfig(batch_size=0), data)
    return {name: plan for name, plan in compared.items() if isinstance(plan, TrainingPlan)}


def labels_of(name, provisioning):
    """The labels that GKE gives to a node with this accelerator."""
    labels = {} if provisioning == "standard" else {f"cloud.google.com/gke-{provisioning}": "true"}
    if topology := TOPOLOGIES.get(name):
        labels["cloud.google.com/gke-tpu-accelerator"] = "tpu-v5-lite-podslice"
        labels["cloud.google.com/gke-tpu-topology"] = topology
    elif gpu := GPUS.get(re.sub(r"-\d$", "", name)):
        labels["cloud.google.com/gke-accelerator"] = gpu
    return labels


def allocatable(cores, gib):
    """The cores and GiB that GKE leaves to pods, on machines with more than 4 cores and 16 GiB.

    Source: Google Kubernetes Engine, "About GKE node sizing". The kernel is assumed to take 2.5 % of the memory.
    """
    gib *= 0.975
    reserved = 0.25 * 4 + 0.2 * 4 + 0.1 * 8 + 0.06 * min(gib - 16, 112) + 0.02 * max(gib - 128, 0)
    return cores - 0.06 - 0.01 - 2 * 0.005 - 0.0025 * (cores - 4), gib - reserved - 0.1


def node_of(name, plan, *taints):
    """A node with the machine of a plan."""
    row = plan.accelerator
    cores, gib = allocatable(row.vcpus, row.host_memory_gb)
    resources = {"cpu": f"{cores:.2f}", "memory": f"{gib:.1f}Gi", "pods": "110"}
    if row.resource_name:
        resources[row.resource_name] = str(row.chips)
        taints = (*taints, {"key": row.resource_name, "value": "present", "effect": "NoSchedule"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels_of(row.name, plan.machines.provisioning)},
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod_of(name, plan):
    """A pod that asks for what the driver of Kubeflow asks for in a training of this plan."""
    row = plan.accelerator
    pod = gke_pods.Pod.on(row, plan.machines.provisioning)
    memory = pod.memory
    chips = {row.resource_name: str(row.chips)} if row.resource_name else {}
    requests = {"cpu": pod.cpu, "memory": memory}
    resources = {"requests": requests, "limits": {"memory": memory, **chips}}
    mounts = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    container = {"name": "training", "image": PAUSE, "resources": resources, "volumeMounts": mounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [container],
            "nodeSelector": pod.node_selector,
            "tolerations": pod.tolerations,
            "volumes": [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}],
        },
    }


def placed(cluster, nodes, pods):
    """Name of each pod -> its node, or the reason why it has none. Nodes and pods are gone afterwards."""
    cluster.kubectl("apply", "--filename=-", content=nodes)
    for node in nodes:
        name = node["metadata"]["name"]
        cluster.kubectl("patch", "node", name, "--subresource=status", f"--patch={json.dumps(node)}")
    cluster.until("kube-controller-manager", lambda: NOT_READY not in str(cluster.get("nodes")))
    cluster.kubectl("apply", "--filename=-", content=pods)

    def found():
        places = {}
        for pod in cluster.get("pods", "--namespace=default"):
            reasons = [each.get("message") for each in pod["status"].get("conditions", [])]
            places[pod["metadata"]["name"]] = pod["spec"].get("nodeName") or next(iter(reasons), "")
        return all(places.values()) and places

    try:
        return cluster.until("kube-scheduler", found)
    finally:
        cluster.kubectl("delete", "pods", "--all", "--namespace=default", "--grace-period=0", "--force")
        cluster.kubectl("delete", "nodes", *[node["metadata"]["name"] for node in nodes])


@pytest.mark.parametrize("provisioning", PROVISIONING)
def test_each_training_gets_its_machine(kubernetes, provisioning):
    offered = plans(provisioning)
    taints = [SPOT_TAINT] if provisioning == SPOT else []
    nodes = [node_of(name, plan, *taints) for name, plan in offered.items()]
    # Largest first: the labels name the chip, so that a small training may take a large machine.
    by_size = sorted(offered.items(), key=lambda item: -item[1].accelerator.chips)
    pods = [pod_of(name, plan) for name, plan in by_size]
    assert placed(kubernetes, nodes, pods) == {name: name for name in offered}


def test_pod_without_a_machine_says_why(kubernetes):
    (l4, large), tpu = (plans("spot")[name] for name in ("l4", "l4-4")), plans("spot")["v5e-4"]
    nodes = [node_of("l4", l4), node_of("tainted", tpu, {**SPOT_TAINT, "key": "example.com/team"})]
    places = placed(kubernetes, nodes, [pod_of("large", large), pod_of("tpu", tpu)])
    assert "Insufficient nvidia.com/gpu" in places["large"]
    assert "untolerated taint" in places["tpu"]
