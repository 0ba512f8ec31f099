"""Random crowds in random small engines, requests that come and go; one workload for a chunk that is taken back."""

from random import Random

from labkit import check


def truth(lab, name, prompt, max_tokens):
    tokens = []
    while len(tokens) < max_tokens:
        tokens.append(lab.next_token(name, prompt + tokens))
    return tokens


def walk(lab, random, sizes, crowd, leaves=0.0):
    """crowd: (id, prompt, max_tokens, number of choices), one new one in every step."""
    scheduler = lab.make_scheduler(**sizes)
    model, expected, crowd = lab.HonestModel(scheduler), [], list(crowd)
    for _ in range(250):
        if crowd:
            name, prompt, max_tokens, choices = crowd.pop(0)
            names = [f"{name}.{choice}" for choice in range(choices)]
            params = lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
            group = [lab.Request(each, prompt, params) for each in names]
            expected += [(each, truth(lab, each.request_id, prompt, max_tokens)) for each in group]
            scheduler.add_group(group) if choices > 1 else scheduler.add_request(group[0])
        output = scheduler.schedule()
        sampled = model.execute(output)
        if random.random() < leaves:
            scheduler.abort_request(random.choice(expected)[0].request_id)
        scheduler.update_from_output(output, sampled)
        if not crowd and not scheduler.has_unfinished_requests():
            break
    for request, tokens in expected:
        got = list(request.output_token_ids)
        assert got == (tokens[: len(got)] if request.finish_reason == "abort" else tokens), request.request_id


def engine(random, slots, budgets):
    block_size = random.choice((2, 3))
    return {
        "num_blocks": 1 + slots // block_size,
        "block_size": block_size,
        "max_num_seqs": 6,
        "max_num_batched_tokens": random.choice(budgets),
        "enable_prefix_caching": random.random() < 0.5,
    }


def test_crowds(lab):
    random = Random(3)
    for _ in range(6):
        crowd = [(f"r{n}", [7 * n + i for i in range(random.randint(2, 5))], random.randint(4, 8), 1) for n in range(4)]
        walk(lab, random, engine(random, 15, (3, 4, 20)), crowd, leaves=0.05)


def test_families(lab):
    random = Random(4)
    for _ in range(4):
        crowd = [(f"r{n}", list(range(random.randint(2, 5))), 5, 1 + n % 2) for n in range(4)]
        walk(lab, random, engine(random, 24, (8, 20)), crowd)


def test_pieces(lab):
    random = Random(5)
    for size in (1, 2):
        sizes = {"num_blocks": 10 // size, "block_size": size, "max_num_seqs": 4, "max_num_batched_tokens": 3}
        sizes["enable_prefix_caching"] = False
        walk(lab, random, sizes, [(name, [ord(name), 2, 3], 5, 1) for name in "abc"])


def test_a_promise(lab):
    sizes = {"num_blocks": 21, "block_size": 1, "max_num_seqs": 4, "max_num_batched_tokens": 6}
    crowd = [("a", [1], 5, 1), ("b", list(range(16)), 2, 1)]
    walk(lab, Random(6), {**sizes, "long_prefill_token_threshold": 4}, crowd)
