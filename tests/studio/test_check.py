"""`python -m studio check`: its exit status, what it prints, and what it writes."""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from studio.__main__ import main
from tests.golden.inputs import image
from tests.refusals import assert_named
from tests.studio.demo import written
from tests.studio.pages import CONFIG, needs_browser, serving
from trainer.prediction import predictor as predictor_module
from trainer.prediction.regions import Region, measure_regions
from trainer.texts import printable

pytestmark = pytest.mark.usefixtures("narrow")

REGIONS = ("left:0,0,30,40", "right:60,10,40,30")
FLAGS = [f"--region={region}" for region in REGIONS]
PAGE = """<body style="margin: 0; background: url(shapes.png)">
  <a id=buy style="position: absolute; left: {left}px; top: 30px; width: 80px; height: 40px">Buy</a>"""


@pytest.fixture
def designs(tmp_path, monkeypatch):
    """Two pictures in the working directory, `before.png` and `after.png`, and `large.png`, twice `before.png`."""
    monkeypatch.chdir(tmp_path)
    before = Image.fromarray(image(1, 1, 40, 100)[0])
    before.save("before.png")
    before.resize((200, 80)).save("large.png")
    Image.fromarray(image(2, 1, 40, 100)[0]).save("after.png")
    return tmp_path


def pixels(name):
    return np.asarray(Image.open(name))


def check(model, *arguments):
    """The exit status."""
    try:
        main(["check", *map(str, arguments), "--model", str(model)])
    except SystemExit as left:
        return left.code
    return 0


def shares(model, name):
    """The share of each region, as the network alone has it."""
    predictor = predictor_module.Predictor(model)
    measured = measure_regions(predictor.predict(pixels(name)), [Region.parse(text) for text in REGIONS])
    return {each.region.name: each.share for each in measured}


def test_a_design_that_meets_its_requirements(narrow_model, designs, capsys):
    share = shares(narrow_model, "after.png")["left"]
    assert check(narrow_model, "after.png", *FLAGS, f"--require=left>={round(99 * share, 3):g}%") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "after.png meets the requirement"
    assert re.search(r"^left>=\S+( +\S+%){3} +pass", out, re.MULTILINE)
    assert sorted(path.name for path in designs.iterdir()) == ["after.png", "before.png", "large.png"]


def test_a_region_that_falls_short_ends_with_1_and_a_sentence(narrow_model, designs, capsys):
    share = shares(narrow_model, "after.png")["left"]
    low, high = (f"left>={round(part * share, 3):g}%" for part in (99, 101))
    arguments = ["after.png", *FLAGS, f"--require={high}", f"--require={low}"]
    assert check(narrow_model, *arguments, "--json", "c.json", "--junit", "c.xml", "--output-dir", "maps") == 1
    out = capsys.readouterr().out.splitlines()
    pattern = r"left has a share of [\d.]+%, but at least [\d.]+% is required"
    (sentence,) = (line for line in out if re.fullmatch(pattern, line))
    assert out[-1] == "after.png fails 1 of 2 requirements, see maps"
    content = json.loads((designs / "c.json").read_text())
    assert content["passed"] is False
    assert content["baseline"] is None
    assert [each["passed"] for each in content["requirements"]] == [False, True]
    assert content["requirements"][0]["sentence"] == sentence
    assert content["requirements"][0]["value"] == content["design"]["regions"][0]["share"] == share
    assert content["files"] == {"design-attention": "maps/design-attention.png"}
    suite = ElementTree.parse(designs / "c.xml").getroot().find("testsuite")  # written above
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        ("after.png", high),
        ("after.png", low),
    ]
    assert [each.get("message") for each in suite.iter("failure")] == [sentence]
    assert cases[0].find("failure") is not None
    assert pixels("maps/design-attention.png").shape == (40, 100, 3)


