"""What rows tell about themselves: each doubt is raised on its kind of rows, and not on their honest twin.

The word `coordinates=pixels` settles what positions mean, so that a doubt is about the rows alone.
"""

import itertools

import numpy as np
import pytest

from tests.refusals import refused
from tests.trainer.data.recordings.recorded import rows, understand, write_images, write_table
from trainer.data import propose_reading
from trainer.data.recordings.questions import AmbiguousReadingsError
from trainer.data.settings import FetchConfig
from trainer.errors import AmbiguousError, ContentError

SIZE = (240, 320)
IMAGES = tuple("abcdef")
PEOPLE = ("P1", "P2", "P3", "P4")
N_FIXATIONS = 4
N_ALL = len(IMAGES) * len(PEOPLE) * N_FIXATIONS


def fixations():
    """Rows (person, image, number from 1, x, y, duration, start), by person and image, of whole pixels and ms."""
    random = np.random.default_rng(7)
    for person, image in itertools.product(PEOPLE, IMAGES):
        start = 0
        for number in range(1, 1 + N_FIXATIONS):
            x, y = random.integers(10, 310), random.integers(10, 230)
            duration = int(random.integers(120, 400))
            yield person, image, number, int(x), int(y), duration, start
            start += duration + int(random.integers(20, 60))


def plain(person, image, x, y, *more):
    return ",".join(map(str, (person, f"{image}.png", x, y, *more)))


def study(folder, header, lines, name="fixations.csv"):
    """Images, and a table with the columns person, image, x, y and those of `header`."""
    write_images(folder / "images", [f"{image}.png" for image in IMAGES], SIZE)
    write_table(folder / name, rows(",".join(["subject,image,x,y", *filter(None, [header])]), *lines))
    return folder


def counted(folder, **settings):
    """The number of fixations, and of observers."""
    items = understand(folder, coordinates="pixels", **settings)[0]
    gazes = [item.fixations.read(SIZE) for each in items.values() for item in each]
    people = {who for gaze in gazes if gaze.observers is not None for who in gaze.observers.tolist()}
    return sum(len(gaze.points) for gaze in gazes), len(people)


def doubted(folder, *named, **settings):
    """The lines that choose an option of the question."""
    with refused(AmbiguousReadingsError, *named) as error:
        counted(folder, **settings)
    return [option.setting for option in error.value.readings]


# === Events ===

EVENTS = [
    ("event", "fixation", "saccade"),
    ("type", "EFIX", "ESACC"),
    ("label", "FIXA", "SACC"),
    ("Eye movement type", "Fixation", "Unclassified"),
]


def with_events(name, fixation, other, extra=()):
    for person, image, _, x, y, *_ in fixations():
        yield plain(person, image, x, y, fixation)
        yield plain(person, image, x + 3, y + 3, other)
    yield from (plain("P1", "a", 5, 5, each) for each in extra)


@pytest.mark.parametrize(("name", "fixation", "other"), EVENTS)
def test_words_of_events_that_take_turns_are_known(name, fixation, other, tmp_path):
    folder = study(tmp_path / "set", name, with_events(name, fixation, other))
    assert counted(folder) == (N_ALL, len(PEOPLE))


def test_an_unknown_word_of_events_is_asked(tmp_path):
    folder = study(tmp_path / "set", "event", with_events("event", "fixation", "saccade", ["drift"]))
    lines = doubted(folder, "'event'", "'drift'")
    assert any('["fixation"]' in line for line in lines)


@pytest.mark.parametrize("name", ["event", "event_type"])
def test_codes_of_events_are_asked(name, tmp_path):
    folder = study(tmp_path / "set", name, with_events(name, 1, 2))
    lines = doubted(folder, f"'{name}'", "'1'", "'2'")
    assert [f'["{code}"]' in " ".join(lines) for code in (1, 2)] == [True, True]


def test_events_one_after_the_other_are_asked(tmp_path):
    """The phases of a trial may be named like events: fixation of a cross, and then the picture."""
    lines = [*with_events("phase", "fixation", "saccade")]
    folder = study(tmp_path / "set", "phase", [*lines[::2], *lines[1::2]])
    assert any('["saccade"]' in line for line in doubted(folder, "'phase'"))


