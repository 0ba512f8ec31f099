"""Experts: alignment against brute force, rungs against each other and against transformers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import CorruptCheckpointError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.moe.align import align
from mini_vllm.models.moe.experts import RUNGS, FusedMoE, finalise, prepare
from mini_vllm.models.registry import load_model
from mini_vllm.models.test_models import CASES, CPU, write_checkpoint
from mini_vllm.parallel.shard import Shard

MOE_CASES = ("qwen3-moe", "mixtral", "olmoe")


def load(path: Path, **options: Any) -> Any:
    return load_model(path, load_hf_config(path), dtype=torch.float32, device=CPU, **options)


@settings(deadline=None)
@given(
    chosen=st.integers(1, 4).flatmap(
        lambda k: st.lists(
            st.permutations(range(5)).map(lambda order: order[:k]), min_size=1, max_size=9
        )
    ),
    block_size=st.integers(1, 5),
    num_experts=st.integers(5, 7),
)
def test_align_against_brute_force(
    chosen: list[list[int]], block_size: int, num_experts: int
) -> None:
    experts = torch.tensor(chosen)
    pairs, of_blocks = align(experts, num_experts, block_size)
    blocks = pairs.view(-1, block_size).tolist()
    assert len(blocks) == len(of_blocks)
    flat, expected = experts.flatten().tolist(), []
    for expert in range(num_experts):
        own = [pair for pair, each in enumerate(flat) if each == expert]
        own += [len(flat)] * (-len(own) % block_size)
        expected += [(expert, own[i : i + block_size]) for i in range(0, len(own), block_size)]
    padding = [(-1, [len(flat)] * block_size)] * (len(blocks) - len(expected))
    assert list(zip(of_blocks.tolist(), blocks, strict=True)) == expected + padding
    # what a launch is made for depends on the shape alone
    assert len(blocks) == len(align(torch.zeros_like(experts), num_experts, block_size).experts)


def test_prepare_and_finalise_are_a_round_trip() -> None:
    chosen = torch.tensor([[2, 0], [1, 2], [0, 1]])
    order, counts, top_k = prepare(chosen, 4)
    assert (chosen.flatten()[order].tolist(), counts.tolist(), top_k) == (
        [0, 0, 1, 1, 2, 2],
        [2, 2, 2, 0],
        2,
    )
    x, weights = torch.randn(3, 5), torch.rand(3, 2)
    outputs = x.repeat_interleave(2, 0)
    torch.testing.assert_close(finalise(outputs, weights), x * weights.sum(1, keepdim=True))


@pytest.fixture(scope="module", params=MOE_CASES)
def checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Any]:
    path = tmp_path_factory.mktemp(request.param)
    return path, write_checkpoint(path, CASES[request.param])


@torch.inference_mode()
def test_every_rung_gives_the_experts_of_transformers(checkpoint: tuple[Path, Any]) -> None:
    path, expected = checkpoint
    block = load(path).layers[1].mlp
    assert isinstance(block, FusedMoE)
    for num_tokens in (1, 8, 64):
        x = torch.randn(num_tokens, 48)
        wanted = expected.model.layers[1].mlp(x[None])
        wanted = (wanted[0] if isinstance(wanted, tuple) else wanted)[0]
        torch.testing.assert_close(block(x), wanted, atol=1e-4, rtol=1e-4)
        weights, chosen = block.router(x)
        for name, run in RUNGS.items():
            if name == "triton":
                pytest.importorskip("triton")
            outputs = finalise(run(x, chosen, block.gate_up, block.down), weights)
            torch.testing.assert_close(outputs, wanted, atol=1e-4, rtol=1e-4, msg=name)


@torch.inference_mode()
def test_shards_add_up_and_eight_bits_are_near(checkpoint: tuple[Path, Any]) -> None:
    path, _ = checkpoint
    x = torch.randn(9, 48)
    whole = load(path).layers[0].mlp(x)
    halves = [load(path, shard=Shard(rank, 2)).layers[0].mlp for rank in (0, 1)]
    torch.testing.assert_close(halves[0](x) + halves[1](x), whole, atol=1e-5, rtol=1e-5)
    assert halves[0].gate_up.numel() * 2 == load(path).layers[0].mlp.gate_up.numel()
    eight = load(path, quantization="int8").layers[0].mlp
    assert eight.pick_rung(x) == "loop"
    rounded = eight(x)
    assert (rounded - whole).norm() < 0.02 * whole.norm()
    parts = [
        load(path, quantization="int8", shard=Shard(rank, 2)).layers[0].mlp(x) for rank in (0, 1)
    ]
    torch.testing.assert_close(parts[0] + parts[1], rounded, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_a_missing_expert_shows(checkpoint: tuple[Path, Any]) -> None:
    path, _ = checkpoint
    block, x = load(path).layers[0].mlp, torch.randn(64, 48)
    whole = block(x)
    block.down[2] = 0
    assert (block(x) - whole).abs().max() > 1e-2


def test_tokens_are_those_of_transformers(checkpoint: tuple[Path, Any]) -> None:
    path, expected = checkpoint
    prompts = torch.randint(0, 131, (4, 9), generator=torch.Generator().manual_seed(0)).tolist()
    llm = LLM(str(path), dtype="float32", block_size=4, num_kv_blocks=40, max_num_batched_tokens=16)
    outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=8, ignore_eos=True))
    for prompt, output in zip(prompts, outputs, strict=True):
        greedy = expected.generate(
            torch.tensor([prompt]), max_new_tokens=8, min_new_tokens=8, do_sample=False
        )
        assert output.outputs[0].token_ids == greedy[0, len(prompt) :].tolist()


@pytest.mark.parametrize(
    ("case", "options", "message"),
    [
        ("mixtral", {"num_experts_per_tok": 6}, r"num_experts_per_tok is 6, allowed is .*\[1, 5\]"),
        ("qwen3-moe", {"num_experts_per_tok": 0}, "num_experts_per_tok is 0"),
        ("qwen3-moe", {"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
        ("qwen3-moe", {"mlp_only_layers": [-1]}, "mlp_only_layers is"),
        ("qwen3-moe", {"moe_intermediate_size": 0}, "moe_intermediate_size is 0"),
        ("olmoe", {"clip_qkv": -1.0}, r"clip_qkv is -1\.0"),
        ("olmoe", {"num_experts_per_tok": 9}, r"num_experts_per_tok is 9, allowed is .*\[1, 8\]"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    case: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, CASES[case])
    config = CASES[case].config_class(**{**load_hf_config(tmp_path).to_dict(), **options})
    config.save_pretrained(tmp_path)
    with pytest.raises(CorruptCheckpointError, match=message):
        load(tmp_path)


@pytest.mark.slow
def test_a_dense_checkpoint_imports_no_experts() -> None:
    program = (
        "import sys; from mini_vllm import LLM; LLM('tiny', num_kv_blocks=8);"
        "print([name for name in sys.modules if name.startswith('mini_vllm.models.moe')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr
