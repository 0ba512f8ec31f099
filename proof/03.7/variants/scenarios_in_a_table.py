"""Every scenario is a line of a table: sizes and options, and a script of arrivals, steps and departures."""

from labkit import check, raises


def engine(lab, blocks, size, budget, seqs, **options):
    """Usable blocks, their size, tokens in a step, requests that run."""
    manager = lab.KVCacheManager(blocks + 1, size)
    return lab.Scheduler(manager, max_num_batched_tokens=budget, max_num_seqs=seqs, **options)


def test_the_first_line_of_the_table(lab):
    scheduler = engine(lab, 4, 4, 5, 2)
    request = lab.Request("a", list(range(9)), lab.SamplingParams(max_tokens=2, ignore_eos=True))
    scheduler.add_request(request)
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(11):
        see.true("no step has more than 5 tokens", sum(lab.drive(scheduler).scheduled.values()) <= 5)
    see("how many tokens came", len(request.output_token_ids), equals=2)
    see("how many blocks are free", scheduler.kv_cache_manager.num_free_blocks, equals=4)


TIGHT = {"reserve_full_sequence": False}
URGENT = {"policy": "priority"}
# blocks, size, budget, seqs, options, script. "a7/2" adds a with a prompt of 7 tokens and 2 to come, "a7/2@5" with
# priority 5; "." is a step, "x-a" a step in which a is aborted, "x-a+a" one in which another a comes at once.
TABLE = [
    (64, 4, 64, 8, {}, "a5/4 b1/4 c9/4 d4/4"),
    (64, 4, 64, 2, {}, "a3/2 . b3/2 . c3/9 . d3/2 ."),
    (64, 4, 6, 8, {}, "a9/3 . b7/3 c7/3 . d7/3"),
    (4, 4, 64, 8, TIGHT, "a5/7 b5/7 c5/7"),
    (6, 2, 3, 8, TIGHT, "a2/9 b2/9 c2/9"),
    (7, 1, 4, 8, TIGHT, "a1/5 b1/5 c1/5"),
    (5, 1, 9, 8, {**TIGHT, "long_prefill_token_threshold": 2}, "a5/2 b1/4 c1/4 d1/4"),
    (5, 4, 64, 8, {}, "a5/6 . b19/2 c2/2"),
    (5, 4, 9, 8, {}, "a5/6 . b20/9 c2/2"),
    (5, 4, 64, 8, {"watermark": 0.4}, "a18/2 b1/1"),
    (2, 4, 5, 8, {}, "a4/6 . b3/2 . c3/2 . d3/2"),
    (64, 4, 4, 8, {}, "a1/9 . b9/1 . c9/1 . d9/1"),
    (64, 4, 64, 3, {}, "a3/9 b3/9 c3/9 . x-b x-a+a . . x-c+c"),
    (64, 4, 64, 1, URGENT, "a3/2@5 b3/2@1 c3/2@3 d3/2@-1 . e3/2@0"),
    (2, 4, 64, 2, {**URGENT, **TIGHT}, "a4/4@4 b3/4@6 . c5/4@5"),
    (15, 1, 6, 2, {**URGENT, "long_prefill_token_threshold": 4}, "a15/1@9 . b1/2@0"),
]


def value(places):
    return sum((i + 3) * (token + 1) for i, token in enumerate(places)) % 7919


