"""The sampler against plain oracles in float64, and the statistics of its noise."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch

from mini_vllm.errors import InvalidLogitsError
from mini_vllm.params import SamplingParams
from mini_vllm.step import Logprob, SamplingRow
from mini_vllm.worker.sampler import Sampler, race, uniforms
from mini_vllm.worker.sampling.candidates import candidates, limits_of
from mini_vllm.worker.sampling.logits import edits_of, penalise

INF = float("inf")
PINNED_KEY = 5083123361393330592
PINNED_UNIFORMS = [0.0390157550573349, 0.8255380392074585, 0.16706633567810059]


class Row(NamedTuple):
    """A row of a step: how it is sampled, the index of the token in its sequence, and the tokens
    before it.
    """

    how: SamplingRow
    position: int
    token_ids: tuple[int, ...]

    @property
    def key(self):
        return self.how.key(self.position)


def make_row(position=5, *, seed=0, choice_index=0, prompt=(), output=(), **params):
    how = SamplingRow(SamplingParams(**params), seed, choice_index, len(prompt))
    return Row(how, position, (*prompt, *output))


def run_sampler(logits, rows):
    known = {i: row.token_ids for i, row in enumerate(rows)}
    return Sampler()(logits, [row.how for row in rows], [row.position for row in rows], known)


def sample(logits, rows):
    return [token.token_id for token in run_sampler(logits, rows)]


def draws(logits, n, **params):
    """n tokens from one distribution, at n positions."""
    rows = [make_row(position, **params) for position in range(n)]
    return sample(torch.as_tensor(logits).expand(n, -1), rows)


def chi_square_z(counts, probabilities):
    """How many standard deviations Pearson's statistic is above or below its mean, about normal."""
    counts, expected = np.asarray(counts, float).ravel(), np.asarray(probabilities, float).ravel()
    expected = expected * counts.sum()
    assert expected.min() > 5
    degrees = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - degrees) / math.sqrt(2 * degrees)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


# --- which tokens may be drawn --------------------------------------------------------------------


def oracle_support(logits, temperature, min_p, top_k, top_p):
    """The tokens that may be drawn, one by one, in float64."""
    x = logits.astype(np.float64) / temperature
    p = softmax(x)
    allowed = [i for i in range(len(x)) if p[i] >= min_p * p.max()]
    if 0 < top_k < len(allowed):
        kth = sorted((x[i] for i in allowed), reverse=True)[top_k - 1]
        allowed = [i for i in allowed if x[i] >= kth]
    nucleus, mass = [], 0.0
    total = sum(p[i] for i in allowed)
    for i in sorted(allowed, key=lambda i: (-x[i], i)):
        if mass >= top_p and nucleus and top_p < 1:
            break
        nucleus.append(i)
        mass += p[i] / total
    return set(nucleus)


def support(logits, temperature, min_p, top_k, top_p):
    """The same by the sampler's own filters, row by row of [R, V]."""
    names = ("temperature", "min_p", "top_k", "top_p")
    numbers = [temperature, min_p, top_k, top_p]
    rows = [
        SamplingRow(SamplingParams(**dict(zip(names, row, strict=True))))
        for row in zip(*numbers, strict=True)
    ]
    limits = limits_of(rows, torch.tensor(numbers, dtype=torch.float64))
    scores = candidates(logits, logits.amax(-1), limits)
    return [set(row.nonzero().flatten().tolist()) for row in scores > -INF]


def test_trap_53_the_support_is_the_oracles_on_3000_random_rows():
    rng = np.random.default_rng(0)
    num_rows, vocab_size = 3000, 24
    logits = rng.normal(0, 2, (num_rows, vocab_size)).astype(np.float32)
    logits[::2] = np.round(logits[::2])  # ties, as bf16 has them
    temperature = rng.choice([0.25, 1.0, 2.0], num_rows).tolist()
    min_p = rng.choice([0.0, 0.0, 0.05, 0.5, 1.0], num_rows).tolist()
    top_k = rng.choice([0, 0, 1, 2, 7, 24, 99], num_rows).tolist()
    top_p = rng.choice([1.0, 1.0, 1e-9, 0.3, 0.9, 0.999], num_rows).tolist()
    found = support(torch.from_numpy(logits), temperature, min_p, top_k, top_p)
    for i in range(num_rows):
        wanted = [temperature[i], min_p[i], top_k[i], top_p[i]]
        # then the mass is p but for float32's rounding
        if found[i] != oracle_support(logits[i], *wanted):
            near = [
                oracle_support(logits[i], *wanted[:3], top_p[i] + error) for error in (-1e-6, 1e-6)
            ]
            assert found[i] in near, (i, wanted)


