"""A compiled model gives the tokens of the eager one, from few graphs."""

import logging
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.layers import norm_c
from mini_vllm.models.layers.linear import is_packed
from mini_vllm.worker.compiled import CompiledExecutor, CompiledModel
from mini_vllm.worker.executor import Executor

TIGHT: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "block_size": 4,
    "num_kv_blocks": 24,
    "max_model_len": 64,
    "max_num_batched_tokens": 24,
    "max_num_seqs": 6,
}


def counting(backend: str) -> Any:
    """An executor that compiles with a back end, and counts the graphs."""

    class Counting(CompiledExecutor):
        compile_backend = CompileCounterWithBackend(backend)

    return Counting


TRACED = "aot_eager"  # makes no code: all but the code is tested in seconds


def answers(llm: LLM) -> list[Any]:
    """Chunks, prefix hits, preemptions and one request alone."""
    prompts = [[5, 6, 7, 8] * (1 + i) for i in range(6)]
    params = [
        SamplingParams(temperature=i % 2, seed=i, max_tokens=14, ignore_eos=True, logprobs=0)
        for i in range(6)
    ]
    outputs = [*llm.generate(prompts, params), *llm.generate(prompts[:1], params[:1])]
    return [list(output.outputs[0].token_ids) for output in outputs]


@pytest.fixture(scope="module")
def wanted() -> list[Any]:
    """Of the eager model with the norm that is compiled: another order of its sum is another
    rounding.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(norm_c, "takes", lambda x: False)
        return answers(LLM("tiny", **TIGHT))


def check(backend: str, wanted: list[Any], **options: Any) -> LLM:
    llm = LLM(
        "tiny", executor_cls=(cls := counting(backend)), enforce_eager=False, **TIGHT | options
    )
    assert answers(llm) == wanted
    # whatever sizes came, no graph is made beside those of the start
    assert cls.compile_backend.frame_count == 2
    return llm


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "torch"])
def test_a_traced_model_gives_the_tokens_of_the_eager_one(
    backend: str, wanted: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "mini_vllm"):
        llm = check(TRACED, wanted, attention_backend=backend)
    told = [each.message for each in caplog.records if each.message.startswith("compiled graph")]
    assert [each.split(" in ")[0] for each in told] == [
        "compiled graph 1 of 2",
        "compiled graph 2 of 2",
    ]
    assert llm.engine.scheduler.preempted_prefix_cache_stats.requests > 0


@pytest.mark.slow
def test_drafts_and_one_step_ahead_run_compiled_too(wanted: list[Any]) -> None:
    check(TRACED, wanted, async_scheduling=True)
    check(TRACED, wanted, speculative="ngram")


@pytest.mark.slow
def test_compiled_code_gives_the_tokens_of_the_eager_model(wanted: list[Any]) -> None:
    check("inductor", wanted)


@pytest.mark.slow
def test_engines_of_a_process_do_not_share_the_graphs_that_torch_keeps() -> None:
    with torch._dynamo.config.patch(recompile_limit=2):
        for _ in range(2):
            LLM("tiny", executor_cls=counting("eager"), enforce_eager=False, **TIGHT)


def test_a_model_is_eager_unless_asked_for() -> None:
    llm = LLM("tiny", **TIGHT)
    assert type(llm.engine.executor.model) is not CompiledModel


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"quantization": "int8"}, "quantization int8"),
        ({"batch_invariant": True, "attention_backend": "c"}, "batch_invariant"),
        ({"cudagraph_mode": "full_decode_only"}, "cudagraph_mode on a CPU"),
    ],
)
def test_what_no_compiler_looks_into_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidParameterError, match=f"enforce_eager must be True with {why}"):
        LLM("tiny", enforce_eager=False, **TIGHT | options)


@pytest.mark.skipif(not is_packed(torch.device("cpu"), torch.bfloat16), reason="no packed weights")
def test_packed_weights_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="bfloat16 on a CPU"):
        LLM("tiny", enforce_eager=False, **TIGHT | {"dtype": "bfloat16"})


def test_another_executor_is_refused() -> None:
    class Elsewhere(Executor):
        pass

    with pytest.raises(InvalidParameterError, match="needs LocalExecutor, got Elsewhere"):
        LLM("tiny", enforce_eager=False, executor_cls=Elsewhere, **TIGHT)


def test_the_kernels_of_eager_steps_are_those_of_before() -> None:
    """What a compiler replaces is replaced while it compiles only."""
    x = torch.ones(2, 64)
    assert norm_c.takes(x) == (norm_c.find_kernel(x.dtype) is not None)
