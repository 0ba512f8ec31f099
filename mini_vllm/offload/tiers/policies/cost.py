"""DiskCost: whether a request gains by waiting for its blocks, from what reads and steps took.

A disk that is slower than the model is worse than none. Which it is, is not known beforehand. It
changes with what else uses the disk. So it is measured as it goes: a request waits for a disk that
has proved faster, and for one that has not proved anything a twentieth of what computing takes.
"""

from dataclasses import dataclass

SHARE_AT_RISK = 0.05  # of the time that computing takes: what a disk may cost that turns out slow
MEMORY = 0.8  # how much an older measurement counts beside a new one
# seconds that it may cost while nothing is known of computing, as behind a start
SECONDS_AT_RISK = 1.0
PROBE = 4  # blocks
PROBE_EVERY = 64  # requests that are refused, until one tries the disk again


@dataclass(slots=True)
class Rate:
    """Seconds for each of something, as a mean of late measurements. None: nothing is known."""

    num: float = 0.0
    seconds: float = 0.0

    @property
    def each(self) -> float | None:
        return self.seconds / self.num if self.seconds else None

    def add(self, num: float, seconds: float) -> None:
        """So many took so long; 0 say nothing."""
        if not num:
            return
        self.num = MEMORY * self.num + num
        self.seconds = MEMORY * self.seconds + seconds


class DiskCost:
    """Two rates of this machine and model: a block read, and a token computed."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.read = Rate()  # by block, with as many reads at once as there are
        self.compute = Rate()  # by token
        self.num_refused = 0

    def seconds_to_compute(self, num_blocks: int) -> float | None:
        each = self.compute.each
        return None if each is None else each * num_blocks * self.block_size

    def num_reads(self, num_on_disk: int) -> int:
        """How many reads a request should begin that finds so many blocks on the disk: all, a few
        if nothing is known of it, or none.

        Of requests that should begin none, every 64th tries a few, to see whether the disk is still
        slow.
        """
        compute, each = self.seconds_to_compute(num_on_disk), self.read.each
        if each is not None:
            if num_on_disk * each < (compute or SECONDS_AT_RISK):
                return num_on_disk
            self.num_refused += 1
            if self.num_refused % PROBE_EVERY:
                return 0
        return min(num_on_disk, PROBE)

    def may_wait(self, num_on_disk: int, num_left: int, waited: float) -> bool:
        """Whether a request that has waited so many seconds for blocks should wait on for the
        num_left that have not arrived.
        """
        compute, each = self.seconds_to_compute(num_on_disk), self.read.each
        if compute is None:
            return waited <= SECONDS_AT_RISK
        if waited <= SHARE_AT_RISK * compute:
            return True
        return each is not None and waited + num_left * each < compute
