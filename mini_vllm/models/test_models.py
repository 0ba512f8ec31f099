"""Models: random tiny checkpoints, written by transformers, against transformers' own logits in
float32.
"""

import gc
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    Gemma3TextConfig,
    GptOssConfig,
    GraniteConfig,
    Llama4TextConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    OlmoeConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
)

from mini_vllm.attention import (
    AttentionMetadata,
    PackedRequest,
    PagedAttention,
    get_backend,
    why_not,
)
from mini_vllm.attention.backend import make_cache
from mini_vllm.errors import InvalidParameterError, UnsupportedModelError, WeightsMismatchError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.layers.rotary import RotaryEmbedding, rope_parameters
from mini_vllm.models.registry import load_model
from mini_vllm.models.weights import Checkpoint

CPU = torch.device("cpu")
BLOCK_SIZE = 4
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "factor": 4.0,
    "short_factor": [1.0 + 0.1 * i for i in range(6)],
    "long_factor": [2.0 + 0.3 * i for i in range(6)],
    "original_max_position_embeddings": 64,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN_OPTIONS = {
    "mscale": 0.707,
    "mscale_all_dim": 1.3,
    "beta_fast": 8,
    "beta_slow": 2.5,
    "truncate": False,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5}
ROPES = {
    "linear": LINEAR,
    "dynamic": LINEAR | {"rope_type": "dynamic"},
    "yarn": YARN,
    "yarn-options": YARN | YARN_OPTIONS,
    "yarn-factor": YARN | {"attention_factor": 1.7},
    "longrope": LONGROPE,
    "longrope-factor": LONGROPE | {"attention_factor": 1.3},
}
GRANITE = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.13,
    "residual_multiplier": 0.22,
    "logits_scaling": 1.7,
}
MOE = {
    "head_dim": 16,
    "moe_intermediate_size": 24,
    "num_experts": 8,
    "num_experts_per_tok": 3,
}
OLMOE = {"intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 3, "pad_token_id": None}
GPT_OSS = {
    "head_dim": 16,
    "sliding_window": 5,
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "swiglu_limit": 0.7,
    "rope_parameters": YARN | {"truncate": False},
}
LLAMA4 = {
    "head_dim": 16,
    "intermediate_size_mlp": 40,
    "num_local_experts": 4,
    "attention_chunk_size": 8,
    "no_rope_layers": [1, 0],
    "floor_scale": 5,
    "attn_scale": 0.7,
}
GEMMA3 = {"head_dim": 20, "sliding_window": 5, "query_pre_attn_scalar": 30}
SMALL: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    # large enough that logits differ by more than the tolerance when anything is wrong
    "initializer_range": 0.15,
}


@dataclass(frozen=True)
class Case:
    """A transformers configuration, and how its checkpoint is written."""

    config_class: type
    options: dict[str, Any]
    sharded: bool = False