def test_trap_53_what_is_drawn_is_in_the_support_and_follows_it():
    logits = np.array([2.0, 1.0, 1.0, 0.0, 0.0, -1.0, 3.0, -INF], np.float32)
    settings = {"temperature": 1.5, "top_k": 4, "top_p": 0.85}
    allowed = sorted(oracle_support(logits, 1.5, 0.0, 4, 0.85))
    counts = np.bincount(draws(logits, 5000, seed=3, **settings), minlength=8)
    assert set(np.flatnonzero(counts)) == set(allowed)
    assert abs(chi_square_z(counts[allowed], softmax(logits[allowed] / 1.5))) < 3


@pytest.mark.parametrize("top_p", [0.5, 0.9])
def test_a_nucleus_larger_than_the_first_guess_is_found(top_p):
    logits = torch.randn(3, 5000, generator=torch.Generator().manual_seed(1)) * 0.01  # almost flat
    found = support(logits, [1.0] * 3, [0.0] * 3, [0] * 3, [top_p] * 3)
    for row, tokens in zip(logits.numpy(), found, strict=True):
        assert abs(len(tokens) - len(oracle_support(row, 1.0, 0.0, 0, top_p))) <= 1  # float32 mass


def test_top_k_keeps_ties_with_the_k_th():
    assert set(draws([1.0, 2.0, 2.0, 2.0, 0.0], 300, top_k=2)) == {1, 2, 3}


def test_top_p_keeps_the_smallest_set_and_of_equals_the_lower_ids():
    assert set(draws([0.0] * 10, 300, top_p=0.35)) == {0, 1, 2, 3}


def test_a_tiny_top_p_a_min_p_of_1_and_a_top_k_of_1_leave_the_most_likely():
    for params in ({"top_p": 1e-12}, {"min_p": 1.0}, {"top_k": 1}):
        assert set(draws([0.0, 3.0, 2.9, -1.0], 200, **params)) == {1}


def test_a_top_k_beyond_the_vocabulary_keeps_all():
    logits = [0.5, 0.0, 1.0]
    for top_k in (4000, 3, 0, -1):
        assert draws(logits, 500, top_k=top_k) == draws(logits, 500)


def test_min_p_is_relative_to_the_most_likely():
    assert set(draws(np.log([0.5, 0.26, 0.24, 1e-9]), 500, min_p=0.5)) == {0, 1}


# --- greedy ---------------------------------------------------------------------------------------


def test_trap_53_greedy_is_the_first_maximum_on_10_000_random_rows():
    logits = torch.randn(10_000, 40, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    found = sample(logits, [make_row(temperature=0)] * 10_000)
    # numpy: the first of equals
    assert found == np.argmax(logits.double().numpy(), axis=1).tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_trap_54_temperature_0_is_argmax_also_in_a_mixed_batch(dtype):
    logits = torch.randn(40, 100, generator=torch.Generator().manual_seed(3)).to(dtype)
    rows = [make_row(i, temperature=i % 2, top_k=0 if i % 3 else 5) for i in range(40)]
    found = sample(logits, rows)
    assert found[::2] == logits[::2].argmax(-1).tolist()
    assert found[1::2] != logits[1::2].argmax(-1).tolist()
    for i in range(40):  # and nobody changed for the company
        assert sample(logits[i : i + 1], [rows[i]]) == [found[i]]


def test_trap_54_a_temperature_next_to_0_neither_overflows_nor_strays():
    logits = torch.tensor([[1e4, 3e4, -3e4, 2.9e4]])
    for temperature in (1e-300, 1e-6, 1e-4):
        assert sample(logits, [make_row(temperature=temperature)]) == [1]


def test_the_callers_logits_are_never_written_to():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(4))
    before = logits.clone()
    rows = [
        make_row(temperature=0, repetition_penalty=2.0, prompt=[1, 2]),
        make_row(top_p=0.5, min_p=0.1, top_k=3, logprobs=2),
        make_row(presence_penalty=1.0, output=[4]),
        make_row(temperature=0),
    ]
    sample(logits, rows)
    sample(logits[1:2], rows[1:2])
    assert torch.equal(logits, before)


# --- the noise ------------------------------------------------------------------------------------


