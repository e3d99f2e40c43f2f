"""Comparisons of known scores, the command, the names that it takes, and the scores that models share."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from tests.gcs import upload
from tests.prepared import manifest_of
from tests.refusals import refused
from tests.trainer.reports.test_report import Page, assert_self_contained
from trainer.__main__ import main
from trainer.errors import AmbiguousError, NotFoundError, UserError
from trainer.evaluation import confidence, run_folders
from trainer.evaluation.compare import (
    Contestant,
    ModelScores,
    SharedScores,
    compare_models,
    find_contestants,
    find_shared,
)
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.evaluation import Evaluation, Role
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.settings import EvaluateConfig
from trainer.io import files
from trainer.metrics.metric_table import METRICS
from trainer.models import model_names, registry_layout
from trainer.network import model_folder

pytestmark = pytest.mark.usefixtures("narrow")

N = 60


def shared(**columns):
    """Models with the same scores in KLD and, negated, in CC."""
    scores = {label: {"cc": -np.asarray(values), "kld": np.asarray(values)} for label, values in columns.items()}
    images = [f"{index}.jpg" for index in range(len(next(iter(columns.values()))))]
    return SharedScores(PerImage(images, scores), ["A note."], None)


@pytest.fixture
def first():
    return np.random.default_rng(0).uniform(0.3, 0.6, N)


def shifted(values, by, spread=0.05, seed=1):
    noise = np.random.default_rng(seed).normal(scale=spread, size=N)
    return values + by + noise - noise.mean()


def test_the_others_are_compared_with_the_first(first):
    better, worse, alike = shifted(first, -0.1), shifted(first, 0.1), shifted(first, 0.001)
    result = compare_models("osie", shared(a=first, b=better, c=worse, d=alike))
    assert (result.metric, result.n_images, result.notes) == ("kld", N, ["A note."])
    assert list(result.differences) == ["b", "c", "d"]
    for metric in ("cc", "kld"):
        outcomes = {label: gains[metric].significance for label, gains in result.differences.items()}
        assert outcomes == {"b": "better", "c": "worse", "d": "not significant"}
    expected = confidence.gain(better, first, higher_is_better=False)
    assert vars(expected).items() <= vars(result.differences["b"]["kld"]).items()
    assert result.intervals["c"]["kld"] == confidence.mean_interval(worse)
    assert result.verdicts["b"].startswith(
        "b is significantly better than a in KLD (gain +0.1000, 95% confidence interval +0.0"
    )
    assert result.verdicts["b"].endswith(
        "It is significantly better in CC. The p-values are not corrected for the number of metrics."
    )
    assert result.verdicts["d"].startswith("d is not significantly different from a in KLD")


def test_p_values_are_corrected_for_several_comparisons(first):
    others = {f"m{index}": shifted(first, -0.014, seed=index) for index in range(1, 9)}
    alone = compare_models("osie", shared(a=first, m1=others["m1"])).differences["m1"]["kld"]
    assert alone.p_adjusted == alone.p_value < 0.05
    assert alone.significance == "better"
    among = compare_models("osie", shared(a=first, **others)).differences
    raw = [gains["kld"].p_value for gains in among.values()]
    assert [gains["kld"].p_adjusted for gains in among.values()] == pytest.approx(confidence.holm(raw))
    assert among["m1"]["kld"].low > 0
    assert among["m1"]["kld"].significance == "not significant"


def test_equal_models_are_the_same(first):
    result = compare_models("osie", shared(a=first, b=first.copy()))
    assert result.verdicts == {"b": "b has the same KLD as a on every image."}
    assert {each.significance for each in result.differences["b"].values()} == {"the same"}
    assert result.differing == {}


# === The command ===


@pytest.fixture(scope="module")
def other(models, datasets, tmp_path_factory):
    """An evaluation of the other model on one of the datasets."""
    output = tmp_path_factory.mktemp("other") / "msinet" / "2"
    evaluate_models(EvaluateConfig(gate="always"), models["bad"], {"salicon": datasets["salicon"]}, output)
    return output


def test_evaluations_are_compared_by_their_stored_scores(evaluated, evaluation, other, tmp_path, capsys):
    page, file = tmp_path / "page.html", tmp_path / "comparison.json"
    main(["compare", str(evaluated), str(other), "--html", str(page), "--json", str(file)])
    printed = capsys.readouterr().out
    assert "msinet/2 is significantly worse than evaluation in KLD (gain" in printed
    assert "Left out: fixationadd1000 (not evaluated on it: msinet/2)." in printed
    comparison = json.loads(file.read_text())
    contents = {"evaluation": evaluation, "msinet/2": Evaluation.read(other, "")}
    (compared,) = comparison["datasets"].values()
    for name, content in contents.items():
        assert compared["means"][name] == pytest.approx(content.datasets["salicon"].models["candidate"])
    # The evaluation compared the same two models in the other direction.
    gains = evaluation.datasets["salicon"].gains
    assert list(gains) == list(METRICS)
    for metric, gain in gains.items():
        assert compared["differences"]["msinet/2"][metric]["mean"] == pytest.approx(-gain.mean, abs=1e-9)
        assert compared["differences"]["msinet/2"][metric]["worse_on"] == gain.better_on

    shown = Page(page)
    assert_self_contained(shown)
    assert "Gain of msinet/2 over evaluation" in shown.text
    for panel in ("Stimulus", "Ground truth", "evaluation", "msinet/2"):
        assert shown.text.count(f"<figcaption>{panel}</figcaption>") == 6
    assert comparison["models"]["msinet/2"]["named"] == str(other)
    assert f"Report: {page}\n" in printed


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


# === The names of models ===


@pytest.fixture
def version(evaluated, models, tmp_path):
    """A version of a registry in a folder, with the scores of its evaluation."""
    extra = tmp_path / "models" / "msinet" / "3" / model_folder.ASSETS_EXTRA
    extra.mkdir(parents=True)
    for name in (model_folder.EVALUATION, model_folder.PER_IMAGE):
        shutil.copy(evaluated / name, extra)
    for name in (model_folder.MODEL_WEIGHTS, model_folder.MODEL_CONFIG):
        (extra / name).symlink_to(models["good"] / name)
    files.write_json(tmp_path / "models" / "msinet" / registry_layout.ALIASES, {model_names.DEFAULT: 3})
    return extra


@pytest.fixture
def run(evaluated, tmp_path):
    """A run of the pipeline, whose first attempt at the evaluation failed."""
    for attempt in ("msinet-2026-01-01", "msinet-2026-01-02"):
        (tmp_path / "runs" / "mine" / attempt / "evaluate-model").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "msinet-2026-01-02" / "evaluate-model" / "evaluation").symlink_to(evaluated)
    files.write_json(tmp_path / "runs" / "mine" / run_folders.RUN_FILE, {})
    return tmp_path / "runs" / "mine"


def test_each_kind_has_its_scores_and_its_model(evaluated, models, datasets, version, run, monkeypatch):
    monkeypatch.chdir(version.parents[3])
    names = [str(evaluated), "runs/mine/", "msinet@3", "msinet", "models/msinet/3", str(models["bad"])]
    *with_scores, plain = find_contestants(names)
    for contestant in with_scores:
        measured = contestant.measured
        assert {name: len(evaluation.table.images) for name, evaluation in measured.items()} == {
            "salicon": 10,
            "fixationadd1000": 4,
        }
        assert measured["salicon"].folder == datasets["salicon"]
        assert measured["salicon"].manifest.fingerprint == "0123abcd"
    assert [each.model for each in with_scores[:2]] == [models["good"]] * 2
    assert [each.model.resolve() for each in with_scores[2:]] == [version] * 3
    assert (plain.model, plain.measured) == (models["bad"], {})


def test_evaluation_of_an_earlier_attempt_does_not_count(evaluated, run):
    for earlier in (["msinet-2026-01-01", "msinet-2026-01-02"], ["msinet-2026-01-02"]):
        files.write_json(run / run_folders.RUN_FILE, {"earlier": earlier})
        with refused(NotFoundError, run, f"RESUME={run}"):
            find_contestants([str(run), str(evaluated)])


def test_model_with_the_name_of_a_baseline_has_another_label(evaluated, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for place in ("uniform", "mine/centre_bias"):
        (tmp_path / place).symlink_to(models["bad"])
    names = ["./uniform", "mine/centre_bias"]
    assert [each.label for each in find_contestants(names)] == names
    assert [each.label for each in find_contestants([str(evaluated), names[1]])][1] == names[1]
    with refused(AmbiguousError, "./uniform"):
        find_contestants([str(evaluated), "uniform"])


def test_evaluation_and_version_on_cloud_storage_are_downloaded(evaluated, version, bucket):
    for name in (model_folder.EVALUATION, model_folder.PER_IMAGE):
        bucket.blob(f"runs/evaluation/{name}").upload_from_filename(evaluated / name)
    assert find_contestants([f"gs://{bucket.name}/runs/evaluation", str(evaluated)])[0].measured
    registry = upload(bucket, version.parents[2])
    for name in ("msinet@3", "msinet@default"):
        contestant, _ = find_contestants([f"{registry}/{name}", str(evaluated)])
        assert contestant.label == name
        assert (contestant.model / model_folder.MODEL_WEIGHTS).is_file()
        assert len(contestant.measured["salicon"].table.images) == 10
    with refused(UserError, "msinet@7", 7):
        find_contestants([f"{registry}/msinet@7", str(evaluated)])


# === The scores that evaluations have in common ===

STORED = ("nss", "cc", "kld")


def measured(
    images="abcd", offset=0.0, size=(48, 64), fingerprint="0123abcd", folder=None, metrics=STORED, n_train=9
):
    values = np.array([ord(image) + offset for image in images], float)
    scores = {model: dict.fromkeys(metrics, values) for model in (Role.CANDIDATE, Role.CENTER_BIAS)}
    manifest = manifest_of(image_size=size, fingerprint=fingerprint, counts={"train": n_train})
    return ModelScores(PerImage(list(images), scores), manifest, folder, (fingerprint, n_train))


def contestants(*sets):
    return [
        Contestant(f"m{index}", f"models/m{index}", None, evaluations, {"model": f"m{index}"})
        for index, evaluations in enumerate(sets)
    ]


def test_equal_images_need_no_note():
    place = pathlib.Path("data")
    shared = find_shared(contestants({"osie": measured()}, {"osie": measured(offset=1, folder=place)}))["osie"]
    assert shared.notes == []
    assert shared.folder == place
    assert shared.table.images == list("abcd")
    assert list(shared.table.scores) == ["m0", "m1", Role.CENTER_BIAS]
    np.testing.assert_array_equal(shared.table.scores["m1"]["kld"] - shared.table.scores["m0"]["kld"], np.ones(4))


def test_images_are_paired_by_name_and_missing_ones_are_counted():
    shared = find_shared(contestants({"osie": measured("abcd")}, {"osie": measured("xdb", offset=1)}))["osie"]
    assert shared.table.images == ["b", "d"]
    np.testing.assert_array_equal(shared.table.scores["m0"]["nss"], [98, 100])
    np.testing.assert_array_equal(shared.table.scores["m1"]["nss"], [99, 101])
    assert shared.notes[0].startswith(
        "Compared on the 2 images that all models were evaluated on (m0 on 4, m1 on 3). "
    )
    assert "sAUC, sAUC/CB" in shared.notes[0]


@pytest.mark.parametrize(
    ("other", "versions"),
    [
        ({"fingerprint": "ffff0000"}, "0123abcd with 9, ffff0000 with 9"),
        ({"n_train": 1000}, "0123abcd with 9, 0123abcd with 1,000"),
    ],
)
def test_different_data_is_noted_and_has_no_common_centre_bias(other, versions):
    metrics = (*STORED, "information_gain")
    first = measured(folder=pathlib.Path("data"), metrics=metrics)
    shared = find_shared(contestants({"osie": first}, {"osie": measured(metrics=metrics, **other)}))["osie"]
    assert f"(fingerprint and training images: {versions})" in shared.notes[0]
    assert "Left out: sAUC/CB, IG" in shared.notes[1]
    assert {label: tuple(scores) for label, scores in shared.table.scores.items()} == {
        "m0": STORED,
        "m1": STORED,
    }
    assert shared.folder is None


def test_models_of_different_sizes_are_compared_in_all_metrics():
    shared = find_shared(contestants({"osie": measured()}, {"osie": measured(size=(240, 320))}))["osie"]
    assert {tuple(scores) for scores in shared.table.scores.values()} == {STORED}
    assert shared.notes == []
