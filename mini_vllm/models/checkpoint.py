"""From a model's name to its folder and its small files, without trusting a byte of it.

A checkpoint is a folder as the Hugging Face hub lays it out: config.json, safetensors (one file, or shards with an
index), and usually a tokenizer and generation_config.json. It is data from strangers: weights are read from safetensors
only (weights.py), code that comes with a checkpoint is never imported, and a file that is missing or broken is named.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mini_vllm.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedCheckpointError,
    UnsupportedModelError,
    shown,
)

BUNDLED_MODEL = "tiny"
SINGLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
HUB_PATTERNS = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt")
UNSAFE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt")


# --- Where a model is ------------------------------------------------------------------------------------------------


def resolve_model(name: str) -> Path:
    """The folder of a model: "tiny" (bundled), a local folder, or a hub name (from the local hub cache if it is there).

    Errors: CheckpointNotFoundError, which says what was tried.
    """
    if name == BUNDLED_MODEL:
        return Path(__file__).parent / BUNDLED_MODEL
    local = os.path.expanduser(name)
    if os.path.isdir(local):  # unlike Path.is_dir, it answers for any string
        return Path(local)
    if not name or name.startswith((".", "~", os.sep)):
        raise CheckpointNotFoundError(f"{name[:200]}: no such folder")
    return _resolve_hub_name(name)


def _resolve_hub_name(name: str) -> Path:
    from huggingface_hub import snapshot_download

    tried = [f"{shown(name)} is not {BUNDLED_MODEL!r}, nor a folder"]
    for place, local_files_only in (("the local hub cache", True), ("the hub", False)):
        try:
            found = snapshot_download(name, allow_patterns=list(HUB_PATTERNS), local_files_only=local_files_only)
        except Exception as error:  # the hub client raises a dozen unrelated kinds; all mean: not from here
            reason = str(error).strip().splitlines()[0].split(". ")[0]  # the rest is advice on the hub client's options
            tried.append(f"{place}: {'not there' if local_files_only else f'{type(error).__name__}: {reason}'}")
            continue
        if not local_files_only or _is_complete(Path(found)):  # a cached snapshot may be only its tokenizer
            return Path(found)
        tried.append(f"{place}: {found} is not complete")
    raise CheckpointNotFoundError("no such model; tried: " + "; ".join(tried))


def _is_complete(path: Path) -> bool:
    try:
        return (path / "config.json").is_file() and all(file.is_file() for file in weight_files(path))
    except CheckpointError:
        return False


def weight_files(path: Path) -> list[Path]:
    """The safetensors files that make up the checkpoint, by the index or the single file. They need not exist."""
    index = path / INDEX_FILE
    if index.exists():
        weight_map = _read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise CorruptCheckpointError(f"{index}: has no weight_map")
        names = {str(name) for name in weight_map.values()}
        if outside := sorted(name for name in names if Path(name).name != name):
            raise CorruptCheckpointError(f"{index}: {shown(outside[0])} is not a file name of this folder")
        return [path / name for name in sorted(names)]
    if (path / SINGLE_FILE).exists():
        return [path / SINGLE_FILE]
    if unsafe := sorted(file.name for file in path.glob("*") if file.suffix in UNSAFE_SUFFIXES):
        raise UnsupportedCheckpointError(f"{path / unsafe[0]}: may run code when it is read; only safetensors are read")
    raise CheckpointNotFoundError(f"{path}: neither {SINGLE_FILE} nor {INDEX_FILE}")


# --- Its small files -------------------------------------------------------------------------------------------------


def load_hf_config(path: Path) -> Any:
    """The checkpoint's configuration, a transformers PretrainedConfig.

    Errors: CheckpointNotFoundError, CorruptCheckpointError; UnsupportedCheckpointError when the checkpoint wants its
    own code to run; UnsupportedModelError for a model_type that transformers does not know.
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    file = path / "config.json"
    raw = _read_json(file)
    _refuse_custom_code(file, raw)
    model_type = raw.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise UnsupportedModelError(
            f"{file}: model_type {shown(model_type)} is unknown; supported: llama, mistral, qwen2, qwen3"
        )
    try:
        return AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # transformers validates with many kinds of exceptions
        raise CorruptCheckpointError(f"{file}: {error}") from error


def load_generation_config(path: Path) -> dict[str, Any]:
    """generation_config.json as it stands, {} when there is none: sampling defaults, eos_token_id (int or list)."""
    file = path / "generation_config.json"
    return _read_json(file) if file.exists() else {}


def load_tokenizer(path: Path) -> Any | None:
    """The checkpoint's transformers tokenizer, or None when it has no tokenizer files: it then works with token ids."""
    from transformers import AutoTokenizer

    if not any((path / name).exists() for name in TOKENIZER_FILES):
        return None
    config = path / "tokenizer_config.json"
    if config.exists():
        _refuse_custom_code(config, _read_json(config))
    try:
        return AutoTokenizer.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # a broken tokenizer.json surfaces as a bare Exception of the Rust library
        raise CorruptCheckpointError(f"{path}: the tokenizer cannot be loaded: {error}") from error


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(f"{file}: no such file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptCheckpointError(f"{file}: not readable as JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptCheckpointError(f"{file}: holds a {type(content).__name__}, expected an object")
    return content


def _refuse_custom_code(file: Path, raw: Mapping[str, Any]) -> None:
    if raw.get("auto_map"):
        raise UnsupportedCheckpointError(
            f"{file}: auto_map {shown(raw['auto_map'])} asks for code that comes with the checkpoint; it is never run"
        )
