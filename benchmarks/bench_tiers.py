#!/usr/bin/env python3
"""A second visit after the pool was overrun: from main memory, from disk, after a restart, and computed again.

    python benchmarks/bench_tiers.py [--prompts N] [--tokens N] [--layers N] [--rounds N] [--folder PATH] [--write]

The model has Qwen3-0.6B's shape and random weights. N prompts are visited one after another, then all once more. The
device has room for two of them, so each second visit finds nothing there. Five engines in turn, medians over the
rounds: without tiers; with main memory for all blocks; with main memory for two prompts and the rest on disk; the same
folder behind a restart; and a disk that is slowed down until it is worse than computing. That one begins when all of
main memory has been used, since a page costs time when it is first written, and counts all its requests, those that
find out how slow it is as well. A time to the first token is that of the engine's clock, of one request alone. Beside
these, ITL: one request decodes while the second visits come in, and the 99th percentile of the time between its tokens
is compared with the one without tiers. Writes results/tiers.md.
"""

import argparse
import datetime
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from mini_vllm import EngineConfig, LLMEngine, SamplingParams
from mini_vllm.worker.tiers.block_folder import BlockFolder

RESULT = Path(__file__).resolve().parent / "results" / "tiers.md"
BLOCK_SIZE = 16
VOCABULARY = 2048
NUM_DECODED = 12  # tokens that a request decodes beside the visits, for each of them


class Visit(NamedTuple):
    """Seconds to the first token of each prompt, and between the tokens of the request beside them."""

    ttft: list[float]
    itl: list[float]


def write_model(folder: Path, num_layers: int) -> None:
    """Qwen3-0.6B's layers with a small vocabulary, in float32."""
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=num_layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=VOCABULARY,
        max_position_embeddings=40960,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


def make_engine(model: Path, num_tokens: int, num_prompts: int, **options: Any) -> LLMEngine:
    num_blocks = 2 * (num_tokens // BLOCK_SIZE + 1) + 3 + NUM_DECODED * num_prompts // BLOCK_SIZE
    config = EngineConfig(
        str(model),
        device="cpu",
        dtype="float32",
        block_size=BLOCK_SIZE,
        num_kv_blocks=num_blocks,
        max_num_batched_tokens=512,
        max_num_seqs=4,
        **options,
    )
    return LLMEngine(config)


def visit(engine: LLMEngine, prompts: Sequence[Sequence[int]], name: str, beside: bool = False) -> Visit:
    """One prompt after another; beside: while another request decodes."""
    once = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
    ttft, itl, last = [], [], 0.0
    if beside:
        longest = SamplingParams(temperature=0, max_tokens=NUM_DECODED * len(prompts), ignore_eos=True)
        engine.add_request("beside", range(16), longest)
    for i, prompt in enumerate(prompts):
        begun, waits = time.perf_counter(), True
        engine.add_request(f"{name} {i}", prompt, once)
        while waits:
            for output in engine.step():
                now = time.perf_counter()
                if output.request_id == "beside":
                    itl += [now - last] if last else []
                    last = now
                elif output.finished:
                    ttft.append(now - begun)
                    waits = False
    if beside:
        engine.abort("beside")
    return Visit(ttft, itl)


@contextmanager
def slow_disk(seconds: float) -> Iterator[None]:
    """Each read takes so much longer."""
    read = BlockFolder.read

    def late(*arguments: Any) -> bool:
        time.sleep(seconds)
        return read(*arguments)

    BlockFolder.read = late  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BlockFolder.read = read  # type: ignore[method-assign]


def measure(model: Path, folder: Path, num_prompts: int, num_tokens: int, num_layers: int) -> dict[str, Any]:
    """Seconds of each way."""
    rng = random.Random(1)
    prompts = [[rng.randrange(VOCABULARY) for _ in range(num_tokens)] for _ in range(num_prompts)]
    per_block = num_layers * 2 * 8 * 128 * 4 * BLOCK_SIZE
    per_prompt = per_block * (num_tokens // BLOCK_SIZE + 2)
    small: dict[str, Any] = {"kv_offload_bytes": 3 * per_prompt, "kv_offload_path": folder / "disk"}
    found: dict[str, Any] = {}

    def second_visit(name: str, beside: bool, engine: LLMEngine) -> None:
        visits = visit(engine, prompts, "second", beside)
        found[name] = statistics.median(visits.ttft[:-2])  # the last ones may be on the device
        if beside:
            found[f"{name}, ITL p99"] = sorted(visits.itl)[len(visits.itl) * 99 // 100]
        stats = getattr(engine.scheduler.kv_cache_manager, "connector", None)
        print(f"{name}: {found[name]:.3f} s", getattr(stats, "stats", ""), flush=True)

    for beside in (False, True):
        suffix = ", beside a decode" if beside else ""
        ways: dict[str, dict[str, Any]] = {
            "computed": {},
            "main memory": {"kv_offload_bytes": (num_prompts + 3) * per_prompt},
            "disk": small,
        }
        for name, options in ways.items():
            engine = make_engine(model, num_tokens, num_prompts, **options)
            visit(engine, prompts, "first")
            second_visit(name + suffix, beside, engine)
            engine.shutdown()
    engine = make_engine(model, num_tokens, num_prompts, **small)
    second_visit("disk after a restart", False, engine)
    engine.shutdown()
    # a block takes twice as long to read as to compute, with four readers; the mean has the requests that find it out
    with slow_disk(8 * found["computed"] / (num_tokens / BLOCK_SIZE)):
        engine = make_engine(model, num_tokens, num_prompts, **small)
        new = [[rng.randrange(VOCABULARY) for _ in prompt] for prompt in prompts[:3]]
        visit(engine, new, "to have used all of main memory")
        found["slow disk, mean"] = statistics.mean(visit(engine, prompts, "second").ttft)
        print(engine.scheduler.kv_cache_manager.connector.stats)
        engine.shutdown()
    engine = make_engine(model, num_tokens, num_prompts)
    visit(engine, new, "as many")
    found["computed, mean"] = statistics.mean(visit(engine, prompts, "second").ttft)
    engine.shutdown()
    return found


def report(rounds: list[dict[str, float]], args: argparse.Namespace) -> str:
    found = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    lines = [
        "# A second visit after the pool was overrun",
        "",
        f"`python benchmarks/bench_tiers.py --prompts {args.prompts} --tokens {args.tokens} --layers {args.layers} "
        f"--rounds {args.rounds}`, {datetime.date.today()}, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, torch {torch.__version__}. Medians; 'mean' is of all requests.",
        "",
        "| second visit | seconds to the first token | of computing |",
        "|---|---:|---:|",
    ]
    for name in found:
        if "ITL" not in name:
            base = found["computed" + next((of for of in (", beside a decode", ", mean") if of in name), "")]
            lines.append(f"| {name} | {found[name]:.3f} | {found[name] / base:.2f} |")
    lines += ["", "| ITL p99 of a request beside it | seconds | of computing |", "|---|---:|---:|"]
    base = found["computed, beside a decode, ITL p99"]
    lines += [f"| {n} | {found[n]:.3f} | {found[n] / base:.2f} |" for n in found if "ITL" in n]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="A second visit after the pool was overrun.")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="on the disk that is measured; by default a temporary one")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    args = parser.parse_args()
    if args.folder is not None:
        args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        write_model(folder / "model", args.layers)
        rounds = []
        for i in range(args.rounds):
            found = measure(folder / "model", folder / str(i), args.prompts, args.tokens, args.layers)
            rounds.append(found)
            print(json.dumps(found))
    text = report(rounds, args)
    print(text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
