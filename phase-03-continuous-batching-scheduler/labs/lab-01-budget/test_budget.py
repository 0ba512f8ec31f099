"""Lab 03.1: the size of a chunk, and who emits a token."""

from labkit import Options, cases, check, concept, plan_world, play_world, walk


def make(lab, budget, prompts, max_tokens=4, blocks=64, seqs=8):
    """A scheduler over a roomy cache, with one request a, b, c ... for each length of a prompt."""
    scheduler = lab.Scheduler(lab.KVCacheManager(blocks, 4), max_num_seqs=seqs, max_num_batched_tokens=budget)
    params = lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    requests = [lab.Request(name, [7] * n, params, cache_salt=name) for name, n in zip("abcdef", prompts)]
    for request in requests:
        scheduler.add_request(request)
    return scheduler, requests


def turn(scheduler):
    """One step: whoever should sample gets a token, as the engine would do it. Returns who got one."""
    output = scheduler.schedule()
    speakers = [
        r for r in output.scheduled_requests if scheduler.needs_sample(r, output.num_scheduled_tokens[r.request_id])
    ]
    scheduler.update_from_output(output, {request.request_id: [100] for request in speakers})
    return [request.request_id for request in speakers]


@concept("A chunk is as large as it can be: all that is missing, or all that the budget has left.", invariant="I1")
@cases(
    less=(3, 8, 3),
    one_less=(7, 8, 7),
    equal=(8, 8, 8),
    one_more=(9, 8, 8),
    more=(20, 8, 8),
    odd=(20, 7, 7),
    all_of_a_long_prompt=(900, 1000, 900),
    all_of_a_very_long_prompt=(1_000_000, 2_000_000, 1_000_000),
    much_of_a_very_long_prompt=(2_000_000, 1_000_000, 1_000_000),
)
def test_a_chunk_is_the_smaller_of_two(lab, case):
    num_new_tokens, budget, expected = case
    scheduler, _ = make(lab, 8, [4])
    see = check()
    got = scheduler._clamp_new_tokens(num_new_tokens, budget)
    see(f"tokens of a chunk, {num_new_tokens} behind and {budget} left of the budget", got, equals=expected)


@concept("What others took of the budget is gone; when nothing is left, the chunk is empty.", invariant="I1")
@cases(some_left=(20, 3, 3), one_left=(20, 1, 1), nothing_left=(20, 0, 0), nothing_left_for_a_decode=(1, 0, 0))
def test_only_the_rest_of_the_budget_counts(lab, case):
    num_new_tokens, left, expected = case
    scheduler, _ = make(lab, 8, [4])
    see = check()
    got = scheduler._clamp_new_tokens(num_new_tokens, left)
    see(f"tokens of a chunk, {num_new_tokens} behind and {left} left of a budget of 8", got, equals=expected)


@concept("The budget alone cuts a long prompt; the next request gets what its last chunk leaves.", invariant="I1")
@cases(
    uneven=(4, [10], ["a4", "a4", "a2"]),
    even=(4, [8], ["a4", "a4"]),
    one_by_one=(1, [3], ["a1", "a1", "a1"]),
    at_once=(64, [5], ["a5"]),
    two_in_line=(4, [6, 3], ["a4", "a2 b2", "a1 b1"]),
)
def test_a_prompt_is_cut_into_chunks(lab, case):
    budget, lengths, steps = case
    scheduler, _ = make(lab, budget, lengths)
    see = check(lab.draw.scheduler, scheduler)
    got = [" ".join(f"{name}{n}" for name, n in lab.drive(scheduler).scheduled.items()) for _ in steps]
    see(f"who computes how much in each step, prompts of {lengths}, budget {budget}", got, equals=steps)


@concept("An inner chunk predicts a token that is known already; only the one that catches up samples.", invariant="I2")
@cases(
    first_of_two=(10, 0, 4, False),
    one_token_short=(10, 0, 9, False),
    inner_of_one_token=(10, 4, 1, False),
    last_of_two=(10, 8, 2, True),
    last_of_one_token=(10, 9, 1, True),
    whole_prompt=(10, 0, 10, True),
    prompt_of_one_token=(1, 0, 1, True),
    long_prompt=(300, 0, 300, True),
    last_of_a_long_one=(300, 280, 20, True),
)
def test_who_samples(lab, case):
    length, computed, scheduled, expected = case
    scheduler, (request,) = make(lab, 64, [length], blocks=80)
    request.num_computed_tokens = computed
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler.needs_sample(request, scheduled)
    see(
        f"needs_sample: {computed} of {length} tokens are computed, {scheduled} more scheduled",
        bool(got),
        equals=expected,
    )


@concept(
    "What was generated counts as known: a decode is one token behind, and samples.", invariant="I2", illustrates=True
)
@cases(first_decode=1, second_decode=2, fifth_decode=5)
def test_a_decode_samples(lab, case):
    scheduler, (request,) = make(lab, 64, [5])
    for _ in range(case):
        request.append_output_token(77)
    request.num_computed_tokens = request.num_tokens - 1
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler.needs_sample(request, 1)
    see(f"needs_sample of a decode, {case} tokens generated and the last one scheduled", bool(got), equals=True)


