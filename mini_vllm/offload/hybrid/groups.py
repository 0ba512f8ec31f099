"""What one group of layers sees of the past: all of it, a window, or a chunk.

From that follows which of a request's blocks the group needs, which hits are enough for it, and
which blocks are worth being found again. Source: the subclasses of SingleTypeKVCacheManager in
vllm/v1/core/single_type_kv_cache_manager.py and of AttentionSpec in vllm/v1/kv_cache_interface.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mini_vllm.errors import InvalidParameterError
from mini_vllm.step import LayerKVSpec

IsCached = Callable[[int], bool]
"""Whether the i-th block of a request is found in every group that is looked up together."""


NEVER = 1 << 62  # tokens: more than any request has


@dataclass(frozen=True, slots=True)
class FullAttention:
    """Layers that see every token before. Blocks have block_size tokens.

    Groups that are equal are looked up together.
    """

    block_size: int

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise InvalidParameterError(f"block_size must be at least 1, got {self.block_size}")

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """How many tokens no token sees that is still to be computed."""
        return 0

    def num_skipped_blocks(self, num_computed_tokens: int) -> int:
        """How many blocks these fill."""
        return self.num_skipped_tokens(num_computed_tokens) // self.block_size

    def next_skip(self, num_skipped_blocks: int) -> int:
        """How many tokens have to be computed until one block more is skipped."""
        return NEVER

    def most_blocks(self, num_tokens: int, num_batched_tokens: int) -> int:
        """How many blocks a request of num_tokens holds at most, if a step computes at most
        num_batched_tokens of it.
        """
        return -(-num_tokens // self.block_size)

    def find_longest_hit(
        self, is_cached: IsCached, num_tokens: int, alignment: int
    ) -> tuple[int, int]:
        """Where the longest hit of at most num_tokens tokens begins, in blocks, and how many tokens
        it has.

        A hit ends at a multiple of alignment. The blocks before its beginning are not needed.
        """
        return 0, self._end_of_run(is_cached, 0, num_tokens) // alignment * alignment

    def _end_of_run(self, is_cached: IsCached, first: int, num_tokens: int) -> int:
        """The tokens up to the first block from `first` on that is not cached."""
        end = first
        while end < num_tokens // self.block_size and is_cached(end):
            end += 1
        return end * self.block_size

    def is_kept(self, block: int, segment: int, ends: Sequence[int]) -> bool:
        """Whether a computed block is to be found again.

        segment: the tokens between two ends of hits that are kept for all; 0: there are none. ends:
        tokens at which hits of this request are expected to end.
        """
        return True

    def __str__(self) -> str:
        return "full attention"


@dataclass(frozen=True, slots=True)
class SlidingWindow(FullAttention):
    """Layers that see the last `window` tokens, the token itself included."""

    window: int

    @property
    def num_needed(self) -> int:
        """Consecutive blocks behind which a hit may end: they hold what the next token sees."""
        return -(-(self.window - 1) // self.block_size)

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        return max(0, num_computed_tokens - self.window + 1)

    def next_skip(self, num_skipped_blocks: int) -> int:
        return (num_skipped_blocks + 1) * self.block_size + self.window - 1

    def most_blocks(self, num_tokens: int, num_batched_tokens: int) -> int:
        """The window and a chunk lie in one block more than they fill, if they begin inside one."""
        held = -(-(self.window - 1 + num_batched_tokens) // self.block_size) + 1
        return min(-(-num_tokens // self.block_size), held)

    def find_longest_hit(
        self, is_cached: IsCached, num_tokens: int, alignment: int
    ) -> tuple[int, int]:
        """From the right end: the first window that is cached whole, or a run from the beginning
        on.
        """
        run = 0
        for i in range(num_tokens // self.block_size - 1, -1, -1):
            if not is_cached(i):
                run = 0
            elif run or (i + 1) * self.block_size % alignment == 0:
                run += 1
                if run >= self.num_needed:
                    return i, (i + run) * self.block_size
        return 0, run * self.block_size // alignment * alignment

    def is_kept(self, block: int, segment: int, ends: Sequence[int]) -> bool:
        """Only blocks of a window behind which a hit is expected to end."""
        size, need = self.block_size, self.num_needed
        if segment and block % (segment // size) >= segment // size - need:
            return True
        return any(end // size - need <= block < end // size for end in ends)

    def __str__(self) -> str:
        return f"a window of {self.window:,} tokens"


@dataclass(frozen=True, slots=True)
class ChunkedLocal(FullAttention):
    """Layers in which a token sees its own chunk of the sequence, up to itself."""

    chunk: int

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        return num_computed_tokens // self.chunk * self.chunk

    def next_skip(self, num_skipped_blocks: int) -> int:
        return -(-(num_skipped_blocks + 1) * self.block_size // self.chunk) * self.chunk

    def most_blocks(self, num_tokens: int, num_batched_tokens: int) -> int:
        return -(-min(num_tokens, self.chunk + num_batched_tokens) // self.block_size)

    def find_longest_hit(
        self, is_cached: IsCached, num_tokens: int, alignment: int
    ) -> tuple[int, int]:
        """No token sees what lies before the chunk of the last one, so it is not looked up. A hit
        that ends before that chunk, as where it begins inside a block, is looked up again.
        """
        begin = num_tokens // self.chunk * self.chunk
        first = begin // self.block_size
        end = self._end_of_run(is_cached, first, num_tokens) // alignment * alignment
        return (first, end) if end >= begin else self.find_longest_hit(is_cached, end, alignment)

    def __str__(self) -> str:
        return f"chunks of {self.chunk:,} tokens"


def group_of(spec: LayerKVSpec, block_size: int) -> FullAttention:
    """What a layer sees."""
    if spec.attention_chunk_size:
        return ChunkedLocal(block_size, spec.attention_chunk_size)
    window = spec.sliding_window
    return SlidingWindow(block_size, window) if window else FullAttention(block_size)
