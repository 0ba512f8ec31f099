# === takes_back_what_was_wrong
"""The rejected drafts are subtracted from what was scheduled, so that the update of phase 3 adds the rest."""

EDITS = [
    (
        """
        rest, all_drafts, stats = [], output.drafts, self.speculation_stats
""",
        """
        all_drafts, stats = output.drafts, self.speculation_stats
""",
    ),
    (
        """
                rest.append(request)
                continue
""",
        """
                continue
""",
    ),
    (
        """
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
""",
        """
            taken = list(until_its_end(request, token_ids))
            known = [*all_token_ids, *taken[:-1]]
            request.all_token_ids[:], request.output_token_ids[:] = known, known[request.num_prompt_tokens :]
            sampled[request_id] = taken[-1:]
            request.num_computed_tokens, before = len(known), request.num_computed_tokens
            self.kv_cache_manager.cache_blocks(request)
            request.num_computed_tokens = before
            output.num_scheduled_tokens[request_id] = len(known) - before
        return output.scheduled_requests
""",
    ),
]


# === the_update_does_the_rest
"""All requests go on to the update of phase 3, each with its last token; the counter is set back by what that adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerOutput
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler as ReferenceSpeculativeScheduler
from mini_vllm.structured.scheduler import until_its_end


class KVCacheManager(ReferenceKVCacheManager):
    def num_slots(self, request: Request, num_tokens: int) -> int:
        limits = [self.num_usable_blocks * self.block_size]
        if request.max_model_len is not None:
            limits.append(request.max_model_len)
        num_more = min(self.num_lookahead_tokens, min(limits) - num_tokens)
        return num_tokens + num_more if num_more > 0 else num_tokens


class SpeculativeScheduler(ReferenceSpeculativeScheduler):
    def update_draft_token_ids(self, drafts: Mapping[str, Sequence[int]]) -> None:
        for request in self.running:
            token_ids = list(drafts.get(request.request_id, ()))
            if token_ids and request.request_id not in self._chunks:
                self._drafts[request.request_id] = token_ids

    def _preempt(self, request: Request) -> None:
        super()._preempt(request)
        self._drafts = {name: each for name, each in self._drafts.items() if name != request.request_id}

    def _take_in_accepted(self, output: SchedulerOutput, sampled: dict[str, Sequence[int]]) -> list[Request]:
        for request in output.scheduled_requests:
            name = request.request_id
            if name not in output.drafts or request.is_finished:
                continue
            token_ids, num_drafts = sampled.get(name, ()), len(output.drafts[name])
            if token_ids:
                self.speculation_stats.num_drafts_by_accepted[len(token_ids) - 1] += 1
                self.speculation_stats.num_draft_tokens += num_drafts
                if name in self._paces:
                    self._paces[name].learn(num_drafts, len(token_ids) - 1)
            token_ids = until_its_end(request, token_ids)
            for token_id in token_ids[:-1]:
                request.append_output_token(token_id)
            request.num_computed_tokens = request.num_tokens
            self.kv_cache_manager.cache_blocks(request)
            request.num_computed_tokens -= output.num_scheduled_tokens[name]
            sampled[name] = token_ids[-1:]
        return output.scheduled_requests


@dataclass
class SpeculationStats:
    num_drafts_by_accepted: list[int]
    num_draft_tokens: int = 0

    @property
    def num_drafts(self) -> int:
        return sum(self.num_drafts_by_accepted)

    @property
    def num_accepted_tokens(self) -> int:
        return sum(i * times for i, times in enumerate(self.num_drafts_by_accepted))

    @property
    def num_accepted_tokens_per_pos(self) -> list[int]:
        return [sum(self.num_drafts_by_accepted[i:]) for i in range(1, len(self.num_drafts_by_accepted))]


# === tuples_and_a_plain_class
"""Drafts wait as tuples, the statistics are a plain class, and the limits come from a generator."""

from collections.abc import Mapping, Sequence

from mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.spec_decode.scheduler import RUNNING
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler as ReferenceSpeculativeScheduler
from mini_vllm.structured.scheduler import until_its_end


class KVCacheManager(ReferenceKVCacheManager):
    def _limits(self, request):
        yield self.num_usable_blocks * self.block_size
        if request.max_model_len is not None:
            yield request.max_model_len

    def num_slots(self, request, num_tokens):
        return max(num_tokens, min([num_tokens + self.num_lookahead_tokens, *self._limits(request)]))


class SpeculativeScheduler(ReferenceSpeculativeScheduler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._verified = []

    def update_draft_token_ids(self, drafts):
        for name in drafts:
            if name in self._requests and self._requests[name].status is RUNNING and name not in self._chunks:
                if list(drafts[name]):
                    self._drafts[name] = tuple(drafts[name])

    def _preempt(self, request):
        super()._preempt(request)
        self._drafts.pop(request.request_id, None)

    def _take_in_accepted(self, output, sampled):
        self._verified = [r for r in output.scheduled_requests if r.request_id in output.drafts and not r.is_finished]
        for request in self._verified:
            name, stats = request.request_id, self.speculation_stats
            tokens, n = list(sampled.get(name, ())), len(output.drafts[name])
            if tokens:
                stats.num_drafts_by_accepted[len(tokens) - 1] += 1
                stats.num_draft_tokens += n
                if name in self._paces:
                    self._paces[name].learn(n, len(tokens) - 1)
            tokens = list(until_its_end(request, tokens))
            for token in tokens[:-1]:
                request.append_output_token(token)
            request.num_computed_tokens = request.num_tokens
            self.kv_cache_manager.cache_blocks(request)
            request.num_computed_tokens -= output.num_scheduled_tokens[name]
            sampled[name] = tokens[-1:]
        return list(output.scheduled_requests)


class SpeculationStats:
    def __init__(self, num_drafts_by_accepted, num_draft_tokens=0):
        self.num_drafts_by_accepted = num_drafts_by_accepted
        self.num_draft_tokens = num_draft_tokens

    num_drafts = property(lambda self: sum(self.num_drafts_by_accepted))

    @property
    def num_accepted_tokens(self):
        return sum(i * n for i, n in enumerate(self.num_drafts_by_accepted))

    @property
    def num_accepted_tokens_per_pos(self):
        return [sum(self.num_drafts_by_accepted[i:]) for i in range(1, len(self.num_drafts_by_accepted))]
