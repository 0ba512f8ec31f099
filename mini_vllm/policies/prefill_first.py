"""Prefill first: a step either admits requests and computes their prompts, or decodes all running
ones, never both.

The rule is simple, and every step is uniform. The price is that no running request gets a token as
long as requests arrive that fit. This policy shows what vLLM V1 gains by mixing the two.

nano-vllm's are the two kinds of step; that only the first request of a prefill step is cut, and
goes on before all other requests (in its newest version; its first cuts none); that the first which
does not fit ends admission; that hits cost no budget; that the last of running is the victim, and
waits at the front. V1's, and not nano-vllm's, are the limit of places, what a decode pays and which
blocks are taken and found. The scheduler nano_vllm has these of nano-vllm, too, rule by rule
(mini_vllm/policies/nano_vllm.py has the list). Then every decision is that of nano-vllm's own
Scheduler and BlockManager in 200 recorded runs (traces/nano-vllm): shared prefixes, tight pools
with preemptions, budgets and places of all sizes, arrivals over time, ends by token and by length.
Chunks of a fixed size, priorities, the watermark and aborts are not in them: nano-vllm has none.
Source: Scheduler.schedule of nano-vllm (nanovllm/engine/scheduler.py), and of MinivLLM as it was at
first.
"""

from dataclasses import dataclass

from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput


def in_prefill(request: Request) -> bool:
    """Whether a running request is still catching up with the tokens that it had when it was
    admitted.

    A preempted request may have one such token left, its last one, which looks like a decode and is
    none.
    """
    behind = request.num_tokens - request.num_computed_tokens
    return behind > 1 or request.num_computed_tokens < request.num_prefill_tokens


@dataclass(eq=False, repr=False, kw_only=True)
class PrefillFirstScheduler(Scheduler):
    """Two queues, two kinds of step.

    Blocks, watermark, places, victims and the order of waiting are those of V1.

    A prefill step first continues what an earlier one had to cut. Then it admits from the front of
    waiting as many as fit whole into the budget. Only the first request of a step is cut by the
    budget; long_prefill_token_threshold cuts any.

    nano-vllm asserts that something is scheduled. A prompt above the budget or the cache breaks
    that, and so does one sequence that outgrows the pool. This policy cuts the prompt, or
    add_request() has refused the request or lowered its max_model_len.
    """

    charge_cached_tokens: bool = False
    """Whether the budget also pays for the tokens that the prefix cache has.

    They need not be computed; the first MinivLLM charged them. nano-vllm charges the rest alone. In
    its first version the whole sequence had to fit into what was left of the budget, all the same.
    """

    def schedule(self) -> SchedulerOutput:
        """Prefill if there is any to do and room for it, else decode."""
        output = SchedulerOutput()
        prefills = [request for request in self.running if in_prefill(request)]
        token_budget = self._schedule_running(prefills, output, self.max_num_batched_tokens)
        if not output.preempted_req_ids:
            self._schedule_waiting(output, token_budget)
        if not output.num_scheduled_tokens:
            self._schedule_running(list(self.running), output, token_budget)
        return output

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        """Admit from the front of waiting what fits whole.

        The first that does not fit stays there, and ends it.
        """
        while token_budget > 0 and self._has_place(output) and (request := self._next_admissible()):
            computed_blocks, num_computed = self.kv_cache_manager.get_computed_blocks(request)
            # With more than enough budget, of which rows of a draft model may take a part: the
            # prompt as a whole.
            n = self._chunk_size(
                request, num_computed, request.num_tokens + self.max_num_batched_tokens
            )
            num_hits = num_computed if self._hits_must_fit() else 0
            if n + num_hits > token_budget:
                if output.num_scheduled_tokens:
                    break
                # the first of its step may be cut
                n = self._chunk_size(request, num_computed, token_budget)
            if not self._try_admit(output, request, n, num_computed, computed_blocks):
                break
            token_budget -= n + (num_hits if self.charge_cached_tokens else 0)
        self._put_back(output)

    def _has_place(self, output: SchedulerOutput) -> bool:
        """Whether one more request may be in this step.

        Here a place is taken as long as a request runs.
        """
        return len(self.running) < self.max_num_seqs

    def _hits_must_fit(self) -> bool:
        """Whether the hits of a request have to fit into the budget, too.

        Here they have to if they are charged.
        """
        return self.charge_cached_tokens

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        super()._admit(request, num_computed_tokens)
        request.num_prefill_tokens = request.num_tokens
