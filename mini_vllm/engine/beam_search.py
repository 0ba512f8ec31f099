"""Beam search: the most likely texts, not the text of the most likely tokens.

Of all continuations of all beams the best beam_width go on; those that end at EOS are hypotheses,
ranked by cumulative_logprob / length ** length_penalty. BeamSearch is pure bookkeeping:
LLM.beam_search asks generate() for one token behind each beam, with log-probabilities, and hands
over what came. Such a prompt is that of an earlier beam and one token more, so the prefix cache has
all of it but the last block.

The rules are those of transformers' _beam_search (generation/utils.py, version 5). That a beam is a
request of one token is vLLM's design, and so are the names (vllm/entrypoints/generate/beam_search
and BeamSearchParams, 0.33.0). vLLM ranks by the same score, but has no early_stopping: it goes on
until max_tokens, or until no beam is left. It looks at 2 * beam_width tokens of each beam.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mini_vllm.errors import InvalidParameterError, Params, RequestFailedError, is_int, is_number
from mini_vllm.frontend.output_processor import CompletionOutput
from mini_vllm.params import SamplingParams
from mini_vllm.step import Logprob


@dataclass(frozen=True, slots=True)
class BeamSearchParams(Params):
    """Frozen, validated. Raises InvalidParameterError naming the value and its limit."""

    beam_width: int
    max_tokens: int
    length_penalty: float = 1.0
    """Above 0 favours long texts, below 0 short ones."""
    ignore_eos: bool = False
    early_stopping: bool | str = False
    """When beam_width hypotheses are there: True stops at once, False when no beam could beat the
    worst of them at its present length, "never" at the greatest length, if that favours it."""

    def __post_init__(self) -> None:
        self.normalise()
        widest = SamplingParams.MAX_LOGPROBS
        self.require(
            "beam_width", is_int(self.beam_width, 1, widest), f"an integer in [1, {widest}]"
        )
        self.require("max_tokens", is_int(self.max_tokens, 1), "an integer of at least 1")
        self.require(
            "length_penalty", is_number(self.length_penalty, -10, 10), "a number in [-10, 10]"
        )
        self.require("ignore_eos", isinstance(self.ignore_eos, bool), "True or False")
        known = isinstance(self.early_stopping, bool | str) and self.early_stopping in (
            True,
            False,
            "never",
        )
        self.require("early_stopping", known, "True, False or 'never'")


@dataclass(frozen=True, slots=True)
class BeamSearchSequence:
    """One beam. token_ids are those after the prompt, EOS included; score is what ranks it, -inf
    while it goes on.
    """

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
    beams: Sequence[BeamSearchSequence], logprobs: Sequence[Mapping[int, Logprob]]
) -> list[Continuation]:
    """The continuations of all beams together, best first.

    logprobs: by token id, one mapping for each beam.
    """
    found = [
        Continuation(parent, token_id, beam.cumulative_logprob + each.logprob)
        for parent, beam in enumerate(beams)
        for token_id, each in logprobs[parent].items()
    ]
    return sorted(found, key=lambda c: (-c.cumulative_logprob, c.parent, c.token_id))


class BeamSearch:
    """The beams of one prompt.

    They end at max_tokens, or where prompt and output reach max_model_len. Of each beam it looks at
    the beam_width + number of EOS ids most likely tokens: more of one beam never count. Raises
    InvalidParameterError if that is more than a request may ask log-probabilities of.
    """

    def __init__(
        self,
        prompt_token_ids: Sequence[int],
        params: BeamSearchParams,
        max_model_len: int,
        eos_token_ids: Collection[int],
    ) -> None:
        self.prompt_token_ids = list(prompt_token_ids)
        self.params = params
        self.num_tokens = max(min(params.max_tokens, max_model_len - len(prompt_token_ids)), 1)
        self.eos_token_ids = frozenset() if params.ignore_eos else frozenset(eos_token_ids)
        self.num_logprobs = params.beam_width + len(self.eos_token_ids)
        if self.num_logprobs > SamplingParams.MAX_LOGPROBS:
            raise InvalidParameterError(
                "BeamSearchParams: beam_width must be at most "
                f"{SamplingParams.MAX_LOGPROBS - len(self.eos_token_ids)} "
                f"beside {len(self.eos_token_ids)} EOS ids, got {params.beam_width}"
            )
        self.beams = [BeamSearchSequence((), 0.0)]  # that go on, best first
        self.finished: list[BeamSearchSequence] = []  # hypotheses, best first, at most beam_width
        self.is_done = False
        # why it is done, if a request of it has failed
        self.error: RequestFailedError | None = None

    @property
    def prompts(self) -> list[list[int]]:
        """Of each beam, the tokens behind which the next one is to be computed."""
        return [[*self.prompt_token_ids, *beam.token_ids] for beam in self.beams]

    @property
    def sampling_params(self) -> SamplingParams:
        """Those of the prompts. The sampled token is never used; its log-probabilities are."""
        return SamplingParams(
            temperature=0, seed=0, max_tokens=1, logprobs=self.num_logprobs, ignore_eos=True
        )

    def advance(self, choices: Sequence[CompletionOutput]) -> None:
        """Go on by one token, with what was computed for each of the prompts.

        If a request has failed or was aborted, the search is done, with the hypotheses that it has.
        """
        self.error = next((choice.error for choice in choices if choice.error), None)
        self.is_done = any(choice.finish_reason in ("abort", "error") for choice in choices)
        if not self.is_done:
            self._choose([choice.logprobs[0] for choice in choices if choice.logprobs])

    def _choose(self, logprobs: Sequence[Mapping[int, Logprob]]) -> None:
        """Choose the hypotheses and the beams of one token more.

        Only the best beam_width continuations may become hypotheses; those behind them fill up the
        beams.
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
        self.is_done = (
            at_end or not going_on or not self._may_improve(going_on[0].cumulative_logprob, length)
        )
        if not self.is_done:
            self.beams = [self._longer_beam(c) for c in going_on]

    def _longer_beam(self, c: Continuation, score: float = -math.inf) -> BeamSearchSequence:
        return BeamSearchSequence(
            (*self.beams[c.parent].token_ids, c.token_id), c.cumulative_logprob, score
        )

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
