"""From a model's name to its folder and its small files, without trusting a byte of it.

A checkpoint is a folder as the Hugging Face hub lays it out: config.json, safetensors (one file, or
shards with an index), and usually a tokenizer and generation_config.json. It is data from
strangers: weights are read from safetensors only (weights.py), code that comes with a checkpoint is
never imported, and a file that is missing or broken is named.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mini_vllm.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedCheckpointError,
    shown,
)
from mini_vllm.models.byte_level_bpe import ByteLevelBPE
from mini_vllm.models.config_fields import check_config, check_generation_config

BUNDLED_MODEL, BUNDLED_DRAFT = "tiny", "tiny-draft"
SINGLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
HUB_PATTERNS = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
FOREIGN: Mapping[str, str] = {
    "*gguf": "GGUF is llama.cpp's form of weights; take the checkpoint that it was made from",
    "adapter_*": "adapters are not supported; merge it into the model that it was trained on",
    "consolidated*.safetensors": "Mistral's own layout is not read; take the files of the release "
    "that Transformers reads: config.json and model*.safetensors",
    **dict.fromkeys(
        ("*.bin", "*.pt", "*.pth", "*.ckpt"),
        "may run code when it is read; only safetensors are read: save it so with transformers",
    ),
    **dict.fromkeys(
        ("*.h5", "*.msgpack", "*.npz", "*.onnx"),
        "only safetensors are read: save it so with transformers",
    ),
}
"""What other programs store weights in, by the names of files, and what to do about it."""


def bare(name: str) -> str:
    """A name as a message gives it: cut and escaped like any value, without the quotes."""
    return shown(name)[1:-1]


# --- Where a model is -----------------------------------------------------------------------------


def resolve_model(name: str) -> Path:
    """The folder of a model: "tiny" or "tiny-draft" (bundled), a local folder, or a hub name, from
    the local hub cache if it is there.

    Errors: CheckpointNotFoundError, which says what was tried; UnsupportedCheckpointError for a
    file of another program.
    """
    if name in (BUNDLED_MODEL, BUNDLED_DRAFT):
        return Path(__file__).parent / name
    local = os.path.expanduser(name)
    if os.path.isdir(local):  # unlike Path.is_dir, it answers for any string
        return Path(local)
    _refuse_foreign([Path(local)])
    if os.path.isfile(local):
        raise CheckpointNotFoundError(f"{bare(name)} is a file; a model is a folder")
    if not name or name.startswith((".", "~", os.sep)):
        raise CheckpointNotFoundError(f"{bare(name)}: no such folder")
    return _resolve_hub_name(name)


def _resolve_hub_name(name: str) -> Path:
    from huggingface_hub import snapshot_download

    tried = [f"{shown(name)} is not {BUNDLED_MODEL!r}, nor a folder"]
    for place, local_files_only in (("the local hub cache", True), ("the hub", False)):
        try:
            found = snapshot_download(
                name, allow_patterns=list(HUB_PATTERNS), local_files_only=local_files_only
            )
        # the hub client raises a dozen unrelated kinds; all mean: not from here
        except Exception as error:
            # the rest is advice on the hub client's options
            reason = str(error).strip().splitlines()[0].split(". ")[0]
            tried.append(
                f"{place}: "
                f"{'not there' if local_files_only else f'{type(error).__name__}: {reason}'}"
            )
            continue
        # a cached snapshot may be only its tokenizer
        if not local_files_only or _is_complete(Path(found)):
            return Path(found)
        tried.append(f"{place}: {found} is not complete")
    raise CheckpointNotFoundError("no such model; tried: " + "; ".join(tried))


def _is_complete(path: Path) -> bool:
    try:
        return all(os.path.isfile(file) for file in (path / "config.json", *weight_files(path)))
    except CheckpointError:
        return False


def weight_files(path: Path) -> dict[Path, set[str]]:
    """The safetensors files that make up the checkpoint, and the tensors that the index promises of
    each.

    They need not exist. Where there are both, the single file counts and not the index, as for
    transformers.
    """
    index = path / INDEX_FILE
    if (path / SINGLE_FILE).exists():
        return {path / SINGLE_FILE: set()}
    if index.exists():
        weight_map = _read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise CorruptCheckpointError(f"{index}: has no weight_map")
        files: dict[Path, set[str]] = {}
        for tensor, name in weight_map.items():
            if not _is_weight_file(name):
                raise CorruptCheckpointError(
                    f"{index}: {shown(name)} is not a file name of this folder"
                )
            files.setdefault(path / name, set()).add(tensor)
        return dict(sorted(files.items()))
    _refuse_foreign(path.glob("*"))
    raise CheckpointNotFoundError(f"{path}: neither {SINGLE_FILE} nor {INDEX_FILE}")


def _refuse_foreign(files: Iterable[Path]) -> None:
    """Say what a folder without a model has instead."""
    for file, (pattern, words) in product(sorted(files), FOREIGN.items()):
        if Path(file.name.lower()).match(pattern):
            raise UnsupportedCheckpointError(f"{bare(str(file))}: {words}")


def _is_weight_file(name: object) -> bool:
    """Whether an index may name a file so: one of this folder, in characters that a message can
    show.
    """
    plain = (
        isinstance(name, str) and len(name) < 256 and name.isprintable() and Path(name).name == name
    )
    return plain and str(name).endswith(".safetensors")


# --- Its small files ------------------------------------------------------------------------------


def load_hf_config(path: Path) -> Any:
    """The checkpoint's configuration, a transformers PretrainedConfig; of the bundled model the
    plain fields, where transformers is not installed.

    Errors: CheckpointNotFoundError, CorruptCheckpointError; UnsupportedCheckpointError when the
    checkpoint wants its own code to run, or is an adapter to another; UnsupportedModelError for a
    model_type or an option that mini_vllm does not know.
    """
    file = path / "config.json"
    if not file.exists():
        with suppress(CheckpointNotFoundError):
            weight_files(path)
    _refuse_foreign(path.glob("adapter_config.json"))  # transformers would add it to the weights
    raw = _read_json(file)
    _refuse_custom_code(file, raw)
    if raw.get("quantization") is not None:
        raise UnsupportedCheckpointError(
            f"{file}: quantization {shown(raw['quantization'])} is MLX's form of weights; take the "
            "checkpoint that it was made from"
        )
    raw, is_nested = _text_config_of(raw), raw.get("model_type") == "llama4"
    check_config(file, raw)
    if _is_plain(path):
        return SimpleNamespace(**raw)
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[raw["model_type"]]
    for field in raw:  # what transformers would take the place of its own code with
        if (
            field.startswith("__")
            or field == "attribute_map"
            or callable(getattr(config_class, field, None))
        ):
            raise CorruptCheckpointError(f"{file}: {shown(field)} is not the name of a field")
    try:
        if is_nested:
            return config_class.from_dict(raw)
        return AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # transformers validates with many kinds of exceptions
        raise CorruptCheckpointError(f"{file}: {shown(str(error))}") from error


def _text_config_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the text model where the checkpoint has one for images, too, as Llama 4."""
    text, names = raw.get("text_config"), raw.get("architectures")
    if raw.get("model_type") != "llama4" or not isinstance(text, dict):
        return dict(raw)
    outer = {
        name: raw[name] for name in ("dtype", "torch_dtype", "quantization_config") if name in raw
    }
    named = ["Llama4ForCausalLM"] if names == ["Llama4ForConditionalGeneration"] else names
    return outer | text | {"model_type": "llama4_text", "architectures": named}


