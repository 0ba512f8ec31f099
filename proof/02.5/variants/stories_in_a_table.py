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
