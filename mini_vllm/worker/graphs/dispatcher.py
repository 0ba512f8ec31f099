"""From the makeup of a batch to the key of the recording that serves it.

Source: CudagraphDispatcher in vllm/v1/cudagraph_dispatcher.py, BatchDescriptor in
vllm/forward_context.py and _set_cudagraph_sizes in vllm/config/vllm.py.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from mini_vllm.worker.graphs.modes import CUDAGraphMode

MOST_TOKENS = 512  # of a recording; vLLM: 1,024 with compute capability 10.x


class BatchDescriptor(NamedTuple):
    """A padded batch. num_reqs is None where any number of requests will do."""

    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False


Key = tuple[CUDAGraphMode, BatchDescriptor]


def capture_sizes(
    max_num_seqs: int, max_num_batched_tokens: int, decode_query_len: int = 1
) -> list[int]:
    """The numbers of tokens that are recorded, ascending: close together where they are few.

    With drafts all are multiples of decode_query_len, so that a padded batch of decodes is one of
    decodes again (vLLM's first model runner: adjust_cudagraph_sizes_for_spec_decode).
    """
    largest = min(max_num_seqs * decode_query_len * 2, MOST_TOKENS)
    most_decodes = min(max_num_seqs, MOST_TOKENS) if decode_query_len > 1 else max_num_seqs
    num_decodes = {most_decodes} | (stepped(most_decodes) if decode_query_len > 1 else set())
    sizes = {n * decode_query_len for n in num_decodes if n * decode_query_len <= largest}
    sizes |= stepped(min(largest, max_num_batched_tokens)) | {max_num_batched_tokens}
    largest = min(largest, max_num_batched_tokens)
    sizes = {size for size in sizes if size <= largest}
    rounded = {-(-size // decode_query_len) * decode_query_len for size in sizes}
    return sorted(size for size in rounded if size <= max(sizes))


def stepped(largest: int) -> set[int]:
    """1, 2, 4, then multiples of 8 below 256, then of 16, up to the largest."""
    sizes = {1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)}
    return {size for size in sizes if size <= largest}


class CudagraphDispatcher:
    """The keys of all recordings of a mode, and which one a batch takes."""

    def __init__(
        self,
        mode: CUDAGraphMode,
        sizes: Sequence[int],
        max_num_seqs: int,
        decode_query_len: int = 1,
    ) -> None:
        """sizes: ascending. decode_query_len: tokens of a decode, 1 and the drafts."""
        self.mode = mode
        self.sizes = sizes
        self.max_num_seqs = max_num_seqs
        self.decode_query_len = decode_query_len
        self.keys: set[Key] = set()
        if mode.mixed is not CUDAGraphMode.NONE:
            for size in sizes:
                key = self._padded(size, is_uniform=False)
                if mode.mixed is CUDAGraphMode.PIECEWISE:
                    key = relaxed(key)
                self.keys.add((mode.mixed, key))
        if mode.decode is CUDAGraphMode.FULL and mode.is_pair:
            most = decode_query_len * max_num_seqs
            self.keys |= {
                (CUDAGraphMode.FULL, self._padded(size, is_uniform=True))
                for size in sizes
                if decode_query_len <= size <= most
            }

    def dispatch(self, num_tokens: int, is_uniform: bool) -> Key:
        """The mode of a step, and the padded batch that it runs as.

        is_uniform: every request has decode_query_len tokens. It is judged by that alone: the last
        token of a prompt is as good as a decode.
        """
        none = CUDAGraphMode.NONE, BatchDescriptor(num_tokens)
        if self.mode is CUDAGraphMode.NONE or not self.sizes or num_tokens > self.sizes[-1]:
            return none
        padded = self._padded(num_tokens, is_uniform and self.mode.is_pair)
        full, piecewise = (CUDAGraphMode.FULL, padded), (CUDAGraphMode.PIECEWISE, relaxed(padded))
        return next((key for key in (full, piecewise) if key in self.keys), none)

    def capture_keys(self) -> list[Key]:
        """What to record: piecewise first, and of each mode the largest first, whose memory the
        smaller ones use again.
        """
        return sorted(self.keys, key=lambda key: (key[0].value, -key[1].num_tokens))

    def _padded(self, num_tokens: int, is_uniform: bool) -> BatchDescriptor:
        size = self.sizes[bisect_left(self.sizes, num_tokens)]
        if is_uniform and self.mode.decode is CUDAGraphMode.FULL:
            return BatchDescriptor(
                size, min(size // self.decode_query_len, self.max_num_seqs), uniform=True
            )
        return BatchDescriptor(size, min(size, self.max_num_seqs))


def relaxed(key: BatchDescriptor) -> BatchDescriptor:
    """The key of a recording that any number of requests may use."""
    return key._replace(num_reqs=None, uniform=False)
