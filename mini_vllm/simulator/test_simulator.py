"""The simulator decides as the engine's loop does, finds the prefixes that an LRU cache would, and
forgets nobody.
"""

import gc
import tracemalloc
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count, groupby, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.errors import InvalidParameterError, SchedulerStalledError
from mini_vllm.load.workload import HASH_BLOCK_SIZE, TraceRequest, lognormal_lengths, synthetic
from mini_vllm.observe.trace import run_trace
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerInterface, SchedulerOutput
from mini_vllm.scheduler_interface import Part
from mini_vllm.simulator import replica, sim_request
from mini_vllm.simulator.fleet import ROUTINGS, policy_config, policy_names, prefix_aware, simulate
from mini_vllm.simulator.metrics import SLO, Metrics
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.sim_request import SimRequest, block_names
from mini_vllm.simulator.step_time import StepTimeModel

ONE_SECOND = StepTimeModel((1.0, 0, 0, 0, 0, 0))
SMALL = {  # without chunked prefill a step must hold the longest request
    "block_size": 4,
    "num_blocks": 13,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 48,
    "max_model_len": 40,
}
PER_ID = 8  # tokens of a hash id in these tests


@pytest.fixture(autouse=True)
def schedulers(monkeypatch: pytest.MonkeyPatch) -> list[SchedulerInterface]:
    """Every scheduler that a test simulates; each keeps the outputs of its steps in `seen`."""
    made: list[Any] = []
    make_scheduler = replica.make_scheduler

    def make(config: Any, **classes: Any) -> SchedulerInterface:
        scheduler: Any = make_scheduler(config, **classes)
        schedule, scheduler.seen = scheduler.schedule, []

        def watched() -> SchedulerOutput:
            output = schedule()
            scheduler.seen.append([list(item) for item in output.num_scheduled_tokens.items()])
            return output

        scheduler.schedule = watched
        made.append(scheduler)
        return scheduler

    monkeypatch.setattr(replica, "make_scheduler", make)
    return made


