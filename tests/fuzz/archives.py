"""Archives of files: ZIP and tar, packed or not, damaged as bytes, or with members that no archive should have."""

import dataclasses
import functools
import gzip
import io
import random
import stat
import struct
import tarfile
import warnings
import zipfile
import zlib

from tests.fuzz.mutate import cut, mutated
from tests.fuzz.names import name

Files = dict[str, bytes]
EPOCH = (2020, 1, 1, 0, 0, 0)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


@dataclasses.dataclass(frozen=True)
class Archive:
    kind: str
    data: bytes
    suffix: str
    is_sound: bool = False
    """Whether it holds the files that it was made of, and nothing else."""


def archive(files: Files, source: random.Random) -> Archive:
    """An archive of a random kind, of files."""
    return source.choice((_sound, _damaged, _damaged, _damaged, _odd_zip, _odd_tar, _headers))(files, source)


def _sound(files: Files, source: random.Random) -> Archive:
    suffix = source.choice((".zip", ".tar", ".tar.gz", ".tgz"))
    if suffix == ".zip":
        return Archive("sound zip", zipped(files, source.choice(METHODS)), suffix, True)
    form = source.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT))
    return Archive(f"sound {suffix}", _packed(tarred(files, form), suffix), suffix, True)


def _damaged(files: Files, source: random.Random) -> Archive:
    whole = _sound(files, source)
    damage = cut if source.random() < 0.3 else mutated
    return Archive(whole.kind.replace("sound", "damaged"), damage(whole.data, source), whole.suffix)


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP archive, the same bytes each time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as out:
        for path, data in files.items():
            info = zipfile.ZipInfo(path, EPOCH)
            info.compress_type = method
            out.writestr(info, data)
    return packed.getvalue()


