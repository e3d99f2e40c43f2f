"""The exports of eye trackers, written for a made-up study.

Headers are facts about public files and manuals (docs/data.md names them); rows are those of the study.
"""

import csv
import dataclasses
import io
import itertools
from collections.abc import Callable, Iterable, Sequence

from tests.trainer.data.recordings.study import NAMES, SIZES, Draw, Fixation, Study

SCREEN = (1920, 1080)
"""(width, height) of a screen that is larger than the pictures, pixels."""
TRIAL_MS = 12_000
"""Time from the beginning of a trial to that of the next."""
FLAT_NAMES: dict[str, float] = {name: weight for name, weight in NAMES.items() if "folders" not in name}
ONE_SIZE = {name: sizes for name, sizes in SIZES.items() if len(sizes) == 1}
NO_BLANKS = {name: weight for name, weight in FLAT_NAMES.items() if name not in ("words with blanks", "umlauts")}


@dataclasses.dataclass(frozen=True)
class Text:
    """How a table is written."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    quotes: int = csv.QUOTE_MINIMAL
    blank: str = ""
    """What follows a delimiter."""
    newline: str = "\n"
    has_header: bool = True
    before: str = ""
    """Lines before the header."""

    def number(self, value: float | None, digits: int) -> str:
        """A number with this many decimals; empty for None."""
        return "" if value is None else f"{value:.{digits}f}".replace(".", self.decimal)

    def encoded(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
        """The bytes of a table."""
        written = io.StringIO()
        writer = csv.writer(written, delimiter=self.delimiter, lineterminator=self.newline, quoting=self.quotes)
        writer.writerows([header, *rows] if self.has_header else rows)
        text = self.before + written.getvalue()
        if self.blank:
            text = text.replace(self.delimiter, self.delimiter + self.blank)
        return text.encode(self.encoding)


@dataclasses.dataclass
class Table:
    """A table below the source."""

    path: str
    header: list[str]
    rows: list[list[str]]
    text: Text = Text()

    def content(self) -> bytes:
        """The bytes of its file."""
        return self.text.encoded(self.header, self.rows)


@dataclasses.dataclass(frozen=True)
class Export:
    """What writes the export of one program, and what it needs."""

    write: Callable[[Draw, Study], list[Table]]
    weight: float = 1
    names: dict[str, float] = dataclasses.field(default_factory=lambda: FLAT_NAMES)
    sizes: dict = dataclasses.field(default_factory=lambda: SIZES)
    is_of_camera: bool = False
    """Whether positions are those of a camera, so that nobody can read them as positions in pictures."""


def time_ms(fixation: Fixation) -> int:
    """The time of a fixation since the recording began."""
    return fixation.trial * TRIAL_MS + fixation.start_ms


def by_person(study: Study) -> list[list[Fixation]]:
    """The fixations of each person, in order."""
    return [[each for each in study.fixations if each.person == index] for index in range(len(study.people))]


def split_by_person(draw: Draw, study: Study, table: Table, rows: Sequence[list[list[str]]]) -> list[Table]:
    """One table with the rows of all people, or one for each; the table's path has `{}` where a label belongs."""
    if draw.pick("tables", {"one": 1, "one for each person": 1}) == "one":
        path = table.path.format("all")
        return [dataclasses.replace(table, path=path, rows=list(itertools.chain.from_iterable(rows)))]
    return [
        dataclasses.replace(table, path=table.path.format(label), rows=own)
        for label, own in zip(study.people, rows, strict=True)
    ]


def on_screen(draw: Draw, study: Study) -> Callable[[Fixation], tuple[float, float, int, int]]:
    """Choose where pictures are on the screen: what gives (x, y) of a fixation there, and the screen's (w, h)."""
    where = draw.pick("screen", {"filled": 5, "larger than the pictures": 1})
    draw.ask("pictures smaller than the screen, at a place that nobody names", where != "filled")

    def place(each: Fixation) -> tuple[float, float, int, int]:
        width, height = study.sizes[each.picture]
        if where == "filled":
            return each.x, each.y, width, height
        return each.x + (SCREEN[0] - width) / 2, each.y + (SCREEN[1] - height) / 2, *SCREEN

    return place


# === Tobii ===


