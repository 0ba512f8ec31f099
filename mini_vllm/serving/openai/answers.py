"""Answers on their way out: what an output of the engine is in OpenAI's shapes, whole or as chunks
of a stream.

Source: OpenAI's API reference; chat_completion/serving.py and
completion/serving.py in vllm/entrypoints/openai.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import orjson

from mini_vllm.frontend.assistant_parser import AssistantForm, AssistantParser
from mini_vllm.frontend.output_processor import CompletionOutput, RequestOutput
from mini_vllm.frontend.tokenizer import TextOffset, Tokenizer, TokenNames
from mini_vllm.serving.openai.protocol import (
    ApiError,
    ChatCompletionRequest,
    ChatLogprob,
    CompletionLogprobs,
    SharedRequest,
    StreamOptions,
    Usage,
)
from mini_vllm.step import Logprob

# tokens with their logprobs, or choices, that are turned into text before other clients are served
ROWS_AT_ONCE = 32
LEAST_LOGPROB = -9999.0  # what -inf is in JSON, which has none
Json = dict[str, Any]


def event(data: Mapping[str, object]) -> bytes:
    """A server-sent event. One that has a type says it as its name, too."""
    name = f"event: {data['type']}\n".encode() if "type" in data else b""
    return name + b"data: " + orjson.dumps(data) + b"\n\n"


class Answer:
    """What all answers have in common: the head, and the count of tokens.

    One for each HTTP request.
    """

    kind = ""
    chunk_kind = ""
    prompt_field = ""  # of the request
    end = b"data: [DONE]\n\n"  # of a stream
    num_held_bytes = 0  # of what was asked, which it has to its end

    def __init__(
        self,
        answer_id: str,
        created: int,
        model: str,
        asked: SharedRequest,
        tokenizer: Tokenizer | None,
    ) -> None:
        self.id = answer_id
        self._asked: Any = asked
        self._head = {"id": answer_id, "created": created, "model": model}
        options = asked.stream_options or StreamOptions()
        self._tells_usage = options.include_usage
        self._is_continuous = options.continuous_usage_stats
        self._names = TokenNames(tokenizer)
        self._prompts: dict[int, tuple[int, int]] = {}  # by prompt, what of it is counted below
        self._num_prompt_tokens = self._num_cached_tokens = self._num_tokens = 0
        # one token was generated, since the engine cannot do without
        self._is_silent = asked.asked_max_tokens == 0

    async def whole(self, outputs: Iterable[tuple[int, RequestOutput]]) -> Any:
        """The body of an answer that is not streamed. outputs: by prompt, in order."""
        choices = []
        for prompt, output in outputs:
            for choice in self._count(prompt, output):
                choices.append(await self._choice(prompt, output, choice))
                if len(choices) % ROWS_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return self._head | {"object": self.kind, "choices": choices, "usage": self._usage()}

    async def chunks(self, prompt: int, output: RequestOutput) -> AsyncGenerator[Json]:
        """The chunks of a delta: one for each choice."""
        for number, each in enumerate(self._count(prompt, output), 1):
            yield self._chunk([await self._part(prompt, output, each)])
            if number % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def last_chunks(self) -> list[Json]:
        """What stands behind all deltas: the usage, if it was asked for."""
        return [self._chunk([]) | {"usage": self._usage()}] if self._tells_usage else []

    def failed(self, refused: ApiError) -> Any:
        """What ends a stream that has begun."""
        return refused.body

    def _count(self, prompt: int, output: RequestOutput) -> list[CompletionOutput]:
        self._count_prompt(prompt, output)
        if not self._is_silent:
            self._num_tokens += sum(len(choice.token_ids) for choice in output.outputs)
        return output.outputs

    def _count_prompt(self, prompt: int, output: RequestOutput) -> None:
        before = self._prompts.get(prompt, (0, 0))
        self._prompts[prompt] = now = len(output.prompt_token_ids), output.num_cached_tokens
        self._num_prompt_tokens += now[0] - before[0]
        self._num_cached_tokens += now[1] - before[1]

    def _chunk(self, choices: list[Json]) -> Json:
        usage = (
            {"usage": self._usage() if self._is_continuous else None} if self._tells_usage else {}
        )
        return self._head | {"object": self.chunk_kind, "choices": choices} | usage

    def _usage(self) -> Usage:
        return {
            "prompt_tokens": self._num_prompt_tokens,
            "completion_tokens": self._num_tokens,
            "total_tokens": self._num_prompt_tokens + self._num_tokens,
            "prompt_tokens_details": {"cached_tokens": self._num_cached_tokens},
        }

    async def _of_prompt(self, output: RequestOutput) -> Json:
        """What the client wants to know of the tokens of the prompt, in vLLM's words."""
        found: Json = {}
        if self._asked.return_token_ids:
            found["prompt_token_ids"] = output.prompt_token_ids
        if self._asked.prompt_logprobs is not None:
            rows = (
                (
                    None
                    if row is None
                    else {str(k): v._asdict() | {"logprob": finite(v)} for k, v in row.items()},
                )
                for row in output.prompt_logprobs or ()
            )
            found |= await in_columns(rows, ["prompt_logprobs"])
        return found

    def _text(self, token_id: int, text: str | None = None) -> str:
        """How logprobs name a token. text: if its name is not the one that no other token has."""
        if self._asked.return_tokens_as_token_ids:
            return f"token_id:{token_id}"
        return self._names.text(token_id) if text is None else text

    def _ending(self, choice: CompletionOutput, reason: str | None) -> Json:
        """How a choice has ended, and the tokens if the client wants them."""
        found: Json = {"finish_reason": reason}
        if reason is not None:
            found["stop_reason"] = choice.stop_reason
        if self._asked.return_token_ids:
            found["token_ids"] = [] if self._is_silent else choice.token_ids
        return found

    async def _choice(self, prompt: int, output: RequestOutput, choice: CompletionOutput) -> Json:
        """A choice of a whole answer: as of a chunk that has all."""
        return await self._part(prompt, output, choice)

    async def _part(self, prompt: int, output: RequestOutput, choice: CompletionOutput) -> Json:
        """A choice of a chunk."""
        raise NotImplementedError


