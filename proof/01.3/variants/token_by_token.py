"""Takes one position after the other, each a piece of one key, and finds its block by dividing."""

import torch

from mini_vllm.attention.reference import OnlineSoftmax as ReferenceOnlineSoftmax


class OnlineSoftmax(ReferenceOnlineSoftmax):
    """What is not defined here is the reference's."""

    def add(self, scores, values):
        """Take in a piece."""
        old, self.maximum = self.maximum, torch.maximum(self.maximum, scores.max(dim=-1).values)
        factor = (old - self.maximum).exp()
        weights = (scores - self.maximum.unsqueeze(-1)).exp()
        self.normaliser = factor * self.normaliser + weights.sum(-1)
        self.weighted_sum = factor.unsqueeze(-1) * self.weighted_sum + weights @ values.transpose(0, 1)

    def result(self):
        """The weighted mean so far."""
        return self.weighted_sum / self.normaliser.unsqueeze(-1)


def attend_one(query, key_cache, value_cache, block_table, begin, end, scale):
    """Position by position."""
    _, block_size, num_kv_heads, head_dim = key_cache.shape
    softmax = OnlineSoftmax(num_kv_heads, len(query) // num_kv_heads, head_dim, query.device)
    grouped = query.to(torch.float32).reshape(num_kv_heads, len(query) // num_kv_heads, head_dim)
    for position in range(begin, end):
        column, offset = divmod(position, block_size)
        key = key_cache[block_table[column], offset].to(torch.float32)
        value = value_cache[block_table[column], offset].to(torch.float32)
        score = (grouped * key[:, None]).sum(-1, keepdim=True) * scale
        softmax.add(score, value[None])
    return softmax.result().flatten(0, 1).type_as(query)
