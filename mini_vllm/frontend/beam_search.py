"""Beam search: the most likely texts, not the text of the most likely tokens.

Of all continuations of all beams the best beam_width go on; those that end at EOS are hypotheses, ranked by
cumulative_logprob / length ** length_penalty. Beams are the sequences of one group (policies/sequence_group.py): one
that is given up takes over the tokens and the blocks of one that goes on twice, and copy-on-write keeps them apart.
BeamSearch is pure bookkeeping; the engine calls advance() between the model and update_from_output.
The rules are those of transformers' _beam_search (generation/utils.py, version 5), names of vllm/beam_search.py and
BeamSearchParams of vllm/sampling_params.py. vLLM's own beam search ranks otherwise: its length counts the prompt.
"""

import math
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from mini_vllm.errors import InvalidParameterError, Params, RequestFailedError, is_int, is_number
from mini_vllm.params import SamplingParams
from mini_vllm.step import SampledToken


@runtime_checkable
class ForkingScheduler(Protocol):
    """A scheduler that can run a beam search."""

    def fork_request(self, parent_id: str, child_id: str) -> None:
        """Let a request go on as another one of its group does."""


@dataclass(frozen=True, slots=True)
class BeamSearchParams(Params):
    """Frozen, validated. Raises InvalidParameterError naming the value and its limit."""

    beam_width: int
    max_tokens: int
    length_penalty: float = 1.0
    """Above 0 favours long texts, below 0 short ones."""
    ignore_eos: bool = False
    early_stopping: bool | str = False
    """When beam_width hypotheses are there: True stops at once, False when no beam could beat the worst of them at its
    present length, "never" at the greatest length, if that favours it."""

    def __post_init__(self) -> None:
        self.normalise()
        widest = SamplingParams.MAX_LOGPROBS
        self.require("beam_width", is_int(self.beam_width, 1, widest), f"an integer in [1, {widest}]")
        self.require("max_tokens", is_int(self.max_tokens, 1), "an integer of at least 1")
        self.require("length_penalty", is_number(self.length_penalty, -10, 10), "a number in [-10, 10]")
        self.require("ignore_eos", isinstance(self.ignore_eos, bool), "True or False")
        known = isinstance(self.early_stopping, bool | str) and self.early_stopping in (True, False, "never")
        self.require("early_stopping", known, "True, False or 'never'")


@dataclass(frozen=True, slots=True)
class BeamSearchSequence:
    """One beam. token_ids are those after the prompt, EOS included; score is what ranks it, -inf while it goes on."""

    token_ids: tuple[int, ...]
    cumulative_logprob: float
    score: float = -math.inf
    text: str = ""


@dataclass(frozen=True, slots=True)
class BeamSearchOutput:
    """The beams of one prompt, best first."""

    prompt_token_ids: list[int]
    sequences: list[BeamSearchSequence]
    error: RequestFailedError | None = None  # why there are no more


class Continuation(NamedTuple):
    """Beam number `parent`, one token longer."""

    parent: int
    token_id: int
    cumulative_logprob: float


def find_continuations(
    beams: Sequence[BeamSearchSequence], logprobs: Sequence[Mapping[int, float]]
) -> list[Continuation]:
    """The continuations of all beams together, best first. logprobs: by token id, one mapping for each beam."""
    found = [
        Continuation(parent, token_id, beam.cumulative_logprob + logprob)
        for parent, beam in enumerate(beams)
        for token_id, logprob in logprobs[parent].items()
    ]
    return sorted(found, key=lambda c: (-c.cumulative_logprob, c.parent, c.token_id))


