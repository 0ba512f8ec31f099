"""Lab 01.2: keys and values find their slots, and nothing else changes."""

import numpy as np
import torch

from labkit import cases, check, concept, far, search

CANARY = -7.0  # what stands in every slot at first
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the bytes of a number


def same_bits(one, other):
    """Two tensors are the same, bit for bit: NaN is NaN, and 0.0 is not -0.0."""
    dtype = BITS[one.element_size()]
    return torch.equal(one.contiguous().view(dtype), other.contiguous().view(dtype))


class Layer:
    """The two caches of a layer, full of canaries, and a step's keys and values: 10, 20, ... and 15, 25, ..."""

    def __init__(self, lab, num_tokens, num_blocks=3, block_size=4, num_kv_heads=1, head_dim=2, dtype=torch.float32):
        self.lab, self.block_size, self.slots = lab, block_size, []
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        self.memory = torch.full((2, *shape), CANARY, dtype=dtype)  # that of both caches
        self.key_cache, self.value_cache = self.memory
        tokens = 10 * torch.arange(1, num_tokens + 1)[:, None, None]
        heads, dims = torch.arange(num_kv_heads)[:, None], torch.arange(head_dim)
        self.key = (tokens + 2 * heads + dims).to(dtype)
        self.value = self.key + 5

    def metadata(self, slots):
        owned = sum(slot >= 0 for slot in slots)
        return self.lab.AttentionMetadata(
            positions=torch.arange(len(slots)),
            slot_mapping=torch.tensor(slots, dtype=torch.int64),
            query_start_loc=torch.tensor([0, owned], dtype=torch.int32),
            seq_lens=torch.tensor([owned], dtype=torch.int32),
            block_tables=torch.zeros((1, 4), dtype=torch.int32),
            block_size=self.block_size,
            query_lens_cpu=np.array([owned]),
            seq_lens_cpu=np.array([owned]),
        )

    def write(self, slots):
        self.write_with(self.metadata(slots))

    def write_with(self, metadata, backend=None):
        """It must show in the memory that the caches had before."""
        self.slots = metadata.slot_mapping.tolist()
        self.see = check(self.draw)
        backend = backend or self.lab.ReferenceBackend()
        self.returned = backend.write_kv(self.key, self.value, *self.memory.unbind(), metadata)

    def draw(self):
        """The first number of each slot, in some blocks: those of the first slots, if there are many."""
        slots = f"[{', '.join(map(str, self.slots[:12]))}{', ...' if len(self.slots) > 12 else ''}]"
        lines = [f"slots {slots}, blocks of {self.block_size}; . is untouched"] if self.slots else []
        blocks = range(len(self.key_cache))
        if len(blocks) > 16:
            blocks = dict.fromkeys(slot // self.block_size for slot in self.slots[:12] if slot >= 0)
        for block in blocks:
            keys, values = self.key_cache[block], self.value_cache[block]
            numbers = [
                " ".join("." if x == CANARY else f"{x:g}" for x in each[:, 0, 0].tolist()) for each in (keys, values)
            ]
            lines.append(f"block {block}   keys {numbers[0]}   values {numbers[1]}")
        return "\n".join(lines)

    def expect(self, row, block, offset):
        """Row `row` stands at that place."""
        for name, new, cache in (("key", self.key, self.key_cache), ("value", self.value, self.value_cache)):
            what = f"{name} of row {row}, in block {block} at offset {offset}"
            wanted, found = new[row].contiguous(), cache[block, offset]
            if same_bits(found, wanted):
                self.see(what, True, equals=True)
                continue
            if str(found.tolist()) == str(wanted.tolist()):
                what, dtype = f"bits of the {what}", BITS[found.element_size()]
                wanted, found = wanted.view(dtype), found.view(dtype)
            self.see.fail(what, str(wanted.tolist()), str(found.tolist()))

    def expect_untouched(self, places):
        """A canary still stands at each of these places (block, offset)."""
        for name, cache in (("keys", self.key_cache), ("values", self.value_cache)):
            touched = [place for place in places if bool((cache[place] != CANARY).any())]
            self.see(f"places of nobody, (block, offset), that were written in the cache of {name}", touched, equals=[])


@concept(
    "The key of a row goes into the caller's key cache, its value into the caller's value cache.",
    invariant="I3",
    illustrates=True,
)
def test_two_caches(lab):
    layer = Layer(lab, 2)
    layer.write([5, 6])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)
    layer.see("the type of what write_kv() returns", type(layer.returned).__name__, equals="NoneType")


