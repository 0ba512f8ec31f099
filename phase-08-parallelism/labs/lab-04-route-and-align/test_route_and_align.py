"""Lab 08.4: which experts a token gets, and where the pairs of each expert stand."""

from math import exp, fsum
from random import Random

from labkit import cases, check, concept, far, processor_seconds, scaled, walk

CLOSE = 1e-9


def expected_route(row, top_k, renormalize):
    chosen = sorted(range(len(row)), key=lambda expert: (-row[expert], expert))[:top_k]
    parts = [exp(logit - max(row)) for logit in row]
    total = fsum(parts[expert] for expert in chosen) if renormalize else fsum(parts)
    return [parts[expert] / total for expert in chosen], chosen


def draw_logits(num_tokens, num_experts, seed=0):
    rng = Random(100 * num_tokens + num_experts + seed)
    return [[rng.uniform(-4, 4) for _ in range(num_experts)] for _ in range(num_tokens)]


def see_weights(see, found, expected):
    see("the number of weights of each token", [len(row) for row in found], equals=[len(row) for row in expected])
    for token, (own, theirs) in enumerate(zip(found, expected, strict=True)):
        for choice, (a, b) in enumerate(zip(own, theirs, strict=True)):
            see.between(f"weight {choice} of token {token}", a, least=b * (1 - CLOSE), most=b * (1 + CLOSE))


@concept("The experts with the largest logits are chosen, the largest first.", invariant="I1")
@cases(
    two_of_four=(3, 4, 2), one=(2, 5, 1), all_of_them=(2, 3, 3), many=(far(9, 40), far(64, 128), 8), no_token=(0, 4, 2)
)
def test_chosen(lab, case):
    num_tokens, num_experts, top_k = case
    logits = draw_logits(num_tokens, num_experts)
    see = check(lambda: f"{num_tokens} tokens, {top_k} of {num_experts} experts")
    _, experts = lab.route(logits, top_k, renormalize=True)
    expected = [expected_route(row, top_k, True)[1] for row in logits]
    see("the experts of each token", [list(row) for row in experts], equals=expected)


@concept("Of equal logits that of the lower expert comes first.", invariant="I1")
@cases(all_equal=([2.0, 2.0, 2.0, 2.0], [0, 1]), at_the_edge=([0.0, 5.0, 1.0, 1.0], [1, 2]),
       first_is_largest=([2.0, 1.0, 1.0, 1.0], [0, 1]))  # fmt: skip
def test_equal_logits(lab, case):
    row, expected = case
    see = check(lambda: f"logits {row}, 2 are chosen")
    see("the experts", list(lab.route([row], 2, renormalize=True)[1][0]), equals=expected)


@concept("Logits are equal if == says so, and only then.", invariant="I1", illustrates=True)
@cases(zeros=([-0.0, 0.0, 0.0], [0, 1]), nearly_equal=([1.0, 1.0, 1.0 + 2**-52, 0.5], [2, 0]),
       the_last_bits=([1.0, 1.0 + 2**-44, 0.5], [1, 0]))  # fmt: skip
def test_nearly_equal_logits(lab, case):
    row, expected = case
    see = check(lambda: f"logits {row}, 2 are chosen")
    see("the experts", list(lab.route([row], 2, renormalize=True)[1][0]), equals=expected)


@concept("A weight is a share of all experts; renormalised, a share of the chosen ones.", invariant="I2")
@cases(all_experts=False, renormalised=True)
def test_weights(lab, case):
    logits = draw_logits(4, 6)
    see = check(lambda: f"4 tokens, 3 of 6 experts, renormalize={case}")
    weights, _ = lab.route(logits, 3, renormalize=case)
    see_weights(see, weights, [expected_route(row, 3, case)[0] for row in logits])


