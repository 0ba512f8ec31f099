"""Lab 05.3: a draft that was drawn from q, and a token that has the distribution p."""

import torch

from labkit import cases, check, concept

P, Q = [0.2, 0.5, 0.3], [0.8, 0.1, 0.1]


def weights_of(lab, p, q, drafts, coins):
    """The weights of each row as proportions, rounded to 1e-4; one distribution may stand for all rows."""
    p, q = (torch.tensor(each if isinstance(each[0], list) else [each] * len(drafts)) for each in (p, q))
    drafts, coins = torch.tensor(drafts).unsqueeze(1), torch.tensor(coins).unsqueeze(1)
    weights = lab.rejection_weights(p, q, drafts, coins)
    return [[round(each, 4) + 0.0 for each in row] for row in (weights / weights.sum(-1, keepdim=True)).tolist()]


def picture(p, q, draft, coin):
    return f"p {p}\nq {q}\ndraft {draft}, p / q = {p[draft] / q[draft]:.3g}, coin {coin}"


@concept(
    "A draft is taken if its coin is below p / q, so always where the target likes it at least as much.", invariant="I1"
)
@cases(
    below=(P, Q, 0, 0.24),
    far_below=(P, Q, 0, 0.001),
    liked_more=(P, Q, 1, 0.999),
    liked_as_much=([0.25, 0.5, 0.25], [0.25, 0.25, 0.5], 0, 0.999),
    a_little_less=([0.45, 0.55], [0.5, 0.5], 0, 0.89),
    a_thousandth_less=([0.5 - 2**-11, 0.5 + 2**-11], [0.5, 0.5], 0, 1 - 2**-9),
    a_little_below=([0.5 - 2**-15, 0.5 + 2**-15], [0.5, 0.5], 0, 1 - 2**-14 - 2**-20),
    one_token=([1.0], [1.0], 0, 0.999),
    a_billionth=([4e-10, 0.6, 0.4], [1e-9, 0.4, 0.6], 0, 0.39),
    far_less=([4e-31, 0.6, 0.4], [1e-30, 0.4, 0.6], 0, 0.39),
)
def test_taken(lab, case):
    p, q, draft, coin = case
    see = check(picture, p, q, draft, coin)
    expected = [1.0 if i == draft else 0.0 for i in range(len(p))]
    see("weights, as proportions", weights_of(lab, p, q, [draft], [coin])[0], equals=expected)


@concept("A rejected draft is replaced from what q left out of p: max(p - q, 0), and nothing else.", invariant="I2")
@cases(
    just_above=(P, Q, 0, 0.26, [0.0, 0.6667, 0.3333]),
    far_above=(P, Q, 0, 0.999, [0.0, 0.6667, 0.3333]),
    two_are_liked_less=([0.1, 0.1, 0.6, 0.2], [0.4, 0.4, 0.1, 0.1], 1, 0.5, [0.0, 0.0, 0.8333, 0.1667]),
    impossible_for_the_target=([0.0, 0.7, 0.3], [0.5, 0.3, 0.2], 0, 0.001, [0.0, 0.8, 0.2]),
    one_is_left=([0.0, 1.0], [1.0, 0.0], 0, 0.5, [0.0, 1.0]),
    a_billionth=([4e-10, 0.5, 0.5], [1e-9, 0.6, 0.4], 0, 0.41, [0.0, 0.0, 1.0]),
    just_the_ratio=([0.25, 0.75], [0.5, 0.5], 0, 0.5, [0.0, 1.0]),
    a_thousandth_less=([0.5 - 2**-11, 0.5 + 2**-11], [0.5, 0.5], 0, 1 - 2**-12, [0.0, 1.0]),
    a_little_less=([0.5 - 2**-15, 0.5 + 2**-15], [0.5, 0.5], 0, 1 - 2**-16, [0.0, 1.0]),
    a_little_above=([0.5 - 2**-15, 0.5 + 2**-15], [0.5, 0.5], 0, 1 - 2**-14 + 2**-20, [0.0, 1.0]),
    least_of_all=([0.5 - 2**-17, 0.5 + 2**-17], [0.5, 0.5], 0, 1 - 2**-20, [0.0, 1.0]),
    the_last_digit=([0.5 - 2**-24, 0.5 + 2**-24], [0.5, 0.5], 0, 1 - 2**-24, [0.0, 1.0]),
    hardly_any_rest=([1.0, 1e-20, 2e-20], [1.0, 2e-20, 1e-20], 1, 0.9, [0.0, 0.0, 1.0]),
    an_unlikely_rest=([0.999, 0.001, 0.0], [0.99995, 0.0, 0.00005], 0, 0.9995, [0.0, 1.0, 0.0]),
)
def test_the_rest(lab, case):
    p, q, draft, coin, expected = case
    see = check(picture, p, q, draft, coin)
    see("weights, as proportions", weights_of(lab, p, q, [draft], [coin])[0], equals=expected)


@concept(
    "Many small differences are a large one: what q left out of p counts, however thin it is spread.",
    invariant="I2",
    illustrates=True,
)
@cases(thousand=1000, hundred_thousand=100_000)
def test_what_is_spread_thin(lab, case):
    p, q = (torch.tensor([[first, *[(1 - first) / case] * case]]) for first in (0.01, 0.02))
    see = check(
        lambda: f"p 0.01 and {case:,} times {0.99 / case}\nq 0.02 and {case:,} times {0.98 / case}\ndraft 0, coin 0.9"
    )
    weights = lab.rejection_weights(p, q, torch.tensor([[0]]), torch.tensor([[0.9]]))[0].double()
    see("weight of the draft, as a proportion", round(float(weights[0] / weights.sum()), 4), equals=0.0)
    see("how many tokens have a weight", int((weights > 0).sum()), equals=case)
    see("the largest of them, times their number", round(float(weights.max() / weights.sum() * case), 2), equals=1.0)


