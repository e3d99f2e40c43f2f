"""Logs, read back by TensorBoard; the profile; and the time spent waiting for data."""

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

from trainer import storage
from trainer.errors import UserError
from trainer.training import tensorboard
from trainer.training.loop import Meter, memory_bytes, timed_next
from trainer.training.tensorboard import GAP_PX, Board


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


@pytest.fixture
def meter():
    meter = Meter(batch_size=4)
    meter.add(steps=5, seconds=2.0, waited_s=0.5)
    return meter


def test_chunk_and_epoch_are_read_back_at_their_steps(tmp_path, optimizer, meter):
    with Board(str(tmp_path / "logs")) as board:
        assert not board.quiet
        board.step_done(0)
        board.chunk(5, np.array([1.0, 2.0]), optimizer, meter.scalars)
        board.chunk(10, np.array([0.5]), optimizer, meter.scalars)
        board.epoch(1, 10, {"loss": 1.25, "valid_loss": 0.75, "seconds": 9.0, "best": True})
    curves = scalars(tmp_path / "logs")
    assert curves["training/loss"] == {5: 1.5, 10: 0.5}
    assert curves["training/learning_rate"] == {5: 0.5, 10: 0.5}
    assert curves["speed/images_per_s"][10] == 10
    assert curves["speed/step_s"][10] == pytest.approx(0.4)
    assert curves["speed/waiting_for_data"][10] == 0.25
    assert curves["memory/now_gb"][10] == pytest.approx(memory_bytes()["now"] / 1e9, rel=0.5)
    assert curves["memory/peak_gb"][10] >= 0.9 * curves["memory/now_gb"][10]
    epoch = {name: values for name, values in curves.items() if name.startswith("epoch/")}
    assert epoch == {
        "epoch/number": {10: 1},
        "epoch/loss": {10: 1.25},
        "epoch/valid_loss": {10: 0.75},
        "epoch/seconds": {10: 9},
    }
    assert "training/loss_scale" not in curves


def test_schedule_and_loss_scale_are_those_of_the_next_step(tmp_path, meter):
    schedule = keras.optimizers.schedules.PolynomialDecay(1.0, decay_steps=4, end_learning_rate=0.0)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(schedule), initial_scale=1024.0)
    weight = keras.Variable([1.0])
    optimizer.build([weight])
    optimizer.apply([tf.constant([1.0])])
    with Board(str(tmp_path)) as board:
        board.chunk(1, np.array([1.0]), optimizer, meter.scalars)
    assert scalars(tmp_path)["training/learning_rate"] == {1: 0.75}
    assert scalars(tmp_path)["training/loss_scale"] == {1: 1024}


def test_meter_says_how_long_it_waited_if_that_is_worth_it(meter):
    assert meter.text == "25% waiting for data"
    meter.add(1, 10.0, 0.1)
    assert meter.text == ""


def test_events_can_be_read_while_the_board_is_open(tmp_path, optimizer, meter, monkeypatch):
    monkeypatch.setattr(tensorboard, "FLUSH_S", 0.1)
    with Board(str(tmp_path)) as board:
        deadline, step = time.monotonic() + 20, 0
        while "training/loss" not in scalars(tmp_path):
            step += 1
            board.chunk(step, np.array([2.0]), optimizer, meter.scalars)
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_file_is_complete_when_its_time_is_over(tmp_path, optimizer, meter, monkeypatch):
    monkeypatch.setattr(tensorboard, "FILE_S", 0.1)
    with Board(str(tmp_path)) as board:
        deadline, step = time.monotonic() + 20, 0
        while "training/loss" not in scalars(tmp_path):  # flushed by nothing else: FLUSH_S and BUFFERED are larger
            step += 1
            board.chunk(step, np.array([2.0]), optimizer, meter.scalars)
            assert step < tensorboard.BUFFERED / 10
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_history_of_a_resumed_run_is_that_of_the_last_start(tmp_path, optimizer, meter):
    with Board(str(tmp_path)) as board:
        board.step_done(0)
        for step in (2, 4, 6, 8):
            board.chunk(step, np.array([1.0]), optimizer, meter.scalars)
        board.epoch(1, 8, {"loss": 1.0, "valid_loss": 1.0, "seconds": 1.0})
    with Board(str(tmp_path)) as board:  # from a checkpoint after step 4
        board.step_done(4)
        board.chunk(7, np.array([3.0]), optimizer, meter.scalars)
    assert scalars(tmp_path)["training/loss"] == {2: 1, 4: 1, 7: 3}
    assert scalars(tmp_path).get("epoch/loss", {}) == {}


