# === one_walk
"""Random crowds in random small schedulers, with a fixed seed."""

from random import Random

from labkit import check

CASE_A = {"culprit": "mini_vllm.scheduler:Scheduler._preempt", "step": 3, "why": "the wrong end of the line"}
CASE_B = {"culprit": "mini_vllm.scheduler:Scheduler.needs_sample", "step": 8, "why": "the prompt is not all it knows"}


def test_a_walk(lab):
    random = Random(2)
    for _ in range(30):
        size = random.randint(1, 3)
        manager = lab.KVCacheManager(1 + 12 // size, size, enable_prefix_caching=False)
        scheduler = lab.Scheduler(
            manager, max_num_seqs=random.randint(2, 4), max_num_batched_tokens=random.randint(3, 9)
        )
        see = check(lab.draw.scheduler, scheduler)
        params = lab.SamplingParams(max_tokens=6, ignore_eos=True)
        rest = [lab.Request(f"r{number}", [number] * random.randint(1, 5), params) for number in range(7)]
        added, said = [], {}
        while rest or scheduler.has_unfinished_requests():
            if rest and random.random() < 0.7:
                request = rest.pop()
                added.append(request)
                said[request] = []
                scheduler.add_request(request)
            output, sampled = scheduler.schedule(), {}
            see.true(
                "who runs came first",
                all(added.index(one) < added.index(other) for one in scheduler.running for other in scheduler.waiting),
            )
            for request in output.scheduled_requests:
                n = output.num_scheduled_tokens[request.request_id]
                if scheduler.needs_sample(request, n):
                    token = 10 * added.index(request) + request.num_computed_tokens + n
                    sampled[request.request_id] = [token]
                    said[request].append(token)
            scheduler.update_from_output(output, sampled)
            for request in added:
                see("what it has", list(request.output_token_ids), said[request])
        for request in added:
            start = 10 * added.index(request) + request.num_prompt_tokens
            see("what it has in the end", said[request], equals=list(range(start, start + 6)))


# === other_words
BASE = "small_stories"
EDITS = [
    ("for blocks in range(9, 13):", "for blocks in (9, 10):"),
    ('"why": "five of seven are not all"', '"why": "it knew seven tokens and had computed five"'),
    ("for budget in (3, 4):", "for budget in (3,):"),
]


# === small_stories
"""Names _enqueue, which fits the trace as well; one story for each way to go wrong."""

CASE_A = {"culprit": "mini_vllm.scheduler:Scheduler._enqueue", "step": 3, "why": "a victim is put behind a newcomer"}
CASE_B = {"culprit": "mini_vllm.scheduler:Scheduler.needs_sample", "step": 8, "why": "five of seven are not all"}


def play(lab, arrivals, *, blocks, size=1, budget=16, seqs=4):
    """Run to the end; arrivals: (step, id, prompt length, max_tokens). The model says the place, and 100 for each id."""
    manager = lab.KVCacheManager(blocks + 1, size, enable_prefix_caching=False)
    scheduler = lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget)
    added, longest = [], {}
    for step in range(200):
        for when, name, length, max_tokens in arrivals:
            if when == step:
                params = lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
                added.append(lab.Request(name, [7] * length, params))
                scheduler.add_request(added[-1])
        if not added or not scheduler.has_unfinished_requests():
            continue
        output = scheduler.schedule()
        for early in scheduler.waiting:
            for late in scheduler.running:
                assert added.index(late) < added.index(early), f"{late.request_id} overtakes {early.request_id}"
        sampled = {}
        for request in output.scheduled_requests:
            end = request.num_computed_tokens + output.num_scheduled_tokens[request.request_id]
            if scheduler.needs_sample(request, end - request.num_computed_tokens):
                assert end == request.num_tokens, f"{request.request_id} speaks at {end} of {request.num_tokens}"
                sampled[request.request_id] = [1000 + end]
        scheduler.update_from_output(output, sampled)
        for request in added:
            said = list(request.output_token_ids)
            assert len(said) >= longest.get(request, 0), f"{request.request_id} has lost words"
            longest[request] = len(said)
    for request in added:
        length, most = len(request.prompt_token_ids), request.sampling_params.max_tokens
        assert request.is_finished
        assert list(request.output_token_ids) == [1000 + length + place for place in range(most)], request.request_id


def test_a_crowd(lab):
    for blocks in range(9, 13):
        play(lab, [(step, "abcdefgh"[step], 3, 6) for step in range(8)], blocks=blocks)


def test_two_victims(lab):
    play(lab, [(0, name, 2, 6) for name in "abcd"], blocks=9, budget=9)


def test_pieces(lab):
    for budget in (3, 4):
        play(lab, [(0, "a", 4, 8), (0, "b", 3, 8), (0, "c", 5, 8)], blocks=7, size=2, budget=budget)