@concept("Drafts from q and fair coins give tokens of the distribution p.", invariant="I3", illustrates=True)
@cases(
    far_apart=(P, Q),
    near=([0.3, 0.4, 0.3], [0.35, 0.3, 0.35]),
    with_zeros=([0.5, 0.5, 0.0, 0.0], [0.25, 0.0, 0.25, 0.5]),
    sure_draft=([0.2, 0.5, 0.3], [1.0, 0.0, 0.0]),
    sure_target=([0.0, 1.0, 0.0], [0.3, 0.3, 0.4]),
    equal=([0.25, 0.5, 0.25], [0.25, 0.5, 0.25]),
)
def test_the_distribution(lab, case):
    p, q = case
    num_coins, got = 1000, [0.0] * len(p)
    coins = [(i + 0.5) / num_coins for i in range(num_coins)]
    for draft, probability in enumerate(q):
        if probability:
            rows = torch.tensor(weights_of(lab, p, q, [draft] * num_coins, coins))
            got = [a + probability * b for a, b in zip(got, rows.mean(0).tolist(), strict=True)]
    see = check(lambda: f"p {p}\nq {q}\neach draft with its probability, {num_coins} coins from 0 to 1")
    see("probability of each token", [round(each, 2) for each in got], equals=[round(each, 2) for each in p])


@concept("If q leaves nothing out but rounding, the draft is taken, and no row is without a weight.", invariant="I4")
@cases(thirds=[1 / 3, 1 / 3, 1 / 3], two=[0.7, 0.3], sure=[1.0, 0.0])
def test_nothing_is_left(lab, case):
    first, last = [float(i == 0) for i in range(len(case))], [float(i == len(case) - 1) for i in range(len(case))]
    q, coin = torch.tensor([case, first]), 1 - 2**-22
    p = torch.stack([q[0] * (1 - 2**-20), torch.tensor(last)])
    rows = f"row 0: q {case}, p equal but for rounding\nrow 1: q {first}, p {last}\ndraft 0, coin {coin} in both"
    see = check(lambda: rows)
    weights = lab.rejection_weights(p, q, torch.tensor([[0], [0]]), torch.tensor([[coin], [coin]]))
    is_sound = bool(((weights >= 0) & weights.isfinite()).all())
    see("whether all weights are finite, and none is negative", is_sound, equals=True)
    tokens = [row.nonzero().flatten().tolist() for row in weights]
    see("the tokens of each row that have a weight", tokens, equals=[[0], [len(case) - 1]])


@concept("A draft that is taken has a weight, also if the target would never say it.", invariant="I4", illustrates=True)
def test_a_draft_that_nobody_wants(lab):
    p, q = [1.0, 0.0], [1.0, 1e-9]
    see = check(picture, p, q, 1, 0.5)
    weights = lab.rejection_weights(torch.tensor([p]), torch.tensor([q]), torch.tensor([[1]]), torch.tensor([[0.5]]))
    see("the tokens that have a weight", weights[0].nonzero().flatten().tolist(), equals=[1])


@concept("A step has any number of rows, and a vocabulary any number of tokens.", invariant="I5", illustrates=True)
@cases(no_row=(0, 3), many_rows=(3000, 2), one_token=(2, 1), many_tokens=(2, 300_000))
def test_sizes(lab, case):
    """p is all on the last token, q on the last two, or on the only one; drafts alternate between them."""
    rows, tokens = case
    p, q = torch.zeros(rows, tokens), torch.zeros(rows, tokens)
    p[:, -1], q[:, -2:] = 1.0, 1 / min(tokens, 2)
    drafts = (tokens - 1 - torch.arange(rows) % min(tokens, 2)).unsqueeze(1)
    see = check(lambda: f"{rows:,} rows, {tokens:,} tokens")
    weights = lab.rejection_weights(p, q, drafts, torch.full((rows, 1), 0.75))
    see("shape of the weights", list(weights.shape), equals=[rows, tokens])
    see("rows in which a token but the last has a weight", int((weights[:, :-1] != 0).any(-1).sum()), equals=0)
    see("rows in which the last token has a weight", int((weights[:, -1] > 0).sum()), equals=rows)


@concept("Each row has its own draft, coin and distributions.", invariant="I5")
def test_each_row_for_itself(lab):
    less, more = ([0.2, 0.8, 0.0], [0.8, 0.2, 0.0]), ([0.4, 0.4, 0.2], [0.2, 0.2, 0.6])
    (p, q), drafts, coins = zip(less, more, less, more, strict=True), [0, 0, 1, 1], [0.9, 0.9, 0.1, 0.5]
    see = check(lambda: "\n".join(f"row {i}: {picture(p[i], q[i], drafts[i], coins[i])}" for i in range(4)))
    expected = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    see("weights of four rows, as proportions", weights_of(lab, list(p), list(q), drafts, coins), equals=expected)


@concept("Distributions, drafts and coins belong to the caller.", invariant="I5")
def test_nothing_changes(lab):
    given = torch.tensor([P, P]), torch.tensor([Q, Q]), torch.tensor([[0], [1]]), torch.tensor([[0.9], [0.9]])
    before = [each.tolist() for each in given]
    see = check()
    shape = list(lab.rejection_weights(*given).shape)
    see("shape of the weights", shape, equals=[2, 3])
    for name, each, was in zip(("p", "q", "drafts", "coins"), given, before, strict=True):
        see(f"{name} after the call", each.tolist(), equals=was)
