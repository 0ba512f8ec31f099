# === finished_means
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


# === gathers_first
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


# === head_by_head
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


# === logarithm_of_the_sum
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


# === masked_blocks
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


# === token_by_token
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