def as_scenario(trace: Sequence[TraceRequest], config: dict[str, Any]) -> dict[str, Any]:
    """The same arrivals with real tokens, a step a second."""
    return {
        "config": config,
        "requests": [
            {
                "id": str(index),
                "arrival_step": spec.arrival_time,
                "arrival_time": spec.arrival_time,
                # A hash id covers all before it, so it alone names the tokens of its part.
                "prompt": [
                    1000 * spec.hash_ids[i // PER_ID] + i if spec.hash_ids else -index
                    for i in range(length)
                ],
                "max_tokens": spec.output_length,
                "ignore_eos": True,
                "sample_seed": index,
            }
            for index, spec in enumerate(trace)
            for length in [spec.input_length]
        ],
    }


@st.composite
def traces(draw: st.DrawFn) -> list[TraceRequest]:
    """Arrivals at whole seconds; a prompt follows one of three chains of hash ids, and leaves it
    for ids of its own.
    """
    time, trace = 0, []
    for index in range(draw(st.integers(1, 10))):
        time += draw(st.sampled_from([0, 0, 0, 1, 5, 60]))
        input_length, shared = draw(st.integers(1, 30)), draw(st.integers(0, 4))
        chain = 10 * draw(st.integers(1, 3))
        ids = [
            chain + i if i < shared else 100 + 10 * index + i
            for i in range(-(-input_length // PER_ID))
        ]
        trace.append(TraceRequest(time, input_length, draw(st.integers(1, 12)), tuple(ids)))
    return trace


@pytest.mark.parametrize(
    "policy",
    [
        "v1",
        *(pytest.param(name, marks=pytest.mark.slow) for name in policy_names() if name != "v1"),
    ],
)
def test_every_decision_is_that_of_the_engines_loop(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim_request, "HASH_BLOCK_SIZE", PER_ID)
    config = policy_config(policy, SMALL)

    @settings(derandomize=True, database=None, deadline=None, max_examples=25)
    @given(traces())
    def check(trace: list[TraceRequest]) -> None:
        made: list[Any] = []
        with pytest.MonkeyPatch.context() as patch:
            make = replica.make_scheduler
            patch.setattr(
                replica, "make_scheduler", lambda config: made.append(make(config)) or made[-1]
            )
            report = simulate(trace, config, ONE_SECOND).report
        real = run_trace(as_scenario(trace, config))
        assert made[0].seen == [step["sched"] for step in real["steps"]]
        assert report["prefix_hits"] == real["totals"]["prefix_hits"]
        assert report["preemptions"] == real["totals"]["preemptions"]
        assert report["output_tokens"] == sum(map(len, real["outputs"].values()))
        times: dict[str, list[int]] = {}
        for step in real["steps"]:
            for request_id in step["sampled"]:
                times.setdefault(request_id, []).append(step["step"] + 1)
        first = [times[str(i)][0] - spec.arrival_time for i, spec in enumerate(trace)]
        assert report["ttft"]["mean"] == pytest.approx(sum(first) / len(first))
        gaps = sorted(b - a for each in times.values() for a, b in pairwise(each))
        if gaps:
            assert report["itl"]["mean"] == pytest.approx(sum(gaps) / len(gaps))
            assert report["itl"]["p50"] == pytest.approx(gaps[-(-len(gaps) // 2) - 1], rel=0.006)
        assert report["makespan"] == max(each[-1] for each in times.values())
        kv = made[0].kv_cache_manager
        assert kv.num_free_blocks == kv.num_usable_blocks

    check()


# --- the prefix cache -----------------------------------------------------------------------------


def lru_hits(trace: Sequence[TraceRequest], block_size: int, capacity: int) -> tuple[int, int]:
    """Prompt tokens that an LRU cache of `capacity` blocks and an infinite one find, one request
    after the other.

    What the pool does then is LRU: a request takes its hits out of the free queue, takes what else
    it needs from the queue's front, and at its end puts its blocks at the back, tail first, so that
    within one request the head counts as used last. Its partial block goes to the front: it holds a
    place while the request runs, and none afterwards. The last token is never looked up, nor is the
    last output token ever computed.
    """
    cache: OrderedDict[object, None] = OrderedDict()
    seen: set[object] = set()
    found = found_in_all = 0
    for index, spec in enumerate(trace):
        per_id = HASH_BLOCK_SIZE // block_size
        num_known = spec.input_length // block_size
        names: list[object] = [(h, i) for h in spec.hash_ids for i in range(per_id)][:num_known]
        num_tokens = spec.input_length + spec.output_length - 1
        names += [("own", index, i) for i in range(len(names), num_tokens // block_size)]
        findable = names[: (spec.input_length - 1) // block_size]
        num_hits = next((i for i, name in enumerate(findable) if name not in cache), len(findable))
        found += num_hits * block_size
        found_in_all += (
            next((i for i, name in enumerate(findable) if name not in seen), len(findable))
            * block_size
        )
        for name in names[:num_hits]:
            cache.move_to_end(name)
        needed = -(-num_tokens // block_size) - num_hits
        while len(cache) + needed > capacity:
            cache.popitem(last=False)
        for name in reversed(names):
            cache[name] = None
            cache.move_to_end(name)
        seen.update(names)
    return found, found_in_all


def conversations(num_requests: int, seed: int = 0) -> list[TraceRequest]:
    """Turns of conversations that grow, on four system prompts; 1,000 s apart, so that each ends
    before the next.
    """
    rng = Random(seed)
    chains: list[list[int]] = [[i] for i in range(4)]
    fresh, trace = 100, []
    for index in range(num_requests):
        chain = list(rng.choice(chains))
        del chain[8:]
        for _ in range(rng.randint(1, 3)):
            chain.append(fresh := fresh + 1)
        chains.append(chain)
        length = HASH_BLOCK_SIZE * len(chain) - rng.choice([0, 1, 17, HASH_BLOCK_SIZE - 1])
        trace.append(
            TraceRequest(
                1000.0 * index,
                length,
                rng.choice([1, 30, 64, 65, 500 if index % 8 == 0 else 40]),
                tuple(chain),
            )
        )
        if len(chains) > 24:
            del chains[4 + rng.randrange(4)]
    return trace


@pytest.mark.parametrize(
    ("block_size", "num_blocks"), [(512, 30), (512, 60), (128, 200), (64, 20_000)]
)
@pytest.mark.slow
def test_hits_of_requests_one_by_one_are_those_of_an_lru_cache(
    block_size: int, num_blocks: int
) -> None:
    trace = conversations(150)
    config = {
        "block_size": block_size,
        "num_blocks": num_blocks,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 8192,
    }
    report = simulate(trace, config, StepTimeModel((0.01, 0, 0, 0, 0, 0))).report
    hits, bound = lru_hits(trace, block_size, num_blocks - 1)
    assert report["refused"] == 0
    assert report["prefix_queries"] == sum(spec.input_length for spec in trace)
    assert 0 < report["prefix_hits"] == pytest.approx(hits, rel=1e-3)
    assert report["prefix_hits"] <= bound
    # The settings are such that the cache matters.
    assert hits < 0.99 * bound or num_blocks == 20_000
    assert hits == bound or num_blocks < 20_000


def test_requests_at_once_never_find_more_than_an_infinite_cache() -> None:
    trace = [
        spec._replace(arrival_time=spec.arrival_time / 1e4) for spec in conversations(150, seed=1)
    ]
    config = {
        "block_size": 128,
        "num_blocks": 600,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 4096,
    }
    report = simulate(trace, config, StepTimeModel((0.01, 0, 0, 0, 0, 0))).report
    assert 0 < report["prefix_hits"] <= lru_hits(trace, 128, 1 << 30)[1]


def test_names_are_equal_where_prompts_are() -> None:
    a = block_names(0, TraceRequest(0, 1200, 500, (7, 8, 9)), 128)
    b = block_names(1, TraceRequest(0, 1030, 5, (7, 8, 11)), 128)
    assert len(a) == (1200 + 500) // 128
    assert a[:8] == b[:8]
    assert not set(a[8:]) & set(b[8:])
    assert block_names(2, TraceRequest(0, 1200, 500), 128) == block_names(
        2, TraceRequest(5, 1200, 500), 128
    )
    assert not set(block_names(2, TraceRequest(0, 1200, 500), 128)) & set(
        block_names(3, TraceRequest(0, 1200, 1), 128)
    )


def test_a_block_size_that_does_not_divide_a_hash_block_is_refused() -> None:
    config = {"block_size": 48, "num_blocks": 99, "max_num_seqs": 1, "max_num_batched_tokens": 64}
    with pytest.raises(InvalidParameterError, match="must divide the trace's 512, got 48"):
        simulate([TraceRequest(0, 600, 1, (1, 2))], config, ONE_SECOND)


# --- policies, memory, failure --------------------------------------------------------------------


@pytest.mark.parametrize("policy", policy_names())
def test_every_policy_serves_everybody_under_pressure(policy: str, schedulers: list[Any]) -> None:
    config = policy_config(policy, SMALL | {"num_blocks": 17, "max_num_seqs": 8})
    trace = list(synthetic(1.0, 150, lognormal_lengths(14, 12, 0.3), burstiness=0.3))
    report = simulate(trace, config, StepTimeModel((0.1, 0, 0, 0, 0, 0.001))).report
    assert (report["requests"], report["refused"]) == (150, 0)
    assert report["kv_cache_usage"]["peak"] > 0.8
    kv = schedulers[0].kv_cache_manager
    assert kv.num_free_blocks == kv.num_usable_blocks


def test_swapped_blocks_take_their_time() -> None:
    config = policy_config("v1+swap", SMALL | {"num_blocks": 17, "max_num_seqs": 8})
    trace = list(synthetic(9.0, 60, lognormal_lengths(14, 16, 0.2)))
    runs = [
        simulate(trace, config, StepTimeModel((0.1, 0, 0, 0, 0, cost))).report
        for cost in (0.0, 10.0)
    ]
    assert runs[0]["copied_blocks"] > 0 < runs[0]["preemptions"]
    assert runs[1]["makespan"] - runs[0]["makespan"] > 5.0 * runs[1]["copied_blocks"] > 0


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="got 'v2'"):
        policy_config("v2", SMALL)
    with pytest.raises(InvalidParameterError, match="got 'v1\\+magic'"):
        policy_config("v1+magic", SMALL)


def peak_memory(num_requests: int) -> int:
    config = {"block_size": 16, "num_blocks": 400, "max_num_seqs": 8, "max_num_batched_tokens": 512}
    trace = synthetic(4.0, num_requests, lognormal_lengths(200, 10, 0.5))
    gc.collect()
    tracemalloc.start()
    simulate(trace, config, StepTimeModel((0.01, 0, 0, 0, 0, 0)), num_replicas=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the watch over decisions would grow
    peak_memory(50)
    assert peak_memory(400) < 1.3 * peak_memory(200)


def test_a_scheduler_that_gets_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "schedule", lambda self: SchedulerOutput())
    with pytest.raises(SchedulerStalledError):
        simulate([TraceRequest(0, 4, 1)], SMALL, ONE_SECOND)


# --- fleets ---------------------------------------------------------------------------------------

FLEET = {"block_size": 64, "num_blocks": 400, "max_num_seqs": 16, "max_num_batched_tokens": 2048}
STEPS = StepTimeModel((0.005, 0, 1e-5, 0, 0, 0))


def run_fleet(trace: Sequence[TraceRequest], routing: str, num_replicas: int = 4) -> dict[str, Any]:
    return simulate(
        trace, FLEET, STEPS, num_replicas=num_replicas, routing=routing, slo=SLO(1.0, 0.1)
    ).report


def busy_conversations() -> list[TraceRequest]:
    return [
        spec._replace(arrival_time=spec.arrival_time / 20_000)
        for spec in conversations(120, seed=2)
    ]


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.slow
def test_a_fleet_serves_everybody_and_one_replica_is_no_fleet(routing: str) -> None:
    trace = busy_conversations()
    assert run_fleet(trace, routing)["requests"] == 120
    assert run_fleet(trace, routing, 1) == run_fleet(trace, "round_robin", 1)


@pytest.mark.slow
def test_round_robin_takes_turns(schedulers: list[Any]) -> None:
    run_fleet(busy_conversations(), "round_robin")
    served = [
        {int(name) % 4 for step in scheduler.seen for name, _ in step} for scheduler in schedulers
    ]
    assert served == [{0}, {1}, {2}, {3}]


def test_the_least_loaded_replica_gets_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
        chosen = route(replicas, request, index)
        live = [sum(r.num_tokens for r in each.scheduler._requests.values()) for each in replicas]
        assert [each.num_live_tokens for each in replicas] == live
        seen.append(live[replicas.index(chosen)] == min(live))
        return chosen

    route = ROUTINGS["least_loaded"]
    monkeypatch.setitem(ROUTINGS, "least_loaded", watched)
    run_fleet(busy_conversations(), "least_loaded")
    assert all(seen)


@pytest.mark.slow
def test_prefixes_draw_requests_to_where_they_are() -> None:
    trace = busy_conversations()
    hits = {routing: run_fleet(trace, routing)["prefix_hit_rate"] for routing in ROUTINGS}
    assert hits["prefix_aware"] > 1.2 * max(hits["round_robin"], hits["least_loaded"])


def idle_replicas(num_replicas: int) -> list[Replica]:
    metrics = Metrics(SLO())
    return [Replica(FLEET, STEPS, metrics, is_first=False) for _ in range(num_replicas)]


class Listening(Part):
    """Notes that it is asked."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def before_schedule(self, scheduler: SchedulerInterface) -> None:
        self.told.append("before")

    def ended(self, request: Request) -> None:
        self.told.append(request.request_id)


def test_a_replica_asks_the_parts_of_its_scheduler_as_an_engine_does() -> None:
    (replica,), part = idle_replicas(1), Listening()
    replica.scheduler.attach(part)
    request = of_prefix(0)
    replica.add(request)
    num_steps = 0
    while replica.scheduler.has_unfinished_requests():
        replica.step()
        num_steps += 1
    assert part.told == ["before"] * num_steps + [request.request_id]


def of_prefix(index: int, num_tokens: int = 1100) -> SimRequest:
    return SimRequest(
        index, TraceRequest(0.0, num_tokens, 40, tuple(range(1, num_tokens // 512 + 2))), 64
    )


def of_others(index: int) -> SimRequest:
    return SimRequest(index, TraceRequest(0.0, 70, 40, (99,)), 64)


def test_a_prefix_draws_only_if_it_is_most_of_the_prompt() -> None:
    replicas = idle_replicas(2)
    replicas[0].add(of_prefix(0))
    replicas[1].add(of_others(3))
    replicas[0].run_until(0.001)
    assert prefix_aware(replicas, of_prefix(1), 1) is replicas[0]
    for num_tokens, chosen in ((3500, 0), (3700, 1)):  # 1,088 of them are cached: 31 %, 29 %
        assert prefix_aware(replicas, of_prefix(2, num_tokens), 2) is replicas[chosen]


@pytest.mark.slow
def test_a_prefix_draws_nobody_when_the_loads_are_out_of_balance() -> None:
    replicas = idle_replicas(2)
    for index, each in enumerate(replicas):
        each.add(of_others(index))
    replicas[0].add(of_prefix(3))
    replicas[0].run_until(0.001)
    index = 4
    while replicas[0].num_requests - replicas[1].num_requests <= 64:
        assert prefix_aware(replicas, of_prefix(index), index) is replicas[0]
        replicas[0].add(of_prefix(index))
        index += 1
    assert prefix_aware(replicas, of_prefix(index), index) is replicas[1]


def test_no_prompt_queues_for_its_prefix_while_a_replica_is_idle() -> None:
    replicas = idle_replicas(2)
    replicas[0].add(of_prefix(0))
    replicas[1].add(of_others(1))
    replicas[0].run_until(0.001)
    replicas[1].run_until(10.0)
    assert not replicas[1].num_requests
    assert prefix_aware(replicas, of_prefix(2), 2) is replicas[0]
    replicas[0].add(of_prefix(2))
    assert replicas[0].scheduler.waiting
    assert prefix_aware(replicas, of_prefix(3), 3) is replicas[1]


def test_a_replica_without_a_cache_gets_a_prompt_whose_prefix_is_busy_elsewhere() -> None:
    replicas = idle_replicas(2)
    replicas[0].add(of_prefix(0))
    replicas[0].run_until(0.001)
    assert prefix_aware(replicas, of_prefix(1), 1) is replicas[1]
    replicas[0].run_until(10.0)
    assert prefix_aware(replicas, of_prefix(1), 1) is replicas[0]


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_no_replica_starves(routing: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversations that begin with the same system prompt of one block: one hit must not draw them
    all together.
    """
    served: list[Replica] = []
    route = ROUTINGS[routing]

    def watched(replicas: Sequence[Replica], request: SimRequest, index: int) -> Replica:
        served.append(route(replicas, request, index))
        return served[-1]

    monkeypatch.setitem(ROUTINGS, routing, watched)
    trace = [
        spec._replace(arrival_time=spec.arrival_time / 50_000, hash_ids=(0, *spec.hash_ids[1:]))
        for spec in conversations(400, seed=seed)
    ]
    run_fleet(trace, routing)
    counts = sorted(map(served.count, set(served)))
    assert len(counts) == 4, "a replica got nothing"
    assert counts[0] > 0.5 * len(trace) / 4, counts


def one_system_prompt(num_conversations: int, rate: float) -> list[TraceRequest]:
    """Conversations of four turns, 10 s apart on average. All begin with the same 8,192 tokens."""
    rng, trace, start, fresh = Random(0), [], 0.0, count(16)
    for _ in range(num_conversations):
        start += rng.expovariate(rate / 4)
        time, ids = start, list(range(16))
        for _ in range(4):
            ids += [next(fresh), next(fresh)]
            trace.append(TraceRequest(time, HASH_BLOCK_SIZE * len(ids), 128, tuple(ids)))
            time += rng.expovariate(0.1)
    return sorted(trace)


@pytest.mark.slow
def test_a_long_prefix_of_all_prompts_leaves_no_replica_unused() -> None:
    """The load is light: no replica is ever 64 requests ahead of another one."""
    trace, config = one_system_prompt(60, 8), {**FLEET, "num_blocks": 4000, "max_num_seqs": 256}
    steps = StepTimeModel((0.005, 0, 2e-5, 0, 0, 0))
    reports = {
        routing: simulate(trace, config, steps, num_replicas=8, routing=routing).report
        for routing in ("prefix_aware", "round_robin")
    }
    served = reports["prefix_aware"]["requests_per_replica"]
    assert sum(served) == len(trace)
    assert len(served) == 8
    assert min(served) > 0, served
    assert (
        reports["prefix_aware"]["prefix_hit_rate"]
        > 1.05 * reports["round_robin"]["prefix_hit_rate"]
    )


def test_two_replicas_that_share_nothing_are_two_engines() -> None:
    trace = busy_conversations()
    both = run_fleet(trace, "round_robin", 2)
    halves = [run_fleet(trace[i::2], "round_robin", 1) for i in (0, 1)]
    # Each half begins at its own first arrival, and replicas do not wait for each other.
    for name in ("output_tokens", "preemptions", "prefix_hits", "scheduled_tokens", "steps"):
        assert both[name] == sum(half[name] for half in halves)
    assert both["makespan"] == max(half["makespan"] for half in halves)


def test_no_replica_and_no_such_routing_are_refused() -> None:
    for replicas, routing in ((0, "round_robin"), (1, "random")):
        with pytest.raises(InvalidParameterError, match=f"got '{routing}' and {replicas}"):
            simulate([], FLEET, STEPS, num_replicas=replicas, routing=routing)


def test_groups_of_equal_arrivals_join_the_same_step(schedulers: list[Any]) -> None:
    simulate([TraceRequest(float(i // 3), 4, 2) for i in range(6)], SMALL, ONE_SECOND)
    joined = [name for step in schedulers[0].seen for name, n in step if n == 4]
    assert [len(list(group)) for _, group in groupby(joined, key=lambda name: int(name) // 3)] == [
        3,
        3,
    ]


# --- drafts ---------------------------------------------------------------------------------------

LARGE = {"block_size": 16, "num_blocks": 4000, "max_num_seqs": 256, "max_num_batched_tokens": 2048}


def at_once(
    num_requests: int, num_output: int, acceptance: float | None, model: StepTimeModel
) -> dict[str, Any]:
    """A report of requests that arrive together, with short prompts."""
    trace = [TraceRequest(0.0, 2, num_output, ())] * num_requests
    return simulate(
        trace, {**LARGE, "acceptance": acceptance, "num_speculative_tokens": 4}, model
    ).report


def test_drafts_that_are_always_right_give_five_tokens_a_step() -> None:
    """43 tokens: 1 behind the prompt, 2 with a first draft, then 5 in each of eight steps; without
    drafts 1 a step.
    """
    plain, drafting = (at_once(3, 43, acceptance, ONE_SECOND) for acceptance in (None, 1.0))
    assert (plain["makespan"], drafting["makespan"]) == (43, 10)
    assert plain["output_tokens"] == drafting["output_tokens"] == 3 * 43
    assert plain["scheduled_tokens"] == drafting["scheduled_tokens"]


def test_drafts_that_are_never_right_are_soon_left() -> None:
    plain, drafting = (at_once(1, 300, acceptance, ONE_SECOND) for acceptance in (None, 0.0))
    assert plain["makespan"] == drafting["makespan"] == 300
    # with four in each step 1,196
    assert 0 < drafting["scheduled_tokens"] - plain["scheduled_tokens"] < 30


@pytest.mark.slow
def test_drafts_pay_for_few_requests_and_lose_under_load() -> None:
    """As the guide of phase 5 computes it: tokens of a step, divided by what a step costs."""
    k, a, step, token = 4, 0.8, 1.0, 0.05
    model = StepTimeModel((step, 0, token, 0, 0, 0))
    gains = {}
    for batch in (1, 8, 64, 200):
        plain, drafting = (
            at_once(batch, 300, acceptance, model)["output_tokens_per_s"]
            for acceptance in (None, a)
        )
        gains[batch] = drafting / plain
        tokens = sum(a**i for i in range(k + 1))
        cost = (step + token * batch * (k + 1)) / (step + token * batch)
        assert gains[batch] == pytest.approx(tokens / cost, rel=0.15)
    assert gains[1] > 2 > 1 > gains[64] > gains[200]


def test_the_prefix_cache_has_no_drafts() -> None:
    """A victim finds the blocks again that accepted drafts have filled, and no block is published
    by a draft.
    """
    trace = [TraceRequest(0.0, 30, 60, ())] * 4
    engine = {**LARGE, "block_size": 4, "num_blocks": 60, "num_speculative_tokens": 4}
    for acceptance in (0.0, 0.6, 1.0):
        cached, computed = (
            simulate(
                trace,
                {**engine, "acceptance": acceptance, "enable_prefix_caching": caching},
                ONE_SECOND,
            ).report
            for caching in (True, False)
        )
        assert cached["output_tokens"] == computed["output_tokens"] == 240
        assert cached["preemptions"] > 0
        assert cached["scheduled_tokens"] < computed["scheduled_tokens"]


def test_a_probability_is_asked_for() -> None:
    with pytest.raises(InvalidParameterError, match=r"acceptance must be in \[0, 1\], got 1.5"):
        at_once(1, 1, 1.5, ONE_SECOND)


def test_schedulers_without_drafts_are_refused_by_name() -> None:
    with pytest.raises(
        InvalidParameterError, match="speculative needs a scheduler that decides as Scheduler does"
    ):
        simulate([], {**policy_config("sequence_group", LARGE), "acceptance": 0.5}, ONE_SECOND)
