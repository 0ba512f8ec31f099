"""Which rank holds which experts, from how many tokens each of them gets.

    loads 12 4 3 1, two ranks, two redundant experts    rank 0: experts 0 1 2    6 + 2 + 3 tokens
                                                        rank 1: experts 0 1 3    6 + 2 + 1

An expert with more tokens than the rest gets copies, which share its tokens. Then each copy goes to
the rank that has least to do, the largest first. Source: DefaultEplbPolicy in
vllm/distributed/eplb/policy/default.py, which may put two copies of an expert on one rank: there
the second one would be of no use.
"""

from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise

from mini_vllm.errors import InvalidParameterError

Placement = tuple[tuple[int, ...], ...]
"""By rank, the experts that it holds, in ascending order."""


def count_copies(loads: Sequence[float], num_ranks: int, num_redundant_experts: int) -> list[int]:
    """How many copies each expert gets, so that the largest load of a copy is as small as it can
    be. At least one, at most one for each rank.

    loads: by expert, how many tokens it gets. Among equals the expert of the lowest number is
    first. Source: replicate_experts() there.
    """
    copies = [1] * len(loads)
    shares = [(-Fraction(load), expert) for expert, load in enumerate(loads)]
    heapify(shares)
    for _ in range(num_redundant_experts):
        _, expert = heappop(shares)
        copies[expert] += 1
        if copies[expert] < num_ranks:
            heappush(shares, (-Fraction(loads[expert]) / copies[expert], expert))
    return copies


def place_experts(
    loads: Sequence[float], num_ranks: int, num_redundant_experts: int = 0
) -> Placement:
    """The experts of every rank. A rank holds no expert twice, at least one expert, and at most
    ceil((len(loads) + num_redundant_experts) / num_ranks) of them.

    loads: by expert, how many tokens it gets; 0 or more, of any scale. The copies of an expert go
    to the ranks with the smallest loads that have room, and the expert whose copies have the
    largest load goes first. Sums are exact, so equal loads are equal, and then the rank with fewer
    experts is first. So all copies find room: until the last copy of a replicated expert is placed,
    a load is at most twice another one, unless every rank has it, and the ranks' numbers of experts
    differ by one at most.

    Errors: InvalidParameterError for a load below 0, for fewer experts than ranks, and for more
    redundant experts than ranks can hold.
    """
    num_experts = len(loads)
    check_numbers(num_experts, num_ranks, num_redundant_experts)
    for expert, load in enumerate(loads):
        if not 0 <= load < float("inf"):
            raise InvalidParameterError(f"the load of expert {expert} is {load}, it must be >= 0")
    copies = count_copies(loads, num_ranks, num_redundant_experts)
    shares = [Fraction(load) / number for load, number in zip(loads, copies, strict=True)]
    slots = -(-(num_experts + num_redundant_experts) // num_ranks)
    own: list[list[int]] = [[] for _ in range(num_ranks)]
    totals = [Fraction(0)] * num_ranks
    for expert in sorted(range(num_experts), key=lambda each: -shares[each]):
        ranks = [rank for rank in range(num_ranks) if len(own[rank]) < slots]
        ranks.sort(key=lambda rank: (totals[rank], len(own[rank])))
        assert len(ranks) >= copies[expert], "a copy has a rank of its own"
        for rank in ranks[: copies[expert]]:
            own[rank].append(expert)
            totals[rank] += shares[expert]
    own.sort(key=len, reverse=True)  # rank 0 has no less than any other rank
    return tuple(tuple(sorted(each)) for each in own)


def spread_evenly(num_experts: int, num_ranks: int) -> Placement:
    """Neighbours beside each other, the same number on every rank; the first ranks have one more
    where that is not possible. Source: determine_expert_map ("linear").
    """
    check_numbers(num_experts, num_ranks)
    share, rest = divmod(num_experts, num_ranks)
    ends = [*accumulate([share + (rank < rest) for rank in range(num_ranks)], initial=0)]
    return tuple(tuple(range(*pair)) for pair in pairwise(ends))


def check_numbers(num_experts: int, num_ranks: int, num_redundant_experts: int = 0) -> None:
    """Errors: InvalidParameterError for numbers that no placement has."""
    if not 1 <= num_ranks <= num_experts:
        raise InvalidParameterError(
            f"{num_experts} experts on {num_ranks} ranks: every rank needs one"
        )
    most = num_experts * (num_ranks - 1)
    if not 0 <= num_redundant_experts <= most:
        raise InvalidParameterError(
            f"num_redundant_experts is {num_redundant_experts}, allowed is [0, {most}]: "
            "a rank holds no expert twice"
        )


def expert_maps(placement: Placement, num_experts: int) -> list[list[int]]:
    """By rank, by expert: its place among those of the rank; -1 is elsewhere. Source: expert_map in
    vLLM's ExpertMapManager.
    """
    maps = [[-1] * num_experts for _ in placement]
    for slots, own in zip(maps, placement, strict=True):
        for place, expert in enumerate(own):
            slots[expert] = place
    return maps


def rank_loads(loads: Sequence[float], placement: Placement) -> list[float]:
    """How many tokens each rank gets; the copies of an expert share its tokens."""
    copies = [sum(expert in own for own in placement) for expert in range(len(loads))]
    return [sum(loads[expert] / copies[expert] for expert in own) for own in placement]
