"""Lab 06.1: which layers share a table, and what that takes."""

from labkit import cases, check, concept, far, raises, search


def specs(lab, kinds):
    """A layer for each letter: F sees all, other letters have a window."""
    windows = {"F": None, "S": 1024, "T": 512, "U": 64}
    return [lab.LayerKVSpec(2, 64, 2, windows[kind]) for kind in kinds]


def brute_groups(kinds):
    """The groups by the words of the contract."""
    order = list(dict.fromkeys(kinds))
    counts = {kind: kinds.count(kind) for kind in order}
    least, most = min(counts.values()), max(counts.values())
    size = most if 2 * most < 3 * least else least
    groups, first = [None] * len(kinds), 0
    for kind in order:
        num = (counts[kind] + size - 1) // size
        for turn, layer in enumerate(place for place in range(len(kinds)) if kinds[place] == kind):
            groups[layer] = first + turn % num
        first += num
    return groups


@concept("The groups of a kind stand together, in the order in which kinds appear.", invariant="I1")
@cases(one_kind=("FFFF", [0, 0, 0, 0]), two=("SF", [0, 1]), full_first=("FSSFS", [0, 1, 2, 0, 1]),
       three=("TFSTFS", [0, 1, 2, 0, 1, 2]))  # fmt: skip
def test_kinds(lab, case):
    kinds, expected = case
    check()(f"the groups of {kinds}", lab.strided_groups(specs(lab, kinds)), equals=expected)


@concept("Pages have the layers of the smallest kind, unless the kinds are nearly as large.", invariant="I2")
@cases(five_to_one=("FSSSSS", [0, 1, 2, 3, 4, 5]), three_to_two=("FFSSS", [0, 0, 1, 2, 1]),
       four_to_three=("FFFSSSS", [0, 0, 0, 1, 1, 1, 1]), five_to_four=("FFFFSSSSS", [0] * 4 + [1] * 5),
       six_to_four=("FFFFSSSSSS", [0, 0, 0, 0, 1, 2, 1, 2, 1, 2]))  # fmt: skip
def test_sizes(lab, case):
    kinds, expected = case
    check()(f"the groups of {kinds}", lab.strided_groups(specs(lab, kinds)), equals=expected)


@concept(
    "Layers are dealt out in turn, so the groups of a kind differ by one layer at most.",
    invariant="I3",
    illustrates=True,
)
@cases(twice=("FSSS" * 2, [0, 1, 2, 3, 0, 1, 2, 3]), one_left_over=("FSSFSSS", [0, 1, 2, 0, 3, 1, 2]))
def test_in_turn(lab, case):
    kinds, expected = case
    check()(f"the groups of {kinds}", lab.strided_groups(specs(lab, kinds)), equals=expected)


@concept("Groups take blocks from one pool, so a token has as many bytes in each layer.", invariant="I4")
@cases(heads=(4, 64, 2), size=(2, 32, 2), bytes=(2, 64, 1))
def test_other_sizes(lab, case):
    for window in (1024, None):
        usual = lab.LayerKVSpec(2, 64, 2, window)
        for specs_of_layers in ([usual, lab.LayerKVSpec(*case)], [usual, lab.LayerKVSpec(*case), usual]):
            with raises(lab.InvalidParameterError, "layers of other sizes share no blocks"):
                lab.strided_groups(specs_of_layers)
    same = [lab.LayerKVSpec(4, 32, 2), lab.LayerKVSpec(2, 64, 2, 9)]
    check()("the groups of two kinds with as many bytes", lab.strided_groups(same), equals=[0, 1])


@concept("Layers of other heads are another kind, also if a token has as many bytes.", invariant="I1", illustrates=True)
def test_as_many_bytes(lab):
    layers = [lab.LayerKVSpec(*each) for each in ((4, 32, 2), (2, 64, 2, 9), (2, 64, 2), (4, 32, 2))]
    check()("the groups of 4 heads of 32, a window, 2 of 64, 4 of 32", lab.strided_groups(layers), equals=[0, 2, 3, 1])


@concept("Layer i of every group has its keys and values in the same place of a page.", invariant="I5")
@cases(one_group=((), 3, [0, 1, 2]), in_turn=((0, 1, 0, 1), 4, [0, 0, 1, 1]), each_alone=((0, 1, 2), 3, [0, 0, 0]),
       uneven=((0, 1, 3, 2, 0, 1, 3), 7, [0, 0, 0, 0, 1, 1, 1]))  # fmt: skip
def test_places(lab, case):
    groups, num_layers, expected = case
    what = f"the places of {num_layers} layers in the groups {groups}"
    check()(what, lab.tensors_of_layers(groups, num_layers), equals=expected)


@concept("A window and a step lie in one block more than they fill, if they begin inside one.", invariant="I6")
@cases(inside=(4, 9, 100, 8, 5), exactly=(4, 8, 100, 1, 3), one_over=(4, 10, 100, 8, 6), short_text=(4, 9, 7, 8, 2),
       itself_alone=(4, 1, 100, 4, 2), large_step=(16, 1024, 8192, 2048, 193), nothing=(4, 9, 0, 8, 0))  # fmt: skip
def test_blocks_of_a_window(lab, case):
    block_size, window, num_tokens, num_batched, expected = case
    what = f"most_blocks({num_tokens}, {num_batched}), blocks of {block_size}, a window of {window}"
    check()(what, lab.SlidingWindow(block_size, window).most_blocks(num_tokens, num_batched), equals=expected)


@concept("A request takes blocks in every group.", invariant="I7")
def test_blocks_alone(lab):
    see, full, local = check(), lab.FullAttention, lab.ChunkedLocal
    groups = (full(4), local(4, 12), local(4, 20), full(16), full(4))
    for num_tokens, expected in ((0, 0), (1, 5), (8, 9), (100, 2 * 25 + 5 + 7 + 7), (40_000, 20_000 + 5 + 7 + 2_500)):
        see(f"blocks_alone({num_tokens}, 8)", lab.blocks_alone(groups, num_tokens, 8), equals=expected)


@concept("The longest text that fits is found without trying all of them.", invariant="I8")
def test_tokens_alone(lab):
    see = check()
    groups = (lab.FullAttention(16), *[lab.SlidingWindow(16, 1024)] * 5)
    for num_blocks in (0, 5, 6, 600, far(10_000_000, 15_000_000)):
        found = lab.tokens_alone(groups, num_blocks, 2048)
        taken = [lab.blocks_alone(groups, num_tokens, 2048) for num_tokens in (found, found + 1)]
        what = f"tokens_alone() of {num_blocks:,} blocks is {found:,}; of so many tokens, and of one more, it is"
        see(what + " that they fit", [each <= num_blocks for each in taken], equals=[True, False])


@concept(
    "Whatever the layers are: the groups and places by the words of the contract.",
    invariant="I2",
    illustrates=True,
    searches=True,
)
def test_any_layers(lab):
    def plan(rng, size):
        return "".join(rng.choice("FFSTU"[: rng.randint(1, 5)]) for _ in range(rng.randint(1, 3 + size)))

    def judge(lab, kinds):
        see = check()
        groups = lab.strided_groups(specs(lab, kinds))
        see(f"the groups of {kinds}", groups, equals=brute_groups(kinds))
        places = [sum(groups[other] == groups[layer] for other in range(layer)) for layer in range(len(kinds))]
        see(f"the places of {kinds}", lab.tensors_of_layers(groups, len(kinds)), equals=places)

    search(lab, plan, judge, num=60)