def test_many_files_are_one_history(tmp_path, optimizer, meter, monkeypatch):
    monkeypatch.setattr(tensorboard, "FILE_S", 0.0)
    with Board(str(tmp_path)) as board:
        for step in range(1, 21):
            board.chunk(step, np.array([float(step)]), optimizer, meter.scalars)
    assert len(list(tmp_path.iterdir())) > 10
    assert scalars(tmp_path)["training/loss"] == {step: step for step in range(1, 21)}


def test_images_show_stimulus_truth_and_prediction(tmp_path):
    rng = np.random.default_rng(1)
    stimuli = rng.integers(0, 256, (2, 16, 24, 3), np.uint8)
    densities = np.zeros((2, 16, 24, 1), np.uint8)
    densities[:, 4, 6] = 200
    predictions = np.zeros((2, 16, 24, 1), np.float32)
    predictions[:, 5, 7] = 1e-3
    with Board(str(tmp_path)) as board:
        board.images(9, stimuli, densities, predictions)
    accumulator = read(tmp_path)
    assert len(accumulator.PluginTagToContent("images")) == 2
    (event,) = accumulator.Tensors("stimulus, truth, prediction/2")
    width, height, content = tf.make_ndarray(event.tensor_proto)
    assert (event.step, int(width), int(height)) == (9, 3 * 24 + 2 * GAP_PX, 16)
    shown = np.asarray(Image.open(io.BytesIO(content)))
    assert shown.shape == (16, 3 * 24 + 2 * GAP_PX, 3)
    np.testing.assert_array_equal(shown[:, :24], stimuli[1])
    truth, prediction = shown[:, 24 + GAP_PX : 48 + GAP_PX], shown[:, 48 + 2 * GAP_PX :]
    for maps, brightest in ((truth, (4, 6)), (prediction, (5, 7))):
        assert np.unravel_index(maps.sum(-1).argmax(), (16, 24)) == brightest
        assert maps[brightest].sum() > 500
        assert maps.reshape(-1, 3).sum(-1).min() < 10


def test_profile_of_the_chosen_steps_has_their_operations(tmp_path, capsys):
    @tf.function
    def step(values):
        return tf.linalg.matmul(values, values, name="the_product")

    done = 0
    with Board(str(tmp_path), "3-4") as board:
        taken = []
        while done < 7:
            board.step_done(done)
            taken.append(board.until(done, 3))
            for _ in range(taken[-1]):
                step(tf.ones((64, 64)))
            done += taken[-1]
        board.step_done(done)
    assert taken == [2, 2, 3]
    (profile,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    content = profile.read_bytes()
    assert b"the_product" in content
    assert "wrote the profile up to step 4 to" in capsys.readouterr().out


def test_profile_is_written_when_training_ends_within_it_or_begins_there(tmp_path):
    with Board(str(tmp_path), "3-100") as board:
        board.step_done(50)  # from a checkpoint
        assert board.until(50, 1000) == 50
    assert len(list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))) == 1


def test_a_profile_after_the_last_step_is_reported(tmp_path, capsys):
    with Board(str(tmp_path), "30-40") as board:
        board.step_done(0)
        board.step_done(6)
    assert "profile_steps is 30-40, but the last step was 6" in capsys.readouterr().out


def test_all_machines_of_a_job_divide_their_steps_in_the_same_way(tmp_path):
    with Board(str(tmp_path / "logs"), "10-20", writable=False) as board:
        assert board.quiet
        assert [board.until(done, 100) for done in (0, 8, 9, 15, 20)] == [9, 1, 11, 5, 100]
        assert board.until(0, 4) == 4
        board.step_done(9)
        board.step_done(20)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10", "profile_steps is '10'; write the first and the last step, such as 10-20"),
        ("ten-20", "write the first and the last step"),
        ("-3-5", "write the first and the last step"),
        ("0-5", "profile_steps is 0-5; steps count from 1"),
        ("20-10", "profile_steps is 20-10; the first step must not be after the last"),
    ],
)
def test_invalid_profile_steps_are_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        Board(str(tmp_path), text)


def test_profile_without_a_folder_is_refused():
    with pytest.raises(UserError, match="profile_steps is 1-2, but there is no folder for the profile"):
        Board("", "1-2")


def test_board_without_a_folder_does_nothing(optimizer, meter):
    with Board() as board:
        board.step_done(0)
        assert board.quiet
        assert board.until(0, 7) == 7
        board.chunk(1, np.array([1.0]), optimizer, meter.scalars)
        board.epoch(1, 1, {"loss": 1.0, "valid_loss": 1.0, "seconds": 1.0})
        board.images(1, np.zeros((0, 8, 8, 3)), np.zeros((0, 8, 8, 1)), np.zeros((0, 8, 8, 1)))


