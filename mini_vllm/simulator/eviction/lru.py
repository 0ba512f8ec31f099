"""The block that was used longest ago gives way.

Source: FreeKVCacheBlockQueue in vllm/v1/core/kv_cache_utils.py, and the reversed order of
SingleTypeKVCacheManager.free in vllm/v1/core/single_type_kv_cache_manager.py.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence, Set

from mini_vllm.simulator.eviction.policy import EvictionPolicy, Name, Prompt


class LRU(EvictionPolicy):
    """Of one prompt the head counts as used last."""

    def __init__(self, num_blocks: int, prompts: Sequence[Prompt] = ()) -> None:
        super().__init__(num_blocks)
        self._names: OrderedDict[Name, None] = OrderedDict()  # the next one to go comes first

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[Name]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def touch(self, name: Name) -> None:
        self._names.move_to_end(name)

    def insert(self, name: Name, parent: Name | None) -> None:
        self._names[name] = None

    def evict(self, held: Set[Name], incoming: Name) -> None:
        # A held block that goes comes back at once, and the next one goes: in the end those names
        # are there that were used last.
        self._names.popitem(last=False)


class PromptOrderLRU(LRU):
    """The same with the head used first, as the prompt is read: the head goes, and its tail stays
    behind, of no use.
    """

    def order(self, prompt: Prompt) -> Iterable[int]:
        return range(len(prompt))
