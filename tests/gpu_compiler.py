"""Compile a program for a GPU, without a GPU; `gpu_compile.py` runs this in the environment of jax.

    .venv-check-gpu/bin/python -P tests/gpu_compiler.py STEP.hlo CHIP.txtpb

Prints one line of JSON: the memory and the traffic of the program, or `error` with the message of the compiler.
jax describes a GPU that does not exist, by XLA's GpuTargetConfigProto as text, and XLA compiles for it.
"""

import json
import math
import os
import pathlib
import re
import sys
import sysconfig
from typing import Any

CUDA = pathlib.Path(sysconfig.get_path("purelib"), "nvidia", "cu13")
"""NVIDIA's wheels, with ptxas and libdevice."""
HERMETIC = {
    "JAX_PLATFORMS": "cuda",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={CUDA} --xla_gpu_autotune_level=0",
}
"""There is no GPU: no driver whose version could be checked, and nothing that kernels could be timed on."""
BITS = {"pred": 8, "s8": 8, "u8": 8, "f16": 16, "bf16": 16, "s32": 32, "u32": 32, "f32": 32, "s64": 64, "u64": 64}
NO_TRAFFIC = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast"}
"""Operations that only name a part of the memory."""


def main() -> int:
    """Compile for the chip, and print the result."""
    os.environ.update(HERMETIC)
    step, chip = (pathlib.Path(path).read_text() for path in sys.argv[1:])
    result: dict[str, Any]
    try:
        result = compile_text(step, chip)
    except Exception as error:  # XLA: an unsupported operation, or a chip that it does not know
        result = {"error": str(error).strip()}
    print(json.dumps(result))
    return 0


def compile_text(text: str, chip: str) -> dict[str, float]:
    """Compile HLO text for `chip`, a GpuTargetConfigProto as text, and return its counts."""
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies
    from jaxlib import _hlo, _jax

    described = topologies.get_topology_desc("", platform="cuda", topology="1x1x1", target_config=chip)
    # StableHLO has no copy of a variable; a reshape to the same shape is equivalent.
    text = re.sub(r"(= \S+ )copy\(", r"\1reshape(", text)
    module = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    with mlir.make_ir_context():
        program = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(module))
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.zeros((1, 1), int))
    devices = xla_client.DeviceList(tuple(described.devices))
    compiled = described.devices[0].client.compile(program, devices, options)
    memory = compiled.get_compiled_memory_stats()
    return {
        "bytes": traffic_bytes(compiled.hlo_modules()[0].to_string()),
        "arguments_bytes": memory.argument_size_in_bytes,
        "unaliased_bytes": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
    }


def traffic_bytes(text: str) -> int:
    """Size of what the operations of a compiled program read and write, each from and to memory: no cache counts.

    Fusions are one operation each, so values within them are not counted.
    """
    entry = text[text.index("\nENTRY ") :]
    sizes: dict[str, int] = {}
    total = 0
    for name, shape, operation, operands in re.findall(
        r"^  (?:ROOT )?(%\S+) = (\(.*?\)|\S+) ([\w-]+)\((.*?)\)(?:,|$)", entry, re.MULTILINE
    ):
        sizes[name] = _shape_bytes(shape)
        if operation not in NO_TRAFFIC:
            total += sizes[name] + sum(sizes[operand] for operand in re.findall(r"%[^\s,)]+", operands))
    return total


def _shape_bytes(shape: str) -> int:
    return sum(
        BITS[kind] // 8 * math.prod(int(side) for side in sides.split(",") if side)
        for kind, sides in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shape)
    )


if __name__ == "__main__":
    sys.exit(main())
