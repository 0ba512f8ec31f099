# === a_table_of_cases
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


# === many_small_examples
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


# === one_random_walk
"""A seeded walk with a model: requests come, grow by chunks and go, and after each step the whole cache is compared."""

import random

import torch

from labkit import check, raises


def the_same(got, wanted):
    """Bit for bit, where what was never written is NaN on both sides."""
    return bool(((got == wanted) | (got.isnan() & wanted.isnan())).all())


class Engine:
    """One layer with a cache of NaN, and what ought to be in it."""

    def __init__(self, lab, block_size, num_blocks, num_kv_heads, group, window, seed):
        self.lab, self.block_size, self.window, self.group = lab, block_size, window, group
        self.random, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        shape = num_blocks, block_size, num_kv_heads, 4
        self.key_cache, self.value_cache = torch.full(shape, torch.nan), torch.full(shape, torch.nan)
        self.keys, self.values = {}, {}  # by slot
        self.free = list(range(num_blocks))
        self.random.shuffle(self.free)
        self.running = []  # [table, length]
        self.backend = lab.ReferenceBackend()

    def noise(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def slot(self, table, position):
        return table[position // self.block_size] * self.block_size + position % self.block_size

    def plan(self):
        """How many tokens each request computes; their blocks are there, sometimes one more than needed."""
        if self.random.random() < 0.3 and self.running:
            table, _ = self.running.pop(self.random.randrange(len(self.running)))
            self.free = [*table, *self.free]
        if len(self.running) < 4:
            self.running.append([[self.free.pop()], 0])
        chunks = []
        for table, length in self.running:
            chunk = self.random.choice([0, 1, 1, 2, self.block_size, self.block_size + 1])
            while len(table) * self.block_size < length + chunk + self.random.choice([0, self.block_size]):
                if not self.free:
                    chunk = min(chunk, len(table) * self.block_size - length)
                    break
                table.append(self.free.pop())
            chunks.append(chunk)
        return chunks

    def step(self):
        chunks = self.plan()
        requests = [self.lab.PackedRequest(t, n, chunk) for (t, n), chunk in zip(self.running, chunks)]
        rows = [(t, p) for (t, n), chunk in zip(self.running, chunks) for p in range(n, n + chunk)]
        metadata = self.lab.AttentionMetadata.pack(requests, self.block_size, torch.device("cpu"))
        slots = [self.slot(t, p) for t, p in rows]
        check()("the slots of the step", metadata.slot_mapping.tolist(), equals=slots)
        if not rows:
            return
        skipped = self.random.randrange(len(rows))
        metadata.slot_mapping[skipped] = -1
        self.write(rows, metadata, {row: slot for row, slot in enumerate(slots) if row != skipped})
        metadata.slot_mapping[:] = -1
        metadata.slot_mapping[skipped] = slots[skipped]
        self.write(rows, metadata, {skipped: slots[skipped]})
        self.attend(rows, metadata)
        for request, chunk in zip(self.running, chunks):
            request[1] += chunk

    def write(self, rows, metadata, wanted):
        key, value = (self.noise(len(rows), *self.key_cache.shape[2:]) for _ in "kv")
        self.backend.write_kv(key, value, self.key_cache, self.value_cache, metadata)
        for row, slot in wanted.items():
            self.keys[slot], self.values[slot] = key[row], value[row]
        for cache, model in ((self.key_cache, self.keys), (self.value_cache, self.values)):
            expected = torch.full_like(cache.flatten(0, 1), torch.nan)
            for slot, token in model.items():
                expected[slot] = token
            check().true("the cache is what was written so far", the_same(cache.flatten(0, 1), expected))

    def attend(self, rows, metadata):
        query = self.noise(len(rows), self.key_cache.shape[2] * self.group, 4)
        query[:, 0] *= 10_000  # one head is loud
        spec = self.lab.AttentionSpec(query.shape[1], self.key_cache.shape[2], 4, scale=0.5, sliding_window=self.window)
        result = self.backend.attend(query, self.key_cache, self.value_cache, self.backend.plan(metadata, spec))
        for row, (table, position) in enumerate(rows):
            begin = 0 if self.window is None else max(0, position + 1 - self.window)
            slots = [self.slot(table, p) for p in range(begin, position + 1)]
            for head in range(1, query.shape[1]):
                keys, values = (
                    torch.stack([each[s][head // self.group] for s in slots]).double()
                    for each in (self.keys, self.values)
                )
                mean = torch.softmax(keys @ query[row, head].double() * 0.5, 0) @ values
                error = (result[row, head] - mean).abs().max()
                check().true(f"head {head} of position {position} is right", error <= 1e-5 * values.abs().max())


def test_a_walk_in_small_blocks(lab):
    engine = Engine(lab, block_size=3, num_blocks=16, num_kv_heads=2, group=2, window=None, seed=1)
    for _ in range(10):
        engine.step()


def test_a_walk_with_a_window(lab):
    engine = Engine(lab, block_size=4, num_blocks=20, num_kv_heads=2, group=3, window=6, seed=2)
    for _ in range(8):
        engine.step()


def test_a_far_block(lab):
    metadata = lab.AttentionMetadata.pack([lab.PackedRequest([2**29], 7, 1)], 8, torch.device("cpu"))
    check()("the last slot of a far block", metadata.slot_mapping.tolist(), equals=[2**32 + 7])


def test_ids_of_no_block(lab):
    cache = torch.full((2, 2, 1, 1), 5.0)
    for table, begin, end in ([1, -(10**6)], 0, 2), ([-(10**6), 1], 2, 3):
        got = lab.attend_one(torch.ones(1, 1), cache, cache, table, begin, end, 1.0)
        check()("the mean of equal values", got.item(), equals=5.0)


def test_level_scores(lab):
    """All scores are equal, so the mean is that of the values, however large the scores are."""
    values = torch.arange(8.0).view(4, 2, 1, 1)
    for score in range(-10_000, 10_001, 2_500):
        got = lab.attend_one(torch.ones(1, 1), torch.full_like(values, score), values, [0, 1, 2, 3], 0, 7, 1.0)
        check().true(f"the mean at a score of {score} is 3", abs(got.item() - 3) <= 6e-5)
