#!/usr/bin/env python3
"""What the server costs: tokens per second of 32 streams through HTTP, beside the same work on the bare engine.

    python benchmarks/bench_serving.py                  print the tables
    python benchmarks/bench_serving.py --write          and into results/serving.md
    ... --transformers PYTHON                           with `transformers serve`, run by that interpreter

The bundled model, so the engine is as fast as it can be and the server as dear as it can be: a step takes a few
milliseconds. One torch thread on both sides. The client is a process of its own on raw sockets, and runs on the same
cores: what it costs is in the figure. Rounds take turns; the median counts. `transformers serve --continuous-batching`
needs transformers[serving] and accelerate.
"""

import argparse
import asyncio
import datetime
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_scheduler import ROOT, machine

MODEL = ROOT / "mini_vllm" / "models" / "tiny"
NEVER = 2047  # a token that the model does not choose
RESULT = ROOT / "benchmarks" / "results" / "serving.md"
NUM_STREAMS, NUM_TOKENS = 32, 256
STREAMS = (1, 4, 16, 64, 256)  # of the second table
PROMPT = "A KV block is a fixed-size piece of the KV cache that holds the keys and values of some tokens. "
OPTIONS = {"num_kv_blocks": 6000, "max_num_seqs": 256, "max_model_len": 1024}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}

HEAD = """# Cost of serving

{num_streams} streams of {num_tokens} tokens each with the bundled model: through HTTP, with the engine in a process
of its own, beside the same requests on the bare `LLMEngine`. One torch thread on both sides. The client reads raw
sockets in a process of its own on the same cores. Rounds take turns; of {num_rounds} the median counts, of ratios
within a round, too.

{facts}

Again: `python benchmarks/bench_serving.py --write`
"""


# --- the bare engine --------------------------------------------------------------------------------------------------


def bare() -> None:
    """Serve rounds on stdin: a line asks for one, and its tokens per second are printed."""
    import torch

    from mini_vllm import SamplingParams
    from mini_vllm.config import EngineConfig
    from mini_vllm.engine.llm_engine import LLMEngine

    torch.set_num_threads(1)
    engine = LLMEngine(EngineConfig("tiny", device="cpu", **OPTIONS))
    params = SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True, output_kind="delta")
    for round_number, _ in enumerate(sys.stdin):
        start, num_tokens = time.perf_counter(), 0
        for i in range(NUM_STREAMS):
            engine.add_request(f"{round_number}-{i}", f"{i}: {PROMPT}", params)
        while engine.has_unfinished_requests():
            num_tokens += sum(len(choice.token_ids) for output in engine.step() for choice in output.outputs)
        print(num_tokens / (time.perf_counter() - start), flush=True)


# --- the client -------------------------------------------------------------------------------------------------------


def fields_for(server: str, num_tokens: int) -> dict[str, Any]:
    """How a server is told to go on to the last of the tokens."""
    if server == "mini_vllm":
        return {"ignore_eos": True}
    generation = {"max_new_tokens": num_tokens, "do_sample": False, "eos_token_id": [NEVER]}
    return {"model": str(MODEL), "generation_config": json.dumps(generation)}


async def read_stream(server: str, port: int, number: int, num_tokens: int) -> None:
    """One stream of completions on a raw socket, to its end."""
    body: dict[str, Any] = {"prompt": f"{number}: {PROMPT}", "max_tokens": num_tokens, "stream": True, "temperature": 0}
    data = json.dumps(body | fields_for(server, num_tokens)).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(data) + data)
    end = b""
    while chunk := await reader.read(1 << 16):
        end = (end + chunk)[-1000:]
    writer.close()
    assert b'"finish_reason":"length"' in end, end


def client() -> None:
    """Serve rounds on stdin: a line of "server port streams tokens"; prints the seconds that they took."""
    for line in sys.stdin:
        server, *numbers = line.split()
        print(asyncio.run(read_streams(server, *map(int, numbers))), flush=True)


