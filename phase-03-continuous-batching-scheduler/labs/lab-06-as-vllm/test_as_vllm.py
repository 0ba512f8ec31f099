"""Lab 03.6: two rules in their fine print, by hand and against recorded steps of vLLM 0.33.0."""

from labkit import LabFailure, cases, check, concept, far, make_scheduler, plan_world, play_world, walk


def make(lab, *, blocks=64, block_size=4, budget=64, seqs=8, caching=False, **options):
    """A scheduler with so many usable blocks; the null block comes on top."""
    manager = lab.KVCacheManager(blocks + 1, block_size, enable_prefix_caching=caching)
    return lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget, **options)


def make_request(lab, name, prompt, max_tokens=16):
    """prompt: its tokens, or how many; then nobody else has them."""
    if isinstance(prompt, int):
        prompt = [1000 * ord(name) + position for position in range(prompt)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True))


def turn(lab, scheduler):
    """A whole step, and who computed how much in it: "a4 b2"."""
    return " ".join(f"{name}{n}" for name, n in lab.drive(scheduler).scheduled.items())


@concept("With others in flight the threshold cuts a chunk, and so does the budget.", invariant="I1")
@cases(
    cut=(10, 64, 4, 4),
    equal=(4, 64, 4, 4),
    below=(3, 64, 4, 3),
    budget_is_less=(10, 3, 4, 3),
    nothing_left=(10, 0, 4, 0),
    switched_off=(10, 64, 0, 10),
)
def test_the_threshold_cuts(lab, case):
    behind, left, threshold, expected = case
    scheduler = make(lab, long_prefill_token_threshold=threshold)
    for name in "ab":
        scheduler.add_request(make_request(lab, name, 10))
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler._clamp_new_tokens(behind, left)
    see(f"tokens of a chunk: {behind} behind, {left} left, threshold {threshold}, two requests", got, equals=expected)


