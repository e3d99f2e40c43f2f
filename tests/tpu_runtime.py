"""Ask TensorFlow and libtpu, without a TPU, whether this pair could drive one, and print the answers as JSON.

    LD_BIND_NOW=1 python tests/tpu_runtime.py      # `unbound`, then `error`
    python tests/tpu_runtime.py LAYOUT             # `refused`; LAYOUT is a file with what `layout` returns

It runs in the environment of requirements/tpu.txt or in the tpu image, with the image's variables and `OFF_HOST`,
so it imports nothing else of this project. The answers:

- `unbound`: the functions that libtpu calls and that TensorFlow does not have. They are weak symbols: the library
  loads all the same, and a call of one ends the process with SIGSEGV.
- `refused`: what libtpu answers to the structs of the PJRT interface as TensorFlow's header defines them, for each
  function that refuses their size, as a libtpu does that is newer than TensorFlow.
- `error`: what `initialize_tpu_system` raises. On a machine without a TPU, a pair that works says that it found
  none.
"""

import ctypes
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys

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


# === Structs of the PJRT interface ===

ROOM = 4096
"""Bytes that any struct of the interface fits into."""


def layout(header, folder):
    """Sizes, fields and functions of TensorFlow's header of the PJRT interface, by the C compiler of this machine.

    Args:
        header: path of pjrt_c_api.h.
        folder: of the program that prints them.

    Returns:
        `sizes`, struct -> bytes; `functions`, function -> offset of its pointer in `PJRT_Api`; `pointers`,
        struct -> list of offset and struct of each field that points to another struct of `sizes`.
    """
    text = header.read_text()
    sized = re.findall(r"^PJRT_DEFINE_STRUCT_TRAITS\(\s*(\w+),", text, re.MULTILINE)
    bodies = dict(re.findall(r"^(?:typedef )?struct (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL))
    lines = [f'"sizes", "{name}", (int){name}_STRUCT_SIZE, ""' for name in sized]
    lines += [
        f'"functions", "{name}", (int)offsetof(PJRT_Api, {name}), ""'
        for name in re.findall(r"^\s*_PJRT_API_STRUCT_FIELD\((\w+)\);", text, re.MULTILINE)
    ]
    lines += [
        f'"pointers", "{name}", (int)offsetof({name}, {field}), "{kind}"'
        for name in sized
        for kind, field in re.findall(r"^\s*(?:const )?(\w+)\* (\w+);", bodies[name], re.MULTILINE)
        if kind in sized and kind != "PJRT_Extension_Base"
    ]
    prints = "\n".join(f'  printf("%s %s %d %s\\n", {line});' for line in lines)
    source, program = folder / "layout.c", folder / "layout"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{header}"\nint main(void) {{\n{prints}\n}}\n'
    )
    subprocess.run(["cc", source, "-o", program], check=True)
    found: dict = {"sizes": {}, "functions": {}, "pointers": {name: [] for name in sized}}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        part, name, number, *kind = line.split()
        if kind:
            found[part][name].append((int(number), *kind))
        else:
            found[part][name] = int(number)
    return found


def refused(library, described):
    """What libtpu answers where it refuses the size of a struct: function -> sentence.

    Each function is called in a process of its own with structs of zeros. Whatever comes after their sizes were
    accepted, such as a crash for want of a client, does not matter.
    """
    loaded = ctypes.CDLL(library)
    loaded.GetPjrtApi.restype = ctypes.c_uint64
    api = loaded.GetPjrtApi()
    call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)
    kept = []

    def make(name):
        """Address of a struct with its size, and with those that it points to."""
        kept.append(ctypes.create_string_buffer(ROOM))
        address = ctypes.addressof(kept[-1])
        word(address).value = described["sizes"][name]
        for offset, kind in described["pointers"][name]:
            word(address + offset).value = make(kind)
        return address

    def sentence(error):
        """Text of a PJRT_Error."""
        asked = make("PJRT_Error_Message_Args")  # its size, an extension, the error, the text and its length
        word(asked + 16).value = error
        call(word(api + described["functions"]["PJRT_Error_Message"]).value)(asked)
        return ctypes.string_at(word(asked + 24).value, word(asked + 32).value)

    def answer(name):
        """What a function says to its arguments in a child of this process; empty if it does not say anything."""
        reader, writer = os.pipe()
        if not (child := os.fork()):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
            for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
                signal.signal(number, signal.SIG_DFL)
            signal.alarm(20)
            if error := call(word(api + described["functions"][name]).value)(make(f"{name}_Args")):
                os.write(writer, sentence(error))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as output:
            said = output.read()
        os.waitpid(child, 0)
        return said.decode()

    about_errors = ("PJRT_Error_Destroy", "PJRT_Error_Message", "PJRT_Error_GetCode")  # these return nothing
    names = [
        name
        for name in described["functions"]
        if f"{name}_Args" in described["sizes"] and name not in about_errors
    ]
    assert len(names) > 100, names
    answers = {name: answer(name) for name in names}
    return {name: said for name, said in answers.items() if re.search(r"Unexpected \w+ size", said)}


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
    if sys.argv[1:]:
        print(json.dumps({"refused": refused(library, json.loads(pathlib.Path(sys.argv[1]).read_text()))}))
        return
    import tensorflow as tf  # loads the library

    print(json.dumps({"tensorflow": tf.__version__, "unbound": unbound(library)}), flush=True)
    print(json.dumps({"error": initialization_error()}))


if __name__ == "__main__":
    main()
