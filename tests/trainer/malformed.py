"""Files that are no sound pictures, or odd ones, and what should come of each."""

import io
import os
import random
import struct
import zlib

from PIL import Image

from tests.golden.inputs import image

MAP, FAILS = "map", "fails"


def picture(format, size=(40, 60), mode="RGB", **options):
    buffer = io.BytesIO()
    Image.fromarray(image(1, 1, *size)[0]).convert(mode).save(buffer, format, **options)
    return buffer.getvalue()


def chunk(kind, data, crc=None):
    crc = zlib.crc32(kind + data) if crc is None else crc
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)


def png(width, height, *chunks, depth=8, color=2):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + chunk(b"IEND", b"")


def zeros(width, height):
    """A PNG that is small and decodes to zeros."""
    return png(width, height, chunk(b"IDAT", zlib.compress(bytes((3 * width + 1) * height), 9)))


def with_exif(content):
    return picture("JPEG", exif=b"Exif\0\0" + content)


def replaced(data, position, new):
    return data[:position] + new + data[position + len(new) :]


def strips_of_another_type():
    """A TIFF that libtiff refuses, since the places of its pixels are texts."""
    data = picture("TIFF", compression="tiff_lzw")
    place = data.index(struct.pack("<HH", 273, 4))
    return replaced(data, place + 2, struct.pack("<H", 2))


def width_tag(width):
    return struct.pack("<HHII", 256, 4, 1, width)


def animation(format):
    frames = [Image.new("RGB", (30, 20), color) for color in ("red", "blue", "white")]
    buffer = io.BytesIO()
    frames[0].save(buffer, format, save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def files():
    """Name -> (content, whether there is a map of it or a reason, part of the reason)."""
    jpeg, whole, gif, webp, tiff = (picture(each) for each in ("JPEG", "PNG", "GIF", "WEBP", "TIFF"))
    noise = random.Random(0).randbytes(2000)
    idat = whole.index(b"IDAT")
    return {
        # Cut short.
        "cut-half.jpg": (jpeg[: len(jpeg) // 2], FAILS, "cut short"),
        "cut-half.png": (whole[: len(whole) // 2], FAILS, "cut short"),
        "cut-half.webp": (webp[: len(webp) // 2], FAILS, "does not decode"),
        # Of another kind than their names say.
        "jpeg.png": (jpeg, MAP, ""),
        "text.jpg": (b"This is no picture.\n" * 50, FAILS, "is not a JPEG, PNG, WebP, GIF, TIFF or BMP"),
        "apple.jpg": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + noise, FAILS, "is not a JPEG"),
        # Empty.
        "empty.jpg": (b"", FAILS, "is empty (0 bytes)"),
        "no-pixels.png": (png(0, 20), FAILS, "PNG"),
        # Bombs.
        "bomb.png": (png(50_000, 50_000, chunk(b"IDAT", zlib.compress(bytes(10**6)))), FAILS, "2,500 megapixels"),
        "bomb.gif": (replaced(gif, 6, struct.pack("<HH", 65535, 65535)), FAILS, "4,295 megapixels"),
        "bomb.webp": (replaced(picture("WEBP", lossless=True), 21, b"\xff\xff\xff\x0f"), FAILS, ""),
        "bomb.tif": (tiff.replace(width_tag(60), width_tag(10**9)), FAILS, "megapixels"),
        "bomb-of-text.png": (
            png(9, 9, chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**8))), chunk(b"IDAT", b"")),
            FAILS,
            "too large",
        ),
        "long-side.png": (png(70_000, 1, chunk(b"IDAT", b"")), FAILS, "a side has at most 65,535"),
        # Odd sizes.
        "one-pixel.png": (picture("PNG", (1, 1)), MAP, ""),
        "banner.png": (zeros(20_000, 10), MAP, ""),
        "pole.png": (zeros(10, 20_000), MAP, ""),
        "line.webp": (picture("WEBP", (1, 3000)), MAP, ""),
        # Animations and unusual modes.
        "animation.gif": (animation("GIF"), MAP, ""),
        "float.tif": (picture("TIFF", mode="F"), MAP, ""),
        # Damaged tags, checksums and data.
        "exif-orientation-9.jpg": (with_exif(b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\x09\0\0\0\0\0\0"), MAP, ""),
        "checksum.png": (replaced(whole, idat + 4 + len(whole) // 4, b"\0\1\2\3"), FAILS, "cut short"),
        "strips-of-another-type.tif": (strips_of_another_type(), FAILS, "TIFF"),
    }  # fmt: skip


def write(folder):
    """All of them, and what is no file at all; name -> (map or reason, part of the reason)."""
    made = files()
    for name, (content, _, _) in made.items():
        (folder / name).write_bytes(content)
    expected = {name: (outcome, reason) for name, (_, outcome, reason) in made.items()}
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "nothing.png").symlink_to("nowhere.png")
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    (folder / "folder.png" / "inside.png").write_bytes(picture("PNG"))
    (folder / "folder.png" / "up").symlink_to(folder)
    (folder / "secret.png").write_bytes(picture("PNG"))
    (folder / "secret.png").chmod(0)
    expected["loop.png"] = (FAILS, "Too many levels of symbolic links")
    expected["nothing.png"] = (FAILS, "No such file or directory")
    expected["pipe.png"] = (FAILS, "a pipe or a device")
    expected["folder.png/inside.png"] = (MAP, "")
    # Nothing is unreadable to root.
    expected["secret.png"] = (MAP, "") if os.geteuid() == 0 else (FAILS, "Permission denied")
    return expected
