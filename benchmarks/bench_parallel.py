"""What ranks cost: two processes of one thread beside one of two, the bytes of a sum, and the rungs of experts.

    python benchmarks/bench_parallel.py [--rounds N] [--small] [--only engines sums experts] [--results DIR]

engines  a dense model and a mixture of experts with random weights, float32 on a CPU, 8 greedy requests at once: one
         process of two threads, two processes of one thread that cut every layer, and for the mixture two processes
         with half of the experts each. They take turns; the figure is the ratio of output tokens per second.
sums     what an all-reduce and expert parallelism's combine send, as the loopback device counts it, beside the formula
         of the chapter: 2 (R - 1) / R of the tensor for each of R ranks. All traffic of the machine counts, so large
         tensors are sent many times.
experts  a layer of 64 experts of which a token takes 8, hidden size 1024, intermediate size 512, float32 and bfloat16:
         each rung, and the same layer in transformers with grouped_mm, at 8, 64 and 512 tokens.
         The Triton rung is left out: interpreted, its time means nothing.

--small is for a look at the script alone: its figures mean nothing. Writes results/parallel.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PARTS = ("engines", "sums", "experts")
NUM_TOKENS = (8, 64, 512)
CLOSE = {"float32": {"atol": 1e-4, "rtol": 1e-3}, "bfloat16": {"atol": 1e-2, "rtol": 5e-2}}
SPREAD = {"tensor_parallel_size": 2, "enable_expert_parallel": True}
ENGINES: dict[str, list[tuple[str, int, dict[str, Any]]]] = {  # by model: name, threads, options; the first is the peer
    "dense": [("1 process of 2 threads", 2, {}), ("2 processes of 1 thread", 2, {"tensor_parallel_size": 2})],
    "experts": [
        ("1 process of 2 threads", 2, {}),
        ("2 processes, each expert cut", 2, {"tensor_parallel_size": 2}),
        ("2 processes, half of the experts each", 2, SPREAD),
    ],
}


def make_checkpoint(folder: Path, name: str, is_small: bool) -> Path:
    """A random Qwen3 of a few layers, dense or with 32 experts of which a token takes 4; or a layer of more experts."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    hidden, number, top_k, inner, num_layers = (512, 32, 4, 512, 4) if name != "layer" else (1024, 64, 8, 512, 1)
    if is_small:
        hidden, inner = 64, 64
    sizes = {
        "vocab_size": 2048, "hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": num_layers,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": hidden // 8,
    }  # fmt: skip
    if name == "dense":
        Qwen3ForCausalLM(Qwen3Config(**sizes)).save_pretrained(folder)
    else:
        experts = {"num_experts": number, "num_experts_per_tok": top_k, "moe_intermediate_size": inner}
        Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **experts, norm_topk_prob=True)).save_pretrained(folder)
    return folder


# --- engines ----------------------------------------------------------------------------------------------------------


def measure_engine(path: str, num_threads: int, options: dict[str, Any], num_output: int) -> float:
    """The child: output tokens per second of 8 requests at once, after a warm-up."""
    import torch

    from mini_vllm import LLM, SamplingParams

    torch.set_num_threads(num_threads)
    llm = LLM(path, dtype="float32", device="cpu", num_kv_blocks=256, max_model_len=512, **options)
    prompts = [list(range(i, i + 64)) for i in range(8)]
    params = SamplingParams(temperature=0, max_tokens=num_output, ignore_eos=True)
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=2, ignore_eos=True), use_progress=False)
    started = time.perf_counter()
    llm.generate(prompts, params, use_progress=False)
    seconds = time.perf_counter() - started
    llm.engine.shutdown()
    return len(prompts) * num_output / seconds


def engines(args: argparse.Namespace, folder: Path) -> list[str]:
    lines = ["| model | engine | output tokens/s, median | by the first |", "|---|---|---|---|"]
    for model, rows in ENGINES.items():
        path = make_checkpoint(folder / model, model, args.small)
        found: dict[str, list[float]] = {name: [] for name, *_ in rows}
        for _ in range(args.rounds):
            for name, num_threads, options in rows:
                task = json.dumps([str(path), num_threads, options, 4 if args.small else 64])
                found[name].append(float(child("engine", task)))
        ratios = {
            name: median(a / b for a, b in zip(each, found[rows[0][0]], strict=True)) for name, each in found.items()
        }
        lines += [f"| {model} | {name} | {median(each):.1f} | {ratios[name]:.2f} |" for name, each in found.items()]
    return lines


# --- sums -------------------------------------------------------------------------------------------------------------


class Summing:
    """What a rank does here: sums of a tensor of so many rows."""

    def __init__(self, rank: int, size: int, meeting: str) -> None:
        import torch

        from mini_vllm.parallel.comm import GroupCommunicator
        from mini_vllm.parallel.experts.shard import ExpertShard

        torch.set_num_threads(1)
        self.communicator = GroupCommunicator(rank, size, meeting, torch.device("cpu"))
        self.shard = ExpertShard(rank, size, self.communicator)

    def meet(self) -> None:
        self.communicator.meet()

    def sum(self, kind: str, rows: int, columns: int, times: int) -> float:
        """Seconds of one, on average."""
        import torch

        x = torch.ones(rows, columns)
        call: Callable[[Any], Any] = self.communicator.all_reduce if kind == "all-reduce" else self.shard.combine
        call(x.clone())
        started = time.perf_counter()
        for _ in range(times):
            call(x)
        return (time.perf_counter() - started) / times


