"""What a training measures of itself: its speed, its memory and the time spent waiting for data."""

import time

import pytest
import tensorflow as tf

from trainer.training.meter import Meter, device_memory, timed_next


def test_meter_measures_a_chunk_and_says_how_long_it_waited_if_that_is_worth_it():
    meter = Meter(batch_size=4)
    meter.add(steps=5, seconds=2.0, waited_s=0.5)
    assert meter.scalars["speed/images_per_s"] == 10
    assert meter.scalars["speed/step_s"] == pytest.approx(0.4)
    assert meter.scalars["speed/waiting_for_data"] == 0.25
    assert meter.scalars["memory/now_gb"] == pytest.approx(device_memory()["now"] / 1e9, rel=0.5)
    assert meter.scalars["memory/peak_gb"] >= 0.9 * meter.scalars["memory/now_gb"]
    assert meter.text == "25% waiting for data"
    meter.add(1, 10.0, 0.1)
    assert meter.text == ""


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


def test_waiting_for_slow_data_is_measured_and_for_fast_data_is_not():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    assert waiting_share(strategy, delay_s=0.1, busy=1) > 0.7
    assert waiting_share(strategy, delay_s=0.0, busy=200) < 0.3