def tobii(draw: Draw, study: Study) -> list[Table]:
    """Tobii Pro Lab: a row for each sample, also of the mouse and of saccades."""
    form = draw.pick("Tobii", {"MCSnorm": 1, "MCS norm": 1, "media position": 1, "MCS norm empty": 1})
    wide = draw.chance(0.5)
    text = Text("\t", ",", "utf-16") if wide else Text("\t")
    name, names = draw.any_of((("Presented Stimulus name", study.stems), ("Presented Media name", study.cells)))
    dacs, mcs = ("", " (MCSnorm)") if form == "MCSnorm" else (" [DACS px]", " [MCS norm]")
    header = ["Recording timestamp [ms]", "Sensor", "Participant name", "Recording name", name]
    header += ["Presented Media width [px]", "Presented Media height [px]"]
    header += ["Presented Media position X [DACS px]", "Presented Media position Y [DACS px]"]
    header += ["Eye movement type", "Gaze event duration [ms]", "Eye movement type index"]
    header += [f"Fixation point X{dacs}", f"Fixation point Y{dacs}"]
    header += [f"Fixation point X{mcs}", f"Fixation point Y{mcs}"] if form != "media position" else []

    def rows(person: int, fixations: Sequence[Fixation]) -> list[list[str]]:
        lines = []
        for index, each in enumerate(fixations, 1):
            width, height = study.sizes[each.picture]
            left, top = (SCREEN[0] - width) // 2, (SCREEN[1] - height) // 2
            media = [names[each.picture], str(width), str(height), str(left), str(top)]
            who = [study.people[person], f"Rec {study.people[person]}"]
            position = [text.number(each.x + left, 1), text.number(each.y + top, 1)]
            if form != "media position":
                shares = [text.number(each.x / width, 4), text.number(each.y / height, 4)]
                position += ["", ""] if form == "MCS norm empty" else shares
            empty = [""] * len(position)
            for sample in range(2):
                time = str(time_ms(each) + 8 * sample)
                what = ["Fixation", str(each.duration_ms), str(index)]
                lines.append([time, "Eye Tracker", *who, *media, *what, *position])
            time = str(time_ms(each) + each.duration_ms)
            lines.append([time, "Eye Tracker", *who, *media, "Saccade", "30", str(index), *empty])
            if index % 5 == 0:
                lines.append([time, "Mouse", *who, *media, "", "", "", *empty])
        return lines

    parts = [rows(person, own) for person, own in enumerate(by_person(study))]
    return split_by_person(draw, study, Table("Study Data Export {}.tsv", header, [], text), parts)


def tobii_studio(draw: Draw, study: Study) -> list[Table]:
    """Tobii Studio: positions in pixels of the medium."""
    text = draw.any_of((Text("\t", encoding="utf-8-sig"), Text("\t", ",", "utf-16")))
    header = [
        "ParticipantName",
        "RecordingName",
        "MediaName",
        "RecordingTimestamp",
        "FixationIndex",
        "SaccadeIndex",
    ]
    header += ["GazeEventType", "GazeEventDuration", "FixationPointX (MCSpx)", "FixationPointY (MCSpx)"]
    parts = []
    for person, fixations in enumerate(by_person(study)):
        parts.append(lines := [])
        for index, each in enumerate(fixations, 1):
            who = [study.people[person], f"Rec {study.people[person]}", study.cells[each.picture]]
            position = [text.number(each.x, 0), text.number(each.y, 0)]
            for sample in range(2):
                time = str(time_ms(each) + 8 * sample)
                lines.append([*who, time, str(index), "", "Fixation", str(each.duration_ms), *position])
            time = str(time_ms(each) + each.duration_ms)
            lines.append([*who, time, "", str(index), "Saccade", "33", "", ""])
            if index % 7 == 0:
                lines.append([*who, time, "", "", "Unclassified", "17", "", ""])
    return split_by_person(draw, study, Table("export_{}.tsv", header, [], text), parts)


def tobii_glasses(draw: Draw, study: Study) -> list[Table]:
    """Tobii Pro Lab with pictures that gaze was mapped to: the name of a picture is in the header."""
    text = Text("\t")
    header = ["Recording timestamp [ms]", "Participant name", "Recording name", "Eye movement type"]
    header += ["Gaze event duration [ms]", "Eye movement type index", "Fixation point X", "Fixation point Y"]
    for stem in study.stems:
        header += [f"Mapped fixation X [{stem}]", f"Mapped fixation Y [{stem}]"]
    parts = []
    for person, fixations in enumerate(by_person(study)):
        parts.append(lines := [])
        for index, each in enumerate(fixations, 1):
            who = [study.people[person], f"Rec {study.people[person]}"]
            camera = [str(draw.integer(400, 1500)), str(draw.integer(200, 900))]
            mapped = [""] * 2 * len(study.paths)
            mapped[2 * each.picture : 2 * each.picture + 2] = [text.number(each.x, 0), text.number(each.y, 0)]
            for sample in range(2):
                what = ["Fixation", str(each.duration_ms), str(index), *camera, *mapped]
                lines.append([str(time_ms(each) + 20 * sample), *who, *what])
            saccade = ["Saccade", "40", str(index), "", "", *[""] * len(mapped)]
            lines.append([str(time_ms(each) + each.duration_ms), *who, *saccade])
    return split_by_person(draw, study, Table("glasses {}.tsv", header, [], text), parts)


def tobii_glasses_unmapped(draw: Draw, study: Study) -> list[Table]:
    """Tobii Pro Lab of glasses without a mapped picture: positions of the scene camera."""
    tables = tobii_glasses(draw, study)
    draw.ask("positions of the scene camera")
    for table in tables:
        table.header = [*table.header[:8], "Presented Stimulus name"]
        table.rows = [[*row[:8], draw.any_of(study.stems)] for row in table.rows]
    return tables


# === Other trackers of screens ===


def eyelink(draw: Draw, study: Study) -> list[Table]:
    """EyeLink Data Viewer's fixation report: pixels of the screen, and the experiment's own variables."""
    text = Text("\t", encoding="utf-8-sig")
    place = on_screen(draw, study)
    who = draw.pick("EyeLink's observer", {"RECORDING_SESSION_LABEL": 3, "subjectnum": 1})
    image = draw.pick("EyeLink's image", {"image": 2, "picture": 1, "imagefile": 1, "searcharray": 1})
    is_sorted = draw.pick("order of rows", {"person": 2, "picture": 1}) == "picture"
    header = [who, "TRIAL_INDEX", "CURRENT_FIX_INDEX", "CURRENT_FIX_START", "CURRENT_FIX_DURATION"]
    header += ["CURRENT_FIX_X", "CURRENT_FIX_Y", "CURRENT_FIX_PUPIL", image, "condition"]
    rows = []
    fixations = study.fixations
    if is_sorted:
        fixations = sorted(fixations, key=lambda each: (each.picture, each.person, each.number))
    for each in fixations:
        x, y, *_ = place(each)
        row = [study.people[each.person], str(each.trial), str(each.number), str(each.start_ms)]
        row += [str(each.duration_ms), text.number(x, 1), text.number(y, 1), str(draw.integer(500, 1500))]
        rows.append([*row, study.cells[each.picture], draw.any_of(("free", "search"))])
        if draw.chance(0.01):
            rows.append([*row[:5], ".", ".", ".", study.cells[each.picture], "free"])
    return [Table("fixation_report.xls" if draw.chance(0.5) else "Output/fixreport.txt", header, rows, text)]


def gazepoint(draw: Draw, study: Study) -> list[Table]:
    """Gazepoint Analysis: fractions of the screen, tables of fixations or samples for each user, or both."""
    place = on_screen(draw, study)
    kinds = draw.pick("Gazepoint's tables", {"fixations": 2, "all_gaze": 1, "both": 1})
    header = ["MEDIA_ID", "MEDIA_NAME", "CNT", "TIME(2026/01/01 10:00:00.000)", "TIMETICK(f=10000000)"]
    header += ["FPOGX", "FPOGY", "FPOGS", "FPOGD", "FPOGID", "FPOGV", "BPOGX", "BPOGY", "BPOGV", "USER", "AOI", ""]
    tables = []
    for person, fixations in enumerate(by_person(study)):
        rows = {"fixations": [], "all_gaze": []}
        for count, each in enumerate(fixations, 1):
            x, y, width, height = place(each)
            for sample in range(3):
                shift = 0.004 * (2 - sample)  # the last row has the final position
                fraction = [f"{x / width + shift:.5f}", f"{y / height - shift:.5f}"]
                time_s = time_ms(each) / 1000 + 0.016 * sample
                row = [str(each.picture), study.cells[each.picture], str(3 * count + sample), f"{time_s:.5f}"]
                row += [str(int(time_s * 1e7)), *fraction, f"{each.start_ms / 1000:.5f}"]
                row += [f"{each.duration_ms / 1000 if sample == 2 else 0.016 * sample:.5f}", str(count), "1"]
                row += [*fraction, "1", study.people[person], "", ""]
                rows["all_gaze"].append(row)
            rows["fixations"].append(row)
            lost = [*row[:5], "0.00000", "0.00000", *row[7:10], "0", "0.00000", "0.00000", "0", *row[14:]]
            if draw.chance(0.05):
                rows["all_gaze"].append(lost)
        for kind in ("all_gaze", "fixations"):
            if kinds in (kind, "both"):
                tables.append(Table(f"result/User {study.people[person]}_{kind}.csv", header, rows[kind]))
    return tables


