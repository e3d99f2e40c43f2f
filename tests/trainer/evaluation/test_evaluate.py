"""Evaluation on tiny prepared datasets, with networks of the real architecture and random weights."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.trainer import predictable
from trainer import artifacts, files, metrics, preprocess
from trainer.config import EvaluateConfig
from trainer.data import tfrecords
from trainer.errors import GateError, UserError
from trainer.evaluation import confidence
from trainer.evaluation.evaluate import evaluate
from trainer.evaluation.gate import require_baseline
from trainer.metric_table import DENSITY, METRICS, metrics_that_need

pytestmark = pytest.mark.usefixtures("narrow")

DENSITY_METRICS = set(metrics_that_need(DENSITY))


@pytest.fixture
def rows(evaluated):
    with (evaluated / artifacts.PER_IMAGE).open(newline="") as file:
        return list(csv.DictReader(file))


def scores_alone(example, network, examples):
    """Scores of one image, predicted alone, with the other images' fixations as points."""
    prediction = np.asarray(network(example.stimulus[None].astype(np.float32)))[0, ..., 0]
    top, left, height, width = preprocess.content_box(example.original_size, predictable.SIZE)
    box = slice(top, top + height), slice(left, left + width)
    restored = np.clip(preprocess.resize_back(prediction, example.original_size), 0, 1)
    others = np.concatenate(
        [
            metrics.scale_points(other.fixations, other.original_size, example.original_size)
            for other in examples
            if other.index != example.index
        ]
    )
    return {
        "auc_judd": metrics.auc_judd(restored, example.fixations),
        "shuffled_auc": metrics.shuffled_auc(restored, example.fixations, others),
        "nss": metrics.nss(restored, example.fixations),
        "cc": metrics.cc(prediction[box], example.density[box]),
        "kld": metrics.kld(prediction[box], example.density[box]),
        "sim": metrics.sim(prediction[box], example.density[box]),
    }


def test_scores_equal_those_of_each_image_alone(good, datasets, rows, evaluation):
    examples = list(tfrecords.read(datasets["salicon"], "valid"))
    expected = [scores_alone(example, good, examples) for example in examples]
    written = [row for row in rows if (row["dataset"], row["model"]) == ("salicon", "candidate")]
    assert [row["image"] for row in written] == [example.name for example in examples]
    for row, scores in zip(written, expected, strict=True):
        for metric, score in scores.items():
            assert float(row[metric]) == pytest.approx(score, abs=1e-4), metric
    means = evaluation["datasets"]["salicon"]["models"]["candidate"]
    for metric in expected[0]:
        assert means[metric] == pytest.approx(np.mean([scores[metric] for scores in expected]), abs=1e-4)


def test_every_model_has_every_metric_with_fixations(evaluation):
    models = evaluation["datasets"]["salicon"]["models"]
    assert list(models) == ["candidate", "champion", "centre_bias", "uniform"]
    for scores in models.values():
        assert list(scores) == list(METRICS)
    assert evaluation["datasets"]["salicon"]["n_images"] == 10
    assert evaluation["datasets"]["salicon"]["n_images_with_fixations"] == 10


def test_metrics_that_need_fixations_are_absent_without_them(evaluation, rows):
    for scores in evaluation["datasets"]["fixationadd1000"]["models"].values():
        assert set(scores) == DENSITY_METRICS
    maps_only = [row for row in rows if row["dataset"] == "fixationadd1000"]
    assert len(maps_only) == 4 * 4
    assert {row["nss"] for row in maps_only} == {""}
    assert all(row["kld"] for row in maps_only)


def test_baselines_score_as_their_definitions_say(evaluation):
    models = evaluation["datasets"]["salicon"]["models"]
    assert models["uniform"]["auc_judd"] == 0.5
    assert models["uniform"]["cc"] == models["uniform"]["nss"] == 0
    assert models["centre_bias"]["information_gain"] == 0
    # The ground truth is the candidate's prediction, except for rounding to grey levels and the crop.
    assert models["candidate"]["kld"] < 0.01
    assert models["candidate"]["cc"] > 0.99


