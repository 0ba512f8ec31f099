"""A trace through the replicas of a server: how much of the prompts is found, by prefix and in turn.

By prefix: `mini-vllm serve --data-parallel-size N`. In turn: N servers of one engine each, asked one after the other.
Each has the same KV cache. Beside both stands what the simulator's fleet finds for the same trace, with its routings
prefix_aware and round_robin. Counted are prompt tokens that a server says it has found, so the machine's speed is in no
figure; how long the trace took is printed, and is of this machine.

File: conversation_trace.jsonl of github.com/kvcache-ai/Mooncake (Qin et al., FAST 2025), in which a block of 512 tokens
becomes one of 16: the bundled model has a context of 2,048 tokens. Longer prompts are left out. Without the file:
conversations at random.
    python benchmarks/bench_replicas.py --mooncake FILE
"""

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench_eviction import conversations
from mini_vllm.load.workload import HASH_BLOCK_SIZE, TraceRequest, read_file
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.step_time import StepTimeModel

SERVE = [sys.executable, "-c", "from mini_vllm.cli import main; main()", "serve", "--port", "0"]
BLOCK = 16  # tokens of a block of the server
MAX_BLOCKS = 120  # of a prompt
STEPS = StepTimeModel((1.0, 0, 0, 0, 0, 0))


def token_ids(spec: TraceRequest) -> list[int]:
    """Equal hash ids are equal tokens; the last token makes the last block no full one."""
    ids = []
    for hash_id in spec.hash_ids[: spec.input_length // HASH_BLOCK_SIZE]:
        ids += Random(hash_id).choices(range(500, 2000), k=BLOCK)
    return [*ids, 499]


def ask(url: str, spec: TraceRequest) -> tuple[int, int]:
    """How many tokens the prompt has, and how many of them were found."""
    body = {"model": "tiny", "prompt": token_ids(spec), "max_tokens": 4, "ignore_eos": True}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        usage = json.load(answer)["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


class Servers:
    """`with Servers(number, options)` starts them and waits until all are ready; urls: where they listen."""

    def __init__(self, number: int, options: Sequence[str]) -> None:
        self.number, self.options = number, options
        self.urls: list[str] = []

    def __enter__(self) -> "Servers":
        self._stack = ExitStack()
        for _ in range(self.number):
            process = subprocess.Popen(
                [*SERVE, *self.options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._stack.callback(process.wait, 60)
            self._stack.callback(process.terminate)
            assert process.stdout is not None
            line = next((line for line in process.stdout if "is served at" in line), None)
            if line is None:
                self._stack.close()
                raise RuntimeError(f"the server has ended with status {process.wait()}")
            self.urls.append(line.split("is served at ")[1].split("/v1")[0].strip())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def run(urls: Sequence[str], trace: Sequence[TraceRequest], num_clients: int) -> str:
    """The found share, of requests in turn among the servers."""
    start = time.monotonic()
    with ThreadPoolExecutor(num_clients) as pool:
        found = list(pool.map(lambda job: ask(urls[job[0] % len(urls)], job[1]), enumerate(trace)))
    seconds = time.monotonic() - start
    num_prompt, num_cached = map(sum, zip(*found, strict=True))
    return f"{num_cached:,} of {num_prompt:,} prompt tokens found, {num_cached / num_prompt:.1%} ({seconds:.0f} s)"


def simulated(routing: str, arguments: argparse.Namespace, trace: Sequence[TraceRequest]) -> str:
    """One request after the other, as with one client."""
    engine = {"block_size": HASH_BLOCK_SIZE, "num_blocks": arguments.blocks, "max_num_seqs": 64}
    engine |= {"max_num_batched_tokens": HASH_BLOCK_SIZE * 512, "max_model_len": HASH_BLOCK_SIZE * 512}
    spaced = [
        spec._replace(
            arrival_time=1e4 * i,
            output_length=1,
            input_length=spec.input_length // HASH_BLOCK_SIZE * HASH_BLOCK_SIZE + 1,
        )
        for i, spec in enumerate(trace)
    ]
    report = simulate(spaced, engine, STEPS, num_replicas=arguments.replicas, routing=routing).report
    found = report["prefix_hits"] * BLOCK // HASH_BLOCK_SIZE
    return f"{found:,} prompt tokens found; requests per replica {report['requests_per_replica']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mooncake", type=Path, help="without it: conversations at random")
    parser.add_argument("--requests", type=int, default=300, help="only the first of them")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=1_000, help="KV blocks of each engine")
    parser.add_argument("--clients", type=int, default=1, help="that ask at once; the simulated ones are one")
    arguments = parser.parse_args()
    source = read_file(arguments.mooncake) if arguments.mooncake else conversations(arguments.requests)
    trace = [spec for spec in islice(source, arguments.requests) if len(spec.hash_ids) <= MAX_BLOCKS]
    print(
        f"{len(trace)} of {arguments.requests} requests, {arguments.replicas} replicas of {arguments.blocks:,} blocks"
    )
    options = ["--num-kv-blocks", str(arguments.blocks), "--block-size", str(BLOCK)]
    with Servers(1, [*options, "--data-parallel-size", str(arguments.replicas)]) as servers:
        print("by prefix, real:     ", run(servers.urls, trace, arguments.clients), flush=True)
    print("by prefix, simulated:", simulated("prefix_aware", arguments, trace), flush=True)
    with Servers(arguments.replicas, options) as servers:
        print("in turn, real:       ", run(servers.urls, trace, arguments.clients), flush=True)
    print("in turn, simulated:  ", simulated("round_robin", arguments, trace), flush=True)


if __name__ == "__main__":
    main()
