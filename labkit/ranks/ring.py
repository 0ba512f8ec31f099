"""A sum over all ranks, in which each rank talks to its neighbours alone.

The reference of lab 08.3. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations" (2009). vLLM leaves it to the library of the device: GroupCoordinator.all_reduce in
vllm/distributed/parallel_state.py.
"""

from collections.abc import Sequence


class RingRank:
    """A rank of a ring that adds up `numbers`, of which every rank has equally many.

    A round is a send() to the next rank and a receive() from the one before. After 2 * (size - 1) rounds result() is
    the sum. Chunk c of n numbers is [c * n // size, (c + 1) * n // size).
    """

    def __init__(self, rank: int, size: int, numbers: Sequence[float]) -> None:
        self.rank, self.size = rank, size
        self._round = 0
        self._numbers = list(numbers)

    def send(self) -> list[float]:
        """The message of this round, for the next rank."""
        start, stop = chunk(self.rank - self._round, self.size, len(self._numbers))
        return self._numbers[start:stop]

    def receive(self, message: Sequence[float]) -> None:
        """The message of this round, from the rank before; it ends the round."""
        start, stop = chunk(self.rank - 1 - self._round, self.size, len(self._numbers))
        if self._round < self.size - 1:  # the sum so far, and this rank's term behind it
            message = [theirs + own for theirs, own in zip(message, self._numbers[start:stop], strict=True)]
        self._numbers[start:stop] = message
        self._round += 1

    def result(self) -> list[float]:
        """All numbers as they are now."""
        return list(self._numbers)


def chunk(number: int, size: int, num_numbers: int) -> tuple[int, int]:
    """From where to where a chunk goes; its number counts round the ring."""
    number %= size
    return number * num_numbers // size, (number + 1) * num_numbers // size


def bytes_sent(rank: int, size: int, num_numbers: int, itemsize: int) -> int:
    """How many bytes a rank sends in all rounds: all chunks but one, twice."""
    never = [(rank + 1) % size, (rank + 2) % size]  # in the first half of the rounds, and in the second
    lengths = [stop - start for start, stop in (chunk(number, size, num_numbers) for number in never)]
    return (2 * num_numbers - sum(lengths)) * itemsize
