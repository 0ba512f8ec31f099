"""Ctrl-C arrives between steps: the first one ends the loop after the step, a second one ends the
step, too.
"""

import signal
import threading


class Interrupts:
    """A context: while it lasts, the first Ctrl-C waits for check() or for the end, and a second
    one is raised at once.

    leave() says that the work is over, and what follows must not be interrupted. Only the main
    thread has signals, and a program that ignores Ctrl-C goes on ignoring it: there the context
    does nothing. At the end the handler is put back that was there before.
    """

    def __init__(self) -> None:
        self._num_presses = 0
        self._is_leaving = False

    def __enter__(self) -> "Interrupts":
        self._before = signal.getsignal(signal.SIGINT)
        self._is_installed = (
            callable(self._before) and threading.current_thread() is threading.main_thread()
        )
        if self._is_installed:
            signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._is_installed:
            signal.signal(signal.SIGINT, self._before)
        if self._num_presses and kind is None:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Between two steps. Raises KeyboardInterrupt if Ctrl-C was pressed since the beginning."""
        if self._num_presses:
            self._is_leaving = True
            raise KeyboardInterrupt

    def leave(self) -> None:
        """From now on a press waits for the end of the context."""
        self._is_leaving = True

    def _press(self, *args: object) -> None:
        self._num_presses += 1
        if self._num_presses > 1 and not self._is_leaving:
            self._is_leaving = True
            raise KeyboardInterrupt
