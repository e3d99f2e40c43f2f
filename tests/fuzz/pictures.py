"""Pictures: sound ones of every format and mode, odd ones, damaged ones, bombs, and what is no picture at all."""

import contextlib
import dataclasses
import functools
import io
import random
import struct
import zlib

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from tests.fuzz.mutate import cut, mutated, replaced
from tests.trainer.malformed import chunk, png, width_tag

FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP", "GIF")
MODES = {
    "JPEG": ("RGB", "L", "CMYK"),
    "PNG": ("RGB", "RGBA", "L", "LA", "P", "1", "I;16"),
    "BMP": ("RGB", "L", "1", "P"),
    "TIFF": ("RGB", "RGBA", "L", "LA", "CMYK", "P", "1", "I;16", "I", "F", "YCbCr"),
    "WEBP": ("RGB", "RGBA", "L"),
    "GIF": ("RGB", "L", "P"),
}
SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "BMP": ".bmp", "TIFF": ".tif", "WEBP": ".webp", "GIF": ".gif"}
ORIENTATION = 0x0112


@dataclasses.dataclass(frozen=True)
class Picture:
    """A file that is a picture, or is called one."""

    kind: str
    data: bytes
    suffix: str = ".png"
    is_sound: bool = False
    """Whether anybody would say that this is a picture: to refuse it is wrong."""


def picture(source: random.Random) -> Picture:
    """A picture of a random kind."""
    makers = (sound, upright, damaged, damaged, shortened, declared, chunks, segments, animated, bomb, other)
    return source.choice(makers)(source)


def pixels(source: random.Random, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """A ramp, noise or a bright spot, (h, w, 3); of a random small size if none is given."""
    height, width = size or (source.randint(2, 90), source.randint(2, 90))
    numbers = np.random.default_rng(source.getrandbits(64))
    y, x = np.mgrid[:height, :width]
    ramps = np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (height + width)], axis=-1)
    return ((ramps + numbers.integers(0, source.choice((2, 60)), ramps.shape)) % 256).astype(np.uint8)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def in_mode(values: NDArray[np.uint8], mode: str) -> Image.Image:
    image = Image.fromarray(values)
    if mode == "I;16":
        return Image.fromarray(values[..., 0].astype(np.uint16) * 257)
    return image.convert(mode)


def of_format(source: random.Random, form: str, size: tuple[int, int] | None = None) -> bytes:
    """A sound picture of a format, in any mode and with any of the usual options."""
    image = in_mode(pixels(source, size), source.choice(MODES[form]))
    options: dict[str, object] = {}
    if form == "JPEG":
        options = {"quality": source.choice((30, 75, 95)), "progressive": source.random() < 0.3}
        options["subsampling"] = source.choice((0, 1, 2))
    elif form == "WEBP":
        options = {"lossless": source.random() < 0.5}
    elif form == "TIFF" and image.mode not in ("F", "I", "I;16", "YCbCr"):
        options = {"compression": source.choice(("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"))}
    elif form == "PNG":
        options = {"compress_level": source.choice((0, 6)), "optimize": source.random() < 0.2}
    return encoded(image, form, **options)


def sound(source: random.Random) -> Picture:
    form = source.choice(FORMATS)
    return Picture(f"sound {form}", of_format(source, form), SUFFIXES[form], True)


def upright(source: random.Random) -> Picture:
    """With an orientation tag, of a value that there is or not."""
    form = source.choice(("JPEG", "PNG", "WEBP", "TIFF"))
    orientation = source.choice((1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 65_535))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    data = encoded(Image.fromarray(pixels(source)), form, exif=exif)
    return Picture(f"orientation {orientation} {form}", data, SUFFIXES[form], 1 <= orientation <= 8)


def damaged(source: random.Random) -> Picture:
    form = source.choice(FORMATS)
    return Picture(f"damaged {form}", mutated(of_format(source, form), source), SUFFIXES[form])


def shortened(source: random.Random) -> Picture:
    form = source.choice(FORMATS)
    return Picture(f"shortened {form}", cut(of_format(source, form), source), SUFFIXES[form])


