"""Trials of the seams: what a later feature needs fits beside the core as it is.

A trial is 20 to 60 lines and no feature. It builds the smallest thing that uses a seam, runs it at
random, and asserts that what the seam is for has happened. Each section is one trial and stands
alone; another one is appended below.
"""

import itertools
import logging
import multiprocessing
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.config import EngineConfig
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import fake_token
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import ModelInfo, StepInput, StepOutput
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.memory import KVCachePlan

VOCABULARY = 50


class Contents:
    """What the slots of a pool hold: for each the tokens up to its own, and the group of layers
    that wrote it.
    """

    def __init__(self) -> None:
        self.slots: dict[tuple[int, int], Any] = {}

    def write(
        self, kv: KVCacheManager, request: Request, token_ids: Sequence[int], group: int = 0
    ) -> None:
        """Compute token_ids, which follow the computed ones."""
        size, table = kv.block_size, kv.get_block_ids(request.request_id)
        known = [*request.all_token_ids[: request.num_computed_tokens], *token_ids]
        for i in range(request.num_computed_tokens, len(known)):
            assert table[i // size] != 0, "the null block is never written"
            self.slots[table[i // size], i % size] = (group, *known[: i + 1])

    def check(
        self, kv: KVCacheManager, request: Request, start: int, end: int, group: int = 0
    ) -> None:
        """Read the slots [start, end) of a request."""
        size, table = kv.block_size, kv.get_block_ids(request.request_id)
        for i in range(max(start, 0), end):
            assert self.slots[table[i // size], i % size] == (
                group,
                *request.all_token_ids[: i + 1],
            )


def add_random_requests(scheduler: Scheduler, rng: random.Random, max_tokens: int) -> list[Request]:
    """Eight requests, of which some share a prefix."""
    shared = [rng.randrange(VOCABULARY) for _ in range(20)]
    requests = []
    for i in range(8):
        own = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 8))]
        params = SamplingParams(max_tokens=rng.randint(1, max_tokens), ignore_eos=True)
        requests.append(Request(str(i), shared[: rng.choice((0, 12, 20))] + own, params))
        scheduler.add_request(requests[-1])
    return requests


# --- drafts: a proposer that is right in two of three cases ---------------------------------------


class DraftingScheduler(Scheduler):
    """Verifies drafts, by running request. They are no tokens of it: nothing else knows them."""

    drafts: Mapping[str, list[int]] = {}
    publishes_at_once = False

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        output.drafts = dict(self.drafts)
        return output

    def _target(self, request: Request) -> int:
        if request.status is not RequestStatus.RUNNING:
            return request.num_tokens
        num_drafts = len(self.drafts.get(request.request_id, ()))
        assert request.max_model_len is not None
        return min(
            request.num_tokens + num_drafts, max(request.max_model_len - 1, request.num_tokens)
        )

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        for request in output.scheduled_requests:
            # accepted drafts and one more; the rest is lost
            if token_ids := sampled_token_ids.get(request.request_id):
                num_counted = request.num_tokens - request.num_computed_tokens + len(token_ids) - 1
                output.num_scheduled_tokens[request.request_id] = num_counted
        finished = super().update_from_output(output, sampled_token_ids)
        if self.publishes_at_once:
            for request in self.running:
                self.kv_cache_manager.cache_blocks(request)
        return finished


def run_with_drafts(seed: int, accuracy: float) -> tuple[list[list[int]], int, int]:
    """Outputs, steps and accepted drafts of a random run; an accuracy of 0 proposes nothing."""
    rng, proposer = random.Random(seed), random.Random(seed)
    kv, contents = KVCacheManager(rng.randint(14, 40), 4), Contents()
    scheduler = DraftingScheduler(
        kv, max_num_seqs=4, max_num_batched_tokens=rng.choice((6, 16, 64)), max_model_len=40
    )
    scheduler.drafts, scheduler.publishes_at_once = {}, seed % 2 == 0
    kv.num_lookahead_tokens = seed % 3 if accuracy else 0
    requests = add_random_requests(scheduler, rng, max_tokens=14)
    names: dict[Any, tuple[int, ...]] = {}  # block hash -> the tokens that it stands for
    num_steps = num_accepted = 0
    while scheduler.has_unfinished_requests():
        output, sampled = scheduler.schedule(), {}
        num_steps += 1
        assert num_steps < 3000
        for r in output.scheduled_requests:
            end = r.num_computed_tokens + output.num_scheduled_tokens[r.request_id]
            drafts = scheduler.drafts.get(r.request_id, [])[: max(end - r.num_tokens, 0)]
            contents.write(kv, r, [*r.all_token_ids, *drafts][r.num_computed_tokens : end])
            if scheduler.needs_sample(r, output.num_scheduled_tokens[r.request_id]):
                truth = [
                    fake_token(int(r.request_id), r.num_tokens + i, VOCABULARY)
                    for i in range(len(drafts) + 1)
                ]
                n = next((i for i, draft in enumerate(drafts) if draft != truth[i]), len(drafts))
                sampled[r.request_id], num_accepted = truth[: n + 1], num_accepted + n
            published = [block.block_hash is not None for block in kv._tables[r.request_id]]
            # every full block of known tokens, and nothing behind it
            num_full = min(end, r.num_tokens) // 4
            assert published == [i < num_full for i in range(len(published))]
        for r in output.scheduled_requests:
            contents.check(kv, r, 0, r.num_computed_tokens)
        scheduler.update_from_output(output, sampled)
        for r in output.scheduled_requests:
            names.update(
                {
                    name: tuple(r.all_token_ids[: i * 4 + 4])
                    for i, name in enumerate(kv._block_hashes(r))
                }
            )
        for block in kv.block_pool.blocks:  # no block is found under a name that is not its content
            if block.block_hash is not None:
                assert contents.slots[block.block_id, 3] == (0, *names[block.block_hash])
        scheduler.drafts = {
            r.request_id: [
                fake_token(int(r.request_id), r.num_tokens + i, VOCABULARY)
                if proposer.random() < accuracy
                else -1
                for i in range(3)
            ]
            for r in scheduler.running
            if accuracy
        }
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert not kv._num_published
    return [r.output_token_ids for r in requests], num_steps, num_accepted


def test_drafts_change_no_token_and_save_steps() -> None:
    num_steps: Counter[str] = Counter()
    for seed in range(100):
        plain, num_plain, _ = run_with_drafts(seed, accuracy=0)
        drafted, num_drafted, num_accepted = run_with_drafts(seed, accuracy=0.67)
        assert drafted == plain, seed
        num_steps.update(plain=num_plain, drafted=num_drafted, accepted=num_accepted)
    assert num_steps["drafted"] < 0.8 * num_steps["plain"]
    assert num_steps["accepted"] > 1000


# --- drafts through the whole engine: what followed the last token when it was seen before --------


class NgramDrafts(DraftingScheduler):
    """Proposes in schedule(). right_up_to: how much of a proposal is left as it is; the rest is
    made wrong.
    """

    right_up_to = 3
    num_accepted = num_proposed = 0

    def schedule(self) -> SchedulerOutput:
        self.drafts = {}
        for request in self.running:
            if request.num_tokens - request.num_computed_tokens == 1:
                drafts = propose(request.all_token_ids)
                wrong = [(token_id + 1) % 256 for token_id in drafts[self.right_up_to :]]
                self.drafts[request.request_id] = drafts[: self.right_up_to] + wrong
        return super().schedule()

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        for request_id, drafts in self.drafts.items():
            type(self).num_proposed += len(drafts)
            type(self).num_accepted += max(len(sampled_token_ids.get(request_id, ())) - 1, 0)
        return super().update_from_output(output, sampled_token_ids)


def propose(token_ids: Sequence[int]) -> list[int]:
    for i in range(len(token_ids) - 2, -1, -1):
        if token_ids[i] == token_ids[-1]:
            return list(token_ids[i + 1 : i + 4])
    return []


QUICK_DRAFTS = [("v1", 1.0, 3)]
SLOW_DRAFTS = [
    ("v1", 0.0, 1),
    ("prefill_first", 0.0, 3),
    ("v1", 0.0, 3),
    ("swap", 1.0, 3),
]
DRAFTS = itertools.product(
    ("v1", "priority", "prefill_first", "warm_first", "swap"), (0.0, 1.0), (3, 1, 0)
)
MARKS = {each: pytest.mark.slow if each in SLOW_DRAFTS else pytest.mark.nightly for each in DRAFTS}


@pytest.mark.parametrize(
    ("name", "temperature", "right_up_to"),
    [
        pytest.param(*each, marks=[] if each in QUICK_DRAFTS else mark)
        for each, mark in MARKS.items()
    ],
)
def test_drafts_give_the_tokens_of_the_engine_without_drafts(
    name: str, temperature: float, right_up_to: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Chunks, shared prefixes, penalties, log-probabilities, choices and preemptions, on the
    bundled model.
    """
    from mini_vllm import LLM
    from mini_vllm.policies.registry import SCHEDULERS, get_scheduler_cls

    options: dict[str, Any] = {"priority": {"policy": "priority"}, "swap": SWAP}.get(name, {})
    base = get_scheduler_cls(name) if name in SCHEDULERS else Scheduler
    drafting = type("Drafting", (NgramDrafts, base), {"right_up_to": right_up_to})
    results = []
    for scheduler_cls in (base, drafting):
        llm = LLM(
            "tiny",
            dtype="float32",
            num_kv_blocks=36,
            block_size=4,
            scheduler_cls=scheduler_cls,
            **options,
        )
        texts = [
            "A KV cache block is",
            "Chunked prefill splits a prompt. Chunked prefill splits",
            "one two three one two",
        ]
        params = [
            SamplingParams(temperature=temperature, seed=7, max_tokens=60, ignore_eos=True),
            SamplingParams(
                temperature=temperature,
                seed=8,
                max_tokens=50,
                ignore_eos=True,
                presence_penalty=0.3,
            ),
            SamplingParams(
                temperature=temperature, seed=9, max_tokens=40, ignore_eos=True, n=2, logprobs=2
            ),
        ]
        outputs = llm.generate(texts, params)
        results.append(
            [
                [(c.token_ids, c.text, c.logprobs and [*map(list, c.logprobs)]) for c in o.outputs]
                for o in outputs
            ]
        )
        assert llm.engine.scheduler.kv_cache_manager.num_free_blocks == 35
        assert llm.engine.scheduler.preempted_prefix_cache_stats.requests > 0
    assert results[0] == results[1]
    assert drafting.num_proposed > 20  # type: ignore[attr-defined]
    assert bool(drafting.num_accepted) == bool(right_up_to)  # type: ignore[attr-defined]
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


SWAP = {"preemption_mode": "swap", "num_cpu_blocks": 40}


# --- a mask that differs from step to step --------------------------------------------------------


class DictatingScheduler(Scheduler):
    """What a request writes is dictated to it, token by token; the mask of a step allows that token
    alone.
    """

    dictated: Mapping[str, Sequence[int]] = {}

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            if request.request_id in self.dictated and self.needs_sample(request, n):
                token_id = self.dictated[request.request_id][len(request.output_token_ids)]
                output.masks[request.request_id] = [(1 << token_id).to_bytes(256, "little")]
        return output


@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_a_mask_in_each_step_says_what_a_request_writes(temperature: float) -> None:
    """Chunks, preemptions and choices; requests without a mask write what they would have
    written.
    """
    from mini_vllm import LLM

    rng = random.Random(5)
    texts = [
        "A KV cache block is",
        "Chunked prefill splits a prompt. Chunked prefill splits",
        "one two three one two",
    ]
    params = SamplingParams(
        temperature=temperature, seed=3, max_tokens=40, ignore_eos=True, logprobs=1
    )
    sizes = {"num_kv_blocks": 32, "block_size": 4, "max_num_batched_tokens": 8}
    expected = LLM("tiny", dtype="float32", **sizes).generate(texts, params)
    dictated = {f"llm-{i}": [rng.randrange(3, 2048) for _ in range(40)] for i in (0, 2)}
    scheduler_cls = type("Dictating", (DictatingScheduler,), {"dictated": dictated})
    llm = LLM("tiny", dtype="float32", scheduler_cls=scheduler_cls, **sizes)
    outputs = llm.generate(texts, params)
    assert outputs[1].outputs[0].token_ids == expected[1].outputs[0].token_ids
    for i in (0, 2):
        choice = outputs[i].outputs[0]
        assert choice.token_ids == dictated[f"llm-{i}"]
        assert choice.logprobs is not None
        assert all(
            entry[token_id].logprob == 0
            for entry, token_id in zip(choice.logprobs, choice.token_ids, strict=True)
        )
    assert llm.engine.scheduler.preempted_prefix_cache_stats.requests > 0


@pytest.mark.slow
def test_a_mask_that_allows_nothing_ends_its_request_alone() -> None:
    from mini_vllm import LLM

    class Forbidding(Scheduler):
        def schedule(self) -> SchedulerOutput:
            output = super().schedule()
            output.masks["llm-1"] = [bytes(256)]
            return output

    llm = LLM("tiny", scheduler_cls=Forbidding)
    good, bad = llm.generate(["A KV block is"] * 2, SamplingParams(temperature=0, max_tokens=5))
    assert (len(good.outputs[0].token_ids), bad.outputs[0].finish_reason) == (5, "error")
    assert "the largest logit is -inf" in str(bad.outputs[0].error)


# --- an executor in another process ---------------------------------------------------------------


class ProcessExecutor(Executor):
    """LocalExecutor in a child process. Everything that crosses the pipe is pickled, as it would be
    between ranks.
    """

    def load(self) -> ModelInfo:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self.config), daemon=True)
        self._process.start()
        return self._call("load")

    def available_bytes(self) -> int:
        return self._call("available_bytes")

    def allocate(self, plan: KVCachePlan) -> None:
        self._call("allocate", plan)

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        future: Future[StepOutput] = Future()
        try:
            future.set_result(self._call("execute", step))
        except Exception as error:
            future.set_exception(error)
        return future

    def synchronize(self) -> None:
        self._call("synchronize")

    def shutdown(self) -> None:
        self._pipe.send(None)
        self._process.join(timeout=30)

    def _call(self, name: str, *arguments: Any) -> Any:
        self._pipe.send((name, arguments))
        result = self._pipe.recv()
        if isinstance(result, Exception):
            raise result
        return result


def serve(pipe: Connection, config: EngineConfig) -> None:
    """The child: one call after the other, until there is None."""
    from mini_vllm.worker.local_executor import LocalExecutor

    executor = LocalExecutor(config)
    while (call := pipe.recv()) is not None:
        name, arguments = call
        try:
            result = getattr(executor, name)(*arguments)
            pipe.send(result.result() if isinstance(result, Future) else result)
        except Exception as error:
            pipe.send(error)


@pytest.mark.nightly
def test_steps_in_another_process_give_the_same_tokens(checkpoint: Path) -> None:
    """Chunks, preemptions, penalties, choices and an abort, over pickled steps."""
    from mini_vllm.engine.llm_engine import LLMEngine
    from mini_vllm.worker.local_executor import LocalExecutor

    config = EngineConfig(
        str(checkpoint), dtype="float32", block_size=4, num_kv_blocks=14, max_num_batched_tokens=16
    )
    outputs, num_preemptions = [], []
    for executor_cls in (LocalExecutor, ProcessExecutor):
        engine = LLMEngine(config, executor_cls=executor_cls)
        for i, options in enumerate(
            ({"temperature": 0}, {"seed": 5}, {"n": 2, "seed": 1}, {"frequency_penalty": 0.5})
        ):
            params = SamplingParams(max_tokens=12, ignore_eos=True, **options)
            engine.add_request(str(i), list(range(20 + 3 * i, 32 + 2 * i)), params)
        engine.add_request("gone", [1, 2, 3], SamplingParams(max_tokens=50))
        done = {}
        while engine.has_unfinished_requests():
            done |= {
                o.request_id: [c.token_ids for c in o.outputs] for o in engine.step() if o.finished
            }
            engine.abort("gone")
        outputs.append(done)
        num_preemptions.append(engine.scheduler.preempted_prefix_cache_stats.requests)
        engine.executor.shutdown()
    assert outputs[0] == outputs[1]
    assert num_preemptions[0] == num_preemptions[1] > 0


# --- a manager that gives blocks back while a request runs ----------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class WindowKVCacheManager(KVCacheManager):
    """Holds the blocks of the last `window` tokens and of those to compute, so a request may
    outgrow the pool.
    """

    window: int = 8
    enable_prefix_caching: bool = False

    def max_tokens_alone(self) -> int:
        return 1 << 20

    def num_tokens_reserved(self, request: Request, num_tokens: int = 0) -> int:
        return min(request.num_tokens, self.num_usable_blocks * self.block_size)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        table, null = self._tables.get(request.request_id, []), self.block_pool.null_block
        for i in range(
            min(max(request.num_computed_tokens - self.window, 0) // self.block_size, len(table))
        ):
            if table[i] is not null:
                self.block_pool.free_blocks([table[i]])
                table[i] = null
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def free(self, request: Request) -> None:
        table = self._tables.get(request.request_id, [])
        table[:] = [block for block in table if block is not self.block_pool.null_block]
        super().free(request)


def test_a_prompt_longer_than_the_pool_is_admitted_if_its_manager_says_so() -> None:
    """60 tokens in 6 blocks of 4. The check of the whole sequence and that of a chunk are two
    questions.
    """

    class WithoutCap(WindowKVCacheManager):
        num_tokens_reserved = KVCacheManager.num_tokens_reserved

    for manager_cls in (WindowKVCacheManager, WithoutCap):
        kv = manager_cls(7, 4)
        scheduler = Scheduler(kv, max_num_seqs=2, max_num_batched_tokens=8)
        request = Request("a", range(60), SamplingParams(max_tokens=9))
        scheduler.add_request(request)
        steps = []
        while scheduler.has_unfinished_requests() and len(steps) < 40:
            step = Step.decide(scheduler)
            steps.append(step.output.total_num_scheduled_tokens)
            samples = request.num_computed_tokens + steps[-1] >= request.num_tokens
            step.update(scheduler, {"a": [5]} if samples else {})
        expected = [8] * 7 + [4] + [1] * 8 if manager_cls is WindowKVCacheManager else [0] * 40
        assert steps == expected
        assert kv.num_free_blocks == 6