def rank_main(rank: Any, pipe: Connection) -> None:
    from mini_vllm.parallel.member import serve

    serve(rank, Summing(rank.rank, rank.size, rank.meeting), pipe)


def loopback_bytes() -> int:
    """What the loopback device has sent so far."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == "lo":
            return int(figures.split()[8])
    raise SystemExit("there is no loopback device to count on")


def sums(args: argparse.Namespace, folder: Path) -> list[str]:
    from mini_vllm.parallel.group import RankGroup

    lines = [
        "| ranks | sum of [512, 4096] float32 | bytes sent, MiB | formula, MiB | ratio | ms |",
        "|---|---|---|---|---|---|",
    ]
    rows, columns, times = (512, 4096, 2 if args.small else 40)
    for size in (2, 4):
        meeting = folder / f"meeting-{size}"
        group = RankGroup(size, str(meeting), rank_main)
        group.ask("meet")
        group.unlink()
        for kind in ("all-reduce", "combine"):
            group.ask("sum", kind, rows, columns, 1)
            before = loopback_bytes()
            seconds = max(group.ask("sum", kind, rows, columns, times))
            sent = (loopback_bytes() - before) / (times + 1)
            formula = size * 2 * (size - 1) / size * rows * columns * 4
            sizes = f"{sent / 2**20:.2f} | {formula / 2**20:.2f} | {sent / formula:.3f}"
            lines.append(f"| {size} | {kind} | {sizes} | {seconds * 1e3:.1f} |")
        group.close()
    return lines


# --- experts ----------------------------------------------------------------------------------------------------------


def measure_experts(path: str, dtype_name: str, rounds: int) -> dict[str, dict[str, float]]:
    """The child: by number of tokens the median seconds of each rung and of transformers, in turns, on one thread."""
    import torch
    import torch.nn.functional as F
    from transformers import AutoModelForCausalLM

    from mini_vllm.models.checkpoint import load_hf_config
    from mini_vllm.models.moe.experts import RUNGS, finalise
    from mini_vllm.models.registry import load_model

    torch.set_num_threads(1)
    folder = Path(path)
    dtype = getattr(torch, dtype_name)
    model = load_model(folder, load_hf_config(folder), dtype=dtype, device=torch.device("cpu"))
    block: Any = model.layers[0].mlp
    peer = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, experts_implementation="grouped_mm")
    theirs = peer.model.layers[0].mlp
    names = [name for name in RUNGS if name != "triton" and (name == "loop" or hasattr(F, "grouped_mm"))]

    def run(name: str, x: torch.Tensor) -> torch.Tensor:
        if name == "transformers":
            return theirs(x[None])[0]
        weights, chosen = block.router(x)
        return finalise(RUNGS[name](x, chosen, block.gate_up, block.down), weights)

    found: dict[str, dict[str, float]] = {}
    with torch.inference_mode():
        for n in NUM_TOKENS:
            x = torch.randn(n, model.hidden_size, dtype=dtype)
            turns: dict[str, list[float]] = {name: [] for name in (*names, "transformers")}
            wanted = run("transformers", x)
            for name in names:
                torch.testing.assert_close(run(name, x).float(), wanted.float(), **CLOSE[dtype_name])
            for _ in range(rounds):
                for name, each in turns.items():
                    started = time.perf_counter()
                    run(name, x)
                    each.append(time.perf_counter() - started)
            found[str(n)] = {name: median(each) for name, each in turns.items()}
    return found


def experts(args: argparse.Namespace, folder: Path) -> list[str]:
    path, lines = make_checkpoint(folder / "layer", "layer", args.small), []
    for dtype_name in CLOSE:
        task = [str(path), dtype_name, 3 if args.small else 10 * args.rounds]
        found = json.loads(child("experts", json.dumps(task)))
        names = [name for name in next(iter(found.values())) if name != "transformers"]
        if not lines:
            columns = " | ".join(f"{name}, ms | by transformers" for name in names)
            lines = [
                f"| dtype | tokens | transformers, ms | {columns} |",
                f"|---|---|---|{'---|---|' * len(names)}",
            ]
        for n, each in found.items():
            peer = each["transformers"]
            rungs = " | ".join(f"{each[name] * 1e3:.2f} | {each[name] / peer:.2f}" for name in names)
            lines.append(f"| {dtype_name} | {n} | {peer * 1e3:.2f} | {rungs} |")
    return lines


# --- all of it --------------------------------------------------------------------------------------------------------


def child(kind: str, task: str) -> str:
    """The last line of a process of its own."""
    command = [sys.executable, __file__, "--child", kind, task]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"{kind} {task}:\n{found.stderr}")
    return found.stdout.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        measure: Callable[..., Any] = measure_engine if args.child[0] == "engine" else measure_experts
        print(json.dumps(measure(*json.loads(args.child[1]))))
        return
    titles = {"engines": "Engines", "sums": "Bytes of a sum", "experts": "A layer of experts, one thread"}
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    text = ["# What ranks cost", "", f"{date.today()}, {machine}.", ""]
    text += [f"    python benchmarks/bench_parallel.py {' '.join(sys.argv[1:])}", ""]
    with tempfile.TemporaryDirectory() as folder:
        for part in args.only:
            lines = {"engines": engines, "sums": sums, "experts": experts}[part](args, Path(folder))
            text += [f"## {titles[part]}", "", *lines, ""]
            print("\n".join(text[-len(lines) - 3 :]), flush=True)
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "parallel.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
