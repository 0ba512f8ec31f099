"""Thousands of requests at random, and every kind of fault among them: nobody is lost, nobody
changed, nothing remains.

A world is one engine with a RecoveringCore over the shadow of engine/test_recovery.py, with a pool
that is too small. Requests come, are aborted and use ids again, while the device fails before, in
the middle of and after its work. Some requests are at fault themselves: every step with them fails,
or their logits are no numbers. Those end with an error that names them. Each other request ends
once, with the tokens, the texts and the log-probabilities that it has when it is alone in an engine
to which nothing happens.
"""

import contextlib
import gc
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import SamplingParams
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.engine.test_recovery import ShadowExecutor, assert_idle
from mini_vllm.errors import DuplicateRequestError, GroupTooLargeError, RequestFailedError
from mini_vllm.frontend.front import make_child_ids
from mini_vllm.frontend.output_processor import REPLACEMENT, CompletionOutput, RequestOutput
from mini_vllm.observe.listener import StepListener
from mini_vllm.step import StepInput, StepOutput
from mini_vllm.test_core_properties import NIGHTLY, a_sixth

pytestmark = pytest.mark.usefixtures("silent_log")

SCHEDULERS: dict[str, dict[str, Any]] = {
    "v1": {},
    "priority": {"policy": "priority"},
    "swap": {"preemption_mode": "swap", "num_cpu_blocks": 40},
    "block_aligned": {"block_aligned_chunks": True},
    "prefill_first": {"scheduler": "prefill_first"},
    "sequence_group": {"scheduler": "sequence_group", "num_cpu_blocks": 0},
    "sequence_group_swap": {"scheduler": "sequence_group", "num_cpu_blocks": 60},
    "warm_first": {"scheduler": "warm_first"},
}
MAX_MODEL_LEN = 40
NUM_SPECS = 200
PLACES = ("before", "amid", "after", "future")


class DeviceError(RuntimeError):
    """What the device raises."""


@dataclass
class Fate:
    """What is the matter with the computation of one choice."""

    is_poison: bool = False  # every step with it fails
    bad_at: int = -1  # of the output: the token for which the logits are no numbers


class FaultyExecutor(ShadowExecutor):
    """A shadow that fails: by the fates of its requests, and at random."""

    def allocate(self, plan: Any) -> None:
        super().allocate(plan)
        self.rng = random.Random(0)
        self.fates: dict[str, Fate] = {}
        self.rate = 0.0
        self.seen: Counter[str] = Counter()
        self.meanwhile: Callable[[], None] = lambda: None  # what other threads do while a step runs

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        rng, self.countdown, self.kind = self.rng, -1, DeviceError
        where = rng.choice(PLACES) if rng.random() < self.rate else ""
        if where:
            self.kind = rng.choice((DeviceError, MemoryError))
            self.seen[f"{where}: {self.kind.__name__}"] += 1
        if where == "before":
            raise self.kind("before")
        if where == "amid":
            self.countdown = rng.randrange(len(step.token_ids) + 1)
        future: Future[StepOutput] = Future()
        if any(self.fate(request_id).is_poison for request_id in step.req_ids):
            self.seen["poison"] += 1
            if rng.random() < 0.5:
                raise DeviceError("poison")
            future.set_exception(DeviceError("poison"))
            return future
        result = self.run(step)
        if step.req_ids:
            self.meanwhile()
        if where in ("amid", "after"):  # a step of copies alone has no middle
            raise self.kind(where)
        if where == "future":
            future.set_exception(self.kind("future"))
        else:
            future.set_result(result)
        return future

    def fate(self, request_id: str) -> Fate:
        return self.fates.get(request_id, Fate())

    def write(self, slot: int, value: Any) -> None:
        if self.countdown == 0:
            raise self.kind("amid")
        self.countdown -= 1
        super().write(slot, value)

    def refuse(self, request_id: str, position: int, num_prompt_tokens: int) -> str:
        if position - num_prompt_tokens != self.fate(request_id).bad_at:
            return ""
        self.seen["bad logits"] += 1
        return f"token {position}: the largest logit is nan, it must be finite"


