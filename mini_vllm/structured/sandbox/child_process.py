"""A process that does what may take too long or too much, so that it can be killed: one question in
JSON, one answer.

It starts with the first question, limits itself, and ends with close(), with this object, or with
the process that made it, since its stdin is then closed. What crosses is 8 bytes of length and
JSON, both ways.
"""

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

LENGTH = struct.Struct("<Q")  # of the JSON that follows
WALL_TIMES = 20  # by the clock on the wall a question may take so many times as long


AnyProcess = TypeVar("AnyProcess", bound="ChildProcess")


class ChildProcess:
    """One process at a time, from this side.

    Its program gets seconds and bytes as its last two arguments.
    """

    program: tuple[str, ...] = ()  # what Python is told to run

    def __init__(self, max_seconds: float, max_memory_bytes: int) -> None:
        self._max_seconds, self._max_memory_bytes = max_seconds, max_memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._stop: weakref.finalize[Any, Any] | None = None

    def ask(self, question: bytes) -> Any:
        """The answer.

        Raises TimeoutError or EOFError that says what has become of the process, or OSError if it
        does not start.
        """
        process = self._process
        if not process or process.poll() is not None:
            process = self._start()
        try:
            tell(process, question)
            answer = hear(process)
            _spent.in_children = spent_by_children() + answer.pop("seconds", 0.0)
            return answer
        # its answer, or the rest of it, would be taken for the next one's
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError | EOFError | ValueError):
                raise
            if process.returncode in (-signal.SIGPROF, -signal.SIGALRM):
                _spent.in_children = spent_by_children() + self._max_seconds
                raise TimeoutError(f"takes more than {self._max_seconds:g} seconds") from error
            raise EOFError(f"has ended its process (status {process.returncode})") from error

    def close(self) -> None:
        """End the process. The next question starts it again."""
        if self._stop is not None:
            self._stop()
        self._process = self._stop = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                *self.program,
                str(self._max_seconds),
                str(self._max_memory_bytes),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # It finds the packages where this process does.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._stop = weakref.finalize(self, end, process)
        return process


_spent = threading.local()


def spent_by_children() -> float:
    """Seconds of the processor that processes have taken to answer this thread."""
    seconds: float = getattr(_spent, "in_children", 0.0)
    return seconds


def cpu_seconds() -> float:
    """Seconds of the processor that this thread has taken, and processes for it. It only grows."""
    return time.thread_time() + spent_by_children()


class ProcessPool(Generic[AnyProcess]):
    """As many processes as are asked at once. Any thread may call."""

    def __init__(self, make: Callable[[], AnyProcess]) -> None:
        self._make = make
        self._idle: list[AnyProcess] = []
        self._all: list[AnyProcess] = []

    @contextmanager
    def one(self) -> Iterator[AnyProcess]:
        """A process that no other thread asks meanwhile: of those that wait, the last one."""
        try:
            process = self._idle.pop()
        except IndexError:
            process = self._make()
            self._all.append(process)
        try:
            yield process
        finally:
            self._idle.append(process)

    def close(self) -> None:
        """End them. The next questions start them again."""
        for process in self._all:
            process.close()


def tell(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Send JSON."""
    assert process.stdin is not None
    send(process.stdin, text)


def hear(process: subprocess.Popen[bytes]) -> Any:
    """An answer. Raises EOFError if the process ends first."""
    assert process.stdout is not None
    body = receive(process.stdout)
    if not body:
        process.wait()
        raise EOFError
    return json.loads(body.decode("utf-8", "surrogatepass"))


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and wait for its end."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what it was about to write goes nowhere
                pipe.close()
    process.kill()
    process.wait()


# --- what crosses ---------------------------------------------------------------------------------


def send(pipe: IO[bytes], text: bytes) -> None:
    """Write JSON behind its length."""
    pipe.write(LENGTH.pack(len(text)) + text)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """The JSON that comes next; nothing if the pipe ends first."""
    header = pipe.read(LENGTH.size)
    return pipe.read(LENGTH.unpack(header)[0]) if len(header) == LENGTH.size else b""


# --- within the process ---------------------------------------------------------------------------


def questions() -> Iterator[Any]:
    """What is asked, until stdin ends. Ctrl-C is for the process in front."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while text := receive(sys.stdin.buffer):
        yield json.loads(text)


def set_timers(seconds: float) -> None:
    """The system ends the process in so many seconds of the processor, or WALL_TIMES as many by the
    clock; 0 is never.

    Its timers do so also inside a single long operation, and also when no process is left that
    would.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL_TIMES * seconds)


def limit_memory(num_bytes: int) -> None:
    """Let the process have so many bytes, where the system has such a limit."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_further_memory(num_bytes: int) -> None:
    """What the process has now, and so much more; where the system says what it has."""
    with suppress(OSError):
        num_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit_memory(num_pages * os.sysconf("SC_PAGE_SIZE") + num_bytes)


def answer(pipe: IO[bytes], found: dict[str, Any], begun: float) -> None:
    """Send an answer, with the seconds of the processor since `begun` by time.process_time()."""
    found["seconds"] = time.process_time() - begun
    send(pipe, json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass"))
