"""Tolerances derived from float32 rounding: how far two results of one formula may differ."""

import os

import numpy as np
import pytest

UNIT = float(np.finfo(np.float32).eps) / 2
"""Largest relative error of one rounding to float32."""


def sums_of(terms: int, largest: float) -> float:
    """Bound on the difference of two sums of `terms` products of at most `largest`, in any order.

    Every addition rounds a partial sum by at most UNIT of it. Products of both signs make partial sums that grow
    as the square root of their number, and so do the sums of the rounding errors: n additions of partial sums of
    sqrt(n) * largest err by n * UNIT * largest (Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
    section 2.8: the probabilistic counterpart of gamma_n in section 3.1). Six standard deviations, for both sums.
    """
    return float(2 * 6 * terms * UNIT * largest)


needs_bfloat16 = pytest.mark.skipif(
    os.environ.get("ONEDNN_MAX_CPU_ISA", "").startswith("AVX2"),
    reason="ONEDNN_MAX_CPU_ISA keeps oneDNN from bfloat16, which TensorFlow still hands to it on this CPU",
)
