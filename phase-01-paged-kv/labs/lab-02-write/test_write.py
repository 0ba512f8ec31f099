"""Lab 01.2: keys and values find their slots, and nothing else changes."""

import numpy as np
import torch

from labkit import cases, check, concept

CANARY = -7.0  # what stands in every slot at first


class Layer:
    """The two caches of a layer, full of canaries, and a step's keys and values: 10, 20, ... and 15, 25, ..."""

    def __init__(self, lab, num_tokens, num_blocks=3, block_size=4, num_kv_heads=1, head_dim=2, dtype=torch.float32):
        self.lab, self.block_size, self.slots = lab, block_size, []
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        self.key_cache, self.value_cache = (
            torch.full(shape, CANARY, dtype=dtype),
            torch.full(shape, CANARY, dtype=dtype),
        )
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

    def write_with(self, metadata):
        self.slots = metadata.slot_mapping.tolist()
        self.see = check(self.draw)
        self.lab.ReferenceBackend().write_kv(self.key, self.value, self.key_cache, self.value_cache, metadata)

    def draw(self):
        """The first number of each slot."""
        lines = [f"slots {self.slots}, blocks of {self.block_size}; . is untouched"] if self.slots else []
        for block, (keys, values) in enumerate(zip(self.key_cache, self.value_cache)):
            numbers = [
                " ".join("." if x == CANARY else f"{x:g}" for x in each[:, 0, 0].tolist()) for each in (keys, values)
            ]
            lines.append(f"block {block}   keys {numbers[0]}   values {numbers[1]}")
        return "\n".join(lines)

    def expect(self, row, block, offset):
        """Row `row` stands at that place."""
        see = self.see
        where = f"in block {block} at offset {offset}"
        see(f"key of row {row}, {where}", self.key_cache[block, offset].tolist(), equals=self.key[row].tolist())
        see(f"value of row {row}, {where}", self.value_cache[block, offset].tolist(), equals=self.value[row].tolist())

    def expect_untouched(self, places):
        """A canary still stands at each of these places (block, offset)."""
        for name, cache in (("keys", self.key_cache), ("values", self.value_cache)):
            touched = [place for place in places if bool((cache[place] != CANARY).any())]
            self.see(f"places of nobody, (block, offset), that were written in the cache of {name}", touched, equals=[])


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


@concept("A slot is split by dividing by block_size, which may be any number.", invariant="I1")
@cases(
    of_1=(1, [3, 4], [(3, 0), (4, 0)]),
    of_3=(3, [5, 6], [(1, 2), (2, 0)]),
    of_16=(16, [15, 16], [(0, 15), (1, 0)]),
    slot_zero=(3, [0, 1], [(0, 0), (0, 1)]),
)
def test_blocks_of_every_size(lab, case):
    block_size, slots, places = case
    layer = Layer(lab, 2, num_blocks=6 if block_size < 16 else 2, block_size=block_size)
    layer.write(slots)
    for row, (block, offset) in enumerate(places):
        layer.expect(row, block, offset)


@concept("A slot holds all KV heads of a token.", invariant="I1")
def test_every_head_is_stored(lab):
    layer = Layer(lab, 2, num_kv_heads=3, head_dim=2)
    layer.write([5, 6])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)


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


@concept(
    "What is stored is what was computed, bit for bit: 100,000 fits bfloat16 and does not fit float16.", invariant="I1"
)
def test_nothing_is_rounded(lab):
    layer = Layer(lab, 2, dtype=torch.bfloat16)
    layer.key[0], layer.value[1] = 1e5, -1e5
    layer.write([5, 6])
    layer.expect(row=0, block=1, offset=1)
    layer.expect(row=1, block=1, offset=2)


@concept("Padding has no place in the cache: -1 is neither the last slot nor the first.", invariant="I2")
@cases(one_row=([5, 6, -1], 2), two_rows=([5, 6, -1, -1], 2), nothing_else=([-1, -1], 0))
def test_padding_behind_the_batch(lab, case):
    slots, num_tokens = case
    layer = Layer(lab, len(slots))
    layer.write(slots)
    layer.expect_untouched([(0, 0), (2, 3)])
    for row in range(num_tokens):
        layer.expect(row, block=1, offset=1 + row)


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


@concept("Every layer of the model reads the same metadata, so a write leaves it as it was.", invariant="I3")
def test_two_layers_share_the_metadata(lab):
    first, second = Layer(lab, 3), Layer(lab, 3)
    metadata = first.metadata([5, 6, -1])
    first.write_with(metadata)
    second.write_with(metadata)
    second.see("slot_mapping after both layers", metadata.slot_mapping.tolist(), equals=[5, 6, -1])
    second.expect(row=1, block=1, offset=2)
