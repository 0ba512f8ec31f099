"""Damaged and odd checkpoints: each gives what transformers gives, or is refused by name. Nothing
else may happen.

The tables are small models of every kind with one or two fields changed, safetensors headers that
lie, indexes and generation configs of the wrong kind. The whole of them is slow; the tests named
after a hole are not.
"""

import json
import logging
import os
import random
import resource
import shutil
import struct
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from mini_vllm.attention import AttentionMetadata, PackedRequest, PagedAttention, get_backend
from mini_vllm.errors import (
    CheckpointError,
    CorruptCheckpointError,
    UnsupportedCheckpointError,
    UnsupportedModelError,
    WeightsMismatchError,
    shown,
)
from mini_vllm.models.checkpoint import load_generation_config, load_hf_config
from mini_vllm.models.config_fields import SAMPLING_FIELDS
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.registry import load_model
from mini_vllm.params import SamplingParams

CPU = torch.device("cpu")
WINDOW, NUM_TOKENS, MAX_SECONDS, MAX_KIB = 5, 4, 3.0, 256 * 1024
KINDER = ("head_dim=None", "head_dim='DELETE'", "pad_token_id=")
"""What transformers fails on and mini_vllm runs: a head_dim of null means hidden_size /
num_attention_heads everywhere, and not in some models only; the padding token is never looked up,
so it need not be in the vocabulary."""
PROMPT = torch.randint(61, (1, 3 * WINDOW), generator=torch.Generator().manual_seed(5))
LAYER_TYPES = ["full_attention", "sliding_attention", "full_attention"]
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
SMALL: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
}
BASES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": WINDOW},
    "ministral": {"sliding_window": WINDOW, "layer_types": LAYER_TYPES},
    "qwen2": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    "qwen3": {"use_sliding_window": True, "sliding_window": WINDOW, "layer_types": LAYER_TYPES},
    "gemma3_text": {"sliding_window": WINDOW, "layer_types": LAYER_TYPES},
}
Edit = Callable[[Path], object]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One checkpoint of every model type, in which each weight matters."""
    paths = {}
    for model_type, options in BASES.items():
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(model_type, **SMALL, **options)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name or name.endswith("bias"):
                    parameter.uniform_(0.5, 1.5)
        paths[model_type] = tmp_path_factory.mktemp(model_type)
        model.save_pretrained(paths[model_type])
    return paths


def write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content))


def read_json(file: Path) -> Any:
    return json.loads(file.read_text())


def set_fields(**changes: Any) -> Edit:
    """Change fields of config.json; DELETE takes one out."""

    def edit(path: Path) -> None:
        config = {**read_json(path / "config.json"), **changes}
        write_json(
            path / "config.json", {key: value for key, value in config.items() if value != "DELETE"}
        )

    return edit


# --- Both engines ---------------------------------------------------------------------------------


def load(path: Path) -> DecoderModel:
    load_generation_config(path)
    return load_model(path, load_hf_config(path), dtype=torch.float32, device=CPU)


@torch.inference_mode()
def logits_of_transformers(path: Path) -> tuple[Tensor, Tensor]:
    """Greedy tokens [prompt + NUM_TOKENS], and the logits of all but the last: in one pass, then
    token by token.
    """
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    found = model.generate(
        PROMPT,
        generation_config=transformers.GenerationConfig(
            max_new_tokens=NUM_TOKENS,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=True,
        ),
    )
    return found.sequences[0], torch.cat([model(PROMPT).logits[0, :-1], *found.logits])


@torch.inference_mode()
def logits_of_mini_vllm(path: Path, token_ids: Tensor) -> Tensor:
    """The logits of all tokens but the last, in two chunks."""
    model = load(path)
    num_tokens, block_size = len(token_ids) - 1, 4
    table = list(range(-(-num_tokens // block_size)))
    shape = (len(table), block_size, model.num_kv_heads, model.head_dim)
    kv_caches = [
        (torch.full(shape, torch.nan), torch.full(shape, torch.nan))
        for _ in range(model.num_layers)
    ]
    rows = []
    for start, end in ((0, WINDOW + 2), (WINDOW + 2, num_tokens)):
        metadata = AttentionMetadata.pack(
            [PackedRequest(table, start, end - start)], block_size, CPU
        )
        attend = PagedAttention(
            get_backend("torch", CPU), kv_caches, metadata, model.attention_specs
        )
        hidden = model.forward(token_ids[start:end], torch.arange(start, end), attend)
        rows.append(model.compute_logits(hidden))
    return torch.cat(rows)


@dataclass(frozen=True)
class Case:
    """A checkpoint, what is done to it, and the names of which a refusal must give one."""

    base: str
    edit: Edit
    names: tuple[str, ...]
    label: str


def judge(case: Case, base: Path, path: Path) -> str:
    """ "equal", "refused", "kinder" (KINDER), or what is wrong with the case."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(base, path)
    case.edit(path)
    start, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        load(path)
    except CheckpointError as error:
        if time.process_time() - start > MAX_SECONDS:
            return f"slow: {time.process_time() - start:.1f} s"
        if len(str(error)) > (20_000 if isinstance(error, WeightsMismatchError) else 1_000):
            return f"long: {len(str(error))} characters"
        # as transformers says them
        words = [name.removeprefix("num_").replace("_", " ") for name in case.names]
        named = any(name in str(error) for name in [*case.names, *words]) or isinstance(
            error, WeightsMismatchError
        )
        return "refused" if named else f"not named: {error}"
    except Exception:
        return f"raised: {traceback.format_exc(limit=-3)}"
    finally:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        assert grown < MAX_KIB, f"{case.label}: {grown} KiB"
    try:
        token_ids, expected = logits_of_transformers(path)
    except Exception as error:
        if any(each in case.label for each in KINDER):
            return "kinder"
        return (
            f"transformers refuses, and mini_vllm does not: {type(error).__name__}: "
            f"{str(error)[:200]}"
        )
    found = logits_of_mini_vllm(path, token_ids)
    if torch.allclose(found, expected, atol=2e-4, rtol=2e-4):
        return "equal"
    return f"different by {(found - expected).abs().max():.3g}"


