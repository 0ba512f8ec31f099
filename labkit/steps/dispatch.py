"""Which of the recorded graphs a step replays, if any: its mode and its key, by the makeup of the step.

The reference of lab 07.3. Source: CudagraphDispatcher in vllm/v1/cudagraph_dispatcher.py, whose keys and choices these
are, without LoRA.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

MODES = ("none", "piecewise", "full", "full_decode_only", "full_and_piecewise")


class Key(NamedTuple):
    """What a graph was recorded for. num_reqs: None in a piecewise graph, which does not record attention."""

    num_tokens: int
    num_reqs: int | None
    uniform: bool


def is_uniform_decode(num_scheduled_tokens: Sequence[int], query_len: int) -> bool:
    """Whether each request has exactly query_len tokens in the step: its newest one and all of its drafts."""
    return bool(num_scheduled_tokens) and all(n == query_len for n in num_scheduled_tokens)


class Dispatcher:
    """mode: one of MODES. sizes: the numbers of tokens that graphs are recorded for, ascending multiples of query_len.

    query_len: tokens of a request in a uniform decode, 1 without drafts.
    """

    def __init__(self, mode: str, sizes: Sequence[int], max_num_seqs: int, query_len: int = 1) -> None:
        self.mode = mode
        self.sizes = list(sizes)
        self.max_num_seqs = max_num_seqs
        self.query_len = query_len
        self.keys: dict[str, set[Key]] = {"full": set(), "piecewise": set()}
        if mode in ("full", "full_decode_only", "full_and_piecewise"):
            separate = mode != "full"
            most = query_len * max_num_seqs
            self.keys["full"] = {self._key(n, separate) for n in self.sizes if not separate or n <= most}
        if mode in ("piecewise", "full_and_piecewise"):
            self.keys["piecewise"] = {Key(n, None, False) for n in self.sizes}

    def dispatch(self, num_scheduled_tokens: Sequence[int]) -> tuple[str, Key | None]:
        """ "full" or "piecewise" and the key of a graph that is recorded, or "none" and None."""
        num_tokens = sum(num_scheduled_tokens)
        place = bisect_left(self.sizes, num_tokens)
        if not num_tokens or place == len(self.sizes):
            return "none", None
        is_uniform = is_uniform_decode(num_scheduled_tokens, self.query_len)
        separate = self.mode in ("full_decode_only", "full_and_piecewise")
        full = self._key(self.sizes[place], is_uniform and separate)
        if full in self.keys["full"]:
            return "full", full
        relaxed = Key(full.num_tokens, None, False)
        return ("piecewise", relaxed) if relaxed in self.keys["piecewise"] else ("none", None)

    def _key(self, num_tokens: int, uniform: bool) -> Key:
        num_reqs = num_tokens // self.query_len if uniform else num_tokens
        return Key(num_tokens, min(num_reqs, self.max_num_seqs), uniform)
