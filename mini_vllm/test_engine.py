"""The engine as a whole: same tokens under every schedule, nothing lost, nothing leaked, errors
that change nothing.

The model is a random Qwen3 with sharp logits (fixture checkpoint): reading one wrong key changes
the next token. The lattice of all options is in test_equivalence.py, text and chat are in
engine/test_llm.py.
"""

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import (
    ConnectorMissingError,
    DuplicateRequestError,
    EmptyPromptError,
    InvalidParameterError,
    KVCacheTooSmallError,
    PromptTooLongError,
    SchedulerStalledError,
    TokenIdOutOfRangeError,
    TokenizerMissingError,
    UnknownParameterError,
)
from mini_vllm.frontend.output_processor import RequestMetrics, RequestOutput
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.params import SamplingParams
from mini_vllm.policies.v0.sequence_group import SequenceGroupScheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.step import KVPlan

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
# 21 tokens
PROMPT = [5, 9, 20, 31, 42, 53, 64, 75, 86, 11, 22, 33, 44, 55, 66, 77, 88, 10, 21, 32, 43]
MakeEngine = Callable[..., LLMEngine]


@pytest.fixture
def make_engine(checkpoint: Path) -> MakeEngine:
    def make(
        *,
        scheduler_cls: Any = None,
        kv_cache_manager_cls: Any = None,
        core_cls: Any = EngineCore,
        **config: Any,
    ) -> LLMEngine:
        options = {"dtype": "float32", "block_size": 4, "num_kv_blocks": 200, **config}
        return LLMEngine(
            EngineConfig(str(checkpoint), **options),
            scheduler_cls=scheduler_cls,
            kv_cache_manager_cls=kv_cache_manager_cls,
            core_cls=core_cls,
        )

    return make


def finish(engine: LLMEngine, max_steps: int = 1000) -> dict[str, RequestOutput]:
    """Step until nothing is in flight; the final output of each request."""
    done: dict[str, RequestOutput] = {}
    for _ in range(max_steps):
        if not engine.has_unfinished_requests():
            return done
        for output in engine.step():
            assert output.request_id not in done, "a request that finished must not come again"
            if output.finished:
                done[output.request_id] = output
    raise AssertionError(f"not finished after {max_steps} steps")


def generate(
    engine: LLMEngine, prompts: dict[str, Sequence[int]], params: SamplingParams = GREEDY
) -> dict[str, Any]:
    """Token ids of the first choice, by request id."""
    for request_id, prompt in prompts.items():
        engine.add_request(request_id, prompt, params)
    return {
        request_id: output.outputs[0].token_ids for request_id, output in finish(engine).items()
    }


def assert_idle(engine: LLMEngine) -> None:
    """Nothing in flight: every block is free, nobody holds one, and no map remembers a request."""
    kv = engine.scheduler.kv_cache_manager
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert all(block.ref_cnt == 0 for block in kv.block_pool.blocks)
    maps = [
        kv._tables,
        engine.scheduler._requests,
        engine.core.runner_view._known,
        *vars(engine.output_processor).values(),
    ]
    assert not [each for each in maps if isinstance(each, dict) and each]
    assert not engine.scheduler.running
    assert not engine.scheduler.waiting


def preempt(engine: LLMEngine) -> None:
    """Preempt everything that runs, as a shortage of blocks would."""
    while engine.scheduler.running:
        engine.scheduler._preempt(engine.scheduler.running.pop())


# --- the three laws -------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 8, 21])
def test_chunked_prefill_matches_unchunked_output(make_engine: MakeEngine, budget: int) -> None:
    whole = make_engine(max_num_batched_tokens=64)
    chunked = make_engine(max_num_batched_tokens=budget)
    prompts = {"a": PROMPT, "b": PROMPT[7:], "c": PROMPT[::-1]}
    assert generate(chunked, prompts) == generate(whole, prompts)
    assert_idle(chunked)


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_prefix_caching_matches_no_caching_output(make_engine: MakeEngine, block_size: int) -> None:
    cold = make_engine(block_size=block_size, enable_prefix_caching=False)
    warm = make_engine(block_size=block_size)
    prompts = {"a": PROMPT, "b": [*PROMPT, 1, 2, 3], "c": PROMPT[:12]}
    expected = generate(cold, prompts)
    for _ in range(2):  # the second time everything is a hit
        assert generate(warm, prompts) == expected
    assert warm.scheduler.prefix_cache_stats.hits >= 3 * (11 // block_size) * block_size
    assert cold.scheduler.prefix_cache_stats.hits == 0
    assert_idle(warm)


def test_trap_23_24_52_preempted_at_every_step_gives_the_same_tokens(
    make_engine: MakeEngine,
) -> None:
    params = SamplingParams(temperature=1.0, seed=7, max_tokens=8, ignore_eos=True)
    expected = generate(make_engine(), {"a": PROMPT}, params)
    for caching in (True, False):
        for at in range(12):
            engine = make_engine(max_num_batched_tokens=9, enable_prefix_caching=caching)
            engine.add_request("a", PROMPT, params)
            for step in range(at + 1):
                if engine.has_unfinished_requests():
                    engine.step()
                if step == at:
                    preempt(engine)
            finished = finish(engine)
            if finished:
                assert finished["a"].outputs[0].token_ids == expected["a"], at
            assert_idle(engine)


def test_a_preempted_request_comes_back_over_its_own_blocks(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.add_request("a", PROMPT, GREEDY)
    for _ in range(3):
        engine.step()
    preempt(engine)
    assert finish(engine)["a"].num_cached_tokens == 0  # its first admission found nothing
    assert engine.scheduler.preempted_prefix_cache_stats.hits == 20


def test_tight_memory_preempts_and_changes_no_token(make_engine: MakeEngine) -> None:
    prompts = {str(i): PROMPT[i : i + 12] for i in range(6)}
    params = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)
    expected = generate(make_engine(), prompts, params)
    tight = make_engine(num_kv_blocks=13)
    assert generate(tight, prompts, params) == expected
    assert tight.scheduler.preempted_prefix_cache_stats.requests > 0
    assert_idle(tight)


def test_sha256_gives_the_same_tokens(make_engine: MakeEngine) -> None:
    engine = make_engine(hash_function="sha256")
    assert (
        generate(engine, {"a": PROMPT})
        == generate(engine, {"a": PROMPT})
        == generate(make_engine(), {"a": PROMPT})
    )
    assert engine.scheduler.prefix_cache_stats.hits == 20


def test_the_reference_attention_gives_the_same_tokens(make_engine: MakeEngine) -> None:
    prompts = {"a": PROMPT, "b": PROMPT[3:]}
    assert generate(make_engine(attention_backend="reference"), prompts) == generate(
        make_engine(), prompts
    )


# --- prefix cache and batches ---------------------------------------------------------------------


@pytest.mark.parametrize("num_tokens", [4, 8, 20])
def test_trap_11_full_prefix_hit_still_computes_the_last_block(
    make_engine: MakeEngine, num_tokens: int
) -> None:
    engine = make_engine()
    first = generate(engine, {"a": PROMPT[:num_tokens]})["a"]
    engine.add_request("b", PROMPT[:num_tokens], GREEDY)
    output = finish(engine)["b"]
    assert output.outputs[0].token_ids == first
    assert output.num_cached_tokens == num_tokens - 4


def test_trap_12_identical_prompts_in_one_step_share_blocks_that_are_just_being_written(
    make_engine: MakeEngine,
) -> None:
    expected = generate(make_engine(enable_prefix_caching=False), {"a": PROMPT})["a"]
    for budget in (64, 23):
        engine = make_engine(max_num_batched_tokens=budget)
        engine.add_request("a", PROMPT, GREEDY)
        engine.add_request("b", PROMPT, GREEDY)
        outputs = finish(engine)
        assert outputs["b"].num_cached_tokens == 20
        assert outputs["a"].outputs[0].token_ids == outputs["b"].outputs[0].token_ids == expected


def test_trap_15_another_salt_never_hits(make_engine: MakeEngine) -> None:
    engine = make_engine()
    expected = None
    for request_id, salt, hit in (
        ("a", "x", 0),
        ("b", "y", 0),
        ("c", None, 0),
        ("d", "x", 20),
        ("e", None, 20),
    ):
        engine.add_request(request_id, PROMPT, GREEDY, cache_salt=salt)
        output = finish(engine)[request_id]
        assert output.num_cached_tokens == hit, request_id
        expected = expected or output.outputs[0].token_ids
        assert output.outputs[0].token_ids == expected


def test_trap_17_an_evicted_block_is_not_found_again(make_engine: MakeEngine) -> None:
    engine = make_engine(num_kv_blocks=8)
    expected = generate(engine, {"a": PROMPT})["a"]
    generate(engine, {"b": PROMPT[::-1]})  # takes all blocks
    engine.add_request("c", PROMPT, GREEDY)
    output = finish(engine)["c"]
    assert output.num_cached_tokens == 0
    assert output.outputs[0].token_ids == expected


@pytest.mark.parametrize("num_cached", [4, 8, 12, 16, 20])
def test_trap_20_positions_continue_after_a_cached_prefix(
    make_engine: MakeEngine, num_cached: int
) -> None:
    engine = make_engine()
    expected = generate(make_engine(), {"a": PROMPT})["a"]
    generate(
        engine, {"warm": PROMPT[: num_cached + 1]}, SamplingParams(temperature=0, max_tokens=1)
    )
    engine.add_request("a", PROMPT, GREEDY)
    output = finish(engine)["a"]
    assert output.num_cached_tokens == num_cached
    assert output.outputs[0].token_ids == expected


def test_trap_25_an_unfinished_chunk_samples_nothing(make_engine: MakeEngine) -> None:
    for budget in range(1, len(PROMPT) + 1):
        engine = make_engine(max_num_batched_tokens=budget, enable_prefix_caching=False)
        engine.add_request("a", PROMPT, SamplingParams(temperature=0, max_tokens=1))
        steps = [engine.step() for _ in range(-(-len(PROMPT) // budget))]
        assert [len(outputs) for outputs in steps] == [0] * (len(steps) - 1) + [1]
        assert_idle(engine)


def test_trap_50_seeded_request_alone_and_in_a_batch_of_64(make_engine: MakeEngine) -> None:
    params = SamplingParams(temperature=1.0, seed=11, max_tokens=8, ignore_eos=True)
    alone = generate(make_engine(num_kv_blocks=1000), {"a": PROMPT}, params)["a"]
    engine = make_engine(num_kv_blocks=1000)
    for i in range(63):
        engine.add_request(
            f"other{i}", [(i + j) % 96 for j in range(5 + i % 7)], SamplingParams(max_tokens=9)
        )
    engine.add_request("a", PROMPT, params)
    assert finish(engine)["a"].outputs[0].token_ids == alone


def test_unseeded_requests_repeat_with_the_engine_and_differ_among_themselves(
    make_engine: MakeEngine,
) -> None:
    params = SamplingParams(temperature=2.0, max_tokens=12, ignore_eos=True)
    first, again, other = (
        generate(make_engine(seed=s), {"a": PROMPT, "b": PROMPT}, params) for s in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert first["a"] != first["b"]


def test_trap_10_choices_share_the_prompt_and_are_each_their_own(make_engine: MakeEngine) -> None:
    params = SamplingParams(temperature=1.5, seed=3, max_tokens=10, ignore_eos=True)
    engine = make_engine()
    engine.add_request("a", PROMPT, dataclasses.replace(params, n=4))
    outputs = finish(engine)["a"].outputs
    assert [choice.index for choice in outputs] == [0, 1, 2, 3]
    assert len({tuple(choice.token_ids) for choice in outputs}) == 4
    assert outputs[0].token_ids == generate(make_engine(), {"b": PROMPT}, params)["b"]
    # the first choice computed the prompt for all
    assert engine.scheduler.prefix_cache_stats.hits == 3 * 20
    assert_idle(engine)


# --- how requests end -----------------------------------------------------------------------------


def test_trap_31_every_eos_id_ends_a_request(make_engine: MakeEngine) -> None:
    tokens = generate(make_engine(), {"a": PROMPT})["a"]
    first = {token: tokens.index(token) for token in tokens}
    for token, index in first.items():
        engine = make_engine()
        engine.input_processor.eos_token_ids = frozenset((95, token))
        engine.add_request("a", PROMPT, dataclasses.replace(GREEDY, ignore_eos=False))
        choice = finish(engine)["a"].outputs[0]
        assert choice.token_ids == tokens[: index + 1]
        assert choice.finish_reason == "stop"


def test_eos_ids_come_from_the_generation_config(checkpoint: Path, make_engine: MakeEngine) -> None:
    assert make_engine().input_processor.eos_token_ids == {7}


def test_trap_33_finish_reason_is_length_at_max_tokens(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.add_request("a", PROMPT, SamplingParams(temperature=0, max_tokens=1))
    assert finish(engine)["a"].outputs[0].finish_reason == "length"


@pytest.mark.parametrize("num_kv_blocks", [7, 8])
def test_trap_2_a_request_that_outgrows_the_pool_alone_finishes_with_length(
    make_engine: MakeEngine, num_kv_blocks: int
) -> None:
    engine = make_engine(num_kv_blocks=num_kv_blocks)
    engine.add_request("a", PROMPT, SamplingParams(temperature=0, max_tokens=1000, ignore_eos=True))
    choice = finish(engine)["a"].outputs[0]
    assert choice.finish_reason == "length"
    assert len(PROMPT) + len(choice.token_ids) == 4 * (num_kv_blocks - 1)
    assert_idle(engine)


def test_max_model_len_ends_a_request(make_engine: MakeEngine) -> None:
    engine = make_engine(max_model_len=25)
    engine.add_request("a", PROMPT, SamplingParams(temperature=0, max_tokens=1000, ignore_eos=True))
    assert len(finish(engine)["a"].outputs[0].token_ids) == 25 - len(PROMPT)


def test_abort_at_any_step_frees_everything_and_leaves_the_others_alone(
    make_engine: MakeEngine,
) -> None:
    expected = generate(make_engine(), {"b": PROMPT[2:], "c": PROMPT[:9]})
    for at in range(10):
        engine = make_engine(max_num_batched_tokens=10)
        engine.add_request("a", PROMPT, dataclasses.replace(GREEDY, n=2))
        for request_id, prompt in (("b", PROMPT[2:]), ("c", PROMPT[:9])):
            engine.add_request(request_id, prompt, GREEDY)
        outputs = []
        for step in range(at + 1):
            if step == at:
                engine.abort("a")
            outputs += engine.step()
        done = {o.request_id: o for o in outputs if o.finished} | finish(engine)
        assert {i: done[i].outputs[0].token_ids for i in "bc"} == expected
        assert_idle(engine)
    engine.abort("nobody")


def test_trap_44_an_id_can_be_used_again_at_once(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.add_request("a", PROMPT, GREEDY)
    engine.step()
    with pytest.raises(DuplicateRequestError, match="'a'"):
        engine.add_request("a", PROMPT, GREEDY)
    engine.abort("a")
    assert generate(engine, {"a": PROMPT}) == generate(make_engine(), {"a": PROMPT})


def test_trap_36_a_thousand_requests_leave_nothing_behind(make_engine: MakeEngine) -> None:
    engine = make_engine(num_kv_blocks=120)
    params = SamplingParams(temperature=1.0, max_tokens=2, n=2)
    for i in range(500):
        engine.add_request(str(i), [i % 90 + 1], params)
    assert len(finish(engine)) == 500
    assert_idle(engine)


# --- a step that raises ---------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("at", [0, 1, 2, 4])
def test_a_step_that_raises_is_undone_and_tried_again(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, at: int, layer: int
) -> None:
    prompts = {"a": PROMPT, "b": PROMPT, "c": PROMPT[4:]}
    expected = generate(make_engine(), prompts)
    engine = make_engine(max_num_batched_tokens=30, core_cls=RecoveringCore)
    trace = TraceRecorder(engine.scheduler)
    engine.listeners.append(trace)
    for request_id, prompt in prompts.items():
        engine.add_request(request_id, prompt, GREEDY)
    for _ in range(at):
        engine.step()
    written = engine.scheduler.kv_cache_manager.num_cached_blocks
    with monkeypatch.context() as patch:

        def fail(*_: Any, **__: Any) -> torch.Tensor:
            raise RuntimeError("device lost")

        patch.setattr(engine.executor.runner.model.layers[layer].mlp, "forward", fail)
        assert engine.step() == []
    kv = engine.scheduler.kv_cache_manager
    assert kv.num_cached_blocks <= written  # nothing that the failed step published can be found
    assert not engine.scheduler.running or at > 0
    outputs = finish(engine)
    assert {
        request_id: output.outputs[0].token_ids for request_id, output in outputs.items()
    } == expected
    assert [record["step"] for record in trace.steps if record.get("failed")] == [at]
    assert_idle(engine)


def test_work_for_a_connector_that_nobody_does_is_an_error(make_engine: MakeEngine) -> None:
    """Ignored, it would give wrong tokens in silence."""

    class Loads(KVCacheManager):
        def begin_step(self) -> KVPlan:
            return KVPlan(connector=("load", 7))

    engine = make_engine(kv_cache_manager_cls=Loads)
    engine.add_request("a", PROMPT, GREEDY)
    with pytest.raises(ConnectorMissingError, match=r"\('load', 7\)"):
        engine.step()
    engine.reset()
    assert_idle(engine)
    engine.shutdown()


# --- a scheduler of the user ----------------------------------------------------------------------


class OneAtATime(Scheduler):
    """A learner's first scheduler: no batching at all."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        if self.waiting and not self.running:
            request = self.waiting[0]
            blocks, num_computed = self.kv_cache_manager.get_computed_blocks(request)
            n = self._clamp_new_tokens(
                request.num_tokens - num_computed, self.max_num_batched_tokens
            )
            assert self.kv_cache_manager.allocate_slots(request, n, blocks) is not None
            self._admit(request, num_computed)
            output.add(request, n)
        elif self.running:
            (request,) = self.running
            n = self._clamp_new_tokens(
                request.num_tokens - request.num_computed_tokens, self.max_num_batched_tokens
            )
            assert self.kv_cache_manager.allocate_slots(request, n) is not None
            output.add(request, n)
        return output


class CountingManager(KVCacheManager):
    num_frees = 0

    def free(self, request: Request) -> None:
        type(self).num_frees += 1
        super().free(request)


def test_the_engine_generates_with_other_classes(make_engine: MakeEngine) -> None:
    prompts = {"a": PROMPT, "b": PROMPT[5:], "c": PROMPT[::-1]}
    engine = make_engine(scheduler_cls=OneAtATime, kv_cache_manager_cls=CountingManager)
    assert generate(engine, prompts) == generate(make_engine(), prompts)
    assert CountingManager.num_frees == 3


def test_a_scheduler_that_schedules_nothing_is_named(make_engine: MakeEngine) -> None:
    class Idle(Scheduler):
        def schedule(self) -> SchedulerOutput:
            return SchedulerOutput()

    engine = make_engine(scheduler_cls=Idle)
    engine.add_request("a", PROMPT, GREEDY)
    with pytest.raises(SchedulerStalledError):
        engine.step()


def test_choices_of_a_prompt_do_not_preempt_each_other_without_end(make_engine: MakeEngine) -> None:
    engine = make_engine(
        policy="priority", reserve_full_sequence=False, enable_prefix_caching=False,
        long_prefill_token_threshold=2,
        max_model_len=24, block_size=2, num_kv_blocks=13,
    )  # fmt: skip
    params = SamplingParams(temperature=0, max_tokens=13, n=2, ignore_eos=True)
    engine.add_request("a", [3] * 10, params, arrival_time=0.0)
    for _ in range(200):
        engine.step()
    assert not engine.has_unfinished_requests()


def test_priority_runs_the_urgent_first(make_engine: MakeEngine) -> None:
    engine = make_engine(policy="priority", max_num_seqs=1)
    for request_id, priority in (("late", 5), ("soon", 0), ("next", 1)):
        engine.add_request(request_id, PROMPT, GREEDY, priority=priority)
    assert list(finish(engine)) == ["soon", "next", "late"]


# --- errors: named, with value and limit, before anything changes ---------------------------------


@pytest.mark.parametrize(
    ("prompt", "params", "options", "error", "text"),
    [
        ([], GREEDY, {}, EmptyPromptError, "0 tokens"),
        ([1] * 129, GREEDY, {}, PromptTooLongError, "129 tokens, at most 128"),
        ([1, 96], GREEDY, {}, TokenIdOutOfRangeError, r"96, allowed are \[0, 96\)"),
        ([-1], GREEDY, {}, TokenIdOutOfRangeError, "-1"),
        ([2**63], GREEDY, {}, TokenIdOutOfRangeError, str(2**63)),
        ([1.5], GREEDY, {}, TokenIdOutOfRangeError, "1.5"),
        (
            [1],
            SamplingParams(stop_token_ids=(96,)),
            {},
            TokenIdOutOfRangeError,
            "stop_token_ids has token id 96",
        ),
        ([1], SamplingParams(stop="x"), {}, TokenizerMissingError, "stop strings"),
        ("text", GREEDY, {}, TokenizerMissingError, "no tokenizer"),
        ([1], GREEDY, {"prio": 1}, UnknownParameterError, "'prio'; known: priority"),
    ],
)
def test_trap_1_3_37_a_bad_request_is_refused_and_the_others_go_on(
    make_engine: MakeEngine,
    prompt: Any,
    params: SamplingParams,
    options: Any,
    error: type[Exception],
    text: str,
) -> None:
    engine = make_engine()
    engine.add_request("good", PROMPT, GREEDY)
    engine.step()
    with pytest.raises(error, match=text):
        engine.add_request("bad", prompt, params, **options)
    assert [*finish(engine)] == ["good"]
    assert_idle(engine)


@pytest.mark.parametrize(
    ("config", "error", "text"),
    [
        ({"max_model_len": 129}, InvalidParameterError, "129 exceeds the model's 128"),
        (
            {"num_kv_blocks": None, "kv_cache_memory_bytes": 100},
            KVCacheTooSmallError,
            "100 bytes holds 0 blocks",
        ),
        ({"attention_backend": "magic"}, InvalidParameterError, "'magic'"),
        ({"dtype": "int8"}, InvalidParameterError, "'int8'"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 64},
            InvalidParameterError,
            "max_model_len 128",
        ),
        ({"max_num_seq": 3}, UnknownParameterError, "did you mean 'max_num_seqs'"),
        ({"device": "cuda:99"}, InvalidParameterError, "cuda"),
        (
            {"device": 5},
            InvalidParameterError,
            "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 5",
        ),
        (
            {"enable_prefix_caching": "False"},
            InvalidParameterError,
            "enable_prefix_caching must be True or False",
        ),
        ({"hash_function": ["exact"]}, InvalidParameterError, "hash_function must be one of"),
        (
            {"preemption_cost": "x"},
            InvalidParameterError,
            "preemption_cost must be None or values by name, got 'x'",
        ),
    ],
)
def test_a_bad_config_is_refused(
    make_engine: MakeEngine, config: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make_engine(**config)


def test_main_memory_is_for_the_classes_that_run(make_engine: MakeEngine) -> None:
    class Groups(SequenceGroupScheduler):
        pass

    class Plain(KVCacheManager):
        pass

    assert make_engine(scheduler_cls=Groups).kv_cache_plan.num_cpu_blocks == 199
    assert (
        make_engine(
            scheduler_cls=OneAtATime, scheduler="sequence_group"
        ).kv_cache_plan.num_cpu_blocks
        == 0
    )
    with pytest.raises(
        InvalidParameterError, match="Plain has no option preemption_mode, got 'swap'"
    ):
        make_engine(kv_cache_manager_cls=Plain, preemption_mode="swap")


def test_the_kv_cache_is_sized_from_a_budget(make_engine: MakeEngine) -> None:
    per_block = 2 * 2 * 4 * 2 * 8 * 4  # K and V, layers, tokens, KV heads, head_dim, bytes
    plan = make_engine(num_kv_blocks=None, kv_cache_memory_bytes=11 * per_block + 3).kv_cache_plan
    assert (plan.num_blocks, plan.bytes_per_block, plan.max_model_len) == (11, per_block, 40)
    assert "10 blocks x 4 tokens = 40 tokens" in str(plan)
    plan = make_engine(num_kv_blocks=None, max_num_seqs=3).kv_cache_plan
    assert plan.num_blocks == 3 * 32 + 1  # more than max_num_seqs full requests would be of no use
    assert plan.max_model_len == 128


def test_bfloat16_runs_and_agrees_with_its_own_chunks_mostly(make_engine: MakeEngine) -> None:
    engine = make_engine(dtype="bfloat16")
    assert engine.executor.runner.kv_caches[0][0].dtype == torch.bfloat16
    assert len(generate(engine, {"a": PROMPT})["a"]) == 8


FEATURES = {
    "attention",
    "cli",
    "frontend",
    "models",
    "offload",
    "policies",
    "serving",
    "simulator",
    "spec_decode",
    "structured",
}


def modules_of(name: str) -> list[str]:
    """Our modules that a new process has when it has imported one: their names below mini_vllm."""
    code = f"import sys, {name}; print(*(m for m in sys.modules if m.startswith('mini_vllm.')))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    return [name.removeprefix("mini_vllm.") for name in found.stdout.split()]


def test_the_core_loads_no_feature() -> None:
    loaded = modules_of("mini_vllm.engine.core")
    assert not FEATURES & {name.partition(".")[0] for name in loaded}
    assert len(loaded) < 17  # and mini_vllm itself
    assert not FEATURES & {*modules_of("mini_vllm.scheduler")}


def test_the_config_knows_the_features_by_name_alone() -> None:
    """It loads the packages, which have names, and one formula: no scheduler, manager or back
    end.
    """
    inner = {
        name
        for name in modules_of("mini_vllm.config")
        if name.partition(".")[0] in FEATURES and "." in name
    }
    assert inner == {"policies.registry", "offload.cost"}
    assert "scheduler" not in modules_of("mini_vllm.config")


def test_the_core_needs_no_torch() -> None:
    code = (
        "import sys, mini_vllm, mini_vllm.scheduler, mini_vllm.observe.trace; "
        "assert not {'torch', 'transformers', 'numpy', 'rich'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


def test_outputs_say_when_their_tokens_came(checkpoint: Path) -> None:
    """By the engine's clock; a request waits for its place, and its chunks bring no token."""
    ticks = iter(range(1000))
    config = EngineConfig(
        str(checkpoint), dtype="float32", block_size=4, max_num_seqs=1, max_num_batched_tokens=8
    )
    engine = LLMEngine(config, clock=lambda: float(next(ticks)))
    # at 0
    engine.add_request(
        "a", PROMPT[:12], SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)
    )
    engine.add_request(
        "b", [5], SamplingParams(temperature=0, max_tokens=1, ignore_eos=True), arrival_time=0.5
    )
    metrics = {request_id: output.metrics for request_id, output in finish(engine).items()}
    assert metrics == {
        "a": RequestMetrics(0.0, 5.0, 9.0, scheduled_time=2.0),
        "b": RequestMetrics(0.5, 11.0, 11.0, scheduled_time=10.0),
    }
