"""Errands: the jobs of io threads that one connector has asked for, until it knows their end.

A step costs as much as it has jobs that begin or end, however many are under way.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from mini_vllm.offload.tiers.work import Job, TierPlan

MOST_AGREED = 32  # jobs of a kind about whose end ranks ask each other in one step


class Round(NamedTuple):
    """What one step has to know of them at its end."""

    errands: "Errands"
    known: Sequence[int] = ()  # jobs whose end need not be told any longer
    oldest: Sequence[int] = ()
    """Of each kind, the jobs that were asked for first: on each rank the same."""


class Errands:
    """One thread calls begin(), and the same one or another one calls take().

    submit: hands a job to an io thread.
    """

    def __init__(self, owner: str, submit: Callable[[Any], "Future[Any]"]) -> None:
        self.owner = owner
        self._submit = submit
        self._begun: dict[str, dict[int, Future[Any]]] = {}  # by kind, by number
        self._ended = SimpleQueue[tuple[int, Future[Any]]]()
        self._told: dict[int, Any] = {}  # what came of jobs, which the connector may not know

    def begin(self, plan: TierPlan) -> Round:
        """Begin what was not begun before."""
        for number in plan.known:
            for begun in self._begun.values():
                begun.pop(number, None)
        for job in plan.jobs:
            begun = self._begun.setdefault(job.kind if isinstance(job, Job) else "", {})
            future = begun.pop(job.number, None)
            # whatever a rank has missed, the order is that of the plans
            begun[job.number] = future or self._begin(job)
        firsts = (islice(begun, MOST_AGREED) for begun in self._begun.values())
        return Round(self, plan.known, tuple(chain.from_iterable(firsts)))

    def _begin(self, job: Any) -> "Future[Any]":
        future = self._submit(job)
        future.add_done_callback(partial(self._note, job.number))
        return future

    def _note(self, number: int, future: "Future[Any]") -> None:
        self._ended.put((number, future))

    def take(self, known: Iterable[int], patience: float) -> dict[int, Any]:
        """By number, what came of the jobs that have ended. If there is none, wait for one, at most
        `patience` seconds.
        """
        for number in known:
            self._told.pop(number, None)
        with suppress(Empty):
            while True:
                seconds = 0.0 if self._told else patience
                number, future = self._ended.get(seconds > 0, seconds)
                self._told[number] = future.result()
        return dict(self._told)

    def wait(self) -> None:
        """Until all have ended."""
        wait([*chain.from_iterable(begun.values() for begun in self._begun.values())])