def judge_all(cases: list[Case], bases: dict[str, Path], path: Path) -> Counter[str]:
    """How many cases are equal and how many refused; fails with a list of all that are neither."""
    outcomes = {case.label: judge(case, bases[case.base], path / "checkpoint") for case in cases}
    bad = [
        f"{label}: {outcome}"
        for label, outcome in outcomes.items()
        if outcome not in ("equal", "refused", "kinder")
    ]
    assert not bad, f"{len(bad)} of {len(cases)}\n" + "\n".join(bad)
    counts = Counter(outcomes.values())
    logging.getLogger(__name__).info("%s", dict(counts))
    return counts


# --- The tables -----------------------------------------------------------------------------------

NESTED: list[Any] = []
for _ in range(200):
    NESTED = [NESTED]
ODD = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        7,
        8,
        64,
        10**9,
        10**18,
        10**400,
        -(10**30),
        0.0,
        0.5,
        1.0,
        -1.5,
        1e-6,
        1e30,
    ),
    *(float("nan"), float("inf"), float("-inf"), "", "abc", "8", "\n\x1b[31m", "x" * 50_000),
    *(
        [],
        [1],
        ["full_attention"] * 3,
        ["sliding_attention"] * 3,
        {},
        {"a": 1},
        {"__float__": "NaN"},
        NESTED,
    ),
]
FIELDS: dict[str, list[Any]] = {
    "model_type": ["llama", "mistral", "ministral", "qwen2", "qwen3", "gpt2", "gemma2", "mixtral"],
    "architectures": [
        ["LlamaForCausalLM"],
        ["MistralForCausalLM"],
        ["Qwen3ForCausalLM"],
        [["LlamaForCausalLM"]],
    ],
    **{name: [16, 30, 61, 1 << 20] for name in ("vocab_size", "hidden_size", "intermediate_size")},
    **{
        name: [4, 6, 5000]
        for name in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim")
    },
    "max_position_embeddings": [10, 16],
    "rms_norm_eps": [1e-3, "1e-6", 0.9],
    "hidden_act": ["silu", "gelu", "swish", "relu", "SiLU"],
    **{
        name: [True]
        for name in ("attention_bias", "mlp_bias", "tie_word_embeddings", "use_sliding_window")
    },
    "sliding_window": [1, 2, 4, 100],
    "max_window_layers": [0, 1, 2, 3],
    "layer_types": [
        LAYER_TYPES,
        LAYER_TYPES[:2],
        ["attention"] * 3,
        ["chunked_attention"] * 3,
        ["mamba"] * 3,
        [[]] * 3,
    ],
    "rope_parameters": [{"rope_theta": 5e3}, {"rope_type": "yarn", "factor": 2.0}],
    "rope_scaling": [
        {"rope_type": "linear", "factor": 2.0},
        {"type": "dynamic", "factor": 2.0},
        LLAMA3,
    ],
    "rope_theta": [5e3, 1e-40],
    "partial_rotary_factor": [0.25],
    "original_max_position_embeddings": [16],
    "dtype": ["float32", "bfloat16", "float64", "int8", "nn", "load", "torch.float32"],
    "torch_dtype": ["float16", "int64"],
    "eos_token_id": [[1, 2], [1, "a"], 60, 61],
    "pad_token_id": [0, 60],
    "bos_token_id": [0],
    "is_causal": [],
    "is_encoder_decoder": [],
    "quantization_config": [{"quant_method": "gptq", "bits": 4}, {"quant_method": "fp8"}],
    "attention_dropout": [0.1],
    "attention_chunk_size": [],
    "attn_logit_softcapping": [50.0],
    "final_logit_softcapping": [30.0],
    **{
        name: [12.0]
        for name in ("embedding_multiplier", "residual_multiplier", "attention_multiplier")
    },
    "logits_scaling": [8.0],
    "query_pre_attn_scalar": [20, -1, 0, "8", 1e40],
    "hidden_activation": ["gelu", "silu"],
    "use_bidirectional_attention": [True],
    "sliding_window_pattern": [0, 2, -1, "6"],
    "rope_local_base_freq": [5e3, 0, "1", -1.0],
    "pretraining_tp": [4],
    "num_labels": [10**7],
    "per_layer_config": [{"0": {"sliding_window": 3}}],
    "text_config": [{"sliding_window": 3}],
    "transformers_weights": ["other.safetensors"],
    "attribute_map": [{"hidden_act": "model_type"}],
    "to_dict": [],
    "__dict__": [],
    "use_cache": [],
    "initializer_range": [],
    "chunk_size_feed_forward": [],
    "kv_sharing_modes": [["reuse"] * 3],
    "output_attentions": [],
    "id2label": [{"0": "a"}],
    "rope_interleaved": [],
    "unknown_field": [],
}
ROPE: dict[str, list[Any]] = {
    "rope_type": [
        "default",
        "linear",
        "dynamic",
        "yarn",
        "longrope",
        "llama3",
        "proportional",
        "axial",
        "mrope",
    ],
    "type": ["default", "yarn"],
    "rope_theta": [5e3, 10_000, 1e-40, 1e300],
    "factor": [8.0, 0.5],
    "low_freq_factor": [1.0, 4.0, 5.0],
    "high_freq_factor": [4.0],
    "original_max_position_embeddings": [16, 16.5],
    "partial_rotary_factor": [0.25],
    "attention_factor": [2.0],
    "full_attention": [{"rope_theta": 10.0}],
    "mrope_section": [[1, 1, 2]],
}


