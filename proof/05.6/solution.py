"""What the tests may look like: a proposer that knows the truth, runs that force the rare, and a model played by hand."""

from random import Random

from labkit import check


def make(lab, *, blocks=64, block_size=4, budget=64, k=4, **options):
    """An engine's scheduler with so many usable blocks."""
    manager = lab.KVCacheManager(blocks + 1, block_size)
    return lab.SpeculativeScheduler(
        manager, max_num_seqs=8, max_num_batched_tokens=budget, num_speculative_tokens=k, **options
    )


def make_request(lab, name, length, max_tokens=12, **options):
    """A prompt of so many tokens that no request of another name has."""
    prompt = [1000 * ord(name[0]) + position for position in range(length)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, **options))


def alone(lab, request, num_tokens):
    """The first num_tokens tokens that the model says to the request when nothing else happens."""
    tokens = list(request.prompt_token_ids)
    for _ in range(num_tokens):
        tokens.append(lab.next_token(request.request_id, tokens))
    return tokens[len(request.prompt_token_ids) :]


class Scripted:
    """A proposer that knows the truth of each request, and makes drafts of what comes next by `tell`."""

    def __init__(self, tell=list):
        self.truth, self.tell = {}, tell

    def propose(self, request, num_tokens):
        done = len(request.output_token_ids)
        return self.tell(self.truth[request.request_id][done : done + num_tokens])

    def forget(self, request):
        pass


def test_right_drafts(lab):
    """All drafts are right: the output is the truth, and eight tokens take three steps, as 1, 2 (one draft) and 5."""
    scheduler = make(lab)
    model, scheduler.proposer = lab.SpeculatingModel(scheduler), Scripted()
    request = make_request(lab, "a", 5, max_tokens=8)
    truth = scheduler.proposer.truth["a"] = alone(lab, request, 16)
    scheduler.add_request(request)
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(3):
        output = scheduler.schedule()
        sampled = model.execute(output)
        scheduler.update_from_output(output, sampled)
    see("the output of a", request.output_token_ids, equals=truth[:8])


# --- a run: an engine, and for each request what it would get alone ------------------------------------------------


