"""When the jobs of the io threads end."""

import math
from collections.abc import Sequence
from heapq import heappop, heappush

from mini_vllm.offload.tiers.work import Job


class DiskClock:
    """One job after the other, reads and writes apart. seconds_per_job: of a block."""

    def __init__(self, seconds_per_job: float) -> None:
        self.seconds_per_job = seconds_per_job
        self._free_at = {"read": 0.0, "write": 0.0, "delete": 0.0}
        self._ends: list[tuple[float, int]] = []  # a heap: when a job ends, and its number

    def begin(self, jobs: Sequence[Job], now: float) -> None:
        """A plan asks for them."""
        for job in jobs:
            seconds = 0.0 if job.kind == "delete" else self.seconds_per_job
            end = self._free_at[job.kind] = max(self._free_at[job.kind], now) + seconds
            heappush(self._ends, (end, job.number))

    def take_done(self, now: float) -> dict[int, bool]:
        """The jobs that have ended, once."""
        done = []
        while self._ends and self._ends[0][0] <= now:
            done.append(heappop(self._ends)[1])
        return dict.fromkeys(done, True)

    @property
    def next_end(self) -> float:
        """Of a job; infinite if there is none."""
        return self._ends[0][0] if self._ends else math.inf

    def wait_for(self, num_blocks: int, now: float) -> float:
        """Seconds until so many further blocks would be read."""
        return max(self._free_at["read"] - now, 0.0) + num_blocks * self.seconds_per_job
