"""Lab 03.4: update_from_output(): after the model (25 minutes). What must hold is in contract.md."""

from collections.abc import Mapping, Sequence

from labkit import todo
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler_interface import SchedulerOutput as SchedulerOutput


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Advance the counters by what was computed, append what was sampled; returns who finished,
        in step order.

        vLLM advances num_computed_tokens in schedule() already; in a synchronous engine the
        decisions are the same.
        """
        todo("03.4")
