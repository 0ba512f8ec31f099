"""xgrammar, llguidance and, for choices, Python alone: each compiles text into a grammar, and makes
matchers of it.

compile() runs in the worker, load() in the engine; between them travels text. xgrammar's compiled
grammar is written out and read again. llguidance cannot write its own out, so the worker tries
whether it can be built, and what travels is its text: the engine builds it once more, which takes
as long as the trial did, and lets other threads run meanwhile. The engine cannot be killed, so a
trial that takes long is refused. Source:
vllm/v1/structured_output/backend_xgrammar.py, backend_guidance.py.
"""

import json
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple, Protocol

from mini_vllm.errors import GrammarError
from mini_vllm.structured.automaton import ByteAutomaton, Choices, TokenMasks, TokenTrie
from mini_vllm.structured.scheduler import Grammar, NewGrammar
from mini_vllm.structured.schema import for_guidance
from mini_vllm.structured.subschemas import Schema, schemas_in

# characters between two tokens of JSON: a small model would write nothing else (vllm #38696)
MAX_WHITESPACE = 1
MAX_TRIAL_SECONDS = 0.5  # of the processor, of what the engine does once more
PACKAGES = {"xgrammar": "xgrammar", "guidance": "llguidance"}


class Vocabulary(NamedTuple):
    """What the tokens of a model stand for. token_bytes [V]: b"" for one that is no part of a
    text.
    """

    token_bytes: Sequence[bytes]
    end_token_ids: Sequence[int]

    @property
    def num_mask_bytes(self) -> int:
        """A mask is a row of 32-bit words."""
        return (len(self.token_bytes) + 31) // 32 * 4


class Backend(Protocol):
    """One library."""

    def compile(self, kind: str, text: str) -> str:
        """The compiled grammar as text, for load().

        Raises an error whose text says what is wrong.
        """

    def load(self, compiled: str) -> tuple[NewGrammar, int]:
        """What makes matchers at their beginning, and about how many bytes the grammar takes."""


def try_beginning(grammar: Grammar) -> None:
    """Write 16 tokens, at which the library may give up. Raises ValueError if no text can
    begin.
    """
    for number in range(16):
        try:
            mask = None if grammar.is_terminated else grammar.mask()
        except GrammarError:
            if not number:
                raise
            mask = None
        if mask is None:
            return
        bits = int.from_bytes(mask, "little")
        if not (bits or number):
            raise ValueError("it allows no text")
        if not bits or not grammar.accept((bits & -bits).bit_length() - 1):
            return


def literals(text: str) -> str:
    """The texts of a choice as alternatives, in the way of EBNF and of Lark."""
    return " | ".join(json.dumps(choice, ensure_ascii=False) for choice in json.loads(text))


def is_installed(name: str) -> bool:
    """Whether the package of a back end is there."""
    return name not in PACKAGES or find_spec(PACKAGES[name]) is not None


def make_backend(name: str, vocabulary: Vocabulary) -> Backend:
    """The back end of a name. Its package is imported here and not before."""
    if name == "automaton":
        return Automaton(vocabulary)
    return (XGrammar if name == "xgrammar" else Guidance)(vocabulary)


# --- xgrammar -------------------------------------------------------------------------------------


