"""The CPU pool as a scheduler sees it: which blocks of main memory hold the swapped-out table of which request.

Only names move here. Who asks puts the pairs into SchedulerOutput.blocks_to_swap_out and blocks_to_swap_in, and the
CacheEngine copies. Source: the CPU allocator and swap_out/swap_in of BlockSpaceManager in vLLM V0
(vllm/core/block_manager.py); V1 has none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from mini_vllm.errors import InvalidParameterError


class SwapSpace:
    """num_blocks CPU blocks, numbered from 0; there is no null block here. A table is held from swap_out to free.

    A CPU block is held by as many tables as share it. Raises InvalidParameterError for a negative num_blocks.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 0:
            raise InvalidParameterError(f"num_cpu_blocks must be at least 0, got {num_blocks}")
        self.num_blocks = num_blocks
        self._free = list(range(num_blocks))[::-1]  # the last one is taken next
        self._ref_cnt: Counter[int] = Counter()
        self._tables: dict[str, list[int]] = {}

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._tables

    @property
    def num_free_blocks(self) -> int:
        return len(self._free)

    def get_block_ids(self, request_id: str) -> list[int]:
        """The CPU blocks of the request, in the order of its table; [] when it holds none."""
        return list(self._tables.get(request_id, ()))

    def swap_out(
        self, request_id: str, block_ids: Sequence[int], shared: Mapping[int, int] | None = None
    ) -> list[tuple[int, int]] | None:
        """Hold CPU blocks for a table; returns the copies to make, (block, CPU block), or None, with nothing changed.

        shared: where blocks that this table has in common with others of the same step already go, block -> CPU block;
        they are held once more, and not copied again. For a group, let `shared` grow by dict(pairs) of each.
        """
        assert request_id not in self._tables, f"{request_id!r} is swapped out already"
        places = dict(shared or {})
        new = [block_id for block_id in block_ids if block_id not in places]
        if len(new) > len(self._free):
            return None
        pairs = [(block_id, self._free.pop()) for block_id in new]
        places.update(pairs)
        self._tables[request_id] = [places[block_id] for block_id in block_ids]
        self._ref_cnt.update(self._tables[request_id])
        return pairs

    def swap_in(self, request_id: str, block_ids: Sequence[int], start: int = 0) -> list[tuple[int, int]]:
        """The copies, (CPU block, block), that fill block_ids from CPU blocks [start, start + len) of the table.

        The table stays here until free(), so that a step that fails can still fall back to it. Whoever frees it in
        the step that copies must not swap out in that step any more: copies out come first.
        """
        cpu_block_ids = self._tables[request_id][start : start + len(block_ids)]
        return list(zip(cpu_block_ids, block_ids, strict=True))

    def free(self, request_id: str) -> None:
        """Let go of the request's CPU blocks; one that holds none is left alone."""
        for block_id in reversed(self._tables.pop(request_id, [])):
            self._ref_cnt[block_id] -= 1
            if not self._ref_cnt[block_id]:
                del self._ref_cnt[block_id]
                self._free.append(block_id)