def test_tasks_with_words_of_events_are_asked(tmp_path):
    tasks = dict(zip(IMAGES, itertools.cycle(("fixation", "smooth pursuit")), strict=False))
    lines = [plain(person, image, x, y, tasks[image]) for person, image, _, x, y, *_ in fixations()]
    folder = study(tmp_path / "set", "task", lines)
    assert any('["smooth pursuit"]' in line for line in doubted(folder, "'task'"))


def test_rare_blinks_between_fixations_are_known(tmp_path):
    lines = []
    for index, (person, image, number, x, y, *_) in enumerate(fixations()):
        lines.append(plain(person, image, x, y, "fixation"))
        if number == 2 and index % 3 == 0:
            lines.append(plain(person, image, x, y, "blink"))
    assert counted(study(tmp_path / "set", "event", lines)) == (N_ALL, len(PEOPLE))


def test_the_condition_of_a_trial_is_no_event(tmp_path):
    lines = [
        plain(person, image, x, y, "on" if image < "c" else "off") for person, image, _, x, y, *_ in fixations()
    ]
    assert counted(study(tmp_path / "set", "event", lines)) == (N_ALL, len(PEOPLE))


# === Flags ===


def with_flag(kept, other, n_others):
    """The fixations, of which the first ones have the other value."""
    for index, (person, image, _, x, y, *_) in enumerate(fixations()):
        yield plain(person, image, x, y, other if index * 7 % N_ALL < n_others else kept)


FEW, MANY = 3, N_ALL // 2


@pytest.mark.parametrize(("kept", "other"), [("1", "0"), ("true", "false"), ("yes", "no"), ("valid", "invalid")])
def test_a_flag_that_leaves_few_rows_out_is_followed(kept, other, tmp_path):
    assert counted(study(tmp_path / "set", "valid", with_flag(kept, other, FEW))) == (N_ALL - FEW, len(PEOPLE))


@pytest.mark.parametrize(("kept", "other"), [("0", "1"), ("0", "4"), ("no", "yes")])
def test_a_flag_of_the_other_polarity_is_asked(kept, other, tmp_path):
    lines = doubted(study(tmp_path / "set", "validity", with_flag(kept, other, FEW)), "'validity'", f"'{kept}'")
    assert any(f'["{kept}"]' in line for line in lines)


def test_a_flag_that_leaves_many_rows_out_is_asked(tmp_path):
    doubted(study(tmp_path / "set", "valid", with_flag("1", "0", MANY)), "'valid'", MANY)


def test_a_flag_that_is_named_is_followed(tmp_path):
    folder = study(tmp_path / "set", "use", with_flag("1", "0", MANY))
    doubted(folder, "'use'")
    assert counted(folder, columns="valid=use")[0] == N_ALL - MANY


@pytest.mark.parametrize("name", ["blink", "outlier", "saccade"])
def test_a_flag_of_something_else_is_followed(name, tmp_path):
    assert counted(study(tmp_path / "set", name, with_flag("0", "1", FEW)))[0] == N_ALL - FEW


# === Eyes ===

CODES_OF_EYES = [("L", "R"), ("left", "right"), ("0", "1")]


@pytest.mark.parametrize("eyes", CODES_OF_EYES)
def test_both_eyes_of_a_person_are_asked(eyes, tmp_path):
    lines = [
        plain(person, image, x + shift, y, eye)
        for person, image, _, x, y, *_ in fixations()
        for shift, eye in enumerate(eyes)
    ]
    settings = doubted(study(tmp_path / "set", "eye", lines), "'eye'", *(f"'{eye}'" for eye in eyes))
    assert all(f'["{eye}"]' in " ".join(settings) for eye in eyes)


@pytest.mark.parametrize("eyes", CODES_OF_EYES)
def test_one_eye_of_each_person_is_not_asked(eyes, tmp_path):
    lines = [plain(person, image, x, y, eyes[person == "P1"]) for person, image, _, x, y, *_ in fixations()]
    assert counted(study(tmp_path / "set", "eye", lines)) == (N_ALL, len(PEOPLE))


