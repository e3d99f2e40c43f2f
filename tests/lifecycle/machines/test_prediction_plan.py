"""The plan of a batch prediction: shards, hours and prices, and the custom jobs that it sends."""

import pytest
from google.cloud.aiplatform_v1.types import WorkerPoolSpec

from lifecycle.machines import BatchMachines, PredictionPlan
from tests.refusals import refused
from trainer.batch import BatchConfig, Sizes
from trainer.errors import SettingError
from trainer.training import Accelerator

TEN_MILLION = Sizes(10_000_000, 7 * 10**12)
LARGE = BatchConfig(shard_gigabytes=50)


def plan(**machines):
    return PredictionPlan.of(TEN_MILLION, BatchMachines(**machines), LARGE)


def test_shards_are_the_bytes_divided():
    assert plan().shards == 140
    assert PredictionPlan.of(Sizes(3, 10), BatchMachines(), LARGE).shards == 1


def test_hours_and_cost_grow_with_the_images_and_shrink_with_the_machines():
    one, many = plan(machines=1), plan(machines=20)
    assert one.machine_hours == many.machine_hours
    assert many.hours.most == pytest.approx(one.hours.most / 20)
    half = PredictionPlan.of(Sizes(5_000_000, 35 * 10**11), BatchMachines(machines=1), LARGE)
    assert one.hours.least == pytest.approx(2 * half.hours.least)
    assert one.usd.most == pytest.approx(
        one.machine_hours.most * Accelerator.named("cpu").usd_per_hour("standard")
    )
    assert plan(provisioning="spot").usd.most < one.usd.most


def test_a_cpu_that_multiplies_bfloat16_by_tiles_is_cheapest():
    first, second = plan().table()
    assert first.startswith("cpu-amx:")
    assert second.startswith("cpu:")
    assert "c3-standard-22" in first


def test_a_gpu_predicts_no_maps():
    with refused(SettingError, "l4", "cpu-amx"):
        BatchMachines(accelerator="l4")


def test_each_shard_is_a_job_of_googles_type():
    words = [["gs://b/out", "0"], ["gs://b/out", "1"]]
    pools = BatchMachines().worker_pools("host/image:1", "trainer.batch.work", words, [20, 310])
    specs = [WorkerPoolSpec(pool) for (pool,) in pools]
    assert [spec.container_spec.args[1] for spec in specs] == ["0", "1"]
    assert {spec.machine_spec.machine_type for spec in specs} == {"n1-standard-16"}
    assert list(specs[0].container_spec.command) == ["python", "-m", "trainer.batch.work"]
    assert [spec.disk_spec.boot_disk_size_gb for spec in specs] == [0, 420]
