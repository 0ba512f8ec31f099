"""The command line under hostile use: no traceback, the right exit status, a message that names
what was wrong.

Most calls run in this process. Those that are about streams and signals run in one of their own,
and most of these, as all that load a model, are marked slow.
"""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import tomllib
import tracemalloc
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mini_vllm.cli.commands import app
from mini_vllm.cli.exits import exit_status, legible
from mini_vllm.errors import InvalidParameterError, KVCacheTooLargeError, shown
from mini_vllm.observe.files import printable, read_lines, read_text, write_file
from mini_vllm.worker.memory import KVCachePlan

MINI_VLLM = "from mini_vllm.cli import main; main()"
LAB = "from labkit.cli import main; main()"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
GOOD_LINE = "2023-11-16 18:15:46.5,100,5\n"
MOONCAKE = {"timestamp": 0, "input_length": 10, "output_length": 3, "hash_ids": [1]}
CONFIG = {"block_size": 4, "num_blocks": 9, "max_num_seqs": 4, "max_num_batched_tokens": 8}
REQUEST = {"id": "a", "prompt": [1, 2, 3], "max_tokens": 3}
SCENARIO = {"config": CONFIG, "requests": [REQUEST]}
CALIBRATION = {
    "schema": 1,
    "engine": {"block_size": 16, "num_blocks": 99, "max_num_seqs": 4, "max_num_batched_tokens": 64},
    "seconds_per": dict.fromkeys(
        ("step", "request", "token", "context_token", "attended_pair", "copied_block"), 0.001
    ),
}
LONG = "x" * 100_000
ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def line(**changes: Any) -> str:
    return json.dumps(MOONCAKE | changes) + "\n"


def scenario(config: Any = None, request: Any = None, **changes: Any) -> str:
    requests = [REQUEST | (request or {})]
    return json.dumps({"config": CONFIG | (config or {}), "requests": requests, **changes})


def calibration(engine: Any = None, **changes: Any) -> str:
    return json.dumps(CALIBRATION | {"engine": CALIBRATION["engine"] | (engine or {})} | changes)


