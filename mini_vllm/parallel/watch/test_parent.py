"""A process ends with its parent, also while it imports what it is to run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import multiprocessing, sys, time
from mini_vllm.parallel.watch.parent import run_watched

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=run_watched, args=(0, sys.argv[1], "word"))
    process.start()
    time.sleep(3600)
"""
SLOW_MODULE = """
import os, pathlib, time
pathlib.Path("begun").write_text(str(os.getpid()))
time.sleep(3600)
"""
MODULE = """
import os, pathlib, time
def work(word):
    pathlib.Path("new").write_text(f"{os.getpid()} {word}")
    pathlib.Path("new").rename("begun")
    time.sleep(3600)
"""


@pytest.mark.parametrize("module", [SLOW_MODULE, pytest.param(MODULE, marks=pytest.mark.slow)])
def test_a_watched_process_ends_with_its_parent(module: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "slow_module.py").write_text(module)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "script.py", "slow_module:work"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
    )
    words: list[str] = []
    while not words:
        time.sleep(0.01)
        assert parent.poll() is None
        if (tmp_path / "begun").exists():
            words = (tmp_path / "begun").read_text().split()
    assert words[1:] in ([], ["word"])
    parent.kill()
    parent.wait()
    while is_running(int(words[0])):
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
