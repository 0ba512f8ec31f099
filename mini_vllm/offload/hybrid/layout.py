"""Which layers share block tables and memory, and what that takes.

Layers that see the same of the past make groups of one size, so that a block has as many bytes in
each group: layer i of every group keeps its keys and values in tensor i. The size is the least
number of layers of one kind, as models repeat a pattern: with five windows to one full attention
there are six groups. Source: _get_kv_cache_groups_uniform_page_size in
vllm/v1/core/kv_cache_planning.py.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.hybrid.groups import FullAttention, group_of
from mini_vllm.step import LayerKVSpec

MOST_TOKENS = (1 << 31) - 1  # of a range where Python is of 32 bits, as in a browser
ENOUGH = 1.5  # where one kind has less than so many times the layers of another, one group has all


def strided_groups(kv_specs: Sequence[LayerKVSpec]) -> tuple[int, ...]:
    """The group of each layer. A kind of layers that fills n groups gives every n-th to each.

    Raises InvalidParameterError for layers whose tokens take different numbers of bytes.
    """
    kinds: dict[LayerKVSpec, list[int]] = {}
    for layer, spec in enumerate(kv_specs):
        kinds.setdefault(spec, []).append(layer)
    if len(sizes := {spec.bytes_per_token for spec in kinds}) > 1:
        raise InvalidParameterError(
            f"layers of {sorted(sizes)} bytes a token cannot share blocks: all must have the same"
        )
    counts = [len(layers) for layers in kinds.values()]
    size = max(counts) if max(counts) < ENOUGH * min(counts) else min(counts)
    groups, first = [0] * len(kv_specs), 0
    for layers in kinds.values():
        num_groups = -(-len(layers) // size)
        for place, layer in enumerate(layers):
            groups[layer] = first + place % num_groups
        first += num_groups
    return tuple(groups)


def tensors_of_layers(layer_groups: Sequence[int], num_layers: int) -> tuple[int, ...]:
    """For each layer the tensor that holds its keys and values: its place within its group."""
    seen: Counter[int] = Counter()
    tensors = []
    for group in layer_groups or (0,) * num_layers:
        tensors.append(seen[group])
        seen[group] += 1
    return tuple(tensors)


def blocks_alone(groups: Sequence[FullAttention], num_tokens: int, num_batched_tokens: int) -> int:
    """How many blocks a request of num_tokens holds at most, in all groups together."""
    return sum(group.most_blocks(num_tokens, num_batched_tokens) for group in groups)


def tokens_alone(groups: Sequence[FullAttention], num_blocks: int, num_batched_tokens: int) -> int:
    """How many tokens a request may have, so that num_blocks are enough for it."""
    return (
        bisect_right(
            range(MOST_TOKENS),
            num_blocks,
            key=lambda num_tokens: blocks_alone(groups, num_tokens, num_batched_tokens),
        )
        - 1
    )


@dataclass(frozen=True, slots=True)
class KVCacheLayout:
    """How a model's layers lie in blocks. layer_groups: of each layer; () is one group for all."""

    kv_specs: tuple[LayerKVSpec, ...]
    block_size: int
    num_batched_tokens: int
    """Most tokens of steps in flight."""
    layer_groups: tuple[int, ...] = ()

    @property
    def groups(self) -> tuple[FullAttention, ...]:
        """What each group sees; one group for all keeps everything."""
        if not self.layer_groups:
            return (FullAttention(self.block_size),)
        specs = dict(zip(self.layer_groups, self.kv_specs, strict=True))
        return tuple(group_of(specs[g], self.block_size) for g in sorted(specs))

    @property
    def bytes_per_block(self) -> int:
        """Those of the largest group, whose memory the other ones share."""
        sizes: Counter[int] = Counter()
        groups = self.layer_groups or (0,) * len(self.kv_specs)
        for group, spec in zip(groups, self.kv_specs, strict=True):
            sizes[group] += spec.bytes_per_token
        return max(sizes.values()) * self.block_size

    def num_blocks(self, num_tokens: int) -> int:
        """How many blocks a request of num_tokens takes at most."""
        return blocks_alone(self.groups, num_tokens, self.num_batched_tokens)

    def num_tokens(self, num_blocks: int) -> int:
        """How long a request may be that num_blocks are enough for."""
        return tokens_alone(self.groups, num_blocks, self.num_batched_tokens)

    def fit(self, num_bytes: int, most_tokens: int) -> int:
        """How long a request may be beside the null block, at most most_tokens; 0 if none fits."""
        return max(0, min(self.num_tokens(num_bytes // self.bytes_per_block - 1), most_tokens))

    def describe(self, num_tokens: int) -> str:
        """The groups, and what they save for a request of num_tokens; nothing where all layers see
        all.
        """
        if not num_tokens or all(type(group) is FullAttention for group in self.groups):
            return ""
        whole = KVCacheLayout(self.kv_specs, self.block_size, self.num_batched_tokens)
        decoding = replace(self, num_batched_tokens=1)
        held, without, most = (
            each.num_blocks(num_tokens) * each.bytes_per_block for each in (decoding, whole, self)
        )
        kinds = ", ".join(f"{n} x {kind}" for kind, n in Counter(map(str, self.groups)).items())
        return (
            f"; groups of layers: {kinds}, so a request of {num_tokens:,} tokens takes "
            f"{held / (1 << 20):,.1f} MiB in place of {without / (1 << 20):,.1f} "
            f"({1 - held / without:.0%} less) while it decodes, and at most "
            f"{most / (1 << 20):,.1f} in steps of {self.num_batched_tokens:,} tokens"
        )


def layout_of(
    kv_specs: tuple[LayerKVSpec, ...], block_size: int, num_batched_tokens: int
) -> KVCacheLayout:
    """The layout that a model gets: groups where a layer does not see all, else one group."""
    kinds = {type(group_of(spec, block_size)) for spec in kv_specs}
    layer_groups = () if kinds <= {FullAttention} else strided_groups(kv_specs)
    return KVCacheLayout(kv_specs, block_size, num_batched_tokens, layer_groups)


ONE_GROUP = KVCacheLayout((), 1, 1)
"""Where nobody asks what the layers are."""
