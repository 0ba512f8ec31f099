"""No tree: the tokens are sorted, and each says how many bytes it shares with the one before it."""

import struct
from collections.abc import Collection, Sequence
from os.path import commonprefix

from mini_vllm.structured.automaton import ByteAutomaton


class TokenTrie:
    def __init__(self, token_bytes: Sequence[bytes], end_token_ids: Collection[int]) -> None:
        self.size, self.ends = len(token_bytes), set(end_token_ids)
        order = sorted((data, i) for i, data in enumerate(token_bytes) if data and i not in self.ends)
        before = [b"", *(data for data, _ in order)]
        self.order = [(i, data, len(commonprefix([data, last]))) for (data, i), last in zip(order, before)]

    def mask(self, automaton: ByteAutomaton, state: int) -> Sequence[int]:
        bits = sum(1 << i for i in self.ends) if automaton.is_accepting(state) else 0
        states: list[int | None] = [state]  # behind so many bytes of the token; the last one may be None
        for token_id, data, shared in self.order:
            del states[shared + 1 :]
            while len(states) <= len(data) and (last := states[-1]) is not None:
                states.append(automaton.next_state(last, data[len(states) - 1]))
            if len(states) == len(data) + 1 and states[-1] is not None:
                bits |= 1 << token_id
        num_words = (self.size + 31) // 32
        return struct.unpack(f"<{num_words}i", bits.to_bytes(4 * num_words, "little"))


class TokenMasks:
    def __init__(self, trie: TokenTrie, automaton: ByteAutomaton) -> None:
        self.trie, self.automaton = trie, automaton
        self.known: dict[int, Sequence[int]] = {}

    def mask(self, state: int) -> Sequence[int]:
        found = self.known.get(state)
        return self.known.setdefault(state, self.trie.mask(self.automaton, state)) if found is None else found
