"""Lab 06.3: the longest hit of a window, and of all groups."""

from labkit import cases, check, concept, far, search


class Cache:
    """Which blocks are cached, and which were asked for."""

    def __init__(self, *cached):
        self.cached, self.asked = {*cached}, []

    def __call__(self, block):
        self.asked.append(block)
        return block in self.cached


def show(cache):
    return lambda: f"cached blocks {sorted(cache.cached)[:20]}"


def ends_of(kind, cached, num_tokens, alignment):
    """Where hits of a group may end, by the words of the contract; chunks are asked whether it is there."""
    found = [0]
    for end in range(alignment, num_tokens + 1, alignment):
        if hasattr(kind, "chunk"):
            found += [end] if kind.find_longest_hit(cached.__contains__, end, alignment)[1] == end else []
            continue
        last = end // kind.block_size
        first = max(0, last - kind.num_needed) if hasattr(kind, "num_needed") else 0
        if all(block in cached for block in range(first, last)):
            found.append(end)
    return found


@concept("A window needs the last blocks before the end, wherever that is.", invariant="I1")
@cases(
    at_the_end=((8, 9), 40, 4, (8, 40)), in_the_middle=((1, 2, 4, 5, 6), 40, 4, (5, 28)),
    too_short=((1, 3, 5), 40, 4, (0, 0)),
    from_the_beginning=((0,), 40, 4, (0, 4)), both=((0, 5, 6), 40, 4, (5, 28)), nothing=((), 40, 4, (0, 0)),
    not_behind_the_limit=((2, 3, 8, 9), 38, 4, (2, 16)), half_a_block=((8, 9), 39, 4, (0, 0)),
)  # fmt: skip
def test_where_it_ends(lab, case):
    cached, num_tokens, alignment, expected = case
    cache = Cache(*cached)
    found = lab.SlidingWindow(4, 9).find_longest_hit(cache, num_tokens, alignment)
    check(show(cache))(f"find_longest_hit() in {num_tokens} tokens, two blocks of 4 needed", found, equals=expected)


@concept("Other groups have larger blocks, so a hit ends where all of them can end.", invariant="I1")
@cases(
    passed_over=((4, 5, 6), 28, 8, (4, 24)), runs_on=((3, 4, 5, 6), 28, 8, (4, 24)), only_odd=((5, 6), 28, 8, (0, 0)),
    from_the_beginning=((0, 1, 2), 28, 12, (1, 12)), cut_at_the_beginning=((0,), 28, 8, (0, 0)),
)  # fmt: skip
def test_alignment(lab, case):
    cached, num_tokens, alignment, expected = case
    cache = Cache(*cached)
    found = lab.SlidingWindow(4, 9).find_longest_hit(cache, num_tokens, alignment)
    what = f"find_longest_hit() in {num_tokens} tokens, aligned to {alignment}, two blocks of 4 needed"
    check(show(cache))(what, found, equals=expected)


@concept("The beginning says from where on the blocks are there.", invariant="I2", illustrates=True)
@cases(one_block=(5, (9,), (9, 40)), three=(13, (3, 7, 8, 9), (7, 40)), fewer_than_needed=(13, (0, 1), (0, 8)))
def test_where_it_begins(lab, case):
    window, cached, expected = case
    cache = Cache(*cached)
    found = lab.SlidingWindow(4, window).find_longest_hit(cache, 40, 4)
    check(show(cache))(f"find_longest_hit() of a window of {window}", found, equals=expected)


@concept("A lookup of a long text looks at each block once, and at no more than it needs.", invariant="I3")
def test_what_is_asked(lab):
    num_blocks = far(3_000)
    gaps = {block for block in range(num_blocks) if block % 50 != 49}  # 49 blocks in a row, and 60 are needed
    for cached, most in (({*range(num_blocks)}, 60), (gaps, num_blocks), (set(), num_blocks)):
        cache = Cache(*cached)
        lab.SlidingWindow(1, 61).find_longest_hit(cache, num_blocks, 1)
        see = check(lambda cached=cached: f"{len(cached):,} of {num_blocks:,} blocks are cached, 60 are needed")
        see.between("blocks that were asked for", len(cache.asked), most=most)
        see("blocks that were asked for twice", len(cache.asked) - len({*cache.asked}), equals=0)
        see("blocks behind the end that were asked for", [i for i in cache.asked if i >= num_blocks], equals=[])


def agree(lab, groups, cached, num_tokens, alignment=4):
    """The agreed hit, and how often each kind was asked. cached: the blocks of each group."""
    families, caches = lab.families_of(groups), {}

    def is_cached(family):
        _, members = family
        found = set.intersection(*({*cached[g]} for g in members))
        cache = Cache(*found)
        caches.setdefault(members[0], []).append(cache)
        return cache

    return lab.find_agreed_hit(families, is_cached, num_tokens, alignment), caches