class Run:
    """expected: the output that each request must have at its end."""

    def __init__(self, lab, tell=list, **sizes):
        self.lab, self.scheduler = lab, make(lab, **sizes)
        self.model, self.proposer = lab.SpeculatingModel(self.scheduler), Scripted(tell)
        self.scheduler.proposer = self.proposer
        self.see = check(lab.draw.scheduler, self.scheduler)
        self.expected, self.aborted = {}, []

    def add(self, name, length, max_tokens=12, stops_at=None):
        truth = alone(self.lab, make_request(self.lab, name, length), max_tokens + 8)
        stops = () if stops_at is None else (truth[stops_at],)
        request = make_request(self.lab, name, length, max_tokens, stop_token_ids=stops)
        self.proposer.truth[name] = truth
        self.expected[request] = truth[: max_tokens if stops_at is None else min(stops_at + 1, max_tokens)]
        self.scheduler.add_request(request)
        return request

    def step(self, meanwhile=None):
        output = self.scheduler.schedule()
        ids = [request.request_id for request in output.scheduled_requests]
        self.see.true("a step computes something", ids)
        self.see.true("only requests of the step have drafts", set(output.drafts) <= set(ids))
        sampled = self.model.execute(output)
        for name, drafts in output.drafts.items():
            self.count(output.scheduled_requests[ids.index(name)], list(drafts), sampled.get(name, ()))
        if meanwhile:
            meanwhile()
        self.scheduler.update_from_output(output, sampled)
        self.look_up()

    def count(self, request, drafts, sampled):
        """One token more than drafts were right."""
        done, num_right = len(request.output_token_ids), 0
        truth = self.proposer.truth[request.request_id][done:]
        while num_right < len(drafts) and drafts[num_right] == truth[num_right]:
            num_right += 1
        self.see(f"tokens of {request.request_id} for drafts {drafts}", len(sampled), equals=num_right + 1)

    def look_up(self):
        """What is computed can be found, and nothing else."""
        size = self.scheduler.kv_cache_manager.block_size
        for request in self.scheduler.running:
            if request.num_computed_tokens == request.num_tokens - 1:
                self.found(request, (request.num_tokens - 1) // size * size)

    def found(self, request, expected):
        again = self.lab.Request("again", [*request.all_token_ids, 1], self.lab.SamplingParams(max_tokens=1))
        found = self.scheduler.kv_cache_manager.get_computed_blocks(again)[1]
        self.see(f"tokens of {request.request_id} that are found", found, equals=expected)

    def to_the_end(self):
        for _ in range(200):
            if self.scheduler.has_unfinished_requests():
                self.step()
        for request, expected in self.expected.items():
            if request.finish_reason == "abort":
                expected = expected[: len(request.output_token_ids)]
            self.see(f"the output of {request.request_id}", request.output_token_ids, equals=expected)


# --- the workloads -------------------------------------------------------------------------------------------------


def half_right(seed):
    random = Random(seed)
    return lambda coming: [token if random.random() < 0.6 else 7 for token in coming]


def test_drafts_of_all_qualities(lab):
    for block_size in (1, 2, 3, 4):
        run = Run(lab, half_right(block_size), block_size=block_size)
        for name, length in zip("abc", (5, 3, 8)):
            run.add(name, length)
            run.step()
        run.to_the_end()


def test_drafts_that_fit_again(lab):
    """Behind a wrong draft the truth goes on, or begins once more."""
    for num_right in (0, 1, 4):
        for num_hidden in (0, 1):

            def tell(coming, num_right=num_right, num_hidden=num_hidden):
                return [*coming[:num_right], 7, *coming[num_right + num_hidden :]][: len(coming)]

            run = Run(lab, tell)
            run.add("a", 5)
            run.add("b", 3)
            run.to_the_end()


def test_one_is_wrong_and_one_is_right(lab):
    run = Run(lab)
    for name in "abc":
        run.add(name, 4)
    run.proposer.truth["a"] = [7] * 40
    for _ in range(20):
        output = run.scheduler.schedule()
        run.scheduler.update_from_output(output, run.model.execute(output))
    for request, expected in run.expected.items():
        run.see(f"the output of {request.request_id}", request.output_token_ids, equals=expected)


def test_the_end_among_drafts(lab):
    run = Run(lab)
    for number, name in enumerate("abcde"):
        run.add(name, 3, max_tokens=3 + number)
    for number, name in enumerate("fgh"):
        run.add(name, 3, stops_at=2 + number)
    run.to_the_end()


def test_found_after_the_end(lab):
    """The last token of a request that has ended is never computed."""
    for max_tokens in (5, 6, 7, 8):
        run = Run(lab)
        request = run.add("a", 6, max_tokens=max_tokens)
        run.to_the_end()
        run.found(request, (request.num_tokens - 1) // 4 * 4)


def test_an_end_while_the_model_runs(lab):
    run = Run(lab)
    first = run.add("a", 5)
    run.add("b", 5)
    run.step()
    run.step(lambda: run.scheduler.abort_request("a"))
    run.see("the output of the aborted request", len(first.output_token_ids), equals=1)
    run.to_the_end()


def test_a_pool_that_is_tight(lab):
    for tell in (list, half_right(1)):
        for blocks, block_size in ((9, 2), (6, 3), (20, 1)):
            run = Run(lab, tell, blocks=blocks, block_size=block_size)
            for name in "ab":
                run.add(name, 4, max_tokens=10)
            run.to_the_end()


def test_lookahead_in_a_pool_that_is_just_large_enough(lab):
    for block_size in (1, 2):
        run = Run(lab, blocks=14 // block_size, block_size=block_size, speculative="draft_model")
        run.add("a", 4, max_tokens=10)
        run.to_the_end()


# --- without the model: the text is chosen by hand ------------------------------------------------------------------


def turn(scheduler, *tokens, accepts=False):
    """A step that gives request a these tokens, or all its drafts and the token behind them; its drafts."""
    output = scheduler.schedule()
    drafts = list(output.drafts.get("a", ()))
    scheduler.update_from_output(output, {"a": [*drafts, *tokens] if accepts else list(tokens)})
    return drafts


def see_drafts(lab, scheduler, what, drafts, expected):
    check(lab.draw.scheduler, scheduler)(f"drafts of a, {what}", drafts, equals=expected)


def trusted(lab, prompt, *outputs):
    """An engine whose request a is allowed all drafts, because its first one was right; behind it come these outputs."""
    scheduler = make(lab)
    scheduler.add_request(lab.Request("a", [90, 91, 92, 93, *prompt, 90], lab.SamplingParams(max_tokens=90)))
    turn(scheduler, 91)
    see_drafts(lab, scheduler, "behind 90 91 in the prompt", turn(scheduler, outputs[0], accepts=True), [92])
    for token in outputs[1:]:
        turn(scheduler, token)
    return scheduler


def test_drafts_from_the_text(lab):
    scheduler = trusted(lab, [1, 2, 3, 4, 5, 9], 1, 2)
    see_drafts(lab, scheduler, "behind 1 2 in the prompt", turn(scheduler, 20), [3, 4, 5, 9])
    for token in (21, 22, 23, 24, 20):
        turn(scheduler, token)
    see_drafts(lab, scheduler, "behind 20 alone", turn(scheduler, 21), [])
    see_drafts(lab, scheduler, "behind 20 21 in the output", turn(scheduler, 30)[:1], [22])


def test_drafts_near_the_end_of_the_text(lab):
    scheduler = trusted(lab, [], 1, 2, 3, 1, 2)
    see_drafts(lab, scheduler, "behind 1 2, text 1 2 3 1 2", turn(scheduler, 50), [3, 1, 2])


def test_drafts_of_an_id_that_comes_again(lab):
    scheduler = make(lab)
    scheduler.add_request(lab.Request("a", [1, 2, 3, 4, 5, 9, 1], lab.SamplingParams(max_tokens=2)))
    turn(scheduler, 2)
    turn(scheduler, 20)
    scheduler.add_request(lab.Request("a", [6, 1, 2, 7, 8, 8, 1], lab.SamplingParams(max_tokens=90)))
    turn(scheduler, 2)
    see_drafts(lab, scheduler, "behind 1 2 in the second text of that id", turn(scheduler, 20), [7])


def test_the_pace(lab):
    scheduler = make(lab, blocks=2000)
    scheduler.proposer = Scripted(list)
    scheduler.proposer.truth["a"] = [7] * 5000
    scheduler.add_request(lab.Request("a", [1, 2, 3], lab.SamplingParams(max_tokens=4000)))
    see = check(lab.draw.scheduler, scheduler)
    wrong = [len(turn(scheduler, 8)) for _ in range(500)]
    for start in (200, 300, 400):
        see.true("at most 2 drafts in 100 steps, and one at least", 1 <= sum(wrong[start : start + 100]) <= 2)
    right = [len(turn(scheduler, 8, accepts=True)) for _ in range(150)]
    see("drafts of the last 50 steps, all right", right[100:], equals=[4] * 50)
