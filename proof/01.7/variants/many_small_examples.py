"""Small examples, worked out by hand: weights of 1 and 3, values that are powers of ten, slots written out."""

import math

import torch

from labkit import check, raises

LN3 = math.log(3.0)
CPU = torch.device("cpu")


def packed(lab, block_size, *requests):
    return lab.AttentionMetadata.pack([lab.PackedRequest(*each) for each in requests], block_size, CPU)


def slots_of(lab, block_size, *requests):
    return packed(lab, block_size, *requests).slot_mapping.tolist()


def mean_of(lab, table, block_size, tokens, begin=0, end=None, num_heads=1):
    """One query of ones over tokens {position: (score, value)}; what has no token is NaN. Heads are equal."""
    key_cache = torch.full((8, block_size, 1, 1), math.nan)
    value_cache = key_cache.clone()
    for position, (score, value) in tokens.items():
        place = table[position // block_size], position % block_size
        key_cache[place], value_cache[place] = score, value
    end = max(tokens) + 1 if end is None else end
    return lab.attend_one(torch.ones(num_heads, 1), key_cache, value_cache, table, begin, end, 1.0)[0].item()


def near(got, wanted):
    assert abs(got - wanted) <= 1e-5 * max(1.0, abs(wanted)), f"{got} is not {wanted}"


def test_slots_in_blocks_of_three(lab):
    check()("slots of a prompt", slots_of(lab, 3, ([5, 1, 2], 0, 7)), equals=[15, 16, 17, 3, 4, 5, 6])


def test_slots_of_a_decode(lab):
    check()("the slot of position 5", slots_of(lab, 3, ([5, 1, 2], 5, 1)), equals=[5])


def test_slots_behind_a_pause(lab):
    slots = slots_of(lab, 4, ([5], 0, 2), ([1, 2, 3], 7, 0), ([6, 7], 3, 2))
    check()("slots of the first and the third request", slots, equals=[20, 21, 27, 28])


def test_slots_with_blocks_to_spare(lab):
    check()("slots of two requests", slots_of(lab, 4, ([5, 8, 9], 0, 1), ([3, 4], 1, 1)), equals=[20, 13])


def test_a_slot_is_no_int32(lab):
    check()("the first slot of a far block", slots_of(lab, 32, ([100_000_000], 0, 1)), equals=[3_200_000_000])


def written(lab, slots, block_size=2):
    """The keys and values of six slots after a write of rows 0.1, 0.2, ... and -0.1, -0.2, ..."""
    caches = [torch.arange(6.0).view(6 // block_size, block_size, 1, 1).clone() for _ in "kv"]
    metadata = packed(lab, block_size, ([0] * len(slots), 0, len(slots)))
    metadata.slot_mapping[:] = torch.tensor(slots)
    rows = torch.arange(1.0, len(slots) + 1).view(-1, 1, 1) / 10
    lab.ReferenceBackend().write_kv(rows, -rows, *caches, metadata)
    tenth = (torch.arange(0.0, len(slots) + 1) / 10).tolist()
    return [cache.flatten().tolist() for cache in caches], tenth


def test_one_row_is_written(lab):
    (keys, values), tenth = written(lab, [2])
    check()("keys", keys, equals=[0, 1, tenth[1], 3, 4, 5])
    check()("values", values, equals=[0, 1, -tenth[1], 3, 4, 5])


def test_padding_first(lab):
    (keys, values), tenth = written(lab, [-1, 5, 0])
    check()("keys", keys, equals=[tenth[3], 1, 2, 3, 4, tenth[2]])
    check()("values", values, equals=[-tenth[3], 1, 2, 3, 4, -tenth[2]])


def test_two_scores(lab):
    near(mean_of(lab, [3], 2, {0: (0.0, 4.0), 1: (LN3, 8.0)}), 7.0)


def test_three_blocks_of_one(lab):
    near(mean_of(lab, [6, 2, 4], 1, {0: (-LN3, 12.0), 1: (0.0, 8.0), 2: (LN3, 7.0)}), (4 + 8 + 21) / (1 / 3 + 4))


def test_a_window_within_a_block(lab):
    tokens = {p: (0.0, 10.0**p) for p in range(5)}
    near(mean_of(lab, [6, 2], 4, tokens, begin=2), (100 + 1000 + 10000) / 3)


def test_the_block_is_not_full(lab):
    near(mean_of(lab, [6, 2], 4, {p: (0.0, 2.0 * p) for p in range(6)}), 5.0)


def test_columns_without_a_meaning(lab):
    near(mean_of(lab, [6, 10**9], 4, {0: (0.0, 1.0), 1: (0.0, 2.0)}), 1.5)


def test_groups(lab):
    """Query heads 0, 1 read KV head 0, and 2, 3 read KV head 1; the values say which was read."""
    key_cache, value_cache = torch.zeros(1, 1, 2, 1), torch.tensor([5.0, 7.0]).view(1, 1, 2, 1)
    got = lab.attend_one(torch.ones(4, 1), key_cache, value_cache, [0], 0, 1, 1.0)
    check()("values of the heads", got.flatten().tolist(), equals=[5.0, 5.0, 7.0, 7.0])


def test_equal_large_scores(lab):
    near(mean_of(lab, [1, 4], 2, {p: (1e4, p) for p in range(3)}), 1.0)


def test_equal_scores_far_below(lab):
    near(mean_of(lab, [1, 4], 2, {p: (-1e4, p) for p in range(3)}), 1.0)


def test_one_loud_head(lab):
    key_cache, value_cache = torch.ones(1, 1, 1, 1), torch.full((1, 1, 1, 1), 3.0)
    got = lab.attend_one(torch.tensor([[1e4], [0.0]]), key_cache, value_cache, [0], 0, 1, 1.0)
    check()("the only value, in both heads", got.flatten().tolist(), equals=[3.0, 3.0])
