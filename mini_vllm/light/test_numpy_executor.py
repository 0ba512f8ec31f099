"""NumpyExecutor gives the tokens of LocalExecutor in float32, whatever the scheduler does; and it
needs no torch.
"""

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mini_vllm.engine.llm import LLM
from mini_vllm.errors import (
    ConnectorMissingError,
    InvalidParameterError,
    KVCacheTooLargeError,
    RequestFailedError,
)
from mini_vllm.light.numpy_executor import NumpyExecutor
from mini_vllm.light.plain_sampler import gumbels, sample
from mini_vllm.observe.timeline import read_requests
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.params import SamplingParams
from mini_vllm.scheduler import Scheduler
from mini_vllm.step import KVPlan, SampledToken, SamplingRow, StepInput
from mini_vllm.worker.executor import Executor

torch = pytest.importorskip("torch")
LocalExecutor = pytest.importorskip("mini_vllm.worker.local_executor").LocalExecutor

SYSTEM = {
    "role": "system",
    "content": "You are the assistant of mini_vllm. Answer with one entry of the glossary.",
}
TERMS = (
    "a KV block",
    "preemption",
    "chunked prefill",
    "a prefix hit",
    "the token budget",
    "a slot",
    "decode",
    "TTFT",
)
CHATS = [[SYSTEM, {"role": "user", "content": f"What is {term}?"}] for term in TERMS]
GREEDY = SamplingParams(temperature=0, max_tokens=20)
PARAMS = [
    GREEDY,
    SamplingParams(seed=1, max_tokens=14),
    SamplingParams(seed=-2, temperature=0.7, top_p=0.9, max_tokens=14),
    SamplingParams(seed=3, temperature=1.5, top_k=20, n=2, max_tokens=14),
    SamplingParams(seed=2**63, temperature=2.0, min_p=0.02, top_k=200, top_p=0.95, max_tokens=14),
    SamplingParams(seed=5, temperature=0.2, stop=(" of",), max_tokens=14),
    SamplingParams(seed=6, top_k=1, max_tokens=14),
    SamplingParams(seed=7, temperature=50, max_tokens=14),
]
TIGHT = {"num_kv_blocks": 20, "max_num_batched_tokens": 48}
ENGINES: dict[str, dict[str, Any]] = {
    "plain": {"num_kv_blocks": 400},
    "chunks": {"num_kv_blocks": 400, "max_num_batched_tokens": 7},
    "odd blocks": {"num_kv_blocks": 400, "block_size": 5},
    "no sharing": {"num_kv_blocks": 400, "enable_prefix_caching": False},
    "preemption": TIGHT,
    "swap": {**TIGHT, "preemption_mode": "swap"},
    "forks": {**TIGHT, "scheduler": "sequence_group"},
    "drafts": {"num_kv_blocks": 400, "speculative": "ngram"},
}


def answers(llm: LLM, params: Sequence[SamplingParams] = PARAMS) -> list[list[tuple[int, ...]]]:
    outputs = llm.chat(CHATS, params, use_progress=False)
    return [[tuple(choice.token_ids) for choice in output.outputs] for output in outputs]


@pytest.fixture(scope="module")
def expected() -> list[list[tuple[int, ...]]]:
    return answers(LLM("tiny", dtype="float32", device="cpu", num_kv_blocks=400))


LONGER = ("odd blocks", "no sharing", "forks", "chunks", "swap", "drafts")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONGER else ()) for name in ENGINES],
)
def test_the_tokens_are_those_of_torch(name: str, expected: list[list[tuple[int, ...]]]) -> None:
    llm = LLM("tiny", executor_cls=NumpyExecutor, **ENGINES[name])
    assert answers(llm) == expected
    if name == "plain":
        assert answers(llm) == expected, "with hits on the whole prompt"


@pytest.mark.slow
def test_the_scheduler_was_under_pressure() -> None:
    llm = LLM("tiny", executor_cls=NumpyExecutor, **TIGHT)
    recorder = TraceRecorder(llm.engine.scheduler)
    llm.engine.listeners.append(recorder)
    answers(llm)
    assert any(row.num_preemptions for row in read_requests(recorder.to_trace("")))


@pytest.mark.nightly
def test_long_prompts_and_many_draws() -> None:
    rng = random.Random(0)
    prompts = [[rng.randrange(3, 2048) for _ in range(rng.randrange(1, 900))] for _ in range(40)]
    params = [
        SamplingParams(seed=i, temperature=rng.choice([0, 0.5, 1, 3]), top_p=rng.choice([1, 0.8]))
        for i in range(40)
    ]
    ours, theirs = (
        LLM("tiny", dtype="float32", device="cpu", num_kv_blocks=700, executor_cls=executor_cls)
        for executor_cls in (NumpyExecutor, None)
    )
    tokens = [
        [output.outputs[0].token_ids for output in llm.generate(prompts, params)]
        for llm in (ours, theirs)
    ]
    assert tokens[0] == tokens[1]


# --- the sampler ----------------------------------------------------------------------------------


def test_the_noise_is_that_of_torch() -> None:
    from mini_vllm.worker.sampler import uniforms

    keys = [
        SamplingRow(GREEDY, seed).key(position)
        for seed in (0, -1, 2**63)
        for position in (0, 1, 5000)
    ]
    theirs = -torch.log(-torch.log1p(-uniforms(torch.tensor(keys), 2048)).double())
    ours = torch.tensor([gumbels(range(2048), key) for key in keys], dtype=torch.float64)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-5)


