"""Recorded forwards: the same tokens as without, and no replay of memory that has moved."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mini_vllm import LLM, SamplingParams
from mini_vllm.attention import tiles, why_not
from mini_vllm.attention.c_backend import CBackend
from mini_vllm.errors import InvalidParameterError
from mini_vllm.worker.graphs import (
    AttentionCGSupport,
    BatchDescriptor,
    CudagraphDispatcher,
    CUDAGraphMode,
    Graphs,
    MovedBufferError,
)
from mini_vllm.worker.graphs.dispatcher import capture_sizes
from mini_vllm.worker.graphs.modes import lower
from mini_vllm.worker.graphs.step_buffers import StepBuffers

TIGHT: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "block_size": 4,
    "num_kv_blocks": 50,
    "max_model_len": 80,
    "max_num_batched_tokens": 32,
    "max_num_seqs": 8,
}


def workload(seed: int) -> tuple[list[list[int]], list[SamplingParams]]:
    """Prompts of which some share their beginning, chunks and preemptions: more than the cache
    holds.
    """
    rng = random.Random(seed)
    shared = [rng.randrange(3, 2048) for _ in range(12)]
    prompts = [
        (shared if rng.random() < 0.5 else [])
        + [rng.randrange(3, 2048) for _ in range(rng.randint(1, 30))]
        for _ in range(8)
    ]
    params = [
        SamplingParams(
            temperature=rng.choice((0, 1)),
            seed=i,
            max_tokens=rng.randint(4, 30),
            ignore_eos=True,
            presence_penalty=rng.choice((0, 0.5)),
        )
        for i in range(8)
    ]
    return prompts, params


def tokens_of(llm: LLM, seeds: range) -> list[list[list[int]]]:
    return [
        [list(output.outputs[0].token_ids) for output in llm.generate(*workload(seed))]
        for seed in seeds
    ]


@pytest.fixture
def short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts of these tests are then cut into several spans, which are merged."""
    monkeypatch.setattr(tiles, "SPLIT", 16)