FILES: dict[str, str | bytes] = {  # what the calls below find in their folder
    "good.csv": AZURE + GOOD_LINE,
    "bom.csv": "\ufeff" + AZURE + GOOD_LINE,
    "good.json": json.dumps(SCENARIO),
    "bom.json": "\ufeff" + json.dumps(SCENARIO),
    "calibration.json": calibration(),
    "empty": "",
    "header.csv": AZURE,
    "blank.csv": "\n\n\n",
    "binary": bytes(range(256)) * 64,
    "deep.json": "[" * 100_000,
    "deep.jsonl": '{"timestamp": ' + "[" * 100_000 + "\n",
    "long.jsonl": '{"a": "' + "x" * (2 << 20) + '"}\n',
    "utf16.csv": (AZURE + GOOD_LINE).encode("utf-16"),
    "\x1b[31mred\n.json": "{}",
}
TRACES = {  # the text of a trace file, and what the message names
    "huge-output": (AZURE + "2023-11-16 18:15:46.5,100,99999999999\n", "at most 10,000,000 tokens"),
    "huge-input": (AZURE + "2023-11-16 18:15:46.5,99999999999,1\n", "99999999999"),
    "negative": (AZURE + "2023-11-16 18:15:46.5,-1,1\n", "got -1 and 1"),
    "no-number": (AZURE + "2023-11-16 18:15:46.5,nan,1\n", "'nan'"),
    "digits": (AZURE + f"2023-11-16 18:15:46.5,{'9' * 5000},1\n", "line 2: ValueError"),
    "no-time": (AZURE + "\x1b[31m,1,1\n", r"\x1b[31m"),
    "year-1": (AZURE + "0001-01-01 00:00:00,1,1\n", "line 2: "),
    "few-columns": (AZURE + "1\n", "line 2: ValueError"),
    "other-columns": ("a,b,c\n", "the columns must be TIMESTAMP"),
    "quote": (AZURE + '"' + "x" * 140_000 + "\n", "line 2"),
    "long-header": (LONG + "\n", "the columns must be"),
    "no-json": ("{nonsense\n", "line 1: JSONDecodeError"),
    "list": ("{}\n[]\n", "line 1: KeyError"),
    "time-nan": (line(timestamp=float("nan")), "in order of time"),
    "time-inf": (line(timestamp=float("inf")), "in order of time"),
    "time-text": (line(timestamp="x"), "ValueError"),
    "time-null": (line(timestamp=None), "TypeError"),
    "time-digits": (line(timestamp=10**400), "OverflowError"),
    "time-back": (line(timestamp=5) + line(timestamp=4), "line 2"),
    "input-bool": (line(input_length=True), "True is not an integer"),
    "input-float": (line(input_length=1.5), "1.5 is not an integer"),
    "input-text": (line(input_length=LONG), "ValueError 'xxx"),
    "input-huge": (line(input_length=10**30), "1 hash_ids for 1000000"),
    "output-huge": (line(output_length=10**30), "at most 10,000,000 tokens"),
    "hash-null": (line(hash_ids=None), "TypeError"),
    "hash-text": (line(hash_ids=["\x1b"]), r"'\x1b' is not an integer"),
}
SCENARIOS = {
    "null": ("null", "it must be a JSON object"),
    "no-config": ("{}", "config must be a JSON object"),
    "config-list": (
        scenario(config={}).replace('{"block_size"', '[{"block_size"', 1)[:-1],
        "is not a scenario",
    ),
    "no-requests": (
        json.dumps({"config": CONFIG, "requests": []}),
        "requests must be a list that is not empty",
    ),
    "requests-text": (json.dumps({"config": CONFIG, "requests": "abc"}), "requests must be a list"),
    "many-requests": (
        json.dumps({"config": CONFIG, "requests": [REQUEST] * 1001}),
        "at most 1,000, got 1001",
    ),
    "request-null": (
        json.dumps({"config": CONFIG, "requests": [None]}),
        "a request must be a JSON object, got None",
    ),
    "twice": (
        json.dumps({"config": CONFIG, "requests": [REQUEST] * 2}),
        "different from each other",
    ),
    "blocks-huge": (scenario({"num_blocks": 10**12}), "got 1000000000000"),
    "blocks-text": (scenario({"num_blocks": "9"}), "got '9'"),
    "cpu-blocks-huge": (
        scenario({"num_cpu_blocks": 10**12}),
        "num_cpu_blocks must be an integer in [0, ",
    ),
    "blocks-1": (scenario({"num_blocks": 1}), "got 1"),
    "block-size-0": (scenario({"block_size": 0}), "block_size"),
    "block-size-text": (scenario({"block_size": "4"}), "is not a scenario"),
    "budget-0": (scenario({"max_num_batched_tokens": 0}), "max_num_batched_tokens 0"),
    "policy": (scenario({"policy": "\x1b[31m"}), "policy must be 'fcfs' or 'priority'"),
    "vocab-0": (scenario({"vocab_size": 0}), "ZeroDivisionError"),
    "id-number": (scenario(request={"id": 1}), "the id of a request must be a short text, got 1"),
    "id-long": (scenario(request={"id": LONG}), "a short text"),
    "prompt-text": (scenario(request={"prompt": "abc"}), "got 'abc'"),
    "prompt-null": (scenario(request={"prompt": None}), "the prompt of 'a'"),
    "prompt-float": (scenario(request={"prompt": [1.5]}), "got [1.5]"),
    "prompt-negative": (scenario(request={"prompt": [-1]}), "got [-1]"),
    "prompt-empty": (scenario(request={"prompt": []}), "Error: "),
    "prompt-long": (scenario(request={"prompt": [1] * 100}), "100 tokens"),
    "max-tokens-0": (scenario(request={"max_tokens": 0}), "an integer of at least 1, got 0"),
    "max-tokens-inf": (scenario(request={"max_tokens": float("inf")}), "got inf"),
    "step-text": (scenario(request={"arrival_step": "x"}), "is not a scenario"),
    "priority-text": (
        scenario({"policy": "priority"}, {"priority": None}, aborts=[{}]),
        "is not a scenario",
    ),
    "aborts": (scenario(aborts=[{"id": "a"}]), "is not a scenario"),
}
CALIBRATIONS = {
    "list": ("[]", "not a calibration"),
    "schema": (calibration(schema=LONG), "schema 'xxx"),
    "seconds": (calibration(seconds_per=None), "not a calibration"),
    "nan": (
        calibration(seconds_per=CALIBRATION["seconds_per"] | {"step": float("nan")}),
        "in [0, 1e+06]",
    ),
    "negative": (
        calibration(seconds_per=CALIBRATION["seconds_per"] | {"step": -1}),
        "in [0, 1e+06]",
    ),
    "1e300": (calibration(seconds_per=CALIBRATION["seconds_per"] | {"step": 1e300}), "1e+300"),
    "digits": (
        calibration(seconds_per=CALIBRATION["seconds_per"] | {"step": 10**400}),
        "OverflowError",
    ),
    "engine": (json.dumps(CALIBRATION | {"engine": "abc"}), "must be a JSON object, got 'abc'"),
    "blocks": (
        calibration({"num_blocks": "9"}),
        "num_blocks must be an integer of at least 2, got '9'",
    ),
    "blocks-huge": (
        calibration({"num_blocks": 10**12}),
        "1,000,000,000,000 KV blocks are more than",
    ),
    "block-size": (calibration({"block_size": 1.5}), "got 1.5"),
    "len": (calibration({"max_model_len": -1}), "got -1"),
}
FOLDER = {f"trace-{name}": text for name, (text, _) in TRACES.items()}
FOLDER |= {f"scenario-{name}": text for name, (text, _) in SCENARIOS.items()}
FOLDER |= {f"calibration-{name}": text for name, (text, _) in CALIBRATIONS.items()}

