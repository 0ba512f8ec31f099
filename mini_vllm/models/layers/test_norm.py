"""RMSNorm in C is the torch form, for every dtype and layout that a model hands in."""

import pytest
import torch
from torch import Tensor

from mini_vllm.models.layers import norm_c
from mini_vllm.models.layers.fused import add_rms_norm, rms_norm, rms_norm_torch

EPS = 1e-6
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(0, 64), (1, 1024), (40, 1024), (9, 33), (3, 16, 128), (2, 5, 24), (1, 8, 3)]

pytestmark = pytest.mark.skipif(
    norm_c.find_kernel(torch.float32) is None, reason="needs a C compiler"
)


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Equal, but for the order of a sum in float32: in 16 bits that may round one number in a
    thousand otherwise.
    """
    exact = found.dtype == torch.float32
    torch.testing.assert_close(
        found, expected, rtol=1e-6 if exact else 1e-2, atol=1e-6 if exact else 1e-3
    )
    assert exact or (found != expected).sum() <= 1 + found.numel() // 1000


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
    assert norm_c.takes(x)
    assert_close(rms_norm(x, weight, EPS), rms_norm_torch(x, weight, EPS))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_heads_of_a_wider_product(dtype: torch.dtype) -> None:
    heads, weight = torch.randn(5, 8, 16).to(dtype), torch.randn(16).to(dtype)
    for x in heads.split([4, 2, 2], dim=1):
        assert norm_c.takes(x)
        assert_close(rms_norm(x, weight, EPS), rms_norm_torch(x, weight, EPS))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1024), (40, 1024), (9, 33)], ids=str)
def test_the_residual_comes_first(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, residual, weight = (
        torch.randn(shape).to(dtype),
        torch.randn(shape).to(dtype),
        torch.randn(shape[1]).to(dtype),
    )
    expected = residual + x
    found, summed = add_rms_norm(x, residual, weight, EPS)
    assert torch.equal(summed, expected)
    assert_close(found, rms_norm_torch(expected, weight, EPS))


def test_a_row_that_is_no_number_spoils_no_other() -> None:
    x, weight = torch.randn(3, 64), torch.ones(64)
    expected = rms_norm(x, weight, EPS)
    x[1, 7], x[1, 8] = float("nan"), float("inf")
    found = rms_norm(x, weight, EPS)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], expected[[0, 2]])


@pytest.mark.parametrize(
    "x", [torch.ones(4, 6).T, torch.ones(2, 3, 8).transpose(0, 1), torch.ones(8)], ids=str
)
def test_other_layouts_go_to_torch(x: Tensor) -> None:
    assert not norm_c.takes(x)
    weight = torch.ones(x.shape[-1])
    assert torch.equal(rms_norm(x, weight, EPS), rms_norm_torch(x, weight, EPS))
