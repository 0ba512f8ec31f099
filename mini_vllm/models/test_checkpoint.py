"""Checkpoints: found, read, refused. Every file that is missing or broken is named by the right
exception.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from mini_vllm.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedCheckpointError,
    UnsupportedModelError,
    WeightsMismatchError,
)
from mini_vllm.models import checkpoint
from mini_vllm.models.checkpoint import (
    load_generation_config,
    load_hf_config,
    load_tokenizer,
    resolve_model,
)
from mini_vllm.models.weights import Checkpoint, WeightLoader

CPU = torch.device("cpu")
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content))


@pytest.fixture
def single(tmp_path: Path) -> Path:
    write_json(tmp_path / "config.json", CONFIG)
    save_file(
        {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4)}, tmp_path / "model.safetensors"
    )
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    write_json(tmp_path / "config.json", CONFIG)
    write_json(
        tmp_path / "model.safetensors.index.json",
        {"weight_map": dict(zip("ab", SHARDS, strict=True))},
    )
    for name, file in zip("ab", SHARDS, strict=True):
        save_file({name: torch.ones(1000)}, tmp_path / file)
    return tmp_path


# --- Weights --------------------------------------------------------------------------------------


def test_tensors_are_taken_by_name(single: Path) -> None:
    checkpoint = Checkpoint(single)
    assert "a" in checkpoint
    assert "c" not in checkpoint
    assert checkpoint.take("a", (2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert checkpoint.take("b").tolist() == [1] * 4
    checkpoint.finish()


def test_a_tensor_of_which_a_part_is_taken_counts_as_taken(single: Path) -> None:
    checkpoint = Checkpoint(single)
    part = checkpoint.take("a", (2, 3), (slice(0, 2), slice(1, 2)))
    assert part.tolist() == [[1], [4]]
    with pytest.raises(WeightsMismatchError, match="a is taken a second time"):
        checkpoint.take("a", (2, 3))
    assert checkpoint.take("missing", (4, 6), (slice(0, 2), slice(0, 6))).shape == (2, 6)
    checkpoint.take("b", (5,), (slice(0, 2),))
    with pytest.raises(
        WeightsMismatchError, match=r"missing missing; b has shape \(4,\), expected \(5,\)"
    ):
        checkpoint.finish()


def test_shards_are_one_checkpoint(sharded: Path) -> None:
    checkpoint = Checkpoint(sharded)
    assert len(checkpoint.take("a")) == len(checkpoint.take("b")) == 1000
    checkpoint.finish()


def test_finish_tells_everything_that_is_wrong_at_once(single: Path) -> None:
    checkpoint = Checkpoint(single)
    assert checkpoint.take("missing.weight", (5, 7)).shape == (5, 7)
    checkpoint.take("a", (3, 2))
    with pytest.raises(WeightsMismatchError) as error:
        checkpoint.finish()
    message = str(error.value)
    assert "missing missing.weight" in message
    assert "a has shape (2, 3), expected (3, 2)" in message
    assert "left over b" in message


def test_ignored_names_are_not_left_over(single: Path) -> None:
    checkpoint = Checkpoint(single)
    checkpoint.ignore("a")
    checkpoint.take("b")
    checkpoint.finish()


def test_loader_stacks_in_order_and_converts(single: Path) -> None:
    save_file(
        {"l.q": torch.ones(2, 3), "l.k": torch.full((1, 3), 2.0)}, single / "model.safetensors"
    )
    loader = WeightLoader(Checkpoint(single), torch.bfloat16, CPU).at("l")
    weight = loader.load({"q": (2, 3), "k": (1, 3)})
    assert weight.dtype == torch.bfloat16
    assert not weight.requires_grad
    assert weight[:, 0].tolist() == [1, 1, 2]


def test_every_truncation_of_a_file_is_noticed(single: Path) -> None:
    file = single / "model.safetensors"
    content = file.read_bytes()
    for length in [0, 1, 7, 8, 9, len(content) // 2, len(content) - 1]:
        file.write_bytes(content[:length])
        with pytest.raises(
            CorruptCheckpointError, match=r"model\.safetensors: not a complete safetensors file"
        ):
            Checkpoint(single)


def test_garbage_is_corrupt(single: Path) -> None:
    (single / "model.safetensors").write_bytes(b"\xff" * 1000)
    with pytest.raises(CorruptCheckpointError, match=r"model\.safetensors"):
        Checkpoint(single)


def test_truncated_shard_is_named(sharded: Path) -> None:
    file = sharded / SHARDS[1]
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CorruptCheckpointError, match=SHARDS[1]):
        Checkpoint(sharded)


def test_missing_shard_is_named(sharded: Path) -> None:
    (sharded / SHARDS[0]).unlink()
    with pytest.raises(CheckpointNotFoundError, match=SHARDS[0]):
        Checkpoint(sharded)


def test_a_tensor_in_two_shards_is_refused(sharded: Path) -> None:
    save_file({"a": torch.ones(1), "b": torch.ones(1)}, sharded / SHARDS[1])
    with pytest.raises(CorruptCheckpointError, match=f"{SHARDS[1]}: a is also in another file"):
        Checkpoint(sharded)


@pytest.mark.parametrize(
    "index", [{}, {"weight_map": {}}, {"weight_map": ["a"]}, [1], {"weight_map": {"a": "../x"}}]
)
def test_malformed_index_is_named(sharded: Path, index: Any) -> None:
    write_json(sharded / "model.safetensors.index.json", index)
    with pytest.raises(CorruptCheckpointError, match=r"model\.safetensors\.index\.json"):
        Checkpoint(sharded)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt"])
def test_weights_that_could_run_code_are_refused(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / "config.json", CONFIG)
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch canary'\ntR.")  # a pickle that would
    with pytest.raises(UnsupportedCheckpointError, match=name):
        Checkpoint(tmp_path)


FOREIGN = {
    "qwen3-8b-q4_k_m.gguf": "GGUF is llama.cpp's form.*take the checkpoint that it was made from",
    "Model.GGUF": "GGUF is llama.cpp's form",
    "consolidated.safetensors": "Mistral's own layout.*config.json and model",
    "consolidated-00001-of-00002.safetensors": "Mistral's own layout",
    "consolidated.00.pth": "may run code when it is read",
    "adapter_model.safetensors": "adapters are not supported; merge it",
    "adapter_config.json": "adapters are not supported; merge it",
    "pytorch_model-00001-of-00002.bin": "only safetensors are read: save it so with transformers",
    "tf_model.h5": "only safetensors are read: save it so with transformers",
    "flax_model.msgpack": "only safetensors are read: save it so with transformers",
    "weights.npz": "only safetensors are read: save it so with transformers",
}


def read_all(path: Path) -> None:
    load_hf_config(path)
    Checkpoint(path)


@pytest.mark.parametrize("has_config", [True, False])
@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_programs_say_what_they_are(
    tmp_path: Path, name: str, has_config: bool
) -> None:
    (tmp_path / name).write_bytes(b"{}")
    if has_config:
        write_json(tmp_path / "config.json", CONFIG)
    with pytest.raises(UnsupportedCheckpointError, match=f"{name}: .*{FOREIGN[name]}"):
        read_all(tmp_path)
    with pytest.raises(UnsupportedCheckpointError, match=f"{name}: .*{FOREIGN[name]}"):
        resolve_model(str(tmp_path / name))


def test_a_file_is_no_model_and_its_config_may_be_missing(single: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match="is a file; a model is a folder"):
        resolve_model(str(single / "model.safetensors"))
    for name in ("consolidated.safetensors", "training_args.bin", "model.gguf"):
        (single / name).write_bytes(b"{}")
    load_hf_config(single)
    Checkpoint(single)
    (single / "config.json").unlink()
    with pytest.raises(CheckpointNotFoundError, match=r"config\.json: no such file"):
        load_hf_config(single)


@pytest.mark.parametrize("name", ["nowhere.gguf", "org/model-GGUF", "~/no/model.Q4_K_M.gguf"])
def test_a_gguf_is_not_asked_of_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked the hub")
    )
    with pytest.raises(UnsupportedCheckpointError, match=r"GGUF is llama.cpp's"):
        resolve_model(name)


def test_weights_of_mlx_and_code_beside_a_known_class_say_what_to_do(single: Path) -> None:
    write_json(single / "config.json", {**CONFIG, "quantization": {"group_size": 64, "bits": 4}})
    with pytest.raises(UnsupportedCheckpointError, match=r"'bits': 4.* is MLX's form.*take the"):
        load_hf_config(single)
    auto_map = {"AutoConfig": "configuration_phi3.Phi3Config"}
    write_json(single / "config.json", {**CONFIG, "auto_map": auto_map})
    with pytest.raises(UnsupportedCheckpointError, match=r"never run.*remove auto_map from this"):
        load_hf_config(single)


def test_a_folder_without_weights_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"neither model\.safetensors nor"):
        Checkpoint(tmp_path)


# --- Small files ----------------------------------------------------------------------------------


def test_config_of_a_known_model_is_loaded(single: Path) -> None:
    assert load_hf_config(single).architectures == ["LlamaForCausalLM"]


def test_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"config\.json: no such file"):
        load_hf_config(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000])
@pytest.mark.parametrize("load", [load_hf_config, load_generation_config])
def test_malformed_json_is_named(single: Path, load: Callable[[Path], Any], content: bytes) -> None:
    name = "config.json" if load is load_hf_config else "generation_config.json"
    (single / name).write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=name):
        load(single)


@pytest.mark.parametrize(
    "changes", [{"hidden_size": "many"}, {"num_attention_heads": -3.5}, {"rope_scaling": 7}]
)
def test_values_of_the_wrong_kind_are_named(single: Path, changes: dict[str, Any]) -> None:
    write_json(single / "config.json", {**CONFIG, **changes})
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_hf_config(single)


@pytest.mark.parametrize("model_type", [None, "nonsense", 3, ["llama"]])
def test_unknown_model_type_is_refused(single: Path, model_type: Any) -> None:
    write_json(single / "config.json", {**CONFIG, "model_type": model_type})
    with pytest.raises(
        UnsupportedModelError, match=r"model_type .* is unknown; supported: llama, mistral, qwen2"
    ):
        load_hf_config(single)


def test_generation_config_is_optional_and_raw(single: Path) -> None:
    assert load_generation_config(single) == {}
    write_json(single / "generation_config.json", {"eos_token_id": [1, 2], "top_k": 20})
    assert load_generation_config(single) == {"eos_token_id": [1, 2], "top_k": 20}
    write_json(single / "generation_config.json", {"top_k": -1})
    assert load_generation_config(single) == {"top_k": -1}


def test_a_checkpoint_may_have_no_tokenizer(single: Path) -> None:
    assert load_tokenizer(single) is None


def test_a_sentencepiece_model_says_what_reads_it(
    single: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers tells to install tiktoken, which cannot read it."""
    monkeypatch.setattr(checkpoint, "find_spec", lambda name: None)
    (single / "tokenizer.model").write_bytes(b"\n\x0b\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02")
    write_json(single / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer"})
    with pytest.raises(CorruptCheckpointError, match="pip install sentencepiece protobuf"):
        load_tokenizer(single)


def test_broken_tokenizer_is_named(single: Path) -> None:
    (single / "tokenizer.json").write_text("{")
    write_json(single / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    with pytest.raises(CorruptCheckpointError, match=str(single)):
        load_tokenizer(single)


PIECES = [
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{i:02X}>" for i in range(256)),
    *"▁helowrd.,!123",
    "▁▁",
    "ll",
]
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())


def sentencepiece(*parts: Any) -> Tokenizer:
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    merges = [("▁", "▁"), ("l", "l")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = parts
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def byte_level(*splits: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(LETTERS)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=bool(splits), use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


METASPACE = pre_tokenizers.Metaspace(prepend_scheme="never")
KINDS = {
    "llama2": sentencepiece(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None
    ),
    "no-prefix": sentencepiece(None, METASPACE),
    "byte-level": byte_level(),
    "digits": byte_level(pre_tokenizers.Digits(individual_digits=True)),
}
CLASSES = ("LlamaTokenizer", "LlamaTokenizerFast", "Qwen2Tokenizer", "GPT2Tokenizer", None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokenizer_class", CLASSES)
def test_the_tokenizer_is_the_one_of_the_file(
    single: Path, kind: str, tokenizer_class: str | None
) -> None:
    """Whatever class tokenizer_config.json names: that of R1's distills is Llama's."""
    tokenizer = KINDS[kind]
    tokenizer.save(str(single / "tokenizer.json"))
    names = {} if tokenizer_class is None else {"tokenizer_class": tokenizer_class}
    write_json(single / "tokenizer_config.json", {**names, "add_prefix_space": True})
    found = load_tokenizer(single)
    for text in (
        "hello",
        " hello",
        "  hello 123",
        "\n hello",
        " ",
        "",
        "hello, world!\t",
        "é 日本",
    ):
        expected = tokenizer.encode(text).ids
        assert found.encode(text) == expected, text
        assert found.decode(expected) == tokenizer.decode(expected)


@pytest.mark.parametrize("model_type", ["llama", "canary"])
@pytest.mark.parametrize("load", [load_hf_config, load_tokenizer])
def test_code_of_a_checkpoint_is_never_imported(
    single: Path, load: Callable[[Path], Any], model_type: str
) -> None:
    """The code would leave a file behind, and a module."""
    canary = single / "canary_was_here"
    (single / "canary.py").write_text(f"open({str(canary)!r}, 'w')\nclass Canary: pass\n")
    custom = {"auto_map": {"AutoConfig": "canary.Canary", "AutoTokenizer": ["canary.Canary", None]}}
    write_json(single / "config.json", {**CONFIG, **custom, "model_type": model_type})
    write_json(single / "tokenizer_config.json", custom)
    name = "config.json" if load is load_hf_config else "tokenizer_config.json"
    with pytest.raises(UnsupportedCheckpointError, match=rf"/{name}: auto_map .*canary"):
        load(single)
    assert not canary.exists()
    assert not [module for module in sys.modules if "canary" in module]


# --- Names ----------------------------------------------------------------------------------------


def test_the_bundled_model_and_local_folders_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve_model("tiny") == Path(__file__).parent / "tiny"
    assert resolve_model(str(tmp_path)) == tmp_path
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "model").mkdir()
    assert resolve_model("org/model") == Path("org/model")


@pytest.mark.parametrize("name", ["/nowhere/at/all", "./nowhere", "../nowhere", "~/nowhere/at/all"])
def test_a_path_that_does_not_exist_is_not_asked_of_the_hub(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("asked the hub")
    )
    with pytest.raises(CheckpointNotFoundError, match=f"{name}: no such folder"):
        resolve_model(name)


def test_hub_name_that_is_not_cached_says_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        CheckpointNotFoundError,
        match=r"'org/absent' is not 'tiny'.*the local hub cache: .*the hub: ",
    ):
        resolve_model("org/absent")


@pytest.mark.parametrize("name", ["", "a/b/c", "what is this?", "x" * 300, "~nobody/x", "nul\0"])
def test_names_that_cannot_be_are_not_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointNotFoundError):
        resolve_model(name)


def test_the_local_cache_comes_first_if_it_is_complete(
    single: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def snapshot_download(name: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        asked.append(local_files_only)
        assert not {"*.bin", "*.py", "*.pt", "*"} & set(allow_patterns)
        return str(single)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert resolve_model("org/model") == single
    assert asked == [True]
    (single / "model.safetensors").unlink()  # cached by a program that only wanted the tokenizer
    assert resolve_model("org/model") == single
    assert asked == [True, True, False]
