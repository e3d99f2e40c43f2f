"""The columns of tables of fixations: their names in the exports of eye trackers and labs, and what they hold.

The names are facts about the exports (docs/data.md names the files that were read).
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

PIXELS, FRACTION, DEGREES = "pixels", "fraction", "degrees"
IMAGE, SCREEN = "image", "screen"
UNITS = {
    **dict.fromkeys(("px", "mcs px", "mcspx", "dacs px", "dacspx", "adcspx", "pixel", "pixels", "pix"), PIXELS),
    **dict.fromkeys(("norm", "mcs norm", "mcsnorm", "normalized", "normalised", "fraction"), FRACTION),
    **dict.fromkeys(("deg", "degree", "degrees", "°", "dva"), DEGREES),
}
"""Unit in the name of a column -> unit of `coordinates`."""
ON = {
    **dict.fromkeys(("dacs px", "dacspx", "adcspx"), SCREEN),
    **dict.fromkeys(("mcs px", "mcspx", "mcs norm", "mcsnorm"), IMAGE),
}
"""Tobii's units -> what a position is measured on: the display area, or the medium."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """The names of two columns, x and y, of positions of fixations."""

    x: str
    y: str
    unit: str = ""
    """PIXELS, FRACTION or DEGREES; empty if the name does not tell."""
    on: str = ""
    """SCREEN if these are positions on the screen, IMAGE if on the image; empty if the name does not tell."""
    upwards: bool = False
    """Whether y grows upwards."""
    no_observer: str = ""
    """The name of a column that is no observer beside these."""


PAIRS = (
    Pair("current fix x", "current fix y", PIXELS, SCREEN),  # EyeLink Data Viewer
    # Gazepoint, whose column USER holds marks of the experiment; each table is one observer.
    Pair("fpogx", "fpogy", FRACTION, SCREEN, no_observer="user"),
    Pair("norm pos x", "norm pos y", FRACTION, IMAGE, upwards=True),  # Pupil Player, on a surface
    Pair("fixation point x", "fixation point y", on=SCREEN),  # Tobii Pro Lab, after which its unit follows
    Pair("fixationpointx", "fixationpointy", on=SCREEN),  # Tobii Studio
    Pair("mappedfixationpointx", "mappedfixationpointy", PIXELS),
    Pair("fixation position x", "fixation position y", PIXELS),  # SMI BeGaze
    Pair("location x", "location y", PIXELS),  # its text of events
    Pair("fixation x", "fixation y"),  # Pupil Cloud: [normalized] of a surface, [px] of a reference image
    Pair("fixation position on surface x", "fixation position on surface y", FRACTION, IMAGE),
    Pair("x coordinate", "y coordinate"),  # BIDS
    Pair("fix x", "fix y"),
    Pair("fixx", "fixy"),
    Pair("fixationx", "fixationy"),
    Pair("x fixation", "y fixation"),
    Pair("fixation pos x", "fixation pos y"),
    Pair("average gaze x", "average gaze y"),
    Pair("gavx", "gavy", PIXELS, SCREEN),  # eyelinkReader
    Pair("xp", "yp"),
    Pair("pos x", "pos y"),
    Pair("posx", "posy"),
    Pair("x pos", "y pos"),
    Pair("xpos", "ypos"),
    Pair("x position", "y position"),
    Pair("position x", "position y"),
    Pair("mean x", "mean y"),
    Pair("avg x", "avg y"),
    Pair("coord x", "coord y"),
    Pair("x norm", "y norm", FRACTION),
    Pair("norm x", "norm y", FRACTION),
    Pair("x deg", "y deg", DEGREES),
    Pair("x", "y"),
    Pair("start x", "start y"),  # REMoDNaV
)
"""Known pairs in the order of preference, with the names that `plain` returns."""
SAMPLES = (
    *("gaze point x", "gazepointx", "bpogx", "gaze x", "gazex"),
    *("gaze position x", "left gaze x", "gaze left x"),
)
"""Columns of single samples of the gaze, of which an eye tracker's software makes fixations."""

ROLES = {
    role: [name.strip() for name in names.split(",")]
    for role, names in {
        "image": """
            image, image name, imagename, image file, image filename, image path, image id, img, stimulus,
            stimulus name, stimulusname, stimulus file, stimulus id, stim, stim file, stim id,
            presented stimulus name, presented media name, media name, medianame, media, picture, picture name,
            picture file, pic, photo, surface, surface name, filename, file name, file, background, item,
            media id, trial label, bild, bildname, afbeelding, nom image""",
        "observer": """
            observer, observer id, participant, participant id, participant name, participantname, subject,
            subject id, subject nr, subjectid, subj, subj id, sub, sub id, user, user id, user name,
            recording session label, respondent, viewer, worker, worker id, participant nr, participant code,
            code participant, participant no, participante, sujet, versuchsperson, versuchspersonen nr, vp,
            vp nr, vp code, vpn, proband, probanden nr, teilnehmer, teilnehmer nr, proefpersoon,
            proefpersoon nr, ppn, deelnemer, deelnemer nr, pid, recording id, recording name, recordingname,
            session id""",
        "trial": """
            trial, trial id, trial index, trial number, trialid, trial nr, trial no, count trial sequence,
            recording name, recordingname, recording id, section id, session, session id""",
        "duration": """
            duration, fixation duration, fixationduration, fix duration, gaze event duration, fpogd, dur,
            eye movement event duration, gazeeventduration, current fix duration, event duration, dauer,
            fixationsdauer, duur, fixatieduur, durée, duree, durée fixation""",
        "time": """
            fpogs, current fix start, event start trial time, fixation start, start timestamp, start,
            start time, starttime, onset, time, timestamp, recording timestamp, recordingtimestamp""",
        "fixation": """
            fixation id, fixationid, fixation index, fixationindex, fixation number, fixation, fixation nr,
            fixation no, fixationsnummer, fixatienummer, no fixation, fix index, eye movement type index,
            current fix index, fpogid, fix id, index""",
        "valid": """
            fpogv, fixation detected on surface, fixation detected in reference image, on surf, on surface,
            fixation status, valid, is valid""",
        "event": """
            eye movement type, gazeeventtype, category, event type, event, trial type, label, type""",
        "split": """
            split, subset, set, partition, fold""",
    }.items()
}
"""What a column holds -> its usual names in the order of preference, in the form that `plain` returns."""
FIXATION_EVENT = "fix"
"""Prefix of the names of fixations in a column of events, in lower case."""
TRUE, FALSE = ("1", "1.0", "true", "yes", "valid"), ("0", "0.0", "false", "no", "invalid", "not mapped")
"""Values of a column that says whether a row is valid, in lower case."""


