import dataclasses

import pytest

from lifecycle.machines import plan
from lifecycle.machines.plan import DataSize, make_plan
from lifecycle.machines.settings import AcceleratorConfig
from tests.refusals import refused
from trainer.data import load
from trainer.data.settings import FetchConfig
from trainer.errors import SettingError, UnknownNameError, UserError
from trainer.training.accelerators import ACCELERATORS
from trainer.training.settings import TrainConfig

SALICON = DataSize(images=10_000, valid_images=0, image_size=(240, 320))
TRAINING = TrainConfig(batch_size=0)
START_H = 300 / 3600


def planned(accelerator="l4", machines=None, **changes):
    """The plan for SALICON with `changes` to DataSize, to TrainConfig, and to the arguments of make_plan."""
    data, training = (
        dataclasses.replace(
            config,
            **{
                field.name: changes.pop(field.name)
                for field in dataclasses.fields(config)
                if field.name in changes
            },
        )
        for config in (SALICON, TRAINING)
    )
    return make_plan(AcceleratorConfig(accelerator=accelerator, **(machines or {})), training, data, **changes)


@pytest.mark.parametrize("row", ACCELERATORS.values(), ids=list(ACCELERATORS))
@pytest.mark.parametrize("image_size", [(240, 320), (360, 360)])
def test_default_batch_fits_every_accelerator(row, image_size):
    plan = planned(row.name, {"provisioning": "spot"}, image_size=image_size)
    assert plan.replicas == row.chips
    assert plan.batch_size == row.chips * row.chip.per_replica_batch
    assert plan.steps_per_epoch == 10_000 // plan.batch_size
    assert plan.precision == row.chip.precision
    assert 0 < plan.memory_bytes <= plan.usable_memory_bytes == 0.9 * row.chip.memory_bytes
    assert plan.most_hours > START_H
    assert plan.most_cost_usd == pytest.approx(plan.most_hours * row.usd_per_hour("spot"))
    assert len(plan.basis) >= 3


def test_time_and_cost_on_a_gpu_are_as_computed_by_hand():
    """A T4 in float16: 16 x 249.3 GFLOP at 65 TFLOP/s is 61.4 ms, longer than 1.9 + 16 x 0.73 GB at 320 GB/s;
    twice to five times that at 50% to 20% of the peak. 625 steps an epoch, 10 epochs, 5 minutes to start, 0.73 USD
    an hour + 15%.
    """
    plan = planned("t4", batch_size=16)
    assert plan.step_seconds == pytest.approx((0.12273, 0.30683), rel=1e-4)
    assert plan.hours_range == pytest.approx(((300 + 767.06) / 3600, (300 + 1917.7) / 3600), rel=1e-4)
    assert plan.cost_range_usd == pytest.approx((0.29641 * 0.8395, 0.61602 * 0.8395), rel=1e-4)
    assert (plan.most_seconds_per_step, plan.most_hours, plan.most_cost_usd) == (
        plan.step_seconds[1],
        plan.hours_range[1],
        plan.cost_range_usd[1],
    )
    assert (plan.time_text, plan.cost_text) == ("18 min to 37 min", "0.25 to 0.52")
    assert plan.memory_bytes == pytest.approx(16 / 32 * 3.7e9 + 398.88e6)


def test_time_and_cost_on_a_tpu_are_as_computed_by_hand():
    """Four v5e at 360 x 360, 1.6875 times the pixels: 16 x 1.6875 x 249.3 GFLOP at 197 TFLOP/s is 34.2 ms,
    longer than 5.8 + 16 x 1.6875 x 0.65 GB at 819 GB/s. 12 steps of 64 and 4 validation batches at a third of a
    step.
    """
    plan = planned("v5e-4", images=800, valid_images=200, image_size=(360, 360), batch_size=64)
    assert plan.batch_per_replica == 16
    assert plan.step_seconds == pytest.approx((0.068336, 0.17084), rel=1e-4)
    assert plan.most_hours == pytest.approx((300 + 10 * (12 + 4 / 3) * 0.17084) / 3600, rel=1e-4)
    assert plan.most_cost_usd == pytest.approx(plan.most_hours * 4.8 * 1.15)
    assert plan.memory_bytes == pytest.approx(16 * 1.6875 * 3.17e9 / 32 + 398.88e6)


def test_time_in_float32_without_tensor_cores_has_a_share_of_its_own():
    """A V100: 249.3 GFLOP at 15.7 TFLOP/s and 65 to 130%. An L4's tensor cores multiply float32 as TF32."""
    plan = planned("v100", batch_size=16, precision="float32")
    assert plan.step_seconds == pytest.approx((16 * 249.3 / 15700 / 1.3, 16 * 249.3 / 15700 / 0.65))
    assert "at 65% to 130% of its peaks" in plan.basis[0]
    assert "at 20% to 50% of its peaks" in planned("l4", precision="float32").basis[0]


