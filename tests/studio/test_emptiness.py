"""Maps that are nearly those of empty pages."""

import pathlib

import numpy as np
import pytest
from PIL import Image

from studio.emptiness import empty_screens, sentence_about
from tests import kinds
from trainer.api import load, read_picture

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
GROUNDS = {"white": (255, 255, 255), "grey": (128, 128, 128), "dark": (18, 20, 30)}


@pytest.fixture(scope="module")
def model():
    return load("pretrained")


def found(model, pixels, kind=""):
    return empty_screens(model, pixels, model.predict(pixels, kind=kind))


@pytest.mark.parametrize("kind", ["page", "picture"])
def test_blank_grounds_and_gradients_are_empty(model, kind):
    for ground in GROUNDS.values():
        noise = np.random.default_rng(0).integers(-1, 2, (400, 640, 1))
        assert found(model, (np.clip(np.array(ground) + noise, 0, 255)).astype(np.uint8), kind) == [1]
    gradient = np.linspace(255, 220, 400).astype(np.uint8)[:, None, None]
    assert found(model, np.tile(gradient, (1, 640, 3)), kind) == [1]


@pytest.mark.parametrize("name", ["landing-a.png", "coffee.jpg"])
def test_designs_and_photographs_are_not(model, name):
    pixels = read_picture((EXAMPLES / name).read_bytes(), name)
    assert found(model, pixels) == []


def test_the_empty_screen_of_a_long_page_is_named(model):
    shown = np.asarray(Image.open(EXAMPLES / "landing-a.png").convert("RGB"))
    shown = np.pad(shown, ((0, 800 - shown.shape[0]), (0, 0), (0, 0)), "edge")
    blank = np.full_like(shown, 255)
    pixels = np.concatenate([shown, blank, shown, blank])
    assert found(model, pixels, "page") == [2, 4]
    said = sentence_about([2, 4], 4, "long.png")
    assert "long.png" in said
    assert "2, 4" in said
    assert sentence_about([], 4, "long.png") == ""


def test_a_page_of_text_is_not(model):
    assert found(model, kinds.page(800, 1280)) == []
