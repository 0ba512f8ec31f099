"""Takes whole blocks and clears what is out of sight in both caches' copies before anything is multiplied; powers of 2."""

import math

import torch

from mini_vllm.attention.reference import OnlineSoftmax as ReferenceOnlineSoftmax


class OnlineSoftmax(ReferenceOnlineSoftmax):
    """What is not defined here is the reference's."""

    def add(self, scores, values):
        """exp(x) is 2 to the power of x / ln 2; the maximum is kept in these units."""
        scores = scores / math.log(2)
        maximum = torch.cat([self.maximum[..., None], scores], -1).amax(-1)
        weights, factor = torch.exp2(scores - maximum[..., None]), torch.exp2(self.maximum - maximum)
        self.maximum = maximum
        self.normaliser.mul_(factor).add_(weights.sum(-1))
        self.weighted_sum.mul_(factor[..., None]).add_(torch.matmul(weights, values.movedim(0, 1)))

    def result(self):
        """The mean so far."""
        return self.weighted_sum.div(self.normaliser[..., None])


def attend_one(query, key_cache, value_cache, block_table, begin, end, scale):
    """Block by block, all of them full."""
    block_size, num_kv_heads, head_dim = key_cache.shape[1:]
    grouped = query.float().reshape(num_kv_heads, -1, head_dim)
    softmax = OnlineSoftmax(num_kv_heads, grouped.shape[1], head_dim, query.device)
    for column in range(begin // block_size, math.ceil(end / block_size)):
        positions = torch.arange(column * block_size, (column + 1) * block_size)
        visible = (positions >= begin) & (positions < end)
        keys, values = (
            cache[block_table[column]].float().masked_fill(~visible[:, None, None], 0.0)
            for cache in (key_cache, value_cache)
        )
        scores = torch.matmul(grouped, keys.permute(1, 2, 0)) * scale
        softmax.add(scores.masked_fill(~visible, -math.inf), values)
    return softmax.result().reshape(query.shape).to(query.dtype)
