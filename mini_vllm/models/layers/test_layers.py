import pytest
import torch
import torch.nn.functional as F

from mini_vllm.models.layers.linear import linear, pack_weight


@pytest.mark.parametrize("num_rows", [1, 5, 64])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_packed_weight_gives_the_product_of_the_plain_one(num_rows: int, has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(70, 40, generator=generator), torch.randn(num_rows, 40, generator=generator)
    bias = torch.randn(70, generator=generator).bfloat16() if has_bias else None
    product = linear(x.bfloat16(), pack_weight(weight.bfloat16()), bias)
    expected = F.linear(x.bfloat16().double(), weight.bfloat16().double(), None if bias is None else bias.double())
    assert product.dtype == torch.bfloat16
    torch.testing.assert_close(product.double(), expected, atol=0.05, rtol=0.01)


def test_only_bfloat16_is_packed() -> None:
    for dtype in (torch.float32, torch.float16):
        weight = torch.randn(4, 4, dtype=dtype)
        assert pack_weight(weight) is weight
