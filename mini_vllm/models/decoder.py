"""What all supported models share: token embedding, a stack of pre-norm decoder layers, a final
norm and a head.

The models differ in how a layer's attention and MLP are set up. Each says so in its own file by
implementing `build_layer`; names follow the Hugging Face checkpoints, so a parameter's path here is
its name there.
"""

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mini_vllm.attention import PagedAttention, Rotation
from mini_vllm.attention.metadata import MAX_HEAD_DIM
from mini_vllm.errors import UnsupportedModelError, WeightsMismatchError, shown
from mini_vllm.models.config_fields import HFConfig
from mini_vllm.models.layers.linear import ColumnParallelLinear, linear, pack_weight
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.layers.norm import RMSNorm
from mini_vllm.models.layers.rotary import RotaryEmbedding
from mini_vllm.models.layers.self_attention import AttentionShape, SelfAttention
from mini_vllm.models.weights import WeightLoader


class Embedding(nn.Module):
    """A table with one row per token of the vocabulary, of which each shard has a part."""

    def __init__(self, loader: WeightLoader, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.shard = loader.shard.of_vocabulary(vocab_size)
        loader = replace(loader, shard=self.shard)
        self.weight = loader.load({"weight": (vocab_size, hidden_size)}, 0)

    def forward(self, input_ids: Tensor) -> Tensor:
        """[T] int64 to [T, hidden_size]."""
        return self.shard.embed(input_ids, self.weight)


class DecoderLayer(nn.Module):
    """Two residual blocks, each normalised on the way in: x + attention(norm(x)), then x +
    mlp(norm(x)).

    The sum x travels beside what is to be added to it, so that adding and normalising can be one
    pass over memory. The mlp is any module from [T, hidden_size] to the same shape.
    """

    norm_cls: ClassVar[type[RMSNorm]] = RMSNorm

    def __init__(
        self, loader: WeightLoader, self_attn: SelfAttention, mlp: nn.Module, config: HFConfig
    ) -> None:
        super().__init__()
        self.config = config
        self.input_layernorm = self.norm_cls(
            loader.at("input_layernorm"), config.hidden_size, config.rms_norm_eps
        )
        self.self_attn = self_attn
        self.post_attention_layernorm = self.norm_cls(
            loader.at("post_attention_layernorm"), config.hidden_size, config.rms_norm_eps
        )
        self.mlp = mlp

    def forward(
        self, hidden: Tensor, residual: Tensor | None, rotation: Rotation, attend: PagedAttention
    ) -> tuple[Tensor, Tensor]:
        """The layer's input is residual + hidden, its output the sum of the two results; all [T,
        hidden_size].
        """
        if residual is None:  # the first layer: the embeddings, and nothing to add
            hidden, residual = self.input_layernorm(hidden), hidden
        else:
            hidden, residual = self.input_layernorm.add(hidden, residual)
        hidden = self.scaled(self.self_attn(hidden, rotation, attend))
        hidden, residual = self.post_attention_layernorm.add(hidden, residual)
        return self.scaled(self.mlp(hidden)), residual

    def scaled(self, hidden: Tensor) -> Tensor:
        """What a block's output adds to the sum."""
        return hidden


class DecoderModel(nn.Module):
    """A decoder-only language model over a packed batch and a paged KV cache.

    Built by `load_model`, with weights: there is no such thing as an instance without them.
    num_heads and num_kv_heads are those of this shard, as its KV cache needs them. attention_specs
    says how each layer attends, which PagedAttention needs to plan a step. quantization: what
    linear weights are or were, "int8" or "float8", or None.
    """

    layer_cls: ClassVar[type[DecoderLayer]] = DecoderLayer
    attention_cls: ClassVar[type[SelfAttention]] = SelfAttention
    quant_method: ClassVar[str] = ""  # a form of weights that the model itself reads

    def __init__(self, config: HFConfig, loader: WeightLoader) -> None:
        super().__init__()
        self.config = config
        self.num_layers = config.num_hidden_layers
        self.vocab_size = config.vocab_size
        self.hidden_size = config.hidden_size
        self.attention_shape = shape = shape_of(config)
        self.head_dim = shape.head_dim
        self.quantization = str(loader.stored) if loader.stored else loader.quantization

        body = loader.at("model")
        self.rotary = RotaryEmbedding(config, self.head_dim, loader.device)
        self.embed_tokens = Embedding(body.at("embed_tokens"), self.vocab_size, self.hidden_size)
        layers = [
            self.build_layer(config, body.at(f"layers.{idx}"), idx)
            for idx in range(self.num_layers)
        ]
        self.layers = nn.ModuleList(layers)
        self.attention_specs = [layer.self_attn.spec for layer in layers]
        spec = self.attention_specs[0]
        self.num_heads, self.num_kv_heads = spec.num_heads, spec.num_kv_heads
        self.vocab_shard = self.embed_tokens.shard
        self.norm = self.layer_cls.norm_cls(body.at("norm"), self.hidden_size, config.rms_norm_eps)
        self.lm_head = None
        if not config.tie_word_embeddings:
            head = replace(loader, shard=self.vocab_shard)
            self.lm_head = ColumnParallelLinear(
                head, {"lm_head": self.vocab_size}, self.hidden_size
            )
        elif "lm_head.weight" in loader.checkpoint:
            self._check_tied(loader)
        # Tied weights are kept twice where packing makes a second form of them: rows to look up,
        # and the head. So with int8 weights the table stays as it is, since a step looks up few of
        # its rows, and the head, of which a step reads all, is int8: a quarter of the weights of a
        # small model.
        self.head_weight = (
            pack_weight(self.embed_tokens.weight, loader.quantization)
            if self.lm_head is None
            else self.lm_head.weight
        )
        # old checkpoints store what the configuration determines
        loader.checkpoint.ignore(".rotary_emb.inv_freq")

    def build_layer(self, config: HFConfig, loader: WeightLoader, layer_idx: int) -> DecoderLayer:
        """The decoder layer of that index, loaded. Models differ by the options and by the MLP."""
        options = self.attention_options(config, layer_idx)
        self_attn = self.attention_cls(
            loader.at("self_attn"), self.attention_shape, layer_idx, **options
        )
        return self.layer_cls(
            loader, self_attn, self.build_mlp(config, loader.at("mlp"), layer_idx), config
        )

    def build_mlp(self, config: HFConfig, loader: WeightLoader, layer_idx: int) -> nn.Module:
        """What stands behind the attention of that layer, from [T, hidden_size] to the same
        shape.
        """
        return GatedMLP(
            loader, self.hidden_size, config.intermediate_size, bias=self.mlp_bias(config)
        )

    def attention_options(self, config: HFConfig, layer_idx: int) -> dict[str, Any]:
        """What SelfAttention is built with beside its shape."""
        return {"sliding_window": window_of_layer(config, layer_idx)}

    def mlp_bias(self, config: HFConfig) -> bool:
        """Whether the projections of the MLP have biases."""
        return False

    def embed(self, input_ids: Tensor) -> Tensor:
        """What the first layer gets: token ids [T] to [T, hidden_size]."""
        return self.embed_tokens(input_ids)  # type: ignore[no-any-return]

    def forward(self, input_ids: Tensor, positions: Tensor, attend: PagedAttention) -> Tensor:
        """Token ids and positions [T] int64 to final hidden states [T, hidden_size], normalised."""
        hidden = self.embed(input_ids)
        rotation = self.rotary(positions, hidden.dtype)
        residual = None
        for layer in self.layers:
            hidden, residual = layer(hidden, residual, rotation, attend)
        assert residual is not None, "there is at least one layer"
        normalised: Tensor = self.norm.add(hidden, residual)[0]
        return normalised

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Final hidden states [S, hidden_size] of the tokens that sample, to logits [S,
        vocab_size].
        """
        return self.vocab_shard.gather(self.compute_own_logits(hidden))

    def compute_own_logits(self, hidden: Tensor) -> Tensor:
        """Those of this shard's part of the vocabulary."""
        return linear(hidden, self.head_weight)

    def _check_tied(self, loader: WeightLoader) -> None:
        """A tied checkpoint may store its head again, if it is the same."""
        shape = self.vocab_size, self.hidden_size
        head = loader.checkpoint.take("lm_head.weight", shape, (self.vocab_shard.own,))
        weight = self.embed_tokens.weight[: len(head)]
        if not weight.is_meta and not torch.equal(head.to(weight), weight):
            raise WeightsMismatchError(
                f"{loader.checkpoint.path}: tie_word_embeddings is set, but lm_head.weight is not "
                "embed_tokens.weight"
            )


def shape_of(config: HFConfig) -> AttentionShape:
    """The attention of all layers.

    Errors: UnsupportedModelError for heads, or types of layers, that do not fit.
    """
    num_heads = config.num_attention_heads
    num_kv_heads = getattr(config, "num_key_value_heads", None) or num_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // num_heads
    if head_dim > MAX_HEAD_DIM or num_heads % num_kv_heads:
        raise UnsupportedModelError(
            f"head_dim {head_dim}, num_attention_heads {num_heads}, num_key_value_heads "
            f"{num_kv_heads}: "
            f"head_dim may be {MAX_HEAD_DIM} at most, and every KV head needs as many heads"
        )
    layer_types = getattr(config, "layer_types", None)
    if layer_types is not None and len(layer_types) != config.num_hidden_layers:
        raise UnsupportedModelError(
            f"layer_types has {len(layer_types)} entries for {config.num_hidden_layers} layers"
        )
    return AttentionShape(config.hidden_size, num_heads, num_kv_heads, head_dim)


def window_of_layer(config: HFConfig, layer_idx: int) -> int | None:
    """The sliding window of a layer: by `layer_types` where the configuration has them, else the
    same in every layer.

    For Qwen2 and Qwen3, transformers derives layer_types from use_sliding_window and
    max_window_layers when config.json has none, and the window is null unless use_sliding_window is
    set. 0 is no window, as for vLLM (ModelConfig.__post_init__). Errors: UnsupportedModelError for
    a type that is neither full_attention nor sliding_attention, and for a window that is asked for
    and not given.
    """
    window: int | None = getattr(config, "sliding_window", None)
    layer_types = getattr(config, "layer_types", None)
    if layer_types is None:
        return window or None
    if layer_types[layer_idx] not in ("full_attention", "sliding_attention"):
        raise UnsupportedModelError(
            f"layer_types: layer type {shown(layer_types[layer_idx])} of layer {layer_idx} is not "
            "one of: "
            "full_attention, sliding_attention"
        )
    if layer_types[layer_idx] == "full_attention":
        return None
    if window is None:
        raise UnsupportedModelError(
            f"layer_types: layer {layer_idx} has a window, but sliding_window is null, or "
            "use_sliding_window is not set"
        )
    return window or None
