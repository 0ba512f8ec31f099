"""DiskTier: which content is in a file, and which file gives way."""

from collections import OrderedDict
from collections.abc import Iterable

from mini_vllm.offload.tiers.work import Name


class DiskTier:
    """The names of at most num_blocks files, the least recently used first. It touches no file."""

    def __init__(self, names: Iterable[Name], num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._names = OrderedDict.fromkeys(names)
        self._coming: set[Name] = set()  # being written

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def reserve(self, name: Name) -> tuple[Name, ...] | None:
        """A place for a file that is about to be written; returns the names of those that have to
        go.

        None if it is here, or if there is no place.
        """
        if name in self._names or name in self._coming or len(self._coming) >= self.num_blocks:
            return None
        self._coming.add(name)
        num_evicted = len(self._names) + len(self._coming) - self.num_blocks
        return tuple(self._names.popitem(last=False)[0] for _ in range(num_evicted))

    def written(self, name: Name, is_there: bool) -> None:
        """A file that was reserved is there, or will never be."""
        self._coming.discard(name)
        if is_there:
            self._names[name] = None

    def touch(self, name: Name) -> None:
        """The file is still wanted."""
        if name in self._names:
            self._names.move_to_end(name)

    def drop(self, name: Name) -> bool:
        """Forget a file; returns whether it was known."""
        was_known = name in self._names
        self._names.pop(name, None)
        return was_known
