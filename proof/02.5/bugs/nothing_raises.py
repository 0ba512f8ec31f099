STORY = (
    "The first suite of many a project: the engine is run, and if it does not fall over it is right. It finds "
    "what falls over."
)
CONCEPT = "A hit that is too short only costs time, so it goes unnoticed unless a test asks for it."

from labkit import check, raises


def test_it_works(lab):
    """A request comes, is computed and goes."""
    kv = lab.KVCacheManager(8, 4)
    a = lab.Request("a", list(range(10)), lab.SamplingParams())
    kv.allocate_slots(a, 10)
    a.num_computed_tokens = 10
    kv.free(a)


def test_it_works_twice(lab):
    kv = lab.KVCacheManager(8, 4)
    for name in "ab":
        request = lab.Request(name, list(range(10)), lab.SamplingParams())
        hits, num_hit = kv.get_computed_blocks(request)
        kv.allocate_slots(request, 10 - num_hit, hits)
        request.num_computed_tokens = 10
        kv.free(request)
