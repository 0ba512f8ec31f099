import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import CachingMetrics, SchedulerStats, StatsRecorder
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.observe.trace import ScenarioRun, TraceRecorder, run_trace
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerOutput
from mini_vllm.step import KVPlan

CONFIG = {
    "block_size": 2,
    "num_blocks": 8,
    "max_num_seqs": 3,
    "max_num_batched_tokens": 6,
    "vocab_size": 100,
}
SCHEMA = json.loads((Path(__file__).parent / "trace.schema.json").read_text())


def request(name: str, prompt: list[int], max_tokens: int, step: int = 0) -> dict[str, Any]:
    return {
        "id": name,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "arrival_step": step,
        "ignore_eos": True,
    }


def figures(requests: list[dict[str, Any]]) -> list[SchedulerStats]:
    run = ScenarioRun({"name": "stats", "config": CONFIG, "requests": requests})
    recorder = StatsRecorder(run.scheduler)
    steps = []
    while not run.is_done():
        # the output is the step's; counters move after it
        steps.append(recorder.record(run.run_step(), KVPlan()))
    return steps


def test_first_step_of_two_requests() -> None:
    run = ScenarioRun(
        {
            "name": "",
            "config": CONFIG,
            "requests": [request("a", [1, 2, 3, 4], 4), request("b", [5, 6, 7], 2)],
        }
    )
    for spec in list(run._todo):
        run._add([spec])
    output = run.scheduler.schedule()
    stats = StatsRecorder(run.scheduler).record(output, KVPlan())
    assert stats == SchedulerStats(
        num_running_reqs=2,
        num_waiting_reqs=0,
        num_scheduled_reqs=2,
        num_scheduled_tokens=6,  # the whole budget: 4 of a, 2 of b
        kv_cache_usage=pytest.approx(3 / 7),
        prefix_cache_queries=0,  # the recorder came after the admission
        prefix_cache_hits=0,
        num_preempted_reqs=0,
        num_swapped_out_blocks=0,
        num_swapped_in_blocks=0,
        num_copied_blocks=0,
    )


def test_prefix_hits_are_those_of_the_step_and_add_up() -> None:
    steps = figures([request("a", [1, 2, 3, 4, 5], 2), request("b", [1, 2, 3, 4, 6], 2, step=2)])
    looked_up = [(step.prefix_cache_queries, step.prefix_cache_hits) for step in steps]
    assert [each for each in looked_up if each != (0, 0)] == [(5, 0), (5, 4)]


def test_preemptions_and_their_second_lookup_are_counted() -> None:
    specs = [request(name, [i * 10 + 1, i * 10 + 2, i * 10 + 3], 9) for i, name in enumerate("abc")]
    trace = run_trace({"name": "stats", "config": CONFIG, "requests": specs})
    steps = figures(specs)
    assert trace["totals"]["preemptions"] > 0
    assert sum(step.num_preempted_reqs for step in steps) == trace["totals"]["preemptions"]
    assert sum(step.num_scheduled_tokens for step in steps) == trace["totals"]["scheduled_tokens"]
    totals = trace["totals"]
    assert (
        sum(step.prefix_cache_queries for step in steps)
        == totals["prefix_queries"] + totals["preempted_queries"]
    )
    assert (
        sum(step.prefix_cache_hits for step in steps)
        == totals["prefix_hits"] + totals["preempted_hits"]
    )


