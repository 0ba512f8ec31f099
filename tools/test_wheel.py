"""What is shipped: the wheel has the code and the data that it needs, and no test."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_wheel_has_everything_but_the_tests(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ROOT,
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("mini_vllm-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert not [name for name in names if Path(name).name.startswith(("test_", "conftest"))]
    assert {name.split("/")[0] for name in names} == {"labkit", "mini_vllm"}
    shipped = {"mini_vllm", "labkit"}
    tracked = subprocess.run(["git", "ls-files", *shipped], cwd=ROOT, check=True, capture_output=True, text=True)
    assert names == {name for name in tracked.stdout.split() if not Path(name).name.startswith(("test_", "conftest"))}


def test_no_tool_imports_a_test() -> None:
    for file in (ROOT / "tools").rglob("*.py"):
        if not file.name.startswith(("test_", "conftest")):
            lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "import" in line.split()]
            assert not [line for line in lines if ".test_" in line or "import test_" in line], file
