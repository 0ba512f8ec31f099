"""EngineCore: the loop schedule() -> execute() -> update_from_output(), and nothing else.

Token ids go in, TokenDeltas come out. There is no text here, no clock, no tensor and no seed: the scheduler decides, an
Executor computes, listeners watch, and the core carries data between them. A step has two halves, so that whoever owns
the core may do something else while the model runs; requests may be added or aborted between the halves.
Source: EngineCore in vllm/v1/engine/core.py.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from itertools import chain

from mini_vllm.errors import SchedulerStalledError
from mini_vllm.observe.listener import StepListener
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerInterface, SchedulerOutput
from mini_vllm.step import BlockTable, KVPlan, SamplingRow, StepInput, StepOutput, TokenDelta
from mini_vllm.worker.executor import Executor

KnownTable = tuple[int, ...]  # what the runner has: preemptions at the time, blocks in each group; () is no use


class EngineCore:
    """Owns the scheduler and the executor. One thread calls it."""

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.listeners: list[StepListener] = []
        self._known: dict[str, KnownTable] = {}  # what the runner has of each request
        self._finished_req_ids: list[
            str
        ] = []  # that the runner knows, and has not been told of by a step that went well
        self._num_told = 0  # of these, by the step that is under way

    # --- requests come and go -------------------------------------------------------------------------------------

    def add(self, requests: Sequence[Request]) -> None:
        """Queue a request, or the choices of one prompt. Raises RequestRefusedError and its kin; then none is added."""
        if len(requests) == 1:
            self.scheduler.add_request(requests[0])
        else:
            self.scheduler.add_group(requests)

    def finish(self, request_ids: Iterable[str], reason: str) -> None:
        """End requests from outside: "stop" (a stop string was seen), "length" or "abort". Unknown ids are ignored."""
        for request_id in request_ids:
            request = self.scheduler.finish_request(request_id, reason)
            self._forget(request_id)
            if request is not None:
                for listener in self.listeners:
                    listener.after_finish(request)

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests, also between the halves of a step; their blocks are free at once. Unknown ids are ignored."""
        self.finish(request_ids, "abort")

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests()

    # --- one step -------------------------------------------------------------------------------------------------

    def step(self) -> list[TokenDelta]:
        """Both halves. If the model raises, the step is undone, the exception passed on; the next call tries again."""
        output, future = self.begin_step()
        try:
            result = future.result()
        except BaseException:
            self.fail_step(output)
            raise
        return self.finish_step(output, result)

    def begin_step(self) -> tuple[SchedulerOutput, "Future[StepOutput]"]:
        """Decide a step and hand it to the executor. finish_step() or fail_step() has to follow.

        Raises SchedulerStalledError if the scheduler has work but schedules none. Whatever is raised, the step is
        undone.
        """
        scheduler = self.scheduler
        for listener in self.listeners:
            listener.before_schedule()
        output = scheduler.schedule()
        try:
            plan = scheduler.kv_cache_manager.begin_step()
            for listener in self.listeners:
                listener.after_schedule(output, plan)
            if output.num_scheduled_tokens or plan:
                return output, self.executor.execute(self.make_step_input(output, plan))
            if not output.preempted_req_ids and scheduler.has_unfinished_requests():
                raise SchedulerStalledError("requests are unfinished, but schedule() gave no tokens to any of them")
        except BaseException:
            self.fail_step(output)
            raise
        nothing: Future[StepOutput] = Future()
        nothing.set_result(StepOutput())
        return output, nothing

    def finish_step(self, output: SchedulerOutput, result: StepOutput) -> list[TokenDelta]:
        """Take in what came of a step; returns what it brought to each request, in step order.

        Tokens of a request that was ended meanwhile are dropped, and so are those behind a token that ends one.
        """
        del self._finished_req_ids[: self._num_told]  # those that ended while the step ran are still to be told
        self._num_told = 0
        self.scheduler.kv_cache_manager.end_step(result.kv)
        token_ids = {name: [token.token_id for token in tokens] for name, tokens in result.tokens.items()}
        requests = [*output.scheduled_requests, *chain.from_iterable(output.forks.values())]
        nums_before = [len(request.output_token_ids) for request in requests]
        finished = self.scheduler.update_from_output(output, token_ids)
        for request in finished:
            self._forget(request.request_id)
        for listener in self.listeners:
            listener.after_update(token_ids, finished)
        return [
            TokenDelta(
                request.request_id,
                result.tokens[request.request_id][:num_new],
                request.finish_reason,
                request.num_cached_tokens,
            )
            for request, num_before in zip(requests, nums_before, strict=True)
            if (num_new := len(request.output_token_ids) - num_before)
        ]

    def fail_step(self, output: SchedulerOutput) -> None:
        """Undo a step that raised: its requests are preempted and tried again by the next step."""
        self._num_told = 0
        self.scheduler.fail_step(output)
        self.scheduler.kv_cache_manager.end_step(None)
        for listener in self.listeners:
            listener.after_update({}, (), failed=True)

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
                known[fork.request_id] = ()  # it has no table before its own first step, which sends it anew
        self._num_told = len(self._finished_req_ids)
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
            tuple(self._finished_req_ids),
            plan,
        )

    def _forget(self, request_id: str) -> None:
        if self._known.pop(request_id, None) is not None:
            self._finished_req_ids.append(request_id)


def make_sampling_row(request: Request) -> SamplingRow:
    """How a request samples, for a runner that does not know it yet."""
    params = request.sampling_params
    token_ids = tuple(request.all_token_ids) if params.has_penalties else ()
    return SamplingRow(params, params.seed or 0, request.choice_index, request.num_prompt_tokens, token_ids)