class Play:
    def __init__(self, lab, blocks, size, budget, seqs, options):
        self.lab, self.size, self.most = lab, size, blocks * size + 1
        self.scheduler = engine(lab, blocks, size, budget, seqs, **options)
        self.kv, self.see = self.scheduler.kv_cache_manager, check(lab.draw.scheduler, self.scheduler)
        self.known, self.written, self.T = {}, {}, 0

    def run(self, script):
        for word in script.split():
            if word[0] == "x":
                self.step(word[2], comes_back="+" in word)
            elif word == ".":
                self.step()
            else:
                self.arrive(word)
        for _ in range(self.T):
            if self.left():
                self.step()
        if self.scheduler.policy == "fcfs":
            self.see("who is left after T steps", len(self.left()), equals=0)

    def arrive(self, word):
        what, _, priority = word.partition("@")
        length, _, max_tokens = what[1:].partition("/")
        prompt = [(ord(word[0]) * 7 + i) % 50 for i in range(int(length))]
        params = self.lab.SamplingParams(max_tokens=int(max_tokens), ignore_eos=True)
        request = self.lab.Request(
            word[0], prompt, params, priority=int(priority or 0), arrival_time=float(len(self.known))
        )
        self.scheduler.add_request(request)
        self.known[request] = prompt
        self.T += int(length) + int(max_tokens)

    def left(self):
        return [request for request in self.known if not request.is_finished]

    def step(self, aborted=None, comes_back=False):
        scheduler, see, before, ran = self.scheduler, self.see, self.left(), list(self.scheduler.running)
        output = scheduler.schedule()
        self.look()
        numbers = output.num_scheduled_tokens
        see.true("budget", sum(numbers.values()) <= scheduler.max_num_batched_tokens)
        see.true("places", len(scheduler.running) <= scheduler.max_num_seqs)
        see.true("something is done", bool(numbers) or not before)
        stopped = [r.request_id for r in ran if r not in scheduler.running]
        see("preempted_req_ids", sorted(output.preempted_req_ids), equals=sorted(stopped))
        self.look_at_the_line(ran, before, numbers)
        sampled = self.model(output)
        leaving = next((r for r in before if r.request_id == aborted), None)
        if leaving:
            scheduler.abort_request(aborted)
            if comes_back:
                self.arrive(f"{aborted}2/3")
        over = []
        for request, token in sampled.items():
            if request is not leaving:
                see(f"the next token of {request.request_id}", token, equals=value(self.known[request]))
                self.known[request] = [*self.known[request], token]
                said = len(self.known[request]) - request.num_prompt_tokens
                if said == request.max_tokens or len(self.known[request]) == self.most:
                    over.append(request)
        ended = scheduler.update_from_output(output, {r.request_id: [token] for r, token in sampled.items()})
        see("who is returned", sorted(map(id, ended)), equals=sorted(map(id, over)))
        for request, tokens in self.known.items():
            see(f"the tokens of {request.request_id}", request.all_token_ids, equals=tokens)
        see.true("who is over is finished", all(request.is_finished for request in over))
        self.look()

    def model(self, output):
        sampled = {}
        for read in (False, True):
            for request in output.scheduled_requests:
                start, n = request.num_computed_tokens, output.num_scheduled_tokens[request.request_id]
                table, tokens = self.kv.get_block_ids(request.request_id), self.known[request]
                self.see.true(f"{request.request_id} has room", 0 < n <= len(table) * self.size - start)
                self.see.true(f"{request.request_id} is behind by so many", start + n <= len(tokens))
                slots = [(table[i // self.size], i % self.size) for i in range(start + n)]
                if not read:
                    self.written |= dict(zip(slots[start:], tokens[start:]))
                elif self.scheduler.needs_sample(request, n):
                    sampled[request] = value([self.written.get(slot, 0) for slot in slots])
        return sampled

    def look_at_the_line(self, ran, before, numbers):
        scheduler = self.scheduler
        for other in scheduler.waiting:
            for request in scheduler.running:
                if scheduler.policy == "fcfs":
                    self.see.true("first come, first served", before.index(request) < before.index(other))
                elif request not in ran:
                    first, second = ((r.priority, r.arrival_time) for r in (request, other))
                    self.see.true("the urgent first", first < second)
        if before and scheduler.policy == "fcfs":
            self.see.true("the first goes on", before[0].request_id in numbers)

    def look(self):
        scheduler, see, kv = self.scheduler, self.see, self.kv
        everybody = [*scheduler.running, *scheduler.waiting]
        see("who is there", sorted(map(id, everybody)), equals=sorted(map(id, self.left())))
        see.true("the scheduler knows whether it is done", scheduler.has_unfinished_requests() == bool(self.left()))
        held = [kv.get_block_ids(request.request_id) for request in scheduler.running]
        see("blocks", kv.num_free_blocks + len(set(sum(held, []))), equals=kv.num_usable_blocks)
        for request in scheduler.waiting:
            holds = kv.get_block_ids(request.request_id), request.num_computed_tokens
            see(f"what {request.request_id} holds while it waits", holds, equals=([], 0))


def test_the_table(lab):
    for blocks, size, budget, seqs, options, script in TABLE:
        Play(lab, blocks, size, budget, seqs, options).run(script)
