"""gpt-oss: four bits as they are published, rungs against each other, and shards that add up."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import CorruptCheckpointError, InvalidParameterError, WeightsMismatchError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.gpt_oss.experts import RUNGS, OssExperts, clamped_swiglu
from mini_vllm.models.gpt_oss.mxfp4 import dequantise
from mini_vllm.models.layers.fused import HAS_TRITON
from mini_vllm.models.registry import load_model
from mini_vllm.models.test_models import CASES, CPU, Case, write_checkpoint
from mini_vllm.parallel.shard import Shard

CASE = Case(
    CASES["gpt-oss"].config_class,
    CASES["gpt-oss"].options | {"hidden_size": 64, "intermediate_size": 64},
)
NUMBERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def load(path: Path, **options: Any) -> Any:
    options = {"dtype": torch.float32, "device": CPU} | options
    return load_model(path, load_hf_config(path), **options)


def in_four_bits(path: Path, seed: int = 0) -> dict[str, Tensor]:
    """Put random experts in MXFP4 in place of the plain ones, as the checkpoints are published.
    What they stand for, by name.
    """
    generator = torch.Generator().manual_seed(seed)
    weights, plain = load_file(path / "model.safetensors"), {}
    for name in [name for name in weights if name.endswith(("gate_up_proj", "down_proj"))]:
        num_experts, size_in, size_out = weights.pop(name).shape
        shape = num_experts, size_out, size_in // 32
        nibbles = torch.randint(0, 16, (*shape, 32), generator=generator)
        scales = torch.randint(121, 125, shape, generator=generator)
        packed = nibbles[..., ::2] + 16 * nibbles[..., 1::2]
        weights |= {f"{name}_blocks": packed.byte(), f"{name}_scales": scales.byte()}
        numbers = [
            n * sign * 2.0**e
            for e in range(121 - 127, 125 - 127)
            for sign in (1, -1)
            for n in NUMBERS
        ]
        exact = torch.tensor(numbers)[(scales[..., None] - 121) * 16 + nibbles]
        plain[name] = exact.flatten(-2)  # [E, N, K]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    file = path / "config.json"
    config = json.loads(file.read_text())
    config["quantization_config"] = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "lm_head",
        ],
    }
    file.write_text(json.dumps(config))
    return plain


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path, CASE)
    return tmp_path


def test_a_byte_has_the_first_number_in_its_low_half() -> None:
    blocks = torch.zeros(1, 2, 16, dtype=torch.uint8)
    blocks[0, 0, 0], blocks[0, 1, 15] = 0x52, 0xF0
    values = dequantise(blocks, torch.tensor([[127, 129]], dtype=torch.uint8))
    assert values.shape == (1, 64)
    assert values[0, [0, 1, 62, 63]].tolist() == [1.0, 3.0, 0.0, -24.0]
    assert values.count_nonzero() == 3


def test_four_bits_give_the_tokens_and_logits_of_transformers(folder: Path) -> None:
    plain = in_four_bits(folder)
    block = load(folder).layers[1].mlp
    expected = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, quantization_config=transformers.Mxfp4Config(dequantize=True)
    ).eval()
    name = "model.layers.1.mlp.experts."
    assert torch.equal(block.gate_up, plain[f"{name}gate_up_proj"])
    assert torch.equal(block.down, plain[f"{name}down_proj"])
    prompts = torch.randint(10, 131, (3, 21), generator=torch.Generator().manual_seed(1))
    options: dict[str, Any] = {"block_size": 4, "num_kv_blocks": 60, "max_num_batched_tokens": 8}
    llm = LLM(str(folder), dtype="float32", **options)
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, logprobs=0)
    with torch.inference_mode():
        wanted = expected.generate(prompts, max_new_tokens=12, min_new_tokens=12, do_sample=False)
        rows = expected(wanted).logits.log_softmax(-1)
    for output, tokens, row in zip(
        llm.generate(prompts.tolist(), params), wanted, rows, strict=True
    ):
        choice = output.outputs[0]
        assert choice.token_ids == tokens[21:].tolist()
        found = [each[t].logprob for t, each in zip(choice.token_ids, choice.logprobs, strict=True)]
        assert found == pytest.approx(
            row[20:-1].gather(1, tokens[21:, None])[:, 0].tolist(), abs=1e-4
        )


@pytest.mark.slow
@torch.inference_mode()
def test_every_rung_gives_the_experts_of_transformers(folder: Path) -> None:
    expected = write_checkpoint(folder, CASE)
    block = load(folder).layers[0].mlp
    assert isinstance(block, OssExperts)
    for num_tokens in (1, 8, 40):
        x = torch.randn(num_tokens, 64)
        wanted = expected.model.layers[0].mlp(x[None])[0][0]
        torch.testing.assert_close(block(x), wanted, atol=1e-4, rtol=1e-4)
        _, chosen = block.router(x)
        for name in RUNGS:
            if name == "triton" and not HAS_TRITON:
                continue
            product = RUNGS[name](chosen, block.router.num_experts)
            found = product(x, block.gate_up, 2)
            for pair, expert in enumerate(chosen.flatten().tolist()):
                by_hand = block.gate_up[expert] @ x[pair // 2]
                torch.testing.assert_close(found[pair], by_hand, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("is_packed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_shards_add_up(folder: Path, is_packed: bool) -> None:
    if is_packed:
        in_four_bits(folder)
    x = torch.randn(9, 64)
    whole, halves = load(folder), [load(folder, shard=Shard(rank, 2)) for rank in (0, 1)]
    torch.testing.assert_close(
        sum(half.layers[0].mlp(x) for half in halves), whole.layers[0].mlp(x), atol=1e-5, rtol=1e-5
    )
    sinks = torch.cat([half.layers[0].self_attn.spec.sinks for half in halves])
    assert torch.equal(sinks, whole.layers[0].self_attn.spec.sinks)


@pytest.mark.slow
@torch.inference_mode()
def test_eight_bits_are_near(folder: Path) -> None:
    x = torch.randn(9, 64)
    whole, rounded = (load(folder, quantization=each).layers[0].mlp for each in (None, "int8"))
    assert rounded.pick_rung(x) == "loop"
    assert (rounded(x) - whole(x)).norm() < 0.02 * whole(x).norm()


def test_what_is_between_the_products_is_clamped() -> None:
    found = clamped_swiglu(torch.tensor([[9.0, 9.0, -9.0, -9.0]]), 1.5, 2.0)
    gate = torch.tensor([2.0, -9.0])
    assert torch.equal(found[0], gate * torch.sigmoid(1.5 * gate) * (torch.tensor([2.0, -2.0]) + 1))


def test_what_is_wrong_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(InvalidParameterError, match="attention backend 'reference' has no sinks"):
        LLM(str(folder), dtype="float32", num_kv_blocks=20, attention_backend="reference")
    in_four_bits(folder)
    with pytest.raises(InvalidParameterError, match="stores its experts as mxfp4 already"):
        load(folder, quantization="int8")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.0.mlp.experts.down_proj_scales"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(WeightsMismatchError, match=r"missing .*down_proj_scales"):
        load(folder)
    file = folder / "config.json"
    file.write_text(file.read_text().replace('"swiglu_limit": 0.7', '"swiglu_limit": -1.0'))
    with pytest.raises(CorruptCheckpointError, match="swiglu_limit is -1"):
        load(folder)
