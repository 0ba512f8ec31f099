"""Lab 03.7: Break it: tests for a scheduler (90 minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

from random import Random

from labkit import check, raises, todo


def make(lab, *, blocks=64, block_size=4, budget=64, seqs=8, caching=True, **options):
    """A scheduler with so many usable blocks; options: policy, watermark, ..."""
    manager = lab.KVCacheManager(blocks + 1, block_size, enable_prefix_caching=caching)
    return lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget, **options)


def make_request(lab, name, prompt, max_tokens=4, **options):
    """prompt: its tokens, or how many; then nobody else has them."""
    if isinstance(prompt, int):
        prompt = [1000 * ord(name[0]) + position for position in range(prompt)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True), **options)


def test_two_prompts_in_chunks(lab):
    """Prompts of 7 and 5 tokens and a budget of 3: no step is larger, and all tokens come."""
    scheduler = make(lab, budget=3)
    requests = [make_request(lab, "a", 7, max_tokens=2), make_request(lab, "b", 5, max_tokens=2)]
    for request in requests:
        scheduler.add_request(request)
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(16):
        step = lab.drive(scheduler)  # schedule(), then 100 for everybody who has caught up, then update_from_output()
        see.true("a step computes at most 3 tokens", sum(step.scheduled.values()) <= 3)
    see("the outputs of a and b", [request.output_token_ids for request in requests], equals=[[100, 100], [100, 100]])


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("03.7")