def tarred(files: Files, form: int = tarfile.PAX_FORMAT, extra: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    """A tarball, not packed, the same bytes each time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as out:
        for path, data in files.items():
            out.addfile(_entry(path, len(data)), io.BytesIO(data))
        for entry in extra:
            out.addfile(entry)
    return packed.getvalue()


def _entry(path: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.type, entry.linkname = size, kind, link
    return entry


def _packed(data: bytes, suffix: str) -> bytes:
    return data if suffix == ".tar" else gzip.compress(data, mtime=0)


def _odd_zip(files: Files, source: random.Random) -> Archive:
    """With a member of an odd name, kind, size or method, or with one that is there twice."""
    path = next(iter(files))
    packed = io.BytesIO()
    kind = source.choice(("name", "link", "twice", "encrypted", "method", "bomb", "utf-8", "folder"))
    if kind == "bomb":
        return Archive("bomb zip", _bomb(), ".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice
        for each, data in files.items():
            out.writestr(zipfile.ZipInfo(each, EPOCH), data)
        odd = zipfile.ZipInfo(f"stimuli/{_text(source)}", EPOCH)
        if kind == "link":
            odd.external_attr = (stat.S_IFLNK | 0o777) << 16
        elif kind == "twice":
            odd = zipfile.ZipInfo(path, EPOCH)
        elif kind == "folder":
            odd = zipfile.ZipInfo(f"{path}/below.png", EPOCH)
        if kind in ("name", "link", "folder") or (kind == "twice" and source.random() < 0.5):
            try:
                out.writestr(odd, b"x")
            except (UnicodeEncodeError, struct.error):  # Python writes no such name
                out.writestr(zipfile.ZipInfo("stimuli/x", EPOCH), b"x")
    data = packed.getvalue()
    central = data.find(b"PK\1\2")
    if kind == "encrypted":
        data = _numbers(data, (6, 8), 1)
    elif kind == "method":
        data = _numbers(data, (8, 10), source.choice((1, 9, 95, 98)))
    elif kind == "utf-8":
        data = _numbers(data, (6, 8), 0x800).replace(b"stimuli/", b"stimul\xff/")
    elif kind == "twice":
        data = data[:central] + data[central : data.find(b"PK\5\6")] + data[central:]
    return Archive(f"{kind} zip", data, ".zip")


@functools.cache
def _bomb() -> bytes:
    """A member of 4 GB of zeros, in 4 MB: one part of its stream again and again. Its checksum is wrong."""
    packer = zlib.compressobj(wbits=-15)
    part = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    stream = part * 255 + packer.flush()
    name, size = b"stimuli/1.png", 255 * 2**24
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x5021, 0, len(stream), size, len(name), 0)
    local = b"PK\3\4" + fields + name + stream
    directory = b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(directory), len(local), 0)
    return local + directory + end


def _numbers(data: bytes, places: tuple[int, int], number: int) -> bytes:
    """Set a 16-bit field of each member: at one place of its own header, at another of the directory's."""
    out = bytearray(data)
    for magic, place in zip((b"PK\3\4", b"PK\1\2"), places, strict=True):
        at = data.find(magic)
        while at >= 0:
            out[at + place : at + place + 2] = struct.pack("<H", number)
            at = data.find(magic, at + 4)
    return bytes(out)


def _text(source: random.Random) -> str:
    """A name that archives can hold; a ZIP's has no lone surrogates, and none is longer than 60 kB."""
    return name(source)[:60_000]


def _odd_tar(files: Files, source: random.Random) -> Archive:
    """With a member of an odd name or kind, or of a size that it does not have."""
    path, suffix = next(iter(files)), source.choice((".tar", ".tar.gz"))
    odd = source.choice(
        (
            _entry(f"stimuli/{_text(source)}"),
            _entry(_text(source) or "x"),
            _entry("stimuli/link.png", 0, tarfile.SYMTYPE, "/etc/passwd"),
            _entry("stimuli/hard.png", 0, tarfile.LNKTYPE, path),
            _entry("stimuli/pipe.png", 0, tarfile.FIFOTYPE),
            _entry("stimuli/device.png", 0, tarfile.CHRTYPE),
            _entry(path),
            _entry(f"{path}/below.png"),
            _entry("stimuli", 0, tarfile.REGTYPE),
            _entry("stimuli/x.png", 2**40),
            _entry("stimuli/sparse.png", 0, tarfile.GNUTYPE_SPARSE),
            _entry("stimuli/odd.png", 0, b"Z"),
        )
    )
    size, odd.size = odd.size, 0
    odd.size = size if source.random() < 0.5 else 0
    form = source.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    try:
        data = tarred(files, form, (odd,))
    except (UnicodeEncodeError, ValueError):
        data = tarred(files, form, (_entry("stimuli/odd\udcff.png"),))
    return Archive(f"member of {suffix}", _packed(data, suffix), suffix)


def _headers(files: Files, source: random.Random) -> Archive:
    """A tarball with PAX headers or sparse maps that say odd things of the member behind them."""
    said = source.choice(
        (
            {"path": "stimuli/nul\0inside.png"},
            {"path": "../../up.png"},
            {"path": "a" * 5000},
            {"size": "-1"},
            {"size": str(2**60)},
            {"size": "nine"},
            {
                "GNU.sparse.major": "1",
                "GNU.sparse.minor": "0",
                "GNU.sparse.name": "s.png",
                "GNU.sparse.realsize": "9",
            },
            {"GNU.sparse.map": "0,1,5", "GNU.sparse.size": str(2**40)},
            {"mtime": "nan"},
            {"hdrcharset": "BINARY", "path": "stimuli/\udcff.png"},
        )
    )
    entry = _entry("stimuli/said.png", 1)
    entry.pax_headers = said
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out:
        for path, data in files.items():
            out.addfile(_entry(path, len(data)), io.BytesIO(data))
        out.addfile(entry, io.BytesIO(b"x"))
    suffix = source.choice((".tar", ".tgz"))
    return Archive(f"headers of {suffix}", _packed(packed.getvalue(), suffix), suffix)