POISSON = ("simulate", "--poisson", "5", "--num-requests", "3", "--scheduler", "v1")
SMALL_POISSON = (*POISSON, "--num-kv-blocks", "99")
TRACE = ("simulate", "--scheduler", "v1", "--num-kv-blocks", "99", "--trace")
BENCH = ("bench",)
NO_NUMBER = ("", "abc", "\x1b[31m", "0x10")
NO_FLOAT = {  # options of simulate, and what each refuses
    "--poisson": ("-1", "0", "nan", "inf", "-inf", "1e300", "1e-300"),
    "--burstiness": ("-1", "0", "nan", "inf", "1e300"),
    "--input-len": ("-1", "0", "nan", "inf", "1e300"),
    "--output-len": ("-1", "0", "nan", "inf", "1e300"),
    "--length-cv": ("-1", "nan", "inf", "1e300"),
    "--rate-scale": ("-1", "0", "nan", "inf", "1e300", "1e-300"),
    "--acceptance": ("-1", "1.1", "nan", "inf"),
    "--slo-ttft": ("-1", "0", "nan", "inf", "1e300"),
    "--slo-itl": ("-1", "0", "nan", "inf", "1e300"),
}
NO_INTEGER = {
    "--num-requests": ("0", "-1", "1.5", "nan", "9" * 30),
    "--replicas": ("0", "-1", "1.5", "100000", "9" * 30),
    "--num-kv-blocks": ("1", "-1", "nan", "9" * 30),
    "--block-size": ("0", "-1", "inf"),
    "--max-model-len": ("0", "-1"),
    "--max-num-seqs": ("0", "-1"),
    "--max-num-batched-tokens": ("0", "-1"),
    "--num-speculative-tokens": ("0", "-1", "1.5"),
    "--seed": ("x", "1.5"),
}
NO_ENGINE = {  # options of every command with an engine
    "--block-size": ("0", "-1", "x", "1.5", ""),
    "--num-kv-blocks": ("1", "-5", "nan"),
    "--num-cpu-blocks": ("-1", "inf"),
    "--max-model-len": ("0",),
    "--max-num-seqs": ("0", "-1"),
    "--max-num-batched-tokens": ("0",),
    "--long-prefill-token-threshold": ("-1",),
    "--dtype": ("", "int8", "\x1b[31m"),
    "--device": ("", "tpu", "cuda:x", "\x1b[31m", LONG),
    "--policy": ("", "lottery"),
    "--scheduler": ("", "v2", LONG),
    "--preemption-mode": ("", "kill"),
    "--seed": ("9" * 30, "-" + "9" * 30),
    "--model": ("",),
}
Call = tuple[tuple[str, ...], int, str]  # arguments, exit status, what stderr has


def named(value: str) -> str:
    """How a message is to show a value."""
    return repr(value)[1:50].removesuffix("'")


def calls() -> Iterator[Call]:
    """The table."""
    for option, values in NO_FLOAT.items():
        base = [
            part
            for part in SMALL_POISSON
            if option != "--poisson" or part not in ("--poisson", "5")
        ]
        for value in values:
            yield (*base, option, value), 2, "got "
        for value in NO_NUMBER:
            yield (*base, option, value), 2, f"Invalid value for '{option}'"
    for option, values in NO_INTEGER.items():
        for value in (*values, "\x1b[31m"):
            yield (*SMALL_POISSON, option, value), 2, option.rpartition("-")[2]
    for option, values in NO_ENGINE.items():
        for value in values:
            yield (*BENCH, option, value), 2, option.removeprefix("--").partition("-")[0]
    for name in ("format", "scheduler", "routing", "calibration"):
        for value in ("", "\x1b[31m", LONG, "a\nb"):
            yield (*SMALL_POISSON, f"--{name}", value), 2, named(value)
    for name, (_, message) in TRACES.items():
        yield (*TRACE, f"trace-{name}"), 2, message
    for name, (_, message) in SCENARIOS.items():
        yield ("trace", "--scenario", f"scenario-{name}"), 2, message
    for name, (_, message) in CALIBRATIONS.items():
        yield (*POISSON, "--calibration", f"calibration-{name}"), 2, message
    yield from files()
    yield from texts()


