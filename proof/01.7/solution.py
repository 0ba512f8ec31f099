"""A definition that knows no blocks, in float64, and a cache full of NaN: what the tests of paged attention rest on."""

import torch

from labkit import check, raises

CPU = torch.device("cpu")


def test_a_token_alone_gets_its_own_value(lab):
    """The softmax of a single score is 1, whatever the score is."""
    key_cache, value_cache = torch.zeros(4, 2, 1, 8), torch.zeros(4, 2, 1, 8)  # 4 blocks of 2 slots, one KV head
    request = lab.PackedRequest(block_ids=[3], num_computed_tokens=0, query_len=1)
    metadata = lab.AttentionMetadata.pack([request], 2, CPU)
    query, key, value = torch.ones(1, 1, 8), torch.ones(1, 1, 8), torch.arange(8.0).view(1, 1, 8)
    backend = lab.ReferenceBackend()
    backend.write_kv(key, value, key_cache, value_cache, metadata)
    spec = lab.AttentionSpec(num_heads=1, num_kv_heads=1, head_dim=8, scale=1.0)
    result = backend.attend(query, key_cache, value_cache, backend.plan(metadata, spec))
    assert torch.allclose(result, value), f"{result} is not {value}"


# --- the laws, as functions ---------------------------------------------------------------------------------------


