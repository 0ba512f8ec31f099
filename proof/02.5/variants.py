# === many_tiny_examples
"""Many tiny examples: each sets up one situation and looks at one thing. Helpers to say it in a line, and no model."""

from labkit import check, raises


def make(lab, text, name="a", salt=None):
    return lab.Request(name, [ord(letter) for letter in text], lab.SamplingParams(max_tokens=64), cache_salt=salt)


def come(kv, request, count=None):
    """Looked up, given slots, computed; whether there was room."""
    hits, num_hit = kv.get_computed_blocks(request)
    count = request.num_tokens - num_hit if count is None else count
    if kv.allocate_slots(request, count, hits) is None:
        return False
    request.num_computed_tokens = num_hit + count
    return True


def more(kv, request, count):
    """Slots for the next tokens, which are computed."""
    new = kv.allocate_slots(request, count)
    if new is not None:
        request.num_computed_tokens += count
    return new


def finish(lab, kv, request):
    request.status = lab.RequestStatus.FINISHED_LENGTH
    kv.free(request)


def come_and_go(lab, kv, text, name="gone", salt=None):
    request = make(lab, text, name, salt)
    assert come(kv, request)
    finish(lab, kv, request)


def found(lab, kv, text, salt=None):
    return kv.get_computed_blocks(make(lab, text + "!", "probe", salt))[1]


def counts(kv):
    return [block.ref_cnt for block in kv.block_pool.blocks[1:]]


def nothing_is_held(kv):
    assert counts(kv) == [0] * kv.num_usable_blocks
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert sorted(kv.free_block_ids()) == list(range(1, kv.num_usable_blocks + 1))


def test_a_block_that_is_not_full_comes_back_once(lab):
    kv = lab.KVCacheManager(5, 4)
    come_and_go(lab, kv, "abcdef")
    nothing_is_held(kv)


def test_a_hit_that_was_free_is_not_free_any_more(lab):
    kv = lab.KVCacheManager(6, 4)
    come_and_go(lab, kv, "abcd")
    come(kv, make(lab, "abcdef"))
    assert kv.num_free_blocks == len(kv.free_block_ids()) == 3


def test_two_share_and_both_go(lab):
    kv, a, b = lab.KVCacheManager(9, 4), make(lab, "abcdefghi"), make(lab, "abcdefghj", "b")
    come(kv, a)
    come(kv, b)
    assert kv.get_block_ids("a")[:2] == kv.get_block_ids("b")[:2]
    assert sorted(counts(kv)) == [0, 0, 0, 0, 1, 1, 2, 2]
    finish(lab, kv, a)
    assert sorted(counts(kv)) == [0, 0, 0, 0, 0, 1, 1, 1]
    finish(lab, kv, b)
    nothing_is_held(kv)


def test_how_many_blocks(lab):
    for size in (1, 3, 4, 10, 16):
        for length in range(1, 50):
            kv, a = lab.KVCacheManager(51, size), make(lab, "x" * length)
            come(kv, a)
            blocks = len(kv.get_block_ids("a"))
            assert blocks * size >= length > (blocks - 1) * size, f"{length} tokens in {blocks} blocks of {size}"


def test_the_next_chunk_fills_the_last_block(lab):
    kv, a = lab.KVCacheManager(9, 4), make(lab, "abcdefghijk")
    come(kv, a, 3)
    first = kv.get_block_ids("a")
    assert [len(more(kv, a, count)) for count in (5, 1, 2)] == [1, 1, 0]
    assert kv.get_block_ids("a")[:1] == first
    assert len(set(kv.get_block_ids("a"))) == 3


def test_room_in_the_last_block_costs_nothing(lab):
    kv, a = lab.KVCacheManager(3, 4), make(lab, "abcdefgh")
    come(kv, a, 5)
    assert kv.num_free_blocks == 0
    assert more(kv, a, 1) == []


def test_the_last_free_block_is_given(lab):
    kv = lab.KVCacheManager(4, 4)
    assert not come(kv, make(lab, "x" * 13))
    assert come(kv, make(lab, "x" * 12))


def test_a_held_hit_is_paid_by_its_holder(lab):
    """Of two hits the first is held and the second is free; with them, all the room there is."""
    kv = lab.KVCacheManager(5, 4)
    come(kv, make(lab, "abcd", "holder"))
    come_and_go(lab, kv, "abcdefgh")
    b = make(lab, "abcdefghijklmnop", "b")
    assert come(kv, b)
    assert len(set(kv.get_block_ids("b"))) == 4
    assert kv.num_free_blocks == 0


