"""The load of each expert, as the process of the engine asks the executor for it."""

from collections.abc import Callable

PAUSE = 1.0  # seconds between two questions to the ranks

Loads = dict[int, list[int]]
"""By layer, by expert: how often a token has chosen it."""


class LoadsReader:
    """Asks now and then, since the answer is long and a step would wait for it."""

    def __init__(self, executor: object, clock: Callable[[], float]) -> None:
        self._ask: Callable[[], Loads] = getattr(executor, "expert_loads", dict)
        self._clock, self._next = clock, clock()

    def read(self) -> Loads:
        """The loads, or {} if it is too early to ask again, or nothing is counted."""
        now = self._clock()
        if now < self._next:
            return {}
        self._next = now + PAUSE
        return self._ask()
