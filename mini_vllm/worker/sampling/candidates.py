"""min_p, top_k and top_p for many rows at once, without a question to the device."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mini_vllm.step import SamplingRow

UNIT = 2**40  # of probability, as an integer: a sum of these is the same in any order
DIGIT_BITS = 11
SHIFTS = (20, 9, 0)  # of the digits of a float32 whose sign is known


class Limits(NamedTuple):
    """What restricts each of R rows, [R] float64, and what the host knows of it: the largest top_k,
    and whether a row has a min_p or a top_p.
    """

    temperature: Tensor
    min_p: Tensor
    top_k: Tensor
    top_p: Tensor
    most_k: int
    has_min_p: bool
    has_top_p: bool


def limits_of(rows: Sequence[SamplingRow], numbers: Tensor) -> Limits:
    """numbers [4, R] float64: temperature, min_p, top_k, top_p of these rows, on the device."""
    params = [row.params for row in rows]
    temperature, min_p, top_k, top_p = numbers.unbind()
    most_k = max((p.top_k for p in params), default=0)
    has_min_p, has_top_p = any(p.min_p for p in params), any(p.top_p < 1 for p in params)
    return Limits(temperature, min_p, top_k, top_p, most_k, has_min_p, has_top_p)


def candidates(logits: Tensor, peaks: Tensor, limits: Limits) -> Tensor:
    """Scores [R, V], -inf for what is no candidate. peaks [R]: the rows' maxima."""
    # the peak at 0: no temperature can overflow it
    scores = logits.float() - peaks.float().unsqueeze(1)
    scores /= limits.temperature.float().unsqueeze(1)
    if limits.has_min_p:
        scores.masked_fill_(~keep_min_p(scores, limits.min_p.unsqueeze(1)), -torch.inf)
    if limits.most_k > 0:
        most_k = min(limits.most_k, scores.shape[1])
        scores.masked_fill_(~keep_top_k(scores, limits.top_k.unsqueeze(1), most_k), -torch.inf)
    if limits.has_top_p:
        scores.masked_fill_(~keep_top_p(scores, limits.top_p.unsqueeze(1)), -torch.inf)
    return scores


def keep_min_p(scores: Tensor, min_p: Tensor) -> Tensor:
    """p >= min_p * p_max; min_p [R, 1]. The peak is at 0, so log(p / p_max) is the score itself."""
    return scores >= min_p.log().float()


def keep_top_k(scores: Tensor, top_k: Tensor, most_k: int) -> Tensor:
    """Everything at least as likely as the k-th: ties with it stay (vLLM: apply_top_k_only).

    top_k [R, 1]: below 1, or from V on, it restricts nothing. most_k: no row has more.
    """
    k = top_k.long()
    least = scores.topk(most_k).values.gather(1, (k - 1).clamp(0, most_k - 1))
    return (scores >= least) | (k < 1) | (k >= scores.shape[1])


def keep_top_p(scores: Tensor, top_p: Tensor) -> Tensor:
    """The smallest set of the most likely tokens whose mass reaches p; among equals the lower token
    ids. scores [R, V]: at most 0; top_p [R, 1].

    A radix select: the bits of a score, whose sign is known, are ordered as the scores are. So the
    mass of each value of the upper bits says in which of them the edge lies, and the next bits say
    where in it. At 150,000 tokens a sort takes ten times as long, and a guess of the number of
    tokens asks the device whether it was enough. Masses are integers, since the order of a sum of
    floats would be that of the threads.
    """
    bits = scores.abs().view(torch.int32)
    mass = (scores.softmax(-1) * UNIT).long()
    wanted = (top_p * UNIT).ceil().long().clamp_(min=1).minimum(mass.sum(-1, keepdim=True))
    edge = torch.zeros_like(wanted, dtype=torch.int32)
    num_digits = 1 << DIGIT_BITS
    for shift in SHIFTS:
        # 0 and num_digits + 1 are all that lies before and behind what this digit tells apart
        digit = (bits - edge).bitwise_right_shift_(shift).clamp_(-1, num_digits).add_(1).long()
        sums = mass.new_zeros(len(mass), num_digits + 2).scatter_add_(1, digit, mass)
        reached = sums.cumsum(-1)
        value = torch.searchsorted(reached, wanted).clamp_(1, num_digits)
        edge = edge + (value - 1 << shift).int()
    # equals of the edge, in the order of ids, until what is wanted of them is there
    is_edge = bits == edge
    place = is_edge.cumsum(-1)
    each = (sums.gather(1, value) // place[:, -1:].clamp(min=1)).clamp_(min=1)
    num_kept = (wanted - reached.gather(1, value - 1) + each - 1) // each
    return (is_edge & (place <= num_kept)) | (bits < edge) | (top_p >= 1)
