"""Deadlines that a busy machine does not bring forward: what counts is the time for which a thread has run.

Code that sleeps, or waits for a lock, does not run. Linux tells it from code that waits for a core, and there it may
stay in one sleep for as many seconds by the clock on the wall. On every system, and also for code that sleeps again and
again, all is over after WALL_TIMES as many by that clock.
"""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress

WALL_TIMES = 20
STATUS = re.compile(rb"^(State|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):\s*(\w+)", re.MULTILINE)


class ThreadOfLinux:
    """What Linux says of a thread; nothing on another system. folder: the thread's, in /proc.

    Its files stay open: labkit.grade.confined keeps code from /proc.
    """

    def __init__(self, folder: str) -> None:
        self._status, self._schedstat = KernelFile(f"{folder}/status"), KernelFile(f"{folder}/schedstat")

    def seconds(self) -> float:
        """For how long it has run."""
        return int((self._schedstat.read().split() or [b"0"])[0]) / 1e9

    def sleep(self) -> int:
        """Which sleep of its life it is in: if it is the same one later, the thread has not run since.

        0 while it runs or waits for a core or a disk, and where the system does not say.
        """
        found = dict(STATUS.findall(self._status.read()))
        if found.pop(b"State", b"R") in (b"R", b"D"):
            return 0
        return sum(map(int, found.values()))


class KernelFile:
    """A file that Linux writes when it is read."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY)

    def read(self) -> bytes:
        """All of it; nothing where there is no such file, or where its thread is no more."""
        if self._descriptor >= 0:
            with suppress(OSError):
                return os.pread(self._descriptor, 4096, 0)
        return b""

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # the end of the program takes `os` away
        try:
            if self._descriptor >= 0:
                close(self._descriptor)
        except OSError:  # other code closed it
            return


class Deadline:
    """So many seconds of a thread, from now on. ran: the clock that says for how long it has run."""

    def __init__(self, seconds: float, ran: Callable[[], float], thread: ThreadOfLinux) -> None:
        self._seconds, self._ran, self._thread = seconds, ran, thread
        self._start, self._start_on_the_wall = ran(), time.monotonic()
        self._sleep, self._since = thread.sleep(), self._start_on_the_wall

    @property
    def left(self) -> float:
        """Seconds left. It cannot pass before these are over; then it must be asked again."""
        now, sleep = time.monotonic(), self._thread.sleep()
        if not sleep or sleep != self._sleep:
            self._sleep, self._since = sleep, now
        return min(
            self._start + self._seconds - self._ran(),
            self._since + self._seconds - now,
            self._start_on_the_wall + WALL_TIMES * self._seconds - now,
        )
