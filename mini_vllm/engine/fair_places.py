"""The places of a step, shared between the clients that want them.

Of the clients with requests that could run, the one that runs least is next, and the other ones
wait. So a client that is alone may have all places. When another one comes, it gets each place that
becomes free, until both have as many. Requests of one client keep the order of their scheduler.
"""

from collections import Counter
from typing import Any

from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Part, SchedulerInterface, Step


class FairPlaces(Part):
    """Attach it behind a GrammarGate: a request without its grammar wants no place."""

    _blocked: Any = ()  # of the last step, by request: why

    def before_schedule(self, scheduler: SchedulerInterface) -> None:
        why = dict(self._blocked).get
        self._running = Counter(each.client for each in scheduler.running)
        self._waiting = Counter(
            each.client for each in scheduler.waiting if why(each.request_id) != "grammar"
        )

    def may_admit(self, request: Request) -> bool:
        running, client = self._running, request.client
        if any(running[each] < running[client] for each in self._waiting):
            return False
        running[client] += 1
        self._waiting -= Counter([client])
        return True

    def after_schedule(self, step: Step, scheduler: SchedulerInterface) -> None:
        self._blocked = step.output.blocked