@concept("A preempted request computes its own output again, and samples only when that is done.", invariant="I2")
@cases(
    inside_the_prompt=(0, 3, False),
    prompt_only=(0, 5, False),
    all_but_the_last=(0, 7, False),
    prompt_and_output=(0, 8, True),
    inside_the_output=(5, 2, False),
    rest_of_the_output=(5, 3, True),
)
def test_a_request_that_comes_back_samples_after_its_output(lab, case):
    computed, scheduled, expected = case
    scheduler, (request,) = make(lab, 64, [5])
    for token in (70, 71, 72):
        request.append_output_token(token)
    request.num_computed_tokens = computed
    see = check(lab.draw.scheduler, scheduler)
    got = scheduler.needs_sample(request, scheduled)
    see(f"needs_sample: prompt 5, output 3, {computed} computed, {scheduled} scheduled", bool(got), equals=expected)


def plan_chunks(rng):
    """A crowd over a pool that may be full, and for some chunks how far behind, and how much of the budget is left."""
    numbers = (0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 100, 1000, 10_000, 100_000, 10_000_000)
    crowd = Options(prompts=[rng.randint(1, 5) for _ in range(rng.randint(0, 6))], steps=rng.randint(0, 3))
    crowd |= {"budget": rng.choice((16, 16, 5000)), "blocks": rng.choice((4, 8, 8)), "seqs": rng.choice((1, 3, 8, 8))}
    calls = [("crowd", crowd)]
    return calls + [("_clamp_new_tokens", rng.choice(numbers), rng.choice(numbers)) for _ in range(6)]


def play_chunks(lab, calls):
    for name, *arguments in calls:
        if name == "crowd":
            crowd = dict(arguments[0])
            steps = crowd.pop("steps")
            scheduler, _ = make(lab, **crowd)
            for _ in range(steps):
                lab.drive(scheduler)
        else:
            before = lab.draw.scheduler(scheduler)
            behind, left = arguments
            what = f"tokens of a chunk, {behind} behind and {left} left of the budget"
            yield "I1", what, scheduler._clamp_new_tokens(behind, left), before, ""


@concept(
    "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget.",
    invariant="I1",
    searches=True,
)
def test_any_chunk(lab):
    walk(lab, plan_chunks, play_chunks, 50)


def plan_counters(rng):
    """Some requests as they are in the middle of their lives; an id may be used again."""
    calls = [("scheduler",)]
    for _ in range(5):
        prompt, output = rng.randint(1, 9), rng.choice((0, 0, 1, 2, 5))
        computed = rng.choice((0, rng.randrange(prompt + output), prompt + output - 1))
        behind = prompt + output - computed
        scheduled = rng.choice((behind, behind, rng.randint(1, behind), max(1, behind - 1)))
        options = Options(prompt=prompt, output=output, num_computed_tokens=computed, scheduled=scheduled)
        options |= {"num_cached_tokens": rng.randint(0, prompt), "num_preemptions": rng.randint(0, 2)}
        options |= {"choice_index": rng.choice((0, 0, 1)), "priority": rng.choice((0, 0, -1, 3))}
        calls.append(("needs_sample", rng.choice("ba"), options))
    return calls


def play_counters(lab, calls):
    scheduler, _ = make(lab, 64, [])
    for call, *arguments in calls:
        if call == "scheduler":
            continue
        name, options = arguments[0], dict(*arguments[1:])
        asked_for = {key: options[key] for key in ("choice_index", "priority") if key in options}
        request = lab.Request(name, [7] * options.get("prompt", 1), lab.SamplingParams(max_tokens=64), **asked_for)
        for token in range(options.get("output", 0)):
            request.append_output_token(token)
        behind = request.num_tokens - options.get("num_computed_tokens", 0)
        if behind < 1:
            continue
        request.num_computed_tokens = options.get("num_computed_tokens", 0)
        request.num_cached_tokens = options.get("num_cached_tokens", 0)
        request.num_preemptions = options.get("num_preemptions", 0)
        scheduled = min(behind, options.get("scheduled", behind))
        what = f"needs_sample: {request.num_computed_tokens} of {request.num_tokens} computed, {scheduled} scheduled"
        yield "I2", what, bool(scheduler.needs_sample(request, scheduled))
        yield "I2", "num_computed_tokens after needs_sample", request.num_computed_tokens


@concept(
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already.",
    invariant="I2",
    searches=True,
)
def test_any_counters(lab):
    walk(lab, plan_counters, play_counters, 40)


@concept("Chunking changes when tokens come, never how many.", invariant="I2", illustrates=True)
@cases(budget_1=1, budget_3=3, budget_7=7, budget_64=64)
def test_every_budget_gives_every_token(lab, case):
    scheduler, requests = make(lab, case, [9, 1, 6], max_tokens=3)
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(40):
        turn(scheduler)
    see(f"tokens that a, b and c got, budget {case}", [len(r.output_token_ids) for r in requests], equals=[3, 3, 3])


def play_steps(lab, calls):
    return play_world(lab, calls, decided={"scheduled": "I1"}, updated={"sampled": "I2", "computed": "I2"})


@concept(
    "In any run chunks are as large as the budget lets them be, and those that catch up sample.",
    invariant="I1",
    searches=True,
)
def test_any_run(lab):
    walk(lab, lambda rng: plan_world(rng, policy=("fcfs", "fcfs", "priority")), play_steps, 40)