class ChatAnswer(Answer):
    """A chat completion."""

    kind, chunk_kind = "chat.completion", "chat.completion.chunk"
    prompt_field = "messages"

    def __init__(self, form: AssistantForm, *args: Any) -> None:
        super().__init__(*args)
        asked: ChatCompletionRequest = self._asked
        self._num_top = asked.top_logprobs or 0
        # a forced function is what was asked for: the text has only stopped, as OpenAI says
        self._is_named = isinstance(asked.tool_choice, Mapping)
        self._echoed = asked.echoed()
        self._form = form
        self._names = TokenNames(args[4], skip_special_tokens=form.skip_special_tokens)
        # by choice
        self._parsers = defaultdict[int, AssistantParser](lambda: AssistantParser(form))

    async def whole(self, outputs: Iterable[tuple[int, RequestOutput]]) -> Any:
        (found,) = outputs
        return await super().whole([found]) | await self._of_prompt(found[1])

    async def chunks(self, prompt: int, output: RequestOutput) -> AsyncGenerator[Json]:
        """The first chunk of a choice has the role, the echo and no token: openai-node would count
        its logprobs twice.
        """
        if new := [each.index for each in output.outputs if each.index not in self._parsers]:
            self._count_prompt(prompt, output)
            delta = {"role": "assistant", "content": self._echoed}
            about = await self._of_prompt(output)
            for index in new:
                begun = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
                yield self._chunk([begun]) | about
        async for chunk in super().chunks(prompt, output):
            yield chunk

    async def _choice(self, prompt: int, output: RequestOutput, choice: CompletionOutput) -> Json:
        parser = AssistantParser(self._form)
        message = parser.finish(choice.text).as_message() | {"refusal": None}
        if self._echoed:
            message["content"] = self._echoed + (message["content"] or "")
        return await self._around({"message": message}, parser, choice)

    async def _part(self, prompt: int, output: RequestOutput, choice: CompletionOutput) -> Json:
        parser = self._parsers[choice.index]
        new = (
            parser.feed(choice.text) if choice.finish_reason is None else parser.finish(choice.text)
        )
        return await self._around({"delta": new.as_json(is_text=parser.is_text)}, parser, choice)

    async def _around(self, text: Json, parser: AssistantParser, choice: CompletionOutput) -> Json:
        calls = parser.num_calls and parser.is_whole and not self._is_named
        reason = "tool_calls" if calls and choice.finish_reason == "stop" else choice.finish_reason
        found = {"index": choice.index, **text, "logprobs": await self._logprobs(choice)}
        return found | self._ending(choice, reason)

    async def _logprobs(self, choice: CompletionOutput) -> Json | None:
        if choice.logprobs is None:
            return None
        pairs = zip(choice.token_ids, choice.logprobs, strict=True)
        entries = ((self._entry(*pair),) for pair in pairs)
        return await in_columns(entries, ["content"]) | {"refusal": None}

    def _entry(self, token_id: int, logprobs: dict[int, Logprob]) -> ChatLogprob:
        """One token. The end of a turn has no text and no bytes: joined, the bytes are the text."""
        top = sorted(logprobs, key=lambda each: logprobs[each].rank)[: self._num_top]
        data = self._names.shown_bytes(token_id)
        return {
            "token": self._text(token_id, data.decode(errors="replace")),
            "logprob": finite(logprobs[token_id]) if token_id in logprobs else LEAST_LOGPROB,
            "bytes": list(data),
            "top_logprobs": [
                {
                    "token": self._text(each),
                    "logprob": finite(logprobs[each]),
                    "bytes": list(self._names.all_bytes(each)),
                }
                for each in top
            ],
        }