@concept("A decode is a batch of one row, and goes to one slot.", invariant="I1")
def test_one_token(lab):
    layer = Layer(lab, 1)
    layer.write([6])
    layer.expect(row=0, block=1, offset=2)


@concept(
    "The rows of a batch lie side by side, their slots do not: each row goes where its own slot says.", invariant="I1"
)
def test_slots_in_any_order(lab):
    layer = Layer(lab, 4)
    layer.write([7, 2, 5, 3])
    for row, (block, offset) in enumerate([(1, 3), (0, 2), (1, 1), (0, 3)]):
        layer.expect(row, block, offset)


@concept("Slot 0 is a slot like any other: only -1 is padding.", invariant="I2")
def test_slot_zero(lab):
    layer = Layer(lab, 2)
    layer.write([0, 1])
    layer.expect(row=0, block=0, offset=0)
    layer.expect(row=1, block=0, offset=1)


@concept("A slot is split by dividing by block_size, which may be any number.", invariant="I1")
@cases(
    of_1=(1, [3, 4], [(3, 0), (4, 0)]),
    of_3=(3, [5, 6], [(1, 2), (2, 0)]),
    of_16=(16, [15, 16], [(0, 15), (1, 0)]),
)
def test_blocks_of_every_size(lab, case):
    block_size, slots, places = case
    layer = Layer(lab, 2, num_blocks=6 if block_size < 16 else 2, block_size=block_size)
    layer.write(slots)
    for row, (block, offset) in enumerate(places):
        layer.expect(row, block, offset)


@concept("A slot holds all KV heads of a token, with all their numbers.", invariant="I1")
@cases(heads=(3, 2), many_heads=(17, 2), many_numbers=(1, 300))
def test_every_head_is_stored(lab, case):
    num_kv_heads, head_dim = case
    layer = Layer(lab, 2, num_kv_heads=num_kv_heads, head_dim=head_dim)
    layer.write([5, 6])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)


MANY_ROWS, MANY_BLOCKS = far(17_000, 60_000), far(2**20 + 2, 2**21)


@concept("A step may have many rows, and a cache many slots.", invariant="I1")
@cases(
    rows=(MANY_ROWS, MANY_ROWS // 4 + 1, 4, [*range(1, MANY_ROWS + 1)]),
    slots=(2, 2200, 16, [35_000, 35_001]),
    slots_above_float32=(2, MANY_BLOCKS, 16, [16 * MANY_BLOCKS - 18, 16 * MANY_BLOCKS - 17]),
)
def test_many(lab, case):
    """float32 would round the slot 2**24 + 15, the last one of its block, to the first one of the next block."""
    *sizes, slots = case
    layer = Layer(lab, *sizes, 1, 1, torch.bfloat16) if sizes[1] > 10_000 else Layer(lab, *sizes)
    layer.key, layer.value = layer.key % 64, layer.value % 64
    layer.write(slots)
    for row in (0, len(slots) - 1):
        layer.expect(row, *divmod(slots[row], layer.block_size))


@concept(
    "Key and value are views into the wider matrix of a projection: their rows need not be neighbours.", invariant="I1"
)
def test_rows_of_a_wider_matrix(lab):
    layer = Layer(lab, 2)
    wide = torch.cat((layer.key, layer.value), dim=1)
    layer.key, layer.value = wide[:, :1], wide[:, 1:]
    layer.write([5, 6])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)
    layer.value = layer.value.clone()
    layer.write([7, 8])  # the keys lie further apart than the values
    layer.expect(row=0, block=1, offset=3)
    layer.expect(row=1, block=2, offset=0)


