#!/usr/bin/env python3
"""Replay traces of vLLM's scheduler and say which of them are equal, decision for decision.

    python tools/replay_vllm_traces.py PATHS [-v] [--max-lines N]

PATHS are files (.json with one trace, .jsonl with one a line) or folders, which are searched for both; JSON in a folder
that is no trace is passed over. Every trace that differs gets a line with the first step and field, one whose feature
is not in mini_vllm a line with the feature. A file that cannot be read counts as a trace that differs. The last lines
say how many traces need which feature, and "N of M equal". The exit status is 0 if there are traces and all are equal,
else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labkit.compare.replay import NOT_REPLAYED, BrokenTraceError, find_trace_files, read_traces, replay

MAX_LINE = 400


def verdicts(path: Path) -> Iterator[tuple[str, str | None]]:
    """Of every trace of a file or folder its name, and what differs or None."""
    for file in find_trace_files(path):
        try:
            traces = read_traces(file)
        except BrokenTraceError as error:
            yield str(error), "cannot be replayed"
            continue
        for trace in traces:
            yield trace["name"], replay(trace)


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay everything; 0 if there was something and all of it was equal."""
    parser = argparse.ArgumentParser(description="Replay traces of vLLM's scheduler; say which of them are equal.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATHS", help="files or folders")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the traces that are equal, too")
    parser.add_argument("--max-lines", type=int, metavar="N", help="of the traces that differ list only the first N")
    args = parser.parse_args(arguments)
    num_traces = num_equal = 0
    not_replayed: Counter[str] = Counter()
    complete = True
    for path in args.paths:
        before = num_traces
        for name, difference in verdicts(path):
            num_traces += 1
            num_equal += difference is None
            num_differing = num_traces - num_equal
            if difference is not None and difference.startswith(NOT_REPLAYED):
                not_replayed[difference] += 1
            if difference is None:
                if args.verbose:
                    print(f"{name}: equal")
            elif args.max_lines is None or num_differing <= args.max_lines:
                print(" ".join(f"{name}: {difference}".split())[:MAX_LINE])
        if num_traces == before:
            complete = False
            print(f"{path}: no trace in it")
    for difference, number in not_replayed.items():
        print(f"{number} {difference}")
    print(f"{num_equal} of {num_traces} equal")
    return int(not complete or num_equal < num_traces)


if __name__ == "__main__":
    sys.exit(main())
