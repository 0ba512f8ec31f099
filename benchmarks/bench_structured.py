#!/usr/bin/env python3
"""What grammars cost: tokens per second of 32 streams that all have one, beside the same streams without.

    python benchmarks/bench_structured.py               print the tables
    python benchmarks/bench_structured.py --write       and into results/structured.md

The bundled model, one torch thread: a step takes a few milliseconds, so a mask weighs as much as it ever can. Each
stream without a form has as many tokens as the same stream with it. Rounds with a form and without alternate, and the
median of their ratios counts, so a busy machine slows both. The second table sends schemas that are slow to compile to
a live server, and looks at the streams beside them and at /health.
"""

import argparse
import asyncio
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_scheduler import ROOT, machine
from bench_serving import PROMPT, Server

RESULT = ROOT / "benchmarks" / "results" / "structured.md"
NUM_STREAMS, NUM_TOKENS = 32, 256
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
FORMS: dict[str, Any] = {
    "no form": None,
    "JSON schema: a list of objects": {"json": {"type": "array", "items": PERSON, "minItems": 500}},
    "JSON object": {"json_object": True},
    "regex: words": {"regex": r"([a-z]{1,12}[ ,.]){2000}"},
    "choice: 20 texts of 1,200 characters": {
        "choice": [f"{'A block of keys and values. ' * 44}{i}" for i in range(20)]
    },
}

HEAD = """# Cost of structured outputs

{num_streams} streams of {num_tokens} tokens each with the bundled model on the bare `LLMEngine`, at temperature 1. One
torch thread. A stream without a form has as many tokens as the same stream with it. Rounds with a form and without
alternate; of {num_rounds} ratios of seconds a token the median counts. "auto" is the default: guidance is asked first
for a regex, and xgrammar for the others. guidance walks through the tokens that a regex of words allows in each step,
which takes 14 us a stream and cannot be kept.

{facts}

Again: `python benchmarks/bench_structured.py --write`
"""


def time_round(engine: Any, form: Any, lengths: Sequence[int]) -> tuple[float, float, list[int]]:
    """Seconds, by the clock and of the processor, for each thousand tokens; and the tokens of each stream.

    lengths: how many tokens the streams have at most, and exactly if there is no form.
    """
    from mini_vllm import SamplingParams

    for i, length in enumerate(lengths):
        params = SamplingParams(temperature=1.0, seed=i, max_tokens=length, ignore_eos=form is None, structured=form)
        engine.add_request(str(i), f"{i}: {PROMPT}", params)
    found, start, cpu = {}, time.perf_counter(), time.process_time()
    while engine.has_unfinished_requests():
        found |= {output.request_id: len(output.outputs[0].token_ids) for output in engine.step() if output.finished}
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    num_tokens = sum(found.values())
    assert num_tokens > 0.5 * NUM_STREAMS * NUM_TOKENS
    return 1000 * wall / num_tokens, 1000 * cpu / num_tokens, [found[str(i)] for i in range(len(lengths))]


def cost_table(num_rounds: int) -> str:
    """Seconds by form and back end, beside those without a form."""
    import torch

    from mini_vllm.config import EngineConfig
    from mini_vllm.engine.llm_engine import LLMEngine

    torch.set_num_threads(1)
    engines = {
        name: LLMEngine(EngineConfig("tiny", device="cpu", num_kv_blocks=3000, structured_outputs_backend=name))
        for name in ("auto", "xgrammar", "guidance")
    }
    lines = ["| back end | form | tokens/s | beside no form | CPU beside no form |", "|---|---|---|---|---|"]
    jobs = [(backend, form) for backend in engines for form in FORMS if FORMS[form] is not None]
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {job: [] for job in jobs}
    lengths = {
        (backend, form): time_round(engines[backend], FORMS[form], [NUM_TOKENS] * NUM_STREAMS)[2]  # it compiles
        for backend, form in jobs
    }
    for number in range(num_rounds):
        for job in jobs:
            forms = (None, FORMS[job[1]]) if number % 2 else (FORMS[job[1]], None)
            one, other = (time_round(engines[job[0]], form, lengths[job]) for form in forms)
            plain, mine = (one, other) if number % 2 else (other, one)
            assert plain[2] == mine[2] == lengths[job]
            found[job].append((1000 / mine[0], mine[0] / plain[0] - 1, mine[1] / plain[1] - 1))
    for (backend, form), rounds in found.items():
        speed, wall, cpu = (statistics.median(each[i] for each in rounds) for i in range(3))
        lines.append(f"| {backend} | {form} | {speed:,.0f} | {wall:+.1%} | {cpu:+.1%} |")
    for engine in engines.values():
        engine.shutdown()
    return "\n".join(lines)