def noise(*shape, seed):
    """Random numbers, the same ones for the same seed: no two alike, and none that is round."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def slot_of(table, position, block_size):
    """Where a position lies (I2)."""
    return table[position // block_size] * block_size + position % block_size


def definition(query, keys, values, scale):
    """What attention is (I4): query [heads, D] over keys and values [n, KV heads, D] that lie side by side."""
    group = len(query) // keys.shape[1]
    rows = []
    for head, vector in enumerate(query.double()):
        scores = scale * (keys[:, head // group].double() @ vector)
        rows.append(torch.softmax(scores, 0) @ values[:, head // group].double())
    return torch.stack(rows)


def agree(what, got, query, keys, values, scale):
    """Within 1e-5 of the largest value seen. NaN is not below a bound, so it does not pass."""
    error = (got.double() - definition(query, keys, values, scale)).abs().max().item()
    bound = 1e-5 * values.abs().max().item()
    assert error <= bound, f"{what}: off by {error:.2g}, allowed is {bound:.2g}"


def places(table, block_size, keys, values):
    """Two caches that are NaN but for these tokens, which lie where the table says."""
    made = []
    for tokens in (keys, values):
        cache = torch.full((max(table) + 2, block_size, *tokens.shape[1:]), torch.nan)
        for position, token in enumerate(tokens):
            cache.flatten(0, 1)[slot_of(table, position, block_size)] = token
        made.append(cache)
    return made


# --- slots --------------------------------------------------------------------------------------------------------


def test_slots_follow_the_table(lab):
    """A prompt, a request without a token in this step, and a decode with blocks to spare, in blocks of any size."""
    for block_size in (1, 3, 4, 7, 16):
        prompt = lab.PackedRequest([7, 0, 5], 0, 2 * block_size + 1)
        waiting = lab.PackedRequest([3], 0, 0)
        decode = lab.PackedRequest([4, 2, 9, 6, 8], block_size + block_size // 2, 1)
        requests = [prompt, waiting, decode]
        slots = lab.AttentionMetadata.pack(requests, block_size, CPU).slot_mapping.tolist()
        wanted = [slot_of(each.block_ids, p, block_size) for each in requests for p in each.positions]
        check()(f"slots in blocks of {block_size}", slots, equals=wanted)


def test_slots_of_a_large_cache(lab):
    """200,000,000 blocks of 16 slots are more slots than an int32 can count."""
    request = lab.PackedRequest([5, 200_000_000], 15, 2)
    slots = lab.AttentionMetadata.pack([request], 16, CPU).slot_mapping.tolist()
    check()("slots of positions 15 and 16", slots, equals=[95, 3_200_000_000])


# --- writing ------------------------------------------------------------------------------------------------------


def test_a_write_changes_its_slots_only(lab):
    """The caches are full of what others wrote, and two rows are padding. Compared bit for bit, slot for slot."""
    slots = [9, -1, 6, 2, -1, 10]  # in blocks of 3: 2 ends block 0, 6 begins block 2, 9 begins block 3
    metadata = lab.AttentionMetadata.pack([lab.PackedRequest([0] * 6, 0, 6)], 3, CPU)
    metadata.slot_mapping[:] = torch.tensor(slots)
    key, value = noise(6, 2, 4, seed=1), noise(6, 2, 4, seed=2)
    key_cache, value_cache = noise(4, 3, 2, 4, seed=3), noise(4, 3, 2, 4, seed=4)
    wanted_keys, wanted_values = key_cache.clone(), value_cache.clone()
    for row, slot in enumerate(slots):
        if slot != -1:
            wanted_keys[slot // 3, slot % 3] = key[row]
            wanted_values[slot // 3, slot % 3] = value[row]
    lab.ReferenceBackend().write_kv(key, value, key_cache, value_cache, metadata)
    check().true("each key is in its slot, the other slots are as before", torch.equal(key_cache, wanted_keys))
    check().true("each value is in its slot, the other slots are as before", torch.equal(value_cache, wanted_values))


# --- attention ----------------------------------------------------------------------------------------------------


def test_attention_is_a_weighted_mean(lab):
    """Lengths round the edges of blocks, tables in no order, groups of heads, windows."""
    for block_size, table, begin, end, num_heads, num_kv_heads in [
        (4, [2], 0, 1, 1, 1),
        (4, [5, 1], 0, 4, 2, 2),
        (4, [5, 1, 3], 0, 9, 4, 2),
        (3, [4, 0, 6, 1], 0, 12, 6, 2),
        (1, [3, 0, 2, 5], 0, 4, 3, 1),
        (16, [2, 4, 1], 0, 41, 6, 3),
        (4, [5, 1, 3], 3, 10, 4, 2),
        (4, [5, 1, 3, 2], 8, 15, 2, 1),
        (3, [4, 0, 6, 1], 5, 6, 2, 2),
    ]:
        keys, values = noise(end, num_kv_heads, 8, seed=1), noise(end, num_kv_heads, 8, seed=2)
        query = noise(num_heads, 8, seed=3)
        got = lab.attend_one(query, *places(table, block_size, keys, values), table, begin, end, 0.3)
        what = f"positions {begin} to {end - 1} in blocks {table} of {block_size}"
        agree(what, got, query, keys[begin:], values[begin:], 0.3)


def test_other_columns_are_not_looked_up(lab):
    """Behind the sequence and before the window the table may hold anything: 10**9 is no block."""
    keys, values, query = noise(12, 1, 8, seed=1), noise(12, 1, 8, seed=2), noise(2, 8, seed=3)
    cached = places([2, 3, 1], 4, keys, values)
    for table, begin, end in [([2, 10**9, 10**9], 0, 4), ([2, 3, 10**9], 0, 6), ([10**9, 3, 1], 5, 12)]:
        got = lab.attend_one(query, *cached, table, begin, end, 0.3)
        agree(f"table {table}", got, query, keys[begin:end], values[begin:end], 0.3)


def test_a_batch_of_strangers(lab):
    """Three requests in one cache, step after step: each gets what its own tokens say, whoever else is there."""
    tables, lengths = [[6, 1, 9], [2, 8, 4], [7, 0, 3]], [0, 0, 0]
    keys, values = noise(3, 9, 2, 8, seed=1), noise(3, 9, 2, 8, seed=2)  # of every position of every request
    key_cache, value_cache = torch.full((11, 3, 2, 8), torch.nan), torch.full((11, 3, 2, 8), torch.nan)
    backend = lab.ReferenceBackend()
    for step in [(4, 0, 2), (0, 3, 1), (1, 1, 1), (2, 0, 5)]:
        requests = [lab.PackedRequest(tables[i], lengths[i], step[i]) for i in range(3)]
        metadata = lab.AttentionMetadata.pack(requests, 3, CPU)
        rows = [(i, p) for i, request in enumerate(requests) for p in request.positions]
        owners, positions = (list(each) for each in zip(*rows))
        query = noise(len(rows), 4, 8, seed=3)
        backend.write_kv(keys[owners, positions], values[owners, positions], key_cache, value_cache, metadata)
        spec = lab.AttentionSpec(num_heads=4, num_kv_heads=2, head_dim=8, scale=0.3, sliding_window=5)
        result = backend.attend(query, key_cache, value_cache, backend.plan(metadata, spec))
        for row, (i, p) in enumerate(rows):
            seen = slice(max(0, p - 4), p + 1)
            what = f"step {step}, request {i}, position {p}"
            agree(what, result[row], query[row], keys[i, seen], values[i, seen], 0.3)
        lengths = [length + more for length, more in zip(lengths, step)]


def test_large_scores(lab):
    """Whole numbers, since float32 holds them exactly. The first head has these scores, the second has small ones."""
    for scores in [
        [1e4] * 7,
        [-1e4] * 7,
        [-1e4, 0.0, 0.0, 1.0, 1e4, 1e4, 1e4 - 1],
        [1e4, 1e4 - 2, 0.0, -1e4, -1e4, 5.0, 1e4 - 1],
    ]:
        keys, values = torch.tensor(scores).view(7, 1, 1), noise(7, 1, 1, seed=1)
        query = torch.tensor([[1.0], [2**-14]])
        got = lab.attend_one(query, *places([3, 1, 2], 3, keys, values), [3, 1, 2], 0, 7, 1.0)
        agree(f"scores {scores}", got, query, keys, values, 1.0)
