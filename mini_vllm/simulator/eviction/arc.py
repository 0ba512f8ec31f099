"""ARC: blocks that were used once stand in one list, blocks that were used again in another.

Each list has ghosts: names that it had to give up. A ghost that is asked for says that its list is
too short, and the border moves. Source: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead
Replacement Cache", FAST 2003. ARCCachePolicy in vllm/v1/kv_offload/cpu/policies/arc.py differs:
there a ghost that comes back begins among the blocks that were used once.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from itertools import chain

from mini_vllm.simulator.eviction.policy import EvictionPolicy, Name, Prompt

List = OrderedDict[Name, None]  # the next one to go comes first


class ARC(EvictionPolicy):
    """once and again are in the cache, their ghosts are not; target is the length that `once` is
    to have, in [0, num_blocks].
    """

    def __init__(self, num_blocks: int, prompts: Sequence[Prompt] = ()) -> None:
        super().__init__(num_blocks)
        self.once: List = OrderedDict()
        self.again: List = OrderedDict()
        self.once_ghosts: List = OrderedDict()
        self.again_ghosts: List = OrderedDict()
        self.target = 0.0

    def __contains__(self, name: object) -> bool:
        return name in self.once or name in self.again

    def __iter__(self) -> Iterator[Name]:
        return chain(self.once, self.again)

    def __len__(self) -> int:
        return len(self.once) + len(self.again)

    def touch(self, name: Name) -> None:
        self.once.pop(name, None)
        self.again[name] = None
        self.again.move_to_end(name)

    def insert(self, name: Name, parent: Name | None) -> None:
        is_ghost = name in self.once_ghosts or name in self.again_ghosts
        (self.again if is_ghost else self.once)[name] = None
        self.once_ghosts.pop(name, None)
        self.again_ghosts.pop(name, None)
        while len(self.once) + len(self.once_ghosts) > self.num_blocks:
            self.once_ghosts.popitem(last=False)
        while len(self.again_ghosts) + len(self.once_ghosts) > self.num_blocks:
            self.again_ghosts.popitem(last=False)

    def evict(self, held: Set[Name], incoming: Name) -> None:
        num_once, num_again = len(self.once_ghosts), len(self.again_ghosts)
        if incoming in self.once_ghosts:
            self.target = min(self.target + max(1, num_again / num_once), self.num_blocks)
        elif incoming in self.again_ghosts:
            self.target = max(self.target - max(1, num_once / num_again), 0)
        is_long = len(self.once) > self.target or (
            incoming in self.again_ghosts and len(self.once) == self.target
        )
        lists = (self.once, self.once_ghosts), (self.again, self.again_ghosts)
        for names, ghosts in lists if is_long else reversed(lists):
            found = next((name for name in names if name not in held), None)
            if found is not None:
                del names[found]
                ghosts[found] = None
                return
