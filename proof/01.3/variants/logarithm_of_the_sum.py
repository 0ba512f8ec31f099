"""Keeps the mean and the logarithm of the sum of exponentials: two numbers instead of three, as split decodes are merged."""

import torch

from mini_vllm.attention.reference import OnlineSoftmax as ReferenceOnlineSoftmax


class OnlineSoftmax(ReferenceOnlineSoftmax):
    """What is not defined here is the reference's."""

    def add(self, scores, values):
        """maximum holds the logarithm of the sum, weighted_sum the mean."""
        of_piece = torch.logsumexp(scores.double(), dim=-1)
        both = torch.logaddexp(self.maximum.double(), of_piece)
        shares = torch.exp(scores - both.unsqueeze(-1)).float()
        self.weighted_sum = self.weighted_sum * torch.exp(self.maximum - both).float().unsqueeze(-1)
        self.weighted_sum = self.weighted_sum + torch.einsum("hgn,nhd->hgd", shares, values)
        self.maximum = both

    def result(self):
        """The mean so far."""
        return self.weighted_sum.clone()


def attend_one(query, key_cache, value_cache, block_table, begin, end, scale):
    """All blocks in sight at once; torch's softmax in float64."""
    block_size, num_kv_heads, head_dim = key_cache.shape[1:]
    columns = range(begin // block_size, (end - 1) // block_size + 1)
    inside = slice(begin - columns.start * block_size, end - columns.start * block_size)
    keys, values = (
        cache[[block_table[column] for column in columns]].flatten(0, 1)[inside].double()
        for cache in (key_cache, value_cache)
    )
    grouped = query.double().reshape(num_kv_heads, -1, head_dim)
    weights = torch.softmax(scale * torch.einsum("hgd,nhd->hgn", grouped, keys), dim=-1)
    return torch.einsum("hgn,nhd->hgd", weights, values).reshape(query.shape).to(query.dtype)
