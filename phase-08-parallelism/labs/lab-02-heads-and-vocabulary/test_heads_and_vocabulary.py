"""Lab 08.2: which heads and tokens are a rank's, and what it says of those that are not."""

from math import gcd, inf, nan

from labkit import cases, check, concept, far, raises, walk


def ids(part):
    return list(part)


def heads_told(num_heads, num_kv_heads, size):
    return lambda: f"{num_heads} query heads and {num_kv_heads} KV heads on {size} ranks"


@concept("Each rank has equally many query heads, one behind the other.", invariant="I1", illustrates=True)
@cases(one_rank=(6, 1), two_ranks=(8, 2), a_head_each=(5, 5), three_ranks=(12, 3), many=(far(96, 960), 8))
def test_query_heads(lab, case):
    num_heads, size = case[0] // case[1] * case[1], case[1]
    see, share = check(lambda: f"{num_heads} query heads on {size} ranks"), num_heads // size
    for rank in range(size):
        found = ids(lab.query_heads(num_heads, rank, size))
        see(f"query heads of rank {rank}", found, equals=list(range(rank * share, (rank + 1) * share)))


@concept("Query heads that cannot be shared out evenly are refused.", invariant="I1", illustrates=True)
@cases(seven_on_two=(7, 2), one_on_two=(1, 2), eight_on_three=(8, 3))
def test_query_heads_refused(lab, case):
    with raises(lab.InvalidParameterError, f"{case[0]} query heads on {case[1]} ranks"):
        lab.query_heads(case[0], 0, case[1])