def test_weights_take_their_memory_traffic_in_each_step():
    """One image on an L4: 1.9 GB for the weights and 0.73 GB at 300 GB/s, where 32 images have 25.3 GB; on a TPU
    5.8 and 0.65 GB at 819 GB/s.
    """
    one, many = planned("l4", batch_size=1), planned("l4", batch_size=32)
    assert one.step_seconds.most == pytest.approx(2.63e9 / 300e9 / 0.2)
    assert many.step_seconds.most == pytest.approx(25.26e9 / 300e9 / 0.2)
    assert planned("v5e-1", batch_size=1).step_seconds.most == pytest.approx(6.45e9 / 819e9 / 0.2)
    assert "bound by memory traffic" in planned("t4", batch_size=1).basis[0]
    assert "bound by arithmetic" in planned("t4", batch_size=32).basis[0]


def test_time_on_a_cpu_is_the_measured_one_divided_by_its_cores():
    """1.57 s per image on two cores; 16 vCPUs, each half or a quarter of a core, are four or two such pairs."""
    plan = planned("cpu", batch_size=1)
    assert plan.step_seconds == pytest.approx((1.57 / 4, 1.57 / 2))
    assert "3.14 s of one core" in plan.basis[0]


@pytest.mark.parametrize(
    ("settings", "images", "valid_images"),
    [
        ({"dataset": "osie"}, 500, 200),
        ({"dataset": "osie", "test_share": 0.5}, 500, 100),
        ({"dataset": "osie", "test_share": 0.5, "max_examples": 150}, 150, 100),
        ({"dataset": "salicon", "source": "sample", "test_share": 0.25}, 160, 30),
        ({"dataset": "custom", "source": "lab", "test_share": 0.3}, 800, 140),
    ],
)
def test_images_that_are_kept_apart_are_not_evaluated_after_each_epoch(settings, images, valid_images):
    size = DataSize.of(FetchConfig(**settings))
    assert (size.images, size.valid_images) == (images, valid_images)


@pytest.mark.parametrize(
    ("accelerator", "changes", "named"),
    [
        ("v5e-4", {"batch_size": 10}, (UserError, "batch_size", 10, 4, "v5e-4", 8, 12)),
        ("l4", {"batch_size": 4, "accumulation": 3}, (UserError, "batch_size", 4, "accumulation", 3)),
        ("l4-8", {"batch_size": 104, "images": 99}, (UserError, "batch_size", 104, 99)),
        ("v5e-1", {"batch_size": 160}, (UserError, "batch_size", "16.2 GB", "14.4 GB", 141, "accumulation", 2)),
        ("t4", {"precision": "bfloat16"}, (SettingError, "t4", "bfloat16", "float16", "float32")),
        ("v5e-4", {"location": "europe-west4"}, (SettingError, "v5e-4", "europe-west4", "us-central1")),
    ],
)
def test_misfit_is_refused_with_numbers_and_a_remedy(accelerator, changes, named):
    with refused(*named):
        planned(accelerator, **changes)


def test_largest_batch_fits_and_the_next_does_not():
    row = ACCELERATORS["v5e-4"]
    largest = row.chip.largest_batch((240, 320), "bfloat16")
    assert planned("v5e-4", batch_size=4 * largest).batch_per_replica == largest
    with refused(UserError, "batch_size", 4 * largest, "accumulation", 2):
        planned("v5e-4", batch_size=4 * (largest + 1))


def test_parts_of_a_batch_need_the_memory_of_one_part():
    """256 images do not fit an L4, but 8 parts of 32 do; by default each part is the chip's default batch."""
    with refused(UserError, "batch_size", 169, "accumulation", 2):
        planned(batch_size=256)
    plan = planned(batch_size=256, accumulation=8)
    assert (plan.batch_size, plan.memory_bytes) == (256, planned(batch_size=32).memory_bytes)
    assert planned(accumulation=4).batch_size == 4 * 32


def test_timeout_is_longer_than_the_training():
    slow, fast = planned("cpu", batch_size=1), planned("l4")
    assert slow.timeout(24) == 24
    assert slow.timeout(0) == pytest.approx(6 * slow.most_hours)
    assert fast.most_hours < 0.5
    assert fast.timeout(0) == 3
    assert "| Timeout | stopped after 3 h" in fast.markdown(fast.timeout(0))
    with refused(SettingError, "21.9 h", "timeout_hours", 2):
        slow.timeout(2)
    with refused(SettingError, "timeout_hours", 200, "flex-start", 168):
        planned("l4", {"provisioning": "flex-start"}).timeout(200)
    with refused(SettingError, "timeout_hours", 168):
        planned("l4", epochs=10**5).timeout(0)