def sized(value: Any) -> str:
    return shown(value, 60)


def config_cases(seed: int, singles: int, pairs: int) -> list[Case]:
    """Every field with values of its own, in every model type; a sample of odd values, and of pairs
    of fields.
    """
    own = [
        (base, field, value)
        for base in BASES
        for field, values in FIELDS.items()
        for value in values
    ]
    # a window of 0 is none here, and one that sees nothing in transformers
    odd = [each for each in product(BASES, FIELDS, ODD) if each[1:] != ("sliding_window", 0)]
    draw = random.Random(seed)
    cases = []
    for base, field, value in own + draw.sample(odd, singles):
        cases.append(
            Case(
                base,
                set_fields(**{field: value}),
                names_of(field),
                f"{base} {field}={sized(value)}",
            )
        )
    for base, field in product(BASES, (*SMALL, "architectures", "rms_norm_eps", "layer_types")):
        cases.append(
            Case(base, set_fields(**{field: "DELETE"}), names_of(field), f"{base} {field}='DELETE'")
        )
    for _ in range(pairs):
        base, (one, two) = draw.choice(list(BASES)), draw.sample(list(FIELDS), 2)
        changes = {
            each: draw.choice([*FIELDS[each], *FIELDS[each], *ODD, "DELETE"]) for each in (one, two)
        }
        if changes.get("sliding_window") == 0:
            continue
        label = f"{base} " + " ".join(f"{field}={sized(value)}" for field, value in changes.items())
        cases.append(Case(base, set_fields(**changes), names_of(one) + names_of(two), label))
    return list({case.label: case for case in cases}.values())


def names_of(field: str) -> tuple[str, ...]:
    """A field may be told by what it makes of other fields, too."""
    rope = field.startswith(("rope", "partial", "original"))
    return (
        field,
        *(("rope_", "partial_rotary") if rope else ()),
        *(["model_type"] if field == "architectures" else []),
    )