def test_a_region_of_a_long_page_is_checked_on_its_screen(narrow_model, designs, capsys):
    screens = [written(450, 720, seed) for seed in range(5)]
    Image.fromarray(np.concatenate(screens)).save("long.png")
    Image.fromarray(screens[3]).save("alone.png")
    check(narrow_model, "alone.png", "--region=a:20,50,200,90", "--require=a>=0%", "--json=-")
    (alone,) = json.loads(capsys.readouterr().out)["design"]["regions"]
    regions = ["--region=a:20,1400,200,90", "--region=b:20,350,200,40"]
    required = ["--require=a.screen<=1", "--require=a.rank<=1", "--require=b.screen<=1"]
    assert check(narrow_model, "long.png", *regions, *required, "--json=c.json") == 1
    out = capsys.readouterr().out
    content = json.loads((designs / "c.json").read_text())
    assert [each["value"] for each in content["requirements"]] == [4, 1, 1]
    assert content["design"]["screens"] == 5
    now = content["design"]["regions"][0]
    assert now["share"] == pytest.approx(alone["share"], rel=1e-6)
    assert (now["area"], now["rank"]) == (alone["area"], alone["rank"])
    assert now["peak_at"] == [alone["peak_at"][0] + 1350, alone["peak_at"][1]]
    assert f"{100 * now['share']:.1f}% of screen 4" in out


def test_the_floor_of_a_region_is_its_share_without_its_content(narrow_model, designs, capsys):
    painted = pixels("after.png").copy()
    ring = [painted[:40, 30:33].reshape(-1, 3)]  # right of it: it is as high as the picture
    painted[:40, :30] = np.quantile(np.concatenate(ring), 0.5, axis=0, method="lower")
    Image.fromarray(painted).save("painted.png")
    assert check(narrow_model, "after.png", *FLAGS, "--require=left>=0%", "--json=c.json") == 0
    content = json.loads((designs / "c.json").read_text())
    expected = shares(narrow_model, "painted.png")["left"]
    floors = {each["name"]: each["floor"] for each in content["design"]["regions"]}
    assert set(floors) == {"left", "right"}
    assert floors["left"] == pytest.approx(expected, rel=1e-6)
    assert f" {100 * expected:.1f}% " in capsys.readouterr().out


def test_what_the_model_does_not_see_is_told(narrow_model, designs, capsys):
    Image.new("RGB", (100, 40), (250, 240, 230)).save("blank.png")
    assert check(narrow_model, "blank.png", *FLAGS, "--require=left>=0%", "--json=c.json") == 0
    content = json.loads((designs / "c.json").read_text())
    assert content["design"]["empty_screens"] == [1]
    assert [each["floor"] for each in content["design"]["regions"]] == [
        each["share"] for each in content["design"]["regions"]
    ]
    out = capsys.readouterr().out
    for named in ("blank.png", "left", "right"):
        assert any(named in line for line in out.splitlines() if line.startswith("note: "))


def test_a_limit_within_the_noise_is_told_in_each_form(narrow_model, designs, capsys):
    flags = [FLAGS[0], "--baseline=before.png", "--max-drop=0%", "--json=c.json", "--junit=c.xml"]
    check(narrow_model, "after.png", *flags)
    content = json.loads((designs / "c.json").read_text())
    case = ElementTree.parse(designs / "c.xml").getroot().find("testsuite/testcase")  # written above
    caution = content["requirements"][0]["caution"]
    assert caution.startswith("left.drop<=0% ")
    assert caution in content["notes"]
    assert caution in case.find("system-out").text
    assert f"note: {caution}" in capsys.readouterr().out
    check(narrow_model, "after.png", *flags[:2], "--max-drop=51%", "--json=c.json")
    assert json.loads((designs / "c.json").read_text())["requirements"][0]["caution"] == ""


def test_a_drop_is_relative_to_the_baseline(narrow_model, designs, capsys):
    before, after = shares(narrow_model, "before.png"), shares(narrow_model, "after.png")
    check(narrow_model, "after.png", *FLAGS, "--baseline=before.png", "--max-drop=20%", "--json=-")
    content = json.loads(capsys.readouterr().out)
    for each in content["requirements"]:
        drop = 1 - after[each["region"]] / before[each["region"]]
        assert each["value"] == pytest.approx(drop, abs=1e-12)
        assert each["passed"] == (drop <= 0.2)


def test_a_baseline_of_another_size_is_measured_at_the_same_places(narrow_model, designs):
    regions = [*FLAGS, "--max-drop=1%", "--json=c.json", "--output-dir=maps"]
    assert check(narrow_model, "before.png", "--baseline=large.png", *regions) in (0, 1)
    content = json.loads((designs / "c.json").read_text())
    now, then = (content[role]["regions"] for role in ("design", "baseline"))
    assert [each["region"] for each in now] == [each["region"] for each in then]
    assert [each["share"] for each in now] == pytest.approx([each["share"] for each in then], rel=0.1)
    assert set(content["files"]) == {"design-attention", "baseline-attention"}
    assert pixels("maps/baseline-attention.png").shape == (40, 100, 3)


