#!/usr/bin/env python3
"""Replay traces of vLLM V0's scheduler and say which of them are equal, decision for decision.

    python tools/replay_vllm_v0_traces.py [--lenient] PATHS

PATHS are files (.jsonl.gz) or folders, which are searched for them. Every trace that differs gets a line with the first
step and field. The last line is "N of M equal". The exit status is 0 if there are traces and all are equal, else 1.

Compared is everything that was recorded. Block ids were not: which block V0 takes next depends on the order in which it
freed those of a table, and that is the order of a Python set of objects. How many blocks are free, here and in main
memory, is compared before and after every step.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labkit.replay import BrokenTraceError
from mini_vllm.errors import PromptTooLongError
from mini_vllm.observe.trace import Record, ScenarioRun
from mini_vllm.policies.v0.sequence import GroupSchedulerOutput, SchedulingBudget, SequenceGroup
from mini_vllm.policies.v0.sequence_group import SequenceGroupScheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.scheduler_interface import Step

MAX_LINE = 400


def read_traces(path: Path) -> list[Record]:
    """The traces of a file of compressed lines. Raises BrokenTraceError, which names it, if it cannot be read."""
    try:
        traces = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    except (OSError, EOFError, ValueError) as error:
        raise BrokenTraceError(f"{path}: {type(error).__name__}: {error}") from error
    if not all(isinstance(trace, dict) and {"name", "config", "requests", "steps"} <= trace.keys() for trace in traces):
        raise BrokenTraceError(f"{path}: a trace has no name, config, requests or steps")
    return traces


class V0Scheduler(SequenceGroupScheduler):
    """A SequenceGroupScheduler with V0's rules for a group that is alone, too: it may be preempted, or given up.

    A request that is given up ends with the reason "length", in a step that it is not in. An engine has no such end, so
    this class is for traces.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._given_up: list[Request] = []  # since update_from_output() has told of them

    def _next_group(self, *, is_swapped: bool) -> SequenceGroup | None:
        while (group := super()._next_group(is_swapped=is_swapped)) and self._is_hopeless(group):
            for request in group.requests:
                self.finish_request(request.request_id, "length")
                self._given_up.append(request)
        return group

    def _is_hopeless(self, group: SequenceGroup) -> bool:
        """Whether the group waits for more blocks than there are."""
        kv = self.kv_cache_manager
        num_blocks = -(-group.sequences[0].num_tokens // kv.block_size) + self.num_watermark_blocks
        if group.is_swapped:
            num_blocks = kv.num_blocks_to_restore(group.sequences)
        return num_blocks > kv.num_usable_blocks

    def _may_append(self, group: SequenceGroup) -> bool:
        return len(group.sequences) <= self.kv_cache_manager.num_free_blocks

    def _may_restore(self, group: SequenceGroup, budget: SchedulingBudget) -> bool:
        kv = self.kv_cache_manager
        num_needed = kv.num_blocks_to_restore(group.sequences) + self.num_watermark_blocks
        return num_needed <= kv.num_free_blocks and super()._may_restore(group, budget)

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        given_up, self._given_up = self._given_up, []
        return super().update_from_output(output, sampled_token_ids) + given_up


class ReplayRun(ScenarioRun):
    """Runs the scenario of a trace beside its record. scheduler_cls: None is the one that `strict_v0` asks for."""

    scheduler: SequenceGroupScheduler

    def __init__(self, trace: Record, scheduler_cls: type[SequenceGroupScheduler] | None = None) -> None:
        asked_for = V0Scheduler if trace["config"].get("strict_v0") else SequenceGroupScheduler
        super().__init__(trace, scheduler_cls=scheduler_cls or asked_for)
        self.trace = trace

    def first_difference(self) -> str | None:
        """None if all steps are equal, and everything is done after them, unless V0 itself broke there."""
        for theirs in self.trace["steps"]:
            if self.is_done():
                return f"step {theirs['step']}: finished, and vLLM is not"
            ours = self.record_step()
            for name in ours | theirs:
                if ours.get(name) != theirs.get(name):
                    return f"step {theirs['step']}: {name}: ours {ours.get(name)}, vLLM {theirs.get(name)}"
        if "ends" not in self.trace and not self.is_done():
            return f"step {self.step}: not finished, and vLLM is"
        for request_id, token_ids in self.trace["outputs"].items():
            if self.requests[request_id].output_token_ids != token_ids:
                return f"output of {request_id}: ours {self.requests[request_id].output_token_ids}, vLLM {token_ids}"
        return None

    def record_step(self) -> Record:
        """One step, as V0's record tells it; what is empty is left out."""
        scheduler, kv = self.scheduler, self.scheduler.kv_cache_manager
        before = self._begin()
        running = list(scheduler.running)
        step = Step.decide(scheduler)
        output, plan = step.output, step.plan
        assert isinstance(output, GroupSchedulerOutput)
        stored = [request for group in output.swapped_out for request in group.requests]
        record = {
            "step": self.step,
            "sched": [[request_id, n] for request_id, n in output.num_scheduled_tokens.items()],
            "is_prefill": int(any(not request.num_computed_tokens for request in output.scheduled_requests)),
            "preempted": list(output.preempted_req_ids),
            "stored": [request.request_id for request in stored],
            "restored": [r.request_id for r in scheduler.running if r not in running and r.num_computed_tokens],
            "num_out": len(plan.swap_out),
            "num_in": len(plan.swap_in),
            "num_copied": len(plan.copy),
            "running": [request.request_id for request in scheduler.running],
            "waiting": [request.request_id for request in scheduler.waiting],
            "free_sched": kv.num_free_blocks,
            "free_cpu_sched": kv.cpu_pool.num_free_blocks,
            "aborted_before": before,
        }
        sampled, finished, record["aborted_during"] = self._compute(step)
        record["finished"] = [[r.request_id, r.finish_reason] for r in finished if r.request_id in sampled]
        record["given_up"] = [r.request_id for r in finished if r.request_id not in sampled]
        record |= {"free": kv.num_free_blocks, "free_cpu": kv.cpu_pool.num_free_blocks}
        self.step += 1
        return {name: value for name, value in record.items() if value != [] or name == "sched"}

    def _add(self, specs: Sequence[Record]) -> None:
        """V0 takes every request, and ends one that is too long when its turn comes. Ours is not taken."""
        if not specs[0].get("too_long"):
            super()._add(specs)
            return
        try:
            super()._add(specs)
        except PromptTooLongError:
            del self.requests[specs[0]["id"]]
        else:
            raise BrokenTraceError(f"{specs[0]['id']} is not too long")


def lenient(trace: Record) -> Record:
    """The trace without strict_v0: for the scheduler as an engine has it."""
    return trace | {"config": trace["config"] | {"strict_v0": False}}


def replay(trace: Record, scheduler_cls: type[SequenceGroupScheduler] | None = None) -> str | None:
    """None if every decision is vLLM's, else the first thing that is not, or the error that was raised."""
    run = None
    try:
        run = ReplayRun(trace, scheduler_cls)
        return run.first_difference()
    except Exception as error:  # whatever is raised, the caller goes on to the next trace
        return f"step {run.step if run else 0}: {type(error).__name__}: {error}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay everything; 0 if there was something and all of it was equal."""
    parser = argparse.ArgumentParser(description="Replay traces of vLLM V0's scheduler; say which of them are equal.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATHS", help="files or folders")
    parser.add_argument("--lenient", action="store_true", help="without strict_v0: as sequence_group is by default")
    args = parser.parse_args(arguments)
    num_traces = num_equal = 0
    for path in args.paths:
        for file in sorted(path.rglob("*.jsonl.gz")) if path.is_dir() else [path]:
            try:
                traces = read_traces(file)
            except BrokenTraceError as error:
                print(error)
                num_traces += 1
                continue
            for trace in traces:
                difference = replay(lenient(trace) if args.lenient else trace)
                num_traces += 1
                num_equal += difference is None
                if difference is not None:
                    print(f"{trace['name']}: {difference}"[:MAX_LINE])
    print(f"{num_equal} of {num_traces} equal")
    return int(not num_traces or num_equal < num_traces)


if __name__ == "__main__":
    sys.exit(main())