def rope_cases(seed: int, singles: int) -> list[Case]:
    """rope_parameters of both kinds with one parameter changed or left out, in Llama and Qwen3."""
    default = {"rope_type": "default", "rope_theta": 1e4}
    own = [(field, value) for field, values in ROPE.items() for value in [*values, "DELETE"]]
    some = random.Random(seed).sample(list(product(ROPE, ODD)), singles)
    cases = []
    for base, start, (field, value) in product(("llama", "qwen3"), (default, LLAMA3), own + some):
        rope = {key: each for key, each in {**start, field: value}.items() if each != "DELETE"}
        label = f"{base} {start['rope_type']} {field}={sized(value)}"
        cases.append(
            Case(base, set_fields(rope_parameters=rope), (*names_of(field), "rope_"), label)
        )
    return list({case.label: case for case in cases}.values())


def edit_header(edit: Callable[[dict[str, Any]], object], length: int | None = None) -> Edit:
    """Change the header of model.safetensors; length: what the file says is the header's length."""

    def apply(path: Path) -> None:
        file = path / "model.safetensors"
        content = file.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + size])
        edit(header)
        text = json.dumps(header).encode()
        file.write_bytes(
            struct.pack("<Q", len(text) if length is None else length) + text + content[8 + size :]
        )

    return apply


def flip(position: int, bit: int) -> Edit:
    """Turn one bit of the first bytes of model.safetensors."""

    def apply(path: Path) -> None:
        content = bytearray((path / "model.safetensors").read_bytes())
        content[position] ^= 1 << bit
        (path / "model.safetensors").write_bytes(content)

    return apply


TENSOR = "model.layers.1.self_attn.k_proj.weight"  # [16, 32] float32
SAFETENSORS_DTYPES = (
    "BOOL U8 I8 U16 I16 U32 I32 U64 I64 F8_E5M2 F8_E4M3 F8_E8M0 F4 C64 F16 BF16 F32 F64 X9".split()
)


def header_cases(seed: int, flips: int) -> list[Case]:
    """One tensor's dtype, shape and offsets, and the header's own length, changed to what they are
    not.
    """
    entries: list[dict[str, Any]] = [
        {"dtype": dtype} for dtype in [*SAFETENSORS_DTYPES, None, 3, "f32", "", []]
    ]
    entries += [{"dtype": dtype, "shape": [16, 64]} for dtype in ("F16", "BF16", "I16", "U16")]
    entries += [
        {"dtype": dtype, "shape": [16, 128]}
        for dtype in ("I8", "U8", "BOOL", "F8_E5M2", "F8_E4M3", "F8_E8M0")
    ]
    shapes = [
        [],
        [512],
        [32, 16],
        [16, 32, 1],
        [1, 512],
        [16, 31],
        [-16, 32],
        [16.0, 32],
        ["16", 32],
        None,
        "16",
        [1e9],
    ]
    shapes += [
        [0],
        [0, 1 << 62],
        [1 << 63, 2],
        [1 << 62, 1 << 62],
        [1 << 64, 0],
        [10**30],
        [1] * 100_000,
        {"a": 1},
    ]
    entries += [{"shape": shape} for shape in shapes]
    offsets = [
        [0, 0],
        [0, 2048],
        [4, 2],
        [-1, 2047],
        [0, 1 << 62],
        [1 << 63, 1 << 64],
        [0],
        [0, 1, 2],
        None,
        "0",
        [0.5, 9],
    ]
    entries += [{"data_offsets": offset} for offset in offsets]
    cases = [
        Case(
            "llama",
            edit_header(lambda header, entry=entry: header[TENSOR].update(entry)),
            FILE,
            f"header {sized(entry)}",
        )
        for entry in entries
    ]
    edits: dict[str, Callable[[dict[str, Any]], object]] = {
        "gone": lambda header: header.pop(TENSOR),
        "empty": lambda header: header.clear(),
        "renamed": lambda header: header.update({"x" * 100_000: header.pop(TENSOR)}),
        "control": lambda header: header.update({"\x1b[31m\n": header.pop(TENSOR)}),
        "unnamed": lambda header: header.update({"": header.pop(TENSOR)}),
        "null": lambda header: header.update({TENSOR: None}),
        "list": lambda header: header.update({TENSOR: [1]}),
        "metadata": lambda header: header.update({"__metadata__": {"format": 3}}),
        "format": lambda header: header.update({"__metadata__": {"format": "np"}}),
        "no shape": lambda header: header[TENSOR].pop("shape"),
        "no offsets": lambda header: header[TENSOR].pop("data_offsets"),
        "twins": lambda header: header.update({"twin": dict(header[TENSOR])}),
        "swapped": lambda header: header[TENSOR].update(
            data_offsets=header["model.norm.weight"]["data_offsets"]
        ),
        "many": lambda header: header.update(
            {
                f"model.layers.{i}.x": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
                for i in range(20_000)
            }
        ),
    }
    cases += [
        Case("llama", edit_header(edit), FILE, f"header {name}") for name, edit in edits.items()
    ]
    for length in (0, 1, 7, 100, 1 << 20, 1 << 32, 1 << 63, (1 << 64) - 1):
        cases.append(
            Case(
                "llama", edit_header(lambda header: header, length), FILE, f"header length {length}"
            )
        )
    draw = random.Random(seed)
    places = [(draw.randrange(2_000), draw.randrange(8)) for _ in range(flips)]
    cases += [Case("llama", flip(*place), (*FILE, "model."), f"flip {place}") for place in places]
    return cases


