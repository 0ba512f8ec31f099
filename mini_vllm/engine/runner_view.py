"""RunnerView: what the runner has of each request, so that a step brings it only what is new.

A request's sampling parameters travel once, and of its block table only what was added at the end.
Where the table changed elsewhere, or the request was preempted, all of it travels again. Source:
the bookkeeping of scheduled_new_reqs and scheduled_cached_reqs in Scheduler.schedule
(vllm/v1/core/sched/scheduler.py).
"""

from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput
from mini_vllm.step import BlockTable, KVPlan, SamplingRow, StepInput

# preemptions at the time, blocks in each group; (): send everything again
Known = tuple[int, ...]


class RunnerView:
    """forget_all: the runner may have requests that are not known here, so the next step tells it
    to forget all.
    """

    def __init__(self, scheduler: SchedulerInterface) -> None:
        self.scheduler = scheduler
        self.forget_all = False
        self._known: dict[str, Known] = {}
        self._finished_req_ids: list[str] = []  # that the runner knows, and has not been told of

    def reset(self) -> None:
        """What the runner has is unknown: the next step tells it to forget all, and sends
        everything again.
        """
        self.forget_all, self._known, self._finished_req_ids = True, {}, []

    def forget(self, request_id: str) -> None:
        """The request has ended."""
        if self._known.pop(request_id, None) is not None:
            self._finished_req_ids.append(request_id)

    def make_step_input(self, output: SchedulerOutput, plan: KVPlan) -> StepInput:
        """Freeze what is new in this step.

        Called for hundreds of requests in every step: no object for each.
        """
        for request_id in plan.rewritten_req_ids:
            if request_id in self._known:
                self._known[request_id] = ()
        token_ids, sample_req_ids, sample_rows = self._tokens_and_samples(output)
        new_rows: dict[str, SamplingRow] = {}
        new_block_ids: dict[str, tuple[BlockTable, ...]] = {}
        prompt_targets: dict[str, tuple[int, ...]] = {}
        starts: list[int] = []
        get_num_blocks = self.scheduler.kv_cache_manager.get_num_blocks
        for request in output.scheduled_requests:
            request_id, start = request.request_id, request.num_computed_tokens
            starts.append(start)
            if (
                request.sampling_params.prompt_logprobs is not None
                and start + 1 < request.num_prompt_tokens
            ):
                end = start + output.num_scheduled_tokens[request_id]
                prompt_targets[request_id] = tuple(request.prompt_token_ids[start + 1 : end + 1])
            now = (request.num_preemptions, *get_num_blocks(request_id))
            if self._known.get(request_id) != now:
                new_block_ids[request_id] = self._take_new_blocks(request, now, new_rows)
        for forks in output.sampling_along.values():
            for fork in forks:
                new_rows[fork.request_id] = make_sampling_row(fork)
                # it has no table before its own first step, which sends it again
                self._known[fork.request_id] = ()
        finished_req_ids, self._finished_req_ids = tuple(self._finished_req_ids), []
        forget_all, self.forget_all = self.forget_all, False
        req_ids, sampled = tuple(output.num_scheduled_tokens), tuple(sample_req_ids)
        return StepInput(
            req_ids,
            tuple(starts),
            tuple(output.num_scheduled_tokens.values()),
            tuple(token_ids),
            # a step of decodes: one tuple, which is pickled once
            req_ids if sampled == req_ids else sampled,
            tuple(sample_rows),
            new_rows,
            new_block_ids,
            prompt_targets,
            finished_req_ids,
            forget_all,
            plan,
            output.masks,
            output.uniform_query_len,
        )

    def _tokens_and_samples(
        self, output: SchedulerOutput
    ) -> tuple[list[int], list[str], list[int]]:
        """The tokens of the step end to end; of each row of logits, whose token it gives, and its
        place among them.

        A chunk that catches up has one sample row, and one more for each draft behind it.
        """
        needs_sample, drafts = self.scheduler.needs_sample, output.drafts
        token_ids: list[int] = []
        sample_req_ids: list[str] = []
        sample_rows: list[int] = []
        end = 0
        for request, n in zip(
            output.scheduled_requests, output.num_scheduled_tokens.values(), strict=True
        ):
            request_id, start = request.request_id, request.num_computed_tokens
            known = request.all_token_ids[start : start + n]
            token_ids += known
            end += n
            if not needs_sample(request, len(known)):  # drafts behind them are no tokens yet
                continue
            if drafts and len(token_ids) < end:
                first = len(token_ids) - 1  # the row of its last token; those of its drafts follow
                token_ids += drafts[request_id][: end - first - 1]
                sample_req_ids += [request_id] * (end - first)
                sample_rows += range(first, end)
            else:
                sample_req_ids.append(request_id)
                sample_rows.append(end - 1)
        for request_id, forks in output.sampling_along.items():
            row = sample_rows[sample_req_ids.index(request_id)]
            sample_req_ids += [fork.request_id for fork in forks]
            sample_rows += [row] * len(forks)
        return token_ids, sample_req_ids, sample_rows

    def _take_new_blocks(
        self, request: Request, now: Known, new_rows: dict[str, SamplingRow]
    ) -> tuple[BlockTable, ...]:
        """What the runner does not have of a request's tables; of a request that it does not know,
        its row, too.
        """
        old = self._known.get(request.request_id)
        if not old or old[0] != now[0]:
            new_rows[request.request_id] = make_sampling_row(request)
            old = (0,) * len(now)
        self._known[request.request_id] = now
        return self.scheduler.kv_cache_manager.get_block_tables(request.request_id, old[1:])


def make_sampling_row(request: Request) -> SamplingRow:
    """How a request samples, for a runner that does not know it yet."""
    params = request.sampling_params
    token_ids = tuple(request.all_token_ids) if params.looks_back else ()
    ending = tuple(request.eos_token_ids.union(params.stop_token_ids)) if params.min_tokens else ()
    return SamplingRow(
        params, params.seed or 0, request.choice_index, request.num_prompt_tokens, token_ids, ending
    )
