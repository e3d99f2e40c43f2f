"""Instruction sets of this machine's CPU, as Linux reports them."""

import pathlib

from trainer.errors import check

CPU_INFO = pathlib.Path("/proc/cpuinfo")
REQUIRED = "avx"
"""Instruction set that TensorFlow's packages for x86 CPUs are built with."""
FAST = "avx2"
"""Instruction set without which oneDNN has slower kernels; this project has not been tested there."""


def instruction_sets(cpu_info: pathlib.Path | None = None) -> frozenset[str]:
    """Instruction sets that the CPU reports; empty if it reports none, as on ARM or a Mac.

    Args:
        cpu_info: file in the format of CPU_INFO, read instead of it.
    """
    try:
        lines = (cpu_info or CPU_INFO).read_text().splitlines()
    except OSError:  # not Linux
        return frozenset()
    fields = (line.partition(":") for line in lines)
    return next((frozenset(names.split()) for key, _, names in fields if key.strip() == "flags"), frozenset())


def check_cpu(cpu_info: pathlib.Path | None = None) -> str:
    """A warning about a CPU on which TensorFlow is slow; empty for newer ones.

    Args:
        cpu_info: file in the format of CPU_INFO, read instead of it.

    Raises:
        UserError: if TensorFlow would end the process by a signal, without a useful message.
    """
    names = instruction_sets(cpu_info)
    check(
        not names or REQUIRED in names,
        "TensorFlow needs a CPU with AVX instructions, and this machine's CPU has none; use a machine with a "
        "newer CPU (Intel and AMD CPUs have had AVX since 2011)",
    )
    if not names or FAST in names:
        return ""
    return (
        "this machine's CPU has no AVX2 instructions: TensorFlow runs, but training takes several times as long; "
        "use a newer CPU (most have had AVX2 since 2015), or a GPU"
    )
