"""The KVCacheManager: which blocks hold the tokens of which request.

Only full blocks are hashed, each chained to the one before it, so that equal hashes mean equal
prefixes. A block is cached when its slots are allocated, before they are computed: a request
admitted later in the same step may share it. That is safe because every layer writes the K and V of
the whole batch before it attends (attention/); the price is that code which drops a request between
allocation and computation has to withdraw its hashes, which free() does. Called by the scheduler.
Source: vllm/v1/core/kv_cache_manager.py, single_type_kv_cache_manager.py, kv_cache_utils.py.
"""

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from mini_vllm.block_hash import HASH_FUNCTIONS
from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.errors import InvalidParameterError, KVCacheTooSmallError, shown
from mini_vllm.request import Request
from mini_vllm.step import BlockTable, KVPlan, KVResult, LayerKVSpec


@dataclass(slots=True)
class PrefixCacheStats:
    """Counted once for each admission. Source: PrefixCacheStats in vllm/v1/metrics/stats.py."""

    requests: int = 0
    queries: int = 0  # tokens looked up
    hits: int = 0  # tokens found

    def record(self, num_tokens: int, num_hits: int) -> None:
        self.requests += 1
        self.queries += num_tokens
        self.hits += num_hits


PART = {"part": True}  # metadata of a field that is a part handed in, and no option


