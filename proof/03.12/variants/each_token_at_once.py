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
