"""Test sets: only tested on, decided on if the gate says so, and without the images that were trained on."""

import contextlib
import csv
import shutil

import numpy as np
import pytest

from tests.small_sources import write_tree
from tests.trainer import predictable
from trainer import artifacts, files
from trainer.__main__ import main
from trainer.config import EvaluateConfig, TrainConfig
from trainer.errors import GateError, UserError
from trainer.evaluation import gate
from trainer.evaluation.compare import evaluate_again, find_contestants, find_shared
from trainer.evaluation.evaluate import evaluate
from trainer.metric_table import BASELINE, METRICS, metrics_that_need
from trainer.reports.report import write_report
from trainer.training.start import check_training

pytestmark = pytest.mark.usefixtures("narrow")


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
    return output, evaluate(EvaluateConfig(gate_on="test"), models["good"], data, output, models["bad"])


def test_the_test_set_decides_and_comes_first(on_test, data):
    _, evaluation = on_test
    assert artifacts.prepared_by_name(data.values()) == data
    assert evaluation["decides"] == "osie-test"
    assert list(evaluation["datasets"]) == ["osie-test", "salicon"]
    osie = evaluation["datasets"]["osie-test"]
    assert evaluation["promote"]
    assert f"the candidate's KLD is {osie['models']['candidate']['kld']:.4f}" in evaluation["reason"]
    assert "Decided on the 3 test images of osie." in evaluation["reason"]
    assert any(picture["group"] == "gains" for picture in osie["pictures"])


def test_images_that_were_also_trained_on_are_left_out_and_named(on_test):
    output, evaluation = on_test
    osie = evaluation["datasets"]["osie-test"]
    assert osie["left_out"] == ["2.png", "3.png"]
    assert osie["n_images"] == 3
    with (output / artifacts.PER_IMAGE).open(newline="") as file:
        scored = {row["image"] for row in csv.DictReader(file) if row["dataset"] == "osie-test"}
    assert scored == {"0.png", "1.png", "4.png"}
    sentence = "2 of the 5 test images of osie are also in the training data, so they are left out: 2.png, 3.png."
    assert sentence in evaluation["reason"]
    write_report(output, output.parent / "report.html")
    page = (output.parent / "report.html").read_text(encoding="utf-8")
    assert page.count(sentence) == 2
    assert page.index(">Test images of osie</h2>") < page.index(">Validation images of salicon</h2>")


def test_the_baseline_is_the_centre_bias_of_the_training_images(models, data, on_test, tmp_path):
    _, evaluation = on_test
    osie = evaluation["datasets"]["osie-test"]
    assert osie["center_bias"] == ["0123abcd", 2]
    other = shutil.copytree(data["salicon"], tmp_path / "other")
    bias = np.load(other / artifacts.CENTER_BIAS)[::-1, ::-1] ** 4
    np.save(other / artifacts.CENTER_BIAS, bias / bias.sum())
    again = evaluate(EvaluateConfig(), models["good"], data | {"salicon": other}, tmp_path / "again")
    assert again["decides"] == "salicon"
    biases = [each["datasets"]["osie-test"]["models"]["centre_bias"]["kld"] for each in (evaluation, again)]
    assert biases[0] != pytest.approx(biases[1], rel=1e-3)


def test_models_with_other_training_data_are_compared_on_the_same_test_images(models, data, on_test, tmp_path):
    other = shutil.copytree(data["salicon"], tmp_path / "other")
    manifest = files.read_json(other / artifacts.MANIFEST, "", dict)
    files.write_json(other / artifacts.MANIFEST, manifest | {"fingerprint": "ffff0000"})
    evaluate(EvaluateConfig(), models["bad"], data | {"salicon": other}, tmp_path / "again")
    contestants = find_contestants([str(on_test[0]), str(tmp_path / "again")])
    shared = find_shared(contestants)["osie-test"]
    assert shared.table.images == ["0.png", "1.png", "4.png"]
    first = next(iter(shared.table.scores))
    assert set(METRICS) - set(shared.table.scores[first]) == set(metrics_that_need(BASELINE))
    assert shared.notes == [
        "Left out: IG, because the centre bias is that of the training images, and the models were trained on "
        "different ones."
    ]
    again = evaluate_again(contestants, data)["osie-test"]
    assert again.table.images == [f"{index}.png" for index in range(5)]
    with pytest.raises(
        UserError, match=r"osie-test is a test set, and the centre bias comes from training images"
    ):
        evaluate_again(contestants, {"osie-test": data["osie-test"]})


def test_only_data_that_the_model_was_trained_on_counts(datasets, tested):
    folders = [datasets["salicon"], tested]
    for config, counted in (
        (None, [datasets["salicon"]]),
        ({"dataset": "salicon"}, [datasets["salicon"]]),
        ({"fingerprint": "other"}, []),
        ({"fingerprint": "other", "base_model": {"fingerprint": "0123abcd"}}, [datasets["salicon"]]),
        ({"fingerprint": "other", "base_model": {"imported": {}}}, [datasets["salicon"]]),
    ):
        assert gate.training_data(folders, config) == counted


