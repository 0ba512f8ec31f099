"""Lab 08.6: which experts have copies, and where they are."""

from math import inf, lcm, nan

from labkit import cases, check, concept, far, raises, walk


def expected_copies(loads, num_ranks, num_redundant):
    copies = [1] * len(loads)
    for _ in range(num_redundant):
        best = None
        for expert, load in enumerate(loads):
            if copies[expert] < num_ranks and (best is None or load * copies[best] > loads[best] * copies[expert]):
                best = expert
        copies[best] += 1
    return copies


def expected_placement(loads, num_ranks, num_redundant):
    """In whole numbers: all shares times one number that every number of copies divides."""
    copies = expected_copies(loads, num_ranks, num_redundant)
    unit = lcm(*range(1, num_ranks + 1))
    shares = [load * unit // number for load, number in zip(loads, copies, strict=True)]
    room = -(-(len(loads) + num_redundant) // num_ranks)
    own, sums = [[] for _ in range(num_ranks)], [0] * num_ranks
    for expert in sorted(range(len(loads)), key=lambda each: (-shares[each], each)):
        open_ones = [rank for rank in range(num_ranks) if len(own[rank]) < room]
        open_ones.sort(key=lambda rank: (sums[rank], len(own[rank]), rank))
        for rank in open_ones[: copies[expert]]:
            own[rank].append(expert)
            sums[rank] += shares[expert]
    return sorted((sorted(each) for each in own), key=len, reverse=True)


def told(loads, num_ranks, num_redundant):
    shown = f"{loads[:16]}{' ...' if len(loads) > 16 else ''}"
    return lambda: f"loads {shown}, {num_ranks} ranks, {num_redundant} redundant experts"


def place(lab, case):
    return [list(own) for own in lab.place_experts(*case)]


@concept("A copy more goes where a copy has most to do.", invariant="I1")
@cases(
    none=([5, 3, 1], 2, 0), one=([5, 3, 1], 3, 1), second_to_another=([12, 7, 1], 3, 2),
    twice_to_one=([30, 4, 4], 3, 2), equals=([6, 6, 6], 2, 2), equal_quotients=([4, 2, 2], 4, 3),
    zeros=([0, 0, 0], 2, 1), large=([2**60, 2**60 + 1, 2**60], 3, 1),
    large_thirds=([3 * 2**60 + 3, 3 * 2**60 + 1], 3, 3),
)  # fmt: skip
def test_copies(lab, case):
    see = check(told(*case))
    see("the copies of each expert", list(lab.count_copies(*case)), equals=expected_copies(*case))


@concept("An expert has at most one copy on each rank.", invariant="I2")
@cases(two_ranks=([90, 4, 3, 1], 2, 2), all_of_them=([5, 1], 2, 2), three_ranks=([99, 5, 1], 3, 3))
def test_most_copies(lab, case):
    see = check(told(*case))
    see("the copies of each expert", list(lab.count_copies(*case)), equals=expected_copies(*case))


@concept("Copies of an expert lie on different ranks.", invariant="I3")
@cases(busy=([100, 60, 60, 55], 2, 1), last=([60, 60, 55, 100], 2, 1), two=([20, 9, 1, 1], 2, 1))
def test_different_ranks(lab, case):
    see = check(told(*case))
    found = place(lab, case)
    twice = [rank for rank, own in enumerate(found) if len(set(own)) < len(own)]
    see("ranks that have an expert twice", twice, equals=[])
    placed = [sum(own.count(expert) for own in found) for expert in range(len(case[0]))]
    see("how often each expert is placed", placed, equals=expected_copies(*case))


@concept("The largest share goes first, to the rank with the smallest sum.", invariant="I4")
@cases(
    no_copies=([7, 5, 4, 3, 2, 1], 2, 0), backwards=([1, 2, 3, 4, 5, 7], 2, 0), three_ranks=([9, 8, 7, 6, 5, 4], 3, 0),
    equal=([2, 2, 2, 2], 2, 0), large=([far(900, 10**6) * n for n in (4, 5, 6, 7, 8, 9)], 3, 0),
)  # fmt: skip
def test_placement(lab, case):
    see = check(told(*case))
    see("the experts of each rank", place(lab, case), equals=expected_placement(*case))


@concept("A share is the load by the number of copies.", invariant="I4")
@cases(on_two_of_three=([20, 9, 5, 4, 3, 2], 3, 1), on_two_of_four=([40, 19, 18, 9, 8, 7, 6], 4, 1))
def test_shares(lab, case):
    see = check(told(*case))
    see("the experts of each rank", place(lab, case), equals=expected_placement(*case))


@concept("A rank that is full is passed over, however little it has to do.", invariant="I5")
@cases(one_large=([100, 1, 1, 1], 2, 0), zeros=([9, 0, 0, 0, 0, 0], 3, 0), two_large=([90, 80, 1, 1, 1, 1], 3, 0))
def test_room(lab, case):
    see = check(told(*case))
    room = -(-(len(case[0]) + case[2]) // case[1])
    found = place(lab, case)
    see(f"ranks with more than {room} experts", [own for own in found if len(own) > room], equals=[])
    see("the experts of each rank", found, equals=expected_placement(*case))


@concept("Sums are exact, so equal ones are equal.", invariant="I6", illustrates=True)
@cases(
    seven=([35, 32, 22, 11, 7, 7, 7, 1], 4, 7), eight=([35, 32, 31, 27, 23, 14, 1, 1], 4, 8),
    thirds=([34, 27, 23, 16, 11, 7, 4, 1], 4, 7), three_ranks=([37, 37, 34, 33, 31, 27, 24, 13, 10, 8, 8, 1], 3, 8),
)  # fmt: skip
def test_exact_sums(lab, case):
    """Loads for which sums in floating point choose another rank."""
    see = check(told(*case))
    see("the experts of each rank", place(lab, case), equals=expected_placement(*case))


@concept("Ranks with more experts come first, and a rank's experts ascend.", invariant="I7", illustrates=True)
@cases(five_on_two=([1, 2, 3, 4, 50], 2, 0), seven_on_three=([90, 1, 1, 80, 1, 1, 1], 3, 0))
def test_longer_ranks_first(lab, case):
    see = check(told(*case))
    found = place(lab, case)
    see("the number of experts of each rank", list(map(len, found)), equals=list(map(len, expected_placement(*case))))
    see("the experts of each rank", found, equals=expected_placement(*case))


@concept("A map says where an expert lies among those of the rank, or -1.", invariant="I8")
@cases(
    even=(((0, 1), (2, 3)), 4), copies=(((0, 1, 2), (0, 1, 3)), 4), scattered=(((1, 4), (0, 3), (2,)), 5),
    one_rank=(((0, 1, 2),), 3),
)  # fmt: skip
def test_maps(lab, case):
    placement, num_experts = case
    see = check(lambda: f"placement {placement}")
    expected = [[own.index(expert) if expert in own else -1 for expert in range(num_experts)] for own in placement]
    see("the map of each rank", [list(each) for each in lab.expert_maps(placement, num_experts)], equals=expected)


@concept("What no placement can have is refused.", invariant="I8", illustrates=True)
@cases(below_zero=([3, -1, 2], 2, 0), nan=([3.0, nan], 2, 0), infinite=([inf, 1.0], 2, 0), more_ranks=([1, 2], 3, 0),
       too_many_copies=([1, 2], 2, 3), no_ranks=([1, 2], 0, 0))  # fmt: skip
def test_refused(lab, case):
    with raises(lab.InvalidParameterError, f"loads {case[0]}, {case[1]} ranks, {case[2]} redundant experts"):
        lab.place_experts(*case)


def plan(rng):
    calls = [("ranks", rng.randint(1, 4))]
    for _ in range(rng.randint(1, 4)):
        calls.append(("place", [rng.randint(0, 40) for _ in range(rng.randint(4, 9))], rng.randint(0, 4)))
    return calls


def play(lab, calls):
    num_ranks = 1
    for name, *arguments in calls:
        if name == "ranks":
            (num_ranks,) = arguments
            continue
        loads, most = arguments
        number = min(most, len(loads) * (num_ranks - 1))
        yield "I1", "the copies", list(lab.count_copies(loads, num_ranks, number))
        found = lab.place_experts(loads, num_ranks, number)
        yield "I4", "the experts of each rank", [list(own) for own in found]
        yield "I8", "the maps", [list(each) for each in lab.expert_maps(found, len(loads))]


@concept("Whatever the loads: the placement of the reference.", invariant="I4", illustrates=True, searches=True)
def test_any_loads(lab):
    walk(lab, plan, play)
