"""Processes of a group: what they are asked, and how a group ends."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.errors import ExecutorLostError
from mini_vllm.parallel.group import RankGroup
from mini_vllm.parallel.member import IN_RING, Rank, serve
from mini_vllm.parallel.ring import SLOT_BYTES

SHARED_MEMORY = Path("/dev/shm")
LONGER = ((0, True), (0, False), (1, False))
slow = pytest.mark.slow


class Target:
    """What a rank of these tests does."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank.rank

    def who(self) -> tuple[int, int]:
        return self.rank, os.getpid()

    def execute_and_wait(self, step: Any) -> Any:
        match step:
            case ["fail", *ranks] if self.rank in ranks:
                raise ValueError(f"rank {self.rank} fails")
            case ["fail", *_, "wait"]:
                time.sleep(3600)  # for the terms of the rank that failed
            case "hang":
                time.sleep(3600)
            case "unpicklable":
                raise UnpicklableError(self.rank, "words")
        return len(step), self.rank


class UnpicklableError(Exception):
    def __init__(self, rank: int, text: str) -> None:
        super().__init__(text)


def main(rank: Rank, pipe: Connection) -> None:
    serve(rank, Target(rank), pipe)


@pytest.fixture
def group() -> Iterator[RankGroup]:
    group = RankGroup(2, "", main, seconds_to_agree=0.2)
    yield group
    group.close()


def pids_of(group: RankGroup) -> list[int]:
    return [pid for _, pid in group.ask("who")]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


def rings_of(pid: int) -> set[Path]:
    """The files of shared memory that a process has, also those without a name."""
    maps = Path(f"/proc/{pid}/maps").read_text().split()
    return {Path(word) for word in maps if word.startswith(f"{SHARED_MEMORY}/psm_")}


def wait_until_gone(pids: list[int]) -> None:
    for _ in range(6000):  # they take milliseconds; the limit is for a machine that is busy
        if all(map(is_gone, pids)):
            return
        time.sleep(0.01)
    raise AssertionError(f"some of {pids} still run")


def test_all_are_asked_and_rank_0_answers_steps(group: RankGroup) -> None:
    assert [rank for rank, _ in group.ask("who")] == [0, 1]
    (ring,) = [path for path in rings_of(os.getpid()) if path.exists()]
    group.unlink()
    assert not ring.exists()
    # many laps of the ring, and messages too large for it
    lengths = [3, 10_000, SLOT_BYTES, 2 * SLOT_BYTES + 1, 7] * 3
    futures = [group.run(b"x" * length) for length in lengths]
    assert [future.result() for future in futures] == [(length, 0) for length in lengths]
    # a step that fails everywhere has failed, and the group goes on
    for step, error in ((["fail", 0, 1], ValueError), ("unpicklable", RuntimeError)):
        with pytest.raises(error, match=r"rank 0 fails|UnpicklableError: 'words'"):
            group.run(step).result()
    with pytest.raises(AttributeError, match="nothing"):
        group.ask("nothing")
    assert group.run(b"goes on").result() == (7, 0)
    # one that fails in rank 1 alone ends it
    futures = [group.run(step) for step in (["fail", 1], "hang")]
    with pytest.raises(ExecutorLostError, match=r"rank (1 )?has failed alone"):
        futures[1].result()


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0, 1])
def test_a_rank_that_fails_while_the_other_waits_for_it_ends_the_group(
    group: RankGroup, failing: int
) -> None:
    pids = pids_of(group)
    with pytest.raises(ExecutorLostError, match="a rank has failed alone"):
        group.run(["fail", failing, "wait"]).result()
    wait_until_gone(pids)


