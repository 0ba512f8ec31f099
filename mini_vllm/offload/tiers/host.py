"""HostTier: which blocks of main memory hold which content, and which of them gives way.

Source: CPUOffloadingManager in vllm/v1/kv_offload/cpu/manager.py, LRUCachePolicy in
vllm/v1/kv_offload/cpu/policies/lru.py.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from mini_vllm.offload.tiers.work import Name
from mini_vllm.step import CpuBlockId


class HostBlock:
    """A block of main memory with a name. While it is held, no other content takes its place.

    state: "pending" until its content has arrived, then "ready"; "lost" if it cannot be found any
    more.
    """

    __slots__ = ("cpu_block", "is_frequent", "name", "ref_cnt", "state")

    def __init__(self, name: Name, cpu_block: CpuBlockId) -> None:
        self.name = name
        self.cpu_block = cpu_block
        self.ref_cnt = 1
        self.is_frequent = False  # several requests have wanted it
        self.state: Literal["pending", "ready", "lost"] = "pending"


class HostTier:
    """Owns num_blocks CPU blocks. Each is free, or held, or may be evicted: the one that was let go
    of first goes first (LRU).
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free = [CpuBlockId(i) for i in reversed(range(num_blocks))]
        self._blocks: dict[Name, HostBlock] = {}
        self._evictable: OrderedDict[Name, HostBlock] = OrderedDict()  # next to go first

    @property
    def num_held_blocks(self) -> int:
        return self.num_blocks - len(self._free) - self._num_evictable()

    def get(self, name: Name) -> HostBlock | None:
        """Where the content is or will be; None if it is not here."""
        return self._blocks.get(name)

    def take(self, name: Name) -> HostBlock | None:
        """A block for content that is not here, held and pending; None if every block is held."""
        assert name not in self._blocks, "the content is here already"
        if not self._free:
            if not self._num_evictable():
                return None
            evicted = self._next_evicted()
            del self._blocks[evicted.name]
            self._free.append(evicted.cpu_block)
        block = self._blocks[name] = HostBlock(name, self._free.pop())
        return block

    def hold(self, block: HostBlock) -> HostBlock:
        """Hold a block once more."""
        block.ref_cnt += 1
        self._queue_of(block).pop(block.name, None)
        return block

    def release(self, block: HostBlock) -> None:
        """Let go of a block. The last one to do so makes it the most recently used."""
        assert block.ref_cnt > 0, "a block is released more often than it is held"
        block.ref_cnt -= 1
        if block.ref_cnt == 0:
            if block.state == "lost":
                self._free.append(block.cpu_block)
            else:
                self._queue_of(block)[block.name] = block

    def want(self, names: Sequence[Name]) -> None:
        """A request begins, and would like to have these. It is told once for each request."""

    def touch(self, block: HostBlock) -> None:
        """The content is still wanted."""
        self.release(self.hold(block))

    def drop(self, block: HostBlock) -> None:
        """No lookup finds the content from now on. A block that is held stays until it is
        released.
        """
        if self._blocks.get(block.name) is not block:
            return
        self.hold(block)
        del self._blocks[block.name]
        block.state = "lost"
        self.release(block)

    def _num_evictable(self) -> int:
        return len(self._evictable)

    def _queue_of(self, block: HostBlock) -> OrderedDict[Name, HostBlock]:
        return self._evictable

    def _next_evicted(self) -> HostBlock:
        return self._evictable.popitem(last=False)[1]
