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