# --- a live server ----------------------------------------------------------------------------------------------------


def bomb(number: int) -> dict[str, Any]:
    """A schema that takes xgrammar more than 5 seconds or 2 GiB, each time another one."""
    return {"type": "object", "properties": {f"p{number}-{i}": {"type": "string"} for i in range(700)}}


async def post(port: int, path: str, body: Any) -> bytes:
    """The answer to a request, head and all."""
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(data) + data)
    answer = await reader.read()
    writer.close()
    return answer


async def gaps_of_stream(port: int, number: int, found: list[float]) -> None:
    """Note the seconds between the chunks of one stream."""
    body = {"prompt": f"{number}: {PROMPT}", "max_tokens": 900, "stream": True, "ignore_eos": True}
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(data) + data)
    last = None
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            now = time.perf_counter()
            found += [] if last is None else [now - last]
            last = now
    writer.close()


async def beside(port: int, work: Any) -> tuple[float, float, Any]:
    """The 99th percentiles, in ms, of the gaps of 8 streams and of /health, until some work is done; what it gave."""
    health: list[float] = []
    gaps: list[float] = []
    is_over = asyncio.Event()

    async def ask_health() -> None:
        while not is_over.is_set():
            start = time.perf_counter()
            assert b" 200 " in (await post(port, "/health", None))[:40]
            health.append(time.perf_counter() - start)
            await asyncio.sleep(0.02)

    async def stream(number: int) -> None:
        while not is_over.is_set():
            await gaps_of_stream(port, number, gaps)

    tasks = [asyncio.create_task(each) for each in (ask_health(), *map(stream, range(8)))]
    result = await work
    is_over.set()
    await asyncio.gather(*tasks)
    itl, answer = (1000 * sorted(each)[int(0.99 * len(each))] for each in (gaps, health))
    return itl, answer, result


async def send_bombs(port: int, num_bombs: int) -> int:
    """How many of them are refused."""
    num_refused = 0
    for number in range(num_bombs):
        form = {"type": "json_schema", "json_schema": {"name": "bomb", "schema": bomb(number)}}
        answer = await post(port, "/v1/completions", {"prompt": "A", "max_tokens": 5, "response_format": form})
        num_refused += b" 400 " in answer[:40]
    return num_refused


def bomb_table() -> str:
    """Streams and /health, alone and beside schemas that are slow to compile."""
    lines = ["| beside | p99 of ITL, ms | p99 of /health, ms | refused |", "|---|---|---|---|"]
    server = Server("--structured-outputs-backend=xgrammar")
    try:
        asyncio.run(beside(server.port, asyncio.sleep(3)))
        for name, num_bombs in (("nothing", 0), ("5 schemas, one after the other", 5)):
            work = send_bombs(server.port, num_bombs) if num_bombs else asyncio.sleep(20, 0)
            itl, health, num_refused = asyncio.run(beside(server.port, work))
            lines.append(f"| {name} | {itl:.1f} | {health:.1f} | {num_refused} |")
    finally:
        server.end()
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    args = parser.parse_args()
    facts = f"{datetime.date.today()}, {machine()}, Python {platform.python_version()}"
    head = HEAD.format(num_streams=NUM_STREAMS, num_tokens=NUM_TOKENS, num_rounds=args.rounds, facts=facts)
    text = f"{head}\n{cost_table(args.rounds)}\n\n## Beside schemas that are slow to compile\n\n{bomb_table()}\n"
    print(text)
    if args.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
