"""What recorded forwards, one step ahead and a compiled model bring, mode by mode.

    python benchmarks/bench_graphs.py [--device cuda] [--results DIR] [--only MODE ...]
    python benchmarks/bench_graphs.py --dry-run

The work is that of bench_engine.py --device cuda: nano-vllm's 256 requests over a checkpoint with Qwen3-0.6B's shape.
Each row is a process of its own: load, record, a short warm-up, then all requests for output tokens per second, then
decode steps of all requests at once: how long one takes, and how much of that the GPU works. What does not fit into
--budget seconds is left out, and the report says so; the rows that matter most come first. A dry run has the bundled
model on a CPU: its figures mean nothing, and that it ends is the test.
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
from typing import Any, NamedTuple

import engine_common
import engine_cuda
from engine_common import ROOT, Turn


class Row(NamedTuple):
    """A way to run the engine."""

    mode: str
    is_ahead: bool
    is_eager: bool = True

    @property
    def name(self) -> str:
        return f"{self.mode}{', one step ahead' if self.is_ahead else ''}{'' if self.is_eager else ', compiled'}"

    @property
    def options(self) -> dict[str, Any]:
        return {"cudagraph_mode": self.mode, "async_scheduling": self.is_ahead, "enforce_eager": self.is_eager}


ROWS = (
    Row("full_and_piecewise", True),
    Row("none", False),
    Row("full_decode_only", True),
    Row("none", True),
    Row("full_and_piecewise", False),
    Row("piecewise", True),
    Row("full_and_piecewise", True, is_eager=False),
    Row("none", False, is_eager=False),
    Row("full_decode_only", False),
    Row("piecewise", False),
    Row("full", True),
    Row("full", False),
)
ROW_SECONDS = 100.0  # at most


def measure(args: argparse.Namespace) -> Turn:
    """The child: one row."""
    from mini_vllm import EngineConfig, LLMEngine

    row = ROWS[args.row]
    started = time.perf_counter()
    engine = LLMEngine(
        EngineConfig(
            str(args.checkpoint),
            dtype="float32" if args.dry_run else "bfloat16",
            device="cpu" if args.dry_run else args.device,
            num_kv_blocks=256 if args.dry_run else None,
            max_model_len=128 if args.dry_run else engine_cuda.MAX_MODEL_LEN,
            enable_prefix_caching=False,
            **engine_cuda.limits(args) | ({"max_num_seqs": 8} if args.dry_run else {}),
            **row.options,
        )
    )
    ready = time.perf_counter() - started
    engine_common.run_mini_vllm(engine, engine_cuda.warm_up(args), 0.0)
    requests = engine_cuda.workload(args)
    started = time.perf_counter()
    num_tokens = engine_common.run_mini_vllm(engine, requests, 0.0)
    turn: Turn = {"start_s": ready, "tok_s": num_tokens / (time.perf_counter() - started)}
    print("\n" + json.dumps(turn), flush=True)
    engine_cuda.add_requests(engine, requests, 0.0)
    while (
        any(r.num_computed_tokens < r.num_prompt_tokens for r in engine.scheduler.running) or engine.scheduler.waiting
    ):
        engine.step()
    num_steps = 3 if args.dry_run else engine_cuda.NUM_DECODE_STEPS
    return turn | engine_cuda.measure_phase(args, engine, num_steps)


def run_row(args: argparse.Namespace, number: int, deadline: float) -> Turn | str:
    """What a row's process says, or why there is nothing."""
    timeout = min(ROW_SECONDS, deadline - time.perf_counter())
    if timeout < 30:
        return "left out: no time"
    command = [
        sys.executable, __file__, "--row", str(number), "--checkpoint", str(args.checkpoint), "--device", args.device,
        "--requests", str(args.requests), *(["--dry-run"] if args.dry_run else []),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        why = "stopped"
        try:
            status = subprocess.run(command, env=environment, stdout=output, stderr=errors, timeout=timeout).returncode
            errors.seek(0)
            if status:
                why = (errors.read().strip().splitlines() or ["failed"])[-1][:160]
        except subprocess.TimeoutExpired:
            why = f"stopped after {timeout:.0f} s"
        output.seek(0)
        reports = [line for line in output if line.startswith('{"')]
    return json.loads(reports[-1]) if reports else why


def line_of(row: Row, turn: Turn | str) -> str:
    if isinstance(turn, str):
        return f"| {row.name} | {turn} | | | | | |"
    decode = ["", "", "", ""]
    if "step_s" in turn:
        step, busy = turn["step_s"], turn["busy_s"]
        waits = f"{max(0.0, 1 - busy / step):.0%}"
        decode = [f"{step * 1e3:.2f}", f"{busy * 1e3:.2f}", waits, f"{turn['launches']:.0f}"]
    return f"| {row.name} | {turn['start_s']:.0f} | {turn['tok_s']:,.0f} | {' | '.join(decode)} |"


def describe() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"a CPU, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--checkpoint", type=Path, default=Path(tempfile.gettempdir()) / "qwen3-0.6b-random")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--budget", type=float, default=540.0)
    parser.add_argument("--only", nargs="*", help="modes")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if args.dry_run:
        args.checkpoint, args.requests = ROOT / "mini_vllm" / "models" / "tiny", 8
    if args.row is not None:
        print("\n" + json.dumps(measure(args)), flush=True)
        return
    deadline = time.perf_counter() + args.budget
    if not args.dry_run:
        engine_common.make_checkpoint(args.checkpoint)
    lines = []
    for number, row in enumerate(ROWS):
        if args.only is None or row.mode in args.only:
            lines.append(line_of(row, run_row(args, number, deadline)))
            print(lines[-1], flush=True)
    text = "\n".join(
        [
            "# Recorded forwards, one step ahead, a compiled model",
            "",
            f"{date.today()}, {describe()}. {args.requests} requests, {'a dry run' if args.dry_run else 'nano-vllm'}"
            f"{'' if args.dry_run else chr(39) + 's work, Qwen3-0.6B with random weights, bfloat16, greedy'}.",
            "",
            f"    python benchmarks/bench_graphs.py {' '.join(sys.argv[1:])}",
            "",
            "| mode | start, s | output, tok/s | decode step, ms | of it the GPU works, ms | waits | kernels |",
            "|---|---|---|---|---|---|---|",
            *lines,
        ]
    )
    results = Path(tempfile.mkdtemp()) if args.dry_run else args.results
    results.mkdir(parents=True, exist_ok=True)
    (results / "graphs_cuda.md").write_text(text + "\n")
    print(f"written: {results / 'graphs_cuda.md'}")


if __name__ == "__main__":
    main()
