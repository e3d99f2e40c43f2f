"""A few tiny images in the layout of SALICON, for tests that need a source."""

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 48, 64


def blob(center_x):
    """A map (HEIGHT, WIDTH) uint8 that peaks at (HEIGHT / 2, center_x)."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return (255 * np.exp(-((x - center_x) ** 2 + (y - HEIGHT / 2) ** 2) / 72)).astype(np.uint8)


def write_salicon(folder, train_x, valid_x, n_train=6, n_valid=3, seed=0):
    """SALICON's unpacked tree with noise for stimuli; all people look at `train_x`, then all at `valid_x`."""
    random = np.random.default_rng(seed)
    for split, count, center_x in (("train", n_train, train_x), ("val", n_valid, valid_x)):
        for index in range(count):
            stimulus = random.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
            for kind, suffix, pixels in (("images", "png", stimulus), ("maps", "png", blob(center_x))):
                path = folder / kind / split / f"{split}_{index}.{suffix}"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(path)
    return str(folder)