def test_uniforms_are_strictly_inside_0_and_1_and_uniform():
    u = uniforms(torch.arange(20) * 977, 100_000)
    assert u.min() > 0
    assert u.max() < 1
    assert abs(chi_square_z(torch.histc(u, 100, 0, 1).numpy(), np.full(100, 0.01))) < 3


def test_uniforms_have_fine_small_values():
    small = uniforms(torch.arange(40), 100_000)
    small = small[small < 2.0**-16]
    assert len(small) > 20
    assert len(small.unique()) == len(small)  # on a grid of 2**-24 some would coincide
    assert (small * 2.0**24 % 1 != 0).all()


@pytest.mark.parametrize("varied", ["position", "seed", "choice_index", "token"])
def test_neighbours_are_independent(varied):
    """Pairs of uniforms of neighbours fill the unit square evenly."""
    keys = [make_row(**{"position" if varied == "token" else varied: i}).key for i in range(400)]
    u = uniforms(torch.tensor(keys), 1000).numpy()
    pairs = (u[:, :-1], u[:, 1:]) if varied == "token" else (u[:-1], u[1:])
    counts, _, _ = np.histogram2d(
        *(part.ravel() for part in pairs), bins=10, range=[[0, 1], [0, 1]]
    )
    assert abs(chi_square_z(counts, np.full((10, 10), 0.01))) < 3.5
    assert abs(np.corrcoef(*(part.ravel() for part in pairs))[0, 1]) < 0.006


@pytest.mark.parametrize(
    "varied",
    ["position", *(pytest.param(v, marks=pytest.mark.slow) for v in ("seed", "choice_index"))],
)
def test_draws_follow_the_distribution_along_each_key(varied):
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 1, 50).astype(np.float32)
    keys = torch.tensor([make_row(**{varied: i}).key for i in range(10_000)])
    tokens = race(torch.from_numpy(logits).expand(10_000, -1), keys).numpy()
    p = softmax(logits)
    assert abs(chi_square_z(np.bincount(tokens, minlength=50), p)) < 3
    pairs = np.bincount((tokens[:-1] % 5) * 5 + tokens[1:] % 5, minlength=25)
    q = np.bincount(np.arange(50) % 5, weights=p)
    assert abs(chi_square_z(pairs, np.outer(q, q))) < 3.5


