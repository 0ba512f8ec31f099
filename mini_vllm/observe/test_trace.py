"""Traces: what a step's record says, that every trace has its documented form, that runs repeat."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.timeline import read_requests
from mini_vllm.observe.trace import (
    TRACE_SCHEMA_VERSION,
    ScenarioRun,
    TraceRecorder,
    fake_token,
    run_trace,
)
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.host import HostTier
from mini_vllm.offload.tiers.manager import tiered
from mini_vllm.offload.tiers.work import TierResult
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.scheduler_interface import Step
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler
from mini_vllm.step import KVResult

SCHEMA = json.loads((Path(__file__).parent / "trace.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
RECORDED = Path(__file__).parents[2] / "traces" / "vllm-0.33.0"

CONFIG = {
    "block_size": 2,
    "num_blocks": 10,
    "max_num_seqs": 3,
    "max_num_batched_tokens": 8,
    "vocab_size": 50,
}


def request(
    request_id: str, prompt: list[int], max_tokens: int = 3, **fields: Any
) -> dict[str, Any]:
    return {"id": request_id, "prompt": prompt, "max_tokens": max_tokens, **fields}


def scenario(*requests: dict[str, Any], aborts: Any = (), **config: Any) -> dict[str, Any]:
    return {
        "name": "test",
        "config": CONFIG | config,
        "requests": list(requests),
        "aborts": list(aborts),
    }


def random_scenario(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    config = CONFIG | {
        "num_blocks": rng.randint(7, 14),
        "policy": rng.choice(("fcfs", "priority")),
        "enable_prefix_caching": rng.random() < 0.8,
        "long_prefill_token_threshold": rng.choice((0, 3)),
        "scheduler_reserve_full_isl": rng.random() < 0.5,
        "watermark": rng.choice((0.0, 0.2)),
        "eos_token_id": 0,
        "vocab_size": 5,
    }
    requests = [
        request(
            f"r{i}",
            [rng.randrange(2) for _ in range(rng.randint(1, 10))],
            rng.randint(1, 8),
            arrival_step=rng.randint(0, 20),
            arrival_time=float(i),
            priority=rng.randrange(3),
            ignore_eos=rng.random() < 0.5,
            sample_seed=rng.randrange(100),
            cache_salt=rng.choice((None, None, "tenant")),
        )
        for i in range(8)
    ]
    aborts = [
        {"step": rng.randrange(12), "phase": rng.choice(("before", "during")), "id": f"r{i}"}
        for i in rng.sample(range(8), 3)
    ]
    return {"name": f"random {seed}", "config": config, "requests": requests, "aborts": aborts}


def errors(trace: Any) -> Iterator[str]:
    for error in VALIDATOR.iter_errors(json.loads(json.dumps(trace))):
        yield f"{error.json_path}: {error.message}"


# --- the format -----------------------------------------------------------------------------------


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == TRACE_SCHEMA_VERSION == 1


@pytest.mark.parametrize("seed", range(15))
def test_every_trace_has_the_documented_form(seed: int) -> None:
    assert list(errors(run_trace(random_scenario(seed)))) == []


recorded_files = pytest.mark.parametrize(
    "path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.stem
)


@recorded_files
def test_recorded_traces_have_the_documented_form(path: Path) -> None:
    with path.open() as lines:
        assert list(errors(json.loads(next(lines)))) == []


@pytest.mark.slow
@recorded_files
def test_all_recorded_traces_have_the_documented_form(path: Path) -> None:
    for line in path.read_text().splitlines():
        assert list(errors(json.loads(line))) == []


def test_every_field_that_is_written_is_documented() -> None:
    """Nothing is left to guess: the schema names all fields of trace, config, requests, steps and
    totals.
    """
    documented = {
        name: set(SCHEMA["$defs"][name]["properties"])
        for name in ("config", "request", "step", "totals")
    }
    traces = [run_trace(random_scenario(seed)) for seed in range(30)]
    lookup = {
        "vocab_size": 3,
        "num_speculative_tokens": 2,
        "prompt_lookup_min": 1,
        "prompt_lookup_max": 4,
    }
    with_drafts = random_scenario(0)
    with_drafts["config"] |= lookup
    traces.append(run_trace(with_drafts, scheduler_cls=SpeculativeScheduler))
    assert list(errors(traces[-1])) == []
    assert any("spec" in step for step in traces[-1]["steps"])
    for trace in traces:
        assert set(trace) <= set(SCHEMA["properties"])
        assert set(trace["config"]) <= documented["config"]
        assert set(trace["totals"]) == documented["totals"]
        for described in trace["requests"]:
            assert set(described) <= documented["request"]
        for step in trace["steps"]:
            assert set(step) <= documented["step"]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("schema",), 2),
        (("name",), None),
        (("config", "policy"), "lifo"),
        (("config", "num_blocks"), 1),
        (("requests", 0, "max_tokens"), 0),
        (("requests", 0, "prompt"), []),
        (("steps", 0, "sched"), [["a"]]),
        (("steps", 0, "sched"), [["a", 1, 2]]),
        (("steps", 0, "blocks"), {"a": [0]}),
        (("steps", 0, "free"), -1),
        (("steps", 0, "finished"), [["a", "abort"]]),
        (("outputs", "a"), ["7"]),
        (("totals", "final_free_queue"), [1, 1]),
    ],
)
def test_a_broken_trace_is_noticed(where: tuple[Any, ...], value: Any) -> None:
    trace = run_trace(scenario(request("a", [1, 2, 3])))
    part = trace
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = value
    assert list(errors(trace))


# --- what a record says ---------------------------------------------------------------------------


def test_the_record_of_a_whole_run() -> None:
    trace = run_trace(scenario(request("a", [1, 2, 3], 2)))
    token, last = trace["outputs"]["a"]
    assert (token, last) == (fake_token(0, 3, 50), fake_token(0, 4, 50))
    assert trace["steps"] == [
        {
            "step": 0,
            "sched": [["a", 3]],
            "computed": {"a": 0},
            "running": ["a"],
            "free_sched": 7,
            "new": [["a", 0]],
            "blocks": {"a": [1, 2]},
            "sampled": {"a": [token]},
            "free": 7,
            "cached": 1,
        },
        {
            "step": 1,
            "sched": [["a", 1]],
            "computed": {"a": 3},
            "running": ["a"],
            "free_sched": 7,
            "sampled": {"a": [last]},
            "finished": [["a", "length"]],
            "free": 9,
            "cached": 2,
        },
    ]
    assert trace["totals"] == {
        "preemptions": 0,
        "steps": 2,
        "scheduled_tokens": 4,
        "prefix_requests": 1,
        "prefix_queries": 3,
        "prefix_hits": 0,
        "preempted_requests": 0,
        "preempted_queries": 0,
        "preempted_hits": 0,
        "final_free_queue": [3, 4, 5, 6, 7, 8, 9, 2, 1],
    }


def test_blocks_are_the_whole_table_at_admission_and_then_what_is_appended() -> None:
    trace = run_trace(
        scenario(request("a", [1, 2, 3, 4, 5], 4), request("b", [1, 2, 3, 4, 9], 1, arrival_step=1))
    )
    assert [step.get("blocks") for step in trace["steps"]] == [
        {"a": [1, 2, 3]},
        {"b": [1, 2, 4]},
        {"a": [4]},
        None,
    ]
    assert trace["steps"][1]["new"] == [["b", 4]]
    assert trace["totals"]["prefix_hits"] == 4


def test_preempted_requests_are_resumed_not_new() -> None:
    trace = run_trace(
        scenario(request("a", [1, 2, 3], 6), request("b", [4, 5, 6], 6), num_blocks=6)
    )
    preempted = [step["preempted"] for step in trace["steps"] if "preempted" in step]
    resumed = [step["resumed"] for step in trace["steps"] if "resumed" in step]
    assert preempted == [["b"]] * trace["totals"]["preemptions"]
    assert [request_id for ((request_id, _),) in resumed] == ["b"] * len(preempted)
    assert sum(len(step.get("new", ())) for step in trace["steps"]) == 2
    assert trace["totals"]["preempted_requests"] == len(preempted) >= 1
    waiting = [step["step"] for step in trace["steps"] if "b" in step.get("waiting", ())]
    assert waiting


def test_time_jumps_to_the_next_arrival_when_nothing_is_in_flight() -> None:
    trace = run_trace(scenario(request("a", [1], 1), request("b", [2], 1, arrival_step=50)))
    assert [step["step"] for step in trace["steps"]] == [0, 50]


def test_requests_of_one_step_arrive_in_the_order_of_the_list() -> None:
    late, early = request("late", [1], 1, arrival_step=1), request("early", [2], 1)
    trace = run_trace(scenario(late, early, request("next", [3], 1)))
    assert [step["sched"] for step in trace["steps"]] == [
        [["early", 1], ["next", 1]],
        [["late", 1]],
    ]


def test_aborts_before_and_during_a_step() -> None:
    aborts = [{"step": 1, "phase": "before", "id": "a"}, {"step": 1, "phase": "during", "id": "b"}]
    aborts += [
        {"step": 2, "phase": "before", "id": "b"},
        {"step": 0, "phase": "before", "id": "nobody"},
    ]
    requests = [request(name, [i, 7], 3) for i, name in enumerate("abc")]
    trace = run_trace(scenario(*requests, aborts=aborts))
    first, second, third = trace["steps"]
    assert second["aborted_before"] == ["a"]
    assert second["sched"] == [["b", 1], ["c", 1]]
    assert second["aborted_during"] == ["b"]
    assert set(second["sampled"]) == {"b", "c"}
    assert third["sched"] == [["c", 1]]
    assert "aborted_before" not in first
    assert "aborted_before" not in third, "b is gone already"
    assert {name: len(tokens) for name, tokens in trace["outputs"].items()} == {
        "a": 1,
        "b": 1,
        "c": 3,
    }
    assert list(errors(trace)) == []


def test_the_fake_model_stops_at_eos_unless_it_is_ignored() -> None:
    for ignore_eos, reason in ((False, "stop"), (True, "length")):
        trace = run_trace(
            scenario(request("a", [1], 3, ignore_eos=ignore_eos), vocab_size=1, eos_token_id=0)
        )
        assert trace["steps"][-1]["finished"] == [["a", reason]]
        assert trace["outputs"]["a"] == [0] * (3 if ignore_eos else 1)


def test_the_fake_models_tokens_are_these() -> None:
    """Golden: the recorded traces stand on them."""
    assert [
        fake_token(seed, position, 1000) for seed, position in ((3, 1), (1, 24), (1, 25), (2, 8))
    ] == [
        541,
        723,
        512,
        493,
    ]


# --- running --------------------------------------------------------------------------------------


def test_a_run_repeats() -> None:
    for seed in range(20):
        assert run_trace(random_scenario(seed)) == run_trace(random_scenario(seed))


def test_a_trace_can_be_run_again_as_a_scenario() -> None:
    for seed in range(20):
        trace = run_trace(random_scenario(seed))
        again = run_trace(json.loads(json.dumps(trace)))
        assert (again["steps"], again["outputs"], again["totals"]) == (
            trace["steps"],
            trace["outputs"],
            trace["totals"],
        )


def test_a_live_trace_has_the_watermark_itself() -> None:
    """Not blocks / num_blocks: int(1 / 49 * 49) is 0, so the trace would run again without its
    watermark.
    """
    scheduler = make_scheduler(CONFIG | {"num_blocks": 49, "watermark": 0.021})
    config = TraceRecorder(scheduler).to_trace("live")["config"]
    assert make_scheduler(config).num_watermark_blocks == scheduler.num_watermark_blocks == 1


def test_a_run_can_be_watched_step_by_step() -> None:
    run = ScenarioRun(random_scenario(1))
    while not run.is_done():
        output = run.run_step()
        assert run.recorder.steps[-1]["sched"] == [
            list(item) for item in output.num_scheduled_tokens.items()
        ]
    assert run.to_trace() == run_trace(random_scenario(1))


def test_a_scheduler_that_gets_nowhere_is_stopped() -> None:
    class Lazy(Scheduler):
        def schedule(self) -> SchedulerOutput:
            return SchedulerOutput()

    with pytest.raises(RuntimeError, match="not finished after 50 steps"):
        run_trace(scenario(request("a", [1])), scheduler_cls=Lazy, max_steps=50)


def test_other_classes_can_be_plugged_in() -> None:
    class Forgetful(KVCacheManager):
        def get_computed_blocks(self, request: Request) -> tuple[list[Any], int]:
            return [], 0

    class LastComeFirstServed(Scheduler):
        def add_request(self, request: Request) -> None:
            super().add_request(request)
            self.waiting.rotate(1)

    requests = [request(name, [1, 2, 3, 4, 5], 1) for name in "ab"]
    trace = run_trace(
        scenario(*requests), scheduler_cls=LastComeFirstServed, kv_cache_manager_cls=Forgetful
    )
    assert trace["steps"][0]["sched"] == [["b", 5], ["a", 3]]
    assert trace["steps"][0]["new"] == [["b", 0], ["a", 0]]


# --- the recorder by itself -----------------------------------------------------------------------


def test_the_recorder_describes_what_it_saw() -> None:
    """As an engine uses it: no scenario, numbers of steps counted, extra fields of the owner's."""
    scheduler = make_scheduler(CONFIG | {"watermark": 0.2})
    recorder = TraceRecorder(scheduler)
    params = SamplingParams(max_tokens=2, ignore_eos=True)
    scheduler.add_request(Request("a", [1, 2, 3], params, priority=2, arrival_time=1.5))
    while scheduler.has_unfinished_requests():
        recorder.before_schedule()
        step = Step.decide(scheduler)
        recorder.after_schedule(step)
        sampled = {"a": [7]}
        record = recorder.after_update(
            step, sampled, step.update(scheduler, sampled), duration_s=0.25
        )
        assert record is recorder.steps[-1]
    trace = recorder.to_trace("live")
    assert [step["step"] for step in trace["steps"]] == [0, 1]
    assert [step["duration_s"] for step in trace["steps"]] == [0.25, 0.25]
    assert trace["outputs"] == {"a": [7, 7]}
    assert trace["config"] == {
        **{"block_size": 2, "num_blocks": 10, "enable_prefix_caching": True, "max_num_seqs": 3},
        **{
            "max_num_batched_tokens": 8,
            "long_prefill_token_threshold": 0,
            "enable_chunked_prefill": True,
        },
        **{
            "policy": "fcfs",
            "max_model_len": 19,
            "scheduler_reserve_full_isl": True,
            "watermark": 0.2,
        },
    }
    (described,) = trace["requests"]
    assert described == request("a", [1, 2, 3], 2, arrival_time=1.5, priority=2, ignore_eos=True)
    assert list(errors(trace)) == []


