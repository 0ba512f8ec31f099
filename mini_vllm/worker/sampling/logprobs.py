"""Log-probabilities of raw logits (vLLM: Sampler.gather_logprobs)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mini_vllm.step import Logprob


class Gathered(NamedTuple):
    """Of R rows, on the device: the token's own log-probability and rank [R, 2], and those of the
    k most likely ones: ids [R, k] and values [R, k], all float64.
    """

    own: Tensor
    top_ids: Tensor
    top_values: Tensor


def compute_logprobs(logits: Tensor, token_ids: Tensor, k: int) -> Gathered:
    """token_ids [R]. A rank is the count of tokens at least as likely."""
    logprobs = logits.float().log_softmax(-1)
    sampled = logprobs.gather(1, token_ids.unsqueeze(1))
    ranks = (logprobs >= sampled).sum(-1, keepdim=True)
    top = logprobs.topk(min(k, logits.shape[1]))
    return Gathered(
        torch.cat((sampled.double(), ranks.double()), 1), top.indices.double(), top.values.double()
    )


def to_dict(
    token_id: int, k: int, own: Sequence[float], ids: Sequence[float], values: Sequence[float]
) -> dict[int, Logprob]:
    """One row as it is answered: the sampled token and the k most likely ones, whose place is their
    rank.
    """
    found = {token_id: Logprob(own[0], int(own[1]))}
    best = zip(ids[:k], values, range(1, len(ids) + 1), strict=False)
    return found | {int(name): Logprob(value, rank) for name, value, rank in best}


def gather_logprobs(
    logits: Tensor, token_ids: Sequence[int], num_logprobs: Sequence[int | None]
) -> dict[int, dict[int, Logprob]]:
    """The same for tokens that the host knows, as those of a prompt, for each row with a number."""
    rows = [i for i, k in enumerate(num_logprobs) if k is not None]
    if not rows:
        return {}
    most = max(k for k in num_logprobs if k is not None)
    ids = torch.tensor([token_ids[i] for i in rows], device=logits.device)
    gathered = compute_logprobs(logits[rows], ids, most)
    return {
        i: to_dict(token_ids[i], num_logprobs[i] or 0, *row)
        for i, row in zip(
            rows, zip(*(each.tolist() for each in gathered), strict=True), strict=True
        )
    }