def test_vertex_sets_the_folder_of_the_logs_and_its_mount_is_preferred(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "MOUNT", tmp_path)
    monkeypatch.setenv("AIP_TENSORBOARD_LOG_DIR", "gs://bucket/run/logs/")
    assert tensorboard.folder_for("") == "gs://bucket/run/logs"
    assert tensorboard.folder_for("here") == "here"
    (tmp_path / "bucket").mkdir()
    with Board() as board:
        board.epoch(1, 1, {"loss": 1.0, "valid_loss": 1.0, "seconds": 1.0})
    assert scalars(tmp_path / "bucket" / "run" / "logs")["epoch/loss"] == {1: 1}


def test_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write TensorBoard logs to .*/file/logs \(.*\); use a folder"):
        Board(str(tmp_path / "file" / "logs"))


def test_board_stops_logging_with_one_warning_if_its_folder_is_lost(
    tmp_path, optimizer, meter, monkeypatch, capsys
):
    monkeypatch.setattr(tensorboard, "FILE_S", 0.0)  # each event begins a file
    with Board(str(tmp_path / "logs")) as board:
        shutil.rmtree(tmp_path / "logs")
        (tmp_path / "logs").write_text("")
        deadline = time.monotonic() + 20
        while not board.quiet:
            board.chunk(1, np.array([1.0]), optimizer, meter.scalars)
            assert time.monotonic() < deadline
            time.sleep(0.01)
        board.chunk(2, np.array([1.0]), optimizer, meter.scalars)
    assert capsys.readouterr().out.count("the training continues without TensorBoard") == 1


def test_storage_that_hangs_holds_up_neither_the_training_nor_its_end(
    tmp_path, optimizer, meter, monkeypatch, capsys
):
    storage_works = threading.Event()
    monkeypatch.setattr(tf.summary, "scalar", lambda *args, **kwargs: storage_works.wait(60))
    monkeypatch.setattr(tensorboard, "CLOSE_S", 0.1)
    start = time.monotonic()
    with Board(str(tmp_path)) as board:
        for step in range(1, 4):
            board.chunk(step, np.array([1.0]), optimizer, meter.scalars)
    assert time.monotonic() - start < 30
    storage_works.set()
    assert "takes longer than 0.1 s; the training continues without TensorBoard" in capsys.readouterr().out


def waiting_share(strategy, delay_s: float, busy: int) -> float:
    """Share of the time of twelve steps that is spent waiting.

    Args:
        strategy: runs the steps.
        delay_s: time until a batch arrives.
        busy: matrix products of a step.
    """

    def late(value):
        time.sleep(delay_s)
        return value

    def batches(_):
        # As many as are used: TensorFlow deadlocks if a dataset that calls Python is dropped before its end.
        numbers = tf.data.Dataset.range(14 * strategy.num_replicas_in_sync)
        if delay_s:
            numbers = numbers.map(lambda value: tf.ensure_shape(tf.numpy_function(late, [value], tf.int64), ()))
        return numbers.batch(1, drop_remainder=True).prefetch(2)

    def step(batch):
        product = tf.cast(batch[0], tf.float32) + tf.random.stateless_uniform((256, 256), (1, 2))
        for _ in range(busy):
            product = tf.linalg.matmul(product, product) / 1e5
        return tf.reduce_mean(product)

    @tf.function(autograph=False)
    def steps(iterator, count):
        def take(index, losses, waited):
            batch, seconds = timed_next(iterator, [losses.flow])
            replicas = strategy.run(step, args=(batch,))
            losses = losses.write(index, strategy.reduce(tf.distribute.ReduceOp.SUM, replicas, axis=None))
            return index + 1, losses, waited + seconds

        start = tf.constant(0), tf.TensorArray(tf.float32, size=count), tf.constant(0.0, tf.float64)
        _, losses, waited = tf.while_loop(lambda index, *_: index < count, take, start)
        return losses.stack(), waited

    iterator = iter(strategy.distribute_datasets_from_function(batches))
    steps(iterator, tf.constant(2))
    start = time.monotonic()
    _, waited = steps(iterator, tf.constant(12))
    return float(waited) / (time.monotonic() - start)


@pytest.mark.parametrize("mirrored", [False, True])
def test_waiting_for_slow_data_is_measured_and_for_fast_data_is_not(mirrored):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"]) if mirrored else tf.distribute.get_strategy()
    assert waiting_share(strategy, delay_s=0.1, busy=1) > 0.7
    assert waiting_share(strategy, delay_s=0.0, busy=200) < 0.3