def test_the_engine_keeps_the_figures_of_its_last_step() -> None:
    pytest.importorskip("torch")
    from mini_vllm import LLM, SamplingParams

    llm = LLM(num_kv_blocks=40, max_model_len=64, max_num_seqs=4)
    assert llm.engine.stats is None
    llm.generate([[5, 6, 7], [8, 9]], SamplingParams(max_tokens=3, temperature=0, ignore_eos=True))
    stats = llm.engine.stats
    assert stats is not None
    assert (stats.num_scheduled_reqs, stats.num_scheduled_tokens) == (2, 2)


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 49)), max_size=5), max_size=30),
    st.integers(0, 12),
)
@settings(derandomize=True, database=None, deadline=None)
def test_the_hit_rate_is_that_of_the_last_steps_that_have_so_many_requests(
    steps: list[list[tuple[int, int]]], most: int
) -> None:
    stats = PrefixCacheStats()
    stats.record(1000, 999)  # before anybody looked
    metrics = CachingMetrics(stats, most)
    for n, step in enumerate(steps, start=1):
        for num_tokens, num_hits in step:
            stats.record(num_tokens, min(num_hits, num_tokens - 1))
        before = metrics.hit_rate
        metrics.observe()
        window: list[tuple[int, int]] = []
        for earlier in reversed([each for each in steps[:n] if each]):
            if window and len(window) + len(earlier) > most:
                break
            window += earlier
        queries = sum(num_tokens for num_tokens, _ in window)
        hits = sum(min(num_hits, num_tokens - 1) for num_tokens, num_hits in window)
        assert metrics.hit_rate == (hits / queries if queries else 0)
        assert step or metrics.hit_rate == before


# --- what each step computes, by bucket: against the scheduler's own counters, over a run with
# preemptions


def a_request(name: str, first: int, num_tokens: int, max_tokens: int) -> dict[str, Any]:
    return request(name, list(range(first, first + num_tokens)), max_tokens)


def run_of(*requests: dict[str, Any]) -> dict[str, Any]:
    run = ScenarioRun({"name": "plan", "config": CONFIG, "requests": list(requests)})
    run.recorder = TraceRecorder(run.scheduler, stats=True)
    while not run.is_done():
        run.run_step()
    return run.recorder.to_trace("plan")


def test_buckets_of_a_run_with_preemptions() -> None:
    trace = run_of(a_request("a", 1, 3, 9), a_request("b", 11, 3, 9), a_request("c", 21, 3, 9))
    jsonschema.validate(trace, SCHEMA)
    assert trace["totals"]["preemptions"]
    computed_once: set[str] = set()
    for step in trace["steps"]:
        plan, sched = step["plan"], dict(step["sched"])
        assert sum(n for _, n in plan["buckets"].values()) == sum(sched.values())
        assert sum(n for n, _ in plan["buckets"].values()) == len(sched)
        assert plan["expected"] == len(step["sampled"])
        assert plan["graph"] == (f"decode {len(sched)}" if set(sched.values()) == {1} else "")
        again = {name for name, _ in step.get("resumed", [])}
        assert bool(again & computed_once) <= ("resumed" in plan["buckets"])
        computed_once |= sched.keys()
    assert trace["steps"][0]["plan"] == {"buckets": {"prefill": [2, 6]}, "expected": 2, "graph": ""}
    assert {bucket for step in trace["steps"] for bucket in step["plan"]["buckets"]} == {
        "prefill",
        "decode",
        "resumed",
    }


def test_a_prompt_of_one_token_is_a_prefill() -> None:
    first, second = run_of(a_request("a", 1, 1, 2))["steps"]
    assert first["plan"] == {"buckets": {"prefill": [1, 1]}, "expected": 1, "graph": "decode 1"}
    assert second["plan"] == {"buckets": {"decode": [1, 1]}, "expected": 1, "graph": "decode 1"}


def test_an_empty_step_has_no_graph() -> None:
    run = ScenarioRun({"name": "plan", "config": CONFIG, "requests": []})
    assert StepPlan.of(3, run.scheduler.schedule()) == StepPlan(3, [], 0, "")


def test_a_step_that_one_recording_could_serve_is_named() -> None:
    def graph_of(lengths: list[int], drafts: dict[str, list[int]]) -> str:
        output = SchedulerOutput(drafts=drafts)
        for i, n in enumerate(lengths):
            output.add(Request(str(i), [5] * 9, SamplingParams()), n)
        return StepPlan.of(1, output).graph

    assert graph_of([1, 1], {}) == "decode 2"
    assert graph_of([3, 3], {"0": [5, 6], "1": [7, 8]}) == "drafts 2"
    assert [graph_of([3, 3], {}), graph_of([3, 2], {"0": [5, 6], "1": [7]})] == ["", ""]
    assert graph_of([], {}) == ""
