"""How a command ends: the one place that turns an exception into an exit status and a message on
stderr.

0 well; 1 it failed; 2 it was called wrongly, or what it was given cannot be; 130 Ctrl-C. A reader
of the output that goes away (`mini-vllm demo | head`) ends it with 1 and without a word.
"""

import logging
import os
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType
from typing import Any, TextIO

from mini_vllm.errors import (
    EngineDeadError,
    InvalidLogitsError,
    MiniVllmError,
    RequestFailedError,
    SchedulerStalledError,
    how_to_install,
)
from mini_vllm.observe.files import printable

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
# No call is the cause of these.
FAILURES = (EngineDeadError, InvalidLogitsError, RequestFailedError, SchedulerStalledError)
MAX_LINE = 1000  # characters of a line of a message
EXTRAS = {  # what a module that is missing comes with, if it is not the extra 'engine'
    "labs": "jinja2 numpy pytest rich typer watchfiles",
    "events": "pyzmq zmq",
    "plots": "matplotlib",
    "structured": "llguidance xgrammar",
    "serve": "httpcore2 msgspec orjson prometheus_client pydantic starlette "
    "typing_extensions uvicorn",
}

_presses: list[int] = []  # of Ctrl-C: where it hits an import, another error can come of it


def run_program(
    work: Callable[[], object], *, refusal: type[Exception] = MiniVllmError, prefix: str = "Error: "
) -> None:
    """A whole program: the standard streams are made safe, and it exits with the status of the
    work.
    """
    repair_streams()
    with suppress(ValueError):  # only the main thread has signals
        signal.signal(signal.SIGINT, _press)
        sys.unraisablehook = _unraised
    try:
        status = exit_status(work, refusal=refusal, prefix=prefix)
    except KeyboardInterrupt:  # once more, while the first was dealt with
        status = INTERRUPTED
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
    if status == INTERRUPTED:
        complain("Interrupted.")
    try:
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)  # a message that could not be written does not change the status
    sys.exit(status)


def exit_status(
    work: Callable[[], object],
    *,
    refusal: type[Exception] = MiniVllmError,
    prefix: str = "Error: ",
    debug: bool = False,
) -> int:
    """Do the work, whose result is its status, and say what went wrong. debug: an error is raised
    as it is.
    """

    def attempt(work: Callable[[], Any]) -> int:
        try:
            return int(work() or 0)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else FAILED if end.code else 0
        except BaseException as error:
            if isinstance(error, OSError) and error.filename is None:
                # or the interpreter tries again at its end, and complains in its own words
                _silence(sys.stdout)
            if debug and isinstance(error, Exception):
                raise
            return report(error, refusal, prefix)

    status = attempt(work)
    return attempt(lambda: sys.stdout and sys.stdout.flush()) or status


def report(error: BaseException, refusal: type[Exception], prefix: str) -> int:
    """Say what an error means to the user; returns the exit status."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            return FAILED
        case refusal() | MiniVllmError():
            status, message = FAILED if isinstance(error, FAILURES) else WRONG_USE, str(error)
        case ModuleNotFoundError():
            named = (extra for extra, modules in EXTRAS.items() if error.name in modules.split())
            status = WRONG_USE
            message = (
                f"this command needs {error.name}, which is not installed.\n"
                f"{how_to_install(next(named, 'engine'))}"
            )
        case OSError():
            where = f"cannot read or write {error.filename or 'a stream or a temporary file'}"
            status, message = FAILED, f"{where}: {error.strerror or error}"
        case MemoryError():
            status, message = FAILED, "the memory of this machine does not suffice"
        case _ if hasattr(error, "format_message"):
            return _show_usage(error)
        case _ if _presses:
            return INTERRUPTED
        case _:
            status = FAILED
            message = f"{type(error).__name__}: {error}\nThis is a fault of the program."
    complain(prefix + message)
    return status


def _show_usage(error: Any) -> int:
    """Let typer show its own error, of a call that it cannot read."""
    text = legible(error.format_message())
    error.format_message = lambda: text
    with suppress(OSError):
        error.show()
    return int(error.exit_code)


def complain(message: str) -> None:
    """A message on stderr. It is lost where stderr is closed."""
    from rich.console import Console

    with suppress(OSError):
        screen = Console(stderr=True, highlight=False)
        screen.print(legible(message), style="bold red", markup=False, soft_wrap=True)


def legible(message: str) -> str:
    """Without control characters, and with lines of at most MAX_LINE characters: the middle of a
    longer one goes.
    """
    lines = (
        line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 103]}...{line[-100:]}"
        for line in message.split("\n")
    )
    return "\n".join(map(printable, lines))


def repair_streams() -> None:
    """A stream that was closed becomes one that fails when it is used, and not when it is looked
    at.

    Where a terminal lacks a character of the text, it gets a question mark; a byte that is no text
    is kept as it is kept in arguments. A line of a log that cannot be written is lost without a
    word.
    """
    logging.raiseExceptions = False
    for name, mode, flag in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, flag), mode, encoding="utf-8"))  # noqa: SIM115
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "replace"),
        (sys.stderr, "replace"),
    ):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)


def _silence(stream: TextIO) -> None:
    """What is still to be written to a broken stream goes nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def raise_if_interrupted() -> None:
    """Raise the Ctrl-C that other code has swallowed, as imports of libraries do now and then."""
    if _presses:
        raise KeyboardInterrupt


def _unraised(what: Any) -> None:
    """Ctrl-C in a finalizer, from which nothing can be raised: it is pressed again, a moment
    later.
    """
    if issubclass(what.exc_type, KeyboardInterrupt):
        threading.Timer(0.05, _press_again).start()
    else:
        sys.__unraisablehook__(what)


def _press_again() -> None:
    if hasattr(signal, "pthread_kill"):
        # it wakes who sleeps
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        interrupt_main()  # Windows


def _press(number: int, frame: FrameType | None) -> None:
    _presses.append(number)
    raise KeyboardInterrupt
