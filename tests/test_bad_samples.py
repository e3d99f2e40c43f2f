"""25 bad files for each reader of other people's files: each is read, or refused in a sentence.

`make fuzz` gives the same readers a thousand each, or as many as SAMPLES says.
"""

import itertools
import os
import random
import struct
import zlib

import pytest

from tests import damage
from tests.readers import READERS, SIZE, RefusedError, opened, pictures
from tests.refused_pictures import PNG, VAST_PNG, chunk, png_header

N = int(os.environ.get("SAMPLES", "25"))
SOUND = pictures()
TOO_LARGE = {
    "predict": {
        "photo.png": VAST_PNG,
        "photo.gif": SOUND["photo.gif"].replace(struct.pack("<HH", *SIZE[::-1]), b"\xff\xff\xff\xff", 1),
        "photo.tif": SOUND["photo.tif"].replace(
            struct.pack("<HHII", 256, 4, 1, SIZE[1]), struct.pack("<HHII", 256, 4, 1, 10**9)
        ),
        "text.png": PNG
        + png_header(9)
        + chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**8)))
        + chunk(b"IDAT", b""),
    },
    "fetch": {"2.png": VAST_PNG, "fixations.csv": b"image,x,y\n" + b"1.png," * 500_000},
    "import-weights": {"x.pb": b"\x0a\xff\xff\xff\xff\x07" + bytes(100)},
}
"""Reader -> files that declare or hold more than can be read."""


def samples(name, sound):
    """(what it is, name, content, whether it must be refused) of each bad file of a reader."""
    source = random.Random(name)
    files = list(sound)
    bad = [(f"{file}, too large", file, content, True) for file, content in TOO_LARGE[name].items()]
    for file, damaged in itertools.product(files[:4], (damage.empty, damage.other)):
        bad.append((f"{file}, {damaged.__name__}", file, damaged(sound[file], source), True))
    while len(bad) < N:
        file, damaged = files[len(bad) % len(files)], source.choice(damage.DAMAGES)
        bad.append((f"{file}, {damaged.__name__}", file, damaged(sound[file], source), False))
    return bad


@pytest.mark.filterwarnings("ignore")  # what libraries say about damaged files
@pytest.mark.parametrize("name", READERS)
def test_bad_files_are_read_or_refused_in_a_sentence(name, tmp_path):
    wrong, refused = {}, 0
    with opened(name, tmp_path) as reader:
        for file, content in reader.sound.items():
            reader.read(file, content)
        for what, file, content, is_sure in samples(name, reader.sound):
            try:
                reader.read(file, content)
            except RefusedError as error:
                refused += 1
                if "error" not in str(error):
                    wrong[what] = f"refused without a sentence: {error}"
            except Exception as error:  # a user would have seen its traceback
                wrong[what] = repr(error)
            else:
                if is_sure:
                    wrong[what] = "was read"
    assert not wrong
    assert refused >= N // 2
