"""Where a compiled model pays, and where it loses: the forward of steps of 1 to 512 tokens, beside the eager one.

    python benchmarks/bench_compiled.py [--models tiny wide] [--threads N] [--rounds N] [--results DIR]

Two models: the bundled one, and four layers of Qwen3-0.6B's shape with random weights, both float32 on a CPU. Attention
is the same operator in both, and here it gives zeros, so what is compared is what the compiler sees. The two take
turns in one process, and the figure is the ratio of their fastest turns: on a busy machine absolute figures mean
little. Writes results/compiled.md with the seconds that compiling took, first and with inductor's cache on disk.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NUM_TOKENS = (1, 2, 8, 32, 128, 512)
LAYERS = 4


def make_checkpoint(folder: Path) -> Path:
    """Four layers of Qwen3-0.6B's shape with a small vocabulary, random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=2048,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=LAYERS,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def measure(path: str, rounds: int) -> dict[str, Any]:
    """Seconds of compiling, and by number of tokens the fastest turn of each."""
    import torch

    from mini_vllm.models.checkpoint import load_hf_config, resolve_model
    from mini_vllm.models.registry import load_model
    from mini_vllm.worker.compiled import CompiledModel
    from mini_vllm.worker.compiled.attention import no_attention

    cpu, folder = torch.device("cpu"), resolve_model(path)
    model = load_model(folder, load_hf_config(folder), dtype=torch.float32, device=cpu)
    compiled = CompiledModel(model, "inductor")
    started = time.perf_counter()
    compiled.compile(cpu)
    report: dict[str, Any] = {"compile_s": time.perf_counter() - started, "turns": {}}
    with torch.inference_mode():
        for n in NUM_TOKENS:
            input_ids, positions = torch.arange(n) % 1000, torch.arange(n)
            fastest = {}
            for _ in range(rounds):
                for name, each in (("eager", model), ("compiled", compiled)):
                    started = time.perf_counter()
                    each.forward(input_ids, positions, no_attention)
                    fastest[name] = min(fastest.get(name, 9e9), time.perf_counter() - started)
            report["turns"][n] = fastest
    return report


def in_process(path: str, args: argparse.Namespace, cache: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", path, "--rounds", str(args.rounds)]
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads), "TORCHINDUCTOR_CACHE_DIR": cache}
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    report: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return report


def verdict(ratios: dict[str, float]) -> str:
    """In one sentence, from the figures."""
    losing = [n for n, ratio in ratios.items() if ratio > 1.02]
    return f"compiled loses at {', '.join(losing)} tokens" if losing else "compiled loses nowhere"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tiny", "wide"], choices=["tiny", "wide"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child, args.rounds)))
        return
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            path = name if name == "tiny" else str(make_checkpoint(Path(folder) / "wide"))
            lines += compare(name, path, args, f"{folder}/cache")
            write(lines, args)  # what is known, should the next model take too long


def compare(name: str, path: str, args: argparse.Namespace, cache: str) -> list[str]:
    """The lines of a model: two processes, of which the second one finds the cache."""
    first, again = (in_process(path, args, cache) for _ in range(2))
    pairs = [{n: t["compiled"] / t["eager"] for n, t in each["turns"].items()} for each in (first, again)]
    ratios = {n: min(pair[n] for pair in pairs) for n in pairs[0]}
    title = {"tiny": "The bundled model", "wide": f"{LAYERS} layers of Qwen3-0.6B's shape"}[name]
    lines = [
        f"**{title}**: compiled in {first['compile_s']:.0f} s, with the cache on disk in {again['compile_s']:.0f} s; "
        f"{verdict(ratios)}.",
        "",
        "| tokens | eager, ms | compiled, ms | compiled / eager | in a second process |",
        "|---|---|---|---|---|",
    ]
    for n, turn in first["turns"].items():
        eager, fast = turn["eager"] * 1e3, turn["compiled"] * 1e3
        lines.append(f"| {n} | {eager:.2f} | {fast:.2f} | {pairs[0][n]:.2f} | {pairs[1][n]:.2f} |")
    return [*lines, ""]


def write(lines: list[str], args: argparse.Namespace) -> None:
    machine = f"{platform.machine()}, Python {platform.python_version()}, float32, {args.threads} threads"
    text = [
        "# A compiled model beside the eager one",
        "",
        f"{date.today()}, {machine}, fastest of {args.rounds} turns each. Attention gives zeros in both.",
        "",
        f"    python benchmarks/bench_compiled.py {' '.join(sys.argv[1:])}",
        "",
        *lines,
    ]
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "compiled.md").write_text("\n".join(text))
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