def test_the_draw_is_that_of_torch_with_ties_and_edges() -> None:
    from mini_vllm.worker.sampler import Sampler

    rng = np.random.default_rng(0)
    for trial in range(60):
        logits = rng.integers(-3, 4, 500).astype(np.float32)  # many are equal
        params = SamplingParams(
            temperature=float(rng.choice([0, 0.3, 1, 8])),
            top_k=int(rng.choice([-1, 0, 1, 7, 500, 9999])),
            top_p=float(rng.choice([0.01, 0.37, 1.0])),
            min_p=float(rng.choice([0, 0.05, 1.0])),
        )
        row = SamplingRow(params, trial)
        theirs = Sampler()(torch.from_numpy(logits)[None], [row], [trial], {})
        assert [sample(logits.tolist(), row, trial)] == theirs, params


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    assert "must be finite" in str(sample([0.0, bad, 1.0], SamplingRow(GREEDY), 3))
    assert isinstance(sample([0.0, 2.0, 1.0], SamplingRow(GREEDY), 3), SampledToken)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("logprobs", 1),
        ("prompt_logprobs", 1),
        ("presence_penalty", 1.0),
        ("min_tokens", 2),
        ("logit_bias", {3: 1.0}),
    ],
)
def test_what_torch_alone_has_ends_its_own_request_by_name(option: str, value: Any) -> None:
    llm = LLM("tiny", executor_cls=NumpyExecutor, num_kv_blocks=40)
    asked = SamplingParams(temperature=0, max_tokens=4, **{option: value})
    refused, served = llm.chat(CHATS[:2], [asked, GREEDY], use_progress=False)
    assert isinstance(refused.outputs[0].error, RequestFailedError)
    assert option in str(refused.outputs[0].error)
    assert served.outputs[0].text


# --- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("model", "elsewhere"),
        ("device", "cuda"),
        ("dtype", "bfloat16"),
        ("quantization", "int8"),
        ("attention_backend", "c"),
    ],
)
def test_an_option_that_needs_torch_is_refused(option: str, value: str, checkpoint: Any) -> None:
    options = {"model": "tiny", option: str(checkpoint) if option == "model" else value}
    with pytest.raises(InvalidParameterError, match=f"{option} .* needs torch.*engine"):
        LLM(executor_cls=NumpyExecutor, **options)


def test_a_draft_model_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm.engine.core_factory.find_spec", lambda name: None)
    with pytest.raises(InvalidParameterError, match="speculative 'draft_model' needs torch"):
        LLM("tiny", speculative="draft_model", draft_model="tiny")


def test_a_kv_cache_beyond_the_memory_is_refused() -> None:
    with pytest.raises(KVCacheTooLargeError, match="num_kv_blocks"):
        LLM("tiny", executor_cls=NumpyExecutor, num_kv_blocks=1 << 30)


@pytest.mark.parametrize("executor_cls", [NumpyExecutor, LocalExecutor])
@pytest.mark.parametrize("too_many", [1, 100])
def test_a_scheduler_that_computes_past_its_tokens_is_told(
    executor_cls: type[Executor], too_many: int
) -> None:
    class Beyond(Scheduler):
        def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
            return min(num_new_tokens + too_many, token_budget)

    llm = LLM("tiny", executor_cls=executor_cls, scheduler_cls=Beyond, num_kv_blocks=40)
    with pytest.raises(
        InvalidParameterError, match=rf"schedule\(\) gave {5 + too_many} .* only 5 "
    ):
        llm.generate([[1, 2, 3, 4, 5]], GREEDY)


def test_a_plan_for_a_connector_is_refused_before_anything_changes() -> None:
    executor: Any = LLM("tiny", executor_cls=NumpyExecutor, num_kv_blocks=40).engine.executor
    step = StepInput(new_rows={"a": SamplingRow(GREEDY)}, kv=KVPlan(connector="elsewhere"))
    with pytest.raises(ConnectorMissingError, match="elsewhere"):
        executor.execute(step).result()
    assert not executor.requests


# --- without torch --------------------------------------------------------------------------------

BLOCKED = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "triton")
BLOCK = f"""
import sys
for name in {BLOCKED}:
    sys.modules[name] = None
"""
CHILD = f"""{BLOCK}
from {{module}} import main
sys.argv = ["prog", *{{arguments}}]
main()
"""


def without_torch(module: str, *arguments: str) -> str:
    """What a command prints in a Python that cannot import torch."""
    code = CHILD.format(module=module, arguments=arguments)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8"
    )
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


def test_the_demo_runs_without_torch() -> None:
    text = without_torch("mini_vllm.cli", "demo")
    assert "A KV block is a fixed-size piece of the KV cache" in text
    assert "in NumPy" in text
    assert "pip install -e '.[engine]'" in text


@pytest.mark.parametrize(
    "command",
    [("generate", "What is"), ("trace", "What is a slot?"), ("chat", "-m", "What is decode?")],
)
@pytest.mark.slow
def test_the_other_commands_run_without_torch(command: tuple[str, ...]) -> None:
    assert "in NumPy" in without_torch("mini_vllm.cli", *command)


@pytest.mark.parametrize("phase", ["02", "03"])
@pytest.mark.slow
def test_lab_run_answers_without_torch(phase: str) -> None:
    assert "A KV block is a fixed-size piece of the KV cache" in without_torch(
        "labkit.cli", "run", phase
    )


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("LLM({checkpoint!r})", "InvalidParameterError: model '.*' needs torch"),
        (
            "LLM().chat([{{'role': 'user', 'content': 'x'}}], tools=[print])",
            "ChatTemplateError: .* needs transformers",
        ),
    ],
)
def test_a_program_hears_by_name_what_needs_torch(call: str, refusal: str, checkpoint: Any) -> None:
    code = f"{BLOCK}\nfrom mini_vllm import LLM\n{call.format(checkpoint=str(checkpoint))}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8"
    )
    assert re.search(f"mini_vllm.errors.{refusal}.*Install the extra 'engine'", run.stderr), (
        run.stderr
    )
