# === counted_first
"""As on a GPU: counts, where each expert begins, and then each pair goes to its place."""

from heapq import nlargest
from itertools import accumulate
from math import exp

from labkit.ranks.routing import NO_EXPERT, Aligned


def route(logits, top_k, *, renormalize):
    weights, experts = [], []
    for row in logits:
        chosen = nlargest(top_k, range(len(row)), key=lambda expert: (row[expert], -expert))  # noqa: B023
        shifted = [exp(logit - row[chosen[0]]) for logit in row]
        shares = [shifted[expert] / sum(shifted) for expert in chosen]
        weights.append([share / sum(shares) for share in shares] if renormalize else shares)
        experts.append(chosen)
    return weights, experts


def align(experts, num_experts, block_size, expert_map=None):
    chosen = [expert for row in experts for expert in row]
    counts = [0] * num_experts
    for expert in chosen:
        counts[expert] += 1
    blocks = [(count + block_size - 1) // block_size for count in counts]
    ends = list(accumulate(blocks))
    most = (len(chosen) + min(len(chosen), num_experts) * (block_size - 1)) // block_size
    pairs = [len(chosen)] * (most * block_size)
    place = [(end - number) * block_size for end, number in zip(ends, blocks)]  # noqa: B905
    for pair, expert in enumerate(chosen):
        pairs[place[expert]] = pair
        place[expert] += 1
    owners = [NO_EXPERT] * most
    for expert, (end, number) in enumerate(zip(ends, blocks)):  # noqa: B905
        owners[end - number : end] = [expert_map[expert] if expert_map else expert] * number
    return Aligned(pairs, owners)


# === sorted_pairs
"""The pairs are sorted by their experts, and cut where the expert changes."""

from itertools import groupby
from math import exp, log

from labkit.ranks.routing import Aligned


def log_of_sum(numbers):
    largest = max(numbers)
    return largest + log(sum(exp(number - largest) for number in numbers))


def route(logits, top_k, *, renormalize):
    found = [], []
    for row in logits:
        order = sorted(enumerate(row), key=lambda each: each[1], reverse=True)  # stable
        chosen, values = zip(*order[:top_k])  # noqa: B905
        total = log_of_sum(values if renormalize else row)
        found[0].append([exp(value - total) for value in values])
        found[1].append(list(chosen))
    return found


def align(experts, num_experts, block_size, expert_map=None):
    chosen = [expert for row in experts for expert in row]
    total, pairs, owners = len(chosen), [], []
    for expert, own in groupby(sorted(range(total), key=chosen.__getitem__), key=chosen.__getitem__):
        pairs += own
        while len(pairs) % block_size:
            pairs.append(total)
        owners += [expert if expert_map is None else expert_map[expert]] * (len(pairs) // block_size - len(owners))
    while len(owners) < (total + min(total, num_experts) * (block_size - 1)) // block_size:
        pairs += [total] * block_size
        owners.append(-1)
    return Aligned(pairs, owners)