FILE = ("model.safetensors", TENSOR)
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def shard(path: Path) -> dict[str, str]:
    """Cut model.safetensors in two, with an index; returns its weight_map."""
    tensors = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    weight_map = {name: SHARDS[i % 2] for i, name in enumerate(tensors)}
    for file in SHARDS:
        save_file(
            {name: tensors[name] for name in tensors if weight_map[name] == file}, path / file
        )
    write_json(path / INDEX, {"metadata": {}, "weight_map": weight_map})
    return weight_map


INDEX = "model.safetensors.index.json"
INDEX_EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "sound": lambda weight_map: {"metadata": {}, "weight_map": weight_map},
    "absent tensor": lambda weight_map: {"weight_map": {**weight_map, "ghost": SHARDS[0]}},
    "other shard": lambda weight_map: {
        "weight_map": {**weight_map, TENSOR: next(s for s in SHARDS if s != weight_map[TENSOR])}
    },
    "fewer": lambda weight_map: {
        "weight_map": {k: v for k, v in weight_map.items() if v == SHARDS[0]}
    },
    **{
        f"value {shown(value, 60)}": lambda weight_map, value=value: {
            "weight_map": {**weight_map, TENSOR: value}
        }
        for value in (
            *(
                "absent.safetensors",
                "../x.safetensors",
                "/etc/passwd",
                "..",
                ".",
                "",
                "a/b.safetensors",
                "nul\0.safetensors",
            ),
            *(
                "x" * 5000 + ".safetensors",
                "config.json",
                None,
                3,
                1.5,
                True,
                [],
                ["a"],
                {},
                {"a": 1},
                NESTED,
            ),
        )
    },
    **{
        f"map {shown(value, 60)}": lambda weight_map, value=value: {"weight_map": value}
        for value in (None, 3, "abc", [], ["a"], {}, True)
    },
    **{
        f"whole {shown(value, 60)}": lambda weight_map, value=value: value
        for value in (None, 3, "abc", [], [1], {}, True)
    },
}


def index_cases() -> list[Case]:
    """A sharded checkpoint whose index says something else."""

    def apply(edit: Callable[[dict[str, Any]], Any]) -> Edit:
        return lambda path: write_json(path / INDEX, edit(shard(path)))

    return [
        Case("llama", apply(edit), (INDEX, "absent.safetensors", "x.saf"), f"index {name}")
        for name, edit in INDEX_EDITS.items()
    ]


GENERATION: dict[str, list[Any]] = {
    **{name: [0.7, 1.0] for name in ("temperature", "top_p", "min_p")},
    **{f"{kind}_penalty": [0.7, 1.0] for kind in ("repetition", "presence", "frequency")},
    "top_k": [50],
    "max_new_tokens": [20],
    "do_sample": [],
    "skip_special_tokens": [],
    "eos_token_id": [[1, 2], [], [1, "a"], [1, [2]], [None], 60],
}


# --- 560 cases, or all with FUZZ_ALL=1 (slow) -----------------------------------------------------


def some(cases: list[Case], num_cases: int) -> list[Case]:
    return cases if "FUZZ_ALL" in os.environ else random.Random(num_cases).sample(cases, num_cases)


@pytest.mark.slow
def test_fields_of_config_json(bases: dict[str, Path], tmp_path: Path) -> None:
    counts = judge_all(some(config_cases(seed=1, singles=600, pairs=300), 340), bases, tmp_path)
    assert counts["equal"] > 70
    assert counts["refused"] > 150


