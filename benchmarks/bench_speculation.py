#!/usr/bin/env python3
"""What drafts bring and what they cost: tokens per second with and without, by acceptance and number of requests.

    python benchmarks/bench_speculation.py                       the bundled model and Qwen3-0.6B's shape
    python benchmarks/bench_speculation.py --models tiny         one of them: tiny, qwen
    python benchmarks/bench_speculation.py --host                host cost of a step alone
    python benchmarks/bench_speculation.py --write               and into results/speculation.md

Acceptance is scripted: whatever the model samples, a draft counts as right with the probability that the row says. So
it does not depend on the weights, and not on the last bits of bf16; the work is real. Each round with drafts follows
one without, on the same requests, and the median of their ratios counts, so a busy machine slows both.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import platform
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from time import thread_time_ns
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench_scheduler import BLOCK_SIZE, ROOT, WARM_UP, Ours, config, machine, request
from engine_common import make_checkpoint

from mini_vllm.spec_decode import scheduler as spec
from mini_vllm.worker import model_runner

RESULT = ROOT / "benchmarks" / "results" / "speculation.md"
ACCEPT = model_runner.accept
K = 4
NUM_REQUESTS = (1, 4, 16)
ACCEPTANCE = (0.0, 0.5, 0.8, 1.0)
NUM_PROMPT = 32
SHAPES = {"tiny": "The bundled model", "qwen": "Qwen3-0.6B's shape with random weights, bf16"}
NUM_OUTPUT = {"tiny": 96, "qwen": 64}
ROUNDS = {"tiny": 5, "qwen": 2, "host": 5}  # and 2 more of one request, which gives few tokens

HEAD = """# What drafts bring

Tokens per second with {k} drafts for each request and step, beside the same requests without drafts. Prompts of
{num_prompt} tokens, and greedy tokens behind them: {num_output}. The clock starts when all prompts are computed.
"Acceptance" is the probability with which each draft counts as right, whatever the model samples. Where it is low, a
request soon asks for no drafts (`Pace`), which "always {k}" leaves out. `ngram` is real: a request reads the beginning
of a text, its answer, and the beginning again. `draft_model` is real, too: the bundled draft model, on questions about
the glossary. {num_threads} torch threads. Each round with drafts follows one without, and the median of their ratios
counts: {num_rounds} rounds, of one request 2 more. "Tokens a step" is the mean over the steps that decode a request.

{facts}

Again: `python benchmarks/bench_speculation.py --write`
"""


class Fixed:
    """The same drafts for every request."""

    def __init__(self, drafts: list[int]) -> None:
        self.drafts = drafts

    def propose(self, request: Any, num_tokens: int) -> list[int]:
        return self.drafts[:num_tokens]

    def forget(self, request: Any) -> None:
        pass


def scripted(accuracy: float) -> Any:
    """Stands in for accept() of the model runner: a draft is right with this probability."""
    from mini_vllm.step import SampledToken

    rng = random.Random(0)

    def accept(step: Any, sampled: Any) -> Any:
        rows, names, sampled = step.sample_rows, step.sample_req_ids, list(sampled)
        for i in range(len(rows) - 1):
            if names[i] == names[i + 1]:
                draft = step.token_ids[rows[i + 1]]
                sampled[i] = SampledToken(draft if rng.random() < accuracy else draft + 1, None)
        return ACCEPT(step, sampled)

    return accept


def make_engine(model: str, **options: Any) -> Any:
    from mini_vllm.config import EngineConfig
    from mini_vllm.engine.llm_engine import LLMEngine

    sizes = {"num_kv_blocks": 1 + 18 * 16, "max_model_len": 18 * BLOCK_SIZE}
    return LLMEngine(EngineConfig(model, device="cpu", enable_prefix_caching=False, **sizes, **options))


def prompts_of(num_requests: int, vocab_size: int) -> list[list[int]]:
    rng = random.Random(num_requests)
    return [[rng.randrange(3, vocab_size) for _ in range(NUM_PROMPT)] for _ in range(num_requests)]


def repeating(engine: Any, num_requests: int, num_output: int) -> list[list[int]]:
    """The beginning of a text, its answer, and the beginning again. The bundled model knows the glossary's texts."""
    if engine.tokenizer is None:
        beginnings = [prompt[:16] for prompt in prompts_of(num_requests, engine.vocab_size)]
    else:
        texts = (ROOT / "docs" / "glossary.md").read_text().split("\n\n")
        beginnings = [engine.tokenize(text)[:16] for text in texts if len(text) > 200][:num_requests]
    _, answers = run(engine, beginnings, num_output, -2)
    return [[*begin, *answers[str(i)], *begin] for i, begin in enumerate(beginnings)]


