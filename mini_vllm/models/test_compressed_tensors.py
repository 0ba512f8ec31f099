"""Checkpoints that are stored quantised, against the same weights dequantised and stored
plainly.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from mini_vllm.errors import InvalidParameterError, UnsupportedModelError, WeightsMismatchError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.layers.quantization import Int8Weight
from mini_vllm.models.registry import load_model
from mini_vllm.models.test_models import CASES, CPU, Runner, write_checkpoint
from mini_vllm.models.test_shard import TOLERANCE, Step
from mini_vllm.parallel.shard import Shard

FORMS = [(kind, strategy) for kind in ("int", "float") for strategy in ("channel", "tensor")]


def quantization_config(kind: str, strategy: str) -> dict[str, Any]:
    """As compressed-tensors 0.20 writes it."""
    weights = {
        "dynamic": False,
        "group_size": None,
        "num_bits": 8,
        "strategy": strategy,
        "symmetric": True,
    }
    group = {
        "format": None,
        "input_activations": None,
        "output_activations": None,
        "targets": ["Linear"],
    }
    return {
        "config_groups": {"group_0": {**group, "weights": {**weights, "type": kind}}},
        "format": "naive-quantized",
        "global_compression_ratio": None,
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "sparsity_config": {},
        "transform_config": {},
        "version": "0.20.0",
    }


def quantize(weight: Tensor, kind: str, strategy: str) -> tuple[Tensor, Tensor]:
    """The stored weight and its scale: of each output channel [N, 1], or [1]."""
    largest = (
        weight.abs().amax(dim=1, keepdim=True)
        if strategy == "channel"
        else weight.abs().amax().reshape(1)
    )
    scale = largest / (127.5 if kind == "int" else 448)
    steps = (weight / scale).clamp(-448, 448)
    return (
        steps.round().clamp(-128, 127).to(torch.int8)
        if kind == "int"
        else steps.to(torch.float8_e4m3fn)
    ), scale


def edit_config(path: Path, **changes: Any) -> None:
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | changes))


def write_pair(
    tmp_path: Path, kind: str, strategy: str, case: str = "llama-biases"
) -> tuple[Path, Path]:
    """A checkpoint that is stored quantised, but for its head; and one of the same weights,
    dequantised.
    """
    stored, plain = tmp_path / "stored", tmp_path / "plain"
    write_checkpoint(stored, CASES[case])
    write_checkpoint(plain, CASES[case])
    tensors = load_file(stored / "model.safetensors")
    dequantized = dict(tensors)
    for name in [name for name in tensors if name.endswith("proj.weight")]:
        tensors[name], scale = quantize(tensors[name], kind, strategy)
        tensors[f"{name}_scale"] = scale
        dequantized[name] = tensors[name].float() * scale
    save_file(tensors, stored / "model.safetensors")
    save_file(dequantized, plain / "model.safetensors")
    edit_config(stored, quantization_config=quantization_config(kind, strategy))
    return stored, plain


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose config.json each test writes again."""
    path = tmp_path_factory.mktemp("llama")
    write_checkpoint(path, CASES["llama"])
    return path


def load(path: Path, dtype: torch.dtype = torch.float32, **options: Any) -> DecoderModel:
    return load_model(path, load_hf_config(path), dtype=dtype, device=CPU, **options)


def weights_of(model: DecoderModel) -> list[Tensor]:
    """The weights of all linear layers of the stack, dequantised, in float32."""
    linears = [
        each for layer in model.layers for each in (layer.self_attn.qkv_proj, layer.mlp.down_proj)
    ]
    return [
        weight.values.float() * weight.scale[:, None]
        if isinstance(weight, Int8Weight)
        else weight.float()
        for weight in (each.weight for each in linears)
    ]


