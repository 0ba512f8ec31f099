#!/usr/bin/env python3
"""From a save to a verdict: how long `lab watch` takes, lab by lab. Linux; about half a minute a lab.

    python benchmarks/bench_labs.py                  every lab without Triton
    python benchmarks/bench_labs.py 03.2 --saves 20  one of them
    python benchmarks/bench_labs.py --write          and into results/labs.md

The real command runs in a copy of the checkout in which the lab is done. The file is saved again and again, with a new
comment at its end, each time when the process that waits for it has imported what it needs.
"""

import argparse
import datetime
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from bench_scheduler import ROOT, machine

from labkit.cli.watching import WATCH_SHARE
from labkit.labs.catalog import Lab, find_lab, labs
from labkit.labs.source import render_solution

RESULT = ROOT / "benchmarks" / "results" / "labs.md"
TICK = os.sysconf("SC_CLK_TCK")
QUIET_SECONDS = 1.0  # a waiting process that has used no processor for so long has imported everything
ON_A_PART, ON_ALL = "green on a part", "("  # how the lines of a verdict begin

HEAD = """# From a save to a verdict

`lab watch` on a lab that is done. Its file is saved {saves} times, with another comment at its end.

- A part: the tests with {share:.0%} of the random cases, in a process that waits for the file and has imported what it
  needs. A file that is red has its verdict then.
- All: what follows when the part is green, until the line that says "done". Its process begins then, and imports first.

Both are seconds by the clock, from the save to the line. Beside them stand the seconds of the processor for which the
grading process has run: a busy neighbour adds little to them. The p95 of {saves} saves is hardly less than the longest.
Not here are 01.4 and 01.5, whose kernels are interpreted.

{facts}

Again: `python benchmarks/bench_labs.py --write`

| lab | a part: median, s | a part: p95, s | a part: processor, s | all: median, s | all: p95, s | all: processor, s |
|---|---:|---:|---:|---:|---:|---:|"""


class Save(NamedTuple):
    """One save. Seconds by the clock until either verdict, and of the processor for it."""

    part: float
    part_cpu: float
    whole: float
    whole_cpu: float


class Watcher:
    """`lab watch` of one lab in a checkout."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.file = root / lab.typed
        self.text = self.file.read_text(encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labkit.cli", "watch", lab.id],
            stdin=subprocess.DEVNULL,  # no terminal: it goes on by itself
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            text=True,
        )
        self.await_line("       " if lab.together else lab.id)

    def await_line(self, beginning: str) -> float:
        """When the next line with this beginning came. Raises SystemExit with what came instead."""
        assert self.process.stdout is not None
        came = []
        for line in self.process.stdout:
            came.append(line)
            if line.startswith(beginning):
                return time.perf_counter()
            if line.startswith(ON_ALL):
                break
        raise SystemExit(f"no line {beginning!r} from lab watch, but:\n{''.join(came)}")

    def await_warm(self) -> float:
        """Wait until the waiting process has imported everything; the seconds of the processor that it has used."""
        last, since = -1.0, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS or last <= 0:
            time.sleep(0.1)
            if (used := self.cpu_of_waiting()) != last:
                last, since = used, time.monotonic()
        return last

    def cpu_of_waiting(self) -> float:
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(seconds(int(child), 11) for child in children)

    def save(self, number: int) -> Save:
        """Save once. At either verdict the process that gave it is at its end, and counted."""
        before = self.await_warm()
        ended = seconds(self.process.pid, 13)
        self.file.write_text(f"{self.text}\n# save {number}\n", encoding="utf-8")
        start = time.perf_counter()
        part = self.await_line(ON_A_PART)
        part_cpu = seconds(self.process.pid, 13) - ended - before
        whole = self.await_line(ON_ALL)
        whole_cpu = seconds(self.process.pid, 13) - ended - before - part_cpu
        return Save(part - start, part_cpu, whole - start, whole_cpu)

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()


def seconds(pid: int, field: int) -> float:
    """Of the processor, user and system: 11 for those of a process, 13 for those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[field]) + int(fields[field + 1])) / TICK


@contextmanager
def checkout() -> Iterator[Path]:
    """A copy of this one."""
    with tempfile.TemporaryDirectory(prefix="bench-labs-") as folder:
        root = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__", "mine*")
        for name in ("labkit", "mini_vllm", "proof", *(path.name for path in ROOT.glob("phase-*"))):
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        yield root


def measure(lab: Lab, num_saves: int) -> list[Save]:
    """The saves of one lab; those of other labs that are graded with it are done, too."""
    with checkout() as root:
        for each in (*map(find_lab, lab.together), lab):
            (root / each.typed).write_text(render_solution(each), encoding="utf-8")
        watcher = Watcher(lab, root)
        try:
            return [watcher.save(number) for number in range(num_saves)]
        finally:
            watcher.close()


def row(lab: Lab, saves: list[Save]) -> str:
    cells = []
    for clock, cpu in (("part", "part_cpu"), ("whole", "whole_cpu")):
        waited = [getattr(save, clock) for save in saves]
        p95 = statistics.quantiles(waited, n=20, method="inclusive")[-1] if len(waited) > 1 else waited[0]
        used = statistics.median(getattr(save, cpu) for save in saves)
        cells += [f"{statistics.median(waited):.2f}", f"{p95:.2f}", f"{used:.2f}"]
    return f"| {lab.id} {re.sub(':.*', '', lab.title)} | {' | '.join(cells)} |"


def page(chosen: list[Lab], num_saves: int) -> Iterator[str]:
    """The result page."""
    facts = f"{datetime.date.today()}; {machine()}; Python {platform.python_version()}"
    yield HEAD.format(saves=num_saves, share=WATCH_SHARE, facts=facts)
    every = []
    for lab in chosen:
        saves = measure(lab, num_saves)
        every += saves
        yield row(lab, saves)
    slowest = statistics.quantiles([save.part for save in every], n=20, method="inclusive")[-1]
    yield f"\nOf all {len(every)} saves, 95% had the verdict on a part within {slowest:.2f} s."


def main() -> None:
    """Parse the command line; print the page, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lab", nargs="*", help="ids; every lab without Triton by default")
    parser.add_argument("--saves", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if not Path("/proc/self/stat").exists():
        parser.error("the seconds of the processor are read from /proc, which this system lacks")
    if args.saves < 2:
        parser.error(f"--saves is {args.saves}, and must be 2 or more")
    chosen = [find_lab(lab_id) for lab_id in args.lab] or [lab for lab in labs() if "triton" not in lab.needs]
    lines = []
    for line in page(chosen, args.saves):
        print(line, flush=True)
        lines.append(line)
    if args.write:
        RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
