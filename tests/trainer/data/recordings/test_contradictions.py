"""Positions that contradict what is said of them are asked about, and a person can overrule it.

The people of these tests look where the model expects it, at pictures with a few things to see.
"""

import functools
import itertools
import pathlib
import re
import zipfile
from io import BytesIO
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image, ImageDraw
from scipy import io

from tests.patches import replace
from tests.refusals import refused
from tests.trainer.data.recordings.recorded import rows, understand, write_table
from trainer.data import fetch
from trainer.data.recordings import pictures
from trainer.data.recordings.pictures import MODEL
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.settings import FetchConfig
from trainer.errors import ContentError
from trainer.prediction import Predictor

SALICON = pathlib.Path(__file__).parents[5] / "shared" / "data" / "salicon"
SIZE = (240, 320)
"""(height, width) of the pictures, pixels."""
N_PICTURES = 12
PEOPLE = ("P1", "P2", "P3", "P4")
N_FIXATIONS = 6
N_ALL = N_PICTURES * len(PEOPLE) * N_FIXATIONS


def picture(number):
    """A grey ground with two coloured discs and a striped square, each anywhere."""
    random = np.random.default_rng(number)
    image = Image.new("RGB", SIZE[::-1], (150, 150, 140))
    draw = ImageDraw.Draw(image)
    for colour in ((220, 40, 30), (30, 60, 200)):
        x, y, radius = random.integers(20, 300), random.integers(20, 220), random.integers(10, 24)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    x, y = random.integers(10, 270), random.integers(10, 200)
    for stripe in range(0, 36, 6):
        draw.line((x + stripe, y, x + stripe, y + 36), fill=(0, 0, 0), width=3)
    return image


class Remembering(Predictor):
    """The predictor, which predicts each picture of these tests once."""

    maps: ClassVar[dict[bytes, np.ndarray]] = {}

    def predict(self, image, *arguments, **named):
        key = image.tobytes()
        if key not in self.maps:
            self.maps[key] = super().predict(image, *arguments, **named)
        return self.maps[key]


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    replace(monkeypatch, pictures, "Predictor", Remembering)


@pytest.fixture(scope="session")
def looked():
    """Where people looked at each picture: person -> (n, 2) of (x, y), pixels."""
    predictor, random, found = Remembering(MODEL), np.random.default_rng(5), []
    for number in range(N_PICTURES):
        density = predictor.predict(np.asarray(picture(number))).astype(np.float64) ** 2
        flat = random.choice(density.size, (len(PEOPLE), N_FIXATIONS), p=(density / density.sum()).ravel())
        y, x = np.divmod(flat, density.shape[1])
        scale = np.array([SIZE[1] / density.shape[1], SIZE[0] / density.shape[0]])
        found.append((np.stack([x, y], -1) + 0.5) * scale)
    return [dict(zip(PEOPLE, each, strict=True)) for each in found]


@pytest.fixture
def seen(looked, tmp_path):
    """A function that writes the pictures and a table, after positions (x, y) of some people are changed."""
    return functools.partial(write, looked, tmp_path / "set")


def write(looked, folder, change=lambda xy: xy, people=PEOPLE):
    (folder / "stimuli").mkdir(parents=True)
    for number in range(N_PICTURES):
        picture(number).save(folder / "stimuli" / f"p{number:02}.png")
    lines = []
    for number, person in itertools.product(range(N_PICTURES), PEOPLE):
        for index, (x, y) in enumerate(looked[number][person]):
            x, y = change(np.array([x, y])) if person in people else (x, y)
            lines.append(f"{person},p{number:02}.png,{x:.2f},{y:.2f},{200 + 10 * index}")
    write_table(folder / "fixations.csv", rows("subject,image,x,y,duration", *lines))
    return folder


def n_used(folder, **settings):
    items = understand(folder, **settings)[0]
    return sum(len(item.fixations.read(SIZE).points) for each in items.values() for item in each)


def confirm(folder, *checks):
    """A reading that says pixels, and overrules checks."""
    lines = [f"confirmed = {[*checks]}", 'image = "image"', 'unit = "pixels"', "", "[columns]"]
    lines += [f'{role} = "{name}"' for role, name in (("observer", "subject"), ("duration", "duration"))]
    (folder / "reading.toml").write_text("\n".join([*lines, 'x = "x"', 'y = "y"', ""]).replace("'", '"'))


