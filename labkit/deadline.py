"""Deadlines that a busy or starved machine does not bring forward.

Two kinds of waiting are not the test's fault, and Linux counts both. A thread waits for a core while others have them
("run delay", the second number of /proc/<pid>/schedstat). The host of a virtual machine gives its cores to others for a
while ("steal" in /proc/stat, see proc(5)); the time for which a thread is said to have run goes on meanwhile. Where the
system counts neither, a deadline is one by the clock.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress

AT_MOST = 20  # times as long, however little of the machine the host has left
KEPT_SECONDS = 0.05  # for which a reading of the machine's counters serves


class Deadline:
    """So many seconds from now on, by `clock`, without what the host took meanwhile."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._start = clock()
        self._ran, self._taken = machine.counters()

    @property
    def elapsed(self) -> float:
        """Seconds since it was made."""
        by_clock = self._clock() - self._start
        ran, taken = machine.counters()
        ran, taken = ran - self._ran, taken - self._taken
        return by_clock * max(ran / (ran + taken), 1 / AT_MOST) if taken > 0 else by_clock

    @property
    def left(self) -> float:
        """Seconds left; it cannot pass before these are over."""
        by_clock = self.seconds - (self._clock() - self._start)
        return by_clock if by_clock > 0 else self.seconds - self.elapsed


class ClockOfAThread:
    """The clock on the wall, without the time in which one thread waited for a core. thread: its folder in /proc."""

    def __init__(self, thread: str) -> None:
        self._file = KernelFile(f"{thread}/schedstat")
        self._waited = 0.0
        self.is_exact = bool(self._file.numbers())  # else it is the clock on the wall

    def __call__(self) -> float:
        numbers = self._file.numbers()
        if len(numbers) > 1:
            self._waited = numbers[1] / 1e9
        return time.monotonic() - self._waited


class KernelFile:
    """A file of numbers that Linux writes when it is read. It stays open: labkit.confined keeps code from /proc."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY)

    def numbers(self) -> list[int]:
        """Those of its first line; none where there is no such file, or where its thread is no more."""
        if self._descriptor >= 0:
            with suppress(OSError):
                return [
                    int(word) for word in os.pread(self._descriptor, 200, 0).split(b"\n")[0].split() if word.isdigit()
                ]
        return []

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # the end of the program takes `os` away
        try:
            if self._descriptor >= 0:
                close(self._descriptor)
        except OSError:  # other code closed it
            return


class Machine:
    """All cores together, in ticks of the system."""

    def __init__(self) -> None:
        self._file = KernelFile("/proc/stat")
        self._read_at = -KEPT_SECONDS
        self._counters = 0.0, 0.0

    def counters(self) -> tuple[float, float]:
        """For how long the cores ran, and for how long they wanted to while the host ran others."""
        if time.monotonic() - self._read_at >= KEPT_SECONDS:
            if len(numbers := self._file.numbers()) >= 8:
                user, nice, system, _, _, irq, softirq, steal = numbers[:8]
                self._counters = float(user + nice + system + irq + softirq), float(steal)
            self._read_at = time.monotonic()
        return self._counters


machine = Machine()
