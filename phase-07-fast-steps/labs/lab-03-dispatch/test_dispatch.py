"""Lab 07.3: which graphs there are, and which one a step replays."""

from labkit import cases, check, concept, search

SIZES = [1, 2, 4, 8, 16]
MODES = ("none", "piecewise", "full", "full_decode_only", "full_and_piecewise")


def plain(keys):
    """A set of keys as a sorted list of tuples."""
    return sorted((tuple(key) for key in keys), key=str)


def chosen(dispatcher, step):
    mode, key = dispatcher.dispatch(step)
    return [mode, None if key is None else (key.num_tokens, key.num_reqs, key.uniform)]


@concept("In a uniform decode each request has its newest token, and all drafts.", invariant="I1")
@cases(
    decodes=([1, 1, 1], 1, True),
    with_a_chunk=([1, 5, 1], 1, False),
    with_drafts=([3, 3], 3, True),
    one_with_fewer_drafts=([3, 2], 3, False),
    as_many_on_average=([2, 4], 3, False),
    fewer_in_the_middle=([2, 1, 2], 2, False),
    more_in_the_middle=([2, 2, 3, 2], 2, False),
    decodes_where_drafts_are_usual=([1, 1], 3, False),
    no_request=([], 1, False),
)
def test_uniform(lab, case):
    step, query_len, expected = case
    see = check()
    see(f"is_uniform_decode({step}, {query_len})", lab.is_uniform_decode(step, query_len), equals=expected)


@concept("A piecewise graph is for every step of its size.", invariant="I2", illustrates=True)
@cases(none=[], piecewise=SIZES, full=[], full_decode_only=[], full_and_piecewise=SIZES)
def test_piecewise_keys(lab, case):
    see = check()
    for mode in MODES:
        wanted = SIZES if "piecewise" in mode else []
        got = plain(lab.Dispatcher(mode, SIZES, 4).keys["piecewise"])
        see(f'keys["piecewise"] of {mode}', got, equals=plain((size, None, False) for size in wanted))


@concept("Full graphs of decodes are recorded for as many requests as can run.", invariant="I3")
@cases(
    decode_only=("full_decode_only", 4, 1, [(1, 1, True), (2, 2, True), (4, 4, True)]),
    and_piecewise=("full_and_piecewise", 4, 1, [(1, 1, True), (2, 2, True), (4, 4, True)]),
    with_a_draft=("full_decode_only", 4, 2, [(2, 1, True), (4, 2, True), (8, 4, True)]),
    of_all_steps=("full", 4, 1, [(1, 1, False), (2, 2, False), (4, 4, False), (8, 4, False), (16, 4, False)]),
    none=("piecewise", 4, 1, []),
)
def test_full_keys(lab, case):
    mode, most, query_len, expected = case
    sizes = [size for size in SIZES if size % query_len == 0]
    see = check()
    what = f'keys["full"] of {mode}, sizes {sizes}, max_num_seqs {most}, query_len {query_len}'
    see(what, plain(lab.Dispatcher(mode, sizes, most, query_len).keys["full"]), equals=plain(expected))


@concept(
    "A step is padded to the smallest size that holds it, and takes a full graph if one fits.",
    invariant="I4",
    illustrates=True,
)
@cases(
    exactly=("full_and_piecewise", 8, [1, 1, 1, 1], ["full", (4, 4, True)]),
    padded=("full_decode_only", 8, [1, 1, 1, 1, 1], ["full", (8, 8, True)]),
    any_step=("full", 8, [5, 1], ["full", (8, 8, False)]),
    decodes_in_any_step=("full", 8, [1, 1, 1], ["full", (4, 4, False)]),
)
def test_full(lab, case):
    mode, most, step, expected = case
    see = check()
    see(f"dispatch({step}) of {mode}, sizes {SIZES}", chosen(lab.Dispatcher(mode, SIZES, most), step), expected)


@concept("Where no full graph fits, a piecewise one does.", invariant="I5")
@cases(
    a_chunk=("full_and_piecewise", 4, [5, 1], ["piecewise", (8, None, False)]),
    a_decode=("piecewise", 4, [1, 1, 1], ["piecewise", (4, None, False)]),
    a_chunk_of_one=("full_and_piecewise", 4, [3], ["piecewise", (4, None, False)]),
)
def test_piecewise(lab, case):
    mode, most, step, expected = case
    see = check()
    see(f"dispatch({step}) of {mode}, sizes {SIZES}", chosen(lab.Dispatcher(mode, SIZES, most), step), expected)


@concept("A step for which nothing was recorded is not replayed.", invariant="I6")
@cases(
    too_large=("full_and_piecewise", [17]),
    too_large_together=("full", [8, 9]),
    no_token=("full_and_piecewise", []),
    a_chunk=("full_decode_only", [5, 1]),
    no_graphs=("none", [1]),
    no_sizes=("full", [1], []),
)
def test_none(lab, case):
    mode, step, *sizes = case
    sizes = sizes[0] if sizes else SIZES
    see = check()
    got = chosen(lab.Dispatcher(mode, sizes, 16), step)
    see(f"dispatch({step}) of {mode}, sizes {sizes}", got, equals=["none", None])


@concept(
    "Whatever the mode and the step: the choice of the reference.", invariant="I4", illustrates=True, searches=True
)
def test_any_step(lab):
    def plan(rng, size):
        query_len = rng.choice((1, 1, 2, 3))
        sizes = sorted({query_len * rng.randint(1, 2 + size) for _ in range(rng.randint(1, 5))})
        step = [rng.choice((query_len, query_len, rng.randint(1, 6))) for _ in range(rng.randint(0, 5))]
        return rng.choice(MODES), sizes, rng.randint(1, 8), query_len, step

    def judge(lab, case):
        mode, sizes, most, query_len, step = case
        with lab.reference() as reference:
            expected = chosen(reference.Dispatcher(mode, sizes, most, query_len), step)
        what = f"dispatch({step}) of {mode}, sizes {sizes}, max_num_seqs {most}, query_len {query_len}"
        check()(what, chosen(lab.Dispatcher(mode, sizes, most, query_len), step), equals=expected)

    search(lab, plan, judge, num=200)
