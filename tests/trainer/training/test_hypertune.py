"""The file by which a search learns the validation losses of a trial."""

import json

from tests.narrow import quick_trainings
from tests.prepared import write_prepared
from trainer.training import hypertune
from trainer.training.exits import JOB
from trainer.training.settings import TrainConfig
from trainer.training.train import train

CONFIG = TrainConfig(epochs=2, batch_size=2, precision="float32", initial_weights="none", calibrate=False)


def trained(folder, data):
    with quick_trainings():
        return train(CONFIG, data, folder / "model", folder / "state")


def test_trial_reports_each_epoch_in_the_lines_of_cloudml_hypertune(tmp_path, monkeypatch):
    file, data = tmp_path / "hypertune" / "output.metrics", write_prepared(tmp_path / "data")
    monkeypatch.setenv(hypertune.LOSSES_FILE, str(file))
    monkeypatch.setenv(hypertune.TRIAL, "7")
    record = trained(tmp_path, data)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # As its README shows them: {"global_step": "1000", "my_metric_tag": "0.987", "timestamp": ..., "trial": "0"}.
    assert [{**line, "timestamp": 0} for line in lines] == [
        {"global_step": str(epoch), "valid_loss": str(loss), "timestamp": 0, "trial": "7"}
        for epoch, loss in hypertune.read_losses(file).items()
    ]
    assert [line["global_step"] for line in lines] == ["1", "2"]
    assert min(hypertune.read_losses(file).values()) == record["valid_loss"]
    # A machine that takes the place of a lost one has no file, and resumes after the last epoch.
    losses = hypertune.read_losses(file)
    file.unlink()
    trained(tmp_path, data)
    assert hypertune.read_losses(file) == losses


def test_other_trainings_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(JOB, "1")
    monkeypatch.setattr(hypertune, "DEFAULT_FILE", str(tmp_path / "output.metrics"))
    hypertune.report([{"epoch": 1, "valid_loss": 0.5}])
    assert not list(tmp_path.iterdir())


def test_trials_of_vertex_ai_write_where_it_looks(tmp_path, monkeypatch):
    file = tmp_path / "output.metrics"
    monkeypatch.setattr(hypertune, "DEFAULT_FILE", str(file))
    monkeypatch.setenv(hypertune.TRIAL, "3")
    hypertune.report([{"epoch": epoch, "valid_loss": 1 / epoch} for epoch in range(1, 151)])
    losses = hypertune.read_losses(file)
    assert (min(losses), max(losses), losses[150]) == (51, 150, 1 / 150)


def test_best_epoch_is_reported_however_long_ago(tmp_path, monkeypatch):
    file = tmp_path / "output.metrics"
    monkeypatch.setenv(hypertune.LOSSES_FILE, str(file))
    hypertune.report([{"epoch": epoch, "valid_loss": abs(epoch - 7)} for epoch in range(1, 151)])
    losses = hypertune.read_losses(file)
    assert (len(losses), losses[7], max(losses)) == (hypertune.MOST_LINES, 0, 150)


def test_line_that_is_being_written_is_left_out(tmp_path):
    file = tmp_path / "output.metrics"
    assert hypertune.read_losses(file) == {}
    file.write_text('{"global_step": "1", "valid_loss": "0.5"}\n{"global_step": "2", "val')
    assert hypertune.read_losses(file) == {1: 0.5}
