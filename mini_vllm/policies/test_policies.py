"""What every scheduler of the family keeps, whatever its order: registering one in SCHEDULERS is
enough to be tested.

The laws are those of mini_vllm/test_core_properties.py, by their numbers, without the ones that say
who comes first (parts of 24, 25 and 27), which belong to a policy and are tested beside it. Then:
the same tokens from all on a real model, and traps 22 to 30 for every policy. Some policies starve
decodes by design: there the test shows it.
"""

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.config import EngineConfig
from mini_vllm.errors import GroupTooLargeError, InvalidParameterError, RequestRefusedError
from mini_vllm.kv_cache import PART, KVCacheManager
from mini_vllm.observe.trace import ScenarioRun, TraceRecorder, describe_config, run_trace
from mini_vllm.offload.host_memory import HostMemoryPool
from mini_vllm.policies.registry import (
    SCHEDULERS,
    all_options,
    get_classes,
    make_scheduler,
    options_of,
)
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerInterface, SchedulerOutput, urgency
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVResult
from mini_vllm.test_core_properties import (
    ALPHABET,
    DOMAINS,
    NIGHTLY,
    SALTS,
    Options,
    StepWorld,
    expected_outputs,
    next_token,
    random_prompt,
)

# Options of single policies that change decisions, each with the other options it needs.
CHOICES_OF_OPTIONS: tuple[dict[str, Any], ...] = (
    {"block_aligned_chunks": True},
    {"charge_cached_tokens": True},
    {"nano_vllm": "first"},
    {"num_cpu_blocks": 6},
    {"cache_quotas": {"a": 2, "b": 4}, "cache_watermark": 0.5},
    {"preemption_mode": "swap", "num_cpu_blocks": 6},
    {
        "preemption_mode": "cheaper",
        "num_cpu_blocks": 6,
        # a few tokens are better recomputed
        "preemption_cost": {"seconds_per_token": 1.0, "seconds_per_copy": 2.0},
    },
)
CONSTANTS = ("preemption_cost", "cache_quotas")  # dictionaries that are options
CROWDED = {  # instead of the domains of the core
    "num_blocks": (9, 14),
    "block_size": (1, 2),
    "max_num_seqs": (3, 5),
    "max_num_batched_tokens": (3, 7, 12),
    "max_model_len": (None, None, 9),
    "watermark": (0.0, 0.0, 0.2),
}
# by design: a step with a prefill has no decode
STARVES_DECODES = {"prefill_first", "nano_vllm", "sequence_group"}


def variants() -> Iterator[dict[str, Any]]:
    """Every registered scheduler, as it comes and with every option of its own that changes
    decisions.
    """
    for name in SCHEDULERS:
        yield {"scheduler": name}
        for options in CHOICES_OF_OPTIONS:
            scheduler_cls, manager_cls = get_classes({"scheduler": name, **options})
            if options.keys() <= options_of(scheduler_cls).keys() | options_of(manager_cls).keys():
                yield {"scheduler": name, **options}


def describe(variant: dict[str, Any]) -> str:
    return "-".join(
        str(value) if isinstance(value, str) else name for name, value in variant.items()
    )


VARIANTS = {describe(variant): variant for variant in variants()}
every_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
every_scheduler = pytest.mark.parametrize("name", list(SCHEDULERS))
QUICK = [name for name in VARIANTS if "-" not in name]  # as they come