@pytest.mark.parametrize(
    ("config", "cautious"),
    [
        (None, False),
        ({"dataset": "cat2000", "fingerprint": "aaaa"}, False),
        ({"dataset": "osie", "fingerprint": "aaaa"}, False),
        ({"dataset": "osie", "fingerprint": "bbbb"}, True),
        ({"dataset": "cat2000", "base_model": {"dataset": "osie", "imported": {}}}, True),
        ({"dataset": "osie", "source": "sample", "fingerprint": "bbbb"}, False),
    ],
)
def test_reason_warns_of_a_model_trained_on_data_of_that_name_that_is_not_at_hand(config, cautious):
    manifest = {"dataset": "osie", "source": "gs://b/osie", "split": "shuffle"}
    sentence = gate.test_caution("current default", config, manifest, {"aaaa": 0.0})
    assert bool(sentence) == cautious
    assert not cautious or sentence.startswith("The current default was trained on osie too.")


@pytest.mark.parametrize(("share", "cautious"), [(None, True), (0.3, True), (0.5, False), (0.6, False)])
@pytest.mark.parametrize("split", ["shuffle", "given"])
def test_reason_warns_of_a_model_that_kept_fewer_images_apart(share, cautious, split):
    manifest = {"dataset": "osie", "source": "gs://b/osie", "split": split, "test_share": 0.5}
    config = {"dataset": "osie", "fingerprint": "aaaa"} | ({} if share is None else {"test_share": share})
    sentence = gate.test_caution("current default", config, manifest, {"aaaa": 0.5})
    assert ("may have been in its training or validation set, so" in sentence) == cautious
    assert bool(sentence) == cautious


def test_wrong_arguments_are_refused_before_the_model_is_read_and_nothing_is_written(
    good, datasets, tested, tmp_path
):
    salicon, maps_only = {"salicon": datasets["salicon"]}, tmp_path / "maps" / "osie"
    predictable.write_test_set(maps_only, good, {}, n_fixations=0)
    all_seen = {f"{index}.png": "digest-of-train-0" for index in range(5)}
    predictable.write_test_set(tmp_path / "seen", good, all_seen)
    unlisted = shutil.copytree(tested, tmp_path / "unlisted")
    (unlisted / artifacts.IMAGES).unlink()
    before = sorted(tmp_path.rglob("*"))
    for config, chosen, message in (
        ({"gate_on": "test"}, salicon, "gate_on is test, but there is no test set; set test_dataset"),
        ({}, {"osie-test": tested}, "osie-test is a test set, and the centre bias comes from training images"),
        (
            {"gate_on": "test", "gate": "nss"},
            {**salicon, "osie-test": maps_only},
            "the gate nss needs fixations, but dataset osie-test has only maps; choose one of",
        ),
        (
            {},
            {**salicon, "osie-test": tmp_path / "seen"},
            "all 5 test images of osie are also in the training data; choose another test_dataset or test_source",
        ),
        ({}, {**salicon, "osie-test": unlisted}, r"images\.csv cannot be read .*: prepare the dataset again"),
    ):
        with pytest.raises(UserError, match=message):
            evaluate(EvaluateConfig(**config), tmp_path / "no-model", chosen, tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before


def test_test_set_is_not_trained_on(tested, tmp_path):
    with pytest.raises(
        UserError, match=r"is a test set of osie, which is not trained on; fetch data without --test"
    ):
        check_training(TrainConfig(), tested, tmp_path / "model")


def test_command_fetches_the_test_set_at_the_size_of_the_first_dataset(models, datasets, tmp_path, capsys):
    source = write_tree(tmp_path / "source", n=3)
    command = ["evaluate", "--model", str(models["good"]), "--dataset-dir", str(datasets["salicon"])]
    tested = ["--test-dataset", "osie", "--test-source", str(source), "--gate-on", "test", "--gate", "nss"]
    output = ["--output-dir", str(tmp_path / "out" / "evaluation")]
    with pytest.raises(SystemExit, match="has 3 test images, the complete dataset has 700; add the rest, or set"):
        main([*command, *tested, *output])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]
    with contextlib.suppress(GateError):  # noise has no salient places
        main([*command, *tested, *output, "--allow-partial-data", "true"])
    assert "Test images of osie: 3; 95% confidence intervals" in capsys.readouterr().out
    evaluation = files.read_json(tmp_path / "out" / "evaluation" / artifacts.EVALUATION, "", dict)
    assert evaluation["decides"] == "osie-test"
    assert evaluation["datasets"]["osie-test"]["manifest"]["image_size"] == list(predictable.SIZE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--test-source", "sample"], "test_source is 'sample', but test_dataset is empty; name the dataset that"),
        (["--gate-on", "test"], "gate_on is test, but there is no test set; set test_dataset"),
        (["--test-share", "0.5"], "test_share is 0.5, but test_dataset is empty; name the dataset that it is a"),
        (["--test-dataset", "osei"], "'osei'"),
        (["--gate-on", "valid"], "gate_on is 'valid'"),
    ],
)
def test_command_refuses_a_test_set_that_cannot_be(arguments, message, models, datasets, tmp_path):
    command = ["evaluate", "--model", str(models["good"]), "--dataset-dir", str(datasets["salicon"])]
    with pytest.raises(SystemExit, match=message):
        main([*command, "--output-dir", str(tmp_path / "evaluation"), *arguments])
    assert not list(tmp_path.iterdir())
