"""Some sixty files that are no sound pictures, or odd ones, and what should come of each."""

import io
import os
import random
import struct
import zlib

from PIL import Image

from tests.golden.inputs import image

MAP, FAILS, EITHER = "map", "fails", "either"


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


def bmp(width, height):
    return replaced(picture("BMP"), 18, struct.pack("<ii", width, height))


def files():
    """Name -> (content, whether there is a map of it or a reason, part of the reason)."""
    jpeg, whole, gif, webp, tiff = (picture(each) for each in ("JPEG", "PNG", "GIF", "WEBP", "TIFF"))
    noise = random.Random(0).randbytes(2000)
    idat = whole.index(b"IDAT")
    return {
        # Cut short.
        "cut-half.jpg": (jpeg[: len(jpeg) // 2], FAILS, "cut short"),
        "cut-header.jpg": (jpeg[:30], FAILS, "cut short"),
        "cut-3-bytes.jpg": (jpeg[:3], FAILS, "JPEG"),
        "cut-half.png": (whole[: len(whole) // 2], FAILS, "cut short"),
        "cut-header.png": (whole[:20], FAILS, "cut short"),
        "cut-signature.png": (whole[:8], FAILS, "PNG"),
        "cut-half.gif": (gif[: len(gif) // 2], FAILS, "cut short"),
        "cut-half.webp": (webp[: len(webp) // 2], FAILS, "does not decode"),
        "cut-half.tif": (tiff[: len(tiff) // 2], FAILS, "TIFF"),
        "cut-half.bmp": (picture("BMP")[:2000], FAILS, "cut short"),
        # Of another kind than their names say.
        "jpeg.png": (jpeg, MAP, ""),
        "png.jpg": (whole, MAP, ""),
        "webp.gif": (webp, MAP, ""),
        "text.jpg": (b"This is no picture.\n" * 50, FAILS, "is not a JPEG, PNG, WebP, GIF, TIFF or BMP"),
        "page.png": (b"\xef\xbb\xbf<!DOCTYPE html><html>404</html>", FAILS, "is not a JPEG"),
        "drawing.png": (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', FAILS, "is not a JPEG"),
        "plain-drawing.png": (b'<svg xmlns="http://www.w3.org/2000/svg"/>', FAILS, "is not a JPEG"),
        "document.jpg": (b"%PDF-1.7\n%...", FAILS, "is not a JPEG"),
        "apple.jpg": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + noise, FAILS, "is not a JPEG"),
        "archive.png": (b"PK\3\4" + noise, FAILS, "is not a JPEG"),
        "noise.jpg": (noise, FAILS, "is not a JPEG"),
        "postscript.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", FAILS, "is not a JPEG"),
        # Empty.
        "empty.jpg": (b"", FAILS, "is empty (0 bytes)"),
        "zeros.png": (bytes(1000), FAILS, "is not a JPEG"),
        "signature-and-zeros.png": (b"\x89PNG\r\n\x1a\n" + bytes(1000), FAILS, "PNG"),
        "no-data.png": (png(20, 20), FAILS, "cut short"),
        "no-pixels.png": (png(0, 20), FAILS, "PNG"),
        "no-pixels.bmp": (bmp(0, 0), FAILS, ""),
        # Bombs.
        "bomb.png": (png(50_000, 50_000, chunk(b"IDAT", zlib.compress(bytes(10**6)))), FAILS, "2,500 megapixels"),
        "bomb.bmp": (bmp(60_000, 60_000), FAILS, "3,600 megapixels"),
        "bomb.gif": (replaced(gif, 6, struct.pack("<HH", 65535, 65535)), FAILS, "4,295 megapixels"),
        "bomb.webp": (replaced(picture("WEBP", lossless=True), 21, b"\xff\xff\xff\x0f"), FAILS, ""),
        "bomb.tif": (tiff.replace(width_tag(60), width_tag(10**9)), FAILS, "megapixels"),
        "bomb-of-text.png": (
            png(9, 9, chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**8))), chunk(b"IDAT", b"")),
            FAILS,
            "too large",
        ),
        "huge-side.png": (png(2**31 - 1, 1, chunk(b"IDAT", b"")), FAILS, "megapixels"),
        "long-side.png": (png(70_000, 1, chunk(b"IDAT", b"")), FAILS, "a side has at most 65,535"),
        # Odd sizes.
        "one-pixel.png": (picture("PNG", (1, 1)), MAP, ""),
        "one-pixel.jpg": (picture("JPEG", (1, 1)), MAP, ""),
        "banner.png": (zeros(20_000, 10), MAP, ""),
        "pole.png": (zeros(10, 20_000), MAP, ""),
        "line.webp": (picture("WEBP", (1, 3000)), MAP, ""),
        # Animations and unusual modes.
        "animation.gif": (animation("GIF"), MAP, ""),
        "animation.webp": (animation("WEBP"), MAP, ""),
        "animation.png": (animation("PNG"), MAP, ""),
        "pages.tif": (animation("TIFF"), MAP, ""),
        "cmyk.jpg": (picture("JPEG", mode="CMYK"), MAP, ""),
        "lab.tif": (picture("TIFF", mode="LAB"), EITHER, ""),
        "float.tif": (picture("TIFF", mode="F"), MAP, ""),
        # Damaged tags, checksums and data.
        "exif-of-noise.jpg": (with_exif(noise[:300]), MAP, ""),
        "exif-cut-short.jpg": (with_exif(b"II*\0\x08\0\0\0\xff\xff"), MAP, ""),
        "exif-orientation-9.jpg": (with_exif(b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\x09\0\0\0\0\0\0"), MAP, ""),
        "exif-orientation-text.jpg": (with_exif(b"MM\0*\0\0\0\x08\0\1\1\x12\0\2\0\0\0\4abc\0\0\0\0\0"), MAP, ""),
        "checksum.png": (replaced(whole, idat + 4 + len(whole) // 4, b"\0\1\2\3"), FAILS, "cut short"),
        "checksum-of-header.png": (replaced(whole, 29, b"\0\0\0\0"), FAILS, "PNG"),
        "chunk-cut.png": (whole[: idat + 40] + chunk(b"IEND", b""), FAILS, "cut short"),
        "length-of-chunk.png": (replaced(whole, idat - 4, b"\x7f\xff\xff\xff"), MAP, ""),
        "noise-inside.jpg": (replaced(jpeg, len(jpeg) // 2, noise[:300]), EITHER, ""),
        "noise-inside.webp": (replaced(webp, 100, noise[:300]), EITHER, ""),
        "noise-behind.jpg": (jpeg + noise, MAP, ""),
        "animation-of-no-frames.png": (
            png(9, 9, chunk(b"IDAT", zlib.compress(bytes(9 * 28))), chunk(b"acTL", bytes(8))),
            MAP,
            "",
        ),
        "strips-of-another-type.tif": (strips_of_another_type(), FAILS, "TIFF"),
        "tags-loop.tif": (replaced(tiff, 4, struct.pack("<I", 4)), FAILS, "TIFF"),
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