class CompletionAnswer(Answer):
    """A text completion. The choices of prompt i have the indices from i * n on."""

    kind = chunk_kind = "text_completion"
    prompt_field = "prompt"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._offsets = defaultdict[int, TextOffset](TextOffset)  # by index, in the text so far

    async def _part(self, prompt: int, output: RequestOutput, choice: CompletionOutput) -> Json:
        index = prompt * (self._asked.n or 1) + choice.index
        entries: list[dict[int, Logprob] | None] = [*(choice.logprobs or ())]
        token_ids, text = choice.token_ids, choice.text
        if self._is_silent:
            token_ids, entries, text = [], [], ""
        is_first = index not in self._offsets
        offset = self._offsets[index]
        pieces: Iterable[bytes] = map(self._names.shown_bytes, token_ids)
        if is_first and self._asked.echo:
            token_ids = [*output.prompt_token_ids, *token_ids]
            given = self._asked.prompts[prompt]
            prompt_text = given if isinstance(given, str) else self._names.text_of(given)
            text = prompt_text + text
            pieces = chain(pieces_in(prompt_text, output.prompt_token_ids, self._names), pieces)
            entries = [*(output.prompt_logprobs or [None] * len(output.prompt_token_ids)), *entries]
        found = {"index": index, "text": text, "logprobs": None}
        if self._asked.logprobs is not None:
            offsets = map(offset.before, pieces)
            found["logprobs"] = await self._logprobs(token_ids, entries, offsets)
        if is_first:
            found |= await self._of_prompt(output)
        return found | self._ending(choice, choice.finish_reason)

    async def _logprobs(
        self,
        token_ids: Sequence[int],
        entries: Sequence[dict[int, Logprob] | None],
        offsets: Iterable[int],
    ) -> Json:
        rows = (
            (self._text(token_id), *self._found(token_id, logprobs), offset)
            for token_id, logprobs, offset in zip(token_ids, entries, offsets, strict=True)
        )
        return await in_columns(rows, [*CompletionLogprobs.__annotations__])

    def _found(
        self, token_id: int, logprobs: dict[int, Logprob] | None
    ) -> tuple[float | None, dict[str, float] | None]:
        """The log-probability of a token, and the likeliest ones at its place."""
        if logprobs is None:  # the first token of a prompt follows none
            return None, None
        best = sorted(logprobs, key=lambda each: logprobs[each].rank)[: self._asked.logprobs or 0]
        shown = dict.fromkeys([*best, token_id])
        top = {self._text(each): finite(logprobs[each]) for each in shown}
        return finite(logprobs[token_id]), top


async def in_columns(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> Json:
    """A list of JSON for each name: of the first things of all rows, the second ones and so on.

    A row is made when its turn comes and is text at once, which takes a fifth of the memory. After
    some of them other clients are served; a single one, as in a stream, is told without delay.
    """
    rows, columns = iter(rows), dict[str, list[bytes]]((name, []) for name in names)
    while some := [*islice(rows, ROWS_AT_ONCE)]:
        if len(some) > 1:
            await asyncio.sleep(0)
        for name, column in zip(names, zip(*some, strict=True), strict=True):
            columns[name].append(orjson.dumps(column)[1:-1])
    return {
        name: orjson.Fragment(b"[" + b",".join(parts) + b"]") for name, parts in columns.items()
    }


def pieces_in(text: str, token_ids: list[int], names: TokenNames) -> Iterator[bytes]:
    """What each token of a prompt stands for in its text.

    The text may name special tokens, and may lack the space that SentencePiece puts before it.
    """
    data, start = text.encode(errors="replace"), 0
    for token_id in token_ids:
        piece = names.all_bytes(token_id)
        if not data.startswith(piece, start):
            bare = piece.removeprefix(b" ")
            piece = bare if data.startswith(bare, start) else names.shown_bytes(token_id)
        start += len(piece)
        yield piece


def finite(logprob: Logprob) -> float:
    """The number, which JSON can hold."""
    return max(logprob.logprob, LEAST_LOGPROB)
