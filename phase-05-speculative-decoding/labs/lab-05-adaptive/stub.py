"""Lab 05.5: Adaptive length (25 minutes). What must hold is in contract.md."""

from math import ceil

from labkit import todo
from mini_vllm.spec_decode.proposers import DECAY, LEAST_SHARE


class Pace:
    """How many drafts a request asks for: a share of the most, as large as the share of drafts that
    were right lately.

    It begins with a single draft. Below LEAST_SHARE it asks for none, and tries one again after 4
    steps, then after 8, at most 64, as long as that one is wrong. Drafts behind a wrong one were
    not tried: they count neither way.
    """

    def __init__(self, most: int) -> None:
        todo("05.5")

    def next_length(self) -> int:
        """For the coming step; called once a step."""
        todo("05.5")

    def learn(self, num_drafts: int, num_accepted: int) -> None:
        todo("05.5")
