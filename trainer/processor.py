"""What this machine's processor can do, as Linux says. Standard library only."""

import pathlib

from trainer.errors import check

CPU_INFO = pathlib.Path("/proc/cpuinfo")
NEEDED = "avx"
"""What TensorFlow's packages for x86 processors are built with."""
FAST = "avx2"
"""What this project is made for: oneDNN has slower kernels for older processors, which nobody has tested here."""


def flags(cpu_info: pathlib.Path | None = None) -> frozenset[str]:
    """The instruction sets that the processor names; empty where it names none, as on ARM or a Mac."""
    try:
        lines = (cpu_info or CPU_INFO).read_text().splitlines()
    except OSError:  # not Linux
        return frozenset()
    found = (line.partition(":") for line in lines)
    return next((frozenset(names.split()) for key, _, names in found if key.strip() == "flags"), frozenset())


def check_processor(cpu_info: pathlib.Path | None = None) -> str:
    """What you should know of a processor that TensorFlow runs on slowly; empty for all newer ones.

    Args:
        cpu_info: file of the form of CPU_INFO, to be read in its place.

    Raises:
        UserError: where TensorFlow would end the process by a signal, without a word that helps.
    """
    found = flags(cpu_info)
    check(
        not found or NEEDED in found,
        "TensorFlow needs a processor with AVX instructions, and this machine's has none; use a machine with a "
        "newer processor (Intel and AMD have built AVX into theirs since 2011)",
    )
    if not found or FAST in found:
        return ""
    return (
        "this machine's processor has no AVX2 instructions: TensorFlow runs, but training takes several times as "
        "long; use a newer processor (most since 2015 have AVX2), or a GPU"
    )
