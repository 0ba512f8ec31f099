"""RecoveringCore: an engine core that goes on when the device has failed, for a server.

Only what the executor raises is tried again. An error of the scheduler, of a manager or of a listener is a mistake in
a program: it is raised at once, here as in EngineCore. A step that failed is undone: its requests are preempted, so the
next step tries them again. Their tokens cannot be lost, since a step appends none before the executor has answered. If
that fails, too, the requests run one by one, and those that fail by themselves end with an error.
"""

import logging
from concurrent.futures import Future

from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.one_by_one import execute_one_by_one
from mini_vllm.engine.runner_view import RunnerView
from mini_vllm.errors import shown
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput
from mini_vllm.step import StepInput, StepOutput, TokenDelta
from mini_vllm.worker.executor import Executor

logger = logging.getLogger("mini_vllm")

ALIKE = 2  # steps in a row that may fail as they are; the next one runs its requests one by one
MOST_FAILURES = 5  # steps in a row, of which no request by itself is the cause; then all requests of the step end


class RecoveringCore(EngineCore):
    """fail_step() undoes the step and returns the deltas of the requests that it ends."""

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        super().__init__(scheduler, executor)
        self._num_failures = 0  # steps in a row
        self._failed: dict[str, Exception] = {}  # requests that failed when they were run one by one, and why

    def _execute(self, step: StepInput) -> "Future[StepOutput]":
        future: Future[StepOutput] = Future()
        try:
            if self._num_failures < ALIKE:
                return super()._execute(step)
            result, self._failed = execute_one_by_one(self.executor, step)
        except Exception as error:
            future.set_exception(error)
        else:
            if self._failed:
                future.set_exception(next(iter(self._failed.values())))
            else:
                future.set_result(result)
        return future

    def finish_step(self, output: SchedulerOutput, result: StepOutput) -> list[TokenDelta]:
        deltas = super().finish_step(output, result)
        self._num_failures = 0
        return deltas

    def fail_step(self, output: SchedulerOutput, error: Exception) -> list[TokenDelta]:
        """Undo the step. Requests that failed by themselves end; all, if it cannot be found out which it is."""
        logger.warning("step %d has failed: %s", self.num_steps, shown(error))
        self._num_failures += 1
        with self.changes("step"):
            self.scheduler.fail_step(output)
            self.scheduler.kv_cache_manager.end_step(None)
            if self._num_failures > MOST_FAILURES and not self._failed:
                self._failed = dict.fromkeys((request.request_id for request, _ in self._starts), error)
            deltas = []
            for request, _ in self._starts:
                name = request.request_id
                if name in self._failed and not request.is_finished:
                    self.end_with_error(request)
                    why = f"{self._num_failures} steps have failed, the last one with {shown(self._failed[name])}"
                    deltas.append(TokenDelta(name, [], "error", error=f"request {shown(name)}: {why}"))
            if self._failed:
                self._num_failures = ALIKE  # they were found: those that remain are run one by one at once
            self._failed = {}
            self.runner_view = RunnerView(self.scheduler, forget_all=True)  # what it has taken in is unknown
            self._ended.clear()
            self._tell("after_update", {}, (), failed=True)
        return [delta for delta in deltas if delta.request_id not in self._ended]
