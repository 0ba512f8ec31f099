"""Two formulas, and the places where pieces meet."""

import torch

from labkit import check

CPU = torch.device("cpu")


def test_slots_of_the_first_block(lab):
    """One request, and tokens that all lie in its first block."""
    metadata = lab.AttentionMetadata.pack([lab.PackedRequest([3, 1], 0, 4)], 4, CPU)
    check()("slots of positions 0 to 3", metadata.slot_mapping.tolist(), equals=[12, 13, 14, 15])


CASE_A = {
    "culprit": "mini_vllm.attention.metadata:to_slots",
    "step": 1,
    "why": "Behind its first block a request writes into the next block of memory, and another request reads that.",
}
CASE_B = {
    "culprit": "mini_vllm.attention.reference:OnlineSoftmax.add",
    "step": 8,
    "why": "The second block brings a larger maximum, and what was summed before is not scaled down to it.",
}


def slot_of(table, position, block_size):
    return table[position // block_size] * block_size + position % block_size


def test_slots_of_a_crowd(lab):
    """Prompts, chunks from the middle and decodes, with tables in no order."""
    for size in (1, 3, 4, 16):
        requests = [
            lab.PackedRequest([7, 2, 9], 0, 2 * size + 1),
            lab.PackedRequest([4, 8, 1, 6], size + 1, 2 * size),
            lab.PackedRequest([5, 0, 3], 3 * size - 1, 1),
        ]
        slots = lab.AttentionMetadata.pack(requests, size, CPU).slot_mapping.tolist()
        wanted = []
        for block_ids, start, length in requests:
            wanted += [slot_of(block_ids, position, size) for position in range(start, start + length)]
        check()(f"slots in blocks of {size}", slots, equals=wanted)


def test_the_largest_score_in_any_block(lab):
    """Two heads of one KV head: the scores of the second are those of the first in reverse."""
    random = torch.Generator().manual_seed(1)
    values = torch.randn(12, 1, 2, generator=random)
    for scores in [
        [0] * 12,
        [*[0] * 8, *[50] * 4],
        [*[50] * 4, *[0] * 8],
        [*[80] * 4, *[0] * 4, *[-80] * 4],
        [0, 1, 2, 3, 40, 41, 42, 43, 78, 79, 80, 80],
        [-80, -79, 0, 0, -3, 2, 1, 3, -70, 2, 3, -1],
        [3, -2, 1, 0, -4, -3, -3, -2, -5, -1, -6, -2],
    ]:
        keys = torch.tensor([[score, scores[-1 - place]] for place, score in enumerate(scores)]).float()[:, None]
        table, key_cache, value_cache = [4, 0, 2], torch.zeros(5, 4, 1, 2), torch.zeros(5, 4, 1, 2)
        for position in range(12):
            key_cache.flatten(0, 1)[slot_of(table, position, 4)] = keys[position]
            value_cache.flatten(0, 1)[slot_of(table, position, 4)] = values[position]
        got = lab.attend_one(torch.eye(2), key_cache, value_cache, table, 0, 12, 1.0)
        wanted = torch.softmax(keys[:, 0].double().T, -1) @ values[:, 0].double()
        error = (got.double() - wanted).abs().max().item()
        assert error <= 1e-5 * values.abs().max().item(), f"scores {scores}: off by {error:.2g}"
