"""Evaluation on tiny prepared datasets, with networks of the real architecture and random weights."""

import contextlib
import csv
import dataclasses
import io
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.refusals import refused
from tests.small_sources import write_tree
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.api import load
from trainer.data import prepared_data, tfrecords
from trainer.data.fetch import fetch_dataset
from trainer.data.prepared import PreparedData
from trainer.data.settings import FetchConfig
from trainer.errors import GateError, MismatchError, UserError
from trainer.evaluation import confidence, gate, scoring
from trainer.evaluation.compare import evaluate_again, find_contestants, find_shared
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.evaluation import Evaluation, Role
from trainer.evaluation.per_image import PerImage
from trainer.evaluation.seen import training_data
from trainer.evaluation.settings import EvaluateConfig
from trainer.io import files
from trainer.metrics import metrics
from trainer.metrics.metric_table import BASELINE, DENSITY, METRICS, metrics_that_need
from trainer.metrics.points import scale_points
from trainer.network import model_folder
from trainer.network.preprocess import Frame
from trainer.prediction.predictor import Predictor
from trainer.reports.report import write_report
from trainer.training.settings import TrainConfig
from trainer.training.start import check_training

pytestmark = pytest.mark.usefixtures("narrow")

DENSITY_METRICS = set(metrics_that_need(DENSITY))


@pytest.fixture
def rows(evaluated):
    with (evaluated / model_folder.PER_IMAGE).open(newline="") as file:
        return list(csv.DictReader(file))


def scores_alone(example, original, model, examples):
    """Scores of one image, predicted alone as for a user, with the other images' fixations as points."""
    restored = load(str(model)).predict(np.asarray(Image.open(io.BytesIO(original.file))))
    top, left, height, width = Frame(tfrecords.Original.MAP_SIZE).box(example.original_size)
    small = Frame(tfrecords.Original.MAP_SIZE).map(restored)[top : top + height, left : left + width]
    others = np.concatenate(
        [
            scale_points(other.fixations, other.original_size, example.original_size)
            for other in examples
            if other.index != example.index
        ]
    )
    return {
        "auc_judd": metrics.auc_judd(restored, example.fixations).mean(),
        "shuffled_auc": metrics.shuffled_auc(restored, example.fixations, others).mean(),
        "nss": metrics.nss(restored, example.fixations).mean(),
        "cc": metrics.correlation(small, original.density),
        "kld": metrics.kld(small, original.density),
        "sim": metrics.sim(small, original.density),
    }


def test_scores_equal_those_of_what_users_get_for_each_image(models, datasets, rows, evaluation):
    pairs = list(tfrecords.read_held_out(datasets["salicon"]))
    examples = [example for example, _ in pairs]
    expected = [scores_alone(*pair, models["good"], examples) for pair in pairs]
    written = [row for row in rows if (row["dataset"], row["model"]) == ("salicon", "candidate")]
    assert [row["image"] for row in written] == [example.name for example in examples]
    for row, scores in zip(written, expected, strict=True):
        for metric, score in scores.items():
            assert float(row[metric]) == pytest.approx(score, abs=1e-4), metric
    means = evaluation.datasets["salicon"].models["candidate"]
    for metric in expected[0]:
        assert means[metric] == pytest.approx(np.mean([scores[metric] for scores in expected]), abs=1e-4)


def test_a_model_has_the_same_scores_on_data_prepared_at_any_size(models, tmp_path):
    source = write_tree(tmp_path / "source", n=8)
    scores = []
    for size in ("48x64", "24x32", "96x96"):
        config = FetchConfig(dataset="osie", source=str(source), image_size=size, allow_partial_data=True)
        data = tmp_path / size
        fetch_dataset(config, data, test_of="osie")
        evaluate_models(EvaluateConfig(), models["good"], {"osie-test": data}, tmp_path / f"scores-{size}")
        table = PerImage.read_all(tmp_path / f"scores-{size}" / model_folder.PER_IMAGE, "")["osie-test"]
        scores.append(table.scores["candidate"])
    assert set(scores[0]) == set(METRICS)
    for metric, expected in scores[0].items():
        for other in scores[1:]:
            np.testing.assert_array_equal(other[metric], expected, err_msg=metric)


