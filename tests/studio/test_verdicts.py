"""Requirements: how they are written, when they are met, and what is said about them."""

import numpy as np
import pytest

from studio.verdicts import all_requirements, judge, parse_requirement
from tests.refusals import refused
from trainer.errors import SettingError, UnknownNameError
from trainer.prediction.regions import Region, measure_regions

NAMES = ("button", "hero.title", "a > b", "logo")
BEFORE, NOW = np.zeros((10, 20), np.float32), np.zeros((10, 20), np.float32)
BEFORE[:, :4], NOW[:, :4] = 0.5, 0.4  # logo: 20 of 100, then 16 of 100
BEFORE[:, 4:12], NOW[:, 4:12] = 1.0, 1.0
NOW[:, 12:13] = 0.4
REGIONS = [Region.parse(text) for text in ("logo:0,0,4,10", "button:4,0,8,10", "foot:12,0,8,10")]


def verdicts(*texts, max_drop="", now=NOW, before=BEFORE):
    requirements = all_requirements(texts, max_drop, [region.name for region in REGIONS])
    return judge(requirements, measure_regions(now, REGIONS), measure_regions(before, REGIONS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("button>=8%", ("button", "share", ">=", 0.08)),
        (" button . rank <= 2 ", ("button", "rank", "<=", 2)),
        ("button.ratio>1.5", ("button", "ratio", ">", 1.5)),
        ("button.drop<=0%", ("button", "drop", "<=", 0)),
        ("hero.title>=8%", ("hero.title", "share", ">=", 0.08)),
        ("hero.title.rank<=1", ("hero.title", "rank", "<=", 1)),
        ("button.screen<=1", ("button", "screen", "<=", 1)),
        ("a > b>=8%", ("a > b", "share", ">=", 0.08)),
        ("a > b.ratio>1", ("a > b", "ratio", ">", 1)),
    ],
)
def test_a_requirement_names_a_region_a_measure_and_a_limit(text, expected):
    requirement = parse_requirement(text, NAMES)
    assert (requirement.region, requirement.measure, requirement.operator, requirement.limit) == expected
    assert parse_requirement(str(requirement), NAMES) == requirement


@pytest.mark.parametrize(
    ("text", "kind", "named"),
    [
        ("button=8%", SettingError, ["'button=8%'"]),
        ("button=>8%", UnknownNameError, ["'button='"]),
        ("button>=0.08", SettingError, ["'0.08'"]),
        ("button>=800%", SettingError, ["'800%'"]),
        ("button>=nan%", SettingError, ["'nan%'"]),
        ("button.ratio>=8%", SettingError, ["'8%'"]),
        ("buton.rank<=2", UnknownNameError, ["'buton'", "'button'"]),
        ("button.shar>=8%", UnknownNameError, ["'shar'", "'share'"]),
    ],
)
def test_what_cannot_be_required_is_refused(text, kind, named):
    with refused(kind, *named):
        parse_requirement(text, NAMES)


@pytest.mark.parametrize(
    ("text", "passed", "sentence"),
    [
        ("logo>=16%", True, "logo has a share of 16%, and at least 16% is required"),
        ("logo>16%", False, "logo has a share of 16%, but more than 16% is required"),
        ("logo<=16%", True, "and at most 16% is required"),
        ("logo<16%", False, "but less than 16% is required"),
        ("logo.drop<=20%", True, r"logo has a drop of 20% (from 20% to 16%), and at most 20% is required"),
        (
            "logo.drop<=19.999%",
            False,
            r"logo has a drop of 20% (from 20% to 16%), but at most 19.999% is required",
        ),
        ("button.drop<=0%", True, "button has a drop of 0% (from 80% to 80%), and at most 0% is required"),
        ("foot.drop<=0%", True, "foot has a drop of 0% (from 0% to 4%), and at most 0% is required"),
        ("foot.rank<3", False, "foot has a rank of 3, but less than 3 is required"),
        ("logo.ratio>=0.8", True, "logo has a ratio of 0.8, and at least 0.8 is required"),
        ("logo.peak>=40%", True, "logo has a peak of 40%, and at least 40% is required"),
    ],
)
def test_verdicts(text, passed, sentence):
    (verdict,) = verdicts(text)
    assert verdict.passed == passed
    assert sentence in verdict.sentence


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("logo.drop<=19%", "20%"),  # of a share of 20%, 4 percentage points
        ("logo.drop<=20%", "20%"),
        ("logo.drop<=21%", None),
        ("foot.drop<=50%", "50%"),  # of no share
        ("foot.drop<=51%", None),
        ("logo>=15.9%", None),
        ("logo.rank<=2", None),
    ],
)
def test_a_limit_within_the_noise_is_told(text, noise):
    (verdict,) = verdicts(text)
    assert (f" {noise} " in verdict.caution) if noise else verdict.caution == ""


@pytest.mark.parametrize(("limit", "is_told"), [("0.9%", False), ("1.1%", True), ("2.9%", True), ("3.1%", False)])
def test_a_limit_near_to_a_small_share_is_told(limit, is_told):
    now = np.zeros((10, 20), np.float32)
    now[:, :4], now[:, 4:12] = 0.02 / 40, 0.98 / 80
    (verdict,) = verdicts(f"logo>={limit}", now=now)
    assert bool(verdict.caution) == is_told


def test_the_largest_drop_is_required_of_each_region_without_its_own():
    found = verdicts("logo.drop<=30%", "logo.drop <= 30%", max_drop="10%")
    assert [str(each.requirement) for each in found] == ["logo.drop<=30%", "button.drop<=10%", "foot.drop<=10%"]
    assert all(each.passed for each in found)
    with refused(SettingError, "max_drop", "'120%'"):
        all_requirements([], "120%", NAMES)
