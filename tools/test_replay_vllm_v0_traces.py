"""The tool says which traces of V0 are equal, and its exit status whether all of them are."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from tools import replay_vllm_v0_traces

ROOT = Path(__file__).parent.parent
FORKED = ROOT / "traces" / "vllm-0.5.5" / "forked.jsonl.gz"


@pytest.mark.slow
def test_traces_are_counted_and_those_that_differ_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay_vllm_v0_traces.main([str(FORKED)]) == 0
    assert capsys.readouterr().out == "100 of 100 equal\n"
    assert replay_vllm_v0_traces.main(["--lenient", str(FORKED)]) == 1
    *differing, last = capsys.readouterr().out.splitlines()
    assert last == f"{100 - len(differing)} of 100 equal"
    assert all(line.startswith("forked_") and ": step " in line for line in differing)
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(b"{"))
    assert replay_vllm_v0_traces.main([str(tmp_path)]) == 1
    assert "broken.jsonl.gz: JSONDecodeError" in capsys.readouterr().out


def test_it_runs_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "replay_vllm_v0_traces.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "0 of 0 equal\n", "")
