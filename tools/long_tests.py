"""The tests marked slow, of those files whose inputs changed: `python tools/long_tests.py [files] [--all] [--write]`.

A file of tests runs in a process of its own, which hears what it reads (labkit.prove.inputs). tools/long_tests.json has
the inputs of each file that was green, with their hash: a file runs again when its hash differs. An input that the lock
does not list is red, so the choice is sound. --write runs what changed and writes the lock; --all runs every file.

Kernels run at length, and are compiled, with the oldest Triton that is supported (`make test-triton36` runs the same).
"""

import argparse
import json
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from labkit.prove.inputs import Recorder, digest, project_files  # noqa: E402

runpy.run_path(str(ROOT / "conftest.py"))  # its environment: FORK imports PyTorch and Triton before pytest
LOCK = ROOT / "tools" / "long_tests.json"
OLDEST_TRITON = ROOT / ".venv" / "triton-3.6"
ON_OLDEST_TRITON = (
    "mini_vllm/attention/test_triton.py",
    "mini_vllm/attention/test_triton_engine.py",
    "tools/test_compile_kernels.py",
)
INSTALLING = threading.Lock()
SPAWN = multiprocessing.get_context("spawn")  # imports all itself, NumPy of another version, too
FORK = multiprocessing.get_context("forkserver")  # these are imported once
FORK.set_forkserver_preload(["torch", "transformers.models.qwen3.modeling_qwen3", "openai"])
NO_TESTS = 5  # pytest's exit status


class Run(NamedTuple):
    """One file's run. inputs: what it read; seconds: of the processor, with its processes."""

    file: str
    status: int | None
    output: str
    inputs: list[str]
    seconds: int

    @property
    def summary(self) -> str:
        """Pytest's closing line."""
        return self.output.strip().splitlines()[-1].strip("= ") if self.output.strip() else ""


def files_with_long_tests() -> list[str]:
    """Those that mark one."""
    tests = [name for name in sorted(project_files()) if Path(name).name.startswith("test_") and name.endswith(".py")]
    return [name for name in tests if "mark.slow" in (ROOT / name).read_text(encoding="utf-8")]


def run(file: str) -> Run:
    """The slow tests of a file, in a process of its own."""
    if file in ON_OLDEST_TRITON:
        with INSTALLING:
            subprocess.run(["make", "-s", f"{OLDEST_TRITON.relative_to(ROOT)}/numpy"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        record, log = Path(folder, "inputs.json"), Path(folder, "log")
        start = SPAWN if file in ON_OLDEST_TRITON else FORK
        process = start.Process(target=run_and_record, args=(file, record, log))
        process.start()
        process.join()
        inputs, seconds = json.loads(record.read_text(encoding="utf-8")) if record.exists() else ([], 0)
        status = 0 if process.exitcode == NO_TESTS else process.exitcode
        return Run(file, status, log.read_text(encoding="utf-8"), inputs, seconds)


def run_and_record(file: str, record: Path, log: Path) -> None:
    """In that process: run the tests, and write what was read and what pytest said."""
    recorder = Recorder()
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    if file in ON_OLDEST_TRITON:
        sys.path.insert(0, str(OLDEST_TRITON))
        os.environ["PYTHONPATH"] = str(OLDEST_TRITON)
    import pytest

    status = pytest.main(["-q", "-m", "slow and not nightly", "-p", "no:cacheprovider", file])
    sys.stdout.flush()
    record.write_text(json.dumps([recorder.inputs(), round(sum(os.times()[:4]))]), encoding="utf-8")
    sys.exit(int(status))


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--all", action="store_true", help="also files whose inputs are those of the lock")
    parser.add_argument("--write", action="store_true", help="write the lock")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    lock: dict[str, Any] = json.loads(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    every = args.files or files_with_long_tests()
    due = [file for file in every if args.all or args.files or not is_current(lock.get(file))]
    due.sort(key=lambda file: -lock.get(file, {}).get("seconds", 0))  # the longest first
    broken, counts = [], {"passed": 0, "failed": 0}
    with ThreadPoolExecutor(args.workers) as pool:
        for done in pool.map(run, due):
            unlisted = set(done.inputs) - set(lock.get(done.file, {}).get("inputs", done.inputs))
            if done.status:
                print(done.output)
            print(f"{done.file}: {done.summary}, {done.seconds} CPU s", flush=True)
            for word in counts:
                counts[word] += sum(map(int, re.findall(rf"(\d+) {word}", done.summary)))
            if unlisted and not args.write:
                print(f"  tools/long_tests.json does not list {', '.join(sorted(unlisted)[:3])}; --write does")
            if done.status or (unlisted and not args.write):
                broken.append(done.file)
            elif args.write:
                lock[done.file] = {"hash": digest(done.inputs), "seconds": done.seconds, "inputs": done.inputs}
                write(lock)
    if args.write:
        write(lock)
    print(f"{len(due)} of {len(every)} files were due. Red: {', '.join(broken) or 'none'}")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return bool(broken)


def write(lock: Mapping[str, Any]) -> None:
    """Without the files that no longer have long tests."""
    kept = {file: lock[file] for file in files_with_long_tests() if file in lock}
    LOCK.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def is_current(entry: dict[str, Any] | None) -> bool:
    return entry is not None and digest(entry["inputs"]) == entry["hash"]


if __name__ == "__main__":
    sys.exit(main())
