"""Weights that do not fit are refused before they are read, and the message says what would fit."""

import json
import math
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mini_vllm.config import EngineConfig
from mini_vllm.errors import KVCacheTooLargeError, WeightsTooLargeError
from mini_vllm.models.checkpoint import load_hf_config, resolve_model
from mini_vllm.worker import memory
from mini_vllm.worker.cache_engine import CacheEngine
from mini_vllm.worker.fit import Target, forms_of
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import KVCachePlan

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 1 << 17,
    "hidden_size": 1 << 14,
    "intermediate_size": 1 << 16,
    "num_hidden_layers": 64,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
}


def shapes_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
    }
    for layer in range(config["num_hidden_layers"]):
        place = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{place}{name}.weight"] = (hidden,)
        for name in "qkvo":
            shapes[f"{place}self_attn.{name}_proj.weight"] = (hidden, hidden)
        for name, shape in (
            ("gate", (inner, hidden)),
            ("up", (inner, hidden)),
            ("down", (hidden, inner)),
        ):
            shapes[f"{place}mlp.{name}_proj.weight"] = shape
    return shapes


def write_sparse(path: Path, config: dict[str, Any], num_shards: int) -> int:
    """A checkpoint whose files are holes: they have a size, and take no room on the disk."""
    (path / "config.json").write_text(json.dumps(config))
    shapes, weight_map, total = list(shapes_of(config).items()), {}, 0
    for shard in range(num_shards):
        name = f"model-{shard}.safetensors" if num_shards > 1 else "model.safetensors"
        header, end = {}, 0
        for tensor, shape in shapes[shard::num_shards]:
            begin, end = end, end + 2 * math.prod(shape)
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
            weight_map[tensor] = name
        raw = json.dumps(header).encode()
        with (path / name).open("wb") as file:
            file.write(struct.pack("<Q", len(raw)) + raw)
            file.truncate(8 + len(raw) + end)
        total += end
    if num_shards > 1:
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return total


@pytest.mark.parametrize("num_shards", [1, 28])
def test_weights_beyond_the_memory_are_refused_unread(tmp_path: Path, num_shards: int) -> None:
    """Half a terabyte, in one file and in shards: to read any of it would take minutes."""
    stored = write_sparse(tmp_path, LLAMA, num_shards)
    with pytest.raises(WeightsTooLargeError) as error:
        LocalExecutor(EngineConfig(model=str(tmp_path), device="cpu")).load()
    needed, free, least = (
        int(each.replace(",", "")) for each in re.findall(r"([\d,]{9,}) bytes", str(error.value))
    )
    assert stored <= needed < 1.1 * stored
    assert free < least < needed
    assert "the least, dtype bfloat16, quantization int8, needs" in str(error.value)
    with pytest.raises(WeightsTooLargeError, match="no form of them"):
        forms_of(EngineConfig(str(tmp_path)))


def set_memory(monkeypatch: pytest.MonkeyPatch, num_bytes: int) -> None:
    for module in ("device", "memory", "local_executor"):
        monkeypatch.setattr(f"mini_vllm.worker.{module}.available_host_memory", lambda: num_bytes)


