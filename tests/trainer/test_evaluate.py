"""Evaluation on tiny prepared data sets, with networks of the real architecture and random weights."""

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.trainer import predictable
from trainer import artifacts, metrics, preprocess, tfrecords
from trainer.config import HIGHER_IS_BETTER, EvaluateConfig
from trainer.errors import GateError, UserError
from trainer.evaluate import decide, evaluate, require_baseline

DENSITY_METRICS = {"cc", "kld", "sim"}


@pytest.fixture
def result(evaluated):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads((evaluated / artifacts.EVALUATION).read_text(), parse_constant=refuse)


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
            metrics.scale_points(each.fixations, each.original_size, example.original_size)
            for each in examples
            if each.index != example.index
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


def test_scores_are_those_of_each_image_alone(good, datasets, rows, result):
    examples = list(tfrecords.read(datasets["salicon"], "valid"))
    expected = [scores_alone(example, good, examples) for example in examples]
    written = [row for row in rows if (row["dataset"], row["model"]) == ("salicon", "candidate")]
    assert [row["image"] for row in written] == [example.name for example in examples]
    for row, scores in zip(written, expected, strict=True):
        for metric, score in scores.items():
            assert float(row[metric]) == pytest.approx(score, abs=1e-4), metric
    means = result["datasets"]["salicon"]["models"]["candidate"]
    for metric in expected[0]:
        assert means[metric] == pytest.approx(np.mean([scores[metric] for scores in expected]), abs=1e-4)


def test_every_model_has_every_metric_where_there_are_fixations(result):
    models = result["datasets"]["salicon"]["models"]
    assert list(models) == ["candidate", "champion", "centre_bias", "uniform"]
    for scores in models.values():
        assert list(scores) == list(HIGHER_IS_BETTER)
    assert result["datasets"]["salicon"]["n_images"] == 10
    assert result["datasets"]["salicon"]["n_images_with_fixations"] == 10


def test_point_metrics_are_absent_where_there_are_only_maps(result, rows):
    for scores in result["datasets"]["fixationadd1000"]["models"].values():
        assert set(scores) == DENSITY_METRICS
    maps_only = [row for row in rows if row["dataset"] == "fixationadd1000"]
    assert len(maps_only) == 4 * 4
    assert {row["nss"] for row in maps_only} == {""}
    assert all(row["kld"] for row in maps_only)


def test_baselines_score_as_their_definitions_say(result):
    models = result["datasets"]["salicon"]["models"]
    assert models["uniform"]["auc_judd"] == 0.5
    assert models["uniform"]["cc"] == models["uniform"]["nss"] == 0
    assert models["centre_bias"]["information_gain"] == 0
    # The candidate made the truth: only rounding to grey levels and the crop are between them.
    assert models["candidate"]["kld"] < 0.01
    assert models["candidate"]["cc"] > 0.99


def test_the_first_data_set_decides_and_the_better_candidate_is_promoted(result):
    assert result["decides"] == "salicon"
    assert (result["passed_baseline"], result["beats_champion"], result["promote"]) == (True, True, True)
    assert "KLD" in result["reason"]
    require_baseline(result)


def test_the_returned_evaluation_is_the_written_one(models, datasets, tmp_path):
    first = {"fixationadd1000": datasets["fixationadd1000"]}
    returned = evaluate(EvaluateConfig(), models["good"], first, tmp_path / "evaluation")
    assert json.loads((tmp_path / "evaluation" / artifacts.EVALUATION).read_text()) == returned
    assert returned["beats_champion"] is None
    assert returned["promote"]


def test_pictures_of_best_median_and_worst_images_show_the_image_without_padding(evaluated, result):
    pictures = result["datasets"]["salicon"]["pictures"]
    assert [picture["group"] for picture in pictures] == ["best"] * 3 + ["median"] * 3 + ["worst"] * 3
    klds = [picture["kld"] for picture in pictures]
    assert klds == sorted(klds)
    for picture in pictures:
        height, width = predictable.ORIGINAL_SIZES[int(picture["image"].removesuffix(".png")) % 3]
        _, _, *content = preprocess.content_box((height, width), predictable.SIZE)
        assert set(picture["files"]) == {"stimulus", "density", "candidate", "champion"}
        for file in picture["files"].values():
            with Image.open(evaluated / file) as image:
                assert image.size == tuple(reversed(content))


def test_a_candidate_below_the_centre_bias_is_written_and_then_refused(good, models, tmp_path):
    dataset = predictable.write_dataset(tmp_path / "dataset", good, n_valid=3, inverted=True)
    np.save(dataset / artifacts.CENTER_BIAS, np.ones((120, 160), np.float32))
    result = evaluate(EvaluateConfig(gate="always"), models["good"], {"salicon": dataset}, tmp_path / "evaluation")
    assert (tmp_path / "evaluation" / artifacts.EVALUATION).exists()
    assert not result["passed_baseline"]
    assert not result["promote"]
    kld = result["datasets"]["salicon"]["models"]["candidate"]["kld"]
    with pytest.raises(GateError, match=rf"below the centre bias in KLD \({kld:.3f} against .* salicon"):
        require_baseline(result)


