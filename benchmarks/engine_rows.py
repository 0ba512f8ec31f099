"""The rows of bench_engine.py: prefills and decodes by number of requests and context, beside vLLM and llama.cpp.

A prefill is of prompts that nobody has computed. A decode stands behind a context that counts as computed and whose
keys and values are made up (in vLLM by its DecodeBenchConnector), so that it needs no prefill. They are written,
since pages of memory that nobody wrote may be one page that all addresses share.
"""

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from engine_common import HEAD_DIM, KV_HEADS, LAYERS, VOCAB_SIZE, Turn

NUM_STEPS = 16  # timed steps of a decode
KV_BYTES = 2 * 2 * LAYERS * KV_HEADS * HEAD_DIM  # of a token: keys and values, 2 bytes a number
Row = tuple[str, int, int]  # "prefill" or "decode", requests, tokens of each prompt
ROWS: tuple[Row, ...] = (
    ("prefill", 8, 128),
    ("prefill", 8, 1024),
    ("prefill", 4, 4096),
    ("decode", 1, 64),
    ("decode", 8, 128),
    ("decode", 8, 1024),
    ("decode", 8, 4096),
    ("decode", 8, 16384),
)


def prompts(num_requests: int, length: int) -> list[list[int]]:
    rng = random.Random(length)
    return [[rng.randrange(10, VOCAB_SIZE - 1000) for _ in range(length)] for _ in range(num_requests)]


def num_slots(rows: tuple[Row, ...], block_size: int) -> int:
    """What the largest row needs, with the tokens that are timed."""
    return max(n * (-(-(length + NUM_STEPS + 2) // block_size) + 1) * block_size for _, n, length in rows)


def rate(row: Row, seconds: float) -> float:
    """Tokens a second: of the prompts in a prefill, of the output in a decode."""
    kind, num_requests, length = row
    return num_requests * (length if kind == "prefill" else NUM_STEPS) / seconds


# --- mini_vllm --------------------------------------------------------------------------------------------------------


def mini_vllm_rows(engine: Any) -> Callable[[Row], float]:
    """A function that measures the seconds of a row."""
    from mini_vllm import SamplingParams
    from mini_vllm.step import SampledToken, StepOutput

    runner = engine.executor.runner
    for caches in runner.kv_caches:
        for cache in caches:
            cache.fill_(0.1)
    execute = runner.execute

    def skip(step: Any) -> Any:
        """In place of the model: note what is new, and sample anything."""
        runner.batch.update(step)
        return StepOutput({request_id: [SampledToken(7, None)] for request_id in step.sample_req_ids})

    def add(num_requests: int, length: int, max_tokens: int) -> None:
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
        for i, prompt in enumerate(prompts(num_requests, length)):
            engine.add_request(str(i), prompt, params)

    def measure(row: Row) -> float:
        kind, num_requests, length = row
        if kind == "prefill":
            add(num_requests, length, 1)
            start = time.perf_counter()
            while engine.has_unfinished_requests():
                engine.step()
            return time.perf_counter() - start
        add(num_requests, length - 1, NUM_STEPS + 8 + 8 * num_requests)
        runner.execute = skip
        scheduler = engine.scheduler
        while any(r.num_computed_tokens < length - 1 for r in (*scheduler.waiting, *scheduler.running)):
            engine.step()
        runner.execute = execute
        engine.step()
        start = time.perf_counter()
        for _ in range(NUM_STEPS):
            engine.step()
        seconds = time.perf_counter() - start
        engine.reset()
        return seconds

    return measure


# --- vLLM -------------------------------------------------------------------------------------------------------------


def vllm_rows(args: argparse.Namespace, rows: tuple[Row, ...], max_batched_tokens: int) -> Callable[[Row], float]:
    """The same for vLLM in this process: two engines in turn would not fit, so rows are of one kind."""
    kinds = {kind for kind, _, _ in rows}
    made_up = {"kv_transfer_config": {"kv_connector": "DecodeBenchConnector", "kv_role": "kv_both"}}
    gib = num_slots(rows, 128) * KV_BYTES / (1 << 30)
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": str(int(gib) + 1), "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{args.threads - 1}", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
    }  # fmt: skip
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=str(args.checkpoint),
        dtype="bfloat16",
        skip_tokenizer_init=True,
        max_model_len=max(length for _, _, length in rows) + NUM_STEPS + 2,
        max_num_seqs=32,
        max_num_batched_tokens=max_batched_tokens,
        enforce_eager=True,
        enable_prefix_caching=False,
        **(made_up if kinds == {"decode"} else {}),
    )

    def generate(num_requests: int, length: int, max_tokens: int) -> float:
        given: Any = [{"prompt_token_ids": prompt} for prompt in prompts(num_requests, length)]
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        llm.generate(given, params, use_tqdm=False)
        return time.perf_counter() - start

    def measure(row: Row) -> float:
        kind, num_requests, length = row
        if kind == "prefill":
            return generate(num_requests, length, 1)
        first = generate(num_requests, length, 1)  # fills the cache, and computes one token
        return generate(num_requests, length, 1 + NUM_STEPS) - first

    return measure


# --- a turn, and the table --------------------------------------------------------------------------------------------


def take(measure: Callable[[Row], float], rows: tuple[Row, ...], reps: int = 1) -> Turn:
    """Tokens a second of each row, the median of `reps`; a run before them warms up, unless it is long."""
    found = {}
    for row in rows:
        seconds = measure(row)
        if row[0] == "decode" or seconds < 10:
            seconds = statistics.median(measure(row) for _ in range(reps))
        found[name_of(row)] = rate(row, seconds)
    return {"rates": found}


def name_of(row: Row) -> str:
    kind, num_requests, length = row
    return f"prefill of {num_requests} x {length:,}" if kind == "prefill" else f"decode, {num_requests} at {length:,}"


def table(turns: dict[str, list[Turn]]) -> list[str]:
    """Medians, and the median of the ratios of each round."""
    engines = list(turns)
    others = [name for name in engines if name != "mini_vllm"]
    against = [f"mini_vllm / {name}" for name in others]
    lines = [f"| tokens a second | {' | '.join(engines + against)} |", "|---" * (len(engines + against) + 1) + "|"]
    for row in map(name_of, ROWS):
        by_engine = {
            name: [turn["rates"][row] for turn in each if row in turn["rates"]] for name, each in turns.items()
        }
        if not by_engine["mini_vllm"]:
            continue
        cells = [f"{statistics.median(rates):,.1f}" if rates else "-" for rates in by_engine.values()]
        for name in others:
            ratios = [a / b for a, b in zip(by_engine["mini_vllm"], by_engine[name], strict=False)]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "-"
            cells.append(spread)
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines
