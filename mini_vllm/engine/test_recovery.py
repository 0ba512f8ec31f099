"""Errors and interrupts: what is raised at once, what RecoveringCore tries again, and that nothing
is lost or left.

Attention is played by a shadow: every slot of the KV cache remembers which token at which position
was written, and the next token is made of what the block table leads to. So a table, a slot or a
cached block that is wrong changes the tokens.
"""

import hashlib
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.engine.beam_search import BeamSearchParams
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import (
    EngineBusyError,
    EngineDeadError,
    PromptTooLongError,
    RequestFailedError,
)
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.spec_decode.verify import accept
from mini_vllm.step import (
    BlockTable,
    LayerKVSpec,
    Logprob,
    ModelInfo,
    SampledToken,
    SamplingRow,
    StepInput,
    StepOutput,
)
from mini_vllm.worker.chunks import chunks_of
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.input_batch import InputBatch
from mini_vllm.worker.memory import KVCachePlan

VOCAB_SIZE = 400


class ShadowExecutor(Executor):
    """A runner whose KV cache holds (position, token) in each slot, and whose model is a hash of
    what it reads.
    """

    poison: str | None = None  # a request with which every step fails

    def load(self) -> ModelInfo:
        return ModelInfo(VOCAB_SIZE, (LayerKVSpec(1, 1, 4),))

    def available_bytes(self) -> int:
        return 1 << 20

    def allocate(self, plan: KVCachePlan) -> None:
        import torch

        self.block_size = plan.block_size
        self.batch = InputBatch(plan.block_size, torch.device("cpu"))
        self.slots: list[Any] = [None] * (plan.num_blocks * plan.block_size)
        self.cpu_slots: list[Any] = [None] * (plan.num_cpu_blocks * plan.block_size)

    def synchronize(self) -> None: ...

    def shutdown(self) -> None: ...

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        future: Future[StepOutput] = Future()
        future.set_result(self.run(step))
        return future

    def run(self, step: StepInput) -> StepOutput:
        if self.poison in step.req_ids:
            raise RuntimeError("the device says no")
        self.batch.update(step)
        size = self.block_size
        for source, target, pairs in (
            (self.slots, self.cpu_slots, step.kv.swap_out),
            (self.cpu_slots, self.slots, step.kv.swap_in),
            (self.slots, self.slots, step.kv.copy),
        ):
            # all, before any is written
            read = [source[a * size : (a + 1) * size] for a, _ in pairs]
            for (_, b), block in zip(pairs, read, strict=True):
                target[b * size : (b + 1) * size] = block
        tables: dict[str, list[int]] = {}
        for chunk in chunks_of(step):
            row, remembered = [self.batch._rows[chunk.request_id]], self.batch.block_tables
            ids = remembered.gather(row, remembered.num_blocks(row)[0, 0])
            tables[chunk.request_id] = ids[0, 0].tolist()
            for position, token_id in enumerate(chunk.token_ids, chunk.num_computed_tokens):
                block_id = tables[chunk.request_id][position // size]
                assert block_id != 0
                self.write(block_id * size + position % size, (position, token_id))
        sampled: dict[tuple[str, int], SampledToken | str] = {}  # by request and row of the step
        first = 0
        for chunk in chunks_of(step):
            for sample in chunk.samples:
                length = chunk.num_computed_tokens + sample.row + 1
                table = tables[chunk.request_id]
                read = [self.slots[table[i // size] * size + i % size] for i in range(length)]
                row = self.batch.sampling_rows[sample.request_id]
                known = self.batch.known_token_ids([sample.request_id], [length])
                refused = self.refuse(sample.request_id, length, row.num_prompt_tokens)
                token = refused or self.sample((read, known), row)
                sampled[sample.request_id, first + sample.row] = token
            first += len(chunk.token_ids)
        places = zip(step.sample_req_ids, step.sample_rows, strict=True)
        return accept(step, self.obey(step, [sampled[place] for place in places]))

    def obey(self, step: StepInput, sampled: list[SampledToken | str]) -> list[SampledToken | str]:
        """What is sampled under the masks of a step."""
        return sampled

    def write(self, slot: int, value: tuple[int, int]) -> None:
        self.slots[slot] = value

    def refuse(self, request_id: str, position: int, num_prompt_tokens: int) -> str:
        """Why the token at this index of a sequence cannot be sampled, if it cannot."""
        return ""

    def sample(self, read: Any, row: SamplingRow) -> SampledToken:
        num_logprobs = row.params.logprobs
        noise = () if row.is_greedy else (row.seed, row.choice_index)
        digest = hashlib.sha256(
            repr((read, noise if num_logprobs else (row.choice_index, noise))).encode()
        ).digest()
        ids = [10 + digest[i] for i in range(8)]
        best = {
            token_id: Logprob(-0.5 * rank, rank)
            for rank, token_id in enumerate(dict.fromkeys(ids), 1)
        }
        return SampledToken(ids[0], best if num_logprobs else None)


VARIANTS: dict[str, dict[str, Any]] = {
    "v1": {},
    "swap": {"preemption_mode": "swap", "num_cpu_blocks": 12},
    "prefill_first": {"scheduler": "prefill_first"},
    "sequence_group": {"scheduler": "sequence_group", "num_cpu_blocks": 12},
    "warm_first": {"scheduler": "warm_first"},
    "priority": {"policy": "priority"},
}
QUICK = ("v1",)
variants = pytest.mark.parametrize(
    "variant",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in VARIANTS],
)
SHARED = [5, 9, 20, 31, 42, 53, 64, 75]


def make_config(checkpoint: Path, variant: str, **options: Any) -> dict[str, Any]:
    sizes = {
        "block_size": 4,
        "num_kv_blocks": 17,
        "max_num_batched_tokens": 12,
        "max_num_seqs": 6,
        "device": "cpu",
    }
    return {"model": str(checkpoint), **sizes, **VARIANTS[variant], **options}


def make_llm(variant: str, *, core_cls: type[EngineCore] = RecoveringCore, **options: Any) -> LLM:
    llm = LLM(executor_cls=ShadowExecutor, **make_config(Path("tiny"), variant, **options))
    return with_core(llm, core_cls)


def with_core(llm: LLM, core_cls: type[EngineCore], **parts: Any) -> LLM:
    """The same with another core. parts: classes, as LLMEngine takes them."""
    if core_cls is not EngineCore:
        executor_cls = type(llm.engine.executor)
        llm.engine = LLMEngine(
            llm.engine.config, executor_cls=executor_cls, core_cls=core_cls, **parts
        )
    return llm


def params_of(max_tokens: int, **options: Any) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, **options)


def assert_idle(engine: LLMEngine) -> None:
    """Nothing in flight: every block is free once, and no map remembers a request."""
    assert not engine.has_unfinished_requests()
    kv = engine.scheduler.kv_cache_manager
    pool = kv.block_pool
    assert sorted(kv.free_block_ids()) == list(range(1, kv.num_blocks))
    assert all(block.ref_cnt == 0 for block in pool.blocks)
    cached = [block for same in pool._cached.values() for block in same.values()]
    assert sorted(block.block_id for block in cached) == [
        b.block_id for b in pool.blocks if b.block_hash is not None
    ]
    if connector := getattr(kv, "connector", None):
        assert connector.pool.num_free_blocks == kv.num_cpu_blocks
    if hasattr(kv, "cpu_pool"):
        assert kv.cpu_pool.num_free_blocks == kv.num_cpu_blocks
    scheduler = engine.scheduler
    maps = [
        kv._tables,
        scheduler._requests,
        scheduler.waiting,
        scheduler.running,
        engine.core.runner_view._known,
    ]
    maps += [
        value for value in vars(engine.output_processor).values() if isinstance(value, dict | list)
    ]
    assert not any(maps), maps


# --- LLM ------------------------------------------------------------------------------------------


def tokens_of(outputs: list[RequestOutput]) -> Any:
    return [[(c.token_ids, c.text, c.finish_reason) for c in output.outputs] for output in outputs]


PROMPTS = [[*SHARED, 1], [*SHARED, 2, 3], [7] * 13, SHARED[:3]]
PARAMS = [params_of(9), params_of(6, n=2), params_of(5, repetition_penalty=1.2), params_of(12)]


class Scenario:
    """A stream is begun, a batch is generated beside it, the stream goes on to its end."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.params = params_of(14)
        self.pieces: list[int] = []
        self.batch: Any = None

    def run(self) -> None:
        stream = self.llm.stream([9, 8, 7, 6, 5], self.params)
        for _ in range(2):
            self.take(next(stream))
        self.batch = tokens_of(self.llm.generate(PROMPTS, PARAMS))
        for output in stream:
            self.take(output)

    def take(self, output: RequestOutput) -> None:
        self.pieces += output.outputs[0].token_ids


# --- one request at fault -------------------------------------------------------------------------


def final(engine: LLMEngine) -> dict[str, RequestOutput]:
    """Step until nothing is in flight; the final outputs."""
    done: dict[str, RequestOutput] = {}
    while engine.has_unfinished_requests():
        done |= {output.request_id: output for output in engine.step() if output.finished}
    return done


@variants
def test_a_request_that_makes_every_step_fail_ends_and_the_others_go_on(variant: str) -> None:
    prompts = {f"r{i}": SHARED[: i + 1] for i in range(5)}
    engine = make_llm(variant).engine
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, params_of(6))
    expected = {name: output.outputs[0].token_ids for name, output in final(engine).items()}
    for poison in prompts:
        for name, prompt in prompts.items():
            engine.add_request(name, prompt, params_of(6))
        engine.executor.poison = poison
        done = final(engine)
        (choice,) = done.pop(poison).outputs
        assert choice.finish_reason == "error"
        assert isinstance(choice.error, RequestFailedError)
        assert f"request {poison!r}" in str(choice.error)
        assert "the device says no" in str(choice.error)
        assert {name: output.outputs[0].token_ids for name, output in done.items()} == {
            name: token_ids for name, token_ids in expected.items() if name != poison
        }
        assert_idle(engine)


def test_generate_and_streams_go_on_beside_a_request_that_fails() -> None:
    llm = make_llm("v1")
    prompts = [SHARED[: i + 1] for i in range(3)]
    expected = tokens_of(llm.generate([*prompts, [5, 5]], params_of(8)))
    stream = llm.stream([5, 5], params_of(8))
    pieces = list(next(stream).outputs[0].token_ids)
    llm.engine.executor.poison = f"llm-{5 + 1}"
    outputs = llm.generate(prompts, params_of(8))
    assert [output.outputs[0].finish_reason for output in outputs] == ["length", "error", "length"]
    assert tokens_of([outputs[0], outputs[2]]) == [expected[0], expected[2]]
    for output in stream:
        pieces += output.outputs[0].token_ids
    assert pieces == expected[3][0][0]
    assert_idle(llm.engine)


def test_a_device_that_is_lost_ends_every_request_with_an_error() -> None:
    llm = make_llm("v1")
    llm.engine.executor.run = lambda step: [][1]  # type: ignore[attr-defined]
    outputs = llm.generate([SHARED, [3]], params_of(4))
    assert [output.outputs[0].finish_reason for output in outputs] == ["error", "error"]
    assert "IndexError" in str(outputs[0].outputs[0].error)
    assert_idle(llm.engine)


# --- who waits for a request that is gone ---------------------------------------------------------


def aborting(llm: LLM, at: int, request_id: str, abort: Callable[[str], Any]) -> None:
    """Abort a request when the at-th step begins, as another user of the engine would."""
    step, count = llm.engine.core.begin_step, iter(range(1000))

    def begin_step() -> Any:
        if next(count) == at:
            abort(request_id)
        return step()

    llm.engine.core.begin_step = begin_step  # type: ignore[method-assign]


@pytest.mark.parametrize("who", ["engine", "scheduler"])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_an_abort_ends_the_wait_of_generate_and_stream(who: str, at: int) -> None:
    for call in ("generate", "stream"):
        llm = make_llm("v1")
        aborting(
            llm,
            at,
            "llm-0",
            llm.engine.abort if who == "engine" else llm.engine.scheduler.abort_request,
        )
        if call == "generate":
            output, other = llm.generate([SHARED, [3]], params_of(8))
            assert other.outputs[0].finish_reason == "length"
        else:
            output = list(llm.stream(SHARED, params_of(8)))[-1]
        assert output.finished
        assert output.outputs[0].finish_reason == "abort"
        assert_idle(llm.engine)


@pytest.mark.parametrize("who", ["engine", "scheduler"])
def test_an_abort_of_a_beam_ends_its_search_and_no_other(who: str) -> None:
    llm = make_llm("v1", num_kv_blocks=40)
    aborting(
        llm, 2, "llm-6", llm.engine.abort if who == "engine" else llm.engine.scheduler.abort_request
    )
    # llm-6 is a beam of the first
    gone, whole = llm.beam_search([SHARED, [3, 4]], BeamSearchParams(2, 6))
    assert len(whole.sequences) == 2
    assert len(gone.sequences) < 2
    assert_idle(llm.engine)


def test_a_beam_that_fails_ends_its_search_with_the_error_and_no_other() -> None:
    llm = make_llm("v1", num_kv_blocks=40)
    llm.engine.executor.poison = "llm-6"
    gone, whole = llm.beam_search([SHARED, [3, 4]], BeamSearchParams(2, 6))
    assert "request 'llm-6'" in str(gone.error)
    assert len(gone.sequences) < 2
    assert (len(whole.sequences), whole.error) == (2, None)
    assert_idle(llm.engine)


def test_a_second_thread_gets_a_named_error_and_changes_nothing() -> None:
    llm = make_llm("v1")
    expected = tokens_of(llm.generate(PROMPTS, PARAMS))
    seen: list[Any] = []

    def other() -> None:
        for call in (
            partial(llm.generate, [1, 2], params_of(3)),
            partial(llm.engine.add_request, "x", [1], params_of(3)),
            partial(llm.engine.abort, "llm-5"),
            llm.engine.step,
            partial(next, llm.stream([1], params_of(2))),
        ):
            with pytest.raises(EngineBusyError) as error:
                call()
            seen.append(str(error.value))

    run, count = llm.engine.executor.run, iter(range(1000))  # type: ignore[attr-defined]

    def slow(step: StepInput) -> StepOutput:
        if next(count) == 2:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        return run(step)

    llm.engine.executor.run = slow  # type: ignore[attr-defined]
    assert tokens_of(llm.generate(PROMPTS, PARAMS)) == expected
    assert len(seen) == 5
    assert "another thread" in seen[0]
    assert_idle(llm.engine)
    with_another_thread: list[Any] = []
    thread = threading.Thread(
        target=lambda: with_another_thread.append(llm.generate([1, 2], params_of(3)))
    )
    thread.start()
    thread.join()
    assert with_another_thread, "one thread after the other may"


# --- faults of no request, or of another one ------------------------------------------------------


def failing(
    llm: LLM, is_failing: Callable[[StepInput], Any], kind: type[BaseException] = RuntimeError
) -> None:
    """Let the device raise in the steps that a test chooses."""
    run = llm.engine.executor.run  # type: ignore[attr-defined]

    def run_or_fail(step: StepInput) -> StepOutput:
        if is_failing(step):
            raise kind("the device says no")
        return run(step)

    llm.engine.executor.run = run_or_fail  # type: ignore[attr-defined]


def test_requests_at_fault_one_after_the_other_end_each_by_itself() -> None:
    """While the culprits are looked for, steps fail for no reason, too."""
    llm = make_llm("v1", max_num_seqs=2)
    count = iter(range(10_000))

    def is_failing(step: StepInput) -> bool:
        is_at_fault = any(int(name.removeprefix("llm-")) % 2 for name in step.req_ids)
        return is_at_fault or (not step.req_ids and not next(count) % 2)

    failing(llm, is_failing)
    outputs = llm.generate([SHARED] * 24, params_of(2))
    assert [output.outputs[0].finish_reason for output in outputs] == ["length", "error"] * 12
    assert_idle(llm.engine)


@variants
def test_a_fault_that_passes_blames_nobody_while_the_culprit_is_looked_for(variant: str) -> None:
    expected = tokens_of(make_llm(variant).generate(PROMPTS, PARAMS))
    llm = make_llm(variant)
    count = iter(range(10_000))

    def is_failing(step: StepInput) -> bool:
        """Every step with llm-0, and the first part of two attempts to run the requests one
        by one.
        """
        return "llm-0" in step.req_ids or (not step.req_ids and next(count) in (0, 1))

    failing(llm, is_failing)
    outputs = llm.generate(PROMPTS, PARAMS)
    assert next(count) > 2
    assert outputs[0].outputs[0].finish_reason == "error"
    assert tokens_of(outputs[1:]) == expected[1:]
    assert_idle(llm.engine)


@pytest.mark.parametrize("kind", [MemoryError, RecursionError, StopIteration])
@pytest.mark.parametrize("where", ["in the call", "in the future"])
def test_an_exception_of_any_kind_undoes_the_step(kind: type[Exception], where: str) -> None:
    expected = tokens_of(make_llm("v1").generate(PROMPTS, PARAMS))
    llm = make_llm("v1")
    execute, count = llm.engine.executor.execute, iter(range(10_000))

    def fail_once(step: StepInput) -> "Future[StepOutput]":
        if next(count) != 2:
            return execute(step)
        if where == "in the call":
            raise kind
        future: Future[StepOutput] = Future()
        future.set_exception(kind())
        return future

    llm.engine.executor.execute = fail_once  # type: ignore[method-assign]
    assert tokens_of(llm.generate(PROMPTS, PARAMS)) == expected
    assert_idle(llm.engine)


@variants
def test_faults_at_random_steps_change_nothing(variant: str) -> None:
    expected = tokens_of(make_llm(variant).generate(PROMPTS, PARAMS))
    llm, rng, num_faults = make_llm(variant), random.Random(1), 0

    def is_failing(step: StepInput) -> bool:
        nonlocal num_faults
        num_faults += (fails := rng.random() < 0.1)
        return fails

    failing(llm, is_failing)
    while num_faults < 100:
        assert tokens_of(llm.generate(PROMPTS, PARAMS)) == expected
        assert_idle(llm.engine)


def test_streams_that_are_left_half_way_leave_nothing() -> None:
    llm = make_llm("v1")
    expected = tokens_of(llm.generate(PROMPTS, PARAMS))
    streams = [llm.stream(prompt, params_of(9)) for prompt in (SHARED, [1], [2], [3])]
    for stream in streams[:3]:
        next(stream)
    streams[0].close()
    with pytest.raises(ValueError, match="enough"):
        streams[1].throw(ValueError("enough"))
    del stream
    streams.clear()
    assert_idle(llm.engine)
    assert tokens_of(llm.generate(PROMPTS, PARAMS)) == expected


EVENTS = ("before_schedule", "after_schedule", "after_update", "after_finish")


def listen(llm: LLM, event: str, call: Callable[[], Any]) -> StepListener:
    class Listener(StepListener):
        pass

    setattr(Listener, event, lambda *_, **__: call())
    llm.engine.listeners.insert(0, listener := Listener())
    return listener


@pytest.mark.parametrize("event", EVENTS)
def test_what_a_listener_raises_is_raised_at_once(event: str) -> None:
    llm = make_llm("v1")
    text = llm.generate(PROMPTS[3], params_of(12))[0].outputs[0].text
    params = [*PARAMS[:3], params_of(12, stop=text[2])]
    expected = tokens_of(llm.generate(PROMPTS, params))
    listener = listen(llm, event, lambda: [][1])
    with pytest.raises(IndexError):
        llm.generate(PROMPTS, params)
    llm.engine.listeners.remove(listener)
    assert_idle(llm.engine)
    assert tokens_of(llm.generate(PROMPTS, params)) == expected


@pytest.mark.parametrize("event", EVENTS[:3])
def test_a_listener_may_abort_and_add_requests(event: str) -> None:
    llm = make_llm("v1")
    expected = tokens_of(llm.generate(PROMPTS[:1], params_of(8)))
    engine, count = llm.engine, iter(range(10_000))

    def change() -> None:
        if next(count) == 2:
            engine.abort("b")
            engine.add_request("b", PROMPTS[0], params_of(8))

    listen(llm, event, change)
    for name, prompt in zip("ab", PROMPTS, strict=False):
        engine.add_request(name, prompt, params_of(8))
    done = final(engine)
    assert tokens_of([done["a"]]) == tokens_of([done["b"]]) == expected
    assert_idle(engine)


@pytest.mark.parametrize("event", EVENTS[:3])
def test_a_step_within_a_step_is_refused(event: str) -> None:
    llm = make_llm("v1")
    listener = listen(llm, event, lambda: llm.engine.step())
    with pytest.raises(EngineBusyError, match="step: a listener"):
        llm.generate(PROMPTS, PARAMS)
    llm.engine.listeners.remove(listener)
    told: list[RequestOutput] = []

    def on_output(output: RequestOutput) -> None:
        told.append(output)
        with pytest.raises(EngineBusyError, match="on_output"):
            llm.engine.step()

    llm.engine.add_request("a", SHARED, params_of(4), on_output=on_output)
    done = final(llm.engine)
    assert len(told) == 4
    assert done["a"] is told[-1]
    assert_idle(llm.engine)


def test_what_an_on_output_raises_is_raised_by_the_step() -> None:
    engine = make_llm("v1").engine
    engine.add_request("a", SHARED, params_of(5), on_output=lambda output: [][1])
    with pytest.raises(IndexError):
        final(engine)
    with pytest.raises(EngineDeadError, match="reset"):
        engine.step()
    engine.reset()
    assert_idle(engine)


def test_an_on_output_may_abort_its_own_request_and_that_of_somebody_who_waits() -> None:
    llm = make_llm("v1")
    told: list[int] = []

    def on_output(output: RequestOutput) -> None:
        told.append(len(output.outputs[0].token_ids))
        llm.engine.abort("llm-0")
        if told[-1] > 1:
            llm.engine.abort("a")

    llm.engine.add_request("a", SHARED, params_of(9), on_output=on_output)
    first, second = llm.generate([[3], [4]], params_of(5))
    assert first.outputs[0].finish_reason == "abort"
    assert second.outputs[0].finish_reason == "length"
    assert told == [1, 2]
    assert_idle(llm.engine)


class NoText:
    """A tokenizer that cannot decode one token."""

    def __init__(self, tokenizer: Any, token_id: int) -> None:
        self.tokenizer, self.token_id = tokenizer, token_id

    def decode(self, token_ids: list[int], **options: Any) -> str:
        if self.token_id in token_ids:
            raise ValueError("no such text")
        return str(self.tokenizer.decode(token_ids, **options))


@pytest.mark.parametrize("call", ["generate", "stream"])
@pytest.mark.parametrize("at", [0, 3, 8])  # 8: the token that ends the request
def test_tokens_without_a_text_end_their_request_alone(call: str, at: int) -> None:
    llm = make_llm("v1")
    expected = tokens_of(llm.generate(PROMPTS, PARAMS))
    token_ids = expected[0][0][0]
    llm.engine.output_processor.tokenizer = NoText(llm.engine.tokenizer, token_ids[at])  # type: ignore[assignment]
    stream = llm.stream(PROMPTS[0], PARAMS[0]) if call == "stream" else iter(())
    pieces = [next(stream)] if call == "stream" else []
    outputs = llm.generate(PROMPTS, PARAMS)
    pieces += stream
    if call == "stream":
        assert pieces[-1].outputs[0].finish_reason == "error"
    choice = outputs[0].outputs[0]
    assert choice.finish_reason == "error"
    assert choice.token_ids == token_ids[: at + 1]
    assert str(choice.error).startswith("request 'llm-")
    assert f"token {len(PROMPTS[0]) + at} on: ValueError('no such text')" in str(choice.error)
    for output, wanted in zip(tokens_of(outputs), expected, strict=True):
        for choice, wanted_choice in zip(output, wanted, strict=True):
            assert choice == wanted_choice or token_ids[at] in choice[0]
    assert_idle(llm.engine)


def test_a_runner_forgets_what_a_failed_step_brought_though_nothing_is_left_to_compute() -> None:
    llm = make_llm("v1")
    engine, batch = llm.engine, llm.engine.executor.batch  # type: ignore[attr-defined]
    run = engine.executor.run  # type: ignore[attr-defined]
    engine.executor.run = lambda step: run(step) and [][1]  # type: ignore[attr-defined]
    engine.add_request("a", SHARED, params_of(3))
    engine.step()
    assert "a" in batch
    engine.executor.run = run  # type: ignore[attr-defined]
    engine.abort("a")
    engine.step()  # nobody is in flight
    assert "a" not in batch
    llm.generate([3], params_of(2))
    assert "a" not in batch
    assert_idle(engine)


def test_a_fault_that_passes_in_a_part_is_nobodys() -> None:
    """While the requests of a step run one by one, the device fails twice for one that is not at
    fault.
    """
    llm = make_llm("v1")
    expected = tokens_of(llm.generate(PROMPTS, PARAMS))
    failures: list[str] = []

    def is_failing(step: StepInput) -> bool:
        if "llm-4" in step.req_ids:
            return True
        if len(step.req_ids) == 1 and step.req_ids[0] == "0_llm-5" and len(failures) < 2:
            failures.append(step.req_ids[0])
            return True
        return False

    failing(llm, is_failing)
    outputs = llm.generate(PROMPTS, PARAMS)
    assert len(failures) == 2
    assert outputs[0].outputs[0].finish_reason == "error"
    assert tokens_of(outputs[1:]) == expected[1:]
    assert_idle(llm.engine)


def test_a_later_request_finds_no_block_that_a_request_with_bad_logits_has_computed() -> None:
    """Its block was published. What is in it nobody can say: in this world, something else than was
    asked for.
    """
    engine = make_llm("v1").engine
    executor: Any = engine.executor
    refuse = executor.refuse
    executor.refuse = lambda request_id, position, n: (
        "the largest logit is nan" if position == 9 else ""
    )
    engine.add_request("a", SHARED, params_of(5))
    done = final(engine)
    assert "request 'a': the largest logit is nan" in str(done["a"].outputs[0].error)
    assert engine.scheduler.kv_cache_manager.num_cached_blocks == 0
    executor.refuse = refuse
    assert_idle(engine)


# --- an error is raised at once -------------------------------------------------------------------


class SlipInSchedule(Scheduler):
    def schedule(self) -> SchedulerOutput:
        return super().schedule().nope  # type: ignore[attr-defined, no-any-return]


class SlipInUpdate(Scheduler):
    def update_from_output(self, output: Any, sampled_token_ids: Any) -> list[Request]:
        super().update_from_output(output, sampled_token_ids)
        raise KeyError("a slip after the update")


class SlipInTables(KVCacheManager):
    def get_block_tables(self, request_id: str, num_known: Any = (0,)) -> tuple[BlockTable, ...]:
        return tuple(table[:-1] for table in super().get_block_tables(request_id, num_known))


@pytest.mark.parametrize("core_cls", [EngineCore, RecoveringCore])
@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"scheduler_cls": SlipInSchedule}, AttributeError),
        ({"scheduler_cls": SlipInUpdate}, KeyError),
        ({"kv_cache_manager_cls": SlipInTables}, Exception),
    ],
)
@pytest.mark.slow
def test_a_learners_slip_is_raised_in_the_first_step(
    core_cls: type[EngineCore], parts: Any, kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    if core_cls is RecoveringCore and "kv_cache_manager_cls" in parts:
        pytest.skip("it is the device that raises")
    llm = with_core(LLM("tiny", **parts), core_cls, **parts)
    caplog.clear()
    with pytest.raises(kind):
        llm.generate("Hello there, what is a block?", params_of(8))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["step 1"]
    assert llm.engine.core.num_steps == 0, "a new core"
    assert_idle(llm.engine)


def test_a_dead_engine_says_so_until_it_is_reset() -> None:
    llm = make_llm("v1", core_cls=EngineCore)
    expected = tokens_of(llm.generate(PROMPTS, PARAMS))
    engine = llm.engine
    engine.executor.poison = "a"  # type: ignore[attr-defined]
    engine.add_request("a", SHARED, params_of(3))
    engine.add_request("b", SHARED, params_of(3))
    with pytest.raises(RuntimeError, match="the device says no"):
        engine.step()
    for call in (
        engine.step,
        partial(engine.abort, "b"),
        partial(engine.add_request, "c", SHARED, params_of(3)),
    ):
        with pytest.raises(EngineDeadError, match=r"reset\(\)"):
            call()
    engine.reset()
    assert_idle(engine)
    engine.executor.poison = None  # type: ignore[attr-defined]
    assert tokens_of(llm.generate(PROMPTS, PARAMS)) == expected
    assert "a" not in engine.executor.batch  # type: ignore[attr-defined]


def test_a_stream_whose_request_went_with_a_failed_call_says_so() -> None:
    llm = make_llm("v1", core_cls=EngineCore)
    stream = llm.stream([9, 8], params_of(9))
    next(stream)
    llm.engine.executor.poison = "llm-1"  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="the device says no"):
        llm.generate(PROMPTS, PARAMS)
    with pytest.raises(EngineDeadError, match="dropped"):
        next(stream)
    assert_idle(llm.engine)


# --- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """A program that a shell starts in the background ignores Ctrl-C from the beginning."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def on_step(llm: LLM, call: Callable[[int], Any]) -> None:
    """Let the device make a call in each step, with the number n of the step, and with ~n when it
    is done.
    """
    run, count = llm.engine.executor.run, iter(range(10_000))  # type: ignore[attr-defined]

    def watched(step: StepInput) -> StepOutput:
        call(number := next(count))
        output = run(step)
        call(~number)
        return output

    llm.engine.executor.run = watched  # type: ignore[attr-defined]


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("presses", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["generate", "stream", "chat", "beam_search"])
@pytest.mark.parametrize("at", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_ctrl_c_ends_a_call_after_the_step_and_a_second_one_at_once(
    what: str, presses: int, at: int
) -> None:
    expected = tokens_of(make_llm("v1", core_cls=EngineCore).generate(PROMPTS, PARAMS))
    llm, before = make_llm("v1", core_cls=EngineCore), signal.getsignal(signal.SIGINT)
    limits = llm.engine.input_processor.limits._replace(vocab_size=llm.engine.tokenizer.vocab_size)
    llm.engine.input_processor.limits = limits
    steps: list[int] = []

    def interrupt(number: int) -> None:
        steps.append(number)
        assert signal.getsignal(signal.SIGINT) is not before
        for _ in range(presses if number == at else 0):
            press()

    on_step(llm, interrupt)
    calls = {
        "generate": lambda: llm.generate(PROMPTS, PARAMS),
        "stream": lambda: list(llm.stream(SHARED, params_of(9))),
        "chat": lambda: llm.chat([{"role": "user", "content": "hi"}], params_of(9)),
        "beam_search": lambda: llm.beam_search(PROMPTS[:2], BeamSearchParams(2, 9)),
    }
    with pytest.raises(KeyboardInterrupt):
        calls[what]()
    done = [number for step in range(at) for number in (step, ~step)]
    assert steps == [*done, at, *([~at] if presses == 1 else [])], (
        "a first press lets the step come to its end"
    )
    assert signal.getsignal(signal.SIGINT) is before
    assert_idle(llm.engine)
    assert tokens_of(llm.generate(PROMPTS, PARAMS)) == expected


@pytest.mark.usefixtures("hears_ctrl_c")
def test_an_interrupt_that_comes_while_requests_are_dropped_waits() -> None:
    llm = make_llm("v1", core_cls=EngineCore)
    abort = llm.engine.abort

    def slow(request_id: str) -> None:
        press()
        press()
        abort(request_id)

    llm.engine.abort = slow  # type: ignore[method-assign]
    # those before it are in flight
    with pytest.raises((PromptTooLongError, KeyboardInterrupt)) as error:
        llm.generate([*PROMPTS, [1] * 500], params_of(3))
    assert error.type is PromptTooLongError
    del llm.engine.abort
    assert_idle(llm.engine)


def test_another_thread_and_a_program_that_ignores_ctrl_c_keep_their_ways() -> None:
    llm = make_llm("v1")
    with ThreadPoolExecutor() as pool:
        expected = tokens_of(pool.submit(llm.generate, PROMPTS, PARAMS).result())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        on_step(llm, lambda _: press())
        assert tokens_of(llm.generate(PROMPTS, PARAMS)) == expected
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
