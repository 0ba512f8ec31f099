"""From token ids to text: what a caller may see, and the stop strings that end it.

What: one detokenizer per choice, and the RequestOutputs that collect the choices of a request. Why:
a token is not a piece of text. A character may span tokens, a stop string too; what is shown must
never be taken back. Invariant: the text of a choice only ever grows, and holds neither half a
character nor a part of a stop string. Cost: a step touches its new tokens and nothing older, unless
its caller asks for the whole text after each step. Called by the engine, after each step. State
lives from add_request until the last choice has finished. Source:
vllm/v1/engine/output_processor.py, vllm/v1/engine/detokenizer.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mini_vllm.errors import GrammarError, RequestFailedError
from mini_vllm.frontend.tokenizer import Tokenizer
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.step import Logprob, PromptLogprobs, TokenDelta

# what a decoder makes of bytes that are no character, or not one yet
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# tokens that may wait for the rest of a character; UTF-8 needs at most 3 bytes of patience
MAX_PENDING = 8
# of the prompt; vLLM: INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
PROMPT_CONTEXT = 5


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One choice of a request, all of it so far. token_ids keep the tokens whose text a stop string
    cut off.
    """

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None  # "stop", "length", "abort", "error" or None: not finished
    logprobs: list[dict[int, Logprob]] | None  # one per token, if asked for
    error: RequestFailedError | None = None  # why, if the reason is "error"
    # which stop string or which of stop_token_ids, if one of them ended it
    stop_reason: str | int | None = None
    # of LLM.chat: content, tool_calls and reasoning_content, as OpenAI has them
    message: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """When things happened to a request, in seconds of the engine's clock; None: not yet. vLLM:
    RequestStateStats.
    """

    arrival_time: float = 0.0
    first_token_time: float | None = None  # TTFT is the time from arrival to this one
    last_token_time: float | None = None
    scheduled_time: float | None = None  # when it was first in a step
    num_preemptions: int = 0


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What a request has produced: all of it so far, or what is new, as SamplingParams.output_kind
    says.

    outputs: its choices in order; of a delta those with something new. prompt is None when it came
    as token ids.
    """

    request_id: str
    prompt_token_ids: list[int]
    # of the prompt, found in the prefix cache when the first choice was admitted
    num_cached_tokens: int
    finished: bool
    outputs: list[CompletionOutput]
    prompt: str | None = None
    metrics: RequestMetrics = RequestMetrics()
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    """One for each token of the prompt, None for the first. Of deltas, the first has them."""

    @staticmethod
    def joined(deltas: "Sequence[RequestOutput]") -> "RequestOutput":
        """Deltas of one request that followed each other, as one.

        A whole output, which is the only one, stays.
        """
        if len(deltas) == 1:
            return deltas[0]
        choices: dict[int, list[CompletionOutput]] = {}
        for delta in deltas:
            for choice in delta.outputs:
                choices.setdefault(choice.index, []).append(choice)
        outputs = [
            replace(
                parts[-1],
                text="".join(part.text for part in parts),
                token_ids=[token_id for part in parts for token_id in part.token_ids],
                logprobs=None
                if parts[0].logprobs is None
                else [row for part in parts for row in part.logprobs or ()],
            )
            for _, parts in sorted(choices.items())
        ]
        return replace(deltas[-1], outputs=outputs, prompt_logprobs=deltas[0].prompt_logprobs)


OnOutput = Callable[[RequestOutput], None]


# --- text of one choice ---------------------------------------------------------------------------


class IncrementalDetokenizer:
    """Decodes a growing sequence of tokens at a bounded cost per token.

    Without a tokenizer the text stays "".

    The output's tokens lie in three stretches; only the last two are ever decoded:

        [ settled ............ | context | pending )
          their text is decoded            not yet a whole character

    The context, the tokens that were settled last, is decoded along because the text of a token
    depends on the one before it (SentencePiece drops the very first space). Joined, the text is
    decode(all tokens, skip_special_tokens). A byte-fallback decoder can void whole characters
    by an invalid byte later in the same run; what was shown is then not taken back. The first
    context is the end of the prompt. (The DecodeStream of tokenizers is not used: it holds back
    bytes that are no character for as long as nothing else follows.)

    Of the decoded text nothing is looked at again. What may be the beginning of a stop string is
    held back:

        [ pieces: shown ............................. | held )
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        stop: "StopStrings",
        prompt_token_ids: Sequence[int] = (),
        min_tokens: int = 0,
        skip_special_tokens: bool = True,
    ) -> None:
        """min_tokens: a stop string ends no text that has fewer tokens."""
        self._tokenizer = tokenizer
        self._skips_special = skip_special_tokens
        self.stop = stop
        self._num_unstoppable = min_tokens
        self._begin_behind(prompt_token_ids)
        self._pending: list[int] = []
        self.pieces: list[str] = []  # what may be shown now; it only ever grows at its end
        self._held = ""  # decoded, and perhaps the beginning of a stop string

    def _begin_behind(self, prompt_token_ids: Sequence[int]) -> None:
        """Let the context be the end of the prompt, with whole characters at both of its ends."""
        for num_tokens in range(PROMPT_CONTEXT, PROMPT_CONTEXT + MAX_PENDING):
            self._context = list(prompt_token_ids[-num_tokens:])
            self._context_text = self._decode(self._context)
            if not self._context_text.endswith(REPLACEMENT):
                return
        while self._context_text.endswith(REPLACEMENT):  # the prompt ends within a character
            self._context.pop()
            self._context_text = self._decode(self._context)

    def append(self, token_id: int) -> str | None:
        """Decode a new token; returns the stop string that has just ended the text, or None.

        A token that ends the request (EOS, a stop token) has no text and is not appended. After a
        stop string the detokenizer is done: call neither append nor flush.
        """
        if self._tokenizer is None:
            return None
        stop_string = self._append_text(self._decode_next(token_id))
        self._num_unstoppable -= 1
        return stop_string

    def flush(self) -> str | None:
        """The request is finished: show what was held back.

        Returns a stop string if that completes one.
        """
        stop_string = self._append_text(self._settle(len(self._pending))) if self._pending else None
        self._show(self._held)
        self._held = ""
        return stop_string

    # --- tokens to characters

    def _decode_next(self, token_id: int) -> str:
        """The text that token_id settles, "" while it waits."""
        self._pending.append(token_id)
        text = self._pending_text(len(self._pending))
        if text and not text.endswith(REPLACEMENT):
            return self._settle(len(self._pending), text)
        # no text, not even a lone space: a special or an unknown token
        if not self._decode([token_id, token_id]):
            self._pending.pop()
        elif len(self._pending) > MAX_PENDING:
            return self._settle(self._clean_boundary(text))
        return ""

    def _settle(self, num_tokens: int, text: str | None = None) -> str:
        """Move the first pending tokens to the context; returns their text, which is decoded unless
        it is given.
        """
        text = self._pending_text(num_tokens) if text is None else text
        self._context, self._pending = self._pending[:num_tokens], self._pending[num_tokens:]
        self._context_text = self._decode(self._context)
        return text

    def _pending_text(self, num_tokens: int) -> str:
        """Text of the first num_tokens pending tokens: what they add to their context's."""
        text = self._decode(self._context + self._pending[:num_tokens])
        if text.startswith(self._context_text):
            return text[len(self._context_text) :]
        # a byte-fallback run that an invalid byte has voided
        return self._decode(self._pending[:num_tokens])

    def _clean_boundary(self, text: str) -> int:
        """How many pending tokens no later token can change: bytes that are no character and will
        not become one.

        Both sides of a boundary inside a character, or inside an unfinished one, decode to more
        than the whole.
        """
        for num_tokens in range(len(self._pending) - 1, 0, -1):
            tail = self._decode(self._pending[num_tokens:])
            if self._pending_text(num_tokens) + tail == text:
                return num_tokens
        return len(self._pending)

    def _decode(self, token_ids: list[int]) -> str:
        if not token_ids or self._tokenizer is None:
            return ""
        return self._tokenizer.decode(token_ids, skip_special_tokens=self._skips_special)

    # --- characters to shown text

    def _append_text(self, new_text: str) -> str | None:
        """Add decoded text. A stop string in it cuts the text before itself and is returned."""
        text, num_seen = self._held + new_text, len(self._held)
        found = self.stop.find(new_text, may_end=self._num_unstoppable <= 0)
        num_shown = (
            len(text) - self.stop.num_begun
            if found is None
            else num_seen + found.end - (0 if self.stop.is_shown else len(found.stop_string))
        )
        self._show(text[:num_shown])
        self._held = text[num_shown:] if found is None else ""
        return None if found is None else found.stop_string

    def _show(self, text: str) -> None:
        if text:
            self.pieces.append(text)


