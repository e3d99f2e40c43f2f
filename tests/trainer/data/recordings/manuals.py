"""A second author's exports of eye tracking, drawn from the manuals of the makers and from public exports alone.

A seed draws one study: pictures, people, their fixations, and the tables that some software or some person would
write of them. The judge prepares the study as a user would, and compares what was prepared with what was drawn.

Example: `python -m tests.trainer.data.recordings.manuals --cases 1000 --seed 0`
"""

import argparse
import collections
import contextlib
import csv
import gzip
import io
import itertools
import json
import multiprocessing
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback
import unicodedata
import uuid
import zipfile
from dataclasses import dataclass, field

import numpy as np
import polars
import pytest
from PIL import Image, ImageDraw
from scipy import io as io_matlab, ndimage, optimize, spatial

from tests.trainer.data.recordings.grammar import without_maps

TOLERANCE = 1.5
"""Largest distance of a prepared fixation from the true one, pixels of the picture."""
HEIGHT, WIDTH = 48, 64
"""Size of the prepared pictures, pixels."""
SCREENS = [(1024, 768), (1280, 1024), (1366, 768), (1680, 1050), (1920, 1080), (800, 600)]
"""(width, height) of screens, pixels."""
FORMS = {}
"""Each form's function and how its pictures are shown, by name."""


@dataclass
class Picture:
    """A picture of the study: its path in the source, size in pixels, and what it is called in tables."""

    path: str
    width: int
    height: int
    said: str = ""

    @property
    def name(self):
        """File name."""
        return pathlib.PurePosixPath(self.path).name

    @property
    def stem(self):
        """File name without its suffix."""
        return pathlib.PurePosixPath(self.path).stem


@dataclass
class Fixation:
    """A fixation: position in pixels of the picture, from its upper left corner, times in ms from the onset."""

    number: int
    start: int
    duration: int
    x: float
    y: float

    @property
    def end(self):
        """Time of its end, ms from the picture's onset."""
        return self.start + self.duration


@dataclass
class Trial:
    """One person's view of one picture, with its number in their session and its onset there in ms."""

    person: str
    number: int
    onset: int
    picture: Picture
    fixations: list

    @property
    def duration(self):
        """Time for which the picture was shown, ms."""
        return self.fixations[-1].end + 120


@dataclass
class Style:
    """How a program or a country writes tables."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    newline: str = "\n"
    missing: str = ""
    quoting: int = csv.QUOTE_MINIMAL
    booleans: tuple = ("False", "True")


US = Style()
STYLES = [
    US,
    US,
    Style(encoding="utf-8-sig", newline="\r\n"),
    Style(";", ",", "cp1252", "\r\n"),
    Style(";", ",", "utf-8-sig", "\r\n"),
    Style("\t", ".", "utf-8"),
    Style("\t", ",", "utf-8"),
    Style("\t", ".", "utf-16"),
    Style(",", ".", "utf-8", "\n", "NA", csv.QUOTE_NONNUMERIC, ("FALSE", "TRUE")),
    Style(";", ",", "utf-8", "\n", "NA", csv.QUOTE_NONNUMERIC, ("FALSE", "TRUE")),
    Style(";", ".", "utf-8"),
]


@dataclass
class Study:
    """The pictures, people and views that a seed draws, the folder they are written to, and the truth."""

    seed: int
    folder: pathlib.Path
    kind: str
    shown: str
    random: random.Random
    pictures: list = field(default_factory=list)
    trials: list = field(default_factory=list)
    screen: tuple = (0, 0)
    facts: set = field(default_factory=set)
    wrinkles: list = field(default_factory=list)
    points: dict = field(default_factory=dict)
    """The true (x, y, person) of each picture, by its path."""
    others: list = field(default_factory=list)
    """Further sets of points that are as right, such as all samples where no table has fixations."""
    optional: set = field(default_factory=set)
    """Paths of pictures that may be left out, or prepared with the points they have."""
    copies: dict = field(default_factory=dict)
    """The path of the picture that another one is a copy of: one of both is enough."""
    densities: dict = field(default_factory=dict)
    """The true density of each picture at the prepared size, for maps."""
    settings: list = field(default_factory=list)
    """The settings with which a user would tell what the files do not, as arguments of the command."""
    rects: dict = field(default_factory=dict)
    """(left, top, width, height) of each picture on the screen, by its path."""

    def note(self, wrinkle):
        """Remember a wrinkle for the counts."""
        self.wrinkles.append(wrinkle)

    def chance(self, share):
        """Whether something that happens in this share of studies happens in this one."""
        return self.random.random() < share

    def pick(self, *options):
        """One of the options."""
        return self.random.choice(options)

    def on_screen(self, picture, x, y):
        """The pixel of the screen that shows a pixel of the picture."""
        left, top, width, height = self.rects[picture.path]
        return left + x * width / picture.width, top + y * height / picture.height

    @property
    def people(self):
        """The people, in the order of their first trial."""
        return list(dict.fromkeys(trial.person for trial in self.trials))

    def of(self, person):
        """The trials of a person."""
        return [trial for trial in self.trials if trial.person == person]

    def settle(self):
        """Take the trials as the truth, but for positions outside of the pictures."""
        self.points = {picture.path: [] for picture in self.pictures}
        for trial in self.trials:
            for fixation in trial.fixations:
                if inside(trial.picture, fixation.x, fixation.y):
                    self.points[trial.picture.path].append((fixation.x, fixation.y, trial.person))

    def write(self, path, columns, rows, style=US, preamble=(), header=True):
        """Write rows, which are dicts, as a table with these columns."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        for line in preamble:
            text.write(line + style.newline)
        writer = csv.writer(text, delimiter=style.separator, lineterminator=style.newline, quoting=style.quoting)
        if header:
            writer.writerow(columns)
        for row in rows:
            writer.writerow([self.cell(row.get(column), style) for column in columns])
        target.write_bytes(text.getvalue().encode(style.encoding, errors="replace"))
        return target

    def cell(self, value, style):
        """A value as the style writes it."""
        if value is None:
            return style.missing
        if isinstance(value, bool):
            return style.booleans[value]
        if isinstance(value, float):
            if style.decimal != "." or style.quoting == csv.QUOTE_MINIMAL:
                return repr(value).replace(".", style.decimal)
            return value
        return value

    def text(self, path, text, encoding="utf-8"):
        """Write a text file."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode(encoding, errors="replace"))


def form(shown="picture", **options):
    """Enter a function as a form of export, with how the pictures stand on the screen.

    `picture`: positions are on the picture; `full`: each picture has the screen's size; `aspect`: the screen's
    aspect ratio, enlarged to fill it; `placed`: smaller pictures on a screen; `either`: full or placed; `fitted`:
    aspect or placed; `4:3`: positions are on pictures of this aspect ratio.
    """

    def enter(function):
        FORMS[function.__name__] = (function, shown, options)
        return function

    return enter


def inside(picture, x, y):
    """Whether a position is on the picture."""
    return 0 <= x < picture.width and 0 <= y < picture.height


# Drawing of studies.

SIZES = [
    (400, 300),
    (512, 384),
    (640, 480),
    (480, 640),
    (500, 334),
    (800, 600),
    (360, 360),
    (600, 450),
    (720, 400),
]


def draw_study(seed, folder, only=None):
    """Draw a study and write it to the folder."""
    chance = random.Random(seed)
    names = [only] if only else list(FORMS)
    kind = chance.choices(names, [FORMS[name][2].get("weight", 1) for name in names])[0]
    function, shown, _options = FORMS[kind]
    if shown == "fitted":
        shown = chance.choice(["aspect", "placed"])
    if shown == "either":
        shown = chance.choice(["full", "placed", "placed"])
    study = Study(seed, folder, kind, shown, chance)
    draw_pictures(study)
    draw_trials(study)
    study.settle()
    function(study)
    litter(study)
    return study


def picture_names(study, count):
    """Names of files as people have them."""
    chance = study.random
    kinds = [
        lambda i: f"IMG_{chance.randrange(1000, 9999)}{i}.JPG",
        lambda i: f"img{i + 1:03d}.jpg",
        lambda i: f"scene {i + 1}.jpg",
        lambda i: f"nature_{i + 1:02d}.png",
        lambda i: f"{i + 1}.jpg",
        lambda i: f"{i + 1:03d}.jpg",
        lambda i: f"i{chance.randrange(10**8, 10**9)}.jpeg",
        lambda i: f"Stimulus_{'AB'[i % 2]}{i // 2 + 1}.png",
        lambda i: f"DSC{chance.randrange(100, 999)}{i:02d}.JPG",
        lambda i: f"bedroom-{i + 1}.v2.jpg",
        lambda i: f"Küche_{i + 1}.png",
        lambda i: f"Ad ({i + 1}).png",
        lambda i: f"写真{i + 1}.png",
        lambda i: f"{chance.choice('abcdefghij')}{chance.randrange(16**7):07x}{i}.jpg",
        lambda i: f"{['kitchen', 'street', 'beach', 'forest', 'office', 'café'][i % 6]}{i // 6 + 1}.jpg",
        lambda i: f"COCO_val2014_{chance.randrange(10**6):012d}{i}.jpg",
    ]
    kind = chance.choice(kinds)
    return list(dict.fromkeys(kind(i) for i in range(count)))


def draw_pictures(study):
    """Draw the pictures and write them below the folder."""
    chance = study.random
    study.screen = chance.choice(SCREENS)
    if study.shown == "full":
        study.screen = chance.choice([screen for screen in SCREENS if screen[0] < 1400])
    width, height = study.screen
    count = chance.randint(5, 9)
    if chance.random() < 0.3 and study.shown != "full":
        count = chance.choice([chance.randint(10, 18), chance.randint(10, 18), chance.randint(19, 30)])
    if study.shown == "full":
        sizes = [study.screen]
    elif study.shown == "aspect":
        share = chance.choice([0.25, 0.5, 2 / 3])
        sizes = [(round(width * share), round(height * share))]
    elif study.shown == "4:3":
        sizes = [(400, 300)] if chance.random() < 0.5 else [(400, 300), (640, 480), (320, 240)]
    else:
        sizes = chance.sample(SIZES, chance.choice([1, 1, 2, 3]))
    place = chance.choice(["", "stimuli/", "images/", "Pictures/", "img/", "stimuli/"])
    folders = chance.sample(["indoor", "outdoor", "faces", "Ads"], 2) if place and chance.random() < 0.15 else None
    for i, name in enumerate(picture_names(study, count)):
        sub = f"{folders[i % 2]}/" if folders else ""
        picture = Picture(place + sub + name, *chance.choice(sizes))
        study.pictures.append(picture)
        save_picture(study.folder / picture.path, content(study.seed * 1000 + i, picture.width, picture.height))
    layout = chance.choice(["centre", "fit", "offset", "enlarged", "centre"])
    if folders and chance.random() < 0.4 and study.kind == "own_table":
        twins(study, folders)
    if study.shown == "placed":
        study.note(layout)
    dx, dy = chance.randint(0, 60), chance.randint(0, 60)
    for picture in study.pictures:
        study.rects[picture.path] = rect(study, picture, layout, dx, dy)


def twins(study, folders):
    """Give the pictures of two folders the same names."""
    study.note("same names in folders")
    first, second = ([p for p in study.pictures if f"/{folder}/" in p.path] for folder in folders)
    for own, other in zip(first, second, strict=False):
        target = str(pathlib.PurePosixPath(other.path).with_name(own.name))
        (study.folder / other.path).rename(study.folder / target)
        other.path = target


def rect(study, picture, layout, dx, dy):
    """(left, top, width, height) of a picture on the screen."""
    width, height = study.screen
    if study.shown == "full":
        return 0, 0, width, height
    scale = min(width / picture.width, height / picture.height)
    if study.shown == "aspect":
        return 0, 0, width, height
    if layout == "enlarged":
        scale = min(scale, 1.25)
    elif layout in ("centre", "offset"):
        scale = 1
    wide, high = round(picture.width * scale), round(picture.height * scale)
    left, top = (width - wide) // 2, (height - high) // 2
    if layout == "offset":
        left, top = min(dx, left), min(dy, top)
    return left, top, wide, high


def content(seed, width, height):
    """Simple drawn content, different for every seed, as a Pillow image."""
    random_ = np.random.default_rng(seed)
    coarse = random_.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for _ in range(6):
        x, y = random_.integers(0, width), random_.integers(0, height)
        w, h = random_.integers(20, width // 3), random_.integers(20, height // 3)
        colour = tuple(int(c) for c in random_.integers(0, 256, 3))
        (pen.ellipse if random_.random() < 0.5 else pen.rectangle)([x, y, x + w, y + h], fill=colour)
    return picture


def save_picture(path, picture):
    """Write a picture in the format of its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    suffix = path.suffix.lower()
    if suffix in (".jpg", ".jpeg"):
        picture.save(path, "JPEG", quality=88)
    elif suffix == ".bmp":
        picture.save(path, "BMP")
    else:
        picture.save(path, "PNG", compress_level=1)


def people_names(study, count):
    """Names of people as laboratories give them."""
    chance = study.random
    kinds = [
        lambda i: f"P{i + 1:02d}",
        lambda i: f"S{i + 1}",
        lambda i: f"sub-{i + 1:02d}",
        lambda i: ["Anna", "Björn", "Chloé", "David", "Eva", "Finn", "Günther", "Hanna", "Ilse", "Jo"][i % 10],
        lambda i: f"VP_{i + 1:02d}",
        lambda i: f"participant {i + 1}",
        lambda i: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        lambda i: f"{chance.choice('abcdefgh')}{chance.choice('xyz')}{chance.randrange(10, 99)}{i}",
        lambda i: f"{i + 1}",
        lambda i: f"{101 + i}",
    ]
    kind = chance.choice(kinds)
    return [kind(i) for i in range(count)]


