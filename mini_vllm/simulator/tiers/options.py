"""How large and how fast the tiers of a simulated replica are."""

from dataclasses import dataclass

from mini_vllm.errors import Params, is_int, is_number

LOADS = ("always", "cheaper")


@dataclass(frozen=True, slots=True)
class Tiers(Params):
    """Main memory and a disk. Raises InvalidParameterError for a value out of its range.

    How long a block takes between the device and main memory is in the calibration (copied_block).
    """

    host_blocks: int
    """Blocks of main memory."""
    disk_blocks: int = 0
    """0: no disk."""
    block_bytes: int = 2 << 20
    """K and V of one block, in all layers."""
    disk_bandwidth: float = 3e9
    """Bytes a second; reading and writing have as much each."""
    disk_latency: float = 1e-4
    """Seconds that each job takes beside that."""
    load: str = "cheaper"
    """"always", or "cheaper": a request reads from the disk only if to compute takes longer."""

    def __post_init__(self) -> None:
        self.normalise()
        for name, least in (("host_blocks", 1), ("disk_blocks", 0), ("block_bytes", 1)):
            self.require(name, is_int(getattr(self, name), least), f"an integer from {least} on")
        for name in ("disk_bandwidth", "disk_latency"):
            self.require(name, is_number(getattr(self, name), 0, 1e15), "a number in [0, 1e15]")
        self.require("disk_bandwidth", self.disk_bandwidth > 0, "above 0")
        self.require("load", self.load in LOADS, f"one of {list(LOADS)}")

    @property
    def seconds_per_job(self) -> float:
        """To read or write one block."""
        return self.disk_latency + self.block_bytes / self.disk_bandwidth
