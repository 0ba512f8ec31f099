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