class BeamSearch:
    """The beams of one prompt.

    request_ids: the sequences that compute them; num_tokens: the length at which all end; fork(parent id, child id)
    lets one of these requests go on from another's past (SequenceGroupScheduler.fork_request). Of each beam it looks at
    the beam_width + number of EOS ids most likely tokens: more of one beam never count.

    Raises InvalidParameterError if that is more than a request may ask log-probabilities of.
    """

    def __init__(
        self,
        request_ids: Sequence[str],
        params: BeamSearchParams,
        num_tokens: int,
        eos_token_ids: Collection[int],
        fork: Callable[[str, str], None],
    ) -> None:
        self.params = params
        self.num_tokens = num_tokens
        self.eos_token_ids = frozenset() if params.ignore_eos else frozenset(eos_token_ids)
        self.num_logprobs = params.beam_width + len(self.eos_token_ids)
        if self.num_logprobs > SamplingParams.MAX_LOGPROBS:
            raise InvalidParameterError(
                f"BeamSearchParams: beam_width must be at most {SamplingParams.MAX_LOGPROBS - len(self.eos_token_ids)} "
                f"beside {len(self.eos_token_ids)} EOS ids, got {params.beam_width}"
            )
        self.fork = fork
        self.request_ids = list(request_ids)  # of the beams, in order
        self.beams = [BeamSearchSequence((), 0.0)]  # that go on, best first; at first they are all the same one
        self.finished: list[BeamSearchSequence] = []  # hypotheses, best first, at most beam_width
        self.is_done = False
        self.error: RequestFailedError | None = None  # why it is done, if a request of it has failed

    @property
    def sampling_params(self) -> SamplingParams:
        """Those of the request that computes the beams: the sampled tokens are never used, the logprobs are."""
        width = self.params.beam_width
        return SamplingParams(
            n=width, temperature=0, max_tokens=self.num_tokens, logprobs=self.num_logprobs, ignore_eos=True
        )

    def advance(self, sampled: MutableMapping[str, list[SampledToken]]) -> None:
        """Replace what was sampled in a step for the requests of this search by the tokens that its beams go on with.

        A step without this search changes nothing; a step has all of its requests, or none.
        """
        if self.is_done or self.request_ids[0] not in sampled:
            return
        tokens = [sampled[request_id][0] for request_id in self.request_ids]
        logprobs = [{i: each.logprob for i, each in (token.logprobs or {}).items()} for token in tokens]
        going_on = self.choose(logprobs[: len(self.beams)])
        parents = {continuation.parent for continuation in going_on}
        given_up = [i for i in range(len(self.request_ids)) if i not in parents]
        order: list[int] = []
        for parent, token_id, _ in going_on:
            index = parent
            if index in order:
                index = given_up.pop(0)
                self.fork(self.request_ids[parent], self.request_ids[index])
            order.append(index)
            sampled[self.request_ids[index]] = [SampledToken(token_id, None)]
        self.request_ids = [self.request_ids[index] for index in (*order, *given_up)]

    def choose(self, logprobs: Sequence[Mapping[int, float]]) -> list[Continuation]:
        """Take one step; returns how the beams go on, [] when the search is done.

        Only the best beam_width continuations may become hypotheses; those behind them fill up the beams.
        """
        width, penalty = self.params.beam_width, self.params.length_penalty
        candidates = find_continuations(self.beams, logprobs)
        length = len(self.beams[0].token_ids) + 1
        at_end = length == self.num_tokens
        ended = [
            self._longer_beam(c, c.cumulative_logprob / length**penalty)
            for c in candidates[:width]
            if at_end or c.token_id in self.eos_token_ids
        ]
        self.finished = sorted(self.finished + ended, key=lambda beam: -beam.score)[:width]
        going_on = [c for c in candidates if c.token_id not in self.eos_token_ids][:width]
        self.is_done = at_end or not going_on or not self._may_improve(going_on[0].cumulative_logprob, length)
        if self.is_done:
            return []
        self.beams = [self._longer_beam(c) for c in going_on]
        return going_on

    def _longer_beam(self, c: Continuation, score: float = -math.inf) -> BeamSearchSequence:
        return BeamSearchSequence((*self.beams[c.parent].token_ids, c.token_id), c.cumulative_logprob, score)

    def _may_improve(self, best_logprob: float, length: int) -> bool:
        """Whether the best beam could still become a hypothesis worth having."""
        params = self.params
        if len(self.finished) < params.beam_width:
            return True
        if params.early_stopping is True:
            return False
        if params.early_stopping == "never" and params.length_penalty > 0:
            length = self.num_tokens
        return bool(best_logprob / length**params.length_penalty > self.finished[-1].score)
