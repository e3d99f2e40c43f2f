"""The names that `compare` takes."""

import shutil

import pytest

from tests.gcs import upload
from trainer import artifacts, files
from trainer.errors import UserError
from trainer.evaluation.compare import find_contestants


@pytest.fixture
def version(evaluated, models, tmp_path):
    """A version of a registry in a folder, with the scores of its evaluation."""
    extra = tmp_path / "models" / "msinet" / "3" / artifacts.VERSION_EXTRA
    extra.mkdir(parents=True)
    for name in (artifacts.EVALUATION, artifacts.PER_IMAGE):
        shutil.copy(evaluated / name, extra)
    for name in (artifacts.WEIGHTS, artifacts.MODEL_CONFIG):
        (extra / name).symlink_to(models["good"] / name)
    files.write_json(tmp_path / "models" / "msinet" / artifacts.ALIASES, {artifacts.DEFAULT: 3})
    return extra


@pytest.fixture
def run(evaluated, tmp_path):
    """A run of the pipeline, whose first attempt at the evaluation failed."""
    for attempt in ("msinet-2026-01-01", "msinet-2026-01-02"):
        (tmp_path / "runs" / "mine" / attempt / "evaluate-model").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "msinet-2026-01-02" / "evaluate-model" / "evaluation").symlink_to(evaluated)
    files.write_json(tmp_path / "runs" / "mine" / artifacts.RUN_FILE, {})
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
        assert measured["salicon"].manifest["fingerprint"] == "0123abcd"
    assert [each.model for each in with_scores[:2]] == [models["good"]] * 2
    assert [each.model.resolve() for each in with_scores[2:]] == [version] * 3
    assert (plain.model, plain.measured) == (models["bad"], {})


def test_evaluation_of_an_earlier_attempt_does_not_count(evaluated, run):
    for earlier in (["msinet-2026-01-01", "msinet-2026-01-02"], ["msinet-2026-01-02"]):
        files.write_json(run / artifacts.RUN_FILE, {"earlier": earlier})
        with pytest.raises(UserError, match=r"mine has no evaluation yet; finish it with .*RESUME=.*mine"):
            find_contestants([str(run), str(evaluated)])


def test_labels_are_as_short_as_possible(run, version, evaluated):
    names = [str(version.parent), str(run), str(evaluated)]
    assert [each.label for each in find_contestants(names)] == ["msinet/3", "mine", evaluated.name]
    other = version.parents[2] / "other" / "3"
    shutil.copytree(version.parent, other, symlinks=True)
    assert [each.label for each in find_contestants([names[0], str(other)])] == ["msinet/3", "other/3"]


def test_model_with_the_name_of_a_baseline_has_another_label(evaluated, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for place in ("uniform", "mine/centre_bias"):
        (tmp_path / place).symlink_to(models["bad"])
    names = ["./uniform", "mine/centre_bias"]
    assert [each.label for each in find_contestants(names)] == names
    assert [each.label for each in find_contestants([str(evaluated), names[1]])][1] == names[1]
    with pytest.raises(UserError, match=r"the name uniform has another meaning in reports; write \./uniform"):
        find_contestants([str(evaluated), "uniform"])


def test_missing_data_and_models_are_none(evaluated, evaluation, store, datasets, tmp_path):
    evaluation["model_folders"]["candidate"] = str(tmp_path / "gone")
    evaluation["datasets"]["salicon"]["folder"] = str(tmp_path / "gone")
    evaluation["datasets"]["fixationadd1000"]["folder"] = str(datasets["salicon"])  # of another size by now
    evaluation["datasets"]["fixationadd1000"]["manifest"]["image_size"] = [240, 320]
    contestant, _ = find_contestants([str(store(tmp_path / "moved", evaluation)), str(evaluated)])
    assert contestant.model is None
    assert contestant.facts["model"] == str(tmp_path / "gone")
    assert [measured.folder for measured in contestant.measured.values()] == [None, None]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["EVALUATION"], "compare needs two or more models"),
        (["EVALUATION", "EVALUATION/"], "evaluation is named twice"),
        (["EVALUATION", "nowhere"], r"nowhere cannot be compared \(.*\); name a run \(runs/TIME\), an evaluation"),
        (["EVALUATION", "started"], r"has no evaluation yet; finish it with `make run-pipeline RESUME=.*started"),
        (["EVALUATION", "old"], r"old is from an earlier version \(it has no 'folder'\); evaluate the model"),
    ],
)
def test_invalid_name_is_an_error(names, message, evaluated, evaluation, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.write_json(tmp_path / "started" / artifacts.RUN_FILE, {})
    del evaluation["datasets"]["salicon"]["folder"]
    store(tmp_path / "old", evaluation)
    with pytest.raises(UserError, match=message):
        find_contestants([name.replace("EVALUATION", str(evaluated)) for name in names])


def test_evaluation_on_cloud_storage_is_downloaded(evaluated, bucket):
    for name in (artifacts.EVALUATION, artifacts.PER_IMAGE):
        bucket.blob(f"runs/evaluation/{name}").upload_from_filename(evaluated / name)
    contestant, _ = find_contestants([f"gs://{bucket.name}/runs/evaluation", str(evaluated)])
    assert contestant.label == "runs/evaluation"
    assert len(contestant.measured["salicon"].table.images) == 10


def test_version_of_a_registry_on_cloud_storage_is_downloaded(evaluated, version, bucket):
    registry = upload(bucket, version.parents[2])
    for name in ("msinet@3", "msinet@default"):
        contestant, _ = find_contestants([f"{registry}/{name}", str(evaluated)])
        assert contestant.label == name
        assert (contestant.model / artifacts.WEIGHTS).is_file()
        assert len(contestant.measured["salicon"].table.images) == 10
    with pytest.raises(UserError, match=r"msinet@7 cannot be compared \(.* has no version 7; it has 3 "):
        find_contestants([f"{registry}/msinet@7", str(evaluated)])
    with pytest.raises(UserError, match=r"^there is nothing at gs://.*/models/other; `gcloud storage ls"):
        find_contestants([f"{registry}/other", str(evaluated)])
