"""JSON that ends within max_tokens: near the last of these, only what closes it is allowed.

A small model writes a text or a number without end. How many tokens the end takes is found by
going to it in the grammar and back: in a string the quote goes first, elsewhere a bracket. Forced
calls of tools close so, and other JSON that asks for it (StructuredOutputs.closes). vLLM has no
such thing: there the arguments of a call are cut, and are no JSON.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

from mini_vllm.request import Request
from mini_vllm.structured.backends import Vocabulary
from mini_vllm.structured.scheduler import Grammar, GrammarGate, GrammarSource, NewGrammar

MAX_END = 512  # tokens; a longer end is not looked for
SPARE = 8  # tokens by which one that opens nothing may put off the end: a digit, an escape
MOST_TRIED = 64  # tokens that are looked at where none of the usual ones is allowed
MAX_NUMBER, MAX_EXPONENT = 80, 2  # characters of a number, and digits of its exponent
NUMERIC = {bytes([byte]) for byte in b"0123456789.+-eE"}
NUMBER = re.compile(rb"[\s:,\[](-?[0-9][-+.0-9eE]*)\Z")
STRING = re.compile(rb'"(?:\\.|[^"\\])*"', re.DOTALL)
CLOSE, BEGIN = b"}],", b"01nt[{:"  # what goes first outside of strings, each byte a token


class ClosingGate(GrammarGate):
    """A GrammarGate that closes the JSON of requests that ask for it, unless they forbid tokens.

    vocabulary: of the model, asked for when there is such a request.
    """

    def __init__(self, grammars: GrammarSource, vocabulary: Callable[[], Vocabulary]) -> None:
        super().__init__(grammars)
        self._closers = cache(lambda: Closers(vocabulary()))

    def begin(self, new: NewGrammar, request: Request) -> Grammar:
        params, grammar = request.sampling_params, super().begin(new, request)
        is_free = params.allowed_token_ids is None and not params.bad_token_ids
        if params.structured is None or not params.structured.closes or not is_free:
            return grammar
        room = (request.max_model_len or request.max_tokens) - request.num_prompt_tokens
        return ClosingGrammar(grammar, self._closers(), min(request.max_tokens, room))


class Closers:
    """How a vocabulary closes JSON. A set of tokens is a number, whose bit i is token i."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.token_bytes = tokens = vocabulary.token_bytes
        ids = {data: token_id for token_id, data in enumerate(tokens)}
        close, quote, begin = (
            [ids[bytes([byte])] for byte in each if bytes([byte]) in ids]
            for each in (CLOSE, b'"', BEGIN)
        )
        # in a string, and elsewhere: what goes first, and what opens nothing
        self._first = {True: quote, False: [*vocabulary.end_token_ids, *close, *quote, *begin]}
        self.harmless = {
            True: self._all(lambda data: b'"' not in data),
            False: self._all(lambda data: not {*data} & {*b",[{"}),
        }
        # what goes on with no number, and what is one byte
        self.no_number = self._all(lambda data: data[:1] not in NUMERIC)
        self.single = self._all(lambda data: len(data) == 1)

    def _all(self, is_one: Callable[[bytes], bool]) -> int:
        """The set of tokens whose bytes are so."""
        return int("".join("01"[is_one(data)] for data in reversed(self.token_bytes)), 2)

    def choose(self, mask: bytes, *, in_string: bool) -> int:
        """Which of the tokens that a mask allows leads to the end; of several that could, the
        longest.
        """
        bits = int.from_bytes(mask, "little")
        for token_id in self._first[in_string]:
            if bits >> token_id & 1:
                return token_id
        return max(islice(ones(bits), MOST_TRIED), key=lambda i: len(self.token_bytes[i]))


class ClosingGrammar:
    """A Grammar (structured/scheduler.py) whose text ends within max_tokens, if it can, and whose
    numbers are numbers to a client in any language: none is infinite.
    """

    def __init__(self, grammar: Grammar, closers: Closers, max_tokens: int) -> None:
        self._grammar, self._closers, self._max_tokens = grammar, closers, max_tokens
        self._accepted: list[int] = []
        # with how many tokens left the end is looked for, and what the shortest text takes: a
        # token may begin one more call
        self._look_at, self._shortest = max_tokens, 0

    @property
    def is_terminated(self) -> bool:
        return self._grammar.is_terminated

    def accept(self, token_id: int) -> bool:
        is_allowed = self._grammar.accept(token_id)
        self._accepted += [token_id] * is_allowed
        return is_allowed

    def rollback(self, num_tokens: int) -> None:
        self._grammar.rollback(num_tokens)
        del self._accepted[len(self._accepted) - num_tokens :]

    def mask(self) -> bytes | None:
        """The grammar's. With few tokens left, what opens nothing; at the last, the end alone."""
        mask: bytes | None = self._end_number(self._grammar.mask())
        room = self._max_tokens - len(self._accepted)
        if mask is None or room > self._look_at:
            return mask
        text = open_string(self._text(len(self._accepted)))
        end = self._find_end(mask, text)
        self._shortest = self._shortest or len(end)
        spare = room - len(end) - self._shortest
        self._look_at = room - max(1, spare // 4)
        if spare > 0 or len(end) > room:
            return mask
        bits = 1 << end[0]
        if room > len(end) + SPARE:
            bits |= int.from_bytes(mask, "little") & self._closers.harmless[text != b""]
        return bits.to_bytes(len(mask), "little")

    def _text(self, num_tokens: int) -> bytes:
        """The bytes of the last tokens."""
        last = self._accepted[len(self._accepted) - num_tokens :]
        return b"".join(self._closers.token_bytes[i] for i in last)

    def _end_number(self, mask: bytes | None) -> bytes | None:
        """The mask, in which a number that is long enough does not go on, if it can end."""
        found = NUMBER.search(self._text(min(MAX_NUMBER + 1, len(self._accepted))))
        if mask is None or found is None or open_string(self._text(len(self._accepted))):
            return mask
        _, is_raised, exponent = found[1].lower().partition(b"e")
        is_long = len(found[1]) >= MAX_NUMBER or len(exponent.lstrip(b"+-")) >= MAX_EXPONENT
        if not is_long and not is_raised:
            return mask
        bits = int.from_bytes(mask, "little")
        allowed = self._closers.no_number | (0 if is_long else self._closers.single)
        return (bits & allowed or bits).to_bytes(len(mask), "little")

    def _find_end(self, mask: bytes | None, text: bytes) -> list[int]:
        """The tokens of an end, the one that ends the text among them. text: of the string that is
        open.
        """
        end: list[int] = []
        while mask is not None and any(mask) and len(end) < MAX_END:
            end.append(self._closers.choose(mask, in_string=text != b""))
            text = open_string(text + self._closers.token_bytes[end[-1]])
            self._grammar.accept(end[-1])
            mask = None if self.is_terminated else self._grammar.mask()
        self._grammar.rollback(len(end))
        return end


def open_string(text: bytes) -> bytes:
    """The string that JSON ends in, as far as it goes; nothing where it ends in none."""
    _, quote, rest = STRING.sub(b"", text).partition(b'"')
    return quote + rest


def ones(bits: int) -> Iterator[int]:
    """The places of the bits that are 1."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1