@concept("What is stored is what was computed, bit for bit, whatever the dtype.", invariant="I1")
@cases(
    bfloat16=(torch.bfloat16, 1e5),
    bfloat16_nan=(torch.bfloat16, torch.nan),
    float16=(torch.float16, 1 + 2**-10),
    float32=(torch.float32, 1 + 2**-23),
    float64=(torch.float64, 1 + 2**-52),
)
def test_nothing_is_rounded(lab, case):
    dtype, number = case
    layer = Layer(lab, 2, dtype=dtype)
    layer.key[0], layer.value[1] = number, -number
    if number != number:
        layer.key[0].view(torch.int16).add_(1)  # NaN has many patterns of bits
    layer.write([5, 6])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)


@concept(
    "A row is copied, not judged: NaN, infinities and -0.0 arrive as they are, and so does a row of zeros.",
    invariant="I1",
)
@cases(nan=torch.nan, infinity=torch.inf, minus_zero=-0.0, zero=0.0)
def test_odd_numbers(lab, case):
    layer = Layer(lab, 2)
    layer.key[0], layer.value[1] = case, -case
    layer.write([5, 6])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)


@concept("Padding has no place in the cache: -1 is neither the last slot nor the first.", invariant="I2")
@cases(one_row=[5, 6, -1], two_rows=[5, 6, -1, -1])
def test_padding_behind_the_batch(lab, case):
    layer = Layer(lab, len(case))
    layer.write(case)
    layer.expect_untouched([(0, 0), (2, 3)])
    for row in range(2):
        layer.expect(row, block=1, offset=1 + row)


@concept("Slot 0 is a token's, also if padding stands behind it.", invariant="I1", illustrates=True)
@cases(behind=[0, -1], before=[-1, 0], around=[-1, 0, -1])
def test_slot_zero_beside_padding(lab, case):
    layer = Layer(lab, len(case))
    layer.write(case)
    layer.expect(row=case.index(0), block=0, offset=0)


@concept(
    "A batch may be nothing but padding: a recorded step runs with as many rows as it was recorded with.",
    invariant="I2",
)
def test_no_token(lab):
    layer = Layer(lab, 2)
    layer.write([-1, -1])
    layer.expect_untouched([(1, 1), (1, 2)])


@concept("Padding may stand between tokens; the rows behind it keep their own slots.", invariant="I2")
@cases(first=[-1, 5, 6], between=[5, -1, 6])
def test_padding_before_a_token(lab, case):
    layer = Layer(lab, 3)
    layer.write(case)
    layer.expect(row=case.index(5), block=1, offset=1)
    layer.expect(row=2, block=1, offset=2)


@concept("A slot that no row names keeps its content, in the blocks that are written, too.", invariant="I3")
def test_the_neighbours_stay(lab):
    layer = Layer(lab, 2)
    layer.write([4, 5])
    layer.expect_untouched([(0, 0), (0, 3), (1, 2), (1, 3), (2, 0), (2, 3)])


@concept("Nothing is computed with what is elsewhere: other slots and rows of padding may hold NaN.", invariant="I3")
def test_nan_elsewhere(lab):
    layer = Layer(lab, 3)
    layer.key[2], layer.value[2] = torch.nan, torch.inf
    layer.key_cache[:], layer.value_cache[:] = torch.nan, -torch.inf
    layer.write([5, 6, -1])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)


@concept(
    "A layer has caches and blocks of its own: the next layer's write goes there, and nowhere else.", invariant="I3"
)
def test_each_layer_has_its_caches(lab):
    first, second = Layer(lab, 2), Layer(lab, 2)
    metadata, backend = first.metadata([5, 6]), lab.ReferenceBackend()
    first.write_with(metadata, backend)
    second.key, second.value = second.key + 100, second.value + 100
    second.write_with(metadata, backend)
    second.expect(row=0, block=1, offset=1)
    second.expect(row=1, block=1, offset=2)
    first.expect(row=0, block=1, offset=1)
    first.expect(row=1, block=1, offset=2)
    third = Layer(lab, 2, num_blocks=6, block_size=2)
    third.write_with(third.metadata([5, 6]), backend)
    third.expect(row=0, block=2, offset=1)
    third.expect(row=1, block=3, offset=0)


