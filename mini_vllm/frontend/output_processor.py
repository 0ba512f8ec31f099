"""From token ids to text: what a caller may see, and the stop strings that end it.

What: one detokenizer per choice, and the RequestOutputs that collect the choices of a request.
Why: a token is not a piece of text. A character may span tokens, a stop string too; what is shown must never be taken
back. Invariant: the text of a choice only ever grows, and holds neither half a character nor a part of a stop string.
Who calls: the engine, after each step. State lives from add_request until the last choice has finished.
Source: vllm/v1/engine/output_processor.py, vllm/v1/engine/detokenizer.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.step import Logprob, SampledToken

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what a decoder makes of bytes that are no character, or not one yet
MAX_PENDING = 8  # tokens that may wait for the rest of a character; UTF-8 needs at most 3 bytes of patience


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One choice of a request, all of it so far. token_ids keep the tokens whose text a stop string cut off."""

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None  # "stop", "length" or None: not finished
    logprobs: list[dict[int, Logprob]] | None  # one per token, if asked for


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What a request has produced, all its choices in order. prompt is None when it came as token ids."""

    request_id: str
    prompt_token_ids: list[int]
    num_cached_tokens: int  # of the prompt, found in the prefix cache when the first choice was admitted
    finished: bool
    outputs: list[CompletionOutput]
    prompt: str | None = None

    def delta_since(self, seen: Mapping[int, CompletionOutput]) -> "RequestOutput":
        """The same with only what is new: seen are earlier outputs by index; choices with nothing new are left out."""
        return replace(self, outputs=[_delta(c, seen.get(c.index)) for c in self.outputs if c != seen.get(c.index)])


def _delta(choice: CompletionOutput, seen: CompletionOutput | None) -> CompletionOutput:
    if seen is None:
        return choice
    return replace(
        choice,
        text=choice.text[len(seen.text) :],
        token_ids=choice.token_ids[len(seen.token_ids) :],
        logprobs=None if choice.logprobs is None else choice.logprobs[len(seen.logprobs or ()) :],
    )


# --- text of one choice -------------------------------------------------------------------------------------------


class IncrementalDetokenizer:
    """Decodes a growing sequence of tokens at a bounded cost per token. Without a tokenizer the text stays "".

    The output's tokens lie in three stretches; only the last two are ever decoded:

        [ settled ............ | context | pending )
          their text is in _decoded        not yet a whole character

    The context, the tokens that were settled last, is decoded along because the text of a token depends on the one
    before it (SentencePiece drops the very first space). Joined, the text is decode(all tokens,
    skip_special_tokens=True). A byte-fallback decoder can void whole characters by an invalid byte later in the
    same run; what was shown is then not taken back. The prompt is not part of the text's context.
    """

    def __init__(self, tokenizer: Any | None, params: SamplingParams) -> None:
        self._tokenizer = tokenizer
        self._stop = params.stop
        self._context: list[int] = []
        self._context_text = ""
        self._pending: list[int] = []
        self._decoded = ""
        self._num_held = 0  # characters at the end of _decoded that may be the beginning of a stop string

    @property
    def text(self) -> str:
        """What may be shown now."""
        return self._decoded[: len(self._decoded) - self._num_held]

    def append(self, token_ids: Sequence[int], finished_by_token: bool = False) -> str | None:
        """Decode new tokens; returns the stop string that has just ended the text, or None.

        finished_by_token: the last one ended the request (EOS, a stop token) and has no text. After a stop string the
        detokenizer is done: call neither append nor flush.
        """
        for token_id in token_ids[:-1] if finished_by_token else token_ids:
            if self._tokenizer is not None and (stop_string := self._append_text(self._decode_next(token_id))):
                return stop_string
        return None

    def flush(self) -> str | None:
        """The request is finished: show what was held back. Returns a stop string if that completes one."""
        stop_string = self._append_text(self._settle(len(self._pending))) if self._pending else None
        self._num_held = 0
        return stop_string

    # --- tokens to characters

    def _decode_next(self, token_id: int) -> str:
        """The text that token_id settles, "" while it waits."""
        self._pending.append(token_id)
        text = self._pending_text(len(self._pending))
        if text and not text.endswith(REPLACEMENT):
            return self._settle(len(self._pending))
        if not self._decode([token_id, token_id]):  # no text, not even a lone space: a special or an unknown token
            self._pending.pop()
        elif len(self._pending) > MAX_PENDING:
            return self._settle(self._clean_boundary(text))
        return ""

    def _settle(self, num_tokens: int) -> str:
        """Move the first pending tokens to the context; returns their text."""
        text = self._pending_text(num_tokens)
        self._context, self._pending = self._pending[:num_tokens], self._pending[num_tokens:]
        self._context_text = self._decode(self._context)
        return text

    def _pending_text(self, num_tokens: int) -> str:
        """Text of the first num_tokens pending tokens: what they add to their context's."""
        text = self._decode(self._context + self._pending[:num_tokens])
        if text.startswith(self._context_text):
            return text[len(self._context_text) :]
        return self._decode(self._pending[:num_tokens])  # a byte-fallback run that an invalid byte has voided

    def _clean_boundary(self, text: str) -> int:
        """How many pending tokens no later token can change: bytes that are no character and will not become one.

        Both sides of a boundary inside a character, or inside an unfinished one, decode to more than the whole.
        """
        for num_tokens in range(len(self._pending) - 1, 0, -1):
            tail = self._decode(self._pending[num_tokens:])
            if self._pending_text(num_tokens) + tail == text:
                return num_tokens
        return len(self._pending)

    def _decode(self, token_ids: list[int]) -> str:
        if not token_ids or self._tokenizer is None:
            return ""
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    # --- characters to shown text

    def _append_text(self, new_text: str) -> str | None:
        """Add decoded text. A stop string in it cuts the text before itself and is returned.

        Of several, the one that is complete first counts; of those complete at the same character, the first in the
        list (vLLM: check_stop_strings). So the text does not depend on how it was cut into tokens.
        """
        if not new_text:
            return None
        num_searched = len(self._decoded)
        self._decoded += new_text
        found = []
        for order, stop in enumerate(self._stop):
            start = self._decoded.find(stop, max(0, num_searched - len(stop) + 1))
            if start >= 0:
                found.append((start + len(stop), order, start, stop))
        if found:
            _, _, start, stop_string = min(found)
            self._decoded, self._num_held = self._decoded[:start], 0
            return stop_string
        self._num_held = max((_overlap(self._decoded, stop) for stop in self._stop), default=0)
        return None


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of text that is a beginning of stop, but not all of it."""
    longest = min(len(stop) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)


# --- requests -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Choice:
    index: int
    detokenizer: IncrementalDetokenizer
    logprobs: list[dict[int, Logprob]] | None
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None

    def to_output(self) -> CompletionOutput:
        logprobs = None if self.logprobs is None else list(self.logprobs)
        return CompletionOutput(self.index, self.detokenizer.text, list(self.token_ids), self.finish_reason, logprobs)


@dataclass(slots=True)
class _RequestState:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    choices: dict[str, _Choice]  # by child request id
    num_cached_tokens: int = 0

    @property
    def finished(self) -> bool:
        return all(choice.finish_reason for choice in self.choices.values())

    def to_output(self) -> RequestOutput:
        outputs = [choice.to_output() for choice in self.choices.values()]
        return RequestOutput(
            self.request_id, self.prompt_token_ids, self.num_cached_tokens, self.finished, outputs, self.prompt
        )


class OutputProcessor:
    """The requests in flight, as their callers see them.

    The engine runs a request with n > 1 as n child requests. Only here do they belong together again.
    """

    def __init__(self, tokenizer: Any | None) -> None:
        self._tokenizer = tokenizer
        self._requests: dict[str, _RequestState] = {}  # by request id
        self._parents: dict[str, _RequestState] = {}  # by child request id
        self._changed: dict[str, _RequestState] = {}  # since the last pop_outputs, in order of change
        self._stopped: list[str] = []  # child request ids, since the last pop_stopped

    def has_request(self, request_id: str) -> bool:
        """Whether a request, or a child of one, has this id and is still in flight."""
        return request_id in self._requests or request_id in self._parents

    def add_request(
        self,
        request_id: str,
        prompt: str | None,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        child_ids: Sequence[str],
    ) -> None:
        """A request whose choice i the engine computes as child_ids[i]; with one choice that may be request_id."""
        assert not any(self.has_request(name) for name in (request_id, *child_ids)), request_id
        choices = {
            child_id: _Choice(
                index,
                IncrementalDetokenizer(self._tokenizer, params),
                logprobs=None if params.logprobs is None else [],
            )
            for index, child_id in enumerate(child_ids)
        }
        state = _RequestState(request_id, prompt, list(prompt_token_ids), choices)
        self._requests[request_id] = state
        self._parents.update(dict.fromkeys(child_ids, state))

    def add_token(self, request: Request, token: SampledToken) -> None:
        """Take in a child's new token; its finish_reason is that after this token.

        A stop string finishes the choice with "stop" whatever the scheduler says, and a request the scheduler would
        go on with is then listed by pop_stopped. Tokens of unknown and of finished choices are dropped: a request that
        runs past its end leaves nothing behind.
        """
        state = self._parents.get(request.request_id)
        if state is None:
            return
        choice = state.choices[request.request_id]
        if choice.finish_reason is not None:
            return
        if choice.index == 0:
            state.num_cached_tokens = request.num_cached_tokens
        choice.token_ids.append(token.token_id)
        if choice.logprobs is not None:
            choice.logprobs.append(self._with_text(token.logprobs or {}))
        stop_string = choice.detokenizer.append([token.token_id], request.finish_reason == "stop")
        if stop_string is not None and request.finish_reason is None:
            self._stopped.append(request.request_id)
        if stop_string is None and request.finish_reason is not None:
            stop_string = choice.detokenizer.flush()
        choice.finish_reason = "stop" if stop_string is not None else request.finish_reason
        self._changed[state.request_id] = state
        if state.finished:
            self._drop(state)

    def pop_stopped(self) -> list[str]:
        """Child request ids that a stop string has ended, for the engine to end them in the scheduler."""
        stopped, self._stopped = self._stopped, []
        return stopped

    def pop_outputs(self) -> list[RequestOutput]:
        """The requests that changed since the last call, each with all it has produced."""
        changed, self._changed = self._changed, {}
        return [state.to_output() for state in changed.values()]

    def abort(self, request_id: str) -> list[str]:
        """Forget a request; returns the child request ids still to be ended in the scheduler. Unknown ids: []."""
        state = self._requests.get(request_id)
        if state is None:
            return []
        self._drop(state)
        self._changed.pop(request_id, None)
        return [child_id for child_id, choice in state.choices.items() if choice.finish_reason is None]

    def _drop(self, state: _RequestState) -> None:
        del self._requests[state.request_id]
        for child_id in state.choices:
            del self._parents[child_id]

    def _with_text(self, logprobs: dict[int, Logprob]) -> dict[int, Logprob]:
        if self._tokenizer is None:
            return logprobs
        return {
            token_id: logprob._replace(decoded_token=self._tokenizer.decode([token_id]))
            for token_id, logprob in logprobs.items()
        }