@concept("What one family answers is the limit of the next one, until all say the same.", invariant="I4")
def test_rounds(lab):
    """The windows of 5 and 9 tokens agree on 8 tokens only in the third round."""
    groups = (lab.SlidingWindow(4, 5), lab.SlidingWindow(4, 9))
    cached = ((1, 4, 8), (0, 1, 5, 6, 7))
    see = check(lambda: f"a window of 5 has blocks {cached[0]}, one of 9 has blocks {cached[1]}")
    found, _ = agree(lab, groups, cached, 39)
    see("tokens of the hit", found.num_tokens, equals=8)
    see("where the blocks begin", dict(found.firsts), equals={groups[0]: 1, groups[1]: 0})
    every = range(far(400))
    cached = ([i for i in every if i % 4 == 0], [i for i in every if i % 4 in (1, 2)])
    see = check(lambda: f"of {len(every):,} blocks one window has every fourth, and the other one the two behind each")
    found, _ = agree(lab, groups, cached, 4 * len(every))
    see("tokens of the hit, on which they agree after very many rounds", found.num_tokens, equals=0)


@concept("Full attention is a hit up to its first gap, and so are all beginnings of it.", invariant="I5")
def test_full_attention_is_asked_once(lab):
    num_blocks = far(2_000)
    groups = (lab.FullAttention(4), lab.SlidingWindow(4, 5), lab.SlidingWindow(4, 9))
    every = range(num_blocks)
    cached = (every, [i for i in every if i % 3 == 1], [i for i in every if i % 3 != 1])
    _, caches = agree(lab, groups, cached, 4 * num_blocks)
    see = check(lambda: f"full attention has all of {num_blocks:,} blocks; the windows agree on none")
    see("the blocks that full attention was asked for", sum(len(each.asked) for each in caches[0]), equals=num_blocks)


@concept("A third family may shorten the hit, and those before it are asked again.", invariant="I4", illustrates=True)
@cases(
    full_and_window=(("full", 9), (range(8), (2, 3, 6)), (16, 32)),
    full_is_shorter=(("full", 9), (range(3), (0, 1, 2, 6, 7)), (12, 12)),
    three=(("full", 9, 5), (range(9), (2, 3, 6, 7), (3, 5)), (16, 36)),
    no_hit=(("full", 9), ((), (2, 3)), (0, 0)),
)  # fmt: skip
def test_agreed(lab, case):
    kinds, cached, (num_tokens, longest) = case
    groups = tuple(lab.FullAttention(4) if kind == "full" else lab.SlidingWindow(4, kind) for kind in kinds)
    found, _ = agree(lab, groups, cached, 39)
    see = check(lambda: f"kinds {kinds} have blocks {[list(each) for each in cached]}")
    see("tokens of the hit", found.num_tokens, equals=num_tokens)
    see("the longest answer", found.longest, equals=longest)


@concept("The longest answer says what one group still has: a later request may hit there.", invariant="I6")
def test_longest(lab):
    groups = (lab.FullAttention(4), lab.SlidingWindow(4, 9))
    found, _ = agree(lab, groups, (range(8), ()), 39)
    see = check(lambda: "full attention has blocks 0 to 7, the window has none")
    see("tokens of the hit", found.num_tokens, equals=0)
    see("the longest answer", found.longest, equals=32)
    see("where the blocks begin", dict(found.firsts), equals={groups[0]: 0, groups[1]: 0})


def group_of(lab, window):
    """None: full attention; below 0: chunks of so many tokens."""
    if window is None:
        return lab.FullAttention(4)
    return lab.SlidingWindow(4, window) if window > 0 else lab.ChunkedLocal(4, -window)


@concept(
    "Whatever is cached: the longest hit by the words of the contract.", invariant="I4", illustrates=True, searches=True
)
def test_any_cache(lab):
    def plan(rng, size):
        groups = [rng.choice((None, 2, 5, 6, 9, 14, -8, -12)) for _ in range(rng.randint(1, 3))]
        num_blocks = rng.randint(1, 4 + size // 3)
        cached = [[i for i in range(num_blocks) if rng.random() < 0.7] for _ in groups]
        return groups, cached, rng.randint(0, 4 * num_blocks + 3), rng.choice((4, 4, 8))

    def judge(lab, case):
        windows, cached, num_tokens, alignment = case
        groups = tuple(group_of(lab, each) for each in windows)
        found, _ = agree(lab, groups, cached, num_tokens, alignment)
        ends = [{*ends_of(kind, {*each}, num_tokens, alignment)} for kind, each in zip(groups, cached)]
        kinds = f"windows {windows} (None: full attention; -8: chunks of 8)"
        see = check(lambda: f"{kinds}, cached {cached}, alignment {alignment}")
        see(f"tokens of the hit, at most {num_tokens}", found.num_tokens, equals=max(set.intersection(*ends)))

    search(lab, plan, judge, num=300)
