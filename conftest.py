"""What holds for every test of the repository."""

import gc
import logging
import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest

# Collecting garbage while modules are imported finds none, and costs a fifth of the imports.
gc.disable()

# No test asks a model hub for anything: the bundled model and folders made by the tests are enough. Tokenizers must not
# start threads of their own, which warn (and can hang) when a test forks. Set before transformers is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# The matrices of the tests are tiny: a second thread costs more than it brings, and on a busy machine far more. Set
# before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["labkit.grade.plugin"]  # grades the labs; the project's own tests do not notice it


def has_gpu() -> bool:
    """Whether torch will find a CUDA device; a guess, since importing torch to ask takes seconds."""
    try:
        can_use_it = not version("torch").endswith("+cpu")
    except PackageNotFoundError:
        return False
    return can_use_it and any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg"))


if not has_gpu():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported


def pytest_configure(config: pytest.Config) -> None:
    """After `make demo` alone, plain `pytest` would tell of each file of tests that it cannot be imported."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and find_spec("hypothesis") is None:
        raise pytest.UsageError(
            "The project's own tests need the extra 'dev', which `make test` installs. The labs: pytest phase-02-*/labs"
        )


def pytest_collection_finish() -> None:
    """What was imported stays to the end: no collection of garbage has to look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.fixture
def silent_log() -> Iterator[None]:
    """For tests that raise thousands of exceptions, each of which would be logged with its traceback."""
    logger = logging.getLogger("mini_vllm")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 with random weights and no tokenizer: 96 tokens, EOS 7, 128 positions, 2 layers, float32."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("random-qwen3")
    config = transformers.Qwen3Config(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        initializer_range=0.3,  # sharp logits: a wrong key or value changes the token
        eos_token_id=7,
    )
    transformers.Qwen3ForCausalLM(config).save_pretrained(path)
    return path