@pytest.mark.slow
def test_rope_parameters(bases: dict[str, Path], tmp_path: Path) -> None:
    counts = judge_all(some(rope_cases(seed=2, singles=60), 100), bases, tmp_path)
    assert counts["equal"] > 20
    assert counts["refused"] > 20


@pytest.mark.slow
def test_headers_of_safetensors(bases: dict[str, Path], tmp_path: Path) -> None:
    counts = judge_all(some(header_cases(seed=3, flips=150), 120), bases, tmp_path)
    assert counts["refused"] > 100


# --- Named, and quick -----------------------------------------------------------------------------


def refused(path: Path, kind: type[CheckpointError], *names: str) -> None:
    """Loading ends at once in an error of that kind whose message has all the names."""
    start = time.process_time()
    with pytest.raises(kind) as error:
        load(path)
    assert time.process_time() - start < MAX_SECONDS
    assert all(name in str(error.value) for name in names), str(error.value)


@pytest.fixture
def llama(bases: dict[str, Path], tmp_path: Path) -> Path:
    """A Llama to damage."""
    return Path(shutil.copytree(bases["llama"], tmp_path / "llama"))


@pytest.mark.parametrize(
    "types", ["full sliding full", "sliding full full", "sliding sliding sliding"]
)
@pytest.mark.parametrize(
    "base",
    [
        "qwen3",
        *(pytest.param(b, marks=pytest.mark.slow) for b in ("mistral", "ministral", "qwen2")),
    ],
)
def test_layer_types_give_the_windows_of_transformers(
    bases: dict[str, Path], tmp_path: Path, base: str, types: str
) -> None:
    layer_types = [f"{each}_attention" for each in types.split()]
    case = Case(base, set_fields(layer_types=layer_types), ("layer_types",), types)
    assert judge(case, bases[base], tmp_path / "checkpoint") == "equal"


def test_windows_that_a_llama_cannot_have_are_refused(llama: Path) -> None:
    set_fields(sliding_window=WINDOW)(llama)
    refused(llama, UnsupportedModelError, "sliding_window 5")
    set_fields(layer_types=LAYER_TYPES)(llama)
    refused(llama, UnsupportedModelError, "sliding_window 5")
    set_fields(sliding_window=None)(llama)
    refused(llama, UnsupportedModelError, "layer_types", "sliding_window is null")


@pytest.mark.parametrize(
    "architectures",
    [
        ["Qwen3ForCausalLM"],
        ["MistralForCausalLM"],
        ["LlamaForCausalLM"] * 2,
        {"a": 1},
        [["LlamaForCausalLM"]],
        [3],
        "abc",
    ],
)
def test_architectures_that_contradict_the_model_type_are_refused(
    llama: Path, architectures: Any
) -> None:
    set_fields(architectures=architectures)(llama)
    refused(llama, CheckpointError, "architectures", shown(architectures))


@pytest.mark.parametrize("inside", [{}, {"original_max_position_embeddings": 64}])
def test_llama3_rope_with_the_original_length_at_top_level(
    bases: dict[str, Path], tmp_path: Path, inside: Any
) -> None:
    edit = set_fields(rope_parameters={**LLAMA3, **inside}, original_max_position_embeddings=16)
    assert judge(Case("llama", edit, (), ""), bases["llama"], tmp_path / "checkpoint") == "equal"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("is_causal", False),
            ("is_causal", None),
            ("is_causal", 1),
            ("is_encoder_decoder", True),
            ("hidden_act", "gelu"),
        ),
        *(
            ("partial_rotary_factor", 0.5),
            ("per_layer_config", {"0": {"rms_norm_eps": 0.1}}),
            ("attention_chunk_size", 4),
        ),
        *(
            ("text_config", {"hidden_size": 8}),
            ("transformers_weights", "x.safetensors"),
            ("dtype", "float64"),
        ),
        *(
            ("quantization_config", {"quant_method": "x" * 10_000}),
            ("compression_config", {}),
            ("torch_dtype", "int8"),
        ),
    ],
)
def test_fields_that_change_the_result_are_refused(llama: Path, field: str, value: Any) -> None:
    set_fields(dtype="DELETE")(llama)
    set_fields(**{field: value})(llama)
    refused(llama, UnsupportedModelError, field, "supported, only")


@pytest.mark.parametrize(
    "field", ["attribute_map", "to_dict", "__dict__", "standardize_rope_params"]
)
def test_fields_that_would_replace_code_are_refused(llama: Path, field: str) -> None:
    set_fields(**{field: {}})(llama)
    refused(llama, CorruptCheckpointError, "config.json", field)


