"""The small kernels around attention, each beside its torch form: cache writes, norms, SiLU. Part of attention_cuda.py.

They do little arithmetic, so the share of a copy's bandwidth says how good they are, once a step has enough tokens. At
few tokens nearly all of the time is the launch, and what counts is how many launches there are.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from device import DTYPE, TOLERANCE, Device, Layout, Yardsticks, deviation
from torch import Tensor

from mini_vllm.attention import Rotation, apply_rotary

Call = Callable[[], object]
EPS = 1e-6
HEADER = [
    "| kernel | layout | tokens | µs | GB/s | of the copy | torch form µs | ratio |",
    "|---|---|---|---|---|---|---|---|",
]


def returned(run: Call) -> list[Tensor]:
    """What a call returns, one tensor or several."""
    result = run()
    return [result] if isinstance(result, Tensor) else list(result)  # type: ignore[call-overload]


class Kernel(NamedTuple):
    """A kernel and its torch form, with the bytes that either must move. results(call) is what they must agree on."""

    name: str
    num_bytes: int
    ours: Call
    torch_form: Call
    results: Callable[[Call], list[Tensor]] = returned


def small_kernel_table(
    device: Device, layouts: tuple[Layout, ...], token_counts: tuple[int, ...], block_size: int, yardsticks: Yardsticks
) -> list[str]:
    """All kernels at all sizes, as lines of a table."""
    print("\nsmall kernels: tokens, µs, GB/s, share of the copy, torch form µs, ratio", flush=True)
    lines = []
    for layout in layouts:
        for num_tokens in token_counts:
            for kernels in (cache_writes, elementwise):
                for kernel in kernels(layout, num_tokens, block_size, device.torch):
                    lines.append(measure(kernel, layout, num_tokens, device, yardsticks))
                    print(f"  {lines[-1]}", flush=True)
    return HEADER + lines


def measure(kernel: Kernel, layout: Layout, num_tokens: int, device: Device, yardsticks: Yardsticks) -> str:
    head = f"| {kernel.name} | {layout.name} | {num_tokens:,} |"
    expected = kernel.results(kernel.torch_form)  # first, since ours may reuse the memory of an argument
    pairs = zip(kernel.results(kernel.ours), expected, strict=True)
    if not all(deviation(a, b) <= TOLERANCE for a, b in pairs):
        return f"{head} WRONG | | | | |"
    ours, theirs = device.seconds(kernel.ours), device.seconds(kernel.torch_form)
    rate = kernel.num_bytes / ours
    figures = f"{ours * 1e6:.1f} | {rate / 1e9:,.0f} | {rate / yardsticks.copy:.0%} | {theirs * 1e6:.1f}"
    return f"{head} {figures} | {theirs / ours:.2f} |"


def cache_writes(layout: Layout, num_tokens: int, block_size: int, device: torch.device) -> Iterator[Kernel]:
    """write_kv and rotate_and_write_kv on one projection's output, at random slots."""
    from mini_vllm.attention.write_kv import rotate_and_write_kv, write_kv

    heads = [layout.num_heads, layout.num_kv_heads, layout.num_kv_heads]
    qkv = torch.randn(num_tokens, sum(heads), layout.head_dim, device=device).to(DTYPE)
    query, key, value = qkv.split(heads, dim=1)
    angles = torch.rand(num_tokens, 1, layout.head_dim // 2, device=device) * 6
    cos, sin = angles.cos().to(DTYPE), angles.sin().to(DTYPE)
    rotation = Rotation(torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1))
    num_blocks = 4 * num_tokens // block_size + 1
    shape = (num_blocks, block_size, layout.num_kv_heads, layout.head_dim)
    caches = [torch.zeros(shape, dtype=DTYPE, device=device) for _ in range(2)]
    slots = torch.randperm(num_blocks * block_size, device=device)[:num_tokens]

    def copy(key: Tensor) -> None:
        for cache, new in zip(caches, (key, value), strict=True):
            cache.flatten(0, 1).index_copy_(0, slots, new)

    def rotate_and_copy() -> Tensor:
        copy(apply_rotary(key, rotation))
        return apply_rotary(query, rotation)

    def written(run: Call) -> list[Tensor]:
        for cache in caches:
            cache.zero_()
        rotated = run()
        found = [cache.flatten(0, 1)[slots] for cache in caches]
        return [*found, rotated] if isinstance(rotated, Tensor) else found

    kv_heads = 4 * layout.num_kv_heads  # key and value, each read and written
    numbers = {"write_kv": kv_heads, "rotate_and_write_kv": kv_heads + 2 * layout.num_heads + 1}
    num_bytes = {name: num_tokens * (count * layout.head_dim * DTYPE.itemsize + 8) for name, count in numbers.items()}
    yield Kernel(
        "write_kv",
        num_bytes["write_kv"],
        lambda: write_kv(key, value, *caches, slots),
        lambda: copy(key),
        written,
    )
    yield Kernel(
        "rotate_and_write_kv",
        num_bytes["rotate_and_write_kv"],
        lambda: rotate_and_write_kv(query, key, value, rotation, *caches, slots),
        rotate_and_copy,
        written,
    )


def elementwise(layout: Layout, num_tokens: int, _: int, device: torch.device) -> Iterator[Kernel]:
    """The fused kernels between the matrix products."""
    try:
        from mini_vllm.models.layers import fused, fused_triton
    except ImportError as error:
        print(f"  elementwise kernels: n/a ({error})", flush=True)
        return

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, device=device).to(DTYPE)

    x, residual, weight = random(num_tokens, layout.hidden), random(num_tokens, layout.hidden), random(layout.hidden)
    heads, head_weight = random(num_tokens, layout.num_heads, layout.head_dim), random(layout.head_dim)
    gate_up = random(num_tokens, 2 * layout.intermediate)

    def add_torch() -> tuple[Tensor, Tensor]:
        total = residual + x
        return fused.rms_norm_torch(total, weight, EPS), total

    row = num_tokens * DTYPE.itemsize
    yield Kernel(
        "rms_norm",
        2 * row * layout.hidden,
        lambda: fused_triton.rms_norm(x, weight, EPS),
        lambda: fused.rms_norm_torch(x, weight, EPS),
    )
    yield Kernel(
        "rms_norm of heads",
        2 * row * layout.num_heads * layout.head_dim,
        lambda: fused_triton.rms_norm(heads, head_weight, EPS),
        lambda: fused.rms_norm_torch(heads, head_weight, EPS),
    )
    yield Kernel(
        "add_rms_norm",
        4 * row * layout.hidden,
        lambda: fused_triton.add_rms_norm(x, residual, weight, EPS),
        add_torch,
    )
    yield Kernel(
        "silu_mul",
        3 * row * layout.intermediate,
        lambda: fused_triton.silu_mul(gate_up),
        lambda: fused.silu_mul_torch(gate_up),
    )
