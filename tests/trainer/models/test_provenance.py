"""A model of the sample set, and scores on it, say so wherever they are shown; those of real data do not."""

import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from tests.consoles import printed
from tests.trainer import predictable
from trainer.__main__ import main
from trainer.evaluation import sample_notices
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.settings import EvaluateConfig
from trainer.io.files import write_json
from trainer.models import provenance
from trainer.models.provenance import Provenance
from trainer.network.model_folder import MODEL_CONFIG
from trainer.reports.report import write_report
from trainer.reports.terminal import print_evaluation

pytestmark = pytest.mark.usefixtures("narrow")

SAMPLE = {"source": "sample", "dataset": "sample-points", "image_size": predictable.SIZE}
REAL = {"source": "gs://data/osie", "dataset": "osie", "image_size": predictable.SIZE}


@pytest.fixture(scope="module")
def of_sample(models, tmp_path_factory):
    """A model that was trained on the sample set."""
    folder = shutil.copytree(models["good"], tmp_path_factory.mktemp("sample") / "toy")
    write_json(folder / MODEL_CONFIG, SAMPLE)
    return folder


@pytest.fixture(scope="module")
def sample_data(good, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "data"
    return predictable.write_dataset(folder, good, n_valid=3, dataset="sample-points", source="sample")


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)).save(path)
    return path


@pytest.mark.parametrize(
    ("config", "said"),
    [(None, False), ({}, False), (REAL, False), (SAMPLE, True), ({**REAL, "base_model": SAMPLE}, False)],
)
def test_the_data_of_the_last_training_decides(config, said):
    assert Provenance(config).notice("The model").startswith("The model was trained on" if said else "")
    assert bool(Provenance(config).notice()) is said


def test_report_and_terminal_say_it_of_scores_and_models(of_sample, sample_data, tmp_path):
    evaluation = evaluate_models(
        EvaluateConfig(), of_sample, {"sample-points": sample_data}, tmp_path / "evaluation"
    )
    write_report(tmp_path / "evaluation", tmp_path / "report.html")
    console = Console(file=io.StringIO(), width=80)
    print_evaluation(evaluation, console)
    for shown in ((tmp_path / "report.html").read_text(), printed(console)):
        assert Provenance(SAMPLE).scores_notice() in shown
        assert f"The candidate was {provenance.MARK}" in shown


def test_scores_on_other_data_are_told_apart():
    (notice,) = sample_notices.of_evaluation({"candidate": REAL}, {"osie": REAL, "sample-maps": SAMPLE})
    assert notice.startswith("The scores on sample-maps are of generated shapes.")


def test_predict_says_it_on_stderr_and_in_json(of_sample, narrow_model, photo, tmp_path, capsys):
    for model, notice in ((of_sample, Provenance(SAMPLE).notice()), (narrow_model, "")):
        main(["predict", str(photo), "--model", str(model), "--json", "-"])
        out, err = capsys.readouterr()
        assert json.loads(out)["notice"] == notice
        assert (f"note: {notice}\n" in err) is bool(notice)


def test_export_says_it_and_carries_it(of_sample, tmp_path, capsys):
    main(["export", "--model", str(of_sample), "--output", str(tmp_path / "export")])
    notice = Provenance(SAMPLE).notice()
    assert f"note: {notice}\n" in capsys.readouterr().err
    assert (tmp_path / "export" / "assets.extra" / "NOTICE.txt").read_text() == f"{notice}\n"