class Watcher(StepListener):
    """A listener that aborts and adds requests."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def before_schedule(self) -> None:
        self.world.meanwhile("listener")

    def after_schedule(self, step: Any) -> None:
        output, plan = step.output, step.plan
        self.world.seen["preempted"] += len(output.preempted_req_ids)
        self.world.seen["swapped in"] += len(plan.swap_in)
        self.world.seen["swapped out"] += len(plan.swap_out)
        self.world.seen["forked"] += len(output.sampling_along)
        self.world.meanwhile("listener")

    def after_update(
        self, step: Any, token_ids: Any, finished: Any, *, failed: bool = False
    ) -> None:
        self.world.seen["failed steps"] += failed
        self.world.meanwhile("listener")


# --- what is asked for ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A prompt and how it is sampled. The same two have the same outcome, whatever is beside
    them.
    """

    prompt: tuple[int, ...]
    params: SamplingParams


def make_engine(executor_cls: type[ShadowExecutor] = ShadowExecutor, **options: Any) -> LLMEngine:
    config: dict[str, Any] = {"device": "cpu", "max_model_len": MAX_MODEL_LEN} | options
    return LLMEngine(
        EngineConfig("tiny", **config), executor_cls=executor_cls, core_cls=RecoveringCore
    )


@cache
def specs() -> list[Spec]:
    """Prompts that begin alike, so that blocks are shared, and parameters of every kind."""
    rng = random.Random(0)
    stems = [[rng.randrange(10, 200) for _ in range(16)] for _ in range(4)]
    found = []
    for _ in range(NUM_SPECS):
        prompt = rng.choice(stems)[: rng.choice((0, 3, 8, 16))] + [
            rng.randrange(400) for _ in range(rng.randint(1, 6))
        ]
        options: dict[str, Any] = {"max_tokens": rng.randint(1, 14), "seed": rng.randrange(5)}
        options["temperature"] = rng.choice((0, 1.0))
        options["n"] = rng.choice((1, 1, 1, 2, 3))
        options["ignore_eos"] = rng.random() < 0.5
        if rng.random() < 0.3:
            options["stop"] = tuple(rng.choice("abcdehimnorstu ") for _ in range(rng.randint(1, 3)))
        if rng.random() < 0.3:
            options["repetition_penalty"] = 1.2
        if rng.random() < 0.2:
            options["logprobs"] = rng.randint(0, 3)
        if rng.random() < 0.2:
            options["stop_token_ids"] = tuple(range(10, 30))
        found.append(Spec(tuple(prompt), SamplingParams(**options)))
    return found


@cache
def clean_engine() -> LLMEngine:
    return make_engine(num_kv_blocks=200, block_size=4)


@cache
def clean(index: int) -> list[CompletionOutput]:
    """The choices of a spec that is alone in an engine to which nothing happens."""
    spec, engine = specs()[index], clean_engine()
    assert engine.scheduler.kv_cache_manager.reset_prefix_cache()
    engine.add_request("x", spec.prompt, spec.params)
    outputs: list[RequestOutput] = []
    while engine.has_unfinished_requests():
        outputs += engine.step()
    return outputs[-1].outputs


@dataclass
class Live:
    """A request in flight."""

    index: int  # of its spec
    told: list[RequestOutput]  # what on_output got


# --- a world --------------------------------------------------------------------------------------