@pytest.mark.parametrize(
    ("rank", "is_busy"), [(1, True), *(pytest.param(*each, marks=slow) for each in LONGER)]
)
def test_a_rank_that_is_killed_ends_the_group(group: RankGroup, rank: int, is_busy: bool) -> None:
    other = RankGroup(2, "", main)  # of another engine
    pids = pids_of(group)
    future = group.run("hang" if is_busy else b"x")
    if not is_busy:
        future.result()
    os.kill(pids[rank], signal.SIGKILL)
    with pytest.raises(ExecutorLostError, match=rf"rank {rank} of 2 has ended \(exit code -9\)"):
        (future if is_busy else group.run("hang")).result()
    with pytest.raises(ExecutorLostError, match=rf"rank {rank} of 2 has ended"):
        group.ask("who")
    assert group.ended.poll()
    assert not other.ended.poll()
    wait_until_gone(pids)
    assert other.run(b"abc").result() == (3, 0)
    other.close()


def test_no_rank_lives_on_while_the_lost_one_is_waited_for(
    group: RankGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids, events = pids_of(group), []
    for process in multiprocessing.active_children():
        for name in ("kill", "join"):
            event = f"{name} {process.name}"
            monkeypatch.setattr(process, name, noting(events, event, getattr(process, name)))
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(ExecutorLostError, match="rank 1 of 2 has ended"):
        group.run("hang").result()
    assert events[:2] == ["kill mini-vllm rank 0", "join mini-vllm rank 1"]


def noting(events: list[str], event: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, which is noted when it begins."""

    def noted(*arguments: Any) -> Any:
        events.append(event)
        return call(*arguments)

    return noted


SCRIPT = """
import atexit, gc, signal, sys
from mini_vllm.parallel.group import RankGroup
from mini_vllm.parallel.test_group import main, pids_of

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has none
    if "forget" in sys.argv:
        atexit.register(lambda: print(gc.get_freeze_count() > 0))
    meeting = sys.argv[1] if sys.argv[1].startswith("/") else ""
    group = RankGroup(2, meeting, main)
    pids = pids_of(group)
    if "unlink" in sys.argv:
        group.unlink()
    try:
        step = group.run("hang" if "hang" in sys.argv else "x")
        if "hang" not in sys.argv:
            step.result()
        print(*pids, flush=True)
        step.result()
        input()
    except KeyboardInterrupt:
        print(group.run(b"still here").result(), flush=True)
    if "forget" not in sys.argv:
        group.close()
"""


def start(tmp_path: Path, *words: str) -> tuple[subprocess.Popen[str], list[int]]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    return process, [int(word) for word in process.stdout.readline().split()]


@pytest.mark.parametrize(
    "words",
    [("unlink", "hang"), *(pytest.param(each, marks=slow) for each in (("unlink",), ("hang",)))],
)
def test_no_rank_and_no_memory_outlives_a_parent_that_is_killed(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    meeting = tmp_path / "folder" / "meeting"
    meeting.parent.mkdir()
    meeting.touch()
    process, pids = start(tmp_path, str(meeting), *words)
    assert len(pids) == 2
    rings = rings_of(process.pid)
    process.kill()
    process.wait()
    wait_until_gone(pids)
    assert not meeting.parent.exists()
    if "unlink" in words:
        assert len(rings) == 1
        assert not any(path.exists() for path in rings)


def test_a_call_that_is_cut_short_ends_the_group(
    group: RankGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranks would count their calls in two ways, and an answer would never come."""
    send, rest = Connection.send_bytes, [KeyboardInterrupt]

    def interrupted(*arguments: Any) -> None:
        if rest and arguments[1] == IN_RING:
            raise rest.pop()
        send(*arguments)

    monkeypatch.setattr(Connection, "send_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.run("x")
    with pytest.raises(ExecutorLostError, match="a call to the ranks was cut short"):
        group.run("x").result()
    assert group.ended.poll()


@pytest.mark.slow
def test_ctrl_c_reaches_the_parent_alone(tmp_path: Path) -> None:
    process, pids = start(tmp_path, "unlink")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate()
    assert output == "(10, 0)\n"
    wait_until_gone(pids)


@pytest.mark.slow
def test_a_program_that_forgets_to_shut_down_ends(tmp_path: Path) -> None:
    process, pids = start(tmp_path, "unlink", "forget")
    output, _ = process.communicate("\n")
    assert (process.returncode, output) == (0, "True\n"), "what torch has made is looked through"
    wait_until_gone(pids)
