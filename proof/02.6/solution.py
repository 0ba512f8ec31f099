"""Two books, of who holds a block and of what is in it, kept beside the manager and compared after every call."""

from collections import Counter

from labkit import check


def make(lab, text, name="a"):
    """A request; each letter of the text is one token."""
    return lab.Request(name, [ord(letter) for letter in text], lab.SamplingParams(max_tokens=64))


def test_what_was_written_is_found(lab):
    """a writes two blocks and leaves; b, which begins like it, finds both."""
    kv = lab.KVCacheManager(8, 4)
    see = check(lab.draw.blocks, kv, "a", "b")
    a, b = make(lab, "abcdefghij"), make(lab, "abcdefgh?!", "b")
    kv.allocate_slots(a, 10)
    a.num_computed_tokens = 10
    a.status = lab.RequestStatus.FINISHED_LENGTH
    kv.free(a)
    _, num_hit = kv.get_computed_blocks(b)
    see("how many tokens b finds", num_hit, equals=8)


CASE_A = {
    "culprit": "mini_vllm.block_pool:BlockPool.get_new_blocks",
    "step": 6,
    "why": "A block that q takes again is still found under what p wrote, so s reads what q wrote.",
}
CASE_B = {
    "culprit": "mini_vllm.block_pool:BlockPool.touch",
    "step": 14,
    "why": "The third holder is not counted, so the blocks are free when the second one leaves; r still reads them.",
}


class Books:
    """contents: what each block holds, as the text that leads up to its end. holders: who is there."""

    def __init__(self, lab, num_blocks=9):
        self.lab, self.kv = lab, lab.KVCacheManager(num_blocks, 4)
        self.contents, self.holders = {}, []

    def text(self, request, block):
        return "".join(map(chr, request.all_token_ids[: 4 * block + 4]))

    def come(self, request, count=64, runs=True):
        """A request comes, and has slots for so many tokens; if it `runs`, they are computed."""
        hits, num_hit = [], 0
        if request not in self.holders:
            hits, num_hit = self.look_up(request)
        end = min(request.num_computed_tokens + num_hit + count, request.num_tokens)
        new = self.kv.allocate_slots(request, end - request.num_computed_tokens - num_hit, hits)
        assert new is not None, "the tests leave room"
        request.num_computed_tokens += num_hit
        for block in new:
            self.contents[block.block_id] = None
        if request not in self.holders:
            self.holders.append(request)
        if runs:
            self.write(request, end)
        self.compare()

    def write(self, request, end):
        table = self.kv.get_block_ids(request.request_id)
        for block in range(request.num_computed_tokens // 4, end // 4):
            self.contents[table[block]] = self.text(request, block)
        request.num_computed_tokens = end

    def leave(self, request, *, preempted=False):
        if not preempted:
            request.status = self.lab.RequestStatus.FINISHED_LENGTH
        self.kv.free(request)
        request.num_computed_tokens = 0
        self.holders.remove(request)
        self.compare()

    def look_up(self, request):
        hits, num_hit = self.kv.get_computed_blocks(request)
        for place, block in enumerate(hits):
            assert self.contents[block.block_id] == self.text(request, place), (
                f"{request.request_id} finds what is gone"
            )
        return hits, num_hit

    def compare(self):
        held = Counter(each for request in self.holders for each in self.kv.get_block_ids(request.request_id))
        counts = {block.block_id: block.ref_cnt for block in self.kv.block_pool.blocks[1:]}
        assert counts == {each: held[each] for each in counts}, "who holds a block is counted"
        assert sorted(self.kv.free_block_ids()) == sorted(set(counts) - set(held)), "what nobody holds is free, once"


def test_what_was_taken_is_not_found(lab):
    books, a = Books(lab), make(lab, "abcdefghi")
    books.come(a)
    books.leave(a)
    big = make(lab, "A" * 31, "big")
    books.come(big)
    books.leave(big)
    books.look_up(make(lab, "abcdefghi?", "again"))
    books.come(make(lab, "abcdefghi?", "again"))


def test_what_was_never_written_is_not_found(lab):
    for computed in range(1, 12):
        books, a = Books(lab), make(lab, "abcdefghijkl")
        books.come(a, computed)
        books.come(a, runs=False)
        books.leave(a, preempted=True)
        books.look_up(make(lab, "abcdefghijkl?", "b"))


def test_any_number_may_share(lab):
    for number in (2, 3, 4):
        books = Books(lab)
        sharers = [make(lab, f"abcdefgh{each}", f"r{each}") for each in range(number)]
        for request in sharers:
            books.come(request)
        for request in sharers:
            books.leave(request)
