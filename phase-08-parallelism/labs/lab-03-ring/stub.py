"""Lab 08.3: A ring all-reduce (35 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo


class RingRank:
    """A rank of a ring that adds up `numbers`, of which every rank has equally many.

    A round is a send() to the next rank and a receive() from the one before. After 2 * (size - 1) rounds result() is
    the sum. Chunk c of n numbers is [c * n // size, (c + 1) * n // size).
    """

    def __init__(self, rank: int, size: int, numbers: Sequence[float]) -> None:
        todo("08.3")

    def send(self) -> list[float]:
        """The message of this round, for the next rank."""
        todo("08.3")

    def receive(self, message: Sequence[float]) -> None:
        """The message of this round, from the rank before; it ends the round."""
        todo("08.3")

    def result(self) -> list[float]:
        """All numbers as they are now."""
        todo("08.3")


def bytes_sent(rank: int, size: int, num_numbers: int, itemsize: int) -> int:
    """How many bytes a rank sends in all rounds: all chunks but one, twice."""
    todo("08.3")
