"""Comparisons of known scores, and the command on evaluations and on models."""

import io
import json
import pathlib
import shutil

import numpy as np
import pytest
from rich.console import Console

from tests.trainer.reports.test_report import Page, assert_self_contained
from trainer import artifacts, files
from trainer.__main__ import main
from trainer.config import HIGHER_IS_BETTER, EvaluateConfig
from trainer.errors import UserError
from trainer.evaluation import confidence
from trainer.evaluation.compare import compare
from trainer.evaluation.evaluate import evaluate
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.shared_scores import Shared
from trainer.reports.terminal import print_comparison

pytestmark = pytest.mark.usefixtures("narrow")

N = 60


def shared(**columns):
    """Models with the same scores in KLD and, turned, in CC."""
    scores = {label: {"cc": -np.asarray(values), "kld": np.asarray(values)} for label, values in columns.items()}
    images = [f"{index}.jpg" for index in range(len(next(iter(columns.values()))))]
    return Shared(PerImage(images, scores), ["A note."], None)


@pytest.fixture
def first():
    return np.random.default_rng(0).uniform(0.3, 0.6, N)


def shifted(values, by, spread=0.05, seed=1):
    noise = np.random.default_rng(seed).normal(scale=spread, size=N)
    return values + by + noise - noise.mean()


def test_the_others_are_compared_with_the_first(first):
    better, worse, alike = shifted(first, -0.1), shifted(first, 0.1), shifted(first, 0.001)
    result = compare("osie", shared(a=first, b=better, c=worse, d=alike))
    assert (result.metric, result.n_images, result.notes) == ("kld", N, ["A note."])
    assert list(result.differences) == ["b", "c", "d"]
    for metric in ("cc", "kld"):
        found = {label: each[metric].certain for label, each in result.differences.items()}
        assert found == {"b": "better", "c": "worse", "d": "not certain"}
    expected = confidence.gain(better, first, higher_is_better=False)
    difference = result.differences["b"]["kld"]
    assert (difference.mean, difference.low, difference.p_value) == (
        expected.mean,
        expected.low,
        expected.p_value,
    )
    assert result.intervals["c"]["kld"] == list(confidence.interval(worse))
    assert result.verdicts["b"].startswith("b is better than a in KLD (gain +0.1000, 95% interval +0.0")
    assert result.verdicts["b"].endswith("It is better in CC.")
    assert result.verdicts["d"].startswith("d is not certainly different from a in KLD")


def test_p_values_are_those_of_several_comparisons(first):
    others = {f"m{index}": shifted(first, -0.014, seed=index) for index in range(1, 9)}
    alone = compare("osie", shared(a=first, m1=others["m1"])).differences["m1"]["kld"]
    assert alone.p_adjusted == alone.p_value < 0.05
    assert alone.certain == "better"
    among = compare("osie", shared(a=first, **others)).differences
    raw = [each["kld"].p_value for each in among.values()]
    assert [each["kld"].p_adjusted for each in among.values()] == pytest.approx(confidence.holm(raw))
    assert among["m1"]["kld"].low > 0
    assert among["m1"]["kld"].certain == "not certain"


def test_images_are_those_with_the_largest_span(first):
    b, c = first.copy(), first.copy()
    b[7] += 0.5
    c[3] -= 0.7
    b[20], c[20] = b[20] + 0.2, c[20] - 0.2
    differing = compare("osie", shared(a=first, b=b, c=c)).differing
    assert list(differing) == ["3.jpg", "7.jpg", "20.jpg"]
    assert differing["3.jpg"] == pytest.approx({"a": first[3], "b": first[3], "c": first[3] - 0.7})


def test_the_same_model_twice_is_said_to_be_the_same(first):
    result = compare("osie", shared(a=first, b=first.copy()))
    assert result.verdicts == {"b": "b has the same KLD as a on every image."}
    assert {each.certain for each in result.differences["b"].values()} == {"the same"}
    assert result.differing == {}


def test_of_few_images_nothing_is_certain(first):
    result = compare("osie", shared(a=first[:5], b=first[:5] - 0.2))
    assert result.differences["b"]["kld"].certain == "not certain"
    assert result.intervals["a"]["kld"] is None
    assert result.verdicts["b"] == (
        "5 images are too few to be 95% certain which of b and a has the better KLD; it takes 6."
    )


def test_metric_that_was_not_measured_is_refused(first):
    with pytest.raises(UserError, match="metric of osie is 'nss'; choose one of cc, kld"):
        compare("osie", shared(a=first, b=first), metric="nss")


def test_terminal_shows_models_as_they_are_called(first):
    console = Console(file=io.StringIO(), width=80)
    print_comparison({"osie": compare("osie", shared(**{"[old] a": first, "b": first}))}, 0.95, console)
    assert "[old] a" in console.file.getvalue().splitlines()[1]


