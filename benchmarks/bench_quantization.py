#!/usr/bin/env python3
"""Weights in int8 beside bfloat16: what they cost in quality, and what they bring in time and memory.

    python benchmarks/bench_quantization.py             print the tables
    python benchmarks/bench_quantization.py --write     and into results/quantization.md

Quality is that of the bundled model on the glossary, which it recites. Time is that of Qwen3-0.6B's shape with random
weights (written to --checkpoint once): both engines are loaded, and take turns at single steps of the same requests, so
a busy machine slows both. Memory is that of a process that loads one of them.
"""

import argparse
import datetime
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_scheduler import ROOT, machine
from engine_common import HEAD_DIM, HEADS, HIDDEN, INTERMEDIATE, KV_HEADS, LAYERS, VOCAB_SIZE, make_checkpoint

RESULT = ROOT / "benchmarks" / "results" / "quantization.md"
BATCHES, CONTEXT = (1, 8, 32), 64
PROMPT_LEN = 512
NUM_UNSEEN = 1000  # tokens
LINEAR_WEIGHTS = LAYERS * HIDDEN * ((2 * HEADS + 2 * KV_HEADS) * HEAD_DIM + 3 * INTERMEDIATE) + VOCAB_SIZE * HIDDEN

HEAD = """# Weights in int8

{facts}. torch threads: {threads}.

Again: `python benchmarks/bench_quantization.py --write`

## Quality

The bundled model on the {num_questions} questions of the glossary: the perplexity of the right answers, and of the
greedy answers the tokens that are those of float32 up to the first other one, and the answers that are equal. It knows
these texts by heart, which is an easy case. So the last column has the perplexity of one that it has never seen: the
first {num_unseen:,} tokens of CONTRIBUTING.md.

{quality}

## Time

Qwen3-0.6B's shape, random weights. Both engines take turns at single steps, and the median of {num_steps} ratios
counts. Decodes have a context of {context} tokens and more.

{speed}

The linear layers by themselves, with the head. Their floor is the time in which {megabytes:,.0f} MB in bfloat16, or
half of that in int8, are read at {bandwidth:.1f} GB/s, which a sum over 1 GiB reads at best.

{shares}

## Memory

Anonymous memory of a process after it has loaded the model, with a KV cache of 64 MiB: {memory}.
"""


# --- quality ----------------------------------------------------------------------------------------------------------


def num_equal(a: list[int], b: list[int]) -> int:
    """How many tokens are equal before the first that is not."""
    return next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def scores(output: Any) -> list[tuple[int, Any]]:
    """The tokens of a prompt with their log-probabilities; the first has none."""
    return list(zip(output.prompt_token_ids, output.prompt_logprobs, strict=True))


def quality_table() -> tuple[int, str]:
    """How many questions there are, and a row for each engine."""
    import torch

    from mini_vllm import LLM, SamplingParams
    from tools.glossary import ask, glossary

    torch.set_num_threads(1)
    questions = glossary()
    greedy = SamplingParams(temperature=0, max_tokens=150)
    scored = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
    rows, reference = (
        ["| weights | dtype | perplexity | equal tokens | equal answers | perplexity of an unseen text |"],
        [],
    )
    rows.append("|---|---|---|---|---|---|")
    unseen = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for quantization, dtype in ((None, "float32"), (None, "bfloat16"), ("int8", "float32"), ("int8", "bfloat16")):
        llm = LLM("tiny", device="cpu", dtype=dtype, quantization=quantization, num_kv_blocks=4000)
        answers = [output.outputs[0].token_ids for output in llm.chat([ask(q) for q in questions], greedy)]
        reference = reference or answers
        equal = sum(num_equal(a, b) for a, b in zip(answers, reference, strict=True))
        same = sum(a == b for a, b in zip(answers, reference, strict=True))
        prompts = [llm.apply_chat_template(ask(question)) for question in questions]
        whole = [[*prompt, *answer] for prompt, answer in zip(prompts, reference, strict=True)]
        logprobs = [
            each[token].logprob
            for prompt, output in zip(prompts, llm.generate(whole, scored), strict=True)
            for token, each in scores(output)[len(prompt) :]
        ]
        foreign = llm.generate([llm.engine.tokenizer.encode(unseen[: 5 * NUM_UNSEEN])[:NUM_UNSEEN]], scored)[0]
        perplexities = [
            math.exp(-statistics.fmean(each))
            for each in (logprobs, [each[token].logprob for token, each in scores(foreign)[1:]])
        ]
        rows.append(
            f"| {quantization or 'as they are'} | {dtype} | {perplexities[0]:.5f} "
            f"| {equal / sum(map(len, reference)):.2%} | {same} of {len(answers)} | {perplexities[1]:,.1f} |"
        )
    return len(questions), "\n".join(rows)


# --- time and memory --------------------------------------------------------------------------------------------------


class Watch:
    """Seconds that linear layers take, by a stopwatch around each call."""

    def __init__(self) -> None:
        from mini_vllm.models import decoder
        from mini_vllm.models.layers import linear

        self.seconds = 0.0
        self.product = linear.linear
        linear.linear = decoder.linear = self

    def __call__(self, *args: Any) -> Any:
        start = time.perf_counter()
        product = self.product(*args)
        self.seconds += time.perf_counter() - start
        return product