@pytest.mark.slow
def test_a_large_flat_vocabulary_is_drawn_evenly():
    vocab_size, n = 20_000, 1500
    tokens = race(
        torch.zeros(n, vocab_size), torch.tensor([make_row(i).key for i in range(n)])
    ).numpy()
    counts = np.bincount(tokens // 1000, minlength=20)
    assert abs(chi_square_z(counts, np.full(20, 0.05))) < 3


def test_the_noise_is_pinned():
    """It is a contract: seeds that people wrote down give the same tokens in the next release, on
    every device.
    """
    assert make_row(7, seed=42, choice_index=1).key == PINNED_KEY
    assert uniforms(torch.tensor([PINNED_KEY]), 3)[0].tolist() == pytest.approx(
        PINNED_UNIFORMS, rel=1e-7
    )


def splitmix64(state):
    mask = (1 << 64) - 1
    z = state & mask
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
    return z ^ (z >> 31)


def test_uniforms_are_splitmix64_of_plain_integers():
    keys = [0, 1, -1, (1 << 63) - 1, -(1 << 63)]
    for key, row in zip(keys, uniforms(torch.tensor(keys), 500), strict=True):
        for i, u in enumerate(row.tolist()):
            exact = ((splitmix64(key + (i + 1) * 0x9E3779B97F4A7C15) >> 11) + 0.5) / (1 << 53)
            assert u == pytest.approx(exact, rel=2.0**-23)


def unmix(z):
    """The state whose SplitMix64 output is z."""
    mask = (1 << 64) - 1
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        z = (z ^ (z >> shift) ^ (z >> 2 * shift)) * pow(factor, -1, 1 << 64) & mask
    return z


def test_even_the_extreme_draws_are_inside_0_and_1():
    for bits, wanted in ((0, 2.0**-54), ((1 << 64) - 1, 1 - 2.0**-24)):
        key = (unmix(bits) - 0x9E3779B97F4A7C15) % (1 << 64)
        assert splitmix64(key + 0x9E3779B97F4A7C15) == bits
        signed = key - (1 << 64) if key >> 63 else key
        assert uniforms(torch.tensor([signed]), 1).item() == wanted


def test_any_int_is_a_seed_and_each_is_its_own():
    seeds = [
        0,
        1,
        -1,
        2**31,
        2**63,
        -(2**63),
        2**64 - 1,
        2**64,
        -(2**64),
        10**40,
        -(10**40),
        1 << 20_000,
    ]
    logits = torch.zeros(len(seeds), 100_000)
    rows = [make_row(1, seed=seed) for seed in seeds]
    assert len(set(sample(logits, rows))) == len(seeds)


def test_the_key_does_not_confuse_its_parts():
    parts = [(1, 23, 4), (12, 3, 4), (1, 2, 34), (-1, 23, 4), (4, 23, 1)]
    keys = {
        SamplingRow(SamplingParams(), seed, index).key(position) for seed, index, position in parts
    }
    assert len(keys) == len(parts)


def test_no_global_random_state_is_read_or_moved():
    logits = torch.randn(2, 300, generator=torch.Generator().manual_seed(6))
    rows = [make_row(), make_row(seed=9, top_p=0.5)]
    torch.manual_seed(0)
    first, state = sample(logits, rows), torch.get_rng_state()
    torch.manual_seed(1)
    assert sample(logits, rows) == first
    torch.manual_seed(0)
    assert torch.equal(torch.get_rng_state(), state)


# --- the company a row keeps ----------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [50, 1000, 33_333])
def test_trap_50_seed_alone_and_in_a_batch_of_64(vocab_size):
    rng = np.random.default_rng(7)
    logits = torch.from_numpy(rng.normal(0, 3, (64, vocab_size)).astype(np.float32))
    choices = [
        {},
        {"temperature": 0},
        {"top_k": 20},
        {"top_p": 0.9, "temperature": 0.7},
        {"min_p": 0.02, "top_k": 40, "top_p": 0.8},
        {
            "repetition_penalty": 1.3,
            "frequency_penalty": 0.5,
            "prompt": range(30),
            "output": [1, 1, 2],
        },
        {"logprobs": 3},
    ]
    rows = [make_row(i, seed=i % 5, **choices[i % len(choices)]) for i in range(64)]
    together = run_sampler(logits, rows)
    alone = [run_sampler(logits[i : i + 1], [row])[0] for i, row in enumerate(rows)]
    assert alone == together  # the logprobs, too, to the last bit
    order = rng.permutation(64).tolist()
    assert run_sampler(logits[order], [rows[i] for i in order]) == [together[i] for i in order]


def test_trap_52_the_position_and_only_the_position_moves_the_draw():
    """After a preemption the request comes back at the same position: same draw. The next position:
    another one.
    """
    logits = torch.zeros(1, 10_000)
    by_position = [sample(logits, [make_row(position, seed=11)])[0] for position in range(50)]
    assert [
        sample(logits, [make_row(position, seed=11)])[0] for position in range(50)
    ] == by_position
    assert len(set(by_position)) > 45


def test_choices_of_one_request_differ():
    rows = [make_row(seed=11, choice_index=i) for i in range(50)]
    assert len(set(sample(torch.zeros(50, 10_000), rows))) > 45


# --- penalties ------------------------------------------------------------------------------------


def test_penalties_are_the_plain_formula():
    rng = np.random.default_rng(8)
    for trial in range(100):
        logits = rng.normal(0, 2, 30).astype(np.float32)
        prompt, output = (
            rng.integers(0, 30, rng.integers(0, 9)),
            rng.integers(0, 30, rng.integers(0, 9)),
        )
        repetition, frequency, presence = (
            rng.choice([0.5, 1.0, 1.7]),
            rng.choice([-2, 0, 0.4]),
            rng.choice([-1, 0, 2]),
        )
        wanted = logits.astype(np.float64)
        for t in range(30):
            if t in prompt or t in output:
                wanted[t] = wanted[t] / repetition if wanted[t] > 0 else wanted[t] * repetition
            wanted[t] -= frequency * np.count_nonzero(output == t) + presence * (t in output)
        row = make_row(
            trial,
            temperature=0,
            repetition_penalty=float(repetition),
            frequency_penalty=float(frequency),
            presence_penalty=float(presence),
            prompt=prompt.tolist(),
            output=output.tolist(),
        )
        changed = torch.from_numpy(logits)[None].clone()
        tokens = torch.tensor([[*row.token_ids, 7]])  # what follows is not known
        num_tokens = torch.tensor([[len(row.token_ids), len(prompt)]])
        penalties = torch.tensor([[repetition], [frequency], [presence]])
        penalise(changed, edits_of([row.how], changed.device), tokens, num_tokens, penalties)
        assert changed.numpy()[0] == pytest.approx(wanted, abs=1e-5)
        assert sample(torch.from_numpy(logits)[None], [row]) == [int(wanted.argmax())]


@pytest.mark.slow
def test_penalties_change_what_is_drawn_and_only_in_their_row():
    logits = torch.tensor([3.0, 2.5, 0.0]).expand(3, -1)
    rows = [
        make_row(temperature=0),
        make_row(temperature=0, repetition_penalty=2.0, prompt=[0]),
        # the prompt does not count
        make_row(temperature=0, presence_penalty=2.0, prompt=[0], output=[1]),
    ]
    assert sample(logits, rows) == [0, 1, 0]
    assert sample(logits[:1], [make_row(temperature=0, frequency_penalty=0.3, output=[0, 0])]) == [
        1
    ]
    counts = np.bincount(draws(logits[0], 5000, presence_penalty=1.0, output=[0]), minlength=3)
    assert abs(chi_square_z(counts, softmax(np.array([2.0, 2.5, 0.0])))) < 3


# --- log-probabilities ----------------------------------------------------------------------------


def test_logprobs_are_of_the_raw_logits_with_ranks():
    rng = np.random.default_rng(9)
    logits = rng.normal(0, 2, (300, 40)).astype(np.float32)
    rows = [
        make_row(
            i, logprobs=(None, 0, 1, 5)[i % 4], temperature=3.0, repetition_penalty=1.5, output=[1]
        )
        for i in range(300)
    ]
    for i, (token_id, logprobs) in enumerate(run_sampler(torch.from_numpy(logits), rows)):
        k = rows[i].how.params.logprobs
        if k is None:
            assert logprobs is None
            continue
        order = np.argsort(-logits[i], kind="stable").tolist()
        wanted = dict.fromkeys([token_id, *order[:k]])
        assert list(logprobs) == list(wanted)  # the sampled token first, then the most likely ones
        exact = np.log(softmax(logits[i].astype(np.float64)))
        for t, (logprob, rank, decoded) in logprobs.items():
            assert logprob == pytest.approx(exact[t], abs=1e-5)
            assert (rank, decoded) == (order.index(t) + 1, None)


def test_logprobs_may_ask_for_more_than_the_vocabulary():
    (token,) = run_sampler(torch.tensor([[0.0, 1.0]]), [make_row(temperature=0, logprobs=9)])
    p = softmax(np.array([0.0, 1.0]))
    assert token.logprobs == {
        1: Logprob(pytest.approx(np.log(p[1])), 1),
        0: Logprob(pytest.approx(np.log(p[0])), 2),
    }


def test_the_rank_outside_the_best_counts_ties():
    logits = torch.tensor([[0.0, 5.0, 0.0, 0.0]])
    for seed in range(1000):
        (token,) = run_sampler(logits, [make_row(seed=seed, temperature=5.0, logprobs=1)])
        if token.token_id != 1:
            assert token.logprobs[token.token_id].rank == 4
            return
    pytest.fail("the unlikely token was never drawn")


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, INF, "all -inf"])
@pytest.mark.parametrize(
    "params", [{"temperature": 0}, {}, {"top_p": 0.5, "top_k": 3}, {"frequency_penalty": 1.0}]
)
def test_trap_53_a_row_without_a_token_is_an_error_that_names_it(bad, params):
    logits = torch.zeros(4, 10)
    logits[2, 3 if bad != "all -inf" else slice(None)] = -INF if bad == "all -inf" else bad
    rows = [make_row(temperature=i % 2, logprobs=1) for i in range(4)]
    rows[2] = make_row(**params)
    with pytest.raises(InvalidLogitsError, match=r"row 2\b"):
        sample(logits, rows)
    assert len(sample(logits[[0, 1, 3]], [rows[0], rows[1], rows[3]])) == 3


def test_some_minus_infinities_are_no_error_and_are_never_drawn():
    logits = torch.full((1, 100), -INF)
    logits[0, [3, 60]] = torch.tensor([-5.0, -6.0])
    for params in ({}, {"top_k": 10}, {"top_p": 0.999}, {"min_p": 0.01}, {"temperature": 1000.0}):
        assert {sample(logits, [make_row(i, **params)])[0] for i in range(50)} <= {3, 60}


def test_an_empty_batch_has_no_tokens():
    assert sample(torch.empty(0, 10), []) == []
