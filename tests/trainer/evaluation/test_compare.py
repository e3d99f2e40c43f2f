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
from trainer.config import EvaluateConfig
from trainer.errors import UserError
from trainer.evaluation import confidence
from trainer.evaluation.compare import Shared, compare
from trainer.evaluation.evaluate import evaluate
from trainer.evaluation.per_image import CENTER_BIAS, PerImage
from trainer.metric_table import METRICS
from trainer.reports.terminal import print_comparison

pytestmark = pytest.mark.usefixtures("narrow")

N = 60


def shared(**columns):
    """Models with the same scores in KLD and, negated, in CC."""
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
        outcomes = {label: gains[metric].significance for label, gains in result.differences.items()}
        assert outcomes == {"b": "better", "c": "worse", "d": "not significant"}
    expected = confidence.gain(better, first, higher_is_better=False)
    assert vars(expected).items() <= vars(result.differences["b"]["kld"]).items()
    assert result.intervals["c"]["kld"] == confidence.interval(worse)
    assert result.verdicts["b"].startswith(
        "b is significantly better than a in KLD (gain +0.1000, 95% confidence interval +0.0"
    )
    assert result.verdicts["b"].endswith("It is significantly better in CC.")
    assert result.verdicts["d"].startswith("d is not significantly different from a in KLD")


def test_p_values_are_corrected_for_several_comparisons(first):
    others = {f"m{index}": shifted(first, -0.014, seed=index) for index in range(1, 9)}
    alone = compare("osie", shared(a=first, m1=others["m1"])).differences["m1"]["kld"]
    assert alone.p_adjusted == alone.p_value < 0.05
    assert alone.significance == "better"
    among = compare("osie", shared(a=first, **others)).differences
    raw = [gains["kld"].p_value for gains in among.values()]
    assert [gains["kld"].p_adjusted for gains in among.values()] == pytest.approx(confidence.holm(raw))
    assert among["m1"]["kld"].low > 0
    assert among["m1"]["kld"].significance == "not significant"


def test_images_with_the_largest_range_of_scores_are_shown(first):
    b, c = first.copy(), first.copy()
    b[7] += 0.5
    c[3] -= 0.7
    b[20], c[20] = b[20] + 0.2, c[20] - 0.2
    differing = compare("osie", shared(a=first, b=b, c=c)).differing
    assert list(differing) == ["3.jpg", "7.jpg", "20.jpg"]
    assert differing["3.jpg"] == pytest.approx({"a": first[3], "b": first[3], "c": first[3] - 0.7})


def test_equal_models_are_the_same(first):
    result = compare("osie", shared(a=first, b=first.copy()))
    assert result.verdicts == {"b": "b has the same KLD as a on every image."}
    assert {each.significance for each in result.differences["b"].values()} == {"the same"}
    assert result.differing == {}


def test_one_image_is_too_few(first):
    result = compare("osie", shared(a=first[:1], b=first[:1] - 0.2))
    assert result.differences["b"]["kld"].significance == "not significant"
    assert result.intervals["a"]["kld"] is None
    assert result.verdicts["b"] == (
        "1 image is too few for a 95% confidence interval, which needs 2 or more; the KLD of b and a cannot be "
        "compared."
    )


def test_metric_that_was_not_measured_is_refused(first):
    with pytest.raises(UserError, match="metric of osie is 'nss'; choose one of cc, kld"):
        compare("osie", shared(a=first, b=first), metric="nss")


def printed(result):
    file = io.StringIO()
    print_comparison({"osie": result}, 0.95, Console(file=file, width=80))
    return file.getvalue().splitlines()


def test_terminal_does_not_interpret_names_as_markup(first):
    assert "[old] a" in printed(compare("osie", shared(**{"[old] a": first, "b": first})))[1]


def test_terminal_shows_scores_gains_notes_and_verdicts(first):
    result = compare("osie", shared(a=first, b=shifted(first, -0.1)), metric="cc")
    lines = printed(result)
    gain = result.differences["b"]["cc"]
    assert lines[0].strip() == "Validation images of osie: 60; 95% confidence intervals"
    (row,) = (line for line in lines if line.startswith("CC ↑") and line.rstrip().endswith("better"))
    assert row.split() == [
        *("CC", "↑", f"{gain.mean:+.4f}", f"{gain.low:+.4f}", "to", f"{gain.high:+.4f}", "<", "0.001"),
        *f"{gain.better_on} of 60 better".split(),
    ]
    assert lines[-2:] == ["A note.", result.verdicts["b"]]