def _is_plain(path: Path) -> bool:
    """Whether the files have to be read without transformers."""
    return path == resolve_model(BUNDLED_MODEL) and find_spec("transformers") is None


def load_generation_config(path: Path) -> dict[str, Any]:
    """generation_config.json as it stands, {} when there is none: sampling defaults, eos_token_id
    (int or list).

    Errors: CorruptCheckpointError naming the field that cannot be sampled by.
    """
    file = path / "generation_config.json"
    content = _read_json(file) if file.exists() else {}
    check_generation_config(file, content)
    return content


def load_tokenizer(path: Path) -> Any | None:
    """The checkpoint's transformers tokenizer, or None when it has no tokenizer files: it then
    works with token ids.

    That of the bundled model is a ByteLevelBPE where transformers is not installed.
    """
    if not any((path / name).exists() for name in TOKENIZER_FILES):
        return None
    config = path / "tokenizer_config.json"
    if config.exists():
        _refuse_custom_code(config, _read_json(config))
    if _is_plain(path):
        return ByteLevelBPE(path)
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    # The class that tokenizer_config.json names would put its own parts in place of the file's.
    reader = PreTrainedTokenizerFast if (path / "tokenizer.json").exists() else AutoTokenizer
    try:
        return reader.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    # a broken tokenizer.json surfaces as a bare Exception of the Rust library
    except Exception as error:
        words = f"the tokenizer cannot be loaded: {shown(str(error))}"
        if reader is AutoTokenizer and not find_spec("sentencepiece"):
            words += "; a tokenizer.model needs pip install sentencepiece protobuf"
        raise CorruptCheckpointError(f"{path}: {words}") from error


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(f"{file}: no such file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptCheckpointError(
            f"{file}: not readable as JSON: {shown(str(error))}"
        ) from error
    if not isinstance(content, dict):
        raise CorruptCheckpointError(
            f"{file}: holds a {type(content).__name__}, expected an object"
        )
    return content


def _refuse_custom_code(file: Path, raw: Mapping[str, object]) -> None:
    if raw.get("auto_map"):
        raise UnsupportedCheckpointError(
            f"{file}: auto_map {shown(raw['auto_map'])} asks for code that comes with the "
            "checkpoint; it is never run. Where transformers has the class itself, remove auto_map "
            "from this file"
        )