class XGrammar:
    """xgrammar: all masks of a grammar's states that do not depend on the stack are computed when
    it is compiled.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        self._xgrammar: Any = xgrammar
        self._num_words = vocabulary.num_mask_bytes // 4
        self._end_token_ids = frozenset(vocabulary.end_token_ids)
        self._info = xgrammar.TokenizerInfo(
            list(vocabulary.token_bytes),
            vocab_type=xgrammar.VocabType.RAW,
            vocab_size=len(vocabulary.token_bytes),
            stop_token_ids=list(vocabulary.end_token_ids),
        )

    def compile(self, kind: str, text: str) -> str:
        compiler = self._xgrammar.GrammarCompiler(self._info, max_threads=1, cache_enabled=False)
        if kind == "json":
            compiled = compiler.compile_json_schema(text, max_whitespace_cnt=MAX_WHITESPACE)
        elif kind == "regex":
            compiled = compiler.compile_regex(text)
        else:
            ebnf = f"root ::= {literals(text)}" if kind == "choice" else text
            compiled = compiler.compile_grammar(ebnf)
        try_beginning(self._matcher(compiled))
        return str(compiled.serialize_json())

    def load(self, compiled: str) -> tuple[NewGrammar, int]:
        grammar = self._xgrammar.CompiledGrammar.deserialize_json(compiled, self._info)
        # its memory_size_bytes forgets the rules of one that was read again
        return partial(self._matcher, grammar), len(compiled)

    def _matcher(self, grammar: Any) -> "XGrammarMatcher":
        return XGrammarMatcher(
            self._xgrammar.GrammarMatcher(grammar), self._end_token_ids, self._num_words
        )


class XGrammarMatcher:
    """A Grammar (scheduler.py)."""

    def __init__(self, matcher: Any, end_token_ids: frozenset[int], num_words: int) -> None:
        self._matcher = matcher
        self._end_token_ids = end_token_ids
        import numpy as np

        self._row = np.empty((1, num_words), np.int32)
        self.is_terminated = False  # at hand: it is asked for three times a token

    def mask(self) -> bytes | None:
        return self._row.tobytes() if self._matcher.fill_next_token_bitmask(self._row, 0) else None

    def accept(self, token_id: int) -> bool:
        if self.is_terminated or not self._matcher.accept_token(token_id):
            return False
        self.is_terminated = token_id in self._end_token_ids
        return True

    def rollback(self, num_tokens: int) -> None:
        self._matcher.rollback(num_tokens)
        self.is_terminated = False


# --- llguidance -----------------------------------------------------------------------------------


class Guidance:
    """llguidance: a lexer of derivatives and an Earley parser; masks are computed when they are
    asked for.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance

        self._matcher_cls: Any = llguidance.LLMatcher
        # of its parser, which take some milliseconds
        self._limits = llguidance.LLParserLimits(step_max_items=20_000)
        self._end_token_ids = frozenset(vocabulary.end_token_ids)
        self._num_mask_bytes = vocabulary.num_mask_bytes
        self._tokens_of = LongestMatch(vocabulary)
        self._tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(self._tokens_of),
            n_vocab=len(vocabulary.token_bytes),
            eos_token=list(vocabulary.end_token_ids),
        )

    def compile(self, kind: str, text: str) -> str:
        matcher = self._matcher_cls
        if kind == "json":
            schema, escapes = for_guidance(text)
            options = {
                "whitespace_pattern": rf"[\x20\x0A\x0D\x09]{{0,{MAX_WHITESPACE}}}",
                "json_allowed_escapes": escapes,
                "json_allow_general_unicode_escapes": True,
            }
            read = partial(matcher.grammar_from_json_schema, overrides=options)
            for each, _ in schemas_in(json.loads(schema)):
                self._check_names(each, read)
            grammar = read(schema)
        elif kind == "regex":
            grammar = matcher.grammar_from_regex(text)
        else:
            lark = f"start: {literals(text)}" if kind == "choice" else text
            grammar = matcher.grammar_from_lark(lark)
        since = process_time()
        begun = self._build(grammar)
        try_beginning(self._matcher(begun))
        checked(begun)
        if process_time() - since > MAX_TRIAL_SECONDS:
            raise ValueError(f"it takes more than {MAX_TRIAL_SECONDS} seconds to build")
        return str(grammar)

    def load(self, compiled: str) -> tuple[NewGrammar, int]:
        first = self._build(compiled)
        num_bytes = 100 * len(compiled) + 50_000  # it does not say
        return lambda: self._matcher(first.deep_copy()), num_bytes

    def _check_names(self, schema: Schema, read: Callable[[str], str]) -> None:
        """Raises ValueError if patterns of a closed object allow no name that is not declared:
        llguidance would write a comma and know no name behind it.
        """
        patterns = schema.get("patternProperties", {})
        patterns = [name for name in patterns if patterns[name] is not False]
        if patterns and schema.get("additionalProperties") is False:
            declared = dict.fromkeys(schema.get("properties", ()), False)
            names: Any = {
                "properties": declared,
                "patternProperties": dict.fromkeys(patterns, True),
            }
            names = {"type": "object", "additionalProperties": False, **names}
            beginning = self._tokens_of(b'{"')
            begun = self._build(read(json.dumps(names)))
            if begun.try_consume_tokens(beginning) < len(beginning):
                raise ValueError(f"the patterns {patterns} allow declared properties alone")

    def _matcher(self, matcher: Any) -> "GuidanceMatcher":
        return GuidanceMatcher(matcher, self._end_token_ids, self._num_mask_bytes)

    def _build(self, grammar: str) -> Any:
        matcher = self._matcher_cls(self._tokenizer, grammar, log_level=0, limits=self._limits)
        return checked(matcher)


