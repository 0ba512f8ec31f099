"""Sums that have the same bits whatever else is in the batch, and however their numbers arrive.

The reference of lab 07.5. Source: He et al., "Defeating Nondeterminism in LLM Inference" (2025). vLLM has the same in
matmul_kernel_persistent of vllm/model_executor/determinism/batch_invariant.py, whose pieces of a sum have one size.
"""

from collections.abc import Callable, Sequence

Row = Sequence[float]
Kernel = Callable[[Sequence[Row]], Sequence[float]]  # one number for each row

MULTIPLES = (1, 2, 4, 8, 16, 32)  # of rows, that are tried


class RunningSum:
    """The sum of numbers that arrive in chunks, in splits of one size."""

    def __init__(self, split_size: int) -> None:
        self.split_size = split_size
        self._full = 0.0  # the sum of the full splits
        self._open = 0.0  # the sum of the last split
        self._num_open = 0  # its numbers

    def extend(self, numbers: Sequence[float]) -> None:
        """These numbers follow."""
        for number in numbers:
            self._open += number
            self._num_open += 1
            if self._num_open == self.split_size:
                self._full += self._open
                self._open, self._num_open = 0.0, 0

    def total(self) -> float:
        """The sum of all numbers so far: of the full splits, and then of the last one."""
        return self._full + self._open


def padded(kernel: Kernel, multiple: int, rows: Sequence[Row]) -> list[float]:
    """What a kernel gives for these rows, among a multiple of so many rows: rows of zeros stand behind them."""
    if not rows:
        return []
    zeros = [0.0] * len(rows[0])
    return list(kernel([*rows, *[zeros] * (-len(rows) % multiple)]))[: len(rows)]


def multiple_of(kernel: Kernel, rows: Sequence[Row]) -> int:
    """The least of MULTIPLES with which each row has the bits that it has alone, at any place among these rows.

    Raises ValueError if there is none.
    """
    for multiple in MULTIPLES:
        alone = [padded(kernel, multiple, [row])[0] for row in rows]
        if all(
            padded(kernel, multiple, rows[:n]) == alone[:n] and padded(kernel, multiple, rows[-n:]) == alone[-n:]
            for n in range(1, len(rows) + 1)
        ):
            return multiple
    raise ValueError(f"a row has other bits among other rows with each multiple of {MULTIPLES}")
