"""Lab 01.4: the kernel that writes keys and values. Small shapes, since without a GPU each program is interpreted."""

import torch

from labkit import cases, check, concept

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CANARY = -7.0  # what stands in every slot at first
BAND = 64  # NaN before and behind each tensor, so that a write out of range shows


def guarded(tensor):
    """The tensor between two bands of NaN, and the whole memory of it."""
    memory = torch.full((tensor.numel() + 2 * BAND,), torch.nan, dtype=tensor.dtype, device=DEVICE)
    return memory[BAND:-BAND].view(tensor.shape).copy_(tensor), memory


class Step:
    """Keys 10, 20, ... and values 15, 25, ... of a step, and two caches of 2 blocks of 4 slots, full of canaries."""

    def __init__(self, num_tokens, num_kv_heads=1, head_dim=4, dtype=torch.float32):
        numbers = torch.arange(num_kv_heads * head_dim).view(num_kv_heads, head_dim) % 10
        self.key = (10 * torch.arange(1, num_tokens + 1)[:, None, None] + numbers).to(DEVICE, dtype)
        self.value = self.key + 5
        empty = torch.full((2, 4, num_kv_heads, head_dim), CANARY, dtype=dtype)
        (self.key_cache, self.key_memory), (self.value_cache, self.value_memory) = guarded(empty), guarded(empty)
        self.slots = []

    def write(self, slots):
        from mini_vllm.attention.write_kv import write_kv

        self.slots = slots
        self.see = check(self.draw)
        slot_mapping, _ = guarded_slots(slots)
        write_kv(self.key, self.value, self.key_cache, self.value_cache, slot_mapping)

    def draw(self):
        """The first number of each slot."""
        lines = [f"slots of the tokens {self.slots}; . is untouched"]
        for name, cache in (("keys", self.key_cache), ("values", self.value_cache)):
            first = cache.flatten(0, 1)[:, 0, 0].tolist()
            lines.append(f"{name:7} " + " ".join("." if x == CANARY else f"{x:g}" for x in first))
        return "\n".join(lines)

    def expect(self, token, slot):
        """The token stands in that slot."""
        for name, new, cache in (("key", self.key, self.key_cache), ("value", self.value, self.value_cache)):
            got, expected = cache.flatten(0, 1)[slot].flatten().tolist(), new[token].flatten().tolist()
            self.see(f"{name} of token {token}, in slot {slot}", got, equals=expected)

    def expect_untouched(self, slots):
        """A canary still stands in each of these slots, and NaN around the caches."""
        for name, cache, memory in (
            ("keys", self.key_cache, self.key_memory),
            ("values", self.value_cache, self.value_memory),
        ):
            touched = [slot for slot in slots if bool((cache.flatten(0, 1)[slot] != CANARY).any())]
            self.see(f"slots of nobody that were written in the cache of {name}", touched, equals=[])
            for place, band in (("before", memory[:BAND]), ("behind", memory[-BAND:])):
                written = int((~band.isnan()).sum())
                self.see(f"numbers written {place} the cache of {name}", written, equals=0)


def guarded_slots(slots):
    """The slots between two bands of slot 5."""
    memory = torch.tensor([5] * 4 + slots + [5] * 4, dtype=torch.int64, device=DEVICE)
    return memory[4:-4], memory


@concept("A program is one token: it takes the key and the value of its own row.", invariant="I1", illustrates=True)
def test_one_token(lab):
    step = Step(1)
    step.write([6])
    step.expect(token=0, slot=6)


@concept("The slot says where a token goes; its place in the batch does not.", invariant="I1")
def test_slots_in_any_order(lab):
    step = Step(3)
    step.write([7, 2, 4])
    for token, slot in enumerate(step.slots):
        step.expect(token, slot)


@concept("A token has ROW numbers, all heads of it, be they few or many.", invariant="I1")
@cases(one_number=(1, 1), heads=(2, 4), many=(4, 16))
def test_rows_of_every_size(lab, case):
    num_kv_heads, head_dim = case
    step = Step(2, num_kv_heads, head_dim)
    step.write([4, 5])
    step.expect(token=0, slot=4)
    step.expect(token=1, slot=5)


@concept("A range is padded to a power of two; what it holds beyond ROW is not stored.", invariant="I3")
@cases(three_of_four=(1, 3), six_of_eight=(2, 3), five_of_eight=(5, 1))
def test_rows_that_are_no_power_of_two(lab, case):
    num_kv_heads, head_dim = case
    step = Step(2, num_kv_heads, head_dim)
    step.write([6, 7])  # behind slot 7 the cache ends
    step.expect_untouched([0, 1, 2, 3, 4, 5])
    step.expect(token=0, slot=6)
    step.expect(token=1, slot=7)
    step = Step(2, num_kv_heads, head_dim)
    step.write([2, 3])
    step.expect_untouched([0, 1, 4, 5, 6, 7])


@concept(
    "Keys and values are parts of wider matrices: the next token begins a stride further on, each by its own.",
    invariant="I1",
)
@cases(both_parts_of_one=(12, 12), key_wider=(12, 4), value_wider=(4, 8))
def test_strides(lab, case):
    step = Step(3)
    for name, stride in zip(("key", "value"), case):
        wide, _ = guarded(torch.full((3, stride), torch.nan))
        part = wide[:, stride - 4 :].view(3, 1, 4)
        setattr(step, name, part.copy_(getattr(step, name)))
    step.write([4, 5, 6])
    for token, slot in enumerate(step.slots):
        step.expect(token, slot)


@concept(
    "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache.",
    invariant="I2",
)
@cases(one=[4, 5, -1], two=[4, 5, -1, -1], nothing_else=[-1, -1])
def test_padding(lab, case):
    step = Step(len(case))
    step.write(case)
    step.expect_untouched([slot for slot in range(8) if slot not in case])
    for token, slot in enumerate(case):
        if slot >= 0:
            step.expect(token, slot)


@concept("Slot 0 is a slot like any other; only negative ones are padding.", invariant="I2")
def test_slot_zero(lab):
    step = Step(2)
    step.write([0, 1])
    step.expect(token=0, slot=0)
    step.expect(token=1, slot=1)


@concept("A key is copied, not computed with: 100,000 is a bfloat16 and no float16.", invariant="I1")
@cases(bfloat16=(torch.bfloat16, 1e5), float16=(torch.float16, 2**-24), float32=(torch.float32, 1 + 2**-20))
def test_nothing_is_rounded(lab, case):
    dtype, number = case
    step = Step(2, dtype=dtype)
    step.key[0, 0, 1], step.value[1, 0, 2] = number, -number
    step.write([4, 5])
    step.expect(token=0, slot=4)
    step.expect(token=1, slot=5)
