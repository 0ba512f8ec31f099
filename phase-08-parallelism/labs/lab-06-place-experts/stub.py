"""Lab 08.6: Place experts by load (35 minutes). What must hold is in contract.md."""

from collections.abc import Sequence
from fractions import Fraction

from labkit import todo
from mini_vllm.errors import InvalidParameterError
from mini_vllm.parallel.experts.placement import Placement, check_numbers


def count_copies(loads: Sequence[float], num_ranks: int, num_redundant_experts: int) -> list[int]:
    """How many copies each expert gets, so that the largest load of a copy is as small as it can
    be. At least one, at most one for each rank.

    loads: by expert, how many tokens it gets. Among equals the expert of the lowest number is
    first. Source: replicate_experts() there.
    """
    todo("08.6")


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
    todo("08.6")


def expert_maps(placement: Placement, num_experts: int) -> list[list[int]]:
    """By rank, by expert: its place among those of the rank; -1 is elsewhere. Source: expert_map in
    vLLM's ExpertMapManager.
    """
    todo("08.6")
