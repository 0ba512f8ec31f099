"""A decode worker: the K and V of a prompt come from the engine that has computed them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.connector import KVConnector, Lookup
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.policies.registry import get_classes, make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerInterface
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.step import KVPlan, KVResult


class Arrivals(KVConnector):
    """Prompts that have arrived. A request takes its own once: preempted, it computes again."""

    def __init__(self) -> None:
        self._here: set[str] = set()

    def arrive(self, request: Request) -> None:
        """K and V of the whole prompt are here."""
        self._here.add(request.request_id)

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        if request.request_id not in self._here:
            return Lookup(0)
        return Lookup(max(request.num_prompt_tokens - 1 - num_computed_tokens, 0))

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        self._here.discard(request.request_id)

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        """Nothing is kept."""

    def request_finished(self, request: Request) -> None:
        self._here.discard(request.request_id)

    def begin_step(self) -> KVPlan:
        return KVPlan()

    def end_step(self, result: KVResult | None) -> None:
        """Nothing was on its way."""


@dataclass(eq=False, repr=False, kw_only=True)
class ArrivingKVCacheManager(OffloadingKVCacheManager):
    """A request that is admitted finds its prompt computed."""

    modes: ClassVar[Sequence[str]] = ("recompute",)
    preemption_mode: str = "recompute"

    def __post_init__(self) -> None:
        self.connector = self.arrivals = Arrivals()
        super().__post_init__()


class DecodeReplica(Replica):
    """A replica that gets its prompts computed. Raises InvalidParameterError for a scheduler with
    a KV cache manager of its own.
    """

    def make_scheduler(self, config: Mapping[str, Any]) -> SchedulerInterface:
        if (manager_cls := get_classes(config)[1]) is not KVCacheManager:
            raise InvalidParameterError(f"roles need KVCacheManager, got {manager_cls.__name__}")
        return make_scheduler(config, kv_cache_manager_cls=ArrivingKVCacheManager)

    def num_missing_tokens(self, request: SimRequest) -> int:
        """That its cache does not have."""
        kv = self.scheduler.kv_cache_manager
        return request.num_prompt_tokens - kv.get_computed_blocks(request)[1]

    def arrive(self, request: SimRequest, time: float) -> None:
        """Queue a request whose K and V are here since `time`. Raises a RequestRefusedError."""
        self.add(request)
        kv = self.scheduler.kv_cache_manager
        assert isinstance(kv, ArrivingKVCacheManager)
        kv.arrivals.arrive(request)
        self.now = max(self.now, time)
