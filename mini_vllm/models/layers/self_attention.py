"""The attention block of a decoder layer: project, rotate, attend over the paged cache, project
back.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mini_vllm.attention import AttentionSpec, PagedAttention, Rotation
from mini_vllm.models.layers.linear import ColumnParallelLinear, RowParallelLinear
from mini_vllm.models.layers.norm import RMSNorm
from mini_vllm.models.weights import WeightLoader


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Grouped-query attention in four numbers: num_heads query heads share num_kv_heads heads of
    keys and values.

    These are the numbers of the whole model; a shard has its part of the heads.
    """

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int


class SelfAttention(nn.Module):
    """Causal self-attention with rotary positions.

    What differs between the models are its keyword arguments.

    spec: how this shard of the layer attends, for the back end that plans the step.
    qk_norm_eps: normalise each query and key head before it is turned (Qwen3); None leaves it out.
    sliding_window: how many tokens, itself included, a token sees; attention_chunk_size: of chunks
    of so many it sees its own; None for all. scale: of the scores; None is head_dim ** -0.5.
    is_rotated: whether positions turn queries and keys. is_fused: whether the checkpoint has q, k
    and v in one matrix. channels: the order in which those of queries and keys are turned
    (RotaryEmbedding); their dot product is the same in any order.
    norm_cls: the norm of heads.
    """

    def __init__(
        self,
        loader: WeightLoader,
        shape: AttentionShape,
        layer_idx: int,
        *,
        qkv_bias: bool = False,
        o_bias: bool = False,
        qk_norm_eps: float | None = None,
        sliding_window: int | None = None,
        attention_chunk_size: int | None = None,
        scale: float | None = None,
        is_rotated: bool = True,
        is_fused: bool = False,
        channels: Tensor | None = None,
        norm_cls: type[RMSNorm] = RMSNorm,
    ) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.head_dim = shape.head_dim
        self.is_rotated = is_rotated
        self.channels = channels
        shard = loader.shard.of_attention(shape.num_kv_heads)
        self.spec = AttentionSpec(
            num_heads=len(shard.part(shape.num_heads, "num_attention_heads")),
            num_kv_heads=len(shard.kv.part(shape.num_kv_heads, "num_key_value_heads")),
            head_dim=shape.head_dim,
            scale=scale or shape.head_dim**-0.5,
            sliding_window=sliding_window,
            dtype=loader.dtype,
            attention_chunk_size=attention_chunk_size,
        )
        # of q, k and v
        self.heads = [self.spec.num_heads, self.spec.num_kv_heads, self.spec.num_kv_heads]
        q_size, kv_size = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        qkv = {"q_proj": q_size, "k_proj": kv_size, "v_proj": kv_size}
        if is_fused:
            qkv = {"qkv_proj": q_size + 2 * kv_size}
        self.qkv_proj = ColumnParallelLinear(
            replace(loader, shard=shard), qkv, shape.hidden_size, bias=qkv_bias
        )
        self.o_proj = RowParallelLinear(loader, {"o_proj": shape.hidden_size}, q_size, bias=o_bias)
        self.q_norm = self.k_norm = None
        if qk_norm_eps is not None:
            self.q_norm = norm_cls(loader.at("q_norm"), shape.head_dim, qk_norm_eps)
            self.k_norm = norm_cls(loader.at("k_norm"), shape.head_dim, qk_norm_eps)

    def forward(self, hidden: Tensor, rotation: Rotation, attend: PagedAttention) -> Tensor:
        """hidden [T, hidden_size] to the same shape; `attend` also turns queries and keys, and
        stores keys, values.
        """
        heads = self.qkv_proj(hidden).unflatten(-1, (-1, self.head_dim))
        query, key, value = self.prepared(*heads.split(self.heads, dim=1))
        if self.channels is not None:
            query, key = query[..., self.channels], key[..., self.channels]
        if not self.is_rotated:  # by an angle of 0
            ones = torch.ones_like(rotation.cos)
            rotation = Rotation(ones, torch.zeros_like(ones))
        output = attend(self.layer_idx, query, key, value, rotation)
        return self.o_proj(output.flatten(1))  # type: ignore[no-any-return]

    def prepared(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """What is turned and attended to, of this shard's heads [T, heads, head_dim]."""
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        return query, key, value