def test_the_message_names_the_forms_that_fit(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte less than the weights need is too little; what they need in another form is not."""
    config = EngineConfig(
        model=str(checkpoint), device="cpu", max_num_seqs=1, max_num_batched_tokens=1
    )
    forms = {str(form): form for form in forms_of(EngineConfig(str(checkpoint)))}
    whole, eight = forms["dtype float32"], forms["dtype float32, quantization int8"]
    assert list(forms) == [
        "dtype float32",
        "dtype float32, quantization int8",
        "dtype bfloat16",
        "dtype bfloat16, quantization int8",
    ]
    assert all(form.fits and form.max_model_len == 128 for form in forms.values())
    assert eight.weight_bytes < whole.weight_bytes
    set_memory(monkeypatch, whole.weight_bytes)
    LocalExecutor(config).load()
    set_memory(monkeypatch, whole.weight_bytes - 1)
    with pytest.raises(WeightsTooLargeError) as error:
        LocalExecutor(config).load()
    message = str(error.value)
    assert f"need {whole.weight_bytes:,} bytes with dtype float32, " in message
    assert f" {whole.weight_bytes - 1:,} bytes are available on cpu" in message
    assert "dtype bfloat16, quantization int8 (" in message
    assert re.search(r"max_model_len [1-9]", message)
    assert "dtype float32 (" not in message


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("quantization", [None, "int8"])
@pytest.mark.parametrize("model", ["tiny", "checkpoint"])
def test_the_figure_is_what_the_model_takes(
    checkpoint: Path, model: str, dtype: str, quantization: str | None
) -> None:
    """But for the table of tokens, whose form as a head may come beside it."""
    name = str(checkpoint) if model == "checkpoint" else model
    config = EngineConfig(model=name, device="cpu", dtype=dtype, quantization=quantization)
    executor = LocalExecutor(config)
    executor.load()
    taken = {
        each.data_ptr() if not each.is_mkldnn else id(each): each.numel() * each.element_size()
        for module in executor.model.modules()
        for each in (*vars(module).values(), *module.parameters(recurse=False))
        if isinstance(each, torch.Tensor)
    }
    hf_config = load_hf_config(resolve_model(name))
    forms = Target(config, hf_config, resolve_model(name), executor.device).forms(executor.dtype)
    form = next(form for form in forms if form.quantization == quantization)
    table = executor.model.embed_tokens.weight.nbytes
    assert sum(taken.values()) <= form.weight_bytes <= sum(taken.values()) + table


NEEDS_LINUX = pytest.mark.skipif(
    not Path("/proc/meminfo").exists(), reason="reads what Linux says of memory"
)


@NEEDS_LINUX
def test_a_cache_takes_no_memory_before_it_is_written() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    engine = CacheEngine(
        2,
        (16, 4, 64),
        num_blocks=1 << 14,
        num_cpu_blocks=1 << 12,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    tensors = [each for caches in engine.kv_caches + engine.cpu_caches for each in caches]
    assert sum(each.nbytes for each in tensors) > 600 << 20
    assert resident() - before < 64 << 20
    for each in tensors:
        assert each.data_ptr() % 64 == 0
        assert not each[-1].any()
        each[-1] = 1
    assert all(each[-1].all() and not each[0].any() for each in tensors)


def test_blocks_that_do_not_fit_are_refused_with_the_number_that_would() -> None:
    plan = KVCachePlan(100, 16, 128, 1000)
    with pytest.raises(KVCacheTooLargeError, match="70,000 are free: 70 blocks would fit"):
        plan.check(70_000, 70_000, is_shared=True)


@NEEDS_LINUX
def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("2500\n")
    (tmp_path / "memory.stat").write_text("anon 1800\ninactive_file 700\n")
    assert memory.left_in_group(tmp_path) == 1200
    monkeypatch.setattr(memory, "CONTROL_GROUPS", tmp_path)
    assert memory.available_host_memory() == 1200
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_host_memory() > 1200


@pytest.mark.parametrize(
    ("rope", "outside", "expected"),
    [
        ({}, {}, 4096),
        ({"rope_type": "linear", "factor": 4.0}, {}, 4096),
        ({"rope_type": "dynamic", "factor": 4.0}, {}, 4096),
        ({"rope_type": "yarn", "factor": 4.0}, {}, 16_384),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 1024}, {}, 4096),
        ({"rope_type": "longrope", "original_max_position_embeddings": 1024}, {}, 1024),
        ({"rope_type": "longrope"}, {"original_max_position_embeddings": 512}, 512),
        (
            {"rope_type": "longrope", "short_factor": [2.0], "long_factor": [2.0]},
            {"original_max_position_embeddings": 512},
            4096,
        ),
    ],
)
def test_a_request_ends_where_the_rotation_does(
    rope: dict[str, Any], outside: dict[str, int], expected: int
) -> None:
    config = SimpleNamespace(rope_parameters=rope, max_position_embeddings=4096, **outside)
    assert memory.max_positions(config) == expected
