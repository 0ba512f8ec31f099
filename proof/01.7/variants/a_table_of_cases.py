"""A function for each part of the engine that says what is wrong with a call, "" for nothing, and lists of calls."""

import itertools

import torch

from labkit import check, raises

CPU = torch.device("cpu")


def slots_wrong(lab, block_size, *requests):
    packed = [lab.PackedRequest(table, start, count) for table, start, count in requests]
    got = lab.AttentionMetadata.pack(packed, block_size, CPU).slot_mapping
    wanted = []
    for table, start, count in requests:
        owned = [block * block_size + offset for block in table for offset in range(block_size)]
        wanted += owned[start : start + count]
    return "" if got.dtype == torch.int64 and got.tolist() == wanted else f"{got.tolist()} and not {wanted}"


def write_wrong(lab, block_size, slots, num_kv_heads):
    """Each slot of the cache is asked where it has its number from."""
    fresh = torch.rand(2, len(slots), num_kv_heads, 3, generator=torch.Generator().manual_seed(7))
    old = -torch.rand(2, 4, block_size, num_kv_heads, 3, generator=torch.Generator().manual_seed(8))
    key_cache, value_cache = old.clone()
    metadata = lab.AttentionMetadata.pack([lab.PackedRequest([0] * len(slots), 0, len(slots))], block_size, CPU)
    metadata.slot_mapping.copy_(torch.tensor(slots))
    lab.ReferenceBackend().write_kv(*fresh, key_cache, value_cache, metadata)
    for which, cache in enumerate((key_cache, value_cache)):
        for slot in range(4 * block_size):
            here = (which, slots.index(slot)) if slot in slots else None
            wanted = fresh[here] if here else old[which, slot // block_size, slot % block_size]
            if cache[slot // block_size, slot % block_size].tolist() != wanted.tolist():
                return f"slot {slot} of cache {which}"
    return ""


def mean_wrong(lab, block_size, begin, end, num_kv_heads, group, factor=1):
    """The columns that are not needed are those of no block. factor: whole numbers, times this, in the keys."""
    generator = torch.Generator().manual_seed(end)
    columns = range(begin // block_size, (end - 1) // block_size + 1)
    table = [(5 * c + 3) % 7 if c in columns else 2**31 - 1 for c in range(7)]
    key_cache, value_cache = torch.full((2, 7, block_size, num_kv_heads, 1), torch.nan)
    keys = factor * torch.randint(-2, 3, (end, num_kv_heads, 1), generator=generator).float()
    values = torch.randn(end, num_kv_heads, 1, generator=generator)
    for p in range(begin, end):
        key_cache[table[p // block_size], p % block_size] = keys[p]
        value_cache[table[p // block_size], p % block_size] = values[p]
    query = torch.arange(num_kv_heads * group).view(-1, 1).float()
    got = lab.attend_one(query, key_cache, value_cache, table, begin, end, 0.5).double()
    keys, values = (x[begin:].double().repeat_interleave(group, 1) for x in (keys, values))
    weights = torch.softmax(0.5 * keys * query.double(), 0)
    wanted = (weights * values).sum(0)
    wrong = ~((got - wanted).abs() <= 1e-5 * values.abs().max())
    return f"heads {wrong.flatten().nonzero().flatten().tolist()}" if wrong.any() else ""


def test_slots(lab):
    requests = ([6, 2, 5], 1, 4), ([9, 8, 7, 3], 2, 0), ([4], 0, 1), ([12, 11, 100_000_000], 4, 3)
    for block_size in (3, 5, 8, 32):
        for some in itertools.permutations(requests, 3):
            if all(start + count <= len(table) * block_size for table, start, count in some):
                check()(f"what is wrong in {some}, {block_size}", slots_wrong(lab, block_size, *some), equals="")
    check()("what is wrong far away", slots_wrong(lab, 32, ([100_000_000], 30, 2)), equals="")


def test_writes(lab):
    for block_size, slots in [(2, [7]), (3, [3, 11]), (3, [-1, 4, -1, 9, 0]), (5, [5, 6, 19, 4])]:
        for num_kv_heads in (1, 2):
            wrong = write_wrong(lab, block_size, slots, num_kv_heads)
            check()(f"what is wrong after a write to {slots} in blocks of {block_size}", wrong, equals="")


def test_means(lab):
    for block_size, (begin, end), (num_kv_heads, group) in itertools.product(
        (1, 4, 5), ((0, 1), (0, 5), (1, 7), (3, 6)), ((1, 1), (2, 2), (3, 1))
    ):
        what = f"what is wrong in [{begin}, {end}) in blocks of {block_size}, {num_kv_heads} KV heads for {group} each"
        check()(what, mean_wrong(lab, block_size, begin, end, num_kv_heads, group), equals="")


def test_means_of_large_scores(lab):
    for end, factor in itertools.product((2, 9, 20), (1_000, 4_000)):
        what = f"what is wrong with {end} keys of up to {2 * factor}"
        check()(what, mean_wrong(lab, 4, 0, end, 2, 2, factor), equals="")


def test_means_far_below(lab):
    values = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)
    got = lab.attend_one(torch.ones(1, 1), torch.full((3, 1, 1, 1), -1e4), values, [0, 1, 2], 0, 3, 1.0).item()
    check().true(f"{got} is the mean of 1, 2 and 6", abs(got - 3) <= 6e-5)