def questions(engine: Any, num_requests: int) -> list[list[int]]:
    """What the bundled model and its draft model were trained to answer."""
    names = re.findall(r"^### ([^(`\n]+)", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    texts = [f"What is a {name.strip()}?" for name in names[:num_requests]]
    return [engine.apply_chat_template([{"role": "user", "content": text}]) for text in texts]


def run(engine: Any, prompts: list[list[int]], num_output: int, number: int) -> tuple[float, dict[str, list[int]]]:
    """Tokens per second behind the first step, which computes the prompts, and the answers by place."""
    from mini_vllm import SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=num_output, ignore_eos=True)
    for i, prompt in enumerate(prompts):
        engine.add_request(f"{number}/{i}", prompt, params)
    answers: dict[str, list[int]] = {}
    engine.step()
    assert not engine.scheduler.waiting
    start = time.perf_counter()
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                answers[output.request_id.split("/")[1]] = output.outputs[0].token_ids
    return len(prompts) * (num_output - 1) / (time.perf_counter() - start), answers


def figures(plain: Any, drafting: Any, prompts: list[list[int]], num_output: int, num_rounds: int) -> tuple[Any, ...]:
    """Medians: tokens per second without and with drafts, their ratio; then acceptance, drafts, and tokens a step."""
    scheduler = drafting.scheduler
    scheduler.speculation_stats = stats = type(scheduler.speculation_stats)([0] * (K + 1))
    schedule, num_scheduled = scheduler.schedule, []

    def counted() -> Any:
        output = schedule()
        num_scheduled.append(len(output.scheduled_requests))
        return output

    speeds = []
    with patch.object(scheduler, "schedule", counted):
        for number in range(num_rounds):
            speeds.append([run(engine, prompts, num_output, number)[0] for engine in (plain, drafting)])
    medians = [statistics.median(column) for column in zip(*speeds, strict=True)]
    ratio = statistics.median(with_drafts / without for without, with_drafts in speeds)
    share = stats.num_accepted_tokens / max(stats.num_draft_tokens, 1)
    num_prefills = num_rounds * len(prompts)  # one step each
    tokens_a_step = num_prefills * (num_output - 1) / (sum(num_scheduled) - num_prefills)
    return *medians, ratio, share, stats.num_draft_tokens, tokens_a_step


def steady() -> Any:
    """A Pace at which requests ask for K drafts in every step."""
    from mini_vllm.spec_decode.proposers import Pace

    class Steady(Pace):
        def __init__(self, most: int) -> None:
            super().__init__(most)
            self.length = most

        def learn(self, num_drafts: int, num_accepted: int) -> None:
            pass

    return Steady