def declared(source: random.Random) -> Picture:
    """A header that declares another size than the pixels have: none, a little more, or gigapixels."""
    form = source.choice(("PNG", "BMP", "GIF", "TIFF", "WEBP", "JPEG"))
    width, height = (source.choice((0, 1, 50, 12_000, 65_535, 10**6, 2**31 - 1, 2**32 - 1)) for _ in range(2))
    data = encoded(Image.fromarray(pixels(source, (40, 60))), form)
    if form == "PNG":
        data = png(width, height, chunk(b"IDAT", zlib.compress(source.randbytes(source.choice((0, 500))))))
    elif form == "BMP":
        data = replaced(data, 18, struct.pack("<II", width, height))
    elif form == "GIF":
        data = replaced(data, 6, struct.pack("<HH", width & 0xFFFF, height & 0xFFFF))
    elif form == "TIFF":
        data = data.replace(width_tag(60), width_tag(width))
    elif form == "WEBP":
        data = encoded(Image.fromarray(pixels(source, (40, 60))), form, lossless=True)
        data = replaced(data, 21, struct.pack("<I", width))
    else:
        frame = data.index(b"\xff\xc0")
        data = replaced(data, frame + 5, struct.pack(">HH", height & 0xFFFF, width & 0xFFFF))
    return Picture(f"declared {form}", data, SUFFIXES[form])


def chunks(source: random.Random) -> Picture:
    """A PNG with right checksums, and chunks that are missing, doubled, too short, unknown or in another order."""
    depth, color = source.choice(((8, 2), (8, 0), (8, 3), (8, 6), (16, 2), (1, 0), (4, 3), (3, 2), (8, 7), (8, 1)))
    width, height = source.randint(1, 40), source.randint(1, 40)
    row = -(-width * depth * {2: 3, 6: 4}.get(color, 1) // 8) + 1
    n_bytes = source.choice((row * height, row * height, row * height // 2, 0, row * height + 50))
    content = bytes(source.choice((0, 200)) if i % row else source.choice((0, 1, 2, 3, 4)) for i in range(n_bytes))
    data = chunk(b"IDAT", zlib.compress(content))
    palette = chunk(b"PLTE", source.randbytes(source.choice((0, 3, 48, 767, 768))))
    extras = [
        palette,
        chunk(b"tRNS", source.randbytes(source.choice((0, 1, 2, 6, 300)))),
        chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**6))),
        chunk(b"iCCP", b"k\0\0" + zlib.compress(source.randbytes(300))),
        chunk(b"XxXx", source.randbytes(9)),
        chunk(b"eXIf", source.randbytes(40)),
        chunk(b"acTL", struct.pack(">II", source.choice((0, 2, 2**31)), 0)),
        data,
    ]
    parts = [*source.sample(extras, source.randint(0, 3)), data, *source.sample(extras, source.randint(0, 1))]
    if source.random() < 0.6 and color == 3:
        parts.insert(0, palette)
    return Picture("chunks PNG", png(width, height, *parts, depth=depth, color=color))


def segments(source: random.Random) -> Picture:
    """A JPEG with segments that are long, many, empty, of another process or in another order."""
    data = encoded(Image.fromarray(pixels(source)), "JPEG")
    extra = source.choice(
        (
            b"\xff\xe1" + struct.pack(">H", 65_535) + source.randbytes(100),
            b"\xff\xe1\x00\x02" * source.choice((1, 100, 5000)),
            b"\xff\xe1\x00\x00",
            b"\xff\xe1" + struct.pack(">H", 40) + b"Exif\0\0MM\0*" + source.randbytes(28),
            b"\xff\xfe" + struct.pack(">H", 65_535) + bytes(65_533),
            b"\xff\xdd\x00\x04\x00\x01",
            b"\xff\xee\x00\x0eAdobe\0\x64\0\0\0\0\x02",
            b"\xff" * 1000,
        )
    )
    data = data[:2] + extra + data[2:]
    if source.random() < 0.4:
        kind = source.choice((0xC1, 0xC2, 0xC3, 0xC5, 0xC9, 0xCA, 0xCF))
        data = data.replace(b"\xff\xc0", bytes([0xFF, kind]), 1)
    if source.random() < 0.3:
        frame = data.find(b"\xff\xc0")
        data = replaced(data, frame + 4, bytes([source.choice((0, 1, 12, 16))])) if frame > 0 else data
    return Picture("segments JPEG", data, ".jpg")


def animated(source: random.Random) -> Picture:
    form = source.choice(("GIF", "WEBP", "PNG", "TIFF"))
    size = source.randint(2, 80), source.randint(2, 80)
    frames = [Image.fromarray(pixels(source, size)) for _ in range(source.randint(2, 6))]
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:])
    if source.random() < 0.4:
        return Picture(f"damaged animation {form}", mutated(data, source), SUFFIXES[form])
    return Picture(f"animation {form}", data, SUFFIXES[form], form != "PNG")


def bomb(source: random.Random) -> Picture:
    return source.choice(_bombs())


