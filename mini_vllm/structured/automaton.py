"""Which tokens an automaton over bytes allows, in Python alone: what `choice` needs where no
library is installed.

A grammar speaks of bytes, a model of tokens. An automaton takes one byte at a time: from a state a
byte leads to a state, or no right text has it there. So a token is allowed if its bytes lead on,
one after the other. A trie holds the tokens, so the bytes that many of them begin with are tried
once. Source: Willard and Louf 2023, "Efficient Guided Generation"; the bitmask is that of xgrammar
(Dong et al. 2024).
"""

from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol


class ByteAutomaton(Protocol):
    """A deterministic automaton. Some right text goes through every state that it names."""

    start: int

    def next_state(self, state: int, byte: int) -> int | None:
        """Where a byte leads; None if no right text has it there."""

    def is_accepting(self, state: int) -> bool:
        """Whether a right text may end here."""


class Choices:
    """The automaton of a few texts. A state is a beginning of a text."""

    start = 0

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._next: list[dict[int, int]] = [{}]  # by state: where a byte leads
        self._accepting: set[int] = set()
        for text in texts:
            state = self.start
            for byte in text:
                state = self._next[state].setdefault(byte, len(self._next))
                if state == len(self._next):
                    self._next.append({})
            self._accepting.add(state)

    @property
    def num_states(self) -> int:
        return len(self._next)

    def next_state(self, state: int, byte: int) -> int | None:
        return self._next[state].get(byte)

    def is_accepting(self, state: int) -> bool:
        return state in self._accepting


class TokenTrie:
    """The tokens of a vocabulary by their bytes, for any number of automata."""

    def __init__(self, token_bytes: Sequence[bytes], end_token_ids: Collection[int]) -> None:
        self._num_words = (len(token_bytes) + 31) // 32
        self._end_token_ids = end_token_ids
        # by byte the node behind it; by None the tokens that end here
        self._root: dict[Any, Any] = {}
        for token_id, data in enumerate(token_bytes):
            node = self._root
            for byte in data if token_id not in end_token_ids else b"":
                node = node.setdefault(byte, {})
            node.setdefault(None, []).append(token_id)

    def mask(self, automaton: ByteAutomaton, state: int) -> Sequence[int]:
        """The tokens that are allowed in a state, as words of 32 bits: bit i of word w is token 32
        w + i.
        """
        row = bytearray(4 * self._num_words)
        allowed = [*self._end_token_ids] if automaton.is_accepting(state) else []
        reached = [(self._root, state)]
        while reached:
            node, state = reached.pop()
            for byte, child in node.items():
                if byte is not None and (behind := automaton.next_state(state, byte)) is not None:
                    allowed += child.get(None, ())
                    reached.append((child, behind))
        for token_id in allowed:
            row[token_id // 8] |= 1 << token_id % 8
        return array("i", bytes(row))


class TokenMasks:
    """The masks of one automaton. Each is computed when its state is first asked for."""

    def __init__(self, trie: TokenTrie, automaton: ByteAutomaton) -> None:
        self._trie = trie
        self._automaton = automaton
        self._known: dict[int, Sequence[int]] = {}

    def mask(self, state: int) -> Sequence[int]:
        """As TokenTrie.mask() has it."""
        if state not in self._known:
            self._known[state] = self._trie.mask(self._automaton, state)
        return self._known[state]
