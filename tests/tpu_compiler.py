"""Compile a program for a TPU, without a TPU; `tpu_compile.py` runs this in the environment of jax.

    .venv-check-tpu/bin/python -P tests/tpu_compiler.py STEP.hlo 2x2

Prints one line of JSON: counts of one chip's program, or `error` with the message of the compiler. jax describes a
slice of chips that does not exist, and libtpu compiles for it as it would on the machine.
"""

import json
import math
import os
import pathlib
import re
import sys
from typing import Any

HERMETIC = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_LOG_DIR": "disabled",
    "TPU_MIN_LOG_LEVEL": "3",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}
"""There is no TPU: no metadata server, no device that only one process can use, and no log folder."""
BYTES = {"f32": 4, "bf16": 2}


def main() -> int:
    """Compile for the topology, and print the result."""
    os.environ.update(HERMETIC)
    path, topology = sys.argv[1:]
    result: dict[str, Any]
    try:
        result = compile_text(pathlib.Path(path).read_text(), topology)
    except Exception as error:  # XLA: out of memory, or an unsupported operation
        result = {"error": str(error).strip()}
    print(json.dumps(result))
    return 0


def compile_text(text: str, topology: str) -> dict[str, float]:
    """Compile HLO text for every chip of `topology` (such as 2x4), and return its counts."""
    import numpy as np
    from jax._src.lib import xla_client, xla_extension
    from jax.experimental import topologies

    bounds: dict[str, Any] = {"chips_per_host_bounds": (1, 1, 1)} if topology == "1x1" else {}
    slice_ = topologies.get_topology_desc(topology_name=f"v5e:{topology}", platform="tpu", **bounds)
    # StableHLO has no copy of a variable; a reshape to the same shape is equivalent.
    text = re.sub(r"(= \S+ )copy\(", r"\1reshape(", text)
    module = xla_extension.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    program = xla_extension.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(module))
    chips = len(slice_.devices)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = chips, 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(chips).reshape(chips, 1))
    compiled = slice_.devices[0].client.compile(program, options)
    costs, memory = compiled.cost_analysis(), compiled.get_compiled_memory_stats()
    costs = costs[0] if isinstance(costs, list) else costs
    return {
        "flops": costs["flops"],
        "bytes": costs["bytes accessed"],
        "arguments_bytes": memory.argument_size_in_bytes,
        "unaliased_bytes": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "exchanged_bytes": exchanged_bytes(compiled.hlo_modules()[0].to_string()),
    }


def exchanged_bytes(text: str) -> int:
    """Total size of the operands of all all-reduces in a compiled program."""
    total = 0
    for shapes in re.findall(r"= (.*?) all-reduce(?:-start)?\(", text):
        for kind, sides in re.findall(r"\b(f32|bf16)\[([\d,]*)\]", shapes):
            total += BYTES[kind] * math.prod(int(side) for side in sides.split(",") if side)
    return total


if __name__ == "__main__":
    sys.exit(main())
