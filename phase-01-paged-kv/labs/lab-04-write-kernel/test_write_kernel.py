"""Lab 01.4: the kernel that writes keys and values. Small shapes, since without a GPU each program is interpreted."""

import torch

from labkit import cases, check, concept, far, search
from labkit.kernels.strays import watched

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CANARY = -7.0  # what stands in every slot at first
BAND = 64  # NaN before and behind each tensor, so that a write out of range shows on a GPU, too
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the bytes of a number
FAR = 0 if DEVICE == "cuda" else 2**34  # where the interpreter pretends that the caches lie, in numbers


def same_bits(one, other):
    """Two tensors are the same, bit for bit: NaN is NaN, and 0.0 is not -0.0."""
    dtype = BITS[one.element_size()]
    return torch.equal(one.contiguous().view(dtype), other.contiguous().view(dtype))


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

    def write(self, slots, far=0):
        """far: the caches are the end of larger ones, so many numbers behind the pointers."""
        from mini_vllm.attention.write_kv import write_kv

        self.slots = slots
        self.see = check(self.draw)
        self.slot_mapping, _ = guarded_slots(slots)
        caches = {"key_cache": self.key_cache, "value_cache": self.value_cache}
        passed = {"key": self.key, "value": self.value, "slot_mapping": self.slot_mapping}
        with watched(dict.fromkeys(caches, far), **caches, **passed) as self.strays:
            write_kv(self.key, self.value, self.key_cache, self.value_cache, self.slot_mapping)

    def draw(self):
        """The first number of each slot."""
        slots = str(self.slots) if len(self.slots) < 16 else f"[... {', '.join(map(str, self.slots[-4:]))}]"
        lines = [f"slots of the tokens {slots}; . is untouched"]
        for name, cache in (("keys", self.key_cache), ("values", self.value_cache)):
            first = cache.flatten(0, 1)[:, 0, 0].tolist()
            lines.append(f"{name:7} " + " ".join("." if x == CANARY else f"{x:g}" for x in first))
        return "\n".join(lines)

    def expect(self, token, slot):
        """The token stands in that slot."""
        for name, new, cache in (("key", self.key, self.key_cache), ("value", self.value, self.value_cache)):
            got, what = cache.flatten(0, 1)[slot], f"{name} of token {token}, in slot {slot}"
            if same_bits(got, new[token]):
                self.see(what, True, equals=True)
            else:
                self.see.fail(what, str(new[token].flatten().tolist()), str(got.flatten().tolist()))

    def expect_untouched(self, slots):
        """A canary still stands in each of these slots, and nothing outside of the tensors was touched."""
        self.see("what is touched out of place", self.strays, equals=[])
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


@concept(
    "A program is one token: it takes the slot, the key and the value of its own row, and nothing else.",
    invariant="I1",
    illustrates=True,
)
def test_one_token(lab):
    step = Step(1)
    step.write([6])
    step.see("what is touched out of place", step.strays, equals=[])
    step.expect(token=0, slot=6)


@concept("The slot says where a token goes; its place in the batch does not.", invariant="I1")
def test_slots_in_any_order(lab):
    step = Step(3)
    step.write([7, 2, 4])
    for token, slot in enumerate(step.slots):
        step.expect(token, slot)


@concept("A token has ROW numbers, all heads of it, be they few or many.", invariant="I1")
@cases(one_number=(1, 1, 2), heads=(2, 4, 2), many=(5, 13, 2), hundreds=(9, 129, 1))
def test_rows_of_every_size(lab, case):
    num_kv_heads, head_dim, num_tokens = case  # one token of hundreds: who writes number by number needs its time
    step = Step(num_tokens, num_kv_heads, head_dim)
    step.write([4, 5][:num_tokens])
    for token in range(num_tokens):
        step.expect(token, slot=4 + token)


@concept("A token may have thousands of numbers, and a step thousands of tokens.", invariant="I1", illustrates=True)
@cases(numbers=(far(2_060, 4_200), 1), tokens=(1, far(1_100, 2_500)))
def test_many(lab, case):
    """All tokens but the last are padding."""
    head_dim, num_tokens = case
    step = Step(num_tokens, 1, head_dim)
    step.write([-1] * (num_tokens - 1) + [6])
    step.see(f"what is touched out of place, by {num_tokens} tokens of {head_dim} numbers", step.strays, equals=[])
    step.expect_untouched([0, 1, 2, 3, 4, 5, 7])
    step.expect(token=num_tokens - 1, slot=6)


@concept("A launch may have millions of programs.", invariant="I1", illustrates=True)
def test_the_last_of_many_tokens(lab):
    """The interpreter shows three tokens as the last ones of a step of many."""
    from mini_vllm.attention.write_kv import write_kv_kernel

    step, first = Step(3), 2**26 if DEVICE == "cpu" else 0
    step.slots = [6, -1, 4]
    step.see, (step.slot_mapping, _) = check(step.draw), guarded_slots(step.slots)
    caches = {"key_cache": step.key_cache, "value_cache": step.value_cache}
    rows = {"key": step.key, "value": step.value, "slot_mapping": step.slot_mapping}
    far = {"key": 4 * first, "value": 4 * first, "slot_mapping": first}
    with watched(far, first, **caches, **rows) as step.strays:
        write_kv_kernel[(3,)](step.key, step.value, *caches.values(), step.slot_mapping, 4, 4, ROW=4, BLOCK=4)
    step.see(f"what is touched out of place, by programs {first:,} to {first + 2:,}", step.strays, equals=[])
    step.expect(token=0, slot=6)
    step.expect(token=2, slot=4)
    step.expect_untouched([0, 1, 2, 3, 5, 7])


