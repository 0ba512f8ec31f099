"""A model in several processes gives what it gives in one."""

import multiprocessing
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mini_vllm import LLM, SamplingParams
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import (
    CheckpointError,
    EngineDeadError,
    ExecutorLostError,
    InvalidParameterError,
)
from mini_vllm.light.numpy_executor import NumpyExecutor
from mini_vllm.models.checkpoint import resolve_model
from mini_vllm.models.test_models import CASES, write_checkpoint
from mini_vllm.parallel.experts.shard import read_loads
from mini_vllm.params import StructuredOutputs
from mini_vllm.worker import memory
from mini_vllm.worker.ranks import executor as ranks

SIZES: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "block_size": 4,
    "num_kv_blocks": 24,
    "max_num_batched_tokens": 16,
    "max_model_len": 64,
}
SPREAD: dict[str, Any] = {"enable_expert_parallel": True}
RANKED = ("enable_expert_parallel", "num_redundant_experts")  # options that one process has not
GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
PARAMS = [
    GREEDY,
    SamplingParams(temperature=0, max_tokens=20, ignore_eos=True),
    SamplingParams(seed=5, max_tokens=20, ignore_eos=True),
    SamplingParams(seed=1, n=2, max_tokens=12, ignore_eos=True, logprobs=3),
    SamplingParams(temperature=0, frequency_penalty=0.5, max_tokens=24, ignore_eos=True),
    SamplingParams(temperature=0, max_tokens=8, prompt_logprobs=2),
    SamplingParams(temperature=0, structured=StructuredOutputs(choice=("yes", "no"))),
]
PROMPTS = [list(range(20 + 3 * i, 32 + 2 * i)) for i in range(len(PARAMS))]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """With matrices so small, threads only wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def two(one_thread: None) -> Iterator[LLM]:
    llm = LLM("tiny", tensor_parallel_size=2, **SIZES)
    yield llm
    llm.engine.shutdown()


def answers(llm: LLM, prompts: Any = PROMPTS, params: Any = PARAMS) -> list[Any]:
    """Token ids, and log-probabilities to three decimals."""
    return [
        (
            [choice.token_ids for choice in output.outputs],
            [rounded(choice.logprobs) for choice in output.outputs],
            rounded(output.prompt_logprobs),
        )
        for output in llm.generate(prompts, params)
    ]


def run_to_the_end(engine: LLMEngine) -> None:
    while engine.has_unfinished_requests():
        engine.step()


def rounded(places: Any) -> Any:
    return places and [
        each and {token_id: round(one.logprob, 3) for token_id, one in each.items()}
        for each in places
    ]


@pytest.mark.slow
def test_two_processes_give_what_one_gives(two: LLM) -> None:
    """Chunks, preemption, hits in the prefix cache, masks, penalties, log-probabilities."""
    one = LLM("tiny", **SIZES)
    assert answers(two) == answers(one)
    # alone, requests that are greedy tell pairs; among the rest, they gather
    assert answers(two, PROMPTS[:3], GREEDY) == answers(one, PROMPTS[:3], GREEDY)
    assert two.engine.scheduler.preempted_prefix_cache_stats.requests > 0
    # a block has half of the heads
    sizes = [llm.engine.kv_cache_plan.bytes_per_block for llm in (two, one)]
    assert sizes[0] * 2 == sizes[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_invariant": True}, "batch_invariant must be False with 2 ranks, got True"),
        ({"cudagraph_mode": "piecewise"}, "cudagraph_mode needs LocalExecutor"),
        ({"enforce_eager": False}, "enforce_eager=False needs LocalExecutor"),
        ({"executor_cls": NumpyExecutor}, "tensor_parallel_size needs LocalExecutor, got Numpy"),
        ({"tensor_parallel_size": 3}, "num_attention_heads is 8, which is no multiple of the 3"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size must be an integer in"),
        ({"tensor_parallel_size": True}, "tensor_parallel_size must be an integer in"),
        ({"model": "no such model"}, "no such model"),
        (SPREAD, "must be False: 'tiny' has no experts that can be spread, got True"),
        ({"tensor_parallel_size": 1, **SPREAD}, "must be False with tensor_parallel_size 1"),
    ],
)
def test_what_ranks_cannot_do_is_refused_before_one_starts(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "RankGroup", None)  # which would start them
    with pytest.raises((InvalidParameterError, CheckpointError), match=message):
        LLM(**{"model": "tiny", "tensor_parallel_size": 2, **SIZES, **options})


def test_memory_is_shared_among_the_ranks_of_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_host_memory", lambda: 1_000_000)
    alone, pair = (
        memory.host_bytes(EngineConfig("tiny", tensor_parallel_size=size), 1_000, 100_000)
        for size in (1, 2)
    )
    assert (alone, pair) == (900_000 * 0.9 - 1_000, 800_000 * 0.9 / 2 - 1_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "size", "options"),
    [
        ("llama-biases", 2, {"async_scheduling": True}),
        ("llama", 4, {}),  # of 2 KV heads
        ("llama-mqa", 2, {"speculative": "ngram"}),
        ("qwen3", 4, {"quantization": "int8", "preemption_mode": "swap"}),
        ("granite", 2, {"quantization": "int8"}),
        ("mixtral", 2, {}),
        ("qwen3-moe", 4, {"quantization": "int8"}),
        ("olmoe-clip-biases-tied", 4, {}),  # of 1 KV head
        ("olmoe", 2, {**SPREAD, "quantization": "int8"}),
        ("mixtral", 2, SPREAD),
        ("mixtral", 4, {**SPREAD, "num_redundant_experts": 3, "speculative": "ngram"}),
        ("qwen3-moe", 4, {**SPREAD, "quantization": "int8"}),
        ("qwen3-moe", 2, {**SPREAD, "preemption_mode": "swap", "async_scheduling": True}),
        ("tiny", 2, {"speculative": "draft_model"}),
        ("tiny", 2, {"speculative": "draft_model", "async_scheduling": True}),
    ],
)
def test_ranks_of_other_models_and_options_give_what_one_process_gives(
    case: str, size: int, options: dict[str, Any], tmp_path: Path
) -> None:
    model = case
    if case != "tiny":
        write_checkpoint(tmp_path, CASES[case])
        model = str(tmp_path)
    prompts = np.random.default_rng(0).integers(20, 120, (6, 9)).tolist()
    params = [*PARAMS[:5], GREEDY]
    found = []
    for n in (1, size):
        given = SIZES | {name: options[name] for name in options if n > 1 or name not in RANKED}
        llm = LLM(model, tensor_parallel_size=n, **given)
        found.append(answers(llm, prompts, params))
        assert llm.engine.scheduler.preempted_prefix_cache_stats.requests > 0
        if "draft_model" in options.values():
            stats = llm.engine.scheduler.speculation_stats
            found[-1].append(sum(stats.num_drafts_by_accepted[1:]) > 10)
        llm.engine.shutdown()
    assert found[1] == found[0]


WORDS = [
    GREEDY,
    SamplingParams(seed=5, max_tokens=20, ignore_eos=True),
    SamplingParams(temperature=0, structured=StructuredOutputs(choice=("yes", "no"))),
    SamplingParams(seed=3, max_tokens=24, structured=StructuredOutputs(regex="[a-c]{4,20}")),
    SamplingParams(
        temperature=0, max_tokens=24, structured=StructuredOutputs(json={"type": "array"})
    ),
]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random experts that read and write the bundled model's tokens."""
    path = tmp_path_factory.mktemp("words")
    case = CASES["qwen3-moe"]
    write_checkpoint(path, replace(case, options=case.options | {"vocab_size": 2048}))
    for file in resolve_model("tiny").glob("*token*.json"):
        shutil.copy(file, path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"speculative": "ngram"},
        {"speculative": "draft_model"},
        {"speculative": "draft_model", "async_scheduling": True},
    ],
)
def test_experts_on_two_ranks_go_with_grammars_and_drafts(
    words: Path, options: dict[str, Any]
) -> None:
    """The draft model is the same one, whole on each rank, so many drafts are right."""
    drafts = {"draft_model": str(words)} if options.get("speculative") == "draft_model" else {}
    prompts, found = [list(range(20 + i, 32 + i)) * 2 for i in range(len(WORDS))], []
    for ranked in ({}, SPREAD | {"tensor_parallel_size": 2}):
        llm = LLM(str(words), **(SIZES | {"num_kv_blocks": 40} | options | drafts | ranked))
        found.append(answers(llm, prompts, WORDS))
        if options:
            stats = llm.engine.scheduler.speculation_stats
            found[-1].append(sum(stats.num_drafts_by_accepted[1:]) > 2)
        llm.engine.shutdown()
    assert found[1] == found[0]


