"""The settings of `fetch` and of a test set."""

import dataclasses
import re
from collections.abc import Sequence
from typing import ClassVar, Self

from trainer.errors import SettingError, check
from trainer.places import Place, source_places
from trainer.settings import check_ranges, setting

CACHES = ("auto", "memory", "disk", "stream")
SAMPLE = "sample"
"""The source that means: generate the sample dataset."""
MAX_INPUT_PX = 4096
"""Longest side of the network's input."""
CUSTOM = "custom"
"""Name of the dataset that is the user's own recordings."""
PIXELS, FRACTION, PERCENT, THOUSANDTHS = "pixels", "fraction", "percent", "thousandths"
CENTER_PIXELS, CENTER_FRACTION, CENTER_NORM = "center-pixels", "center-fraction", "center-norm"
CENTER_HEIGHT, DEGREES = "center-height", "degrees"
COORDINATES = (
    *("auto", PIXELS, FRACTION, PERCENT, THOUSANDTHS),
    *(CENTER_PIXELS, CENTER_FRACTION, CENTER_NORM, CENTER_HEIGHT, DEGREES),
)
RECORDING_SPLITS = ("auto", "hash", "hash_by_folder", "folders", "column", "shuffle")
COLUMNS = (
    "image",
    "x",
    "y",
    "observer",
    "trial",
    "duration",
    "time",
    "fixation",
    "valid",
    "event",
    "split",
    "group",
)
"""The roles that a column of a table can have."""
RECORDINGS = "recordings of your own (dataset custom)"


def parse_image_size(text: str) -> tuple[int, int]:
    """(height, width) in pixels of a text such as `240x320`.

    Raises:
        UserError: if the text is malformed, or if a side is not a positive multiple of 8, or above MAX_INPUT_PX.
    """
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text)
    if match is None:
        raise SettingError(f"image_size is {text!r}. Write height x width in pixels, such as 240x320")
    height, width = int(match[1]), int(match[2])
    if wrong := _wrong_size((height, width)):
        raise SettingError(f"image_size is {text}: {wrong}")
    return height, width


def _wrong_size(size: Sequence[int]) -> str:
    """Explain why (height, width) cannot be an input size of the network. Empty if it can."""
    if max(size) > MAX_INPUT_PX:
        return f"a side of the network's input has {MAX_INPUT_PX:,} pixels at most, for which it takes gigabytes"
    if any(side % 8 or side < 8 for side in size):
        near = "x".join(str(max(8, round(side / 8) * 8)) for side in size)
        return (
            "the network halves its input three times, so height and width must be divisible by 8. The nearest "
            f"size is {near}"
        )
    return ""


def parse_screen_size(text: str) -> tuple[int, int]:
    """(height, width) in pixels of a `FetchConfig.screen_size` such as `1080x1920`."""
    height, width = map(int, text.split("x"))
    return height, width


def parse_columns(text: str) -> dict[str, str]:
    """Parse a text such as `image=stimulus,x=gx,y=gy`: role in COLUMNS -> name of the column.

    Raises:
        UserError: the text is malformed, or names something unknown.
    """
    named: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, _, name = (piece.strip() for piece in part.partition("="))
        if role not in COLUMNS:
            raise SettingError(f"columns names {role!r}. What a column may hold is: {', '.join(COLUMNS)}")
        if not name or role in named:
            raise SettingError(
                f"columns is {text!r}. Write pairs such as image=stimulus,x=gx,y=gy, each role once"
            )
        named[role] = name
    if ("x" in named) != ("y" in named):
        raise SettingError(f"columns is {text!r}. Name both x and y, or neither")
    return named


