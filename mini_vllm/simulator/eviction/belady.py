"""The block whose next use is farthest away gives way: the bound of all policies.

It has to know what will be asked for, so no engine can do it. Source: Belady, "A study of
replacement algorithms for a virtual-storage computer", IBM Systems Journal 5 (2), 1966.
"""

import math
from collections import deque
from collections.abc import Sequence

from mini_vllm.simulator.eviction.policy import Name, Prompt
from mini_vllm.simulator.eviction.ranked import RankedPolicy


class Belady(RankedPolicy):
    """Use it on the prompts that it was given, in their order.

    Of blocks with the same next use the one farther from the head goes, so no prefix loses its
    head. Brute force over all choices finds no more hits (a test).
    """

    def __init__(self, num_blocks: int, prompts: Sequence[Prompt] = ()) -> None:
        super().__init__(num_blocks)
        self._uses: dict[Name, deque[int]] = {}  # to come, by number of the prompt
        self._depths: dict[Name, int] = {}
        for number, prompt in enumerate(prompts):
            for depth, name in enumerate(prompt):
                self._uses.setdefault(name, deque()).append(number)
                self._depths[name] = depth

    def rank(self, name: Name) -> tuple[float, float]:
        uses = self._uses[name]
        uses.popleft()
        return -uses[0] if uses else -math.inf, -self._depths[name]
