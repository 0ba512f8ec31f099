"""Lab 03.8: Prefill first, and what it does to running requests (40 minutes). What must hold is in contract.md."""

from labkit import todo
from mini_vllm.policies.prefill_first import PrefillFirstScheduler as ReferencePrefillFirstScheduler, in_prefill
from mini_vllm.scheduler import SchedulerOutput


class PrefillFirstScheduler(ReferencePrefillFirstScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        """Prefill if there is any to do and room for it, else decode."""
        todo("03.8")