def test_free_hits_have_their_price(lab):
    kv = lab.KVCacheManager(5, 4)
    come_and_go(lab, kv, "abcdefgh")
    come(kv, make(lab, "z", "z"))
    assert not come(kv, make(lab, "abcdefghijklm"))
    assert come(kv, make(lab, "abcdefghijkl"))


def test_a_refusal_leaves_the_blocks_as_they_are(lab):
    kv = lab.KVCacheManager(5, 4)
    come_and_go(lab, kv, "abcdefgh")
    come_and_go(lab, kv, "ijklm")
    see = check(lab.draw.blocks, kv)
    free = kv.free_block_ids()
    see("whether 17 tokens fit into 4 blocks of 4", come(kv, make(lab, "abcdefghijklmnopq")), equals=False)
    see("free blocks, front first", kv.free_block_ids(), equals=free)
    see("counts", counts(kv), equals=[0, 0, 0, 0])
    see("tokens found", [found(lab, kv, text) for text in ("abcdefgh", "ijkl")], equals=[8, 4])


def test_the_pool_gives_all_or_nothing(lab):
    pool = lab.BlockPool(4)
    with raises(ValueError, "4 of 3 blocks"):
        pool.get_new_blocks(4)
    assert len(pool.get_new_blocks(3)) == 3


def test_a_beginning_that_differs(lab):
    for text in ("xbcdefgh", "abcdxfgh", "axcdefgh", "abcdefgx", "efghabcd"):
        kv = lab.KVCacheManager(20, 2)
        come_and_go(lab, kv, "abcdefgh")
        same = next((i for i in range(8) if text[i] != "abcdefgh"[i]), 8) // 2 * 2
        assert found(lab, kv, text) == same, text


def test_blocks_of_two_others_do_not_make_a_beginning(lab):
    kv = lab.KVCacheManager(20, 2)
    come_and_go(lab, kv, "abcdef")
    come_and_go(lab, kv, "abxygh")
    for text, expected in (("abcdgh", 4), ("abxyef", 4), ("abefcd", 2), ("xyabgh", 0)):
        assert found(lab, kv, text) == expected, text


def test_one_token_is_left(lab):
    for length in range(1, 10):
        kv, text = lab.KVCacheManager(20, 2), "abcdefghi"[:length]
        come_and_go(lab, kv, text)
        blocks, num_tokens = kv.get_computed_blocks(make(lab, text, "again"))
        assert len(blocks) * 2 == num_tokens
        assert length - 2 <= num_tokens < length


def test_a_salt_is_its_own_world(lab):
    for salt in (None, "", "s", "t"):
        kv = lab.KVCacheManager(20, 2)
        come_and_go(lab, kv, "abcd", salt=salt)
        assert [found(lab, kv, "abcd", other) for other in (None, "", "s", "t") if other != salt] == [0, 0, 0]
        assert found(lab, kv, "abcd", salt) == 4


def test_what_is_promised_to_a_preempted_request_is_not_found(lab):
    for computed in range(1, 8):
        kv, a = lab.KVCacheManager(20, 4), make(lab, "abcdefgh")
        come(kv, a, computed)
        kv.allocate_slots(a, 8 - computed)
        kv.free(a)
        assert found(lab, kv, "abcdefgh") == computed // 4 * 4, f"{computed} computed"
        nothing_is_held(kv)


def test_one_of_two_copies_is_enough(lab):
    kv = lab.KVCacheManager(4, 4)
    come_and_go(lab, kv, "abcd", "first")
    come_and_go(lab, kv, "abcd", "second")
    for taken, expected in ((2, 4), (1, 0)):
        kv.block_pool.get_new_blocks(taken)
        assert found(lab, kv, "abcd") == expected


def test_a_block_that_two_chunks_fill_is_found(lab):
    kv, a = lab.KVCacheManager(9, 4), make(lab, "abcdefgh")
    come(kv, a, 3)
    more(kv, a, 3)
    assert found(lab, kv, "abcdefgh") == 4
    more(kv, a, 2)
    assert found(lab, kv, "abcdefgh") == 8


def test_the_beginning_of_a_prompt_stays_longest(lab):
    for text in ("abcdefgh", "abcdefghi"):
        kv = lab.KVCacheManager(6, 4)
        come_and_go(lab, kv, text)
        got = []
        for _ in range(5):
            kv.block_pool.get_new_blocks(1)
            got.append(found(lab, kv, "abcdefgh"))
        assert got == [8, 8, 8, 4, 0], text