def speed_table(name: str, model: str, least_rounds: int) -> Iterator[str]:
    """One of SHAPES. Its name is in the head of the table, so that a picture finds it."""
    yield f"| requests, {name} | drafts | tok/s without | with | ratio | accepted | tokens a step |"
    yield "|---:|---|---:|---:|---:|---:|---:|"
    num_output = NUM_OUTPUT[name]
    plain = make_engine(model)
    drafting = make_engine(model, speculative="ngram", num_speculative_tokens=K)
    lookup = drafting.scheduler.proposer
    cases = [*((f"acceptance {accuracy}", accuracy) for accuracy in ACCEPTANCE), (f"always {K}, acceptance 0", None)]
    for n in NUM_REQUESTS:
        prompts, num_rounds = prompts_of(n, plain.vocab_size), least_rounds + 2 // n
        for engine in (plain, drafting):
            run(engine, prompts, 8, -1)
        drafting.scheduler.proposer = Fixed([7] * K)
        for words, accuracy in cases:
            pace = spec.Pace if accuracy is not None else steady()
            with patch.object(spec, "Pace", pace), patch.object(model_runner, "accept", scripted(accuracy or 0.0)):
                yield row(n, words, figures(plain, drafting, prompts, num_output, num_rounds))
        drafting.scheduler.proposer = lookup
        prompts = repeating(plain, n, num_output)
        yield row(n, "ngram", figures(plain, drafting, prompts, num_output, num_rounds))
    if name == "tiny":
        drafting = make_engine(model, speculative="draft_model", num_speculative_tokens=K)
        for n in NUM_REQUESTS:
            yield row(
                n, "draft_model", figures(plain, drafting, questions(plain, n), num_output, least_rounds + 2 // n)
            )


def row(n: int, name: str, found: tuple[Any, ...]) -> str:
    without, with_drafts, ratio, share, num_drafts, tokens_a_step = found
    accepted = f"{100 * share:.0f} % of {num_drafts:,}"
    return f"| {n} | {name} | {without:,.0f} | {with_drafts:,.0f} | {ratio:.2f} | {accepted} | {tokens_a_step:.2f} |"


# --- host cost ------------------------------------------------------------------------------------------------------

HOST_PARTS = ("schedule()", "snapshot", "batch", "update_from_output()")
HOST_HEAD = """
## Host cost of a step

{num_running} running requests at a context of about 500 tokens; microseconds of CPU time, medians over {num_rounds}
rounds of the median over the steps. "No drafts" is V1's scheduler. The proposer costs nothing in "scripted": the drafts
are there already, all are verified, and 0, 2 or 4 of them are accepted. `ngram` looks up text that never repeats, and
text that always does. The last column is microseconds for each token that a request gets.

| drafts | {parts} | all | to no drafts | a token |
|---|---:|---:|---:|---:|---:|---:|---:|"""


def measure_host(num_running: int, method: str | None, num_accepted: int, num_steps: int = 60) -> list[float]:
    """Microseconds of each of HOST_PARTS. method: None (no drafts), "scripted", "ngram" or "repeating"."""
    import torch

    from mini_vllm.engine.runner_view import RunnerView
    from mini_vllm.policies.registry import make_scheduler
    from mini_vllm.spec_decode.scheduler import SpeculativeScheduler
    from mini_vllm.worker.input_batch import InputBatch

    engine = Ours()
    options = config(num_running, num_running * 80 + 1)
    engine.start(options)
    if method is not None:
        named = {"speculative": "ngram", "num_speculative_tokens": K}
        engine.scheduler = make_scheduler(options | named, scheduler_cls=SpeculativeScheduler)
    scheduler: Any = engine.scheduler
    if method == "scripted":
        scheduler.proposer = Fixed([7] * num_accepted + [8] * (K - num_accepted))
    for i in range(num_running):
        engine.add(request(i, 480 + i % BLOCK_SIZE))
    batch, runner = InputBatch(BLOCK_SIZE, torch.device("cpu")), RunnerView(scheduler)
    times = []
    for number in range(WARM_UP + num_steps):
        if number == WARM_UP:
            gc.collect()
            gc.freeze()
        t0 = thread_time_ns()
        output = scheduler.schedule()
        t1 = thread_time_ns()
        step = runner.make_step_input(output, scheduler.kv_cache_manager.begin_step())
        t2 = thread_time_ns()
        batch.update(step)
        batch.pack(step)
        t3 = thread_time_ns()
        tokens = [7] * (num_accepted + 1) if output.drafts else [7 if method != "ngram" else number + 100]
        sampled = {
            r.request_id: tokens[: 1 + len(output.drafts.get(r.request_id, ()))] for r in output.scheduled_requests
        }
        t4 = thread_time_ns()
        scheduler.update_from_output(output, sampled)
        t5 = thread_time_ns()
        if number >= WARM_UP:
            times.append([t1 - t0, t2 - t1, t3 - t2, t5 - t4])
    gc.unfreeze()
    return [statistics.median(column) / 1e3 for column in zip(*times, strict=True)]


HOST_CASES = {
    "no drafts": (None, 0),
    "scripted, 0 of 4 accepted": ("scripted", 0),
    "scripted, 2 of 4 accepted": ("scripted", 2),
    "scripted, 4 of 4 accepted": ("scripted", 4),
    "ngram, nothing repeats": ("ngram", 0),
    "ngram, 4 of 4 accepted": ("repeating", 4),
}


def host_table(num_rounds: int, num_running: int = 256) -> Iterator[str]:
    yield HOST_HEAD.format(num_running=num_running, num_rounds=num_rounds, parts=" µs | ".join(HOST_PARTS) + " µs")
    rounds: dict[str, list[list[float]]] = {name: [] for name in HOST_CASES}
    for _ in range(num_rounds):
        for name, (method, num_accepted) in HOST_CASES.items():
            with patch.object(spec, "Pace", steady() if method == "scripted" else spec.Pace):
                rounds[name].append(measure_host(num_running, method, num_accepted))
    for name, found in rounds.items():
        parts = [statistics.median(column) for column in zip(*found, strict=True)]
        ratio = statistics.median(sum(a) / sum(b) for a, b in zip(found, rounds["no drafts"], strict=True))
        a_token = sum(parts) / num_running / (1 + HOST_CASES[name][1])
        cells = " | ".join(f"{x:,.0f}" for x in (*parts, sum(parts)))
        yield f"| {name} | {cells} | {ratio:.2f} | {a_token:.2f} |"


def page(models: list[str], num_rounds: dict[str, int], num_threads: int, checkpoint: Path) -> Iterator[str]:
    import torch

    torch.set_num_threads(num_threads)
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}, torch {torch.__version__}"
    outputs = ", ".join(f"{number} of {name}" for name, number in NUM_OUTPUT.items())
    rounds = ", ".join(f"{number} of {name}" for name, number in num_rounds.items())
    yield HEAD.format(
        k=K, num_output=outputs, num_prompt=NUM_PROMPT, num_threads=num_threads, num_rounds=rounds, facts=facts
    )
    for name in models:
        yield f"\n## {SHAPES[name]}\n"
        if name == "qwen":
            make_checkpoint(checkpoint)
        yield from speed_table(name, "tiny" if name == "tiny" else str(checkpoint), num_rounds[name])
    yield from host_table(num_rounds["host"])


def main() -> int:
    """Parse the command line; print the page, and write it if asked to."""
    parser = argparse.ArgumentParser(description="What drafts bring and cost (see the head of this file).")
    parser.add_argument("--models", default="tiny,qwen")
    parser.add_argument("--rounds", type=int, help="instead of those of ROUNDS")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path, default=Path(tempfile.gettempdir()) / "mini_vllm_qwen3_0.6b_random")
    parser.add_argument("--host", action="store_true", help="measure the host cost alone")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/speculation.md")
    args = parser.parse_args()
    lines, num_rounds = [], {name: args.rounds or number for name, number in ROUNDS.items()}
    models = [name for name in args.models.split(",") if name]
    text = page(models, num_rounds, args.threads, args.checkpoint)
    for line in host_table(num_rounds["host"]) if args.host else text:
        print(line, flush=True)
        lines.append(line)
    if args.write:
        RESULT.write_text("\n".join(lines).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
