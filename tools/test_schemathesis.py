"""The server against its own /openapi.json, by schemathesis: no body is a server error, each answer is as it says.

`make test-openapi` installs it into a place of its own. NUM_CASES in the environment: of each route.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCHEMATHESIS = ROOT / ".venv" / "schemathesis" / "bin" / "schemathesis"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="make test-openapi installs schemathesis"),
]


@pytest.fixture
def url() -> Iterator[str]:
    command = [sys.executable, "-c", "from mini_vllm.cli import main; main()", "serve", "--port=0"]
    with subprocess.Popen([*command, "--max-model-len=128"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split("served at ")[1].partition("/v1")[0]
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_no_body_is_an_error_of_the_server(url: str, tmp_path: Path) -> None:
    number = os.environ.get("NUM_CASES", "50")
    options = [
        "--checks",
        CHECKS,
        "--max-examples",
        number,
        "--seed",
        "1",
        "--no-color",
        "--no-shrink",
        "--request-timeout",
        "600",
    ]
    ran = subprocess.run(
        [str(SCHEMATHESIS), "run", f"{url}/openapi.json", *options, "--continue-on-failure"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