@dataclasses.dataclass(frozen=True)
class FetchConfig:
    """Settings of `fetch`, which turns one dataset into prepared shards."""

    TITLE: ClassVar[str] = "dataset"
    READING: ClassVar[str] = "reading.toml"
    """Name of the file, in the uppermost folder of recordings, that says what tables mean."""
    SHARD_GIGABYTES: ClassVar[float] = 20.0
    """Bytes at the source of the images of a shard, if nothing else is asked for (`trainer.data.stages`)."""
    OF_RECORDINGS: ClassVar = (
        *("columns", "coordinates", "screen_size", "image_on_screen"),
        *("blur_px", "pixels_per_degree", "max_lost_share", "split"),
    )
    """The fields that describe recordings of one's own."""
    dataset: str = setting("salicon", "Name of a dataset in trainer/datasets/table.py.")
    source: str = setting(
        "",
        "Location of the dataset: a folder or an archive, here or on gs://, or an archive at an https:// address "
        "or on Google Drive (drive:ID), several with spaces between them. A prepared dataset is taken as "
        "it is. `sample` generates the sample dataset. Empty to download it from its public source.",
    )
    image_size: str = setting("", "Input size of the network, height x width in pixels. Empty for the dataset's.")
    allow_partial_data: bool = setting(
        False,
        "Accept a number of images that differs from trainer/datasets/table.py. Not needed for the sample "
        "dataset.",
    )
    max_bad_share: float = setting(
        0.01,
        "Largest share of unusable images, at least 0 and below 1: images that cannot be decoded, have a "
        "missing or empty map, or are in two splits. They are left out, and named with the reason in "
        "manifest.json. For custom, and for public datasets with allow_partial_data. Otherwise any bad image "
        "is an error.",
        ge=0,
        lt=1,
    )
    private_sources: bool = setting(
        False, "Also fetch from http:// addresses, whose content can be changed in transit."
    )
    max_examples: int = setting(
        0, "Use at most this many images of each split, for quick trials. 0 uses all.", ge=0
    )
    test_share: float = setting(
        0.0,
        "Share of the validation images, at least 0 and below 1, to hold out as a test set, used for neither "
        "training nor model selection. A test set consists of this share only. The same share is held out of "
        "every dataset of a run, so that test_dataset may name a dataset that trains. Refused for recordings with "
        "images labelled test, which have a test set. 0 for none.",
        ge=0,
        lt=1,
    )
    columns: str = setting(
        "",
        "custom: the names of the tables' columns, such as image=stimulus,x=gx,y=gy,observer=pid. Also trial, "
        "time, duration, fixation (its number), valid, event, split and group. Write y=-NAME if y grows "
        "upwards, y=+NAME if downwards, image=@file or image=@folder if the name of each table or of its folder "
        "is that of its image. Tables without a column that is named here are left out. Empty to recognize common "
        "names.",
        group=RECORDINGS,
    )
    coordinates: str = setting(
        "auto",
        "custom: unit of the positions in tables: pixels, fraction (0 to 1), percent, thousandths. From the "
        "centre with y upwards: center-pixels, center-fraction (-0.5 to 0.5), center-norm (-1 to 1) or "
        "center-height (in heights of the image or screen). degrees: from the centre, y downwards, with "
        "pixels_per_degree. auto: known by the columns of an export, or proven by the pictures, else asked.",
        group=RECORDINGS,
        choices=COORDINATES,
    )
    screen_size: str = setting(
        "",
        "custom: size of the screen, height x width in pixels, if positions are on the screen. Empty if they are "
        "on the image.",
        group=RECORDINGS,
        pattern=r"([1-9]\d{0,8}x[1-9]\d{0,8})?",
        hint="height x width in pixels, such as 1080x1920",
    )
    image_on_screen: str = setting(
        "center",
        "custom: how the screen shows an image: center (at its own size), fit (enlarged to fill the screen, "
        "centred), X,Y (the pixel of its upper left corner) or X,Y,HEIGHTxWIDTH (scaled to this size).",
        group=RECORDINGS,
        pattern=r"center|fit|-?\d{1,9},-?\d{1,9}(,[1-9]\d{0,8}x[1-9]\d{0,8})?",
        hint="center, fit, X,Y or X,Y,HEIGHTxWIDTH",
    )
    blur_px: float = setting(
        0.0,
        "custom: standard deviation of the Gaussian that turns fixations into a density, in pixels of the images. "
        "0 for one degree if pixels_per_degree is given, else 1/30 of the median image's longer side.",
        group=RECORDINGS,
        ge=0,
    )
    pixels_per_degree: float = setting(
        0.0,
        "custom: pixels per degree of visual angle, in the images and, for positions, on the screen.",
        group=RECORDINGS,
        ge=0,
    )
    max_lost_share: float = setting(
        0.1,
        "custom: largest share of the rows of tables that may be left out for one reason, such as that they name "
        "no image of the source, and of the images without a fixation, at least 0 and at most 1. More is "
        "refused, with the likely cause.",
        group=RECORDINGS,
        ge=0,
        le=1,
    )
    split: str = setting(
        "auto",
        "custom: how images are split into training and validation: hash (80% and 20%, by hashes of the "
        "images' names, so that added images move no others), hash_by_folder (by the folders' names: all "
        "images of a folder are in one split), folders (train/ and val/), column (of the tables), shuffle "
        "(exactly 80% and 20%, but each added image moves others), or auto: the column split if there is one, "
        "else the folders if there are both, else hash. A column that `columns` names as group keeps the "
        "images of a group together. With auto, images labelled test, in a column or by a folder test/, are "
        "used for testing only.",
        group=RECORDINGS,
        choices=RECORDING_SPLITS,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source.strip())  # a pasted address may end with a blank
        check_ranges(self)
        if self.image_size:
            parse_image_size(self.image_size)
        parse_columns(self.columns)
        check(
            self.coordinates != "degrees" or self.pixels_per_degree > 0,
            "coordinates is degrees, but pixels_per_degree is not given. Set it to the pixels of one degree",
            SettingError,
        )
        check(
            self.image_on_screen != "fit" or bool(self.screen_size),
            "image_on_screen is fit, but screen_size is not given. Set it, such as 1080x1920",
            SettingError,
        )
        check(
            (self.dataset, self.source) != (CUSTOM, SAMPLE),
            f"{CUSTOM} is recordings of your own, but their source is {SAMPLE!r}. Give their folder, "
            "archive or address",
            SettingError,
        )

    @property
    def places(self) -> list[Place]:
        """Where the source is: a word for SAMPLE, none for the public source, several for several addresses."""
        return source_places(self.source, (SAMPLE,))

    @property
    def shown(self) -> Self:
        """The settings for records: addresses have no queries, which may be keys."""
        return dataclasses.replace(self, source=" ".join(place.shown for place in self.places))

    @property
    def accepts_partial(self) -> bool:
        """Whether the numbers of images may differ from the table of datasets, as in the sample set."""
        return self.allow_partial_data or self.source == SAMPLE

    @classmethod
    def check_recordings(cls, configs: "Sequence[FetchConfig]") -> None:
        """Check that recordings of one's own are described only if one of the datasets is `custom`.

        Raises:
            UserError: another dataset has such a field. Example: `columns`, for salicon.
        """
        if any(config.dataset == CUSTOM for config in configs):
            return
        for config in configs:
            for field in dataclasses.fields(config):
                if field.name in cls.OF_RECORDINGS and getattr(config, field.name) != field.default:
                    raise SettingError(
                        f"{field.name} describes recordings of your own (dataset {CUSTOM}), but the dataset is "
                        f"{config.dataset}. Leave it out"
                    )


@dataclasses.dataclass(frozen=True)
class HeldOutConfig:
    """Settings of a test set: held-out images, used for neither training nor model selection."""

    TITLE: ClassVar[str] = "test set"
    test_dataset: str = setting(
        "",
        "Name of a dataset in trainer/datasets/table.py to use for testing only: all its images, or if its split "
        "is given, its validation images (of custom, those labelled test, if there are any), or with test_share, "
        "that share of its validation images. Images that are also in the training data are left out. Empty "
        "for none.",
    )
    test_source: str = setting(
        "",
        "Location of the test set, of the same kinds as that of a dataset to train on, or `sample`. Empty for the "
        "location in trainer/datasets/table.py.",
    )

    @property
    def is_own(self) -> bool:
        """Whether the test set is recordings of one's own."""
        return self.test_dataset == CUSTOM

    def __post_init__(self) -> None:
        check(
            bool(self.test_dataset or not self.test_source),
            f"test_source is {self.test_source!r}, but test_dataset is empty. Name the dataset that it holds",
            SettingError,
        )
