"""Weights in eight bits against the same product in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mini_vllm.models.layers.linear import linear, pack_weight
from mini_vllm.models.layers.quantization import FEW_ROWS, MOST, TILE, Int8Weight

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def random(*shape: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def dequantized(weight: Int8Weight) -> Tensor:
    return weight.values.double() * weight.scale.double()[:, None]


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_weight_moves_by_more_than_half_a_step(dtype: torch.dtype) -> None:
    weight = random(TILE + 3, 70, dtype=dtype) * torch.logspace(-3, 2, TILE + 3)[:, None].to(dtype)
    quantized = Int8Weight.quantize(weight)
    assert quantized.values.dtype == torch.int8
    assert quantized.values.abs().amax() == MOST
    step = quantized.scale.double()[:, None]
    assert ((dequantized(quantized) - weight.double()).abs() <= step * 0.5001).all()


def test_a_row_of_nothing_but_zeros_stays_so() -> None:
    weight = random(3, 8, dtype=torch.bfloat16)
    weight[1] = 0
    x = random(2, 8, dtype=torch.bfloat16)
    assert (linear(x, Int8Weight.quantize(weight))[:, 1] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_rows", [0, 1, 3, FEW_ROWS, FEW_ROWS + 1, 64])
@pytest.mark.parametrize("has_bias", [False, True])
def test_the_product_is_that_of_the_dequantised_weight(dtype: torch.dtype, num_rows: int, has_bias: bool) -> None:
    """For few rows and for many, whatever serves them, and over more than one tile."""
    weight = pack_weight(random(TILE + 70, 96, dtype=dtype), "int8")
    assert isinstance(weight, Int8Weight)
    x = random(num_rows, 96, dtype=dtype)
    bias = random(TILE + 70, dtype=dtype) if has_bias else None
    product = linear(x, weight, bias)
    assert product.dtype == dtype
    assert product.shape == (num_rows, TILE + 70)
    expected = F.linear(x.double(), dequantized(weight), None if bias is None else bias.double())
    tolerance = 1e-4 if dtype == torch.float32 else 0.1 if dtype == torch.bfloat16 else 0.02
    torch.testing.assert_close(product.double(), expected, atol=tolerance, rtol=tolerance / 10)
