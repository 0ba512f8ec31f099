"""Official clients for JavaScript against `mini-vllm serve`. They are fetched by npm from a lock file with hashes."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parent / "clients"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js is not here"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-c", "from mini_vllm.cli import main; main()", "serve", "--port=0"]
    with subprocess.Popen([*command, "--num-kv-blocks=400"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split("served at ")[1].partition("/v1")[0]
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts, and beside them what they import."""
    folder = tmp_path_factory.mktemp("clients")
    for file in CLIENTS.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    subprocess.run(["npm", "ci", "--silent", "--ignore-scripts"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("name", ["openai_node", "ai_sdk"])
def test_an_official_client_is_served(clients: Path, url: str, name: str) -> None:
    ran = subprocess.run(
        ["node", f"{name}.mjs", url], cwd=clients, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith(": ok\n")
