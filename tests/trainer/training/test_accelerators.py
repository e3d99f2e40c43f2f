import math
import re

import pytest

from tests.refusals import refused
from trainer.errors import UnknownNameError
from trainer.training.accelerators import ACCELERATORS, PROVISIONING, UNNAMED, Accelerator
from trainer.training.settings import PRECISIONS


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
    assert bool(row.resource_name) == (row.image != "cpu")
    assert bool(row.node_selector) == (row.name != "cpu")
    assert bool(row.chip.map_seconds) == (row.image == "cpu")


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
    assert Accelerator.named(name).usd_per_hour(provisioning) == (
        usd if usd is None else pytest.approx(usd, abs=1e-3)
    )


def named(word):
    """The accelerators that the message about an unknown one suggests."""
    with refused(UnknownNameError, repr(word)) as caught:
        Accelerator.named(word)
    suggested = str(caught.value).partition("Did you mean ")[2].partition("?")[0]
    return re.findall(r"'([\w-]+)'", suggested)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("tpu", "TPU", "v5e", "v5e-16", "tpu-v5e", "TPU v5e", "tpu-v5-lite"), ["v5e-1", "v5e-4", "v5e-8"]),
        (("nvidia-l4", "NVIDIA_L4", "l4-3", "L4-16"), ["l4", "l4-2", "l4-4", "l4-8"]),
        (("NVIDIA_TESLA_T4", "nvidia-tesla-t4", "nvidia-t4"), ["t4", "t4-2", "t4-4"]),
        (("a100-40gb", "NVIDIA_TESLA_A100"), ["a100", "a100-2", "a100-4", "a100-8"]),
        (("ct5lp-hightpu-4t", "v5e4", "V5E-4"), ["v5e-4"]),
        (("g2-standard-8", "L4"), ["l4"]),
        (("n1-standard-16",), ["cpu", "t4-2", "v100-2"]),
        (("l5",), ["l4"]),
        (("x", ""), []),
    ],
)  # fmt: skip
def test_unknown_name_is_refused_with_those_that_it_means(words, names):
    assert {word: named(word) for word in words} == dict.fromkeys(words, names)


def test_kind_names_all_of_it_smallest_first():
    chips = [ACCELERATORS[name].chips for name in named("gpu")]
    assert chips == sorted(chips)
    assert (
        set(named("gpu"))
        == set(named("nvidia"))
        == {name for name, row in ACCELERATORS.items() if row.image == "gpu"}
    )
    assert named("gpu")[0] == "t4"


@pytest.mark.parametrize("row", ACCELERATORS.values(), ids=ACCELERATORS)
def test_row_is_named_by_the_words_of_google_for_it(row):
    words = {
        row.machine_type,
        row.chip.title,
        row.chip.vertex_type,
        row.resource_name,
        *row.chip.node_labels.values(),
    }
    for word in words - {"", "CPU"}:
        assert row.name in named(word)
        assert row.name in named(word.upper())
