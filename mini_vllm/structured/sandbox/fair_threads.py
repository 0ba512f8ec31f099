"""Threads that work for several owners, such as the tenants of a server, each in its turn.

The next job is of the owner that has used least of late. An owner has at most a quarter of the
threads at once, so its jobs never hold all of them. One that has used its seconds of a minute waits
until some of them are given back. An owner with nothing before its first slash does not: it is no
tenant, but the server's operator or a client's address.
Source: the counter of what each was given is that of "Fairness in Serving Large Language Models"
(Sheng et al., OSDI 2024); that it leaks is the leaky bucket of networks.
"""

import math
import threading
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from mini_vllm.structured.sandbox.child_process import cpu_seconds


class TurnOverError(BaseException):
    """A job takes longer than its turn. It begins again when it is its second owner's turn."""


class Job(NamedTuple):
    """One call for an owner. later: owner and function if its turn is over before it is done."""

    owner: str
    function: Callable[[], Any]
    future: "Future[Any]"
    later: Any = None


class FairThreads:
    """Up to num_threads threads, each started when there is work for it. Any thread may call.

    max_seconds: of the processor, in a minute, for each tenant. They end with close(), or with this
    object.
    """

    def __init__(
        self,
        num_threads: int,
        max_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = cpu_seconds,
    ) -> None:
        self._turns = turns = Turns(num_threads, max_seconds, clock)
        self._cpu_clock = cpu_clock
        self.num_waiting, self.close = turns.num_waiting, turns.close
        weakref.finalize(self, turns.close)

    def submit(self, owner: str, function: Callable[[], Any], *later: Any) -> "Future[Any]":
        """What the function gives or raises. A job that is cancelled before its turn is not begun.

        later: the second owner and function, after the first has raised TurnOverError.
        """
        future: Future[Any] = Future()
        put(Job(owner, function, future, partial(Job, *later)), self._turns, self._cpu_clock)
        return future


class Account:
    """What each owner has used of late, in seconds, of which max_seconds are given back in a
    minute.
    """

    def __init__(self, max_seconds: float, clock: Callable[[], float]) -> None:
        self.max_seconds, self._clock = max_seconds, clock
        # by owner: its seconds, as of when
        self._used: dict[str, tuple[float, float]] = {}

    def add(self, owner: str, seconds: float) -> None:
        if len(self._used) > 4096:
            self._used.clear()
        self._used[owner] = self.used(owner) + seconds, self._clock()

    def used(self, owner: str) -> float:
        seconds, since = self._used.get(owner, (0.0, 0.0))
        return max(0.0, seconds - (self._clock() - since) / 60 * self.max_seconds)


class Turns:
    """The jobs that wait, and whose turn it is."""

    def __init__(self, num_threads: int, max_seconds: float, clock: Callable[[], float]) -> None:
        self._most = num_threads // 4 or 1  # jobs of an owner at once
        self._account = Account(max_seconds, clock)
        self._num_unstarted = num_threads
        self._jobs: OrderedDict[str, deque[Job]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._num_idle, self._is_closed = 0, False
        self._changed = threading.Condition()

    def put(self, job: Job) -> bool:
        """Add a job. Whether a thread has to be started for it."""
        with self._changed:
            self._jobs.setdefault(job.owner, deque()).append(job)
            self._changed.notify()
            num_waiting = sum(map(len, self._jobs.values()))
            is_needed = self._num_idle < num_waiting and self._num_unstarted > 0
            self._num_unstarted -= is_needed
            return is_needed

    def take(self, *, wait: bool = True) -> Job | None:
        """The job that is next; None at the end. Without wait, None also while there is none."""
        with self._changed:
            self._num_idle += 1
            try:
                while not self._is_closed:
                    seconds, owner = self._next()
                    if seconds == 0:
                        return self._begin(owner)
                    if not wait:
                        return None
                    self._changed.wait(None if seconds == math.inf else seconds)
                return None
            finally:
                self._num_idle -= 1

    def done(self, owner: str, seconds: float) -> None:
        """A job of an owner is over. seconds: what it has taken of the processor."""
        with self._changed:
            self._running -= Counter([owner])
            self._account.add(owner, seconds)
            self._changed.notify()

    def num_waiting(self, owner: str) -> int:
        """How many jobs of an owner are not begun."""
        return len(self._jobs.get(owner, ()))

    def close(self) -> None:
        """End the threads, each after the job that it is at."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _next(self) -> tuple[float, str]:
        """The owner that is next, and in how many seconds; infinity if that is not known."""
        found = math.inf, ""
        for owner in sorted(self._jobs, key=self._account.used):
            if self._running[owner] < self._most:
                found = min(found, (self._seconds_to_wait(owner), owner), key=lambda each: each[0])
        return found

    def _begin(self, owner: str) -> Job:
        job = self._jobs[owner].popleft()
        if not self._jobs[owner]:
            del self._jobs[owner]
        self._running[owner] += 1
        return job

    def _seconds_to_wait(self, owner: str) -> float:
        beyond = self._account.used(owner) / self._account.max_seconds - 1
        return 0 if beyond < 0 or owner[:1] in "/" else (beyond + 0.001) * 60


def put(job: Job, turns: Turns, cpu_clock: Callable[[], float]) -> None:
    """Let it be done in its turn."""
    if turns.put(job):
        threading.Thread(target=work, args=(turns, cpu_clock), daemon=True).start()


def work(turns: Turns, cpu_clock: Callable[[], float]) -> None:
    """Do one job after the other, until there is none any more."""
    while (job := turns.take()) is not None:
        before, future = cpu_clock(), job.future
        try:
            then = partial(future.set_result, None if future.cancelled() else job.function())
        except TurnOverError:
            then = partial(put, job.later(future), turns, cpu_clock)
        except BaseException as error:  # the one who waits gets it
            then = partial(future.set_exception, error)
        turns.done(job.owner, cpu_clock() - before)
        with suppress(InvalidStateError):  # it was cancelled
            then()
        del job, future, then
