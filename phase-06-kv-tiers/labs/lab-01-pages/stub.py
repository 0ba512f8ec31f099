"""Lab 06.1: What a page costs (30 minutes). What must hold is in contract.md."""

from collections import Counter
from collections.abc import Sequence

from labkit import todo
from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.hybrid.groups import FullAttention, SlidingWindow as ReferenceSlidingWindow
from mini_vllm.offload.hybrid.layout import ENOUGH, MOST_TOKENS
from mini_vllm.step import LayerKVSpec


def strided_groups(kv_specs: Sequence[LayerKVSpec]) -> tuple[int, ...]:
    """The group of each layer. A kind of layers that fills n groups gives every n-th to each.

    Raises InvalidParameterError for layers whose tokens take different numbers of bytes.
    """
    todo("06.1")


def tensors_of_layers(layer_groups: Sequence[int], num_layers: int) -> tuple[int, ...]:
    """For each layer the tensor that holds its keys and values: its place within its group."""
    todo("06.1")


def blocks_alone(groups: Sequence[FullAttention], num_tokens: int, num_batched_tokens: int) -> int:
    """How many blocks a request of num_tokens holds at most, in all groups together."""
    todo("06.1")


def tokens_alone(groups: Sequence[FullAttention], num_blocks: int, num_batched_tokens: int) -> int:
    """How many tokens a request may have, so that num_blocks are enough for it."""
    todo("06.1")


class SlidingWindow(ReferenceSlidingWindow):
    """What is not defined here is the reference's."""

    def most_blocks(self, num_tokens: int, num_batched_tokens: int) -> int:
        """The window and a chunk lie in one block more than they fill, if they begin inside one."""
        todo("06.1")
