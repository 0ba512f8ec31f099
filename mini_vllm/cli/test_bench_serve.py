"""bench serve: the whole command, against a live server and where there is none."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mini_vllm.cli import bench_serve
from mini_vllm.cli.commands import app
from mini_vllm.load import generator
from mini_vllm.load.client import Answer, Api
from mini_vllm.load.generator import Ready, WordCount
from mini_vllm.serving.conftest import LiveServer


def run(*arguments: str, status: int = 0) -> Any:
    result = CliRunner(env={"COLUMNS": "100", "FORCE_COLOR": None}).invoke(
        app, ["bench", "serve", *arguments]
    )
    assert result.exit_code == status, result.output
    return result


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    server = LiveServer({"num_kv_blocks": 200}, {}, {})
    yield server
    server.assert_idle()
    server.stop()


NAMES_OF_VLLM = """
    Successful requests: Failed requests: Maximum request concurrency: Request rate configured (RPS):
    Benchmark duration (s): Total input tokens: Total generated tokens: Request throughput (req/s):
    Request goodput (req/s): Output token throughput (tok/s): Peak output token throughput (tok/s):
    Peak concurrent requests: Total token throughput (tok/s): Mean TTFT (ms): Median TTFT (ms): P99 TTFT (ms):
    Mean TPOT (ms): Median TPOT (ms): P99 TPOT (ms): Mean ITL (ms): Median ITL (ms): P99 ITL (ms):
    Mean E2EL (ms): Median E2EL (ms): P99 E2EL (ms): Mean Client Queue Time (ms):
