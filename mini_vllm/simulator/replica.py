"""A replica: one simulated engine. The scheduler and the KV cache manager are the real ones, the
model is a clock.

Its loop is that of LLMEngine.step(): schedule, compute, update. Arrivals join between two steps.
Every token is the same; which prompts are equal is told by the names of their blocks
(sim_request.py).

`acceptance` in its configuration asks for speculative decoding: the probability of each draft to be
right if those before it are. To make drafts takes no time; their verification takes that of a
chunk.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, cast

from mini_vllm.errors import InvalidParameterError, SchedulerStalledError, is_number, shown
from mini_vllm.policies.registry import get_scheduler_cls, make_scheduler
from mini_vllm.request import Request, until_its_end
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput, Step
from mini_vllm.simulator.metrics import Metrics, TimelinePoint
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.step_time import StepTimeModel, Work, work_of
from mini_vllm.spec_decode.scheduler import with_drafts
from mini_vllm.step import KVPlan, KVResult
from mini_vllm.structured.scheduler import sampling

TOKEN = b"\0"  # what every sampled_token_ids holds


class Guesses:
    """The proposer of drafts that are right as often as `acceptance` says."""

    def __init__(self, acceptance: float) -> None:
        if not is_number(acceptance, 0, 1):
            raise InvalidParameterError(f"acceptance must be in [0, 1], got {shown(acceptance)}")
        self.acceptance, self.rng = acceptance, Random(0)

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        return TOKEN * num_tokens

    def forget(self, request: Request) -> None:
        pass

    def answer(self, request: Request, drafts: Sequence[int]) -> Sequence[int]:
        """The tokens that a request gets: one behind each right draft, and one more."""
        wrong = (
            i for i, draft in enumerate(drafts) if draft < 0 or self.rng.random() >= self.acceptance
        )
        return until_its_end(request, TOKEN * (next(wrong, len(drafts)) + 1))


class Replica:
    """One engine at `now`, the end of its last step in seconds. config: as in a trace
    (mini_vllm/observe/trace.py).
    """

    def __init__(
        self, config: Mapping[str, Any], model: StepTimeModel, metrics: Metrics, *, is_first: bool
    ) -> None:
        acceptance = config.get("acceptance")
        self.guesses = None if acceptance is None else Guesses(acceptance)
        if self.guesses is None:
            self.scheduler = self.make_scheduler(config)
        else:
            scheduler_cls = with_drafts(get_scheduler_cls(config.get("scheduler", "v1")))
            self.scheduler = make_scheduler(config, scheduler_cls=scheduler_cls)
            self.scheduler.proposer = self.guesses  # type: ignore[attr-defined]
        self.model = model
        self.metrics = metrics
        self.is_first = is_first
        self.now = 0.0
        # of all unfinished requests: the KV cache that they hold or wait for
        self.num_live_tokens = 0

    def make_scheduler(self, config: Mapping[str, Any]) -> SchedulerInterface:
        """Without drafts."""
        return make_scheduler(config)

    def measure(self, output: SchedulerOutput, plan: KVPlan) -> tuple[Work, float]:
        """What a step computes that begins now, and its seconds."""
        work = work_of(output, plan)
        return work, self.model.seconds(work)

    def result_of(self, plan: KVPlan) -> KVResult:
        """What came of a connector's work by now, the end of the step."""
        return KVResult()

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
        if self.guesses is not None:
            request.name_known_blocks(
                request.num_prompt_tokens, self.scheduler.kv_cache_manager.block_size
            )
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
        decided = Step.decide(scheduler)
        output, plan = decided.output, decided.plan
        if not (output.num_scheduled_tokens or plan) and not output.preempted_req_ids:
            raise SchedulerStalledError(
                "requests are unfinished, but schedule() gave no tokens to any of them"
            )
        work, seconds = self.measure(output, plan)
        self.now = now = before + seconds
        usage = scheduler.kv_cache_manager.usage
        metrics.add_step(seconds, usage, work, len(output.preempted_req_ids))
        if self.is_first:
            metrics.timeline.add(
                TimelinePoint(now, len(scheduler.running), len(scheduler.waiting), usage)
            )
        samples = [cast("SimRequest", parent) for parent, _ in sampling(output, scheduler)]
        metrics.add_tokens(samples, before, now)
        answers: dict[str, Sequence[int]] = dict.fromkeys((r.request_id for r in samples), TOKEN)
        if self.guesses is not None:
            for request in samples:
                answer = self.guesses.answer(request, output.drafts.get(request.request_id, ()))
                answers[request.request_id] = answer
                request.name_known_blocks(
                    request.num_tokens + len(answer), scheduler.kv_cache_manager.block_size
                )
        num_tokens = sum(map(len, answers.values()))
        metrics.num_accepted_tokens += num_tokens - len(samples)
        self.num_live_tokens += num_tokens
        decided.end_kv(scheduler.kv_cache_manager, self.result_of(plan))
        for finished in decided.update(scheduler, answers):
            self.num_live_tokens -= finished.num_tokens
            metrics.add_finished(cast(SimRequest, finished), now)
