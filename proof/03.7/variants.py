# === a_walk_against_books
"""Random walks with fixed seeds, beside books that a bookkeeper keeps: who was added, what was said, what is where."""

from collections import Counter
from random import Random

from labkit import check, raises


def test_a_walk_with_the_budget_of_one(lab):
    manager = lab.KVCacheManager(9, 2)
    scheduler = lab.Scheduler(manager, max_num_seqs=3, max_num_batched_tokens=1)
    request = lab.Request("only", [3, 1, 4, 1, 5], lab.SamplingParams(max_tokens=3, ignore_eos=True))
    scheduler.add_request(request)
    for _ in range(7):
        assert list(lab.drive(scheduler).scheduled.values()) == [1]
    assert request.output_token_ids == [100, 100, 100]
    assert not scheduler.has_unfinished_requests()
    assert manager.num_free_blocks == 8


def speak(tokens):
    word = 17
    for token in tokens:
        word = (word * 31 + token) % 1009
    return word


class Books:
    def __init__(self, lab, random, **options):
        self.lab, self.random = lab, random
        self.blocks, self.size = options.pop("blocks"), options.pop("size")
        self.kv = lab.KVCacheManager(self.blocks + 1, self.size, enable_prefix_caching=options.pop("caching", True))
        self.options = options
        self.scheduler = lab.Scheduler(self.kv, **options)
        self.requests, self.texts, self.content, self.ages = [], {}, {}, Counter()

    def add(self, name, prompt, max_tokens, **options):
        request = self.lab.Request(
            name, prompt, self.lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True), **options
        )
        self.scheduler.add_request(request)
        self.requests.append(request)
        self.texts[request] = list(prompt)
        return request

    def open_ones(self):
        return [request for request in self.requests if not request.is_finished]

    def turn(self, disturb=0.0):
        scheduler, random = self.scheduler, self.random
        open_before, ran = self.open_ones(), set(scheduler.running)
        output = scheduler.schedule()
        self.audit(output, open_before, ran)
        answers = {}
        plan = [
            (r, r.num_computed_tokens, output.num_scheduled_tokens[r.request_id]) for r in output.scheduled_requests
        ]
        for request, start, n in plan:
            table = self.kv.get_block_ids(request.request_id)
            for i in range(start, start + n):
                self.content[table[i // self.size] * self.size + i % self.size] = self.texts[request][i]
        for request, start, n in plan:
            if scheduler.needs_sample(request, n):
                assert start + n == len(self.texts[request])
                table = self.kv.get_block_ids(request.request_id)
                answers[request] = speak(
                    self.content.get(table[i // self.size] * self.size + i % self.size, -1) for i in range(start + n)
                )
        victims = [request for request in self.open_ones() if random.random() < disturb]
        for request in victims:
            scheduler.abort_request(request.request_id)
            if random.random() < 0.5:
                self.add(request.request_id, [7, 8], 2, arrival_time=99.0)
        returned = scheduler.update_from_output(output, {r.request_id: [word] for r, word in answers.items()})
        for request, word in answers.items():
            if request not in victims:
                assert word == speak(self.texts[request])
                self.texts[request].append(word)
        limit = self.blocks * self.size + 1
        for request in self.requests:
            assert request.all_token_ids == self.texts[request]
            done = len(request.output_token_ids) == request.max_tokens or request.num_tokens == limit
            assert (request.finish_reason == "length") == done
        over = [r for r in open_before if r.finish_reason == "length"]
        assert Counter(r.request_id for r in returned) == Counter(r.request_id for r in over)
        self.count()

    def audit(self, output, open_before, ran):
        scheduler, counts = self.scheduler, output.num_scheduled_tokens
        assert bool(counts) == bool(open_before)
        assert sum(counts.values()) <= self.options["max_num_batched_tokens"]
        assert len(scheduler.running) <= self.options["max_num_seqs"]
        assert [r.request_id for r in output.scheduled_requests] == list(counts)
        for request in output.scheduled_requests:
            end = request.num_computed_tokens + counts[request.request_id]
            assert request in scheduler.running
            assert request.num_computed_tokens < end <= request.num_tokens
            assert end <= len(self.kv.get_block_ids(request.request_id)) * self.size
        assert sorted(output.preempted_req_ids) == sorted(r.request_id for r in ran - set(scheduler.running))
        if self.options.get("policy") == "priority":
            key = {r: (r.priority, r.arrival_time, r.request_id) for r in open_before}
            comers = [r for r in scheduler.running if r not in ran]
        else:
            key, comers = {r: i for i, r in enumerate(self.requests)}, scheduler.running
            assert not open_before or open_before[0].request_id in counts
        if comers and scheduler.waiting:
            assert max(key[r] for r in comers) < min(key[r] for r in scheduler.waiting)
        self.count()

    def count(self):
        scheduler, kv = self.scheduler, self.kv
        assert Counter([*scheduler.running, *scheduler.waiting]) == Counter(self.open_ones())
        assert scheduler.has_unfinished_requests() == bool(self.open_ones())
        assert all(kv.get_block_ids(r.request_id) == [] and r.num_computed_tokens == 0 for r in scheduler.waiting)
        held = {block for r in scheduler.running for block in kv.get_block_ids(r.request_id)}
        assert len(held) == self.blocks - kv.num_free_blocks


def walk(lab, seed, policy, disturb=0.0):
    random = Random(seed)
    size, blocks = random.randint(1, 4), random.randint(3, 8)
    books = Books(
        lab,
        random,
        policy=policy,
        blocks=blocks,
        size=size,
        caching=random.random() < 0.6,
        max_num_batched_tokens=random.randint(2, 9),
        max_num_seqs=random.randint(1, 4),
        long_prefill_token_threshold=random.choice([0, 0, 2, 3]),
        reserve_full_sequence=random.random() < 0.3,
        watermark=random.choice([0.0, 0.4]),
    )
    for number in range(6):
        length = random.choice([1, 2, blocks * size // 2 + 1, blocks * size])
        books.add(
            f"r{number}",
            [random.randint(7, 8) for _ in range(length)],
            random.randint(1, 7),
            priority=random.randint(0, 2),
            arrival_time=float(number),
        )
        books.turn(disturb)
    most = sum(len(books.texts[r]) + r.max_tokens for r in books.open_ones())
    for _ in range(most):
        if not books.open_ones():
            break
        books.turn(disturb)
    assert policy == "priority" or not books.open_ones()


def test_walks_in_order_of_arrival(lab):
    for seed in range(14):
        walk(lab, seed, "fcfs")


def test_walks_in_order_of_urgency(lab):
    for seed in range(14):
        walk(lab, seed, "priority")


def test_walks_with_people_who_leave(lab):
    for seed in range(12):
        walk(lab, seed, "fcfs", disturb=0.1)


def test_walks_beside_a_long_prompt_that_is_in_no_hurry(lab):
    random = Random(1)
    for _ in range(12):
        blocks, threshold = random.randint(10, 16), random.randint(3, 6)
        books = Books(
            lab,
            random,
            policy="priority",
            blocks=blocks,
            size=1,
            max_num_batched_tokens=threshold + 2,
            max_num_seqs=2,
            long_prefill_token_threshold=threshold,
        )
        books.add("long", list(range(50, 50 + blocks)), 3, priority=9)
        books.turn()
        books.add("short", [7], random.randint(1, 4), priority=1)
        for _ in range(4 * blocks):
            books.turn()


# === many_small_tests
"""Many small tests with plain asserts: each makes one situation, and asserts what the law says of it."""

from labkit import check, raises


def start(lab, prompts=(), *, blocks=64, size=4, budget=64, seqs=8, max_tokens=3, caching=True, **options):
    """A scheduler, and its requests a, b, c ... one for each length of a prompt."""
    manager = lab.KVCacheManager(blocks + 1, size, enable_prefix_caching=caching)
    scheduler = lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget, **options)
    return scheduler, [put(lab, scheduler, name, length, max_tokens) for name, length in zip("abcdef", prompts)]


def put(lab, scheduler, name, length, max_tokens=3, **options):
    prompt = [100 * ord(name[0]) + i for i in range(length)]
    request = lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True), **options)
    scheduler.add_request(request)
    return request


def test_the_budget_of_a_step(lab):
    scheduler, (a, b) = start(lab, [9, 4], budget=5)
    while scheduler.has_unfinished_requests():
        assert 1 <= sum(lab.drive(scheduler).scheduled.values()) <= 5
    assert len(a.output_token_ids) == len(b.output_token_ids) == 3


def test_newcomers_get_what_is_left_of_the_budget(lab):
    scheduler, _ = start(lab, [2], budget=4)
    lab.drive(scheduler)
    put(lab, scheduler, "b", 9)
    for _ in range(5):
        assert sum(lab.drive(scheduler).scheduled.values()) <= 4


def test_those_that_came_earlier_count_too(lab):
    scheduler, _ = start(lab, [2], seqs=2, max_tokens=9)
    for name in "bcd":
        lab.drive(scheduler)
        put(lab, scheduler, name, 2, 9)
        assert len(scheduler.running) <= 2
    lab.drive(scheduler)
    assert len(scheduler.running) <= 2


def test_whoever_computes_has_slots(lab):
    scheduler, _ = start(lab, [4, 1, 1], blocks=4, size=1, budget=4, long_prefill_token_threshold=2)
    while scheduler.has_unfinished_requests():
        output = scheduler.schedule()
        sampled = {}
        for request in output.scheduled_requests:
            after = request.num_computed_tokens + output.num_scheduled_tokens[request.request_id]
            assert after <= len(scheduler.kv_cache_manager.get_block_ids(request.request_id))
            if after == request.num_tokens:
                sampled[request.request_id] = [5]
        scheduler.update_from_output(output, sampled)


def tight(lab, **options):
    """Three requests in blocks that are not enough for them."""
    return start(lab, [3, 3, 3], blocks=5, size=2, max_tokens=6, reserve_full_sequence=False, **options)


def test_free_blocks_and_held_blocks_are_all(lab):
    scheduler, _ = tight(lab)
    kv = scheduler.kv_cache_manager
    while scheduler.has_unfinished_requests():
        lab.drive(scheduler)
        held = {block for request in scheduler.running for block in kv.get_block_ids(request.request_id)}
        assert kv.num_free_blocks == 5 - len(held)
    assert kv.num_free_blocks == 5


def test_victims_are_named(lab):
    scheduler, requests = tight(lab)
    seen = 0
    while scheduler.has_unfinished_requests():
        ran = list(scheduler.running)
        output = scheduler.schedule()
        stopped = [request.request_id for request in ran if request not in scheduler.running]
        assert sorted(output.preempted_req_ids) == sorted(stopped)
        seen += len(stopped)
        n = output.num_scheduled_tokens
        done = [r for r in output.scheduled_requests if r.num_computed_tokens + n[r.request_id] == r.num_tokens]
        scheduler.update_from_output(output, {request.request_id: [5] for request in done})


def test_who_was_aborted_is_not_returned(lab):
    scheduler, (a, b) = start(lab, [3, 3], max_tokens=1)
    output = scheduler.schedule()
    scheduler.abort_request("a")
    assert scheduler.update_from_output(output, {"a": [5], "b": [6]}) == [b]
    assert a.output_token_ids == []
    assert b.output_token_ids == [6]


def test_a_newcomer_may_have_the_id_of_somebody_who_left(lab):
    scheduler, (old,) = start(lab, [3])
    output = scheduler.schedule()
    with raises(lab.DuplicateRequestError, "a is there"):
        put(lab, scheduler, "a", 3)
    scheduler.abort_request("a")
    new = put(lab, scheduler, "a", 4)
    assert scheduler.update_from_output(output, {"a": [5]}) == []
    assert (old.output_token_ids, new.output_token_ids, new.num_computed_tokens) == ([], [], 0)
    while scheduler.has_unfinished_requests():
        lab.drive(scheduler)
    assert new.output_token_ids == [100, 100, 100]


def test_only_the_last_chunk_samples(lab):
    for caching in (True, False):
        scheduler, requests = tight(lab, budget=4, caching=caching)
        while scheduler.has_unfinished_requests():
            known = {request: list(request.output_token_ids) for request in requests}
            output = scheduler.schedule()
            sampled = {}
            for request in output.scheduled_requests:
                n = output.num_scheduled_tokens[request.request_id]
                caught_up = request.num_computed_tokens + n == request.num_tokens
                assert scheduler.needs_sample(request, n) == caught_up
                if caught_up:
                    sampled[request.request_id] = [len(request.output_token_ids)]
            scheduler.update_from_output(output, sampled)
            for request in requests:
                assert request.output_token_ids == known[request] + sampled.get(request.request_id, [])
        assert [request.output_token_ids for request in requests] == [list(range(6))] * 3


def test_what_is_said_to_be_computed_was_written(lab):
    """A victim of the step in which it was to write: it may find nothing there that it did not write."""
    scheduler, _ = start(lab, blocks=15, size=1, budget=6, seqs=2, policy="priority", long_prefill_token_threshold=4)
    kv, content = scheduler.kv_cache_manager, {}
    put(lab, scheduler, "a", 15, 1, priority=1)
    for step in range(30):
        output = scheduler.schedule()
        sampled = {}
        for request in output.scheduled_requests:
            start_, n = request.num_computed_tokens, output.num_scheduled_tokens[request.request_id]
            table, tokens = kv.get_block_ids(request.request_id), request.all_token_ids
            for i in range(start_):
                assert content.get(table[i]) == tokens[i]
            for i in range(start_, start_ + n):
                content[table[i]] = tokens[i]
            if start_ + n == request.num_tokens:
                sampled[request.request_id] = [7]
        scheduler.update_from_output(output, sampled)
        if step == 0:
            put(lab, scheduler, "b", 1, 2, priority=0)


def test_the_head_of_the_queue_is_not_overtaken(lab):
    scheduler, _ = start(lab, [6], blocks=6, max_tokens=4)
    lab.drive(scheduler)
    big, small = put(lab, scheduler, "b", 21), put(lab, scheduler, "c", 2)
    for _ in range(20):
        lab.drive(scheduler)
        assert small not in scheduler.running or big not in scheduler.waiting


def test_victims_come_back_in_their_order(lab):
    for blocks in (3, 4):
        scheduler, requests = start(lab, [3, 3, 3], blocks=blocks, max_tokens=7, reserve_full_sequence=False)
        for _ in range(30):
            lab.drive(scheduler)
            waits = [request in scheduler.waiting for request in requests if not request.is_finished]
            assert waits == sorted(waits)


def test_several_victims_come_back_in_their_order(lab):
    scheduler, requests = start(lab, [4, 1, 1], blocks=4, size=1, budget=4, long_prefill_token_threshold=2)
    for _ in range(20):
        lab.drive(scheduler)
        waits = [request in scheduler.waiting for request in requests if not request.is_finished]
        assert waits == sorted(waits)


def test_a_victim_waits_behind_who_is_more_urgent(lab):
    scheduler, _ = start(lab, blocks=2, seqs=2, policy="priority", reserve_full_sequence=False)
    put(lab, scheduler, "a", 4, priority=1)
    b = put(lab, scheduler, "b", 3, priority=3)
    lab.drive(scheduler)
    c = put(lab, scheduler, "c", 5, priority=2)
    for _ in range(12):
        ran = b in scheduler.running
        lab.drive(scheduler)
        assert ran or b not in scheduler.running or c not in scheduler.waiting


def test_the_oldest_computes_in_every_step(lab):
    scheduler, (a,) = start(lab, [3], budget=5, max_tokens=6)
    for name in "bcdef":
        put(lab, scheduler, name, 9)
        if not a.is_finished:
            assert "a" in lab.drive(scheduler).scheduled


def test_a_prompt_as_large_as_the_cache(lab):
    for watermark in (0.0, 0.4):
        scheduler, (a,) = start(lab, [23], blocks=6, watermark=watermark, max_tokens=2)
        assert lab.drive(scheduler).scheduled
        lab.drive(scheduler)
        assert len(a.output_token_ids) == 2


def test_who_would_say_more_than_fits_ends(lab):
    scheduler, (a,) = start(lab, [5], blocks=2, max_tokens=50)
    for _ in range(4):
        assert lab.drive(scheduler).scheduled
    assert a.num_tokens == 9
    assert a.finish_reason == "length"


# === scenarios_in_a_table
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
