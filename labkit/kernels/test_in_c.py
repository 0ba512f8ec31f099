"""The reference kernel of lab 01.9 keeps what its contract says of it."""

from math import exp

import pytest

from labkit.kernels import in_c
from mini_vllm.native.c_compiler import find_compiler


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("below", [0.0, 14.0, 20.0])
def test_long_sums_are_exact(below: float) -> None:
    """One position of value 1, and 100,000 of value 3 whose scores are lower: float32 loses such weights."""
    num_quiet = 100_000
    keys, values = [0.0, *[-below] * num_quiet], [1.0, *[3.0] * num_quiet]
    sizes = {"num_heads": 1, "num_kv_heads": 1, "head_dim": 1, "block_size": len(keys)}
    (got,) = in_c.decode([1.0], keys, values, [0], [len(keys)], scale=1.0, **sizes)
    weight = num_quiet * exp(-below)
    assert got == pytest.approx((1 + 3 * weight) / (1 + weight), abs=1e-6)
