"""Traces of vLLM's async scheduling, replayed: a step is decided while the one before it is in flight.

A record is of one step of vLLM's engine, in which one batch is decided and the batch before it is taken in. Source:
EngineCore.step_with_batch_queue in vllm/v1/engine/core.py.
"""

from collections import deque
from typing import NamedTuple

from labkit.compare.replay import ReplayRun, TablesByGroup, describe_masks, describe_queues, scheduler_cls_of
from labkit.compare.replay_transfers import describe_report
from mini_vllm.engine.ahead import one_step_ahead
from mini_vllm.engine.ahead.core import MOST_IN_FLIGHT
from mini_vllm.engine.ahead.drafts import AsyncSpeculativeScheduler
from mini_vllm.engine.ahead.scheduler import AsyncScheduler
from mini_vllm.observe.trace import Record, fake_token
from mini_vllm.offload.transfer.connector import TransferReport
from mini_vllm.policies.registry import get_scheduler_cls
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVResult


class Batch(NamedTuple):
    """A batch that was decided, and what the fake model says of it."""

    number: int
    step: Step
    sampled: dict[str, list[int]]


class AsyncReplayRun(ReplayRun):
    """Runs the scenario of a trace with a queue of two batches."""

    scheduler: AsyncScheduler

    def __init__(self, trace: Record) -> None:
        base = scheduler_cls_of(trace) if trace["config"].get("spec") else get_scheduler_cls("v1")
        super().__init__(trace, scheduler_cls=one_step_ahead(base))
        self.recorder = TablesByGroup(self.scheduler)
        self.records = []
        self._queue: deque[Batch] = deque()
        self._has_news = False  # requests have ended, and no batch has told the workers of it
        self._ending = 0  # the step whose batch is taken in

    def is_done(self) -> bool:
        return super().is_done() and not self._queue and not self._has_news

    def run_step(self) -> SchedulerOutput:
        """Decide a batch, if there is anything to decide, and take in the oldest one, if it is time."""
        before = self._begin_now() if self._queue or self._has_news else self._begin()
        self._has_news |= bool(before)
        record: Record = {"step": self.step, "aborted_before": before}
        batch = None
        if self.scheduler.has_unfinished_requests() or self._has_news:
            batch = self._decide(record)
            self._queue.append(batch)
        output = batch.step.output if batch else SchedulerOutput()
        has_more = batch and (output.num_scheduled_tokens or self.scheduler.has_unfinished_requests())
        is_deferred = batch is not None and bool(batch.step.unanswered)
        if self._queue and (is_deferred or not (has_more and len(self._queue) < MOST_IN_FLIGHT)):
            self._take_in(self._queue.popleft(), record)
        if batch is not None:
            if is_deferred:
                record["deferred"] = True
                if drafts := self._recorded_drafts(self.step):
                    assert isinstance(self.scheduler, AsyncSpeculativeScheduler)
                    self.scheduler.take_in_drafts(drafts)
                    record["spec_checked"] = dict(output.drafts)
                for part in batch.step.unanswered:
                    part.after_schedule(batch.step, self.scheduler)
            record["bitmask"] = describe_masks(self.scheduler, output)
        if self.connector is not None:
            record["calls"] = self.connector.take_calls()
        self.records.append(record)
        self.recorder.totals["steps"] = len(self.records)
        self.step += 1
        return output

    def _begin_now(self) -> list[str]:
        """The same, but time does not jump while a batch is in flight."""
        aborted = self._abort("before")
        while self._todo and self._todo[0].get("arrival_step", 0) <= self.step:
            self._add(self._pop_group())
        return aborted

    def _decide(self, record: Record) -> Batch:
        scheduler, self._has_news = self.scheduler, False
        self.recorder.before_schedule()
        step = Step.decide(scheduler)
        record |= self.recorder.after_schedule(step, self.step, **describe_queues(scheduler, step.output))
        del record["computed"]  # it is told when a batch is taken in
        if self.connector is not None:
            self.connector.work(self.step)
            record["kv"] = describe_report(self.connector.reports[self.step])
        output, placeholders, sampled = step.output, dict[str, int](), dict[str, list[int]]()
        for request in output.scheduled_requests:
            name, n = request.request_id, output.num_scheduled_tokens[request.request_id]
            if scheduler.needs_sample(request, n):
                placeholders[name] = scheduler.num_output_placeholders[request] + 1 + len(output.drafts.get(name, ()))
                position = request.num_computed_tokens + n
                sampled[name] = [fake_token(self._seeds[name], position, self.config["vocab_size"])]
        record["placeholders"] = placeholders
        return Batch(self.step, step, sampled)

    def _take_in(self, batch: Batch, record: Record) -> None:
        scheduler, kv = self.scheduler, self.scheduler.kv_cache_manager
        sampled = self._answer(batch)
        during, self._ending = self._abort("during"), batch.number
        batch.step.end_kv(kv, KVResult())
        finished = batch.step.update(scheduler, sampled)
        self._has_news |= bool(finished or during)
        record |= {"processed": batch.number, "aborted_during": during, "free": kv.num_free_blocks}
        record["finished"] = [[request.request_id, request.finish_reason] for request in finished]
        record["cached"] = kv.num_cached_blocks
        record["computed"] = {
            request.request_id: request.num_computed_tokens + self._num_in_flight(request)
            for request in scheduler.running
        }
        if batch.step.output.num_scheduled_tokens:
            record["sampled"] = sampled

    def _report(self) -> TransferReport:
        assert self.connector is not None
        return self.connector.reports[self._ending]

    def _answer(self, batch: Batch) -> dict[str, list[int]]:
        """What came of a batch. With grammars or drafts the tokens are an input, as they are recorded."""
        if self.gate is None and not self.config.get("spec"):
            return batch.sampled
        recorded = self._inputs.get(self.step, {}).get("sampled", {})
        return {name: recorded.get(name, token_ids) for name, token_ids in batch.sampled.items()}

    def _num_in_flight(self, request: Request) -> int:
        """vLLM counts tokens as computed when they are scheduled."""
        assert request.status is RequestStatus.RUNNING
        return sum(batch.step.output.num_scheduled_tokens.get(request.request_id, 0) for batch in self._queue)