@concept("A rank has the KV heads that its query heads read.", invariant="I2")
@cases(
    split=(8, 4, 2), one_each=(8, 4, 4), copied=(8, 2, 4), one_head_for_all=(6, 1, 3), as_many_as_heads=(4, 4, 2),
    copied_to_eight=(16, 2, 8), large=(64, 8, 16),
)  # fmt: skip
def test_kv_heads(lab, case):
    num_heads, num_kv_heads, size = case
    see, group = check(heads_told(*case)), num_heads // num_kv_heads
    for rank in range(size):
        share = num_heads // size
        read = sorted({head // group for head in range(rank * share, (rank + 1) * share)})
        see(f"KV heads of rank {rank}", ids(lab.kv_heads(num_kv_heads, rank, size)), equals=read)


@concept("KV heads that can be neither shared out nor copied evenly are refused.", invariant="I2")
@cases(six_on_four=(6, 4), two_on_three=(2, 3), three_on_two=(3, 2), four_on_six=(4, 6))
def test_kv_heads_refused(lab, case):
    with raises(lab.InvalidParameterError, f"{case[0]} KV heads on {case[1]} ranks"):
        lab.kv_heads(case[0], 0, case[1])


@concept("All ranks have equally many rows, together the smallest multiple of 64 that holds the vocabulary.",
         invariant="I3")  # fmt: skip
@cases(
    one_rank=(100, 1), two_ranks=(100, 2), exact=(128, 2), one_more=(129, 2), three=(2048, 3), five=(64, 5),
    large=(far(151_936, 400_000), 8), twelve=(1000, 12), one_token=(1, 4),
)  # fmt: skip
def test_vocab_rows(lab, case):
    vocab_size, size = case
    multiple = 64 * size // gcd(64, size)
    padded = -(-vocab_size // multiple) * multiple
    see = check(lambda: f"a vocabulary of {vocab_size} tokens on {size} ranks")
    for rank in range(size):
        own = lab.vocab_rows(vocab_size, rank, size)
        expected = (rank * padded // size, (rank + 1) * padded // size, padded // size)
        what = f"first token of rank {rank} and of the next, and the number of its rows"
        see(what, (own[0], own[-1] + 1, len(own)), equals=expected)


def make_table(first, num_rows):
    """Row n of the whole table has numbers that no other row has."""
    return [[float(token_id), token_id + 0.5, -float(token_id)] for token_id in range(first, first + num_rows)]


@concept("A rank has a row for its own tokens, and zeros for the tokens of the other ranks.", invariant="I4")
@cases(first=(0, 4), second=(1, 4), last=(2, 4), one_row=(2, 1))
def test_embed(lab, case):
    rank, num_rows = case
    first = rank * num_rows
    table, token_ids = make_table(first, num_rows), [*range(3 * num_rows), first, 0, first]
    see = check(lambda: f"rank {rank} of 3, with tokens {first} to {first + num_rows - 1}; tokens {token_ids}")
    found = [list(row) for row in lab.embed(token_ids, table, rank)]
    expected = [table[t - first] if first <= t < first + num_rows else [0.0, 0.0, 0.0] for t in token_ids]
    see("the rank's row of each token", found, equals=expected)
    see("the table", table, equals=make_table(first, num_rows))


@concept("The sum over the ranks is the row of the whole table.", invariant="I4", illustrates=True)
@cases(two=2, five=5)
def test_sum_of_embeddings(lab, case):
    token_ids = [case * 4 - 1, 0, 3, 4, 4]
    see = check(lambda: f"{case} ranks with 4 rows each; tokens {token_ids}")
    terms = [lab.embed(token_ids, make_table(4 * rank, 4), rank) for rank in range(case)]
    found = [[sum(numbers) for numbers in zip(*rows, strict=True)] for rows in zip(*terms, strict=True)]
    see("the sum", found, equals=[make_table(t, 1)[0] for t in token_ids])


@concept("The largest logit of a rank, by the token id that all ranks know.", invariant="I5", illustrates=True)
@cases(first=([1.0, 5.0, 2.0], 0, 9, (5.0, 1)), second=([1.0, 2.0, 5.0], 1, 9, (5.0, 5)),
       negative=([-7.0, -3.0, -5.0], 2, 9, (-3.0, 7)), one=([4.0], 3, 9, (4.0, 3)))  # fmt: skip
def test_best_of(lab, case):
    logits, rank, vocab_size, expected = case
    see = check(lambda: f"logits {logits} of rank {rank}, {vocab_size} tokens")
    see("the pair", tuple(lab.best_of(logits, rank, vocab_size)), equals=expected)


@concept("Padding is no token: a logit of 0 behind negative ones is not seen.", invariant="I5")
@cases(one_behind=([-2.0, -1.0, 0.0], 1, 5, (-1.0, 4)), two_behind=([-2.0, 0.0, 0.0], 1, 4, (-2.0, 3)),
       nan=([-2.0, nan, nan], 0, 1, (-2.0, 0)))  # fmt: skip
def test_padding(lab, case):
    logits, rank, vocab_size, expected = case
    see = check(lambda: f"logits {logits} of rank {rank}, {vocab_size} tokens")
    see("the pair", tuple(lab.best_of(logits, rank, vocab_size)), equals=expected)


@concept("A rank of padding alone has -inf, and no token.", invariant="I5", illustrates=True)
@cases(right_behind=(2, 6), far_behind=(5, 6))
def test_padding_alone(lab, case):
    rank, vocab_size = case
    see = check(lambda: f"three rows of rank {rank}, {vocab_size} tokens")
    see("the pair", tuple(lab.best_of([0.0, 1.0, 2.0], rank, vocab_size)), equals=(-inf, vocab_size))


@concept("The largest logit of all ranks wins.", invariant="I6", illustrates=True)
@cases(first=([(5.0, 1), (2.0, 70)], 1), last=([(1.0, 99), (2.0, 130), (2.5, 200)], 200), alone=([(-1.0, 3)], 3),
       middle=([(1.0, 9), (3.0, 70), (2.0, 129)], 70))  # fmt: skip
def test_best_of_all(lab, case):
    pairs, expected = case
    see = check(lambda: f"pairs by rank: {pairs}")
    see("the token", lab.best_of_all(pairs), equals=expected)


@concept("Of equal logits that of the lowest token id is taken, within a rank and among the ranks.", invariant="I7")
@cases(
    in_a_rank=[[1.0, 3.0, 3.0, 3.0]], zeros=[[-0.0, 0.0]], two=[[1.0, 3.0], [3.0, 3.0]], three=[[1.0], [3.0], [3.0]],
    first_of_four=[[2.0], [2.0], [2.0], [2.0]],
)  # fmt: skip
def test_equals(lab, case):
    see = check(lambda: f"logits by rank: {case}")
    pairs = [lab.best_of(logits, rank, 99) for rank, logits in enumerate(case)]
    logits = [logit for own in case for logit in own]
    see("the token", lab.best_of_all(pairs), equals=logits.index(max(logits)))


@concept("NaN is larger than any number, and the first NaN is taken.", invariant="I7")
@cases(in_a_rank=([1.0, nan, inf, nan], None), first=([nan, 5.0], None), among_ranks=(None, [(inf, 1), (nan, 70)]),
       first_rank=(None, [(nan, 1), (9.0, 70), (nan, 140)]))  # fmt: skip
def test_nan(lab, case):
    logits, pairs = case
    see = check(lambda: f"logits {logits}" if logits else f"pairs by rank: {pairs}")
    if logits:
        see("the token", lab.best_of(logits, 0, 9)[1], equals=logits.index(nan))
    else:
        see("the token", lab.best_of_all(pairs), equals=next(token for value, token in pairs if value != value))


@concept("A token whose logit is -inf goes before padding.", invariant="I7")
@cases(all_of_them=[-inf, -inf, -inf], padding_too=[-inf, -inf])
def test_minus_infinity(lab, case):
    see = check(lambda: f"logits {case} of rank 0, the vocabulary has 1 token")
    see("the pair", tuple(lab.best_of(case, 0, 1)), equals=(-inf, 0))


def plan(rng):
    calls = [("ranks", rng.choice((1, 2, 3, 4, 8)), rng.randint(1, 400))]
    for _ in range(rng.randint(1, 5)):
        calls.append(("sample", [rng.choice((0.0, 1.0, -2.0, 2.5, -inf)) for _ in range(rng.randint(1, 9))]))
    return calls


def play(lab, calls):
    size, vocab_size = 1, 1
    for name, *arguments in calls:
        if name == "ranks":
            size, vocab_size = arguments
            continue
        (logits,) = arguments
        own = [lab.vocab_rows(vocab_size, rank, size) for rank in range(size)]
        rows = [[logits[token_id * 7 % len(logits)] for token_id in part] for part in own]
        pairs = [tuple(lab.best_of(row, rank, vocab_size)) for rank, row in enumerate(rows)]
        yield "I5", "the pairs by rank", pairs
        yield "I6", "the greedy token", lab.best_of_all(pairs)


@concept("Whatever the vocabulary and the ranks: the greedy token of one process.", invariant="I6", illustrates=True,
         searches=True)  # fmt: skip
def test_any_vocabulary(lab):
    walk(lab, plan, play)