CASES = {
    "llama": Case(LlamaConfig, {}),
    "llama-tied": Case(LlamaConfig, {"tie_word_embeddings": True}, sharded=True),
    "llama-biases": Case(LlamaConfig, {"attention_bias": True, "mlp_bias": True}),
    "llama3-rope": Case(
        LlamaConfig, {"rope_parameters": LLAMA3_ROPE, "head_dim": 80}, sharded=True
    ),
    "llama-mha-head-dim-24": Case(
        LlamaConfig, {"num_key_value_heads": 4, "head_dim": 24, "rms_norm_eps": 1e-3}
    ),
    "llama-mqa": Case(
        LlamaConfig, {"num_key_value_heads": 1, "rope_parameters": {"rope_theta": 1e6}}
    ),
    "qwen2": Case(Qwen2Config, {}, sharded=True),
    "qwen2-tied": Case(Qwen2Config, {"tie_word_embeddings": True}),
    "qwen2-window-in-upper-layers": Case(
        Qwen2Config, {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
    ),
    "qwen2-window-not-used": Case(Qwen2Config, {"sliding_window": 5, "max_window_layers": 0}),
    "qwen3": Case(Qwen3Config, {"head_dim": 20}),
    "qwen3-tied": Case(Qwen3Config, {"head_dim": 32, "tie_word_embeddings": True}, sharded=True),
    "qwen3-layer-types": Case(
        Qwen3Config,
        {
            "head_dim": 16,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 3,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "mistral-window": Case(MistralConfig, {"sliding_window": 7}),
    **{
        f"rope-{name}": Case(LlamaConfig, {"rope_parameters": rope}) for name, rope in ROPES.items()
    },
    "ministral-yarn": Case(MistralConfig, {"rope_parameters": YARN, "sliding_window": 5}),
    "smollm3": Case(
        SmolLM3Config,
        {"pad_token_id": None, "no_rope_layers": [1, 0], "tie_word_embeddings": True},
    ),
    "smollm3-window": Case(
        SmolLM3Config,
        {
            "pad_token_id": None,
            "no_rope_layers": [0, 1],
            "attention_bias": True,
            "mlp_bias": True,
            "use_sliding_window": True,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention"],
        },
        sharded=True,
    ),
    "granite": Case(GraniteConfig, GRANITE),
    "granite-biases-tied": Case(
        GraniteConfig,
        {**GRANITE, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
        sharded=True,
    ),
    "phi3": Case(Phi3Config, {"pad_token_id": None}),
    "phi3-longrope-window": Case(
        Phi3Config,
        {
            "pad_token_id": None,
            "rope_parameters": LONGROPE,
            "original_max_position_embeddings": 64,
            "sliding_window": 7,
        },
        sharded=True,
    ),
    "phi3-part-of-each-head": Case(
        Phi3Config, {"pad_token_id": None, "partial_rotary_factor": 0.5}
    ),
    "phi3-longrope-part-of-each-head": Case(
        Phi3Config,
        {
            "pad_token_id": None,
            "rope_parameters": {
                **LONGROPE,
                "partial_rotary_factor": 0.67,
                "short_factor": [1.0, 1.2, 1.5, 2.0],
                "long_factor": [3.0] * 4,
            },
            "original_max_position_embeddings": 64,
            "tie_word_embeddings": True,
        },
    ),
    "gemma3": Case(Gemma3TextConfig, GEMMA3 | {"layer_types": ["full_attention"] * 2}),
    "gemma3-window": Case(
        Gemma3TextConfig,
        {
            **GEMMA3,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e2},
                "full_attention": LINEAR,
            },
            "attention_bias": True,
            "tie_word_embeddings": False,
        },
        sharded=True,
    ),
    "qwen3-moe": Case(Qwen3MoeConfig, {**MOE, "norm_topk_prob": True}),
    "qwen3-moe-some-layers-tied": Case(
        Qwen3MoeConfig,
        {
            **MOE,
            "num_hidden_layers": 4,
            "mlp_only_layers": [1],
            "decoder_sparse_step": 2,
            "norm_topk_prob": False,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
        sharded=True,
    ),
    "mixtral": Case(MixtralConfig, {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "mixtral-window": Case(
        MixtralConfig, {"num_local_experts": 3, "num_experts_per_tok": 3, "sliding_window": 7}
    ),
    "olmoe": Case(OlmoeConfig, OLMOE | {"norm_topk_prob": False}),
    "olmoe-clip-biases-tied": Case(
        OlmoeConfig,
        {
            **OLMOE,
            "clip_qkv": 0.9,
            "norm_topk_prob": True,
            "num_key_value_heads": 1,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
        sharded=True,
    ),
    "llama4": Case(
        Llama4TextConfig, {**LLAMA4, "rope_parameters": {**LLAMA3_ROPE, "high_freq_factor": 1.0}}
    ),
    "llama4-some-experts": Case(
        Llama4TextConfig,
        {
            **LLAMA4,
            "head_dim": 20,
            "interleave_moe_layer_step": 2,
            "num_experts_per_tok": 2,
            "no_rope_layers": [0, 1],
            "layer_types": ["chunked_attention"] * 2,
            "use_qk_norm": False,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
        sharded=True,
    ),
    "gpt-oss": Case(GptOssConfig, GPT_OSS),
    "gpt-oss-mqa-tied": Case(
        GptOssConfig,
        {
            **GPT_OSS,
            "num_key_value_heads": 1,
            "num_experts_per_tok": 4,
            "swiglu_alpha": 0.9,
            "tie_word_embeddings": True,
        },
        sharded=True,
    ),
    "mistral-no-window-tied": Case(
        MistralConfig,
        {"sliding_window": None, "tie_word_embeddings": True, "head_dim": 20},
        sharded=True,
    ),
}


@dataclass(frozen=True)
class Pair:
    """The same checkpoint twice: as transformers runs it, and as mini_vllm does."""

    path: Path
    expected: Any
    model: DecoderModel


def write_checkpoint(path: Path, case: Case) -> Any:
    """A random model of that configuration, saved; norms and biases are random too, so that each of
    them matters.
    """
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        case.config_class(**{**SMALL, **case.options}),
        attn_implementation="eager",
        dtype=torch.float32,
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith(("bias", "sinks")):
                parameter.uniform_(-0.5, 0.5)
    model.save_pretrained(path, max_shard_size="20KB" if case.sharded else "1GB")
    return model.eval()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.slow) if name == "gpt-oss-mqa-tied" else name
        for name in CASES
    ],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    path = tmp_path_factory.mktemp(request.param)
    case = CASES[request.param]
    expected = write_checkpoint(path, case)
    assert (path / "model.safetensors.index.json").exists() == case.sharded
    model = load_model(path, load_hf_config(path), dtype=torch.float32, device=CPU)
    return Pair(path, expected, model)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small sound checkpoint to damage."""
    write_checkpoint(tmp_path, CASES["llama"])
    return tmp_path


def load(path: Path) -> DecoderModel:
    return load_model(path, load_hf_config(path), dtype=torch.float32, device=CPU)


class Runner:
    """Runs packed batches over one paged cache, with each sequence's blocks shuffled."""

    def __init__(
        self, model: DecoderModel, sequences: list[list[int]], backend: str = "torch"
    ) -> None:
        self.model, self.sequences, self.backend = model, sequences, get_backend(backend, CPU)
        widths = [-(-len(sequence) // BLOCK_SIZE) for sequence in sequences]
        free = torch.randperm(sum(widths), generator=torch.Generator().manual_seed(1)).tolist()
        self.block_tables = [[free.pop() for _ in range(width)] for width in widths]
        shape, order = (
            (sum(widths), BLOCK_SIZE, model.num_kv_heads, model.head_dim),
            self.backend.stride_order,
        )
        self.kv_caches = [
            (make_cache(shape, order).fill_(torch.nan), make_cache(shape, order).fill_(torch.nan))
            for _ in range(model.num_layers)
        ]

    def step(self, spans: dict[int, tuple[int, int]]) -> dict[int, Tensor]:
        """Compute tokens [start, end) of each sequence named, as one batch; logits [end - start,
        vocab] of each.
        """
        requests = [
            PackedRequest(self.block_tables[i], start, end - start)
            for i, (start, end) in spans.items()
        ]
        metadata = AttentionMetadata.pack(requests, BLOCK_SIZE, CPU)
        attend = PagedAttention(self.backend, self.kv_caches, metadata, self.model.attention_specs)
        input_ids = torch.tensor(
            [token for i, (start, end) in spans.items() for token in self.sequences[i][start:end]]
        )
        positions = torch.cat([torch.arange(start, end) for start, end in spans.values()])
        logits = self.model.compute_logits(self.model.forward(input_ids, positions, attend))
        return dict(zip(spans, logits.split([r.query_len for r in requests]), strict=True))


@pytest.fixture(scope="module")
def sequences() -> list[list[int]]:
    generator = torch.Generator().manual_seed(2)
    return [
        torch.randint(SMALL["vocab_size"], (length,), generator=generator).tolist()
        for length in (23, 1, 16)
    ]


@torch.inference_mode()
def expected_logits(pair: Pair, sequence: list[int]) -> Tensor:
    logits: Tensor = pair.expected(torch.tensor([sequence])).logits[0]
    return logits


NO_C = why_not("c", CPU)
BACKENDS = (
    pytest.param("torch", marks=pytest.mark.slow),
    pytest.param("c", marks=pytest.mark.skipif(bool(NO_C), reason=f"no rung c: {NO_C}")),
)


@pytest.mark.slow
@torch.inference_mode()
@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_packed_prompts_give_the_logits_of_transformers(
    pair: Pair, sequences: list[list[int]], backend: str
) -> None:
    runner = Runner(pair.model, sequences, backend)
    everything = {i: (0, len(s)) for i, s in enumerate(sequences)}
    has_sinks = any(spec.sinks is not None for spec in pair.model.attention_specs)
    if has_sinks and backend == "reference":
        with pytest.raises(InvalidParameterError, match="'reference' has no sinks"):
            runner.step(everything)
        return
    logits = runner.step(everything)
    for i, sequence in enumerate(sequences):
        torch.testing.assert_close(logits[i], expected_logits(pair, sequence), **TOLERANCE)


@torch.inference_mode()
@pytest.mark.parametrize("backend", BACKENDS)
def test_chunks_and_decodes_give_the_logits_of_transformers(
    pair: Pair, sequences: list[list[int]], backend: str
) -> None:
    """Two sequences computed piece by piece, in different order and in mixed batches, down to
    single tokens.
    """
    runner = Runner(pair.model, sequences, backend)
    steps = [{0: (0, 6)}, {2: (0, 4), 0: (6, 7)}, {0: (7, 19), 2: (4, 13)}]
    steps += [{0: (19 + i, 20 + i), 2: (13 + i, 14 + i)} for i in range(3)]
    for spans in steps:
        for i, logits in runner.step(spans).items():
            start, end = spans[i]
            torch.testing.assert_close(
                logits, expected_logits(pair, sequences[i])[start:end], **TOLERANCE
            )


@torch.inference_mode()
@pytest.mark.parametrize("backend", BACKENDS)
def test_greedy_decoding_gives_the_tokens_of_transformers(
    pair: Pair, sequences: list[list[int]], backend: str
) -> None:
    prompt, num_tokens = sequences[2], 6
    expected = pair.expected.generate(
        torch.tensor([prompt]),
        do_sample=False,
        max_new_tokens=num_tokens,
        eos_token_id=-1,
        pad_token_id=0,
    )[0].tolist()
    runner = Runner(pair.model, [[*prompt, *[0] * num_tokens]], backend)
    start = 0
    for end in range(len(prompt), len(prompt) + num_tokens):
        runner.sequences[0][end] = int(runner.step({0: (start, end)})[0][-1].argmax())
        start = end
    assert runner.sequences[0] == expected


@torch.inference_mode()
def test_bfloat16_stays_close_to_transformers(pair: Pair, sequences: list[list[int]]) -> None:
    """Both round at the same places, so they differ by less than bfloat16 differs from float32."""
    model = load_model(pair.path, load_hf_config(pair.path), dtype=torch.bfloat16, device=CPU)
    runner = Runner(model, sequences)
    runner.kv_caches = [(key.bfloat16(), value.bfloat16()) for key, value in runner.kv_caches]
    logits = runner.step({0: (0, len(sequences[0]))})[0]
    assert logits.dtype == torch.bfloat16
    exact = expected_logits(pair, sequences[0])
    assert (logits.float() - exact).abs().mean() < 0.02 * exact.abs().max()


@torch.inference_mode()
def test_model_over_the_reference_back_end(folder: Path, sequences: list[list[int]]) -> None:
    model = load(folder)
    spans = {i: (0, len(sequence)) for i, sequence in enumerate(sequences)}
    by_torch, by_reference = (
        Runner(model, sequences, name).step(spans) for name in ("torch", "reference")
    )
    for i in spans:
        torch.testing.assert_close(by_torch[i], by_reference[i], **TOLERANCE)


def test_model_says_its_sizes(folder: Path) -> None:
    model = load(folder)
    assert (model.num_layers, model.num_kv_heads, model.head_dim) == (2, 2, 12)
    assert (model.vocab_size, model.hidden_size, model.num_heads) == (131, 48, 4)
    assert all(not p.requires_grad and p.dtype == torch.float32 for p in model.parameters())


# --- Weights --------------------------------------------------------------------------------------

Weights = dict[str, Tensor]


def edit_weights(path: Path, edit: Callable[[Weights], object]) -> None:
    weights = load_file(path / "model.safetensors")
    edit(weights)
    save_file(weights, path / "model.safetensors")


def edit_config(path: Path, **changes: Any) -> None:
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **changes}))


def test_trap_46_weights_missing_from_the_checkpoint_are_all_named(folder: Path) -> None:
    names = ["model.norm.weight", "model.layers.1.self_attn.k_proj.weight", "lm_head.weight"]
    edit_weights(folder, lambda weights: [weights.pop(name) for name in names])
    with pytest.raises(WeightsMismatchError) as error:
        load(folder)
    assert "3 tensors" in str(error.value)
    assert all(f"missing {name}" in str(error.value) for name in names)


def test_trap_46_weights_left_over_in_the_checkpoint_are_all_named(folder: Path) -> None:
    names = ["model.layers.2.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.bias"]
    edit_weights(folder, lambda weights: weights.update({name: torch.zeros(3) for name in names}))
    with pytest.raises(WeightsMismatchError) as error:
        load(folder)
    assert all(f"left over {name}" in str(error.value) for name in names)


def test_trap_46_a_wrong_shape_is_named_with_both_shapes(folder: Path) -> None:
    edit_weights(
        folder,
        lambda weights: weights.update(
            {"model.layers.1.mlp.down_proj.weight": torch.zeros(48, 71)}
        ),
    )
    with pytest.raises(
        WeightsMismatchError, match=r"down_proj.weight has shape \(48, 71\), expected \(48, 72\)"
    ):
        load(folder)


def test_trap_46_no_tensor_is_taken_twice(folder: Path) -> None:
    checkpoint = Checkpoint(folder)
    checkpoint.take("model.norm.weight")
    with pytest.raises(WeightsMismatchError, match=r"model.norm.weight is taken a second time"):
        checkpoint.take("model.norm.weight")


def test_trap_46_every_parameter_comes_from_the_file(folder: Path) -> None:
    """Each tensor of the checkpoint is filled with a number of its own; the model holds exactly
    these numbers.
    """
    weights = load_file(folder / "model.safetensors")
    for number, name in enumerate(weights):
        weights[name] = torch.full_like(weights[name], number + 1)
    save_file(weights, folder / "model.safetensors")
    found = torch.cat([parameter.unique() for parameter in load(folder).parameters()])
    assert sorted(found.tolist()) == [number + 1 for number in range(len(weights))]


def test_old_checkpoints_may_carry_inverse_frequencies(folder: Path) -> None:
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    edit_weights(folder, lambda weights: weights.update({name: torch.zeros(6)}))
    load(folder)


def test_a_tied_checkpoint_may_carry_its_head_if_it_is_the_same(folder: Path) -> None:
    edit_config(folder, tie_word_embeddings=True)
    with pytest.raises(WeightsMismatchError, match=r"lm_head.weight is not embed_tokens.weight"):
        load(folder)
    edit_weights(
        folder, lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"].clone()})
    )
    assert load(folder).lm_head is None


def test_parameters_are_copies_that_outlive_the_files(folder: Path) -> None:
    model = load(folder)
    before = [parameter.clone() for parameter in model.parameters()]
    file = folder / "model.safetensors"
    file.write_bytes(b"\0" * file.stat().st_size)
    shutil.rmtree(folder)
    gc.collect()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("name", ["llama", "llama-tied"])
def test_int8_leaves_no_matrix_in_full_precision_but_the_embedding(
    name: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, CASES[name])
    model = load_model(
        tmp_path, load_hf_config(tmp_path), dtype=torch.float32, device=CPU, quantization="int8"
    )
    matrices = {name: each.dtype for name, each in model.named_parameters() if each.dim() == 2}
    assert matrices.pop("embed_tokens.weight") == torch.float32
    assert "head_weight.values" in matrices or "lm_head.weight.values" in matrices
    assert set(matrices.values()) == {torch.int8}


# --- Configurations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"architectures": ["GPT2LMHeadModel"]},
            r"\['GPT2LMHeadModel'\] of model_type 'llama' is not supported, only \['LlamaForC",
        ),
        ({"architectures": None}, r"None of model_type 'llama' is not sup.*'LlamaForCausalLM'\]"),
        ({"hidden_act": "gelu"}, r"hidden_act 'gelu' is not supported, only 'silu'"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            r"quantization_config .*gptq.* not supported",
        ),
        (
            {"rope_parameters": {"rope_type": "proportional", "factor": 4.0, "rope_theta": 1e4}},
            r"'proportional' is not one of: def",
        ),
        (
            {
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e4,
                    "partial_rotary_factor": 0.5,
                }
            },
            r"0\.5",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    edit_config(folder, **changes)
    with pytest.raises(UnsupportedModelError, match=message):
        load(folder)


def test_an_odd_number_of_channels_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match=r"head_dim 11 is odd"):
        RotaryEmbedding(LlamaConfig(**SMALL), 11, CPU)
    config = Phi3Config(**SMALL, pad_token_id=None, partial_rotary_factor=0.25)
    with pytest.raises(UnsupportedModelError, match=r"head_dim 12 is odd, or 3 of it that turn"):
        RotaryEmbedding(config, 12, CPU)


def test_an_unknown_layer_type_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CASES["qwen2"])
    config = load_hf_config(tmp_path)
    config.layer_types = ["full_attention", "chunked_attention"]
    with pytest.raises(UnsupportedModelError, match=r"'chunked_attention' of layer 1"):
        load_model(tmp_path, config, dtype=torch.float32, device=CPU)


@torch.inference_mode()
def test_gemma3_as_its_checkpoints_were_published(
    tmp_path: Path, sequences: list[list[int]]
) -> None:
    """config.json has a pattern in place of a list, and a base of angles for each kind."""
    options = GEMMA3 | {"num_hidden_layers": 7, "sliding_window_pattern": 6}
    expected = write_checkpoint(tmp_path, Case(Gemma3TextConfig, options))
    raw = json.loads((tmp_path / "config.json").read_text())
    assert raw.pop("layer_types") == ["sliding_attention"] * 5 + [
        "full_attention",
        "sliding_attention",
    ]
    del raw["rope_parameters"]
    old = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": None}
    (tmp_path / "config.json").write_text(json.dumps(raw | old | {"sliding_window_pattern": 6}))
    model = load(tmp_path)
    windows = [spec.sliding_window for spec in model.attention_specs]
    assert windows == [5] * 5 + [None, 5]
    logits = Runner(model, sequences).step({0: (0, len(sequences[0]))})[0]
    torch.testing.assert_close(
        logits, expected(torch.tensor([sequences[0]])).logits[0], **TOLERANCE
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_activation": "gelu"}, r"hidden_activation 'gelu' is not supported, only"),
        ({"final_logit_softcapping": 30.0}, r"final_logit_softcapping 30.0 is not supported"),
        ({"attn_logit_softcapping": 50.0}, r"attn_logit_softcapping 50.0 is not supported"),
        ({"use_bidirectional_attention": True}, r"use_bidirectional_attention True is not"),
        ({"query_pre_attn_scalar": -3}, r"query_pre_attn_scalar is -3, allowed is a number in"),
        (
            {"rope_parameters": {"full_attention": LINEAR | {"factor": -1.0}}},
            r"rope_parameters of full_attention: factor is -1.0, allowed is",
        ),
    ],
)
def test_what_gemma3_has_not_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_checkpoint(tmp_path, CASES["gemma3"])
    edit_config(tmp_path, **changes)
    with pytest.raises(UnsupportedModelError, match=message):
        load(tmp_path)


