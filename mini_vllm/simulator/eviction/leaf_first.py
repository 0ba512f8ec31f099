"""Of the blocks on which no cached block is built, the one that was used longest ago gives way.

Source: RadixCache.evict of SGLang (Zheng et al., NeurIPS 2024). A test shows that it keeps what
LRU keeps: with the tail of a prompt used before its head, the oldest block is always a leaf.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappush
from itertools import count

from mini_vllm.simulator.eviction.policy import Name, Prompt
from mini_vllm.simulator.eviction.ranked import Entry, RankedPolicy


class LeafFirst(RankedPolicy):
    """A tree of blocks. It has no need of an order within a prompt."""

    def __init__(self, num_blocks: int, prompts: Sequence[Prompt] = ()) -> None:
        super().__init__(num_blocks)
        self._clock = count()
        self._parents: dict[Name, Name | None] = {}
        self._num_children: Counter[Name | None] = Counter()  # in the cache

    def order(self, prompt: Prompt) -> Iterable[int]:
        return range(len(prompt))

    def rank(self, name: Name) -> tuple[float, float]:
        return next(self._clock), 0

    def insert(self, name: Name, parent: Name | None) -> None:
        self._parents[name] = parent
        self._num_children[parent] += 1
        super().insert(name, parent)

    def may_go(self, name: Name) -> bool:
        return not self._num_children[name]

    def evicted(self, entry: Entry) -> None:
        parent = self._parents.pop(entry.name)
        self._num_children[parent] -= 1
        if parent is not None and self.may_go(parent):
            heappush(self._heap, self._entries[parent])