class World:
    """One engine, its requests, and what happens to them."""

    def __init__(self, scheduler: str, seed: int, rate: float = 0.06) -> None:
        self.rng = rng = random.Random(f"{scheduler}/{seed}")
        self.seen: Counter[str] = Counter()
        self.rate = rate
        size = rng.choice((1, 2, 3, 4, 16))
        self.engine = make_engine(
            FaultyExecutor,
            block_size=size,
            num_kv_blocks=1 + -(-rng.choice((40, 48, 64)) // size),
            max_num_seqs=rng.choice((3, 6, 10)),
            max_num_batched_tokens=rng.choice((7, 16, 64)),
            enable_prefix_caching=rng.random() < 0.8,
            reserve_full_sequence=rng.random() < 0.5,
            watermark=rng.choice((0.0, 0.0, 0.1)),
            **SCHEDULERS[scheduler],
        )
        self.executor: Any = self.engine.executor
        self.executor.rng, self.executor.seen = rng, self.seen
        self.executor.meanwhile = self.meanwhile
        self.live: dict[str, Live] = {}
        self.num_added = 0
        self.is_inside = False
        self.engine.listeners.insert(rng.randrange(2), Watcher(self))

    def add(self, request_id: str) -> None:
        rng, index = self.rng, self.rng.randrange(NUM_SPECS)
        spec = specs()[index]
        told: list[RequestOutput] = []
        options = {"priority": rng.randrange(3), "on_output": partial(self.hear, told)}
        add = partial(self.engine.add_request, request_id, spec.prompt, spec.params, **options)
        child_ids = make_child_ids(request_id, spec.params.n)
        for child_id in child_ids:
            self.executor.fates.pop(child_id, None)
        if rng.random() < 0.06:
            bad_at = rng.choice((-1, rng.randrange(6)))
            self.executor.fates[rng.choice(child_ids)] = Fate(bad_at < 0, bad_at)
        with contextlib.suppress(GroupTooLargeError):
            add()
            self.live[request_id] = Live(index, told)
            self.num_added += 1

    def hear(self, told: list[RequestOutput], output: RequestOutput) -> None:
        self.meanwhile("on_output")
        told.append(output)

    def add_again(self, request_id: str) -> None:
        """An id that is in flight is refused, and nothing changes."""
        spec = self.rng.choice(specs())
        with pytest.raises(DuplicateRequestError):
            self.engine.add_request(request_id, spec.prompt, spec.params)
        self.seen["refused"] += 1

    def abort(self, request_id: str) -> None:
        """Afterwards the id is free."""
        request = self.live.pop(request_id)
        self.engine.abort(request_id)
        self.seen["aborted"] += 1
        assert not self.engine.output_processor.has_request(request_id)
        if not self.is_inside:
            assert request.told[-1].finished, "who aborts hears of it"
        if self.rng.random() < 0.5:
            self.add(request_id)
            self.seen["id used again"] += 1

    def meanwhile(self, who: str = "device") -> None:
        """Within a call, a caller may abort a request, and may use its id again."""
        if not self.live or self.is_inside or self.rng.random() > 0.01:
            return
        self.is_inside = True
        self.seen[f"aborted by {who}"] += 1
        self.abort(self.rng.choice(list(self.live)))
        self.is_inside = False

    def step(self) -> None:
        self.executor.rate = self.rate
        outputs = self.engine.step()
        self.executor.rate = 0.0
        self.seen["steps"] += 1
        for output in outputs:
            assert output.request_id in self.live, "it comes after its end"
            if output.finished:
                self.check(output.request_id, output)

    def check(self, request_id: str, output: RequestOutput) -> None:
        """A request has ended. It is as if it had been alone, or an error says what was the
        matter.
        """
        request = self.live.pop(request_id)
        expected = clean(request.index)
        child_ids = make_child_ids(request_id, len(expected))
        for child_id, wanted, choice in zip(child_ids, expected, output.outputs, strict=True):
            fate = self.executor.fate(child_id)
            n = fate.bad_at
            if fate.is_poison:  # a fork's first token comes of another's computation
                n = min(len(choice.token_ids), self.engine.config.scheduler == "sequence_group")
            if n in range(len(wanted.token_ids)):
                assert choice.finish_reason == "error", (choice, wanted)
                assert isinstance(choice.error, RequestFailedError)
                assert f"request {child_id!r}: " in str(choice.error)
                position = len(specs()[request.index].prompt) + fate.bad_at
                assert ("steps have failed" if fate.is_poison else f"token {position}: ") in str(
                    choice.error
                )
                assert choice.token_ids == wanted.token_ids[:n]
                assert wanted.text.startswith(choice.text.rstrip(REPLACEMENT)), (
                    "half a character is shown at the end"
                )
                self.seen["ended with an error"] += 1
            else:
                assert choice == wanted, (child_id, choice, wanted)
                self.seen["ended"] += 1

    def run(self, num_requests: int, num_steps: int = 20000) -> Counter[str]:
        rng = self.rng
        for _ in range(num_steps):
            if self.num_added < num_requests and len(self.live) < 14 and rng.random() < 0.6:
                self.add(f"r{self.num_added}")
            if self.live and rng.random() < 0.03:
                self.abort(rng.choice(list(self.live)))
            if self.live and rng.random() < 0.03:
                self.add_again(rng.choice(list(self.live)))
            if self.engine.has_unfinished_requests():
                self.step()
            elif self.num_added >= num_requests:
                break
        self.check_end()
        self.seen["requests"] += self.num_added
        return self.seen

    def check_end(self) -> None:
        assert not self.live, "they were lost"
        engine = self.engine
        assert_idle(engine)
        for name, value in vars(engine.core).items():
            if name not in ("listeners", "_starts"):
                assert not value or not isinstance(value, dict | list), f"{name} remembers somebody"
        self.rate = 0.0
        engine.add_request("last", [1, 2], SamplingParams(max_tokens=2, ignore_eos=True))
        while engine.has_unfinished_requests():
            engine.step()
        batch = self.executor.batch
        assert {*batch._rows, *batch.sampling_rows, *batch.sampling.row_of} <= {"last"}
        assert len(batch._rows) + len(batch._free_rows) <= 40
        assert_idle(engine)


def soak(scheduler: str, seeds: Sequence[int], num_requests: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        world = World(scheduler, seed)
        try:
            seen += world.run(num_requests)
        except Exception as error:
            raise AssertionError(f"World({scheduler!r}, {seed}).run({num_requests})") from error
    return seen


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [pytest.param(name, marks=() if name == "v1" else pytest.mark.slow) for name in SCHEDULERS],
)
def test_faults_of_every_kind_lose_nobody_and_change_nobody(scheduler: str) -> None:
    # 0 and 7 meet what tools/mutation/planted_bugs.py plants
    seen = soak(scheduler, (0, 1, 2, 3, 7, 8, 9), 25)
    assert seen["requests"] >= 125
    assert seen["ended"] > 100
    assert seen["failed steps"] > 35


KINDS = [
    *(f"{where}: {kind}" for where in PLACES for kind in ("DeviceError", "MemoryError")),
    *(
        "failed steps",
        "poison",
        "bad logits",
        "ended with an error",
        "aborted",
        "aborted by device",
    ),
    *("aborted by listener", "aborted by on_output", "id used again", "refused", "preempted"),
]


@pytest.mark.nightly
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_thousands_of_requests_among_faults_of_every_kind(
    scheduler: str, caplog: pytest.LogCaptureFixture
) -> None:
    """2,520 requests each at night, 20,160 in all. The message has the world of a failure; -s shows
    what was met.
    """
    # pytest would keep each warning with its traceback, 15 MiB in all
    caplog.set_level(logging.CRITICAL, "mini_vllm")
    for index in range(NUM_SPECS):
        clean(index)
    seen, resident = Counter[str](), []
    for first in range(1000, 1000 + a_sixth(84), a_sixth(12)):
        seen += soak(scheduler, range(first, first + a_sixth(12)), 30)
        # what is garbage goes each time, so no heap grows with it
        resident.append(resident_bytes())
    growth = resident[-1] - resident[1]
    print(scheduler, f"{growth / 2**20:.1f} MiB more", dict(sorted(seen.items())))  # noqa: T201
    assert seen["requests"] >= a_sixth(2520)
    assert seen["ended"] > a_sixth(2000)
    # by day a rare one may be missed
    assert len([kind for kind in KINDS if not seen[kind]]) <= (0 if NIGHTLY else 2)
    assert bool(seen["swapped in"]) == (
        "num_cpu_blocks" in SCHEDULERS[scheduler] and scheduler != "sequence_group"
    )
    assert bool(seen["forked"]) == scheduler.startswith("sequence_group")
    assert growth < 8 << 20
