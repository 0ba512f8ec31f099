"""Rungs of other packages: with a stand-in for the package, whose signatures are the package's own.

The stand-in for FlashInfer checks what it is given as the library does, and then computes dense
attention, so that the engine has to make the tokens that it makes without.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton has Linux wheels only")

from mini_vllm import LLM, SamplingParams
from mini_vllm.attention import AttentionMetadata, PackedRequest, get_backend, registry
from mini_vllm.attention.libraries import needs
from mini_vllm.attention.test_attention import GPU, assert_close, dense_attention, make_batch
from mini_vllm.attention.torch_backend import TorchBackend
from mini_vllm.errors import InvalidParameterError

CPU = torch.device("cpu")


def int32(tensor: Tensor, *shape: int) -> list[int]:
    assert (tensor.dtype, tensor.shape) == (torch.int32, shape), tensor
    return tensor.tolist()


class Wrapper:
    """What both wrappers of FlashInfer 0.7.2 have in common. Arguments that this project does not
    give are not listed, so that giving one of them fails here until it is looked up.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD", **options: Any):
        assert float_workspace_buffer.dtype == torch.uint8
        assert not float_workspace_buffer.any()  # "must be initialized to 0 for its first use"
        assert kv_layout == "NHD"
        assert options in ({}, {"use_tensor_cores": True})
        self.planned: list[Any] = []
        made.append(self)

    def plan_pages(
        self,
        query_lens: list[int],
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        causal: bool,
        sm_scale: float,
        window_left: int,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        n = len(query_lens)
        assert n
        assert min(query_lens) > 0
        starts, last = int32(indptr, n + 1), int32(last_page_len, n)
        pages = int32(indices, starts[-1])
        assert starts[0] == 0
        assert all(1 <= length <= page_size for length in last)
        self.requests = []
        for i, length in enumerate(query_lens):
            own = pages[starts[i] : starts[i + 1]]
            assert own
            num_keys = (len(own) - 1) * page_size + last[i]
            assert num_keys >= length
            self.requests.append((length, own, num_keys))
        self.heads = num_qo_heads, num_kv_heads, head_dim
        self.page_size, self.scale, self.causal = page_size, sm_scale, causal
        self.window = num_keys_seen(window_left)
        self.dtypes = q_data_type, kv_data_type
        self.planned.append(query_lens)

    def run(self, q: Tensor, paged_kv_cache: tuple[Tensor, Tensor]) -> Tensor:
        num_heads, num_kv_heads, head_dim = self.heads
        key_cache, value_cache = paged_kv_cache
        assert q.shape == (sum(length for length, *_ in self.requests), num_heads, head_dim)
        for cache in paged_kv_cache:
            assert cache.shape[1:] == (self.page_size, num_kv_heads, head_dim)
            assert cache.is_contiguous()
            assert (q.dtype, cache.dtype) == self.dtypes
        output = torch.empty_like(q)
        row = 0
        for length, pages, num_keys in self.requests:
            keys, values = (
                cache[pages]
                .flatten(0, 1)[:num_keys]
                .double()
                .repeat_interleave(num_heads // num_kv_heads, 1)
                for cache in (key_cache, value_cache)
            )
            at = torch.arange(num_keys - length, num_keys)[:, None]
            seen = torch.arange(num_keys)[None] > at - self.window
            if self.causal:
                seen &= torch.arange(num_keys)[None] <= at
            rows = slice(row, row + length)
            scores = torch.einsum("qhd,khd->hqk", q[rows].double(), keys) * self.scale
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
            output[rows] = torch.einsum("hqk,khd->qhd", weights, values).to(q.dtype)
            row += length
        return output


def num_keys_seen(window_left: int) -> int:
    """ "The left (inclusive) window size, when set to -1, the full length"."""
    assert window_left >= -1
    return 1 << 40 if window_left == -1 else window_left + 1


class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    def plan(
        self,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        window_left: int = -1,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None,
        sm_scale: float | None = None,
    ) -> None:
        assert kv_data_type is not None
        assert sm_scale is not None
        self.plan_pages(
            [1] * len(last_page_len), indptr, indices, last_page_len,
            num_qo_heads, num_kv_heads, head_dim, page_size,
            False, sm_scale, window_left, q_data_type, kv_data_type,
        )  # fmt: skip


class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        *,
        causal: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None,
    ) -> None:
        assert kv_data_type is not None
        assert sm_scale is not None
        lengths = int32(qo_indptr.diff(), len(paged_kv_last_page_len))
        self.plan_pages(
            lengths, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len,
            num_qo_heads, num_kv_heads, head_dim_qk, page_size,
            causal, sm_scale, window_left, q_data_type, kv_data_type,
        )  # fmt: skip


made: list[Wrapper] = []


def marks_of(request: pytest.FixtureRequest) -> set[str]:
    return {mark.name for mark in request.node.iter_markers()}


@pytest.fixture
def stand_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Wrapper]:
    """FlashInfer for a CPU, and for heads of any width in float32; what it made."""
    module: Any = ModuleType("flashinfer")
    for cls in (BatchDecodeWithPagedKVCacheWrapper, BatchPrefillWithPagedKVCacheWrapper):
        setattr(module, cls.__name__, cls)
    if BACKEND not in sys.modules:
        monkeypatch.setitem(sys.modules, "flashinfer", module)
    flashinfer_backend = import_module(BACKEND)
    monkeypatch.setattr(flashinfer_backend, "flashinfer", module)
    monkeypatch.setattr(registry, "why_not", lambda *arguments: None)
    # rotation and cache write are the Triton rung's, which the interpreter runs slowly
    for name in () if "slow" in marks_of(request) else ("write_kv", "rotate_and_write_kv"):
        method = getattr(TorchBackend, name)
        monkeypatch.setattr(flashinfer_backend.FlashInferBackend, name, method)
    monkeypatch.setattr(flashinfer_backend, "HEAD_DIMS", range(1, 257))
    monkeypatch.setattr(flashinfer_backend, "WORKSPACE", 64)
    made.clear()
    return made


