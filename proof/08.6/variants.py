# === in_whole_numbers
"""All loads are multiplied by a number that every count of copies divides, so whole numbers are enough."""

from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import factorial

from mini_vllm.errors import InvalidParameterError
from mini_vllm.parallel.experts.placement import check_numbers


def count_copies(loads, num_ranks, num_redundant_experts):
    copies = [1] * len(loads)
    heap = [(-Fraction(load), expert) for expert, load in enumerate(loads) if num_ranks > 1]
    heapify(heap)
    for _ in range(num_redundant_experts):
        _, expert = heappop(heap)
        copies[expert] += 1
        if copies[expert] < num_ranks:
            heappush(heap, (-Fraction(loads[expert]) / copies[expert], expert))
    return copies


def place_experts(loads, num_ranks, num_redundant_experts=0):
    check_numbers(len(loads), num_ranks, num_redundant_experts)
    if not all(load >= 0 and load + 1 != load + 2 or load == 0 for load in loads) or float("inf") in loads:
        raise InvalidParameterError(f"loads {loads}")
    copies = count_copies(loads, num_ranks, num_redundant_experts)
    unit = factorial(num_ranks)
    shares = [Fraction(load) * unit / number for load, number in zip(loads, copies)]  # noqa: B905
    room = (len(loads) + num_redundant_experts + num_ranks - 1) // num_ranks
    ranks = [[0, 0, rank, set()] for rank in range(num_ranks)]
    for share, expert in sorted(zip(shares, range(len(loads))), key=lambda each: (-each[0], each[1])):  # noqa: B905
        ranks.sort(key=lambda each: each[:3])
        for rank in [each for each in ranks if each[1] < room][: copies[expert]]:
            rank[0] += share
            rank[1] += 1
            rank[3].add(expert)
    ranks.sort(key=lambda each: (-each[1], each[2]))
    return [sorted(rank[3]) for rank in ranks]


def expert_maps(placement, num_experts):
    maps = []
    for own in placement:
        places = dict(zip(own, range(len(own))))  # noqa: B905
        maps.append([places.get(expert, -1) for expert in range(num_experts)])
    return maps


# === rank_by_rank
"""The ranks are objects that take an expert each."""

from fractions import Fraction
from math import isfinite

from mini_vllm.errors import InvalidParameterError
from mini_vllm.parallel.experts.placement import check_numbers


class Rank:
    def __init__(self, number, room):
        self.number, self.room, self.parts = number, room, {}

    @property
    def order(self):
        return sum(self.parts.values(), Fraction()), len(self.parts), self.number

    def take(self, expert, share):
        self.parts[expert] = share
        self.room -= 1


def count_copies(loads, num_ranks, num_redundant_experts):
    copies = dict.fromkeys(range(len(loads)), 1)
    while num_redundant_experts:
        several = (expert for expert in copies if copies[expert] != num_ranks)
        busiest = min(several, key=lambda expert: (-Fraction(loads[expert]) / copies[expert], expert))
        copies[busiest] += 1
        num_redundant_experts -= 1
    return list(copies.values())


def place_experts(loads, num_ranks, num_redundant_experts=0):
    check_numbers(len(loads), num_ranks, num_redundant_experts)
    for load in loads:
        if not isfinite(load) or load < 0:
            raise InvalidParameterError(f"a load is {load}")
    copies = count_copies(loads, num_ranks, num_redundant_experts)
    room, rest = divmod(len(loads) + num_redundant_experts, num_ranks)
    ranks = [Rank(number, room + bool(rest)) for number in range(num_ranks)]
    left = set(range(len(loads)))
    while left:
        expert = max(left, key=lambda each: (Fraction(loads[each]) / copies[each], -each))
        left.remove(expert)
        for _ in range(copies[expert]):
            free = [rank for rank in ranks if rank.room and expert not in rank.parts]
            min(free, key=lambda rank: rank.order).take(expert, Fraction(loads[expert]) / copies[expert])
    ranks.sort(key=lambda rank: -len(rank.parts))
    return tuple(tuple(sorted(rank.parts)) for rank in ranks)


def expert_maps(placement, num_experts):
    return [[list(own).index(e) if e in own else -1 for e in range(num_experts)] for own in placement]
