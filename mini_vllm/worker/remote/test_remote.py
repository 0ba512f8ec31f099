"""Prefill and decode apart, in one process: equal tokens whatever is lost between the two, and
nothing that stays held.

The engines run a random Qwen3 with sharp logits (fixture checkpoint) in whose cache whatever was
not written is not a number. The test steps both, so no clock decides.
"""

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.offload.remote.connector import RemoteConnector
from mini_vllm.params import SamplingParams

PROMPTS = {f"r{i}": [11 + i, *range(20 + 5 * i, 42 + 5 * i), *range(1 + i)] for i in range(4)}
NUM_TOKENS = 6


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def make_engine(checkpoint: Path, **transfer: Any) -> LLMEngine:
    options: dict[str, Any] = {"num_kv_blocks": 60, "max_num_seqs": 2}
    if transfer:
        options |= {"kv_offload_bytes": 1 << 20, "kv_transfer_config": transfer}
    engine = LLMEngine(
        EngineConfig(str(checkpoint), dtype="float32", block_size=4, **options),
        core_cls=RecoveringCore,
    )
    for caches in engine.executor.runner.kv_caches:  # type: ignore[attr-defined]
        for cache in caches:
            cache.fill_(torch.nan)
    return engine


def connector_of(engine: LLMEngine) -> RemoteConnector:
    found = engine.scheduler.kv_cache_manager.connector  # type: ignore[attr-defined]
    assert isinstance(found, RemoteConnector)
    return found


def params(max_tokens: int, **transfer: Any) -> SamplingParams:
    return SamplingParams(
        temperature=0,
        max_tokens=max_tokens,
        ignore_eos=True,
        kv_transfer_params=transfer or None,
    )


class Apart:
    """A prefiller, a decoder, and what a router tells them."""

    def __init__(self, checkpoint: Path, lender: Any = None, **transfer: Any) -> None:
        self.port = free_port()
        self.prefiller = make_engine(
            checkpoint, kv_role="prefill", kv_port=self.port, **transfer, **(lender or {})
        )
        self.decoder = make_engine(checkpoint, kv_role="decode", **transfer)
        self.lender, self.borrower = map(connector_of, (self.prefiller, self.decoder))

    def prefill(self, name: str, prompt: Sequence[int]) -> None:
        given = params(1, do_remote_decode=True, remote_request_id=name)
        self.prefiller.add_request(name, prompt, given)
        run(self.prefiller)

    def decode(self, name: str, prompt: Sequence[int], port: int | None = None) -> None:
        given = params(
            NUM_TOKENS,
            do_remote_prefill=True,
            remote_request_id=name,
            remote_host="127.0.0.1",
            remote_port=port or self.port,
        )
        self.decoder.add_request(name, prompt, given)

    def close(self) -> None:
        self.prefiller.shutdown()
        self.decoder.shutdown()


def run(engine: LLMEngine) -> dict[str, Any]:
    """Step to the end: by request its tokens, or why it has failed."""
    found: dict[str, Any] = {}
    for _ in range(10_000):
        if not engine.has_unfinished_requests():
            break
        for output in engine.step():
            if output.finished:
                choice = output.outputs[0]
                found[output.request_id] = choice.error or choice.token_ids
    assert not engine.has_unfinished_requests()
    engine.scheduler.kv_cache_manager.block_pool.check_integrity()
    return found


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> dict[str, Any]:
    engine = make_engine(checkpoint)
    for name, prompt in PROMPTS.items():
        engine.add_request(name, prompt, params(NUM_TOKENS))
    return run(engine)


@pytest.fixture
def apart(checkpoint: Path) -> Iterator[Apart]:
    apart = Apart(checkpoint)
    yield apart
    apart.close()


def num_full_blocks(prompt: Sequence[int]) -> int:
    return (len(prompt) - 1) // 4


def test_a_prompt_is_computed_there_and_decoded_here(
    apart: Apart, expected: dict[str, Any]
) -> None:
    for name, prompt in PROMPTS.items():
        apart.prefill(name, prompt)
    assert apart.lender.num_lent_blocks > 0
    for name, prompt in PROMPTS.items():
        apart.decode(name, prompt)
    assert run(apart.decoder) == expected
    num_blocks = sum(map(num_full_blocks, PROMPTS.values()))
    assert apart.borrower.num_pulled == num_blocks
    assert apart.borrower.num_missed == 0
    assert apart.lender.num_lent_blocks == 0, "all were pulled"
    assert apart.borrower.host.num_held_blocks == apart.lender.host.num_held_blocks == 0
