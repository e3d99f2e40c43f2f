"""What the names of columns in a table of fixations mean.

Example: `FPOGX` is a column of Gazepoint with x as a fraction of the screen. The names are facts about the exports
of eye trackers (docs/data.md names the files that were read).
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from trainer.data.settings import (
    CENTER_FRACTION,
    CENTER_HEIGHT,
    CENTER_NORM,
    CENTER_PIXELS,
    DEGREES,
    FRACTION,
    PERCENT,
    PIXELS,
    THOUSANDTHS,
)

IMAGE, SCREEN = "image", "screen"
UNITS = {
    **dict.fromkeys(("px", "pix", "pixel", "pixels", "mcs px", "mcspx", "dacs px", "dacspx", "adcspx"), PIXELS),
    **dict.fromkeys(("norm", "normalized", "fraction", "mcs norm", "mcsnorm"), FRACTION),
    **dict.fromkeys(("%", "percent", "percentage", "pct"), PERCENT),
    **dict.fromkeys(("‰", "permille", "thousandths"), THOUSANDTHS),
    **dict.fromkeys(("deg", "degree", "degrees", "°"), DEGREES),
}
"""Unit in the name of a column -> unit of `coordinates`."""
ON = {
    **dict.fromkeys(("dacs px", "dacspx", "adcspx"), SCREEN),
    **dict.fromkeys(("mcs px", "mcspx", "mcs norm", "mcsnorm"), IMAGE),
}
"""Tobii's units -> what a position is measured on: the display area, or the medium."""
CENTERED = (DEGREES, CENTER_PIXELS, CENTER_FRACTION, CENTER_NORM, CENTER_HEIGHT)
"""Units of positions from the centre."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """The names of two columns, x and y, of positions of fixations.

    Example: `fpogx` and `fpogy`, fractions of the screen.
    """

    x: str
    y: str
    unit: str = ""
    """A unit of `coordinates`, or empty if the name does not tell."""
    on: str = ""
    """SCREEN for positions on the screen, IMAGE for positions on the image. Empty if the name does not tell."""
    upwards: bool = False
    """Whether y grows upwards."""
    beside: str = ""
    """The name of another column that must be there too: without it, x and y mean something else. Empty if none
    is needed."""


PAIRS = (
    Pair("mapped fixation x", "mapped fixation y", PIXELS, IMAGE),  # Tobii's glasses: its unit is an image's name
    Pair("current fix x", "current fix y", PIXELS, SCREEN),  # EyeLink Data Viewer
    Pair("fpogx", "fpogy", FRACTION, SCREEN),  # Gazepoint
    Pair("norm pos x", "norm pos y", FRACTION, IMAGE, upwards=True),  # Pupil Player, on a surface
    Pair("fixation x", "fixation y"),  # Pupil Cloud: [normalized] of a surface, [px] of a reference image
    Pair("fixation point x", "fixation point y", PERCENT, IMAGE, beside="item id"),  # RealEye
    Pair("fixation point x", "fixation point y", on=SCREEN),  # Tobii Pro Lab, after which its unit follows
    Pair("fixationpointx", "fixationpointy", on=SCREEN),  # Tobii Studio
    Pair("mappedfixationpointx", "mappedfixationpointy"),  # its versions 1 and 2
    Pair("fixation position x", "fixation position y", PIXELS),  # SMI BeGaze
    Pair("location x", "location y", PIXELS),  # its text of events
    Pair("x coordinate", "y coordinate"),  # BIDS
    Pair("image x", "image y", on=IMAGE),
    Pair("average gaze x", "average gaze y", "", SCREEN, upwards=True),  # PsychoPy's ioHub, from the centre
    *(Pair(f"fix {x}", f"fix {y}") for x, y in (("x", "y"), ("pos x", "pos y"))),
    *(
        Pair(f"{name}x", f"{name}y")
        for name in ("fix", "fixation", "pos", "position", "mean", "mean ", "avg ", "pos ", "position ")
    ),
    *(Pair(f"x{name}", f"y{name}") for name in ("pos", " pos", " position", "point", "")),
    Pair("col", "row"),
)
"""Known pairs in the order of preference, with the names that `plain` returns."""
OF_SAMPLES = ("fixation point x", "fixationpointx")
"""The x of pairs of Tobii, which each sample of a fixation has."""
CENTERED_PAIRS = ("average gaze x",)
"""The x of pairs that are measured from the centre, in a unit that their names do not tell."""
SCENE_CAMERA = (
    *("azimuth", "gaze point 3d x", "gaze3d position left x", "start frame index", "world index"),
    *("gyro x", "gyroscope x", "accelerometer x"),
)
"""Columns that only tables of a scene camera have: their positions are on the pictures of a camera that a
person wears. A table that also has a column of MAPPED is no such table."""
MAPPED = (
    *("fixation detected on surface", "fixation detected in reference image", "on surf", "on srf"),
    *("fixation status", "mapped fixation x"),
)
"""Columns that say which positions were mapped to an image or a surface."""
AREA = (("width", "height"), ("w", "h"), ("right", "bottom"), ("x2", "y2"), ("xmax", "ymax"))
"""Columns beside x and y that make a row an area of interest."""

ROLES = {
    "image": (
        *("image", "image name", "image file", "stimulus", "stimulus name", "stim file", "picture"),
        *("presented stimulus name", "presented media name", "media name", "medianame", "filename", "file name"),
        *(
            "item filename",
            "sourcestimuliname",
            "stimuliname",
            "img",
            "pic",
            "photo",
            "photograph",
            "scene",
            "stim",
            "slide",
            "screenshot",
        ),
        *(
            f"{thing}{what}"
            for thing in ("image", "img", "picture", "pic", "photo", "stimulus", "stim", "scene")
            for what in (
                " id",
                "id",
                "name",
                "file",
                " name",
                " file",
                " filename",
                " number",
                " nr",
                " no",
                " path",
            )
        ),
    ),
    "observer": (
        *("observer", "participant", "participant id", "participant name", "participantname"),
        *("subject", "subject id", "recording session label", "recording id", "recording name", "recordingname"),
        *("subj", "sub", "ppn", "ppid", "pid", "sid", "vp", "vpn", "vp code", "person", "viewer", "user"),
        *(
            f"{who}{what}"
            for who in ("subject", "subj", "sub", "participant", "observer", "viewer", "person", "user")
            for what in ("id", "num", "nr", " id", " num", " nr", " no", " number", " code", " name")
        ),
    ),
    "trial": (
        *("trial", "trial id", "trial index", "recording name", "recordingname", "recording id", "section id"),
    ),
    "duration": (
        *(
            "duration",
            "fixation duration",
            "fixationduration",
            "gaze event duration",
            "gazeeventduration",
            "fpogd",
        ),
        *("current fix duration", "event duration", "dur", "fix duration", "fix dur", "fixdur"),
    ),
    "time": (
        *("fpogs", "current fix start", "event start trial time", "fixation start", "start timestamp", "start"),
        *("onset", "time", "timestamp", "recording timestamp", "recordingtimestamp", "start time"),
        *("fixation starts at", "t", "time elapsed"),
    ),
    "fixation": (
        *("fixation id", "fixation index", "fixationindex", "fixation number", "fixation"),
        *("eye movement type index", "current fix index", "fpogid"),
        *("fix number", "fix index", "fix id", "fix nr", "fixation nr", "fixation no", "fixationno"),
        *("idx", "index", "nr", "no", "number"),
    ),
    "valid": (
        *("fpogv", "fixation detected on surface", "fixation detected in reference image", "on surf", "on srf"),
        *("valid", "validity", "is valid", "is fixation"),
    ),
    "invalid": (
        "saccade",
        "is saccade",
        "in saccade",
        "blink",
        "is blink",
        "in blink",
        "outlier",
        "is outlier",
        "current fix is outlier",
    ),
    "event": ("eye movement type", "gazeeventtype", "category", "event type", "event", "trial type"),
    "eye": ("eye", "eyes", "eye used", "eyeused", "eye tracked", "eye l/r"),
    "split": ("split",),
    "group": (),  # by the setting alone: tables have groups of people, too
    "media x": ("presented media position x", "mediaposx"),
    "media y": ("presented media position y", "mediaposy"),
    "media width": ("presented media width", "mediawidth"),
    "media height": ("presented media height", "mediaheight"),
}
"""What a column holds -> its usual names in the order of preference, in the form that `plain` returns. `media x`
and `media y` are where the screen shows the image, `media width` and `media height` its size there, in pixels."""
IMAGE_WORDS = ("image", "img", "picture", "pic", "photo", "stimulus", "stim")
"""The last words of the names of columns that hold images. Example: `left image`."""
HARMLESS = (
    *(
        "aoi",
        "aoi name",
        "aoi id",
        "aoi hit",
        "area of interest",
        "roi",
        "region",
        "age",
        "gender",
        "sex",
        "group",
    ),
    *("condition", "handedness", "session", "block", "study", "project name", "task", "response", "rt", "correct"),
    *(f"{what} id" for what in ("condition", "session", "block", "task")),
    *("pupil", "pupilsize", "pupil left", "pupil right"),
    *(
        f"{before}pupil {what}{after}"
        for before in ("", "left ", "right ", "average ", "fixation average ")
        for what in ("size", "diameter", "area")
        for after in ("", " x", " y", " left", " right")
    ),
    *("trial start raw time", "export start trial time", "export end trial time", "tracking ratio"),  # SMI BeGaze
    *("color", "category group", "fixation dispersion x", "fixation dispersion y"),  # SMI BeGaze
)
"""Columns that do not change what positions mean."""
ABOUT_POSITIONS = {
    *("unit", "units", "origin", "coordinates", "coordinate", "coord", "coords", "scale", "scaling", "zoom"),
    *(
        "scroll",
        "scrollx",
        "scrolly",
        "dpr",
        "dpi",
        "displayed",
        "shown",
        "viewport",
        "window",
        "screen",
        "display",
        "resolution",
        "rotation",
        "orientation",
        "mirrored",
        "flipped",
    ),
}
"""Words in the names of columns that say what positions mean, whatever their values are."""
COUNTING = {
    *("exclude", "excluded", "include", "included", "valid", "invalid", "bad", "good", "ok", "reject", "rejected"),
    *("discard", "discarded", "keep", "kept", "drop", "dropped", "use", "used", "practice", "artifact", "outlier"),
}
"""Words in the names of columns that say which rows count."""
OTHER_PLACE = {*("mm", "cm", "inch", "inches", "bottom", "lower", "up", "upward", "upwards")}
"""Words in the names of columns of positions that are not pixels from the upper left corner."""
USUAL_VALUES = {"", "px", "pixel", "pixels", "top left", "top-left", "topleft", "upper left"}
"""Values of such columns that say what is usual: pixels, from the upper left corner."""
EVENT_COLUMNS = ("event", "event type", "eye movement type", "gazeeventtype")
"""Usual names of columns of events. Columns of other names tell events if their cells are words for these."""
TRUE, FALSE = ("1", "1.0", "true", "yes", "valid"), ("0", "0.0", "false", "no", "invalid", "not mapped")
"""Values of a column that says whether a row is valid, in lower case."""
VALID_OF_EXPORTS = ROLES["valid"][:5]
"""Columns of known exports that say by 1 or true that a row is valid."""
MEDIA = ("media x", "media y", "media width", "media height")


def plain(name: str) -> tuple[str, str]:
    """Split a column's name into its words, in lower case, and its unit.

    Example: `Fix_X [px]` becomes (`fix x`, `px`). `# x` becomes (`x`, ``), since NumPy writes `# ` before the
    first name.
    """
    name, unit = _without_unit(name.strip().lower().removeprefix("# "))
    words = re.sub(r"[\s_.\-]+", " ", name).strip()
    if not unit and (match := re.fullmatch(r"(.+) (px|pix|pixels|ms|norm|deg|pct|percent)", words)):
        words, unit = match[1], match[2]
    return words, unit


def _without_unit(name: str) -> tuple[str, str]:
    """Split `x [px]` or `x (px)` into x and px. The unit is empty if there is none in brackets at the end."""
    begin = -1
    if name.endswith("]"):
        begin = name.find("[", 1)
    elif name.endswith(")"):
        begin = name.find("(", max(1, name.rfind(")", 0, -1) + 1))
    return (name[:begin].rstrip(), name[begin + 1 : -1].strip()) if begin > 0 else (name, "")


def is_about_positions(name: str, values: Iterable[str]) -> bool:
    """Whether a column says what positions mean, by its name or its values, and not what is usual.

    Examples: `unit` with mm, `screen_width`, and a column of any name with the value mm alone.
    """
    found = {value.strip().lower() for value in values}
    words = set(_words(name))
    is_unit = bool(found) and found <= {*UNITS, "mm", "cm", "in", "inch", "inches"}
    is_moved = bool(words & {"offset", "drift", "shift", "direction", "corrected"} and words & {"x", "y"})
    is_moved |= bool(words & {"top", "bottom", "w", "h", "width", "height"})
    return (is_unit or is_moved or bool(words & ABOUT_POSITIONS)) and not found <= USUAL_VALUES


def is_usual_place(axis: str, name: str) -> bool:
    """Whether the name of a column of positions, x or y, says nothing unusual about them.

    Examples of unusual names: `y_from_bottom`, `x_mm`, `screen_x`, and `row` for x.
    """
    words = set(_words(_without_unit(name.strip())[0]))
    return not words & {*ABOUT_POSITIONS, *OTHER_PLACE, "row" if axis == "x" else "col"} - {"coordinate", "coord"}


def _words(name: str) -> list[str]:
    """The words of a name, in lower case, without numbers. Example: screenWidth has screen and width."""
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def is_usual(words: str) -> bool:
    """Whether a column of images may have this name, in the form that `plain` returns. Example: `left image`."""
    return words in ROLES["image"] or words.rpartition(" ")[2] in IMAGE_WORDS


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of one table."""

    index: dict[str, int]
    """What a column holds (a key of ROLES, x or y) -> its position in the table, from 0."""
    unit: str
    """A unit of `coordinates`, or empty if the names do not tell."""
    on: str
    """SCREEN or IMAGE, or empty if the names do not tell."""
    unknown_unit: str
    """The unit of x or y in the header if it is not one of UNITS, else empty. Example: mm."""
    upwards: bool | None
    """Whether y grows upwards, if a known name or the user says so. None: as is usual for the unit."""
    is_centered: bool = False
    """Whether the names say that positions are from the centre."""
    scene_camera: str = ""
    """The column that tells that positions are on the pictures of a scene camera, or empty."""
    is_mapped: bool = False
    """Whether the names say that positions were mapped to one image, or one surface."""
    mapped: tuple[tuple[str, int, int], ...] = ()
    """For each image that the header names: its name, and the columns x and y of the positions on it."""

    @property
    def has_positions(self) -> bool:
        """Whether x and y were found."""
        return "x" in self.index and "y" in self.index


