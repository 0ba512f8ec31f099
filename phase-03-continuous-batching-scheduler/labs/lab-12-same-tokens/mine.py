"""Lab 03.12: Same tokens, different schedule (60 minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

from labkit import check, todo


def make(lab, *, blocks=64, block_size=4, budget=64, seqs=8, threshold=0, caching=True):
    """The scheduler on trial, with so many usable blocks."""
    return lab.make_scheduler(
        num_blocks=blocks + 1,
        block_size=block_size,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        long_prefill_token_threshold=threshold,
        enable_prefix_caching=caching,
    )


def make_request(lab, name, prompt, max_tokens=4):
    """prompt: its tokens, or how many; then nobody has them whose name begins otherwise."""
    if isinstance(prompt, int):
        prompt = [1000 * ord(name[0]) + position for position in range(prompt)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True))


def test_one_token(lab):
    """A request is alone, and all of it fits: it gets what the model says after its prompt."""
    scheduler = make(lab)
    model = lab.HonestModel(scheduler)
    request = make_request(lab, "a", 7, max_tokens=1)
    scheduler.add_request(request)
    output = scheduler.schedule()  # one turn of the engine: decide,
    sampled = model.execute(output)  # copy and compute,
    scheduler.update_from_output(output, sampled)  # and tell what came of it
    expected = lab.next_token("a", request.prompt_token_ids)
    check(lab.draw.scheduler, scheduler)("the output of a", request.output_token_ids, equals=[expected])


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("03.12")
