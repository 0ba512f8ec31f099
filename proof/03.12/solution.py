"""What the experiment may look like: workloads that force what is rare, each output beside the one without company."""

from labkit import check


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


# --- a run: a scheduler on trial, and for each request what it would get alone ------------------------------------


def alone(lab, request):
    tokens = list(request.prompt_token_ids)
    for _ in range(request.sampling_params.max_tokens):
        tokens.append(lab.next_token(request.request_id, tokens))
    return tokens[request.num_prompt_tokens :]


class Run:
    """expected: the truth for each request, worked out before anybody can touch it."""

    def __init__(self, lab, **sizes):
        self.lab, self.scheduler = lab, make(lab, **sizes)
        self.model = lab.HonestModel(self.scheduler)
        self.see = check(lab.draw.scheduler, self.scheduler)
        self.expected = {}

    def add(self, name, prompt, max_tokens=4, choices=1):
        names = [f"{name}{number}" for number in range(choices)] if choices > 1 else [name]
        requests = [make_request(self.lab, each, prompt, max_tokens) for each in names]
        self.expected |= {request: alone(self.lab, request) for request in requests}
        if choices > 1:
            self.scheduler.add_group(requests)
        else:
            self.scheduler.add_request(requests[0])
        return requests[0]

    def step(self, meanwhile=None):
        output = self.scheduler.schedule()
        sampled = self.model.execute(output)
        if meanwhile:
            meanwhile()
        self.scheduler.update_from_output(output, sampled)

    def to_the_end(self):
        for _ in range(300):
            if self.scheduler.has_unfinished_requests():
                self.step()
        for request, expected in self.expected.items():
            if request.finish_reason == "abort":
                expected = expected[: len(request.output_token_ids)]
            self.see(f"the output of {request.request_id}", request.output_token_ids, equals=expected)


# --- the workloads --------------------------------------------------------------------------------------------------


def test_enough_of_everything(lab):
    run = Run(lab)
    for name, length in zip("abcd", (11, 1, 8, 5)):
        run.add(name, length)
        run.step()
    run.to_the_end()


def test_chunks_of_a_shared_prefix(lab):
    for block_size, budget in ((1, 3), (4, 3), (4, 7)):
        run = Run(lab, block_size=block_size, budget=budget)
        for name in "abc":
            run.add(name, [*range(9), ord(name)])
            run.step()
        run.add("d", range(9))
        run.to_the_end()


def test_the_pool_is_small(lab):
    """Three requests that grow together, until somebody gives way and comes back, as a whole or in pieces."""
    for blocks, size, budget, caching in ((5, 2, 64, True), (4, 3, 64, False), (6, 2, 4, False), (9, 1, 3, False)):
        run = Run(lab, blocks=blocks, block_size=size, budget=budget, caching=caching)
        for name in "abc":
            run.add(name, 3, max_tokens=6)
        run.to_the_end()


def test_choices_of_one_prompt(lab):
    for length in (8, 6):
        run = Run(lab)
        run.add("a", length, max_tokens=6, choices=3)
        run.add("b", 3)
        run.to_the_end()


def test_choices_in_a_small_pool(lab):
    run = Run(lab, blocks=10, block_size=3)
    run.add("a", 4, max_tokens=12)
    for name in "bc":
        run.add(name, 5, max_tokens=6, choices=2)
    run.to_the_end()


def test_a_chunk_that_is_taken_back(lab):
    """In the step of b's last chunk no block is left for a; where decodes come last, it is b that gives way."""
    run = Run(lab, blocks=19, block_size=1, budget=6, threshold=4)
    run.add("a", 1, max_tokens=4)
    run.add("b", 16, max_tokens=2)
    run.to_the_end()


def test_who_leaves_while_the_model_runs(lab):
    run = Run(lab, blocks=8, block_size=2, budget=5)
    for name in "abc":
        run.add(name, [*range(5), ord(name)], max_tokens=3)
    run.add("d", [*range(5), 99], max_tokens=3, choices=2)
    run.step()
    run.step(lambda: run.scheduler.abort_request("a"))
    run.add("a", [*range(5), ord("a"), 3])
    run.step(lambda: run.scheduler.abort_request("d0"))
    run.to_the_end()