def test_elements_of_pages_are_regions(narrow_model, designs):
    needs_browser()
    shapes = (designs / "after.png").read_bytes()
    pages = {"/a": PAGE.format(left=10), "/b": PAGE.format(left=200), "/shapes.png": shapes}
    flags = [f"--viewport-{side}={getattr(CONFIG, f'viewport_{side}')}" for side in ("width", "height")]
    flags += ["--timeout-s=200"] + ["--no-sandbox"] * (not CONFIG.sandbox)
    outputs = ["--json=c.json", "--output-dir=maps"]
    with serving(pages) as address:
        names = [f"{address}/b", f"--baseline={address}/a", "--selector=#buy", "--max-drop=100%"]
        assert check(narrow_model, *names, *flags, *outputs) == 0
    content = json.loads((designs / "c.json").read_text())
    assert [content[role]["regions"][0]["region"] for role in ("design", "baseline")] == [
        "buy:200,30,80,40",
        "buy:10,30,80,40",
    ]
    shot = pixels("maps/design-page.png")[..., :3]
    assert shot.shape == pixels("maps/design-attention.png").shape == (300, 400, 3)
    (expected,) = measure_regions(
        predictor_module.Predictor(narrow_model).predict(shot), [Region.parse("buy:200,30,80,40")]
    )
    assert content["design"]["regions"][0]["share"] == expected.share
    entry = {"picture": "A", "region": "it", "x": 10, "y": 30, "width": 80, "height": 40, "selector": "#buy"}
    (designs / "regions.json").write_text(json.dumps([entry]))
    with serving(pages) as address:
        regions = ["--regions=regions.json", "--require=it>=0%", "--json=c.json"]
        assert check(narrow_model, f"{address}/b", *regions, *flags) == 0
    (region,) = json.loads((designs / "c.json").read_text())["design"]["regions"]
    assert region["region"] == "it:200,30,80,40"  # where it is now


MET = [*FLAGS, "--require=left>=8%"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["after.png", *FLAGS], ["--require", "--max-drop"]),
        (["after.png", "--require=left>=8%"], ["--region", "--selector"]),
        (["after.png", *FLAGS, "--require=lefd>=8%"], ["'lefd'", "'left'"]),
        (["after.png", *FLAGS, "--max-drop=20%"], ["left.drop<=20%", "--baseline"]),
        (["after.png", *MET, FLAGS[0]], ["left"]),
        (["nosuch.png", *MET], ["nosuch.png"]),
        (["after.png", "--selector=#buy", "--require=buy>=8%"], ["after.png", "--region"]),
        (["after.png", *MET, "--json=c", "--junit=c"], ["--json", "--junit"]),
        (["after.png", *MET, "--json=after.png"], ["--json"]),
        (["after.png", *FLAGS, "--baseline=tall.png", "--max-drop=20%"], ["tall.png", 90]),
        ([".", *MET], [5]),
        (["design-attention.png", *MET, "--output-dir=."], ["design-attention.png"]),
    ],
)
def test_a_mistake_ends_with_2_and_one_sentence(narrow_model, designs, capsys, arguments, named):
    for name in ("tall.png", "design-attention.png"):
        Image.fromarray(image(3, 1, 90, 100)[0]).save(name)
    before = sorted(designs.iterdir())
    assert check(narrow_model, *arguments) == 2
    out, err = capsys.readouterr()
    (error,) = (line for line in err.splitlines() if line.startswith("error: "))
    assert_named(error, *named)
    assert out == ""
    assert sorted(designs.iterdir()) == before


def test_names_cannot_break_the_xml_or_the_terminal(narrow_model, designs, capsys):
    name = "<a> & \x1b[31m\u202e"
    regions = [f"--region={name}:0,0,30,40", f"--require={name}>=0%", "--junit=c.xml"]
    assert check(narrow_model, "after.png", *regions) == 0
    assert "\x1b[31m" not in capsys.readouterr().out
    case = ElementTree.parse(designs / "c.xml").getroot().find("testsuite/testcase")  # written above
    assert case.get("name") == printable(f"{name}>=0%")