"""


@pytest.mark.slow
def test_a_run_against_a_live_server(live: LiveServer, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, plot = tmp_path / "result.json", tmp_path / "run.png"
    text = run(
        *(
            "--base-url",
            live.url,
            "--num-prompts",
            "6",
            "--request-rate",
            "200",
            "--max-concurrency",
            "3",
        ),
        *(
            "--input-len",
            "40",
            "--output-len",
            "5",
            "--ignore-eos",
            "--goodput",
            "ttft:1e8 tpot:1e8 e2el:1e8",
        ),
        *("--out", str(out), "--plot", str(plot)),
    ).stdout
    rows = dict(re.findall(r"^(.*:) +(\S+)$", text, re.MULTILINE))
    for name in re.findall(r"\S[^:]*:", NAMES_OF_VLLM):
        assert re.sub(r"\s+", " ", name) in rows
    assert (rows["Successful requests:"], rows["Failed requests:"]) == ("6", "0")
    assert (rows["Total input tokens:"], rows["Total generated tokens:"]) == ("240", "30")
    result = json.loads(out.read_text())
    assert result["input_lens"] == [40] * 6  # a word is a token of the bundled model
    assert result["output_lens"] == [5] * 6
    # a busy server puts several tokens, or all, into one chunk
    assert all(len(each) <= 4 for each in result["itls"])
    assert (
        result["completed"],
        result["model_id"],
        result["request_rate"],
        result["ignore_eos"],
    ) == (
        6,
        "tiny",
        200,
        True,
    )
    assert result["request_goodput"] == result["request_throughput"]
    assert result["offered_request_rate"] == pytest.approx(200)
    assert result["errors"] == [""] * 6
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_chats_and_a_recorded_trace(live: LiveServer, tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "result.json"
    lines = [
        {"timestamp": 0, "input_length": 600, "output_length": 6, "hash_ids": [1, 2]},
        {"timestamp": 30, "input_length": 700, "output_length": 0, "hash_ids": [1, 3]},
        {"timestamp": 40, "input_length": 700, "output_length": 1, "hash_ids": [1, 3]},
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = (
        "--base-url",
        f"{live.url}/v1",
        "--endpoint",
        "chat",
        "--ignore-eos",
        "--out",
        str(out),
    )
    text = run(
        *options, "--trace", str(trace), "--num-prompts", "2", "--length-scale", "0.5"
    ).stdout
    result = json.loads(out.read_text())
    assert (result["input_lens"], result["output_lens"]) == ([300, 350], [3, 1])
    assert (result["request_rate"], result["backend"]) == ("inf", "openai-chat")
    assert result["offered_request_rate"] == pytest.approx(2 / 0.03)
    assert "Request rate configured" not in text
    assert "Maximum request concurrency" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--base-url", "ftp://x"),
            "base_url must be http://HOST[:PORT] or https://HOST[:PORT], got 'ftp://x'",
        ),
        (
            ("--base-url", "http://x:0"),
            "base_url must be http://HOST[:PORT] or https://HOST[:PORT], got 'http://x:0'",
        ),
        (("--base-url", "http://x:99999"), "got 'http://x:99999': Port out of range 0-65535"),
        (("--base-url", "http://x/\n"), r"got 'http://x/\n'"),
        (("--base-url", "http://user:word@x"), "base_url must be"),
        (("--endpoint", "edits"), "endpoint must be one of ['completions', 'chat'], got 'edits'"),
        (
            ("--request-rate", "0"),
            "rate and burstiness must be above 0, in [1e-06, 1e+06] and [0.001, 1000], got 0.0",
        ),
        (("--request-rate", "nan"), "got nan and 1.0"),
        (("--request-rate", "2", "--burstiness", "0"), "got 2.0 and 0.0"),
        (
            ("--goodput", "ttft:200 itl:5"),
            "goodput must name each of ['ttft', 'tpot', 'e2el'] at most once, got 'itl:5'",
        ),
        (("--goodput", "ttft:1", "--goodput", "ttft:2"), "at most once, got 'ttft:2'"),
        (
            ("--goodput", "ttft:fast"),
            "goodput: ttft must be milliseconds above 0 and at most 1e+09, got 'fast'",
        ),
        (("--goodput", "tpot:-1"), "got '-1'"),
        (("--timeout", "0"), "timeout must be above 0 and at most 1,000,000 s, got 0.0"),
        (("--api-key", "a\nb"), "api_key must be printable ASCII without spaces"),
        (
            ("--input-len", "100000"),
            "1,000 requests have 100,000,000 prompt tokens, at most 20,000,000 are allowed",
        ),
        (("--out", "/nowhere/x.json"), "cannot write /nowhere/x.json: there is no such folder"),
        (
            ("--trace", "TRACE", "--request-rate", "3"),
            "give --trace or --request-rate, and not both, got 3",
        ),
        (
            ("--trace", "TRACE", "--length-scale", "0"),
            "length_scale must be in [0.001, 1000], got 0.0",
        ),
        (("--trace", "TRACE", "--rate-scale", "0"), "the rate scale must be above 0"),
        (("--trace", "TRACE"), "trace.csv, line 2: ValueError"),
        (("--dataset-path", "TRACE", "--dataset-name", "nosuch"), "custom or sharegpt"),
        (("--dataset-path", "TRACE", "--trace", "TRACE"), "and no --trace"),
        (("--dataset-path", "TRACE", "--dataset-name", "sharegpt"), "trace.csv, Expecting value"),
        (("--num-prompts", "0"), "'--num-prompts'"),
        (("--num-prompts", "100001"), "'--num-prompts'"),
        (("--max-concurrency", "0"), "'--max-concurrency'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n")
    given = [str(trace) if option == "TRACE" else option for option in options]
    # 1, if it had tried to send
    result = run("--base-url", f"http://127.0.0.1:{free_port()}", *given, status=2)
    assert message in re.sub(r"\s*\n\s*", " ", result.stderr) or message in result.stderr
    assert result.stdout == ""


def test_a_trace_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace.csv"
    lines = [f"2023-11-16 18:15:{second:02},5,5" for second in range(4)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]))
    monkeypatch.setattr("mini_vllm.cli.bench_serve.MAX_PROMPTS", 3)
    options = ("--base-url", f"http://127.0.0.1:{free_port()}", "--trace", str(trace))
    assert (
        "more than 3 requests: say with num_prompts how many to send"
        in run(*options, status=2).stderr
    )
    assert "connection refused" in run(*options, "--num-prompts", "3", status=1).stderr


def test_a_context_that_is_too_short(live: LiveServer) -> None:
    result = run(
        "--base-url",
        live.url,
        "--input-len",
        "2000",
        "--output-len",
        "49",
        "--num-prompts",
        "2",
        status=2,
    )
    wanted = (
        "request 1: 2000 prompt tokens and 49 output tokens are more than the model's "
        "context "
        "of 2048"
    )
    assert wanted in result.stderr


@pytest.mark.parametrize(
    ("name", "text", "num_output_tokens"),
    [
        ("custom", "What is a KV block?\nWhat is a slot?\nWhat is a step?\n", 2 * 9),
        ("custom", '{"prompt": "a", "output_tokens": 4}\n{"prompt": "b"}\n{"prompt": "c"}', 4 + 9),
        (
            "sharegpt",
            json.dumps(
                [{"conversations": [{"value": "What is a block"}, {"value": "It is one piece"}]}]
                * 3
            ),
            2 * 4,
        ),
    ],
)
def test_prompts_of_a_dataset_are_sent(
    live: LiveServer, tmp_path: Path, name: str, text: str, num_output_tokens: int
) -> None:
    dataset, out = tmp_path / "dataset", tmp_path / "out.json"
    dataset.write_text(text)
    options = ("--dataset-path", str(dataset), "--dataset-name", name, "--num-prompts", "2")
    run(
        *("--base-url", live.url, "--out", str(out), "--output-len", "9", "--ignore-eos"),
        *options,
    )
    result = json.loads(out.read_text())
    assert (result["completed"], result["total_output_tokens"]) == (2, num_output_tokens)


def test_a_server_that_is_not_there_is_one_line() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for base_url in (url, url.replace("http:", "https:"), url.replace("127.0.0.1", "localhost")):
        assert (
            run("--base-url", base_url, status=1).stderr
            == f"Error: {base_url}: connection refused\n"
        )


def test_if_every_request_fails_the_status_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    async def get_ready(*arguments: Any, **options: Any) -> Ready:
        return Ready(Api("completions", "m"), None, WordCount())

    monkeypatch.setattr(generator, "get_ready", get_ready)
    options = (
        "--base-url",
        f"http://127.0.0.1:{free_port()}",
        "--num-prompts",
        "3",
        "--ignore-eos",
    )
    result = run(*options, status=1)
    assert re.search(r"^connection refused: +3$", result.stdout, re.MULTILINE)
    assert re.search(r"^Mean TTFT \(ms\): +n/a$", result.stdout, re.MULTILINE)
    assert "The server refuses ignore_eos" in result.stderr


def test_bench_alone_is_what_it_was() -> None:
    runner = CliRunner(env={"COLUMNS": "100"})
    assert "--num-requests" in runner.invoke(app, ["bench", "--help"]).output
    assert "--base-url" not in runner.invoke(app, ["bench", "--help"]).output
    assert "--base-url" in run("--help").output
    refused = runner.invoke(app, ["bench", "--num-requests", "1", "serve"])
    assert (refused.exit_code, "serve" in refused.output) == (2, True)
    assert re.search(r"^  bench serve ", runner.invoke(app, ["--help"]).output, re.MULTILINE)


def test_it_waits_for_a_server_that_loads_and_no_longer_than_asked() -> None:
    """Nothing listens, then it loads, then it is there; one without /health is there, too."""
    refused = ConnectionRefusedError()
    for answers, num_waits in (
        ([refused, Answer(503, b""), Answer(200, b"")], 2),
        ([Answer(404, b"")], 0),
        ([refused] * 10, 4),
    ):
        left, waits = iter(answers), []

        class Loading:
            async def ask(self, method: str, path: str, left: Any = left) -> Answer:
                assert (method, path) == ("GET", "/health")
                if isinstance(answer := next(left), Exception):
                    raise answer
                return answer

        async def note(seconds: float, waits: list[float] = waits) -> None:
            waits.append(seconds)

        measured = asyncio.sleep(0, "measured")
        assert asyncio.run(bench_serve.when_there(Loading(), 2.0, measured, note)) == "measured"  # type: ignore[arg-type]
        assert waits == [0.5] * num_waits