the_other_ids_are_slow = pytest.mark.parametrize(
    "variant_id",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in VARIANTS],
)
the_rest_is_slow = pytest.mark.parametrize(
    "variant",
    [
        pytest.param(VARIANTS[name], id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name in VARIANTS
    ],
)


# --- the laws -------------------------------------------------------------------------------------


class PolicyWorld(StepWorld):
    """A world for any policy: its steps may copy blocks and fork groups, and come in any order."""

    def __init__(self, options: Options, variant: dict[str, Any]) -> None:
        own = {name: value for name, value in variant.items() if name != "scheduler"}
        super().__init__(options, get_classes(variant)[0], **own)
        self.nano_vllm = variant.get("nano_vllm", variant["scheduler"] == "nano_vllm" and "newest")
        # of those who run: how many tokens they had when they were admitted
        self.goals: dict[str, int] = {}
        self.seen: Counter[str] = Counter()  # what happened, so that a test can say that it did

    def add(
        self,
        prompt: Sequence[int],
        salt: str | None,
        max_tokens: int,
        priority: int,
        ignore_eos: bool = False,
        n: int = 1,
    ) -> None:
        """A request, or the n choices of one prompt; none of them arrives at the same time as
        another prompt's.
        """
        names = [f"r{self.num_requests}.{i}" for i in range(n)]
        requests = [
            Request(
                name,
                prompt,
                SamplingParams(max_tokens=max_tokens, ignore_eos=ignore_eos, n=n),
                eos_token_ids=(ALPHABET,),
                priority=priority,
                arrival_time=self.num_requests + i / n,  # the engine, too, gives each its own
                cache_salt=salt,
            )
            for i, name in enumerate(names)
        ]
        self.num_requests += 1
        scheduler = self.scheduler
        fits = len(prompt) <= min(
            scheduler.max_model_len, self.kv.num_usable_blocks * self.kv.block_size
        )
        try:
            scheduler.add_request(requests[0]) if n == 1 else scheduler.add_group(requests)
        except GroupTooLargeError:
            assert n > 1
        except RequestRefusedError:
            assert not fits  # (26)
        else:
            assert fits
            self.live.update(zip(names, requests, strict=True))
        self.check()

    def step(self, aborts: Sequence[int] = ()) -> list[Request]:
        """One step, with requests that are aborted while the model runs; returns who got a
        token.
        """
        scheduler = self.scheduler
        self.output = output = self.schedule()
        sampling = [
            each
            for r in output.scheduled_requests
            if scheduler.needs_sample(r, output.num_scheduled_tokens[r.request_id])
            for each in (r, *output.sampling_along.get(r.request_id, ()))
        ]
        sampled = {r.request_id: [next_token(r.all_token_ids)] for r in sampling}
        for choice in aborts:
            self.abort(choice, unwritten=True)
        self.cache_write(output)
        before = {r.request_id: r.num_computed_tokens for r in output.scheduled_requests}
        self.kv.end_step(KVResult())
        finished = scheduler.update_from_output(output, sampled)
        for request in output.scheduled_requests:
            if request.request_id in self.live:
                n = output.num_scheduled_tokens[request.request_id]
                assert request.num_computed_tokens == before[request.request_id] + n  # (22)
        ended = [r for r in sampling if r.request_id in self.live and r.is_finished]
        assert {r.request_id for r in finished} == {r.request_id for r in ended}  # (30)
        assert len(finished) == len(ended)  # (30)
        for request in finished:
            # (28, 30)
            assert (request.output_token_ids, request.finish_reason) == expected_outputs(request)
            del self.live[request.request_id]
        self.check()
        return sampling

    def fail(self, aborts: Sequence[int] = ()) -> None:
        output = self.schedule()
        for choice in aborts:
            self.abort(choice, unwritten=True)
        self.scheduler.fail_step(output)
        self.kv.end_step(None)
        for request in output.scheduled_requests:
            assert request.is_finished or request.status is not RequestStatus.RUNNING  # (33)
        self.check()

    def schedule(self) -> SchedulerOutput:
        scheduler, kv = self.scheduler, self.kv
        running = {r.request_id: r.num_computed_tokens for r in scheduler.running}
        half_computed = [name for name, n in running.items() if 0 < n < self.goals[name]]
        for part in scheduler.parts:
            part.before_schedule(scheduler)
        output = scheduler.schedule()
        self.plan = kv.begin_step()
        counts = output.num_scheduled_tokens
        assert [r.request_id for r in output.scheduled_requests] == list(counts)
        assert output.total_num_scheduled_tokens == sum(counts.values())  # (21)
        if self.nano_vllm:  # its places limit a step, and its decodes are not held to the budget
            assert len(counts) <= self.options.max_num_seqs  # (21)
            assert sum(counts.values()) <= max(self.budget, len(counts))  # (21)
        else:
            assert sum(counts.values()) <= self.budget  # (21)
            assert len(scheduler.running) <= self.options.max_num_seqs  # (21)
        assert bool(output.num_scheduled_tokens) == bool(self.live)  # (24)
        self.seen["preempted"] += len(output.preempted_req_ids)
        self.seen["swapped"] += len(self.plan.swap_in)
        self.seen["forked"] += len(output.sampling_along)
        has_newcomer = bool(counts.keys() - running.keys())
        may_wait = set(output.preempted_req_ids)  # for another tenant's
        assert not has_newcomer or counts.keys() >= set(half_computed) - may_wait, (
            "it waits for a newcomer"
        )
        self.seen["half-computed"] += len(half_computed)
        for request in scheduler.running:
            if request.request_id not in running or request.request_id in output.preempted_req_ids:
                # Several sequences of a group stop a token short: from there they decode in step.
                self.goals[request.request_id] = request.num_tokens - (
                    request.sampling_params.n > 1
                )
        for request_id in output.preempted_req_ids:
            assert request_id not in counts  # (27)
            assert kv.get_block_ids(request_id) == []  # (27)
        for request in scheduler.running:
            num_computed = running.get(request.request_id, 0)
            n = counts.get(request.request_id, 0)
            assert 0 <= n <= request.num_tokens - request.num_computed_tokens  # (22)
            assert request.request_id not in counts or n  # (21)
            # who was, may be back in the same step
            if request.request_id not in output.preempted_req_ids:
                assert request.num_computed_tokens >= num_computed  # (22)
            if n:
                num_slots = len(kv.get_block_ids(request.request_id)) * kv.block_size
                num_tokens = (
                    request.num_tokens
                    if self.nano_vllm == "newest"
                    else request.num_computed_tokens + n
                )
                assert 0 <= num_slots - num_tokens < kv.block_size  # (15)
        self.check(unwritten=True)
        return output

    def cache_write(self, output: SchedulerOutput) -> None:
        """The copies of the step, then what it computes. A block of the CPU pool has a negative
        name here.
        """
        pairs = [(a, -1 - b) for a, b in self.plan.swap_out]
        pairs += [(-1 - a, b) for a, b in self.plan.swap_in]
        slots = self.cache.slots
        for source, target in [*pairs, *self.plan.copy]:
            for offset in range(self.kv.block_size):
                slots.pop((target, offset), None)
                if (source, offset) in slots:
                    slots[target, offset] = slots[source, offset]
        super().cache_write(output)

    def check(self, unwritten: bool = False) -> None:
        scheduler, kv = self.scheduler, self.kv
        self.cache.check(unwritten)
        self.tables = (
            getattr(self, "tables", {}) | {i: kv.get_block_ids(i) for i in kv._tables}
            if unwritten
            else {}
        )
        places = [r.request_id for r in (*scheduler.waiting, *scheduler.running)]
        assert sorted(places) == sorted(self.live) == sorted(scheduler._requests)  # (23)
        assert set(kv._tables) <= {r.request_id for r in scheduler.running}  # (23, 32)
        for request in scheduler.waiting:
            assert request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)  # (23)
        for request in scheduler.running:
            assert request.status is RequestStatus.RUNNING  # (23)
        for request in self.live.values():
            assert 0 <= request.num_computed_tokens < request.num_tokens  # (22)
            # (30)
            assert request.all_token_ids == request.prompt_token_ids + request.output_token_ids
            # (28)
            assert (
                request.output_token_ids
                == expected_outputs(request)[0][: len(request.output_token_ids)]
            )

    def drain(self) -> None:
        """Without arrivals: every request ends in time, and then nothing is left, in the CPU pool
        neither.
        """
        lengths = [r.num_prompt_tokens + r.sampling_params.max_tokens for r in self.live.values()]
        for _ in range(sum(lengths) * (2 + len(lengths))):
            if not self.live:
                break
            self.step()
        assert not self.live  # (25)
        super().drain()
        for owner in (self.scheduler, self.kv, getattr(self.kv, "connector", None)):
            for name, value in vars(owner).items() if owner else ():
                assert not value or not isinstance(value, dict) or name in CONSTANTS, (
                    f"{name} remembers somebody"
                )  # (34)
                if isinstance(value, HostMemoryPool):
                    assert value.num_free_blocks == value.num_blocks  # (34)