def test_intervals_and_gains_follow_from_the_scores_of_each_image(evaluation, rows):
    columns = {
        model: [float(row["kld"]) for row in rows if (row["dataset"], row["model"]) == ("salicon", model)]
        for model in ("candidate", "champion")
    }
    salicon = evaluation["datasets"]["salicon"]
    assert salicon["intervals"]["champion"]["kld"] == confidence.interval(columns["champion"])
    gain = confidence.gain(columns["candidate"], columns["champion"], higher_is_better=False)
    assert salicon["gains"]["kld"] == dataclasses.asdict(gain)
    assert (gain.better_on, gain.worse_on, gain.n_images) == (10, 0, 10)
    assert set(salicon["gains"]) == set(METRICS)
    maps_only = evaluation["datasets"]["fixationadd1000"]
    assert set(maps_only["gains"]) == DENSITY_METRICS
    assert set(maps_only["intervals"]["uniform"]) == DENSITY_METRICS


def test_pictures_show_the_images_with_the_largest_gains(evaluation, rows):
    klds = {(row["image"], row["model"]): float(row["kld"]) for row in rows if row["dataset"] == "salicon"}
    images = {image for image, _ in klds}
    gains = {image: klds[image, "champion"] - klds[image, "candidate"] for image in images}
    expected = sorted(gains, key=gains.get, reverse=True)[:3]
    salicon = evaluation["datasets"]["salicon"]
    assert [picture["image"] for picture in salicon["pictures"] if picture["group"] == "gains"] == expected
    groups = {picture["group"] for picture in evaluation["datasets"]["fixationadd1000"]["pictures"]}
    assert groups.isdisjoint({"gains", "losses"})


def test_evaluation_has_the_paths_of_its_data_and_models(evaluation, models, datasets):
    assert evaluation["model_folders"] == {"candidate": str(models["good"]), "champion": str(models["bad"])}
    assert evaluation["datasets"]["salicon"]["folder"] == str(datasets["salicon"])


def test_first_dataset_decides_and_the_better_candidate_is_promoted(evaluation):
    assert evaluation["decides"] == "salicon"
    assert (evaluation["passed_baseline"], evaluation["beats_champion"], evaluation["promote"]) == (
        True,
        True,
        True,
    )
    assert "KLD" in evaluation["reason"]
    require_baseline(evaluation)


def test_the_returned_evaluation_is_the_written_one(models, datasets, tmp_path):
    first = {"fixationadd1000": datasets["fixationadd1000"]}
    returned = evaluate(EvaluateConfig(), models["good"], first, tmp_path / "evaluation")
    assert json.loads((tmp_path / "evaluation" / artifacts.EVALUATION).read_text()) == returned
    assert returned["beats_champion"] is None
    assert returned["promote"]


def test_default_of_real_data_stays_if_the_sample_set_decides(models, datasets, tmp_path):
    drawn = shutil.copytree(datasets["fixationadd1000"], tmp_path / "drawn")
    manifest = artifacts.Manifest.load(drawn)
    champion = shutil.copytree(models["bad"], tmp_path / "champion")
    settings = {"source": "gs://data/add1000", "dataset": manifest.dataset, "fingerprint": "another"}
    files.write_json(champion / artifacts.MODEL_CONFIG, settings)
    config = EvaluateConfig(gate_confidence=0.0)
    for source, promoted in (("gs://data/add1000", True), ("sample", False)):
        dataclasses.replace(manifest, source=source, split="shuffle").save(drawn)
        judged = evaluate(config, models["good"], {"drawn": drawn}, tmp_path / source[:2], champion)
        assert (judged["beats_champion"], judged["promote"]) == (True, promoted)
        # A shuffled split of the same kind of data may have had some of the images in its training part.
        assert ("The current default was trained on another version of" in judged["reason"]) is promoted
    assert judged["reason"] == (
        "The current default stays: it was trained on gs://data/add1000, but this comparison used only "
        "generated shapes; to promote the candidate anyway, set gate=always, or run `python "
        "-m pipeline registry set-default VERSION` later."
    )


