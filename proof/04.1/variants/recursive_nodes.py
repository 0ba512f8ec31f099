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
