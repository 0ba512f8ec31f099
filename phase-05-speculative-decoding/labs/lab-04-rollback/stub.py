"""Lab 05.4: Rollback and lookahead slots (45 minutes). What must hold is in contract.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit import todo
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.spec_decode.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.spec_decode.scheduler import RUNNING, SpeculativeScheduler as ReferenceSpeculativeScheduler
from mini_vllm.structured.scheduler import until_its_end


class KVCacheManager(ReferenceKVCacheManager):
    """What is not defined here is the reference's."""

    def num_slots(self, request: Request, num_tokens: int) -> int:
        """How many slots the first num_tokens tokens take and the lookahead behind them, which is
        cut at the limits.
        """
        todo("05.4")


class SpeculativeScheduler(ReferenceSpeculativeScheduler):
    """What is not defined here is the reference's."""

    def update_draft_token_ids(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """New drafts, by request: at most num_speculative_tokens each.

        A request in a chunk has none.
        """
        todo("05.4")

    def _preempt(self, request: Request) -> None:
        todo("05.4")

    def _take_in_accepted(
        self, output: SchedulerOutput, sampled: dict[str, Sequence[int]]
    ) -> list[Request]:
        """Make accepted drafts tokens of their requests, and the token behind them, too, if none
        ends its request.

        Returns the requests that V1's update has yet to take in, with the last token in `sampled`
        if that ends them.
        """
        todo("05.4")


@dataclass(slots=True)
class SpeculationStats:
    """Counted once for each request and step that verifies drafts.

    Source: SpecDecodingStats of vLLM.
    """

    num_drafts_by_accepted: list[int]  # times that 0, 1, ... k drafts were right
    num_draft_tokens: int = 0

    @property
    def num_drafts(self) -> int:
        """Times that drafts were verified."""
        todo("05.4")

    @property
    def num_accepted_tokens(self) -> int:
        todo("05.4")

    @property
    def num_accepted_tokens_per_pos(self) -> list[int]:
        """Of the first drafts of each time, of the second ones, ..."""
        todo("05.4")
