"""What every eviction policy answers, and the replay that counts its hits.

The rules are those of an engine's prefix cache. A hit is a whole prefix: a block behind one that is
gone cannot be used. While a prompt is computed, all of its blocks are held, so none of them gives
way to another one of them. And every block of a prompt enters the cache.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from mini_vllm.errors import InvalidParameterError, is_int, shown
from mini_vllm.load.workload import HASH_BLOCK_SIZE, TraceRequest

Name = int  # of a block: of its tokens and of all before them
Prompt = Sequence[Name]  # its full blocks, from its head


class EvictionPolicy(ABC):
    """A set of at most num_blocks names, and the order in which they give way.

    prompts: all that will be asked for, in order; Belady alone looks at them. Raises
    InvalidParameterError for a num_blocks below 1.
    """

    def __init__(self, num_blocks: int, prompts: Sequence[Prompt] = ()) -> None:
        if not is_int(num_blocks, 1):
            raise InvalidParameterError(f"num_blocks must be at least 1, got {shown(num_blocks)}")
        self.num_blocks = num_blocks

    @abstractmethod
    def __contains__(self, name: object) -> bool: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Name]: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def touch(self, name: Name) -> None:
        """A block that is here is used again."""

    @abstractmethod
    def insert(self, name: Name, parent: Name | None) -> None:
        """A block that is not here enters; there is room. parent: the block before it."""

    @abstractmethod
    def evict(self, held: Set[Name], incoming: Name) -> None:
        """Forget one block that is not held, to make room for `incoming`."""

    def order(self, prompt: Prompt) -> Iterable[int]:
        """In which order the blocks of a prompt count as used: its tail before its head, as in
        BlockPool.free_blocks(). So a prefix is evicted after what was built on it.
        """
        return range(len(prompt) - 1, -1, -1)

    def use(self, prompt: Prompt) -> int:
        """Compute a prompt. Returns how many blocks at its head were found.

        Raises InvalidParameterError, and changes nothing, for a prompt that does not fit.
        """
        if len(prompt) > self.num_blocks:
            raise InvalidParameterError(
                f"a prompt of {len(prompt):,} blocks does not fit into {self.num_blocks:,}"
            )
        num_hits = next((i for i, name in enumerate(prompt) if name not in self), len(prompt))
        held = frozenset(prompt)
        for i in self.order(prompt):
            if prompt[i] in self:
                self.touch(prompt[i])
                continue
            if len(self) == self.num_blocks:
                self.evict(held, prompt[i])
            self.insert(prompt[i], prompt[i - 1] if i else None)
        return num_hits


class Replay(NamedTuple):
    """What became of a trace, in blocks."""

    num_asked: int
    """Full blocks of all prompts."""
    num_hits: int
    num_orphans: int
    """In the cache at the end, and of no use: a block before them is gone."""
    num_cached: int
    """In the cache at the end."""

    @property
    def hit_rate(self) -> float:
        return self.num_hits / max(self.num_asked, 1)


def prompts_of(trace: Iterable[TraceRequest]) -> list[Prompt]:
    """The full blocks of each prompt, of HASH_BLOCK_SIZE tokens each."""
    return [spec.hash_ids[: spec.input_length // HASH_BLOCK_SIZE] for spec in trace]


def replay(prompts: Iterable[Prompt], policy: EvictionPolicy) -> Replay:
    """Ask for one prompt after the other."""
    num_asked = num_hits = 0
    parents: dict[Name, Name | None] = {}
    for prompt in prompts:
        parents.update(zip(prompt, (None, *prompt), strict=False))
        num_asked += len(prompt)
        num_hits += policy.use(prompt)
    num_reachable = sum(_is_reachable(name, policy, parents) for name in policy)
    return Replay(num_asked, num_hits, len(policy) - num_reachable, len(policy))


def _is_reachable(name: Name, policy: EvictionPolicy, parents: dict[Name, Name | None]) -> bool:
    at: Name | None = name
    while at is not None and at in policy:
        at = parents[at]
    return at is None
