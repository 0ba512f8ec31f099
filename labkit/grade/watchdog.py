"""Ends code that does not end: a thread raises LabHang in the code's thread, again and again until it comes out.

LabHang is no Exception, so a loop that swallows those cannot keep it. One that swallows BaseException meets the next
one a moment later. Works on every system, since it needs neither signals nor processes; it sleeps under a debugger,
where a breakpoint is no hang. What runs inside one call to C cannot be interrupted by it.

The time that counts is that for which the code's own thread has run (labkit.grade.deadline): on a busy machine nothing
is ended that is merely slow.

LabHang may come between any two instructions, in this module and inside locks of other modules, too. So one thread does
it all, from the first use on, and shares with the watched ones nothing but a list, flags and a lock that they only
release; each operation on them is atomic. The thread says that it fires before it looks whether a block was left, and a
block says that it was left before it looks whether the thread fires: so one of them sees the other. A block at which
the thread has fired waits until the thread has taken note. Then it replaces what is still on its way by an exception of
its own, and lets that arrive."""

import contextlib
import ctypes
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from labkit.grade.deadline import Deadline, ThreadOfLinux

FIRST_SECONDS = 8.0  # a slow machine takes three times as long for a right answer as a quick one
AFTER_A_HANG = 0.3  # for the tests after one that hung: most of them will, too
MOST_SECONDS = 60.0  # between two looks
AGAIN_SECONDS = 0.002  # often: one that swallows everything lets go only between two turns of its loop
DEPTH = 10  # frames; what this module calls is not deep

Clock = tuple[Callable[[], float], ThreadOfLinux]


class LabHang(BaseException):
    """The learner's code did not come back; where says at which line it was."""

    where: str = ""


class Arrived(BaseException):
    """What a thread has sent to itself."""


class Watch:
    """One block of code under watch.

    fires: a LabHang may be on its way; left: its owner is out; settled: no more will come.
    """

    def __init__(self, seconds: float, file: Path | None) -> None:
        self.thread_id = threading.get_ident()
        self._deadline = Deadline(seconds, *clock_of_this_thread())
        self.file = file
        self.where = ""
        self.fires = False
        self.left = False
        self.settled = False

    @property
    def is_overdue(self) -> bool:
        return not self.left and self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """It is not overdue before that."""
        try:
            return self._deadline.left
        except OSError:  # its thread is no more
            return MOST_SECONDS


_watches: list[Watch] = []
_own = threading.local()  # clock: of the thread with the number native_id, which a fork changes
_news = threading.Lock()  # held by the thread, and released by other threads to wake it
_next_look = [-math.inf]  # when the thread looks again, of time.monotonic(); minus infinity while it looks
_watcher: threading.Thread | None = None
_limits = FIRST_SECONDS, AFTER_A_HANG


@contextmanager
def limits(first: float, after_a_hang: float) -> Iterator[None]:
    """Other limits than FIRST_SECONDS and AFTER_A_HANG: for code that is known, or known to hang."""
    global _limits
    before, _limits = _limits, (first, after_a_hang)
    try:
        yield
    finally:
        _limits = before


def limit(hung: bool = False) -> float:
    """How many seconds a test has. hung: one before it did not come back, and most of them will not, then."""
    return _limits[hung]


@contextmanager
def watchdog(seconds: float | None = None, file: Path | None = None) -> Iterator[None]:
    """Let the block run for so many seconds; if not given, for limit().

    Raises LabHang, with the line of `file` where the block was.
    """
    if is_debugging() or sys.platform == "emscripten":  # a page of the book has no threads; its Stop ends a hang
        yield
        return
    start_watcher()
    seconds = limit() if seconds is None else seconds
    watch = Watch(seconds, file)
    try:
        _watches.append(watch)
        if not time.monotonic() <= _next_look[0] <= time.monotonic() + seconds:
            wake()
        yield
    except LabHang as hang:
        hang.where = hang.where or watch.where
        raise
    finally:
        leave(watch)