BACKEND = "mini_vllm.attention.libraries.flashinfer_backend"


def answers(checkpoint: Path, backend: str, **options: Any) -> list[list[int]]:
    llm = LLM(
        str(checkpoint),
        device="cpu",
        dtype="float32",
        block_size=4,
        attention_backend=backend,
        max_num_batched_tokens=12,
        num_kv_blocks=9,
        **options,
    )
    prompts = [[*range(10, 27)], [*range(10, 22), 50, 51], [70]]
    params = SamplingParams(temperature=0.0, max_tokens=6, ignore_eos=True)
    return [list(out.outputs[0].token_ids) for out in llm.generate(prompts, params)]


@pytest.mark.parametrize("kernels", ["torch", pytest.param("triton", marks=pytest.mark.slow)])
def test_the_engine_makes_the_same_tokens_on_flashinfer(
    checkpoint: Path, stand_in: list[Wrapper], kernels: str
) -> None:
    """Chunks beside decodes, decodes alone, and a preemption."""
    assert answers(checkpoint, "flashinfer") == answers(checkpoint, "torch")
    kinds = {type(wrapper).__name__: wrapper.planned for wrapper in stand_in}
    assert len(kinds) == len(stand_in) == 2  # a wrapper is used again, step after step
    chunks = kinds["BatchPrefillWithPagedKVCacheWrapper"]
    assert any(1 in lengths and max(lengths) > 1 for lengths in chunks)
    assert len(kinds["BatchDecodeWithPagedKVCacheWrapper"]) > 3


@pytest.mark.slow
def test_the_engine_makes_the_same_tokens_one_step_ahead(
    checkpoint: Path, stand_in: list[Wrapper]
) -> None:
    options = {"async_scheduling": True, "cudagraph_mode": "full_and_piecewise"}
    assert answers(checkpoint, "flashinfer", **options) == answers(checkpoint, "torch")


