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