def is_allowed(variant: dict[str, Any], **options: Any) -> bool:
    try:
        PolicyWorld(Options(**options), variant)
    except InvalidParameterError:
        return False
    return True


@cache
def domains(variant_id: str) -> dict[str, tuple[Any, ...]]:
    """Of the options that all share, the values that this policy does not refuse."""
    variant = VARIANTS[variant_id]
    return {
        name: tuple(value for value in values if is_allowed(variant, **{name: value}))
        for name, values in (DOMAINS | CROWDED).items()
    }


def drive(variant_id: str, rng: random.Random, num_operations: int) -> PolicyWorld:
    """A crowded world at random, in which most run to their end; returns it when all is over."""
    drawn = {name: rng.choice(values) for name, values in domains(variant_id).items()}
    world = PolicyWorld(Options(**drawn), VARIANTS[variant_id])
    for _ in range(num_operations):
        operation = rng.random()
        if operation < 0.4 and len(world.live) < 6:
            salt, n = rng.choice(SALTS), rng.choice((1, 1, 2))
            world.add(
                random_prompt(rng),
                salt,
                rng.randint(4, 12),
                rng.randrange(3),
                rng.random() < 0.9,
                n,
            )
        elif operation < 0.95:
            world.step([rng.randrange(4)] if rng.random() < 0.1 else ())
        elif operation < 0.97:
            world.fail([rng.randrange(4)] if rng.random() < 0.3 else ())
        else:
            world.abort(rng.randrange(4))
    world.drain()
    return world


@the_other_ids_are_slow
def test_worlds_at_random_hold_the_laws_and_meet_what_they_are_about(variant_id: str) -> None:
    """The positive control: that many preemptions, and swaps and forks where the policy has
    them.
    """
    seen = sum((drive(variant_id, random.Random(seed), 60).seen for seed in range(8)), Counter())
    assert seen["preempted"] > 5
    assert seen["half-computed"] > 5
    assert bool(seen["swapped"]) == ("num_cpu_blocks" in VARIANTS[variant_id])
    assert bool(seen["forked"]) == variant_id.startswith("sequence_group")


@pytest.mark.parametrize(
    "variant_id",
    [
        pytest.param(each, marks=pytest.mark.nightly if "-" in each else pytest.mark.slow)
        for each in VARIANTS
    ],
)
def test_laws_of_every_policy_hold_for_long(variant_id: str) -> None:
    """30,000 operations each at night. The message has a failure's seed."""
    for seed in range(300 if NIGHTLY else 10):
        try:
            drive(variant_id, random.Random(seed), 100)
        except Exception as error:
            raise AssertionError(
                f"drive({variant_id!r}, random.Random({seed}), 100) breaks a law"
            ) from error