def clock_of_this_thread() -> Clock:
    """What says how long this thread has run, or this process if the system does not say; and the thread itself."""
    native_id = threading.get_native_id()
    if getattr(_own, "native_id", None) != native_id:
        ran = time.process_time
        if hasattr(time, "pthread_getcpuclockid"):
            ran = partial(time.clock_gettime, time.pthread_getcpuclockid(threading.get_ident()))
        _own.native_id, _own.clock = native_id, (ran, ThreadOfLinux(f"/proc/self/task/{native_id}"))
    clock: Clock = _own.clock
    return clock


def start_watcher() -> None:
    """Start the thread if there is none, as in a new process."""
    global _watcher
    if _watcher is None or not _watcher.is_alive():
        _watches.clear()
        _news.acquire(blocking=False)
        _watcher = threading.Thread(target=look, name="labkit watchdog", daemon=True)
        _watcher.start()


def leave(watch: Watch) -> None:
    """No LabHang comes for this watch after this; one that comes meanwhile, for it or for one around it, is dropped."""
    while True:
        try:
            watch.left = True
            if not watch.fires:
                with contextlib.suppress(ValueError):  # the thread took it out
                    _watches.remove(watch)
                return
            while not watch.settled:
                if watch not in _watches and not watch.settled:  # it was interrupted before it was in
                    _watches.append(watch)
                wake()
                time.sleep(0)
            take_the_flag_down()
            return
        except LabHang:
            watch.fires = True


def take_the_flag_down() -> None:
    """Replace what is on its way to this thread, if anything is, by an exception that arrives here.

    Python 3.11 notes for the whole process that an exception is on its way to some thread, and forgets the note only
    when one arrives. One that is taken back (NULL in PyThreadState_SetAsyncExc) does not arrive, and puts the note up
    even if there was none. From then on every loop looks for it in vain, a loop under a trace function never ends, and
    no signal is handled. So nothing is taken back.
    """
    try:
        while True:
            raise_in(threading.get_ident(), Arrived)
    except Arrived:
        return


def wake() -> None:
    """Let the thread look now."""
    try:
        _news.release()
    except RuntimeError:  # it is awake
        return


def look() -> None:
    """The thread: raise LabHang where a deadline has passed, and settle what was left."""
    while True:
        _next_look[0] = -math.inf
        for watch in list(_watches):
            if watch.left:
                with contextlib.suppress(ValueError):  # its owner took it out
                    while True:
                        _watches.remove(watch)
                watch.settled = True
            elif watch.is_overdue and not is_coming_or_going(watch.thread_id):
                watch.fires = True
                if not watch.left:
                    watch.where = watch.where or line_of(watch.thread_id, watch.file)
                    raise_in(watch.thread_id, LabHang)
        nearest = min((watch.seconds_left for watch in list(_watches)), default=MOST_SECONDS)
        nearest = min(max(nearest, AGAIN_SECONDS), MOST_SECONDS)
        _next_look[0] = time.monotonic() + nearest
        _news.acquire(timeout=nearest)


def is_coming_or_going(thread_id: int) -> bool:
    """Whether a thread is between the two lines of `with watchdog()`: on its way into the block, or out of it.

    A LabHang there would keep leave() from running, and the next ones would come where no code expects them. What this
    sees is what the thread goes on with: it stands where it gave up the interpreter's lock, and meets a LabHang there.
    """
    frame = sys._current_frames().get(thread_id)
    if frame is not None and frame.f_code.co_filename == contextlib.__file__:
        return True
    for _ in range(DEPTH):
        if frame is None:
            return False
        if frame.f_code.co_filename == __file__:
            return True
        frame = frame.f_back
    return False


def raise_in(thread_id: int, error: type[BaseException]) -> None:
    """Let a thread raise `error` at its next instruction, in place of what is on its way."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error))


def line_of(thread_id: int, file: Path | None) -> str:
    """Where a thread is: the innermost line of `file`, as "mine.py:12: while True:"."""
    frame = sys._current_frames().get(thread_id)
    stack = traceback.extract_stack(frame) if frame else []
    inside = [entry for entry in stack if file is None or Path(entry.filename) == file]
    return f"{Path(inside[-1].filename).name}:{inside[-1].lineno}: {inside[-1].line}" if inside else ""


def is_debugging() -> bool:
    """Whether a debugger steps through the program: a trace function is set, or a debugger watches in its own way."""
    if sys.gettrace() is not None and "coverage" not in repr(sys.gettrace()):
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
