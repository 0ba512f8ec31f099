"""Walks the blocks once for each query head, with a softmax of one head each."""

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
    """Head by head."""
    block_size, num_kv_heads, head_dim = key_cache.shape[1:]
    group = query.shape[0] // num_kv_heads
    output = torch.empty_like(query)
    for head, vector in enumerate(query.float()):
        softmax = OnlineSoftmax(1, 1, head_dim, query.device)
        start = begin
        while start < end:
            column = start // block_size
            stop = min(end, (column + 1) * block_size)
            place = block_table[column], slice(start % block_size, start % block_size + stop - start), head // group
            scores = key_cache[place].float() @ vector * scale
            softmax.add(scores[None, None], value_cache[place].float()[:, None])
            start = stop
        output[head] = softmax.result()[0, 0]
    return output
