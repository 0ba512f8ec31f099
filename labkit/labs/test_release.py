"""A learner in the middle of a lab pulls a newer release: no conflict, no lost byte."""

import shutil
import subprocess
from pathlib import Path

import pytest

from labkit.labs.catalog import ROOT

LAB = "phase-99-test/labs/lab-01"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    run = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def release(folder: Path, version: int) -> None:
    """What a release brings: another stub, another test, another contract."""
    lab = folder / LAB
    lab.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    for name in ("stub.py", "test_it.py", "contract.md"):
        (lab / name).write_text(f"# version {version}\n" * 5)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", f"release {version}")


@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True], ids=["in the working tree", "committed in a fork"])
def test_pulling_a_release_over_a_half_done_lab(tmp_path: Path, committed: bool) -> None:
    upstream, learner = tmp_path / "upstream", tmp_path / "learner"
    upstream.mkdir()
    git(upstream, "init", "-q", "-b", "main")
    release(upstream, 1)
    git(tmp_path, "clone", "-q", str(upstream), str(learner))
    mine, progress = learner / LAB / "mine.py", learner / ".lab" / "progress.json"
    mine.write_bytes(b"def mine():\r\n    return 1  # half\n")
    progress.parent.mkdir()
    progress.write_text("{}")
    if committed:
        git(learner, "add", LAB)
        git(learner, "commit", "-qm", "my lab")
    for version in (2, 3):
        release(upstream, version)
        git(learner, "pull", "-q", "--no-rebase", "--no-edit")
        assert (learner / LAB / "stub.py").read_text().startswith(f"# version {version}")
        assert mine.read_bytes() == b"def mine():\r\n    return 1  # half\n"
        assert progress.read_text() == "{}"
    untracked = git(learner, "status", "--porcelain").splitlines()
    assert untracked == ([] if committed else [f"?? {LAB}/mine.py"])
