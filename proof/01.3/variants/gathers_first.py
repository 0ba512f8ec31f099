"""Keeps copies of all pieces and takes torch's softmax at the end; gathers every visible key before it looks at one."""

import torch

from mini_vllm.attention.reference import OnlineSoftmax as ReferenceOnlineSoftmax


class OnlineSoftmax(ReferenceOnlineSoftmax):
    """What is not defined here is the reference's."""

    def add(self, scores, values):
        """Keep a copy of the piece."""
        vars(self).setdefault("pieces", []).append((scores.clone(), values.clone()))

    def result(self):
        """One softmax over all that was kept."""
        scores, values = torch.cat([s for s, _ in self.pieces], -1), torch.cat([v for _, v in self.pieces])
        return torch.softmax(scores, -1) @ values.transpose(0, 1)


def attend_one(query, key_cache, value_cache, block_table, begin, end, scale):
    """Gather, then attend as if there were no pages."""
    block_size, num_kv_heads = key_cache.shape[1:3]
    slots = torch.tensor([block_table[p // block_size] * block_size + p % block_size for p in range(begin, end)])
    group = query.shape[0] // num_kv_heads
    keys, values = (
        cache.flatten(0, 1)[slots].float().repeat_interleave(group, dim=1) for cache in (key_cache, value_cache)
    )
    scores = (keys * query.float()).sum(-1) * scale
    return (torch.softmax(scores, 0)[..., None] * values).sum(0).to(query.dtype)
