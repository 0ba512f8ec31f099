"""A listener that keeps the plan of the step that ended last, for the front of a server."""

from typing import Any

from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.scheduler_interface import Step


class Planner(StepListener):
    """Notes what the step computed that ended last (plan)."""

    def __init__(self) -> None:
        self.plan: StepPlan | None = None
        self._num_steps = 0

    def after_schedule(self, step: Step) -> None:
        self._num_steps += 1
        step.notes[self] = StepPlan.of(self._num_steps, step.output)

    def after_update(self, step: Step, *args: Any, **kwargs: Any) -> None:
        self.plan = step.notes.get(self)
