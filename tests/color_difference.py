"""How different two colours look: CIEDE2000, in which about 2 is just seen side by side."""

import numpy as np
import numpy.typing as npt

TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
WHITE = [0.95047, 1.0, 1.08883]


def to_lab(rgb: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Convert sRGB (..., 3), 0..255, to CIELAB under D65."""
    parts = np.asarray(rgb, np.float64) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    xyz = linear @ np.transpose(TO_XYZ) / WHITE
    x, y, z = np.moveaxis(np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def difference(first: npt.ArrayLike, second: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return CIEDE2000 of colours (..., 3) in CIELAB, by Sharma, Wu and Dalal (2005)."""
    light_1, a_1, b_1 = np.moveaxis(np.asarray(first, float), -1, 0)
    light_2, a_2, b_2 = np.moveaxis(np.asarray(second, float), -1, 0)
    chroma = (np.hypot(a_1, b_1) + np.hypot(a_2, b_2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    chroma_1, chroma_2 = np.hypot(stretch * a_1, b_1), np.hypot(stretch * a_2, b_2)
    hue_1, hue_2 = (np.degrees(np.arctan2(b, stretch * a)) % 360 for a, b in ((a_1, b_1), (a_2, b_2)))
    grey = chroma_1 * chroma_2 == 0
    turn = np.where(grey, 0, (hue_2 - hue_1 + 180) % 360 - 180)
    hue = np.where(grey, hue_1 + hue_2, (hue_1 + turn / 2) % 360)
    light, chroma = (light_1 + light_2) / 2, (chroma_1 + chroma_2) / 2

    def wave(times: int, shift: float) -> npt.NDArray[np.float64]:
        return np.cos(np.radians(times * hue + shift))

    weight = 1 - 0.17 * wave(1, -30) + 0.24 * wave(2, 0) + 0.32 * wave(3, 6) - 0.2 * wave(4, -63)
    by_light = (light_2 - light_1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    by_chroma = (chroma_2 - chroma_1) / (1 + 0.045 * chroma)
    by_hue = 2 * np.sqrt(chroma_1 * chroma_2) * np.sin(np.radians(turn) / 2) / (1 + 0.015 * chroma * weight)
    angle = np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2)))
    rotation = -2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7)) * np.sin(angle)
    return np.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue)
