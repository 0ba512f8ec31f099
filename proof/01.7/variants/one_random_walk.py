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