class Found(NamedTuple):
    """A stop string, and how many of the new characters there are up to its end."""

    stop_string: str
    end: int


class StopStrings:
    """Looks for stop strings in a text that comes in pieces, and at each character once.

    Of each stop string it knows how many of its characters the text ends with. Where the next one
    does not fit, the borders say how many of them may still be a beginning. So a character costs a
    step for each stop string, however long they are and however long the text is. Source: Knuth,
    Morris and Pratt, "Fast Pattern Matching in Strings".
    """

    def __init__(
        self, stop: Sequence[str], borders: Sequence[list[int]], *, is_shown: bool = False
    ) -> None:
        """is_shown: the text has what ends it (vLLM: include_stop_str_in_output)."""
        self.is_shown = is_shown
        self._stop = stop
        self._borders = borders
        self._firsts = {each[0] for each in stop}
        self._matched = [0] * len(stop)
        # characters at the end of the text that may be the beginning of a stop string
        self.num_begun = 0

    def find(self, new_text: str, *, may_end: bool = True) -> Found | None:
        """The stop string that new_text completes. Its text is then over: do not call again.

        Where the text may not end yet, none counts that is complete in new_text.
        Of several, the one that is complete first counts; of those complete at the same character,
        the first in the list (vLLM: check_stop_strings). So the text does not depend on how it was
        cut into tokens.
        """
        if not self.num_begun and self._firsts.isdisjoint(new_text):
            return None
        for end, character in enumerate(new_text, start=1):
            for i, stop_string in enumerate(self._stop):
                matched = extend(stop_string, self._borders[i], self._matched[i], character)
                if matched == len(stop_string):
                    if may_end:
                        return Found(stop_string, end)
                    matched = self._borders[i][-1]
                self._matched[i] = matched
        self.num_begun = max(self._matched)
        return None