def test_pictures_take_no_second_prediction_if_there_is_room_and_are_the_same_without(
    models, datasets, tmp_path, monkeypatch
):
    predict, n_predicted = Predictor.predict_prepared, []

    def counted(self, batch, kind):
        n_predicted.append(len(batch))
        return predict(self, batch, kind)

    monkeypatch.setattr(Predictor, "predict_prepared", counted)
    pictures = []
    for room in (scoring.KEPT_BYTES, 0):
        monkeypatch.setattr(scoring, "KEPT_BYTES", room)
        output = tmp_path / str(room)
        found = evaluate_models(EvaluateConfig(), models["good"], {"salicon": datasets["salicon"]}, output)
        files = found.datasets["salicon"].pictures[0].files
        pictures.append([np.asarray(Image.open(output / file), int) for file in files.values()])
        assert (sum(n_predicted) > found.datasets["salicon"].n_images) == (room == 0)
        n_predicted.clear()
    for kept, again in zip(*pictures, strict=True):
        np.testing.assert_allclose(again, kept, atol=1)


def test_metrics_that_need_fixations_are_absent_without_them(evaluation, rows):
    for scores in evaluation.datasets["fixationadd1000"].models.values():
        assert set(scores) == DENSITY_METRICS
    maps_only = [row for row in rows if row["dataset"] == "fixationadd1000"]
    assert len(maps_only) == 4 * 4
    assert {row["nss"] for row in maps_only} == {""}
    assert all(row["kld"] for row in maps_only)


def test_baselines_score_as_their_definitions_say(evaluation):
    models = evaluation.datasets["salicon"].models
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
    salicon = evaluation.datasets["salicon"]
    assert salicon.intervals["champion"]["kld"] == confidence.mean_interval(columns["champion"])
    gain = confidence.gain(columns["candidate"], columns["champion"], higher_is_better=False)
    # Ten images decide nothing, so this gain has no interval.
    assert salicon.gains["kld"] == dataclasses.replace(gain, low=None, high=None)
    assert (gain.better_on, gain.worse_on, gain.n_images) == (10, 0, 10)
    assert set(salicon.gains) == set(METRICS)
    maps_only = evaluation.datasets["fixationadd1000"]
    assert set(maps_only.gains) == DENSITY_METRICS
    assert set(maps_only.intervals["uniform"]) == DENSITY_METRICS


def test_metrics_in_which_a_candidate_is_significantly_worse_are_named(good, models, tmp_path):
    dataset = predictable.write_dataset(tmp_path / "dataset", good, n_valid=10, inverted=True)
    found = evaluate_models(
        EvaluateConfig(), models["bad"], {"salicon": dataset}, tmp_path / "evaluation", models["good"]
    ).datasets["salicon"]
    table = PerImage.read_all(tmp_path / "evaluation" / model_folder.PER_IMAGE, "")["salicon"]
    for opponent in ("centre_bias", "champion"):
        gains = table.gains("candidate", opponent, 0.95)
        assert found.worse[opponent] == [metric for metric, gain in gains.items() if gain.high < 0]
    assert set().union(*found.worse.values())


def test_first_dataset_decides_and_the_better_candidate_is_promoted(evaluation, good, models, datasets, tmp_path):
    many = predictable.write_dataset(tmp_path / "dataset", good, n_valid=30)
    data = {"many": many, "fixationadd1000": datasets["fixationadd1000"]}
    judged = evaluate_models(EvaluateConfig(), models["good"], data, tmp_path / "evaluation", models["bad"])
    assert (judged.decides, judged.decided) == ("many", True)
    assert (judged.passed_baseline, judged.beats_champion, judged.promote) == (True, True, True)
    assert "KLD" in judged.reason
    judged.require_baseline()
    # Ten images are too few.
    assert (evaluation.decides, evaluation.decided, evaluation.promote) == ("salicon", False, False)
    few = evaluation.datasets["salicon"].decisive_gain
    assert (few.n_images, few.low, few.high) == (10, None, None)


def test_default_of_real_data_stays_if_the_sample_set_decides(models, datasets, tmp_path):
    drawn = shutil.copytree(datasets["fixationadd1000"], tmp_path / "drawn")
    manifest = prepared_data.Manifest.load(drawn)
    champion = shutil.copytree(models["bad"], tmp_path / "champion")
    settings = {"source": "gs://data/add1000", "dataset": manifest.dataset, "fingerprint": "another"}
    files.write_json(champion / model_folder.MODEL_CONFIG, settings | {"image_size": list(predictable.SIZE)})
    config = EvaluateConfig(gate_confidence=0.0)
    for source, promoted in (("gs://data/add1000", True), ("sample", False)):
        dataclasses.replace(manifest, source=source, split="shuffle").save(drawn)
        judged = evaluate_models(config, models["good"], {"drawn": drawn}, tmp_path / source[:2], champion)
        assert (judged.beats_champion, judged.promote) == (True, promoted)
        # A shuffled split of the same kind of data may have had some of the images in its training part.
        assert ("The current default was trained on another version of" in judged.reason) is promoted
    assert judged.reason.startswith("The current default stays: it was trained on real data")


