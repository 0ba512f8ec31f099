"""The dtype of a checkpoint: what transformers would take, or refused by name."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from mini_vllm.errors import InvalidParameterError, UnsupportedModelError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.worker.device import pick_dtype


@pytest.fixture
def model(checkpoint: Path, tmp_path: Path) -> Path:
    """A checkpoint whose config.json names no dtype."""
    path = Path(shutil.copytree(checkpoint, tmp_path / "model"))
    config = json.loads((path / "config.json").read_text())
    del config["dtype"]
    (path / "config.json").write_text(json.dumps(config))
    return path


def set_weights(path: Path, dtype: torch.dtype) -> None:
    tensors = load_file(path / "model.safetensors")
    save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, path / "model.safetensors")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_is_that_of_the_weights_where_the_config_names_none(model: Path, dtype: torch.dtype) -> None:
    set_weights(model, dtype)
    assert pick_dtype("auto", load_hf_config(model), model) == dtype
    assert transformers.AutoModelForCausalLM.from_pretrained(model).dtype == dtype


def test_the_dtype_of_the_config_comes_before_that_of_the_weights(checkpoint: Path) -> None:
    config: Any = load_hf_config(checkpoint)
    config.dtype = torch.bfloat16
    assert pick_dtype("auto", config, checkpoint) == torch.bfloat16
    assert pick_dtype("float16", config, checkpoint) == torch.float16


def test_dtypes_that_nothing_computes_in_are_refused(model: Path) -> None:
    set_weights(model, torch.float64)
    config = load_hf_config(model)
    with pytest.raises(UnsupportedModelError, match=r"dtype must be float32, bfloat16 or float16, got torch\.float64"):
        pick_dtype("auto", config, model)
    for name in ("int8", "float64", "nn", "", "x" * 1000):
        with pytest.raises(InvalidParameterError, match="dtype must be float32") as error:
            pick_dtype(name, config, model)
        assert len(str(error.value)) < 300
