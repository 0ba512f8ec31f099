#!/usr/bin/env python3
"""Replay traces of vLLM V0's scheduler and say which of them are equal, decision for decision.

    python tools/replay_vllm_v0_traces.py [--lenient] PATHS

PATHS are files (.jsonl.gz) or folders, which are searched for them. Every trace that differs gets a line with the first
step and field. The last line is "N of M equal". The exit status is 0 if there are traces and all are equal, else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mini_vllm.errors import BrokenTraceError
from mini_vllm.observe.replay_v0 import lenient, read_traces, replay

MAX_LINE = 400


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay everything; 0 if there was something and all of it was equal."""
    parser = argparse.ArgumentParser(description="Replay traces of vLLM V0's scheduler; say which of them are equal.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATHS", help="files or folders")
    parser.add_argument("--lenient", action="store_true", help="without strict_v0: as sequence_group is by default")
    args = parser.parse_args(arguments)
    num_traces = num_equal = 0
    for path in args.paths:
        for file in sorted(path.rglob("*.jsonl.gz")) if path.is_dir() else [path]:
            try:
                traces = read_traces(file)
            except BrokenTraceError as error:
                print(error)
                num_traces += 1
                continue
            for trace in traces:
                difference = replay(lenient(trace) if args.lenient else trace)
                num_traces += 1
                num_equal += difference is None
                if difference is not None:
                    print(f"{trace['name']}: {difference}"[:MAX_LINE])
    print(f"{num_equal} of {num_traces} equal")
    return int(not num_traces or num_equal < num_traces)


if __name__ == "__main__":
    sys.exit(main())
