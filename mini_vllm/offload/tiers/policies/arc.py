"""ArcTier: main memory that tells blocks that one request wanted from those that several did.

Source: Megiddo and Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache (FAST 2003);
ARCCachePolicy in vllm/v1/kv_offload/cpu/policies/arc.py.
"""

from collections import OrderedDict
from collections.abc import Sequence

from mini_vllm.offload.tiers.host import HostBlock, HostTier
from mini_vllm.offload.tiers.work import Name


class ArcTier(HostTier):
    """T1 has blocks that were stored, T2 those that a later request has wanted again. B1 and B2
    have the names that left them last, at most num_blocks each.

    A request that wants a name of B1 would have hit a larger T1, one of B2 a larger T2: the size
    that T1 aims at goes up or down. So one long scan does not push out what is used every day.
    """

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self.target_t1_size = 0.0
        self.num_recent = 0
        """Blocks in T1, held ones too."""
        self._frequent: OrderedDict[Name, HostBlock] = OrderedDict()  # of T2, those that may go
        self._b1: OrderedDict[Name, None] = OrderedDict()
        self._b2: OrderedDict[Name, None] = OrderedDict()

    def want(self, names: Sequence[Name]) -> None:
        for name in reversed(names):  # so that the beginning of a prefix stays longest
            block = self.get(name)
            if block is None:
                self._adapt(name)
            elif block.state == "ready":
                self._queue_of(block).pop(name, None)
                self.num_recent -= not block.is_frequent
                block.is_frequent = True
                if not block.ref_cnt:
                    self._frequent[name] = block

    def _adapt(self, name: Name) -> None:
        b1, b2 = len(self._b1), len(self._b2)
        if name in self._b1:
            self.target_t1_size = min(self.target_t1_size + max(1, b2 / b1), self.num_blocks)
            self._b1.move_to_end(name)
        elif name in self._b2:
            self.target_t1_size = max(self.target_t1_size - max(1, b1 / b2), 0)
            self._b2.move_to_end(name)

    def take(self, name: Name) -> HostBlock | None:
        block = super().take(name)
        if block is not None:
            self.num_recent += 1
            self._b1.pop(name, None)
            self._b2.pop(name, None)
        return block

    def drop(self, block: HostBlock) -> None:
        is_here = self.get(block.name) is block
        super().drop(block)
        self.num_recent -= is_here and not block.is_frequent

    def _num_evictable(self) -> int:
        return super()._num_evictable() + len(self._frequent)

    def _queue_of(self, block: HostBlock) -> OrderedDict[Name, HostBlock]:
        return self._frequent if block.is_frequent else super()._queue_of(block)

    def _next_evicted(self) -> HostBlock:
        from_t1 = bool(self._evictable) and (
            self.num_recent >= int(self.target_t1_size) or not self._frequent
        )
        queue, ghosts = (self._evictable, self._b1) if from_t1 else (self._frequent, self._b2)
        name, block = queue.popitem(last=False)
        self.num_recent -= from_t1
        ghosts[name] = None
        if len(ghosts) > self.num_blocks:
            ghosts.popitem(last=False)
        return block


TIERS = {"lru": HostTier, "arc": ArcTier}
"""By kv_offload_policy: what main memory lets go of first."""
