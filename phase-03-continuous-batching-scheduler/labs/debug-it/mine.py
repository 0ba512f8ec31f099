"""Lab 03.14: Debug it: late, and wrong (60 minutes). You find the culprit, and write the tests.

`lab evidence 03.14` shows the cases; what must hold is in contract.md. Name the culprit of each. Then write tests that
catch it and its like: each is a function test_...(lab), green on every correct engine. The first test is an example,
and yours to change.
"""

from labkit import check, todo


def make(lab, *, blocks=7, block_size=2, budget=5, seqs=3):
    """A scheduler with so many usable blocks, and no prefix cache."""
    manager = lab.KVCacheManager(blocks + 1, block_size, enable_prefix_caching=False)
    return lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget)


def make_request(lab, name, length, max_tokens=4):
    prompt = [1000 * ord(name[0]) + position for position in range(length)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True))


def test_two_that_fit(lab):
    """No request is preempted: both say what they were asked for."""
    scheduler = make(lab)
    requests = [make_request(lab, "a", 3), make_request(lab, "b", 3)]
    for request in requests:
        scheduler.add_request(request)
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(8):
        lab.drive(scheduler)  # schedule(), then 100 for everybody who has caught up, then update_from_output()
    see("the outputs of a and b", [request.output_token_ids for request in requests], equals=[[100] * 4] * 2)


CASE_A = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words
CASE_B = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words


def test_what_catches_it(lab):
    """Yours: rename it, and write more of them."""
    todo("03.14")
