"""The known images: kept with a version, scored as they were, and what they decide."""

import dataclasses
import shutil

import numpy as np
import pytest

from tests.refusals import refused
from tests.trainer import predictable
from trainer.data import prepared_data, tfrecords
from trainer.errors import ContentError
from trainer.evaluation import known, reasons, recorded
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.evaluation import KNOWN, RECORDED, Ending, Known
from trainer.evaluation.scoring import Scorer
from trainer.evaluation.settings import EvaluateConfig
from trainer.metrics.metric_table import BASELINE, DENSITY, METRICS, OTHER_COUNTS, metrics_that_need
from trainer.network import model_folder
from trainer.prediction.predictor import Predictor

pytestmark = pytest.mark.usefixtures("narrow")
N = 32


@pytest.fixture(scope="module")
def honest(good, tmp_path_factory):
    """Data whose ground truth is the prediction of the model `good`."""
    return predictable.write_dataset(tmp_path_factory.mktemp("honest") / "data", good, N, n_fixations=0)


@pytest.fixture(scope="module")
def wrong(good, tmp_path_factory):
    """The same images with the negative of that."""
    folder = tmp_path_factory.mktemp("wrong") / "data"
    return predictable.write_dataset(folder, good, N, n_fixations=0, inverted=True)


@pytest.fixture(scope="module")
def default(models, honest, tmp_path_factory):
    """The model `good` with the known images of the evaluation that promoted it, as a registry keeps them."""
    folder = tmp_path_factory.mktemp("default")
    judged = evaluate_models(
        EvaluateConfig(), models["good"], {"lab": honest}, folder / "evaluation", models["bad"]
    )
    assert (judged.end, judged.n_known, judged.known) == (Ending.PROMOTED, N, None)
    kept = shutil.copytree(models["good"], folder / "model")
    for name in (KNOWN, RECORDED, model_folder.PER_IMAGE):
        shutil.copy(folder / "evaluation" / name, kept)
    return kept


def judge(candidate, data, output, default, **settings):
    n_known = settings.pop("n_known", N)
    config = EvaluateConfig(**settings)
    return evaluate_models(config, candidate, {"lab": data}, output, default, n_known=n_known)


def test_known_images_have_the_scores_that_they_had(default, honest, models, datasets, tmp_path):
    kept = known.open_known(default)
    for folder in (honest, datasets["salicon"]):
        if folder != honest:
            known.write_known(tmp_path / "with-fixations.zip", folder, names_in(folder), None)
            (tmp_path / "model").mkdir()
            shutil.copy(tmp_path / "with-fixations.zip", tmp_path / "model" / KNOWN)
            kept = known.open_known(tmp_path / "model")
        tables = []
        for each in (folder, kept):
            manifest = prepared_data.Manifest.load(each)
            tables.append(Scorer(each, manifest, {"candidate": Predictor(models["bad"])}).score("score"))
        before, after = tables
        assert sorted(after.images) == sorted(before.images)
        own = {
            metric
            for metric in after.scores["candidate"]
            if not {BASELINE, OTHER_COUNTS} & {*METRICS[metric].needs}
        }
        own -= {name for name, row in METRICS.items() if not row.is_of_map}
        assert own == set(metrics_that_need(DENSITY)) | (set() if folder == honest else {"auc_judd", "nss"})
        for metric in own:
            scores = [dict(zip(each.images, each.scores["candidate"][metric], strict=True)) for each in tables]
            assert scores[0] == pytest.approx(scores[1], abs=1e-6), metric


def names_in(folder):
    return [image.name for image in prepared_data.images(folder, ["valid"])]


def test_a_candidate_that_is_better_on_new_and_worse_on_known_images_is_not_promoted(
    default, models, wrong, tmp_path
):
    judged = judge(models["bad"], wrong, tmp_path / "evaluation", default)
    assert judged.datasets["lab"].decisive_gain.low > 0
    assert (judged.end, judged.promote, judged.known.verdict) == (Ending.DISAGREE, False, "worse")
    assert judged.known.high < 0
    assert (judged.known.n_images, judged.known.n_shared, judged.known.n_changed) == (N, N, N)
    assert f"the recordings of {N} of the {N} known images" in judged.reason
    # If a person makes it the default all the same, the old images do not contradict it for ever.
    kept = shutil.copytree(models["bad"], tmp_path / "model")
    shutil.copy(tmp_path / "evaluation" / KNOWN, kept)
    again = known.open_known(kept)
    assert {image.original.density.tobytes() for image in known._held_out(again)} == {
        original.density.tobytes() for _, original in tfrecords.read_held_out(wrong)
    }


