"""The processes of the ranks, as their parent sees them: what it asks, and what they answer.

A rank that ends, or that fails where another one does not, takes the group with it: the other ranks
would wait for its terms without end. Source: vllm/v1/executor/multiproc_executor.py (WorkerProc,
monitor_workers).
"""

import atexit
import gc
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.shared_memory import SharedMemory
from threading import Lock, Thread
from typing import Any

from mini_vllm.errors import ExecutorLostError, shown
from mini_vllm.parallel.member import IN_RING, STEP, Answer, Call, Rank, start
from mini_vllm.parallel.ring import SLOT_BYTES, Ring

NAP = 1e-4  # seconds between two looks at a ring that is full


@dataclass(slots=True)
class Pending:
    """What is asked and not answered yet. answers: by rank; deadline: until when the rest may
    come.
    """

    is_step: bool
    future: "Future[Any]" = field(default_factory=Future)
    answers: dict[int, Answer] = field(default_factory=dict)
    deadline: float = inf


class RankGroup:
    """Processes that run main(rank, pipe, *arguments). One thread asks; a thread of the group's own
    takes the answers.

    meeting: a file by which the ranks find each other. seconds_to_agree: within which all ranks
    fail in a step in which one does.
    """

    def __init__(
        self,
        size: int,
        meeting: str,
        main: Callable[..., None],
        *arguments: Any,
        seconds_to_agree: float = 10,
    ) -> None:
        self.size, self._seconds = size, seconds_to_agree
        self._pending: dict[int, Pending] = {}
        self._number = 0
        self._end: ExecutorLostError | None = None
        self._lock = Lock()  # of the three above
        # of no bytes: it can be read when the group has ended
        self.ended, self._ender = multiprocessing.Pipe(duplex=False)
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        self._memory = SharedMemory(create=True, size=Ring.size_for(self.size))
        self._ring = Ring(self._memory.buf, self.size)
        atexit.register(self.close)
        # else the end of Python looks through all that torch has made, for a second
        atexit.register(gc.freeze)
        context = multiprocessing.get_context("spawn")
        payload = bytes(ForkingPickler.dumps((main, arguments)))
        for i in range(self.size):
            rank = Rank(i, self.size, self._memory.name, meeting)
            pipe, theirs = context.Pipe()
            process = context.Process(
                target=start,
                args=(rank, theirs, payload),
                name=f"mini-vllm rank {i}",
                daemon=True,
            )
            with (
                signals_blocked()
            ):  # Ctrl-C reaches the whole group, and the parent says what to do
                process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(pipe)
        self._thread = Thread(target=self._listen, name="ranks", daemon=True)
        self._thread.start()

    # --- what is asked ----------------------------------------------------------------------------

    def ask(self, name: str, *arguments: Any) -> list[Any]:
        """What a method of every rank returns, by rank. Raises what the first of them raised."""
        answers: list[Any] = self._post(bytes(ForkingPickler.dumps(Call(name, arguments)))).result()
        return answers

    def run(self, *step: object) -> "Future[Any]":
        """A step on every rank. The future has the output of rank 0."""
        message = bytes(ForkingPickler.dumps(step))
        if len(message) > SLOT_BYTES:
            message = bytes(ForkingPickler.dumps(Call(STEP, step)))
            return self._post(message, is_step=True)
        with self._whole():
            while not self._ring.try_write(message):
                if self._end:
                    break
                time.sleep(NAP)
            return self._post(IN_RING, is_step=True)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A call that only some of the ranks have heard of, as after Ctrl-C, ends the group."""
        try:
            yield
        except BaseException:
            self._lose("a call to the ranks was cut short")
            raise

    def _post(self, message: bytes, *, is_step: bool = False) -> "Future[Any]":
        pending = Pending(is_step)
        with self._whole():
            with self._lock:
                if self._end:
                    pending.future.set_exception(self._end)
                    return pending.future
                self._pending[self._number] = pending
                self._number += 1
            for i, pipe in enumerate(self._pipes):
                try:
                    pipe.send_bytes(message)
                except OSError:
                    self._lose_rank(i)
        return pending.future

    def unlink(self) -> None:
        """Take the ring's name away. All who have it keep it, and nothing is left behind."""
        self._memory.unlink()

    def close(self) -> None:
        """End the processes. What is not answered is lost."""
        atexit.unregister(self.close)
        self._lose("it was shut down")
        for process in self._processes:
            process.join()
        self._thread.join()

    # --- what is answered -------------------------------------------------------------------------

    def _listen(self) -> None:
        while self._end is None:
            deadline = min((each.deadline for each in [*self._pending.values()]), default=inf)
            left = None if deadline == inf else max(0, deadline - time.monotonic())
            ready: Sequence[Any] = wait(self._pipes, left)
            if not ready and deadline < inf:
                self._lose("a rank has failed alone, and the other ranks wait for it")
            for i, pipe in enumerate(self._pipes):
                if pipe in ready:
                    try:
                        answer = ForkingPickler.loads(pipe.recv_bytes())
                    except (EOFError, OSError):
                        self._lose_rank(i)
                        return
                    self._take(i, answer)

    def _take(self, rank: int, answer: Answer) -> None:
        with self._lock:
            pending = self._pending.get(answer.number)
            outcome = None if pending is None else self._outcome_of(pending, rank, answer)
            if outcome is not None:
                del self._pending[answer.number]
        if pending is None:
            self._lose(f"rank {rank} has failed alone: {shown(answer.value)}")
        elif outcome is not None and outcome.failed:
            pending.future.set_exception(outcome.value)
        elif outcome is not None:
            pending.future.set_result(outcome.value)

    def _outcome_of(self, pending: Pending, rank: int, answer: Answer) -> Answer | None:
        """What the answers come to with this one; None while it is open."""
        pending.answers[rank] = answer
        answers = [pending.answers[i] for i in sorted(pending.answers)]
        failed = [each for each in answers if each.failed]
        is_complete = len(answers) == self.size
        if pending.is_step and not failed:
            return answers[0]  # that of rank 0, which alone answers
        if pending.is_step and len(failed) < self.size:
            pending.deadline = time.monotonic() + self._seconds
            return None
        if not is_complete:
            return None
        return failed[0] if failed else Answer(0, False, [each.value for each in answers])

    def _lose_rank(self, rank: int) -> None:
        """Its pipe is closed. It may still have to say why, and no other rank waits for that."""
        lost = self._processes[rank]
        for process in self._processes:
            if process is not lost:
                process.kill()
        lost.join(1)
        self._lose(f"rank {rank} of {self.size} has ended (exit code {lost.exitcode})")

    def _lose(self, reason: str) -> None:
        """End all ranks, and whatever waits for them."""
        with self._lock:
            if self._end is None:
                self._end = ExecutorLostError(f"{reason}; a new engine has to be made")
                self._ender.close()  # once, by one thread: its number may be another file's by then
            waiting, self._pending = list(self._pending.values()), {}
        for process in self._processes:
            process.kill()
        for each in waiting:
            each.future.set_exception(self._end)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """A process that is started here never gets SIGINT and SIGTERM."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
