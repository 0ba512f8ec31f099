"""The batch as a layer sees it in which a token sees its own chunk of the sequence, up to itself.

Each chunk that has queries becomes a request of its own: its sequence begins with the chunk, and
its block table with the chunk's first block. Rows stay where they are, so slots do, too, and every
rung computes such layers as it computes any other.

    chunk of 4, 10 queries from position 5 on:   chunks    [4, 8)  [8, 12)  [12, 16)
                                                 queries   3       4        3
                                                 keys      4       4        3

Source: make_local_attention_virtual_batches in vllm/v1/attention/backends/utils.py.
"""

from dataclasses import replace

import numpy as np

from mini_vllm.attention.metadata import AttentionMetadata, ragged, to_device
from mini_vllm.errors import InvalidParameterError


def check_chunk(chunk: int, block_size: int) -> None:
    """Raise InvalidParameterError for chunks that do not begin with a block."""
    if chunk % block_size:
        raise InvalidParameterError(
            f"block_size is {block_size}, it must divide this model's attention_chunk_size, {chunk}"
        )


class ChunkedBatch:
    """A batch cut at the multiples of chunk: once for all groups, whose tables alone differ."""

    def __init__(self, metadata: AttentionMetadata, chunk: int) -> None:
        size, device = metadata.block_size, metadata.block_tables.device
        check_chunk(chunk, size)
        ends = metadata.seq_lens_cpu
        starts = ends - metadata.query_lens_cpu
        firsts = starts // chunk
        owner, place = ragged(np.maximum(-(-ends // chunk) - firsts, 1))
        begins = (firsts[owner] + place) * chunk
        seq_lens = np.minimum(ends[owner] - begins, chunk)
        query_lens = seq_lens - np.maximum(starts[owner] - begins, 0)
        query_start_loc = np.zeros(len(owner) + 1, np.int32)
        query_lens.cumsum(out=query_start_loc[1:])
        columns = begins[:, None] // size + np.arange(-(-int(seq_lens.max(initial=0)) // size))
        columns = columns.clip(max=max(metadata.block_tables.shape[1] - 1, 0))
        self._places = to_device(owner[:, None], device), to_device(columns, device)
        self._batch = replace(
            metadata,
            query_start_loc=to_device(query_start_loc, device),
            seq_lens=to_device(seq_lens.astype(np.int32), device),
            query_lens_cpu=query_lens,
            seq_lens_cpu=seq_lens,
        )

    def with_tables(self, metadata: AttentionMetadata) -> AttentionMetadata:
        """The chunks as requests, for the group that this metadata is of."""
        return replace(
            self._batch,
            slot_mapping=metadata.slot_mapping,
            block_tables=metadata.block_tables[self._places],
        )
