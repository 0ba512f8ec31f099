"""One walk for many seeds, against a book of what is in which block, and of the order in which content must go."""

from math import ceil
from random import Random

from labkit import check, raises


def text_of(request):
    return "".join(map(chr, request.all_token_ids))


class Book:
    """What the laws let us know of a manager, written down from outside."""

    def __init__(self, lab, random):
        self.lab, self.random = lab, random
        self.size, self.usable = random.choice([(1, 12), (2, 9), (3, 7), (16, 5)])
        self.kv = lab.KVCacheManager(self.usable + 1, self.size)
        self.content = {}  # block: (salt, all tokens to its end), while it can be found
        self.line = []  # free blocks with content, the one that must go first in front
        self.tables = {}
        self.live = {}
        self.waiting = []

    def text(self):
        """Beginnings are few, and lengths are often a multiple of the block size or one off."""
        blocks = [self.random.choice("ab") * self.size for _ in range(self.random.randint(1, 3))]
        return ("".join(blocks) + "ccc")[: max(1, len(blocks) * self.size + self.random.randint(-1, 1))]

    def full(self, request, num_tokens):
        text = text_of(request)
        return [(request.cache_salt, text[:end]) for end in range(self.size, num_tokens + 1, self.size)]

    def state(self):
        counts = [block.ref_cnt for block in self.kv.block_pool.blocks]
        return counts, self.kv.free_block_ids(), [self.kv.get_block_ids(name) for name in sorted(self.live)]

    def look_up(self, request):
        before = self.state()
        hits, num_tokens = self.kv.get_computed_blocks(request)
        assert self.state() == before, "looking changes nothing"
        assert num_tokens == self.size * len(hits)
        expected = []
        for content in self.full(request, request.num_tokens - 1):
            if content not in self.content.values():
                break
            expected.append(content)
        assert [self.content.get(block.block_id) for block in hits] == expected, "the longest beginning, and no other"
        return [block.block_id for block in hits], hits, num_tokens

    def allocate(self, request, count):
        """Whether there was room."""
        kv, name = self.kv, request.request_id
        found, hits, num_tokens = self.look_up(request) if name not in self.live else ([], [], 0)
        start = request.num_computed_tokens + num_tokens
        end = min(start + count, request.num_tokens)
        held = [*self.tables.get(name, []), *found]
        counts, free, _ = before = self.state()
        num_new = max(ceil(end / self.size) - len(held), 0)
        price = num_new + sum(counts[block_id] == 0 for block_id in found)
        new = kv.allocate_slots(request, end - start, hits)
        if price > len(free):
            assert new is None, "too dear"
            assert self.state() == before, "refused, and something is different"
            return False
        assert new is not None, "it can be paid"
        new = [block.block_id for block in new]
        assert len(new) == num_new, "the price"
        assert kv.get_block_ids(name) == held + new, "the table"
        self.line = [block_id for block_id in self.line if block_id not in found]
        num_evicted = len([block_id for block_id in new if block_id in self.line])
        assert sorted(set(new) & set(self.line)) == sorted(self.line[:num_evicted]), "who goes first"
        self.line = self.line[num_evicted:]
        for block_id in new:
            self.content.pop(block_id, None)
        self.tables[name] = held + new
        for i, content in enumerate(self.full(request, end)):
            if i >= start // self.size:
                self.content[self.tables[name][i]] = content
        self.live[name] = request
        request.num_computed_tokens = start
        return end

    def free(self, request):
        """The request leaves; unless it is finished, what is not computed is withdrawn."""
        table = self.tables.pop(request.request_id)
        del self.live[request.request_id]
        self.kv.free(request)
        if request.status is not self.lab.RequestStatus.FINISHED_LENGTH:
            for block_id in table[request.num_computed_tokens // self.size :]:
                self.content.pop(block_id, None)
            request.num_computed_tokens = 0
        held = [block_id for each in self.tables.values() for block_id in each]
        self.line += [block_id for block_id in reversed(table) if block_id not in held and block_id in self.content]

    def conserved(self):
        held = [block_id for table in self.tables.values() for block_id in table]
        counts, free, _ = self.state()
        assert counts[1:] == [held.count(block_id) for block_id in range(1, self.usable + 1)], "who holds what"
        assert sorted(free) == [block_id for block_id in range(1, self.usable + 1) if block_id not in held]
        assert self.kv.num_free_blocks == len(free)

    def turn(self, number):
        """Something happens."""
        random = self.random
        what = random.choice("come come grow grow grow finish preempt halfway ask".split())
        if what == "ask":
            with raises(ValueError, "one more than is free"):
                self.kv.block_pool.get_new_blocks(self.kv.num_free_blocks + 1)
        elif what == "come":
            request = self.waiting.pop(0) if self.waiting and random.random() < 0.7 else self.request(number)
            end = self.allocate(request, random.choice([1, 2, self.size, 64]))
            if end:
                request.num_computed_tokens = end
            else:
                self.waiting.append(request)
        elif self.live:
            request = self.live[random.choice(sorted(self.live))]
            if what in ("grow", "halfway"):
                if request.num_computed_tokens == request.num_tokens:
                    request.append_output_token(ord(random.choice("ab")))
                end = self.allocate(request, 64 if what == "halfway" else random.choice([1, 1, 3, self.size]))
                if end and what == "grow":
                    request.num_computed_tokens = end
                    return
                if end is not False or len(self.live) > 1:  # thrown out in its step, or for want of room
                    self.waiting.append(request)
                    self.free(request)
                return
            if what == "finish":
                request.status = self.lab.RequestStatus.FINISHED_LENGTH
            else:
                self.waiting.append(request)
            self.free(request)

    def request(self, number):
        salt = self.random.choice([None, None, None, None, "", "s"])
        tokens = [ord(letter) for letter in self.text()]
        return self.lab.Request(f"r{number}", tokens, self.lab.SamplingParams(max_tokens=64), cache_salt=salt)


def test_a_walk(lab):
    for seed in range(12):
        book = Book(lab, Random(seed))
        for number in range(100):
            book.turn(number)
            book.conserved()


def test_nothing_is_lost_by_asking_for_too_much(lab):
    pool = lab.BlockPool(3)
    with raises(ValueError, "3 blocks of 2"):
        pool.get_new_blocks(3)
    check()("free blocks", pool.num_free_blocks, equals=2)