@pytest.mark.slow
def test_what_experts_got_places_them_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_checkpoint(tmp_path, CASES["mixtral"])
    file = tmp_path / "loads.json"
    options = SPREAD | {"tensor_parallel_size": 2, "expert_loads": file}
    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    found = []
    caplog.set_level("INFO", "mini_vllm")
    for num_redundant in (0, 1):
        llm = LLM(str(tmp_path), num_redundant_experts=num_redundant, **{**SIZES, **options})
        found.append([output.outputs[0].token_ids for output in llm.generate(PROMPTS, params)])
        loads = llm.engine.executor.expert_loads()  # type: ignore[attr-defined]
        # two layers, two choices of each token; the last token of a request is not computed
        num_tokens = sum(map(len, PROMPTS)) + 3 * len(PROMPTS)
        assert [sum(each) for each in loads.values()] == [2 * num_tokens] * 2
        llm.engine.shutdown()
        assert read_loads(file) == loads
        assert "experts: balancedness" in caplog.messages[-1]
    assert found[1] == found[0]


@pytest.mark.slow
def test_a_rank_that_is_killed_is_no_error_of_a_device() -> None:
    """A server's core does not try again what no rank can answer."""
    before = multiprocessing.active_children()  # of another engine
    config = EngineConfig("tiny", tensor_parallel_size=2, **SIZES)
    engine = LLMEngine(config, core_cls=RecoveringCore)
    engine.add_request("0", PROMPTS[0], GREEDY)
    engine.step()
    ranks = {each.name: each for each in multiprocessing.active_children() if each not in before}
    ranks["mini-vllm rank 1"].kill()
    silent, _writer = multiprocessing.Pipe()
    with pytest.raises(ExecutorLostError, match="rank 1 of 2 has ended"):  # between steps, too
        engine.executor.wait_for(silent)
    with pytest.raises(ExecutorLostError, match="rank 1 of 2 has ended"):
        run_to_the_end(engine)
    with pytest.raises(EngineDeadError):
        engine.step()
    engine.shutdown()
