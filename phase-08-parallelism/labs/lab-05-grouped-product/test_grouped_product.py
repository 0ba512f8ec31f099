"""Lab 08.5: what each block reads and writes, and the sum of a token's experts."""

from random import Random

from labkit import cases, check, concept, far, walk


def multiply(rows, weight):
    """A row of outputs for each row, by the definition."""
    return [[float(sum(a * b for a, b in zip(row, column, strict=True))) for column in weight] for row in rows]


class Product:
    """A product that notes what it gets."""

    def __init__(self):
        self.calls = []

    def __call__(self, rows, weight):
        self.calls.append(([list(row) for row in rows], weight))
        return multiply(rows, weight)


def draw_rows(number, length, seed=0):
    rng = Random(100 * number + length + seed)
    return [[float(rng.randint(-9, 9)) for _ in range(length)] for _ in range(number)]


def draw_weights(num_experts, num_outputs, num_inputs):
    return [draw_rows(num_outputs, num_inputs, 1000 + expert) for expert in range(num_experts)]


def blocks_of(lab, experts, num_experts, block_size, *, absent=(), spare=0, padding=None):
    """The blocks of lab 08.4; those of absent experts have none, and `spare` more are padding."""
    chosen = [expert for row in experts for expert in row]
    padding = len(chosen) if padding is None else padding
    pairs, owners = [], []
    for expert in range(num_experts):
        own = [pair for pair, each in enumerate(chosen) if each == expert]
        for start in range(0, len(own), block_size):
            block = own[start : start + block_size]
            pairs += block + [padding] * (block_size - len(block))
            owners.append(lab.NO_EXPERT if expert in absent else expert)
    return lab.Aligned(pairs + [padding] * (block_size * spare), owners + [lab.NO_EXPERT] * spare)


def told(experts, block_size, aligned):
    return lambda: (
        f"experts of the tokens {experts[:6]}, blocks of {block_size}\n"
        f"pairs   {list(aligned.pairs)[:24]}\nexperts {list(aligned.experts)[:12]}"
    )


MIX = [[1, 0], [1, 2], [0, 2], [1, 3], [2, 1]]
CASES = {
    "blocks_of_2": (MIX, 4, 2),
    "blocks_of_1": (MIX, 4, 1),
    "one_large_block": (MIX, 4, 8),
    "one_expert": ([[0]] * 3, 1, 2),
    "one_choice": ([[2], [0], [2]], 3, 2),
}


@concept("A pair reads the row of its token, and writes to its own place.", invariant="I1")
@cases(**CASES)
def test_rows_and_places(lab, case):
    experts, num_experts, block_size = case
    top_k = len(experts[0])
    aligned = blocks_of(lab, experts, num_experts, block_size)
    x, weights = draw_rows(len(experts), 3), draw_weights(num_experts, 4, 3)
    see = check(told(experts, block_size, aligned))
    out = [None] * (len(experts) * top_k)
    lab.grouped_product(x, weights, aligned, top_k, out, multiply)
    for token, row in enumerate(experts):
        for choice, expert in enumerate(row):
            expected = multiply([x[token]], weights[expert])[0]
            found = out[token * top_k + choice]
            see(f"output of pair {token * top_k + choice}", None if found is None else list(found), equals=expected)


@concept("In a second product each pair has a row of its own.", invariant="I1", illustrates=True)
@cases(two=(MIX, 4, 2), large=([[token % 7, 7 + token % 5] for token in range(far(20))], 12, 4))
def test_a_row_for_each_pair(lab, case):
    experts, num_experts, block_size = case
    chosen = [expert for row in experts for expert in row]
    aligned = blocks_of(lab, experts, num_experts, block_size)
    x, weights = draw_rows(len(chosen), 2), draw_weights(num_experts, 3, 2)
    see = check(told(experts, block_size, aligned))
    out = [None] * len(chosen)
    lab.grouped_product(x, weights, aligned, 1, out, multiply)
    for pair, expert in enumerate(chosen):
        expected = multiply([x[pair]], weights[expert])[0]
        see(f"output of pair {pair}", None if out[pair] is None else list(out[pair]), equals=expected)