@pytest.mark.parametrize(
    ("backend", "seeds"),
    [
        ("c", range(2)),
        pytest.param("c", range(20), marks=pytest.mark.slow),
        pytest.param("torch", range(20), marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("short_spans")
def test_replayed_steps_give_the_tokens_of_eager_ones(backend: str, seeds: range) -> None:
    eager = LLM("tiny", attention_backend=backend, **TIGHT)
    replayed = LLM("tiny", attention_backend=backend, cudagraph_mode="full_and_piecewise", **TIGHT)
    runner = replayed.engine.executor.runner
    modes = []
    replay = runner.graphs.replay
    runner.graphs.replay = lambda graph: (modes.append(graph.key), replay(graph))[1]
    assert tokens_of(replayed, seeds) == tokens_of(eager, seeds)
    assert eager.engine.scheduler.preempted_prefix_cache_stats.requests > 0
    assert {mode for mode, _ in modes} == {CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE}
    assert len(modes) == runner.num_replays > 20 * len(seeds)


@pytest.mark.usefixtures("short_spans")
@pytest.mark.parametrize(
    "options", [{"speculative": "ngram", "num_speculative_tokens": 1}, {"async_scheduling": True}]
)
def test_drafts_and_steps_ahead_are_replayed_too(options: dict[str, Any]) -> None:
    prompts = [[5, 6, 7, 8] * 5]
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    answers = []
    for mode in ("none", "full_decode_only"):
        llm = LLM("tiny", cudagraph_mode=mode, **TIGHT, **options)
        answers.append([list(o.outputs[0].token_ids) for o in llm.generate(prompts, params)])
    assert answers[0] == answers[1]
    assert llm.engine.executor.runner.num_replays > 0


NO_TRITON = pytest.mark.skipif(
    bool(why_not("triton", torch.device("cpu"))), reason="Triton is not interpreted"
)
DRAFTS = {"speculative": "ngram", "num_speculative_tokens": 2, "prompt_lookup_min": 1}


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("c", {}),
        ("c", DRAFTS),
        pytest.param("triton", {}, marks=[pytest.mark.slow, NO_TRITON]),
        pytest.param("triton", DRAFTS, marks=[pytest.mark.nightly, NO_TRITON]),
    ],
    ids=str,
)
def test_batches_of_any_makeup_are_replayed_whole(
    checkpoint: Path, backend: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of prompts beside decodes, as one and as several tiles, with rows that pad."""
    monkeypatch.setattr(tiles, "SPLIT", 32)
    monkeypatch.setattr(CBackend, "cudagraph_support", "ALWAYS")
    sizes = {"max_num_batched_tokens": 24, "max_num_seqs": 12, "num_kv_blocks": 40}
    prompts = [[5 + (i + length) % 4 for i in range(length)] for length in (37, 3, 19)]
    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    makeups: list[tuple[int, list[int]]] = []
    last: dict[Any, tuple[Any, int]] = {}
    pad = Graphs.pad

    def noted(graphs: Graphs, graph: Any, packed: Any, batch: Any) -> None:
        lengths = packed.metadata[0].query_lens_cpu.tolist()
        num_pads = graph.key[1].num_tokens - sum(lengths)
        makeups.append((num_pads, lengths))
        last[graph.key] = graph, num_pads
        pad(graphs, graph, packed, batch)

    monkeypatch.setattr(Graphs, "pad", noted)
    answers = []
    for mode in ("none", "full"):
        everything = TIGHT | sizes | options | {"attention_backend": backend}
        llm = LLM(str(checkpoint), cudagraph_mode=mode, **everything)
        outputs = llm.generate(prompts, params)
        answers.append([list(output.outputs[0].token_ids) for output in outputs])
    assert answers[0] == answers[1]
    runner = llm.engine.executor.runner
    graphs = runner.graphs
    assert {mode for mode, _ in graphs.graphs} == {CUDAGraphMode.FULL}
    assert any(more > 0 and len({*lengths}) > 1 for more, lengths in makeups)
    assert any(max(lengths) > 8 and min(lengths) == 1 for _, lengths in makeups)
    assert not any(key[0].any() or value[0].any() for key, value in runner.kv_caches)
    for graph, num_pads in last.values():  # rows that attend to nothing are alike
        of_pads = graph.hidden[len(graph.hidden) - num_pads :]
        torch.testing.assert_close(of_pads, of_pads[:1].expand_as(of_pads))
    assert max(num_pads for _, num_pads in last.values()) > 1
    for name in ("seq_lens", "slot_mapping 0", "short_tiles 0"):
        old = graph.buffers.device[name]
        graph.buffers.device[name] = old.clone()
        with pytest.raises(MovedBufferError, match=name):
            graphs.replay(graph)
        graph.buffers.device[name] = old


@pytest.fixture(scope="module")
def recorded() -> LLM:
    return LLM("tiny", cudagraph_mode="full_and_piecewise", **TIGHT)


def decode(llm: LLM, n: int = 3) -> list[list[int]]:
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    outputs = llm.generate([[5 + i, 6, 7] for i in range(n)], params)
    return [list(output.outputs[0].token_ids) for output in outputs]


def test_no_replay_reads_a_buffer_that_has_moved(recorded: LLM) -> None:
    runner = recorded.engine.executor.runner
    graphs = runner.graphs
    for mode in (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE):
        graph = next(graph for key, graph in graphs.graphs.items() if key[0] is mode)
        filled = [(name, each) for name, each in graph.buffers.device.items() if len(each)]
        for name, tensor in filled:
            graph.buffers.device[name] = tensor.clone()
            with pytest.raises(MovedBufferError, match=name):
                graphs.replay(graph)
            graph.buffers.device[name] = tensor
        for holder, name in ((graphs.tables[0], "ids"), (runner.model.norm, "weight")):
            old = getattr(holder, name)
            new = old.clone()
            setattr(
                holder, name, nn.Parameter(new, False) if isinstance(old, nn.Parameter) else new
            )
            with pytest.raises(MovedBufferError):
                graphs.replay(graph)
            setattr(holder, name, old)
        for layer, (key_cache, value_cache) in enumerate(list(runner.kv_caches)):
            for moved in ((key_cache.clone(), value_cache), (key_cache, value_cache.clone())):
                runner.kv_caches[layer] = moved
                with pytest.raises(MovedBufferError, match=f"cache {layer}"):
                    graphs.replay(graph)
            runner.kv_caches[layer] = key_cache, value_cache
        graphs.replay(graph)


def test_a_full_cache_and_a_first_padded_step_are_replayed() -> None:
    options = TIGHT | {"num_kv_blocks": 4, "max_num_seqs": 3, "max_num_batched_tokens": 16}
    llm = LLM("tiny", cudagraph_mode="full_decode_only", **options)
    # three requests of one block each fill the cache; a recording of 3 is none of the usual sizes
    params = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)
    runner = llm.engine.executor.runner
    llm.generate([[5, 6], [6, 7], [8, 9]], params)
    assert runner.num_replays == 1
    llm.generate([[5, 6], [6, 7]], params)
    assert runner.num_replays == 2


def test_destroyed_recordings_leave_eager_steps() -> None:
    llm = LLM("tiny", cudagraph_mode="full_decode_only", **TIGHT)
    runner = llm.engine.executor.runner
    expected, replays = decode(llm), runner.num_replays
    runner.graphs.destroy()
    assert decode(llm) == expected
    assert runner.num_replays == replays > 0


def test_what_pads_touches_no_request(recorded: LLM) -> None:
    """Five decodes run in a recording of eight: no slot but those of their own is written."""
    runner = recorded.engine.executor.runner
    before = [key.clone() for key, _ in runner.kv_caches]
    null_block = [key[0].clone() for key in before]
    decode(recorded, 5)
    for (key_cache, _), old in zip(runner.kv_caches, null_block, strict=True):
        assert torch.equal(key_cache[0], old)


def test_a_mode_is_lowered_to_what_the_back_end_supports() -> None:
    mode, support = CUDAGraphMode, AttentionCGSupport
    assert lower(mode.FULL, support.ALWAYS) is mode.FULL
    assert lower(mode.FULL, support.UNIFORM_BATCH) is mode.FULL_AND_PIECEWISE
    assert lower(mode.FULL_DECODE_ONLY, support.NEVER) is mode.PIECEWISE
    single = support.UNIFORM_SINGLE_TOKEN_DECODE
    assert lower(mode.FULL_AND_PIECEWISE, single) is mode.FULL_AND_PIECEWISE
    assert lower(mode.FULL_AND_PIECEWISE, single, 3) is mode.PIECEWISE
    for each in mode:
        assert lower(each, support.ALWAYS) is each
    assert lower(mode.NONE, support.NEVER) is mode.NONE


@pytest.mark.parametrize("backend", ["reference", "c"])
def test_what_was_lowered_is_told_once(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "mini_vllm"):
        llm = LLM("tiny", cudagraph_mode="full", attention_backend=backend, **TIGHT)
    told = [each.message for each in caplog.records if "graphs," in each.message]
    lowered = {"reference": "PIECEWISE", "c": "FULL_AND_PIECEWISE"}[backend]
    assert len(told) == 1
    assert f"{lowered} (not FULL: the attention back end {backend} is" in told[0]
    decode(llm)


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="cudagraph_mode"):
        LLM("tiny", cudagraph_mode="whole")


def test_a_makeup_has_the_key_of_vllm() -> None:
    oracle = json.loads((Path(__file__).parent / "vllm_dispatcher.json").read_text())
    assert len(oracle["cases"]) >= 14
    for case in oracle["cases"]:
        seqs, budget, length = (
            case[name] for name in ("max_num_seqs", "max_num_batched_tokens", "decode_query_len")
        )
        mode = CUDAGraphMode[case["mode"]]
        dispatcher = CudagraphDispatcher(mode, case["sizes"], seqs, length)
        if mode.decode is CUDAGraphMode.FULL or length == 1:
            assert capture_sizes(seqs, budget, length) == case["sizes"]
        for num_tokens, is_uniform, runtime, *key in case["answers"]:
            got = dispatcher.dispatch(num_tokens, is_uniform)
            assert got == (CUDAGraphMode[runtime], BatchDescriptor(*key)), (case, num_tokens)
        keys = [[m.name, *key] for m, key in dispatcher.capture_keys()]
        assert keys == case["capture"]


def test_a_plain_decode_waits_for_the_device_once(
    recorded: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one readback has the tokens and what is not finite; the inputs are one upload."""
    runner = recorded.engine.executor.runner
    waits: list[str] = []
    for name in ("item", "tolist", "cpu", "nonzero", "__bool__", "__int__", "__float__"):
        real = getattr(torch.Tensor, name)

        def counted(self: Any, *arguments: Any, real: Any = real, name: str = name) -> Any:
            waits.append(name)
            return real(self, *arguments)

        monkeypatch.setattr(torch.Tensor, name, counted)
    seen: list[tuple[list[str], int]] = []
    execute, upload = runner.execute, StepBuffers.upload
    uploads: list[StepBuffers] = []

    def counted_upload(self: StepBuffers) -> None:
        uploads.append(self)
        upload(self)

    def counted_execute(step: Any) -> Any:
        waits.clear()
        uploads.clear()
        output = execute(step)
        if set(step.num_scheduled_tokens) == {1}:
            seen.append((list(waits), len(uploads)))
        return output

    monkeypatch.setattr(StepBuffers, "upload", counted_upload)
    monkeypatch.setattr(runner, "execute", counted_execute)
    for params in (
        SamplingParams(temperature=0, max_tokens=6, ignore_eos=True),
        SamplingParams(temperature=0.7, seed=3, max_tokens=6, ignore_eos=True),
    ):
        for n in (2, 7):
            recorded.generate([[5 + i, 6, 7] for i in range(n)], params)
    assert len(seen) > 10
    assert all(each == (["tolist"], 1) for each in seen), seen
