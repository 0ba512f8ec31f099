"""The longest hit that all groups have: a fixed point.

Each family of equal groups looks for its longest hit within the shortest so far, until one round
changes nothing. A family that sees all is asked once: of its hit every beginning is one, too.
Source: HybridKVCacheCoordinator.find_longest_cache_hit in vllm/v1/core/kv_cache_coordinator.py.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mini_vllm.offload.hybrid.groups import FullAttention, IsCached

Family = tuple[FullAttention, Sequence[int]]
"""What equal groups see, and which ones these are."""


class AgreedHit(NamedTuple):
    """num_tokens: of the hit; longest: of what any family found on the way; firsts: by kind, where
    it needs blocks from on.
    """

    num_tokens: int
    longest: int
    firsts: dict[FullAttention, int]


def families_of(groups: Sequence[FullAttention]) -> list[Family]:
    """Equal groups together, in order of appearance; those that see all come first."""
    families: dict[FullAttention, list[int]] = {}
    for g, kind in enumerate(groups):
        families.setdefault(kind, []).append(g)
    return sorted(families.items(), key=lambda family: type(family[0]) is not FullAttention)


def find_agreed_hit(
    families: Sequence[Family],
    is_cached: Callable[[Family], IsCached],
    num_tokens: int,
    alignment: int,
) -> AgreedHit:
    """The longest hit of at most num_tokens tokens. It ends at a multiple of alignment."""
    firsts: dict[FullAttention, int] = {}
    full_hits: dict[FullAttention, int] = {}
    longest = 0
    # two families, of which one sees all, agree in one round
    is_simple = len(families) == 2 and type(families[0][0]) is FullAttention
    while True:
        before = num_tokens
        for family in families:
            kind = family[0]
            if kind in full_hits:
                num_tokens = min(num_tokens, full_hits[kind])
                continue
            firsts[kind], num_tokens = kind.find_longest_hit(
                is_cached(family), num_tokens, alignment
            )
            longest = max(longest, num_tokens)
            if type(kind) is FullAttention:
                full_hits[kind] = num_tokens
        if num_tokens == before or is_simple or len(families) == 1:
            return AgreedHit(num_tokens, longest, firsts)