class Times:
    """Seconds of one engine's steps, and of the linear layers in them."""

    def __init__(self, engine: Any, watch: Watch) -> None:
        self.engine, self.watch = engine, watch
        self.steps: list[float] = []
        self.linear: list[float] = []

    def step(self) -> None:
        self.watch.seconds, start = 0.0, time.perf_counter()
        self.engine.step()
        self.steps.append(time.perf_counter() - start)
        self.linear.append(self.watch.seconds)


def make_engine(checkpoint: Path, quantization: str | None, megabytes: int = 1024) -> Any:
    from mini_vllm import EngineConfig, LLMEngine

    return LLMEngine(
        EngineConfig(
            str(checkpoint),
            device="cpu",
            dtype="bfloat16",
            quantization=quantization,
            kv_cache_memory_bytes=megabytes << 20,
            max_num_seqs=32,
            enable_prefix_caching=False,
        )
    )


def take_turns(pair: list[Times], num_requests: int, prompt_len: int, num_steps: int) -> None:
    """Each engine's step after the other's: decodes, or, with num_requests 0, steps of one prompt each."""
    from mini_vllm import SamplingParams

    for turn in range(num_steps):
        for times in pair:
            for i in range(num_requests or 1) if turn == 0 or not num_requests else ():
                params = SamplingParams(temperature=0, max_tokens=num_steps + 8 if num_requests else 1, ignore_eos=True)
                times.engine.add_request(f"{turn}-{i}", list(range(100 + i, 100 + i + prompt_len)), params)
            for _ in range(4) if turn == 0 and num_requests else ():
                times.engine.step()
            times.step()
    for times in pair:
        times.engine.reset()


def bandwidth() -> float:
    """Bytes a second that a sum over 1 GiB reads, at best."""
    import torch

    data, times = torch.ones(1 << 28), []
    for _ in range(6):
        start = time.perf_counter()
        data.sum()
        times.append(time.perf_counter() - start)
    return data.numel() * 4 / min(times)


def speed_tables(checkpoint: Path, num_steps: int) -> tuple[str, str, float]:
    """The table of steps, that of the linear layers' shares, and the bandwidth in bytes a second."""
    watch, rate = Watch(), bandwidth()
    engines = [make_engine(checkpoint, quantization) for quantization in (None, "int8")]
    speed = [
        "| step | bfloat16, ms | bfloat16, tok/s | int8, ms | int8, tok/s | bfloat16 ms / int8 ms |",
        "|---|---|---|---|---|---|",
    ]
    shares = ["| decodes | step, ms | linear, ms | share | floor, ms | floor / linear |", "|---|---|---|---|---|---|"]
    for num_requests in (*BATCHES, 0):
        pair = [Times(engine, watch) for engine in engines]
        take_turns(pair, num_requests, CONTEXT if num_requests else PROMPT_LEN, num_steps)
        name = f"decodes: {num_requests}" if num_requests else f"a prompt of {PROMPT_LEN}"
        plain, small = (statistics.median(times.steps) for times in pair)
        ratio = statistics.median(a / b for a, b in zip(pair[0].steps, pair[1].steps, strict=True))
        num_tokens = num_requests or PROMPT_LEN
        speed.append(
            f"| {name} | {plain * 1e3:.1f} | {num_tokens / plain:,.0f} | {small * 1e3:.1f} | {num_tokens / small:,.0f} "
            f"| {ratio:.2f} |"
        )
        for weights, times, size in (("bfloat16", pair[0], 2), ("int8", pair[1], 1)):
            step, linear = statistics.median(times.steps) * 1e3, statistics.median(times.linear) * 1e3
            floor = size * LINEAR_WEIGHTS / rate * 1e3
            if num_requests:
                shares.append(
                    f"| {num_requests}, {weights} | {step:.1f} | {linear:.1f} | {linear / step:.0%} | {floor:.1f} "
                    f"| {floor / linear:.0%} |"
                )
    return "\n".join(speed), "\n".join(shares), rate


def memory_of(checkpoint: Path, quantization: str) -> None:
    """Print the anonymous megabytes of this process with the model loaded, and how many it took at most."""
    engine = make_engine(checkpoint, quantization or None, megabytes=64)
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    print(*(int(lines[name].split()[0]) / 1e3 for name in ("RssAnon", "VmHWM")))
    del engine


def memory(checkpoint: Path) -> str:
    """In a process for each."""
    found = []
    for quantization in ("", "int8"):
        command = [sys.executable, __file__, "--checkpoint", str(checkpoint), f"--memory-of={quantization}"]
        anonymous, _ = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        found.append(f"{float(anonymous):,.0f} MB in {quantization or 'bfloat16'}")
    return ", ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=Path(tempfile.gettempdir()) / "mini_vllm_qwen3_0.6b_random")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    args = parser.parse_args()
    make_checkpoint(args.checkpoint)
    if args.memory_of is not None:
        memory_of(args.checkpoint, args.memory_of)
        return
    facts = f"{datetime.date.today()}, {machine()}, Python {platform.python_version()}"
    num_questions, quality = quality_table()

    import torch

    torch.set_num_threads(args.threads)
    speed, shares, rate = speed_tables(args.checkpoint, args.steps)
    text = HEAD.format(
        **{"facts": facts, "threads": args.threads, "num_questions": num_questions, "num_unseen": NUM_UNSEEN},
        **{"quality": quality, "num_steps": args.steps, "context": CONTEXT, "megabytes": LINEAR_WEIGHTS * 2 / 1e6},
        **{"bandwidth": rate / 1e9, "speed": speed, "shares": shares, "memory": memory(args.checkpoint)},
    )
    print(text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
