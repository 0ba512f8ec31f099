"""Fixtures that several test files share."""

from pathlib import Path

import pytest


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