# === one_long_walk
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


# === stories_in_a_table
"""Stories as text, one a line, played by a small interpreter; after each word all that can be counted is counted."""

from collections import Counter

from labkit import check, raises

# name=text   it comes, and all of it is computed; name=text/3 only 3 tokens; name=text? it must be refused
# name+3      slots for 3 more tokens, which are computed; name+3~ the step does not run
# name:text   these tokens were generated
# -name       it is finished;  <name it is preempted;  @3 three blocks are taken out of the pool
# text>8      so many of these tokens are found;  #3 so many blocks are free
STORIES = {
    "one request": (4, 8, "a=abcdef #5 -a #7 abcdef>4"),
    "two that share": (4, 8, "a=abcdefghi #4 b=abcdefghj #3 c=abcdxy #2 -a #3 -b #5 -c #7 abcdefgh>8"),
    "a free hit": (4, 8, "a=abcdefgh #5 -a #7 b=abcdefgh! #4 -b #7"),
    "tokens in chunks": (3, 12, "a=abcdefghijk/2 #10 a+2 #9 a+2 #9 a+4 #7 a+1 #7 -a abcdefghijkl>9"),
    "sixteen to a block": (
        16,
        9,
        "a=abcdefghijklmnopq #6 b=abcdefghijklmnop #5 c=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg #2",
    ),
    "a full block and one more": (16, 9, "a=abcdefghijklmnopqrst/16 #7 a+1 #6 a+3 #6 -a #8"),
    "a chunk that goes on in the next block": (4, 9, "a=abcdefgh/3 #7 a+5 #6 -a abcdefgh>8 #8"),
    "all that there is": (4, 4, "a=abcdefghijkl #0 -a a=abcdefghijklm? #3 b=abcdefghijkl #0"),
    "no block is free, and none is needed": (4, 4, "a=abcdefghijkl/9 #0 a+2 #0 a+1 #0 -a #3"),
    "hits that nobody holds": (4, 6, "a=abcdefgh -a b=z #4 c=abcdefghijklmnopq? #4 c=abcdefghijklmnop #0"),
    "hits of which one is held": (4, 6, "a=abcd b=abcdefgh -b #4 c=abcdefghijklmnopqrstu? c=abcdefghijklmnopqrst #0"),
    "hits that others hold": (4, 6, "a=abcdefgh #3 c=abcdefghijklmnopqrstu? #3 c=abcdefghijklmnopqrst #0"),
    "a refusal": (4, 6, "a=abcdefgh -a b=ijkl -b z=z x=abcdefghijklmnopqrstu? #4 ijkl>4 abcdefgh>8"),
    "a refusal of new tokens": (4, 4, "a=abcd -a b=xyzw c=ijklmnopq/4 #1 c+5? #1 abcd>4 -b #2 c+5 #0 abcd>0"),
    "one token is left": (2, 9, "a=abcdefg -a a>0 ab>2 abc>2 abcd>4 abcdefg>6 b=abcdef #5 c=ab #4"),
    "other beginnings": (2, 20, "a=abcdefgh -a xbcdefgh>0 abxdefgh>2 abcdxfgh>4 abcdefxh>6 efgh>0 abefgh>2 abababab>2"),
    "what was generated": (2, 20, "a=a a:bcdef a+5 b=a b:bcxef b+5 -a -b abcdef>6 abcxef>6 abxdef>2 abxx>2"),
    "preempted between two steps": (4, 9, "a=abcdefgh <a #8 abcdefgh>8 a=abcdefgh -a #8"),
    "preempted in a step": (4, 9, "a=abcdefghijkl/5 a+7~ <a #8 abcdefghijkl>4"),
    "preempted in a later step": (4, 9, "a=abcdefghijkl/8 a+4~ <a #8 abcdefghijkl>8"),
    "preempted in its first block": (4, 9, "a=abcdefghijkl/3 a+9~ <a #8 abcdefghijkl>0"),
    "two copies": (4, 5, "a=abcd b=abcd -a -b #4 @2 abcd>4 @1 abcd>4 @1 abcd>0"),
    "two copies, one is held": (4, 6, "a=abcd b=abcd #3 -a c=x d=y e=z #1 @1 abcd>4 -b abcd>4"),
    "who goes first, of one table": (
        4,
        7,
        "a=abcdefghijkl -a @3 abcdefghijkl>12 @1 abcdefghijkl>8 @1 abcdefghijkl>4 @1 a>0",
    ),
    "who goes first, of two": (4, 6, "a=abcde -a b=ijklm -b @3 abcd>4 @1 abcd>0 ijkl>4 @1 ijkl>0"),
}