def find_columns(
    header: Sequence[str], named: Mapping[str, str], is_empty: Callable[[int], bool] = lambda _: False
) -> Columns:
    """Find the columns of a table by their names. Of several with one name the first is taken.

    Args:
        header: the names of all columns.
        named: what a column holds -> the name that the user gives it. It comes before the usual names. For y, a
            minus before the name says that its values grow upwards, a plus that they grow downwards.
        is_empty: whether a column is known to have no values: other columns of positions are preferred.
    """
    exact = {name.strip().lower(): position for position, name in reversed(list(enumerate(header)))}
    words = [plain(name) for name in header]
    index: dict[str, int] = {}
    upwards = None
    for role, name in named.items():
        name = name.lower()
        if role == "y" and name[:1] in ("-", "+") and name not in exact:
            name, upwards = name[1:], name[0] == "-"
        if name in exact:
            index[role] = exact[name]
    pair = Pair("", "")
    if "x" in named:
        x_and_y = [words[index[role]][0] for role in ("x", "y") if role in index]
        pair = next((each for each in PAIRS if [each.x, each.y] == x_and_y and _is_beside(each, words)), pair)
    elif known := _find_pair(words, is_empty):
        pair, index["x"], index["y"] = known
    units = [words[index[role]][1] for role in ("x", "y") if role in index]
    first = {word: position for position, (word, _) in reversed(list(enumerate(words)))}
    if "fpogx" in first:  # Gazepoint's `USER` holds marks of the experiment
        first.pop("user", None)
    for role, names in ROLES.items():
        free = [first[name] for name in names if name in first and first[name] not in index.values()]
        if free and role not in named:
            index[role] = free[0]
    mapped: tuple[tuple[str, int, int], ...] = ()
    if "x" not in named and pair.x == PAIRS[0].x:
        y_of = {unit: position for position, (word, unit) in enumerate(words) if word == pair.y}
        mapped = tuple(
            (unit, x, y_of[unit]) for x, (word, unit) in enumerate(words) if word == pair.x and unit in y_of
        )
        units = []
    is_mapped = any(word in MAPPED for word, _ in words)
    scene = next((header[first[word]] for word in SCENE_CAMERA if word in first), "")
    if pair.x == "norm pos x" and not scene:
        scene = header[index["x"]]
    return Columns(
        index,
        unit=UNITS.get(units[0], pair.unit) if units else pair.unit,
        on=ON.get(units[0], pair.on) if units else pair.on,
        unknown_unit=next((unit for unit in units if unit and unit not in UNITS), ""),
        upwards=upwards if upwards is not None else pair.upwards or None,
        is_centered=pair.x in CENTERED_PAIRS,
        scene_camera="" if is_mapped or "x" in named else scene,
        is_mapped=is_mapped,
        mapped=mapped,
    )


def _is_beside(pair: Pair, words: Sequence[tuple[str, str]]) -> bool:
    return not pair.beside or any(word == pair.beside for word, _ in words)


def _find_pair(words: Sequence[tuple[str, str]], is_empty: Callable[[int], bool]) -> tuple[Pair, int, int] | None:
    """The preferred pair of positions and their columns.

    If several columns have one name, the first with values is preferred, and among these a column of
    fractions.
    """
    positions = {word: position for position, word in reversed(list(enumerate(words)))}
    for pair in PAIRS:
        units = [unit for word, unit in words if word == pair.x and (pair.y, unit) in positions]
        if units and _is_beside(pair, words):
            unit = min(
                units, key=lambda unit: (is_empty(positions[pair.x, unit]), UNITS.get(unit) != FRACTION)
            )  # the first of several
            return pair, positions[pair.x, unit], positions[pair.y, unit]
    return None
