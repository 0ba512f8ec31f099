"""Parity: step for step, the decisions that vLLM 0.33.0's V1 scheduler made with async_scheduling=False.

The traces in traces/ were recorded from vLLM itself (tools/record_vllm_traces.py). Each is run again here, through
the public contract of the scheduler, and compared in everything that was recorded: what is scheduled in which order,
who is preempted or admitted with which prefix hit, block ids, the waiting queue, how many blocks are free and cached,
outputs, statistics, and in the end the free queue. A shadow of every slot watches all of it for stale reads.
"""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.observe.trace import run_trace
from mini_vllm.scheduler import Scheduler, SchedulerOutput

TRACES = Path(__file__).parents[2] / "traces" / "vllm-0.33.0"
CATEGORIES = sorted(path.stem for path in TRACES.glob("*.jsonl") if path.stem != "quirk")
STEP_FIELDS = (
    *("step", "aborted_before", "sched", "preempted", "new", "resumed", "blocks", "waiting", "free_sched"),
    *("aborted_during", "finished", "free", "cached"),
)

Json = dict[str, Any]


class StaleReadError(Exception):
    """A step reads a slot that does not hold the request's own prefix."""


class ShadowedScheduler(Scheduler):
    """Remembers for every slot which tokens, up to and with its own, were last computed there."""

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        shadow: dict[tuple[int, int], int] = self.__dict__.setdefault("shadow", {})
        slots_read = []
        for request in output.scheduled_requests:  # all of a step's writes come before its reads
            table = self.kv_cache_manager.get_block_ids(request.request_id)
            start = request.num_computed_tokens
            end = start + output.num_scheduled_tokens[request.request_id]
            size, content = self.kv_cache_manager.block_size, 0
            for position, token_id in enumerate(request.all_token_ids[:end]):
                content = hash((content, token_id))
                slot = (table[position // size], position % size)
                slots_read.append((request.request_id, position, slot, content))
                if position >= start:
                    shadow[slot] = content
        for request_id, position, slot, content in slots_read:
            if shadow.get(slot) != content:
                raise StaleReadError(
                    f"{request_id} reads position {position} from slot {slot}, which holds another prefix"
                )
        return output


def read_traces(category: str) -> list[Json]:
    return [json.loads(line) for line in (TRACES / f"{category}.jsonl").read_text().splitlines()]


def differences(ours: Json, theirs: Json) -> Iterator[str]:
    """Everything that was recorded from vLLM and is not the same here, in order of time."""
    caching = theirs["config"]["enable_prefix_caching"]
    pairs: Iterator[tuple[Json, Json]] = zip_longest(ours["steps"], theirs["steps"], fillvalue={})
    for mine, recorded in pairs:
        for key in STEP_FIELDS:
            if mine.get(key) != recorded.get(key) and (key != "cached" or caching):
                yield f"step {recorded.get('step')}: {key}: ours {mine.get(key)}, vLLM {recorded.get(key)}"
    for request_id, token_ids in theirs["outputs"].items():
        if ours["outputs"].get(request_id) != token_ids:
            yield f"output of {request_id}: ours {ours['outputs'].get(request_id)}, vLLM {token_ids}"
    for key, value in theirs["totals"].items():
        if ours["totals"].get(key) != value:
            yield f"totals: {key}: ours {ours['totals'].get(key)}, vLLM {value}"


def first_difference(trace: Json, **classes: Any) -> str | None:
    """Run the trace's scenario with these classes (of run_trace); None if every decision is vLLM's."""
    try:
        return next(differences(run_trace(trace, **classes, max_steps=2000), trace), None)
    except Exception as error:  # whatever is raised, the name of the trace has to be told
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_decision_is_vllms(category: str) -> None:
    traces = read_traces(category)
    found = {trace["name"]: first_difference(trace, scheduler_cls=ShadowedScheduler) for trace in traces}
    failed = [f"{name}: {difference}" for name, difference in found.items() if difference]
    assert traces
    assert not failed, f"{len(failed)} of {len(traces)} traces differ from vLLM:\n" + "\n".join(failed)


def test_the_corpus_is_there() -> None:
    assert sum(len(read_traces(category)) for category in CATEGORIES) >= 200
    assert len(CATEGORIES) >= 14


@pytest.mark.parametrize("trace", read_traces("quirk"), ids=lambda trace: trace["name"])
def test_no_stale_read_where_vllm_has_one(trace: Json) -> None:
    """vLLM keeps the hash of a chunk whose request is preempted in the same step, and later hits it."""
    assert trace["kv_violations"]
    ours = run_trace(trace, scheduler_cls=ShadowedScheduler)
    assert ours["outputs"] == trace["outputs"]
    assert next(differences(ours, trace), None), "this trace must need another decision than vLLM's"


def test_the_shadow_notices_a_stale_read() -> None:
    """The check above can fail: with vLLM's rule, which keeps those hashes, the stale read is found."""

    class KeepsHashes(ShadowedScheduler):
        def _preempt(self, request: Any) -> None:
            request.num_computed_tokens = request.num_tokens  # as if everything published had been computed
            super()._preempt(request)

    for trace in read_traces("quirk"):
        with pytest.raises(StaleReadError):
            run_trace(trace, scheduler_cls=KeepsHashes)