@pytest.mark.parametrize(
    "value", [0, -1.0, float("nan"), float("inf"), "10000", None, True, 10**400, 1e-300, []]
)
@pytest.mark.parametrize("field", ["rope_theta", "factor", "low_freq_factor"])
def test_rope_numbers_that_give_no_angles_are_refused(llama: Path, field: str, value: Any) -> None:
    set_fields(rope_parameters={**LLAMA3, field: value})(llama)
    refused(llama, CheckpointError, field)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.int64,
        torch.int8,
        torch.uint8,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.complex64,
    ],
)
def test_weights_of_other_dtypes_are_refused_by_name(llama: Path, dtype: torch.dtype) -> None:
    tensors = load_file(llama / "model.safetensors")
    save_file({**tensors, TENSOR: tensors[TENSOR].to(dtype)}, llama / "model.safetensors")
    refused(llama, WeightsMismatchError, TENSOR, "has dtype", "supported are F64, F32, BF16, F16")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_every_plain_dtype_are_read(
    bases: dict[str, Path], tmp_path: Path, dtype: torch.dtype
) -> None:
    def edit(path: Path) -> None:
        tensors = load_file(path / "model.safetensors")
        save_file({**tensors, TENSOR: tensors[TENSOR].to(dtype)}, path / "model.safetensors")

    assert judge(Case("llama", edit, (), ""), bases["llama"], tmp_path / "checkpoint") == "equal"


SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)


@pytest.mark.parametrize(
    "field",
    [*SIZES, "num_key_value_heads", "head_dim", "max_position_embeddings", "sliding_window"],
)
def test_sizes_that_cannot_be_are_refused_by_name(llama: Path, field: str) -> None:
    for value in (
        *([0] if field != "sliding_window" else []),
        -1,
        2.0,
        True,
        "8",
        [],
        {},
        10**18,
        10**400,
        float("nan"),
        *([None] if field in SIZES else []),
    ):
        set_fields(**{field: value})(llama)
        refused(
            llama, CorruptCheckpointError, "config.json", f"{field} is {shown(value)}, allowed is"
        )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", 10_000),
        ("hidden_size", 1 << 20),
        ("vocab_size", 1 << 24),
        ("intermediate_size", 1 << 22),
    ],
)
def test_sizes_that_the_weights_do_not_have_are_refused_before_memory_is_taken(
    llama: Path, field: str, value: int
) -> None:
    set_fields(**{field: value})(llama)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(llama, WeightsMismatchError, "missing" if field == "num_hidden_layers" else f"{value}")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_KIB


def test_more_labels_than_a_file_has_bytes_are_refused(llama: Path) -> None:
    for value in (10**9, None, 1.5):
        set_fields(num_labels=value)(llama)
        refused(
            llama,
            CorruptCheckpointError,
            f"num_labels is {value}, allowed is an integer in [0, 10000]",
        )


@pytest.mark.parametrize("base", ["mistral", "ministral", "qwen2", "qwen3"])
@pytest.mark.parametrize(
    ("window", "outcome"),
    [(1, "refused"), (2, "equal"), (100, "equal"), (-1, "refused")],
)
def test_windows_of_every_width(
    bases: dict[str, Path], tmp_path: Path, base: str, window: int, outcome: str
) -> None:
    """For a window of 1, transformers sees the token alone in a prompt, and everything when it goes
    on from it.
    """
    case = Case(base, set_fields(sliding_window=window), ("sliding_window",), "")
    assert judge(case, bases[base], tmp_path / "checkpoint") == outcome


def test_a_window_of_0_is_none(bases: dict[str, Path], tmp_path: Path) -> None:
    """As vLLM has it; to transformers each token then sees nothing."""
    for base in ("mistral", "ministral", "qwen2", "qwen3"):
        path = tmp_path / base
        shutil.copytree(bases[base], path)
        set_fields(sliding_window=0)(path)
        assert {spec.sliding_window for spec in load(path).attention_specs} == {None}


@pytest.mark.parametrize(
    "content", [b"[]", b'"x"', b"3", b"null", b"", b"{", b"\xff", b"\xef\xbb\xbf{}", b"[" * 100_000]
)
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", INDEX])
def test_json_files_that_hold_no_object_are_refused(llama: Path, name: str, content: bytes) -> None:
    shard(llama)
    (llama / name).write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=name):
        load(llama)


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "model.safetensors", INDEX]
)
def test_a_folder_in_the_place_of_a_file_is_refused(llama: Path, name: str) -> None:
    if name == INDEX:
        shard(llama)
    (llama / name).unlink()
    (llama / name).mkdir()
    with pytest.raises(CheckpointError, match=name):
        load(llama)


