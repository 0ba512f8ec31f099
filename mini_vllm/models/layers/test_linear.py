import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mini_vllm.models.layers import int8_linear, quantization
from mini_vllm.models.layers.linear import linear, pack_weight
from mini_vllm.models.layers.quantization import MOST, TILE, Int8Weight
from mini_vllm.native import c_compiler


@pytest.mark.parametrize("num_rows", [1, 5, 64])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_packed_weight_gives_the_product_of_the_plain_one(num_rows: int, has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = (
        torch.randn(70, 40, generator=generator),
        torch.randn(num_rows, 40, generator=generator),
    )
    bias = torch.randn(70, generator=generator).bfloat16() if has_bias else None
    product = linear(x.bfloat16(), pack_weight(weight.bfloat16()), bias)
    expected = F.linear(
        x.bfloat16().double(), weight.bfloat16().double(), None if bias is None else bias.double()
    )
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


@pytest.mark.nightly
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="reads the resident memory from Linux"
)
def test_memory_does_not_grow_with_the_number_of_sizes_of_a_step() -> None:
    growth = subprocess.run(
        [sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True
    ).stdout
    assert int(growth) < 100 << 20


# --- weights in eight bits ------------------------------------------------------------------------

KERNELS = int8_linear.load_kernels()
NEEDS_C = pytest.mark.skipif(isinstance(KERNELS, str), reason=str(KERNELS))
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def random(*shape: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def dequantized(weight: Int8Weight) -> Tensor:
    return weight.values.double() * weight.scale.double()[:, None]


def check(weight: Tensor, x: Tensor) -> None:
    """The product with and without a bias, against that of the dequantised weight in float64."""
    packed, bias = pack_weight(weight, "int8"), random(len(weight), dtype=x.dtype)
    assert isinstance(packed, Int8Weight)
    for each in (None, bias):
        product = linear(x, packed, each)
        assert product.dtype == x.dtype
        expected = F.linear(
            x.double(), dequantized(packed), None if each is None else each.double()
        )
        tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.02}[x.dtype]
        torch.testing.assert_close(product.double(), expected, atol=tolerance, rtol=tolerance / 8)


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


@pytest.fixture(params=["kernel", "no compiler"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no compiler":
        monkeypatch.setattr(quantization, "load_kernels", lambda: "no compiler")
    elif isinstance(KERNELS, str):
        pytest.skip(KERNELS)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "num_rows",
    [0, 1, 3, 97, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 4, 7, 96, 257))],
)
@pytest.mark.parametrize(
    "size", [(64, 128), (70, 192), (1, 64), (131, 70), (TILE + 3, 64)], ids=str
)
def test_the_product_is_that_of_the_dequantised_weight(
    dtype: torch.dtype, num_rows: int, size: tuple[int, int]
) -> None:
    """For few rows and for many, whatever serves them, and over more than one tile."""
    check(random(*size, dtype=dtype), random(num_rows, size[1], dtype=dtype))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_that_is_no_number_spoils_no_other(dtype: torch.dtype) -> None:
    weight = Int8Weight.quantize(random(64, 64, dtype=dtype))
    for num_rows in (2, 6):
        x = random(num_rows, 64, dtype=dtype)
        expected = weight(x)
        x[1] = torch.nan
        product = weight(x)
        assert product[1].isnan().all()
        assert torch.equal(product[0], expected[0])


@pytest.mark.slow
@NEEDS_C
@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the names of the processors are those of x86"
)
@pytest.mark.parametrize("machine", ["x86-64", "haswell"])
def test_vectors_of_other_widths_compute_the_same(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors without AVX-512, and without AVX."""
    if machine == "haswell" and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    flags = tuple(flag.replace("native", machine) for flag in c_compiler.FLAGS)
    monkeypatch.setattr(c_compiler, "FLAGS", flags)
    library = c_compiler.load_library(int8_linear.SOURCE)
    monkeypatch.setattr(quantization, "load_kernels", lambda: library)
    for dtype in DTYPES:
        for num_rows in (1, 2, 3, 4, 7):
            check(random(70, 192, dtype=dtype), random(num_rows, 192, dtype=dtype))


@NEEDS_C
def test_the_structure_has_the_fields_of_the_c_file() -> None:
    """By name and in order: ctypes cannot know."""
    text = int8_linear.SOURCE.read_text(encoding="utf-8")
    body = text[: text.index("} Linear;")].rpartition("typedef struct {")[2]
    declared = [
        word.split()[-1].lstrip("*") for word in body.replace(";", ",").split(",") if word.strip()
    ]
    assert [field for field, _ in int8_linear.LinearStruct._fields_] == declared
