"""What the ranks have together, against what one process has."""

from random import Random

from labkit import check


def make_layer(lab, num_rows, num_columns, seed=0):
    """A layer of small integers, with a bias: its sums are exact in every order."""
    rng = Random(100 * num_rows + num_columns + seed)
    weight = [[rng.randint(-9, 9) for _ in range(num_columns)] for _ in range(num_rows)]
    return lab.Linear(weight, None, [rng.randint(-9, 9) for _ in range(num_rows)])


def test_columns_of_two_ranks(lab):
    """The outputs of the ranks, one behind the other, are those of the layer."""
    layer, x, see = make_layer(lab, 4, 3), [1, -2, 3], check()
    together = [y for rank in range(2) for y in lab.apply(lab.column_shard(layer, rank, 2), x)]
    see("outputs", together, equals=lab.apply(layer, x))


# --- layers -----------------------------------------------------------------------------------------------------------


def test_rows_are_added_up(lab):
    see = check()
    for size in (1, 2, 3):
        layer, x = make_layer(lab, 4, 6), [1, -2, 3, 5, 0, 2]
        share, terms = 6 // size, []
        for rank in range(size):
            own = x[rank * share : (rank + 1) * share]
            terms.append(lab.apply(lab.row_shard(layer, rank, size), own))
        see(f"the sum over {size} ranks", [sum(each) for each in zip(*terms, strict=True)], lab.apply(layer, x))


def test_gate_and_up(lab):
    """Each rank has its part of both."""
    layers, see = [make_layer(lab, 4, 2, seed=5), make_layer(lab, 4, 2, seed=6)], check()
    for rank in range(2):
        expected = [y for layer in layers for y in lab.apply(layer, [3, -1])[2 * rank : 2 * rank + 2]]
        see(f"outputs of rank {rank}", lab.apply(lab.merged_shard(layers, rank, 2), [3, -1]), equals=expected)


def test_eight_bits(lab):
    layer, see = lab.Linear([[1.0, -2.0, 0.5, 8.0], [0.25, 3.0, 1.0, -1.0]]), check()
    whole = lab.quantized(layer)
    for rank in range(2):
        found = lab.row_shard(layer, rank, 2, int8=True)
        see(f"scales of rank {rank}", list(found.scale), equals=list(whole.scale))
        own = [list(row)[2 * rank : 2 * rank + 2] for row in whole.weight]
        see(f"integers of rank {rank}", [list(row) for row in found.weight], equals=own)


# --- heads and tokens -------------------------------------------------------------------------------------------------


def test_kv_heads(lab):
    see = check()
    for num_heads, num_kv_heads, size in ((8, 2, 4), (8, 4, 2), (6, 1, 3), (12, 3, 6)):
        group = num_heads // num_kv_heads
        for rank in range(size):
            read = sorted({head // group for head in lab.query_heads(num_heads, rank, size)})
            see(f"KV heads of rank {rank} of {size}", list(lab.kv_heads(num_kv_heads, rank, size)), equals=read)


def test_greedy_tokens(lab):
    see, rng = check(), Random(4)
    for size, vocab_size in ((2, 100), (3, 70), (4, 130)):
        for _ in range(6):
            logits = [float(-rng.randint(1, 5)) for _ in range(vocab_size)]
            pairs = []
            for rank in range(size):
                own = lab.vocab_rows(vocab_size, rank, size)
                row = [logits[token_id] if token_id < vocab_size else 0.0 for token_id in own]
                pairs.append(lab.best_of(row, rank, vocab_size))
            see("the greedy token", lab.best_of_all(pairs), equals=logits.index(max(logits)))


# --- a ring -----------------------------------------------------------------------------------------------------------


def test_rings(lab):
    see = check()
    for size, length in ((1, 3), (2, 5), (3, 7), (4, 2)):
        terms = [[float(10**rank * (place + 1)) for place in range(length)] for rank in range(size)]
        given, kept = [list(term) for term in terms], []
        ranks = [lab.RingRank(rank, size, numbers) for rank, numbers in enumerate(given)]
        for _ in range(2 * (size - 1)):
            messages = [rank.send() for rank in ranks]
            kept += [(message, list(message)) for message in messages]
            for number, message in enumerate(messages):
                ranks[(number + 1) % size].receive(message)
        total = [sum(each) for each in zip(*terms, strict=True)]
        see("the result of each rank", [list(rank.result()) for rank in ranks], equals=[total] * size)
        see("messages in the end", [list(message) for message, _ in kept], equals=[copy for _, copy in kept])
        see("the lists of the caller", given, equals=terms)


# --- experts ----------------------------------------------------------------------------------------------------------


CHOSEN = ([[0], [0], [0]], [[1, 0], [1, 2], [0, 2], [1, 3], [1, 2]], [[3, 0], [0, 3], [3, 1]])


def product(rows, weight):
    """Each number times a number that the expert alone has, and one more, so that padding is not zero either."""
    return [[weight * number + 1.0 for number in row] for row in rows]


def test_pairs_and_their_experts(lab):
    see = check()
    for experts in CHOSEN:
        top_k = len(experts[0])
        for block_size in (1, 2, 4):
            for expert_map in (None, [0, -1, 1, -1], [-1, 0, -1, 1]):
                weights = [10.0, 100.0, 1000.0, 10000.0]
                own = list(range(4)) if expert_map is None else expert_map
                local = [w for w, place in zip(weights, own, strict=True) if place >= 0]
                aligned = lab.align(experts, 4, block_size, expert_map)
                x = [[float(token + 1)] for token in range(len(experts))]
                out = [["nothing"] for _ in range(len(experts) * top_k)]
                lab.grouped_product(x, local, aligned, top_k, out, product)
                expected = [
                    [weights[expert] * (token + 1) + 1.0] if own[expert] >= 0 else ["nothing"]
                    for token, row in enumerate(experts)
                    for expert in row
                ]
                see("outputs by pair", [list(row) for row in out], equals=expected)


def test_blocks_behind_the_last_pair(lab):
    see = check()
    for experts in CHOSEN:
        pairs, owners = lab.align(experts, 4, 4)
        num_pairs = sum(map(len, experts))
        for number, owner in enumerate(owners):
            block = list(pairs)[4 * number : 4 * number + 4]
            if min(block) == num_pairs:
                see("the expert of a block of padding", owner, equals=lab.NO_EXPERT)


# --- places -----------------------------------------------------------------------------------------------------------


LOADS = (
    (([60, 60, 55, 100], 2, 1), [[0, 2, 3], [1, 3]]),
    (([20, 9, 5, 4, 3, 2], 3, 1), [[0, 4, 5], [0, 3], [1, 2]]),
    (([100, 1, 1, 1], 2, 0), [[0, 3], [1, 2]]),
)


def test_places(lab):
    see = check()
    for case, expected in LOADS:
        found = [list(own) for own in lab.place_experts(*case)]
        see("experts that a rank has twice", [own for own in found if len(set(own)) < len(own)], equals=[])
        see("experts by rank", found, equals=expected)