class Player:
    def __init__(self, lab, size, num_blocks):
        self.lab, self.size = lab, size
        self.kv = lab.KVCacheManager(num_blocks, size)
        self.requests = {}
        self.taken = 0

    def make(self, name, text, salt=None):
        return self.lab.Request(
            name, [ord(each) for each in text], self.lab.SamplingParams(max_tokens=64), cache_salt=salt
        )

    def play(self, word):
        """One word; what it expects, and what was there."""
        kv, refused, runs = self.kv, word.endswith("?"), not word.endswith("~")
        word = word.rstrip("?~")
        if word[0] == "#":
            return kv.num_free_blocks, int(word[1:])
        if word[0] == "@":
            self.taken += len(kv.block_pool.get_new_blocks(int(word[1:])))
        elif ">" in word:
            text, _, number = word.partition(">")
            hits, num_tokens = kv.get_computed_blocks(self.make("probe", text + "!"))
            return [num_tokens, len(hits)], [int(number), int(number) // self.size]
        elif word[0] in "-<":
            request = self.requests.pop(word[1:])
            if word[0] == "-":
                request.status = self.lab.RequestStatus.FINISHED_LENGTH
            kv.free(request)
            return kv.get_block_ids(request.request_id), []
        elif ":" in word:
            name, _, text = word.partition(":")
            for letter in text:
                self.requests[name].append_output_token(ord(letter))
        elif "+" in word:
            name, _, number = word.partition("+")
            return self.slots(self.requests[name], [], int(number), runs), not refused
        else:
            name, _, text = word.partition("=")
            text, _, number = text.partition("/")
            request = self.make(name, text)
            hits, num_hit = kv.get_computed_blocks(request)
            return self.slots(request, hits, int(number or len(text)) - num_hit, runs), not refused
        return 0, 0

    def slots(self, request, hits, count, runs):
        kv, name = self.kv, request.request_id
        old, free, contents = kv.get_block_ids(name), kv.free_block_ids(), kv.num_cached_blocks
        new = kv.allocate_slots(request, count, hits)
        if new is None:
            assert (kv.get_block_ids(name), kv.free_block_ids(), kv.num_cached_blocks) == (old, free, contents)
            return False
        assert kv.get_block_ids(name) == [*old, *(block.block_id for block in [*hits, *new])]
        self.requests[name] = request
        request.num_computed_tokens += len(hits) * self.size + (count if runs else 0)
        return True

    def count(self):
        """Every block is free or held by those who say so."""
        held = Counter(block_id for name in self.requests for block_id in self.kv.get_block_ids(name))
        free = self.kv.free_block_ids()
        assert self.kv.num_free_blocks == len(free) == len(set(free))
        assert len(free) + len(held) + self.taken == self.kv.num_usable_blocks
        assert not set(free) & set(held)
        for block in self.kv.block_pool.blocks:
            if block.block_id in held or block.block_id in free:
                assert block.ref_cnt == held[block.block_id]


def test_the_stories(lab):
    for title, (size, num_blocks, story) in STORIES.items():
        player = Player(lab, size, num_blocks)
        see = check(lab.draw.blocks, player.kv, *"abc")
        for word in story.split():
            got, expected = player.play(word)
            see(f"{title}: {word}", got, equals=expected)
            player.count()


def test_the_salts(lab):
    see = check()
    for salt, other, expected in [
        (None, None, 8),
        ("", "", 8),
        ("s", "s", 8),
        (None, "", 0),
        ("", None, 0),
        ("", "s", 0),
        ("s", None, 0),
        ("s", "t", 0),
    ]:
        player = Player(lab, 4, 9)
        a = player.make("a", "abcdefgh", salt)
        assert player.slots(a, [], 8, True)
        _, num_tokens = player.kv.get_computed_blocks(player.make("b", "abcdefghi", other))
        see(f"tokens found with the salt {other!r}, cached with {salt!r}", num_tokens, equals=expected)


def test_the_pool(lab):
    pool = lab.BlockPool(4)
    pool.get_new_blocks(1)
    with raises(ValueError, "3 blocks, 2 are free"):
        pool.get_new_blocks(3)
    check()("free blocks", pool.num_free_blocks, equals=2)
