"""The tool names every trace that differs, with what differs, and its exit status says whether all are equal."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import read_traces
from tools import replay_vllm_traces

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "traces" / "vllm-0.33.0"


def a_trace(**fields: Any) -> dict[str, Any]:
    return read_traces(TRACES / "no_pressure.jsonl")[0] | fields


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """The tool's exit status and its lines."""

    def run(*arguments: str | Path) -> tuple[int, list[str]]:
        status = replay_vllm_traces.main([str(argument) for argument in arguments])
        return status, capsys.readouterr().out.splitlines()

    return run


def test_equal_traces(run, tmp_path: Path) -> None:
    """From a folder with other files, from below it, and one by one; the quirks are held to their own law."""
    status, lines = run(TRACES / "priority.jsonl", TRACES / "quirk.jsonl")
    assert (status, lines) == (0, ["17 of 17 equal"])
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one.json").write_text(json.dumps(a_trace(name="one")))
    (tmp_path / "model.json").write_text("{}")
    assert run(tmp_path, "-v") == (0, ["one: equal", "1 of 1 equal"])


def test_a_decision_that_was_edited_is_named(run, tmp_path: Path) -> None:
    trace = a_trace(name="edited")
    step = trace["steps"][2]
    step["free"] += 1
    (tmp_path / "two.jsonl").write_text(f"{json.dumps(a_trace())}\n{json.dumps(trace)}\n")
    status, lines = run(tmp_path)
    assert status == 1
    assert lines == [
        f"edited: step {step['step']}: free: ours {step['free'] - 1}, vLLM {step['free']}",
        "1 of 2 equal",
    ]


def test_traces_of_nano_vllm_are_replayed_too(run, tmp_path: Path) -> None:
    lines = (ROOT / "traces" / "nano-vllm" / "newest.jsonl").read_text().splitlines(keepends=True)
    file = tmp_path / "some.jsonl"
    file.write_text("".join(lines[:5]))
    assert run(file) == (0, ["5 of 5 equal"])
    trace = read_traces(file)[0]
    file.unlink()
    trace["steps"][1]["free"] += 1
    (tmp_path / "one.json").write_text(json.dumps(trace))
    status, lines = run(tmp_path)
    assert status == 1
    assert lines[0].endswith(f", nano-vllm {trace['steps'][1]['free']}")


def test_a_feature_that_is_not_here_is_named(run, tmp_path: Path) -> None:
    trace = a_trace(schema=2, name="hybrid_003")
    trace["config"]["hash_block_size"] = 2
    (tmp_path / "one.json").write_text(json.dumps(trace))
    status, lines = run(tmp_path)
    assert (status, lines) == (
        1,
        [
            "hybrid_003: not replayed: hashes of parts of a block (hash_block_size)",
            "1 not replayed: hashes of parts of a block (hash_block_size)",
            "0 of 1 equal",
        ],
    )


def test_a_broken_file_counts_as_one_that_differs(run, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"steps": [')
    (tmp_path / "equal.json").write_text(json.dumps(a_trace()))
    status, lines = run(tmp_path, tmp_path / "gone.json")
    assert status == 1
    assert [line.split(": ")[0] for line in lines] == [
        str(tmp_path / "broken.json"),
        str(tmp_path / "gone.json"),
        "1 of 3 equal",
    ]


def test_where_no_trace_is_not_everything_is_equal(run, tmp_path: Path) -> None:
    assert run(tmp_path) == (1, [f"{tmp_path}: no trace in it", "0 of 0 equal"])
    (tmp_path / "model.json").write_text("{}")
    status, lines = run(TRACES / "quirk.jsonl", tmp_path / "model.json")
    assert (status, lines) == (1, [f"{tmp_path / 'model.json'}: no trace in it", "3 of 3 equal"])


def test_lines_are_bounded_in_length_and_number(run, tmp_path: Path) -> None:
    traces = [a_trace(name=f"{i} " + "x" * 1000, schema=3) for i in range(5)]
    (tmp_path / "long.jsonl").write_text("\n".join(map(json.dumps, traces)))
    status, lines = run(tmp_path, "--max-lines", "2")
    assert status == 1
    assert [line[0] for line in lines] == ["0", "1", "5", "0"]
    assert max(map(len, lines)) <= replay_vllm_traces.MAX_LINE


def test_it_runs_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "replay_vllm_traces.py"), str(TRACES / "quirk.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 of 3 equal\n", "")