def checked(matcher: Any) -> Any:
    """The matcher. Raises ValueError with what llguidance says of one that it has given up."""
    if matcher.is_error():
        raise ValueError(matcher.get_error().partition("\n<state>")[0])
    return matcher


class GuidanceMatcher:
    """A Grammar (scheduler.py)."""

    def __init__(self, matcher: Any, end_token_ids: frozenset[int], num_mask_bytes: int) -> None:
        self._matcher = matcher
        self._end_token_ids = end_token_ids
        self._num_mask_bytes = num_mask_bytes
        self.is_terminated = False

    def mask(self) -> bytes:
        # it may have a word more than the vocabulary needs
        mask: bytes = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            raise GrammarError("its grammar allows no text here, or is too complex for it")
        return mask[: self._num_mask_bytes]

    def accept(self, token_id: int) -> bool:
        if self.is_terminated or self._matcher.is_error():
            return False
        if token_id in self._end_token_ids:
            self.is_terminated = bool(self._matcher.is_accepting())
            return self.is_terminated
        # consume_token() would leave it unusable
        return bool(self._matcher.try_consume_tokens([token_id]) == 1)

    def rollback(self, num_tokens: int) -> None:
        # the end is no token of the matcher
        num_consumed = num_tokens - 1 if self.is_terminated else num_tokens
        self.is_terminated = False
        if num_consumed:
            self._matcher.rollback(num_consumed)


class LongestMatch:
    """The tokenizer that llguidance asks how a forced text is best written: the longest token each
    time. It asks in each step for all that is forced, and needs a beginning.
    """

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.tokens = list(vocabulary.token_bytes)
        self.eos_token_id = vocabulary.end_token_ids[0]
        self.special_token_ids = [i for i, data in enumerate(self.tokens) if not data]
        self._ids = {data: i for i, data in reversed([*enumerate(self.tokens)]) if data}
        self._longest = max(map(len, self._ids), default=1)

    def __call__(self, text: bytes) -> list[int]:
        found: list[int] = []
        text = text[: 4 * self._longest]
        while text:
            ends = range(self._longest, 0, -1)
            end = next((end for end in ends if text[:end] in self._ids), None)
            if end is None:
                break
            found.append(self._ids[text[:end]])
            text = text[end:]
        return found


# --- Python alone ---------------------------------------------------------------------------------


class Automaton:
    """Choices, whose automaton is built in the time that it takes to read them: no process is
    needed for that.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._trie = TokenTrie(*vocabulary)

    def compile(self, kind: str, text: str) -> str:
        return text

    def load(self, compiled: str) -> tuple[NewGrammar, int]:
        automaton = Choices(choice.encode() for choice in json.loads(compiled))
        masks = TokenMasks(self._trie, automaton)
        new = partial(AutomatonMatcher, self._vocabulary, automaton, masks)
        return new, automaton.num_states * self._vocabulary.num_mask_bytes


class AutomatonMatcher:
    """A Grammar (scheduler.py)."""

    def __init__(self, vocabulary: Vocabulary, automaton: ByteAutomaton, masks: TokenMasks) -> None:
        self._vocabulary, self._automaton, self._masks = vocabulary, automaton, masks
        # behind each token; None: behind the end
        self._states: list[int | None] = [automaton.start]

    @property
    def is_terminated(self) -> bool:
        return self._states[-1] is None

    def mask(self) -> bytes | None:
        state = self._states[-1]
        return None if state is None else array("i", self._masks.mask(state)).tobytes()

    def accept(self, token_id: int) -> bool:
        state, data = self._states[-1], self._vocabulary.token_bytes[token_id]
        if token_id in self._vocabulary.end_token_ids:
            is_allowed, state = state is not None and self._automaton.is_accepting(state), None
        else:
            for byte in data:
                state = None if state is None else self._automaton.next_state(state, byte)
            is_allowed = state is not None and data != b""
        if is_allowed:
            self._states.append(state)
        return is_allowed

    def rollback(self, num_tokens: int) -> None:
        del self._states[len(self._states) - num_tokens :]


MakeVocabulary = Callable[[], Vocabulary]
