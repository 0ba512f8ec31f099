"""Every step of a scheduler as one JSON record, and a driver that makes such traces without a
model.

A trace is a dictionary {"schema", "name", "config", "requests", "aborts", "steps", "outputs",
"totals"}; the fields are documented in trace.schema.json beside this file, a superset of those
recorded from vLLM 0.33.0 (traces/). Tests compare traces, the book draws them, the labs diff them.
Only the public contract of the scheduler is used, so that any scheduler that honours it can be
traced.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Unpack

from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.stats import StatsRecorder
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.offload.connector import REMOTE_KV
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import VLLM_NAMES, Classes, describe, make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput, Step
from mini_vllm.step import KVPlan, KVResult
from mini_vllm.structured.scheduler import sampling

TRACE_SCHEMA_VERSION = 1
SCHEDULER_OPTIONS = (  # that a trace names whatever they are, if the scheduler has them
    *(
        "max_num_seqs",
        "max_num_batched_tokens",
        "long_prefill_token_threshold",
        "enable_chunked_prefill",
        "policy",
    ),
    *("max_model_len", "reserve_full_sequence", "watermark"),
)

Record = dict[str, Any]


class TraceRecorder(StepListener):
    """Watches one scheduler, as a listener of an engine or in the hands of the code that drives the
    scheduler.

    stats: whether every step also carries its SchedulerStats and what it computes by bucket
    (StepPlan).
    """

    def __init__(self, scheduler: SchedulerInterface, *, stats: bool = False) -> None:
        self.scheduler = scheduler
        self.stats = StatsRecorder(scheduler) if stats else None
        self.steps: list[Record] = []
        # every request ever scheduled, in order of first admission
        self.requests: dict[str, Request] = {}
        self.totals = dict.fromkeys(("preemptions", "steps", "scheduled_tokens"), 0)
        self._held: dict[str, list[int]] = {}  # request id -> block table before the step
        self._told: set[str] = set()  # whose table the records so far tell
        # by unfinished request: the record of the step that sampled for it last
        self._last: dict[str, Record] = {}

    def before_schedule(self) -> None:
        kv = self.scheduler.kv_cache_manager
        self._held = {r.request_id: kv.get_block_ids(r.request_id) for r in self.scheduler.running}
        self._told &= self._held.keys()

    def after_schedule(self, step: Step, number: int | None = None, **extra: Any) -> Record:
        """Record what schedule() and begin_step() decided.

        number: that of the step, by default one more than the last; extra: more fields.
        """
        scheduler = self.scheduler
        kv = self.scheduler.kv_cache_manager
        output = step.output
        plan = step.plan
        if number is None:
            number = self.steps[-1]["step"] + 1 if self.steps else 0
        record: Record = {
            "step": number,
            "sched": [[request_id, n] for request_id, n in output.num_scheduled_tokens.items()],
            "computed": {
                request.request_id: request.num_computed_tokens
                for request in output.scheduled_requests
            },
            "running": [request.request_id for request in scheduler.running],
            "free_sched": kv.num_free_blocks,
            **extra,
        }
        new, resumed, blocks, tables = self._describe_tables(output)
        optional = {
            "new": new,
            "resumed": resumed,
            "preempted": list(output.preempted_req_ids),
            "waiting": [request.request_id for request in scheduler.waiting],
            "loading": [name for name, why in output.blocked.items() if why == REMOTE_KV],
            "blocks": blocks,
            "tables": tables,
            **describe_copies(plan),
            "spec": {request_id: list(drafts) for request_id, drafts in output.drafts.items()},
            "forks": {
                name: [fork.request_id for fork in forks]
                for name, forks in output.sampling_along.items()
            },
            "stats": asdict(self.stats.record(output, plan)) if self.stats else {},
            "plan": describe_plan(StepPlan.of(number, output)) if self.stats else {},
        }
        record.update({key: value for key, value in optional.items() if value})
        self.steps.append(record)
        step.notes[self] = record
        self._count(output)
        return record

    def _count(self, output: SchedulerOutput) -> None:
        self.totals["steps"] += 1
        self.totals["scheduled_tokens"] += output.total_num_scheduled_tokens
        self.totals["preemptions"] += len(output.preempted_req_ids)

    def _describe_tables(
        self, output: SchedulerOutput
    ) -> tuple[list[Any], list[Any], Record, Record]:
        """The requests that are new and that are resumed, each with its computed tokens; and what
        became of tables.

        That is by request the blocks that were added at the end of its table, and whole tables that
        changed elsewhere.
        """
        new: list[Any] = []
        resumed: list[Any] = []
        blocks: Record = {}
        tables: Record = {}
        for request in output.scheduled_requests:
            request_id = request.request_id
            table = self.scheduler.kv_cache_manager.get_block_ids(request_id)
            held = self._held.get(request_id)
            if held is None:
                (resumed if request.num_preemptions else new).append(
                    [request_id, request.num_computed_tokens]
                )
                blocks[request_id] = table
            elif request_id not in self._told or table[: len(held)] != held:
                tables[request_id] = table
            elif len(table) > len(held):
                blocks[request_id] = table[len(held) :]
            self._told.add(request_id)
            self.requests.setdefault(request_id, request)
        return new, resumed, blocks, tables

    def after_update(
        self,
        step: Step,
        sampled_token_ids: Mapping[str, Sequence[int]],
        finished: Iterable[Request],
        *,
        failed: bool = False,
        **extra: Any,
    ) -> Record:
        """Complete the step's record with what the step produced. {} if it was begun before the
        recorder came.
        """
        record: Record | None = step.notes.get(self)
        if record is None:
            return {}
        kv = self.scheduler.kv_cache_manager
        record["sampled"] = {
            request_id: list(token_ids) for request_id, token_ids in sampled_token_ids.items()
        }
        self._last.update(dict.fromkeys(sampled_token_ids, record))
        ended = {request.request_id: request.finish_reason for request in finished}
        if ended:
            record["finished"] = list(map(list, ended.items()))
        for request_id in ended:
            self._last.pop(request_id, None)
        if failed:
            record["failed"] = True
        record.update(free=kv.num_free_blocks, cached=kv.num_cached_blocks, **extra)
        return record

    def after_finish(self, request: Request) -> None:
        """A stop string ended a request: the record of the step that sampled it tells it like any
        other end.
        """
        record = self._last.pop(request.request_id, None)
        if request.finish_reason != "abort" and record is not None:
            kv = self.scheduler.kv_cache_manager
            record.setdefault("finished", []).append([request.request_id, request.finish_reason])
            record.update(free=kv.num_free_blocks, cached=kv.num_cached_blocks)

    def to_trace(
        self, name: str, requests: Sequence[Record] | None = None, aborts: Sequence[Record] = ()
    ) -> Record:
        """The whole run. requests: the scenario's, or None to describe those that were seen."""
        scheduler = self.scheduler
        stats, again = scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats
        described = (
            [describe_request(request) for request in self.requests.values()]
            if requests is None
            else requests
        )
        return {
            "schema": TRACE_SCHEMA_VERSION,
            "name": name,
            "source": "mini_vllm",
            "config": describe_config(scheduler),
            "requests": list(described),
            "aborts": list(aborts),
            "steps": self.steps,
            "outputs": {
                request_id: list(request.output_token_ids)
                for request_id, request in self.requests.items()
            },
            "totals": {
                **self.totals,
                "prefix_requests": stats.requests,
                "prefix_queries": stats.queries,
                "prefix_hits": stats.hits,
                "preempted_requests": again.requests,
                "preempted_queries": again.queries,
                "preempted_hits": again.hits,
                "final_free_queue": scheduler.kv_cache_manager.free_block_ids(),
            },
        }


