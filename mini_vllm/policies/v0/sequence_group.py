"""The scheduler of vLLM V0: prompts first, then decodes; groups of sequences that share their
prompt's blocks.

A step is a prefill step or a decode step. As long as prompts wait and fit, they go first, and the
decodes stand still: chunked prefill and V1 came to cure that. A SequenceGroup is what one prompt
asks for. Only its first sequence computes the prompt. When it has caught up, its siblings fork:
they sample from the same logits, then share its blocks, copy on write. When blocks run out, whole
groups are preempted from the tail. A group of one sequence is computed again. A group of several is
swapped to main memory, and comes back before any other group is admitted.

V0's reason for swapping: a preempted sequence is computed again as one longer prompt, in one
prefill. Sequences that have forked are several such prompts, which share a part, and for them
"recomputation is not currently supported"; it "may require a more sophisticated CUDA kernel" (the
comment in Scheduler._preempt). That comment names the price: groups of several are preferred to
single sequences, since swapped groups come before waiting ones. The PagedAttention paper (Kwon et
al., 2023, section 4.5) says why a group is preempted as a whole: its sequences share memory.

V0's words and ours: a Sequence is a Request, and its logical blocks are the indices of its block
table. WAITING and RUNNING are the same, SWAPPED is PREEMPTED with a table in main memory, and
FINISHED_IGNORED is an error when the request is added. Every live request is in `waiting` or in
`running`, beside the rest of its group. In `waiting` the swapped ones come first, then the
preempted and the new ones; those that wait to fork are in `running`.

The decisions are those of vLLM 0.5.5 with its block manager v1, without chunked prefill and prefix
caching. The tests replay 300 recorded traces (traces/vllm-0.5.5): 200 of single sequences and 100
of groups, in tight pools, with a watermark, aborts, and main memory that is large, small or
missing. With V0's rules for a group that is alone (tools/replay_vllm_v0_traces.py) all are equal:
which are scheduled with how many tokens, which are preempted, stored, brought back or given up, how
many blocks are copied and how many are free. Block ids are not compared, since V0 frees a table in
the order of a Python set.

What is unlike V0:

  - A group that is alone gets whatever blocks it will use. V0 wants a free block for each sequence
    even then, and in addition the watermark. So it preempts a group that could go on, and ends
    (FINISHED_IGNORED) one that has started and could never come back. An engine has no such end.
  - A prompt larger than the whole budget is cut, with enable_chunked_prefill. V0 takes no budget
    below max_model_len; nor does this scheduler without enable_chunked_prefill.
  - A group that finds no room in main memory is computed again. V0 raises an error, and its engine
    ends.
  - The last sequence of a group that has forked is computed again like any other. V0 tries, and
    then fails an assertion or never frees the blocks.
  - Prefix caching is V1's: what is found costs neither tokens of the budget nor, if a request holds
    it, blocks. V0 charges all of it. V0 has no policy "priority".
  - Prompts are whole, and admitted as a whole, so long_prefill_token_threshold and
    reserve_full_sequence mean nothing here: they are taken, so that one configuration fits every
    policy, and only described again.

Source: Scheduler._schedule_default, _schedule_prefills, _schedule_running, _schedule_swapped and
_preempt in vllm/core/scheduler.py, can_append_slots and can_swap_in in
vllm/core/block_manager_v1.py, SequenceGroup in vllm/sequence.py (vLLM 0.5.5).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import GroupTooLargeError, shown
from mini_vllm.policies.v0.group_scheduler import GroupScheduler
from mini_vllm.policies.v0.sequence import GroupSchedulerOutput, SchedulingBudget, SequenceGroup
from mini_vllm.request import FINISH_REASONS, Request, RequestStatus


@dataclass(eq=False, repr=False)
class SequenceGroupScheduler(GroupScheduler):
    """V0's policy, which shares no decision with V1's: what a step computes, and which group gives
    way.
    """

    _: KW_ONLY
    long_prefill_token_threshold: int = 0
    reserve_full_sequence: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        num_usable = self.kv_cache_manager.num_usable_blocks  # V0 has no null block
        self.num_watermark_blocks = int(self.watermark * num_usable)

    # --- groups come and go -----------------------------------------------------------------------

    def _check_requests(self, requests: Sequence[Request]) -> None:
        """Raises GroupTooLargeError, too, for the choices of one prompt that could not run as a
        whole.
        """
        super()._check_requests(requests)
        if len(requests) > 1:
            self._check_group(requests)

    def _queue(self, requests: Sequence[Request]) -> None:
        self._groups.update(
            dict.fromkeys((request.request_id for request in requests), SequenceGroup(requests))
        )
        super()._queue(requests)

    def _check_group(self, requests: Sequence[Request]) -> None:
        """Refuse a group that could not run as a whole at its greatest length.

        Its blocks are then the full ones of the prompt, shared, and for each sequence the rest; the
        last token of a request is never computed.
        """
        first, n, size = requests[0], len(requests), self.kv_cache_manager.block_size
        max_len = min(first.max_model_len or self.max_model_len, self.max_model_len)
        num_slots = max(
            min(first.num_prompt_tokens + first.max_tokens, max_len) - 1, first.num_prompt_tokens
        )
        num_shared = first.num_prompt_tokens // size
        for name, needed, limit in (
            ("places", n, self.max_num_seqs),
            ("tokens a step", n, self.max_num_batched_tokens),
            (
                "blocks",
                num_shared + n * (-(-num_slots // size) - num_shared),
                self.kv_cache_manager.num_usable_blocks,
            ),
        ):
            if needed > limit:
                raise GroupTooLargeError(
                    f"request {shown(first.request_id)}: {n} sequences of up to {num_slots} "
                    "computed tokens need "
                    f"{needed} {name}, there are {limit}"
                )

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        """End one sequence of a group.

        If it is the one that computes the prompt, the next one takes over.
        """
        request = self._requests.get(request_id)
        if request is not None and reason in FINISH_REASONS:
            self._leave_group(request)
        return super().finish_request(request_id, reason)

    # --- one step ---------------------------------------------------------------------------------

    def schedule(self) -> GroupSchedulerOutput:
        """Decide the next step.

        It has prefills only, if there are any; else decodes, then groups that come back.
        """
        output = GroupSchedulerOutput()
        budget = SchedulingBudget(
            self.max_num_batched_tokens, self.max_num_seqs - len(self.running)
        )
        self._schedule_prefills(budget, output)
        if not output.num_scheduled_tokens:
            self._schedule_decodes(budget, output)
            if not output.preempted_req_ids and not self._swapped_out:
                self._schedule_swapped(budget, output)
        output.swapped_out, self._swapped_out = self._swapped_out, []
        return output

    def _schedule_prefills(self, budget: SchedulingBudget, output: GroupSchedulerOutput) -> None:
        """Compute prompts, whole and in order: those under way, then those that wait, unless a
        group is swapped.
        """
        for request in self.running:
            is_unforked = request in self._groups[request.request_id].unforked
            is_behind = request.num_computed_tokens < request.num_prefill_tokens and not is_unforked
            if is_behind and not self._schedule_prompt(request, budget, output):
                return
        while (group := self._next_group(is_swapped=False)) and self._may_allocate(group, budget):
            self._set_running(group, budget)
            for request in group.sequences:
                if not self._schedule_prompt(request, budget, output):
                    return

    def _next_group(self, *, is_swapped: bool) -> SequenceGroup | None:
        """The group at the head of waiting, if there is one and it is swapped, or is not, as the
        caller asks.
        """
        group = self._groups[self.waiting[0].request_id] if self.waiting else None
        return group if group is not None and group.is_swapped == is_swapped else None

    def _may_allocate(self, group: SequenceGroup, budget: SchedulingBudget) -> bool:
        """Whether the group has places, its first sequence tokens, and all of them blocks for what
        they have.
        """
        kv, first = self.kv_cache_manager, group.sequences[0]
        blocks, num_computed = kv.get_computed_blocks(first)
        if (
            not budget.chunk_of(first.num_tokens - num_computed)
            or len(group.requests) > budget.num_free_seqs
        ):
            return False
        num_shared = first.num_prompt_tokens // kv.block_size
        num_needed = kv.num_blocks_needed(first, first.num_tokens, blocks)
        num_needed += sum(
            -(-other.num_tokens // kv.block_size) - num_shared for other in group.sequences[1:]
        )
        if len(group.sequences) > 1 and self.running:
            # or the decode to come would preempt it again: see _may_append()
            num_needed += len(group.sequences)
        num_spare = self.num_watermark_blocks if self.running else 0
        return num_needed + num_spare <= kv.num_free_blocks

    def _set_running(self, group: SequenceGroup, budget: SchedulingBudget) -> None:
        """Move the group at the head of waiting to the end of running."""
        for request in group.requests:
            self.waiting.remove(request)
            self.running.append(request)
            request.status = RequestStatus.RUNNING
        budget.num_free_seqs -= len(group.requests)

    def _schedule_prompt(
        self, request: Request, budget: SchedulingBudget, output: GroupSchedulerOutput
    ) -> bool:
        """Let a sequence catch up; returns whether it did.

        If several are computed again, each stops a token short: from there they decode in step.
        """
        kv, group = self.kv_cache_manager, self._groups[request.request_id]
        blocks: list[KVCacheBlock] = []
        num_computed = request.num_computed_tokens
        is_new = not num_computed and not kv.get_block_ids(request.request_id)
        if is_new:
            blocks = self._find_computed_blocks(group, request)
            num_computed = len(blocks) * kv.block_size
        num_missing = request.num_tokens - num_computed
        if len(group.sequences) > 1:
            num_missing -= 1
        n = budget.chunk_of(num_missing)
        if (n < num_missing and not n) or kv.allocate_slots(request, n, blocks) is None:
            return False
        output.groups[group] = None  # even if n is 0: what is shared may be written by this step
        if is_new:
            self._record_hit(request, num_computed)
            request.num_prefill_tokens = num_computed + num_missing
        if n:
            self._schedule(request, n, budget, output)
        return n == num_missing

    def _find_computed_blocks(self, group: SequenceGroup, request: Request) -> list[KVCacheBlock]:
        """The longest cached prefix.

        All but the first of a group find at least the prompt's full blocks.
        """
        hits, _ = self.kv_cache_manager.get_computed_blocks(request)
        shared: list[KVCacheBlock] = []
        if request is not group.sequences[0]:
            shared = self.kv_cache_manager.computed_prefix(
                group.sequences[0], request.num_prompt_tokens
            )
        return max(hits, shared, key=len)

    def _record_hit(self, request: Request, num_computed_tokens: int) -> None:
        stats = self.preempted_prefix_cache_stats
        if not request.num_preemptions:
            stats = self.prefix_cache_stats
            request.num_cached_tokens = num_computed_tokens
        if self.kv_cache_manager.enable_prefix_caching:
            stats.record(request.num_tokens, num_computed_tokens)
        request.num_computed_tokens = num_computed_tokens

    def _schedule(
        self, request: Request, n: int, budget: SchedulingBudget, output: GroupSchedulerOutput
    ) -> None:
        """Put n tokens of the request, which has the slots, into the step."""
        output.add(request, n)
        budget.num_batched_tokens += n
        group = self._groups[request.request_id]
        output.groups[group] = None
        if group.unforked:
            output.prompts[request.request_id] = group
            if self.needs_sample(request, n):
                output.sampling_along[request.request_id] = list(group.unforked)

    def _schedule_decodes(self, budget: SchedulingBudget, output: GroupSchedulerOutput) -> None:
        """Give every running sequence one token.

        A group that finds no blocks preempts from the tail.
        """
        queue = deque(dict.fromkeys(self._groups[request.request_id] for request in self.running))
        if self.policy == "priority":
            queue = deque(sorted(queue, key=lambda group: group.urgency))
        while queue and budget.can_schedule(len(queue[0].sequences), 0):
            group = queue.popleft()
            while not self._may_append(group):
                victim = queue.pop() if queue else group
                output.preempted_req_ids += [request.request_id for request in victim.requests]
                self._preempt_group(victim)
                if victim is group:
                    return
            self._append_slots(group, budget, output)

    def _may_append(self, group: SequenceGroup) -> bool:
        """V0 wants a free block for each sequence, used or not.

        A group that is alone wants those that it will use.
        """
        kv, num_needed = self.kv_cache_manager, len(group.sequences)
        if len(self.running) == len(group.requests):
            num_needed = kv.num_blocks_to_append(group.sequences)
        return num_needed <= kv.num_free_blocks

    def _append_slots(
        self, group: SequenceGroup, budget: SchedulingBudget, output: GroupSchedulerOutput
    ) -> None:
        for request in group.sequences:
            new_blocks = self.kv_cache_manager.allocate_slots(request, 1)
            assert new_blocks is not None, "_may_append has counted them"
            self._schedule(request, 1, budget, output)

    def _schedule_swapped(self, budget: SchedulingBudget, output: GroupSchedulerOutput) -> None:
        """Bring back, in order, the groups that fit; they decode at once."""
        while (group := self._next_group(is_swapped=True)) and self._may_restore(group, budget):
            self.kv_cache_manager.restore(group.sequences)
            group.is_swapped = False
            self._set_running(group, budget)
            self._append_slots(group, budget, output)

    def _may_restore(self, group: SequenceGroup, budget: SchedulingBudget) -> bool:
        """Whether the group has places, and blocks to go on.

        A group that is alone has them, by _check_group().
        """
        kv, n = self.kv_cache_manager, len(group.sequences)
        num_needed = kv.num_blocks_to_restore(group.sequences) + self.num_watermark_blocks
        return budget.can_schedule(n, n) and (not self.running or num_needed <= kv.num_free_blocks)
