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
