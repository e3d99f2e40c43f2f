"""What `make check-gpu` compiles, and what it makes of the answers; the compiler itself takes minutes."""

import dataclasses
import re

import pytest

from tests import determinism, gpu_compile, gpu_compiler, tpu_compile
from tests.gpu_compile import CHIPS, Case, Counts
from tests.refusals import refused
from trainer.errors import UserError
from trainer.network import convolution, layers
from trainer.training import accelerators

CASE = Case("t4", 32, (240, 320), "float16")
PLANNED = 398.88e6 + 3.7e9
COUNTS = Counts(bytes=32 * 800e6, arguments_bytes=0.3e9, unaliased_bytes=0, temporary_bytes=PLANNED - 0.3e9)
COMPILED = """HloModule step

%fused (p: f32[2,3]) -> bf16[2,3] {
  %p = f32[2,3]{1,0} parameter(0)
  ROOT %converted = bf16[2,3]{1,0} convert(%p)
}

ENTRY %main (a: f32[2,3], k: f32[3]) -> (bf16[2,3], f32[]) {
  %a = f32[2,3]{1,0} parameter(0), metadata={op_name="a"}
  %k = f32[3]{0} parameter(1)
  %half = bf16[2,3]{1,0} fusion(%a), kind=kLoop, calls=%fused
  %conv.1 = (bf16[2,3]{1,0}, u8[10]{0}) custom-call(%half, %k), custom_call_target="__cudnn$convForward"
  %one = bf16[2,3]{1,0} get-tuple-element(%conv.1), index=0
  %sum = f32[] fusion(%one), kind=kInput, calls=%reduced
  ROOT %both = (bf16[2,3]{1,0}, f32[]) tuple(%one, %sum)
}
"""


def test_step_of_a_gpu_has_its_own_gradient_of_the_pooling_and_scales_the_loss():
    before = convolution.chip, layers.own_gradient
    with determinism.operations(deterministic=False):
        text = gpu_compile.lower(Case("t4", 2, (24, 32), "float16"))
    convolution.chip, layers.own_gradient = before
    assert "select-and-scatter" not in text
    assert "is-finite" in text
    convolutions = re.findall(r"= (\w+)\[.*? convolution\(", text)
    assert len(convolutions) > 60
    assert set(convolutions) == {"f16"}


def test_traffic_is_what_each_operation_reads_and_writes():
    """The fusion reads 24 and writes 12 bytes; the convolution reads 12 + 12, writes 12 and a workspace of 10; the
    sum reads 12 and writes 4.
    """
    assert gpu_compiler.traffic_bytes(COMPILED) == (24 + 12) + (12 + 12 + 12 + 10) + (12 + 4)


@pytest.mark.parametrize("name", CHIPS)
def test_cores_and_clocks_of_the_descriptions_give_the_peaks_of_the_table(name):
    """A core multiplies so many half-precision numbers a clock: NVIDIA's white papers of Turing to Hopper."""
    chip, described = CHIPS[name]
    flop = {(7, 5): 1024, (8, 9): 1024, (8, 0): 2048, (9, 0): 4096}[described.capability]
    peak = described.cores * described.clock_ghz * 1e9 * flop
    assert peak == pytest.approx(chip.flops[chip.precision], rel=0.09)  # an H100's tensor cores have a lower clock


def test_description_has_the_memory_of_the_table():
    text = gpu_compile.target("l4")
    assert "memory_bandwidth: 300000000000\n" in text
    assert "device_memory_size: 24000000000\n" in text
    assert "major: 8\n    minor: 9\n" in text


def test_figures_are_per_image():
    row = COUNTS.row(CASE)
    assert (row["MB"], row["memory_GB"], row["planned_GB"]) == (800, 4.1, 4.1)
    assert (row["arithmetic_ms"], row["memory_ms"], row["images_per_s"]) == (3.835, 2.5, 261)


def taking(share):
    """Counts of a step that takes `share` of the planned memory."""
    return dataclasses.replace(COUNTS, temporary_bytes=share * PLANNED - 0.3e9)


@pytest.mark.parametrize("share", [0.87, 1.02])
def test_memory_that_is_nearly_the_planned_one_passes(share):
    tpu_compile.check_memory(taking(share), *gpu_compile.step_of(CASE))


@pytest.mark.parametrize(
    ("share", "named"),
    [(1.04, r"take 4\.26 GB, and `plan` says 4\.10"), (0.84, r"take 3\.44 GB, and"), (5, "has 16 GB")],
)
def test_memory_that_differs_from_the_plan_or_does_not_fit_is_an_error(share, named):
    with pytest.raises(UserError, match=named):
        tpu_compile.check_memory(taking(share), *gpu_compile.step_of(CASE))


def test_memory_that_xla_saves_near_the_limit_of_a_chip_passes():
    """121 images, the largest batch on a T4, are planned with 14.4 GB; XLA makes do with 11.8."""
    largest = dataclasses.replace(CASE, batch=accelerators.T4.largest_batch((240, 320), "float16"))
    tpu_compile.check_memory(dataclasses.replace(COUNTS, temporary_bytes=11.5e9), *gpu_compile.step_of(largest))


def test_precision_that_a_chip_does_not_have_is_an_error():
    with refused(UserError, "t4", "bfloat16", "float16", "float32"):
        gpu_compile.compile_step(dataclasses.replace(CASE, precision="bfloat16"), "python")


def test_compiler_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(UserError, match="make check-gpu"):
        gpu_compile.compile_step(CASE, str(tmp_path / "python"))