@concept("Large logits overflow nothing.", invariant="I2")
@cases(large=[1e4, 1e4 - 1, 0.0], negative=[-1e4, -1e4 - 2, -2e4], far_apart=[800.0, -800.0, 799.0])
def test_large_logits(lab, case):
    for renormalize in (False, True):
        see = check(lambda: f"logits {case}, renormalize={renormalize}")  # noqa: B023
        weights, _ = lab.route([case], 2, renormalize=renormalize)
        see_weights(see, weights, [expected_route(case, 2, renormalize)[0]])


# --- blocks -----------------------------------------------------------------------------------------------------------


def expected_align(experts, num_experts, block_size, expert_map=None):
    chosen = [expert for row in experts for expert in row]
    pairs, blocks = [], []
    for expert in range(num_experts):
        own = [pair for pair, each in enumerate(chosen) if each == expert]
        while own:
            block, own = own[:block_size], own[block_size:]
            pairs += block + [len(chosen)] * (block_size - len(block))
            blocks.append(expert if expert_map is None else expert_map[expert])
    most = (len(chosen) + min(len(chosen), num_experts) * (block_size - 1)) // block_size
    rest = most - len(blocks)
    return pairs + [len(chosen)] * (rest * block_size), blocks + [-1] * rest


def told(experts, num_experts, block_size):
    shown = f"{experts[:6]}{' ...' if len(experts) > 6 else ''}"
    return lambda: f"experts of the tokens {shown}, {num_experts} experts, blocks of {block_size}"


def draw_experts(num_tokens, num_experts, top_k, seed=0):
    rng = Random(10 * num_tokens + num_experts + seed)
    return [rng.sample(range(num_experts), top_k) for _ in range(num_tokens)]


def used(expected, num_pairs):
    """How many entries there are up to the last pair."""
    return max((place + 1 for place, pair in enumerate(expected) if pair < num_pairs), default=0)


@concept("All pairs of an expert stand together, each of them once, from the beginning of a block.", invariant="I3")
@cases(
    example=([[1, 2], [1, 0]], 3, 2), in_order=([[0], [1], [2]], 3, 1), one_expert=([[0]] * 5, 1, 2),
    more_than_a_block=([[1, 0], [1, 2], [1, 0], [1, 2], [1, 0]], 3, 2), exactly_a_block=([[0, 1]] * 4, 2, 4),
    not_chosen=([[4, 0], [0, 4]], 5, 4), backwards=([[3], [2], [1], [0]], 4, 3),
)  # fmt: skip
def test_pairs(lab, case):
    see = check(told(*case))
    pairs, _ = lab.align(*case)
    expected, _ = expected_align(*case)
    end = used(expected, sum(map(len, case[0])))
    see("the pairs, up to the last one", list(pairs)[:end], equals=expected[:end])


@concept("Each block says whose pairs are in it.", invariant="I4", illustrates=True)
@cases(example=([[1, 2], [1, 0]], 3, 2), two_blocks=([[1, 0]] * 3, 2, 2), gap=([[3, 0]] * 3, 4, 2))
def test_experts_of_blocks(lab, case):
    see = check(told(*case))
    expected = [expert for expert in expected_align(*case)[1] if expert != -1]
    _, blocks = lab.align(*case)
    see("the experts of the blocks that have pairs", list(blocks)[: len(expected)], equals=expected)


@concept("How many blocks there are depends on the numbers alone; those behind the last pair are padding.",
         invariant="I5")  # fmt: skip
@cases(all_to_one=([[0]] * 6, 4, 4), spread=([[0], [1], [2], [3], [0], [1]], 4, 4), few=([[5, 2]], 8, 4),
       none=([], 8, 4), blocks_of_one=([[0, 1]] * 3, 2, 1))  # fmt: skip
def test_number_of_blocks(lab, case):
    see = check(told(*case))
    pairs, blocks = lab.align(*case)
    expected, owners = expected_align(*case)
    see("the number of blocks", len(blocks), equals=len(owners))
    see("the number of entries", len(pairs), equals=len(expected))
    rest = len([expert for expert in owners if expert == -1])
    num_pairs = sum(map(len, case[0]))
    see("the experts of the blocks behind", list(blocks)[len(blocks) - rest :], equals=[-1] * rest)
    padding = list(pairs)[len(pairs) - rest * case[2] :]
    see("the entries of the blocks behind", padding, equals=[num_pairs] * (rest * case[2]))