def test_rows_at_one_time_are_of_two_eyes_or_two_people(tmp_path):
    near, far = [], []
    for person, image, _, x, y, _, start in fixations():
        near += [plain(person, image, x + shift, y, start) for shift in (0, 2)]
        far += [plain(person, image, x, y, start), plain(person, image, 320 - x, 240 - y, start)]
    settings = doubted(study(tmp_path / "near", "start", near), 2 * N_ALL)
    assert any("[others]" in each for each in settings)
    settings = doubted(study(tmp_path / "far", "start", far), 2 * N_ALL)
    assert all("observer=NAME" in each for each in settings)
    alone = [plain(person, image, x, y, start) for person, image, _, x, y, _, start in fixations()]
    assert counted(study(tmp_path / "alone", "start", alone))[0] == N_ALL


# === Samples ===

UNITS = {"s": 1, "ms": 1000, "us": 1_000_000}


def samples(rate_hz, per_second, jitter=0.2):
    """Rows of the gaze at a rate, with noise of a webcam."""
    random = np.random.default_rng(3)
    for person, image, _, x, y, duration, start in fixations():
        n = max(2, round(duration / 1000 * rate_hz))
        for index in range(n):
            time = start / 1000 + (index + jitter * random.random()) / rate_hz
            dx, dy = random.normal(0, 5, 2)
            yield plain(person, image, round(x + dx, 1), round(y + dy, 1), f"{time * per_second:.6g}")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("rate_hz", [15, 30, 60])
def test_samples_are_told_by_their_times(rate_hz, unit, tmp_path):
    folder = study(tmp_path / "set", "t", samples(rate_hz, UNITS[unit]))
    assert any("one row for each fixation" in each for each in doubted(folder))


@pytest.mark.parametrize("unit", UNITS)
def test_fixations_are_no_samples(unit, tmp_path):
    lines = [
        plain(person, image, x, y, f"{start / 1000 * UNITS[unit]:.9g}")
        for person, image, _, x, y, _, start in fixations()
    ]
    assert counted(study(tmp_path / "set", "t", lines)) == (N_ALL, len(PEOPLE))


def test_equal_steps_are_of_samples_unless_durations_differ(tmp_path):
    own = list(fixations())
    equal = [plain(person, image, x, y, 250 * number) for person, image, number, x, y, *_ in own]
    doubted(study(tmp_path / "equal", "t", equal), 250)
    durations = [
        plain(person, image, x, y, 250 * number, length) for person, image, number, x, y, length, _ in own
    ]
    assert counted(study(tmp_path / "durations", "t,duration", durations))[0] == N_ALL


def test_samples_without_times_are_told_by_their_places(tmp_path):
    lines = [
        plain(person, image, x + shift, y + shift)
        for person, image, _, x, y, *_ in fixations()
        for shift in range(8)
    ]
    doubted(study(tmp_path / "samples", "", lines))
    alone = [plain(person, image, x, y) for person, image, _, x, y, *_ in fixations()]
    assert counted(study(tmp_path / "alone", "", alone))[0] == N_ALL


def test_one_row_of_each_person_and_image_is_a_summary(tmp_path):
    lines = [plain(person, image, x, y) for person, image, number, x, y, *_ in fixations() if number == 1]
    assert any("one row for each fixation" in each for each in doubted(study(tmp_path / "set", "", lines)))


# === People ===


def test_people_with_one_name_begin_again(tmp_path):
    own = [plain("7", image, x, y, number) for _, image, number, x, y, *_ in fixations()]
    lines = doubted(study(tmp_path / "set", "fix_index", own))
    for answer in ("trial=NAME", "no line observer", 'confirmed = ["people"]'):
        assert any(answer in line for line in lines)
    alone = [plain(person, image, x, y, number) for person, image, number, x, y, *_ in fixations()]
    assert counted(study(tmp_path / "alone", "fix_index", alone)) == (N_ALL, len(PEOPLE))


def test_trials_tell_who_begins_again(tmp_path):
    own = [plain("7", image, x, y, number, person[1:]) for person, image, number, x, y, *_ in fixations()]
    assert counted(study(tmp_path / "set", "fix_index,trial", own)) == (N_ALL, 1)


def test_a_column_without_a_value_tells_nobody(tmp_path):
    lines = [f",{image}.png,{x},{y}" for _, image, _, x, y, *_ in fixations()]
    assert counted(study(tmp_path / "set", "", lines)) == (N_ALL, 0)


# === Lost gaze ===