def files() -> Iterator[Call]:
    """Files that are none, in and out."""
    for name, message in (
        *(
            ("empty", "line 1"),
            ("header.csv", "no request"),
            ("blank.csv", "line 1"),
            ("binary", "not UTF-8"),
        ),
        *(
            ("deep.jsonl", "line 1: RecursionError"),
            ("long.jsonl", "longer than 1,048,576"),
            ("utf16.csv", "not UTF-8"),
        ),
        *(
            ("/dev/null", "line 1"),
            ("/dev/zero", "line 1: longer than 1,048,576"),
            ("nosuch\x1b", r"nosuch\x1b"),
        ),
        *(
            (".", "is a directory"),
            ("", "is a directory"),
            ("x" * 5000, "xxx"),
            ("good.csv/x", "good.csv/x"),
        ),
    ):
        yield (*TRACE, name), 2, message
    for name, message in (
        *(
            ("empty", "JSONDecodeError"),
            ("binary", "not UTF-8"),
            ("deep.json", "RecursionError"),
            (".", "directory"),
        ),
        *(
            ("/dev/null", "JSONDecodeError"),
            ("/dev/zero", "longer than 67,108,864 bytes"),
            ("nosuch", "does not exist"),
        ),
        ("\x1b[31mred\n.json", r"\x1b[31mred\n.json is not a scenario"),
    ):
        yield ("trace", "--scenario", name), 2, message
    for name, message in (
        *(
            ("empty", "JSONDecodeError"),
            ("binary", "not UTF-8"),
            ("deep.json", "RecursionError"),
            (".", "Is a directory"),
        ),
        *(
            ("/dev/zero", "longer than 1,048,576 bytes"),
            ("nosuch", "'nosuch' is neither a file nor one of"),
        ),
    ):
        yield (*POISSON, "--calibration", name), 2, message
    for option in ("--out", "--html"):
        base = ("trace", "--scenario", "good.json", option)
        for name, message in (
            *(
                (".", "is a directory"),
                ("nosuch/x", "cannot write nosuch/x: No such file"),
                ("x" * 300, "too long"),
            ),
            *(("good.csv/x", "Not a directory"), ("\x1b[31m/x", r"cannot write \x1b[31m/x")),
        ):
            yield (*base, name), 2, message
        yield (*base, "/dev/full"), 1, "/dev/full: No space left on device"
        yield (*base, "/dev/null"), 0, "wrote /dev/null"
        yield (*base, "\x1b[31m.out"), 0, r"wrote \x1b[31m.out"
    for folder in ("good.csv", "good.csv/x", "/dev/null/x"):
        yield (*POISSON, "--plots", folder), 2, folder
    yield (*TRACE, "bom.csv"), 0, ""
    yield ("trace", "--scenario", "bom.json"), 0, ""


def texts() -> Iterator[Call]:
    """Arguments that are no text, no options and no commands."""
    for command in (
        *(
            ("generate", "\udcff"),
            ("generate", "hi", "--stop", "\udcff"),
            ("chat", "-m", "a\udc80b"),
        ),
        *(
            ("chat", "-m", "x", "--system", "\udcff"),
            ("trace", "\udcff"),
            ("calibrate", "--note", "\udcff"),
        ),
        ("demo", "--scheduler", "\udcff"),
    ):
        yield command, 2, "is not UTF-8 text: byte 0x"
    for command in (
        (),
        ("",),
        ("nosuch\x1b",),
        ("--nosuch",),
        ("--\x1b[31m",),
        ("simulate", f"--{LONG}"),
        ("x" * 100_000,),
    ):
        yield command, 2, ""
    for command, message in (
        (("bench", "--num-requests", "0"), "equal to 1"),
        (("bench", "--num-requests", "9" * 30), "'--num-requests'"),
        (("bench", "--input-len", "9" * 30), "'--input-len'"),
        (
            ("bench", "--num-requests", "90000", "--input-len", "90000"),
            "90,000 requests of 90,000 prompt tokens",
        ),
        (("calibrate", "--rounds", "9" * 30), "'--rounds'"),
        (("bench", "--prefix-len", "-1"), "equal to 0"),
        (("demo", "--blocks", "1"), "equal to 2"),
        (("demo", "--pace", "-1"), "equal to 0"),
        (("demo", "--budget", "x"), "'--budget'"),
        (("calibrate", "--rounds", "0"), "equal to 1"),
        (("calibrate", "--out", "."), "is a directory"),
        (("generate",), "PROMPT"),
        (("trace", "hi", "--scenario", "good.json"), "not both"),
        (("trace", "--scenario", "good.json", "--scheduler", "\x1b"), r"'\x1b'"),
        (("doctor", "x"), "x"),
        (("--version", "x"), ""),
    ):
        yield command, 0 if command[0] == "--version" else 2, message


CALLS = list(calls())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile")
    for name, content in (FILES | FOLDER).items():
        (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


COMMAND = get_command(app)


def run(*arguments: str) -> tuple[int, str, str]:
    """A call in this process: its exit status, and what it wrote to stdout and stderr."""
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        pytest.raises(SystemExit) as end,
    ):
        COMMAND.main(arguments, prog_name="mini-vllm")
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


def check(status: int, out: str, err: str, *, wanted: int, message: str) -> None:
    assert "Traceback" not in out + err
    assert "fault of the program" not in err
    assert status == wanted, err[-2000:]
    assert message in err
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", err), "a control character"
    assert max(map(len, err.splitlines()), default=0) < 1200


