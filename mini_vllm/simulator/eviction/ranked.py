"""What policies have in common whose blocks have ranks: the block with the least rank gives way."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence, Set
from heapq import heappop, heappush
from typing import NamedTuple

from mini_vllm.simulator.eviction.policy import EvictionPolicy, Name, Prompt


class Entry(NamedTuple):
    """A block with its rank, of which a use makes a new one."""

    rank: tuple[float, float]
    name: Name


class RankedPolicy(EvictionPolicy):
    """A use of a block or an eviction takes O(log n), and the blocks that are held."""

    def __init__(self, num_blocks: int, prompts: Sequence[Prompt] = ()) -> None:
        super().__init__(num_blocks)
        self._entries: dict[Name, Entry] = {}
        # least rank first; an entry that is not its block's newest is passed over
        self._heap: list[Entry] = []

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Name]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @abstractmethod
    def rank(self, name: Name) -> tuple[float, float]:
        """That a block gets with the use of now."""

    def touch(self, name: Name) -> None:
        self._entries[name] = Entry(self.rank(name), name)
        heappush(self._heap, self._entries[name])

    def insert(self, name: Name, parent: Name | None) -> None:
        self.touch(name)

    def evict(self, held: Set[Name], incoming: Name) -> None:
        passed = []
        while (entry := self._next()).name in held:
            passed.append(entry)
        for each in passed:
            heappush(self._heap, each)
        del self._entries[entry.name]
        self.evicted(entry)

    def _next(self) -> Entry:
        while True:
            entry = heappop(self._heap)
            if self._entries.get(entry.name) is entry and self.may_go(entry.name):
                return entry

    def may_go(self, name: Name) -> bool:
        """Else it is looked at again when it is used."""
        return True

    def evicted(self, entry: Entry) -> None:
        """The block is gone."""