def test_candidate_worse_than_the_centre_bias_is_written_and_then_refused(good, models, tmp_path):
    dataset = predictable.write_dataset(tmp_path / "dataset", good, n_valid=3, inverted=True)
    np.save(dataset / prepared_data.CENTER_BIAS, np.ones((10, 120, 160), np.float32))
    evaluation = evaluate_models(
        EvaluateConfig(gate="always"), models["good"], {"salicon": dataset}, tmp_path / "evaluation"
    )
    assert (tmp_path / "evaluation" / model_folder.EVALUATION).exists()
    assert not evaluation.passed_baseline
    assert not evaluation.promote
    kld = evaluation.datasets["salicon"].models["candidate"]["kld"]
    with refused(GateError, f"{kld:.3f}", 2, "salicon") as caught:
        evaluation.require_baseline()
    assert "Train the candidate" not in str(caught.value)
    with pytest.raises(GateError, match="Train the candidate"):
        dataclasses.replace(evaluation, run="msinet-2026").require_baseline()


def test_a_test_set_alone_is_refused_by_its_own_centre_bias(good, models, tmp_path):
    alone = predictable.write_test_set(tmp_path / "test", good, {}, inverted=True)
    np.save(alone / prepared_data.CENTER_BIAS, np.ones((10, 120, 160), np.float32))
    evaluation = evaluate_models(EvaluateConfig(), models["good"], {"osie-test": alone}, tmp_path / "evaluation")
    with refused(GateError, 5) as caught:
        evaluation.require_baseline()
    assert "train" not in str(caught.value).lower()


def test_a_prediction_that_is_not_finite_is_an_error_and_leaves_nothing(datasets, tmp_path):
    broken = predictable.network(3)
    kernel = broken.get_layer("decoder_conv4").kernel
    kernel.assign(np.full(kernel.shape, 3e38))  # finite, but its output is not
    model = predictable.write_model(tmp_path / "model", broken)
    with refused(UserError, "candidate", "0.png"):
        evaluate_models(EvaluateConfig(), model, {"salicon": datasets["salicon"]}, tmp_path / "out" / "evaluation")
    assert not list((tmp_path / "out").iterdir())
    shutil.rmtree(model)


def test_images_that_either_model_was_trained_on_are_left_out_of_the_comparison(models, datasets, good, tmp_path):
    """Of 30 validation images, the candidate was trained on one by its own list, the default on up to 29."""
    data = predictable.write_dataset(tmp_path / "grown", good, n_valid=30)
    digests = [image.digest for image in prepared_data.images(data, ["valid"])]
    candidate, default = (shutil.copytree(models[name], tmp_path / name) for name in ("good", "bad"))
    outcomes = []
    for n_seen in (1, 10, 29):
        for folder, seen in ((candidate, digests[:1]), (default, digests[-n_seen:])):
            files.write_json(folder / model_folder.TRAINING_IMAGES, {"ffff": {"train": seen, "valid": []}})
        judged = evaluate_models(
            EvaluateConfig(), candidate, {"grown": data}, tmp_path / str(n_seen), default, decision=3
        )
        grown = judged.datasets["grown"]
        outcomes.append((grown.n_images, len(grown.left_out), judged.decided, judged.promote))
        assert grown.decisive_gain.level == gate.gate_level(EvaluateConfig(), 3)
        assert not set(grown.left_out) - {image.name for image in prepared_data.images(data, ["valid"])}
    # Of none, all are scored, and nothing is decided.
    assert outcomes == [(28, 2, True, True), (19, 11, False, False), (30, 0, False, False)]
    assert "on 30 of the 30 validation images of grown, or on others" in judged.reason


# === Groups of images ===


