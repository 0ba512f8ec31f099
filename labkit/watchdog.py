"""Ends code that does not end: a thread raises LabHang in the main thread, again and again until it comes out.

LabHang is no Exception, so a loop that swallows those cannot keep it. One that swallows BaseException meets the next
one a moment later. Works on every system, since it needs neither signals nor processes; it sleeps under a debugger,
where a breakpoint is no hang. What runs inside one call to C cannot be interrupted by it.
"""

import ctypes
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FIRST_SECONDS = 3.0
AFTER_A_HANG = 0.3  # for the tests after one that hung: most of them will, too
AGAIN_SECONDS = 0.002  # often: one that swallows everything lets go only between two turns of its loop


class LabHang(BaseException):
    """The learner's code did not come back; where says at which line it was."""

    where: str = ""


@contextmanager
def watchdog(seconds: float = FIRST_SECONDS, file: Path | None = None) -> Iterator[None]:
    """Let the block run for so many seconds. Raises LabHang, with the line of `file` where the block was."""
    if is_debugging() or sys.platform == "emscripten":  # a page of the book has no threads; its Stop ends a hang
        yield
        return
    target = threading.get_ident()
    done = threading.Event()
    where: list[str] = []

    def watch() -> None:
        if done.wait(seconds):
            return
        where.append(line_of(target, file))
        while not done.wait(AGAIN_SECONDS):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(LabHang))

    thread = threading.Thread(target=watch, name="labkit watchdog", daemon=True)
    thread.start()
    try:
        yield
    except LabHang as hang:
        hang.where = where[0] if where else ""
        raise
    finally:
        stop(done, thread, target)


def stop(done: threading.Event, thread: threading.Thread, target: int) -> None:
    """No LabHang comes after this; one that is on its way is taken back or caught here."""
    while True:
        try:
            done.set()
            thread.join()
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), None)
            return
        except LabHang:
            continue


def line_of(thread_id: int, file: Path | None) -> str:
    """Where a thread is: the innermost line of `file`, as "mine.py:12: while True:"."""
    frame = sys._current_frames().get(thread_id)
    stack = traceback.extract_stack(frame) if frame else []
    inside = [entry for entry in stack if file is None or Path(entry.filename) == file]
    return f"{Path(inside[-1].filename).name}:{inside[-1].lineno}: {inside[-1].line}" if inside else ""


def is_debugging() -> bool:
    """Whether somebody steps through the program: a trace function is set, or a debugger watches in its own way."""
    if sys.gettrace() is not None and "coverage" not in repr(sys.gettrace()):
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
