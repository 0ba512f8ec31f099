"""What an attention call must bring, looked at before anything is written.

Only shapes and lengths are looked at, so the host does not wait for the device; check_slots does,
for debugging.

All of them raise InvalidParameterError, which names the argument, its value and the limit.
"""

from torch import Tensor

from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec
from mini_vllm.errors import InvalidParameterError


def check_cache(
    key_cache: Tensor,
    value_cache: Tensor,
    metadata: AttentionMetadata,
    spec: AttentionSpec,
    stride_order: tuple[int, ...] = (0, 1, 2, 3),
) -> None:
    """The cache of a layer is what the layer, the batch's block tables and the back end take it
    for.
    """
    num_blocks, block_size, *_ = key_cache.shape
    if value_cache.shape != key_cache.shape or value_cache.dtype != key_cache.dtype:
        raise InvalidParameterError(
            f"value_cache is {list(value_cache.shape)} {value_cache.dtype}, "
            f"key_cache {list(key_cache.shape)} {key_cache.dtype}; they must be equal"
        )
    if block_size != metadata.block_size:
        raise InvalidParameterError(
            f"key_cache has blocks of {block_size} tokens, the batch was packed for block_size "
            f"{metadata.block_size}"
        )
    expected = num_blocks, block_size, spec.num_kv_heads, spec.head_dim
    if key_cache.shape != expected or key_cache.dtype != spec.dtype:
        raise InvalidParameterError(
            f"key_cache is {list(key_cache.shape)} {key_cache.dtype}, the layer needs "
            f"{list(expected)} {spec.dtype}"
        )
    if not (
        key_cache.permute(stride_order).is_contiguous()
        and value_cache.permute(stride_order).is_contiguous()
    ):
        raise InvalidParameterError(
            f"key_cache and value_cache have strides {key_cache.stride()} and "
            f"{value_cache.stride()}; the back end "
            f"needs their dimensions in memory in the order {stride_order}, without gaps"
        )


def check_tables(metadata: AttentionMetadata) -> None:
    """Every block table reaches to the end of its sequence."""
    num_columns = metadata.block_tables.shape[1]
    room = num_columns * metadata.block_size
    if (longest := int(metadata.seq_lens_cpu.max(initial=0))) > room:
        raise InvalidParameterError(
            f"block_tables has {num_columns} columns, room for {room} tokens; the longest sequence "
            f"has {longest}"
        )


def check_layer(
    query: Tensor, key: Tensor, value: Tensor, metadata: AttentionMetadata, spec: AttentionSpec
) -> None:
    """A layer brings a query, a key and a value for every slot of the batch, of the shapes and the
    dtype it said.
    """
    num_tokens = len(metadata.slot_mapping)
    for name, tensor, num_heads in (
        ("query", query, spec.num_heads),
        ("key", key, spec.num_kv_heads),
        ("value", value, spec.num_kv_heads),
    ):
        if tensor.shape != (num_tokens, num_heads, spec.head_dim):
            raise InvalidParameterError(
                f"{name} has shape {list(tensor.shape)}, the batch's {num_tokens} slots and the "
                f"layer need {[num_tokens, num_heads, spec.head_dim]}"
            )
        if tensor.dtype != spec.dtype:
            raise InvalidParameterError(
                f"{name} is {tensor.dtype}, the layer and its KV cache are {spec.dtype}"
            )


def check_slots(key_cache: Tensor, metadata: AttentionMetadata) -> None:
    """Every slot is -1 or in the cache, every block id that is read is in the cache.

    Waits for the device.
    """
    num_blocks, block_size = key_cache.shape[:2]
    for token, slot in enumerate(metadata.slot_mapping.tolist()):
        if not -1 <= slot < num_blocks * block_size:
            raise InvalidParameterError(
                f"slot_mapping[{token}] is {slot}, allowed are -1 (padding) and [0, "
                f"{num_blocks * block_size})"
            )
    for request, (seq_len, table) in enumerate(
        zip(metadata.seq_lens_cpu, metadata.block_tables.tolist(), strict=True)
    ):
        for column, block_id in enumerate(table[: -(-seq_len // block_size)]):
            if not 0 <= block_id < num_blocks:
                raise InvalidParameterError(
                    f"block_tables[{request}, {column}] is {block_id}, allowed is [0, {num_blocks})"
                )
