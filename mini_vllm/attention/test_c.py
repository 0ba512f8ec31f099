"""The rung in C beyond what test_attention.py asks of every rung: sizes at which its ways divide,
numbers that are no numbers, memory around its tensors, other widths of vectors. How it is built is
in test_c_compiler.py."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mini_vllm.attention import PagedAttention, c_backend, get_backend
from mini_vllm.attention.c_backend import CBackend
from mini_vllm.attention.test_attention import (
    CPU,
    NEEDS_C,
    assert_close,
    assert_same_bits_in_every_chunk,
    dense_attention,
    make_batch,
)
from mini_vllm.errors import InvalidParameterError
from mini_vllm.native import c_compiler
from mini_vllm.native.c_compiler import load_library

COMPILER = c_compiler.find_compiler()
NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler here")
SPANS = {  # cached and new tokens of each request
    "decodes whose keys are split": [(1300, 1), (511, 1), (512, 1), (0, 1)],
    "chunks of several tiles": [(0, 150), (700, 70), (63, 1)],
    "a few queries, keys split": [(1100, 5), (520, 3), (3, 2)],
    "mixed": [(70, 1), (0, 33), (129, 1), (64, 64), (0, 1)],
}


# --- what it computes -----------------------------------------------------------------------------


@NEEDS_C
@pytest.mark.parametrize(
    "window", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (None, 1, 600))]
)
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("spans", SPANS.values(), ids=SPANS)
def test_long_requests_equal_dense_attention(
    spans: list[tuple[int, int]], dtype: torch.dtype, window: int | None
) -> None:
    for block_size, group_size, head_dim in ((16, 2, 64), (128, 3, 48), (5, 1, 16)):
        batch = make_batch(
            spans, block_size=block_size, group_size=group_size, head_dim=head_dim, dtype=dtype
        )
        expected = dense_attention(batch, window)
        assert_close(batch.run("c", window), expected, [values for _, values in batch.histories])


@NEEDS_C
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(
    "group_size",
    [1, 2, 5, 8, 71, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 7, 9, 16))],
)
@pytest.mark.parametrize("head_dim", [1, 16, 80, 128, 256])
def test_it_is_as_close_as_that_to_the_reference(
    head_dim: int, group_size: int, dtype: torch.dtype, tolerance: float
) -> None:
    """Groups from one head to more than a tile has rows, heads from one channel to the widest."""
    for window in (None, 9):
        by_c, by_reference = (
            make_batch(
                [(37, 1), (5, 6)],
                head_dim=head_dim,
                group_size=group_size,
                num_kv_heads=1,
                dtype=dtype,
            ).run(name, window)
            for name in ("c", "reference")
        )
        torch.testing.assert_close(
            by_c.float(), by_reference.float(), atol=tolerance, rtol=tolerance
        )


@NEEDS_C
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("span", [(0, 100), (600, 20), (600, 1)])
@pytest.mark.parametrize("head_dim", [8, 32])
def test_a_token_that_is_no_number_spoils_only_the_queries_that_see_it(
    head_dim: int, span: tuple[int, int], window: int | None, number: float
) -> None:
    """The tokens before it share tiles with it, and their blocks are shared with other requests."""
    batch, spoilt = (make_batch([span, (30, 1)], head_dim=head_dim) for _ in range(2))
    expected = batch.run("c", window)
    row = span[1] // 2
    spoilt.value[row] = number
    spoilt.key[row] = torch.nan
    output = spoilt.run("c", window)
    sees = torch.zeros(len(output), dtype=torch.bool)
    sees[row : span[1] if window is None else min(span[1], row + window)] = True
    torch.testing.assert_close(output[~sees], expected[~sees], atol=1e-6, rtol=0)
    assert output[sees].isnan().all()


@NEEDS_C
def test_halves_are_rounded_to_the_nearest_and_special_numbers_stay() -> None:
    """Every float16 goes through the kernel and comes back; float32 between two of them go to the
    nearest even.
    """
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    for dtype, numbers in ((torch.float16, every), (torch.bfloat16, every.view(torch.bfloat16))):
        batch = make_batch([(0, 1)] * 256, block_size=1, head_dim=128, group_size=1, dtype=dtype)
        # a single key has the weight 1: the result is its value
        batch.value = numbers.reshape(256, 2, 128)
        result = batch.run("c")
        torch.testing.assert_close(result, batch.value, atol=0, rtol=0, equal_nan=True)
    means = make_batch([(1, 1)], head_dim=64, dtype=torch.float16)
    means.query[:] = 0  # two keys of equal weight: the result is the mean, which is rounded
    history = means.histories[0][1]
    expected = ((history[0].double() + history[1].double()) / 2).half().repeat_interleave(2, dim=0)
    assert torch.equal(means.run("c")[0], expected)


@NEEDS_C
def test_each_back_end_refuses_the_layout_of_another() -> None:
    batch = make_batch([(5, 3)])
    metadata, specs = batch.metadata, [batch.spec]
    with pytest.raises(
        InvalidParameterError, match=r"in memory in the order \(0, 2, 1, 3\), without gaps"
    ):
        PagedAttention(
            get_backend("c", CPU), [(batch.key_cache, batch.value_cache)], metadata, specs
        )
    batch.lay_out(get_backend("c", CPU))
    with pytest.raises(
        InvalidParameterError, match=r"in memory in the order \(0, 1, 2, 3\), without gaps"
    ):
        PagedAttention(
            get_backend("torch", CPU), [(batch.key_cache, batch.value_cache)], metadata, specs
        )


@NEEDS_C
def test_rows_may_lie_in_memory_in_any_way() -> None:
    """Heads outside of tokens, and gaps between them: such rows are copied, and the result is the
    same.
    """
    batch = make_batch([(20, 1), (3, 9)], head_dim=16)
    expected = make_batch([(20, 1), (3, 9)], head_dim=16).run("c")
    batch.query = batch.query.transpose(0, 1).contiguous().transpose(0, 1)
    batch.key = torch.stack((batch.key, batch.key * 0), dim=-1)[..., 0]
    batch.value = torch.cat((batch.value, batch.value), dim=-1)[..., :16]
    assert torch.equal(batch.run("c"), expected)


@NEEDS_C
def test_a_result_does_not_depend_on_the_number_of_threads() -> None:
    spans, threads = [(900, 1), (0, 80), (20, 3)], torch.get_num_threads()
    results = []
    try:
        for num_threads in (1, 2, 3):
            torch.set_num_threads(num_threads)
            results.append(make_batch(spans, head_dim=64).run("c"))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


# --- memory around the tensors --------------------------------------------------------------------

BAND = 512  # elements


@cache
def poison() -> Callable[[Tensor], None] | None:
    """Makes AddressSanitizer report any access to a tensor's memory; None where it does not run."""
    function = getattr(ctypes.CDLL(None), "__asan_poison_memory_region", None)
    if function is None:
        return None
    return lambda tensor: function(
        ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes)
    )