@pytest.mark.parametrize("part", range(8))
def test_hostile_calls(part: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of the table, in this process; all are refused before a model is loaded."""
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.name in FILES | FOLDER}
    for arguments, status, message in CALLS[part::8]:
        try:
            check(*run(*arguments), wanted=status, message=message)
        except AssertionError as error:
            raise AssertionError(f"{shown(arguments)}: {error}") from error
    assert {path: path.read_bytes() for path in before} == before
    assert not list(folder.glob(".*.new"))


def test_the_table_is_long_and_says_each_thing_once() -> None:
    assert len(CALLS) == len(set(CALLS)) >= 150


# --- streams and signals: programs of their own ---------------------------------------------------


def program(
    code: str, *arguments: str, shell: str = '"$@"', env: Any = None, **options: Any
) -> tuple[int, str, str]:
    """A program under a shell, which closes or redirects its streams; its exit status, stdout and
    stderr.
    """
    call = [
        "bash",
        "-c",
        f"set -o pipefail; {shell}",
        "bash",
        sys.executable,
        "-c",
        code,
        *arguments,
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""} | (env or {})
    done = subprocess.run(
        call, capture_output=True, timeout=120, env=environment, check=False, **options
    )
    return (
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    )


SCENARIO_CALL = ("trace", "--scenario", "good.json")
STREAMS = [  # a shell line, a call, the exit status, what stderr has
    ('"$@" >/dev/full', ("--help",), 1, "No space left on device"),
    ('"$@" | head -1', SCENARIO_CALL, 1, ""),
]
MORE_STREAMS = [
    ('"$@" >/dev/full', (*POISSON, "--json"), 1, "No space left on device"),
    ('"$@" >&-', SCENARIO_CALL, 1, "Bad file descriptor"),
    ('"$@" 2>&-', ("nosuch",), 2, ""),
    ('"$@" >/dev/full', ("--version",), 1, "No space left on device"),
    ('"$@" >/dev/full', ("simulate", "--help"), 1, "No space left on device"),
    ('"$@" >/dev/full', SCENARIO_CALL, 1, "No space left on device"),
    ('"$@" 2>/dev/full', ("nosuch",), 2, ""),
    ('"$@" 2>/dev/full', ("simulate", "--poisson", "-1"), 2, ""),
    ('"$@" >&- 2>&-', SCENARIO_CALL, 1, ""),
    ('"$@" <&- >&- 2>&-', ("generate", "-"), 1, ""),
    ('"$@" <&-', ("generate", "-"), 1, "Bad file descriptor"),
    ('"$@" </dev/zero', ("generate", "-"), 2, "more than 4,194,304 bytes"),
    ('"$@" <binary', ("generate", "-"), 2, "byte 0x80 at position 128"),
    ('"$@" | true', ("--help",), 1, ""),
    ('"$@" | head -1', ("simulate", "--poisson", "5", "--num-requests", "3"), 1, ""),
    ('"$@" | head -c 1', ("generate", "hi", "--max-tokens", "200"), 1, ""),
    ('"$@" >/dev/full', ("generate", "hi"), 1, "No space left on device"),
    ('"$@" </dev/null', ("chat",), 0, "Ctrl-D ends"),
    ('"$@" >/dev/full', ("doctor",), 1, "No space left on device"),
    ('"$@" >/dev/full', ("demo",), 1, "No space left on device"),
    ('"$@" >/dev/full', ("chat", "-m", "hi"), 1, "No space left on device"),
    ('"$@" >/dev/full', ("bench", "--num-requests", "1"), 1, "No space left on device"),
    ('"$@" >/dev/full', ("generate", ""), 2, "0 tokens"),
    ('"$@" <&-', ("chat",), 1, "Bad file descriptor"),
    ('"$@" </dev/null', ("generate", "-"), 2, "0 tokens"),
    ('"$@" </dev/zero', ("chat",), 2, "more than 4,194,304 bytes"),
]
ENVIRONMENTS: list[dict[str, str]] = [
    *(
        {"TERM": ""},
        {"TERM": "dumb"},
        {"COLUMNS": "1"},
        {"COLUMNS": "0"},
        {"COLUMNS": "-1"},
        {"COLUMNS": "x"},
    ),
    *(
        {"LANG": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "nosuch"},
    ),
    *(
        {"HOME": ""},
        {"HOME": "/nosuch"},
        {"NO_COLOR": "1"},
        {"FORCE_COLOR": "1", "COLUMNS": "999999"},
    ),
    *({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}),
]


def check_stream(
    case: tuple[str, tuple[str, ...], int, str], folder: Path, code: str = MINI_VLLM
) -> None:
    shell, call, wanted, message = case
    status, out, err = program(code, *call, shell=shell, cwd=folder)
    if "|" in shell:
        assert "Traceback" not in err
        assert "Error" not in err, "who went away is told nothing"
        assert status in (0, wanted), "0 where all was written before"
    else:
        check(status, out, err, wanted=wanted, message=message)


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: f"{case[1][0]} {case[0][5:]}")
def test_broken_streams(case: Any, folder: Path) -> None:
    check_stream(case, folder)


@pytest.mark.nightly
@pytest.mark.parametrize("case", MORE_STREAMS, ids=lambda case: f"{case[1][0]} {case[0][5:]}")
def test_more_broken_streams(case: Any, folder: Path) -> None:
    pytest.importorskip("torch")
    check_stream(case, folder)


LAB_STREAMS = [
    ('"$@" >/dev/full', ("grade", "--help"), 1, "No space left on device"),
    ('"$@" >&-', ("--help",), 1, "Bad file descriptor"),
    ('"$@" | head -1', ("--help",), 1, ""),
    ('"$@" | true', ("grade", "01.1", "--from", "."), 1, ""),
    ('"$@" 2>/dev/full', ("nosuch",), 2, ""),
    ('"$@" 2>/dev/full', ("hint", "nosuch"), 2, ""),
    ('"$@"', ("nosuch\x1b",), 2, r"nosuch\x1b"),
    ('"$@"', ("test", "\x1b[31m"), 2, r"'\x1b[31m'"),
    ('"$@"', ("test", LONG), 2, "There is no lab or phase 'xxx"),
    ('"$@"', ("hint", ""), 2, "There is no lab ''"),
    ('"$@"', ("hint", "03.1", "9"), 2, "invalid choice"),
    ('"$@"', ("hint", "03.1", "1", "\x1b"), 2, r"\x1b"),
    ('"$@"', ("diff", "\udcff"), 2, r"'\udcff'"),
    ('"$@"', ("grade", "--from", "nosuch"), 2, "'nosuch' is no folder"),
    ('"$@"', ("grade", "--from", "empty"), 2, "'empty' is no folder"),
    ('"$@"', ("run", "99"), 2, "There is no lab or phase '99'"),
    ('"$@"', ("run", "03", "\udcff"), 2, "the prompt is not UTF-8 text: byte 0xff"),
]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "case", LAB_STREAMS, ids=lambda case: printable(f"{' '.join(case[1])[:30]} {case[0][5:]}")
)
def test_the_lab_under_the_same(case: Any, folder: Path) -> None:
    check_stream(case, folder, LAB)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(env, marks=pytest.mark.nightly if i % 5 else pytest.mark.slow)
        for i, env in enumerate(ENVIRONMENTS)
    ],
    ids=str,
)
def test_any_environment(env: dict[str, str], folder: Path) -> None:
    for call in (SCENARIO_CALL, ("simulate", "--poisson", "5", "--num-requests", "3")):
        status, out, err = program(MINI_VLLM, *call, cwd=folder, env=env)
        assert status == 0, err
        assert "Traceback" not in out + err


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    call = (*SCENARIO_CALL, "--out", "/proc/trace.json")
    status, out, err = program(MINI_VLLM, *call, cwd="/proc")
    check(status, out, err, wanted=2, message="'good.json' does not exist")
    status, out, err = program(MINI_VLLM, *call, cwd=folder)
    check(status, out, err, wanted=2, message="cannot write /proc/trace.json")


SAYS_WHEN_IT_BEGINS = """
from mini_vllm.cli import exits
work = exits.exit_status
exits.exit_status = lambda *a, **k: print("here", flush=True) or work(*a, **k)
"""


# In short pieces: a signal that comes just before the system call does not end it, and Python hears
# of it afterwards.
SLEEP = "[time.sleep(0.01) for _ in range(6000)]"


def interrupted(code: str, call: tuple[str, ...], seconds: float, folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", SAYS_WHEN_IT_BEGINS + code, *call],
        cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()  # what comes before is Python's
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, err.decode()
    assert err.decode().splitlines()[-1] == "Interrupted."
    assert b"Traceback" not in err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_ctrl_c_is_status_130(folder: Path) -> None:
    wait = f"from mini_vllm.cli.exits import run_program; import time; run_program(lambda: {SLEEP})"
    interrupted(wait, (), 0.0, folder)


def test_ctrl_c_that_hits_a_finalizer_is_not_lost() -> None:
    code = f"""
import signal, time
from mini_vllm.cli.exits import run_program
class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def work():
    Dying()
    {SLEEP}
run_program(work)
"""
    status, out, err = program(code)
    assert (status, out, err) == (130, "", "Interrupted.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seconds", [0.1, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1.5, 5.0))]
)
@pytest.mark.parametrize(
    "call",
    [
        ("bench", "--num-requests", "5000"),
        ("simulate", "--poisson", "5", "--num-requests", "99999"),
    ],
)
def test_ctrl_c_at_any_time(call: tuple[str, ...], seconds: float, folder: Path) -> None:
    interrupted(MINI_VLLM, call, seconds, folder)


def test_ctrl_c_in_this_process() -> None:
    def press() -> None:
        raise KeyboardInterrupt

    assert exit_status(press) == 130


def test_what_goes_wrong_has_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(error: BaseException) -> Any:
        raise error

    for error, status, message in (
        (InvalidParameterError("no\x1b"), 2, "Error: no\\x1b"),
        (MemoryError(), 1, "memory"),
        (OSError(errno.ENOSPC, "full", "a\x1b"), 1, "a\\x1b: full"),
        (BrokenPipeError(), 1, ""),
        (
            ModuleNotFoundError("x", name="torch"),
            2,
            "needs torch, which is not installed.\nInstall the extra 'engine'",
        ),
        (ModuleNotFoundError("x", name="orjson"), 2, "Install the extra 'serve'"),
        (ZeroDivisionError("x"), 1, "ZeroDivisionError: x"),
        (SystemExit("x"), 1, ""),
        (SystemExit(5), 5, ""),
        (SystemExit(), 0, ""),
    ):
        assert exit_status(lambda error=error: fail(error)) == status
        said = capsys.readouterr().err
        assert message in said if message else not said
    with pytest.raises(ZeroDivisionError):
        exit_status(lambda: 1 // 0, debug=True)


def test_the_extra_that_is_named_has_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]

    def modules(requirements: list[str]) -> set[str]:
        return {re.split(r"[^\w-]", each)[0].replace("-", "_") for each in requirements}

    brought = {extra: modules(extras[extra]) for extra in extras if extra not in ("dev", "docs")}
    brought["serve"] -= {project["name"].replace("-", "_")}  # for its extra 'structured'
    brought["events"] -= brought["serve"]  # which a server has
    for module in modules(project["dependencies"]).union(*brought.values()):

        def fail(module: str = module) -> None:
            raise ModuleNotFoundError("x", name=module)

        assert exit_status(fail) == 2
        (named,) = re.findall(r"\.\[(\w+)\]", capsys.readouterr().err)
        fitting = [extra for extra, found in brought.items() if module in found] or ["labs"]
        assert named == min(fitting, key=lambda extra: len(brought[extra])), module


def test_values_and_messages_are_cut() -> None:
    assert shown("a\x1b") == r"'a\x1b'"
    for value in (
        LONG,
        LONG.encode(),
        [LONG] * 1000,
        {LONG: LONG},
        10**6000,
        range(3),
        [[[[1] * 99] * 99] * 99] * 99,
    ):
        assert len(shown(value)) <= 200
    assert len(legible(LONG)) < 1010


def test_a_long_value_is_cut_before_it_is_written_out() -> None:
    value = "x" * 10_000_000
    tracemalloc.start()
    shown(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


# --- files ----------------------------------------------------------------------------------------


def test_a_file_is_replaced_in_one_piece(tmp_path: Path) -> None:
    path, link = tmp_path / "a.json", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, "after \udcff")
    assert link.is_symlink()
    assert path.read_text() == "after \\udcff"
    assert path.stat().st_mode & 0o777 == 0o640
    write_file(tmp_path / "b", b"new")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.json", "b", "link"]


@pytest.mark.parametrize("step", ["fsync", "replace", "interrupt"])
def test_a_write_that_fails_leaves_the_earlier_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_text("before")
    (tmp_path / "good.json").write_text(json.dumps(SCENARIO))
    monkeypatch.chdir(tmp_path)

    def fail(*_: Any) -> None:
        raise (
            KeyboardInterrupt
            if step == "interrupt"
            else OSError(errno.ENOSPC, "No space left on device")
        )

    monkeypatch.setattr(os, "fsync" if step != "replace" else "replace", fail)
    status, out, err = run(*SCENARIO_CALL, "--out", "trace.json")
    wanted, message = (
        (130, "") if step == "interrupt" else (1, "trace.json: No space left on device")
    )
    check(status, out, err, wanted=wanted, message=message)
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_a_full_disk_leaves_the_earlier_file(folder: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    path = tmp_path / "trace.json"
    path.write_text("before")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    call = ("trace", "--scenario", "good.json", "--out", str(path))
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    status, out, err = program(MINI_VLLM, *call, cwd=folder, env=env, preexec_fn=limit)
    check(status, out, err, wanted=1, message="trace.json: File too large")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["trace.json"]


@pytest.mark.skipif(IS_ROOT, reason="root may write everything")
def test_a_file_that_must_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    path.chmod(0o400)
    with pytest.raises(InvalidParameterError, match="Permission denied"):
        write_file(path, "after")
    path.chmod(0)
    with pytest.raises(InvalidParameterError, match=r"cannot read .*: Permission denied"):
        read_text(path)
    with pytest.raises(InvalidParameterError, match="Permission denied"):
        list(read_lines(path))


# --- with a model ---------------------------------------------------------------------------------


def test_blocks_that_do_not_fit_are_refused() -> None:
    KVCachePlan(10, 16, 64, 100, 5).check(1000, 500, is_shared=False)
    KVCachePlan(10, 16, 64, 100, 5).check(1500, 1500, is_shared=True)
    for plan, free, is_shared, message in (
        (
            KVCachePlan(11, 16, 64, 100),
            (1000, 500),
            False,
            r"num_kv_blocks 11 .*block_size 16.* need 1,100 bytes, 1,000",
        ),
        (
            KVCachePlan(10, 16, 64, 100, 6),
            (1000, 500),
            False,
            "num_cpu_blocks 6 .* need 600 bytes, 500 are free",
        ),
        (
            KVCachePlan(10, 16, 64, 100, 5),
            (1400, 1400),
            True,
            "num_cpu_blocks 5 .* need 500 bytes, 400 are free",
        ),
    ):
        with pytest.raises(KVCacheTooLargeError, match=message):
            plan.check(*free, is_shared=is_shared)


MODEL_CALLS: list[Call] = [
    (("generate", "hi", "--num-kv-blocks", "2000000000"), 2, "num_kv_blocks 2,000,000,000 of"),
    (
        ("generate", "hi", "--num-kv-blocks", "999999999999"),
        2,
        "num_kv_blocks must be None or an integer in [2, 2147",
    ),
    (
        ("generate", "hi", "--num-kv-blocks", "9" * 400),
        2,
        "num_kv_blocks must be None or an integer in [2, 2147",
    ),
    (("generate", "hi", "--block-size", "9" * 400), 2, "block_size must be an integer in [1, 2147"),
    (("generate", "hi", "--block-size", "999999999"), 2, "holds 0 blocks"),
    (
        ("generate", "hi", "--block-size", "999999999", "--num-kv-blocks", "2"),
        2,
        "block_size 999,999,999",
    ),
    (
        ("generate", "hi", "--num-cpu-blocks", "2000000000", "--preemption-mode", "swap"),
        2,
        "num_cpu_blocks 2,000,000",
    ),
    (("generate", "hi", "--max-model-len", "99999"), 2, "exceeds the model's 2048 positions"),
    (
        ("generate", "hi", "--max-model-len", "9" * 400),
        2,
        "max_model_len must be None or an integer in [1, 2147",
    ),
    (("demo", "--blocks", "2000000000"), 2, "num_kv_blocks 2,000,000,000"),
    (("demo", "--block-size", "999999999999"), 2, "block_size must be an integer in [1, 2147"),
    (("generate", "hi", "--model", "."), 2, "Error: "),
    (("generate", "hi", "--model", "/dev/null"), 2, "Error: "),
    (("generate", "hi", "--model", "\x1b[31m"), 2, "x1b[31m"),
    (("generate", "hi", "--model", LONG), 2, "Error: "),
    (("generate", "hi", "--model", "\udcff"), 2, r"\udcff"),
    (("generate", "hi", "--attention-backend", "\x1b"), 2, r"'\x1b'"),
    (("generate", "hi", "--max-tokens", "0"), 2, "at least 1, got 0"),
    (("generate", "hi", "--temperature", "nan"), 2, "got nan"),
    (("generate", "hi", "--temperature", "inf"), 2, "got inf"),
    (("generate", "hi", "--top-p", "1e300"), 2, "got 1e+300"),
    (("generate", "hi", "--top-k", "-2"), 2, "got -2"),
    (("generate", "hi", "--min-p", "nan"), 2, "got nan"),
    (("generate", "hi", "-n", "999999999"), 2, "got 999999999"),
    (("generate", "hi", "--stop", ""), 2, "strings of 1 to 1024 characters"),
    (("generate", "word " * 20_000), 2, "tokens"),
    (("chat", "-m", ""), 0, ""),
    (("chat", "-m", "word " * 20_000), 2, "tokens"),
    (("calibrate", "--out", "nosuch/x", "--num-kv-blocks", "3"), 2, "shapes"),
    (("trace", "hi", "--max-tokens", "2", "--out", "nosuch/x"), 2, "cannot write nosuch/x"),
]


@pytest.mark.slow
@pytest.mark.parametrize("call", MODEL_CALLS, ids=lambda call: printable(" ".join(call[0])[:60]))
def test_hostile_calls_with_a_model(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(folder)
    arguments, status, message = call
    check(*run(*arguments), wanted=status, message=message)


FAILING = [("generate", "hi", "--num-kv-blocks", "9"), ("chat", "-m", "hi", "--num-kv-blocks", "9")]


@pytest.mark.parametrize("call", FAILING, ids=" ".join)
def test_a_step_that_fails_is_told(
    call: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = pytest.importorskip("mini_vllm.worker.local_executor").LocalExecutor
    monkeypatch.setattr(executor, "execute", lambda *_: [][1])
    status, out, err = run(*call)
    assert status == 1
    assert "IndexError: list index out of range\nThis is a fault of the program." in err
    assert "Traceback" not in out + err


@pytest.mark.nightly
def test_a_line_that_is_no_text_does_not_end_a_chat(folder: Path) -> None:
    pytest.importorskip("torch")
    lines = b"What is a KV block?\n\xff\xfe\nWhat is a KV block?\n"
    call = [sys.executable, "-c", MINI_VLLM, "chat", "--max-tokens", "8"]
    done = subprocess.run(
        call,
        input=lines,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    err = done.stderr.decode()
    assert "the line is not UTF-8 text: byte 0xff at position 0" in err
    figures = [
        list(map(int, re.findall(r"\d+", line)[:2]))
        for line in err.splitlines()
        if "of them cached" in line
    ]
    assert len(figures) == 2
    assert figures[1][0] > figures[0][0], "the conversation goes on"


@pytest.mark.nightly
def test_ctrl_c_while_chat_answers(folder: Path) -> None:
    pytest.importorskip("torch")
    call = [
        sys.executable,
        "-u",
        "-c",
        MINI_VLLM,
        "chat",
        "-m",
        "What is a KV block?",
        "--max-tokens",
        "2000",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.decode().endswith(" [stopped]\n")
    assert err.decode().splitlines()[-1] == "Interrupted."
