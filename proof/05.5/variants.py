# === a_generator_of_waits
"""The coming lengths are an iterator, which learning replaces; a share of wrong drafts is kept instead of right ones."""

import math
from collections.abc import Iterator
from itertools import chain, repeat

from mini_vllm.spec_decode.proposers import DECAY, LEAST_SHARE


class Pace:
    def __init__(self, most: int) -> None:
        self.most = most
        self.right = self.wrong = 0.0
        self.coming: Iterator[int] = repeat(1)
        self.waits = self.new_waits()

    @staticmethod
    def new_waits() -> Iterator[int]:
        return chain((4, 8, 16, 32), repeat(64))

    def next_length(self) -> int:
        return next(self.coming)

    def learn(self, num_drafts: int, num_accepted: int) -> None:
        self.right = self.right * DECAY + num_accepted
        self.wrong = self.wrong * DECAY + (1 if num_drafts > num_accepted else 0)
        share = self.right / (self.right + self.wrong)
        if share < LEAST_SHARE:
            self.coming = chain(repeat(0, next(self.waits)), repeat(1))
        else:
            self.coming, self.waits = repeat(math.ceil(share * self.most)), self.new_waits()


# === counts_the_steps
"""The whole history is kept and weighed anew at each call; the wait is a number of the step at which a try is due."""

from math import ceil

from mini_vllm.spec_decode.proposers import DECAY, LEAST_SHARE


class Pace:
    def __init__(self, most: int) -> None:
        self.most = most
        self.history: list[tuple[float, float]] = []  # right and wrong ones
        self.step = self.due = 0
        self.wait = 2

    def next_length(self) -> int:
        self.step += 1
        if self.step <= self.due:
            return 0
        return max(self._length(), 1)

    def _length(self) -> int:
        if not self.history:
            return 1
        right, wrong = (
            sum(each[kind] * DECAY**age for age, each in enumerate(reversed(self.history))) for kind in (0, 1)
        )
        share = right / (right + wrong)
        return ceil(self.most * share) if share >= LEAST_SHARE else 0

    def learn(self, num_drafts: int, num_accepted: int) -> None:
        self.history.append((num_accepted, float(num_accepted != num_drafts)))
        if self._length():
            self.due, self.wait = self.step, 2
        else:
            self.wait = min(2 * self.wait, 64)
            self.due = self.step + self.wait