def test_pictures_of_best_median_and_worst_images_show_the_image_without_padding(evaluated, evaluation):
    pictures = evaluation["datasets"]["salicon"]["pictures"]
    # The ground truth is the candidate's prediction, so there are no losses.
    extremes = [f"{end} {metric}" for metric in METRICS if metric != "kld" for end in ("best", "worst")]
    groups = [group for group in ("best", "median", "worst") for _ in range(3)] + extremes + ["gains"] * 3
    assert [picture["group"] for picture in pictures] == groups
    for picture, group in zip(pictures[9:], extremes, strict=False):
        end, metric = group.split()
        scores = [each["scores"]["candidate"][metric] for each in pictures]
        is_highest = METRICS[metric].higher_is_better == (end == "best")
        assert picture["scores"]["candidate"][metric] == (max if is_highest else min)(scores)
    klds = [picture["scores"]["candidate"]["kld"] for picture in pictures[:9]]
    assert klds == sorted(klds)
    for picture in pictures:
        height, width = predictable.ORIGINAL_SIZES[int(picture["image"].removesuffix(".png")) % 3]
        _, _, *content = preprocess.content_box((height, width), predictable.SIZE)
        assert set(picture["files"]) == {"stimulus", "density", "candidate", "champion"}
        for file in picture["files"].values():
            with Image.open(evaluated / file) as image:
                assert image.size == tuple(reversed(content))


def test_candidate_worse_than_the_centre_bias_is_written_and_then_refused(good, models, tmp_path):
    dataset = predictable.write_dataset(tmp_path / "dataset", good, n_valid=3, inverted=True)
    np.save(dataset / artifacts.CENTER_BIAS, np.ones((120, 160), np.float32))
    evaluation = evaluate(
        EvaluateConfig(gate="always"), models["good"], {"salicon": dataset}, tmp_path / "evaluation"
    )
    assert (tmp_path / "evaluation" / artifacts.EVALUATION).exists()
    assert not evaluation["passed_baseline"]
    assert not evaluation["promote"]
    kld = evaluation["datasets"]["salicon"]["models"]["candidate"]["kld"]
    with pytest.raises(GateError, match=rf"worse than the centre bias in KLD \({kld:.3f} against .* salicon"):
        require_baseline(evaluation)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("no data set", "no dataset to evaluate on"),
        ("not prepared", "prepared dataset"),
        ("no images", "has no validation images"),
        ("output exists", "exists already"),
        ("no model", "no-model"),
        ("no fixations", "has only maps; choose one of cc, kld, sim"),
    ],
)
def test_error_leaves_nothing(case, message, good, datasets, tmp_path):
    chosen = {"salicon": datasets["salicon"]}
    output, config = tmp_path / "out" / "evaluation", EvaluateConfig()
    if case == "no data set":
        chosen = {}
    elif case == "not prepared":
        chosen = {"salicon": tmp_path}
    elif case == "no images":
        chosen = {"salicon": predictable.write_dataset(tmp_path / "empty", good, n_valid=0)}
    elif case == "output exists":
        output.mkdir(parents=True)
        (output / "mine.txt").touch()
    elif case == "no fixations":
        chosen, config = {"fixationadd1000": datasets["fixationadd1000"]}, EvaluateConfig(gate="nss")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        evaluate(config, tmp_path / "no-model", chosen, output)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_prediction_that_is_not_finite_is_an_error_and_leaves_nothing(datasets, tmp_path):
    broken = predictable.network(3)
    kernel = broken.get_layer("decoder_conv4").kernel
    kernel.assign(np.full(kernel.shape, 3e38))  # finite, but its output is not
    model = predictable.write_model(tmp_path / "model", broken)
    with pytest.raises(UserError, match=r"the candidate model's prediction for 0.png is not finite"):
        evaluate(EvaluateConfig(), model, {"salicon": datasets["salicon"]}, tmp_path / "out" / "evaluation")
    assert not list((tmp_path / "out").iterdir())
    shutil.rmtree(model)


def test_one_image_alone_has_no_shuffled_auc(good, models, tmp_path):
    dataset = predictable.write_dataset(tmp_path / "dataset", good, n_valid=1)
    evaluation = evaluate(EvaluateConfig(), models["good"], {"salicon": dataset}, tmp_path / "evaluation")
    assert set(METRICS) - set(evaluation["datasets"]["salicon"]["models"]["candidate"]) == {"shuffled_auc"}
    assert [picture["group"] for picture in evaluation["datasets"]["salicon"]["pictures"]] == ["best"]
    gated = EvaluateConfig(gate="shuffled_auc")
    with pytest.raises(UserError, match="the gate's metric shuffled_auc could not be computed"):
        evaluate(gated, models["good"], {"salicon": dataset}, tmp_path / "gated", champion=models["bad"])
    assert not (tmp_path / "gated").exists()