def test_a_load_from_a_tier_is_in_the_trace_and_drawn() -> None:
    connector = TierConnector(2, HostTier(20))
    manager = tiered(KVCacheManager, lambda: connector)(5, 2)
    scheduler = Scheduler(manager, max_num_seqs=1, max_num_batched_tokens=20)
    recorder, params = TraceRecorder(scheduler), SamplingParams(max_tokens=1, ignore_eos=True)
    prompts = {
        "first": [1, 2, 3, 4, 5],
        "other": [9, 8, 7, 6, 5, 4, 3, 2],
        "again": [1, 2, 3, 4, 5],
    }
    for name, prompt in prompts.items():
        scheduler.add_request(Request(name, prompt, params))
    while scheduler.has_unfinished_requests():
        recorder.before_schedule()
        step = Step.decide(scheduler)
        recorder.after_schedule(step)
        sampled = {request.request_id: [7] for request in step.output.scheduled_requests}
        step.end_kv(manager, KVResult(connector=TierResult()))
        recorder.after_update(step, sampled, step.update(scheduler, sampled))
    trace = recorder.to_trace("tiers")
    assert [len(step.get("swapped_in", ())) for step in trace["steps"]] == [0, 0, 2]
    assert [row.marks[-1] for row in read_requests(trace)] == ["", "", "swapped"]
    assert list(errors(trace)) == []
