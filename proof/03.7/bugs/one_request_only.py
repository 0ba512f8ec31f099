"""A bad suite: nobody has company."""

from labkit import check, raises

STORY = "Each test has one request. Nobody waits, nobody gives way, and no limit is ever reached by two together."
CONCEPT = "An order shows only in a crowd: let those behind fit where the one in front does not."


def test_one_request(lab):
    for length, size, budget in ((5, 4, 3), (9, 3, 64), (1, 1, 1), (7, 2, 2)):
        manager = lab.KVCacheManager(9, size)
        scheduler = lab.Scheduler(manager, max_num_seqs=2, max_num_batched_tokens=budget)
        request = lab.Request("a", list(range(length)), lab.SamplingParams(max_tokens=3, ignore_eos=True))
        scheduler.add_request(request)
        steps = 0
        while scheduler.has_unfinished_requests() and steps < 20:
            step = lab.drive(scheduler)
            assert 1 <= step.scheduled["a"] <= budget
            steps += 1
        assert len(request.output_token_ids) == min(3, 8 * size + 1 - length)
        assert manager.num_free_blocks == 8
