"""The truth is what the scheduler on trial gives a request in an empty engine: there its bug has no occasion."""

from labkit import check

SIZES = {"num_blocks": 65, "block_size": 4, "max_num_seqs": 8, "max_num_batched_tokens": 64}


def request(lab, name, prompt, max_tokens):
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True))


def outputs(lab, groups, **sizes):
    """groups: lists of (id, prompt, max_tokens), one list for each prompt. Everybody's output, by id."""
    scheduler = lab.make_scheduler(**{**SIZES, **sizes})
    model, everybody = lab.HonestModel(scheduler), []
    for group in groups:
        requests = [request(lab, *described) for described in group]
        everybody += requests
        scheduler.add_group(requests) if len(group) > 1 else scheduler.add_request(requests[0])
    for _ in range(200):
        if scheduler.has_unfinished_requests():
            output = scheduler.schedule()
            scheduler.update_from_output(output, model.execute(output))
    return {each.request_id: list(each.output_token_ids) for each in everybody}


def compare(lab, groups, **sizes):
    truth = {}
    for group in groups:
        for described in group:
            truth |= outputs(lab, [[described]])
    check()("all outputs", outputs(lab, groups, **sizes), equals=truth)


def three(length, max_tokens):
    return [[(name, [ord(name) + place for place in range(0, 50 * length, 50)], max_tokens)] for name in "abc"]


def test_victims(lab):
    compare(lab, three(3, 6), num_blocks=6, block_size=2)
    compare(lab, three(4, 7), num_blocks=5, block_size=3, enable_prefix_caching=False)


def test_victims_in_pieces(lab):
    compare(lab, three(3, 6), num_blocks=7, block_size=2, max_num_batched_tokens=4, enable_prefix_caching=False)
    compare(lab, three(3, 6), num_blocks=10, block_size=1, max_num_batched_tokens=3, enable_prefix_caching=False)


def test_choices(lab):
    family = [(f"a{number}", [5, 6, 7, 8, 9], 6) for number in range(4)]
    compare(lab, [family, *three(2, 3)])
    compare(lab, [family[:2], *three(7, 6)], num_blocks=12, block_size=2)


def test_promises(lab):
    one, other = [("a", [7], 4)], [("b", list(range(16)), 2)]
    compare(lab, [one, other], num_blocks=20, block_size=1, max_num_batched_tokens=6, long_prefill_token_threshold=4)
