"""EngineCore: the loop schedule() -> execute() -> update_from_output(), and nothing else.

Token ids go in, TokenDeltas come out. There is no text here, no clock, no tensor and no seed: the scheduler decides, an
Executor computes, listeners watch, and the core carries data between them. A step has two halves, so that a program
that owns the core may do something else while the model runs; requests may be added or aborted between the halves.

A step commits, or it is undone, wherever it is interrupted: see recovery.py.
Source: EngineCore in vllm/v1/engine/core.py.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from itertools import chain

from mini_vllm.errors import MiniVllmError, RequestFailedError, SchedulerStalledError, shown
from mini_vllm.recovery import Recovery
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.step import BlockTable, KVPlan, SamplingRow, StepInput, StepOutput, TokenDelta


class EngineCore(Recovery):
    """Owns the scheduler and the executor. One thread calls it."""

    # --- requests come and go -------------------------------------------------------------------------------------

    def add(self, requests: Sequence[Request]) -> None:
        """Queue a request, or the choices of one prompt. Raises RequestRefusedError and its kin; then none is added."""
        self.mend()
        try:
            self._is_torn = True
            if len(requests) == 1:
                self.scheduler.add_request(requests[0])
            else:
                self.scheduler.add_group(requests)
        except MiniVllmError:  # a refusal: nothing has changed
            self._is_torn = False
            raise
        self._is_torn = False

    def finish(self, request_ids: Iterable[str], reason: str) -> None:
        """End requests from outside: "stop" (a stop string was seen), "length" or "abort". Unknown ids are ignored."""
        self.mend()
        for request_id in request_ids:
            self._is_torn = True
            if self._before:
                self._before = [each for each in self._before if each[0].request_id != request_id]
            request = self.scheduler.finish_request(request_id, reason)
            self._forget(request_id)
            self._is_torn = False
            if request is not None:
                self._tell("after_finish", request)

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests, also between the halves of a step; their blocks are free at once. Unknown ids are ignored."""
        self.finish(request_ids, "abort")

    def fork(self, parent_id: str, child_id: str) -> None:
        """SchedulerInterface.fork_request, between execution and finish_step()."""
        self._is_torn = True
        self.scheduler.fork_request(parent_id, child_id)
        self._is_torn = False

    def has_unfinished_requests(self) -> bool:
        self.mend()
        return self.scheduler.has_unfinished_requests()

    # --- one step -------------------------------------------------------------------------------------------------

    def step(self) -> list[TokenDelta]:
        """Both halves. If the model raises, the step is undone, the exception passed on; the next call tries again.

        After MAX_FAILURES in a row the next step runs its requests one by one: those that fail by themselves end.
        """
        output, future = self.begin_step()
        try:
            return self.finish_step(output, future.result())
        except BaseException as error:
            self.fail_step(error)
            raise

    def begin_step(self) -> tuple[SchedulerOutput, "Future[StepOutput]"]:
        """Decide a step and hand it to the executor. finish_step() or fail_step() has to follow.

        Raises SchedulerStalledError if the scheduler has work but schedules none. Whatever is raised, the step is
        undone.
        """
        self.deltas = []
        self.fail_step()  # one that was begun, but never ended
        try:
            self._tell("before_schedule")
            self._is_torn = True
            output, plan, step = self._decide()
            self._step, self._is_torn = output, False
            self._tell("after_schedule", output, plan)
            if step is not None:
                return output, self._execute(step)
            if not output.preempted_req_ids and self.scheduler.has_unfinished_requests():
                raise SchedulerStalledError("requests are unfinished, but schedule() gave no tokens to any of them")
        except BaseException as error:
            self.fail_step(error)
            raise
        nothing: Future[StepOutput] = Future()
        nothing.set_result(StepOutput())
        return output, nothing

    def _decide(self) -> tuple[SchedulerOutput, KVPlan, StepInput | None]:
        """A step, and what the runner has to know of it; None if it has nothing to do."""
        output = self.scheduler.schedule()
        plan = self.scheduler.kv_cache_manager.begin_step()
        self._before = [
            (request, request.all_token_ids, request.output_token_ids, len(request.output_token_ids))
            for request in chain(output.scheduled_requests, *output.forks.values())
        ]
        has_work = output.num_scheduled_tokens or plan or self._forget_all
        return output, plan, self.make_step_input(output, plan) if has_work else None

    def finish_step(self, output: SchedulerOutput, result: StepOutput) -> list[TokenDelta]:
        """Take in what came of a step; returns what it brought to each request, in step order.

        Tokens of a request that was ended meanwhile are dropped, and so are those behind a token that ends one. A
        request from which no token could be sampled ends with reason "error".
        """
        self._is_torn = True
        running = RequestStatus.RUNNING
        self._before = [each for each in self._before if each[0].status is running]
        errors = {name: RequestFailedError(f"request {shown(name)}: {why}") for name, why in result.errors.items()}
        failed = [request for request, *_ in self._before if request.request_id in errors]
        for request in failed:
            self._end_with_error(request)
        self.scheduler.kv_cache_manager.end_step(result.kv)
        token_ids = {name: [token.token_id for token in tokens] for name, tokens in result.tokens.items()}
        finished = self.scheduler.update_from_output(output, token_ids)
        for request in finished:
            self._forget(request.request_id)
        self.deltas += [
            TokenDelta(
                request_id := request.request_id,
                result.tokens.get(request_id, [])[:num_new],
                request.finish_reason,
                request.num_cached_tokens,
                start,
                errors.get(request_id),
            )
            for request, _, _, start in self._before
            if (num_new := len(request.output_token_ids) - start) or request in failed
        ]
        self._before, self._step, self._num_failures, self._forget_all = [], None, 0, False
        self._is_torn = False
        self._tell("after_update", token_ids, [*finished, *failed])
        return self.deltas

    # --- what the runner does not know yet ------------------------------------------------------------------------

    def make_step_input(self, output: SchedulerOutput, plan: KVPlan) -> StepInput:
        """Freeze what is new in this step. Called for hundreds of requests in every step: one pass, no object each."""
        kv, known, needs_sample = self.scheduler.kv_cache_manager, self._known, self.scheduler.needs_sample
        for request_id in plan.rewritten_req_ids:
            if request_id in known:
                known[request_id] = ()
        token_ids: list[int] = []
        sample_req_ids: list[str] = []
        sample_rows: list[int] = []
        new_rows: dict[str, SamplingRow] = {}
        new_block_ids: dict[str, tuple[BlockTable, ...]] = {}
        starts: list[int] = []
        end = 0
        for request, n in zip(output.scheduled_requests, output.num_scheduled_tokens.values(), strict=True):
            request_id, start = request.request_id, request.num_computed_tokens
            starts.append(start)
            token_ids += request.all_token_ids[start : start + n]
            end += n
            if needs_sample(request, n):
                sample_req_ids.append(request_id)
                sample_rows.append(end - 1)
            table = (request.num_preemptions, *kv.get_num_blocks(request_id))
            old = known.get(request_id)
            if table != old:
                if not old or old[0] != table[0]:
                    new_rows[request_id] = make_sampling_row(request)
                    old = (0,) * len(table)
                new_block_ids[request_id] = kv.get_block_tables(request_id, old[1:])
                known[request_id] = table
        for request_id, forks in output.forks.items():
            row = sample_rows[sample_req_ids.index(request_id)]
            for fork in forks:
                sample_req_ids.append(fork.request_id)
                sample_rows.append(row)
                new_rows[fork.request_id] = make_sampling_row(fork)
                known[fork.request_id] = ()  # it has no table before its own first step, which sends it again
        finished_req_ids, self._finished_req_ids = tuple(self._finished_req_ids), []
        req_ids, sampled = tuple(output.num_scheduled_tokens), tuple(sample_req_ids)
        return StepInput(
            req_ids,
            tuple(starts),
            tuple(output.num_scheduled_tokens.values()),
            tuple(token_ids),
            req_ids if sampled == req_ids else sampled,  # a step of decodes: one tuple, which is pickled once
            tuple(sample_rows),
            new_rows,
            new_block_ids,
            finished_req_ids,
            self._forget_all,
            plan,
        )


def make_sampling_row(request: Request) -> SamplingRow:
    """How a request samples, for a runner that does not know it yet."""
    params = request.sampling_params
    token_ids = tuple(request.all_token_ids) if params.has_penalties else ()
    return SamplingRow(params, params.seed or 0, request.choice_index, request.num_prompt_tokens, token_ids)