def extend(pattern: str, borders: list[int], matched: int, character: str) -> int:
    """How many characters of pattern a text ends with after character, if it ended with `matched`
    before.
    """
    while matched and pattern[matched] != character:
        matched = borders[matched - 1]
    return matched + (pattern[matched] == character)


def find_borders(pattern: str) -> list[int]:
    """For each beginning of pattern, the length of the longest shorter beginning that it also ends
    with.
    """
    borders = [0]
    for character in pattern[1:]:
        borders.append(extend(pattern, borders, borders[-1], character))
    return borders


# --- requests -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Choice:
    """All that a choice has produced, and how much of it the last output has told.

    The lists grow at their ends.
    """

    index: int
    detokenizer: IncrementalDetokenizer
    logprobs: list[dict[int, Logprob]] | None
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    error: RequestFailedError | None = None
    stop_reason: str | int | None = None
    has_news: bool = False
    num_told_tokens: int = 0
    num_told_pieces: int = 0

    def to_output(self, is_delta: bool) -> CompletionOutput:
        """It costs as much as it tells."""
        pieces, start = self.detokenizer.pieces, self.num_told_tokens if is_delta else 0
        output = CompletionOutput(
            self.index,
            "".join(pieces[self.num_told_pieces if is_delta else 0 :]),
            self.token_ids[start:],
            self.finish_reason,
            None if self.logprobs is None else self.logprobs[:],
            self.error,
            self.stop_reason,
        )
        if is_delta and self.logprobs:
            self.logprobs = []  # they are told once
        self.num_told_tokens = len(self.token_ids)
        self.num_told_pieces = len(pieces)
        self.has_news = False
        return output


@dataclass(slots=True, eq=False)
class _RequestState:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    choices: dict[str, _Choice]  # by child request id
    params: SamplingParams
    on_output: OnOutput | None
    metrics: RequestMetrics
    num_cached_tokens: int = 0
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    is_being_told: bool = False
    is_aborted: bool = False

    @property
    def finished(self) -> bool:
        return all(choice.finish_reason for choice in self.choices.values())

    def to_output(self) -> RequestOutput | None:
        """What the caller is to see now; None: nothing before the end."""
        if self.params.output_kind == "final_only" and not self.finished:
            return None
        is_delta = self.params.output_kind == "delta"
        prompt_logprobs = self.prompt_logprobs
        if is_delta:
            self.prompt_logprobs = None  # they are told once
        return RequestOutput(
            self.request_id,
            self.prompt_token_ids,
            self.num_cached_tokens,
            self.finished,
            [
                choice.to_output(is_delta)
                for choice in self.choices.values()
                if choice.has_news or not is_delta
            ],
            self.prompt,
            self.metrics,
            prompt_logprobs,
        )

    def tell(self, output: RequestOutput | None) -> None:
        """Call on_output, unless this very call aborts the request, or another has."""
        if not output or not self.on_output or self.is_being_told or self.is_aborted:
            return
        self.is_being_told = True
        try:
            self.on_output(output)
        finally:
            self.is_being_told = False


