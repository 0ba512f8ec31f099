"""Slots by the function itself, with arrays; attention with numbers that can be worked out by hand."""

from math import exp

import torch

CASE_A = {"culprit": "mini_vllm.attention.metadata:to_slots", "step": 1, "why": "6 slots in block 1, then block 2"}
CASE_B = {"culprit": "mini_vllm.attention.reference:OnlineSoftmax.add", "step": 8, "why": "8 keys weigh as much as one"}


def test_slots(lab):
    tables = torch.tensor([[9, 4, 7, 1], [2, 8, 3, 5]], dtype=torch.int32).numpy()
    requests = torch.tensor([0, 0, 1, 1, 1]).numpy()
    positions = torch.tensor([2, 3, 5, 6, 11]).numpy()
    slots = lab.to_slots(tables, requests, positions, 3).tolist()
    assert slots == [29, 12, 26, 9, 17]


def test_two_keys(lab):
    """Blocks of one slot: the second key, the third one and so on bring a larger score, or a smaller one."""
    for scores in ([0, 1, 2], [2, 1, 0], [0, 2, 1, 3], [80, -20, -80], [-80, 20, 80]):
        caches = torch.zeros(2, 6, 1, 1, 1)
        for place, score in enumerate(scores):
            caches[:, 5 - place, 0, 0, 0] = torch.tensor([score, place + 1])
        weights = [exp(score - max(scores)) for score in scores]
        wanted = sum(weight * (place + 1) for place, weight in enumerate(weights)) / sum(weights)
        table = [5 - place for place in range(len(scores))]
        got = lab.attend_one(torch.ones(1, 1), *caches, table, 0, len(scores), 1.0).item()
        assert abs(got - wanted) <= 1e-5 * len(scores), (scores, got, wanted)