def test_terminal_shows_scores_gains_notes_and_verdicts(first):
    result = compare("osie", shared(a=first, b=shifted(first, -0.1)), metric="cc")
    console = Console(file=io.StringIO(), width=80)
    print_comparison({"osie": result}, 0.95, console)
    lines = console.file.getvalue().splitlines()
    gain = result.differences["b"]["cc"]
    assert lines[0].strip() == "Validation images of osie: 60; 95% intervals"
    (row,) = (line for line in lines if line.startswith("CC ↑") and "to" in line)
    assert row.split() == [
        *("CC", "↑", f"{gain.mean:+.4f}", f"{gain.low:+.4f}", "to", f"{gain.high:+.4f}", "<", "0.001"),
        *f"{gain.better_on} of 60 better".split(),
    ]
    assert lines[-2:] == ["A note.", result.verdicts["b"]]


# === The command ===


@pytest.fixture(scope="module")
def other(models, datasets, tmp_path_factory):
    """An evaluation of the other model on one of the data sets."""
    output = tmp_path_factory.mktemp("other") / "msinet" / "2"
    evaluate(EvaluateConfig(gate="always"), models["bad"], {"salicon": datasets["salicon"]}, output)
    return output


def test_evaluations_are_compared_with_what_they_hold(evaluated, other, tmp_path, capsys):
    page, file = tmp_path / "page.html", tmp_path / "answer.json"
    main(["compare", str(evaluated), str(other), "--html", str(page), "--json", str(file)])
    printed = capsys.readouterr().out
    assert "msinet/2 is worse than evaluation in KLD (gain" in printed
    assert "Left out: fixationadd1000, on which msinet/2 was not evaluated." in printed
    answer = json.loads(file.read_text())
    folders = {"evaluation": evaluated, "msinet/2": other}
    contents = {name: json.loads((each / artifacts.EVALUATION).read_text()) for name, each in folders.items()}
    (found,) = answer["datasets"].values()
    for name, content in contents.items():
        assert found["means"][name] == pytest.approx(content["datasets"]["salicon"]["models"]["candidate"])
    # The evaluation has compared the same two models, the other way round.
    gains = contents["evaluation"]["datasets"]["salicon"]["gains"]
    assert list(gains) == list(HIGHER_IS_BETTER)
    for metric, gain in gains.items():
        assert found["differences"]["msinet/2"][metric]["mean"] == pytest.approx(-gain["mean"], abs=1e-9)
        assert found["differences"]["msinet/2"][metric]["worse_on"] == gain["better_on"]

    shown = Page(page)
    assert_self_contained(shown)
    assert "Gain of msinet/2 over evaluation" in shown.text
    for panel in ("Stimulus", "Ground truth", "evaluation", "msinet/2"):
        assert shown.text.count(f"<figcaption>{panel}</figcaption>") == 6
    assert answer["models"]["msinet/2"]["named"] == str(other)


def test_without_the_data_there_is_a_page_without_pictures(evaluated, other, tmp_path, capsys):
    moved = []
    for folder in (evaluated, other):
        content = json.loads((folder / artifacts.EVALUATION).read_text())
        for result in content["datasets"].values():
            result["folder"] = str(tmp_path / "gone")
        moved.append(tmp_path / folder.name)
        files.write_json(moved[-1] / artifacts.EVALUATION, content)
        shutil.copy(folder / artifacts.PER_IMAGE, moved[-1])
    page = tmp_path / "page.html"
    main(["compare", *map(str, moved), "--html", str(page)])
    assert "No pictures: no longer there is the data they were evaluated on." in capsys.readouterr().out
    text = page.read_text()
    assert "No pictures: no longer there is the data" in text
    assert "<figcaption>Stimulus" not in text
    assert text.count('<article class="example">') == 6


def test_models_are_evaluated_afresh_on_the_data_that_is_named(models, datasets, capsys):
    data = str(datasets["fixationadd1000"])
    main(["compare", *map(str, models.values()), "--dataset-dir", data, "--json", "-"])
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    (found,) = answer["datasets"].values()
    assert set(found["means"]) == {"good", "bad", "centre_bias"}
    assert found["means"]["good"]["kld"] < 0.01 < found["means"]["bad"]["kld"]
    assert found["differences"]["bad"]["kld"]["worse_on"] == 4
    assert "4 images are too few" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["good", "bad"], "is a model without scores; evaluate all on the same images with --dataset-dir DIR"),
        (["good", "bad", "--confidence", "95"], "--confidence is 95; it must be above 0 and at most 0.999"),
        (["good", "bad", "--dataset-dir", "."], "is not a prepared dataset"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_nothing_is_written(arguments, message, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [str(models[each]) if each in models else each for each in arguments]
    with pytest.raises(SystemExit, match=f"^error: .*{message}"):
        main(["compare", *arguments, "--html", "page.html"])
    assert not list(pathlib.Path.cwd().iterdir())