def smi(draw: Draw, study: Study) -> list[Table]:
    """SMI BeGaze's event statistics: pixels of the screen."""
    text = Text("\t", draw.any_of((",", ".")), "latin-1", before="## [BeGaze]\n## Subject:\tall\n")
    place = on_screen(draw, study)
    header = ["Trial", "Stimulus", "Participant", "Category", "Event Start Trial Time [ms]", "Event Duration [ms]"]
    header += ["Fixation Position X [px]", "Fixation Position Y [px]", "AOI Name"]
    rows = []
    for each in study.fixations:
        x, y, *_ = place(each)
        who = [f"Trial{each.trial:03d}", study.cells[each.picture], study.people[each.person]]
        times = [text.number(each.start_ms, 1), text.number(each.duration_ms, 1)]
        position = [text.number(x, 1), text.number(y, 1)]
        rows.append([*who, "Fixation", *times, *position, "White Space"])
        times = [text.number(each.start_ms + each.duration_ms, 1), text.number(25, 1)]
        rows.append([*who, draw.any_of(("Saccade", "Saccade", "Blink")), *times, "-", "-", "-"])
    return [Table("Event Statistics - Single.txt", header, rows, text)]


def imotions(draw: Draw, study: Study) -> list[Table]:
    """iMotions: a table for each respondent with lines about it before the header, and a row for each sample."""
    place = on_screen(draw, study)
    header = ["Row", "Timestamp", "EventSource", "SlideEvent", "StimType", "CollectionPhase", "SourceStimuliName"]
    header += ["Gaze X", "Gaze Y", "Fixation X", "Fixation Y", "Fixation Start", "Fixation End"]
    header += ["Fixation Duration", "Fixation Index"]
    tables = []
    for person, fixations in enumerate(by_person(study)):
        rows = []
        for index, each in enumerate(fixations, 1):
            x, y, *_ = place(each)
            start = time_ms(each)
            event = [start, start + each.duration_ms, each.duration_ms, index]
            for sample in range(3):
                row = [str(len(rows) + 1), str(start + 16 * sample), "1", "", "TestImage", ""]
                row += [
                    study.stems[each.picture],
                    f"{x + draw.integer(-4, 4):.2f}",
                    f"{y + draw.integer(-4, 4):.2f}",
                ]
                rows.append([*row, f"{x:.2f}", f"{y:.2f}", *map(str, event)])
            row = [str(len(rows) + 1), str(start + each.duration_ms), "1", "", "TestImage", ""]
            rows.append([*row, study.stems[each.picture], f"{x + 40:.2f}", f"{y:.2f}", *[""] * 6])
        before = f"#INFO,,\n#Study name,ads\n#Respondent Name,{study.people[person]}\n#DATA,,\n"
        path = f"Sensor Data/{person + 1:03d}_{study.people[person]}.csv"
        tables.append(Table(path, header, rows, Text(encoding="utf-8-sig", before=before)))
    return tables


# === Pictures, percent and events ===


