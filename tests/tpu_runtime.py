"""Ask TensorFlow and libtpu, without a TPU, whether this pair could drive one, and print the answers as JSON.

    LD_BIND_NOW=1 python tests/tpu_runtime.py

It runs in the environment of requirements/tpu.txt or in the tpu image, with the image's variables and `OFF_HOST`,
so it imports nothing else of this project. The answers:

- `unbound`: the functions that libtpu calls and that TensorFlow does not have. They are weak symbols: the library
  loads all the same, and a call of one ends the process with SIGSEGV.
- `error`: what `initialize_tpu_system` raises. On a machine without a TPU, a pair that works says that it found
  none.
"""

import ctypes
import json
import os
import pathlib
import struct

OFF_HOST = {
    # libtpu asks a metadata server what it runs on, and waits for one where there is none.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}

# === Functions that libtpu calls ===

LOAD, DYNAMIC = 1, 2
"""Types of ELF's program headers."""
STRTAB, SYMTAB, RELA, RELASZ, PLTRELSZ, JMPREL = 5, 6, 7, 8, 2, 23
"""Tags of ELF's dynamic section."""
GLOB_DAT, JUMP_SLOT = 6, 7
"""Types of the relocations of x86-64 that fill a slot of a library with the address of a symbol."""


def unbound(library):
    """Names of the functions of TensorFlow that a loaded library would call at address 0."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    base = min(int(line.split("-")[0], 16) for line in lines if line.endswith(os.path.realpath(library)))
    return sorted(name for name, offset in slots(library).items() if not word(base + offset).value)


def slots(library):
    """Map the functions of TensorFlow that a library calls to the offsets of their slots in it."""
    data = pathlib.Path(library).read_bytes()
    size, count = struct.unpack_from("<HH", data, 54)
    headers = list(struct.iter_unpack("<IIQQQQQQ", data[64 : 64 + size * count]))
    (dynamic,) = [
        data[offset : offset + length] for kind, _, offset, _, _, length, *_ in headers if kind == DYNAMIC
    ]
    tags = dict(struct.iter_unpack("<QQ", dynamic))

    def position(address):
        """Position in the file of what is loaded at an address."""
        return next(
            offset + address - start
            for kind, _, offset, start, _, length, *_ in headers
            if kind == LOAD and start <= address < start + length
        )

    symbols, names = position(tags[SYMTAB]), position(tags[STRTAB])
    found = {}
    for table, length in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
        first = position(tags[table])
        for offset, info, _ in struct.iter_unpack("<QQq", data[first : first + tags[length]]):
            (name,) = struct.unpack_from("<I", data, symbols + 24 * (info >> 32))
            if info & 0xFFFFFFFF in (GLOB_DAT, JUMP_SLOT) and data.startswith(b"TF_", names + name):
                found[data[names + name : data.index(b"\0", names + name)].decode()] = offset
    return found


def word(address):
    """The 64 bits at an address of this process."""
    return ctypes.c_uint64.from_address(address)


# === The system ===


def initialization_error():
    """What starting the TPU system raises on a machine without a TPU."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver("local")
    try:
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except tf.errors.OpError as error:
        return error.message
    return ""


def main():
    import libtpu

    library = os.environ.setdefault("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", libtpu.get_library_path())
    import tensorflow as tf  # loads the library

    print(json.dumps({"tensorflow": tf.__version__, "unbound": unbound(library)}), flush=True)
    print(json.dumps({"error": initialization_error()}))


if __name__ == "__main__":
    main()
