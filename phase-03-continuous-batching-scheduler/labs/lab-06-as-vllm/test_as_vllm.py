"""Lab 03.6: two rules in their fine print, by hand and against recorded steps of vLLM 0.33.0."""

from labkit import cases, check, concept


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


@concept("In company a chunk is cut by the threshold as well as by the budget.", invariant="I1")
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


@concept(
    "Alone a request has nobody to make room for: the threshold is not asked. Company may run or wait.", invariant="I1"
)
@cases(
    alone=([12], 8, ["a12"]),
    both_run=([12, 5], 8, ["a4 b4", "a4 b1", "a4 b1"]),
    the_other_waits=([12, 5], 1, ["a4", "a4", "a4"]),
)
def test_alone_or_not(lab, case):
    lengths, seqs, steps = case
    scheduler = make(lab, seqs=seqs, long_prefill_token_threshold=4)
    for name, length in zip("ab", lengths):
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


@concept("What runs holds its blocks: only the free ones count.", invariant="I2", illustrates=True)
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
    "A cached block that somebody holds costs nothing; one that lies in the free queue costs itself.", invariant="I3"
)
@cases(
    held=(True, 20, True),
    held_and_one_too_many=(True, 21, False),
    free=(False, 24, True),
    free_and_one_too_many=(False, 25, False),
)
def test_cached_blocks(lab, case):
    held, length, expected = case
    blocks = 5 if held else 6
    scheduler = make(lab, blocks=blocks, caching=True)
    a = make_request(lab, "a", 8, max_tokens=16 if held else 1)
    scheduler.add_request(a)
    lab.drive(scheduler)
    kv = scheduler.kv_cache_manager
    prompt = list(a.prompt_token_ids) + list(range(length - 8))
    b = make_request(lab, "b", prompt)
    hits, num_hit = kv.get_computed_blocks(b)
    see = check(lab.draw.scheduler, scheduler)
    see("tokens of b that are cached", num_hit, equals=8)
    got = scheduler._may_admit(b, length, hits)
    state = "held by a" if held else "in the free queue"
    see(
        f"may b begin: {length} tokens, 8 of them {state}, {kv.num_free_blocks} blocks of 4 free",
        bool(got),
        equals=expected,
    )


@concept(
    "While anything runs, admission leaves a share of all blocks free; with an idle engine it does not.", invariant="I4"
)
@cases(
    idle=(0, 36, True),
    just_above=(1, 12, True),
    one_token_too_many=(1, 13, False),
    two_run=(2, 8, True),
    two_run_one_token_too_many=(2, 9, False),
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


@concept("The share is of all blocks, the null block with them, and counts whole blocks only.", invariant="I4")
@cases(
    of_all=(9, 0.3, 3, 6 - 1),
    rounded_down=(9, 0.39, 3, 6 - 1),
    less_than_a_block=(9, 0.09, 0, 8),
    of_usable_would_be_less=(19, 0.25, 5, 13),
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


@concept("Step for step, the scheduler decides what vLLM 0.33.0 decided.", invariant="I5", illustrates=True)
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
    for recorded in trace["steps"]:
        see = check(lab.draw.scheduler, run.scheduler)
        where = f"{case}, step {recorded['step']}"
        see.true(f"{where}: somebody is left to compute", not run.is_done())
        run.run_step()
        step = run.recorder.steps[-1]
        see(f"{where}: its number", step["step"], equals=recorded["step"])
        see(f"{where}: who computes how many tokens", step["sched"], equals=recorded["sched"])
        see(f"{where}: who is preempted", step.get("preempted", []), equals=recorded.get("preempted", []))
        see(f"{where}: who waits", step.get("waiting", []), equals=recorded.get("waiting", []))
        see(f"{where}: how many blocks are free", step["free_sched"], equals=recorded["free_sched"])
