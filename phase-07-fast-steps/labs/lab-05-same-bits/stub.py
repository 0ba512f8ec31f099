"""Lab 07.5: The same bits in every batch (30 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from labkit.steps.sums import Kernel, MULTIPLES, Row


class RunningSum:
    """The sum of numbers that arrive in chunks, in splits of one size."""

    def __init__(self, split_size: int) -> None:
        todo("07.5")

    def extend(self, numbers: Sequence[float]) -> None:
        """These numbers follow."""
        todo("07.5")

    def total(self) -> float:
        """The sum of all numbers so far: of the full splits, and then of the last one."""
        todo("07.5")


def padded(kernel: Kernel, multiple: int, rows: Sequence[Row]) -> list[float]:
    """What a kernel gives for these rows, among a multiple of so many rows: rows of zeros stand behind them."""
    todo("07.5")


def multiple_of(kernel: Kernel, rows: Sequence[Row]) -> int:
    """The least of MULTIPLES with which each row has the bits that it has alone, at any place among these rows.

    Raises ValueError if there is none.
    """
    todo("07.5")
