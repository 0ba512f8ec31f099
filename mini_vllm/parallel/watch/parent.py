"""A process that is started here does not outlive its parent, however that ends."""

import multiprocessing
import os
import time
from contextlib import suppress
from pkgutil import resolve_name
from threading import Thread
from typing import Any, NoReturn


def run_watched(seconds: float, place: str, *arguments: Any) -> None:
    """The function at "module:name", in a process that ends with its parent; see watch_parent().

    The module may take seconds to import, and the process watches meanwhile.
    """
    watch_parent(seconds)
    resolve_name(place)(*arguments)


def watch_parent(seconds: float, meeting: str = "") -> None:
    """From now on this process ends when its parent has ended, whatever it is doing.

    seconds: for it to end by itself then. meeting: a file that goes with its folder, as the parent
    would have seen to.
    """
    Thread(target=end_with_parent, args=(seconds, meeting), daemon=True).start()


def end_with_parent(seconds: float, meeting: str = "") -> NoReturn:
    """Wait until the parent has ended, and end; see watch_parent(). Two threads may do so at once,
    of which either leaves nothing behind.
    """
    if parent := multiprocessing.parent_process():
        parent.join()
    time.sleep(seconds)
    with suppress(OSError):
        os.remove(meeting)
    with suppress(OSError):
        os.rmdir(os.path.dirname(meeting))
    os._exit(1)