@functools.cache
def _bombs() -> tuple[Picture, ...]:
    """Small files of many pixels: more than may be decoded, and just as many."""
    large = chunk(b"IDAT", zlib.compress(bytes(1501 * 12_000), 9))
    frame = encoded(Image.new("P", (3000, 3000), 3), "GIF")
    blocks = frame.index(b"\x2c\0\0\0\0")  # the first frame's descriptor
    return (
        Picture("bomb PNG", png(12_000, 12_000, large, depth=1, color=0)),
        Picture("bomb GIF", frame[:blocks] + frame[blocks:-1] * 150 + b"\x3b", ".gif"),
        Picture("bomb of text", png(9, 9, chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**8))))),
        Picture("bomb of profile", png(9, 9, chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(10**8))))),
        Picture("long PNG", encoded(Image.new("1", (30_000, 3)), "PNG"), is_sound=True),
        Picture("long BMP", encoded(Image.new("1", (3, 30_000)), "BMP"), ".bmp", True),
        Picture(
            "bomb BMP", replaced(encoded(Image.new("L", (9, 9)), "BMP"), 18, struct.pack("<ii", 40_000, 40_000))
        ),
    )


def other(source: random.Random) -> Picture:
    """Another format, which a library may know, under the name of a picture."""
    suffix = source.choice(tuple(SUFFIXES.values()))
    if source.random() < 0.5:
        form = source.choice(("EPS", "PDF", "ICO", "PPM", "TGA", "PCX", "SGI", "IM", "MSP", "DDS", "JPEG2000"))
        image = Image.fromarray(pixels(source, (32, 32))).convert("1" if form == "MSP" else "RGB")
        return Picture(f"other {form}", encoded(image, form), suffix)
    contents = (
        b"",
        b"\0" * 1000,
        source.randbytes(2000),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"<!doctype html><p>404",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 80 60\n%%EndComments\nshowpage\n%%EOF\n",
        b"#define x_width 8\n#define x_height 8\nstatic char x_bits[] = {\n0,0,0,0,0,0,0,0};\n",
        b"P6 99999 99999 255\n",
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
        b"RIFF\xff\xff\xff\xffWEBP",
        b"II*\0\x04\0\0\0\xff\xff",
        b"MM\0+\0\x08\0\0\0\0\0\0\0\0\0\x10" + bytes(16),
    )
    return Picture("no picture", source.choice(contents), suffix)


def independent(data: bytes, turned: tuple[str, ...] = FORMATS) -> NDArray[np.uint8] | None:
    """What Pillow alone makes of it: (h, w, 3) over white, upright if its format is one of `turned`.

    16-bit levels are divided by 257, and other numbers by the largest. None for what it does not read.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            opened.load()
            whole: Image.Image = opened
            with contextlib.suppress(Exception):  # damaged tags say nothing about the pixels
                if opened.format in turned:
                    whole = ImageOps.exif_transpose(opened)
            if whole.mode.startswith(("I", "F")):
                values = np.nan_to_num(np.asarray(whole, np.float32), posinf=0, neginf=0)
                highest = 65_535 if whole.mode.startswith("I;16") else max(float(values.max()), 1e-12)
                grey = np.round(np.clip(values, 0, highest) / highest * 255).astype(np.uint8)
                return np.repeat(grey[..., None], 3, axis=-1)
            if whole.has_transparency_data:
                white = Image.new("RGBA", whole.size, "white")
                return np.asarray(Image.alpha_composite(white, whole.convert("RGBA")).convert("RGB"))
            return np.asarray(whole.convert("RGB"))
    except Exception:  # Pillow raises whatever its parsing meets
        return None


def essential(data: bytes) -> bytes:
    """A PNG without its ancillary chunks, which a reader leaves out if they are damaged; other data as it is."""
    kept, at = data[:8], 8
    if kept != b"\x89PNG\r\n\x1a\n":
        return data
    while at + 8 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4])
        if data[at + 4 : at + 5].isupper():
            kept += data[at:end]
        at = end
    return kept


def as_stored(data: bytes) -> NDArray[np.uint8] | None:
    """The same for training data: (h, w, 3) as they are in the file, without orientation and transparency."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            opened.load()
            if opened.mode.startswith(("I", "F")):
                values = np.asarray(opened, np.float64)
                grey = np.clip(values, 0, None) / max(float(values.max()), 1e-12) * 255
                return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=-1)
            return np.asarray(opened.convert("RGB"))
    except Exception:  # Pillow raises whatever its parsing meets
        return None
