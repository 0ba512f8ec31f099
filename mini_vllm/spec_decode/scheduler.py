"""A scheduler whose running requests have drafts: guesses of their next tokens, which one step
verifies together.

A request with drafts asks for more tokens, and that is all that the step sees of them. The model
says how many were right. The counter goes back by the wrong ones, whose slots are written again;
what ends a request among accepted drafts ends it there. Only tokens that the model has confirmed
are published in the prefix cache. Source: Scheduler.schedule, update_from_output and
update_draft_token_ids in vllm/v1/core/sched/scheduler.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import InvalidParameterError, is_int, shown
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerInterface, SchedulerOutput
from mini_vllm.spec_decode import MATCHES
from mini_vllm.spec_decode.kv_cache import KVCacheManager as LookaheadManager
from mini_vllm.spec_decode.proposers import (
    LastNgramProposer,
    NgramProposer,
    Pace,
    Proposer,
    SuffixProposer,
)
from mini_vllm.spec_decode.verify import PADDING
from mini_vllm.structured.scheduler import until_its_end  # the stub of lab 05.4 has these imports

RUNNING = RequestStatus.RUNNING  # at hand: to look a member of an enum up takes time
WITH_LOOKAHEAD = ("draft_model", "eagle")  # their own K and V of drafts need slots
METHODS = ("ngram", "suffix", *WITH_LOOKAHEAD)


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
        return sum(self.num_drafts_by_accepted)

    @property
    def num_accepted_tokens(self) -> int:
        return sum(self.num_accepted_tokens_per_pos)

    @property
    def num_accepted_tokens_per_pos(self) -> list[int]:
        """Of the first drafts of each time, of the second ones, ..."""
        return [*accumulate(reversed(self.num_drafts_by_accepted[1:]))][::-1]


@dataclass(eq=False, repr=False, kw_only=True)
class SpeculativeScheduler(Scheduler):
    """V1 with drafts.

    It holds those that wait to be verified; the core sees them in SchedulerOutput.drafts alone.

    Raises InvalidParameterError for an unknown method, or a number of drafts for which the budget
    of a step has no room.
    """

    pads_admissions = True

    speculative: str = "ngram"
    """Where drafts come from: "ngram", "suffix", "draft_model" or "eagle"."""
    num_speculative_tokens: int = 4
    """Most drafts of a request in one step."""
    prompt_lookup_min: int = 2
    """ "ngram" looks for at least so many of the last tokens."""
    prompt_lookup_max: int = 5
    """ "ngram" and "suffix" look for at most so many of the last tokens."""
    prompt_lookup_match: str = "first"
    """ "ngram" takes the "first" place where they stand, or the "last"."""

    def __post_init__(self) -> None:
        super().__post_init__()
        k, budget = self.num_speculative_tokens, self.max_num_batched_tokens
        for name, choices in (("speculative", METHODS), ("prompt_lookup_match", MATCHES)):
            if (value := getattr(self, name)) not in choices:
                raise InvalidParameterError(f"{name} must be one of {choices}, got {shown(value)}")
        num_lookahead = k if self.speculative in WITH_LOOKAHEAD else 0
        # rows of the draft model's batch, by request
        self.num_draft_slots = int(self.speculative == "draft_model")
        longest = 1 if self.enable_chunked_prefill else min(self.max_model_len - 1, self.num_slots)
        if not is_int(k, 1) or budget < max(num_lookahead + 1, longest + self.num_draft_slots):
            raise InvalidParameterError(
                "num_speculative_tokens must be at least 1 and small beside max_num_batched_tokens "
                f"{budget} (longest chunk: {longest}), got {shown(k)}"
            )
        if isinstance(kv := self.kv_cache_manager, LookaheadManager):
            kv.num_lookahead_tokens = num_lookahead
        elif num_lookahead:
            raise InvalidParameterError(f"{self.speculative} needs lookahead, got {type(kv)}")
        self.proposer: Proposer | None = None  # None: drafts come by update_draft_token_ids() alone
        if self.speculative == "ngram":
            cls = NgramProposer if self.prompt_lookup_match == "first" else LastNgramProposer
            self.proposer = cls(self.prompt_lookup_min, self.prompt_lookup_max)
        elif self.speculative == "suffix":
            self.proposer = SuffixProposer(self.prompt_lookup_max)
        self.speculation_stats = SpeculationStats([0] * (k + 1))
        # of running requests that have some, until a step verifies them
        self._drafts: dict[str, Sequence[int]] = {}
        self._chunks: set[str] = set()  # requests whose last step did not catch up
        self._paces: dict[str, Pace] = {}  # of requests that have asked for drafts

    # --- one step ---------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        """Decide the next step, and which drafts it verifies.

        Drafts that the budget has cut off are gone.
        """
        # Its first requests were running before; it is whole if all were, and each catches up with
        # its drafts.
        self._output, self._num_running, self._is_whole = SchedulerOutput(), 0, True
        output = super().schedule()
        self._chunks.difference_update(output.num_scheduled_tokens)
        if self._is_whole and len(output.scheduled_requests) == len(self.running):
            output.drafts, self._drafts = self._drafts, {}
            return output
        for request in output.scheduled_requests:
            request_id = request.request_id
            num_behind = len(request.all_token_ids) - request.num_computed_tokens
            num_drafts = output.num_scheduled_tokens[request_id] - num_behind
            drafts = self._drafts.pop(request_id, None) or [PADDING] * num_drafts
            if num_drafts > 0:
                output.drafts[request_id] = drafts[:num_drafts]
            elif num_drafts < 0:
                self._chunks.add(request_id)
        return output

    def _schedule_running(
        self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int
    ) -> int:
        self._output = output
        token_budget = super()._schedule_running(requests, output, token_budget)
        self._num_running = len(output.scheduled_requests)
        return token_budget

    def _next_waiting(self) -> Request | None:
        return super()._next_waiting() if self._num_left() > 0 else None

    def _num_left(self) -> int:
        """How many tokens one request more may have, beside the draft model's rows."""
        num_left = self.max_num_batched_tokens - self._output.total_num_scheduled_tokens
        return num_left - self.num_draft_slots * (1 + len(self._output.scheduled_requests))

    def _target(self, request: Request) -> int:
        """Known tokens and drafts.

        The token behind the last draft must have a place below max_model_len, too.
        """
        num_tokens = len(request.all_token_ids)
        if drafts := self._drafts.get(request.request_id):
            num_tokens = max(min(num_tokens + len(drafts), request.max_model_len - 1), num_tokens)  # type: ignore[operator]
        return num_tokens

    def _chunk_size(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """Each request of the step also takes the draft model's rows out of the budget.

        A waiting request that does not fit then is behind by more than any budget, which ends
        admission.
        """
        token_budget -= self.num_draft_slots * (1 + len(self._output.scheduled_requests))
        is_running = request.status is RUNNING
        if is_running and not self.long_prefill_token_threshold:
            end = len(request.all_token_ids) + len(self._drafts.get(request.request_id, ()))
            n, limit = end - num_computed_tokens, request.max_model_len
            if 0 < n <= token_budget and end < limit:  # type: ignore[operator]
                return n
        self._is_whole = False
        if is_running:
            return max(super()._chunk_size(request, num_computed_tokens, token_budget), 0)
        n = 1 + self.num_speculative_tokens
        if not self._pads(request, num_computed_tokens):
            n = super()._chunk_size(request, num_computed_tokens, token_budget)
        return n if 0 < n <= self._num_left() else self.num_slots + 1

    def _pads(self, request: Request, num_computed_tokens: int) -> bool:
        """Whether a request with one token to compute is admitted as if it had drafts, like the
        running ones.

        So all requests of a step of decodes have equally many tokens. Not beside a running request
        that was in a chunk at its last step, and only where so many tokens fit; vLLM 0.33.0 stops
        or hangs where they never fit.
        """
        size = 1 + self.num_speculative_tokens
        threshold = self.long_prefill_token_threshold if len(self._requests) > 1 else 0
        return (
            self.pads_admissions
            and request.num_tokens - num_computed_tokens == 1
            and num_computed_tokens + size + 1 <= request.at_most(self.max_model_len)
            and size <= self.max_num_batched_tokens - self.num_draft_slots
            and not 0 < threshold < size
            and self._num_running + num_computed_tokens > 0
            and self._chunks.isdisjoint([*self._output.num_scheduled_tokens][: self._num_running])
        )

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        """The first chunk, with padding and lookahead, leaves the watermark free, too."""
        kv = self.kv_cache_manager
        if isinstance(kv, LookaheadManager):
            num_tokens = kv.num_slots(request, num_tokens)
        num_needed = kv.num_blocks_needed(request, num_tokens, computed_blocks)
        num_spare = self.num_watermark_blocks if self.running else 0
        return num_needed + num_spare <= kv.num_free_blocks and super()._may_admit(
            request, num_tokens, computed_blocks
        )

    def _preempt(self, request: Request) -> None:
        self._drafts.pop(request.request_id, None)
        super()._preempt(request)

    # --- after the step ---------------------------------------------------------------------------

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Take in accepted drafts and the token behind them; the rest of what was computed is taken
        back.
        """
        rest = output
        if output.drafts:
            sampled_token_ids = dict(sampled_token_ids)
            rest = SchedulerOutput(
                output.num_scheduled_tokens, self._take_in_accepted(output, sampled_token_ids)
            )
        finished = super().update_from_output(rest, sampled_token_ids)
        for request in finished:
            self._forget(request)
        if not (proposer := self.proposer):
            return finished
        for request in output.scheduled_requests:
            if request.status is RUNNING and (request_id := request.request_id) not in self._chunks:
                pace = self._paces.get(request_id)
                if not pace:
                    pace = self._paces[request_id] = Pace(self.num_speculative_tokens)
                if drafts := proposer.propose(request, pace.next_length()):
                    self._drafts[request_id] = drafts
        return finished

    def _take_in_accepted(
        self, output: SchedulerOutput, sampled: dict[str, Sequence[int]]
    ) -> list[Request]:
        """Make accepted drafts tokens of their requests, and the token behind them, too, if none
        ends its request.

        Returns the requests that V1's update has yet to take in, with the last token in `sampled`
        if that ends them.
        """
        rest, all_drafts, stats = [], output.drafts, self.speculation_stats
        for request in output.scheduled_requests:
            request_id = request.request_id
            if request_id not in all_drafts or request.status is not RUNNING:
                rest.append(request)
                continue
            all_token_ids, token_ids = request.all_token_ids, sampled.get(request_id, ())
            if num_tokens := len(token_ids):
                num_drafts = len(all_drafts[request_id])
                stats.num_draft_tokens += num_drafts
                stats.num_drafts_by_accepted[num_tokens - 1] += 1
                # padding tells nothing, and comes before the first drafts
                if request_id in self._paces:
                    self._paces[request_id].learn(num_drafts, num_tokens - 1)
            if is_last := (
                not num_tokens
                or len(request.output_token_ids) + num_tokens >= request.end_len
                or len(all_token_ids) + num_tokens >= request.max_model_len  # type: ignore[operator]
                or not request.stop_token_ids.isdisjoint(token_ids)
            ):
                token_ids = until_its_end(request, token_ids)
                sampled[request_id], token_ids = token_ids[-1:], token_ids[:-1]
                output.num_scheduled_tokens[request_id] = 0
                rest.append(request)
            all_token_ids += token_ids
            request.output_token_ids += token_ids
            request.num_computed_tokens = len(all_token_ids) - (not is_last)
            self.kv_cache_manager.cache_blocks(request)
        return rest

    def update_draft_token_ids(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """New drafts, by request: at most num_speculative_tokens each.

        A request in a chunk has none.
        """
        for name, token_ids in drafts.items():
            request = self._requests.get(name)
            if token_ids and request and request.status is RUNNING and name not in self._chunks:
                self._drafts[name] = token_ids

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        request = super().finish_request(request_id, reason)
        if request:
            self._forget(request)
        return request

    def _forget(self, request: Request) -> None:
        self._drafts.pop(request.request_id, None)
        self._paces.pop(request.request_id, None)
        self._chunks.discard(request.request_id)
        if self.proposer is not None:
            self.proposer.forget(request)


def with_drafts(base: type[SchedulerInterface]) -> type[SpeculativeScheduler]:
    """The scheduler `base` with drafts; V1 alone pads.

    Raises InvalidParameterError for one that shares too little.
    """
    if issubclass(base, SpeculativeScheduler):
        return base
    if base is Scheduler:
        return SpeculativeScheduler
    if not issubclass(base, Scheduler) or base.kv_cache_manager_cls is not KVCacheManager:
        raise InvalidParameterError(
            f"speculative needs a scheduler that decides as Scheduler does, got {base.__name__}"
        )
    mixed = type(
        f"Speculative{base.__name__}",
        (SpeculativeScheduler, base),
        {"pads_admissions": False},
    )
    return dataclass(eq=False, repr=False, kw_only=True)(mixed)