def describe_config(scheduler: SchedulerInterface) -> Record:
    """The options that decide what a scheduler does, by vLLM's names where these differ."""
    config = {
        name: getattr(scheduler.kv_cache_manager, name)
        for name in ("block_size", "num_blocks", "enable_prefix_caching")
    } | {name: getattr(scheduler, name) for name in SCHEDULER_OPTIONS if hasattr(scheduler, name)}
    config |= describe(scheduler)
    vllm_names = {option: name for name, option in VLLM_NAMES.items()}
    return {vllm_names.get(name, name): value for name, value in config.items()}


def describe_request(request: Request) -> Record:
    """A request as a scenario gives it."""
    return {
        "id": request.request_id,
        "arrival_time": request.arrival_time,
        "prompt": list(request.prompt_token_ids),
        "max_tokens": request.sampling_params.max_tokens,
        "priority": request.priority,
        "ignore_eos": request.sampling_params.ignore_eos,
    }


def describe_copies(plan: KVPlan) -> Record:
    """Which blocks a step moves."""
    swapped_in = plan.swap_in or getattr(plan.connector, "load", ())
    copies = {"swapped_out": plan.swap_out, "swapped_in": swapped_in, "copied": plan.copy}
    return {name: list(map(list, pairs)) for name, pairs in copies.items()}


def describe_plan(plan: StepPlan) -> Record:
    """What a step computes, by bucket: requests and tokens."""
    num_requests = Counter(bucket for _, bucket, _ in plan.participants)
    buckets = {bucket: [num_requests[bucket], n] for bucket, n in plan.num_tokens.items() if n}
    return {"buckets": buckets, "expected": plan.num_expected, "graph": plan.graph}


# --- traces without a model -----------------------------------------------------------------------


def fake_token(seed: int, position: int, vocab_size: int) -> int:
    """The token that the fake model samples at a position: a hash, the same in every schedule."""
    mask = (1 << 64) - 1
    x = (seed * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9) & mask
    x ^= x >> 31
    x = (x * 0x94D049BB133111EB) & mask
    x ^= x >> 29
    return x % vocab_size