@pytest.mark.parametrize("window", [None, 1, 20])
@pytest.mark.parametrize(
    "spans", [[(0, 1), (15, 1), (16, 1), (40, 1)], [(0, 5), (16, 1), (20, 17), (33, 2)]], ids=str
)
def test_flashinfer_gets_what_dense_attention_gets(
    stand_in: list[Wrapper], spans: list[tuple[int, int]], window: int | None
) -> None:
    batch = make_batch(spans, head_dim=16, dtype=torch.float16)
    output = batch.run("flashinfer", window)
    assert_close(output, dense_attention(batch, window), [v for _, v in batch.histories])


def test_plans_that_live_at_once_have_wrappers_of_their_own(stand_in: list[Wrapper]) -> None:
    """Layers of two kinds in one step, and a step that was planned before the last one ended."""
    backend, batch = get_backend("flashinfer", CPU), make_batch([(5, 1), (20, 1)])
    batch.run(backend)
    plans = [
        backend.plan(batch.metadata, replace(batch.spec, sliding_window=window))
        for window in (None, 2)
    ]
    outputs = [backend.attend(batch.query, batch.key_cache, batch.value_cache, p) for p in plans]
    for output, window in zip(outputs, (None, 2), strict=True):
        assert_close(output, dense_attention(batch, window), [v for _, v in batch.histories])
    assert len(stand_in) == 2


@pytest.mark.parametrize("padded", [(0, 2), (2, 0), (1, 0)])
def test_rows_of_no_request_and_of_padding_become_0(
    stand_in: list[Wrapper], padded: tuple[int, int]
) -> None:
    """padded: requests without keys before and behind the real ones; then rows of no request."""
    batch = make_batch([(5, 1), (20, 3)])
    batch.run("torch")
    before, behind = padded
    metadata = AttentionMetadata.pack(
        [
            *[PackedRequest([0], 0, 1)] * before,
            *batch.requests,
            *[PackedRequest([0], 0, 1)] * behind,
        ],
        batch.metadata.block_size,
        CPU,
    )
    lengths = metadata.seq_lens_cpu.copy()
    lengths[[i for i in range(len(lengths)) if not before <= i < before + 2]] = 0
    metadata = replace(metadata, seq_lens_cpu=lengths, seq_lens=torch.from_numpy(lengths).int())
    backend = get_backend("flashinfer", CPU)
    query = torch.nn.functional.pad(batch.query, (0, 0, 0, 0, before, behind + 3))
    plan = backend.plan(metadata, batch.spec)
    output = backend.attend(query, batch.key_cache, batch.value_cache, plan)
    real = slice(before, before + len(batch.query))
    assert_close(output[real], dense_attention(batch), [v for _, v in batch.histories])
    output[real] = 0
    assert not output.any()


def test_a_step_of_nothing_plans_nothing(stand_in: list[Wrapper]) -> None:
    metadata = AttentionMetadata.build(
        np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.int32), 16, CPU
    )
    backend, batch = get_backend("flashinfer", CPU), make_batch([(0, 1)])
    output = backend.attend(
        batch.query, batch.key_cache, batch.value_cache, backend.plan(metadata, batch.spec)
    )
    assert not output.any()
    assert not stand_in