@pytest.mark.parametrize("field", GENERATION)
def test_a_generation_config_is_sound_or_refused_by_name(tmp_path: Path, field: str) -> None:
    messages, loaded = [], 0
    for value in [*ODD, *GENERATION[field]]:
        write_json(tmp_path / "generation_config.json", {field: value})
        try:
            found = load_generation_config(tmp_path)[field]
        except CorruptCheckpointError as error:
            messages.append(str(error))
            continue
        loaded += 1
        if field in SAMPLING_FIELDS and found is not None:
            ours = SAMPLING_FIELDS[field]
            assert getattr(SamplingParams(**{ours: found}), ours) == value
    assert all(f"generation_config.json: {field} " in message for message in messages)
    assert max(map(len, messages)) < 1_000
    assert len(messages) > 15
    assert loaded > 1


def test_what_a_generation_config_asks_for_in_vain_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {
        "num_beams": 4,
        "no_repeat_ngram_size": 3,
        "stop_strings": ["x" * 10_000],
        "typical_p": 1.0,
        "min_length": 0,
    }
    write_json(tmp_path / "generation_config.json", asked)
    load_generation_config(tmp_path)
    said = [record.getMessage() for record in caplog.records]
    assert [message.split(": ")[1].split()[0] for message in said] == [
        "num_beams",
        "no_repeat_ngram_size",
        "stop_strings",
    ]
    assert all("is not applied" in message and len(message) < 1_000 for message in said)


@pytest.mark.parametrize("case", index_cases(), ids=lambda case: case.label)
def test_an_index_is_sound_or_refused_by_name(
    bases: dict[str, Path], tmp_path: Path, case: Case
) -> None:
    expected = "equal" if case.label == "index sound" else "refused"
    assert judge(case, bases["llama"], tmp_path / "checkpoint") == expected


def test_a_tensor_that_the_index_promises_and_no_file_has_is_named(llama: Path) -> None:
    write_json(llama / INDEX, INDEX_EDITS["absent tensor"](shard(llama)))
    refused(llama, CorruptCheckpointError, SHARDS[0], "has no ghost", INDEX)


def test_the_single_file_counts_and_not_the_index(bases: dict[str, Path], tmp_path: Path) -> None:
    """As for transformers."""

    def edit(path: Path) -> None:
        content = (path / "model.safetensors").read_bytes()
        shard(path)
        tensors = load_file(path / SHARDS[0])
        save_file({name: tensor + 1 for name, tensor in tensors.items()}, path / SHARDS[0])
        (path / "model.safetensors").write_bytes(content)

    assert judge(Case("llama", edit, (), ""), bases["llama"], tmp_path / "checkpoint") == "equal"


def test_an_adapter_is_refused(llama: Path) -> None:
    write_json(llama / "adapter_config.json", {"peft_type": "LORA"})
    refused(llama, UnsupportedCheckpointError, "adapter_config.json")


def test_a_header_whose_tensors_overlap_is_refused(llama: Path) -> None:
    edit_header(
        lambda header: header[TENSOR].update(
            data_offsets=header["model.norm.weight"]["data_offsets"]
        )
    )(llama)
    refused(llama, CorruptCheckpointError, "model.safetensors")


def test_a_message_does_not_grow_with_the_file(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    save_file(
        {**tensors, **{f"{'x' * 1000}{i}": torch.zeros(1) for i in range(1000)}},
        llama / "model.safetensors",
    )
    with pytest.raises(WeightsMismatchError, match="1000 tensors do not match") as error:
        load(llama)
    assert len(str(error.value)) < 25_000


def test_shown_values_are_short_whatever_they_are() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    values = (
        "x" * 20_000_000,
        b"x" * 20_000_000,
        10**5000,
        [["x" * 1000] * 100] * 100,
        {"a": "x" * 1000},
        NESTED,
        Rude(),
    )
    tracemalloc.start()
    assert all(len(shown(value)) <= 200 for value in values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000, "none is written out before it is cut"
    assert shown("a\n\x1b") == r"'a\n\x1b'"
    assert [shown(value) for value in (3, None, "abc", [1, {"a": 2.0}])] == [
        "3",
        "None",
        "'abc'",
        "[1, {'a': 2.0}]",
    ]
    assert len(shown("x" * 100, 20)) == 20
