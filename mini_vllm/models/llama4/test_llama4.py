"""Llama 4: the layers of transformers, rungs against each other, and shards that add up."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from mini_vllm import LLM, SamplingParams
from mini_vllm.config import EngineConfig
from mini_vllm.errors import CorruptCheckpointError, InvalidParameterError, UnsupportedModelError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.layers.fused import HAS_TRITON
from mini_vllm.models.llama4.experts import Llama4MoE
from mini_vllm.models.llama4.model import scales_of
from mini_vllm.models.moe.experts import RUNGS
from mini_vllm.models.registry import load_model
from mini_vllm.models.test_models import CASES, CPU, write_checkpoint
from mini_vllm.parallel.shard import Shard
from mini_vllm.worker.fit import forms_of

CASE = CASES["llama4-some-experts"]


def load(path: Path, **options: Any) -> Any:
    options = {"dtype": torch.float32, "device": CPU} | options
    return load_model(path, load_hf_config(path), **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path, CASE)
    return tmp_path


def change(folder: Path, **fields: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@torch.inference_mode()
def test_every_rung_gives_the_experts_of_transformers(tmp_path: Path) -> None:
    expected = write_checkpoint(tmp_path, CASE)
    model = load(tmp_path)
    assert not isinstance(model.layers[0].mlp, Llama4MoE)
    block = model.layers[1].mlp
    assert isinstance(block, Llama4MoE)
    for num_tokens in (1, 8, 40):
        x = torch.randn(num_tokens, 48)
        wanted = expected.model.layers[1].feed_forward(x[None])[0]
        for name in RUNGS:
            if name == "triton" and not HAS_TRITON:
                continue
            block.pick_rung = lambda x, name=name: name
            torch.testing.assert_close(block(x), wanted, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_shards_add_up(folder: Path) -> None:
    x = torch.randn(9, 48)
    whole, halves = load(folder), [load(folder, shard=Shard(rank, 2)) for rank in (0, 1)]
    for layer in (0, 1):
        found = sum(half.layers[layer].mlp(x) for half in halves)
        wanted = whole.layers[layer].mlp(x)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_eight_bits_are_near_and_the_same_in_shards(folder: Path) -> None:
    x = torch.randn(9, 48)
    whole, rounded = (load(folder, quantization=each).layers[1].mlp for each in (None, "int8"))
    assert rounded.pick_rung(x) == "loop"
    assert (rounded(x) - whole(x)).norm() < 0.03 * whole(x).norm()
    halves = [load(folder, shard=Shard(rank, 2), quantization="int8") for rank in (0, 1)]
    rows = torch.cat([half.layers[1].mlp.down[0].values for half in halves], 1)
    assert torch.equal(rows, rounded.down[0].values)


def test_the_temperature_grows_in_steps() -> None:
    class Config:
        floor_scale, attn_scale = 4, 0.5

    scales = scales_of(Config, torch.tensor([0, 2, 3, 6, 7]))
    assert scales.shape == (5, 1, 1)
    assert scales.flatten().tolist() == pytest.approx(
        [1.0, 1.0, 1.34657, 1.34657, 1.54931], abs=1e-4
    )


def test_the_doctor_names_the_groups(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CASES["llama4"])
    first, *_ = forms_of(EngineConfig(model=str(tmp_path), block_size=4, max_model_len=64))
    assert "groups of layers: 1 x chunks of 8 tokens, 1 x full attention" in first.figures


def test_the_text_model_of_a_checkpoint_with_images(tmp_path: Path) -> None:
    """As Llama 4 is published: the text model under another name, beside one for images."""
    expected = write_checkpoint(tmp_path, CASES["llama4"])
    config = transformers.Llama4Config(
        text_config=expected.config,
        vision_config={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        | {"image_size": 28, "intermediate_size": 64, "vision_output_dim": 16}
        | {"projector_input_dim": 16, "projector_output_dim": 16},
    )
    whole = transformers.Llama4ForConditionalGeneration(config).eval()
    whole.language_model.load_state_dict(expected.state_dict())
    whole.save_pretrained(tmp_path)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert "language_model.model.layers.1.feed_forward.experts.gate_up_proj" in names
    assert any(name.startswith("vision_model.") for name in names)
    prompt = torch.randint(10, 131, (1, 21), generator=torch.Generator().manual_seed(1))
    wanted = expected.generate(prompt, max_new_tokens=12, min_new_tokens=12, do_sample=False)
    llm = LLM(str(tmp_path), dtype="float32", block_size=4, num_kv_blocks=40)
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
    (output,) = llm.generate(prompt.tolist(), params)
    assert output.outputs[0].token_ids == wanted[0, 21:].tolist()


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (
            {"layer_types": ["sliding_attention"] * 2},
            UnsupportedModelError,
            "'sliding_attention' of layer 0",
        ),
        (
            {"attention_chunk_size": None},
            UnsupportedModelError,
            "of layer 0 with attention_chunk_size None",
        ),
        ({"attention_chunk_size": 0}, CorruptCheckpointError, "attention_chunk_size is 0"),
        ({"num_experts_per_tok": 5}, CorruptCheckpointError, "num_experts_per_tok is 5"),
        ({"floor_scale": 0}, CorruptCheckpointError, "floor_scale is 0"),
        ({"no_rope_layers": [1]}, UnsupportedModelError, "no_rope_layers has 1 entries for 2"),
    ],
)
def test_what_is_wrong_is_refused_by_name(
    fields: dict[str, Any], error: type[Exception], message: str, folder: Path
) -> None:
    change(folder, **fields)
    with pytest.raises(error, match=message):
        load(folder)


def test_a_block_that_does_not_divide_a_chunk_is_refused_before_the_weights_are_read(
    folder: Path,
) -> None:
    with pytest.raises(InvalidParameterError, match=r"block_size is 16, it must divide .* 8"):
        LLM(str(folder), dtype="float32", num_kv_blocks=20, block_size=16)