def bids(draw: Draw, study: Study) -> list[Table]:
    """BIDS: a table of events for each participant."""
    text = Text("\t")
    has_id = draw.chance(0.5)
    header = ["onset", "duration", "trial_type", *(["participant_id"] if has_id else [])]
    header += ["stim_file", "x_coordinate", "y_coordinate"]
    tables = []
    for label, fixations in zip(study.people, by_person(study), strict=True):
        rows = []
        for each in fixations:
            who = [f"sub-{label}"] if has_id else []
            picture = study.paths[each.picture]
            start_s = time_ms(each) / 1000
            what = [f"{start_s:.3f}", f"{each.duration_ms / 1000:.3f}", "fixation", *who, picture]
            rows.append([*what, f"{each.x:.2f}", f"{each.y:.2f}"])
            what = [f"{start_s + each.duration_ms / 1000:.3f}", "0.030", "saccade", *who, picture]
            rows.append(
                [*what, "n/a", "n/a"] if draw.chance(0.5) else [*what, f"{each.x + 30:.2f}", f"{each.y:.2f}"]
            )
        tables.append(Table(f"sub-{label}/beh/sub-{label}_task-view_events.tsv", header, rows, text))
    return tables


def realeye(draw: Draw, study: Study) -> list[Table]:
    """RealEye: percent of the displayed item."""
    header = ["study_id", "item_id", "item_filename", "participant_id", "participant_quality_grade"]
    header += ["test_item_display_order", "fixation_point_x", "fixation_point_y", "fixation_starts_at_ms"]
    header += ["fixation_ends_at_ms", "fixation_duration_ms"]
    rows = []
    for each in study.fixations:
        width, height = study.sizes[each.picture]
        row = ["st1", f"it{each.picture}", study.cells[each.picture], study.people[each.person], "5"]
        row += [str(each.trial), f"{100 * each.x / width:.4f}", f"{100 * each.y / height:.4f}", str(each.start_ms)]
        rows.append([*row, str(each.start_ms + each.duration_ms), str(each.duration_ms)])
    return [Table("fixations.csv", header, rows)]


def pymovements(draw: Draw, study: Study) -> list[Table]:
    """pymovements: events, fixations and saccades, named in the column `name`."""
    header = ["subject_id", "stimulus", "name", "onset", "offset", "duration", "location_x", "location_y"]
    rows = []
    for each in study.fixations:
        start, end = each.start_ms, each.start_ms + each.duration_ms
        who = [study.people[each.person], study.cells[each.picture]]
        times = [str(start), str(end), str(each.duration_ms)]
        rows.append([*who, "fixation", *times, f"{each.x:.1f}", f"{each.y:.1f}"])
        rows.append([*who, "saccade", str(end), str(end + 30), "30", f"{each.x + 25:.1f}", f"{each.y + 9:.1f}"])
    return [Table("events.csv", header, rows)]


# === Pupil Labs ===


def pupil_surfaces(draw: Draw, study: Study) -> list[Table]:
    """Pupil Player: a table for each recording and surface, a row for each frame, y upwards."""
    on = draw.pick("Pupil's column", {"on_surf": 3, "on_srf": 1})
    header = ["world_timestamp", "world_index", "fixation_id", "start_timestamp", "duration", "dispersion"]
    header += ["norm_pos_x", "norm_pos_y", "x_scaled", "y_scaled", on]
    tables = []
    for person, fixations in enumerate(by_person(study)):
        seen = sorted({each.picture for each in fixations})
        rows = {picture: [] for picture in seen}
        for index, each in enumerate(fixations, 1):
            for picture in {each.picture, draw.any_of(seen)}:
                width, height = study.sizes[picture]
                x, y = each.x / width, 1 - each.y / height
                if picture != each.picture:
                    x, y = x + 1.5, y - 1.2
                for frame in range(2):
                    time_s = 1000 * person + time_ms(each) / 1000
                    row = [f"{time_s + frame / 30:.3f}", str(30 * index + frame), str(index), f"{time_s:.3f}"]
                    row += [str(each.duration_ms), "0.5", f"{x:.6f}", f"{y:.6f}", f"{x * width:.2f}"]
                    rows[picture].append([*row, f"{y * height:.2f}", str(picture == each.picture)])
        for picture, lines in rows.items():
            file = f"fixations_on_surface_{study.stems[picture]}.csv"
            tables.append(Table(f"{study.people[person]}/exports/000/surfaces/{file}", header, lines))
    return tables


