"""The engine on the Triton kernels makes the tokens that it makes on torch."""

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton has Linux wheels only")

from mini_vllm import LLM
from mini_vllm.attention.test_attention import GPU
from mini_vllm.attention.test_triton import poison  # noqa: F401 a fixture: fresh memory is NaN
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.models.layers import fused
from mini_vllm.params import SamplingParams


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["triton-simple", "triton"])
def test_engine_makes_the_tokens_of_the_torch_back_end(checkpoint: Path, backend: str) -> None:
    """Mixed chunks and decodes, prefix hits and a preemption, float32: the same tokens, exactly."""

    def run(name: str) -> dict[str, list[int]]:
        config = EngineConfig(
            str(checkpoint),
            device="cuda" if name != "torch" and GPU.type == "cuda" else "cpu",
            dtype="float32",
            block_size=4,
            num_kv_blocks=9,
            max_num_batched_tokens=12,
            attention_backend=name,
        )
        engine = LLMEngine(config)
        # A row and a head at a time takes its time in the interpreter.
        params = SamplingParams(
            temperature=0.0, max_tokens=6 if backend == "triton" else 2, ignore_eos=True
        )
        for i, prompt in enumerate([[*range(10, 27)], [*range(10, 22), 50, 51], [70]]):
            engine.add_request(str(i), prompt, params)
        results: dict[str, list[int]] = {}
        while engine.has_unfinished_requests():
            for output in engine.step():
                results[output.request_id] = list(output.outputs[0].token_ids)
        assert (
            engine.scheduler.preempted_prefix_cache_stats.requests > 0 or backend == "triton-simple"
        )
        return results

    assert run(backend) == run("torch")


def answer(backend: str) -> tuple[list[int], str]:
    """Of the bundled model, in the checkpoint's own dtype."""
    llm = LLM("tiny", attention_backend=backend, device="cuda" if GPU.type == "cuda" else "cpu")
    choice = llm.generate("A KV block is", SamplingParams(temperature=0.0, max_tokens=8))[
        0
    ].outputs[0]
    return list(choice.token_ids), choice.text


@pytest.mark.nightly
def test_bundled_model_answers_on_triton_kernels() -> None:
    assert answer("triton") == answer("torch")


@pytest.mark.nightly
def test_bundled_model_answers_with_all_kernels_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those between the matrix products, too, which a CPU leaves to torch."""
    expected = answer("torch")
    rows = []
    monkeypatch.setattr(fused, "on_gpu", lambda x: rows.append(len(x)) or True)
    assert answer("triton") == expected
    assert rows
