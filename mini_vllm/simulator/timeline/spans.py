"""What each of the first requests does, from when to when."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mini_vllm.offload.tiers.work import TierPlan
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Part, SchedulerInterface, Step
from mini_vllm.simulator.replica import Replica


class Span(NamedTuple):
    """A request does one thing in [start, end), in seconds."""

    number: int  # of the request: its index in the trace
    start: float
    end: float
    kind: str  # of render.MARKS


class Spans:
    """Of the first num_requests requests of a run."""

    def __init__(self, num_requests: int) -> None:
        self.num_requests = num_requests
        self.arrivals: dict[int, float] = {}  # by index of a request, in seconds
        self.spans: list[Span] = []

    def watch(self, replica: Replica) -> None:
        """Note what its requests do from now on."""
        replica.scheduler.attach(Watch(replica, self))

    def add(self, index: int, start: float, end: float, kind: str) -> None:
        if index < self.num_requests:
            self.spans.append(Span(index, start, end, kind))


class Watch(Part):
    """Looks at the steps of one replica, and changes nothing."""

    def __init__(self, replica: Replica, spans: Spans) -> None:
        self.replica, self.spans = replica, spans
        self.start = 0.0

    def add(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if int(request.request_id) < self.spans.num_requests:
                self.spans.arrivals.setdefault(int(request.request_id), request.arrival_time)

    def before_schedule(self, scheduler: SchedulerInterface) -> None:
        self.start = self.replica.now

    def before_update(self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]]) -> None:
        """The step is over, and the counters are still those of its beginning."""
        scheduler, end = self.replica.scheduler, self.replica.now
        connector = step.plan.connector
        pairs = connector.load if isinstance(connector, TierPlan) else ()
        loaded = {block_id for _, block_id in pairs}
        for request in step.output.scheduled_requests:
            table = scheduler.kv_cache_manager.get_block_ids(request.request_id) if loaded else ()
            kind = "decode"
            if not loaded.isdisjoint(table):
                kind = "load"
            elif step.output.num_scheduled_tokens[request.request_id] > 1:
                kind = "prefill"
            self.spans.add(int(request.request_id), self.start, end, kind)
        for request_id in step.output.blocked:
            self.spans.add(int(request_id), self.start, end, "disk")
