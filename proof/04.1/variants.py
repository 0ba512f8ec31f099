# === recursive_nodes
"""A class for nodes, a walk that calls itself, and a cache of functools; bits are added to the words one by one."""

from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial

from mini_vllm.structured.automaton import ByteAutomaton


class Node:
    def __init__(self) -> None:
        self.children: dict[int, Node] = {}
        self.token_ids: list[int] = []

    def allowed(self, automaton: ByteAutomaton, state: int) -> Iterator[int]:
        for byte, child in self.children.items():
            behind = automaton.next_state(state, byte)
            if behind is not None:
                yield from child.token_ids
                yield from child.allowed(automaton, behind)


class TokenTrie:
    def __init__(self, token_bytes: Sequence[bytes], end_token_ids: Collection[int]) -> None:
        self.root, self.num_tokens, self.end_token_ids = Node(), len(token_bytes), tuple(end_token_ids)
        for token_id, data in enumerate(token_bytes):
            if data and token_id not in self.end_token_ids:
                node = self.root
                for byte in data:
                    if byte not in node.children:
                        node.children[byte] = Node()
                    node = node.children[byte]
                node.token_ids.append(token_id)

    def mask(self, automaton: ByteAutomaton, state: int) -> list[int]:
        words = [0] * -(-self.num_tokens // 32)
        found = set(self.root.allowed(automaton, state))
        if automaton.is_accepting(state):
            found.update(self.end_token_ids)
        for token_id in found:
            words[token_id // 32] += 1 << token_id % 32
        return [word - 2**32 if word >= 2**31 else word for word in words]


class TokenMasks:
    def __init__(self, trie: TokenTrie, automaton: ByteAutomaton) -> None:
        self.known = cache(partial(trie.mask, automaton))

    def mask(self, state: int) -> Sequence[int]:
        return self.known(state)


# === sorted_tokens
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


# === masks_by_attribute
"""No tree: the state behind each beginning is remembered. The method mask is an attribute that each object gets."""

from collections.abc import Callable, Collection, Sequence

from mini_vllm.structured.automaton import ByteAutomaton


class TokenTrie:
    def __init__(self, token_bytes: Sequence[bytes], end_token_ids: Collection[int]) -> None:
        self.token_bytes, self.ends = token_bytes, frozenset(end_token_ids)

    def mask(self, automaton: ByteAutomaton, state: int) -> Sequence[int]:
        behind: dict[bytes, int | None] = {b"": state}
        words = [0] * -(-len(self.token_bytes) // 32)
        accepts = automaton.is_accepting(state)
        for token_id, data in enumerate(self.token_bytes):
            for end in range(1, len(data) + 1 if token_id not in self.ends else 0):
                before = behind[data[: end - 1]]
                if data[:end] not in behind:
                    behind[data[:end]] = None if before is None else automaton.next_state(before, data[end - 1])
            if accepts if token_id in self.ends else data and behind[data] is not None:
                words[token_id // 32] |= 1 << token_id % 32
        return tuple(word - (word >> 31 << 32) for word in words)


class TokenMasks:
    def __init__(self, trie: TokenTrie, automaton: ByteAutomaton) -> None:
        class Memory(dict[int, Sequence[int]]):
            def __missing__(self, state: int) -> Sequence[int]:
                return self.setdefault(state, trie.mask(automaton, state))

        self.mask: Callable[[int], Sequence[int]] = Memory().__getitem__