@torch.inference_mode()
@pytest.mark.parametrize(("kind", "strategy"), FORMS)
def test_a_stored_checkpoint_computes_what_its_dequantised_weights_do(
    kind: str, strategy: str, tmp_path: Path
) -> None:
    """Weights are equal in float32, and so are logits up to the order of sums; int8 weights stay
    int8.
    """
    stored, plain = map(load, write_pair(tmp_path, kind, strategy))
    assert isinstance(stored.layers[0].mlp.down_proj.weight, Int8Weight) == (kind == "int")
    assert stored.quantization == ("int8" if kind == "int" else "float8")
    for ours, theirs in zip(weights_of(stored), weights_of(plain), strict=True):
        assert torch.equal(ours, theirs)
    sequences = [list(range(40, 63)), [5]]
    logits, expected = (
        Runner(model, sequences).step({0: (0, 23), 1: (0, 1)}) for model in (stored, plain)
    )
    for i in expected:
        torch.testing.assert_close(logits[i], expected[i], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize(("kind", "strategy"), FORMS)
def test_shards_of_a_stored_checkpoint_glued_together_are_the_whole(
    kind: str, strategy: str, tmp_path: Path
) -> None:
    path, _ = write_pair(tmp_path, kind, strategy)
    whole, *halves = (
        Step(load(path, shard=shard)) for shard in (Shard(), Shard(0, 2), Shard(1, 2))
    )
    hidden = torch.randn(13, whole.model.hidden_size, generator=torch.Generator().manual_seed(3))
    for output, *glued in zip(
        whole.qkv(1, hidden), *(half.qkv(1, hidden) for half in halves), strict=True
    ):
        torch.testing.assert_close(torch.cat(glued, dim=-1), output, **TOLERANCE)
    torch.testing.assert_close(
        sum(half.mlp(1, hidden) for half in halves), whole.mlp(1, hidden), **TOLERANCE
    )


def test_float8_is_rounded_once(tmp_path: Path) -> None:
    """In bfloat16: the product of weight and scale, to the nearest."""
    stored, plain = write_pair(tmp_path, "float", "channel")
    expected = load_file(plain / "model.safetensors")[
        "model.layers.1.mlp.down_proj.weight"
    ].bfloat16()
    weight = load(stored, torch.bfloat16).layers[1].mlp.down_proj.weight
    assert torch.equal(weight.to_dense() if weight.is_mkldnn else weight, expected)


def test_weights_that_are_stored_quantised_are_not_quantised_again(tmp_path: Path) -> None:
    path, _ = write_pair(tmp_path, "float", "tensor")
    with pytest.raises(
        InvalidParameterError, match=r"quantization 'int8': .* stores its weights as float8 already"
    ):
        load(path, quantization="int8")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("mlp.up_proj.weight_scale", None, r"missing model.layers.1.mlp.up_proj.weight_scale"),
        ("mlp.down_proj.weight_scale", None, r"down_proj.weight has dtype I8, supported are F64"),
        ("mlp.down_proj.weight", "float", r"down_proj.weight has dtype F32, supported are I8"),
        (
            "mlp.down_proj.weight_scale",
            "flat",
            r"down_proj.weight_scale has shape \(48,\), expected \(48, 1\)",
        ),
        (
            "mlp.down_proj.weight_zero_point",
            "zeros",
            r"left over model.layers.1.mlp.down_proj.weight_zero_point",
        ),
        (
            "self_attn.q_proj.input_scale",
            "zeros",
            r"left over model.layers.1.self_attn.q_proj.input_scale",
        ),
    ],
)
def test_every_tensor_is_taken_exactly_once(
    name: str, change: str | None, message: str, tmp_path: Path
) -> None:
    path, _ = write_pair(tmp_path, "int", "channel")
    tensors, name = load_file(path / "model.safetensors"), f"model.layers.1.{name}"
    old = tensors.pop(name, torch.zeros(1))
    if change:
        tensors[name] = {"float": old.float(), "flat": old.flatten(), "zeros": torch.zeros(1)}[
            change
        ]
    save_file(tensors, path / "model.safetensors")
    with pytest.raises(WeightsMismatchError, match=message):
        load(path)


@pytest.mark.parametrize("status", ["frozen", "initialized", None, 3])
def test_the_status_of_the_quantisation_is_not_read(tmp_path: Path, status: Any) -> None:
    """llm-compressor writes "frozen" into some checkpoints whose weights are compressed."""
    path, _ = write_pair(tmp_path, "int", "channel")
    config = quantization_config("int", "channel") | {"quantization_status": status}
    edit_config(path, quantization_config=config)
    assert load(path).quantization == "int8"


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8", "bitsandbytes", "mxfp4", None])
def test_the_method_is_told_however_long_the_config_is(folder: Path, method: str | None) -> None:
    config = {"ignore": [f"model.layers.{i}.mlp" for i in range(90)], "quant_method": method}
    edit_config(folder, quantization_config=config)
    with pytest.raises(
        UnsupportedModelError, match=rf"quant_method {method!r} is not .* quantization 'int8'"
    ):
        load(folder)


