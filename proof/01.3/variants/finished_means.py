"""Keeps the mean of what was seen finished, and mixes in each piece's mean by its share, as split attention merges parts."""

import torch

from mini_vllm.attention.reference import OnlineSoftmax as ReferenceOnlineSoftmax


class OnlineSoftmax(ReferenceOnlineSoftmax):
    """What is not defined here is the reference's."""

    def add(self, scores, values):
        """Mix the mean of the piece into the mean so far, by their shares of the sum of exponentials."""
        top = scores.amax(-1)
        weights = torch.exp(scores - top[..., None])
        of_piece = weights.sum(-1)
        mean = torch.einsum("hgn,nhd->hgd", weights / of_piece[..., None], values)
        maximum = torch.maximum(self.maximum, top)
        before, after = self.normaliser * torch.exp(self.maximum - maximum), of_piece * torch.exp(top - maximum)
        self.maximum, self.normaliser = maximum, before + after
        self.weighted_sum = self.weighted_sum + (mean - self.weighted_sum) * (after / self.normaliser)[..., None]

    def result(self):
        """The mean is kept finished."""
        return self.weighted_sum.clone()


def attend_one(query, key_cache, value_cache, block_table, begin, end, scale):
    """The blocks from the last to the first."""
    block_size, num_kv_heads, head_dim = key_cache.shape[1:]
    heads = query.float().unflatten(0, (num_kv_heads, -1))
    softmax = OnlineSoftmax(num_kv_heads, heads.shape[1], head_dim, query.device)
    for column in reversed(range(begin // block_size, (end - 1) // block_size + 1)):
        positions = [p for p in range(column * block_size, (column + 1) * block_size) if begin <= p < end]
        offsets = [p % block_size for p in positions]
        keys, values = (cache[block_table[column]][offsets].float() for cache in (key_cache, value_cache))
        scores = heads @ keys.permute(1, 2, 0) * scale
        softmax.add(scores, values)
    return softmax.result().flatten(0, 1).to(query.dtype)
