"""What the tests of a KV cache manager may look like: small stories, and the laws, checked after every step of them."""

from collections import Counter
from itertools import product
from math import ceil
from random import Random

from labkit import check, raises


def make(lab, text, name="a", salt=None):
    """A request; each letter of the text is one token."""
    return lab.Request(name, [ord(letter) for letter in text], lab.SamplingParams(max_tokens=64), cache_salt=salt)


def test_everything_comes_back(lab):
    """A story of one request. `see` draws the blocks, as they are now and when something is not as expected."""
    kv, a = lab.KVCacheManager(8, 4), make(lab, "abcdefghij")
    see = check(lab.draw.blocks, kv, "a")
    kv.allocate_slots(a, 10)
    a.num_computed_tokens = 10
    see("free blocks, of 7, while a has slots for 10 tokens", kv.num_free_blocks, equals=4)
    a.status = lab.RequestStatus.FINISHED_LENGTH
    kv.free(a)
    see("free blocks when a is gone", kv.num_free_blocks, equals=7)


def ids(blocks):
    return [block.block_id for block in blocks]


def notes(request, end):
    """What the model below writes for the first `end` tokens: for each one the salt, and all tokens up to it."""
    text = "".join(map(chr, request.all_token_ids))
    return [(request.cache_salt, text[: i + 1]) for i in range(end)]