def test_plan_as_markdown_has_every_figure_and_its_basis():
    plan = planned("v5e-4", {"provisioning": "spot"}, batch_size=64, valid_images=5000, location="us-west1")
    text = plan.markdown()
    for part in (
        "| Accelerator | v5e-4: 1 x ct5lp-hightpu-4t, 4 x TPU v5e each, spot |",
        "| Batch | 64 images per step, 16 per replica |",
        "| Precision | bfloat16 |",
        "| Steps | 10 epochs of 156 = 1560 |",
        "| Memory | 2.0 GB of 14.4 GB per chip |",
        "| Time | about 6 min to 8 min |",
        "an assumption",
        "Prices in us-west1 differ.",
    ):
        assert part in text
    assert all(f"- {sentence}\n" in text for sentence in plan.basis)


def test_disk_has_room_for_the_decoded_images_that_do_not_fit_into_memory():
    """A million images of 240 x 320 x 4 bytes are 307.2 GB, and with 40 GB beside them 85% of 410 GB."""
    million = {"images": 1_000_000}
    assert planned("l4", **million).disk_gb == 410
    assert planned("l4", **million).disk_spec == {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 410}
    assert planned("l4", images=900_000, valid_images=100_000).disk_gb == 410
    assert planned("l4-8", **million).disk_spec == {}  # 384 GB of memory, and the default disk
    for fitting in (planned("l4"), planned("l4", images=80_000)):
        assert (fitting.disk_gb, fitting.disk_spec, fitting.disk_usd_per_hour) == (100, {}, 0)
    more = planned("l4", images=95_000)  # 29.2 GB do not fit into 80% of 32 GiB, but beside 40 GB on 100
    assert (more.images_place, more.disk_gb) == ("disk", 100)


def test_disk_of_a_plan_has_the_room_that_a_training_leaves_free():
    assert plan.FREE_DISK == load.DISK_RESERVE


def test_images_that_no_disk_of_a_plan_holds_are_read_in_each_epoch():
    many = planned("l4", images=10_000_000)
    assert many.disk_spec == {}
    assert "| Disk | 100 GB. 3072.0 GB of decoded images are read in each epoch" in many.markdown()
    on_kubeflow = planned("l4", images=1_000_000, platform="kubeflow")
    assert on_kubeflow.disk_spec == {}
    assert "307.2 GB of decoded images are read in each epoch" in on_kubeflow.disk_text


def test_price_has_the_disk_above_the_default_one():
    """310 GB at 0.17 USD a month of 730 hours, and 15%, for each machine."""
    plan = planned("l4", {"workers": 2}, images=1_000_000)
    assert plan.disk_usd_per_hour == pytest.approx(310 * 0.17 / 730 * 1.15)
    hourly = plan.accelerator.usd_per_hour("standard") + plan.disk_usd_per_hour
    assert plan.most_cost_usd == pytest.approx(2 * plan.most_hours * hourly)
    text = plan.markdown()
    assert "| Disk | 410 GB, with 307.2 GB of decoded images |" in text
    assert "Disk: 0.08 USD per hour" in text


def test_accelerator_of_one_training_overrides_that_of_both():
    assert AcceleratorConfig(accelerator="v5e-4").row.name == "v5e-4"
    assert AcceleratorConfig(accelerator="v5e-4", step_accelerator="l4", workers=2).row.name == "l4"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"accelerator": "v5e-3"}, (UnknownNameError, "v5e-3", "v5e-4")),
        ({"step_accelerator": "l44"}, (UnknownNameError, "l44", "l4")),
        ({"workers": 2}, (SettingError, "workers", 2, "cpu")),
        ({"accelerator": "v5e-4", "workers": 2}, (SettingError, "workers", 2, "v5e-4", "v5e-8")),
        ({"accelerator": "h100-4"}, (SettingError, "h100-4", "standard", "spot", "flex-start")),
        (
            {"accelerator": "t4", "provisioning": "flex-start"},
            (SettingError, "t4", "flex-start", "standard", "spot"),
        ),
    ],
)
def test_machines_that_do_not_fit_together_are_refused(settings, named):
    with refused(*named):
        AcceleratorConfig(**settings)


@pytest.mark.parametrize(
    ("location", "platform", "name"),
    [
        ("us-central1", "vertex", "v5e-1"),
        ("europe-west4", "vertex", "l4"),
        ("europe-central2", "vertex", "t4"),
        ("", "vertex", "v5e-1"),
        ("", "kubeflow", "v5e-1"),
    ],
)
def test_plan_has_the_first_accelerator_that_the_region_offers(location, platform, name):
    assert planned("v5e-1, l4,t4", location=location, platform=platform).accelerator.name == name


def test_several_accelerators_are_refused_if_one_is_unknown_not_offered_or_none_is_there():
    with refused(UnknownNameError, "t5"):
        planned("l4,t5")
    with refused(SettingError, "h100", "standard"):
        planned("l4,h100")
    with refused(SettingError, "v5e-1", "me-west1", "l4"):
        planned("v5e-1,l4", location="me-west1")
