"""A bad suite: it runs everything and looks at nothing."""

from labkit import check, raises

STORY = "The suite drives a scheduler through all kinds of trouble, and is content if no error comes out of it."
CONCEPT = "Count places and blocks before and after the model runs: a request that leaves frees all of its own."


def test_it_works(lab):
    for policy in ("fcfs", "priority"):
        for blocks in (3, 5, 9):
            manager = lab.KVCacheManager(blocks + 1, 2)
            scheduler = lab.Scheduler(manager, max_num_seqs=2, max_num_batched_tokens=4, policy=policy)
            for number in range(4):
                prompt = list(range(number + 2))
                params = lab.SamplingParams(max_tokens=3, ignore_eos=True)
                scheduler.add_request(lab.Request(f"r{number}", prompt, params, priority=number % 2))
                lab.drive(scheduler)
            scheduler.abort_request("r1")
            for _ in range(20):
                lab.drive(scheduler)
    assert True