def means(kld, cc=0.5, nss=1.0):
    return {"kld": kld, "cc": cc, "nss": nss}


BIAS = {"centre_bias": means(1.6, cc=0.25, nss=0.9)}


@pytest.mark.parametrize(
    ("settings", "candidate", "champion", "beats", "promote"),
    [
        ({}, means(0.5), None, None, True),
        ({}, means(0.5), means(0.6), True, True),
        ({}, means(0.6), means(0.5), False, False),
        ({}, means(0.5), means(0.5), False, False),
        ({"gate_margin": 0.2}, means(0.5), means(0.6), False, False),
        ({"gate_margin": 0.05}, means(0.5), means(0.6), True, True),
        ({"gate": "nss"}, means(0.9, nss=2.0), means(0.5, nss=1.5), True, True),
        ({"gate": "nss"}, means(0.5, nss=1.5), means(0.9, nss=2.0), False, False),
        ({"gate": "always"}, means(0.6), means(0.5), False, True),
        ({"gate": "never"}, means(0.5), means(0.6), True, False),
        ({"gate": "never"}, means(0.5), None, None, False),
    ],
)
def test_the_gate_decides(settings, candidate, champion, beats, promote):
    models = BIAS | {"candidate": candidate} | ({"champion": champion} if champion else {})
    decision = decide(EvaluateConfig(**settings), models)
    assert (decision.passed_baseline, decision.beats_champion, decision.promote) == (True, beats, promote)
    assert decision.reason.endswith(".")


@pytest.mark.parametrize(
    ("candidate", "passed"),
    [
        (means(1.7, cc=0.2), False),
        (means(1.5, cc=0.2), True),
        (means(1.7, cc=0.3), True),
        (means(1.6, cc=0.25), True),
    ],
)
def test_only_a_candidate_worse_in_both_kld_and_cc_is_below_the_baseline(candidate, passed):
    decision = decide(EvaluateConfig(gate="always"), BIAS | {"candidate": candidate})
    assert decision.passed_baseline is passed
    assert decision.promote is passed


def test_the_reason_names_the_numbers():
    decision = decide(EvaluateConfig(gate_margin=0.2), BIAS | {"candidate": means(0.5), "champion": means(0.6)})
    assert decision.reason == (
        "The current default stays: the candidate's KLD is 0.5000, the current default's 0.6000 (lower is "
        "better), which is better by 0.1000 where more than 0.2 is asked."
    )


def test_a_gate_on_fixations_is_refused_before_anything_is_loaded(datasets, tmp_path):
    config = EvaluateConfig(gate="nss")
    maps_only = {"fixationadd1000": datasets["fixationadd1000"]}
    with pytest.raises(UserError, match="has only maps; choose one of cc, kld, sim"):
        evaluate(config, tmp_path / "no-model", maps_only, tmp_path / "evaluation")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("no data set", "no data set to evaluate on"),
        ("not prepared", "is not a prepared data set"),
        ("no images", "has no validation images"),
        ("output exists", "is there already"),
        ("no model", "no-model"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_left(case, message, good, datasets, tmp_path):
    chosen = {"salicon": datasets["salicon"]}
    output = tmp_path / "out" / "evaluation"
    if case == "no data set":
        chosen = {}
    elif case == "not prepared":
        chosen = {"salicon": tmp_path}
    elif case == "no images":
        chosen = {"salicon": predictable.write_dataset(tmp_path / "empty", good, n_valid=0)}
    elif case == "output exists":
        output.mkdir(parents=True)
        (output / "mine.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        evaluate(EvaluateConfig(), tmp_path / "no-model", chosen, output)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_prediction_that_is_not_finite_is_an_error_and_leaves_nothing(datasets, tmp_path):
    broken = predictable.network(3)
    broken.get_layer("decoder_conv4").bias.assign([np.nan])
    model = predictable.write_model(tmp_path / "model", broken)
    with pytest.raises(UserError, match=r"the candidate model's prediction for 0.png is not finite"):
        evaluate(EvaluateConfig(), model, {"salicon": datasets["salicon"]}, tmp_path / "out" / "evaluation")
    assert not list((tmp_path / "out").iterdir())
    shutil.rmtree(model)


def test_one_image_alone_has_no_shuffled_auc(good, models, tmp_path):
    dataset = predictable.write_dataset(tmp_path / "dataset", good, n_valid=1)
    result = evaluate(EvaluateConfig(), models["good"], {"salicon": dataset}, tmp_path / "evaluation")
    assert set(HIGHER_IS_BETTER) - set(result["datasets"]["salicon"]["models"]["candidate"]) == {"shuffled_auc"}
    assert [picture["group"] for picture in result["datasets"]["salicon"]["pictures"]] == ["best"]
