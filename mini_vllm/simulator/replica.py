"""A replica: one simulated engine. The scheduler and the KV cache manager are the real ones, the model is a clock.

Its loop is that of LLMEngine.step(): schedule, compute, update. Arrivals join between two steps. Every token is the
same; which prompts are equal is told by the names of their blocks (sim_request.py).
"""

from collections.abc import Mapping
from typing import Any, cast

from mini_vllm.errors import SchedulerStalledError
from mini_vllm.policies import make_scheduler
from mini_vllm.simulator.metrics import Metrics
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.step_time import StepTimeModel, work_of
from mini_vllm.step import KVResult

TOKEN = [0]  # what every sampled_token_ids holds


class Replica:
    """One engine at `now`, the end of its last step in seconds. config: as in a trace (mini_vllm/observe/trace.py)."""

    def __init__(self, config: Mapping[str, Any], model: StepTimeModel, metrics: Metrics, *, is_first: bool) -> None:
        self.scheduler = make_scheduler(config)
        self.model = model
        self.metrics = metrics
        self.is_first = is_first
        self.now = 0.0
        self.num_live_tokens = 0  # of all unfinished requests: the KV cache that they hold or wait for

    @property
    def num_requests(self) -> int:
        """That are unfinished."""
        return len(self.scheduler.waiting) + len(self.scheduler.running)

    @property
    def is_unused(self) -> bool:
        """It has served no request yet, and has none: its cache is empty."""
        return not (self.now or self.num_requests)

    def add(self, request: SimRequest) -> None:
        """Queue a request that arrives at or before the next step. Raises a RequestRefusedError."""
        self.scheduler.add_request(request)
        self.now = max(self.now, request.arrival_time)
        self.num_live_tokens += request.num_prompt_tokens

    def run_until(self, time: float) -> None:
        """Take every step that begins before `time`."""
        while self.now < time and self.scheduler.has_unfinished_requests():
            self.step()

    def step(self) -> None:
        """One step. Raises SchedulerStalledError as the engine does."""
        scheduler, metrics, before = self.scheduler, self.metrics, self.now
        output = scheduler.schedule()
        plan = scheduler.kv_cache_manager.begin_step()
        if not (output.has_work or plan) and not output.preempted_req_ids:
            raise SchedulerStalledError("requests are unfinished, but schedule() gave no tokens to any of them")
        work = work_of(output, plan)
        seconds = self.model.seconds(work)
        self.now = now = before + seconds
        usage = scheduler.kv_cache_manager.usage
        metrics.add_step(seconds, usage, work, len(output.preempted_req_ids))
        if self.is_first:
            metrics.timeline.add(now, len(scheduler.running), len(scheduler.waiting), usage)
        counts, needs_sample = output.num_scheduled_tokens, scheduler.needs_sample
        requests = cast("list[SimRequest]", output.scheduled_requests)
        sampling = [request for request in requests if needs_sample(request, counts[request.request_id])]
        metrics.add_tokens(sampling, before, now)
        self.num_live_tokens += len(sampling)
        scheduler.kv_cache_manager.end_step(KVResult())
        for finished in scheduler.update_from_output(output, dict.fromkeys((r.request_id for r in sampling), TOKEN)):
            self.num_live_tokens -= finished.num_tokens
            metrics.add_finished(cast(SimRequest, finished), now)