class OutputProcessor:
    """The requests in flight, as their callers see them.

    The engine runs a request with n > 1 as n child requests. Only here do they belong together
    again.
    """

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self.tokenizer = tokenizer
        self._requests: dict[str, _RequestState] = {}  # by request id
        self._parents: dict[str, _RequestState] = {}  # by child request id
        # those that have ended, while callers are told of it: one of them may abort another one
        self._ending: dict[str, _RequestState] = {}

    def has_request(self, request_id: str) -> bool:
        """Whether a request, or a child of one, has this id and is still in flight."""
        return request_id in self._requests or request_id in self._parents

    def parent_of(self, child_id: str) -> str | None:
        """The request of which this is a choice; None if it is none in flight."""
        state = self._parents.get(child_id)
        return None if state is None else state.request_id

    def get_child_ids(self, request_id: str) -> list[str]:
        """The ids of the choices of a request in flight; [] for one that is not."""
        state = self._requests.get(request_id)
        return [] if state is None else list(state.choices)

    def add_request(
        self,
        request_id: str,
        prompt: str | None,
        requests: Sequence[Request],
        on_output: OnOutput | None = None,
    ) -> None:
        """A request whose choice i the engine computes as requests[i]; the one of one choice may
        have the same id.

        on_output: gets every output of the request, the last one also when it is aborted. vLLM:
        RequestOutputCollector.
        """
        first, child_ids = requests[0], [request.request_id for request in requests]
        assert not any(self.has_request(name) for name in (request_id, *child_ids)), request_id
        params = first.sampling_params
        choices, borders = {}, [find_borders(stop) for stop in params.stop]
        for index, child_id in enumerate(child_ids):
            detokenizer = IncrementalDetokenizer(
                self.tokenizer,
                StopStrings(params.stop, borders, is_shown=params.include_stop_str_in_output),
                first.prompt_token_ids,
                params.min_tokens,
                params.skip_special_tokens,
            )
            choices[child_id] = _Choice(index, detokenizer, None if params.logprobs is None else [])
        metrics = RequestMetrics(first.arrival_time)
        state = _RequestState(
            request_id, prompt, first.prompt_token_ids, choices, params, on_output, metrics
        )
        if params.prompt_logprobs is not None:
            state.prompt_logprobs = [None]
        self._requests[request_id] = state
        self._parents.update(dict.fromkeys(child_ids, state))

    def process(
        self,
        deltas: Sequence[TokenDelta],
        end: Callable[[list[str]], object] = lambda child_ids: None,
    ) -> tuple[list[RequestOutput], list[str]]:
        """Take in what a step brought.

        Returns what callers are to see of the requests that changed, and the stopped child
        requests.

        These are the ids of the children that have ended here, but not in the scheduler, where the
        engine ends them: by a stop string, or with an error, since no text can be made of their
        tokens. end: is called with them before any on_output is, which may use the id of a request
        that has ended again. Deltas of unknown and of finished choices are dropped: a request that
        runs past its end leaves nothing behind. vLLM: OutputProcessor.process_outputs, whose
        reqs_to_abort are the stopped ones.
        """
        changed: dict[str, _RequestState] = {}
        stopped: list[str] = []
        for delta in deltas:
            state = self._parents.get(delta.request_id)
            if state is None:
                continue
            if delta.prompt_logprobs is not None:
                self._take_prompt_logprobs(state, delta.prompt_logprobs)
            choice = state.choices[delta.request_id]
            if choice.finish_reason is not None or not (delta.tokens or delta.finish_reason):
                continue
            if choice.index == 0 and not choice.token_ids:
                state.num_cached_tokens = delta.num_cached_tokens
            if delta.tokens and delta.time is not None:
                before = state.metrics
                first, scheduled = before.first_token_time, before.scheduled_time
                state.metrics = RequestMetrics(
                    before.arrival_time,
                    delta.time if first is None else first,
                    delta.time,
                    delta.scheduled_time if scheduled is None else scheduled,
                    max(before.num_preemptions, delta.num_preemptions),
                )
            self._take_or_fail(state, choice, delta)
            if choice.finish_reason is not None and delta.finish_reason is None:
                stopped.append(delta.request_id)
            changed[state.request_id] = state
        told = [(state, state.to_output()) for state in changed.values()]
        self._ending = {name: state for name, state in changed.items() if state.finished}
        for state in self._ending.values():
            self._drop(state)
        end(stopped)
        for state, output in told:
            state.tell(output)
        self._ending = {}
        return [each for state, each in told if each and not state.is_aborted], stopped

    def abort(self, request_id: str) -> list[str]:
        """Forget a request.

        Choices that are not finished end with reason "abort", and on_output is told so.

        Returns the child request ids of these choices, which have to be ended in the scheduler.
        Unknown ids: [].
        """
        state = self._requests.get(request_id)
        if state is None:
            if request_id in self._ending:
                self._ending[request_id].is_aborted = True
            return []
        aborted = [
            child_id for child_id, choice in state.choices.items() if choice.finish_reason is None
        ]
        for child_id in aborted:
            state.choices[child_id].finish_reason = "abort"
            state.choices[child_id].has_news = True
        self._drop(state)
        state.tell(state.to_output())
        state.is_aborted = True
        return aborted

    def _take_prompt_logprobs(self, state: _RequestState, found: PromptLogprobs) -> None:
        """Put them in their place: a request that was preempted computes some of its prompt
        again.
        """
        assert state.prompt_logprobs is not None
        state.prompt_logprobs[found.start :] = [
            self._with_text(logprobs) for logprobs in found.logprobs
        ]

    def _take_or_fail(self, state: _RequestState, choice: _Choice, delta: TokenDelta) -> None:
        """Add a delta to a choice. A tokenizer that fails on it ends the choice with an error."""
        start, choice.has_news = len(choice.token_ids), True
        num_logprobs = len(choice.logprobs or ())
        try:
            stop_string = self._take(choice, delta)
        except Exception as error:
            choice.token_ids[start:] = [token.token_id for token in delta.tokens]
            if choice.logprobs is not None:
                choice.logprobs[num_logprobs:] = [token.logprobs or {} for token in delta.tokens]
            position = len(state.prompt_token_ids) + start
            why = f"no text can be made of its tokens from token {position} on: {error!r}"
            choice.finish_reason = "error"
            choice.error = RequestFailedError(f"request {delta.request_id!r}: {why}")
        else:
            choice.finish_reason = "stop" if stop_string is not None else delta.finish_reason
            if delta.error is not None:
                choice.error = (GrammarError if delta.is_refused else RequestFailedError)(
                    delta.error
                )
            choice.stop_reason = stop_string
            if stop_string is None and delta.finish_reason == "stop":
                last = choice.token_ids[-1]
                choice.stop_reason = last if last in state.params.stop_token_ids else None

    def _take(self, choice: _Choice, delta: TokenDelta) -> str | None:
        """Add tokens to a choice, in order.

        A stop string ends it, whatever follows in the delta, and is returned.
        """
        detokenizer = choice.detokenizer
        for number, token in enumerate(delta.tokens, start=1):
            choice.token_ids.append(token.token_id)
            if choice.logprobs is not None:
                choice.logprobs.append(self._with_text(token.logprobs or {}))
            is_end = delta.finish_reason == "stop" and number == len(delta.tokens)
            if is_end and not detokenizer.stop.is_shown:
                break  # this token has ended the request, and has no text
            if (stop_string := detokenizer.append(token.token_id)) is not None:
                return stop_string
        return None if delta.finish_reason is None else detokenizer.flush()

    def _drop(self, state: _RequestState) -> None:
        for child_id in state.choices:
            del self._parents[child_id]
        del self._requests[state.request_id]

    def _with_text(self, logprobs: dict[int, Logprob]) -> dict[int, Logprob]:
        if self.tokenizer is None:
            return logprobs
        find = self.tokenizer.token_bytes
        return {
            token_id: Logprob(number, rank, find(token_id).decode(errors="replace"))
            for token_id, (number, rank, _) in logprobs.items()
        }