def test_rope_theta_and_rope_scaling_of_older_configs(folder: Path) -> None:
    """config.json as transformers 4 wrote it, and a configuration object that was never
    converted.
    """
    raw = json.loads((folder / "config.json").read_text())
    del raw["rope_parameters"]
    scaling = {key: value for key, value in LLAMA3_ROPE.items() if key != "rope_theta"}
    (folder / "config.json").write_text(
        json.dumps({**raw, "rope_theta": 500_000.0, "rope_scaling": scaling})
    )
    assert rope_parameters(load_hf_config(folder)) == LLAMA3_ROPE

    class OldConfig:
        rope_theta, rope_scaling, max_position_embeddings = 500_000.0, scaling, 256

    assert rope_parameters(OldConfig()) == LLAMA3_ROPE
    OldConfig.rope_scaling = None  # type: ignore[assignment]
    assert rope_parameters(OldConfig())["rope_type"] == "default"


def test_rotary_angles_equal_those_of_transformers_far_out() -> None:
    for rope in ({"rope_type": "default", "rope_theta": 1e4}, LLAMA3_ROPE, LINEAR, YARN):
        config = LlamaConfig(**SMALL, head_dim=64, rope_parameters=dict(rope))
        theirs = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
        positions = torch.tensor([0, 1, 17, 100_000])
        cos, sin = theirs(torch.zeros(1), positions[None])
        ours = RotaryEmbedding(config, 64, CPU)(positions, torch.float32)
        assert torch.equal(ours.cos[:, 0], cos[0])
        torch.testing.assert_close(ours.signed_sin[:, 0, 32:], sin[0, :, 32:], atol=0, rtol=0)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices: a second thread costs more than it brings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
