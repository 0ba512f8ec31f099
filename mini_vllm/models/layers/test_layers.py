import subprocess
import sys
from pathlib import Path

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


GROWTH = """
import sys
import torch
from mini_vllm.models.layers.linear import linear, pack_weight

def resident() -> int:
    return int(open("/proc/self/statm").read().split()[1]) * 4096

weights = [pack_weight(torch.zeros(n, 128, dtype=torch.bfloat16)) for n in (128, 384, 1024, 2048)]
for num_rows in range(1, 300):
    for weight in weights:
        linear(torch.zeros(num_rows, 128, dtype=torch.bfloat16), weight)
    if num_rows == 20:
        warm = resident()
print(resident() - warm)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident memory from Linux")
def test_memory_does_not_grow_with_the_number_of_sizes_of_a_step() -> None:
    growth = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True).stdout
    assert int(growth) < 100 << 20
