"""A narrow pool, newcomers in every step, and a model that says something else at every place."""

from labkit import check


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


CASE_A = {
    "culprit": "mini_vllm.scheduler:Scheduler._preempt",
    "step": 3,
    "why": "r gives way and stands behind s, which came later; so it goes with each victim, and the early ones wait.",
}
CASE_B = {
    "culprit": "mini_vllm.scheduler:Scheduler.needs_sample",
    "step": 8,
    "why": "q comes back in two pieces, and speaks after the first since that one is longer than its prompt.",
}


def next_token(tokens):
    return 1 + sum(place * token for place, token in enumerate(tokens, start=1)) % 9973


class Run:
    """added: all requests in the order in which they came. said: what each was told."""

    def __init__(self, lab, **sizes):
        self.lab, self.scheduler = lab, make(lab, **sizes)
        self.see = check(lab.draw.scheduler, self.scheduler)
        self.added, self.said = [], {}

    def add(self, name, length, max_tokens):
        request = make_request(self.lab, name, length, max_tokens)
        self.scheduler.add_request(request)
        self.added.append(request)
        self.said[request] = []

    def step(self):
        output = self.scheduler.schedule()
        self.look_at_the_line()
        sampled = {}
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            if self.scheduler.needs_sample(request, n):
                token = next_token(request.all_token_ids[: request.num_computed_tokens + n])
                sampled[request.request_id] = [token]
                self.said[request].append(token)
        self.scheduler.update_from_output(output, sampled)
        for request in self.added:
            self.see(f"what {request.request_id} has said", request.output_token_ids, equals=self.said[request])

    def look_at_the_line(self):
        ranks = {request: place for place, request in enumerate(self.added)}
        last = max((ranks[request] for request in self.scheduler.running), default=-1)
        for request in self.scheduler.waiting:
            self.see.true(f"{request.request_id} is not overtaken", ranks[request] > last)

    def to_the_end(self):
        for _ in range(300):
            if self.scheduler.has_unfinished_requests():
                self.step()
        for request in self.added:
            tokens = list(request.prompt_token_ids)
            for _ in range(request.sampling_params.max_tokens):
                tokens.append(next_token(tokens))
            wanted = tokens[request.num_prompt_tokens :]
            self.see(f"the output of {request.request_id}", request.output_token_ids, equals=wanted)


def test_newcomers_wait_for_victims(lab):
    for blocks in (6, 7, 8):
        run = Run(lab, blocks=blocks, budget=8)
        for name in "abcdefgh":
            run.add(name, 3, max_tokens=6)
            run.step()
        run.to_the_end()


def test_two_victims_keep_their_order(lab):
    run = Run(lab, blocks=9, block_size=1, budget=9)
    for name in "abcd":
        run.add(name, 2, max_tokens=6)
    run.to_the_end()


def test_victims_come_back_in_pieces(lab):
    for budget in (3, 4, 5):
        run = Run(lab, budget=budget)
        for name, length in zip("abc", (4, 3, 5)):
            run.add(name, length, max_tokens=8)
        run.to_the_end()
