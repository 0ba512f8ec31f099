"""What lies on a device: in which dtype a checkpoint is computed, and blocks that move to the main
memory and back.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from mini_vllm import EngineConfig, LLMEngine
from mini_vllm.errors import InvalidParameterError, UnsupportedModelError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.worker.cache_engine import CacheEngine
from mini_vllm.worker.device import pick_dtype
from mini_vllm.worker.local_executor import LocalExecutor


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
    save_file(
        {name: tensor.to(dtype) for name, tensor in tensors.items()}, path / "model.safetensors"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_is_that_of_the_weights_where_the_config_names_none(
    model: Path, dtype: torch.dtype
) -> None:
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
    with pytest.raises(
        UnsupportedModelError,
        match=r"dtype must be float32, bfloat16 or float16, got torch\.float64",
    ):
        pick_dtype("auto", config, model)
    for name in ("int8", "float64", "nn", "", "x" * 1000):
        with pytest.raises(InvalidParameterError, match="dtype must be float32") as error:
            pick_dtype(name, config, model)
        assert len(str(error.value)) < 300


# --- blocks that move -----------------------------------------------------------------------------

SHAPE = (2, 1, 3)  # block_size, num_kv_heads, head_dim


def make_engine(dtype: torch.dtype = torch.float32) -> CacheEngine:
    """Two layers, five blocks and three CPU blocks; block i of layer l holds 10 * l + i in K, minus
    that in V.
    """
    engine = CacheEngine(
        2, SHAPE, num_blocks=5, num_cpu_blocks=3, dtype=dtype, device=torch.device("cpu")
    )
    for layer, (key, value) in enumerate(engine.kv_caches):
        for block in range(5):
            key[block], value[block] = 10 * layer + block, -(10 * layer + block)
    return engine


def contents(caches: list[tuple[torch.Tensor, torch.Tensor]]) -> list[list[float]]:
    """Per layer the number that each block holds, after a look that K, V and all slots agree."""
    for key, value in caches:
        assert torch.equal(key, -value)
        assert torch.equal(key, key[:, :1, :1, :1].expand_as(key))
    return [key[:, 0, 0, 0].tolist() for key, _ in caches]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_go_to_the_cpu_pool_and_come_back_elsewhere(dtype: torch.dtype) -> None:
    engine = make_engine(dtype)
    engine.swap_out([(4, 0), (2, 2)])
    assert contents(engine.cpu_caches) == [[4, 0, 2], [14, 0, 12]]
    assert contents(engine.kv_caches) == [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]]
    engine.swap_in([(2, 1), (0, 3)])
    assert contents(engine.kv_caches) == [[0, 2, 2, 4, 4], [10, 12, 12, 14, 14]]


def test_a_copy_reads_all_before_it_writes_any() -> None:
    engine = make_engine()
    engine.copy([(1, 2), (2, 3), (3, 1)])  # a cycle
    assert contents(engine.kv_caches) == [[0, 3, 1, 2, 4], [10, 13, 11, 12, 14]]


def test_no_pairs_are_no_work() -> None:
    engine = make_engine()
    before = contents(engine.kv_caches)
    for move in (engine.swap_out, engine.swap_in, engine.copy):
        move([])
    assert contents(engine.kv_caches) == before
    assert contents(engine.cpu_caches) == [[0] * 3] * 2


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "auto"])
def test_on_a_gpu_steps_are_recorded_and_decided_ahead(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No GPU is needed to decide it, and what was asked for is left."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    config = EngineConfig("tiny", device=device)
    chosen = LocalExecutor.with_defaults(config, True)
    assert (chosen.async_scheduling, chosen.cudagraph_mode) == (True, "full_and_piecewise")
    assert not LocalExecutor.with_defaults(config, False).async_scheduling
    asked = EngineConfig("tiny", device=device, async_scheduling=False, cudagraph_mode="none")
    assert LocalExecutor.with_defaults(asked, True) == asked


def test_on_a_cpu_nothing_is_recorded_or_ahead_unless_asked_for() -> None:
    engine = LLMEngine(EngineConfig("tiny", device="cpu", num_kv_blocks=10))
    assert not engine.config.async_scheduling
    assert type(engine.executor) is LocalExecutor


@pytest.mark.parametrize("options", [{"speculative": "suffix"}, {"scheduler": "sequence_group"}])
def test_what_cannot_be_ahead_is_not_by_default(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def note(config: EngineConfig, may_run_ahead: bool) -> EngineConfig:
        asked.append(may_run_ahead)
        return config

    monkeypatch.setattr(LocalExecutor, "with_defaults", note)
    LLMEngine(EngineConfig("tiny", num_kv_blocks=10, **options))
    LLMEngine(EngineConfig("tiny", num_kv_blocks=10))
    assert asked == [False, True]