class Engine:
    """A manager and a model. What a model writes depends on all tokens so far, so this one writes just that."""

    def __init__(self, lab, num_blocks=8, block_size=4):
        self.lab, self.size = lab, block_size
        self.kv = lab.KVCacheManager(num_blocks, block_size)
        self.memory = [[] for _ in range(num_blocks)]  # the notes in each block
        self.running = []

    def step(self, request, count=64, runs=True):
        """Slots for so many more tokens, or for all; if it `runs`, they are computed. Whether there was room."""
        kv, is_new = self.kv, request not in self.running
        hits, num_hit = self.look_up(request) if is_new else ([], 0)
        start = request.num_computed_tokens + num_hit
        end = min(start + count, request.num_tokens)
        old, before = kv.get_block_ids(request.request_id), self.picture()

        num_new = max(ceil(end / self.size) - len(old) - len(hits), 0)
        price = num_new + sum(block.ref_cnt == 0 for block in hits)
        new = kv.allocate_slots(request, end - start, hits)
        assert (new is not None) == (price <= len(before["free"])), f"I4: it costs {price} free blocks"
        if new is None:
            assert self.picture() == before, "I4: a refusal changes nothing"
            return False

        table = kv.get_block_ids(request.request_id)
        assert table == [*old, *ids(hits), *ids(new)], "I3: the table so far, the hits, the new blocks"
        assert len(table) == ceil(end / self.size), f"I3: a block for every {self.size} tokens"
        for block_id in ids(new):
            self.memory[block_id] = []
        request.num_computed_tokens = start
        self.running += [request] * is_new
        if runs:
            self.compute(request, end)
            self.look()
        return True

    def compute(self, request, end):
        """Write the notes of the tokens up to `end`."""
        table = self.kv.get_block_ids(request.request_id)
        for i, note in enumerate(notes(request, end)):
            if i >= request.num_computed_tokens:
                self.memory[table[i // self.size]][i % self.size :] = [note]
        request.num_computed_tokens = end

    def finish(self, request):
        request.status = self.lab.RequestStatus.FINISHED_LENGTH
        self.leave(request)

    def preempt(self, request):
        self.leave(request)
        request.num_computed_tokens = 0

    def leave(self, request):
        self.kv.free(request)
        self.running.remove(request)
        self.look()

    def look_up(self, request):
        """The hit: it is true (I5) and whole (I6), and to look is to change nothing (I4)."""
        before = self.picture()
        hits, num_hit = self.kv.get_computed_blocks(request)
        assert self.picture() == before, "I4: a look changes nothing"
        assert num_hit == len(hits) * self.size < request.num_tokens, "I5: whole blocks, and one token is left"
        self.read(request, ids(hits), num_hit)
        end = num_hit + self.size
        if end < request.num_tokens:
            assert notes(request, end)[num_hit:] not in self.memory, "I6: the next block is there, too"
        return hits, num_hit

    def look(self):
        """The laws that hold between any two steps."""
        conserved(self.kv, self.running)
        for request in self.running:
            self.read(request, self.kv.get_block_ids(request.request_id), request.num_computed_tokens)

    def read(self, request, block_ids, end):
        """I5: the model finds its own notes in these blocks."""
        found = [note for block_id in block_ids for note in self.memory[block_id]]
        assert found[:end] == notes(request, end), f"I5: {request.request_id} reads what is not its own"

    def picture(self):
        """What stays as it is when nothing changes."""
        return {
            "tables": [self.kv.get_block_ids(request.request_id) for request in self.running],
            "counts": [block.ref_cnt for block in self.kv.block_pool.blocks],
            "free": self.kv.free_block_ids(),
            "contents": self.kv.num_cached_blocks,
        }


def conserved(kv, requests):
    """I2: a block is free, or in as many tables as it counts; none is lost, and block 0 is nobody's."""
    held = Counter(block_id for request in requests for block_id in kv.get_block_ids(request.request_id))
    free = kv.free_block_ids()
    assert sorted([*free, *held]) == list(range(1, kv.num_usable_blocks + 1)), "I2: each block is in one place"
    assert kv.num_free_blocks == len(free), "I2: the number of free blocks"
    for block in kv.block_pool.blocks[1:]:
        assert block.ref_cnt == held[block.block_id], f"I2: the holders of block {block.block_id}"


def test_three_share_a_prompt(lab):
    """They come and leave one after the other."""
    engine = Engine(lab)
    three = [make(lab, "abcdefgh" + name, name) for name in "xyz"]
    for request in three:
        assert engine.step(request)
    for request in three:
        engine.finish(request)


def test_any_length_in_any_chunks(lab):
    """A prompt in chunks, then token by token, with just enough blocks: sizes that do not divide each other."""
    for size, chunk in product([1, 3, 16], [1, 4, 17]):
        engine, a = Engine(lab, 1 + ceil(33 / size), size), make(lab, "a" * 20)
        while a.num_computed_tokens < a.num_tokens:
            assert engine.step(a, chunk)
        for letter in "bcdefghijklmn":
            a.append_output_token(ord(letter))
            assert engine.step(a)
        engine.finish(a)


def test_given_or_refused(lab):
    """Two blocks are cached, and others hold both, one or none of them: each length has its price."""
    for held, length in product(["", "abcd!", "abcdefgh!"], [4, 8, 9, 12, 16, 17, 20, 24, 25]):
        engine, first = Engine(lab, num_blocks=7), make(lab, "abcdefgh?", "first")
        engine.step(first)
        if held:
            engine.step(make(lab, held, "second"))
        engine.finish(first)
        engine.step(make(lab, "abcdefghijklmnopqrstuvwxyz"[:length]))


def test_the_pool_refuses_and_changes_nothing(lab):
    pool = lab.BlockPool(4)
    block, _ = pool.get_new_blocks(2)
    pool.cache_block(block, "content")
    pool.free_blocks([block])
    with raises(ValueError, "3 blocks are asked for, 2 are free"):
        pool.get_new_blocks(3)
    assert pool.num_free_blocks == 2, "I4: nobody is taken"
    assert pool.get_cached_block("content") is block, "I4: nobody is evicted"


def test_what_may_be_shared(lab):
    """Texts that differ in one place, or in length; in the second turn most of them was generated."""
    texts = ["aaaaaaa", "aaaaaba", "abaaaaa", "baaaaaa", "aaaaaa"]
    for text, other, cut in product(texts, texts, [7, 1]):
        engine = Engine(lab, 12, 2)
        for name, whole in (("first", text), ("other", other)):
            request = make(lab, whole[:cut], name)
            for letter in whole[cut:]:
                request.append_output_token(ord(letter))
            engine.step(request)


def test_salts(lab):
    for salt, other in product([None, "", "s", "t"], repeat=2):
        engine = Engine(lab)
        engine.step(make(lab, "abcdefghi", "first", salt))
        engine.step(make(lab, "abcdefghi", "other", other))


def test_thrown_out_in_the_middle_of_a_step(lab):
    """Slots for 12 tokens, some of them computed: whole blocks of these are found again, and the others are not."""
    for computed, is_finished in product(range(12), [False, True]):
        engine, a = Engine(lab), make(lab, "abcdefghijkl")
        if computed:
            engine.step(a, computed)
        engine.step(a, runs=False)
        if is_finished:
            engine.compute(a, 12)  # the step still runs, and the counter does not know it
            a.num_computed_tokens = computed
            engine.finish(a)
        else:
            engine.preempt(a)
        engine.step(make(lab, "abcdefghijkl?", "b"))


def test_who_is_evicted_first(lab):
    """Blocks without content, then what was left first; of one table the tail, so that a beginning stays longest."""
    for num_taken, expected in enumerate([[8, 8]] * 5 + [[8, 4], [8, 0], [4, 0], [0, 0]]):
        engine = Engine(lab, num_blocks=9)
        for text in ("abcdefgh!", "ijklmnop", "abcdefgh?", "!"):
            request = make(lab, text, text)
            engine.step(request)
            engine.finish(request)
        engine.kv.block_pool.get_new_blocks(num_taken)
        found = [engine.kv.get_computed_blocks(make(lab, text + "?"))[1] for text in ("abcdefgh", "ijklmnop")]
        check(lab.draw.blocks, engine.kv)(f"tokens found when {num_taken} blocks are taken", found, equals=expected)


def test_a_long_walk(lab):
    """Whatever may happen, in any order. The seed is fixed: what is red once is red again."""
    random = Random(4)
    engine, waiting = Engine(lab, num_blocks=9, block_size=2), []
    for number in range(200):
        action = random.choice(["new", "again", "again", "grow", "grow", "finish", "preempt", "preempt in a step"])
        text = "".join(random.choice("ab") for _ in range(random.randint(1, 9)))
        engine.look_up(make(lab, text, "probe"))
        if action == "new":
            waiting.append(make(lab, text, f"r{number}", random.choice([None, None, "s"])))
        elif action == "again" and waiting:
            request = waiting.pop(random.randrange(len(waiting)))
            if not engine.step(request, random.randint(1, 9)):
                waiting.append(request)
        elif engine.running:
            request = random.choice(engine.running)
            if action == "grow":
                if request.num_computed_tokens == request.num_tokens:
                    request.append_output_token(ord(random.choice("ab")))
                engine.step(request, random.randint(1, 3))
            elif action == "finish":
                engine.finish(request)
            elif action.startswith("preempt"):
                if action == "preempt in a step":
                    engine.step(request, runs=False)
                engine.preempt(request)
                waiting.append(request)
