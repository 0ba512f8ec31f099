STORY = (
    "One request comes and goes, then the next one. Each is looked at closely, but no two ever hold anything "
    "together, so nothing is ever shared."
)
CONCEPT = "Count all blocks after every step: one that is lost, or is in two places, shows up at once."

from labkit import check, raises


def make(lab, text, name):
    return lab.Request(name, [ord(letter) for letter in text], lab.SamplingParams(max_tokens=64))


def test_one_after_the_other(lab):
    kv = lab.KVCacheManager(8, 4)
    for name, text in (("a", "abcdefghij"), ("b", "abcdefghxyz"), ("c", "abcdefghij"), ("d", "abcd")):
        request = make(lab, text, name)
        hits, num_hit = kv.get_computed_blocks(request)
        new = kv.allocate_slots(request, len(text) - num_hit, hits)
        assert len(new) + len(hits) == len(kv.get_block_ids(name)) == -(-len(text) // 4)
        request.num_computed_tokens = len(text)
        assert kv.num_free_blocks == 7 - len(kv.get_block_ids(name))
        request.status = lab.RequestStatus.FINISHED_LENGTH
        kv.free(request)
        assert kv.num_free_blocks == len(kv.free_block_ids()) == 7