@concept("One product for each block that has an expert, of as many rows as a block has.", invariant="I2")
@cases(**CASES)
def test_products(lab, case):
    experts, num_experts, block_size = case
    aligned, product = blocks_of(lab, experts, num_experts, block_size), Product()
    x, weights = draw_rows(len(experts), 2), draw_weights(num_experts, 2, 2)
    see = check(told(experts, block_size, aligned))
    top_k = len(experts[0])
    lab.grouped_product(x, weights, aligned, top_k, [None] * (len(experts) * top_k), product)
    see("the number of products", len(product.calls), equals=len(aligned.experts))
    see(
        "the rows of each product", [len(rows) for rows, _ in product.calls], equals=[block_size] * len(aligned.experts)
    )


@concept("A block without an expert costs no product, and what stands in its places stays.", invariant="I2")
@cases(other_rank=((1, 3), 0), all_elsewhere=((0, 1, 2, 3), 0), spare_blocks=((), 3), both=((2,), 2))
def test_blocks_without_an_expert(lab, case):
    absent, spare = case
    aligned, product = blocks_of(lab, MIX, 4, 2, absent=absent, spare=spare), Product()
    x, weights = draw_rows(5, 2), draw_weights(4, 2, 2)
    see = check(told(MIX, 2, aligned))
    out = [["as it was", pair] for pair in range(10)]
    lab.grouped_product(x, weights, aligned, 2, out, product)
    expected = sum(expert != lab.NO_EXPERT for expert in aligned.experts)
    see("the number of products", len(product.calls), equals=expected)
    chosen = [expert for row in MIX for expert in row]
    kept = [pair for pair in range(10) if chosen[pair] in absent]
    see("the places of absent experts", [out[pair] for pair in kept], equals=[["as it was", pair] for pair in kept])


@concept("Padding is rows of zeros.", invariant="I3")
@cases(two_of_four=([[0], [0]], 4), one_of_three=([[0]], 3))
def test_padding(lab, case):
    experts, block_size = case
    aligned, product = blocks_of(lab, experts, 1, block_size), Product()
    x, out = [[5.0, 6.0, 7.0]] * len(experts), [None] * len(experts)
    see = check(told(experts, block_size, aligned))
    lab.grouped_product(x, draw_weights(1, 2, 3), aligned, 1, out, product)
    rows = product.calls[0][0] if product.calls else []
    see("rows of padding that are not zeros", [row for row in rows[len(experts) :] if row != [0.0] * 3], equals=[])


@concept("What comes of padding is written nowhere.", invariant="I3", illustrates=True)
@cases(last=([[0], [0], [1]], 2, 3), first=([[1], [0], [0]], 4, 3), below_zero=([[1], [0], [0]], 4, -1),
       far_away=([[1], [0], [0]], 4, 10**9))  # fmt: skip
def test_padding_is_not_written(lab, case):
    experts, block_size, padding = case
    aligned = blocks_of(lab, experts, 2, block_size, padding=padding)

    def biased(rows, weight):
        return [[number + 1.0 for number in row] for row in multiply(rows, weight)]

    x, weights, out = draw_rows(3, 2), draw_weights(2, 2, 2), [None] * 3
    see = check(told(experts, block_size, aligned))
    returned = lab.grouped_product(x, weights, aligned, 1, out, biased)
    see("what grouped_product() returns", returned, equals=None)
    expected = [biased([x[pair]], weights[experts[pair][0]])[0] for pair in range(3)]
    see("all places", [None if row is None else list(row) for row in out], equals=expected)


class Rows(list):
    """Rows that note which of them are read."""

    def __init__(self, rows):
        super().__init__(rows)
        self.read = set()

    def __getitem__(self, place):
        places = range(len(self))[place]
        self.read.update(places if isinstance(place, slice) else [places])
        return super().__getitem__(place)

    def __iter__(self):
        self.read.update(range(len(self)))
        return super().__iter__()


