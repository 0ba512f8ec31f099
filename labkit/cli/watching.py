"""`lab watch`: grades a lab at every save of its file, and obeys single keys meanwhile.

The keys are there where standard input is a terminal; elsewhere the watcher only watches, and goes on to the next lab
by itself.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from labkit.cli import commands
from labkit.grade import isolated
from labkit.grade.runner import PASSED, TODO, Result, why_not_graded
from labkit.labs import progress
from labkit.labs.catalog import Lab, LabkitError, find_lab, labs

WATCH_SHARE = 0.1  # of the random cases that are tried at a save; of a file that is green on them all are tried
POLL_MS = 100  # between two looks at the keyboard
KEYS = "h hint, d diff, n next lab, q quit"

Key = Callable[[], str]  # the key that was pressed since the last call, "" if none was; None where there are no keys


@contextmanager
def keyboard() -> Iterator[Key | None]:
    """Single keys, without Enter and without an echo. Ctrl-C stays what it is."""
    if not sys.stdin.isatty():
        yield None
    elif find_spec("termios"):
        import termios
        import tty

        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal, termios.TCSANOW)  # keys that were pressed already count

        def pressed() -> str:
            ready, _, _ = select.select([terminal], [], [], 0)
            return (os.read(terminal, 1).decode(errors="replace") or "q") if ready else ""  # no byte: it is closed

        try:
            yield pressed
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    else:
        import msvcrt

        yield lambda: msvcrt.getwch() if msvcrt.kbhit() else ""  # type: ignore[attr-defined]


def watch(lab_id: str | None) -> int:
    """Watch a lab, or the next one; a lab that is done leads to the one after it."""
    lab = find_lab(lab_id) if lab_id else commands.next_lab()
    with keyboard() as key:
        while lab and (end := watch_one(lab, key)) != "q":
            lab = lab_after(lab) if end == "n" else commands.next_lab()
    if lab is None:
        print(commands.what_next())
    return 0


def lab_after(lab: Lab) -> Lab:
    """The next one of the list that is not done and can be graded here; the same lab if there is no other one."""
    every, data = list(labs()), progress.read()
    place = every.index(lab)
    rest = [*every[place + 1 :], *every[:place]]
    return next((each for each in rest if not progress.is_done(each.id, data) and not why_not_graded(each)), lab)


def watch_one(lab: Lab, key: Key | None) -> str:
    """How it ended: "done" (only without keys), "n", or "q", as Ctrl-C does. The next process waits meanwhile."""
    from watchfiles import watch as changes_of

    print(f"Watching {lab.typed}; {KEYS if key else 'Ctrl-C ends'}.", flush=True)
    if reason := why_not_graded(lab):
        raise LabkitError(reason)
    results = commands.grade_mine(lab)
    tell(lab, results)
    grader = isolated.Grader(lab, silent=False)
    try:
        for changes in changes_of(
            lab.folder, debounce=50, step=20, rust_timeout=POLL_MS, yield_on_timeout=True, raise_interrupt=False
        ):
            if changes:
                start, was_done = time.perf_counter(), commands.is_green(results)
                results = grade_again(lab, grader)
                print(f"({time.perf_counter() - start:.2f} s)", flush=True)
                grader = isolated.Grader(lab, silent=False)
                if commands.is_green(results) and not was_done:
                    print(done(lab, has_keys=key is not None), flush=True)
                    if key is None:
                        return "done"
            elif key and (pressed := key()) and obey(lab, pressed):
                return pressed
        return "q"
    finally:
        grader.close()


def grade_again(lab: Lab, grader: isolated.Grader) -> list[Result]:
    """After a save: on a part of the cases, and on all if it is green on these."""
    start = time.perf_counter()
    results = commands.grade_mine(lab, WATCH_SHARE, grader)
    if commands.is_green(results):
        print(f"green on a part of the cases ({time.perf_counter() - start:.2f} s); now on all", flush=True)
        results = commands.grade_mine(lab)
    tell(lab, results)
    return results


def tell(lab: Lab, results: list[Result]) -> None:
    """The first message, the count, and which function is next if what is written is green."""
    commands.show(results, lab, lab.mine)
    written = all(result.outcome in (PASSED, TODO) for result in results)
    if written and (name := commands.first_unwritten(lab)):
        print(f"Write {name} next.", flush=True)


def done(lab: Lab, *, has_keys: bool) -> str:
    """What to do with a lab that has just become green."""
    if not has_keys:
        return f"`lab diff {lab.id}` shows the reference beside yours."
    return f"Done. d shows the reference beside yours; n goes on to {lab_after(lab).id}."


def obey(lab: Lab, key: str) -> bool:
    """Do what a key asks for; whether it ends the watching of this lab."""
    if key in ("n", "q"):
        return True
    try:
        if key == "h":
            commands.show_hint(lab)
        elif key == "d":
            commands.diff(lab.id)
    except LabkitError as refusal:
        print(refusal)
    print(f"({KEYS})", flush=True)
    return False
