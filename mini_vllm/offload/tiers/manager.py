"""A KV cache manager whose prefix cache goes on behind the device, and the gate for requests that
wait for a disk.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import ClassVar

from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import PART, KVCacheManager
from mini_vllm.offload.connector import REMOTE_KV
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Part, SchedulerInterface, Step
from mini_vllm.step import KVResult, StepInput, StepOutput

POLICIES = ("lru", "arc")


class SpillingPool(BlockPool):
    """A BlockPool that says what it evicts."""

    def __init__(self, num_blocks: int, evict: Callable[[Hashable, int], None]) -> None:
        super().__init__(num_blocks)
        self._evict = evict

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            if block.block_hash is not None:
                self._evict(block.block_hash, block.block_id)
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken


@dataclass(eq=False, repr=False, kw_only=True)
class TieredKVCacheManager(OffloadingKVCacheManager):
    """Behind the hits on the device, a request that is admitted loads what main memory has.

    A preempted request finds its full blocks there, so to swap and to recompute are one: what main
    memory has comes back, and the rest is computed. The names are
    sha256, whatever hash_function says: the tiers tell content from content by them alone.
    reset_prefix_cache() forgets what the device has (vLLM: reset_connector=False).
    """

    modes: ClassVar[Sequence[str]] = ("recompute", "swap")
    make_connector: ClassVar[Callable[[], TierConnector]]
    may_have_groups: ClassVar[bool] = False

    preemption_mode: str = "recompute"
    connector: TierConnector = field(default=None, metadata=PART)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.hash_function = "sha256"
        self.connector = self.connector or type(self).make_connector()
        super().__post_init__()
        self.preemption_mode = "swap"  # the same here: what a victim has computed is stored anyway
        self.block_pool = SpillingPool(self.num_blocks, self.connector.evict)  # type: ignore[arg-type]

    def num_external_tokens(self, request: Request) -> int:
        """What a tier has is a hit, too: the prefix cache goes on there."""
        return 0

    def is_ready(self, request: Request) -> bool:
        _, num_hit = KVCacheManager.get_computed_blocks(self, request)
        return self.connector.is_ready(request, num_hit)

    def end_step(self, result: KVResult | None) -> None:
        if result is None:
            self.connector.say_again()
        super().end_step(result)

    def withdraw(self, request: Request, num_new_tokens: int) -> None:
        super().withdraw(request, num_new_tokens)
        start, end = request.num_computed_tokens, request.num_computed_tokens + num_new_tokens
        names = request.block_hashes[start // self.block_size : end // self.block_size]
        self.connector.withdraw(names)  # type: ignore[arg-type]

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        start = self._num_published.get(request.request_id, start)
        super()._cache_blocks(request, start, end)
        table = self._tables[request.request_id]
        self.connector.publish(table[start : min(end, len(request.block_hashes))])


class LoadGate(Part):
    """A request whose content is on its way from the disk is passed over, and keeps its place."""

    def __init__(self, kv: TieredKVCacheManager) -> None:
        self.kv = kv
        self._waiting: list[str] = []  # for a load, in the step that is being decided

    def may_admit(self, request: Request) -> bool:
        is_ready = self.kv.is_ready(request)
        if not is_ready:
            self._waiting.append(request.request_id)
        return is_ready

    def after_schedule(self, step: Step, scheduler: SchedulerInterface) -> None:
        step.output.blocked.update(dict.fromkeys(self._waiting, REMOTE_KV))
        self._waiting = []


def tiered(
    manager_cls: type[KVCacheManager],
    make_connector: Callable[[], TierConnector],
    may_have_groups: bool = True,
) -> type[TieredKVCacheManager]:
    """The KV cache manager with tiers, which make_connector makes. may_have_groups: whether it may
    give way to one that has groups of layers, where the layers differ.

    Raises InvalidParameterError for one that is not the plain one: with groups of layers, or with
    blocks that are shared otherwise.
    """
    if manager_cls not in (KVCacheManager, OffloadingKVCacheManager):
        raise InvalidParameterError(
            f"kv_offload_bytes needs KVCacheManager, got {manager_cls.__name__}"
        )
    made = {"make_connector": staticmethod(make_connector), "may_have_groups": may_have_groups}
    return type(TieredKVCacheManager.__name__, (TieredKVCacheManager,), made)


def flush(kv: KVCacheManager, execute: Callable[[StepInput], Future[StepOutput]]) -> None:
    """Bring to its end what the tiers still have to do, between two steps: the last blocks go down
    and are written.
    """
    while isinstance(kv, TieredKVCacheManager) and (plan := kv.begin_step()):
        kv.end_step(execute(StepInput(kv=plan)).result().kv)
