"""RecoveringCore: an engine core that goes on when the device has failed, for a server.

Only what the executor raises is tried again, and not when the executor is lost. An error of the
scheduler, of a manager or of a listener is a mistake in a program: it is raised at once, here as in
EngineCore. A step that failed is undone: its requests are preempted, so the next step tries them
again. Their tokens cannot be lost, since a step appends none before the executor has answered. If
that fails, too, the requests run one by one, and those that fail by themselves end with an error.
"""

import logging
from concurrent.futures import Future

from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.one_by_one import execute_one_by_one
from mini_vllm.errors import ExecutorLostError, shown
from mini_vllm.scheduler_interface import SchedulerInterface, Step
from mini_vllm.step import StepInput, StepOutput, TokenDelta
from mini_vllm.worker.executor import Executor

logger = logging.getLogger("mini_vllm")

ALIKE = 2  # steps in a row that may fail as they are; the next one runs its requests one by one
# steps in a row, of which no request by itself is the cause; then all requests of the step end
MOST_FAILURES = 5


class FailedByThemselvesError(Exception):
    """Requests of a step failed when they were run one by one. It has, by request id, what each
    raised.
    """


class RecoveringCore(EngineCore):
    """fail_step() undoes the step and returns the deltas of the requests that it ends."""

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        super().__init__(scheduler, executor)
        self._num_failures = 0  # steps in a row

    def _execute(self, step: StepInput) -> "Future[StepOutput]":
        future: Future[StepOutput] = Future()
        try:
            if self._num_failures < ALIKE:
                return super()._execute(step)
            result, failed = execute_one_by_one(self.executor, step)
            if failed:
                raise FailedByThemselvesError(failed)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    def finish_step(self, step: Step, result: StepOutput) -> list[TokenDelta]:
        deltas = super().finish_step(step, result)
        self._num_failures = 0
        return deltas

    def fail_step(self, step: Step, error: Exception) -> list[TokenDelta]:
        """Undo the step and those begun after it.

        Requests that failed by themselves end; all, if none is the cause.
        """
        if isinstance(error, ExecutorLostError):
            return super().fail_step(step, error)
        failed = error.args[0] if isinstance(error, FailedByThemselvesError) else {}
        logger.warning(
            "step %d has failed: %s", self.num_steps, shown(next(iter(failed.values()), error))
        )
        self._num_failures += 1
        with self.changes("step"):
            undone = self._undo_from(step)
            if self._num_failures > MOST_FAILURES and not failed:
                failed = dict.fromkeys((request.request_id for request in step.requests), error)
            deltas = []
            for request in step.requests:
                name = request.request_id
                if name in failed and not request.is_finished:
                    self.end_with_error(request)
                    why = (
                        f"{self._num_failures} steps have failed, the last one with "
                        f"{shown(failed[name])}"
                    )
                    deltas.append(
                        TokenDelta(name, [], "error", error=f"request {shown(name)}: {why}")
                    )
            if failed:
                # they were found: those that remain are run one by one at once
                self._num_failures = ALIKE
            self.runner_view.reset()  # what the runner has taken in is unknown
            ended = self._ended = set()
            for each in undone:
                self._tell("after_update", each, {}, (), failed=True)
        return [delta for delta in deltas if delta.request_id not in ended]

    def _undo_from(self, step: Step) -> list[Step]:
        """Undo the steps in flight from this one on, the newest first; returns them in the order of
        their beginning.
        """
        undone: list[Step] = []
        while step not in undone:
            newest = self.in_flight.pop()
            newest.future.exception()  # it may still run
            newest.undo(self.scheduler)
            undone.insert(0, newest)
        return undone