def draw_trials(study):
    """Draw who saw which picture when, and where they looked."""
    chance = study.random
    people = people_names(study, chance.randint(3, 9))
    centres = {
        picture.path: [
            (chance.uniform(0.15, 0.85) * picture.width, chance.uniform(0.15, 0.85) * picture.height)
            for _ in range(4)
        ]
        for picture in study.pictures
    }
    share = chance.choice([1, 1, 0.7])
    seen = {person: [p for p in study.pictures if chance.random() < share] for person in people}
    for picture in study.pictures:
        if not any(picture in some for some in seen.values()):
            seen[people[0]].append(picture)
    long = chance.choice([6, 10, 14])
    outside = study.kind == "own_table" and chance.random() < 0.1
    if outside:
        study.note("rows outside")
    twice = study.kind == "own_table" and chance.random() < 0.06
    if twice:
        study.note("seen twice")
    for person in people:
        order = seen[person]
        chance.shuffle(order)
        if twice:
            order = order + chance.sample(order, len(order) // 3)
        onset = chance.randint(1000, 90000)
        for number, picture in enumerate(order, 1):
            fixations, now = [], chance.randint(0, 60)
            for k in range(chance.randint(3, long)):
                duration = min(900, max(60, int(chance.lognormvariate(5.4, 0.4))))
                x, y = chance.choice(centres[picture.path]) if k else (picture.width / 2, picture.height / 2)
                x = min(max(chance.gauss(x, picture.width / 12), 3), picture.width - 4)
                y = min(max(chance.gauss(y, picture.height / 12), 3), picture.height - 4)
                fixations.append(Fixation(k + 1, now, duration, x, y))
                now += duration + chance.randint(20, 70)
            if study.shown == "placed" and len(fixations) > 4 and chance.random() < 0.12:
                fixations[3].x = -chance.uniform(8, 40)
            if outside and len(fixations) > 4 and chance.random() < 0.3:
                fixations[4].y = picture.height + chance.uniform(8, 60)
            trial = Trial(person, number, onset, picture, fixations)
            study.trials.append(trial)
            onset += trial.duration + chance.randint(500, 1500)


def litter(study):
    """Leave what computers leave beside the tables."""
    if study.chance(0.06):
        study.text(".DS_Store", "\0\0\0\1Bud1")
        study.note("litter")
    if study.chance(0.04):
        study.text("Thumbs.db", "\xd0\xcf\x11")
    if study.chance(0.08):
        study.text("README.txt", "Eye tracking study, spring term.\nContact the lab for questions.\n")
    if study.chance(0.08):
        rows = [
            {"participant": p, "age": study.random.randint(18, 60), "gender": study.pick("m", "f", "d"), "q1": 3}
            for p in study.people
        ]
        study.write("questionnaire.csv", ["participant", "age", "gender", "q1"], rows)
        study.note("questionnaire")


# How tables name pictures.


def name_pictures(study, ways=None):
    """Choose how the tables name pictures, and return the name of each by its path."""
    pictures = study.pictures
    if not ways and all(picture.stem.isdecimal() for picture in pictures) and study.chance(0.5):
        ways = ("zeros lost", "float")
    ways = ways or (
        "name",
        "name",
        "name",
        "stem",
        "path",
        "windows",
        "lower",
        "blank",
        "nfd",
        "suffix",
        "underscore",
    )
    way = study.pick(*ways)
    said = {}
    for picture in pictures:
        stem, name = picture.stem, picture.name
        said[picture.path] = {
            "name": name,
            "stem": stem,
            "path": picture.path,
            "windows": "C:\\Users\\lab\\Experiment\\stimuli\\" + name,
            "lower": name.lower(),
            "upper": name.upper(),
            "blank": name + " ",
            "nfd": unicodedata.normalize("NFD", name),
            "suffix": stem + ".bmp",
            "underscore": name.replace(" ", "_"),
            "zeros lost": str(int(stem)) if stem.isdecimal() else stem,
            "float": f"{int(stem)}.0" if stem.isdecimal() else stem,
        }[way]
    if len(set(said.values())) < len(pictures):
        said = {picture.path: picture.path for picture in pictures}
        way = "path"
    if way not in ("name", "path"):
        study.note(f"named:{way}")
    for picture in pictures:
        picture.said = said[picture.path]
    return said


def samples(study, trial, step=25, noise=0.5):
    """(ms, x, y, fixation or None, eyes found) of a trial at a step of some ms, in pixels of the picture."""
    chance = study.random
    found = []
    now = 0
    for fixation, following in itertools.pairwise([*trial.fixations, None]):
        while now <= fixation.end:
            if now >= fixation.start:
                x, y = chance.gauss(fixation.x, noise), chance.gauss(fixation.y, noise)
                found.append((now, x, y, fixation, True))
            now += step
        if following is None:
            break
        gap = following.start - fixation.end
        lost = chance.random() < 0.08
        while now < following.start:
            share = (now - fixation.end) / gap
            x = fixation.x + share * (following.x - fixation.x)
            y = fixation.y + share * (following.y - fixation.y)
            found.append((now, x, y, None, not lost))
            now += step
    return found


def also_samples(study, step, noise=0.5):
    """Draw each trial's samples, and take all of them, or those within fixations, as right too."""
    drawn = {}
    everything = {picture.path: [] for picture in study.pictures}
    within = {picture.path: [] for picture in study.pictures}
    for index, trial in enumerate(study.trials):
        drawn[index] = samples(study, trial, step, noise)
        for _now, x, y, fixation, seen in drawn[index]:
            if seen and inside(trial.picture, x, y):
                everything[trial.picture.path].append((x, y, trial.person))
                if fixation:
                    within[trial.picture.path].append((x, y, trial.person))
    study.others += [everything, within]
    study.note("samples only")
    return drawn


def needs_placement(study):
    """Remember that nothing in the tables says where the pictures stood on the screen, if that matters."""
    if study.shown == "placed":
        study.facts.add("placement on the screen")
        tell_placement(study)


def tell_placement(study):
    """Tell the size of the screen and where it showed the pictures, if the command has words for that."""
    width, height = study.screen
    places = set(study.rects.values())
    ways = {"centre": "center", "fit": "fit"}
    known = next((ways[wrinkle] for wrinkle in study.wrinkles if wrinkle in ways), None)
    if study.shown in ("aspect", "full"):
        known = "fit"
    if not known and len(places) == 1:
        left, top, wide, high = places.pop()
        known = f"{left},{top},{high}x{wide}"
    if known:
        study.settings += ["--screen-size", f"{height}x{width}", "--image-on-screen", known]


def clock(ms):
    """A time of day, as h:m:s:ms."""
    return f"{9 + ms // 3600000}:{ms // 60000 % 60:02d}:{ms // 1000 % 60:02d}:{ms % 1000:03d}"


# Exports of programs.


# Tobii Pro Lab User's Manual, "Data export" (TSV, one row for each sample); columns as read by GazePlotter
# (gazeplotter.com/docs/upload-data/tobii-pro-lab) and by EMDAT's Tobii reader.
@form("either", weight=2)
def tobii_pro_lab(study):
    """Samples with the fixation that each belongs to; the table gives the media's place on the screen."""
    units = study.pick("", " [DACS px]")
    time_unit, factor = study.pick(("", 1), (" [ms]", 1), (" [μs]", 1000))
    style = study.pick(Style("\t", ".", "utf-8-sig", "\r\n"), Style("\t", ",", "utf-8-sig", "\r\n"))
    mapped = study.chance(0.4)
    placed = study.chance(0.75)
    said = name_pictures(study, ("name", "name", "stem"))
    columns = [f"Recording timestamp{time_unit}", "Project name", "Participant name", "Recording name"]
    columns += [
        "Recording resolution width",
        "Recording resolution height",
        "Timeline name",
        "Event",
        "Event value",
    ]
    columns += [f"Gaze point X{units}", f"Gaze point Y{units}", "Validity left", "Validity right"]
    if placed:
        columns += ["Presented Media name", "Presented Media width", "Presented Media height"]
        columns += ["Presented Media position X (DACSpx)", "Presented Media position Y (DACSpx)"]
        columns += ["Original Media width", "Original Media height"]
    else:
        needs_placement(study)
    columns += ["Presented Stimulus name", "Eye movement type", "Eye movement event duration"]
    columns += ["Eye movement type index", f"Fixation point X{units}", f"Fixation point Y{units}"]
    if study.chance(0.25):
        columns += ["Fixation point X (MCSnorm)", "Fixation point Y (MCSnorm)"]
        study.settings.clear()
        study.facts.discard("placement on the screen")
        study.note("MCSnorm")
    if mapped:
        columns += ["Mapped fixation X [MCS px]", "Mapped fixation Y [MCS px]"]
        study.settings.clear()
        study.facts.discard("placement on the screen")
        study.note("mapped")
    areas = study.chance(0.3)
    if areas:
        columns += ["AOI hit [" + study.trials[0].picture.name + " - Logo]"]
    rows = []
    for person in study.people:
        index = 0
        for trial in study.of(person):
            left, top, wide, high = study.rects[trial.picture.path]
            base = {
                "Project name": "Study 1",
                "Participant name": person,
                "Recording name": f"Recording{study.people.index(person) + 1}",
                "Recording resolution width": study.screen[0],
                "Recording resolution height": study.screen[1],
                "Timeline name": "Timeline1",
                "Presented Media name": trial.picture.name,
                "Presented Media width": wide,
                "Presented Media height": high,
                "Presented Media position X (DACSpx)": left,
                "Presented Media position Y (DACSpx)": top,
                "Original Media width": trial.picture.width,
                "Original Media height": trial.picture.height,
                "Presented Stimulus name": said[trial.picture.path],
            }
            start = {f"Recording timestamp{time_unit}": trial.onset * factor, "Event": "ImageStimulusStart"}
            rows.append(base | start | {"Event value": trial.picture.name})
            last = None
            for now, x, y, fixation, seen in samples(study, trial, 30):
                gx, gy = study.on_screen(trial.picture, x, y)
                if fixation is not last:
                    index += 1
                    last = fixation
                row = base | {f"Recording timestamp{time_unit}": (trial.onset + now) * factor}
                row |= {"Eye movement type index": index, "Eye movement event duration": 33}
                row["Eye movement type"] = (
                    "Fixation" if fixation else study.pick("Saccade", "Saccade", "Unclassified")
                )
                row |= {"Validity left": "Valid", "Validity right": study.pick("Valid", "Valid", "Invalid")}
                row |= {f"Gaze point X{units}": round(gx), f"Gaze point Y{units}": round(gy)}
                if not seen:
                    row |= {
                        "Eye movement type": "EyesNotFound",
                        "Validity left": "Invalid",
                        "Validity right": "Invalid",
                    }
                    row |= {f"Gaze point X{units}": None, f"Gaze point Y{units}": None}
                if fixation:
                    fx, fy = study.on_screen(trial.picture, fixation.x, fixation.y)
                    row |= {f"Fixation point X{units}": round(fx), f"Fixation point Y{units}": round(fy)}
                    row["Eye movement event duration"] = fixation.duration
                    row["Fixation point X (MCSnorm)"] = round(fixation.x / trial.picture.width, 4)
                    row["Fixation point Y (MCSnorm)"] = round(fixation.y / trial.picture.height, 4)
                    if inside(trial.picture, fixation.x, fixation.y):
                        row["Mapped fixation X [MCS px]"] = round(fixation.x)
                        row["Mapped fixation Y [MCS px]"] = round(fixation.y)
                if areas:
                    row[columns[-1]] = int(x > trial.picture.width / 2)
                rows.append(row)
            rows.append(base | start | {"Event": "ImageStimulusEnd", "Event value": trial.picture.name})
        if study.chance(0.5):
            rows.append({"Participant name": person, "Presented Stimulus name": "Eyetracker Calibration"})
    if study.chance(0.3):
        study.note("one table per person")
        for person in study.people:
            own = [row for row in rows if row["Participant name"] == person]
            study.write(f"Study 1 {person}.tsv", columns, own, style)
    else:
        study.write("Study 1 Data Export.tsv", columns, rows, style)


# Tobii Pro Lab User's Manual, "Metrics export: event-based TSV"; order of the columns as listed by a public
# reader of that export (EXPECTED_COLUMNS: Recording, Participant, TOI, Interval, Bin_duration, Media, ...).
@form("either")
def tobii_pro_lab_events(study):
    """A row for each event and area of interest, so that a fixation stands in several rows."""
    columns = ["Recording", "Participant", "TOI", "Interval", "Bin_duration", "Media", "Event_type", "Validity"]
    columns += ["EventIndex", "Start", "Stop", "Start_bin", "Stop_bin", "Duration", "AOI", "Hit_proportion"]
    columns += ["FixationPointX", "FixationPointY", "Average_pupil_diameter", "Saccade_direction"]
    columns += ["Average_velocity", "Peak_velocity", "Saccade_amplitude"]
    areas = study.pick(["Logo"], ["Logo", "Headline", "Face"], ["Left", "Right"])
    needs_placement(study)
    rows = []
    study.note("areas repeat fixations")
    for trial in study.trials:
        base = {
            "Recording": f"Recording{study.people.index(trial.person) + 1}",
            "Participant": trial.person,
            "TOI": study.pick("Entire Recording", trial.picture.stem),
            "Interval": 1,
            "Media": trial.picture.name,
            "Validity": "Whole",
        }
        for fixation in trial.fixations:
            x, y = study.on_screen(trial.picture, fixation.x, fixation.y)
            event = base | {
                "Event_type": "Fixation",
                "EventIndex": fixation.number,
                "Start": trial.onset + fixation.start,
                "Stop": trial.onset + fixation.end,
                "Duration": fixation.duration,
                "FixationPointX": round(x),
                "FixationPointY": round(y),
                "Average_pupil_diameter": 3.41,
            }
            rows += [event | {"AOI": area, "Hit_proportion": float(i == 0)} for i, area in enumerate(areas)]
            rows.append(
                base
                | {
                    "Event_type": "Saccade",
                    "EventIndex": fixation.number,
                    "Start": trial.onset + fixation.end,
                    "Stop": trial.onset + fixation.end + 30,
                    "Duration": 30,
                    "Saccade_direction": 91.5,
                    "Saccade_amplitude": 4.25,
                }
            )
    study.write("Metrics event-based.tsv", columns, rows, Style("\t", study.pick(".", ","), "utf-8", "\r\n"))


# Tobii Pro Lab User's Manual, glasses projects: "Mapped fixation X [Snapshot name]" and "Mapped eye movement type
# [Snapshot name]", a set of columns for each snapshot, as GazePlotter's test data have it (01-walk, 02-walk).
@form("picture")
def tobii_glasses(study):
    """Columns for each snapshot; a row has a position in the columns of at most one."""
    columns = ["Recording timestamp", "Sensor", "Participant name", "Recording name", "Eye movement type"]
    columns += ["Eye movement type index", "Fixation point X", "Fixation point Y"]
    said = {picture.path: picture.stem for picture in study.pictures}
    for name in said.values():
        columns += [f"Mapped eye movement type [{name}]", f"Mapped eye movement type index [{name}]"]
        columns += [f"Mapped fixation X [{name}]", f"Mapped fixation Y [{name}]"]
    style = Style("\t", study.pick(".", ","), "utf-8-sig", "\r\n")
    for person in study.people:
        rows, index = [], 0
        for trial in study.of(person):
            name, last, own = said[trial.picture.path], None, 0
            for now, _x, _y, fixation, seen in samples(study, trial, 40):
                if fixation is not last:
                    index += 1
                    own += fixation is not None
                    last = fixation
                kind = "Fixation" if fixation else "Saccade" if seen else "EyesNotFound"
                row = {"Recording timestamp": (trial.onset + now) * 1000, "Sensor": "Eye Tracker"}
                row |= {"Participant name": person, "Recording name": "Recording001", "Eye movement type": kind}
                row |= {"Eye movement type index": index, f"Mapped eye movement type [{name}]": kind}
                if fixation:
                    row |= {"Fixation point X": 960 + now % 7, "Fixation point Y": 540 - now % 5}
                    row[f"Mapped eye movement type index [{name}]"] = own
                    row[f"Mapped fixation X [{name}]"] = round(fixation.x)
                    row[f"Mapped fixation Y [{name}]"] = round(fixation.y)
                rows.append(row)
        study.write(f"Glasses {person}.tsv", columns, rows, style)


# Tobii Studio User's Manual 3.4, "Data export: all columns", as read by EMDAT and by many scripts
# (ParticipantName, MediaName, GazeEventType, FixationPointX (MCSpx), GazePointX (ADCSpx), ValidityLeft 0 to 4).
@form("placed")
def tobii_studio(study):
    """Samples with positions on the media, beside gaze on the screen that is somewhere else."""
    columns = ["ExportDate", "StudioVersionRec", "StudioProjectName", "StudioTestName", "ParticipantName"]
    columns += ["RecordingName", "RecordingDate", "RecordingDuration", "RecordingResolution", "FixationFilter"]
    columns += ["MediaName", "MediaPosX (ADCSpx)", "MediaPosY (ADCSpx)", "MediaWidth", "MediaHeight"]
    columns += ["RecordingTimestamp", "LocalTimeStamp", "StudioEvent", "StudioEventData", "FixationIndex"]
    columns += ["SaccadeIndex", "GazeEventType", "GazeEventDuration", "FixationPointX (MCSpx)"]
    columns += ["FixationPointY (MCSpx)", "GazePointIndex", "GazePointX (ADCSpx)", "GazePointY (ADCSpx)"]
    columns += [
        "GazePointX (MCSpx)",
        "GazePointY (MCSpx)",
        "PupilLeft",
        "PupilRight",
        "ValidityLeft",
        "ValidityRight",
    ]
    columns += [""]
    style = Style("\t", study.pick(".", ","), study.pick("utf-8-sig", "utf-16"), "\r\n")
    name_pictures(study, ("name",))
    rows = []
    for person in study.people:
        index = saccade = gaze = 0
        for trial in study.of(person):
            left, top, wide, high = study.rects[trial.picture.path]
            base = {
                "ExportDate": "12.03.2015",
                "StudioVersionRec": "3.3.1",
                "StudioProjectName": "Scenes",
                "StudioTestName": "Test 1",
                "ParticipantName": person,
                "RecordingName": f"Rec {study.people.index(person) + 1:02d}",
                "RecordingResolution": f"{study.screen[0]} x {study.screen[1]}",
                "FixationFilter": "I-VT filter",
                "MediaName": trial.picture.name,
                "MediaPosX (ADCSpx)": left,
                "MediaPosY (ADCSpx)": top,
                "MediaWidth": wide,
                "MediaHeight": high,
            }
            last = None
            scale = wide / trial.picture.width
            for now, x, y, fixation, seen in samples(study, trial, 33):
                gaze += 1
                at = trial.onset + now
                gx, gy = study.on_screen(trial.picture, x, y)
                row = base | {"RecordingTimestamp": at, "LocalTimeStamp": clock(at), "GazePointIndex": gaze}
                if fixation is not last:
                    index, saccade = (index + 1, saccade) if fixation else (index, saccade + 1)
                    last = fixation
                if not seen:
                    row |= {"GazeEventType": "Unclassified", "GazeEventDuration": 33}
                    row |= {"ValidityLeft": 4, "ValidityRight": 4}
                    rows.append(row)
                    continue
                row |= {"GazePointX (ADCSpx)": round(gx), "GazePointY (ADCSpx)": round(gy)}
                row |= {"PupilLeft": 3.12, "PupilRight": 3.05, "ValidityLeft": 0, "ValidityRight": 0}
                row |= {"GazePointX (MCSpx)": round(gx - left), "GazePointY (MCSpx)": round(gy - top)}
                row |= {"GazeEventType": "Fixation" if fixation else "Saccade", "GazeEventDuration": 33}
                if fixation:
                    row |= {"FixationIndex": index, "GazeEventDuration": fixation.duration}
                    row["FixationPointX (MCSpx)"] = round(fixation.x * scale)
                    row["FixationPointY (MCSpx)"] = round(fixation.y * scale)
                else:
                    row["SaccadeIndex"] = saccade
                rows.append(row)
    if study.chance(0.5):
        study.note("one table per person")
        for person in study.people:
            own = [row for row in rows if row["ParticipantName"] == person]
            study.write(f"Scenes_Test 1_{person}.tsv", columns, own, style)
    else:
        study.write("Scenes_New test_all.tsv", columns, rows, style)


# ClearView 2 and Tobii Studio 1 manuals, "FXD: fixation data": a long header of properties, then columns;
# one file for each person and picture.
@form("picture")
def tobii_clearview(study):
    """A file for each person and picture, below lines about the recording."""
    for trial in study.trials:
        preamble = [
            "System Properties:",
            "Operating System:\tMicrosoft Windows XP",
            "System User Name:\tTobii",
            "",
            "Data Properties:",
            "Recording name:\t" + trial.person,
            f"Subject:\t{trial.person}",
            f"Stimuli:\t{trial.picture.name}",
            f"Recording resolution:\t{study.screen[0]} x {study.screen[1]}",
            "Fixation radius:\t30",
            "Minimum fixation duration:\t100",
            "",
        ]
        rows = [
            {
                "Fix number": f.number,
                "Timestamp": f.start,
                "Duration": f.duration,
                "GazepointX": round(f.x),
                "GazepointY": round(f.y),
            }
            for f in trial.fixations
        ]
        name = f"{trial.person}_{trial.picture.stem}FXD.txt"
        columns = ["Fix number", "Timestamp", "Duration", "GazepointX", "GazepointY"]
        study.write(f"fxd/{name}", columns, rows, Style("\t", newline="\r\n"), preamble)


# The metro maps of Netzel, Burch et al. as shared with students (all_fixation_data_cleaned_up.csv): tabs,
# Latin-1, columns as read by several public visualizations (MappedFixationPointX, StimuliName, user).
@form("picture")
def metro_maps(study):
    """Fixations mapped to the picture, in Latin-1 with tabs."""
    said = name_pictures(study, ("name",))
    columns = ["Timestamp", "StimuliName", "FixationIndex", "FixationDuration", "MappedFixationPointX"]
    columns += ["MappedFixationPointY", "user", "description"]
    rows = [
        {
            "Timestamp": trial.onset + f.start,
            "StimuliName": said[trial.picture.path],
            "FixationIndex": f.number,
            "FixationDuration": f.duration,
            "MappedFixationPointX": round(f.x),
            "MappedFixationPointY": round(f.y),
            "user": trial.person,
            "description": study.pick("color", "gray"),
        }
        for trial in study.trials
        for f in trial.fixations
    ]
    latin = all(trial.picture.name.isascii() or "ü" in trial.picture.name for trial in study.trials)
    style = Style("\t", encoding="latin-1" if latin else "utf-8")
    study.write("all_fixation_data_cleaned_up.csv", columns, rows, style)


# EyeLink Data Viewer User's Manual, "Fixation report"; names as in public scripts (RECORDING_SESSION_LABEL,
# TRIAL_INDEX, CURRENT_FIX_X, a variable `image` of the experiment); "." is missing.
@form("either", weight=2)
def eyelink_fixation_report(study):
    """Fixations on the screen, with the experiment's own variable for the picture."""
    said = name_pictures(study, ("name", "name", "stem", "path", "lower"))
    image = study.pick("image", "img", "picture", "imgfile", "stimulus", "IMAGE", "image_name")
    columns = ["RECORDING_SESSION_LABEL", "TRIAL_INDEX", "TRIAL_LABEL", "CURRENT_FIX_INDEX", "CURRENT_FIX_START"]
    columns += ["CURRENT_FIX_END", "CURRENT_FIX_DURATION", "CURRENT_FIX_X", "CURRENT_FIX_Y", "CURRENT_FIX_PUPIL"]
    columns += ["CURRENT_FIX_BLINK_AROUND", "CURRENT_FIX_INTEREST_AREA_LABEL", "EYE_USED", "NEXT_FIX_X"]
    columns += ["NEXT_FIX_Y", "PREVIOUS_SAC_AMPLITUDE", image]
    needs_placement(study)
    rows = []
    for trial in study.trials:
        for f, following in itertools.pairwise([*trial.fixations, None]):
            x, y = study.on_screen(trial.picture, f.x, f.y)
            row = {
                "RECORDING_SESSION_LABEL": trial.person,
                "TRIAL_INDEX": trial.number,
                "TRIAL_LABEL": f"Trial: {trial.number}",
                "CURRENT_FIX_INDEX": f.number,
                "CURRENT_FIX_START": f.start,
                "CURRENT_FIX_END": f.end,
                "CURRENT_FIX_DURATION": f.duration,
                "CURRENT_FIX_X": round(x, 2),
                "CURRENT_FIX_Y": round(y, 2),
                "CURRENT_FIX_PUPIL": 1204.0,
                "CURRENT_FIX_BLINK_AROUND": "NONE",
                "EYE_USED": "RIGHT",
                "PREVIOUS_SAC_AMPLITUDE": 4.12 if f.number > 1 else None,
                image: said[trial.picture.path],
            }
            if following:
                nx, ny = study.on_screen(trial.picture, following.x, following.y)
                row |= {"NEXT_FIX_X": round(nx, 2), "NEXT_FIX_Y": round(ny, 2)}
            rows.append(row)
    if study.chance(0.3):
        sizes = study.pick(("DISPLAY_WIDTH", "DISPLAY_HEIGHT"), ("screen_width", "screen_height"))
        columns += list(sizes)
        rows = [row | dict(zip(sizes, study.screen, strict=True)) for row in rows]
    style = study.pick(
        Style("\t", missing="."),
        Style("\t", ",", missing="."),
        Style(",", missing="."),
        Style("\t", ".", "utf-16", missing="."),
    )
    study.write(
        study.pick("fixation_report.txt", "fix.xls", "FixationReport.csv", "fixreport.txt"), columns, rows, style
    )


# EyeLink Data Viewer User's Manual, "Sample report" and "Saccade report" beside the fixation report.
@form("full")
def eyelink_reports(study):
    """Reports of samples, saccades and fixations side by side."""
    said = name_pictures(study, ("name", "stem"))
    fixations, saccades, all_samples = [], [], []
    for trial in study.trials:
        base = {
            "RECORDING_SESSION_LABEL": trial.person,
            "TRIAL_INDEX": trial.number,
            "image": said[trial.picture.path],
        }
        for f, following in itertools.pairwise([*trial.fixations, None]):
            fixations.append(
                base
                | {
                    "CURRENT_FIX_INDEX": f.number,
                    "CURRENT_FIX_START": f.start,
                    "CURRENT_FIX_DURATION": f.duration,
                    "CURRENT_FIX_X": round(f.x, 1),
                    "CURRENT_FIX_Y": round(f.y, 1),
                }
            )
            if following:
                saccades.append(
                    base
                    | {
                        "CURRENT_SAC_INDEX": f.number,
                        "CURRENT_SAC_START_X": round(f.x, 1),
                        "CURRENT_SAC_START_Y": round(f.y, 1),
                        "CURRENT_SAC_END_X": round(following.x, 1),
                        "CURRENT_SAC_END_Y": round(following.y, 1),
                        "CURRENT_SAC_AMPLITUDE": 5.1,
                    }
                )
        for now, x, y, fixation, seen in samples(study, trial, 40):
            all_samples.append(
                base
                | {
                    "TIMESTAMP": trial.onset + now,
                    "RIGHT_GAZE_X": round(x, 1) if seen else None,
                    "RIGHT_GAZE_Y": round(y, 1) if seen else None,
                    "RIGHT_IN_BLINK": int(not seen),
                    "RIGHT_IN_SACCADE": int(fixation is None),
                    "RIGHT_PUPIL_SIZE": 1100.0 if seen else None,
                }
            )
    style = Style("\t", missing=".")
    study.write("Output/fixation_report.txt", list(fixations[0]), fixations, style)
    if study.chance(0.6):
        study.write("Output/sample_report.txt", list(all_samples[0]), all_samples, style)
        study.note("samples beside")
    if study.chance(0.6) and saccades:
        study.write("Output/saccade_report.txt", list(saccades[0]), saccades, style)
        study.note("saccades beside")


# R package eyelinkReader (CRAN, extract_fixations; EDF access API's FEVENT): trial, sttime, entime, sttime_rel,
# gavx, gavy, eye; the picture stands in a table of the trials' variables (extract_variables).
@form("full")
def eyelink_reader(study):
    """Fixations of a data frame with the API's names, and the pictures in a table of variables or joined."""
    joined = study.chance(0.5)
    fixations, variables = [], []
    for trial in study.trials:
        named = {"image": trial.picture.name} if joined else {}
        variables.append(
            {"recording": trial.person, "trial": trial.number, "variable": "image", "value": trial.picture.name}
        )
        for f in trial.fixations:
            row = {"recording": trial.person, "trial": trial.number, "sttime": trial.onset + f.start}
            row |= {
                "entime": trial.onset + f.end,
                "sttime_rel": f.start,
                "entime_rel": f.end,
                "duration": f.duration,
            }
            row |= {
                "eye": "RIGHT",
                "hstx": -1310.0,
                "hsty": 902.5,
                "gstx": round(f.x + 4.2, 1),
                "gsty": round(f.y - 3.1, 1),
            }
            row |= {"henx": -1290.0, "heny": 899.0, "genx": round(f.x - 2.9, 1), "geny": round(f.y + 5.0, 1)}
            row |= {"gavx": round(f.x, 1), "gavy": round(f.y, 1), "avel": 5.1, "pvel": 22.4}
            fixations.append(row | named)
    style = Style(missing="NA", quoting=csv.QUOTE_NONNUMERIC)
    study.write("fixations.csv", list(fixations[0]), fixations, style)
    if not joined:
        study.note("names in a second table")
        study.write("variables.csv", list(variables[0]), variables, style)


# EyeLink 1000 User Manual, "EDF2ASC files": MSG, EFIX, ESACC and EBLINK lines; "!V IMGLOAD CENTER path x y" and
# "DISPLAY_COORDS" are Data Viewer's integration messages (EyeLink Data Viewer User's Manual, "Protocol").
@form("either")
def eyelink_asc(study):
    """Text of edf2asc, one for each person, which also says where the pictures stood."""
    width, height = study.screen
    if "centre" not in study.wrinkles:
        needs_placement(study)
    for person in study.people:
        lines = [
            "** CONVERTED FROM " + person + ".edf using edfapi 4.2.1",
            "** DATE: Mon Mar  4 10:12:55 2019",
            "** TYPE: EDF_FILE BINARY EVENT SAMPLE TAGGED",
            "** VERSION: EYELINK II 1",
            "**",
            "",
            f"MSG\t{900} DISPLAY_COORDS 0 0 {width - 1} {height - 1}",
        ]
        for trial in study.of(person):
            t = trial.onset
            lines += [
                f"MSG\t{t - 90} TRIALID {trial.number}",
                f"START\t{t - 80} \tRIGHT\tSAMPLES\tEVENTS",
                "EVENTS\tGAZE\tRIGHT\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2",
                f"MSG\t{t} !V IMGLOAD CENTER ../stimuli/{trial.picture.name} {width // 2} {height // 2}",
                f"MSG\t{t} SYNCTIME",
            ]
            for f, following in itertools.pairwise([*trial.fixations, None]):
                x, y = study.on_screen(trial.picture, f.x, f.y)
                lines.append(f"SFIX R   {t + f.start}")
                lines.append(f"EFIX R   {t + f.start}\t{t + f.end}\t{f.duration}\t  {x:.1f}\t  {y:.1f}\t   1034")
                if following:
                    nx, ny = study.on_screen(trial.picture, following.x, following.y)
                    lines.append(
                        f"ESACC R  {t + f.end}\t{t + following.start}\t{following.start - f.end}\t"
                        f"  {x:.1f}\t  {y:.1f}\t  {nx:.1f}\t  {ny:.1f}\t   4.55\t   310"
                    )
            lines += [
                f"MSG\t{t + trial.duration} !V TRIAL_VAR image {trial.picture.name}",
                f"MSG\t{t + trial.duration} TRIAL_RESULT 0",
                f"END\t{t + trial.duration} \tSAMPLES\tEVENTS\tRES\t  45.1\t  44.9",
            ]
        study.text(f"asc/{person}.asc", "\n".join(lines) + "\n")


# SMI BeGaze Manual, "Event statistics export (single)"; columns as dropped or kept by public scripts
# (Trial Start Raw Time [ms], Category Group, Fixation Position X [px], "-" for a missing value).
@form("either", weight=2)
def smi_event_statistics(study):
    """Fixations, saccades and blinks of one eye or of both."""
    said = name_pictures(study, ("name", "name", "stem"))
    categories = study.pick(("Fixation", "Saccade", "Blink"), ("Visual Intake", "Saccade", "Blink"))
    eyes = study.pick(["Right"], ["Left"], ["Left", "Right"])
    if len(eyes) == 2:
        study.note("both eyes in rows")
    columns = ["Trial", "Stimulus", "Export Start Trial Time [ms]", "Export End Trial Time [ms]", "Participant"]
    columns += ["Color", "Category Group", "Category", "Eye L/R", "Index", "Event Start Trial Time [ms]"]
    columns += ["Event End Trial Time [ms]", "Event Duration [ms]", "Fixation Position X [px]"]
    columns += ["Fixation Position Y [px]", "Fixation Dispersion X [px]", "Saccade Start Position X [px]"]
    columns += ["Saccade Start Position Y [px]", "Mouse Position X [px]", "Mouse Position Y [px]", "AOI Name"]
    needs_placement(study)
    rows = []
    for trial in study.trials:
        base = {
            "Trial": f"Trial{trial.number:03d}",
            "Stimulus": said[trial.picture.path],
            "Export Start Trial Time [ms]": 0.0,
            "Export End Trial Time [ms]": float(trial.duration),
            "Participant": trial.person,
            "Color": "Coral",
        }
        for f in trial.fixations:
            x, y = study.on_screen(trial.picture, f.x, f.y)
            for i, eye in enumerate(eyes):
                shift = 0.8 * i if len(eyes) == 2 else 0
                rows.append(
                    base
                    | {
                        "Category Group": "Eye",
                        "Category": categories[0],
                        "Eye L/R": eye,
                        "Index": f.number,
                        "Event Start Trial Time [ms]": f.start + 0.4,
                        "Event End Trial Time [ms]": f.end + 0.4,
                        "Event Duration [ms]": float(f.duration),
                        "Fixation Position X [px]": round(x + shift, 1),
                        "Fixation Position Y [px]": round(y, 1),
                        "Fixation Dispersion X [px]": 21.4,
                        "AOI Name": study.pick("White Space", "AOI 001"),
                    }
                )
                rows.append(
                    base
                    | {
                        "Category Group": "Eye",
                        "Category": study.pick(categories[1], categories[1], categories[2]),
                        "Eye L/R": eye,
                        "Index": f.number,
                        "Event Start Trial Time [ms]": f.end + 0.4,
                        "Event End Trial Time [ms]": f.end + 30.4,
                        "Event Duration [ms]": 30.0,
                        "Saccade Start Position X [px]": round(x, 1),
                        "Saccade Start Position Y [px]": round(y, 1),
                    }
                )
        rows.append(base | {"Category Group": "Information", "Category": "Separator", "Index": 1})
    style = Style(study.pick("\t", ",", ";"), ".", "utf-8", "\r\n", "-")
    if study.chance(0.4):
        study.note("one table per picture")
        for picture in study.pictures:
            own = [row for row in rows if row["Stimulus"] == said[picture.path]]
            if own:
                study.write(f"Event Statistics - Single - {picture.stem}.txt", columns, own, style)
    else:
        study.write("Event Statistics - Single.txt", columns, rows, style)


# SMI BeGaze Manual, "Raw data export": RecordingTime [ms], Trial, Stimulus, Participant, Category Right,
# Point of Regard Right X [px], as read by peekds' and many classifiers' scripts; "-" where the gaze is lost.
@form("either")
def smi_raw_data(study):
    """Samples of both eyes with the kind and the number of the event that each belongs to."""
    said = name_pictures(study, ("name",))
    needs_placement(study)
    everything = {picture.path: [] for picture in study.pictures}
    columns = ["RecordingTime [ms]", "Time of Day [h:m:s:ms]", "Trial", "Stimulus", "Participant", "Color"]
    columns += ["Tracking Ratio [%]", "Category Group", "Category Right", "Category Left", "Index Right"]
    columns += ["Index Left", "Pupil Diameter Right [mm]", "Pupil Diameter Left [mm]"]
    columns += ["Point of Regard Right X [px]", "Point of Regard Right Y [px]", "Point of Regard Left X [px]"]
    columns += ["Point of Regard Left Y [px]", "AOI Name Right", "AOI Name Left"]
    rows = []
    for trial in study.trials:
        base = {"Trial": f"Trial{trial.number:03d}", "Stimulus": said[trial.picture.path], "Color": "Blue"}
        base |= {"Participant": trial.person, "Tracking Ratio [%]": 97.1}
        rows.append(base | {"Category Group": "Information", "Category Right": "Separator"})
        for now, x, y, fixation, seen in samples(study, trial, 33, 0.4):
            kind = "Fixation" if fixation else "Saccade" if seen else "Blink"
            gx, gy = study.on_screen(trial.picture, x, y)
            row = base | {"RecordingTime [ms]": trial.onset + now + 0.5, "Category Group": "Eye"}
            row |= {"Time of Day [h:m:s:ms]": clock(now), "Category Right": kind, "Category Left": kind}
            row |= dict.fromkeys(("Index Right", "Index Left"), fixation.number if fixation else 1)
            if seen:
                row |= {
                    "Point of Regard Right X [px]": round(gx + 0.3, 1),
                    "Point of Regard Right Y [px]": round(gy, 1),
                }
                row |= {
                    "Point of Regard Left X [px]": round(gx - 0.3, 1),
                    "Point of Regard Left Y [px]": round(gy, 1),
                }
                row |= {"Pupil Diameter Right [mm]": 3.3, "Pupil Diameter Left [mm]": 3.2, "AOI Name Right": "-"}
            if fixation and inside(trial.picture, x, y):
                everything[trial.picture.path].append((x, y, trial.person))
            rows.append(row)
    study.others.append(everything)
    study.note("samples only")
    study.write("Raw Data.txt", columns, rows, Style("\t", missing="-", newline="\r\n"))


# SMI IDF Event Detector output (*_Events.txt): declared headers for fixations, saccades, blinks and user events,
# as parsed by EMDAT's SMI reader and by PyGazeAnalyser (pygazeanalyser/idfreader.py).
@form("full")
def smi_idf_events(study):
    """Sections with several kinds of rows in one file; messages name the picture."""
    for person in study.people:
        lines = [
            "[iView]",
            "## Converted from:\tD:\\data\\" + person + ".idf",
            "## Date:\t04.03.2013 11:02:31",
            "## Version:\tIDF Event Detector 3.0.16",
            f"## Calibration Area:\t{study.screen[0]}\t{study.screen[1]}",
            "Table Header for Fixations:",
            "Event Type\tTrial\tNumber\tStart\tEnd\tDuration\tLocation X\tLocation Y\tDispersion X\tDispersion Y\t"
            "Plane\tAvg. Pupil Size X\tAvg. Pupil Size Y",
            "",
            "Table Header for Saccades:",
            "Event Type\tTrial\tNumber\tStart\tEnd\tDuration\tStart Loc.X\tStart Loc.Y\tEnd Loc.X\tEnd Loc.Y\t"
            "Amplitude\tPeak Speed",
            "",
            "Table Header for User Events:",
            "Event Type\tTrial\tNumber\tStart\tDescription",
            "",
        ]
        number = 0
        for trial in study.of(person):
            t = trial.onset * 1000
            lines.append(f"UserEvent\t1\t{trial.number}\t{t}\t# Message: {trial.picture.name}")
            for f, following in itertools.pairwise([*trial.fixations, None]):
                number += 1
                lines.append(
                    f"Fixation L\t1\t{number}\t{t + f.start * 1000}\t{t + f.end * 1000}\t{f.duration * 1000}\t"
                    f"{f.x:.2f}\t{f.y:.2f}\t22\t19\t-1\t17.16\t17.16"
                )
                if following:
                    lines.append(
                        f"Saccade L\t1\t{number}\t{t + f.end * 1000}\t{t + following.start * 1000}\t"
                        f"{(following.start - f.end) * 1000}\t{f.x:.2f}\t{f.y:.2f}\t{following.x:.2f}\t"
                        f"{following.y:.2f}\t5.10\t260.5"
                    )
        study.text(f"{person}_Events.txt", "\n".join(lines) + "\n")


# Gazepoint Analysis User Manual, "Export data"; header of a public export (MIMIC-EYE: CNT, Time (in secs),
# TIMETICK(f=10000000), FPOGX, FPOGY, FPOGS, FPOGD, FPOGID, FPOGV, BPOGX, ...), with a comma at each line's end.
@form("fitted", weight=2)
def gazepoint(study):
    """Fixations in fractions of the screen, one table for each user, perhaps with all samples beside."""
    columns = ["MEDIA_ID", "MEDIA_NAME", "CNT", "TIME(2020/02/02 12:00:00.000)", "TIMETICK(f=10000000)"]
    columns += ["FPOGX", "FPOGY", "FPOGS", "FPOGD", "FPOGID", "FPOGV", "BPOGX", "BPOGY", "BPOGV", "LPD", "LPV"]
    columns += ["RPD", "RPV", "BKID", "AOI", "SACCADE_MAG", ""]
    said = name_pictures(study, ("stem", "name"))
    if study.shown == "placed":
        study.facts.add("placement on the screen")
    tell_placement(study)
    beside = study.chance(0.4)
    if beside:
        study.note("samples beside")
    invalid = study.chance(0.3)
    ids = {picture.path: i for i, picture in enumerate(study.pictures)}
    for i, person in enumerate(study.people):
        rows, everything, number, count = [], [], 0, 0
        for trial in study.of(person):
            w, h = study.screen
            for f in trial.fixations:
                number += 1
                x, y = study.on_screen(trial.picture, f.x, f.y)
                row = {
                    "MEDIA_ID": ids[trial.picture.path],
                    "MEDIA_NAME": said[trial.picture.path],
                    "CNT": count,
                    columns[3]: round((trial.onset + f.end) / 1000, 5),
                    columns[4]: 69621638 * 10**4 + f.end,
                    "FPOGX": round(x / w, 5),
                    "FPOGY": round(y / h, 5),
                    "FPOGS": round((trial.onset + f.start) / 1000, 5),
                    "FPOGD": round(f.duration / 1000, 5),
                    "FPOGID": number,
                    "FPOGV": 1,
                    "BPOGX": round((x + 3) / w, 5),
                    "BPOGY": round((y - 2) / h, 5),
                    "BPOGV": 1,
                    "LPD": 18.3,
                    "LPV": 1,
                    "RPD": 17.9,
                    "RPV": 1,
                    "BKID": 0,
                    "SACCADE_MAG": 120.5,
                }
                rows.append(row)
                for k in range(0, f.duration, 60):
                    count += 1
                    everything.append(
                        row | {"CNT": count, columns[3]: round((trial.onset + f.start + k) / 1000, 5)}
                    )
                if invalid and study.chance(0.05):
                    rows.append(row | {"FPOGX": 0.0, "FPOGY": 0.0, "FPOGV": 0, "FPOGID": number, "FPOGD": 0.0})
        name = study.pick(f"User {i}", f"User {i}") if study.chance(0.5) else person
        study.write(f"result/{name}_fixations.csv", columns, rows, Style(newline="\r\n"))
        if beside:
            study.write(f"result/{name}_all_gaze.csv", columns, everything, Style(newline="\r\n"))


# Pupil Cloud, "Reference Image Mapper" export (repository pupil-labs/pupil-docs, export formats): fixations.csv
# with "fixation detected in reference image", sections.csv with the wearers, and reference_image.jpeg.
@form("picture")
def pupil_cloud(study):
    """A folder for each picture, where all pictures have the same name."""
    chance = study.random
    place = study.pictures[0].path.split("/")[0]
    for trial_picture in study.pictures:
        (study.folder / trial_picture.path).unlink()
    if "/" in study.pictures[0].path:
        shutil.rmtree(study.folder / place, ignore_errors=True)
    study.points = {}
    ids = {p: str(uuid.UUID(int=chance.getrandbits(128), version=4)) for p in study.people}
    extra = study.chance(0.5)
    for i, picture in enumerate(study.pictures):
        slug = f"REFERENCE_IMAGE_MAPPER_{picture.stem}_csv"
        old = picture.path
        picture.path = f"{slug}/reference_image.jpeg"
        study.rects[picture.path] = study.rects.pop(old)
        save_picture(study.folder / picture.path, content(study.seed * 1000 + i, picture.width, picture.height))
        rows, sections, gaze = [], [], []
        for trial in study.trials:
            if trial.picture is not picture:
                continue
            section = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            start = 1_650_000_000_000_000_000 + trial.onset * 10**6
            sections.append(
                {
                    "section id": section,
                    "recording id": ids[trial.person],
                    "recording name": f"2022-04-11_{trial.number}",
                    "wearer id": ids[trial.person][::-1],
                    "wearer name": trial.person,
                    "section start time [ns]": start,
                    "section end time [ns]": start + trial.duration * 10**6,
                }
            )
            base = {"section id": section, "recording id": ids[trial.person]}
            for f in trial.fixations:
                row = base | {
                    "fixation id": f.number,
                    "start timestamp [ns]": start + f.start * 10**6,
                    "end timestamp [ns]": start + f.end * 10**6,
                    "duration [ms]": f.duration,
                    "fixation detected in reference image": True,
                    "fixation x [px]": round(f.x, 3),
                    "fixation y [px]": round(f.y, 3),
                }
                rows.append(row)
                if chance.random() < 0.06:
                    lost = {"fixation detected in reference image": False, "fixation id": 100 + f.number}
                    rows.append(row | lost | {"fixation x [px]": None, "fixation y [px]": None})
            for now, x, y, fixation, seen in samples(study, trial, 50):
                gaze.append(
                    base
                    | {
                        "timestamp [ns]": start + now * 10**6,
                        "gaze detected in reference image": seen,
                        "gaze position in reference image x [px]": round(x, 3) if seen else None,
                        "gaze position in reference image y [px]": round(y, 3) if seen else None,
                        "fixation id": fixation.number if fixation else None,
                    }
                )
        if rows:
            study.write(f"{slug}/fixations.csv", list(rows[0]), rows)
            study.write(f"{slug}/sections.csv", list(sections[0]), sections)
            if extra:
                study.write(f"{slug}/gaze.csv", list(gaze[0]), gaze)
    if extra:
        study.note("samples beside")
    study.settle()


# Pupil Player, "Surface tracker export": fixations_on_surface_NAME.csv (repository LostInZoom/post_processing_ET
# lists world_timestamp, world_index, fixation_id, ..., norm_pos_x, norm_pos_y, x_scaled, y_scaled, on_surf).
@form("picture")
def pupil_core(study):
    """A table for each person and surface, y grows upwards, each fixation in several frames of the world."""
    columns = ["world_timestamp", "world_index", "fixation_id", "start_timestamp", "duration", "dispersion"]
    columns += ["norm_pos_x", "norm_pos_y", "x_scaled", "y_scaled", "on_surf"]
    scaled = study.pick(1.0, None)
    frames = study.pick(1, 3)
    if frames > 1:
        study.note("fixations repeated by frame")
    for person in study.people:
        for trial in study.of(person):
            rows = []
            for f in trial.fixations:
                nx, ny = f.x / trial.picture.width, 1 - f.y / trial.picture.height
                row = {
                    "fixation_id": f.number + 40,
                    "start_timestamp": round((trial.onset + f.start) / 1000, 6),
                    "duration": float(f.duration),
                    "dispersion": 1.123,
                    "norm_pos_x": round(nx, 7),
                    "norm_pos_y": round(ny, 7),
                    "x_scaled": round(nx * (scaled or trial.picture.width), 7),
                    "y_scaled": round(ny * (scaled or trial.picture.height), 7),
                    "on_surf": True,
                }
                for k in range(frames):
                    at = trial.onset + f.start + 33 * k
                    rows.append(row | {"world_timestamp": at / 1000, "world_index": at // 33})
                if study.chance(0.05):
                    off = {"norm_pos_x": -0.42, "norm_pos_y": 1.61, "x_scaled": -0.42, "y_scaled": 1.61}
                    rows.append(row | off | {"on_surf": False, "fixation_id": f.number + 140, "world_index": 1})
            name = f"fixations_on_surface_{trial.picture.stem}.csv"
            study.write(f"{person}/exports/000/surfaces/{name}", columns, rows)
    if study.chance(0.3):
        rows = [
            {"world_index": 1, "world_timestamp": 1.5, "surface_name": p.stem, "event_type": "enter"}
            for p in study.pictures
        ]
        study.write(f"{study.people[0]}/exports/000/surfaces/surface_events.csv", list(rows[0]), rows)


# RealEye support pages, "CSV file: Fixations" (support.realeye.io/fixations-data-export): item_filename,
# participant_id, fixation_point_x and _y in percent of the displayed item.
@form("picture")
def realeye_fixations(study):
    """Fixations in percent of the item."""
    columns = ["study_id", "item_id", "item_filename", "item_cdn_url", "participant_id", "participant_external_id"]
    columns += ["participant_display_name", "participant_tags", "participant_quality_grade"]
    columns += ["participant_quality_grade_item", "test_item_display_order", "exposure_number"]
    columns += ["fixation_point_x", "fixation_point_y", "fixation_starts_at_ms", "fixation_ends_at_ms"]
    columns += ["fixation_duration_ms"]
    chance = study.random
    ids = {p: str(uuid.UUID(int=chance.getrandbits(128), version=4)) for p in study.people}
    items = {p.path: str(uuid.UUID(int=chance.getrandbits(128), version=4)) for p in study.pictures}
    rows = [
        {
            "study_id": "5b1d1f86-0b54-44b3-a7d3-b3a3b63b8a3b",
            "item_id": items[trial.picture.path],
            "item_filename": trial.picture.name,
            "item_cdn_url": f"https://cdn.example.org/{items[trial.picture.path]}.jpg",
            "participant_id": ids[trial.person],
            "participant_display_name": trial.person,
            "participant_quality_grade": 5,
            "participant_quality_grade_item": chance.randint(3, 6),
            "test_item_display_order": trial.number,
            "exposure_number": 1,
            "fixation_point_x": round(100 * f.x / trial.picture.width, 4),
            "fixation_point_y": round(100 * f.y / trial.picture.height, 4),
            "fixation_starts_at_ms": f.start,
            "fixation_ends_at_ms": f.end,
            "fixation_duration_ms": f.duration,
        }
        for trial in study.trials
        for f in trial.fixations
    ]
    study.write("fixations.csv", columns, rows, study.pick(US, Style(quoting=csv.QUOTE_ALL)))


# RealEye support pages, "CSV file: Raw gazes" (support.realeye.io/data-export-to-csv): one row for each person
# and item, test_raw_data is a JSON array of [x, y, ms, ...] on the browser's window.
@form("placed")
def realeye_raw(study):
    """Samples as JSON in a cell, on the browser's window."""
    study.facts.add("placement on the screen")
    drawn = also_samples(study, 33)
    columns = ["participant_id", "participant_age", "item_id", "item_filename", "test_id", "test_created_at"]
    columns += ["test_duration_ms", "test_browser_width_px", "test_browser_height_px"]
    columns += ["test_item_display_order", "test_raw_data"]
    rows = []
    for index, trial in enumerate(study.trials):
        raw = []
        for now, x, y, _fixation, seen in drawn[index]:
            if seen:
                gx, gy = study.on_screen(trial.picture, x, y)
                raw.append([round(gx), round(gy), now, 0, 512, 300])
        rows.append(
            {
                "participant_id": trial.person,
                "participant_age": 31,
                "item_id": f"item-{study.pictures.index(trial.picture)}",
                "item_filename": trial.picture.name,
                "test_id": f"t{index}",
                "test_created_at": "2023-05-02T10:00:00Z",
                "test_duration_ms": trial.duration,
                "test_browser_width_px": study.screen[0],
                "test_browser_height_px": study.screen[1],
                "test_item_display_order": trial.number,
                "test_raw_data": json.dumps(raw),
            }
        )
    study.write("results.csv", columns, rows)


# jsPsych, "Eye tracking" and the WebGazer extension (jspsych.org/v7/overview/eye-tracking): webgazer_data is a
# JSON array of {x, y, t} in CSS pixels of the window, webgazer_targets has the picture's rectangle.
@form("placed")
def jspsych(study):
    """A table for each person with samples as JSON, and the picture's rectangle as JSON."""
    drawn = also_samples(study, 40)
    columns = ["rt", "stimulus", "response", "trial_type", "trial_index", "time_elapsed", "internal_node_id"]
    columns += ["subject_id", "webgazer_data", "webgazer_targets"]
    target = "#jspsych-image-keyboard-response-stimulus"
    rows = {person: [{"trial_type": "preload", "trial_index": 0, "subject_id": person}] for person in study.people}
    for index, trial in enumerate(study.trials):
        left, top, wide, high = study.rects[trial.picture.path]
        data = []
        for now, x, y, _fixation, seen in drawn[index]:
            if seen:
                gx, gy = study.on_screen(trial.picture, x, y)
                data.append({"x": round(gx), "y": round(gy), "t": now})
        box = {"x": left, "y": top, "width": wide, "height": high, "top": top, "left": left}
        box |= {"right": left + wide, "bottom": top + high}
        rows[trial.person].append(
            {
                "rt": trial.duration,
                "stimulus": f"img/{trial.picture.name}",
                "response": " ",
                "trial_type": "image-keyboard-response",
                "trial_index": trial.number,
                "time_elapsed": trial.onset + trial.duration,
                "internal_node_id": f"0.0-{trial.number}.0",
                "subject_id": trial.person,
                "webgazer_data": json.dumps(data),
                "webgazer_targets": json.dumps({target: box}),
            }
        )
    if study.chance(0.5):
        study.write("jspsych-data.csv", columns, itertools.chain(*rows.values()), Style(quoting=csv.QUOTE_ALL))
    else:
        for person, own in rows.items():
            study.write(f"data/{person}.csv", columns, own, Style(quoting=csv.QUOTE_ALL))


# Gorilla support pages, "Eye tracking: metrics" (support.gorilla.sc/support/reference/eye-tracking), and webgazeR
# (repository jgeller112/webgazeR): rows of type "new_screen", "zone" and "prediction". Public scripts disagree
# on y: some take zone_y for the upper edge, others larger values of y for the upper half.
@form("placed")
def gorilla(study):
    """Samples of a webcam, whose tables give the zone of the picture; y grows downwards or upwards."""
    study.facts.add("direction of y")
    up = study.chance(0.5)
    if up:
        study.note("y upwards")
    drawn = also_samples(study, 60)
    columns = [
        "filename",
        "participant_id",
        "spreadsheet_row",
        "time_elapsed",
        "time_stamp",
        "type",
        "screen_index",
    ]
    columns += ["x_pred", "y_pred", "x_pred_normalised", "y_pred_normalised", "convergence", "face_conf"]
    columns += ["zone_name", "zone_x", "zone_y", "zone_width", "zone_height", "zone_x_normalised"]
    columns += ["zone_y_normalised", "zone_width_normalised", "zone_height_normalised", "image"]
    width, height = study.screen
    for index, trial in enumerate(study.trials):
        left, top, wide, high = study.rects[trial.picture.path]
        if up:
            top = height - top - high
        base = {
            "filename": f"eyetracking_collection_{trial.number}",
            "participant_id": trial.person,
            "spreadsheet_row": study.pictures.index(trial.picture) + 1,
            "screen_index": 1,
            "image": trial.picture.name,
        }
        rows = [base | {"type": "new_screen", "time_elapsed": 0}]
        zone = {"zone_name": "Zone1", "zone_x": left, "zone_y": top, "zone_width": wide, "zone_height": high}
        zone |= {"zone_x_normalised": round(left / width, 5), "zone_y_normalised": round(top / height, 5)}
        zone |= {
            "zone_width_normalised": round(wide / width, 5),
            "zone_height_normalised": round(high / height, 5),
        }
        rows.append(base | {"type": "zone", "time_elapsed": 0} | zone)
        for now, x, y, _fixation, seen in drawn[index]:
            if seen:
                gx, gy = study.on_screen(trial.picture, x, y)
                gy = height - gy if up else gy
                rows.append(
                    base
                    | {
                        "type": "prediction",
                        "time_elapsed": now,
                        "time_stamp": 1_600_000_000_000 + now,
                        "x_pred": round(gx, 3),
                        "y_pred": round(gy, 3),
                        "x_pred_normalised": round(gx / width, 6),
                        "y_pred_normalised": round(gy / height, 6),
                        "convergence": 8.1,
                        "face_conf": 0.99,
                    }
                )
        name = f"eyetracking-collection-{trial.person}-{trial.number}.csv"
        study.write(f"uploads/{name}", columns, rows)


# PsychoPy manual, "Units for the window and stimuli", and its data files: an origin at the centre, y upwards,
# columns of the trial handler (trials.thisN, participant, expName, psychopyVersion, frameRate).
@form("placed")
def psychopy(study):
    """Fixations in PsychoPy's units, with the picture's size where its units need one."""
    units = study.pick("pix", "norm", "height")
    width, height = study.screen
    columns = [
        "trials.thisN",
        "image",
        "fix.index",
        "fix.x",
        "fix.y",
        "fix.dur",
        "image.size",
        "image.pos",
        "units",
    ]
    columns += ["win.size", "participant", "session", "date", "expName", "psychopyVersion", "frameRate", ""]
    rows = []
    if "offset" in study.wrinkles:
        for picture in study.pictures:
            wide, high = study.rects[picture.path][2:]
            study.rects[picture.path] = ((width - wide) // 2, (height - high) // 2, wide, high)
    study.note(f"units:{units}")
    for trial in study.trials:
        wide, high = study.rects[trial.picture.path][2:]
        across, down = {"pix": (1, 1), "norm": (width / 2, height / 2), "height": (height, height)}[units]
        for f in trial.fixations:
            x, y = study.on_screen(trial.picture, f.x, f.y)
            rows.append(
                {
                    "trials.thisN": trial.number - 1,
                    "image": f"stimuli/{trial.picture.name}",
                    "fix.index": f.number,
                    "fix.x": round((x - width / 2) / across, 5),
                    "fix.y": round((height / 2 - y) / down, 5),
                    "fix.dur": f.duration / 1000,
                    "image.size": f"[{wide / across:.4f}, {high / down:.4f}]",
                    "image.pos": "[0, 0]",
                    "units": units,
                    "win.size": f"[{width}, {height}]",
                    "participant": trial.person,
                    "session": "001",
                    "date": "2021-06-01_10h12.55.123",
                    "expName": "freeview",
                    "psychopyVersion": "2021.2.3",
                    "frameRate": 59.98,
                }
            )
    if study.chance(0.5):
        for person in study.people:
            own = [row for row in rows if row["participant"] == person]
            study.write(f"data/{person}_freeview_2021-06-01_10h12.55.123.csv", columns, own)
    else:
        study.write("data/all.csv", columns, rows)


# iMotions help, "Sensor data export": lines of #METADATA before #DATA, then Row, Timestamp, EventSource,
# SlideEvent, StimType, SourceStimuliName, ET_GazeLeftx; public scripts look for "#DATA" and for -1 as lost.
@form("either")
def imotions(study):
    """A file for each respondent with metadata above, samples, and the fixation of each sample."""
    columns = ["Row", "Timestamp", "EventSource", "SlideEvent", "StimType", "Duration", "CollectionPhase"]
    columns += ["SourceStimuliName", "InputEventSource", "ET_GazeLeftx", "ET_GazeLefty", "ET_GazeRightx"]
    columns += ["ET_GazeRighty", "ET_PupilLeft", "ET_PupilRight", "Gaze X", "Gaze Y", "Fixation X", "Fixation Y"]
    columns += ["Fixation Index", "Fixation Start", "Fixation End", "Fixation Duration"]
    needs_placement(study)
    for i, person in enumerate(study.people):
        preamble = [
            "#METADATA",
            "#Study name,Billboards",
            f"#Respondent Name,{person}",
            "#Respondent Age,24",
            "#Respondent Gender,FEMALE",
            "#Recording time,Date: 02/11/21,Time: 13:20:11.812 +01:00",
            "#Export version,9.1",
            "#",
            "#DATA",
        ]
        rows, number = [], 0
        for trial in study.of(person):
            base = {"StimType": "TestImage", "SourceStimuliName": trial.picture.stem, "CollectionPhase": "Test"}
            rows.append(base | {"Timestamp": trial.onset, "SlideEvent": "StartMedia", "Duration": trial.duration})
            last = None
            for now, x, y, fixation, seen in samples(study, trial, 33):
                if fixation is not last:
                    number += fixation is not None
                    last = fixation
                gx, gy = study.on_screen(trial.picture, x, y)
                row = base | {"Timestamp": trial.onset + now, "EventSource": "ET_EyeTracker 1"}
                row |= {"ET_GazeLeftx": round(gx - 2), "ET_GazeLefty": round(gy), "ET_GazeRightx": round(gx + 2)}
                row |= {"ET_GazeRighty": round(gy), "ET_PupilLeft": 3.2, "ET_PupilRight": 3.1}
                row |= {"Gaze X": round(gx, 1), "Gaze Y": round(gy, 1)}
                if not seen:
                    row |= dict.fromkeys(("ET_GazeLeftx", "ET_GazeLefty", "ET_GazeRightx", "ET_GazeRighty"), -1)
                    row |= {"Gaze X": None, "Gaze Y": None, "ET_PupilLeft": -1, "ET_PupilRight": -1}
                if fixation:
                    fx, fy = study.on_screen(trial.picture, fixation.x, fixation.y)
                    row |= {"Fixation X": round(fx, 1), "Fixation Y": round(fy, 1), "Fixation Index": number}
                    row |= {
                        "Fixation Start": trial.onset + fixation.start,
                        "Fixation End": trial.onset + fixation.end,
                    }
                    row["Fixation Duration"] = fixation.duration
                rows.append(row)
            rows.append(base | {"Timestamp": trial.onset + trial.duration, "SlideEvent": "EndMedia"})
        for k, row in enumerate(rows):
            row["Row"] = k + 1
        study.write(
            f"{i + 1:03d}_{person}.csv", columns, rows, Style(encoding="utf-8-sig", newline="\r\n"), preamble
        )


# Smart Eye Pro manual, "Data output": FrameNumber, TimeStamp, FilteredClosestWorldIntersection.objectName and
# .objectPoint; 0 where nothing is hit. Fixation is the number of the current fixation, 0 between them.
@form("full")
def smart_eye(study):
    """Samples with the number of their fixation, zeros where the gaze is lost."""
    hit = "FilteredClosestWorldIntersection"
    columns = ["FrameNumber", "TimeStamp", "Subject", "Stimulus", "GazeDirectionQ", f"{hit}.objectName"]
    columns += [
        f"{hit}.objectPoint.x",
        f"{hit}.objectPoint.y",
        f"{hit}.objectPoint.z",
        "Fixation",
        "Saccade",
        "Blink",
    ]
    everything = {picture.path: [] for picture in study.pictures}
    rows, frame, number = [], 0, 0
    for person in study.people:
        for trial in study.of(person):
            last = None
            for now, x, y, fixation, seen in samples(study, trial, 33, 0.4):
                frame += 1
                if fixation is not last:
                    number += fixation is not None
                    last = fixation
                rows.append(
                    {
                        "FrameNumber": frame,
                        "TimeStamp": (trial.onset + now) * 10**4,
                        "Subject": person,
                        "Stimulus": trial.picture.name,
                        "GazeDirectionQ": 0.93 if seen else 0.0,
                        f"{hit}.objectName": "Screen" if seen else "",
                        f"{hit}.objectPoint.x": round(x, 2) if seen else 0.0,
                        f"{hit}.objectPoint.y": round(y, 2) if seen else 0.0,
                        f"{hit}.objectPoint.z": 0.0,
                        "Fixation": number if fixation else 0,
                        "Saccade": int(fixation is None and seen),
                        "Blink": int(not seen),
                    }
                )
                if seen and fixation:
                    everything[trial.picture.path].append((x, y, person))
    study.others.append(everything)
    study.write("smarteye.log" if study.chance(0.3) else "smarteye.txt", columns, rows, Style("\t"))


# PyTribe and PyGaze logs, as described in PyGazeAnalyser (pygazeanalyser/eyetribereader.py): timestamp, time, fix,
# state, rawx, rawy, avgx, avgy, psize, ..., and rows "MSG" with a message; 0.0 where the eyes are lost.
@form("full")
def eyetribe(study):
    """Samples with a flag for fixations, and messages that name the picture."""
    header = "timestamp\ttime\tfix\tstate\trawx\trawy\tavgx\tavgy\tpsize\tLrawx\tLrawy\tRrawx\tRrawy"
    drawn = also_samples(study, 15, 0.4)
    trials = {id(trial): drawn[i] for i, trial in enumerate(study.trials)}
    for person in study.people:
        lines = [header]
        for trial in study.of(person):
            lines.append(f"MSG\t2014-07-01 17:02:33.770\t{trial.onset}\tstart_trial {trial.picture.name}")
            for now, x, y, fixation, seen in trials[id(trial)]:
                x, y = (x, y) if seen else (0.0, 0.0)
                lines.append(
                    f"2014-07-01 17:02:{now // 1000 % 60:02d}.{now % 1000:03d}\t{trial.onset + now}\t"
                    f"{fixation is not None}\t{7 if seen else 8}\t{x:.4f}\t{y:.4f}\t{x:.4f}\t{y:.4f}\t16.8\t"
                    f"{x:.4f}\t{y:.4f}\t{x:.4f}\t{y:.4f}"
                )
            lines.append(f"MSG\t2014-07-01 17:02:33.770\t{trial.onset + trial.duration}\tstop_trial")
        study.text(f"data/{person}.tsv", "\n".join(lines) + "\n")


# OGAMA documentation and source (GazeFixations table: SubjectName, TrialID, TrialSequence, CountInTrial,
# StartTime, Length, PosX, PosY; Trials table: TrialID, TrialName).
@form("full")
def ogama(study):
    """Fixations that name the trial, and the picture in them or in a table of trials."""
    joined = study.chance(0.6)
    ids = {picture.path: i + 1 for i, picture in enumerate(study.pictures)}
    columns = [
        "ID",
        "SubjectName",
        "TrialID",
        "TrialSequence",
        "CountInTrial",
        "StartTime",
        "Length",
        "PosX",
        "PosY",
    ]
    if joined:
        columns.insert(3, "TrialName")
    rows = []
    for trial in study.trials:
        for f in trial.fixations:
            rows.append(
                {
                    "ID": len(rows) + 1,
                    "SubjectName": trial.person,
                    "TrialID": ids[trial.picture.path],
                    "TrialName": trial.picture.stem,
                    "TrialSequence": trial.number,
                    "CountInTrial": f.number - 1,
                    "StartTime": f.start,
                    "Length": f.duration,
                    "PosX": round(f.x, 2),
                    "PosY": round(f.y, 2),
                }
            )
    style = Style("\t", study.pick(".", ","), newline="\r\n")
    study.write("GazeFixations.txt", columns, rows, style)
    if not joined:
        study.note("names in a second table")
        trials = [
            {
                "SubjectName": t.person,
                "TrialID": ids[t.picture.path],
                "TrialName": t.picture.stem,
                "TrialSequence": t.number,
                "Category": "",
                "Duration": t.duration,
            }
            for t in study.trials
        ]
        study.write("Trials.txt", list(trials[0]), trials, style)


# OpenSesame manual, "Coordinates": with uniform coordinates 0,0 is the centre of the display and y grows
# downwards; loggers write subject_nr, count_trial_sequence, and the experiment's own variables.
@form("placed")
def opensesame(study):
    """Fixations from the centre of the display, y downwards, in OpenSesame's log."""
    width, height = study.screen
    study.facts.add("direction of y")
    if "offset" in study.wrinkles or "fit" in study.wrinkles or "enlarged" in study.wrinkles:
        study.facts.add("placement on the screen")
    columns = ["subject_nr", "count_trial_sequence", "picture", "width", "height", "uniform_coordinates", "fix_nr"]
    columns += ["fix_x", "fix_y", "fix_duration", "opensesame_version", "datetime"]
    if "centre" in study.wrinkles:
        named = "image=picture,x=fix_x,y=+fix_y,observer=subject_nr"
        study.settings += ["--coordinates", "center-pixels", "--columns", named]
    rows = []
    numbers = {person: i + 1 for i, person in enumerate(study.people)}
    for trial in study.trials:
        for f in trial.fixations:
            x, y = study.on_screen(trial.picture, f.x, f.y)
            rows.append(
                {
                    "subject_nr": numbers[trial.person],
                    "count_trial_sequence": trial.number - 1,
                    "picture": trial.picture.name,
                    "width": width,
                    "height": height,
                    "uniform_coordinates": "yes",
                    "fix_nr": f.number,
                    "fix_x": round(x - width / 2, 1),
                    "fix_y": round(y - height / 2, 1),
                    "fix_duration": f.duration,
                    "opensesame_version": "3.3.12",
                    "datetime": "06/21/22 14:02:11",
                }
            )
    for number in numbers.values():
        own = [row for row in rows if row["subject_nr"] == number]
        study.write(f"subject-{number}.csv", columns, own, Style(quoting=csv.QUOTE_ALL))


# pymovements documentation, "Events": a frame of events with name, onset, offset, duration and, after
# compute_event_properties("location"), location; written per subject and stimulus.
@form("picture")
def pymovements(study):
    """Events with names, and positions in one column as a list or in two."""
    split = study.chance(0.5)
    style = study.pick(US, Style("\t"))
    rows = []
    for trial in study.trials:
        base = {"subject_id": trial.person, "stimulus": trial.picture.name}
        for f in trial.fixations:
            row = base | {
                "name": study.pick("fixation"),
                "onset": f.start,
                "offset": f.end,
                "duration": f.duration,
            }
            if split:
                row |= {"location_x": round(f.x, 3), "location_y": round(f.y, 3)}
            else:
                row["location"] = f"[{f.x:.3f}, {f.y:.3f}]"
            rows.append(row | {"dispersion": 12.5})
            rows.append(base | {"name": "saccade", "onset": f.end, "offset": f.end + 30, "duration": 30})
    columns = list(rows[0])
    if study.chance(0.5):
        study.note("one table per person")
        for person in study.people:
            own = [row for row in rows if row["subject_id"] == person]
            study.write(f"events/{person}.csv", columns[1:], own, style)
    else:
        study.write("events.csv", columns, rows, style)


# BIDS 1.11, "Eye tracking": *_physioevents.tsv.gz without a header, whose columns the sidecar lists (onset,
# duration, trial_type, x_coordinate, y_coordinate), *_events.tsv with stim_file, StimulusPresentation in JSON.
@form("full")
def bids(study):
    """Folders of subjects with compressed tables without a header, and the pictures in a table of events."""
    for i, person in enumerate(study.people):
        sub = f"sub-{i + 1:02d}"
        columns = ["onset", "duration", "trial_type", "x_coordinate", "y_coordinate", "blink", "message"]
        lines, events = [], []
        for trial in study.of(person):
            events.append(
                {
                    "onset": trial.onset / 1000,
                    "duration": trial.duration / 1000,
                    "trial_type": "image",
                    "stim_file": f"images/{trial.picture.name}",
                }
            )
            for f in trial.fixations:
                at = (trial.onset + f.start) / 1000
                lines.append(f"{at}\t{f.duration / 1000}\tfixation\t{f.x:.1f}\t{f.y:.1f}\t0\tn/a")
                lines.append(f"{(trial.onset + f.end) / 1000}\t0.03\tsaccade\tn/a\tn/a\t0\tn/a")
        stem = f"{sub}/beh/{sub}_task-view"
        study.write(f"{stem}_events.tsv", list(events[0]), events, Style("\t", missing="n/a"))
        shown = {"ScreenResolution": list(study.screen), "ScreenOrigin": ["top", "left"], "ScreenDistance": 0.6}
        study.text(f"{stem}_events.json", json.dumps({"StimulusPresentation": shown}))
        sidecar = {"Columns": columns, "PhysioType": "eyetrack", "SampleCoordinateSystem": "gaze-on-screen"}
        study.text(f"{stem}_recording-eye1_physioevents.json", json.dumps(sidecar))
        target = study.folder / f"{stem}_recording-eye1_physioevents.tsv.gz"
        with gzip.open(target, "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    study.text("dataset_description.json", json.dumps({"Name": "views", "BIDSVersion": "1.11.0"}))


# COCO-Search18 (repository cvlab-stonybrook/Scanpath_Prediction): one JSON list of scanpaths with name, subject,
# X, Y, T, length.
@form("picture")
def coco_search(study):
    """Scanpaths in JSON, one for each view."""
    paths = [
        {
            "name": trial.picture.name,
            "subject": study.people.index(trial.person) + 1,
            "task": "free",
            "condition": "present",
            "X": [round(f.x, 2) for f in trial.fixations],
            "Y": [round(f.y, 2) for f in trial.fixations],
            "T": [f.duration for f in trial.fixations],
            "length": len(trial.fixations),
            "split": "train",
        }
        for trial in study.trials
    ]
    study.text("fixations.json", json.dumps(paths))


# SALICON's API (repository NUS-VIP/salicon-api, annotations in the manner of COCO): "images" with file_name and
# size, "annotations" with image_id, worker_id and fixations as [row, column] from 1.
@form("picture")
def salicon_json(study):
    """Annotations in JSON, rows before columns and from 1."""
    ids = {picture.path: 100 + i for i, picture in enumerate(study.pictures)}
    images = [
        {"id": ids[p.path], "file_name": p.name, "width": p.width, "height": p.height} for p in study.pictures
    ]
    annotations = [
        {
            "id": i,
            "image_id": ids[trial.picture.path],
            "worker_id": trial.person,
            "fixations": [[int(f.y) + 1, int(f.x) + 1] for f in trial.fixations],
        }
        for i, trial in enumerate(study.trials)
    ]
    study.text("fixations_train.json", json.dumps({"images": images, "annotations": annotations}))


# MATLAB .mat files as CAT2000, MIT1003 and OSIE ship them: a matrix or a cell of (x, y) for each picture.
@form("picture")
def mat_files(study):
    """A .mat file for each picture with a matrix of x, y and the person's number."""
    numbers = {person: i + 1 for i, person in enumerate(study.people)}
    for picture in study.pictures:
        matrix = [
            [f.x, f.y, numbers[trial.person]]
            for trial in study.trials
            if trial.picture is picture
            for f in trial.fixations
        ]
        target = study.folder / "fixations" / f"{picture.stem}.mat"
        target.parent.mkdir(exist_ok=True)
        io_matlab.savemat(target, {"fixations": np.array(matrix)})


# Reports without positions: EyeLink Data Viewer's interest area report, and RealEye's "AOI overall stats"
# (support.realeye.io/aoi-overall-stats-csv), whose aoi_item_parts have corners of areas.
@form("picture")
def areas_only(study):
    """Tables of areas of interest, which have positions of areas and none of fixations."""
    study.facts.add("positions")
    kind = study.pick("interest areas", "aoi stats", "corners")
    study.note(kind)
    rows = []
    for trial in study.trials:
        for area in ("face", "text"):
            row = {"participant": trial.person, "item_filename": trial.picture.name, "AOI": area}
            if kind == "interest areas":
                row |= {"IA_DWELL_TIME": 510, "IA_FIXATION_COUNT": 2, "IA_FIRST_FIXATION_TIME": 220}
            elif kind == "aoi stats":
                row |= {
                    "aoi_item_parts": '{"areaPoints": {"topLeft": {"xPx": 10, "yPx": 20}}}',
                    "aoi_fixation_total_count": 3,
                }
            else:
                row |= {"x": 40, "y": 60, "width": 120, "height": 80, "dwell_time_ms": 510}
            rows.append(row)
    study.points = {path: [] for path in study.points}
    study.write("areas.csv", list(rows[0]), rows)


# PolyCAT (huggingface.co/datasets/laBran/PolyCAT, data/scanpaths/P01/P01_A_b01_t32.csv): a file for each trial
# with the fixations of both eyes one after another; a table elsewhere says which picture a trial showed.
@form("picture")
def polycat(study):
    """A file for each trial, both eyes in it, and a table that says which picture a trial showed."""
    study.note("both eyes in rows")
    study.note("names in a second table")
    listed = []
    for trial in study.trials:
        rows = []
        for eye, shift in (("L", 0.0), ("R", 0.9)):
            rows += [
                {
                    "fixation_index": f.number,
                    "eye": eye,
                    "start_time_ms": float(f.start),
                    "end_time_ms": float(f.end),
                    "duration_ms": float(f.duration),
                    "x_px": round(f.x + shift, 1),
                    "y_px": round(f.y, 1),
                }
                for f in trial.fixations
            ]
        name = f"{trial.person}_A_b01_t{trial.number:02d}"
        study.write(f"scanpaths/{trial.person}/{name}.csv", list(rows[0]), rows)
        listed.append(
            {
                "participant": trial.person,
                "trial": trial.number,
                "file": f"{name}.csv",
                "image": trial.picture.name,
            }
        )
    study.write("trials.csv", list(listed[0]), listed)


# R's write.csv and make.names (R manuals, ?write.table, ?make.names): row names in a column without a name, dots
# for blanks and brackets, "NA", quotes; names of columns from BeGaze read with read.csv.
@form("picture")
def r_data_frame(study):
    """A data frame as R writes it."""
    said = name_pictures(study, ("name", "stem"))
    rows = []
    for trial in study.trials:
        for f in trial.fixations:
            rows.append(
                {
                    "": str(len(rows) + 1),
                    "Stimulus": said[trial.picture.path],
                    "Participant": trial.person,
                    "Trial": trial.number,
                    "Category": "Fixation",
                    "Event.Start.Trial.Time..ms.": float(f.start),
                    "Event.Duration..ms.": float(f.duration),
                    "Fixation.Position.X..px.": round(f.x, 2),
                    "Fixation.Position.Y..px.": round(f.y, 2),
                    "AOI.Name": None,
                }
            )
    style = study.pick(
        Style(missing="NA", quoting=csv.QUOTE_NONNUMERIC), Style(";", ",", missing="NA", quoting=csv.QUOTE_MINIMAL)
    )
    columns = list(rows[0])
    if style.separator == ",":
        rows = [row | {"": row[""]} for row in rows]
    study.write("fix.csv", columns, rows, style)


# MATLAB documentation, dlmwrite and csvwrite: numbers without a header, one file for each person and picture;
# the folders of several public sets of free viewing (a folder for each observer, a file for each picture).
@form("picture")
def matlab_files(study):
    """Numbers without a header in a file for each view; the path says who and what."""
    separator = study.pick(",", "\t", " ", "  ")
    layout = study.pick("person/picture", "picture/person", "person_picture")
    order = study.pick("xyd", "xy", "nxyd", "xyse")
    study.note(f"no header:{order}")
    for trial in study.trials:
        lines = []
        for f in trial.fixations:
            cells = {"x": f"{f.x:.2f}", "y": f"{f.y:.2f}", "d": str(f.duration), "n": str(f.number)}
            cells |= {"s": str(f.start), "e": str(f.end)}
            lines.append(separator.join(cells[c] for c in order))
        path = {
            "person/picture": f"data/{trial.person}/{trial.picture.stem}.txt",
            "picture/person": f"data/{trial.picture.stem}/{trial.person}.txt",
            "person_picture": f"data/{trial.person}_{trial.picture.stem}.txt",
        }[layout]
        study.text(path, "\n".join(lines) + "\n")


# MATLAB documentation, writetable: a header of variable names, NaN for what is missing, codes for events.
@form("picture")
def matlab_table(study):
    """A table with codes for events, NaN, and fixations as one of the codes."""
    rows = []
    for trial in study.trials:
        base = {
            "subjID": study.people.index(trial.person) + 1,
            "imgName": trial.picture.name,
            "trialNum": trial.number,
        }
        for f in trial.fixations:
            event = base | {
                "evtType": 1,
                "tStart": f.start,
                "tEnd": f.end,
                "xPos": round(f.x, 1),
                "yPos": round(f.y, 1),
            }
            rows.append(event)
            rows.append(event | {"evtType": 2, "tStart": f.end, "tEnd": f.end + 30, "xPos": "NaN", "yPos": "NaN"})
            if study.chance(0.1):
                rows.append(
                    event | {"evtType": 3, "tStart": f.end, "tEnd": f.end + 90, "xPos": "NaN", "yPos": "NaN"}
                )
    study.note("events as codes")
    study.write("allFix.csv", list(rows[0]), rows)


# A habit of spreadsheets and of scripts that save scanpaths: one row for each view, positions in numbered columns
# or as a list in a cell (as webgazer_targets above, and the X and Y lists of COCO-Search18 read into a table).
@form("picture")
def wide(study):
    """One row for each view."""
    lists = study.chance(0.5)
    most = max(len(trial.fixations) for trial in study.trials)
    rows = []
    for trial in study.trials:
        row = {"participant": trial.person, "image": trial.picture.name}
        if lists:
            row["x"] = json.dumps([round(f.x, 1) for f in trial.fixations])
            row["y"] = json.dumps([round(f.y, 1) for f in trial.fixations])
            row["durations"] = json.dumps([f.duration for f in trial.fixations])
        else:
            for f in trial.fixations:
                row |= {f"x{f.number}": round(f.x, 1), f"y{f.number}": round(f.y, 1), f"d{f.number}": f.duration}
        rows.append(row)
    columns = ["participant", "image"]
    columns += ["x", "y", "durations"] if lists else [f"{c}{i + 1}" for i in range(most) for c in "xyd"]
    study.note("lists" if lists else "numbered columns")
    study.write("scanpaths.csv", columns, rows)


# tidyr's pivot_longer (R package tidyr, "Pivoting"): a row for each coordinate.
@form("picture")
def melted(study):
    """Two rows for each fixation: its x and its y in one column of values."""
    rows = []
    for trial in study.trials:
        for f in trial.fixations:
            base = {"participant": trial.person, "image": trial.picture.name}
            base |= {"fixation": f.number, "duration": f.duration}
            rows += [base | {"axis": "x", "value": round(f.x, 1)}, base | {"axis": "y", "value": round(f.y, 1)}]
    study.write("fixations_long.csv", list(rows[0]), rows, study.pick(*STYLES[:3]))


# Tables without the picture beside a log of an experiment (PsychoPy's and Presentation's logs of onsets): a
# fixation's time tells the picture, as in scripts that merge a tracker's messages with fixations.
@form("picture")
def log_of_onsets(study):
    """Fixations with times of the session, and a log of when which picture was on."""
    study.note("names in a second table")
    unit = study.pick(1, 1000)
    rows, log = [], []
    for trial in study.trials:
        log.append(
            {
                "participant": trial.person,
                "onset": trial.onset / unit if unit > 1 else trial.onset,
                "offset": (trial.onset + trial.duration) / unit if unit > 1 else trial.onset + trial.duration,
                "image": trial.picture.name,
            }
        )
        for f in trial.fixations:
            start = trial.onset + f.start
            rows.append(
                {
                    "participant": trial.person,
                    "start": start / unit if unit > 1 else start,
                    "duration": f.duration / unit if unit > 1 else f.duration,
                    "x": round(f.x, 1),
                    "y": round(f.y, 1),
                }
            )
    study.write("fixations.csv", list(rows[0]), rows)
    study.write("log.csv", list(log[0]), log)


# Inquisit's eyetracker data file (millisecond.com, "columns attribute of eyetracker"): date, subject, marker,
# focusFixationPixelX on the screen, hasFocusFixation, validity 0 to 4; the marker is what the script sent.
@form("full")
def inquisit(study):
    """Samples with the position of the current fixation and a marker with the picture."""
    columns = ["date", "time", "group", "subject", "session", "timestamp", "marker", "focusPixelX", "focusPixelY"]
    columns += ["hasFocusFixation", "focusFixationPixelX", "focusFixationPixelY", "leftValidity", "rightValidity"]
    rows = []
    for trial in study.trials:
        base = {"date": "051222", "time": "10:31", "group": 1, "subject": trial.person, "session": 1}
        for now, x, y, fixation, seen in samples(study, trial, 33):
            row = base | {"timestamp": (trial.onset + now) * 1000, "marker": trial.picture.name}
            row |= {"focusPixelX": round(x) if seen else -1, "focusPixelY": round(y) if seen else -1}
            row |= {"hasFocusFixation": int(fixation is not None)}
            row["focusFixationPixelX"] = round(fixation.x) if fixation else -1
            row["focusFixationPixelY"] = round(fixation.y) if fixation else -1
            rows.append(row | dict.fromkeys(("leftValidity", "rightValidity"), 0 if seen else 4))
    study.write("eyetracker.iqdat", columns, rows, Style("\t"))


# Habit of analyses in R and Python: the export, and beside it what a script has made of it, with other names and
# fewer columns (the CURRENT_FIX_X to FixX renamings of public scripts), or one table put together from all.
@form("full", weight=2)
def export_and_derived(study):
    """The same fixations twice: as exported, and as a script has written them again."""
    exported, derived = [], []
    for trial in study.trials:
        for f in trial.fixations:
            exported.append(
                {
                    "RECORDING_SESSION_LABEL": trial.person,
                    "TRIAL_INDEX": trial.number,
                    "CURRENT_FIX_INDEX": f.number,
                    "CURRENT_FIX_START": f.start,
                    "CURRENT_FIX_DURATION": f.duration,
                    "CURRENT_FIX_X": round(f.x, 1),
                    "CURRENT_FIX_Y": round(f.y, 1),
                    "image": trial.picture.name,
                }
            )
            derived.append(
                {
                    "SubjectID": trial.person,
                    "StimuliID": trial.picture.stem,
                    "FixX": round(f.x),
                    "FixY": round(f.y),
                    "FixD": f.duration,
                }
            )
    kind = study.pick("cleaned", "merged", "summary")
    study.note(kind)
    columns, style = list(exported[0]), Style("\t", missing=".")
    if kind == "merged":
        for person in study.people:
            own = [row for row in exported if row["RECORDING_SESSION_LABEL"] == person]
            study.write(f"reports/{person}.txt", columns, own, style)
        study.write("all_subjects.csv", columns, exported)
        return
    study.write("fixation_report.txt", columns, exported, style)
    if kind == "cleaned":
        study.write(study.pick("cleaned.csv", "data_for_R.csv", "fix_clean.csv"), list(derived[0]), derived)
        return
    means = []
    for picture in study.pictures:
        seen = [f for trial in study.trials if trial.picture is picture for f in trial.fixations]
        row = {"image": picture.name, "n_fix": len(seen), "mean_x": round(sum(f.x for f in seen) / len(seen), 1)}
        means.append(row | {"mean_y": round(sum(f.y for f in seen) / len(seen), 1), "mean_dur": 240.5})
    study.write("summary_by_image.csv", list(means[0]), means)


# E-Prime extensions for Tobii, User's Manual: the .gazedata file with TETTime, RTTime, CursorX, TimestampSec,
# XGazePosLeftEye, ValidityLeftEye (0 to 4) and the script's own columns such as TrialId.
@form("full")
def eprime_gazedata(study):
    """Samples of both eyes on the screen, -1 where they are lost, and the picture in a column of the script."""
    columns = ["Subject", "Session", "ID", "TETTime", "RTTime", "CursorX", "CursorY", "TimestampSec"]
    columns += [
        "TimestampMicrosec",
        "XGazePosLeftEye",
        "YGazePosLeftEye",
        "XCameraPosLeftEye",
        "YCameraPosLeftEye",
    ]
    columns += [
        "DiameterPupilLeftEye",
        "DistanceLeftEye",
        "ValidityLeftEye",
        "XGazePosRightEye",
        "YGazePosRightEye",
    ]
    columns += ["DiameterPupilRightEye", "ValidityRightEye", "TrialId", "ImageFile", "CurrentObject"]
    drawn = also_samples(study, 25, 0.4)
    rows = {person: [] for person in study.people}
    for index, trial in enumerate(study.trials):
        for now, x, y, _fixation, seen in drawn[index]:
            at = trial.onset + now
            own = rows[trial.person]
            row = {"Subject": trial.person, "Session": 1, "ID": len(own) + 1, "TETTime": at, "RTTime": at + 12}
            row |= {"CursorX": round(x) if seen else -1, "CursorY": round(y) if seen else -1}
            row |= {"TimestampSec": at // 1000, "TimestampMicrosec": at % 1000 * 1000}
            left, right, high = (round(x - 0.3, 2), round(x + 0.3, 2), round(y, 2)) if seen else (-1.0, -1.0, -1.0)
            row |= {"XGazePosLeftEye": left, "YGazePosLeftEye": high}
            row |= {"XGazePosRightEye": right, "YGazePosRightEye": high}
            row |= {"XCameraPosLeftEye": 0.42, "YCameraPosLeftEye": 0.51, "DiameterPupilLeftEye": 3.1}
            row |= {"DistanceLeftEye": 612.0, "DiameterPupilRightEye": 3.2}
            row |= dict.fromkeys(("ValidityLeftEye", "ValidityRightEye"), 0 if seen else 4)
            own.append(
                row | {"TrialId": trial.number, "ImageFile": trial.picture.name, "CurrentObject": "Stimulus"}
            )
    for i, person in enumerate(study.people):
        study.write(f"Scenes-{i + 1}-1.gazedata", columns, rows[person], Style("\t", newline="\r\n"))
    if study.chance(0.5):
        for i, person in enumerate(study.people):
            (study.folder / f"Scenes-{i + 1}-1.gazedata").rename(study.folder / f"{person}.txt")


# ECMA-376, SpreadsheetML: a workbook as Excel or openpyxl would save it. Public copies of BeGaze exports are
# often kept as .xlsx (Participant, Fixation Position X [px], AOI Name).
@form("picture")
def workbook(study):
    """The table as a workbook, perhaps with a sheet of notes before it, perhaps beside a table as text."""
    rows = [
        ["Participant", "Stimulus", "Index", "Fixation Position X [px]", "Fixation Position Y [px]", "Duration"]
    ]
    for trial in study.trials:
        for f in trial.fixations:
            rows.append([trial.person, trial.picture.name, f.number, round(f.x, 1), round(f.y, 1), f.duration])
    kind = study.pick("only", "notes first", "beside", "other beside")
    study.note(f"workbook:{kind}")
    if kind != "other beside":
        sheets = {"Data": rows}
        if kind == "notes first":
            sheets = {"Notes": [["Study of scenes"], ["see the second sheet"]], "Data": rows}
        write_workbook(study.folder / "fixations.xlsx", sheets)
    else:
        write_workbook(
            study.folder / "demographics.xlsx", {"Sheet1": [["id", "age"], *[[p, 30] for p in study.people]]}
        )
    if "beside" in kind:
        dicts = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        study.write("fixations.csv", rows[0], dicts, study.pick(US, Style(";", ",")))


def write_workbook(path, sheets):
    """Write a small .xlsx file with inline strings: the rows of each sheet by its name."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    with zipfile.ZipFile(path, "w") as archive:
        overrides = "".join(
            f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{types}worksheet+xml"/>'
            for i in range(1, len(sheets) + 1)
        )
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
            f'"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
            f'ContentType="{types}sheet.main+xml"/>{overrides}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        listed = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"/>' for i, name in enumerate(sheets, 1))
        archive.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>'
        )
        related = "".join(
            f'<Relationship Id="rId{i}" Type="{office}/worksheet" Target="worksheets/sheet{i}.xml"/>'
            for i in range(1, len(sheets) + 1)
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{related}</Relationships>',
        )
        for i, rows in enumerate(sheets.values(), 1):
            written = []
            for r, row in enumerate(rows, 1):
                cells = []
                for c, value in enumerate(row):
                    at = f"{chr(65 + c)}{r}"
                    if isinstance(value, str):
                        cells.append(f'<c r="{at}" t="inlineStr"><is><t>{value}</t></is></c>')
                    else:
                        cells.append(f'<c r="{at}"><v>{value}</v></c>')
                written.append(f'<row r="{r}">{"".join(cells)}</row>')
            archive.writestr(
                f"xl/worksheets/sheet{i}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{"".join(written)}</sheetData></worksheet>',
            )


# Titta (repository marcus-nystrom/Titta) writes the Tobii SDK's left_gaze_point_on_display_area_x, in fractions
# of the display, with 1 as valid, beside fixations from a detector such as I2MC (xpos, ypos, startT, endT).
@form("aspect")
def titta(study):
    """Samples of both eyes in fractions, with the picture's name, and a table of fixations of a detector."""
    study.note("samples beside")
    rows = []
    for trial in study.trials:
        for f in trial.fixations:
            x, y = study.on_screen(trial.picture, f.x, f.y)
            rows.append(
                {
                    "cutoff": 0.12,
                    "startT": f.start,
                    "endT": f.end,
                    "dur": f.duration,
                    "xpos": round(x, 2),
                    "ypos": round(y, 2),
                    "flankdataloss": False,
                    "fracinterped": 0.0,
                    "participant": trial.person,
                    "trial": trial.picture.name,
                }
            )
    study.facts.add("size of the screen")
    tell_placement(study)
    if study.chance(0.5):
        fractions = []
        for trial in study.trials:
            for now, x, y, _fixation, seen in samples(study, trial, 40):
                fx, fy = x / trial.picture.width, y / trial.picture.height
                fractions.append(
                    {
                        "system_time_stamp": (trial.onset + now) * 1000,
                        "left_gaze_point_on_display_area_x": round(fx, 6) if seen else "nan",
                        "left_gaze_point_on_display_area_y": round(fy, 6) if seen else "nan",
                        "left_gaze_point_validity": int(seen),
                        "right_gaze_point_on_display_area_x": round(fx + 0.001, 6) if seen else "nan",
                        "right_gaze_point_on_display_area_y": round(fy, 6) if seen else "nan",
                        "right_gaze_point_validity": int(seen),
                        "participant": trial.person,
                        "stimulus": trial.picture.name,
                    }
                )
        study.write("gaze.tsv", list(fractions[0]), fractions, Style("\t"))
    study.write("allfixations.txt", list(rows[0]), rows, Style("\t"))


# Psychtoolbox and lab scripts: tables of a lab's own, as in the many scripts that rename columns of exports to
# x, y, t, media_name, participant_id (for example the import scripts of ManyBabies' eye-tracking project).


IMAGE = [
    "image",
    "Bild",
    "imagen",
    "图片",
    "stimulus_name",
    "scene",
    "stimulus",
    "img",
    "picture",
    "filename",
    "image_name",
    "media_name",
    "Stimulus",
    "imageFile",
    "file",
    "stim",
]
PERSON = [
    "participant",
    "Vpn",
    "sujeto",
    "被试",
    "participant_code",
    "reader",
    "subject",
    "subj",
    "participant_id",
    "observer",
    "pid",
    "VP",
    "ID",
    "user",
    "sub",
    "Participant",
]
POSITIONS = [("x", "y"), ("X", "Y"), ("fix_x", "fix_y"), ("gaze_x", "gaze_y"), ("xpos", "ypos"), ("FixX", "FixY")]
POSITIONS += [
    ("posX", "posY"),
    ("x_px", "y_px"),
    ("mean_x", "mean_y"),
    ("avg_x", "avg_y"),
    ("xp", "yp"),
    ("x", "y"),
]
POSITIONS += [("X [px]", "Y [px]"), ("Fixation X (px)", "Fixation Y (px)"), ("gazeX", "gazeY"), ("cx", "cy")]
POSITIONS += [("fixation_x", "fixation_y"), ("CoordX", "CoordY"), ("x_coord", "y_coord"), ("PosX", "PosY")]
START = ["start", "onset", "t", "time", "start_ms", "FixStart", "timestamp", "tStart"]
DURATION = ["duration", "dur", "duration_ms", "FixD", "fix_duration", "Dauer", "length_ms"]
NUMBER = ["fixation", "index", "fix_nr", "FixationIndex", "n", "order", "fix_id"]


@form("picture", weight=16)
def own_table(study):
    """A table of a lab's own, with a few difficulties."""
    chance = study.random
    roles = {
        "image": chance.choice(IMAGE),
        "person": chance.choice(PERSON),
        "start": chance.choice(START),
        "duration": chance.choice(DURATION),
        "number": chance.choice(NUMBER),
    }
    roles["x"], roles["y"] = chance.choice(POSITIONS)
    columns = [roles[role] for role in ("person", "image", "number", "start", "duration", "x", "y")]
    said = name_pictures(study)
    rows = lab_rows(study, roles, said)
    if all(person.isdecimal() for person in study.people) and study.chance(0.3):
        study.note("people as decimals")
        for row in rows:
            row[roles["person"]] = f"{row[roles['person']]}.0"
    for change in (units, times, events, validity, eyes, areas, others_pictures, columns_beside, blanks, damage):
        columns, rows = change(study, roles, columns, rows)
    if study.chance(0.2):
        chance.shuffle(columns)
        study.note("columns shuffled")
    if study.chance(0.06):
        withhold(study)
    style = chance.choice(STYLES)
    latin = all(str(row.get(roles["image"], "")).isascii() for row in rows)
    if style.encoding == "cp1252" and not latin:
        style = STYLES[4]
    layout(study, roles, columns, rows, style, said)


def withhold(study):
    """Leave out a picture that may not be passed on, whose rows stay in the tables."""
    study.note("picture withheld")
    study.facts.add("a picture")
    gone = study.random.choice(study.pictures)
    (study.folder / gone.path).unlink()
    for points in (study.points, *study.others):
        del points[gone.path]


def lab_rows(study, roles, said):
    """A row for each fixation; the keys `trial` and `fix` stay with the row, and are no columns."""
    return [
        {
            roles["person"]: trial.person,
            roles["image"]: said[trial.picture.path],
            roles["number"]: f.number,
            roles["start"]: trial.onset + f.start,
            roles["duration"]: f.duration,
            roles["x"]: f.x,
            roles["y"]: f.y,
            "trial": trial,
            "fix": f,
        }
        for trial in study.trials
        for f in trial.fixations
    ]


def units(study, roles, columns, rows):
    """Positions in some unit, from some origin."""
    unit = study.pick(
        "float",
        "float",
        "float",
        "integer",
        "integer",
        "fraction",
        "fraction",
        "percent",
        "center",
        "up",
        "norm",
        "height",
        "degrees",
        "one",
        "css",
        "shown",
        "screen",
        "screen columns",
        "row column",
    )
    if unit not in ("float", "integer"):
        study.note(f"unit:{unit}")
    x, y = roles["x"], roles["y"]
    if "px" in x and unit in ("fraction", "percent", "norm", "height"):
        roles |= {"x": "x", "y": "y"}
    if unit == "row column":
        roles |= {"x": "col", "y": "row"}
        columns = [{x: "row", y: "col"}.get(column, column) for column in columns]
    elif unit in ("center", "up"):
        study.facts.add("direction of y")
        way, unit_name = ("-", "pixels") if unit == "up" else ("+", "center-pixels")
        named = f"image={roles['image']},x={x},y={way}{y},observer={roles['person']}"
        study.settings += ["--coordinates", unit_name, "--columns", named]
    elif unit == "degrees":
        study.facts.add("pixels per degree")
        study.settings += ["--coordinates", "degrees", "--pixels-per-degree", "36"]
        roles |= {"x": "x_deg", "y": "y_deg"}
    elif unit in ("norm", "height"):
        study.facts.add("direction of y")
        study.settings += ["--coordinates", f"center-{unit}"]
    elif unit == "percent" and study.chance(0.5):
        roles |= {"x": "x_percent", "y": "y_percent"}
    elif unit == "fraction" and study.chance(0.4):
        roles |= {"x": "x_norm", "y": "y_norm"}
    columns = [{x: roles["x"], y: roles["y"]}.get(column, column) for column in columns]
    added, factor, dpr = [], study.pick(0.5, 0.75, 1.5, 2.0), study.pick(1.25, 1.5, 2.0)
    if unit == "css":
        added = [study.pick("devicePixelRatio", "dpr", "pixel_ratio")]
        study.facts.add("scale of the page")
    elif unit == "shown":
        added = list(study.pick(("shown_width", "shown_height"), ("image_w", "image_h"), ("disp_w", "disp_h")))
    elif unit == "screen columns":
        added = list(study.pick(("img_left", "img_top"), ("image_x0", "image_y0"), ("offset_x", "offset_y")))
        added += ["img_width", "img_height"]
    elif unit == "screen":
        study.facts.add("placement on the screen")
    shift = study.random.randint(40, 300), study.random.randint(30, 150)
    for row in rows:
        picture, f = row["trial"].picture, row["fix"]
        w, h = picture.width, picture.height
        px, py = {
            "integer": (round(f.x), round(f.y)),
            "fraction": (round(f.x / w, 5), round(f.y / h, 5)),
            "percent": (round(100 * f.x / w, 3), round(100 * f.y / h, 3)),
            "center": (round(f.x - w / 2, 1), round(f.y - h / 2, 1)),
            "up": (round(f.x, 1), round(h - f.y, 1)),
            "norm": (round(2 * f.x / w - 1, 5), round(1 - 2 * f.y / h, 5)),
            "height": (round((f.x - w / 2) / h, 5), round((h / 2 - f.y) / h, 5)),
            "degrees": (round((f.x - w / 2) / 36, 4), round((f.y - h / 2) / 36, 4)),
            "one": (int(f.x) + 1, int(f.y) + 1),
            "css": (round(f.x / dpr, 2), round(f.y / dpr, 2)),
            "shown": (round(f.x * factor, 2), round(f.y * factor, 2)),
            "screen": (round(f.x * factor + shift[0], 1), round(f.y * factor + shift[1], 1)),
            "screen columns": (round(f.x * factor + shift[0], 1), round(f.y * factor + shift[1], 1)),
        }.get(unit, (round(f.x, 1), round(f.y, 1)))
        del row[x], row[y]
        row |= {roles["x"]: px, roles["y"]: py}
        if unit == "css":
            row[added[0]] = dpr
        elif unit == "shown":
            row |= {added[0]: round(w * factor), added[1]: round(h * factor)}
        elif unit == "screen columns":
            row |= dict(zip(added, (*shift, round(w * factor), round(h * factor)), strict=True))
    return columns + added, rows


def times(study, roles, columns, rows):
    """Times in seconds, milliseconds or microseconds, of the trial, the session or the computer."""
    unit = study.pick("ms", "ms", "s", "us", "trial", "epoch", "none")
    start, duration = roles["start"], roles["duration"]
    for row in rows:
        if unit == "s":
            row |= {start: row[start] / 1000, duration: row[duration] / 1000}
        elif unit == "us":
            row |= {start: row[start] * 1000, duration: row[duration] * 1000}
        elif unit == "trial":
            row[start] = row["fix"].start
        elif unit == "epoch":
            row[start] = 1_600_000_000_000 + row[start]
    if unit == "none":
        columns = [column for column in columns if column not in (start, duration)]
    return columns, rows


def events(study, roles, columns, rows):
    """Rows of saccades and blinks between the fixations, told apart by a word or a code."""
    if not study.chance(0.2):
        return columns, rows
    words = study.pick(
        ("fixation", "saccade", "blink"),
        ("FIX", "SACC", "BLINK"),
        ("F", "S", "B"),
        (1, 2, 3),
        (0, 1, 2),
        ("Fixation", "Saccade", "Blink"),
        ("Fixation", "Sakkade", "Lidschlag"),
        ("EFIX", "ESACC", "EBLINK"),
    )
    if isinstance(words[0], int):
        study.note("events as codes")
        if words[0] == 0 or roles["duration"] not in columns:
            study.facts.add("meaning of the codes")
    study.note("saccades beside")
    column = study.pick("event", "type", "event_type", "eventType", "category", "movement")
    mixed = []
    for row, following in itertools.pairwise([*rows, None]):
        mixed.append(row | {column: words[0]})
        if following and following["trial"] is row["trial"]:
            between = {roles["duration"]: 0.03 if isinstance(row[roles["duration"]], float) else 30}
            mixed.append(following | between | {column: words[1], roles["number"]: row[roles["number"]]})
            if study.chance(0.08):
                mixed.append(row | between | {column: words[2], roles["x"]: None, roles["y"]: None})
    return [*columns, column], mixed


def validity(study, roles, columns, rows):
    """A flag of either polarity, with invalid rows, or codes of lost gaze among the rows."""
    if study.chance(0.2):
        column, good, bad = study.pick(
            ("valid", 1, 0),
            ("valid", True, False),
            ("validity", 0, 4),
            ("Validity", "Valid", "Invalid"),
            ("missing", 0, 1),
            ("is_valid", "yes", "no"),
            ("exclude", 0, 1),
            ("bad", "n", "y"),
            ("outlier", False, True),
            ("lost", 0, 1),
            ("quality_ok", 1, 0),
            ("error", 0, 1),
            ("confidence", 0.98, 0.0),
        )
        study.note(f"flag:{column}")
        flagged = []
        for row in rows:
            flagged.append(row | {column: good})
            if study.chance(0.05):
                x, y = row[roles["x"]], row[roles["y"]]
                far = (
                    {roles["x"]: y, roles["y"]: x}
                    if isinstance(x, int | float) and isinstance(y, int | float)
                    else {}
                )
                flagged.append(row | far | {column: bad})
        return [*columns, column], flagged
    if study.chance(0.2):
        lost = study.pick(
            (None, None),
            (-1, -1),
            (0, 0),
            ("NaN", "NaN"),
            (-32768, -32768),
            (".", "."),
            ("NA", "NA"),
            (100000000, 100000000),
            (-9999, -9999),
        )
        study.note(f"lost:{lost[0]}")
        centred = ("unit:center", "unit:norm", "unit:height", "unit:degrees", "unit:screen", "unit:screen columns")
        if isinstance(lost[0], int) and any(wrinkle in centred for wrinkle in study.wrinkles):
            study.facts.add("code of lost gaze")
        mixed = []
        for row in rows:
            mixed.append(row)
            if study.chance(0.04):
                mixed.append(row | {roles["x"]: lost[0], roles["y"]: lost[1]})
        return columns, mixed
    return columns, rows


def eyes(study, roles, columns, rows):
    """Both eyes: in columns, or in rows that repeat each fixation."""
    x, y = roles["x"], roles["y"]
    step = 0.0005 if any(u in study.wrinkles for u in ("unit:fraction", "unit:norm", "unit:height")) else 0.4
    if "unit:degrees" in study.wrinkles:
        step = 0.01
    if study.chance(0.1):
        study.note("both eyes in columns")
        if "--columns" in study.settings:
            study.settings.clear()
        pattern = study.pick(("left_{}", "right_{}"), ("{}_left", "{}_right"), ("L_{}", "R_{}"), ("{}L", "{}R"))
        lost = study.pick(None, -1, "NaN", 0) if study.chance(0.5) else ...
        if lost in (0, -1) and any(wrinkle.startswith("unit:") for wrinkle in study.wrinkles):
            study.facts.add("code of lost gaze")
        names = [p.format(c) for p in pattern for c in (x, y)]
        for row in rows:
            px, py = row[x], row[y]
            if isinstance(px, int | float) and px is not None:
                row |= {names[0]: round(px - step, 5), names[1]: py, names[2]: round(px + step, 5), names[3]: py}
            else:
                row |= dict.fromkeys(names, px)
            if lost is not ... and study.chance(0.05):
                row |= {names[2]: lost, names[3]: lost}
        position = columns.index(x)
        columns = [c for c in columns if c not in (x, y)]
        roles |= {"x": names[0], "y": names[1]}
        return columns[:position] + names + columns[position:], rows
    if study.chance(0.1):
        study.note("both eyes in rows")
        column, codes = study.pick(
            ("eye", ("L", "R")), ("eye", ("left", "right")), ("Eye", (0, 1)), ("eye_tracked", ("LEFT", "RIGHT"))
        )
        doubled = []
        for row in rows:
            other = row[x] + step if isinstance(row[x], int | float) else row[x]
            if isinstance(row[x], float):
                other = round(other, 5)
            elif isinstance(row[x], int):
                other = row[x]
            doubled += [row | {column: codes[0]}, row | {column: codes[1], x: other}]
        return [*columns, column], doubled
    return columns, rows


def areas(study, roles, columns, rows):
    """Areas of interest that repeat the fixations they share."""
    if not study.chance(0.1):
        return columns, rows
    study.note("areas repeat fixations")
    column = study.pick("aoi", "AOI", "roi", "interest_area")
    repeated = []
    for row in rows:
        repeated.append(row | {column: study.pick("face", "text", "background")})
        if study.chance(0.2):
            repeated.append(row | {column: "whole"})
    return [*columns, column], repeated


def others_pictures(study, roles, columns, rows):
    """Practice pictures, fixation crosses, blank screens and films in the column of pictures."""
    if not study.chance(0.2):
        return columns, rows
    names = study.pick(
        ["practice1.jpg", "practice2.jpg"], ["fixation_cross.png"], ["blank"], ["clip1.mp4"], ["instructions"]
    )
    study.note(f"also {names[0]}")
    mixed, last = [], None
    for row in rows:
        if row["trial"] is not last and study.chance(0.25):
            mixed += [row | {roles["image"]: name, "other": True} for name in names]
        last = row["trial"]
        mixed.append(row)
    return columns, mixed


def columns_beside(study, roles, columns, rows):
    """Columns that have nothing to do with positions."""
    if study.chance(0.15):
        columns = ["Unnamed: 0", *columns]
        for i, row in enumerate(rows):
            row["Unnamed: 0"] = i
        study.note("index column")
    if study.chance(0.2):
        extra = study.pick("condition", "block", "age", "response", "pupil", "rt")
        columns = [*columns, extra]
        values = {"condition": ["free", "search"], "response": ["yes", "no"], "pupil": [3.1, 3.4]}.get(
            extra, [1, 2, 3]
        )
        for row in rows:
            row[extra] = study.random.choice(values)
    if study.chance(0.1):
        study.note("mouse columns")
        columns = [*columns, "mouse_x", "mouse_y"]
        for row in rows:
            row |= {"mouse_x": study.random.randint(0, 300), "mouse_y": study.random.randint(0, 200)}
    if study.chance(0.1):
        study.note("size columns")
        columns = [*columns, "width", "height"]
        for row in rows:
            row |= {"width": row["trial"].picture.width, "height": row["trial"].picture.height}
    if study.chance(0.1) and not any("eyes" in w for w in study.wrinkles):
        study.note("next position")
        columns = [*columns, "next_x", "next_y"]
        for row, following in itertools.pairwise([*rows, rows[0]]):
            row |= {"next_x": following[roles["x"]], "next_y": following[roles["y"]]}
    return columns, rows


def blanks(study, roles, columns, rows):
    """Cells that are only filled in the first row of a view, as in a spreadsheet with merged cells."""
    if study.chance(0.04) and not any("also" in w or "both eyes" in w for w in study.wrinkles):
        study.note("filled once")
        last = None
        for row in rows:
            if row["trial"] is last:
                row |= {roles["image"]: None, roles["person"]: None}
            else:
                last = row["trial"]
    return columns, rows


def damage(study, roles, columns, rows):
    """What spreadsheets do to cells: dates for decimals, errors, thousands, empty rows and sums."""
    kind = study.pick(*["none"] * 16, "footer", "errors", "sum", "empty rows", "thousands", "grouped")
    if kind == "none":
        return columns, rows
    study.note(f"damage:{kind}")
    if kind == "errors":
        bad = [
            row | {roles["x"]: study.pick("#NAME?", "#VALUE!", "12. Mai", "Jan 94"), "damaged": True}
            for row in rows
            if study.chance(0.02)
        ]
        rows = rows + bad
    elif kind == "footer":
        rows = [*rows, {}, {columns[0]: f"Total: {len(rows)} fixations"}, {columns[0]: "Created with FixTool 2.1"}]
    elif kind == "sum":
        rows = [*rows, {roles["image"]: "Mean", roles["x"]: 312.4, roles["y"]: 244.1}]
    elif kind == "grouped":
        for row in rows:
            for role in ("start", "duration"):
                value = row.get(roles[role])
                if isinstance(value, int) and value >= 1000:
                    row[roles[role]] = f"{value:,}".replace(",", study.pick(".", "\u00a0"))
    elif kind == "empty rows":
        rows = [*itertools.chain.from_iterable((row, {}) if study.chance(0.03) else (row,) for row in rows)]
    else:
        for row in rows:
            if isinstance(row.get(roles["x"]), float) and row[roles["x"]] >= 100:
                row[roles["x"]] = round(row[roles["x"]] * 10)
        study.facts.add("decimal points lost")
    return columns, rows


def layout(study, roles, columns, rows, style, said):
    """Write the rows as one table or as many, with backup copies, preambles or without a header."""
    chance = study.random
    kind = study.pick(
        "one",
        "one",
        "one",
        "one",
        "person",
        "person only in name",
        "picture",
        "picture only in name",
        "picture folder",
        "person folder",
        "groups",
        "trial",
    )
    once = "filled once" in study.wrinkles
    loose = any("trial" not in row for row in rows) or once or any(row.get("other") for row in rows)
    if kind != "one" and loose:
        kind = "one"
    safe = all("/" not in t.person and "/" not in t.picture.stem for t in study.trials)
    if kind == "trial" and ("seen twice" in study.wrinkles or not safe):
        kind = "one"
    if kind != "one":
        study.note(f"tables:{kind}")
    if "--columns" in study.settings and kind not in ("one", "person", "groups"):
        study.settings.clear()
    preamble: tuple = ()
    if study.chance(0.08):
        preamble = ("# exported by analyse.py", "# date: 2020-05-01", "")
        study.note("preamble")
    elif style.separator == ";" and study.chance(0.15):
        preamble = ("sep=;",)
        study.note("sep=")
    folder = study.pick("", "data/", "fixations/", "Daten/")
    suffix = study.pick(".csv", ".csv", ".txt") if style.separator != "\t" else study.pick(".tsv", ".txt", ".csv")
    header = not (kind == "one" and study.chance(0.04))
    if not header:
        study.note("no header")
        study.facts.add("names of the columns")
    if kind == "one" and header:
        rows = second_headers(study, roles, columns, rows)
        if packed(study, folder, columns, rows):
            return
    written = []
    if kind == "one":
        name = study.pick("fixations", "data", "results", "all_subjects", "fix_export_final")
        written.append(study.write(f"{folder}{name}{suffix}", columns, rows, style, preamble, header))
    elif kind == "person folder":
        columns = [column for column in columns if column != roles["person"]]
        for person in study.people:
            own = [row for row in rows if row["trial"].person == person]
            written.append(study.write(f"data/{person}/fixations{suffix}", columns, own, style, preamble))
    elif kind == "picture folder":
        columns = [column for column in columns if column != roles["image"]]
        for picture in study.pictures:
            own = [row for row in rows if row["trial"].picture is picture]
            if own:
                name = f"data/{picture.stem}/fixations{suffix}"
                written.append(study.write(name, columns, own, style, preamble))
    elif kind.startswith("person"):
        if "only" in kind:
            columns = [column for column in columns if column != roles["person"]]
        for person in study.people:
            own = [row for row in rows if row["trial"].person == person]
            written.append(study.write(f"{folder}{person}{suffix}", columns, own, style, preamble))
    elif kind.startswith("picture"):
        if "only" in kind:
            columns = [column for column in columns if column != roles["image"]]
        for picture in study.pictures:
            own = [row for row in rows if row["trial"].picture is picture]
            if own:
                written.append(study.write(f"{folder}{picture.stem}{suffix}", columns, own, style, preamble))
    elif kind == "trial":
        columns = [column for column in columns if column not in (roles["image"], roles["person"])]
        for trial in study.trials:
            own = [row for row in rows if row["trial"] is trial]
            if own:
                name = f"{folder}{trial.person}/{trial.picture.stem}{suffix}"
                written.append(study.write(name, columns, own, style, preamble))
    else:
        study.facts.add("whether the tables' people are the same")
        people = study.people
        half = len(people) // 2
        for name, group in (("adults", people[:half]), ("children", people[half:])):
            renumbered = {person: i + 1 for i, person in enumerate(group)}
            own = [
                row | {roles["person"]: renumbered[row["trial"].person]}
                for row in rows
                if row["trial"].person in renumbered
            ]
            written.append(study.write(f"{folder}{name}{suffix}", columns, own, style, preamble))
    if len({path.name for path in written}) < len(written):
        study.note("same names")
    if study.chance(0.1):
        backup(study, written, chance)


def second_headers(study, roles, columns, rows):
    """Rows with a line of units first, or with the header again where tables were put together."""
    if study.chance(0.04):
        study.note("line of units")
        named = {roles["x"]: "[px]", roles["y"]: "[px]", roles["start"]: "[ms]", roles["duration"]: "[ms]"}
        return [{column: named.get(column, "") for column in columns}, *rows]
    if study.chance(0.04):
        study.note("header repeated")
        return [*rows[: len(rows) // 2], {column: column for column in columns}, *rows[len(rows) // 2 :]]
    return rows


def packed(study, folder, columns, rows):
    """Whether the rows were written as Parquet, compressed, or aligned with blanks, as R prints a data frame."""
    kind = study.pick(*["no"] * 20, "parquet", "gz", "aligned")
    cells = [[row.get(column) for column in columns] for row in rows]
    target = study.folder / folder / "fixations"
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        types = [{type(value) for value in column} - {type(None)} for column in zip(*cells, strict=True)]
        if any(len(own - {int}) > 1 or (str in own and len(own) > 1) for own in types):
            return False
        frame = dict(zip(columns, map(list, zip(*cells, strict=True)), strict=True))
        polars.DataFrame(frame, strict=False).write_parquet(target.with_suffix(".parquet"))
    elif kind == "gz":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([columns, *cells])
        target.with_suffix(".csv.gz").write_bytes(gzip.compress(text.getvalue().encode()))
    elif kind == "aligned":
        lines = [[str(value) for value in row] for row in [columns, *cells]]
        if any(not value or " " in value for line in lines for value in line):
            return False
        wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = "\n".join(" ".join(v.rjust(w) for v, w in zip(line, wide, strict=True)) for line in lines)
        target.with_suffix(".txt").write_text(aligned + "\n", encoding="utf-8")
    else:
        return False
    study.note(kind)
    return True


def backup(study, written, chance):
    """Leave a copy of a table, whole or of an earlier day, as people and computers do."""
    original = chance.choice(written)
    kind = study.pick("copy", "folder", "earlier", "lock")
    study.note(f"backup:{kind}")
    data = original.read_bytes()
    if kind == "copy":
        name = study.pick(
            f"{original.stem} - Copy",
            f"{original.stem} (1)",
            f"{original.stem}_backup",
            f"Kopie von {original.stem}",
        )
        (original.parent / (name + original.suffix)).write_bytes(data)
    elif kind == "folder":
        target = study.folder / study.pick("backup", "old", "_archive") / original.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    elif kind == "earlier":
        ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
        (original.parent / f"{original.stem}_old{original.suffix}").write_bytes(data[: ends[len(ends) * 2 // 3]])
        if original.read_bytes()[:2] in (b"\xff\xfe", b"\xfe\xff"):
            (original.parent / f"{original.stem}_old{original.suffix}").write_bytes(data)
    else:
        (original.parent / f"~${original.name}").write_bytes(b"\x05Lab  \0\0")


# Resized copies of pictures, as experiments keep originals/ beside what was shown (PsychoPy and OpenSesame pools).
@form("picture", weight=2)
def resized_copies(study):
    """Two sizes of each picture in two folders; positions are on the smaller one, which the table's path names."""
    named = study.pick("path", "path", "name")
    shown, originals = study.pick(("resized", "originals"), ("stimuli_small", "stimuli"), ("shown", "raw"))
    factor = study.pick(2, 1.5, 3)
    small = []
    old_folder = study.pictures[0].path.split("/")[0] if "/" in study.pictures[0].path else None
    for i, picture in enumerate(study.pictures):
        drawn = content(study.seed * 1000 + i, picture.width, picture.height)
        (study.folder / picture.path).unlink()
        name = picture.name
        picture.path = f"{shown}/{name}"
        small.append(picture)
        save_picture(study.folder / picture.path, drawn)
        size = (round(picture.width * factor), round(picture.height * factor))
        save_picture(study.folder / originals / name, drawn.resize(size, Image.Resampling.BICUBIC))
    if old_folder and old_folder not in (shown, originals):
        shutil.rmtree(study.folder / old_folder, ignore_errors=True)
    study.settle()
    for picture in small:
        other = f"{originals}/{picture.name}"
        study.points[other] = [(x * factor, y * factor, person) for x, y, person in study.points[picture.path]]
        study.copies[other] = picture.path
    if named == "name":
        study.facts.add("which copy was shown")
    columns = ["subject", "image", "fixation", "x", "y", "duration"]
    rows = [
        {
            "subject": trial.person,
            "image": trial.picture.path if named == "path" else trial.picture.name,
            "fixation": f.number,
            "x": round(f.x, 1),
            "y": round(f.y, 1),
            "duration": f.duration,
        }
        for trial in study.trials
        for f in trial.fixations
    ]
    study.write("fixations.csv", columns, rows, study.random.choice(STYLES[:3]))


# Screenshots of whole pages with a scrolled viewport (RealEye's gazeInfo[3] is the scroll offset in pixels;
# WebGazer's positions are in CSS pixels of the viewport, MDN: Window.scrollY, Window.devicePixelRatio).
@form("picture", weight=2)
def scrolled_pages(study):
    """Fixations in the viewport of a browser, with how far the page was scrolled."""
    chance = study.random
    dpr = chance.choice([1, 1, 2, 1.5])
    view = (720, 450)
    for i, picture in enumerate(study.pictures):
        (study.folder / picture.path).unlink()
        height = chance.randint(900, 1800)
        picture.width, picture.height = round(view[0] * dpr), round(height * dpr)
        save_picture(study.folder / picture.path, content(study.seed * 1000 + i, picture.width, picture.height))
    columns = ["participant", "page", "time", "duration", "x", "y"]
    columns += list(
        study.pick(("scrollX", "scrollY"), ("scroll_x", "scroll_y"), ("", "scroll_top"), ("", "pageYOffset"))
    )
    scroll_x, scroll_y = columns[-2:]
    columns = [column for column in columns if column]
    ratio = None
    if dpr != 1:
        ratio = "devicePixelRatio"
        columns.append(ratio)
        study.note("css pixels")
    rows = []
    for trial in study.trials:
        picture = trial.picture
        for f in trial.fixations:
            f.x, f.y = chance.uniform(5, picture.width - 5), chance.uniform(5, picture.height - 5)
            top = min(max(0, f.y / dpr - chance.uniform(20, view[1] - 20)), picture.height / dpr - view[1])
            rows.append(
                {
                    "participant": trial.person,
                    "page": picture.name,
                    "time": f.start,
                    "duration": f.duration,
                    "x": round(f.x / dpr, 1),
                    "y": round(f.y / dpr - round(top), 1),
                    scroll_y: round(top),
                    "devicePixelRatio": dpr,
                }
                | ({scroll_x: 0} if scroll_x else {})
            )
    study.settle()
    study.write("gaze.csv", columns, rows, study.random.choice(STYLES[:3]))


# A codebook: the table has numbers of pictures, another table their names (E-Prime and Presentation conditions
# files, PsychoPy conditions .xlsx).
@form("picture")
def codebook(study):
    """Numbers of pictures in the fixations, their names in a second table, or nowhere."""
    chance = study.random
    order = study.pictures[:]
    chance.shuffle(order)
    told = study.chance(0.6)
    if not told:
        order = sorted(study.pictures, key=lambda picture: picture.path)
        study.facts.add("order of the pictures")
    numbers = {picture.path: i + 1 for i, picture in enumerate(order)}
    column = study.pick("stim_id", "image_id", "item", "pic_nr")
    rows = [
        {
            "subject": trial.person,
            column: numbers[trial.picture.path],
            "fix": f.number,
            "x": round(f.x, 1),
            "y": round(f.y, 1),
            "dur": f.duration,
        }
        for trial in study.trials
        for f in trial.fixations
    ]
    study.write("fixations.csv", list(rows[0]), rows, chance.choice(STYLES[:4]))
    if told:
        study.note("names in a second table")
        names = [{column: numbers[picture.path], "file": picture.name, "valence": 3} for picture in order]
        study.write("stimuli_list.csv", list(names[0]), names)


# Maps: SALICON, MIT300/CAT2000 and OSIE ship grey maps beside stimuli; figures of matplotlib and heatmap exports
# of Tobii, RealEye and Gazepoint have margins, colours, or the picture below.


def density(points, width, height, sigma):
    """The density of points of a picture at its size, blurred, with the largest value 1."""
    counts = np.zeros((height, width))
    for x, y, _person in points:
        counts[min(int(y), height - 1), min(int(x), width - 1)] += 1
    blurred = ndimage.gaussian_filter(counts, sigma, mode="constant")
    return blurred / blurred.max()


def write_maps(study, draw, names=None):
    """Write each picture's map with draw(picture's pixels, density), and remember the true densities."""
    suffix = ".png" if any("alpha" in w for w in study.wrinkles) else study.pick(".png", ".png", ".jpg")
    name = study.pick("{}", "{}", "{}_map", "{}_heatmap", "{}_fixmap", "{}-density")
    scale = study.pick(1, 1, 0.5)
    if not (study.pictures[0].path.startswith(("stimuli/", "images/"))):
        for picture in study.pictures:
            target = study.folder / "stimuli" / picture.name
            target.parent.mkdir(exist_ok=True)
            (study.folder / picture.path).rename(target)
            points, rects = study.points.pop(picture.path), study.rects.pop(picture.path)
            picture.path = f"stimuli/{picture.name}"
            study.points[picture.path], study.rects[picture.path] = points, rects
    folder = study.pick("maps", "maps", "heatmaps", "density_maps", "saliency")
    for picture in study.pictures:
        points = study.points[picture.path]
        true = density(points, picture.width, picture.height, picture.width / 20)
        study.densities[picture.path] = shrink(true)
        drawn = draw(np.asarray(Image.open(study.folder / picture.path).convert("RGB"), float) / 255, true)
        image = Image.fromarray((np.clip(drawn, 0, 1) * 255).round().astype(np.uint8))
        if scale != 1:
            image = image.resize(
                (round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR
            )
        if suffix == ".jpg":
            image = image.convert("L" if image.mode == "L" else "RGB")
        save_picture(study.folder / folder / (name.format(picture.stem) + suffix), image)
    if scale != 1:
        study.note("half size")
    if name != "{}":
        study.note("maps named otherwise")


def shrink(values):
    """A map at the prepared size, by means of areas."""
    image = Image.fromarray(values.astype(np.float32))
    return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BOX), float)


@form("4:3", weight=3)
def maps_honest(study):
    """Grey maps: as they are, as 3 equal channels, or with a mild curve."""
    kind = study.pick("grey", "grey", "rgb", "alpha of 1", "dark")
    study.note(f"map:{kind}")
    drawn = {
        "grey": lambda true: true,
        "rgb": lambda true: np.stack([true] * 3, -1),
        "alpha of 1": lambda true: np.stack([true] * 3 + [np.ones_like(true)], -1),
        "dark": lambda true: 0.4 * true,
    }[kind]
    write_maps(study, lambda _picture, true: drawn(true))


@form("4:3", weight=4)
def maps_dishonest(study):
    """Pictures of maps that are no densities: to be refused, or undone."""
    kind = study.pick(
        "margins",
        "colours",
        "inverted",
        "overlay",
        "edges",
        "pedestal",
        "figure",
        "contours",
        "alpha",
        "blurred picture",
        "binary",
        "other crop",
    )
    study.note(f"map:{kind}")
    study.facts.add("the density")

    def draw(picture, true):
        if kind == "margins":
            top, side = round(0.12 * true.shape[0]), round(0.12 * true.shape[1])
            return np.pad(true, ((top, top), (side, side)), constant_values=1.0)
        if kind == "colours":
            return jet(true)
        if kind == "inverted":
            return 1 - true
        if kind == "overlay":
            return 0.5 * picture + 0.5 * jet(true)
        if kind == "edges":
            edges = ndimage.gaussian_gradient_magnitude(picture.mean(-1), 2)
            return edges / edges.max()
        if kind == "pedestal":
            return 0.3 + 0.7 * true
        if kind == "figure":
            top, side = round(0.1 * true.shape[0]), round(0.2 * true.shape[1])
            figure = np.pad(jet(true), ((top, top), (side, side), (0, 0)), constant_values=1.0)
            figure[top:-top, -side // 2 : -side // 4] = jet(np.linspace(1, 0, true.shape[0])[:, None])
            return figure
        if kind == "alpha":
            return np.concatenate([jet(true), true[..., None]], -1)
        if kind == "blurred picture":
            return ndimage.gaussian_filter(picture.mean(-1), picture.shape[1] / 30)
        if kind == "binary":
            return (true > 0.4).astype(float)
        if kind == "other crop":
            return true[:, true.shape[1] // 4 :]
        levels = np.floor(true * 6) / 6
        return np.where(np.abs(true * 6 - np.round(true * 6)) < 0.04, 1.0, 0.3 * picture.mean(-1) + 0.2 * levels)

    write_maps(study, draw)


def jet(values):
    """Values from 0 to 1 in the colours of a heat map, blue to red, (h, w, 3)."""
    values = values[..., None] * np.ones(3)
    return np.clip(1.5 - np.abs(4 * values - np.array([3, 2, 1])), 0, 1)


@form("picture", weight=2)
def maps_beside_tables(study):
    """A table of fixations, and heat maps of it as figures beside it."""
    rows = [
        {
            "participant": trial.person,
            "image": trial.picture.name,
            "x": round(f.x, 1),
            "y": round(f.y, 1),
            "duration": f.duration,
        }
        for trial in study.trials
        for f in trial.fixations
    ]
    study.write("fixations.csv", list(rows[0]), rows)
    kind = study.pick("grey maps", "coloured heat maps", "scan paths")
    study.note(kind)
    folder = {"grey maps": "maps", "coloured heat maps": "heatmaps", "scan paths": "figures"}[kind]
    for picture in study.pictures:
        points = study.points[picture.path]
        true = density(points, picture.width, picture.height, picture.width / 20)
        pixels = np.asarray(Image.open(study.folder / picture.path).convert("RGB"), float) / 255
        drawn = {"grey maps": true, "coloured heat maps": 0.5 * pixels + 0.5 * jet(true), "scan paths": pixels}[
            kind
        ]
        image = Image.fromarray((np.clip(drawn, 0, 1) * 255).round().astype(np.uint8))
        if kind == "scan paths":
            pen = ImageDraw.Draw(image)
            pen.line([(x, y) for x, y, _person in points], fill=(255, 255, 0), width=3)
        save_picture(study.folder / folder / f"{picture.stem}.png", image)
        figure = f"{folder}/{picture.stem}.png"
        study.optional.add(figure)


@form("picture")
def point_maps(study):
    """Black pictures with a white pixel for each fixation, as OSIE, MIT1003 and SALICON have them."""
    if not study.pictures[0].path.startswith(("stimuli/", "images/")):
        for picture in study.pictures:
            target = study.folder / "stimuli" / picture.name
            target.parent.mkdir(exist_ok=True)
            (study.folder / picture.path).rename(target)
            study.points[f"stimuli/{picture.name}"] = study.points.pop(picture.path)
            picture.path = f"stimuli/{picture.name}"
    grouped = study.chance(0.3)
    folder = study.pick("fixations", "fixation_maps", "maps", "fixmaps")
    study.note(folder)
    for picture in study.pictures:
        marked = np.zeros((picture.height, picture.width), np.uint8)
        kept = {}
        for x, y, _person in study.points[picture.path]:
            marked[int(y), int(x)] = 255
            kept[int(x), int(y)] = (x, y, "anyone")
        study.points[picture.path] = list(kept.values())
        name = f"{picture.stem}_fixPts.png" if grouped else f"{picture.stem}.png"
        save_picture(study.folder / folder / name, Image.fromarray(marked))


# The judge.


def matches(points, prepared):
    """Whether (x, y) points and (y, x) prepared pixels are the same, one to one, within the tolerance."""
    if len(points) != len(prepared):
        return False
    if not len(points):
        return True
    true = np.array([point[:2] for point in points], float)
    pixels = np.asarray(prepared, float)[:, ::-1]
    if len(points) > 500:
        near = [spatial.cKDTree(a).query(b)[0].max() for a, b in ((true, pixels + 0.5), (pixels + 0.5, true))]
        return max(near) <= TOLERANCE + 1
    apart = np.minimum(
        np.linalg.norm(true[:, None] - pixels[None], axis=-1),
        np.linalg.norm(true[:, None] - pixels[None] - 0.5, axis=-1),
    )
    rows, columns = optimize.linear_sum_assignment(np.where(apart <= TOLERANCE, 0, 1))
    return bool((apart[rows, columns] <= TOLERANCE).all())


def same_people(points, prepared, observers):
    """Whether the observers split the prepared pixels as the people split the points."""
    groups = collections.defaultdict(list)
    for pixel, observer in zip(prepared, observers, strict=True):
        groups[int(observer)].append(pixel)
    people = collections.defaultdict(list)
    for point in points:
        people[point[2]].append(point)
    if len(groups) != len(people):
        return False
    left = dict(people)
    for group in groups.values():
        fitting = next((person for person, own in left.items() if matches(own, group)), None)
        if fitting is None:
            return False
        del left[fitting]
    return True


def own_path(name, paths):
    """The path of the source that a prepared example's name stands for."""
    name = unicodedata.normalize("NFC", name)
    exact = [path for path in paths if unicodedata.normalize("NFC", path) == name]
    if exact:
        return exact[0]
    tails = [path for path in paths if unicodedata.normalize("NFC", path).endswith("/" + name)]
    if len(tails) == 1:
        return tails[0]
    stem = str(pathlib.PurePosixPath(name).with_suffix(""))
    tails = [
        path
        for path in paths
        if ("/" + unicodedata.normalize("NFC", str(pathlib.PurePosixPath(path).with_suffix("")))).endswith(
            "/" + stem
        )
    ]
    return tails[0] if len(tails) == 1 else None


def compare(study, examples, known):
    """None if the examples are as drawn, else what is wrong with them."""
    sets = [study.points, *study.others]
    reasons = []
    for points in sets:
        reason = compare_points(study, points, examples, known)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons[0]


def compare_points(study, points, examples, known):
    """None if the examples have these points, else what is wrong."""
    paths = [*points, *study.optional]
    found = {}
    anonymous = True
    for example in examples:
        path = own_path(example.name, paths)
        if path is None:
            return f"unknown picture {example.name}"
        if path in study.optional:
            return f"a figure became a picture: {path}"
        found[path] = example
        anonymous &= len(set(np.asarray(example.observers).tolist())) <= 1
    for path, own in points.items():
        twin = study.copies.get(path, path)
        group = {twin, *(copy for copy, of in study.copies.items() if of == twin)}
        if own and not group & set(found):
            return f"{path} is missing"
    for path, example in found.items():
        if not points[path] and not len(example.fixations):
            continue
        if not matches(points[path], example.fixations):
            return mismatch(path, points[path], example.fixations)
        observers = np.asarray(example.observers)
        told = known and not anonymous and len(observers) == len(example.fixations)
        if told and not same_people(points[path], example.fixations, observers):
            return f"people of {path}: {len(set(observers.tolist()))} of {len({p for _x, _y, p in points[path]})}"
    return None


def mismatch(path, points, prepared):
    """Words on how the prepared pixels differ from the points."""
    first = [tuple(round(v) for v in point[:2]) for point in points[:3]]
    pixels = [tuple(int(v) for v in pixel[::-1]) for pixel in prepared[:3]]
    return f"{path}: {len(prepared)} of {len(points)}, true {first}, prepared {pixels}"


def compare_maps(study, examples):
    """None if the prepared densities are the true ones, else what is wrong."""
    found = set()
    for example in examples:
        path = own_path(example.name, list(study.densities))
        if path is None:
            return f"unknown picture {example.name}"
        found.add(path)
        alike = np.corrcoef(np.ravel(example.density).astype(float), study.densities[path].ravel())[0, 1]
        if not alike > 0.97:
            return f"{path}: correlation {alike:.3f}"
    missing = set(study.densities) - found
    return f"{sorted(missing)[0]} is missing" if missing else None


@dataclass
class Outcome:
    """What became of one study."""

    seed: int
    kind: str
    result: str
    detail: str
    facts: set
    wrinkles: list
    seconds: float
    told: str = ""
    told_detail: str = ""
    settings: list = field(default_factory=list)


def run(seed, keep=None, only=None):
    """Draw a study, prepare it as a user would, and compare: an Outcome, right, asked or wrong.

    A study that was not right, and whose open facts have settings, is prepared again with them.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(keep or temporary) / "source"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        study = draw_study(seed, folder, only)
        result, detail = judge(study, [])
        told, told_detail = judge(study, study.settings) if result != "right" and study.settings else ("", "")
        if keep:
            (folder.parent / "said.txt").write_text(
                f"{result}\n{detail}\n{study.settings}\n{told}\n{told_detail}\n"
            )
    seconds = time.monotonic() - start
    return Outcome(
        seed, study.kind, result, detail, study.facts, study.wrinkles, seconds, told, told_detail, study.settings
    )


def judge(study, settings):
    """Prepare the study with these settings, and compare: the result and what there is to say about it."""
    from trainer.__main__ import main
    from trainer.data.tfrecords import read_examples
    from trainer.errors import UserError

    output = study.folder.parent / "prepared"
    shutil.rmtree(output, ignore_errors=True)
    arguments = ["fetch", "--dataset", "custom", "--source", str(study.folder), "--output-dir", str(output)]
    arguments += ["--image-size", f"{HEIGHT}x{WIDTH}", "--split", "shuffle", *settings]
    written = output / "manifest.json"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main(arguments)
        refusal = f"status {code}" if code else ""
    except (SystemExit, UserError) as error:
        refusal = str(error) if isinstance(error, UserError) or error.code not in (0, None) else ""
    except Exception:
        return "wrong", "crash: " + traceback.format_exc(limit=-2)
    if refusal:
        return ("wrong", "refused, but written: " + refusal) if written.exists() else ("asked", refusal)
    examples = [example for split in ("train", "valid") for example in read_examples(output, split)]
    manifest = json.loads(written.read_text())
    known = manifest.get("has_known_observers", manifest.get("has_observers", True))
    reason = compare_maps(study, examples) if study.densities else compare(study, examples, known)
    return ("wrong", reason) if reason else ("right", "")


def report(outcomes):
    """Print counts for each kind and wrinkle, and the seeds of wrong ones."""
    kinds = collections.defaultdict(collections.Counter)
    wrinkles = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        results = [outcome.result]
        if outcome.result == "asked" and not outcome.facts:
            results.append("needless")
        if outcome.result == "wrong" and outcome.facts:
            results.append("blind")
        if outcome.told:
            results.append("told:" + outcome.told)
        kinds[outcome.kind].update(results)
        for wrinkle in set(outcome.wrinkles):
            wrinkles[wrinkle].update(results)
    total = sum(kinds.values(), collections.Counter())
    columns = ("right", "asked", "needless", "wrong", "blind", "told:right", "told:asked", "told:wrong")
    print(f"{'':32}" + "".join(f"{column:>11}" for column in columns))
    for name, counts in [*sorted(kinds.items()), ("all", total)]:
        print(f"{name:32}" + "".join(f"{counts[column]:11}" for column in columns))
    print("\n`needless`: asked though the files tell all. `blind`: wrong where they do not.")
    print("`told`: after the settings that tell it, where there are such. By wrinkle:")
    for name, counts in sorted(wrinkles.items()):
        print(f"{name:32}" + "".join(f"{counts[column]:11}" for column in columns))
    print("\nwrong:")
    for outcome in outcomes:
        if outcome.result == "wrong":
            facts = f" (unknowable: {', '.join(sorted(outcome.facts))})" if outcome.facts else ""
            print(f"{outcome.seed} {outcome.kind} {outcome.wrinkles}{facts}: {outcome.detail[:300]}")


def main():
    """Judge many seeds, or keep one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=600, help="report what was judged by then")
    parser.add_argument("--kind", help="draw this form only", choices=FORMS)
    parser.add_argument("--only", type=int, help="run this seed alone")
    parser.add_argument("--keep", help="folder to keep its files in")
    parser.add_argument("--asked", action="store_true", help="also print what was asked")
    options = parser.parse_args()
    if options.only is not None:
        outcome = run(options.only, options.keep, options.kind)
        print(outcome)
        return
    seeds = [(seed, None, options.kind) for seed in range(options.seed, options.seed + options.cases)]
    outcomes = []
    end = time.monotonic() + 60 * options.minutes
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for outcome in pool.imap_unordered(run_one, seeds):
            outcomes.append(outcome)
            if time.monotonic() > end:
                break
            if len(outcomes) % 50 == 0:
                print(f"{len(outcomes)} of {len(seeds)}", file=sys.stderr, flush=True)
    outcomes.sort(key=lambda outcome: outcome.seed)
    report(outcomes)
    print("\ntold, but not right:")
    for outcome in outcomes:
        if outcome.told in ("asked", "wrong"):
            settings = " ".join(outcome.settings)
            print(f"{outcome.seed} {outcome.kind} {outcome.wrinkles} {settings}: {outcome.told_detail[:300]}")
    if options.asked:
        print("\nasked:")
        for outcome in outcomes:
            if outcome.result == "asked":
                told = f"{outcome.wrinkles} {sorted(outcome.facts)}"
                print(f"{outcome.seed} {outcome.kind} {told}: {outcome.detail[:400]}")


def run_one(arguments):
    """`run` for a pool. Nobody looked at the pictures, so they are not asked."""
    with pytest.MonkeyPatch.context() as patch:
        without_maps(patch)
        return run(*arguments)


if __name__ == "__main__":
    main()
