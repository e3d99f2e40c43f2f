"""What `make check-tpu` compiles, and what it makes of the answers; the compiler itself takes minutes."""

import dataclasses
import re

import pytest

from tests import determinism, tpu_compile, tpu_compiler
from tests.tpu_compile import Case, Counts
from trainer.errors import UserError
from trainer.network import convolution

CASE = Case("2x2", 2, (24, 32), "bfloat16")
COUNTS = Counts(
    flops=32 * 250e9,
    bytes=32 * 900e6,
    arguments_bytes=0.3e9,
    unaliased_bytes=0,
    temporary_bytes=3e9,
    exchanged_bytes=100e6,
)


@pytest.fixture(scope="module")
def step():
    before = convolution.chip
    with determinism.operations(deterministic=False):  # whose form of the pooling's gradient XLA has not on CPUs
        yield tpu_compile.lower(CASE)
    convolution.chip = before


def test_step_takes_bytes_and_multiplies_in_bfloat16(step):
    header = step.partition("\n")[0]
    assert "u8[2,24,32,3]" in header
    assert "u8[2,24,32,1]" in header
    convolutions = re.findall(r"= (\w+)\[.*? convolution\((\w+)\[[^ ]* \S+ (\w+)\[", step)
    assert len(convolutions) > 60
    assert {kind for each in convolutions for kind in each} == {"bf16"}


def test_step_enlarges_nothing_and_dilates_without_copies(step):
    assert "[2,48,64," not in step  # nothing is larger than the image
    assert "[2,24,32,32]" not in step  # nor is the last feature map ever written at the size of the image
    batches = {int(batch) for batch in re.findall(r"= bf16\[(\d+),\d+,\d+,\d+\][^=]* convolution\(", step)}
    assert batches <= {1, 2, 3}  # images, or rows of a kernel's gradient: space is never put into the batch
    assert len(re.findall(r"rhs_dilate=12x12", step)) == 2


def test_step_on_several_chips_adds_up_every_gradient(step):
    reductions = re.findall(r"= (f32\[[\d,]*\]).* all-reduce\(.*replica_groups=\{\{0,1,2,3\}\}", step)
    assert len(reductions) == 46
    assert tpu_compiler.exchanged_bytes(step) == 4 * 24_934_209


def test_figures_are_per_image_and_name_what_bounds_the_step():
    case = dataclasses.replace(CASE, batch=32)
    row = COUNTS.row(case)
    assert (row["GFLOP"], row["MB"], row["HBM_GB"]) == (250, 900, 3.3)
    assert (row["arithmetic_ms"], row["memory_ms"]) == (1.269, 1.099)
    assert (row["bound_by"], row["images_per_s"]) == ("arithmetic", 788)
    slower = dataclasses.replace(COUNTS, bytes=32 * 1.8e9).row(case)
    assert (slower["bound_by"], slower["images_per_s"]) == ("memory", 455)


@pytest.mark.parametrize(("share", "named"), [(1.04, r"take 3\.71 GB, and `plan` says 3\.57"), (5, "has 16 GB")])
def test_memory_that_differs_from_the_plan_or_does_not_fit_is_an_error(share, named):
    step = tpu_compile.step_of(dataclasses.replace(CASE, batch=32, image_size=(240, 320)))
    planned = 398.88e6 + 3.17e9
    tpu_compile.check_memory(dataclasses.replace(COUNTS, temporary_bytes=planned - 0.3e9), *step)
    with pytest.raises(UserError, match=named):
        tpu_compile.check_memory(dataclasses.replace(COUNTS, temporary_bytes=share * planned - 0.3e9), *step)
