"""What happens to groups between two decisions of V0's scheduler: they wait, are preempted, fork
and end.

Source: Scheduler._preempt, _swap_out and free_finished_seq_groups in vllm/core/scheduler.py (vLLM
0.5.5).
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import PART
from mini_vllm.policies.v0.group_kv_cache import GroupKVCacheManager
from mini_vllm.policies.v0.sequence import GroupSchedulerOutput, SequenceGroup
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import SchedulerInterface, SchedulerOutput


@dataclass(eq=False, repr=False)
class GroupScheduler(SchedulerInterface):
    """Keeps the groups; a subclass decides which of them a step computes.

    Raises InvalidParameterError for a manager that cannot fork.
    """

    kv_cache_manager_cls = GroupKVCacheManager

    kv_cache_manager: GroupKVCacheManager = field(metadata=PART)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.kv_cache_manager, GroupKVCacheManager):
            raise InvalidParameterError(
                "sequence_group needs a KV cache manager that forks groups, "
                f"got {type(self.kv_cache_manager).__name__}"
            )
        self._groups: dict[str, SequenceGroup] = {}  # of every live request
        self._swapped_out: list[SequenceGroup] = []  # since the last step was decided

    # --- preemption -------------------------------------------------------------------------------

    def _preempt_group(self, group: SequenceGroup, may_swap: bool = True) -> None:
        """Take a running group's blocks.

        Several sequences are swapped, if there is room; else computed again.
        """
        requests = group.requests
        self.running = [request for request in self.running if request not in requests]
        for request in requests:
            request.status = RequestStatus.PREEMPTED
            request.num_preemptions += 1
        if may_swap and self._store(group):
            group.is_swapped = True
            self._swapped_out.append(group)
        else:
            self._reset(group)
        self._enqueue_group(group)

    def _store(self, group: SequenceGroup) -> bool:
        """Move several sequences in step to main memory; False, with nothing changed, if that
        cannot be.
        """
        in_step = all(
            request.num_tokens - request.num_computed_tokens == 1 for request in group.sequences
        )
        return len(group.sequences) > 1 and in_step and self.kv_cache_manager.store(group.sequences)

    def _reset(self, group: SequenceGroup) -> None:
        """Leave a group nothing but its tokens."""
        for request in group.requests:
            self.kv_cache_manager.free(request)
            request.num_computed_tokens = 0
        group.is_swapped = False

    def _enqueue(self, request: Request) -> None:
        """Queue a new request; those of a group come one after the other."""
        if self.policy == "priority":
            insort(self.waiting, request, key=self._order)
        else:
            self.waiting.append(request)

    def _enqueue_group(self, group: SequenceGroup) -> None:
        """Put a preempted group back: first, but behind the swapped ones, even if it is swapped
        itself.
        """
        if self.policy == "priority":
            for request in group.requests:
                insort(self.waiting, request, key=self._order)
            return
        swapped = takewhile(
            lambda request: self._groups[request.request_id].is_swapped, self.waiting
        )
        place = len(list(swapped))
        for request in reversed(group.requests):
            self.waiting.insert(place, request)

    def _order(self, request: Request) -> tuple[bool, tuple[int, float, str]]:
        """Sort key of the waiting queue under the priority policy: swapped first, a group in one
        place.
        """
        group = self._groups[request.request_id]
        return not group.is_swapped, group.urgency

    # --- after the step ---------------------------------------------------------------------------

    @staticmethod
    def needs_sample(request: Request, num_scheduled: int) -> bool:
        """Whether this step catches up, as in V1."""
        return request.num_computed_tokens + num_scheduled >= request.num_tokens

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Advance the counters, append what was sampled; returns who finished, in step order."""
        assert isinstance(output, GroupSchedulerOutput)
        finished: list[Request] = []
        for request, n in self._fork_computed(output):
            # finished from outside while the model ran
            if request.status is not RequestStatus.RUNNING:
                continue
            request.num_computed_tokens += n
            for token_id in sampled_token_ids.get(request.request_id, ()):
                request.append_output_token(token_id)
                if request.maybe_finish():
                    finished.append(request)
                    break
        for request in finished:
            self._leave_group(request)
            self.kv_cache_manager.free(request)
            del self._requests[request.request_id]
        if finished:
            self.running = [
                request for request in self.running if request.status is RequestStatus.RUNNING
            ]
        return finished

    def _fork_computed(self, output: GroupSchedulerOutput) -> list[tuple[Request, int]]:
        """The requests that computed, and how much each.

        Those that waited for a prompt fork before its first token is appended. From then on they
        have computed it too, and get a token of their own.
        """
        computed: list[tuple[Request, int]] = []
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            group = output.prompts.get(request.request_id)
            if group is None or not group.sequences:
                computed.append((request, n))
                continue
            first = group.sequences[0]  # another one, if the request was aborted meanwhile
            computed.append((first, n))
            if self.needs_sample(first, n):
                for other in group.unforked:
                    self.kv_cache_manager.fork(first, other)
                    other.num_computed_tokens = first.num_computed_tokens
                    other.num_cached_tokens = first.num_cached_tokens
                    computed.append((other, n))
                group.sequences, group.unforked = group.requests, []
        return computed

    def fail_step(self, output: SchedulerOutput) -> None:
        """Undo a step that raised: a group that was in it, or was swapped by it, computes
        everything again.
        """
        assert isinstance(output, GroupSchedulerOutput)
        for request in output.scheduled_requests:
            if request.is_finished:
                self.kv_cache_manager.withdraw(
                    request, output.num_scheduled_tokens[request.request_id]
                )
        for group in output.swapped_out:
            if group.is_swapped:
                for request in group.requests:
                    self.waiting.remove(request)
                self._reset(group)
                self._enqueue_group(group)
        for group in reversed(output.groups):
            if group.sequences and group.sequences[0].status is RequestStatus.RUNNING:
                self._preempt_group(group, may_swap=False)

    def _leave_group(self, request: Request) -> None:
        group = self._groups.pop(request.request_id)
        if request in group.unforked:
            group.unforked.remove(request)
            return
        group.sequences.remove(request)
        if group.unforked:
            heir = group.unforked.pop(0)
            group.sequences.append(heir)
            heir.num_computed_tokens = request.num_computed_tokens
            self.kv_cache_manager.fork(request, heir)