async def read_streams(server: str, port: int, num_streams: int, num_tokens: int) -> float:
    """Streams at once; the seconds to the end of the last."""
    start = time.perf_counter()
    await asyncio.gather(*(read_stream(server, port, i, num_tokens) for i in range(num_streams)))
    return time.perf_counter() - start


# --- rounds -----------------------------------------------------------------------------------------------------------


class Helper:
    """A process that answers a line with a line."""

    def __init__(self, role: str) -> None:
        command = [sys.executable, __file__, "--role", role]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    def ask(self, line: str = "") -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Server:
    """`mini-vllm serve`."""

    def __init__(self, *more: str) -> None:
        options = [*(f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()), *more]
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from mini_vllm.cli import main; main()", "serve", "--port=0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # its log, a line for each request
            text=True,
            env=ENVIRONMENT,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "is served at" in line:
                self.port = int(line.rpartition(":")[2].partition("/")[0])
                return
        raise SystemExit("the server has not started")

    def cpu_seconds(self) -> float:
        """Of the front process, its threads included and the engine's process not."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class TransformersServer:
    """`transformers serve --continuous-batching`."""

    def __init__(self, python: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        run = "from transformers.cli.transformers import main; main()"
        options = ["--continuous-batching", "--device=cpu", "--dtype=float32", f"--port={self.port}"]
        self.process = subprocess.Popen(
            [python, "-c", run, "serve", str(MODEL), *options], env=ENVIRONMENT, stderr=subprocess.DEVNULL
        )
        while self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.2)
        raise SystemExit("transformers serve has not started")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def page(num_rounds: int, python: str | None) -> Iterator[str]:
    """The result page."""
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}"
    yield HEAD.format(num_streams=NUM_STREAMS, num_tokens=NUM_TOKENS, num_rounds=num_rounds, facts=facts)
    engine, reader, server = Helper("bare"), Helper("client"), Server()
    peer = TransformersServer(python) if python else None
    try:
        work = f"{NUM_STREAMS} {NUM_TOKENS}"
        rounds: dict[str, Callable[[], float]] = {
            "bare engine": engine.ask,
            "server and client": lambda: NUM_STREAMS * NUM_TOKENS / reader.ask(f"mini_vllm {server.port} {work}"),
        }
        if peer:
            ask = f"transformers {peer.port} {work}"
            rounds["transformers serve and client"] = lambda: NUM_STREAMS * NUM_TOKENS / reader.ask(ask)
        speeds: dict[str, list[float]] = {name: [] for name in rounds}
        for number in range(num_rounds + 1):
            for name, ask_for in rounds.items():
                speed = ask_for()
                speeds[name] += [speed] if number else []  # the first round warms up
        yield "| | tokens/s | beside the bare engine |\n|---|---:|---:|\n"
        for name, found in speeds.items():
            share = statistics.median(each / alone for each, alone in zip(found, speeds["bare engine"], strict=True))
            yield f"| {name} | {statistics.median(found):,.0f} | {share:.2f} |\n"
        yield "\nCPU time of the front process, which reads and writes text, for each token:\n\n"
        yield "| streams | µs a token |\n|---:|---:|\n"
        for num_streams in STREAMS:
            costs = []
            for _ in range(num_rounds):
                before, num_tokens = server.cpu_seconds(), min(512, max(64, 4096 // num_streams))
                reader.ask(f"mini_vllm {server.port} {num_streams} {num_tokens}")
                costs.append((server.cpu_seconds() - before) / (num_streams * num_tokens) * 1e6)
            yield f"| {num_streams} | {statistics.median(costs):.0f} |\n"
    finally:
        for each in filter(None, (engine, reader, server, peer)):
            each.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=("bare", "client"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--transformers", metavar="PYTHON")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.role:
        {"bare": bare, "client": client}[options.role]()
        return
    text = ""
    for part in page(options.rounds, options.transformers):
        print(part, end="", flush=True)
        text += part
    if options.write:
        RESULT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
