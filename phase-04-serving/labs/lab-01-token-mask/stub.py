"""Lab 04.1: A grammar is a mask (35 minutes). What must hold is in contract.md."""

from collections.abc import Collection, Sequence
from typing import Any

from labkit import todo
from mini_vllm.structured.automaton import ByteAutomaton


class TokenTrie:
    """The tokens of a vocabulary by their bytes, for any number of automata."""

    def __init__(self, token_bytes: Sequence[bytes], end_token_ids: Collection[int]) -> None:
        todo("04.1")

    def mask(self, automaton: ByteAutomaton, state: int) -> Sequence[int]:
        """The tokens that are allowed in a state, as words of 32 bits: bit i of word w is token 32
        w + i.
        """
        todo("04.1")


class TokenMasks:
    """The masks of one automaton. Each is computed when its state is first asked for."""

    def __init__(self, trie: TokenTrie, automaton: ByteAutomaton) -> None:
        todo("04.1")

    def mask(self, state: int) -> Sequence[int]:
        """As TokenTrie.mask() has it."""
        todo("04.1")