def test_a_group_counts_as_one_image_and_few_groups_decide_nothing(models, good, tmp_path):
    """Of 40 images, each two, three or twenty are a group."""
    outcomes = []
    for size in (2, 3, 20):
        names = [f"site-{index // size}" for index in range(40)]
        data = predictable.write_dataset(tmp_path / f"data-{size}", good, n_valid=40, groups=names)
        judged = evaluate_models(
            EvaluateConfig(), models["good"], {"pages": data}, tmp_path / str(size), models["bad"]
        )
        pages = judged.datasets["pages"]
        table = PerImage.read_all(tmp_path / str(size) / model_folder.PER_IMAGE, "")["pages"]
        assert table.groups == names
        gains = table.values("champion", "kld") - table.values("candidate", "kld")
        decisive = pages.decisive_gain
        interval = confidence.deciding_interval(gains, decisive.level)
        assert ([decisive.low, decisive.high] if interval else None) == interval
        assert (decisive.n_images, decisive.of_groups) == (-(-40 // size), True)
        assert pages.intervals["candidate"]["kld"] == confidence.mean_interval(table.values("candidate", "kld"))
        outcomes.append((pages.n_images, pages.n_units, judged.decided, judged.promote))
    assert outcomes == [(40, 20, True, True), (40, 14, False, False), (40, 2, False, False)]
    assert "40 validation images of pages belong to 2 groups, and a decision needs 20" in judged.reason
    write_report(tmp_path / "2", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Mean over 20 groups of 40 held-out images" in page


def test_an_image_of_which_a_group_was_seen_decides_nothing(models, good, tmp_path):
    names = [f"site-{index // 2}" for index in range(62)]
    data = predictable.write_dataset(tmp_path / "data", good, n_valid=62, groups=names)
    candidate = shutil.copytree(models["good"], tmp_path / "candidate")
    files.write_json(
        candidate / model_folder.TRAINING_IMAGES, {"f": {"train": ["digest-of-valid-4"], "valid": []}}
    )
    judged = evaluate_models(EvaluateConfig(), candidate, {"pages": data}, tmp_path / "evaluation", models["bad"])
    pages = judged.datasets["pages"]
    assert (pages.left_out, pages.n_units, judged.decided) == (["4.png", "5.png"], 30, True)


# === Test sets: only tested on, and without the images that were trained on ===


@pytest.fixture(scope="module")
def tested(good, tmp_path_factory):
    """A test set of five images; `2.png` is also in the training set and `3.png` in the validation set."""
    folder = tmp_path_factory.mktemp("tested") / "osie"
    return predictable.write_test_set(folder, good, {"2.png": "digest-of-train-1", "3.png": "digest-of-valid-0"})


@pytest.fixture(scope="module")
def data(datasets, tested):
    return {"salicon": datasets["salicon"], "osie-test": tested}


@pytest.fixture(scope="module")
def on_test(models, data, tmp_path_factory):
    """The folder and the content of an evaluation that the test set decides."""
    output = tmp_path_factory.mktemp("on-test") / "evaluation"
    return output, evaluate_models(EvaluateConfig(gate_on="test"), models["good"], data, output, models["bad"])


def test_the_test_set_decides_and_comes_first(on_test, data, tmp_path):
    _, evaluation = on_test
    assert PreparedData.by_name(data.values()) == data
    folders = []
    for source in ("/data/Lab eyes", "gs://bucket/pages.tar.gz", "gs://bucket/pages/"):
        folders.append(shutil.copytree(data["osie-test"], tmp_path / str(len(folders))))
        manifest = dataclasses.replace(prepared_data.Manifest.load(folders[-1]), dataset="custom", source=source)
        manifest.save(folders[-1])
    assert list(PreparedData.by_name(folders)) == ["lab-eyes-test", "pages-test", "pages-3-test"]
    assert evaluation.decides == "osie-test"
    assert list(evaluation.datasets) == ["osie-test", "salicon"]
    osie = evaluation.datasets["osie-test"]
    # Two of the five images were trained on, and three are too few to decide.
    assert (evaluation.decided, evaluation.promote) == (False, False)
    assert osie.decisive_gain.mean > 0
    assert (
        "2 of the 5 test images of osie, or on others of their groups, which leaves 3 images, and a decision needs"
        in evaluation.reason
    )
    assert any(picture.group == "gains" for picture in osie.pictures)


def test_images_that_were_also_trained_on_are_left_out_and_named(on_test):
    output, evaluation = on_test
    osie = evaluation.datasets["osie-test"]
    assert osie.left_out == ["2.png", "3.png"]
    assert osie.n_images == 3
    with (output / model_folder.PER_IMAGE).open(newline="") as file:
        scored = {row["image"] for row in csv.DictReader(file) if row["dataset"] == "osie-test"}
    assert scored == {"0.png", "1.png", "4.png"}
    sentence = (
        "2 of the 5 test images of osie are in the training data, or in a group with images that are, so they are "
        "left out: 2.png, 3.png."
    )
    assert sentence in evaluation.reason
    write_report(output, output.parent / "report.html")
    page = (output.parent / "report.html").read_text(encoding="utf-8")
    assert page.count(sentence) == 2
    assert page.index(">Test images of osie</h2>") < page.index(">Validation images of salicon</h2>")


def test_the_baseline_is_the_centre_bias_of_the_training_images(models, data, on_test, tmp_path):
    _, evaluation = on_test
    osie = evaluation.datasets["osie-test"]
    assert osie.center_bias == ("0123abcd", 2)
    other = shutil.copytree(data["salicon"], tmp_path / "other")
    np.save(other / prepared_data.CENTER_BIAS, np.load(other / prepared_data.CENTER_BIAS) ** 4)
    again = evaluate_models(EvaluateConfig(), models["good"], data | {"salicon": other}, tmp_path / "again")
    assert again.decides == "salicon"
    biases = [each.datasets["osie-test"].models["centre_bias"]["kld"] for each in (evaluation, again)]
    assert biases[0] != pytest.approx(biases[1], rel=1e-3)


def test_models_with_other_training_data_are_compared_on_the_same_test_images(models, data, on_test, tmp_path):
    other = shutil.copytree(data["salicon"], tmp_path / "other")
    manifest = files.read_json(other / prepared_data.MANIFEST, "", dict)
    files.write_json(other / prepared_data.MANIFEST, manifest | {"fingerprint": "ffff0000"})
    evaluate_models(EvaluateConfig(), models["bad"], data | {"salicon": other}, tmp_path / "again")
    contestants = find_contestants([str(on_test[0]), str(tmp_path / "again")])
    shared = find_shared(contestants)["osie-test"]
    assert shared.table.images == ["0.png", "1.png", "4.png"]
    first = next(iter(shared.table.scores))
    assert set(METRICS) - set(shared.table.scores[first]) == set(metrics_that_need(BASELINE))
    assert shared.notes == [
        "Left out: sAUC/CB, IG, because the centre bias is that of the training images, and the models were "
        "trained on different ones."
    ]
    compared = evaluate_again(contestants, data)
    assert list(data) == ["salicon", "osie-test"]
    assert list(compared) == ["osie-test", "salicon"]
    again = compared["osie-test"]
    assert again.table.images == [f"{index}.png" for index in range(5)]
    alone = evaluate_again(contestants, {"osie-test": data["osie-test"]})["osie-test"]
    assert set(alone.table.scores[Role.CENTER_BIAS]) == set(METRICS)


def test_a_test_set_alone_is_scored_against_its_own_centre_bias(models, data, tmp_path):
    second = shutil.copytree(data["osie-test"], tmp_path / "second")
    dataclasses.replace(prepared_data.Manifest.load(second), fingerprint="89abcdef").save(second)
    tests = {"osie-test": data["osie-test"], "second-test": second}
    evaluation = evaluate_models(EvaluateConfig(), models["good"], tests, tmp_path / "alone")
    assert evaluation.datasets["second-test"].center_bias == ("89abcdef", 5)
    assert evaluation.decides == "osie-test"
    scored = evaluation.datasets["osie-test"]
    assert scored.center_bias == ("4567cdef", 5)
    assert set(scored.models["centre_bias"]) == set(METRICS)


def test_only_data_that_the_model_was_trained_on_counts(datasets, tested):
    folders = [datasets["salicon"], tested]
    for config, counted in (
        (None, [datasets["salicon"]]),
        ({"dataset": "salicon"}, [datasets["salicon"]]),
        ({"fingerprint": "other"}, []),
        ({"fingerprint": "other", "base_model": {"fingerprint": "0123abcd"}}, [datasets["salicon"]]),
        ({"fingerprint": "other", "base_model": {"imported": {}}}, [datasets["salicon"]]),
    ):
        assert training_data(folders, config) == counted


def test_test_set_is_not_trained_on(tested, tmp_path):
    with refused(MismatchError, tested, "osie"):
        check_training(TrainConfig(), tested, tmp_path / "model")


def test_command_fetches_the_test_set_at_the_size_of_the_first_dataset(models, datasets, tmp_path, capsys):
    source = write_tree(tmp_path / "source", n=3)
    command = ["evaluate", "--model", str(models["good"]), "--dataset-dir", str(datasets["salicon"])]
    tested = ["--test-dataset", "osie", "--test-source", str(source), "--gate-on", "test", "--gate", "nss"]
    output = ["--output-dir", str(tmp_path / "out" / "evaluation")]
    with refused(UserError, 2, 1, 500, 200):
        main([*command, *tested, *output])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]
    with contextlib.suppress(GateError):  # noise has no salient places
        main([*command, *tested, *output, "--allow-partial-data", "true"])
    assert "Test images of osie: 3, with 95% confidence intervals" in capsys.readouterr().out
    evaluation = Evaluation.read(tmp_path / "out" / "evaluation", "")
    assert evaluation.decides == "osie-test"
    assert evaluation.datasets["osie-test"].manifest.image_size == predictable.SIZE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]
