"""Logs, read back by TensorBoard, and the profile."""

import io
import shutil
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from tests import patches
from trainer.io import files
from trainer.training import tensorboard
from trainer.training.tensorboard import GAP_PX, Board

MEASURED = {"speed/step_s": 0.25}


def read(folder) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def scalars(folder) -> dict[str, dict[int, float]]:
    """By name, the values by step; a repeated step fails."""
    accumulator, curves = read(folder), {}
    for name in accumulator.ActivePlugins() and accumulator.PluginTagToContent("scalars"):
        events = accumulator.Tensors(name)
        curves[name] = {event.step: float(tf.make_ndarray(event.tensor_proto)) for event in events}
        assert len(curves[name]) == len(events)
    return curves


@pytest.fixture
def optimizer():
    return keras.optimizers.Adam(0.5)


def test_chunk_and_epoch_are_read_back_at_their_steps(tmp_path, optimizer):
    with Board(str(tmp_path / "logs")) as board:
        assert not board.quiet
        board.update_profile(0)
        board.chunk(5, np.array([1.0, 2.0]), optimizer, MEASURED)
        board.chunk(10, np.array([0.5]), optimizer, MEASURED)
        board.epoch(1, 10, {"loss": 1.25, "valid_loss": 0.75, "seconds": 9.0, "best": True})
    curves = scalars(tmp_path / "logs")
    assert curves["training/loss"] == {5: 1.5, 10: 0.5}
    assert curves["training/learning_rate"] == {5: 0.5, 10: 0.5}
    assert curves["speed/step_s"] == {5: 0.25, 10: 0.25}
    epoch = {name: values for name, values in curves.items() if name.startswith("epoch/")}
    assert epoch == {
        "epoch/number": {10: 1},
        "epoch/loss": {10: 1.25},
        "epoch/valid_loss": {10: 0.75},
        "epoch/seconds": {10: 9},
    }
    assert "training/loss_scale" not in curves


def test_history_of_a_resumed_run_is_that_of_the_last_start(tmp_path, optimizer):
    with Board(str(tmp_path)) as board:
        board.update_profile(0)
        for step in (2, 4, 6, 8):
            board.chunk(step, np.array([1.0]), optimizer, MEASURED)
        board.epoch(1, 8, {"loss": 1.0, "valid_loss": 1.0, "seconds": 1.0})
    with Board(str(tmp_path)) as board:  # from a checkpoint after step 4
        board.update_profile(4)
        board.chunk(7, np.array([3.0]), optimizer, MEASURED)
    assert scalars(tmp_path)["training/loss"] == {2: 1, 4: 1, 7: 3}
    assert scalars(tmp_path).get("epoch/loss", {}) == {}


def test_images_show_stimulus_truth_and_prediction(tmp_path):
    stimuli = np.random.default_rng(1).integers(0, 256, (2, 16, 24, 3), np.uint8)
    densities, predictions = np.zeros((2, 16, 24, 1), np.uint8), np.zeros((2, 16, 24, 1), np.float32)
    densities[:, 4, 6], predictions[:, 5, 7] = 200, 1e-3
    with Board(str(tmp_path)) as board:
        board.images(9, stimuli, densities, predictions)
    (event,) = read(tmp_path).Tensors("stimulus, truth, prediction/2")
    shown = np.asarray(Image.open(io.BytesIO(tf.make_ndarray(event.tensor_proto)[2])))
    assert (event.step, shown.shape) == (9, (16, 3 * 24 + 2 * GAP_PX, 3))
    np.testing.assert_array_equal(shown[:, :24], stimuli[1])
    for first, brightest in ((24 + GAP_PX, (4, 6)), (48 + 2 * GAP_PX, (5, 7))):
        maps = shown[:, first : first + 24]
        assert np.unravel_index(maps.sum(-1).argmax(), (16, 24)) == brightest


def test_profile_of_the_chosen_steps_has_their_operations(tmp_path, capsys):
    @tf.function
    def step(values):
        return tf.linalg.matmul(values, values, name="the_product")

    done = 0
    with Board(str(tmp_path), "3-4") as board:
        taken = []
        while done < 7:
            board.update_profile(done)
            taken.append(board.limit_to_profile(done, 3))
            for _ in range(taken[-1]):
                step(tf.ones((64, 64)))
            done += taken[-1]
        board.update_profile(done)
    assert taken == [2, 2, 3]
    (profile,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    content = profile.read_bytes()
    assert b"the_product" in content
    assert "wrote the profile up to step 4 to" in capsys.readouterr().out


def test_all_machines_of_a_job_divide_their_steps_in_the_same_way(tmp_path):
    with Board(str(tmp_path / "logs"), "10-20", writable=False) as board:
        assert board.quiet
        assert [board.limit_to_profile(done, 100) for done in (0, 8, 9, 15, 20)] == [9, 1, 11, 5, 100]
        assert board.limit_to_profile(0, 4) == 4
        board.update_profile(9)
        board.update_profile(20)
    assert list(tmp_path.iterdir()) == []


def test_vertex_sets_the_folder_of_the_logs_and_its_mount_is_preferred(tmp_path, monkeypatch):
    patches.replace(monkeypatch, files, "MOUNT", tmp_path)
    monkeypatch.setenv("AIP_TENSORBOARD_LOG_DIR", "gs://bucket/run/logs/")
    assert tensorboard.folder_for("") == "gs://bucket/run/logs"
    assert tensorboard.folder_for("here") == "here"
    (tmp_path / "bucket").mkdir()
    with Board() as board:
        board.epoch(1, 1, {"loss": 1.0, "valid_loss": 1.0, "seconds": 1.0})
    assert scalars(tmp_path / "bucket" / "run" / "logs")["epoch/loss"] == {1: 1}


def test_board_stops_logging_with_one_warning_if_its_folder_is_lost(tmp_path, optimizer, monkeypatch, capsys):
    monkeypatch.setattr(tensorboard, "FILE_S", 0.0)  # each event begins a file
    with Board(str(tmp_path / "logs")) as board:
        shutil.rmtree(tmp_path / "logs")
        (tmp_path / "logs").write_text("")
        deadline = time.monotonic() + 20
        while not board.quiet:
            board.chunk(1, np.array([1.0]), optimizer, MEASURED)
            assert time.monotonic() < deadline
            time.sleep(0.01)
        board.chunk(2, np.array([1.0]), optimizer, MEASURED)
    assert capsys.readouterr().out.count("The training continues without TensorBoard") == 1


def test_storage_that_hangs_holds_up_neither_the_training_nor_its_end(tmp_path, optimizer, monkeypatch, capsys):
    storage_works = threading.Event()
    monkeypatch.setattr(tf.summary, "scalar", lambda *args, **kwargs: storage_works.wait(60))
    monkeypatch.setattr(tensorboard, "CLOSE_S", 0.1)
    start = time.monotonic()
    with Board(str(tmp_path)) as board:
        for step in range(1, 4):
            board.chunk(step, np.array([1.0]), optimizer, MEASURED)
    assert time.monotonic() - start < 30
    storage_works.set()
    assert "takes longer than 0.1 s. The training continues without TensorBoard" in capsys.readouterr().out
