"""The whole history is kept and weighed anew at each call; the wait is a number of the step at which a try is due."""

from math import ceil

from mini_vllm.spec_decode.proposers import DECAY, FIRST_TRIES, LEAST_SHARE


class Pace:
    def __init__(self, most: int) -> None:
        self.most = most
        self.history: list[tuple[float, float]] = [(FIRST_TRIES, 0.0)]  # right and wrong ones
        self.step = self.due = 0
        self.wait = 1

    def next_length(self) -> int:
        self.step += 1
        if self.step <= self.due:
            return 0
        return max(self._length(), 1)

    def _length(self) -> int:
        right, wrong = (
            sum(each[kind] * DECAY**age for age, each in enumerate(reversed(self.history))) for kind in (0, 1)
        )
        share = right / (right + wrong)
        return ceil(self.most * share) if share >= LEAST_SHARE else 0

    def learn(self, num_drafts: int, num_accepted: int) -> None:
        self.history.append((num_accepted, float(num_accepted != num_drafts)))
        if self._length():
            self.due, self.wait = self.step, 1
        else:
            self.wait = min(2 * self.wait, 64)
            self.due = self.step + self.wait