def inner_chunks(variant: dict[str, Any], seed: int) -> list[tuple[int, int]]:
    """All chunks [start, end) that do not catch up, of some prompts of any length, in a run that
    has to end.
    """
    rng = random.Random(seed)
    requests = [spec(f"r{i}", rng.randint(1, 40), 6, step=rng.randint(0, 9)) for i in range(8)]
    options = {
        "num_blocks": 20,
        "max_num_seqs": 5,
        "max_num_batched_tokens": rng.choice((1, 3, 7, 13, 22)),
    }
    options["long_prefill_token_threshold"] = rng.choice((0, 0, 2, 9))
    run, chunks = ScenarioRun(scenario(variant, requests, **options)), []
    for _ in range(1000):
        if run.is_done():
            return chunks
        output = run.run_step()
        for request_id, n in output.num_scheduled_tokens.items():
            start = run.recorder.steps[-1]["computed"][request_id]
            if request_id not in run.recorder.steps[-1]["sampled"]:
                chunks.append((start, start + n))
    raise AssertionError("it stalls")


@pytest.mark.parametrize(
    "variant", [v for v in VARIANTS.values() if "block_aligned_chunks" in v], ids=describe
)
def test_an_inner_chunk_ends_at_the_edge_of_a_block_if_it_reaches_one(
    variant: dict[str, Any],
) -> None:
    chunks = [chunk for seed in range(20) for chunk in inner_chunks(variant, seed)]
    assert all(end % 4 == 0 or start // 4 == end // 4 for start, end in chunks)
    assert sum(end % 4 == 0 for _, end in chunks) > 50
    plain = {name: value for name, value in variant.items() if name != "block_aligned_chunks"}
    assert any(
        end % 4 and start // 4 < end // 4
        for seed in range(20)
        for start, end in inner_chunks(plain, seed)
    )


class Watched(Request):
    """A request that tells when anybody looks at it."""

    touched: ClassVar[set[int]] = set()

    def __getattribute__(self, name: str) -> Any:
        Watched.touched.add(id(self))
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        Watched.touched.update((id(self), id(other)))
        return self is other

    __hash__ = object.__hash__


@pytest.mark.parametrize("short_of", ["places", "blocks", "tokens"])
@the_rest_is_slow
def test_a_step_looks_at_no_more_requests_than_run_however_many_wait(
    variant: dict[str, Any], short_of: str
) -> None:
    """Counted, not timed: benchmarks/bench_policy_host_cost.py has the times."""
    limits = {
        "places": {"max_num_seqs": 6},
        "blocks": {"num_blocks": 25},
        "tokens": {"max_num_batched_tokens": 12},
    }
    config = {"block_size": 4, "num_blocks": 4000, "max_num_seqs": 12, "max_num_batched_tokens": 50}
    scheduler = make_scheduler(config | limits[short_of] | variant)
    for i in range(300):
        params = SamplingParams(max_tokens=1 + i % 9)
        scheduler.add_request(
            Watched(f"r{i}", range(100 * i, 100 * i + 3 + i % 7), params, arrival_time=float(i))
        )
    for _ in range(20):
        Watched.touched.clear()
        output = Step.decide(scheduler).output
        most = max(len(scheduler.running), scheduler.max_num_seqs)
        assert len(Watched.touched) <= most + len(output.scheduled_requests) + 1
        sampled = {
            request.request_id: [7]
            for request in output.scheduled_requests
            if scheduler.needs_sample(request, output.num_scheduled_tokens[request.request_id])
        }
        scheduler.update_from_output(output, sampled)
    assert len(scheduler.waiting) > 100


# --- the same tokens ------------------------------------------------------------------------------

TEXTS = [
    [*range(40, 61), *range(70, 80)],
    [*range(40, 61), 7, 8, 9],
    [99, 98, 97],
    [*range(40, 61), *range(70, 80)],
    [*range(200, 219)],
]
EACH = [
    SamplingParams(temperature=0, max_tokens=14, ignore_eos=True),
    SamplingParams(temperature=1.2, seed=7, max_tokens=11, n=3, ignore_eos=True),
    SamplingParams(temperature=0.8, seed=1, max_tokens=17, ignore_eos=True),
    SamplingParams(temperature=1.0, seed=3, max_tokens=8, top_p=0.9, ignore_eos=True),
    SamplingParams(temperature=0, max_tokens=12, n=2, repetition_penalty=1.2, ignore_eos=True),
]


def generate(**config: Any) -> tuple[list[list[list[int]]], int]:
    """The tokens of every choice of every text, and how often a request was preempted."""
    options = {
        "dtype": "float32",
        "device": "cpu",
        "block_size": 4,
        "max_num_seqs": 6,
        "max_num_batched_tokens": 20,
    }
    llm = LLM("tiny", **(options | config))
    recorder = TraceRecorder(llm.engine.scheduler)
    llm.engine.listeners.append(recorder)
    outputs = llm.generate(TEXTS, EACH, use_progress=False)
    kv = llm.engine.scheduler.kv_cache_manager
    assert kv.num_free_blocks == kv.num_usable_blocks
    return [
        [list(choice.token_ids) for choice in output.outputs] for output in outputs
    ], recorder.totals["preemptions"]


@pytest.fixture(scope="module")
def expected_tokens() -> list[list[list[int]]]:
    """V1, one request at a time, with room for everything."""
    tokens, num_preemptions = generate(
        num_kv_blocks=200, max_num_seqs=1, enable_prefix_caching=False
    )
    assert not num_preemptions
    assert len({tuple(choice) for choice in tokens[1]}) == 3  # the choices differ
    return tokens


@the_rest_is_slow
def test_no_policy_changes_a_token(
    expected_tokens: list[list[list[int]]], variant: dict[str, Any]
) -> None:
    tokens, num_preemptions = generate(num_kv_blocks=21, **variant)
    assert tokens == expected_tokens
    assert num_preemptions


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_no_policy_changes_a_token_on_a_lattice(
    expected_tokens: list[list[list[int]]], variant: dict[str, Any]
) -> None:
    """A dozen points of the lattice for each variant, drawn by its name."""
    lattice = itertools.product(
        (1, 3, 4, 16), (3, 7, 16, 64), (112, 144, 400), (True, False), (0, 5), (True, False), (3, 6)
    )
    num_preemptions = 0
    for point in random.Random(str(variant)).sample(list(lattice), 12):
        block_size, budget, num_tokens, caching, threshold, reserve, max_num_seqs = point
        tokens, n = generate(
            num_kv_blocks=num_tokens // block_size + 2,
            block_size=block_size,
            max_num_batched_tokens=budget,
            enable_prefix_caching=caching,
            long_prefill_token_threshold=threshold,
            reserve_full_sequence=reserve,
            max_num_seqs=max_num_seqs,
            **variant,
        )
        assert tokens == expected_tokens, point
        num_preemptions += n
    assert num_preemptions


# --- traps 22 to 30; for V1 as it comes they are in mini_vllm/test_scheduler.py -------------------

beyond_v1 = pytest.mark.parametrize("variant_id", [name for name in VARIANTS if name != "v1"])


def spec(
    name: str, num_prompt_tokens: int, max_tokens: int, step: int = 0, **fields: Any
) -> dict[str, Any]:
    """A request whose prompt shares nothing, and which arrives at its step."""
    first = 1000 * (1 + sum(ord(c) * 31**i for i, c in enumerate(name)))
    prompt = list(range(first, first + num_prompt_tokens))
    times = {"arrival_step": step, "arrival_time": float(step)}
    return {
        "id": name,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "ignore_eos": True,
        **times,
        **fields,
    }


def scenario(
    variant: dict[str, Any], requests: Sequence[dict[str, Any]], **options: Any
) -> dict[str, Any]:
    """Room for everything, unless an option says otherwise."""
    config = {"block_size": 4, "num_blocks": 1000, "max_num_seqs": 64, "max_num_batched_tokens": 64}
    return {"name": "", "config": config | variant | options, "requests": list(requests)}


def token_steps(trace: dict[str, Any], request_id: str) -> list[int]:
    """The steps in which a request got a token."""
    return [record["step"] for record in trace["steps"] if request_id in record["sampled"]]


def stream_among_arrivals(variant_id: str) -> list[int]:
    """When a stream gets tokens, while in each of the next 40 steps a prompt of 16 tokens arrives,
    which fits.
    """
    arrivals = [spec(f"r{i}", 16, 2, step=i) for i in range(1, 41)]
    trace = run_trace(scenario(VARIANTS[variant_id], [spec("stream", 16, 100), *arrivals]))
    return [step for step in token_steps(trace, "stream") if step <= 40]


@pytest.mark.parametrize(
    "variant_id", [v for v in VARIANTS if VARIANTS[v]["scheduler"] not in STARVES_DECODES]
)
def test_trap_22_arrivals_do_not_starve_those_who_run(variant_id: str) -> None:
    assert stream_among_arrivals(variant_id) == list(range(41))


@pytest.mark.parametrize(
    "variant_id", [v for v in VARIANTS if VARIANTS[v]["scheduler"] in STARVES_DECODES]
)
def test_trap_22_a_policy_of_prefills_first_starves_decodes_by_design(variant_id: str) -> None:
    """As nano-vllm does: one token, which its own prefill gave it, and then none in 40 steps."""
    assert stream_among_arrivals(variant_id) == [0]


@pytest.mark.parametrize("comes_back", [False, True])
@the_other_ids_are_slow
def test_a_half_computed_request_goes_on_before_12_newcomers(
    variant_id: str, comes_back: bool
) -> None:
    """One token is left to compute, of a prompt of 9 or, after a preemption, of 4 and 5 that it had
    sampled.
    """
    options = Options(
        num_blocks=400, max_num_seqs=64, max_num_batched_tokens=8, enable_prefix_caching=False
    )
    world = PolicyWorld(options, VARIANTS[variant_id])
    world.add([0, 1, 0, 1, 0, 1, 0, 1, 0][: 4 if comes_back else 9], None, 20, 0, ignore_eos=True)
    (half,) = world.live.values()
    while half.num_tokens < 9:
        world.step()
    if comes_back:
        world.fail()
    world.step()
    assert (half.num_tokens, half.num_computed_tokens) == (9, 8)
    for i in range(12):
        world.add([1, 1, 0, 0, 1, 1, 0, 0], None, 2, 0, ignore_eos=True)
        got = world.step()
        assert i or half in got, "a newcomer went before it"
    world.drain()


def crowd(variant_id: str, **options: Any) -> PolicyWorld:
    """Two requests and the two choices of a third, with room for all."""
    defaults = {"num_blocks": 40, "max_num_seqs": 4, "max_num_batched_tokens": 7}
    world = PolicyWorld(Options(**(defaults | options)), VARIANTS[variant_id])
    world.add([0, 1, 0, 0, 1, 1, 0, 1, 1], None, 6, 0, ignore_eos=True)
    world.add([0, 1, 0, 0, 1], None, 4, 0, ignore_eos=True)
    world.add([1, 1, 1], None, 5, 0, ignore_eos=True, n=2)
    return world


@the_other_ids_are_slow
def test_trap_23_24_everybody_preempted_at_any_step_changes_no_output(variant_id: str) -> None:
    """The world compares contents and outputs. A request that comes back with outputs samples each
    token once.
    """
    for when in itertools.count():
        world = crowd(variant_id)
        num_tokens: Counter[str] = Counter()
        for _ in range(when):
            num_tokens.update(request.request_id for request in world.step())
        if not world.live:
            break
        world.fail()
        while world.live:
            num_tokens.update(request.request_id for request in world.step())
        assert num_tokens == {"r0.0": 6, "r1.0": 4, "r2.0": 5, "r2.1": 5}, when
        world.drain()
    assert when >= 7


@beyond_v1
@pytest.mark.parametrize("chunk", [1, 2, 3, 9, 10])
def test_trap_25_a_prompt_in_chunks_samples_once(variant_id: str, chunk: int) -> None:
    world = PolicyWorld(Options(max_num_batched_tokens=chunk, num_blocks=20), VARIANTS[variant_id])
    world.add([0, 1, 0, 0, 1, 1, 0, 1, 1, 0], None, 1, 0)
    sampling = []
    while world.live:
        sampling.append(len(world.step()))
    size = world.kv.block_size if "block_aligned_chunks" in variant_id else 1
    assert sampling == [0] * (-(-10 // max(chunk // size * size, 1)) - 1) + [1]


@beyond_v1
@pytest.mark.parametrize(("num_prompt_tokens", "max_tokens"), [(1, 1), (8, 3), (9, 1), (15, 7)])
def test_trap_26_a_request_alone_ends_within_its_steps(
    variant_id: str, num_prompt_tokens: int, max_tokens: int
) -> None:
    request = spec("a", num_prompt_tokens, max_tokens)
    trace = run_trace(scenario(VARIANTS[variant_id], [request], max_num_batched_tokens=4))
    assert trace["totals"]["steps"] == -(-num_prompt_tokens // 4) + max_tokens - 1
    assert len(trace["outputs"]["a"]) == max_tokens


@beyond_v1
@pytest.mark.parametrize("seed", range(2))
def test_trap_27_what_is_scheduled_is_executed_though_some_are_preempted_in_the_step(
    variant_id: str, seed: int
) -> None:
    rng = random.Random(seed)
    requests = [
        spec(f"r{i}", rng.randint(1, 12), 12, step=rng.randint(0, 9), priority=-i) for i in range(8)
    ]
    policy = "priority" if "priority" in domains(variant_id)["policy"] else "fcfs"
    options = {
        "num_blocks": 14,
        "block_size": 2,
        "max_num_seqs": 5,
        "max_num_batched_tokens": 9,
        "policy": policy,
    }
    run = ScenarioRun(scenario(VARIANTS[variant_id], requests, **options))
    num_preemptions = 0
    while not run.is_done():
        before = {name: request.num_computed_tokens for name, request in run.requests.items()}
        output = run.run_step()
        held = {r.request_id: r.num_computed_tokens for r in output.scheduled_requests}
        for request_id, n in output.num_scheduled_tokens.items():
            head_start = run.recorder.steps[-1]["computed"][request_id]
            assert head_start + n == held[request_id]
            assert head_start >= before.get(request_id, 0)
        assert output.total_num_scheduled_tokens <= 9
        num_preemptions += len(output.preempted_req_ids)
    assert num_preemptions


@beyond_v1
@pytest.mark.parametrize("enable_prefix_caching", [True, False])
def test_trap_28_two_requests_and_room_for_one_and_a_half(
    variant_id: str, enable_prefix_caching: bool
) -> None:
    requests = [spec("a", 8, 16), spec("b", 8, 16)]
    options = {"num_blocks": 10, "enable_prefix_caching": enable_prefix_caching}
    trace = run_trace(scenario(VARIANTS[variant_id], requests, **options), max_steps=100)
    assert trace["totals"]["steps"] <= 2 * (1 + 16)  # never more than one after the other
    preempted = [
        request_id for record in trace["steps"] for request_id in record.get("preempted", ())
    ]
    assert set(preempted) == {"b"}
    assert len(preempted) <= 3


@pytest.mark.parametrize(
    "variant_id", [v for v in VARIANTS if v != "v1" and is_allowed(VARIANTS[v], policy="priority")]
)
def test_trap_29_the_victim_is_the_least_urgent(variant_id: str) -> None:
    num_victims = 0
    for seed in range(10):
        rng = random.Random(seed)
        requests = [
            spec(
                f"r{i}",
                rng.randint(1, 12),
                12,
                step=rng.randint(0, 9),
                arrival_time=float(i),
                priority=rng.randrange(3),
            )
            for i in range(8)
        ]
        options = {
            "num_blocks": 14,
            "block_size": 2,
            "max_num_seqs": 5,
            "max_num_batched_tokens": 9,
        }
        run = ScenarioRun(scenario(VARIANTS[variant_id], requests, policy="priority", **options))
        while not run.is_done():
            before = list(run.scheduler.running)
            output = run.run_step()
            victims = [run.requests[request_id] for request_id in output.preempted_req_ids]
            stayed = [request for request in before if request not in victims]
            for victim in victims if stayed else ():
                assert urgency(victim) > max(map(urgency, stayed))
            num_victims += len(victims)
    assert num_victims > 10


@the_other_ids_are_slow
@pytest.mark.parametrize("reserve", [True, False])
def test_trap_30_a_big_request_is_admitted_though_small_ones_keep_arriving(
    variant_id: str, reserve: bool
) -> None:
    """It needs three quarters of the pool, which is full of small ones as long as it is not
    there.
    """
    small = [spec(f"r{i}", 4, 6, step=i) for i in range(80)]
    options = {"num_blocks": 17, "max_num_seqs": 8, "scheduler_reserve_full_isl": reserve}
    trace = run_trace(
        scenario(VARIANTS[variant_id], [*small, spec("big", 48, 3, step=20)], **options)
    )
    first = token_steps(trace, "big")[0]
    num_ahead = sum(
        not steps or steps[-1] > 20 for steps in (token_steps(trace, f"r{i}") for i in range(21))
    )
    # it waits for those before it at most, and they for one another
    assert first <= 20 + 7 * (num_ahead + 1)
    assert first < token_steps(trace, "r79")[0]


# --- options --------------------------------------------------------------------------------------

SIZES = {"num_blocks": 9, "block_size": 2, "max_num_seqs": 3, "max_num_batched_tokens": 8}


@dataclasses.dataclass(eq=False, kw_only=True)
class ScoringManager(KVCacheManager):
    """One from outside, with an option of its own."""

    decay: float = 0.5


@dataclasses.dataclass(eq=False, kw_only=True)
class ScoringScheduler(Scheduler):
    """One from outside, with an option of its own."""

    kv_cache_manager_cls = ScoringManager
    greed: int = 1


@dataclasses.dataclass
class PlainScheduler:
    """A class of the contract's names only, which inherits nothing and names the options that it
    takes.
    """

    kv_cache_manager_cls: ClassVar = KVCacheManager
    kv_cache_manager: KVCacheManager = dataclasses.field(metadata=PART)
    max_num_seqs: int
    max_num_batched_tokens: int


def test_an_option_is_a_field_and_arrives() -> None:
    options = {**SIZES, "decay": 0.25, "greed": 3, "watermark": 0.2, "model": "nobody's option"}
    scheduler = make_scheduler(options, scheduler_cls=ScoringScheduler)
    assert isinstance(scheduler, ScoringScheduler)
    assert isinstance(scheduler.kv_cache_manager, ScoringManager)
    assert (scheduler.greed, scheduler.kv_cache_manager.decay, scheduler.watermark) == (
        3,
        0.25,
        0.2,
    )
    described = describe_config(scheduler)
    assert (described["greed"], described["decay"], described["watermark"]) == (3, 0.25, 0.2)
    again = make_scheduler(described, scheduler_cls=ScoringScheduler)
    assert describe_config(again) == described


@every_variant
def test_what_is_described_makes_the_same_scheduler(variant: dict[str, Any]) -> None:
    scheduler = make_scheduler({**SIZES, **variant, "scheduler_reserve_full_isl": False})
    config = describe_config(scheduler)
    assert config == {**config, **{name: value for name, value in variant.items() if value != "v1"}}
    again = make_scheduler(config)
    assert (type(again), describe_config(again)) == (type(scheduler), config)
    assert not again.reserve_full_sequence


def test_an_option_that_a_class_has_not_is_refused_unless_it_says_the_default() -> None:
    for name, options in (
        ("v1", {"charge_cached_tokens": True}),
        ("v1", {"num_cpu_blocks": 6}),
        ("sequence_group", {"preemption_mode": "swap"}),
        ("sequence_group", {"block_aligned_chunks": True}),
    ):
        (option,) = options
        with pytest.raises(InvalidParameterError, match=f"has no option {option}, got"):
            make_scheduler({**SIZES, "scheduler": name, **options})
    defaults = {
        "charge_cached_tokens": False,
        "preemption_mode": "recompute",
        "num_cpu_blocks": 0,
        "watermark": 0.0,
    }
    plain: Any = PlainScheduler
    made: Any = make_scheduler({**SIZES, **defaults}, scheduler_cls=plain)
    assert (made.kv_cache_manager.num_blocks, made.max_num_seqs, made.max_num_batched_tokens) == (
        9,
        3,
        8,
    )
    with pytest.raises(
        InvalidParameterError,
        match=r"PlainScheduler with KVCacheManager has no option watermark, got 0\.1",
    ):
        make_scheduler({**SIZES, "watermark": 0.1}, scheduler_cls=plain)


class OneAtATime(SchedulerInterface):
    """A policy from outside on the interface alone: the first in line is computed to its end."""

    def _enqueue(self, request: Request) -> None:
        self.waiting.append(request)

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        if self.waiting and not self.running:
            self.running.append(self.waiting.popleft())
            self.running[0].status = RequestStatus.RUNNING
        for request in self.running:
            n = min(request.num_tokens - request.num_computed_tokens, self.max_num_batched_tokens)
            assert self.kv_cache_manager.allocate_slots(request, n) is not None
            output.add(request, n)
        return output

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        return request.num_computed_tokens + num_scheduled == request.num_tokens

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        for request in output.scheduled_requests:
            request.num_computed_tokens += output.num_scheduled_tokens[request.request_id]
            for token_id in sampled_token_ids.get(request.request_id, ()):
                request.append_output_token(token_id)
                if request.maybe_finish():
                    self.kv_cache_manager.free(self._requests.pop(request.request_id))
                    self.running.remove(request)
        return [request for request in output.scheduled_requests if request.is_finished]

    def fail_step(self, output: SchedulerOutput) -> None:
        raise NotImplementedError


def test_a_policy_on_the_interface_alone_can_be_traced() -> None:
    """It is not asked for what only V1 has: those options are not described, and refused unless
    they say the default."""
    config = {**SIZES, "vocab_size": 7, "watermark": 0.2, "long_prefill_token_threshold": 0}
    scenario = {"config": config, "requests": [spec("a", 11, 4), spec("b", 3, 2, 1)]}
    trace = run_trace(scenario, scheduler_cls=OneAtATime)
    assert [dict(step["sched"]) for step in trace["steps"]] == [
        *({"a": 8}, {"a": 3}, {"a": 1}, {"a": 1}, {"a": 1}),
        *({"b": 3}, {"b": 1}),
    ]
    assert trace["outputs"] == run_trace(scenario)["outputs"]
    described = describe_config(make_scheduler(config, scheduler_cls=OneAtATime))
    assert described["watermark"] == 0.2
    assert {"long_prefill_token_threshold", "scheduler_reserve_full_isl"}.isdisjoint(described)
    with pytest.raises(
        InvalidParameterError,
        match="OneAtATime with KVCacheManager has no option reserve_full_sequence",
    ):
        make_scheduler({**config, "reserve_full_sequence": False}, scheduler_cls=OneAtATime)


def test_the_engines_configuration_holds_every_option_of_the_family() -> None:
    """An option that a user is to set on an engine needs a field there; the engine itself names
    none.
    """
    fields = {field.name for field in dataclasses.fields(EngineConfig)}
    assert all_options().keys() - fields == {"num_blocks"}  # the engine says how many
    defaults = {field.name: field.default for field in dataclasses.fields(EngineConfig)}
    differing = {
        name: (default, defaults[name])
        for name, default in all_options().items()
        if name in defaults and default is not dataclasses.MISSING and default != defaults[name]
    }
    # None: the engine says how many, from the memory it has
    assert differing == {"num_cpu_blocks": (0, None)}


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("bad", ["an id in flight", "an id twice", "too long"])
def test_a_group_is_queued_whole_or_not_at_all(name: str, bad: str) -> None:
    scheduler = make_scheduler({**SIZES, "scheduler": name})
    params = SamplingParams(max_tokens=2)
    scheduler.add_request(Request("there", [1], params))
    second = {
        "an id in flight": Request("there", [1, 2], params),
        "an id twice": Request("first", [1, 2], params),
        "too long": Request("second", [1] * 1000, params),
    }[bad]
    with pytest.raises(RequestRefusedError):
        scheduler.add_group([Request("first", [1, 2], params), second])
    assert [request.request_id for request in scheduler.waiting] == ["there"]
    scheduler.add_group([Request("first", [1, 2], params)])  # nothing is left of it
    assert len(scheduler.waiting) == 2