@dataclass(eq=False, repr=False)
class KVCacheManager:
    """Owns the block table of every request that holds blocks; a request without a table holds
    none.

    num_blocks counts the null block 0, so num_blocks - 1 are usable. The fields are its options.
    """

    num_blocks: int
    block_size: int
    _: KW_ONLY
    enable_prefix_caching: bool = True
    hash_function: str = "exact"
    """ "exact" or "sha256"."""

    def __post_init__(self) -> None:
        num_blocks, hash_function = self.num_blocks, self.hash_function
        if num_blocks < 2:
            raise KVCacheTooSmallError(
                f"num_blocks must be at least 2 (block 0 is the null block), got {num_blocks}"
            )
        if self.block_size < 1:
            raise InvalidParameterError(f"block_size must be at least 1, got {self.block_size}")
        if hash_function not in HASH_FUNCTIONS:
            raise InvalidParameterError(
                f"hash_function must be one of {[*HASH_FUNCTIONS]}, got {shown(hash_function)}"
            )
        self.block_pool = BlockPool(num_blocks)
        self._hash_block = HASH_FUNCTIONS[hash_function]
        self._tables: dict[str, list[KVCacheBlock]] = {}
        # By request, how many of its blocks are published. A request whose full blocks all are is
        # not in here: its number is num_computed_tokens // block_size.
        self._num_published: dict[str, int] = {}

    @property
    def num_usable_blocks(self) -> int:
        return self.num_blocks - 1

    @property
    def num_free_blocks(self) -> int:
        return self.block_pool.num_free_blocks

    @property
    def num_cached_blocks(self) -> int:
        """How many different contents can be found, in free and in held blocks."""
        return self.block_pool.num_cached_hashes

    @property
    def usage(self) -> float:
        """The share of the usable blocks that is held, in [0, 1]."""
        return 1 - self.num_free_blocks / self.num_usable_blocks

    def free_block_ids(self) -> list[int]:
        """The free blocks, next to be taken first."""
        return self.block_pool.free_queue.block_ids()

    def get_block_ids(self, request_id: str) -> list[int]:
        """The block table of the request; [] when it holds nothing."""
        return [block.block_id for block in self._tables.get(request_id, ())]

    @classmethod
    def layer_groups(cls, kv_specs: Sequence[LayerKVSpec]) -> tuple[int, ...]:
        """The group of each layer, whose block tables it uses; () is one group for all, as here.

        A manager with several groups raises InvalidParameterError for a model that has other kinds
        of layers.
        """
        return ()

    def get_num_blocks(self, request_id: str) -> tuple[int, ...]:
        """How many blocks the table of the request has, in each group of layers: here there
        is one.
        """
        return (len(self._tables.get(request_id, ())),)

    def get_block_tables(
        self, request_id: str, num_known: Sequence[int] = (0,)
    ) -> tuple[BlockTable, ...]:
        """The block tables of the request, one for each group of layers, behind the first num_known
        blocks of each.
        """
        return (
            tuple(block.block_id for block in self._tables.get(request_id, ())[num_known[0] :]),
        )

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """Find the longest cached prefix: its blocks and how many tokens they hold.

        Changes nothing.

        At most num_tokens - 1 tokens, rounded down to blocks: the last token is always computed,
        since its logits are needed. So a prompt that is cached to the last token still computes its
        whole last block.
        """
        hits: list[KVCacheBlock] = []
        if self.enable_prefix_caching:
            hashes = self._block_hashes(request)
            for i in range((request.num_tokens - 1) // self.block_size):
                block = self.block_pool.get_cached_block(hashes[i])
                if block is None:
                    break
                hits.append(block)
        return hits, len(hits) * self.block_size

    def num_blocks_needed(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> int:
        """How many free blocks it takes to give the request slots for its first num_tokens tokens.

        Changes nothing.

        A computed block that no request holds counts: it lies in the free queue and would leave it.
        """
        table = self._tables.get(request.request_id, ())
        num_needed = max(-(-num_tokens // self.block_size) - len(table) - len(computed_blocks), 0)
        if computed_blocks:
            num_needed += sum(block.ref_cnt == 0 for block in computed_blocks)
        return num_needed

    def num_tokens_reserved(self, request: Request, num_tokens: int = 0) -> int:
        """For how many tokens a request must find slots that is admitted only if all of its tokens
        fit at once; num_tokens: those behind its first step.

        They are fewer than it has if a manager gives blocks back while the request goes on.
        """
        return request.num_tokens

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """Give the request slots for num_new_tokens more tokens.

        computed_blocks is what get_computed_blocks found, for a request that is being admitted: its
        counter is still 0. The table then reads, in blocks:

            [0, computed)       shared, content known
            [computed, table)   held already
            [table, needed)     new

        Returns the new blocks (without the shared ones), or None, with nothing changed, if too few
        are free.
        """
        block_size = self.block_size
        num_computed = request.num_computed_tokens
        if computed_blocks:
            assert num_computed == 0, (
                f"hits are for a request whose counter is still 0, here it is {num_computed}"
            )
            num_computed = len(computed_blocks) * block_size
        num_tokens = num_computed + num_new_tokens
        new_blocks: list[KVCacheBlock] = []
        # else the slots are there already
        if num_tokens > len(self._tables.get(request.request_id, ())) * block_size:
            pool = self.block_pool
            num_needed = self.num_blocks_needed(request, num_tokens, computed_blocks)
            num_free = pool.num_free_blocks
            if num_needed > num_free:
                return None
            pool.touch(computed_blocks)
            new_blocks = pool.get_new_blocks(num_needed - (num_free - pool.num_free_blocks))
            self._tables.setdefault(request.request_id, []).extend((*computed_blocks, *new_blocks))
        if self.enable_prefix_caching:
            start, end = num_computed // block_size, num_tokens // block_size
            if start < end or request.request_id in self._num_published:
                self._cache_blocks(request, start, end)
        return new_blocks

    def free(self, request: Request) -> None:
        """Give the request's blocks back; a request that holds none is left alone.

        A request that is preempted in the step that was about to compute its blocks has published
        hashes of content that will never be written. They are withdrawn, or the request would come
        back to a stale hit; vLLM 0.33.0 keeps them (trace quirk_005). After the release, since the
        free queue's order depends on the hashes.
        """
        table = self._tables.pop(request.request_id, [])
        self._num_published.pop(request.request_id, None)
        self.block_pool.free_blocks(table)
        if not request.is_finished:
            for block in table[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(block)

    def withdraw(self, request: Request, num_new_tokens: int) -> None:
        """Forget the content that a step which failed was to write for a request that is finished
        meanwhile.

        Its blocks are gone, so this goes by content: an equal block that was written is forgotten
        too.
        """
        start, end = request.num_computed_tokens, request.num_computed_tokens + num_new_tokens
        for block_hash in request.block_hashes[start // self.block_size : end // self.block_size]:
            self.block_pool.uncache_hash(block_hash)

    # --- what a step needs, and a manager that knows more places than the blocks of the device ----

    def begin_step(self) -> KVPlan:
        """What has to happen to the KV cache before the step that schedule() has just decided
        computes.
        """
        return KVPlan()

    def end_step(self, result: KVResult | None) -> None:
        """The step went well, before update_from_output(); or it failed, after fail_step(): then
        result is None.
        """

    def exchange_notes(self, notes: Any) -> Any:
        """Hand out what was noted of one step, and go on with the notes of another.

        notes: what an earlier call has handed out; None begins a step that is not decided yet.
        The notes are what end_step() needs of the step that begin_step() has begun. So another step
        may be decided before this one ends:

            first = exchange_notes(None)        after begin_step(): ready for the next one
            second = exchange_notes(first)      before end_step() of the first
            exchange_notes(second)              behind it
        """
        return None

    def max_tokens_alone(self) -> int:
        """How many tokens of one request fit, if it is alone.

        Its last token needs no slot, and does not count.
        """
        return self.num_usable_blocks * self.block_size

    def num_external_tokens(self, request: Request) -> int:
        """How many of the computed tokens of a request that is being admitted are no hits of the
        prefix cache.
        """
        return 0

    # --- the prefix cache -------------------------------------------------------------------------

    def reset_prefix_cache(self) -> bool:
        """Forget all cached content; refused (False) while any block is held."""
        if self._tables or self.num_free_blocks < self.num_usable_blocks:
            return False
        for block in self.block_pool.blocks:
            self.block_pool.uncache_block(block)
        return True

    def cache_blocks(self, request: Request, num_in_flight: int = 0, is_left: bool = False) -> None:
        """Publish the full blocks of computed tokens that are not yet: those that accepted drafts
        or tokens in flight filled.

        Code that verifies drafts may call it after the step; else they are published by the next
        allocate_slots(). num_in_flight: tokens that a later step computes, whose blocks have to
        wait; is_left: even if all before them are published.
        """
        if not self.enable_prefix_caching:
            return
        request_id = request.request_id
        num_full = request.num_computed_tokens // self.block_size
        end = min(num_full, request.num_tokens // self.block_size)
        if (start := self._num_published.pop(request_id, None)) is not None:
            table = self._tables[request_id]
            while start < end and table[start].block_hash is not None:  # by a subclass, itself
                start += 1
            self._cache_blocks(request, start, end)
            is_left = True
        if (num_in_flight and is_left) or end < num_full:
            self._num_published.setdefault(request_id, end)

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        """Publish blocks [start, end) of the table, which the coming step fills, and those that
        were left before them.

        A block has a hash when all its tokens are known. What drafts fill is left until they are
        accepted.
        """
        request_id, hashes = request.request_id, self._block_hashes(request)
        table, start = self._tables[request_id], self._num_published.pop(request_id, start)
        for i in range(start, min(end, len(hashes))):
            self.block_pool.cache_block(table[i], hashes[i])
        if end > len(hashes):
            self._num_published[request_id] = max(start, len(hashes))

    def _block_hashes(self, request: Request) -> list[Hashable]:
        """The hashes of the request's full blocks.

        They depend on its tokens alone, so it remembers them.
        """
        hashes, size = request.block_hashes, self.block_size
        for i in range(len(hashes), request.num_tokens // size):
            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
            hashes.append(
                self._hash_block(hashes[-1], token_ids, None)
                if hashes
                else self._hash_block(None, token_ids, request.cache_salt)
            )
        return hashes
