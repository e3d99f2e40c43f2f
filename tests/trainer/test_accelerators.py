import math
import re

import pytest

from trainer.accelerators import ACCELERATORS, PROVISIONING, UNNAMED, get
from trainer.config import PRECISIONS
from trainer.errors import UserError


@pytest.mark.parametrize("row", ACCELERATORS.values(), ids=ACCELERATORS)
def test_row_is_complete(row):
    counted = re.search(r"-(\d)$", row.name)
    assert row.chips == (int(counted[1]) if counted else 1)
    assert row.image == {"cpu": "cpu", "v5e": "tpu"}.get(row.name.split("-")[0], "gpu")
    assert row.chip.precision in row.chip.flops
    assert set(row.chip.flops) <= set(PRECISIONS)
    assert all(1e11 < peak < 1e15 for peak in row.chip.flops.values())
    assert row.chip.bandwidth_bytes_s > 1e11
    assert 16e9 <= row.chip.memory_bytes <= 1e12
    assert math.log2(row.chip.per_replica_batch).is_integer()
    assert row.vcpus >= 8
    assert row.host_memory_gb >= 30
    assert row.image == "cpu" or "us-central1" in row.chip.regions
    assert bool(row.resource_name) == bool(row.node_selector) == (row.image != "cpu")


@pytest.mark.parametrize("row", ACCELERATORS.values(), ids=ACCELERATORS)
def test_device_that_nobody_named_is_taken_for_the_smallest_of_its_kind(row):
    assert UNNAMED[row.image].memory_bytes <= row.chip.memory_bytes
    assert UNNAMED[row.image].per_replica_batch <= row.chip.per_replica_batch


@pytest.mark.parametrize("row", ACCELERATORS.values(), ids=ACCELERATORS)
def test_row_has_a_price_for_each_way_it_is_lent(row):
    assert set(row.provisioning) <= set(PROVISIONING)
    assert "spot" in row.provisioning
    assert 0 < row.usd_per_hour("spot") < row.compute_engine_usd * 1.15
    if "standard" in row.provisioning:
        assert row.usd_per_hour("standard") > row.usd_per_hour("spot")
    for other in set(PROVISIONING) - set(row.provisioning):
        assert row.usd_per_hour(other) is None


@pytest.mark.parametrize(
    ("name", "provisioning", "usd"),
    [
        ("t4", "standard", 0.8395),
        ("h100-8", "standard", 101.0073),
        ("h100-8", "flex-start", 51.4949),
        ("a100", "spot", 2.4790),
        ("v5e-8", "standard", 11.04),
        ("h100", "standard", None),
    ],
)
def test_price_is_that_of_the_list_with_the_fee(name, provisioning, usd):
    assert get(name).usd_per_hour(provisioning) == (usd if usd is None else pytest.approx(usd, abs=1e-3))


def test_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(UserError, match="unknown accelerator 'v5e4'; did you mean 'v5e-4'"):
        get("v5e4")
