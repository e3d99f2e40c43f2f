import math
import re

import pytest

from trainer.accelerators import ACCELERATORS, PRICE_SOURCE, PROVISIONING, UNNAMED, get
from trainer.config import PRECISIONS
from trainer.errors import UserError

DESIGNED = [
    *("cpu", "t4", "t4-2", "t4-4", "v100", "v100-2", "v100-4", "v100-8", "l4", "l4-2", "l4-4", "l4-8"),
    *("a100", "a100-2", "a100-4", "a100-8", "a100-80gb", "a100-80gb-2", "a100-80gb-4", "a100-80gb-8"),
    *("h100", "h100-2", "h100-4", "h100-8", "v5e-1", "v5e-4", "v5e-8"),
]


def test_every_designed_name_has_a_row_and_every_row_its_name():
    assert set(DESIGNED) <= set(ACCELERATORS)
    assert all(get(name).name == name for name in ACCELERATORS)


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


def test_price_grows_with_the_chips():
    families = {row.chip.title: [] for row in ACCELERATORS.values()}
    for row in ACCELERATORS.values():
        families[row.chip.title].append(row)
    assert len(families) > 5
    for family in families.values():
        for row in family:
            usd_per_chip = row.usd_per_hour("spot") / row.chips
            assert usd_per_chip == pytest.approx(family[0].usd_per_hour("spot"), rel=0.25)


@pytest.mark.parametrize(
    ("name", "provisioning", "usd"),
    [
        ("cpu", "standard", 0.8740),
        ("t4", "standard", 0.8395),
        ("h100-8", "standard", 101.0073),
        ("h100-8", "flex-start", 51.4949),
        ("a100", "spot", 2.4790),
        ("v5e-8", "standard", 11.04),
        ("l4", "flex-start", None),
        ("h100", "standard", None),
        ("t4", "flex-start", None),
    ],
)
def test_price_is_that_of_the_list_with_the_fee(name, provisioning, usd):
    assert get(name).usd_per_hour(provisioning) == (usd if usd is None else pytest.approx(usd, abs=1e-3))


def test_source_of_prices_says_which_are_estimates():
    assert "us-central1" in PRICE_SOURCE
    assert "estimates" in PRICE_SOURCE


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("cpu", ("standard", "spot")),
        ("v100", ("standard", "spot")),
        ("v5e-8", ("standard", "spot")),
        ("l4", ("standard", "spot", "flex-start")),
        ("h100-4", ("spot", "flex-start")),
        ("h100-8", ("standard", "spot", "flex-start")),
    ],
)
def test_machine_is_lent_in_the_ways_that_vertex_ai_has(name, ways):
    assert get(name).provisioning == ways


def test_nodes_are_selected_by_the_labels_that_gke_gives_them():
    assert get("t4-2").node_selector == {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    assert get("h100").node_selector == {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
    assert get("v5e-4").node_selector == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "2x2",
    }


@pytest.mark.parametrize(
    ("name", "near"), [("l5", "l4"), ("v5e4", "v5e-4"), ("a100-80g", "a100-80gb"), ("H100", "h100")]
)
def test_unknown_name_is_refused_with_the_nearest_one(name, near):
    with pytest.raises(UserError, match=rf"unknown accelerator '{name}'; did you mean '{near}'\?.*known: cpu, t4"):
        get(name)
