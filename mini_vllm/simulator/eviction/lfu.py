"""The block that was used least often gives way, and old uses count less.

A block's priority is its number of uses, plus the age of the cache when it was last used. The age
is the priority of the block that was evicted last. So a block that was used often long ago does
not stay without end. Source: LFU with dynamic ageing (Arlitt et al., "Evaluating Content Management
Techniques for Web Proxy Caches", 1999).
"""

from collections import Counter
from collections.abc import Sequence
from itertools import count

from mini_vllm.simulator.eviction.policy import Name, Prompt
from mini_vllm.simulator.eviction.ranked import Entry, RankedPolicy


class AgeingLFU(RankedPolicy):
    """Of equal priorities the block that was used longest ago goes."""

    def __init__(self, num_blocks: int, prompts: Sequence[Prompt] = ()) -> None:
        super().__init__(num_blocks)
        self.age = 0.0
        self._clock = count()
        self._num_uses: Counter[Name] = Counter()  # since the block is in the cache

    def rank(self, name: Name) -> tuple[float, float]:
        self._num_uses[name] += 1
        return self.age + self._num_uses[name], next(self._clock)

    def evicted(self, entry: Entry) -> None:
        self.age = entry.rank[0]
        del self._num_uses[entry.name]
