"""Parity: step for step, the decisions that the scheduler of vLLM 0.5.5 made, and what the traces of it notice."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import BrokenTraceError
from mini_vllm.observe.trace import Record
from mini_vllm.policies.v0.sequence import GroupSchedulerOutput, SchedulingBudget, SequenceGroup
from mini_vllm.request import Request
from tools import replay_vllm_v0_traces
from tools.replay_vllm_v0_traces import ReplayRun, V0Scheduler, lenient, read_traces, replay

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "traces" / "vllm-0.5.5"


@pytest.fixture(scope="module")
def single() -> list[Record]:
    return read_traces(TRACES / "single.jsonl.gz")


@pytest.fixture(scope="module")
def forked() -> list[Record]:
    return read_traces(TRACES / "forked.jsonl.gz")


def differing(traces: list[Record]) -> dict[str, str]:
    found = {trace["name"]: replay(trace) for trace in traces}
    return {name: difference for name, difference in found.items() if difference}


@pytest.mark.slow
def test_every_decision_on_single_sequences_is_vllms(single: list[Record]) -> None:
    assert len(single) == 200
    assert differing(single) == {}


@pytest.mark.slow
def test_every_decision_on_groups_is_vllms(forked: list[Record]) -> None:
    assert len(forked) == 100
    assert differing(forked) == {}


@pytest.mark.slow
def test_the_traces_exercise_what_they_are_for(single: list[Record], forked: list[Record]) -> None:
    rules = Counter(rule for trace in forked for rule in trace["exercises"])
    for rule in ("swap_out", "swap_in", "copy", "stored_behind_others", "several_stored_at_once", "given_up"):
        assert rules[rule] >= 5, rule
    assert sum("recompute" in trace["exercises"] for trace in single) >= 100
    for traces in (single, forked):
        assert any(trace["aborts"] for trace in traces)
        assert any("too_long" in trace["requests"][-1] for trace in traces)
    ends = [step["finished"] for trace in forked for step in trace["steps"] if "finished" in step]
    assert any(len(finished) == 1 and "_" in finished[0][0] for finished in ends), "sequences of a group end apart"


@pytest.mark.slow
def test_without_strict_v0_only_a_group_that_is_alone_fares_better(single: list[Record], forked: list[Record]) -> None:
    alone = {
        trace["name"] for trace in single + forked if trace["exercises"].keys() & {"alone_and_preempted", "given_up"}
    }
    assert differing([lenient(trace) for trace in single + forked]).keys() == alone
    assert alone


def test_ours_goes_on_where_vllm_breaks(forked: list[Record]) -> None:
    broken = [trace for trace in forked if "ends" in trace]
    assert len({trace["ends"] for trace in broken}) == 2
    for trace in broken:
        run = ReplayRun(lenient(trace))
        for _ in range(10_000):
            if run.is_done():
                break
            run.record_step()
        assert run.is_done(), trace["name"]
        for request_id, token_ids in trace["outputs"].items():
            assert run.requests[request_id].output_token_ids[: len(token_ids)] == token_ids


class AppendsWhatItUses(V0Scheduler):
    """The rule that this scheduler had before it was compared."""

    def _may_append(self, group: SequenceGroup) -> bool:
        kv = self.kv_cache_manager
        return kv.num_blocks_to_append(group.sequences) <= kv.num_free_blocks


class StoresInFrontOfOthers(V0Scheduler):
    """The rule that this scheduler had before it was compared."""

    def _enqueue_group(self, group: SequenceGroup) -> None:
        if group.is_swapped:
            self.waiting.extendleft(reversed(group.requests))
        else:
            super()._enqueue_group(group)


class RestoresWhatItUses(V0Scheduler):
    """The rule that this scheduler had before it was compared."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        kv, count = self.kv_cache_manager, self.kv_cache_manager.num_blocks_to_restore

        def num_blocks_to_restore(requests: Sequence[Request]) -> int:
            partial = [request for request in requests if request.num_computed_tokens % kv.block_size]
            return count(requests) - len({kv.cpu_pool.get_block_ids(request.request_id)[-1] for request in partial})

        kv.num_blocks_to_restore = num_blocks_to_restore  # type: ignore[method-assign]


class RestoresIntoTheWatermark(V0Scheduler):
    def _schedule_swapped(self, budget: SchedulingBudget, output: GroupSchedulerOutput) -> None:
        num_blocks, self.num_watermark_blocks = self.num_watermark_blocks, 0
        super()._schedule_swapped(budget, output)
        self.num_watermark_blocks = num_blocks


class CountsTheNullBlock(V0Scheduler):
    """The rule that this scheduler had before it was compared."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.num_watermark_blocks = int(self.watermark * self.kv_cache_manager.num_blocks)


class NeverGivesUp(V0Scheduler):
    def _is_hopeless(self, group: SequenceGroup) -> bool:
        return False


class ComputesGroupsAgain(V0Scheduler):
    def _store(self, group: SequenceGroup) -> bool:
        return False


class PreemptedGoToTheEnd(V0Scheduler):
    def _enqueue_group(self, group: SequenceGroup) -> None:
        if group.is_swapped:
            super()._enqueue_group(group)
        else:
            self.waiting.extend(group.requests)


@pytest.mark.parametrize(
    "broken",
    [
        AppendsWhatItUses,
        StoresInFrontOfOthers,
        RestoresWhatItUses,
        RestoresIntoTheWatermark,
        CountsTheNullBlock,
        NeverGivesUp,
        ComputesGroupsAgain,
        PreemptedGoToTheEnd,
    ],
)
@pytest.mark.slow
def test_the_traces_notice_a_rule_that_is_broken(
    single: list[Record], forked: list[Record], broken: type[V0Scheduler]
) -> None:
    differences = (replay(trace, broken) for trace in forked + single)
    found = next((difference for difference in differences if difference), "")
    assert ": ours " in found, "the decision is another, and no error is raised"


def test_a_trace_that_was_edited_differs(single: list[Record]) -> None:
    trace = json.loads(json.dumps(single[0]))
    trace["steps"][3]["free"] += 1
    assert str(replay(trace)).startswith(f"step {trace['steps'][3]['step']}: free: ours ")
    assert str(replay(single[0] | {"steps": single[0]["steps"][:-1]})).endswith("not finished, and vLLM is")
    assert str(replay(single[0] | {"config": {}})).startswith("step 0: InvalidParameterError: ")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"{}\n", "BadGzipFile"),
        (gzip.compress(b"{", mtime=0), "JSONDecodeError"),
        (gzip.compress(b"{}\n", mtime=0), "has no name, config, requests or steps"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "broken.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(BrokenTraceError, match=what) as caught:
        read_traces(path)
    assert str(path) in str(caught.value)


# --- the tool --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_traces_are_counted_and_those_that_differ_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forked = str(TRACES / "forked.jsonl.gz")
    assert replay_vllm_v0_traces.main([forked]) == 0
    assert capsys.readouterr().out == "100 of 100 equal\n"
    assert replay_vllm_v0_traces.main(["--lenient", forked]) == 1
    *differing, last = capsys.readouterr().out.splitlines()
    assert last == f"{100 - len(differing)} of 100 equal"
    assert all(line.startswith("forked_") and ": step " in line for line in differing)
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(b"{"))
    assert replay_vllm_v0_traces.main([str(tmp_path)]) == 1
    assert "broken.jsonl.gz: JSONDecodeError" in capsys.readouterr().out


def test_it_runs_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "replay_vllm_v0_traces.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "0 of 0 equal\n", "")
