STORY = (
    "The number of blocks is counted by a recursion: one, and those for the tokens that are left. Where it "
    "ends was forgotten, so the test never comes back from any engine."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."

from labkit import check, raises


def blocks(n, size):
    """How many blocks n tokens begin."""
    return 1 + blocks(n - size, size)


def test_room(lab):
    kv, a = lab.KVCacheManager(8, 4), lab.Request("a", list(range(10)), lab.SamplingParams())
    kv.allocate_slots(a, 10)
    assert len(kv.get_block_ids("a")) == blocks(10, 4)
