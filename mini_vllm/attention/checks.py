"""What an attention call must bring, looked at before anything is written.

Only shapes and lengths are looked at, so the host does not wait for the device; check_slots does, for debugging.

All of them raise InvalidParameterError, which names the argument, its value and the limit.
"""

from torch import Tensor

from mini_vllm.attention.metadata import AttentionMetadata
from mini_vllm.errors import InvalidParameterError

MAX_HEAD_DIM = 256


def check_write(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, metadata: AttentionMetadata
) -> None:
    """Keys and values fit the cache, and there is a slot for each."""
    num_tokens = len(metadata.slot_mapping)
    expected = (num_tokens, *key_cache.shape[2:])
    for name, tensor in (("key", key), ("value", value)):
        if tensor.shape != expected:
            raise InvalidParameterError(
                f"{name} has shape {list(tensor.shape)}, the batch's {num_tokens} slots and the cache need "
                f"{list(expected)}"
            )
        if tensor.dtype != key_cache.dtype:
            raise InvalidParameterError(f"{name} is {tensor.dtype}, the KV cache {key_cache.dtype}; they must be equal")
    if value_cache.shape != key_cache.shape or value_cache.dtype != key_cache.dtype:
        raise InvalidParameterError(
            f"value_cache is {list(value_cache.shape)} {value_cache.dtype}, "
            f"key_cache {list(key_cache.shape)} {key_cache.dtype}; they must be equal"
        )
    if key_cache.shape[1] != metadata.block_size:
        raise InvalidParameterError(
            f"key_cache has blocks of {key_cache.shape[1]} tokens, the batch was packed for block_size "
            f"{metadata.block_size}"
        )
    if not (key_cache.is_contiguous() and value_cache.is_contiguous()):
        raise InvalidParameterError(f"key_cache and value_cache must be contiguous, strides are {key_cache.stride()}")


def check_attend(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    metadata: AttentionMetadata,
    scale: float,
    sliding_window: int | None,
) -> None:
    """Queries fit the cache, and every block table reaches to the end of its sequence."""
    num_kv_heads, head_dim = key_cache.shape[2:]
    if query.shape[2] != head_dim or len(query) != len(metadata.slot_mapping):
        raise InvalidParameterError(
            f"query has shape {list(query.shape)}, the batch and the cache need "
            f"[{len(metadata.slot_mapping)}, num_heads, {head_dim}]"
        )
    if query.shape[1] % num_kv_heads:
        raise InvalidParameterError(
            f"query has {query.shape[1]} heads, which is no multiple of the cache's {num_kv_heads} KV heads"
        )
    if query.dtype != key_cache.dtype:
        raise InvalidParameterError(f"query is {query.dtype}, the KV cache {key_cache.dtype}; they must be equal")
    if not 1 <= head_dim <= MAX_HEAD_DIM:
        raise InvalidParameterError(f"head_dim is {head_dim}, supported are 1 to {MAX_HEAD_DIM}")
    room = metadata.block_tables.shape[1] * metadata.block_size
    if (longest := int(metadata.seq_lens_cpu.max(initial=0))) > room:
        raise InvalidParameterError(
            f"block_tables has {metadata.block_tables.shape[1]} columns, room for {room} tokens; the longest sequence "
            f"has {longest}"
        )
    if not scale > 0:
        raise InvalidParameterError(f"scale is {scale}, it must be above 0")
    if sliding_window is not None and sliding_window < 1:
        raise InvalidParameterError(f"sliding_window is {sliding_window}, it must be None or at least 1")


def check_slots(key_cache: Tensor, metadata: AttentionMetadata) -> None:
    """Every slot is -1 or in the cache, every block id that is read is in the cache. Waits for the device."""
    num_blocks, block_size = key_cache.shape[:2]
    for token, slot in enumerate(metadata.slot_mapping.tolist()):
        if not -1 <= slot < num_blocks * block_size:
            raise InvalidParameterError(
                f"slot_mapping[{token}] is {slot}, allowed are -1 (padding) and [0, {num_blocks * block_size})"
            )
    for request, (seq_len, table) in enumerate(zip(metadata.seq_lens_cpu, metadata.block_tables.tolist(), strict=True)):
        for column, block_id in enumerate(table[: -(-seq_len // block_size)]):
            if not 0 <= block_id < num_blocks:
                raise InvalidParameterError(
                    f"block_tables[{request}, {column}] is {block_id}, allowed is [0, {num_blocks})"
                )