def upside_down(xy):
    return xy * (1, -1) + (0, SIZE[0] - 0.01)


def mirrored(xy):
    return xy * (-1, 1) + (SIZE[1] - 0.01, 0)


def test_honest_positions_that_are_said_are_read(seen):
    assert n_used(seen(), coordinates="pixels") == N_ALL


def test_what_the_pictures_contradict_is_asked_although_it_is_said(seen):
    folder = seen(upside_down)
    with refused(AmbiguousReadingsError, "upside down", f"{N_ALL}", 'confirmed = ["pictures"]'):
        n_used(folder, coordinates="pixels")
    confirm(folder, "pictures")
    assert n_used(folder) == N_ALL


@pytest.mark.parametrize("change", [upside_down, mirrored])
def test_a_person_who_contradicts_the_others_is_asked_about(change, seen):
    folder = seen(change, ["P3"])
    with refused(AmbiguousReadingsError, "P3", 'confirmed = ["observers"]'):
        n_used(folder, coordinates="pixels")
    confirm(folder, "observers")
    assert n_used(folder) == N_ALL


@pytest.mark.parametrize("people", [PEOPLE, ["P2"]])
def test_all_fixations_in_one_quarter_are_asked_about(people, seen):
    folder = seen(lambda xy: xy * 0.49, people)
    n_odd = N_ALL * len(people) // len(PEOPLE)
    with refused(AmbiguousReadingsError, f"{n_odd} of {N_ALL}", 'confirmed = ["quarter"]'):
        n_used(folder, coordinates="pixels")
    confirm(folder, "quarter", "observers", "pictures")
    assert n_used(folder) == N_ALL


def test_fixations_on_two_pictures_may_be_in_one_quarter(seen):
    folder = seen(lambda xy: xy * 0.49)
    for number in range(2, N_PICTURES):
        (folder / "stimuli" / f"p{number:02}.png").unlink()
    table = (folder / "fixations.csv").read_text().splitlines(keepends=True)
    kept = [line for line in table if re.search(r",(image|p0[01]\.png),", line)]
    (folder / "fixations.csv").write_text("".join(kept))
    assert n_used(folder, coordinates="pixels", split="shuffle") == 2 * len(PEOPLE) * N_FIXATIONS


@pytest.mark.parametrize("shift", [1, -1])
def test_fixations_of_the_next_picture_are_asked_about(shift, seen):
    folder = seen()
    text = (folder / "fixations.csv").read_text()
    moved = re.sub(r"p(\d\d)\.png", lambda m: f"p{(int(m[1]) + shift) % N_PICTURES:02}.png", text)
    (folder / "fixations.csv").write_text(moved)
    with refused(
        AmbiguousReadingsError, "image before" if shift > 0 else "next image", 'confirmed = ["pictures"]'
    ):
        n_used(folder, coordinates="pixels")


