"""What a device knows before its host does: the tokens of steps that the host has not taken in.

A step that is decided one step ahead has a placeholder for each token that it does not know. The
device puts the tokens in. Source: the input batch of GPUModelRunner in
vllm/v1/worker/gpu_model_runner.py with async_scheduling (_prepare_input_ids).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from mini_vllm.request import Request
from mini_vllm.spec_decode.proposers import Pace, Proposer
from mini_vllm.spec_decode.verify import PADDING
from mini_vllm.step import StepInput, StepOutput

# stands for a token that a step in flight samples, until the device puts it in
PLACEHOLDER = -2


class Feed:
    """The last token of each request."""

    def __init__(self) -> None:
        self._last_token_ids: dict[str, int] = {}

    def fill(self, step: StepInput) -> StepInput:
        """The step with each placeholder, which is its chunk's last token, replaced by what was
        sampled for the request last.
        """
        if step.forget_all:
            self._last_token_ids.clear()
        for request_id in step.finished_req_ids:
            self._last_token_ids.pop(request_id, None)
        if PLACEHOLDER not in step.token_ids:
            return step
        token_ids, end = list(step.token_ids), 0
        for request_id, n in zip(step.req_ids, step.num_scheduled_tokens, strict=True):
            end += n
            if token_ids[end - 1] == PLACEHOLDER:
                token_ids[end - 1] = self._last_token_ids[request_id]
        return replace(step, token_ids=tuple(token_ids))

    def take_in(self, step: StepInput, result: StepOutput) -> StepOutput:
        """A step, as fill() gave it, has run."""
        self._last_token_ids |= {
            name: tokens[-1].token_id for name, tokens in result.tokens.items()
        }
        # what is computed behind it is dropped
        self._last_token_ids |= dict.fromkeys(result.errors, 0)
        return result


@dataclass(frozen=True, slots=True)
class DraftedOutput(StepOutput):
    """drafts: by request, those behind the tokens of the step."""

    drafts: Mapping[str, Sequence[int]] = field(default_factory=dict)


class DraftingFeed(Feed):
    """All tokens of each request, and drafts behind them, which the next step with the request
    verifies.

    So a request gets the drafts that it would get if its host had proposed them when the step was
    over. A step of decodes has num_speculative_tokens drafts for each request, and padding where
    fewer are proposed. Source: NgramGPUSpeculator
    (vllm/v1/worker/gpu/spec_decode/ngram/speculator.py).
    """

    def __init__(self, proposer: Proposer, num_speculative_tokens: int) -> None:
        self._proposer, self._most = proposer, num_speculative_tokens
        self._requests: dict[str, Request] = {}  # as far as the device knows them
        self._paces: dict[str, Pace] = {}
        self._drafts: dict[str, Sequence[int]] = {}

    def fill(self, step: StepInput) -> StepInput:
        """The step with tokens and drafts in their places.

        Drafts in flight that were wrong have moved the request's place back.
        """
        for request_id in [*self._requests] if step.forget_all else step.finished_req_ids:
            if (request := self._requests.pop(request_id, None)) is not None:
                self._proposer.forget(request)
                self._paces.pop(request_id, None)
                self._drafts.pop(request_id, None)
        for request_id, row in step.new_rows.items():
            self._requests.setdefault(request_id, Request(request_id, row.token_ids, row.params))
        token_ids, starts, end = list(step.token_ids), list(step.num_computed_tokens), 0
        for i, n in enumerate(step.num_scheduled_tokens):
            start, end = end, end + n
            if token_ids[start] == PLACEHOLDER:
                known = self._requests[step.req_ids[i]].all_token_ids
                drafts = self._drafts.get(step.req_ids[i], ())[: n - 1]
                token_ids[start : start + 1 + len(drafts)] = [known[-1], *drafts]
                starts[i] = len(known) - 1
        return replace(step, token_ids=tuple(token_ids), num_computed_tokens=tuple(starts))

    def take_in(self, step: StepInput, result: StepOutput) -> StepOutput:
        """The same, and what was drafted."""
        num_samples, end = Counter(step.sample_req_ids), 0
        drafts: dict[str, Sequence[int]] = {}
        for request_id, n in zip(step.req_ids, step.num_scheduled_tokens, strict=True):
            end += n
            if not (tokens := result.tokens.get(request_id)):
                continue
            verified = step.token_ids[end - num_samples[request_id] + 1 : end]
            request = self._requests[request_id]
            request.all_token_ids.extend(token.token_id for token in tokens)
            pace = self._paces.setdefault(request_id, Pace(self._most))
            if num_drafts := len(verified) - verified.count(PADDING):
                pace.learn(num_drafts, len(tokens) - 1)
            drafts[request_id] = self._proposer.propose(request, pace.next_length())
        self._drafts |= drafts
        rest = {each.name: getattr(result, each.name) for each in fields(result)}
        return DraftedOutput(**rest, drafts=drafts)
