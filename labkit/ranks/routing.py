"""Which experts a token goes to, and the pairs of tokens and experts in blocks that belong to one expert each.

The reference of lab 08.4. Source: Shazeer et al., "Outrageously Large Neural Networks" (2017); vLLM: fused_topk in
vllm/model_executor/layers/fused_moe, and moe_align_block_size. The engine's own are in mini_vllm/models/moe.
"""

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

NO_EXPERT = -1


class Aligned(NamedTuple):
    """Pairs of a token and an expert, sorted by expert, in blocks of block_size.

    pairs: numbers of pairs, t * k + j for choice j of token t; their number, T * k, stands for padding. experts: of
    each block; NO_EXPERT for one of padding alone.
    """

    pairs: list[int]
    experts: list[int]


def route(
    logits: Sequence[Sequence[float]], top_k: int, *, renormalize: bool
) -> tuple[list[list[float]], list[list[int]]]:
    """Weights and experts of each token, T lists of top_k each, the largest weight first, from T rows of E logits."""
    weights, experts = [], []
    for row in logits:
        largest = max(row)
        parts = [exp(logit - largest) for logit in row]
        chosen = sorted(range(len(row)), key=lambda expert: (-row[expert], expert))[:top_k]
        total = sum(parts[expert] for expert in chosen) if renormalize else sum(parts)
        experts.append(chosen)
        weights.append([parts[expert] / total for expert in chosen])
    return weights, experts


def align(
    experts: Sequence[Sequence[int]], num_experts: int, block_size: int, expert_map: Sequence[int] | None = None
) -> Aligned:
    """From the experts that each token has chosen. The number of blocks depends on the numbers T, k and E alone.

    expert_map: by expert, its place among those of this rank, or NO_EXPERT; the blocks then have places.
    """
    own: list[list[int]] = [[] for _ in range(num_experts)]
    num_pairs = 0
    for row in experts:
        for expert in row:
            own[expert].append(num_pairs)
            num_pairs += 1
    found = Aligned([], [])
    for expert, pairs in enumerate(own):
        num_blocks = -(-len(pairs) // block_size)
        found.pairs.extend(pairs + [num_pairs] * (num_blocks * block_size - len(pairs)))
        found.experts.extend([expert if expert_map is None else expert_map[expert]] * num_blocks)
    most = (num_pairs + min(num_pairs, num_experts) * (block_size - 1)) // block_size
    rest = most - len(found.experts)
    found.pairs.extend([num_pairs] * (rest * block_size))
    found.experts.extend([NO_EXPERT] * rest)
    return found