@concept("For a request that is alone the threshold does not count; others in flight may run or wait.", invariant="I1")
@cases(
    alone=([12], 8, ["a12"]),
    both_run=([12, 5], 8, ["a4 b4", "a4 b1", "a4 b1"]),
    the_other_waits=([12, 5], 1, ["a4", "a4", "a4"]),
    two_are_short=([1, 1, 12], 8, ["a1 b1 c4", "a1 b1 c4", "a1 b1 c4"]),
)
def test_alone_or_not(lab, case):
    lengths, seqs, steps = case
    scheduler = make(lab, seqs=seqs, long_prefill_token_threshold=4)
    for name, length in zip("abc", lengths):
        scheduler.add_request(make_request(lab, name, length))
    see = check(lab.draw.scheduler, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps of prompts of {lengths}, threshold 4, max_num_seqs {seqs}", got, equals=steps)


@concept("A request is admitted if the blocks for all that it knows are free now, to the last one.", invariant="I2")
@cases(
    just_fits=(16, 16, True, True),
    one_token_too_many=(17, 17, True, False),
    chunk_fits_but_not_the_rest=(17, 4, True, False),
    chunk_of_what_fits=(16, 4, True, True),
    switched_off_chunk_fits=(17, 4, False, True),
    switched_off_chunk_just_fits=(30, 16, False, True),
    switched_off_one_token_stays=(17, 16, False, True),
    switched_off_two_tokens_stay=(18, 16, False, True),
    switched_off_all_at_once=(16, 16, False, True),
    switched_off_chunk_too_large=(30, 17, False, False),
)
def test_the_whole_sequence_is_reserved(lab, case):
    length, num_tokens, reserve, expected = case
    scheduler = make(lab, blocks=4, reserve_full_sequence=reserve)
    request = make_request(lab, "a", length)
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler._may_admit(request, num_tokens, [])
    rule = "on" if reserve else "off"
    see(
        f"may {length} tokens begin with {num_tokens}, reservation {rule}, 4 blocks of 4 free",
        bool(got),
        equals=expected,
    )


@concept("Running requests hold their blocks: only the free ones count.", invariant="I2", illustrates=True)
@cases(fits=(8, True), too_large=(9, False))
def test_free_blocks_count(lab, case):
    length, expected = case
    scheduler = make(lab, blocks=4)
    scheduler.add_request(make_request(lab, "a", 7))
    lab.drive(scheduler)
    request = make_request(lab, "b", length)
    see = check(lab.draw.scheduler, scheduler)
    see(
        f"may {length} tokens begin, 2 blocks of 4 free",
        bool(scheduler._may_admit(request, length, [])),
        equals=expected,
    )


@concept("All that a request knows is reserved, its output with it; what it may still say is not.", invariant="I2")
@cases(prompt_fits=(3, 3, False), all_fits=(2, 2, True))
def test_output_is_reserved_too(lab, case):
    length, num_output, expected = case
    scheduler = make(lab, blocks=1)
    request = make_request(lab, "a", length, max_tokens=64)
    for _ in range(num_output):
        request.append_output_token(100)
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler._may_admit(request, 1, [])
    see(f"may a prompt of {length} with an output of {num_output} begin, 1 block of 4 free", bool(got), equals=expected)


@concept(
    "A cached block that a request holds costs nothing; one in the free queue costs one free block.", invariant="I3"
)
@cases(
    held=("a", 20, True),
    held_and_one_too_many=("a", 21, False),
    held_by_four=("acde", 20, True),
    free=("", 24, True),
    free_and_one_too_many=("", 25, False),
)
def test_cached_blocks(lab, case):
    holders, length, expected = case
    scheduler = make(lab, blocks=5 + len(holders[1:]) if holders else 6, caching=True)
    beginning = list(range(1000, 1008))
    for name in holders or "a":
        ending = [ord(name)] if name in holders[1:] else []
        scheduler.add_request(make_request(lab, name, beginning + ending, max_tokens=16 if holders else 1))
    lab.drive(scheduler)
    kv = scheduler.kv_cache_manager
    prompt = beginning + list(range(length - 8))
    b = make_request(lab, "b", prompt)
    hits, num_hit = kv.get_computed_blocks(b)
    see = check(lab.draw.scheduler, scheduler)
    see("tokens of b that are cached", num_hit, equals=8)
    got = scheduler._may_admit(b, length, hits)
    state = f"held by {' '.join(holders)}" if holders else "in the free queue"
    see(
        f"may b begin: {length} tokens, 8 of them {state}, {kv.num_free_blocks} blocks of 4 free",
        bool(got),
        equals=expected,
    )


@concept(
    "While a request runs, admission leaves a share of all blocks free; when none runs, it does not.", invariant="I4"
)
@cases(
    idle=(0, 36, True),
    one_runs=(1, 4, True),
    one_runs_too_many=(1, 24, False),
    two_run=(2, 4, True),
    two_run_too_many=(2, 20, False),
)
def test_the_watermark(lab, case):
    num_running, length, expected = case
    scheduler = make(lab, blocks=9, watermark=0.5)  # 10 blocks with the null block, 5 stay free
    for name in "ab"[:num_running]:
        scheduler.add_request(make_request(lab, name, 3))
    if num_running:
        lab.drive(scheduler)
    request = make_request(lab, "c", length)
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler._may_admit(request, length, [])
    see(f"may {length} tokens begin, 5 of 10 blocks are to stay free, {num_running} run", bool(got), equals=expected)


@concept("The watermark must be left over, also by a request that takes no block.", invariant="I4")
@cases(enough_left=(3, True), less_left=(5, False))
def test_a_request_that_takes_nothing(lab, case):
    spare, expected = case
    scheduler = make(lab, blocks=6, caching=True, watermark=(spare + 0.5) / 7, reserve_full_sequence=False)
    scheduler.add_request(make_request(lab, "a", list(range(8))))
    lab.drive(scheduler)
    b = make_request(lab, "b", list(range(9)))
    hits, _ = scheduler.kv_cache_manager.get_computed_blocks(b)
    see = check(lab.draw.scheduler, scheduler)
    got = bool(scheduler._may_admit(b, 8, hits))
    see(f"may b begin with 8 tokens, all in blocks that a holds; 4 are free, {spare} are to stay free", got, expected)


LARGE = far(1000)  # tenths of a large pool


@concept("The share is of all blocks, the null block with them, and counts whole blocks only.", invariant="I4")
@cases(
    of_all=(9, 0.3, 3, 6 - 1),
    rounded_down=(9, 0.39, 3, 6 - 1),
    less_than_a_block=(9, 0.09, 0, 8),
    of_usable_would_be_less=(19, 0.25, 5, 13),
    of_thousands=(10 * LARGE - 1, 0.5, 5 * LARGE, 5 * LARGE - 2),
)
def test_how_much_stays_free(lab, case):
    blocks, watermark, spare, most = case
    scheduler = make(lab, blocks=blocks, watermark=watermark)
    scheduler.add_request(make_request(lab, "a", 3))
    lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    for num_blocks, expected in ((most, True), (most + 1, False)):
        got = scheduler._may_admit(make_request(lab, "b", 4 * num_blocks), 4, [])
        what = f"may {num_blocks} blocks begin, watermark {watermark} of {blocks + 1} is {spare}, {blocks - 1} are free"
        see(what, bool(got), equals=expected)


@concept("The watermark applies to a chunk as well, where reservation is off.", invariant="I4", illustrates=True)
@cases(fits=(16, True), too_large=(17, False))
def test_watermark_without_reservation(lab, case):
    chunk, expected = case
    scheduler = make(lab, blocks=9, watermark=0.4, reserve_full_sequence=False)
    scheduler.add_request(make_request(lab, "a", 3))
    lab.drive(scheduler)
    request = make_request(lab, "b", 30)
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler._may_admit(request, chunk, [])
    see(f"may 30 tokens begin with {chunk}, 4 of 10 blocks stay free, 8 are free", bool(got), equals=expected)


@concept(
    "Each block of a hit has its own price: the held ones cost nothing, the free ones cost one each.", invariant="I3"
)
@cases(fits=(20, True), one_token_too_many=(21, False))
def test_a_hit_of_both_kinds(lab, case):
    length, expected = case
    scheduler = make(lab, blocks=6, caching=True)
    x = make_request(lab, "x", 12, max_tokens=1)
    scheduler.add_request(x)
    lab.drive(scheduler)
    scheduler.add_request(make_request(lab, "a", [*x.prompt_token_ids[:4], 7]))
    lab.drive(scheduler)
    b = make_request(lab, "b", [*x.prompt_token_ids, *range(length - 12)])
    hits, _ = scheduler.kv_cache_manager.get_computed_blocks(b)
    see = check(lab.draw.scheduler, scheduler)
    got = bool(scheduler._may_admit(b, length, hits))
    found = [block.block_id for block in hits]
    what = f"may b begin: {length} tokens, blocks {found} hit, one held by a; 4 blocks of 4 free"
    see(what, got, equals=expected)


@concept(
    "A price holds for the moment: the same question has another answer when a hit is held or let go.", invariant="I6"
)
def test_a_price_changes(lab):
    scheduler = make(lab, blocks=7, caching=True)
    kv = scheduler.kv_cache_manager
    x = make_request(lab, "x", 8, max_tokens=1)
    scheduler.add_request(x)
    lab.drive(scheduler)
    b = make_request(lab, "b", [*x.prompt_token_ids, *range(12)])
    same_beginning = [*x.prompt_token_ids, 5]
    for name, prompt, state, expected in (
        ("r", 9, "free", False),
        ("y", same_beginning, "held by y", True),
        ("s", 9, "free", False),
    ):
        scheduler.add_request(make_request(lab, name, prompt))
        lab.drive(scheduler)
        hits, _ = kv.get_computed_blocks(b)
        see = check(lab.draw.scheduler, scheduler)
        got = bool(scheduler._may_admit(b, 20, hits))
        what = f"may b begin: 20 tokens, 8 of them in blocks {[block.block_id for block in hits]}, which are {state}"
        see(f"{what}; {kv.num_free_blocks} blocks of 4 free", got, equals=expected)
        scheduler.abort_request(name)


@concept(
    "Asking changes nothing: not the request, not the lists, not the blocks of the hit or the order of the free ones.",
    invariant="I6",
)
@cases(yes=17, no=40)
def test_asking_changes_nothing(lab, case):
    scheduler = make(lab, blocks=6, caching=True)
    for name, length in (("x", 24), ("b", 8), ("a", 8)):  # what x leaves is taken from the last block on
        scheduler.add_request(make_request(lab, name, length, max_tokens=1))
        lab.drive(scheduler)
    request = make_request(lab, "c", [*(1000 * ord("b") + i for i in range(8)), *range(case - 8)])
    kv = scheduler.kv_cache_manager
    hits, _ = kv.get_computed_blocks(request)
    before = [block.block_id for block in hits], kv.free_block_ids()
    scheduler.add_request(make_request(lab, "w", 3))
    see = check(lab.draw.blocks, kv)
    request.num_cached_tokens, request.num_preemptions = 5, 2  # of its past
    scheduler._may_admit(request, case, hits)
    scheduler._clamp_new_tokens(case, 3)
    what = "status, num_computed_tokens, num_cached_tokens, num_preemptions and num_tokens of the request"
    numbers = [request.num_computed_tokens, request.num_cached_tokens, request.num_preemptions, request.num_tokens]
    see(what, [request.status.name, *numbers], equals=["WAITING", 0, 5, 2, case])
    see("who waits and who runs", [[r.request_id for r in scheduler.waiting], scheduler.running], equals=[["w"], []])
    see(
        "the blocks of the hit, and the free blocks in their order",
        ([b.block_id for b in hits], kv.free_block_ids()),
        equals=before,
    )


@concept(
    "The options are those of the moment: one that is changed between two questions counts from then on.",
    invariant="I6",
)
def test_an_option_is_changed(lab):
    scheduler = make(lab, blocks=9, long_prefill_token_threshold=4, watermark=0.5)
    for name in "ab":
        scheduler.add_request(make_request(lab, name, 3))
    lab.drive(scheduler)
    c = make_request(lab, "c", 20)
    see = check(lab.draw.scheduler, scheduler)
    for threshold, expected in ((4, 4), (2, 2), (0, 10), (7, 7)):
        scheduler.long_prefill_token_threshold = threshold
        got = scheduler._clamp_new_tokens(10, 64)
        see(f"tokens of a chunk: 10 behind, 64 left, two requests, threshold {threshold}", got, equals=expected)
    for spare, reserve, expected in (
        (5, True, False),
        (1, True, True),
        (5, True, False),
        (5, False, True),
        (5, True, False),
    ):
        scheduler.watermark, scheduler.num_watermark_blocks = spare / 10, spare
        scheduler.reserve_full_sequence = reserve
        got = bool(scheduler._may_admit(c, 4, []))
        rule = "on" if reserve else "off"
        what = f"may 20 tokens begin with 4, {spare} blocks of 4 to stay free, 7 are free, reservation {rule}"
        see(what, got, equals=expected)


@concept("A victim is reserved like a newcomer: all that it knows must fit.", invariant="I2")
@cases(fits=(16, True), one_token_too_many=(17, False))
def test_a_victim_is_reserved(lab, case):
    length, expected = case
    scheduler = make(lab, blocks=5)
    scheduler.add_request(make_request(lab, "a", 3))
    lab.drive(scheduler)
    b = make_request(lab, "b", length)
    b.status, b.num_preemptions = lab.RequestStatus.PREEMPTED, 1
    see = check(lab.draw.scheduler, scheduler)
    got = bool(scheduler._may_admit(b, 3, []))
    see(f"may b, which was preempted, begin again: {length} tokens, 4 blocks of 4 free", got, equals=expected)


@concept("The watermark holds for a victim as for a newcomer.", invariant="I4")
@cases(
    watermark=({"watermark": 0.4}, 9, False),
    both_hold=({"watermark": 0.4}, 8, True),
)
def test_a_victim_is_no_exception(lab, case):
    options, length, expected = case
    scheduler = make(lab, blocks=5, **options)
    for name, tokens in (("a", 3), ("b", length)):
        scheduler.add_request(make_request(lab, name, tokens))
    scheduler.max_num_batched_tokens = 3
    lab.drive(scheduler)
    b = scheduler.waiting[0]
    b.status, b.num_preemptions = lab.RequestStatus.PREEMPTED, 1
    see = check(lab.draw.scheduler, scheduler)
    got = bool(scheduler._may_admit(b, length, []))
    what = f"may b, which was preempted, begin again: {length} tokens, 4 blocks of 4 free, {options or 'no watermark'}"
    see(what, got, equals=expected)


@concept("A preempted request that waits is in flight like any other: the threshold holds.", invariant="I1")
def test_a_victim_is_company(lab):
    scheduler = make(lab, long_prefill_token_threshold=4)
    for name in "ab":
        scheduler.add_request(make_request(lab, name, 10))
    lab.drive(scheduler)
    scheduler._preempt(scheduler._pop_victim())
    see = check(lab.draw.scheduler, scheduler)
    see(
        "tokens of a chunk: 6 behind, 64 left, threshold 4, a runs and b was preempted",
        scheduler._clamp_new_tokens(6, 64),
        equals=4,
    )


def watch(scheduler, asked):
    """Note in `asked` each question to the two methods: (invariant, rule and state that decide, answer, law)."""
    kv, clamp, may_admit = scheduler.kv_cache_manager, scheduler._clamp_new_tokens, scheduler._may_admit

    def clamp_and_note(num_new_tokens, token_budget):
        answer = clamp(num_new_tokens, token_budget)
        threshold, num_others = (
            scheduler.long_prefill_token_threshold,
            len(scheduler.running) + len(scheduler.waiting) - 1,
        )
        within = min(num_new_tokens, token_budget)
        law = min(within, threshold) if threshold and num_others else within
        rule = "threshold" if threshold in (answer, law) else "budget"
        state = f"{num_new_tokens} behind, {token_budget} left of a budget of {scheduler.max_num_batched_tokens}"
        state += f", threshold {threshold}, others in flight: {num_others}"
        asked.append(("I1", f"the rule of the {rule}: how large is the chunk? {state}", answer, law))
        return answer

    def may_admit_and_note(request, num_tokens, computed_blocks):
        free, num_running = kv.num_free_blocks, len(scheduler.running)
        whole, spare = scheduler.reserve_full_sequence, scheduler.num_watermark_blocks
        needed, chunk, sequence = (
            kv.num_blocks_needed(request, reach, computed_blocks)
            for reach in (request.num_tokens if whole else num_tokens, num_tokens, request.num_tokens)
        )
        num_hits, num_free_hits = len(computed_blocks), sum(block.ref_cnt == 0 for block in computed_blocks)
        answer = bool(may_admit(request, num_tokens, computed_blocks))
        kept = spare if num_running else 0
        law = needed + kept <= free
        suspects = []
        if answer != law:  # what, taken otherwise, gives this answer?
            if spare and (law or needed <= free):
                suspects.append(("I4", "the watermark"))
            if (sequence + kept > free) if law else (chunk + kept <= free):
                suspects.append(("I2", f"the full-sequence reservation, which is {'on' if whole else 'off'}"))
            if (num_hits > num_free_hits) if law else (num_free_hits and needed - num_free_hits + kept <= free):
                suspects.append(("I3", "the price of a hit"))
        suspects = suspects or [("I2", "free blocks")]
        state = f"{request.num_tokens} tokens, of which the chunk reaches {num_tokens}; {num_hits} blocks hit, "
        state += f"{num_free_hits} of them free; {free} blocks of {kv.block_size} free, {spare} to stay free "
        state += f"if any run, {num_running} run"
        rules = " or ".join(rule for _, rule in suspects)
        asked.append((suspects[0][0], f"the rule of {rules}: may {request.request_id} begin? {state}", answer, law))
        return answer

    scheduler._clamp_new_tokens, scheduler._may_admit = clamp_and_note, may_admit_and_note


def plan_rules(rng):
    """Half of the walks are about one rule alone."""
    rules = {
        "reserve_full_sequence": (True, False),
        "watermark": (0.0, 0.2, 0.34, 0.5),
        "long_prefill_token_threshold": (0, 1, 2, 4),
    }
    only = rng.choice((*rules, None, None, None))
    return plan_world(rng, **{rule: values for rule, values in rules.items() if only in (rule, None)})


def play_rules(lab, calls):
    asked = []

    def make_watched(lab, **limits):
        scheduler = make_scheduler(lab, **limits)
        watch(scheduler, asked)
        return scheduler

    decided = {"admitted": "I2", "continued": "I1", "free": "I6"}
    for law, what, value, before, after in play_world(
        lab, calls, decided=decided, updated={"free": "I6"}, make=make_watched
    ):
        for rule, question, answer, _ in asked:
            yield rule, question, answer, before, after
        asked.clear()
        yield law, what, value, before, after


@concept(
    "In any run both rules answer from the state of the moment, whatever they answered before.",
    invariant="I2",
    searches=True,
)
def test_any_run(lab):
    walk(lab, plan_rules, play_rules, 60)


@concept(
    "Step for step, the rules answer so that the scheduler decides what vLLM 0.33.0 decided.",
    invariant="I5",
    illustrates=True,
)
@cases(
    threshold="long_prefill_217",
    threshold_with_preemption="no_caching_190",
    threshold_and_hits="tight_budget_009",
    watermark_of_small_blocks="watermark_057",
    watermark_and_chunks="watermark_289",
    reservation_off="chunk_reserve_223",
    shared_prefix="shared_prefix_243",
    reservation_of_hits="block_sizes_164",
    watermark_without_reservation="watermark_104",
    no_chunks="no_chunked_prefill_287",
    victim_ahead="priority_177",
    victim_was_listed="priority_directed_158",
    victim_is_itself="priority_prefill_276",
)
def test_recorded_steps(lab, case):
    trace = lab.read_trace(case)
    run = lab.ScenarioRun(trace)
    asked = []
    watch(run.scheduler, asked)
    for recorded in trace["steps"]:
        see = check(lab.draw.scheduler, run.scheduler)
        where = f"{case}, step {recorded['step']}"
        see.true(f"{where}: somebody is left to compute", not run.is_done(), "every request has ended")
        run.run_step()
        for rule, question, answer, law in asked:
            try:
                see(f"{where}: {question}", answer, equals=law)
            except LabFailure as failure:
                failure.invariant = rule
                raise
        asked.clear()
        step = run.recorder.steps[-1]
        see(f"{where}: its number", step["step"], equals=recorded["step"])
        see(f"{where}: who computes how many tokens", step["sched"], equals=recorded["sched"])
        see(f"{where}: who is preempted", step.get("preempted", []), equals=recorded.get("preempted", []))
        see(f"{where}: who waits", step.get("waiting", []), equals=recorded.get("waiting", []))
        see(f"{where}: how many blocks are free", step["free_sched"], equals=recorded["free_sched"])
