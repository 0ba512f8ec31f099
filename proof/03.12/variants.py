# === a_walk
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


# === alone_on_the_same_scheduler
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


# === each_token_at_once
"""Every token is compared in the step that samples it, with what the request was told so far; plain asserts."""

from labkit import check

RUNS = {
    # usable blocks, block size, budget, threshold, caching; then prompt, max_tokens and number of choices
    "plenty": ((64, 4, 64, 0, True), [(9, 5, 1), (2, 5, 1), (6, 6, 3)]),
    "chunks": ((64, 4, 5, 0, True), [(9, 5, 1), (12, 5, 1), (1, 4, 1)]),
    "victims": ((5, 2, 64, 0, True), [(3, 6, 1)] * 3),
    "victims of three": ((4, 3, 64, 0, False), [(3, 6, 1)] * 3),
    "pieces": ((6, 2, 4, 0, False), [(3, 6, 1)] * 3),
    "small pieces": ((9, 1, 3, 0, False), [(3, 6, 1)] * 3),
    "choices": ((9, 3, 64, 0, True), [(4, 9, 1), (5, 6, 2), (5, 6, 2)]),
    "a chunk is taken back": ((19, 1, 6, 4, True), [(1, 4, 1), (16, 2, 1)]),
}


def run(lab, sizes, described):
    blocks, block_size, budget, threshold, caching = sizes
    scheduler = lab.make_scheduler(
        num_blocks=blocks + 1,
        block_size=block_size,
        max_num_seqs=8,
        max_num_batched_tokens=budget,
        long_prefill_token_threshold=threshold,
        enable_prefix_caching=caching,
    )
    model, known, goal = lab.HonestModel(scheduler), {}, {}
    for number, (length, max_tokens, choices) in enumerate(described):
        prompt = [100 * number + place for place in range(length)]
        params = lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        group = [lab.Request(f"r{number}.{choice}", prompt, params) for choice in range(choices)]
        for request in group:
            known[request.request_id], goal[request.request_id] = list(prompt), length + max_tokens
        if choices > 1:
            scheduler.add_group(group)
        else:
            scheduler.add_request(group[0])
    for _ in range(200):
        output = scheduler.schedule()
        sampled = model.execute(output)
        for name, (token,) in sampled.items():
            assert token == lab.next_token(name, known[name]), f"a token of {name}"
            known[name].append(token)
            assert len(known[name]) <= goal[name], f"{name} says too much"
        scheduler.update_from_output(output, sampled)
        if not scheduler.has_unfinished_requests():
            break
    assert {name: len(tokens) for name, tokens in known.items()} == goal


def test_plenty(lab):
    run(lab, *RUNS["plenty"])
    run(lab, *RUNS["chunks"])


def test_victims(lab):
    for name in ("victims", "victims of three", "pieces", "small pieces"):
        run(lab, *RUNS[name])


def test_choices(lab):
    run(lab, *RUNS["choices"])


def test_promises(lab):
    run(lab, *RUNS["a chunk is taken back"])
