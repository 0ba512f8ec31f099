"""The programs in examples/ run as they are: the book shows parts of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*command: str) -> str:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_the_library_answers_and_a_tool_is_called() -> None:
    pytest.importorskip("xgrammar", reason="a forced call is a grammar")
    first, second, *messages = run("examples/library.py").splitlines()
    assert first.startswith("0  a fixed-size piece of the KV cache")
    assert second.startswith("0  a long prompt over several steps")
    assert "num_free_blocks" in messages[1]
    assert "'role': 'tool'" in messages[2]


@pytest.mark.slow
def test_a_client_streams_from_the_server() -> None:
    pytest.importorskip("openai")
    pytest.importorskip("starlette", reason="the server is the extra 'serve'")
    serve = [sys.executable, "-c", "from mini_vllm.cli import main; main()", "serve", "--port=0", "--num-kv-blocks=400"]
    with subprocess.Popen(serve, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split("served at http://")[1].partition("/v1")[0]
        program = (ROOT / "examples/client.py").read_text(encoding="utf-8").replace("127.0.0.1:8000", address)
        try:
            assert run("-c", program).startswith("A KV block is a fixed-size piece")
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
