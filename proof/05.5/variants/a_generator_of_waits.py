"""The coming lengths are an iterator, which learning replaces; a share of wrong drafts is kept instead of right ones."""

import math
from collections.abc import Iterator
from itertools import chain, repeat

from mini_vllm.spec_decode.proposers import DECAY, FIRST_TRIES, LEAST_SHARE


class Pace:
    def __init__(self, most: int) -> None:
        self.most = most
        self.right, self.wrong = FIRST_TRIES, 0.0
        self.coming: Iterator[int] = repeat(most)
        self.waits = self.new_waits()

    @staticmethod
    def new_waits() -> Iterator[int]:
        return chain((2, 4, 8, 16, 32), repeat(64))

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
