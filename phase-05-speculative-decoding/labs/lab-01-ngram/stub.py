"""Lab 05.1: The n-gram proposer (30 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.request import Request


class NgramProposer:
    """Prompt lookup: the tokens behind the first place where the last n tokens stand, for the
    largest n that has one.

    min_n <= n <= max_n. Source: NgramProposer (vllm/v1/spec_decode/ngram_proposer.py); Saxena 2023,
    "Prompt Lookup Decoding".
    """

    def __init__(self, min_n: int, max_n: int) -> None:
        todo("05.1")

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        todo("05.1")

    def forget(self, request: Request) -> None:
        todo("05.1")