@concept("Every layer of the model reads the same metadata, so a write leaves it as it was.", invariant="I3")
def test_two_layers_share_the_metadata(lab):
    first, second = Layer(lab, 3), Layer(lab, 3)
    metadata = first.metadata([5, 6, -1])
    names = ("positions", "query_start_loc", "seq_lens", "block_tables", "query_lens_cpu", "seq_lens_cpu")
    before = {name: getattr(metadata, name).tolist() for name in names}
    first.write_with(metadata)
    second.write_with(metadata)
    second.see("slot_mapping after both layers", metadata.slot_mapping.tolist(), equals=[5, 6, -1])
    second.expect(row=1, block=1, offset=2)
    for name in names:
        second.see(f"{name} after both layers", getattr(metadata, name).tolist(), equals=before[name])


@concept("The layer goes on with its keys and values: they are read, not changed.", invariant="I3")
def test_rows_are_read_only(lab):
    layer = Layer(lab, 3)
    before = layer.key.tolist(), layer.value.tolist()
    layer.write([5, -1, 6])
    layer.see("the keys of the batch after the write", layer.key.tolist(), equals=before[0])
    layer.see("the values of the batch after the write", layer.value.tolist(), equals=before[1])


@concept(
    "Each step stands alone: the next one has other slots, in the same metadata and the same back end.", invariant="I3"
)
def test_two_steps(lab):
    """A recorded step reads its slots from the same tensor each time; a runner fills it again."""
    layer, backend = Layer(lab, 2), lab.ReferenceBackend()
    metadata = layer.metadata([5, 6])
    layer.write_with(metadata, backend)
    layer.expect(row=1, block=1, offset=2)
    layer.key += 100
    metadata.slot_mapping.add_(4)
    layer.write_with(metadata, backend)
    layer.expect(row=1, block=2, offset=2)
    layer.key += 100
    metadata.slot_mapping.numpy()[:] = [2, 3]  # torch does not count this as a change
    layer.write_with(metadata, backend)
    layer.expect(row=1, block=0, offset=3)


def any_step(rng, size):
    """A layer's shape and its slots: at first one row of one number, later 40 rows, some of them padding."""
    num_rows, block_size = rng.randint(1, 1 + size), rng.choice((1, 2, 3, 4, 5, 16))
    num_blocks = -(-num_rows // block_size) + rng.randint(1, 3)
    slots = rng.sample(range(num_blocks * block_size), num_rows)
    if size % 2:
        slots[0] = num_blocks * block_size - 1  # the very last slot
    slots = [-1 if rng.random() < 0.2 else slot for slot in dict.fromkeys(slots)]
    odd = [
        (rng.randrange(len(slots)), rng.choice((0.0, -0.0, torch.nan, torch.inf, 1e-40))) for _ in slots[: size // 3]
    ]
    return slots, num_blocks, block_size, rng.randint(1, 3), rng.randint(1, 5), odd


@concept(
    "Whatever the batch, each row stands in its slot, and nothing else has changed.", invariant="I3", searches=True
)
def test_any_step(lab):
    def judge(lab, step):
        slots, num_blocks, block_size, num_kv_heads, head_dim, odd = step
        layer = Layer(lab, len(slots), num_blocks, block_size, num_kv_heads, head_dim)
        for row, number in odd:
            layer.key[row, -1], layer.value[row, 0] = number, -number
        key_cache, value_cache = layer.key_cache.clone(), layer.value_cache.clone()
        rows = [row for row, slot in enumerate(slots) if slot >= 0]
        for cache, new in ((key_cache, layer.key), (value_cache, layer.value)):
            cache.view(-1, num_kv_heads, head_dim)[[slots[row] for row in rows]] = new[rows]
        layer.write(slots)
        for row in rows:
            layer.expect(row, *divmod(slots[row], block_size))
        for name, cache, wanted in (("key", layer.key_cache, key_cache), ("value", layer.value_cache, value_cache)):
            places = [divmod(slot, block_size) for slot in range(num_blocks * block_size)]
            changed = [place for place in places if not same_bits(cache[place], wanted[place])]
            layer.see(f"other places, (block, offset), of the {name} cache that have changed", changed, equals=[])

    search(lab, any_step, judge, 40)