def in_bands(tensor: Tensor, keep: list[Tensor], filling: float = torch.nan) -> Tensor:
    """A copy between two bands, which are poisoned under AddressSanitizer and hold the filling
    else.
    """
    order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))
    memory = torch.full((tensor.numel() + 2 * BAND,), filling, dtype=tensor.dtype)
    middle = memory[BAND:-BAND].view([tensor.shape[dim] for dim in order])
    copy = middle.permute([order.index(dim) for dim in range(tensor.dim())]).copy_(tensor)
    keep += [memory[:BAND], memory[-BAND:]]
    return copy


@NEEDS_C
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("head_dim", [8, 20, 64])
def test_nothing_outside_of_a_batch_is_read_or_written(head_dim: int, dtype: torch.dtype) -> None:
    """Tensors stand between bands. These, and slots without a token, are poisoned, or NaN and stay
    what they are.
    """
    batch = make_batch([(600, 1), (0, 70), (17, 3), (31, 1)], head_dim=head_dim, dtype=dtype)
    batch.lay_out(CBackend())
    expected, bands = dense_attention(batch, 50), list[Tensor]()
    for name in ("query", "key", "value", "key_cache", "value_cache"):
        setattr(batch, name, in_bands(getattr(batch, name), bands))
    tables = {
        name: in_bands(getattr(batch.metadata, name), bands, 0)
        for name in ("slot_mapping", "block_tables")
    }
    batch.metadata = replace(batch.metadata, **tables)
    ends = dict.fromkeys(range(len(batch.key_cache)), 0)  # tokens that a request has in each block
    for (block_ids, *_), length in zip(
        batch.requests, batch.metadata.seq_lens_cpu.tolist(), strict=True
    ):
        ends.update(
            {block: min(16, length - 16 * column) for column, block in enumerate(block_ids)}
        )
    free = [
        cache[block, end:, head]  # one piece of memory
        for cache in (batch.key_cache, batch.value_cache)
        for block, end in ends.items()
        for head in range(cache.shape[2])
    ]
    before = [each.clone() for each in (*bands, *free)]
    hide = poison()
    if hide:
        for each in (*bands, *free):
            hide(each)
    output = batch.run("c", 50)
    assert_close(output, expected, [values for _, values in batch.histories])
    if not hide:
        for each, was in zip((*bands, *free), before, strict=True):
            torch.testing.assert_close(each, was, atol=0, rtol=0, equal_nan=True)


SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="AddressSanitizer is preloaded as on Linux")
@NEEDS_COMPILER
def test_the_kernels_are_clean_under_address_and_undefined_behaviour_sanitizer(
    tmp_path: Path,
) -> None:
    """The tests of this rung again, in a process with the sanitizers."""
    assert COMPILER
    libraries = [
        subprocess.run(
            [*COMPILER, f"-print-file-name=lib{name}.so"], capture_output=True, text=True
        ).stdout.strip()
        for name in ("asan", "ubsan")
    ]
    if not all(map(os.path.isabs, libraries)):
        pytest.skip(f"{COMPILER[0]} has no sanitizers of its own")
    environment = os.environ | {
        "CC": f"env -u LD_PRELOAD {COMPILER[0]} {SANITIZERS}",
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps what it has
        "XDG_CACHE_HOME": str(tmp_path),
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",  # workers share the processors
    }
    folder = Path(__file__).parent
    files = [str(folder / name) for name in ("test_c.py", "test_attention.py")]
    layers = folder.parent / "models" / "layers"
    # the other kernels in C
    files += [str(layers / name) for name in ("test_linear.py", "test_norm.py")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *files,
    ]
    command += ["-k", "test_c.py or [c] or [c- or test_norm.py or test_linear and not memory"]
    done = subprocess.run(
        command, cwd=folder.parents[1], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout  # as they are where the library cannot be built or loaded


@pytest.mark.slow
@NEEDS_COMPILER
@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the names of the processors are those of x86"
)
@pytest.mark.parametrize("machine", ["x86-64", "haswell", "znver2"])
def test_vectors_of_other_widths_compute_the_same(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors without AVX-512, and without AVX; and code that is tuned for AMD's."""
    if machine != "x86-64" and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    march = f"-march={'haswell' if machine == 'znver2' else machine}"
    flags = tuple(march if flag == "-march=native" else flag for flag in c_compiler.FLAGS)
    flags = (*flags, f"-mtune={machine.replace('x86-64', 'generic')}")
    monkeypatch.setattr(c_compiler, "FLAGS", flags)
    libraries = {
        dtype: load_library(c_backend.SOURCE, f"DTYPE={name}")
        for dtype, name in c_backend.DTYPES.items()
    }
    monkeypatch.setattr(c_backend, "load_kernels", libraries.__getitem__)
    for dtype in libraries:
        for spans in SPANS.values():
            for head_dim, group_size in ((8, 2), (20, 3), (64, 8), (128, 2)):
                batch = make_batch(spans, head_dim=head_dim, group_size=group_size, dtype=dtype)
                assert_close(
                    batch.run(CBackend(), 99),
                    dense_attention(batch, 99),
                    [v for _, v in batch.histories],
                )
        for head_dim, group_size in ((8, 2), (32, 4), (64, 8)):
            batch = make_batch([(0, 600)], head_dim=head_dim, group_size=group_size, dtype=dtype)
            assert_same_bits_in_every_chunk("c", batch, 50)


def test_the_rung_is_for_a_cpu() -> None:
    assert c_backend.why_not(torch.device("cuda"), torch.float32) == "it runs on a CPU"


@NEEDS_C
def test_the_structures_have_the_fields_of_the_c_file() -> None:
    """By name and in order: ctypes cannot know."""
    text = c_backend.SOURCE.read_text(encoding="utf-8")
    for struct, name in ((c_backend.PlanStruct, "Plan"), (c_backend.WriteStruct, "Write")):
        body = text[: text.index(f"}} {name};")].rpartition("typedef struct {")[2]
        lines = (line.split("/*")[0].strip().rstrip(";") for line in body.splitlines())
        declared = [
            word.split()[-1].lstrip("*") for line in lines if line for word in line.split(",")
        ]
        assert [field for field, _ in struct._fields_] == declared