@concept("A range is padded to a power of two; what it holds beyond ROW is neither loaded nor stored.", invariant="I3")
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
@cases(
    one=[4, 5, -1],
    two=[4, 5, -1, -1],
    nothing_else=[-1, -1],
    other_negatives=[4, 5, -2, -9],
    far_below=[4, 5, -(2**32) + 2, -(2**63)],
)
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
@cases(
    bfloat16=(torch.bfloat16, 1e5),
    float16=(torch.float16, 2**-24),
    float32=(torch.float32, 1 + 2**-20),
    float64=(torch.float64, 1 + 2**-52),
)
def test_nothing_is_rounded(lab, case):
    dtype, number = case
    step = Step(2, dtype=dtype)
    step.key[0, 0, 1], step.value[1, 0, 2] = number, -number
    step.write([4, 5])
    step.expect(token=0, slot=4)
    step.expect(token=1, slot=5)


@concept("A row is copied, not judged: NaN, infinities and -0.0 arrive as they are.", invariant="I1")
@cases(nan=torch.nan, infinity=torch.inf, minus_zero=-0.0, zero=0.0, subnormal=1e-40)
def test_odd_numbers(lab, case):
    step = Step(2)
    step.key[0], step.value[1] = case, -case
    step.write([4, 5])
    step.expect(token=0, slot=4)
    step.expect(token=1, slot=5)


@concept("A cache may have more numbers than an int32 can count: a place in it takes 64 bits.", invariant="I1")
def test_a_large_cache(lab):
    """The interpreter shows the caches as the last two blocks of some with 2**34 numbers more, or 2**32 slots."""
    step, first = Step(2), FAR // 4
    step.write([first + 6, first + 7], far=FAR)
    step.see("what is touched out of place", step.strays, equals=[])
    step.expect(token=0, slot=6)
    step.expect(token=1, slot=7)


@concept(
    "Rows may lie so far apart that an int32 does not count to them: 64 bits here, too.",
    invariant="I1",
    illustrates=True,
)
@cases(keys=(2**30, 4), values=(4, 2**30))
def test_rows_that_lie_far_apart(lab, case):
    """The interpreter shows the rows of three tokens so many numbers apart; on a GPU they are neighbours."""
    from mini_vllm.attention.write_kv import write_kv_kernel

    step = Step(3)
    strides = case if DEVICE == "cpu" else (4, 4)
    step.slots = [6, 2, 4]
    step.see, (step.slot_mapping, _) = check(step.draw), guarded_slots(step.slots)
    rows = {f"{name}[{t}]": getattr(step, name)[t] for name in ("key", "value") for t in range(3)}
    far = {f"{name}[{t}]": t * (n - 4) for name, n in zip(("key", "value"), strides) for t in range(3)}
    caches = {"key_cache": step.key_cache, "value_cache": step.value_cache}
    with watched(far, **caches, **rows, slot_mapping=step.slot_mapping) as strays:
        write_kv_kernel[(3,)](step.key, step.value, *caches.values(), step.slot_mapping, *strides, ROW=4, BLOCK=4)
    step.see(f"what is touched out of place, key_stride and value_stride are {strides}", strays, equals=[])
    for token, slot in enumerate(step.slots):
        step.expect(token, slot)


@concept("Keys, values and slots are read, not changed: the next layer has the same slots.", invariant="I3")
def test_what_is_passed_stays(lab):
    step = Step(3)
    before = step.key.tolist(), step.value.tolist()
    step.write([6, -1, 7])
    step.see("the slots after the launch", step.slot_mapping.tolist(), equals=[6, -1, 7])
    step.see("the keys after the launch", step.key.tolist(), equals=before[0])
    step.see("the values after the launch", step.value.tolist(), equals=before[1])


def any_step(rng, size):
    """Slots, the shape of a token, and how much wider the matrices of keys and values are."""
    slots = rng.sample(range(8), rng.randint(0, 8)) + [rng.choice((-1, -rng.randint(1, 99))) for _ in range(1 + size)]
    rng.shuffle(slots)
    return slots, rng.randint(1, 3), rng.randint(1, 2 + size // 2), rng.randint(0, 3), rng.randint(0, 3)


@concept(
    "Whatever the batch, each token stands in its slot, and nothing else has changed.", invariant="I3", searches=True
)
def test_any_step(lab):
    def judge(lab, case):
        slots, num_kv_heads, head_dim, *wider = case
        step = Step(len(slots), num_kv_heads, head_dim)
        for name, more in zip(("key", "value"), wider):
            row = num_kv_heads * head_dim
            wide, _ = guarded(torch.full((len(slots), row + more), torch.nan))
            setattr(step, name, wide[:, :row].unflatten(1, (num_kv_heads, head_dim)).copy_(getattr(step, name)))
        step.write(slots)
        step.expect_untouched([slot for slot in range(8) if slot not in slots])
        for token, slot in enumerate(slots):
            if slot >= 0:
                step.expect(token, slot)
        step.see("the slots after the launch", step.slot_mapping.tolist(), equals=slots)

    search(lab, any_step, judge, 8)