@concept("Only rows of pairs that have an expert here are read.", invariant="I4", illustrates=True)
@cases(rank_0=(2, 3), rank_1=(0, 1))
def test_rows_that_are_read(lab, case):
    experts = [[0, 1], [2, 3], [3, 2], [1, 0], [2, 3], [0, 1]]
    aligned = blocks_of(lab, experts, 4, 2, absent=case)
    x = Rows(draw_rows(6, 2))
    see = check(told(experts, 2, aligned))
    lab.grouped_product(x, draw_weights(4, 2, 2), aligned, 2, [None] * 12, multiply)
    needed = {token for token, row in enumerate(experts) if not set(row) <= set(case)}
    see("rows that are read and not needed", sorted(x.read - needed), equals=[])


@concept("The sum of a token's rows, each times its weight.", invariant="I5")
@cases(two=(3, 2, 4), one=(2, 1, 3), eight=(5, 8, 2), no_token=(0, 2, 3))
def test_finalise(lab, case):
    num_tokens, top_k, length = case
    outputs = draw_rows(num_tokens * top_k, length)
    weights = [[float(2 ** -(choice + 1)) for choice in range(top_k)] for _ in range(num_tokens)]
    see = check(lambda: f"{num_tokens} tokens, {top_k} choices, rows of {length}")
    expected = [
        [sum(w * outputs[t * top_k + c][k] for c, w in enumerate(own)) for k in range(length)]
        for t, own in enumerate(weights)
    ]
    found = [list(row) for row in lab.finalise(outputs, weights)]
    see("the rows of the tokens", found, equals=expected)
    see("the outputs that came in", outputs, equals=draw_rows(num_tokens * top_k, length))


@concept("A row counts also if its weight is 0: what is no number stays none.", invariant="I5", illustrates=True)
def test_a_weight_of_zero(lab):
    see = check(lambda: "weights [0.0, 1.0], rows [inf] and [1.0]")
    found = lab.finalise([[float("inf")], [1.0]], [[0.0, 1.0]])
    see("the sum", repr(found[0][0]), equals="nan")


@concept("A sum takes the choices in their order, so its bits are those of one process.", invariant="I6")
@cases(three=[0.1, 0.2, 0.3], backwards=[0.3, 0.2, 0.1], wide=[1e16, 1.0, -1e16], four=[0.7, 0.1, 0.3, 1e-9],
       below_zero=[-0.0])  # fmt: skip
def test_order_of_the_sum(lab, case):
    see = check(lambda: f"weights {case}, rows of ones")
    total = 0.0
    for weight in case:
        total += weight * 1.0
    found = lab.finalise([[1.0]] * len(case), [case])
    see("the sum", repr(found[0][0]), equals=repr(total))


def plan(rng):
    num_experts = rng.randint(1, 5)
    calls = [("experts", num_experts, rng.randint(1, min(3, num_experts)))]
    for _ in range(rng.randint(1, 3)):
        calls.append(("product", rng.randint(1, 6), rng.randint(1, 4), rng.randint(0, num_experts), rng.randint(0, 99)))
    return calls


def play(lab, calls):
    num_experts = top_k = 1
    for name, *arguments in calls:
        if name == "experts":
            num_experts, top_k = arguments
            continue
        num_tokens, block_size, num_absent, seed = arguments
        rng = Random(seed)
        experts = [rng.sample(range(num_experts), top_k) for _ in range(num_tokens)]
        absent = rng.sample(range(num_experts), num_absent)
        aligned = blocks_of(lab, experts, num_experts, block_size, absent=absent, spare=seed % 2)
        out = [[0.0] * 2 for _ in range(num_tokens * top_k)]
        x, weights = draw_rows(num_tokens, 3, seed), draw_weights(num_experts, 2, 3)
        lab.grouped_product(x, weights, aligned, top_k, out, multiply)
        yield "I1", "the outputs", [list(row) for row in out]
        shares = [[rng.random() for _ in range(top_k)] for _ in range(num_tokens)]
        yield "I6", "the sums", [list(row) for row in lab.finalise(out, shares)]


@concept("Whatever the blocks: the outputs and sums of the reference.", invariant="I1", illustrates=True,
         searches=True)  # fmt: skip
def test_any_blocks(lab):
    walk(lab, plan, play)
