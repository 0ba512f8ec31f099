"""Shards: two halves of a model glued together are the whole."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mini_vllm.attention import AttentionMetadata, PackedRequest, PagedAttention, get_backend
from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.registry import load_model
from mini_vllm.models.test_models import BLOCK_SIZE, CASES, CPU, SMALL, write_checkpoint
from mini_vllm.parallel.shard import VOCAB_PADDING, Shard

TOLERANCE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}
REQUESTS = [PackedRequest([2, 0], 0, 7), PackedRequest([3, 1], 0, 6)]


def load(path: Path, shard: Shard) -> DecoderModel:
    return load_model(path, load_hf_config(path), dtype=torch.float32, device=CPU, shard=shard)


class Step:
    """One step of two prompts on one shard, layer by layer."""

    def __init__(self, model: DecoderModel) -> None:
        self.model = model
        shape = (4, BLOCK_SIZE, model.num_kv_heads, model.head_dim)
        self.kv_caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(model.num_layers)]
        metadata = AttentionMetadata.pack(REQUESTS, BLOCK_SIZE, CPU)
        self.attend = PagedAttention(
            get_backend("torch", CPU), self.kv_caches, metadata, model.attention_specs
        )
        self.rotation = model.rotary(metadata.positions, torch.float32)

    def attention(self, layer_idx: int, hidden: Tensor) -> Tensor:
        output: Tensor = self.model.layers[layer_idx].self_attn(hidden, self.rotation, self.attend)
        return output

    def qkv(self, layer_idx: int, hidden: Tensor) -> tuple[Tensor, ...]:
        """What q_proj, k_proj and v_proj put out."""
        self_attn = self.model.layers[layer_idx].self_attn
        sizes = [heads * self.model.head_dim for heads in self_attn.heads]
        return self_attn.qkv_proj(hidden).split(sizes, dim=-1)

    def gate_up(self, layer_idx: int, hidden: Tensor) -> tuple[Tensor, ...]:
        """What gate_proj and up_proj put out."""
        return self.model.layers[layer_idx].mlp.gate_up_proj(hidden).chunk(2, dim=-1)

    def mlp(self, layer_idx: int, hidden: Tensor) -> Tensor:
        output: Tensor = self.model.layers[layer_idx].mlp(hidden)
        return output


@pytest.mark.parametrize(
    "name", ["llama", "llama-biases", "qwen2-window-in-upper-layers", "qwen3", "qwen3-layer-types"]
)
@torch.inference_mode()
def test_two_shards_glued_together_are_the_whole(name: str, tmp_path: Path) -> None:
    """Outputs of layers that are cut by rows stand side by side, those of layers that are cut by
    columns add up.
    """
    write_checkpoint(tmp_path, CASES[name])
    whole, *halves = (Step(load(tmp_path, shard)) for shard in (Shard(), Shard(0, 2), Shard(1, 2)))
    assert [half.model.num_kv_heads for half in halves] == [1, 1]
    generator = torch.Generator().manual_seed(3)
    for idx in range(whole.model.num_layers):
        hidden = torch.randn(13, whole.model.hidden_size, generator=generator)
        for outputs, *parts in (
            (whole.qkv(idx, hidden), *(half.qkv(idx, hidden) for half in halves)),
            (whole.gate_up(idx, hidden), *(half.gate_up(idx, hidden) for half in halves)),
        ):
            for output, *glued in zip(outputs, *parts, strict=True):
                torch.testing.assert_close(torch.cat(glued, dim=-1), output, **TOLERANCE)
        attended = [half.attention(idx, hidden) for half in halves]
        torch.testing.assert_close(
            attended[0] + attended[1], whole.attention(idx, hidden), **TOLERANCE
        )
        for cache, *parts in zip(
            whole.kv_caches[idx], *(half.kv_caches[idx] for half in halves), strict=True
        ):
            torch.testing.assert_close(torch.cat(parts, dim=2), cache, **TOLERANCE)
        torch.testing.assert_close(
            sum(half.mlp(idx, hidden) for half in halves), whole.mlp(idx, hidden), **TOLERANCE
        )
    for name in ("embed_tokens.weight", "head_weight"):
        rows = torch.cat([each.model.get_parameter(name) for each in halves])
        expected = whole.model.get_parameter(name)
        assert len(rows) % VOCAB_PADDING == 0
        assert torch.equal(rows[: len(expected)], expected)
        assert not rows[len(expected) :].any()


def test_every_shard_holds_its_part_of_the_layers(tmp_path: Path) -> None:
    """The parts of a cut layer have as many numbers as the whole one; no number is in two of
    them.
    """
    write_checkpoint(tmp_path, CASES["llama-biases"])
    whole, first, second = (load(tmp_path, shard) for shard in (Shard(), Shard(0, 2), Shard(1, 2)))
    for linear in ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"):
        for name in ("weight", "bias"):
            path = f"layers.1.{linear}.{name}"
            parts = [dict(model.named_parameters()).get(path) for model in (first, second)]
            numbers = torch.cat([part.flatten() for part in parts if part is not None])
            assert torch.equal(
                numbers.sort().values, whole.get_parameter(path).flatten().sort().values
            ), path


@pytest.mark.parametrize(
    ("case", "size", "message"),
    [
        ("llama", 3, "num_attention_heads is 4, which is no multiple of the 3 shards"),
        ("llama-biases", 3, "num_attention_heads is 4, which is no multiple of the 3 shards"),
    ],
)
def test_heads_that_cannot_be_shared_out_are_refused(
    tmp_path: Path, case: str, size: int, message: str
) -> None:
    write_checkpoint(tmp_path, CASES[case])
    with pytest.raises(InvalidParameterError, match=message):
        load(tmp_path, Shard(0, size))


def test_channels_that_cannot_be_shared_out_are_refused(tmp_path: Path) -> None:
    write_checkpoint(
        tmp_path, type(CASES["llama"])(CASES["llama"].config_class, {"intermediate_size": 71})
    )
    message = (
        r"dimension 0 of model.layers.0.mlp.gate_proj.weight is 71, "
        r"which is no multiple of the 2 shards"
    )
    with pytest.raises(InvalidParameterError, match=message):
        load(tmp_path, Shard(1, 2))


def test_a_rank_out_of_range_is_refused() -> None:
    for rank, size in ((2, 2), (-1, 2), (1, 1)):
        with pytest.raises(
            InvalidParameterError, match=rf"the rank of a shard is {rank}, allowed is \[0, {size}\)"
        ):
            Shard(rank, size)
    with pytest.raises(
        InvalidParameterError, match="the size of a shard is 0, it must be at least 1"
    ):
        Shard(0, 0)
    assert [
        list(Shard(rank, 2).part(SMALL["num_attention_heads"], "heads")) for rank in (0, 1)
    ] == [[0, 1], [2, 3]]
