"""A replica with tiers: the real manager and connector decide, a clock says when a load ends."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import TraceRequest
from mini_vllm.offload.remote.gate import attach_gate
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.disk import DiskTier
from mini_vllm.offload.tiers.host import HostTier
from mini_vllm.offload.tiers.manager import tiered
from mini_vllm.offload.tiers.work import LookupResult, TierPlan, TierResult
from mini_vllm.policies.registry import get_classes, make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput
from mini_vllm.simulator.fleet import Simulation, simulate
from mini_vllm.simulator.metrics import Metrics
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.step_time import StepTimeModel, Work
from mini_vllm.simulator.tiers.disk import DiskClock
from mini_vllm.simulator.tiers.options import Tiers
from mini_vllm.step import KVPlan, KVResult

COPIED = 5  # the place of the copied blocks in Work
WorthIt = Callable[[Request, int, int], bool]  # of a request, to read from block a to block b


class ChoosingConnector(TierConnector):
    """It waits for the disk only if that is worth it: asked once for each request."""

    def __init__(self, block_size: int, tiers: Tiers, is_worth_it: WorthIt) -> None:
        disk = DiskTier((), tiers.disk_blocks) if tiers.disk_blocks else None
        super().__init__(block_size, HostTier(tiers.host_blocks), disk)
        self.is_worth_it = is_worth_it
        self.declined: set[str] = set()
        self._asked: set[str] = set()

    def is_ready(self, request: Request, num_computed_tokens: int) -> bool:
        request_id = request.request_id
        if request_id not in self._asked:
            self._asked.add(request_id)
            start = num_computed_tokens // self.block_size
            names: Iterable[Any] = request.block_hashes[start : self._num_findable(request)]
            found = [self.lookup(name) for name in names]
            end = next((i for i, each in enumerate(found) if each is LookupResult.MISS), len(found))
            on_disk = [i for i in range(end) if found[i] is LookupResult.RETRY]
            if on_disk and not self.is_worth_it(request, start + on_disk[0], start + end):
                self.declined.add(request_id)
        return request_id in self.declined or super().is_ready(request, num_computed_tokens)

    def request_finished(self, request: Request) -> None:
        self._asked.discard(request.request_id)
        self.declined.discard(request.request_id)
        super().request_finished(request)

    def _num_findable(self, request: Request) -> int:
        return (request.num_tokens - 1) // self.block_size


class TieredReplica(Replica):
    """Loads and stores of main memory are in the time of their step; the disk works beside it."""

    def __init__(
        self,
        config: Mapping[str, Any],
        model: StepTimeModel,
        metrics: Metrics,
        *,
        is_first: bool,
        tiers: Tiers,
    ) -> None:
        self.tiers, self.disk = tiers, DiskClock(tiers.seconds_per_job)
        self._until = 0.0
        self._num_promised = 0  # blocks that this step will ask the disk for
        super().__init__(config, model, metrics, is_first=is_first)

    def make_scheduler(self, config: Mapping[str, Any]) -> SchedulerInterface:
        self.connector = ChoosingConnector(config["block_size"], self.tiers, self._is_worth_it)
        manager_cls = tiered(get_classes(config)[1], lambda: self.connector)
        scheduler = make_scheduler(config, kv_cache_manager_cls=manager_cls)
        attach_gate(scheduler)
        return scheduler

    def _is_worth_it(self, request: Request, start: int, end: int) -> bool:
        """Whether to read blocks [start, end) takes less time than to compute their tokens."""
        size = self.connector.block_size
        num_tokens = (end - start) * size
        pairs = num_tokens * (end * size) - num_tokens * (num_tokens - 1) // 2
        computed = self.model.seconds((0, 0, num_tokens, end * size, pairs, 0))
        copied = self.model.seconds((0, 0, 0, 0, 0, end - start))
        read = self.disk.wait_for(self._num_promised + end - start, self.now)
        is_worth_it = self.tiers.load == "always" or read + copied < computed
        self._num_promised += (end - start) * is_worth_it
        return is_worth_it

    def run_until(self, time: float) -> None:
        self._until = time
        super().run_until(time)

    def measure(self, output: SchedulerOutput, plan: KVPlan) -> tuple[Work, float]:
        """A step that computes nothing, since all requests wait for the disk, lasts until a job
        ends or a request arrives.
        """
        work, seconds = super().measure(output, plan)
        self._num_promised = 0
        if not isinstance(plan.connector, TierPlan):
            return work, seconds
        num_copied = len(plan.connector.store) + len(plan.connector.load)
        self.disk.begin(plan.connector.jobs, self.now)
        if not output.num_scheduled_tokens and not num_copied:
            return work, max(min(self.disk.next_end, self._until) - self.now, 0.0)
        work = (*work[:COPIED], work[COPIED] + num_copied)
        return work, self.model.seconds(work)

    def result_of(self, plan: KVPlan) -> KVResult:
        if not isinstance(plan.connector, TierPlan):
            return KVResult()
        return KVResult(connector=TierResult(self.disk.take_done(self.now)))


def simulate_tiers(
    trace: Iterable[TraceRequest],
    config: Mapping[str, Any],
    model: StepTimeModel,
    tiers: Tiers,
    *,
    on_replica: Callable[[Replica], object] | None = None,
    **options: Any,
) -> Simulation:
    """As fleet.simulate(), each replica with tiers of its own. The report has under "tiers" what
    moved, in blocks. on_replica: is told of each replica before it runs.

    Raises InvalidParameterError for a scheduler that brings a KV cache manager of its own, and for
    drafts.
    """
    if config.get("acceptance") is not None:
        raise InvalidParameterError("tiers are simulated without drafts: acceptance must be None")
    made: list[TieredReplica] = []

    def make(*args: Any, **rest: Any) -> Replica:
        made.append(TieredReplica(*args, tiers=tiers, **rest))
        if on_replica is not None:
            on_replica(made[-1])
        return made[-1]

    found = simulate(trace, config, model, replica_cls=make, **options)
    stats = [replica.connector.stats for replica in made]
    found.report["tiers"] = {
        "stored": sum(each.num_stored for each in stats),
        "loaded": sum(each.num_loaded for each in stats),
        "written": sum(each.num_written for each in stats),
        "read": sum(each.num_read for each in stats),
    }
    return found