@pytest.mark.parametrize("spot", [(160, 120), (300, 7)])
def test_a_frequent_exact_position_is_asked(spot, tmp_path):
    own = [
        plain(person, image, *(spot if index % 9 == 0 else (x + index / 200, y)))
        for index, (person, image, _, x, y, *_) in enumerate(fixations())
    ]
    lines = doubted(study(tmp_path / "set", "", own), *spot)
    assert any(f"lost = [[{float(spot[0])}, {float(spot[1])}]]" in line for line in lines)


@pytest.mark.parametrize("spot", [(0, 0), (-1, -1)])
def test_usual_positions_of_lost_gaze_are_left_out(spot, tmp_path):
    own = [
        plain(person, image, *(spot if index % 9 == 0 else (x, y)))
        for index, (person, image, _, x, y, *_) in enumerate(fixations())
    ]
    n_lost = len(range(0, N_ALL, 9))
    assert counted(study(tmp_path / "set", "", own))[0] == N_ALL - n_lost


def test_positions_of_a_coarse_grid_may_repeat(tmp_path):
    own = [
        plain(person, image, x // 40 * 40 + 20, y // 40 * 40 + 20) for person, image, _, x, y, *_ in fixations()
    ]
    assert counted(study(tmp_path / "set", "", own))[0] == N_ALL


# === Units ===


@pytest.mark.parametrize("size", [1 / 320, 1])
def test_one_person_in_another_unit_is_asked(size, tmp_path):
    lines = [
        plain(person, image, *(round(side * (size if person == "P2" else 1), 3) for side in (x, y)))
        for person, image, _, x, y, *_ in fixations()
    ]
    folder = study(tmp_path / "set", "", lines)
    if size == 1:
        assert counted(folder) == (N_ALL, len(PEOPLE))
    else:
        assert any('confirmed = ["units"]' in line for line in doubted(folder, N_ALL // len(PEOPLE), N_ALL))


@pytest.mark.parametrize("axis", [0, 1])
def test_one_axis_of_a_person_in_another_unit_is_asked(axis, tmp_path):
    lines = []
    for person, image, _, *xy, _, _ in fixations():
        xy[axis] = round(xy[axis] / 320, 3) if person == "P2" else xy[axis]
        lines.append(plain(person, image, *xy))
    assert 'confirmed = ["units"]' in doubted(study(tmp_path / "set", "", lines), "P2", N_ALL // 4)[-1]


def test_fractions_of_a_person_on_one_image_are_asked(tmp_path):
    lines = [
        plain(person, image, *((x / 320, y / 240) if (person, image) == ("P2", "c") else (x, y)))
        for person, image, _, x, y, *_ in fixations()
    ]
    assert 'confirmed = ["units"]' in doubted(study(tmp_path / "set", "", lines), "P2", N_FIXATIONS)[-1]


# === Columns ===


@pytest.mark.parametrize(
    ("name", "value", "is_asked"),
    [
        ("unit", "mm", True),
        ("unit", "px", False),
        ("origin", "bottom-left", True),
        ("origin", "top-left", False),
        ("screenWidth", "1920", True),
        ("y_direction", "up", True),
        ("lab", "cm", True),
        ("lab", "Graz", False),
    ],
)
def test_a_column_about_positions_is_asked(name, value, is_asked, tmp_path):
    lines = [plain(person, image, x, y, value) for person, image, _, x, y, *_ in fixations()]
    folder = study(tmp_path / "set", name, lines)
    if is_asked:
        assert "ignored" in doubted(folder, repr(name), value)[0]
    else:
        assert counted(folder)[0] == N_ALL


@pytest.mark.parametrize(
    ("x", "y", "is_asked"),
    [
        *(
            ("x_mm", "y_mm", True),
            ("gx", "y_from_bottom", True),
            ("screen_x", "screen_y", True),
            ("row", "col", True),
        ),
        *(("gx", "gy", False), ("fix_x", "fix_y", False), ("col", "row", False)),
    ],
)
def test_names_of_positions_that_say_something_unusual_are_asked(x, y, is_asked, tmp_path):
    folder = study(tmp_path / "set", "", [plain(p, image, a, b) for p, image, _, a, b, *_ in fixations()])
    table = folder / "fixations.csv"
    table.write_text(table.read_text().replace(",x,y", f",{x},{y}", 1))
    settings = {"columns": f"x={x},y={y}"}
    if is_asked:
        doubted(folder, y, **settings)
    else:
        assert counted(folder, **settings)[0] == N_ALL


def test_images_that_are_excluded_are_asked_about(tmp_path):
    lines = [plain(person, image, x, y, int(image < "c")) for person, image, _, x, y, *_ in fixations()]
    doubted(study(tmp_path / "set", "excluded", lines), "'excluded'")


@pytest.mark.parametrize(
    ("first", "second"), [("fixation", "saccade"), ("R", "L"), ("eyetracker", "mouse"), ("1", "0")]
)
def test_a_column_of_one_word_is_read_by_this_word(first, second, tmp_path):
    """Next week another word is a question, although the column said nothing in the week of the reading."""
    lines = [plain(person, image, x, y, first) for person, image, _, x, y, *_ in fixations()]
    folder = study(tmp_path / "set", "device", lines)
    reading = propose_reading(FetchConfig("custom", str(folder), coordinates="pixels")).reading
    (folder / "reading.toml").write_text(reading.text)
    assert (
        sum(len(item.fixations.read(SIZE).points) for each in understand(folder)[0].values() for item in each)
        == N_ALL
    )
    write_table(
        folder / "week2.csv", rows("subject,image,x,y,device", *(plain("P9", "a", 9, y, second) for y in range(9)))
    )
    with refused(ContentError, repr(second), "'device'"):
        understand(folder)


def test_a_column_without_a_value_in_rows_of_fixations_is_not_read(tmp_path):
    lines = [plain(person, image, x, y, "") for person, image, _, x, y, *_ in fixations()]
    folder = study(tmp_path / "set", "note", ["P1,a.png,,,pause", *lines])
    assert counted(folder) == (N_ALL, len(PEOPLE))


def test_a_flag_that_turns_round_in_the_next_week_is_refused(tmp_path):
    flags = ["0" if index % 20 == 0 else "1" for index in range(N_ALL)]
    own = zip(fixations(), flags, strict=True)
    lines = [plain(person, image, x, y, flag) for (person, image, _, x, y, *_), flag in own]
    folder = study(tmp_path / "set", "valid", lines)
    reading = propose_reading(FetchConfig("custom", str(folder), coordinates="pixels")).reading
    (folder / "reading.toml").write_text(reading.text)
    understand(folder)
    turned = [line[:-1] + str(1 - int(line[-1])) for line in lines]
    write_table(folder / "week2.csv", rows("subject,image,x,y,valid", *turned))
    with refused(ContentError, N_ALL, "'valid'", "week2.csv"):
        understand(folder)


# === Tables ===


@pytest.mark.parametrize("name", ["saccades.csv", "raw/mouse_S01.csv", "gaze samples.csv"])
def test_tables_named_for_something_else_are_asked(name, tmp_path):
    lines = [plain(person, image, x, y) for person, image, _, x, y, *_ in fixations()]
    doubted(study(tmp_path / "set", "", lines, name), name)
    counted(study(tmp_path / "other", "", lines, f"fixations of {name.rpartition('/')[2]}"))


def test_a_column_that_says_mouse_in_all_rows_is_asked(tmp_path):
    lines = [plain(person, image, x, y, "mouse") for person, image, _, x, y, *_ in fixations()]
    doubted(study(tmp_path / "set", "device", lines), "mouse")


def test_a_table_of_saccades_is_asked(tmp_path):
    lines = [plain(person, image, x, y, 3.5, 200 + x) for person, image, _, x, y, *_ in fixations()]
    doubted(study(tmp_path / "set", "amplitude,peak_velocity", lines, "events.csv"), "'peak_velocity'")


@pytest.mark.parametrize("others", [["812", "640"], ["1.5"], []])
def test_points_that_may_separate_thousands_are_refused(others, tmp_path):
    lines = [plain(person, image, x, y) for person, image, _, x, y, *_ in fixations()]
    lines += [plain("P1", "a", each, 20) for each in ["1.024", "1.118", *others]]
    folder = study(tmp_path / "set", "", lines)
    if "1.5" in others:
        counted(folder)
    else:
        with refused(ContentError, "'1.024'"):
            counted(folder)


def test_names_that_differ_by_case_are_two_columns(tmp_path):
    lines = [
        plain(person, image, x, y, index, 7) for index, (person, image, _, x, y, *_) in enumerate(fixations())
    ]
    assert counted(study(tmp_path / "set", "TRIAL_INDEX,trial_index", lines))[0] == N_ALL


# === Copies ===


def test_people_with_the_same_fixations_are_asked(tmp_path):
    lines = [plain(person, image, x, y) for person, image, _, x, y, *_ in fixations()]
    lines += [line.replace("P2", "P5", 1) for line in lines if line.startswith("P2")]
    doubted(study(tmp_path / "set", "", lines), "P2", "P5")


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y, before: before if y % 5 == 0 else (x, y),
        lambda x, y, _: (0 if y % 12 == 0 else x, y),
        lambda x, y, _: (319 if y % 4 == 0 else x, y),
        lambda x, y, _: (x, 120),
        lambda x, y, _: (x, x),
    ],
)
def test_positions_that_no_one_looked_at_are_asked(change, tmp_path):
    lines, before = [], (50, 60)
    for person, image, _, x, y, *_ in fixations():
        before = change(x + 0.25, y, before)
        lines.append(plain(person, image, *before))
    assert 'confirmed = ["frequent"]' in doubted(study(tmp_path / "set", "", lines))[-1]


@pytest.mark.parametrize("column", ["duration", "time"])
def test_rows_without_a_duration_or_before_the_image_are_asked(column, tmp_path):
    lines = [
        plain(
            person,
            image,
            x,
            y,
            *((("" if number == 2 else length), start) if column == "duration" else (length, start - 100)),
        )
        for person, image, number, x, y, length, start in fixations()
    ]
    assert 'confirmed = ["durations"]' in doubted(study(tmp_path / "set", "duration,start", lines), N_ALL // 4)[-1]


def by_person():
    for person in PEOPLE:
        yield person, [(image, x, y, length) for who, image, _, x, y, length, _ in fixations() if who == person]


def write_people(folder, headless=()):
    write_images(folder / "images", [f"{image}.png" for image in IMAGES], SIZE)
    for person, own in by_person():
        lines = [f"{image}.png,{x},{y},{length}" for image, x, y, length in own]
        text = "\n".join([*([] if person in headless else ["image,x,y,duration"]), *lines]) + "\n"
        write_table(folder / f"{person}.txt", text)
    return folder


def test_a_table_without_a_header_is_asked(tmp_path):
    assert counted(write_people(tmp_path / "all")) == (N_ALL, len(PEOPLE))
    folder = write_people(tmp_path / "one", headless=["P3"])
    assert any("not_read" in each for each in doubted(folder, "P3.txt"))


def test_a_table_about_something_else_is_left_out(tmp_path):
    folder = write_people(tmp_path / "set")
    write_table(folder / "questions.csv", rows("person,age,liked", *(f"{person},30,4" for person in PEOPLE)))
    assert counted(folder) == (N_ALL, len(PEOPLE))


def test_two_states_of_one_table_are_refused(tmp_path):
    own = list(fixations())
    folder = study(tmp_path / "set", "duration", [plain(who, image, x, y, d) for who, image, _, x, y, d, _ in own])
    write_table(
        folder / "old" / "first.csv",
        rows("subject,image,x,y,duration", *(plain(who, image, x + 4, y, d) for who, image, _, x, y, d, _ in own)),
    )
    with refused(AmbiguousError, "old/first"):
        counted(folder)


# === Repetitions ===


def test_samples_with_numbers_become_their_fixations(tmp_path):
    own = [
        plain(who, image, x, y, number, 8 * step)
        for who, image, number, x, y, *_ in fixations()
        for step in range(5)
    ]
    assert counted(study(tmp_path / "set", "fix_index,t", own)) == (N_ALL, len(PEOPLE))


def test_numbers_that_some_fixations_share_are_refused(tmp_path):
    own = [
        plain(who, image, x + step * (150 if index % 4 == 0 else 1), y, index)
        for index, (who, image, _, x, y, *_) in enumerate(fixations())
        for step in range(2)
    ]
    with refused(AmbiguousError, "25%"):
        counted(study(tmp_path / "set", "fixation", own))
