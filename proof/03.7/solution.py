"""What the tests of a scheduler may look like: laws that are looked at in every step, and runs that reach far."""

from random import Random

from labkit import check, raises


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


# --- a run: a scheduler that is looked at in every step, and a model that has nothing but the cache ------------------


def next_token(tokens):
    """What comes after these tokens: another token, or the same at another place, changes it."""
    return 1 + sum(place * token for place, token in enumerate(tokens, start=1)) % 9973


def alone(request, most_tokens):
    """The output of a request if nobody else were there; most_tokens: prompt and output, in a cache of this size."""
    tokens = list(request.prompt_token_ids)
    while len(tokens) < min(request.num_prompt_tokens + request.sampling_params.max_tokens, most_tokens):
        tokens.append(next_token(tokens))
    return tokens[request.num_prompt_tokens :]


class Run:
    """added: every request, first come first. slots: what was last computed in each slot of each block."""

    def __init__(self, lab, **options):
        self.lab, self.scheduler = lab, make(lab, **options)
        self.kv = self.scheduler.kv_cache_manager
        self.num_slots = self.kv.num_usable_blocks * self.kv.block_size
        self.see = check(lab.draw.scheduler, self.scheduler)
        self.added, self.said, self.slots = [], {}, {}

    def add(self, *described, **options):
        request = make_request(self.lab, *described, **options)
        self.scheduler.add_request(request)
        self.added.append(request)
        self.said[request] = []
        return request

    @property
    def alive(self):
        return [request for request in self.added if not request.is_finished]

    def step(self, meanwhile=None):
        """One turn of the engine; meanwhile: what somebody else does while the model runs."""
        scheduler, ran, alive = self.scheduler, list(self.scheduler.running), self.alive
        output = scheduler.schedule()
        look_at_the_limits(self, output)
        look_at_the_places(self)
        look_at_the_victims(self, output, ran)
        look_at_the_order(self, ran)
        look_at_the_progress(self, output, alive)
        sampled = self.compute(output)
        if meanwhile:
            meanwhile()
        for request in self.alive:
            if request in output.scheduled_requests:
                self.said[request] += sampled.get(request.request_id, [])
        before = self.alive
        finished = scheduler.update_from_output(output, sampled)
        look_at_the_places(self)
        look_at_the_ended(self, before, finished)
        look_at_the_tokens(self)

    def compute(self, output):
        """Write the whole batch into the slots, then read back what each request that samples attends to."""
        sampled = {}
        for request in output.scheduled_requests:
            start = request.num_computed_tokens
            end = start + output.num_scheduled_tokens[request.request_id]
            for place, slot in enumerate(self.slots_of(request, end)):
                if place >= start:
                    self.slots[slot] = request.all_token_ids[place]
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            if self.scheduler.needs_sample(request, n):
                read = [self.slots.get(slot, 0) for slot in self.slots_of(request, request.num_computed_tokens + n)]
                sampled[request.request_id] = [next_token(read)]
        return sampled

    def slots_of(self, request, end):
        """The slots of the first `end` tokens: (block, place in it)."""
        size, table = self.kv.block_size, self.kv.get_block_ids(request.request_id)
        return [(table[place // size], place % size) for place in range(end)]

    def to_the_end(self):
        total = sum(request.num_prompt_tokens + request.sampling_params.max_tokens for request in self.alive)
        for _ in range(total):
            if self.alive:
                self.step()
        look_at_the_end(self)


# --- the laws -----------------------------------------------------------------------------------------------------


def names(requests):
    return sorted(request.request_id for request in requests)


def look_at_the_limits(run, output):
    """I2, after schedule()."""
    scheduler, see, counts = run.scheduler, run.see, output.num_scheduled_tokens
    see.true("the step keeps to the budget", sum(counts.values()) <= scheduler.max_num_batched_tokens)
    see.true("at most max_num_seqs run", len(scheduler.running) <= scheduler.max_num_seqs)
    see("who is listed with a number of tokens", sorted(counts), equals=names(output.scheduled_requests))
    for request in output.scheduled_requests:
        name = request.request_id
        after = request.num_computed_tokens + counts[name]
        see.true(f"{name}, which computes, runs", request in scheduler.running)
        see.true(f"{name} computes at least one token", counts[name] >= 1)
        see.true(f"{name} computes only what it knows", after <= request.num_tokens)
        see.true(f"{name} has a slot for each token", after <= run.kv.block_size * len(run.kv.get_block_ids(name)))


def look_at_the_places(run):
    """I3, after schedule() and after the update."""
    scheduler, see, kv = run.scheduler, run.see, run.kv
    see("who runs or waits", names([*scheduler.running, *scheduler.waiting]), equals=names(run.alive))
    see("whether somebody is unfinished", scheduler.has_unfinished_requests(), equals=bool(run.alive))
    for request in scheduler.waiting:
        see(f"blocks of {request.request_id}, which waits", kv.get_block_ids(request.request_id), equals=[])
        see(f"computed tokens of {request.request_id}, which waits", request.num_computed_tokens, equals=0)
    held = {block for request in scheduler.running for block in kv.get_block_ids(request.request_id)}
    see("how many blocks are free or held by one that runs", kv.num_free_blocks + len(held), kv.num_usable_blocks)


def look_at_the_victims(run, output, ran):
    """I3, after schedule(). ran: who ran before it."""
    victims = [request for request in ran if request not in run.scheduler.running]
    run.see("who is named as preempted", sorted(output.preempted_req_ids), equals=names(victims))


def look_at_the_ended(run, before, finished):
    """I3, after the update. before: who was alive before it."""
    ended = [request for request in before if request.is_finished]
    run.see("who is returned by the update", names(finished), equals=names(ended))


def look_at_the_tokens(run):
    """I4, after the update: what the model said is kept, and it is what it would have said without company."""
    for request in run.added:
        run.see(f"what {request.request_id} has said", request.output_token_ids, equals=run.said[request])
        expected = alone(request, run.num_slots + 1)
        if request.finish_reason != "length":
            expected = expected[: len(run.said[request])]
        run.see(f"the output of {request.request_id}", request.output_token_ids, equals=expected)


def look_at_the_order(run, ran):
    """I5, after schedule(). ran: who ran before it."""
    scheduler = run.scheduler
    if scheduler.policy == "fcfs":
        rank = {request: place for place, request in enumerate(run.added)}
    else:
        rank = {request: (request.priority, request.arrival_time, request.request_id) for request in run.added}
    for request in scheduler.running:
        for other in scheduler.waiting:
            if scheduler.policy == "fcfs" or request not in ran:
                what = f"{request.request_id} has not overtaken {other.request_id}"
                run.see.true(what, rank[request] < rank[other])


def look_at_the_progress(run, output, alive):
    """I6, after schedule(). alive: who was unfinished before it, first come first."""
    if alive:
        run.see.true("the step computes something", sum(output.num_scheduled_tokens.values()) > 0)
        if run.scheduler.policy == "fcfs":
            first = alive[0].request_id
            run.see.true(f"{first}, of all the first to come, computes", first in output.num_scheduled_tokens)


def look_at_the_end(run):
    """I6, after as many steps as there are tokens."""
    if run.scheduler.policy == "fcfs":
        run.see("who is still unfinished", names(run.alive), equals=[])


# --- the runs -----------------------------------------------------------------------------------------------------


def test_many_ways_to_cut_the_same_work(lab):
    for setting in (
        {},
        {"budget": 1},
        {"budget": 5, "seqs": 2},
        {"budget": 7, "block_size": 1, "blocks": 16},
        {"budget": 6, "block_size": 3, "blocks": 5, "caching": False},
    ):
        run = Run(lab, **setting)
        run.add("a", 11)
        run.step()
        for name, length in zip("bcde", (1, 8, 3, 4)):
            run.add(name, length)
        run.to_the_end()


def test_a_large_head_is_not_overtaken(lab):
    run = Run(lab, blocks=6, watermark=0.3)
    run.add("a", 6, max_tokens=8)
    run.step()
    run.add("b", 22, max_tokens=9)  # needs all blocks, so a must be gone; it would say more than ever fits
    run.add("c", 2)
    run.to_the_end()


def test_victims_lose_nothing(lab):
    for blocks, size, budget, caching in ((3, 4, 64, True), (6, 2, 4, False), (9, 1, 3, False), (4, 3, 5, True)):
        run = Run(lab, blocks=blocks, block_size=size, budget=budget, caching=caching, reserve_full_sequence=False)
        for name in "abc":
            run.add(name, 3, max_tokens=7)
        run.to_the_end()


def test_one_victim_is_not_enough(lab):
    run = Run(lab, blocks=4, block_size=1, budget=4, long_prefill_token_threshold=2)
    for name, length in (("a", 4), ("b", 1), ("c", 1)):
        run.add(name, length)
    run.to_the_end()


def test_the_urgent_first(lab):
    described = [(-2, 9.0, "f"), (0, 3.0, "a"), (5, 1.25, "e"), (5, 1.5, "c10"), (5, 1.5, "c9"), (10, 0.0, "b")]
    for order in (described, described[::-1], described[1::2] + described[::2]):
        run = Run(lab, policy="priority", seqs=1)
        for priority, arrival_time, name in order:
            run.add(name, 2, max_tokens=2, priority=priority, arrival_time=arrival_time)
        run.step()
        run.add("g", 2, max_tokens=2, priority=-3, arrival_time=10.0)
        run.to_the_end()


def test_a_victim_is_not_urgent(lab):
    """b gives way to a; when a is gone only one of b and c fits, and c is more urgent."""
    run = Run(lab, policy="priority", blocks=2, seqs=2, reserve_full_sequence=False)
    run.add("a", 4, priority=4, arrival_time=0.0)
    run.add("b", 3, priority=6, arrival_time=1.0)
    run.step()
    run.add("c", 5, priority=5, arrival_time=2.0)
    run.to_the_end()


def test_a_victim_that_was_in_the_step(lab):
    """a gives way to b in the step in which it was to fill four blocks: nobody may find them."""
    run = Run(lab, policy="priority", blocks=15, block_size=1, budget=6, long_prefill_token_threshold=4)
    run.add("a", 15, priority=9)
    run.step()
    run.add("b", 1, max_tokens=2)
    run.to_the_end()


def test_who_ends_while_the_model_runs(lab):
    run = Run(lab, seqs=3, budget=8)
    for name in "abcd":
        run.add(name, 6, max_tokens=9)
    run.step()

    def meanwhile():
        run.scheduler.abort_request("a")
        run.scheduler.abort_request("d")
        run.add("a", 5)

    run.step(meanwhile)
    run.step()
    run.step(meanwhile)
    run.to_the_end()


def test_an_id_is_taken_while_its_request_lives(lab):
    run = Run(lab, blocks=3, reserve_full_sequence=False)
    for name in "abc":
        run.add(name, 3, max_tokens=6)
    for _ in range(3):
        run.step()
    with raises(lab.DuplicateRequestError, "c has been preempted, and is still in flight"):
        run.add("c", 3)
    run.to_the_end()
    run.add("c", 3)
    run.to_the_end()


def test_a_walk(lab):
    random = Random(5)
    for policy in ("fcfs", "priority") * 3:
        run = Run(
            lab,
            policy=policy,
            blocks=random.randint(6, 10),
            block_size=random.randint(1, 4),
            budget=random.randint(2, 12),
            seqs=random.randint(2, 4),
            reserve_full_sequence=random.random() < 0.5,
        )
        for number in range(8):
            length, most_tokens = random.randint(1, run.num_slots - 2), random.randint(1, 6)
            run.add(f"r{number}", length, most_tokens, priority=random.randint(0, 3), arrival_time=float(number))
            run.step()
        run.to_the_end()
