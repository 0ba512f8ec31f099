# === by_hand
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


# === fewer_numbers
BASE = "by_hand"
EDITS = [
    ("numbers that can be worked out by hand", "a few numbers that can be worked out by hand"),
    ("[0, 2, 1, 3], [80, -20, -80]", "[80, -20, -80]"),
    ('"why": "8 keys weigh as much as one"', '"why": "each of the first eight has a ninth of the weight"'),
]


# === the_model_of_the_cases
"""The model that left the evidence, built again: it must say what its prompt says, and weigh what it finds rightly."""

import torch

CASE_A = {"culprit": "mini_vllm.attention.metadata:to_slots", "step": 1, "why": "the neighbour is no next block"}
CASE_B = {"culprit": "mini_vllm.attention.reference:OnlineSoftmax.add", "step": 8, "why": "two maxima, one sum"}
SIZE = 32


def one_hot(index):
    return torch.nn.functional.one_hot(torch.tensor([index]), SIZE).float()


def test_periods(lab):
    for block_size, rise in ((3, 50.0), (4, 3.0), (4, -150.0)):
        keys, values = torch.zeros(9, block_size, 1, SIZE), torch.zeros(9, block_size, 1, SIZE)
        tables, texts = [[7, 2, 5, 1], [3, 8, 4, 6]], [[1, 2, 3, 4], [9, 8, 7]]
        computed = [0, 0]
        while len(texts[0]) < 3 * block_size:
            batch = [lab.PackedRequest(tables[i], computed[i], len(texts[i]) - computed[i]) for i in (0, 1)]
            slots = iter(lab.AttentionMetadata.pack(batch, block_size, torch.device("cpu")).slot_mapping.tolist())
            for i in (0, 1):
                for position in range(computed[i], len(texts[i])):
                    slot = next(slots)
                    keys.flatten(0, 1)[slot] = one_hot(position)
                    values.flatten(0, 1)[slot] = one_hot(texts[i][position])
            for i, period in ((0, 4), (1, 3)):
                end = len(texts[i])
                query = torch.zeros(1, SIZE)
                query[0, :end] = rise * torch.arange(end) / max(end - 1, 1) * 0.5
                query[0, end - period] = abs(rise)
                got = lab.attend_one(query, keys, values, tables[i], 0, end, 1.0)
                weights = torch.softmax(query[0, :end].double(), 0)
                wanted = sum(weight * one_hot(token).double() for weight, token in zip(weights, texts[i]))
                assert (got.double() - wanted).abs().max() <= 1e-5, (block_size, rise, i, end)
                computed[i] = end
                texts[i] = [*texts[i], texts[i][end - period]]
