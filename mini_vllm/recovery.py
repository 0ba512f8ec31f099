"""Recovery: a step commits, or it is undone, wherever it is interrupted.

What: the part of EngineCore that deals with faults: of the model, of a listener, of the user who presses Ctrl-C.
Why like this: only the tokens of the requests cannot be made again; queues, block tables and blocks can. So nothing
here repairs anything. When the model fails, the scheduler is between two calls, and knows how to undo its decision.
When a call that changes the scheduler breaks off midway, a mark stays behind (is_torn), and the next call restarts
the scheduler from the tokens. Both need no more than what every step notes beforehand: how many tokens there were.
A request that makes every step fail would stop all others. So after MAX_FAILURES in a row the requests of a step are
run one by one, and those that fail by themselves end with an error. If as many steps more fail, and it cannot be told
whose fault it is, all requests of the step end so. A listener that raises is called no more.
"""

import logging
from concurrent.futures import Future
from typing import Any

from mini_vllm.errors import RequestFailedError, shown
from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerInterface, SchedulerOutput
from mini_vllm.step import StepInput, StepOutput, TokenDelta
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.one_by_one import execute_one_by_one

logger = logging.getLogger("mini_vllm")

MAX_FAILURES = 3  # steps that may fail in a row; the next one runs its requests one by one
KnownTable = tuple[int, ...]  # what the runner has: preemptions at the time, blocks in each group; () is no use


# A request before a step: its tokens, its output, and how long that was. The lists only grow; a fork makes new ones.
Before = tuple[Request, list[int], list[int], int]


def restore(request: Request, all_token_ids: list[int], output_token_ids: list[int], num_output_tokens: int) -> None:
    """Give a request back the tokens that it had before the step."""
    request.all_token_ids, request.output_token_ids = all_token_ids, output_token_ids
    del output_token_ids[num_output_tokens:], all_token_ids[request.num_prompt_tokens + num_output_tokens :]
    request.block_hashes = []


class Recovery:
    """The state of a step that is under way, and how to undo it.

    deltas: what the last step brought, until the next one begins, for a caller that was interrupted while taking it in.
    """

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.listeners: list[StepListener] = []
        self.deltas: list[TokenDelta] = []
        self._is_torn = False  # a call that changes the scheduler is under way, or has broken off
        self._step: SchedulerOutput | None = None  # the one that has begun and has not ended
        self._before: list[Before] = []  # of its requests
        self._failed: dict[str, Exception] = {}  # its requests that failed when they were run one by one, and why
        self._num_failures = 0  # steps in a row
        self._known: dict[str, KnownTable] = {}  # what the runner has of each request
        self._finished_req_ids: list[str] = []  # that the runner knows, and has not been told of
        self._forget_all = False  # what the runner has to do in the next step

    def _execute(self, step: StepInput) -> "Future[StepOutput]":
        if self._num_failures < MAX_FAILURES:
            return self.executor.execute(step)
        future: Future[StepOutput] = Future()
        result, self._failed = execute_one_by_one(self.executor, step)
        if self._failed:
            future.set_exception(next(iter(self._failed.values())))
        else:
            future.set_result(result)
        return future

    def fail_step(self, cause: BaseException | None = None) -> None:
        """Undo the step that is under way, if there is one: its requests are preempted, and tried again.

        cause: what was raised. Those that have failed by themselves end; all, if it cannot be found out which it is.
        """
        self.mend()
        if self._step is None:
            return
        self._num_failures += isinstance(cause, Exception)
        if self._num_failures > 2 * MAX_FAILURES and not self._failed and isinstance(cause, Exception):
            self._failed = dict.fromkeys(self._step.num_scheduled_tokens, cause)
        self._is_torn = True
        self.scheduler.fail_step(self._step)
        self.scheduler.kv_cache_manager.end_step(None)
        for before in self._before:
            restore(*before)
            request, request_id = before[0], before[0].request_id
            if request_id in self._failed and not request.is_finished:
                self._end_with_error(request)
                why = f"{self._num_failures} steps have failed, the last one with {shown(self._failed[request_id])}"
                error = RequestFailedError(f"request {shown(request_id)}: {why}")
                self.deltas.append(TokenDelta(request_id, [], "error", start=before[3], error=error))
        if self._failed:
            self._num_failures = MAX_FAILURES  # they were found: those that remain are run one by one at once
        self._after_failure()

    def mend(self) -> None:
        """Restart the scheduler from the tokens of its requests, if a call that changes it has broken off."""
        if self._is_torn:
            for before in self._before:
                restore(*before)
            requests = {request.request_id: request for request, *_ in self._before}
            requests |= {request.request_id: request for request in self.scheduler.requests}
            self.scheduler.restart(list(requests.values()))
            self._after_failure()

    def _after_failure(self) -> None:
        """How much of the step the runner has taken in is unknown: it has to forget everything."""
        self._before, self._step, self._failed = [], None, {}
        self._known, self._finished_req_ids, self._forget_all = {}, [], True
        self._is_torn = False
        self._tell("after_update", {}, (), failed=True)

    def _tell(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call a method of every listener. One that raises has no say in what happens: it is logged and taken off.

        Nothing is torn then, so a listener may add and abort requests.
        """
        for listener in list(self.listeners):
            try:
                getattr(listener, event)(*args, **kwargs)
            except Exception:
                self.listeners.remove(listener)
                logger.exception("%r has failed in %s and is called no more", listener, event)

    def _end_with_error(self, request: Request) -> None:
        """End a request, and let no request find what it has computed: the same K and V may spoil another request."""
        self.scheduler.finish_request(request.request_id, "error")
        self._forget(request.request_id)
        request.num_computed_tokens = 0
        self.scheduler.kv_cache_manager.withdraw(request, request.num_tokens)

    def _forget(self, request_id: str) -> None:
        if self._known.pop(request_id, None) is not None:
            self._finished_req_ids.append(request_id)