def plain(name: str) -> tuple[str, str]:
    """Split a column's name into its words, in lower case, and its unit: `Fix_X [px]` is (fix x, px)."""
    name = name.strip().strip('"').lower()
    unit = ""
    if match := re.fullmatch(r"(.+?)\s*[\[(]([^\])]*)[\])]\s*", name):
        name, unit = match[1], match[2].strip()
    words = re.sub(r"[\s_.\-]+", " ", name).strip()
    if not unit and (match := re.fullmatch(r"(.+) (px|pix|pixels|ms|norm|deg)", words)) and words not in _KNOWN:
        words, unit = match[1], match[2]
    return words, unit


_KNOWN = {name for pair in PAIRS for name in (pair.x, pair.y)}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of one table."""

    index: dict[str, int]
    """What a column holds (of NAMES) -> its position in the table, from 0."""
    unit: str
    """PIXELS, FRACTION or DEGREES; empty if the names do not tell."""
    on: str
    """SCREEN or IMAGE; empty if the names do not tell."""
    unknown_unit: str
    """The unit of x or y in the header if it is not one of UNITS, such as mm; else empty."""
    upwards: bool
    """Whether y grows upwards."""

    @property
    def has_positions(self) -> bool:
        """Whether x and y were found."""
        return "x" in self.index and "y" in self.index


def find_columns(header: Sequence[str], named: Mapping[str, str]) -> Columns:
    """Find the columns of a table by their names. Of several with one name the first is taken.

    Args:
        header: the names of all columns.
        named: what a column holds -> the name that the user gives it. It comes before the usual names. For y, a
            minus before the name says that its values grow upwards.
    """
    exact: dict[str, int] = {}
    for position, name in reversed(list(enumerate(header))):
        exact[name.strip().lower()] = position
    index, upwards = {}, False
    for role, name in named.items():
        if name.lower() in exact:
            index[role] = exact[name.lower()]
        elif role == "y" and name.startswith("-") and name[1:].lower() in exact:
            index[role], upwards = exact[name[1:].lower()], True
    words = [plain(name) for name in header]
    unit = on = no_observer = ""
    if "x" in named:
        if "x" in index:
            unit, on = _unit(words[index["x"]][1])
        x_and_y = [words[index[role]][0] if role in index else "" for role in ("x", "y")]
        known = next((pair for pair in PAIRS if [pair.x, pair.y] == x_and_y), None)
        if known:
            unit, on, upwards = unit or known.unit, on or known.on, upwards or known.upwards
    elif found := _find_pair(words):
        pair, x, y = found
        unit, on = _unit(words[x][1])
        unit, on, upwards = unit or pair.unit, on or pair.on, pair.upwards
        no_observer = pair.no_observer
        index.update(x=x, y=y)
    given = [words[index[role]][1] for role in ("x", "y") if role in index]
    unknown_unit = next((unit for unit in given if unit and unit not in UNITS), "")
    first = {word: position for position, (word, _) in reversed(list(enumerate(words)))}
    for role, names in ROLES.items():
        if role in named:
            continue
        taken = set(index.values())
        usable = (name for name in names if name in first and name != no_observer)
        candidates = (first[name] for name in usable if first[name] not in taken)
        if (chosen := next(candidates, None)) is not None:
            index[role] = chosen
    return Columns(index, unit, on, unknown_unit, upwards)


def image_candidates(header: Sequence[str]) -> list[int]:
    """Positions of the columns with a usual name for images, in the order of preference."""
    words = [plain(name)[0] for name in header]
    return [words.index(name) for name in ROLES["image"] if name in words]


def holds_samples(header: Sequence[str]) -> bool:
    """Whether the table has single samples of the gaze."""
    return any(plain(name)[0] in SAMPLES for name in header)


def _unit(text: str) -> tuple[str, str]:
    return UNITS.get(text, ""), ON.get(text, "")


def _find_pair(words: Sequence[tuple[str, str]]) -> tuple[Pair, int, int] | None:
    """The preferred pair of positions and their columns. Of columns of one name, fractions come first."""
    for pair in PAIRS:
        xs = {unit: position for position, (word, unit) in reversed(list(enumerate(words))) if word == pair.x}
        ys = {unit: position for position, (word, unit) in reversed(list(enumerate(words))) if word == pair.y}
        both = [unit for unit in xs if unit in ys]
        if both:
            unit = min(both, key=lambda unit: (UNITS.get(unit) != FRACTION, xs[unit]))
            return pair, xs[unit], ys[unit]
    return None
