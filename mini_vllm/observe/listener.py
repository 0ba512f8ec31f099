"""StepListener: what may watch the steps of an engine without the engine knowing what it is."""

from collections.abc import Iterable, Mapping, Sequence

from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Step


class StepListener:
    """What the engine core calls in every step, in this order; a listener overrides what it wants
    to see.

    Several steps may be in flight, so each call has its step. What a listener has to remember of
    one until it ends is in step.notes[self].

    A listener may add and abort requests, and must not step. What it raises is raised, and the
    engine stops until LLMEngine.reset().
    """

    def before_schedule(self) -> None:
        """Nothing is decided yet."""

    def after_schedule(self, step: Step) -> object:
        """The step is decided; nothing is computed yet."""

    def after_update(
        self,
        step: Step,
        sampled_token_ids: Mapping[str, Sequence[int]],
        finished: Iterable[Request],
        *,
        failed: bool = False,
    ) -> object:
        """The counters have advanced and finished requests are gone. failed: the step raised and
        was undone.
        """

    def after_finish(self, request: Request) -> None:
        """Between steps, a request was ended from outside: aborted, or a stop string was seen."""
