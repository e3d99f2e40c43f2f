"""The machine of a training as a pod on Google Kubernetes Engine requests it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from trainer.training import FLEX_START, SPOT, Accelerator

NODE_LABELS = {SPOT: "cloud.google.com/gke-spot", FLEX_START: "cloud.google.com/gke-flex-start"}
"""Label of the GKE nodes of each provisioning other than standard."""
RESERVED_CPU = ((1, 0.06), (1, 0.01), (2, 0.005), (math.inf, 0.0025))
"""Shares of a node's cores that GKE reserves: of the first, the second, the next two, and all others (Google
Kubernetes Engine, "About GKE node sizing")."""
RESERVED_MEMORY = ((4, 0.25), (4, 0.2), (8, 0.1), (112, 0.06), (math.inf, 0.02))
"""Shares of a node's memory that GKE reserves: of the first 4 GiB, the next 4, 8 and 112, and the rest (the
same page)."""
EVICTION_GIB = 0.1
"""Memory of a node in GiB below which it evicts pods, so that they cannot ask for it (the same page)."""
SYSTEM_PODS = 1
"""Cores and GiB left for the pods that GKE runs on each node: logs, metrics, drivers. An assumption."""
KERNEL = 0.025
"""Share of the machine's memory that its kernel takes, so that the node never has it. An assumption."""


class Pod(NamedTuple):
    """What a pod that has a machine to itself asks for."""

    cpu: str
    """Cores: the machine's, less what its node needs for itself. Example: `6` of 8."""
    memory: str
    """The machine's memory, less what its node needs for itself. Example: `26Gi` of 32."""
    node_selector: dict[str, str]
    """Labels that its GKE node must have, such as `{"cloud.google.com/gke-spot": "true"}`."""
    tolerations: list[dict[str, str]]
    """Pools of Spot and of Flex-start nodes may have their label as a taint."""

    @classmethod
    def on(cls, row: Accelerator, provisioning: str) -> "Pod":
        """The pod on a machine of the table of accelerators."""
        cores, size = row.vcpus, row.host_memory_gb  # Compute Engine writes GB for 2**30 bytes
        left = (1 - KERNEL) * size - _reserved(size, RESERVED_MEMORY) - EVICTION_GIB - SYSTEM_PODS
        label = NODE_LABELS.get(provisioning)
        return cls(
            cpu=str(math.floor(cores - _reserved(cores, RESERVED_CPU) - SYSTEM_PODS)),
            memory=f"{math.floor(left)}Gi",
            node_selector={**row.node_selector, **({label: "true"} if label else {})},
            tolerations=[{"key": label, "operator": "Exists", "effect": "NoSchedule"}] if label else [],
        )


def _reserved(amount: float, shares: Sequence[tuple[float, float]]) -> float:
    """The sum of a share of each part of `amount`. `shares` has the sizes of the parts and their shares.

    Example: 3 cores with `((1, 0.06), (2, 0.01))` are 0.06 and twice 0.01, so 0.08.
    """
    total = 0.0
    for size, share in shares:
        part = min(amount, size)
        total += share * part
        amount -= part
    return total