def test_which_of_data_and_model_changed_is_said(default, models, good, tmp_path):
    """The new images are others, and of the known ones none is there."""
    data = predictable.write_dataset(tmp_path / "data", good, N, n_fixations=0, inverted=True)
    lines = (data / prepared_data.IMAGES).read_text().replace("digest-of", "other")
    (data / prepared_data.IMAGES).write_text(lines)
    judged = judge(models["bad"], data, tmp_path / "evaluation", default)
    assert (judged.end, judged.known.n_shared) == (Ending.DISAGREE, 0)
    same = dataclasses.replace(judged.known, n_shared=3)
    assert "The model changed" in reasons.what_changed(same)


def test_known_images_that_are_gone_end_in_a_question_until_they_are_forgotten(default, models, wrong, tmp_path):
    without = shutil.copytree(default, tmp_path / "default")
    (without / KNOWN).unlink()
    gone = judge(models["bad"], wrong, tmp_path / "gone", without)
    assert (gone.end, gone.known.verdict) == (Ending.HELD, Known.GONE)
    forgotten = judge(models["bad"], wrong, tmp_path / "forgotten", without, known_images="forget")
    assert (forgotten.end, forgotten.known.verdict) == (Ending.PROMOTED, Known.FORGOTTEN)
    also = judge(models["bad"], wrong, tmp_path / "also", default, known_images="forget")
    assert (also.end, also.n_known) == (Ending.PROMOTED, N)
    never = judge(models["bad"], wrong, tmp_path / "never", without, n_known=0)  # of an earlier version
    assert (never.end, never.known) == (Ending.PROMOTED, None)


def test_a_question_about_the_data_holds_a_better_candidate(models, honest, tmp_path):
    question = "Fine-tuning data (lab): positions look as if y were upside down."
    settings = {"champion": models["bad"], "questions": [question]}
    held = evaluate_models(EvaluateConfig(), models["good"], {"lab": honest}, tmp_path / "held", **settings)
    assert (held.end, held.promote, held.beats_champion) == (Ending.HELD, False, True)
    assert question in held.reason
    always = evaluate_models(
        EvaluateConfig(gate="always"), models["good"], {"lab": honest}, tmp_path / "always", **settings
    )
    assert always.end == Ending.PROMOTED
    settings["champion"] = models["good"]
    equal = evaluate_models(EvaluateConfig(), models["good"], {"lab": honest}, tmp_path / "equal", **settings)
    assert equal.end == Ending.CHALLENGER


def test_an_image_stays_as_it_was_known_and_a_bounded_number_is_kept(default, wrong, good, tmp_path, monkeypatch):
    before = known.open_known(default)
    assert known.write_known(tmp_path / "a.zip", wrong, names_in(wrong), before) == N
    (tmp_path / "a").mkdir()
    shutil.copy(tmp_path / "a.zip", tmp_path / "a" / KNOWN)
    after = known.open_known(tmp_path / "a")
    densities = [
        {image.example.name: image.original.density.tobytes() for image in known._held_out(each)}
        for each in (before, after)
    ]
    assert densities[0] == densities[1]
    monkeypatch.setattr(known, "MOST", 7)
    names = []
    for index, folder in enumerate((wrong, wrong)):
        path = tmp_path / f"{index}.zip"
        assert known.write_known(path, folder, names_in(folder)[index:], before if index else None) == 7
        (tmp_path / f"m{index}").mkdir()
        shutil.copy(path, tmp_path / f"m{index}" / KNOWN)
        names.append([line.image for line in recorded.read_lines(known.open_known(tmp_path / f"m{index}"))])
    assert names[0] == names[1]
    assert known.write_known(tmp_path / "none.zip", wrong, [], None) == 0
    assert not (tmp_path / "none.zip").exists()


def test_a_damaged_file_is_named_with_a_remedy(default, tmp_path):
    broken = shutil.copytree(default, tmp_path / "default")
    content = bytearray((broken / KNOWN).read_bytes())
    (broken / KNOWN).write_bytes(content[: len(content) // 2])
    with refused(ContentError, "known_images.zip", "known_images=forget"):
        known.open_known(broken)


def test_the_centre_bias_of_known_images_is_their_own(default, honest):
    kept = known.open_known(default)
    folds = np.load(kept / prepared_data.CENTER_BIAS)
    assert folds.sum() == pytest.approx(N, rel=1e-4)
