"""When the jobs of the io threads end."""

import math
from collections.abc import Iterable

from mini_vllm.offload.tiers.work import Job


class DiskClock:
    """One job after the other, reads and writes apart. seconds_per_job: of a block."""

    def __init__(self, seconds_per_job: float) -> None:
        self.seconds_per_job = seconds_per_job
        self._free_at = {"read": 0.0, "write": 0.0, "delete": 0.0}
        self._ends: dict[int, float] = {}  # by number of the job

    def begin(self, jobs: Iterable[Job], now: float) -> None:
        """Begin those that are new."""
        for job in jobs:
            if job.number not in self._ends:
                seconds = 0.0 if job.kind == "delete" else self.seconds_per_job
                self._free_at[job.kind] = max(self._free_at[job.kind], now) + seconds
                self._ends[job.number] = self._free_at[job.kind]

    def take_done(self, now: float) -> dict[int, bool]:
        """The jobs that have ended, once."""
        done = [number for number, end in self._ends.items() if end <= now]
        for number in done:
            del self._ends[number]
        return dict.fromkeys(done, True)

    @property
    def next_end(self) -> float:
        """Of a job; infinite if there is none."""
        return min(self._ends.values(), default=math.inf)

    def wait_for(self, num_blocks: int, now: float) -> float:
        """Seconds until so many further blocks would be read."""
        return max(self._free_at["read"] - now, 0.0) + num_blocks * self.seconds_per_job
