# === looks_for_gaps
"""The last gap on the left decides: a hit of a window ends far enough behind it. Rounds are a generator."""

from mini_vllm.offload.hybrid.groups import FullAttention
from mini_vllm.offload.hybrid.groups import SlidingWindow as ReferenceSlidingWindow
from mini_vllm.offload.hybrid.lookup import AgreedHit


class SlidingWindow(ReferenceSlidingWindow):
    def find_longest_hit(self, is_cached, num_tokens, alignment):
        end = num_tokens // alignment * alignment // self.block_size
        block = end
        while end > 0:
            block -= 1
            if block < 0 or end - block > self.num_needed:
                break
            if not is_cached(block):
                end = block * self.block_size // alignment * alignment // self.block_size
                block = min(block, end)
        return max(0, end - self.num_needed), end * self.block_size


def find_agreed_hit(families, is_cached, num_tokens, alignment):
    answers, firsts, longest = {}, {}, 0
    sees_all = [type(kind) is FullAttention for kind, _ in families]
    is_stable = False
    while not is_stable:
        is_stable = True
        for family, is_full in zip(families, sees_all):
            kind = family[0]
            if is_full and kind in answers:
                shorter = min(num_tokens, answers[kind])
            else:
                firsts[kind], shorter = kind.find_longest_hit(is_cached(family), num_tokens, alignment)
                answers[kind] = shorter
                longest = max(longest, shorter)
            is_stable = is_stable and shorter == num_tokens
            num_tokens = shorter
        if len(families) == 1 or sees_all == [True, False]:
            is_stable = True
    return AgreedHit(num_tokens, longest, firsts)


# === with_a_list_of_runs
"""Runs are counted from the left up to each block first; then the ends are tried from the right."""

from mini_vllm.offload.hybrid.groups import FullAttention
from mini_vllm.offload.hybrid.groups import SlidingWindow as ReferenceSlidingWindow
from mini_vllm.offload.hybrid.lookup import AgreedHit


class SlidingWindow(ReferenceSlidingWindow):
    def find_longest_hit(self, is_cached, num_tokens, alignment):
        size, known = self.block_size, {}

        def has(block):
            if block not in known:
                known[block] = is_cached(block)
            return known[block]

        end = num_tokens // alignment * alignment
        while end > 0:
            first = max(0, end // size - self.num_needed)
            missing = next((block for block in reversed(range(first, end // size)) if not has(block)), None)
            if missing is None:
                return first, end
            end = missing * size // alignment * alignment
        return 0, 0


def find_agreed_hit(families, is_cached, num_tokens, alignment):
    full, firsts, longest = {}, {}, 0

    def one_round(limit):
        nonlocal longest
        for family in families:
            kind, _ = family
            if kind not in full:
                firsts[kind], answer = kind.find_longest_hit(is_cached(family), limit, alignment)
                longest, limit = max(longest, answer), answer
                if type(kind) is FullAttention:
                    full[kind] = answer
            limit = min(limit, full.get(kind, limit))
        return limit

    after = one_round(num_tokens)
    may_differ = len(families) > 2 or (len(families) == 2 and not full)
    while may_differ and after != num_tokens:
        num_tokens, after = after, one_round(after)
    return AgreedHit(after, longest, firsts)
