"""Attention as one operator, into which a compiler does not look."""

from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from mini_vllm.attention import Rotation

# the PagedAttention of the step that this thread computes
step: ContextVar[Any] = ContextVar("step")


@torch.library.custom_op("mini_vllm::attend", mutates_args=())
def attend_op(
    layer_idx: int, query: Tensor, key: Tensor, value: Tensor, cos: Tensor, signed_sin: Tensor
) -> Tensor:
    """What the step's attention gives for a layer. The KV cache, which it writes, is no argument:
    the graph reads it nowhere else.
    """
    output: Tensor = step.get()(layer_idx, query, key, value, Rotation(cos, signed_sin))
    # the memory of an argument is the compiler's
    return output.clone() if output.data_ptr() == query.data_ptr() else output.contiguous()


@attend_op.register_fake
def _shape(
    layer_idx: int, query: Tensor, key: Tensor, value: Tensor, cos: Tensor, signed_sin: Tensor
) -> Tensor:
    """As the query, without gaps."""
    return torch.empty(query.shape, dtype=query.dtype, device=query.device)


class OperatorAttention:
    """What the model calls in place of a PagedAttention."""

    def __call__(
        self, layer_idx: int, query: Tensor, key: Tensor, value: Tensor, rotation: Rotation
    ) -> Tensor:
        output: Tensor = torch.ops.mini_vllm.attend(
            layer_idx, query, key, value, rotation.cos, rotation.signed_sin
        )
        return output


def no_attention(layer_idx: int, query: Tensor, *rest: object) -> Tensor:
    """A step that computes nothing: with it a model is compiled before there is a KV cache."""
    return torch.zeros_like(query)