def neon_mapper(draw: Draw, study: Study) -> list[Table]:
    """Pupil Cloud's Reference Image Mapper: a folder for each picture, with all recordings."""
    study.paths = [f"{stem}/reference_image.jpeg" for stem in study.stems]
    header = ["section id", "recording id", "fixation id", "start timestamp [ns]", "end timestamp [ns]"]
    header += ["duration [ms]", "fixation detected in reference image", "fixation x [px]", "fixation y [px]"]
    parts = {picture: [] for picture in range(len(study.paths))}
    for each in study.fixations:
        start = 1_700_000_000 * 10**9 + (each.person * 10**7 + time_ms(each)) * 10**6
        who = [f"s{each.person}-{each.trial}", f"rec-{study.people[each.person]}", str(each.number)]
        times = [str(start), str(start + each.duration_ms * 10**6), str(each.duration_ms)]
        parts[each.picture].append([*who, *times, "True", f"{each.x:.3f}", f"{each.y:.3f}"])
        if draw.chance(0.1):
            parts[each.picture].append([*who[:2], str(each.number + 100), *times, "False", "", ""])
    tables = []
    for stem, rows in zip(study.stems, parts.values(), strict=True):
        tables.append(Table(f"{stem}/fixations.csv", header, rows))
        sections = sorted({(row[0], row[1]) for row in rows})
        tables.append(
            Table(f"{stem}/sections.csv", ["section id", "recording id"], [list(row) for row in sections])
        )
    return tables


def neon_raw(draw: Draw, study: Study) -> list[Table]:
    """Pupil Cloud's raw fixations beside a picture: pixels of the scene camera."""
    tables = neon_mapper(draw, study)
    draw.ask("positions of the scene camera")
    for table in tables:
        if table.path.endswith("fixations.csv"):
            table.header = [*table.header[:6], *table.header[7:], "azimuth [deg]", "elevation [deg]"]
            table.rows = [
                [
                    *row[:6],
                    f"{draw.random.uniform(300, 1300):.3f}",
                    f"{draw.random.uniform(200, 1000):.3f}",
                    "1.5",
                    "-2",
                ]
                for row in table.rows
            ]
    return tables


def pupil_world(draw: Draw, study: Study) -> list[Table]:
    """Pupil Player's fixations of the world camera beside pictures."""
    draw.ask("positions of the scene camera")
    study.paths = [f"rec{stem}/{cell}" for stem, cell in zip(study.stems, study.cells, strict=True)]
    header = ["id", "start_timestamp", "duration", "start_frame_index", "end_frame_index", "norm_pos_x"]
    header += ["norm_pos_y", "dispersion", "confidence", "method", "gaze_point_3d_x", "gaze_point_3d_y"]
    header += ["gaze_point_3d_z", "base_data"]
    parts = {picture: [] for picture in range(len(study.paths))}
    for each in study.fixations:
        position = [f"{value:.5f}" for value in draw.random.normal(0.5, 0.15, 2)]
        row = [str(each.number), str(time_ms(each) / 1000), str(each.duration_ms), "3", "9", *position]
        parts[each.picture].append([*row, "0.9", "0.98", "3d gaze", "1", "2", "300", "100"])
    return [Table(f"rec{study.stems[picture]}/fixations.csv", header, rows) for picture, rows in parts.items()]


EXPORTS = {
    "Tobii Pro Lab": Export(tobii, 3),
    "Tobii Studio": Export(tobii_studio),
    "Tobii glasses": Export(tobii_glasses),
    "Tobii glasses, not mapped": Export(tobii_glasses_unmapped, 0.5, is_of_camera=True),
    "EyeLink": Export(eyelink, 2, sizes=ONE_SIZE),
    "Gazepoint": Export(gazepoint, sizes=ONE_SIZE),
    "SMI": Export(smi, names=NO_BLANKS, sizes=ONE_SIZE),
    "iMotions": Export(imotions, sizes=ONE_SIZE),
    "BIDS": Export(bids, names=NAMES),
    "RealEye": Export(realeye),
    "pymovements": Export(pymovements),
    "Pupil surfaces": Export(pupil_surfaces, names=NO_BLANKS),
    "Neon mapper": Export(neon_mapper, names=NO_BLANKS),
    "Neon raw": Export(neon_raw, 0.5, names=NO_BLANKS, is_of_camera=True),
    "Pupil world": Export(pupil_world, 0.5, names=NO_BLANKS, is_of_camera=True),
}
"""Program -> what writes its export."""