@concept("A block of another rank's expert has no expert here, and keeps its pairs.", invariant="I6")
@cases(first=[0, 1, -1, -1], second=[-1, -1, 0, 1], shuffled=[1, -1, 0, -1], nothing=[-1, -1, -1, -1])
def test_expert_map(lab, case):
    experts = draw_experts(7, 4, 2)
    see = check(lambda: f"{told(experts, 4, 8)()}, map {case}")
    pairs, blocks = lab.align(experts, 4, 8, case)
    expected = expected_align(experts, 4, 8, case)
    see("the experts of the blocks that have pairs", list(blocks)[:4], equals=expected[1][:4])
    see("the pairs", list(pairs), equals=expected[0])


@concept("A pass over the pairs and one over the experts are enough.", invariant="I7")
@cases(many_experts=(12_000, 4_096), fewer_of_both=(8_000, 2_048), more_experts=(6_000, 16_384))
def test_cost(lab, case):
    num_tokens, num_experts = scaled(case[0], 10), case[1]
    experts = [[(7 * token + 13 * choice) % num_experts for choice in range(4)] for token in range(num_tokens)]
    see = check(told(experts, num_experts, 16))
    pairs, _ = lab.align(experts, num_experts, 16)
    num_pairs = 4 * num_tokens
    see("the pairs, sorted", sorted(pair for pair in pairs if pair < num_pairs), equals=list(range(num_pairs)))


def align_different(lab, num_tokens):
    """The least time to align tokens of which each chooses an expert of its own."""
    experts = [[(7 * token) % num_tokens] for token in range(num_tokens)]
    return min(processor_seconds(lambda: lab.align(experts, num_tokens, 4)) for _ in range(3))


@concept("With twice as many tokens and experts it takes about twice as long.", invariant="I7", illustrates=True)
def test_growth(lab):
    see, small, large = check(), 1_000, far(16_000)
    enough = 4 * large / small * align_different(lab, small) + 0.01
    is_steady = any(align_different(lab, large) <= enough for _ in range(2))
    what = f"the processor's time for {large:,} tokens, each of an expert of its own, beside {small:,}"
    see.true(what, is_steady, "more", f"at most {4 * large // small} times as much")


def plan(rng):
    num_experts = rng.randint(1, 9)
    calls = [("experts", num_experts, rng.randint(1, min(4, num_experts)), rng.randint(1, 5))]
    for _ in range(rng.randint(1, 4)):
        calls.append((rng.choice(("route", "align")), rng.randint(0, 9), rng.randint(0, 99), rng.random() < 0.5))
    return calls


def play(lab, calls):
    num_experts = top_k = block_size = 1
    for name, *arguments in calls:
        if name == "experts":
            num_experts, top_k, block_size = arguments
            continue
        num_tokens, seed, flag = arguments
        if name == "route":
            weights, experts = lab.route(draw_logits(num_tokens, num_experts, seed), top_k, renormalize=flag)
            yield "I1", "the experts", [list(row) for row in experts]
            yield "I2", "the weights", [[round(weight, 7) for weight in row] for row in weights]
        else:
            own = [expert // 2 if expert % 2 else -1 for expert in range(num_experts)] if flag else None
            found = lab.align(draw_experts(num_tokens, num_experts, top_k, seed), num_experts, block_size, own)
            yield "I3", "the pairs", list(found[0])
            yield "I4", "the experts of the blocks", list(found[1])


@concept("Whatever is routed and aligned: the blocks of the reference.", invariant="I3", illustrates=True,
         searches=True)  # fmt: skip
def test_any_tokens(lab):
    walk(lab, plan, play)
