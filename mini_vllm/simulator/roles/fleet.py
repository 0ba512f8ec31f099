"""Prefill workers and decode workers, and the loop that drives both through a trace.

A prompt is routed as in the plain fleet, among the prefill workers. When one has computed it, the
decode worker with the fewest live tokens is chosen, those on their way included. The tokens that
its cache does not have are sent. A link carries one transfer at a time, at both ends. A prefill
worker gives its blocks back to its cache at once, and a decode worker takes blocks when all has
arrived: how long blocks are held at both ends during a transfer is left out.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from mini_vllm.errors import InvalidParameterError, PromptTooLongError
from mini_vllm.load.workload import TraceRequest
from mini_vllm.simulator.fleet import ROUTINGS, Simulation, check_fleet
from mini_vllm.simulator.metrics import SLO, Metrics, QuantileSketch
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.roles.decode import DecodeReplica
from mini_vllm.simulator.roles.options import Roles
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.step_time import StepTimeModel

OnTransfer = Callable[[int, float, float, str], object]  # index, start, end, "transfer"


class Event(NamedTuple):
    """A prompt is computed on a prefill worker, or has arrived at a decode worker."""

    time: float
    order: int  # of equal times
    request: SimRequest
    source: int  # the prefill worker
    target: int | None = None  # the decode worker at which it has arrived


class PrefillMetrics(Metrics):
    """Of one prefill worker: it tells the fleet when a prompt is computed."""

    def __init__(self, fleet: "RoleFleet", source: int) -> None:
        super().__init__(SLO())
        self.fleet, self.source = fleet, source

    def add_finished(self, request: SimRequest, now: float) -> None:
        self.fleet.computed(int(request.request_id), self.source, now)


class RoleFleet:
    """The engines of both roles, and what is on its way between them."""

    def __init__(
        self,
        roles: Roles,
        config: Mapping[str, Any],
        model: StepTimeModel,
        metrics: Metrics,
        on_transfer: OnTransfer | None,
    ) -> None:
        self.roles, self.metrics = roles, metrics
        self.prefill = [
            Replica(config, model, PrefillMetrics(self, i), is_first=False)
            for i in range(roles.num_prefill)
        ]
        self.decode = [
            DecodeReplica(config, model, metrics, is_first=i == 0) for i in range(roles.num_decode)
        ]
        self.transfers = QuantileSketch()  # seconds from computed to arrived
        self.num_sent_tokens = 0
        self.on_transfer = on_transfer
        self._events: list[Event] = []
        self._numbers = count()
        self._requests: dict[int, SimRequest] = {}  # that are computed, by index
        self._free_at = ([0.0] * roles.num_prefill, [0.0] * roles.num_decode)
        self._num_coming = [0] * roles.num_decode  # tokens on their way to each decode worker

    def add(self, source: int, index: int, spec: TraceRequest, block_size: int) -> None:
        """Queue a prompt on a prefill worker. Raises a RequestRefusedError."""
        self.prefill[source].add(SimRequest(index, spec._replace(output_length=1), block_size))
        self._requests[index] = SimRequest(index, spec, block_size)

    def computed(self, index: int, source: int, now: float) -> None:
        """A prefill worker has ended a step."""
        self._push(Event(now, next(self._numbers), self._requests.pop(index), source))

    def _push(self, event: Event) -> None:
        heappush(self._events, event)

    def run_until(self, time: float) -> None:
        """Everything that happens before `time`, in its order."""
        for replica in self.prefill:
            replica.run_until(time)
        while self._events and self._events[0].time <= time:
            event = heappop(self._events)
            for replica in self.decode:
                replica.run_until(event.time)
            if event.target is None:
                self._send(event)
            else:
                self._num_coming[event.target] -= event.request.num_prompt_tokens
                self.decode[event.target].arrive(event.request, event.time)
        for replica in self.decode:
            replica.run_until(time)

    def _send(self, event: Event) -> None:
        """Begin a transfer when both ends of it are free."""
        loads = [
            replica.num_live_tokens + num_coming
            for replica, num_coming in zip(self.decode, self._num_coming, strict=True)
        ]
        target = loads.index(min(loads))
        self._num_coming[target] += event.request.num_prompt_tokens
        num_tokens = self.decode[target].num_missing_tokens(event.request)
        sending, receiving = self._free_at
        start = max(event.time, sending[event.source], receiving[target])
        end = start + self.roles.seconds(num_tokens)
        sending[event.source] = receiving[target] = end
        self.transfers.add(end - event.time)
        self.num_sent_tokens += num_tokens
        if self.on_transfer is not None:
            self.on_transfer(int(event.request.request_id), start, end, "transfer")
        self._push(event._replace(time=end, order=next(self._numbers), target=target))

    def report(self, num_routed: list[int]) -> dict[str, Any]:
        """That of Metrics; and under "roles" the transfers and how busy each role was."""
        stats = [each.scheduler.prefix_cache_stats for each in self.prefill]
        report = self.metrics.report(
            sum(each.queries for each in stats), sum(each.hits for each in stats)
        )
        seconds = self.metrics.end or math.inf
        report["requests_per_replica"] = num_routed
        report["roles"] = {
            "transfer": self.transfers.summary(),
            "sent_tokens": self.num_sent_tokens,
            "prefill_busy": sum(each.metrics.busy for each in self.prefill)
            / (seconds * len(self.prefill)),
            "decode_busy": self.metrics.busy / (seconds * len(self.decode)),
        }
        return report


def simulate_roles(
    trace: Iterable[TraceRequest],
    config: Mapping[str, Any],
    model: StepTimeModel,
    roles: Roles,
    *,
    routing: str = "round_robin",
    slo: SLO | None = None,
    metrics: Metrics | None = None,
    on_replica: Callable[[Replica], object] | None = None,
    on_transfer: OnTransfer | None = None,
) -> Simulation:
    """As fleet.simulate(), with engines of two roles; TTFT ends with the decode worker's first
    token.

    on_replica: is told of each engine before it runs; on_transfer: of each transfer. Raises
    InvalidParameterError for a bad configuration, and for drafts.
    """
    if config.get("acceptance") is not None:
        raise InvalidParameterError("roles are simulated without drafts: acceptance must be None")
    check_fleet(roles.num_prefill + roles.num_decode, config, routing)
    metrics = metrics or Metrics(slo or SLO())
    fleet = RoleFleet(roles, config, model, metrics, on_transfer)
    if on_replica is not None:
        for replica in (*fleet.prefill, *fleet.decode):
            on_replica(replica)
    num_routed = [0] * roles.num_prefill
    for index, spec in enumerate(trace):
        fleet.run_until(spec.arrival_time)
        prompt = SimRequest(index, spec, config["block_size"])
        try:
            source = fleet.prefill.index(ROUTINGS[routing](fleet.prefill, prompt, index))
            fleet.add(source, index, spec, config["block_size"])
            num_routed[source] += 1
        except PromptTooLongError:
            metrics.num_refused += 1
    fleet.run_until(math.inf)
    return Simulation(fleet.report(num_routed), metrics.timeline.points)