def test_a_table_that_is_read_otherwise_than_another_one_is_asked_about(seen):
    folder = seen()
    header, *lines = (folder / "fixations.csv").read_text().splitlines()
    late = [line for line in lines if int(line.split(",")[1][1:3]) >= N_PICTURES // 2]
    write_table(folder / "fixations.csv", rows(header, *(line for line in lines if line not in late)))
    turned = [",".join([*line.split(",")[:3], f"{239 - float(line.split(',')[3]):g}", "200"]) for line in late]
    write_table(folder / "week2.csv", rows(header, *turned))
    with refused(AmbiguousReadingsError, "week2", 'confirmed = ["pictures"]'):
        n_used(folder, coordinates="pixels")
    write_table(folder / "week2.csv", rows(header, *late))
    assert n_used(folder, coordinates="pixels") == N_ALL


# === Maps and files of fixations ===


def densities(folder, change=lambda values: values):
    """The model's own maps as those of a lab, after a change."""
    predictor = Remembering(MODEL)
    (folder / "maps").mkdir()
    for number in range(N_PICTURES):
        values = change(predictor.predict(np.asarray(picture(number))).astype(np.float64))
        levels = (255 * values / values.max()).astype(np.uint8)
        Image.fromarray(levels).save(folder / "maps" / f"p{number:02}.png")
    return folder


def prepare(folder):
    config = FetchConfig("custom", str(folder), "48x64", split="shuffle")
    return fetch.fetch_dataset(config, folder.parent / "prepared")


def test_maps_of_ones_own_are_contradicted_by_the_pictures(seen):
    folder = densities(seen(), np.flipud)
    (folder / "fixations.csv").unlink()
    with refused(AmbiguousReadingsError, "upside down", 'confirmed = ["pictures"]'):
        prepare(folder)
    (folder / "reading.toml").write_text('confirmed = ["pictures"]')
    assert sum(prepare(folder).counts.values()) == N_PICTURES


def test_maps_that_contradict_the_fixations_of_the_same_images_are_refused(seen):
    folder = densities(seen(), np.fliplr)
    (folder / "fixations.csv").unlink()
    (folder / "reading.toml").write_text('confirmed = ["pictures"]')
    (folder / "fixations").mkdir()
    for number in range(N_PICTURES):
        values = np.asarray(Image.open(folder / "maps" / f"p{number:02}.png"))[:, ::-1].astype(float)
        marked = np.zeros(SIZE, np.uint8)
        peaks = np.argsort(-values.ravel())[: 40 * 400 : 400]
        marked.ravel()[peaks] = 255
        Image.fromarray(marked).save(folder / "fixations" / f"p{number:02}.png")
    with refused(ContentError, f"{N_PICTURES} images"):
        prepare(folder)


@pytest.mark.parametrize("drawn", ["disc", "line"])
def test_drawn_fixations_are_refused(drawn, seen):
    folder = seen()
    (folder / "fixations.csv").unlink()
    (folder / "fixations").mkdir()
    for number in range(N_PICTURES):
        image = Image.new("L", SIZE[::-1])
        draw = ImageDraw.Draw(image)
        spots = [
            tuple(np.random.default_rng(10 * number + each).integers(20, 200, 2).tolist()) for each in range(4)
        ]
        if drawn == "line":
            draw.line(spots, fill=255)
        for x, y in spots if drawn == "disc" else []:
            draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=255)
        image.save(folder / "fixations" / f"p{number:02}.png")
    with refused(ContentError, "discs", "lines"):
        prepare(folder)


# === Real people ===


@pytest.fixture
def seen_photographs(tmp_path):
    """A function that writes 24 photographs, and a table of the fixations of SALICON there, after a change."""
    if not SALICON.is_dir():
        pytest.skip(f"the real data is not at {SALICON}")

    def write_photographs(change=lambda xy, size: xy):
        lines = []
        with zipfile.ZipFile(SALICON / "images.zip") as images, zipfile.ZipFile(SALICON / "fixations.zip") as gaze:
            names = [name for name in gaze.namelist() if name.startswith("val/")][:24]
            for name in names:
                found = io.loadmat(BytesIO(gaze.read(name)), simplify_cells=True)
                image = name.replace(".mat", ".jpg")
                (tmp_path / "set").mkdir(exist_ok=True)
                (tmp_path / "set" / image[4:]).write_bytes(images.read(f"images/{image}"))
                for worker, own in enumerate(found["gaze"]):
                    for x, y in change(np.reshape(own["fixations"], (-1, 2)) - 1.0, found["resolution"]):
                        lines.append(f"{worker},{image[4:]},{x:g},{y:g}")
        write_table(tmp_path / "set" / "fixations.csv", rows("worker,image,x,y", *lines))
        return tmp_path / "set"

    return write_photographs


def test_real_positions_are_proven(seen_photographs):
    notes = understand(seen_photographs())[2]
    assert any("24 pictures" in note and "pixels of the image" in note for note in notes)


def test_real_positions_upside_down_are_asked(seen_photographs):
    folder = seen_photographs(lambda xy, size: np.stack([xy[:, 0], size[0] - 1 - xy[:, 1]], 1))
    with refused(AmbiguousReadingsError, "upside down"):
        understand(folder)
