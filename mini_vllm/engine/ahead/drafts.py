"""Drafts one step ahead: how many there are is decided before they are known.

The device drafts behind what it has sampled, and puts its drafts into the next step. So a request
in flight has num_speculative_tokens drafts of value PADDING in the scheduler, and the device
verifies as many as it has; the rest is padding. What is rejected is taken back from both counters
when the step ends. Source: AsyncScheduler in vllm/v1/core/sched/async_scheduler.py,
Scheduler.update_draft_token_ids_in_output in vllm/v1/core/sched/scheduler.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mini_vllm.engine.ahead.core import AsyncCore, AsyncRunnerView
from mini_vllm.engine.ahead.scheduler import AsyncScheduler
from mini_vllm.engine.runner_view import Known
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler
from mini_vllm.spec_decode.verify import PADDING
from mini_vllm.step import BlockTable, SamplingRow, StepOutput
from mini_vllm.worker.feed import DraftedOutput


class AsyncSpeculativeScheduler(AsyncScheduler, SpeculativeScheduler):
    """Drafts come from the device: take_in_drafts() says what they were."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.proposer = None
        self._padding = [PADDING] * self.num_speculative_tokens

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        for request in output.scheduled_requests:
            if self.num_output_placeholders[request]:
                name = request.request_id
                # one token is known, if only to the device
                drafts = output.drafts.pop(name)[: output.num_scheduled_tokens[name] - 1]
                if drafts:
                    output.drafts[name] = drafts
        self._begun[-1].num_running = self._num_running
        self.update_draft_token_ids(dict.fromkeys(output.num_scheduled_tokens, self._padding))
        return output

    def _chunk_size(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        if not self.num_output_placeholders[request]:
            return super()._chunk_size(request, num_computed_tokens, token_budget)
        token_budget -= self.num_draft_slots * (1 + len(self._output.scheduled_requests))
        n = self._clamp_new_tokens(self._target(request) - num_computed_tokens, token_budget)
        self._is_whole &= n > self.num_speculative_tokens
        return max(n, 0)

    def take_in_drafts(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """What the device has drafted behind the step that was taken in last, by request: the next
        step with the request verifies it.
        """
        for request_id, token_ids in drafts.items():
            request = self._requests.get(request_id)
            if request is None or request.status is not RequestStatus.RUNNING:
                continue
            outputs = (b.output for b in self._begun)
            steps = (o.drafts for o in outputs if request_id in o.num_scheduled_tokens)
            waiting = next(steps, self._drafts)
            if request_id in waiting:
                drafted = [*token_ids, *self._padding]
                waiting[request_id] = drafted[: len(waiting[request_id])]

    def update_from_output(
        self, output: SchedulerOutput, sampled: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """The same. What stood for drafts that the device did not have counts as none."""
        begun, kv = self._begun[0], self.kv_cache_manager
        self._advance(begun)
        for request in output.scheduled_requests[: begun.num_running]:
            name = request.request_id
            drafts, num_accepted = output.drafts.pop(name, ()), len(sampled.get(name, ())) - 1
            num_drafts = max(len(drafts) - drafts.count(PADDING), num_accepted)
            if num_drafts > 0:
                output.drafts[name] = drafts[:num_drafts]
            output.num_scheduled_tokens[name] -= len(drafts) - max(num_drafts, 0)
        finished = super().update_from_output(output, sampled)
        for request in output.scheduled_requests:
            if request.status is RequestStatus.RUNNING and sampled.get(request.request_id):
                kv.cache_blocks(request, self.num_in_flight(request), kv.enable_prefix_caching)
                for later in self._begun:  # it begins where the right drafts end
                    if request in later.starts:
                        later.starts[request] = request.num_computed_tokens
        return finished


class DraftingView(AsyncRunnerView):
    """The device needs all tokens of a request, to draft behind them."""

    def _take_new_blocks(
        self, request: Request, now: Known, new_rows: dict[str, SamplingRow]
    ) -> tuple[BlockTable, ...]:
        tables = super()._take_new_blocks(request, now, new_rows)
        if row := new_rows.get(request.request_id):
            new_rows[request.request_id] = replace(row, token_ids=tuple(request.all_token_ids))
        return tables


class DraftingCore(AsyncCore):
    """Takes in what the device has drafted."""

    scheduler: AsyncSpeculativeScheduler
    runner_view_cls = DraftingView

    def _take_in(self, result: StepOutput) -> None:
        if isinstance(result, DraftedOutput):
            self.scheduler.take_in_drafts(result.drafts)