def test_a_width_that_has_no_kernel_is_refused_at_the_start(
    checkpoint: Path, stand_in: list[Wrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BACKEND}.HEAD_DIMS", (64, 128))
    with pytest.raises(InvalidParameterError, match=r"'flashinfer' .*64, 128; the model's is 8"):
        answers(checkpoint, "flashinfer")
    assert not stand_in


# --- on a card, with the packages -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("group_size", [1, 4, 7, 16])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("name", ["flashinfer", "cutedsl"])
def test_on_a_card_it_equals_dense_attention(
    name: str, head_dim: int, group_size: int, window: int | None
) -> None:
    if reason := registry.why_not(name, GPU, torch.bfloat16):
        pytest.skip(reason)
    for spans in ([(0, 1), (511, 1), (512, 1), (1500, 1)], [(0, 5), (600, 1), (20, 300)]):
        batch = make_batch(
            spans, head_dim=head_dim, group_size=group_size, dtype=torch.bfloat16
        ).to(GPU)
        backend = get_backend(name, GPU, torch.bfloat16)
        output = batch.run(backend, window)
        assert_close(output, dense_attention(batch, window), [v for _, v in batch.histories])


# --- where they cannot run ------------------------------------------------------------------------

CUDA = torch.device("cuda")
INSTALLED = {"flashinfer", "triton", "nvidia_cutlass_dsl"}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Packages and programs that are there; nothing of them is imported or run."""

    def pretend(modules: set[str], programs: set[str] = frozenset()) -> None:
        monkeypatch.setattr(needs, "find_spec", lambda name: name if name in modules else None)
        monkeypatch.setattr(needs, "which", lambda name: name if name in programs else None)
        monkeypatch.setenv("CUDA_HOME", "/nowhere")
        monkeypatch.setenv("TRITON_INTERPRET", "0")

    return pretend


@pytest.mark.parametrize("name", ["flashinfer", "cutedsl"])
def test_each_is_refused_by_name_with_the_reason(name: str, machine: Callable[..., None]) -> None:
    with pytest.raises(
        InvalidParameterError, match=f"'{name}' cannot run on cpu: it needs an NVIDIA GPU"
    ):
        get_backend(name, CPU)
    module, package = needs.PACKAGES[name]
    machine(INSTALLED - {module})
    with pytest.raises(InvalidParameterError, match=rf"'{name}' cannot .*pip install {package}"):
        get_backend(name, CUDA, torch.bfloat16)
    machine(INSTALLED, {"nvcc", "ninja"})
    assert registry.why_not(name, CUDA) is None
    with pytest.raises(InvalidParameterError, match=rf"'{name}'.* bfloat16, not in torch.float32"):
        get_backend(name, CUDA, torch.float32)


def test_flashinfer_needs_kernels_or_what_compiles_them(machine: Callable[..., None]) -> None:
    machine(INSTALLED, {"ninja"})
    assert "needs nvcc and ninja" in str(registry.why_not("flashinfer", CUDA, torch.float16))
    machine({*INSTALLED, "flashinfer_jit_cache"})
    assert registry.why_not("flashinfer", CUDA, torch.float16) is None


def test_auto_takes_none_that_has_not_run(machine: Callable[..., None]) -> None:
    machine(INSTALLED, {"nvcc", "ninja"})
    assert registry.candidates(CUDA) == ["triton", "torch"]
    assert get_backend("auto", CUDA, torch.bfloat16).name == "triton"
    machine(set())
    assert get_backend("auto", CUDA, torch.bfloat16).name == "torch"
    assert registry.candidates(CPU) == ["c", "torch"]


def test_the_page_has_the_order_of_fallback() -> None:
    page = (Path(__file__).parents[3] / "docs/api/engine.md").read_text()
    _, _, rest = page.partition("## The order of fallback")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", rest.partition("\n## ")[0], re.M)
    devices = {"cuda": "NVIDIA GPU", "cpu": "CPU", "": "any"}
    assert rows == [
        (each.name, devices[each.device], "yes" if each.has_run else "no, by name only")
        for each in registry.FALLBACK
    ]


def test_only_the_registry_knows_them_and_by_name() -> None:
    """So none is imported before it is chosen."""
    root = Path(__file__).parents[2]
    theirs = re.compile(
        r"^\s*(import|from) +(flashinfer|cutlass|cuda\b|.*libraries.*(flashinfer|cutedsl)_)", re.M
    )
    users = {
        path.name for path in root.rglob("*.py")
        if not path.name.startswith("test_") and theirs.search(path.read_text())
    }  # fmt: skip
    assert users == {"flashinfer_backend.py", "cutedsl_backend.py"}