@pytest.mark.parametrize(
    ("place", "field", "value", "message"),
    [
        (
            "",
            "format",
            "pack-quantized",
            "format 'pack-quantized' is not supported, only 'naive-quantized', 'int-q",
        ),
        ("", "quant_method", "gptq", "is not supported, only null or 'compressed-tensors'"),
        ("", "kv_cache_scheme", {"num_bits": 8}, "kv_cache_scheme .* is not supported"),
        (
            "",
            "sparsity_config",
            {"format": "sparse-24-bitmask"},
            "sparsity_config .* is not supported",
        ),
        (
            "",
            "config_groups",
            {"W8A8": ["Linear"]},
            "config_groups .* is not supported, only one group",
        ),
        ("", "config_groups", {}, "config_groups {} is not supported, only one group"),
        ("group", "weights", None, "weights None is not supported"),
        (
            "group",
            "input_activations",
            [{"dynamic": False}],
            "input_activations .* is not supported, only null",
        ),
        (
            "group",
            "input_activations",
            {"dynamic": "local"},
            "input_activations .* is not supported, only null",
        ),
        (
            "group",
            "format",
            "nvfp4-pack-quantized",
            "format 'nvfp4-pack-quantized' is not supported",
        ),
        ("weights", "num_bits", 4, "num_bits 4 is not supported, only 8"),
        ("weights", "num_bits", 8.0, "num_bits 8.0 is not supported, only 8"),
        ("weights", "symmetric", False, "symmetric False is not supported, only True"),
        (
            "weights",
            "strategy",
            "group",
            "strategy 'group' is not supported, only 'channel', 'tensor'",
        ),
        ("weights", "group_size", 128, "group_size 128 is not supported"),
        ("weights", "actorder", "group", "actorder 'group' is not supported"),
        ("weights", "type", ["int"], r"type \['int'\] is not supported, only 'int', 'float'"),
    ],
)
def test_other_forms_are_refused_by_the_name_of_their_field(
    place: str, field: str, value: Any, message: str, folder: Path
) -> None:
    config = quantization_config("int", "channel")
    group = config["config_groups"]["group_0"]
    {"": config, "group": group, "weights": group["weights"]}[place][field] = value
    edit_config(folder, quantization_config=config)
    with pytest.raises(UnsupportedModelError, match=f"config.json: quantization_config.*{message}"):
        load(folder)


@pytest.mark.parametrize("dynamic", [True, False])
def test_activations_that_are_not_rounded_are_named(
    dynamic: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the file has a scale of them."""
    path, plain = write_pair(tmp_path, "float", "tensor")
    config = quantization_config("float", "tensor")
    config["config_groups"]["group_0"]["input_activations"] = {
        "dynamic": dynamic,
        "num_bits": 8,
        "strategy": "token" if dynamic else "tensor",
    }
    edit_config(path, quantization_config=config)
    if not dynamic:
        tensors = load_file(path / "model.safetensors")
        names = [name for name in tensors if name.endswith("proj.weight")]
        scales = {name.replace("weight", "input_scale"): torch.ones(1) for name in names}
        save_file(tensors | scales, path / "model.safetensors")
    for ours, theirs in zip(weights_of(load(path)), weights_of(load(plain)), strict=True):
        assert torch.equal(ours, theirs)
    assert "input_activations is not applied, activations keep their dtype" in caplog.text


def test_ignore_and_targets_need_no_reading(tmp_path: Path) -> None:
    """A regular expression that would run without end is never run."""
    path, _ = write_pair(tmp_path, "int", "tensor")
    config = quantization_config("int", "tensor") | {"ignore": ["re:(a*)*$" * 20, "lm_head"]}
    config["config_groups"]["group_0"]["targets"] = ["re:(a*)*$" * 20, "re:.*proj"]
    edit_config(path, quantization_config=config)
    assert load(path).quantization == "int8"