class ScenarioRun:
    """Drives a scheduler through a scenario {"config", "requests", "aborts"} with a fake model,
    step by step.

    In each step: aborts "before", arrivals, schedule() and begin_step(), the fake model, aborts
    "during" (their token is dropped), end_step() and update_from_output(). When nothing is in
    flight, time jumps to the next arrival.
    """

    def __init__(self, scenario: Mapping[str, Any], **classes: Unpack[Classes]) -> None:
        self.scenario = scenario
        self.config = scenario["config"]
        self.scheduler = make_scheduler(self.config, **classes)
        self.recorder = TraceRecorder(self.scheduler)
        self.requests: dict[str, Request] = {}
        self.step = 0
        self._seeds: dict[str, int] = {}
        self._todo = deque(
            sorted(scenario["requests"], key=lambda spec: spec.get("arrival_step", 0))
        )

    def is_done(self) -> bool:
        return not self._todo and not self.scheduler.has_unfinished_requests()

    def run_step(self) -> SchedulerOutput:
        scheduler, recorder = self.scheduler, self.recorder
        before = self._begin()
        recorder.before_schedule()
        step = Step.decide(scheduler)
        recorder.after_schedule(step, self.step, **({"aborted_before": before} if before else {}))
        sampled, finished, during = self._compute(step)
        extra: Record = {"aborted_during": during} if during else {}
        recorder.after_update(step, sampled, finished, **extra)
        self.step += 1
        return step.output

    def _begin(self) -> list[str]:
        """Let time pass, abort what is aborted before the step, and add what arrives; returns the
        aborted ids.
        """
        if not self.scheduler.has_unfinished_requests():
            self.step = max(self.step, self._todo[0].get("arrival_step", 0))
        aborted = self._abort("before")
        while self._todo and self._todo[0].get("arrival_step", 0) <= self.step:
            self._add(self._pop_group())
        return aborted

    def _compute(self, step: Step) -> tuple[dict[str, list[int]], list[Request], list[str]]:
        """The fake model, and the end of the step: what was sampled, which requests finished, which
        were aborted.
        """
        scheduler, output = self.scheduler, step.output
        sampled = {
            request.request_id: self._sample(request, output.drafts.get(request.request_id, ()))
            for _, request in sampling(output, scheduler)
        }
        aborted = self._abort("during")
        step.end_kv(scheduler.kv_cache_manager, KVResult())
        return sampled, step.update(scheduler, sampled), aborted

    def to_trace(self) -> Record:
        trace = self.recorder.to_trace(
            self.scenario.get("name", ""),
            self.scenario["requests"],
            self.scenario.get("aborts", ()),
        )
        outputs = {
            request_id: list(request.output_token_ids)
            for request_id, request in self.requests.items()
        }
        return trace | {"config": dict(self.config), "outputs": outputs}

    def _pop_group(self) -> list[Record]:
        """The next request, with all that follow it in the same group."""
        group = [self._todo.popleft()]
        while (
            self._todo and "group" in group[0] and self._todo[0].get("group") == group[0]["group"]
        ):
            group.append(self._todo.popleft())
        return group

    def _add(self, specs: Sequence[Record]) -> None:
        requests = [self._make_request(spec) for spec in specs]
        self.requests.update((request.request_id, request) for request in requests)
        self._seeds.update((spec["id"], spec.get("sample_seed", 0)) for spec in specs)
        if len(requests) == 1:
            self.scheduler.add_request(requests[0])
        else:
            self.scheduler.add_group(requests)

    def _make_request(self, spec: Record) -> Request:
        return Request(
            spec["id"],
            spec["prompt"],
            SamplingParams(
                max_tokens=spec["max_tokens"],
                ignore_eos=spec.get("ignore_eos", False),
                stop_token_ids=tuple(spec.get("stop_token_ids", ())),
                temperature=0.0,
            ),
            eos_token_ids=(self.config["eos_token_id"],) if "eos_token_id" in self.config else (),
            priority=spec.get("priority", 0),
            arrival_time=spec.get("arrival_time", 0.0),
            cache_salt=spec.get("cache_salt"),
            max_model_len=self.config.get("max_model_len"),
        )

    def _sample(self, request: Request, drafts: Sequence[int]) -> list[int]:
        """A token behind what is known, and one behind each draft that is right."""
        seed, vocab_size = self._seeds[request.request_id], self.config.get("vocab_size", 1000)
        said = [
            fake_token(seed, request.num_tokens + i, vocab_size) for i in range(len(drafts) + 1)
        ]
        num_right = next((i for i, draft in enumerate(drafts) if draft != said[i]), len(drafts))
        return said[: num_right + 1]

    def _abort(self, phase: str) -> list[str]:
        aborted = []
        for abort in self.scenario.get("aborts", ()):
            request = self.requests.get(abort["id"])
            if (
                abort["step"] == self.step
                and abort["phase"] == phase
                and request
                and not request.is_finished
            ):
                self.scheduler.abort_request(abort["id"])
                aborted.append(abort["id"])
        return aborted


def run_trace(
    scenario: Mapping[str, Any], *, max_steps: int = 100_000, **classes: Unpack[Classes]
) -> Record:
    """Run a whole scenario.

    A scheduler that gets nowhere is stopped after max_steps with a RuntimeError.
    """
    run = ScenarioRun(scenario, **classes)
    for _ in range(max_steps):
        if run.is_done():
            return run.to_trace()
        run.run_step()
    raise RuntimeError(f"not finished after {max_steps} steps")
