"""A decode step waits for the device once, and asks it for as much memory however many requests
there are. Counted on a CPU, where the same calls are made.
"""

import threading
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mini_vllm import LLM, SamplingParams
from mini_vllm.params import StructuredOutputs
from mini_vllm.worker.sampler import LOGITS_AT_ONCE

WAITS = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__")
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "seeded": {"seed": 3},
    "penalties": {"temperature": 0, "presence_penalty": 0.5, "repetition_penalty": 1.2},
    "frequency": {"frequency_penalty": -0.5, "seed": 1},
    "top_k": {"top_k": 20},
    "top_p": {"top_p": 0.9},
    "a small top_p": {"top_p": 0.05, "temperature": 2.0},
    "min_p": {"min_p": 0.1, "seed": 2},
    "all three": {"top_k": 50, "top_p": 0.8, "min_p": 0.01, "seed": 5},
    "logprobs": {"temperature": 0, "logprobs": 3},
    "logprobs of a draw": {"seed": 1, "logprobs": 0},
    "min_tokens": {"temperature": 0, "min_tokens": 8, "stop_token_ids": (5, 7)},
    "biases": {"temperature": 0, "logit_bias": {5: 3.0, 9: -2.0}},
    "a list": {"allowed_token_ids": (3, 4, 5, 6)},
    "bad words": {"temperature": 0, "bad_token_ids": ((5,), (6, 7), (1, 2, 3))},
    "a grammar": {"structured": StructuredOutputs(regex="[a-z ]{40}"), "seed": 4},
}


class Memory(TorchDispatchMode):
    """Counts results that have memory of their own, and operators that wait."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        owned = {
            each.untyped_storage().data_ptr()
            for each in tree_leaves((args, kwargs))
            if isinstance(each, torch.Tensor) and not each.is_mkldnn
        }
        self.counts["new"] += sum(
            each.untyped_storage().data_ptr() not in owned
            for each in tree_leaves(output)
            if isinstance(each, torch.Tensor)
        )
        indices = tree_leaves(args[1]) if func.name().startswith("aten::index") else ()
        by_mask = any(getattr(each, "dtype", None) is torch.bool for each in indices)
        self.counts["waits"] += by_mask or func.name() in (
            *("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"),
            *("aten::unique_consecutive", "aten::_unique2", "aten::equal"),
        )
        return output


@pytest.fixture(scope="module", params=["none", "full_and_piecewise"])
def llm(request: pytest.FixtureRequest) -> LLM:
    return LLM(
        "tiny",
        dtype="float32",
        device="cpu",
        num_kv_blocks=200,
        max_model_len=80,
        max_num_seqs=16,
        max_num_batched_tokens=256,
        cudagraph_mode=request.param,
    )


@pytest.fixture
def steps(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Counter[str]]]:
    """Of each step of decodes in which no request is new: how many requests, and the counts."""
    counts: Counter[str] = Counter()
    for name in WAITS:
        real = getattr(torch.Tensor, name)

        def counted(self: Any, *arguments: Any, real: Any = real, name: str = name) -> Any:
            counts[name] += 1
            return real(self, *arguments)

        monkeypatch.setattr(torch.Tensor, name, counted)
    seen: list[tuple[int, Counter[str]]] = []
    runner = llm.engine.executor.runner
    execute = runner.execute
    known: set[str] = set()

    def counted_execute(step: Any) -> Any:
        counts.clear()
        with Memory(counts):
            output = execute(step)
        is_old = set(step.req_ids) == known and not step.new_rows
        if is_old and set(step.num_scheduled_tokens) == {1}:
            seen.append((len(step.req_ids), Counter(counts)))
        known.clear()
        known.update(step.req_ids)
        return output

    monkeypatch.setattr(runner, "execute", counted_execute)
    return seen


def run(llm: LLM, params: list[SamplingParams]) -> None:
    llm.generate([[10 + i, 6, 7, 8] for i in range(len(params))], params)


def params_of(kind: str) -> SamplingParams:
    return SamplingParams(max_tokens=8, ignore_eos=True, **KINDS[kind])


def check(steps: list[tuple[int, Counter[str]]]) -> None:
    assert len({n for n, _ in steps}) > 1
    for _, counts in steps:
        waits = {name: n for name, n in counts.items() if name != "new"}
        assert +Counter(waits) == {"tolist": 1}
    assert len({counts["new"] for _, counts in steps}) == 1, [
        (n, counts["new"]) for n, counts in steps
    ]


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if i % 8 else ()) for i, kind in enumerate(KINDS)],
)
def test_a_decode_step_waits_once_and_its_memory_does_not_grow(
    kind: str, llm: LLM, steps: list[tuple[int, Counter[str]]]
) -> None:
    for n in (2, 7):
        run(llm, [params_of(kind)] * n)
    check(steps)


def test_a_mixed_batch_waits_once_too(llm: LLM, steps: list[tuple[int, Counter[str]]]) -> None:
    kinds = [kind for kind in KINDS if kind != "a grammar"]
    for n in (len(kinds) - 1, len(kinds)):  # each kind of rows is in both
        run(llm, [params_of(kind) for kind in kinds[-n:]])
    check(steps)


def test_rows_whose_logits_are_large_are_sampled_in_pieces(
    llm: LLM, steps: list[tuple[int, Counter[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    params = [params_of(kind) for kind in ("penalties", "all three", "logprobs", "seeded")] * 3
    prompts = [[10 + i, 6, 7, 8] for i in range(len(params))]
    whole = [each.outputs[0] for each in llm.generate(prompts, params)]
    monkeypatch.setitem(LOGITS_AT_ONCE, "cpu", 2 * 2048)  # two rows
    pieces = [each.outputs[0] for each in llm.generate(prompts, params)]
    assert pieces == whole
    for _, counts in steps:
        assert counts["tolist"] == 1


def read_late(runner: Any) -> list[bool]:
    """Let no token be read until the next step has begun, for the first six steps; whether it had
    by then. The last step of a run has none behind it.
    """
    launch, collect = runner.launch, runner.sampler.collect
    begun, had_begun = threading.Semaphore(0), []

    def begin(step: Any) -> Any:
        answer = launch(step)
        begun.release()
        return answer

    def read(pending: Any) -> Any:
        if len(had_begun) < 6:
            begun.acquire()  # its own
            had_begun.append(begun.acquire(timeout=30))
            begun.release()
        return collect(pending)

    runner.launch, runner.sampler.collect = begin, read
    return had_begun


@pytest.mark.parametrize("mode", ["none", "full_and_piecewise"])
def test_a_step_one_ahead_begins_with_tokens_that_no_host_has_read(mode: str) -> None:
    params = [params_of(kind) for kind in ("penalties", "seeded", "bad words", "min_tokens")]
    prompts = [[10 + i, 6, 7, 8] for i in range(len(params))]
    options: dict[str, Any] = {"dtype": "float32", "device": "cpu", "num_kv_blocks": 200}
    plain, ahead = (
        LLM("tiny", max_num_seqs=4, cudagraph_mode=mode, async_scheduling=is_ahead, **options)
        for is_ahead in (False, True)
    )
    had_begun = read_late(ahead.engine.executor.runner)
    answers = [
        [list(output.outputs[0].token_ids) for output in llm.generate(prompts, params)]
        for llm in (plain, ahead)
    ]
    assert answers[0] == answers[1]
    assert had_begun == [True] * 6
