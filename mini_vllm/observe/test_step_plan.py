"""What each step computes, by bucket: against the scheduler's own counters, over a run with preemptions."""

import json
from pathlib import Path
from typing import Any

import jsonschema

from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.observe.trace import ScenarioRun, TraceRecorder

CONFIG = {"block_size": 2, "num_blocks": 8, "max_num_seqs": 3, "max_num_batched_tokens": 6, "vocab_size": 100}
SCHEMA = json.loads((Path(__file__).parent / "trace.schema.json").read_text())


def request(name: str, first: int, num_tokens: int, max_tokens: int) -> dict[str, Any]:
    prompt = list(range(first, first + num_tokens))
    return {"id": name, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}


def run_of(*requests: dict[str, Any]) -> dict[str, Any]:
    run = ScenarioRun({"name": "plan", "config": CONFIG, "requests": list(requests)})
    run.recorder = TraceRecorder(run.scheduler, stats=True)
    while not run.is_done():
        run.run_step()
    return run.recorder.to_trace("plan")


def test_buckets_of_a_run_with_preemptions() -> None:
    trace = run_of(request("a", 1, 3, 9), request("b", 11, 3, 9), request("c", 21, 3, 9))
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
    assert {bucket for step in trace["steps"] for bucket in step["plan"]["buckets"]} == {"prefill", "decode", "resumed"}


def test_a_prompt_of_one_token_is_a_prefill() -> None:
    first, second = run_of(request("a", 1, 1, 2))["steps"]
    assert first["plan"] == {"buckets": {"prefill": [1, 1]}, "expected": 1, "graph": "decode 1"}
    assert second["plan"] == {"buckets": {"decode": [1, 1]}, "expected": 1, "graph": "decode 1"}


def test_an_empty_step_has_no_graph() -> None:
    run = ScenarioRun({"name": "plan", "config": CONFIG, "requests": []})
    assert StepPlan.of(3, run.scheduler.schedule()) == StepPlan(3, [], 0, "")