def test_scores_of_two_runs_fit_into_80_characters(first):
    runs = {"20261123-154249": first, "20261123-160102": shifted(first, -0.1), CENTER_BIAS: shifted(first, 0.3)}
    lines = printed(compare("osie", shared(**runs)))
    assert [line.split() for line in lines[1:3]] == [
        ["20261123-", "20261123-", "centre"],
        ["154249", "interval", "160102", "interval", "bias"],
    ]
    assert sum(line.count(" to ") for line in lines if line.startswith("KLD ↓")) == 3  # two scores, one gain


# === The command ===


@pytest.fixture(scope="module")
def other(models, datasets, tmp_path_factory):
    """An evaluation of the other model on one of the datasets."""
    output = tmp_path_factory.mktemp("other") / "msinet" / "2"
    evaluate(EvaluateConfig(gate="always"), models["bad"], {"salicon": datasets["salicon"]}, output)
    return output


def test_evaluations_are_compared_by_their_stored_scores(evaluated, evaluation, other, tmp_path, capsys):
    page, file = tmp_path / "page.html", tmp_path / "comparison.json"
    main(["compare", str(evaluated), str(other), "--html", str(page), "--json", str(file)])
    printed = capsys.readouterr().out
    assert "msinet/2 is significantly worse than evaluation in KLD (gain" in printed
    assert "Left out: fixationadd1000 (msinet/2 was not evaluated on it)." in printed
    comparison = json.loads(file.read_text())
    contents = {"evaluation": evaluation, "msinet/2": json.loads((other / artifacts.EVALUATION).read_text())}
    (compared,) = comparison["datasets"].values()
    for name, content in contents.items():
        assert compared["means"][name] == pytest.approx(content["datasets"]["salicon"]["models"]["candidate"])
    # The evaluation compared the same two models in the other direction.
    gains = evaluation["datasets"]["salicon"]["gains"]
    assert list(gains) == list(METRICS)
    for metric, gain in gains.items():
        assert compared["differences"]["msinet/2"][metric]["mean"] == pytest.approx(-gain["mean"], abs=1e-9)
        assert compared["differences"]["msinet/2"][metric]["worse_on"] == gain["better_on"]

    shown = Page(page)
    assert_self_contained(shown)
    assert "Gain of msinet/2 over evaluation" in shown.text
    for panel in ("Stimulus", "Ground truth", "evaluation", "msinet/2"):
        assert shown.text.count(f"<figcaption>{panel}</figcaption>") == 6
    assert comparison["models"]["msinet/2"]["named"] == str(other)
    assert f"Report: {page}\n" in printed


def test_without_the_data_there_is_a_page_without_pictures(evaluation, store, other, tmp_path, capsys):
    content = json.loads((other / artifacts.EVALUATION).read_text())
    for result in (*evaluation["datasets"].values(), *content["datasets"].values()):
        result["folder"] = str(tmp_path / "gone")
    moved = store(tmp_path / "moved", evaluation)
    files.write_json(tmp_path / "2" / artifacts.EVALUATION, content)
    shutil.copy(other / artifacts.PER_IMAGE, tmp_path / "2")
    page = tmp_path / "page.html"
    main(["compare", str(moved), str(tmp_path / "2"), "--html", str(page)])
    note = "No pictures, because this no longer exists: the data of the evaluation."
    assert note in capsys.readouterr().out
    text = page.read_text()
    assert note in text
    assert "<figcaption>Stimulus" not in text
    assert text.count("<article") == 6
    assert "Enlarge</button>" not in text


def test_dataset_dir_evaluates_the_models_again(models, datasets, capsys):
    data = str(datasets["fixationadd1000"])
    main(["compare", *map(str, models.values()), "--dataset-dir", data, "--json", "-"])
    printed = capsys.readouterr()
    comparison = json.loads(printed.out)
    (compared,) = comparison["datasets"].values()
    assert set(compared["means"]) == {"good", "bad", "centre_bias"}
    assert compared["means"]["good"]["kld"] < 0.01 < compared["means"]["bad"]["kld"]
    assert compared["differences"]["bad"]["kld"]["worse_on"] == 4
    assert "bad is significantly worse than good in KLD" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["good", "bad"],
            "is a model without scores; evaluate all models on the same images with --dataset-dir DIR",
        ),
        (["good", "bad", "--confidence", "95"], "--confidence is 95; it must be between 0 and 1"),
        (["good", "bad", "--dataset-dir", "."], "prepared dataset"),
    ],
)
def test_error_is_one_line_and_writes_nothing(arguments, message, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [str(models[each]) if each in models else each for each in arguments]
    with pytest.raises(SystemExit, match=f"^error: .*{message}"):
        main(["compare", *arguments, "--html", "page.html"])
    assert not list(pathlib.Path.cwd().iterdir())
