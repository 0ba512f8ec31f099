"""Parity: step for step, the decisions that vLLM 0.33.0's V1 scheduler made with
async_scheduling=False.

The traces in traces/ were recorded from vLLM itself (tools/record_vllm_traces.py). Each is run
again here, through the public contract of the scheduler, and compared in everything that was
recorded: what is scheduled in which order, who is preempted or admitted with which prefix hit,
block ids, the waiting queue, how many blocks are free and cached, outputs, statistics, and in the
end the free queue. A shadow of every slot watches all of it for stale reads. Of the quirks, in
which vLLM itself has a stale read, only the tokens are compared. labkit/compare/replay.py does the
work; tools/replay_vllm_traces.py does the same with any traces.
"""

from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import read_traces, replay
from mini_vllm.scheduler import Scheduler

TRACES = Path(__file__).parents[2] / "traces" / "vllm-0.33.0"
CATEGORIES = sorted(path.stem for path in TRACES.glob("*.jsonl") if path.stem != "quirk")
QUIRKS = read_traces(TRACES / "quirk.jsonl")


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_decision_is_vllms(category: str) -> None:
    traces = read_traces(TRACES / f"{category}.jsonl")
    assert traces
    assert not any("kv_violations" in trace for trace in traces), "only quirks are not compared"
    failed = [f"{trace['name']}: {difference}" for trace in traces if (difference := replay(trace))]
    assert not failed, f"{len(failed)} of {len(traces)} traces differ from vLLM:\n" + "\n".join(
        failed
    )


def test_the_corpus_is_there() -> None:
    assert sum(len(read_traces(TRACES / f"{category}.jsonl")) for category in CATEGORIES) >= 200
    assert len(CATEGORIES) >= 14


@pytest.mark.parametrize("trace", QUIRKS, ids=lambda trace: trace["name"])
def test_no_stale_read_where_vllm_has_one(trace: dict[str, Any]) -> None:
    """vLLM keeps the hash of a chunk whose request is preempted in the same step, and later hits
    it.
    """
    assert trace["kv_violations"]
    assert replay(trace) is None
    assert replay(trace | {"kv_violations": []}), (
        "this trace must need another decision than vLLM's"
    )


def test_the_shadow_notices_a_stale_read() -> None:
    """The check above can fail: with vLLM's rule, which keeps those hashes, the stale read is
    found.
    """

    class KeepsHashes(Scheduler):
        def _preempt(self, request: Any) -> None:
            # as if everything published had been computed
            request.num_computed_tokens = request.num_tokens
            super()._preempt(request)

    for trace in QUIRKS:
        assert "stale read" in str(replay(trace, scheduler_cls=KeepsHashes))
