"""Lab 03.8: a scheduler that prefills or decodes, and a stream beside it."""

from labkit import cases, check, concept, far, walk


def make(
    lab, prompts=(), *, blocks=64, block_size=4, budget=64, seqs=8, max_tokens=16, caching=False, v1=False, **options
):
    """A scheduler with so many usable blocks, and its requests a, b, c ... one for each prompt."""
    manager = lab.KVCacheManager(blocks + 1, block_size, enable_prefix_caching=caching)
    policy = lab.Scheduler if v1 else lab.PrefillFirstScheduler
    limits = {"max_num_seqs": seqs, "max_num_batched_tokens": budget}
    scheduler = policy(manager, **limits, reserve_full_sequence=False, **options)
    requests = [add(lab, scheduler, name, prompt, max_tokens) for name, prompt in zip("abcdefgh", prompts)]
    return scheduler, requests


def add(lab, scheduler, name, prompt, max_tokens=16):
    """prompt: its tokens, or how many; then nobody else has them."""
    if isinstance(prompt, int):
        first = sum(ord(letter) * 1000**place for place, letter in enumerate(name, start=1))
        prompt = [first + position for position in range(prompt)]
    request = lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True))
    scheduler.add_request(request)
    return request


def plan(output):
    """The number of tokens that each request computes, in scheduling order: "a4 b2"."""
    return written(output.num_scheduled_tokens)


def turn(lab, scheduler):
    """A whole step, and what it computed."""
    return written(lab.drive(scheduler).scheduled)


def written(num_scheduled_tokens):
    return " ".join(f"{name}{n}" for name, n in num_scheduled_tokens.items())


def names(requests):
    return [request.request_id for request in requests]


def picture(lab, scheduler):
    """The limits of the scheduler, and where everybody is."""
    limits = f"budget {scheduler.max_num_batched_tokens}, max_num_seqs {scheduler.max_num_seqs}"
    if scheduler.charge_cached_tokens:
        limits += ", hits are charged"
    return f"{limits}, blocks of {scheduler.kv_cache_manager.block_size}\n{lab.draw.scheduler(scheduler)}"


def table(scheduler, request):
    return scheduler.kv_cache_manager.get_block_ids(request.request_id)


@concept("A prompt is computed in one step, with slots for all of it.", invariant="I2", illustrates=True)
@cases(one_short=(3, 4, 1), full=(4, 4, 1), one_more=(5, 4, 2), two_full=(8, 4, 2), blocks_of_1=(3, 1, 3))
def test_a_prompt_is_admitted(lab, case):
    length, block_size, num_blocks = case
    scheduler, (a,) = make(lab, [length], block_size=block_size)
    see = check(picture, lab, scheduler)
    output = scheduler.schedule()
    see("who computes how much", plan(output), equals=f"a{length}")
    see("scheduled_requests", names(output.scheduled_requests), equals=["a"])
    see("who was preempted", list(output.preempted_req_ids), equals=[])
    see("who waits", names(scheduler.waiting), equals=[])
    see("who runs", names(scheduler.running), equals=["a"])
    see("a's status", a.status.name, equals="RUNNING")
    see("a's computed tokens, which update_from_output moves", a.num_computed_tokens, equals=0)
    see("how many blocks a holds", len(table(scheduler, a)), equals=num_blocks)


@concept(
    "A step has prefills or decodes, never both: while prompts arrive that fit, no request decodes.",
    invariant="I1",
)
@cases(one_runs=1, two_run=2, four_run=4, seven_run=7)
def test_a_step_is_of_one_kind(lab, case):
    scheduler, requests = make(lab, [2] * case, seqs=16)
    see = check(picture, lab, scheduler)
    got = [turn(lab, scheduler), turn(lab, scheduler)]
    add(lab, scheduler, "x", 5)
    got.append(turn(lab, scheduler))
    add(lab, scheduler, "y", 1)
    got += [turn(lab, scheduler), turn(lab, scheduler)]
    ones = " ".join(f"{name}1" for name in names(requests))
    see(
        "five steps: x (5 tokens) comes before the third, y (1) before the fourth",
        got,
        equals=[ones.replace("1", "2"), ones, "x5", "y1", f"{ones} x1 y1"],
    )


@concept(
    "Prompts share a step while they fit whole; the first that does not is deferred to the next, and not cut.",
    invariant="I2",
)
@cases(
    all_fit=(9, "a3 b4 c2"),
    third_is_deferred=(8, "a3 b4"),
    just_two=(7, "a3 b4"),
    second_is_deferred=(6, "a3"),
    one_at_a_time=(4, "a3"),
)
def test_prompts_share_a_step(lab, case):
    budget, expected = case
    scheduler, _ = make(lab, [3, 4, 2], budget=budget)
    see = check(picture, lab, scheduler)
    see(f"the first step of prompts of 3, 4 and 2 tokens, budget {budget}", turn(lab, scheduler), equals=expected)


@concept("A deferred head is not refused: it keeps its place, and no request behind it passes.", invariant="I2")
@cases(
    by_the_budget=({"budget": 6}, [3, 4, 2], "a3", ["b4 c2", "a1 b1 c1"]),
    one_at_a_time=({"budget": 4}, [3, 4, 2], "a3", ["b4", "c2", "a1 b1 c1"]),
    by_the_blocks=({"blocks": 4}, [3, 13, 2], "a3", []),
)
def test_the_head_keeps_its_place(lab, case):
    options, prompts, first, following = case
    scheduler, (_, b, c) = make(lab, prompts, **options)
    see = check(picture, lab, scheduler)
    computed = turn(lab, scheduler)
    see("who waits after the first step, front first", names(scheduler.waiting), equals=["b", "c"])
    see("status of b and c", [b.status.name, c.status.name], equals=["WAITING", "WAITING"])
    see("blocks of b and c", [len(table(scheduler, r)) for r in (b, c)], equals=[0, 0])
    see(f"the first step of prompts of {prompts}: b does not fit, c behind it might", computed, equals=first)
    see("the steps behind it", [turn(lab, scheduler) for _ in following], equals=following)


@concept(
    "A queue is no reason to stand still: if no waiting request can be admitted, all running ones decode.",
    invariant="I1",
    illustrates=True,
)
@cases(
    no_block=(2, [5, 3], 0, ["a5", "a1", "a1", "a1", "b3"]),
    too_few_blocks=(3, [5, 8], 1, ["a5", "a1", "a1", "a1", "b8"]),
)
def test_nobody_fits_so_everybody_decodes(lab, case):
    blocks, prompts, free, steps = case
    scheduler, (_, b) = make(lab, prompts, blocks=blocks, max_tokens=4)
    see = check(picture, lab, scheduler)
    got = [turn(lab, scheduler)]
    see("who waits after the first step", names(scheduler.waiting), equals=["b"])
    see("b's status", b.status.name, equals="WAITING")
    see("how many blocks are free", scheduler.kv_cache_manager.num_free_blocks, equals=free)
    got += [turn(lab, scheduler) for _ in steps[1:]]
    see("the steps, a ends with the fourth", got, equals=steps)


@concept("max_num_seqs limits the running requests, not the new ones of a step.", invariant="I3")
@cases(
    one=(1, ["a1", "a1", "b1", "b1", "c1", "c1", ""]),
    two=(2, ["a1 b1", "a1 b1", "c1", "c1", ""]),
    three=(3, ["a1 b1 c1", "a1 b1 c1", ""]),
)
def test_only_so_many_run(lab, case):
    limit, steps = case
    scheduler, _ = make(lab, [1, 1, 1], seqs=limit, max_tokens=2)
    see = check(picture, lab, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps of three requests of two tokens each, max_num_seqs {limit}", got, equals=steps)


@concept("A step of decodes has a budget, too; a request that finds it empty is no part of the step.", invariant="I3")
def test_decodes_have_a_budget(lab):
    scheduler, _ = make(lab, [1, 1], budget=2, max_tokens=3, block_size=1)
    got = [turn(lab, scheduler)]
    c = add(lab, scheduler, "c", 1)
    see = check(picture, lab, scheduler)
    got.append(turn(lab, scheduler))
    output = scheduler.schedule()
    see("two steps, budget 2: a and b have a prompt of one token, then comes c", got, equals=["a1 b1", "c1"])
    see("who computes how much in the third", plan(output), equals="a1 b1")
    see("scheduled_requests", names(output.scheduled_requests), equals=["a", "b"])
    see("how many blocks c holds", len(table(scheduler, c)), equals=1)


@concept(
    "A prefix hit is a head start: only what is missing is computed, the rest is shared.",
    invariant="I2",
    illustrates=True,
)
@cases(
    less_than_a_block=(3, 4, 0),
    one_block_to_the_last_token=(4, 4, 0),
    one_block_and_a_token=(5, 4, 4),
    two_blocks_and_a_token=(9, 4, 8),
    blocks_of_3=(7, 3, 6),
)
def test_a_head_start(lab, case):
    length, block_size, hit = case
    scheduler, (a,) = make(lab, [length], block_size=block_size, caching=True, max_tokens=1)
    output = scheduler.schedule()
    shared = table(scheduler, a)[: hit // block_size]
    scheduler.update_from_output(output, {"a": [100]})
    b = add(lab, scheduler, "b", list(a.prompt_token_ids))
    see = check(picture, lab, scheduler)
    output = scheduler.schedule()
    see(f"who computes how much, {hit} of {length} tokens are cached", plan(output), equals=f"b{length - hit}")
    see("b's computed tokens", b.num_computed_tokens, equals=hit)
    see("the blocks that b shares", table(scheduler, b)[: hit // block_size], equals=shared)
    see("how many blocks b holds", len(table(scheduler, b)), equals=-(-length // block_size))


@concept(
    "Whether a prompt fits is asked of what must be computed: what the cache holds costs no budget.", invariant="I3"
)
def test_a_head_start_costs_nothing(lab):
    scheduler, (a,) = make(lab, [9], budget=9, caching=True, max_tokens=1)
    first = turn(lab, scheduler)
    add(lab, scheduler, "b", 3)
    add(lab, scheduler, "c", [*a.prompt_token_ids, 5])
    add(lab, scheduler, "d", 4)
    see = check(picture, lab, scheduler)
    see("the first step", first, equals="a9")
    see("who computes how much: of c's 10 tokens 8 are cached, budget 9", turn(lab, scheduler), equals="b3 c2 d4")


@concept(
    "A refused head is asked again in every step: what the others compute may be a hit of it, and then it fits.",
    invariant="I1",
)
def test_a_refusal_is_for_one_step(lab):
    scheduler, _ = make(lab, blocks=2, caching=True)
    add(lab, scheduler, "a", [0, 1, 2])
    got = [turn(lab, scheduler)]
    add(lab, scheduler, "b", [0, 1, 2, 100, 7])
    see = check(picture, lab, scheduler)
    got += [turn(lab, scheduler), turn(lab, scheduler)]
    see("three steps: b's first 4 tokens are those of a, which computes the fourth in step 2", got,
        equals=["a3", "a1", "b1"])  # fmt: skip
    see("the blocks of a and b", [table(scheduler, scheduler.running[i]) for i in (0, 1)], equals=[[1], [1, 2]])


@concept(
    "A refusal changes nothing: a request that does not fit is as it was, its head start not yet taken.", invariant="I2"
)
def test_a_refusal_changes_nothing(lab):
    scheduler, (x,) = make(lab, [8], blocks=6, caching=True, max_tokens=1)
    lab.drive(scheduler)
    add(lab, scheduler, "y", 4, max_tokens=1)
    lab.drive(scheduler)
    add(lab, scheduler, "b", 5, max_tokens=3)
    lab.drive(scheduler)
    c = add(lab, scheduler, "c", [*x.prompt_token_ids, *range(9)])
    kv = scheduler.kv_cache_manager
    free = kv.free_block_ids()
    see = check(picture, lab, scheduler)
    see("who computes how much: c hits 2 blocks and needs 3 more, 2 are free", turn(lab, scheduler), equals="b1")
    see("who waits", names(scheduler.waiting), equals=["c"])
    see("c's status", c.status.name, equals="WAITING")
    see("c's computed tokens", c.num_computed_tokens, equals=0)
    see("c's num_cached_tokens", c.num_cached_tokens, equals=0)
    see("c's blocks", table(scheduler, c), equals=[])
    see("free blocks, front first", kv.free_block_ids(), equals=free)
    see("tokens that c would find", kv.get_computed_blocks(c)[1], equals=8)


@concept(
    "A prompt longer than the budget is cut; no request is admitted or decodes until its end is computed.",
    invariant="I4",
    illustrates=True,
)
@cases(
    two_chunks=(9, ["b5", "b4", "a1 b1"]),
    three_chunks=(12, ["b5", "b5", "b2", "a1 b1"]),
    two_full_chunks=(10, ["b5", "b5", "a1 b1"]),
    one_token_is_left=(6, ["b5", "b1", "a1 b1"]),
)
def test_a_long_prompt_is_cut(lab, case):
    length, steps = case
    scheduler, _ = make(lab, [3], budget=5)
    lab.drive(scheduler)
    add(lab, scheduler, "b", length)
    see = check(picture, lab, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps: a has its prompt, b's has {length} tokens, budget 5", got, equals=steps)


@concept(
    "The end of a cut prompt leaves budget: requests that fit whole may join it, but none may pass it.",
    invariant="I4",
    illustrates=True,
)
@cases(
    fits_beside_the_end=(7, 3, ["a5", "a2 b3", "a1 b1"]),
    does_not_fit_beside_it=(7, 4, ["a5", "a2", "b4", "a1 b1"]),
    one_token_is_left=(6, 5, ["a5", "a1", "b5", "a1 b1"]),
    longer_than_the_budget=(7, 6, ["a5", "a2", "b5", "b1", "a1 b1"]),
)
def test_the_end_of_a_cut_prompt(lab, case):
    length, other, steps = case
    scheduler, _ = make(lab, [length, other], budget=5)
    see = check(picture, lab, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps of prompts of {length} and {other} tokens, budget 5", got, equals=steps)


@concept(
    "charge_cached_tokens: the budget pays for the whole prompt, and a long one is deferred though little is computed.",
    invariant="I3",
    illustrates=True,
)
@cases(one_short=(12, ["b3", "c2", "d4"]), just_enough=(13, ["b3 c2", "d4"]))
def test_a_hit_that_is_charged(lab, case):
    budget, steps = case
    scheduler, (a,) = make(lab, [9], budget=budget, caching=True, max_tokens=1, charge_cached_tokens=True)
    lab.drive(scheduler)
    add(lab, scheduler, "b", 3, max_tokens=1)
    add(lab, scheduler, "c", [*a.prompt_token_ids, 5], max_tokens=1)
    add(lab, scheduler, "d", 4, max_tokens=1)
    see = check(picture, lab, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps: of c's 10 tokens 8 are cached, budget {budget}", got, equals=steps)


@concept(
    "A hit is charged once, on admission, and cuts no prompt: alone, a prompt is cut by what it computes.",
    invariant="I3",
)
@cases(
    it_goes_on_for_nothing=(21, 9, 3, 1, ["c9", "c4 d3 e2", "c1 d1 e1"]),
    it_is_not_cut=(11, 9, 3, 1, ["c3", "d3 e2", "c1 d1 e1"]),
    larger_than_the_budget=(21, 5, 3, 1, ["c5", "c5", "c3", "d3 e2", "c1 d1 e1"]),
    no_token_more_fits=(11, 9, 1, 1, ["c3", "d1 e2", "c1 d1 e1"]),
    another_runs=(11, 8, 3, 16, ["c3", "d3 e2", "a1 c1 d1 e1"]),
    one_token_is_left=(9, 9, 1, 1, ["c1", "d1 e2", "c1 d1 e1"]),
)
def test_a_hit_is_charged_once(lab, case):
    length, budget, of_d, of_a, steps = case
    scheduler, (a,) = make(lab, [9], budget=9, caching=True, max_tokens=of_a, charge_cached_tokens=True)
    lab.drive(scheduler)
    scheduler.max_num_batched_tokens = budget
    add(lab, scheduler, "c", [*a.prompt_token_ids[:8], *range(length - 8)])
    add(lab, scheduler, "d", of_d)
    add(lab, scheduler, "e", 2)
    see = check(picture, lab, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps: of c's {length} tokens 8 are cached and charged", got, equals=steps)


@concept(
    "When blocks run out, the youngest gives way; the others decode as if it had never been there.", invariant="I5"
)
def test_the_youngest_gives_way(lab):
    scheduler, (_, _, c) = make(lab, [4, 3, 3], blocks=3)
    first = turn(lab, scheduler)
    add(lab, scheduler, "d", 2)
    see = check(picture, lab, scheduler)
    see("the first step, one block for each", first, equals="a4 b3 c3")
    output = scheduler.schedule()
    see("who is preempted, since a needs a second block", list(output.preempted_req_ids), equals=["c"])
    see("who computes how much", plan(output), equals="a1 b1")
    see("scheduled_requests", names(output.scheduled_requests), equals=["a", "b"])
    see("who runs", names(scheduler.running), equals=["a", "b"])
    see("who waits, front first", names(scheduler.waiting), equals=["c", "d"])
    see("c's status", c.status.name, equals="PREEMPTED")
    see("c's blocks", table(scheduler, c), equals=[])


@concept(
    "If no request is younger, a request is preempted itself; those before it keep what they have.", invariant="I5"
)
def test_at_last_itself(lab):
    scheduler, (a, b) = make(lab, [3, 4], blocks=2)
    lab.drive(scheduler)
    see = check(picture, lab, scheduler)
    output = scheduler.schedule()
    see("who is preempted, since b needs a second block", list(output.preempted_req_ids), equals=["b"])
    see("who computes how much", plan(output), equals="a1")
    see("who runs", names(scheduler.running), equals=["a"])
    see("who waits", names(scheduler.waiting), equals=["b"])
    see("blocks of a and b", [len(table(scheduler, r)) for r in (a, b)], equals=[1, 0])


@concept("Each one that finds no slot costs one victim, so a step may have several.", invariant="I5")
def test_each_shortage_costs_one(lab):
    scheduler, _ = make(lab, [4, 4, 3, 3], blocks=4)
    first = turn(lab, scheduler)
    see = check(picture, lab, scheduler)
    see("the first step, one block for each", first, equals="a4 b4 c3 d3")
    output = scheduler.schedule()
    see("who is preempted, since a and b need a second block", list(output.preempted_req_ids), equals=["d", "c"])
    see("who computes how much", plan(output), equals="a1 b1")
    see("who waits, front first", names(scheduler.waiting), equals=["c", "d"])


@concept(
    "A request that comes back prefills all that it knows, output included: the others wait for it.",
    invariant="I1",
    illustrates=True,
)
def test_a_victim_comes_back(lab):
    scheduler, _ = make(lab, blocks=3)
    add(lab, scheduler, "a", 1, max_tokens=3)
    add(lab, scheduler, "b", 3)
    c = add(lab, scheduler, "c", 2)
    steps = [lab.drive(scheduler) for _ in range(3)]
    see = check(picture, lab, scheduler)
    see("three steps", [written(step.scheduled) for step in steps], equals=["a1 b3 c2", "a1 b1 c1", "a1 b1"])
    see("who is preempted in step 3", steps[2].preempted, equals=["c"])
    output = scheduler.schedule()
    see("who computes how much: a has ended, c has a prompt of 2 and an output of 2", plan(output), equals="c4")
    see("c's status", c.status.name, equals="RUNNING")
    see("who runs", names(scheduler.running), equals=["b", "c"])


@concept(
    "A cut prompt that finds no block is preempted, and the running requests decode; it does not come back at once.",
    invariant="I5",
)
def test_a_cut_prompt_without_blocks(lab):
    """c needs more than a and b leave. Whether c begins and gives way, or waits until they have ended: all end."""
    scheduler, requests = make(lab, [1, 1, 10], blocks=4, budget=2, max_tokens=4)
    see = check(picture, lab, scheduler)
    for number in range(1, 40):
        both = set(names(scheduler.running)) >= {"a", "b"}
        scheduled = lab.drive(scheduler).scheduled
        if both and "c" not in scheduled:
            see(f"step {number}, budget 2: a and b run, and c does not compute", written(scheduled), equals="a1 b1")
    got = [len(request.output_token_ids) for request in requests]
    see("tokens that a, b and c have after 39 steps, of four each", got, equals=[4, 4, 4])


@concept(
    "A request that comes back may be cut, too: even past its prompt it is in prefill until it has caught up.",
    invariant="I4",
)
@cases(
    two=([1, 2], 7, ["a3", "a3", "a2", "b3", "b3", "b3", "a1 b1"]),
    its_prompt_was_cut=([4], 4, ["a3", "a3", "a1", "a1"]),
)
def test_a_victim_is_cut(lab, case):
    prompts, num_steps, steps = case
    scheduler, _ = make(lab, prompts, budget=3)
    for _ in range(num_steps):
        turn(lab, scheduler)
    see = check(picture, lab, scheduler)
    scheduler.fail_step(scheduler.schedule())
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps, budget 3: step {num_steps + 1} raises, and everybody gives way", got, equals=steps)


@concept(
    "One token short of what it was admitted with, a request is in prefill: no newcomer passes it.",
    invariant="I4",
    illustrates=True,
)
@cases(one_said=(2, 3), two_said=(3, 4))
def test_the_last_token_of_a_victim(lab, case):
    num_said, budget = case
    scheduler, _ = make(lab, [2], budget=budget)
    for _ in range(num_said):
        turn(lab, scheduler)
    see = check(picture, lab, scheduler)
    scheduler.fail_step(scheduler.schedule())
    got = [turn(lab, scheduler)]
    for name in "bc":
        add(lab, scheduler, name, budget + 1)
    got += [turn(lab, scheduler) for _ in range(6)]
    what = f"the steps, budget {budget}: a comes back with {budget + 1} tokens; b and c arrive after its first step"
    see(what, got, equals=[f"a{budget}", "a1", f"b{budget}", "b1", f"c{budget}", "c1", "a1 b1 c1"])


@concept("However many wait, all that fit are admitted; however many run, all that the budget pays for decode.",
         invariant="I1")  # fmt: skip
@cases(with_budget_for_all=(0, "who computes"), one_finds_it_empty=(1, "who computes, the last finds no budget"))
def test_a_crowd(lab, case):
    short, what = case
    num = far(200)
    scheduler, _ = make(lab, blocks=num, budget=num, seqs=num)
    everybody = [f"r{number}" for number in range(num)]
    for name in everybody:
        add(lab, scheduler, name, [7], max_tokens=4)
    see = check()
    got = list(lab.drive(scheduler).scheduled)
    see(f"who computes in the first step of {num} prompts of a token, budget {num}", got, equals=everybody)
    scheduler.max_num_batched_tokens = num - short
    got = list(lab.drive(scheduler).scheduled)
    see(f"{what}, in the second step", got, equals=everybody[: num - short])


@concept("Decodes go in the order of running, however much or little a request has said.", invariant="I3")
def test_decodes_go_in_order(lab):
    scheduler, _ = make(lab, [1, 1, 1], budget=3)
    lab.drive(scheduler)
    scheduler.max_num_batched_tokens = 2
    see = check(picture, lab, scheduler)
    turn(lab, scheduler)
    scheduler.fail_step(scheduler.schedule())
    got = [turn(lab, scheduler) for _ in range(5)]
    see("the steps, budget 2: a and b, which have said more, gave way and come back behind c", got,
        equals=["a2", "a1", "b2", "b1", "c1 a1"])  # fmt: skip


@concept(
    "A request that was preempted more often waits no less: the queue alone says whose turn it is.",
    invariant="I2",
)
def test_the_queue_says_whose_turn_it_is(lab):
    scheduler, _ = make(lab, [3])
    turn(lab, scheduler)
    add(lab, scheduler, "b", 4)
    for _ in range(2):
        scheduler.fail_step(scheduler.schedule())  # of b alone
    turn(lab, scheduler)
    scheduler.fail_step(scheduler.schedule())
    see = check(picture, lab, scheduler)
    see("who computes how much: b gave way three times, a in front of it once", turn(lab, scheduler), equals="a4 b5")


@concept("A refusal is of one request, and not of its name: the next one of that id is asked like any other.",
         invariant="I2")  # fmt: skip
def test_an_id_that_is_used_again(lab):
    scheduler, _ = make(lab, blocks=5, caching=True)
    add(lab, scheduler, "x", [*range(8)], max_tokens=1)
    lab.drive(scheduler)
    a = add(lab, scheduler, "a", 9)
    lab.drive(scheduler)
    add(lab, scheduler, "c", [*range(8), 20])
    see = check(picture, lab, scheduler)
    see("who computes how much: c hits two free blocks and needs one more, two are free", turn(lab, scheduler),
        equals="a1")  # fmt: skip
    scheduler.finish_request("c", "abort")
    add(lab, scheduler, "c", [*a.prompt_token_ids[:8], 20])
    see("who computes how much: the next c hits two blocks that a holds", turn(lab, scheduler), equals="c1")


@concept(
    "Two schedulers know nothing of each other, though their requests have the same names.",
    invariant="I4",
)
def test_two_schedulers(lab):
    schedulers = [make(lab, [length, 2], budget=5)[0] for length in (9, 12)]
    see = check(picture, lab, schedulers[1])
    got = [turn(lab, schedulers[i]) for i in (0, 1, 0, 0, 1, 1, 1, 0)]
    see("the steps of one: prompts of 9 and 2 tokens, budget 5", [got[i] for i in (0, 2, 3, 7)],
        equals=["a5", "a4", "b2", "a1 b1"])  # fmt: skip
    see("the steps of the other in between: prompts of 12 and 2", [got[i] for i in (1, 4, 5, 6)],
        equals=["a5", "a5", "a2 b2", "a1 b1"])  # fmt: skip


def is_decode(request, num_at_admission):
    """Whether it has computed all that it had when it was admitted, and all but one of what it has now."""
    return request.num_tokens - 1 == request.num_computed_tokens >= num_at_admission


@concept(
    "Whatever the sizes, every step is of one kind and keeps the limits, and all get their tokens.",
    invariant="I3",
    illustrates=True,
)
@cases(
    blocks_of_1=(1, 14, 5, 3),
    blocks_of_3=(3, 5, 4, 3),
    blocks_of_4=(4, 4, 64, 2),
    blocks_of_16=(16, 3, 7, 4),
    roomy=(4, 64, 64, 8),
)
def test_a_whole_run(lab, case):
    block_size, blocks, budget, seqs = case
    scheduler, requests = make(
        lab, [5, 1, 9, 4, 8], blocks=blocks, block_size=block_size, budget=budget, seqs=seqs, max_tokens=4
    )
    see = check(picture, lab, scheduler)
    at_admission = {}
    for _ in range(200):
        before = names(scheduler.running)
        output = scheduler.schedule()
        at_admission |= {r.request_id: r.num_tokens for r in scheduler.running if r.request_id not in before}
        decodes = [is_decode(r, at_admission[r.request_id]) for r in output.scheduled_requests]
        sampled = {}
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            held = len(table(scheduler, request)) * block_size
            name, end = request.request_id, request.num_computed_tokens + n
            see.between(f"slots of {name}, which has a place for each computed token", held, least=end)
            see.between(f"tokens that {name} will have computed, and knows", end, most=request.num_tokens)
            if end == request.num_tokens:
                sampled[request.request_id] = [100]
        is_one_kind = all(decodes) or not any(decodes)
        see.true("a step is a prefill or a decode", is_one_kind, f"both: {dict(output.num_scheduled_tokens)}")
        see.between("tokens of the step, within the budget", sum(output.num_scheduled_tokens.values()), most=budget)
        see.between("requests that run, with max_num_seqs", len(scheduler.running), most=seqs)
        scheduler.update_from_output(output, sampled)
    see("tokens that a to e got", [len(request.output_token_ids) for request in requests], equals=[4, 4, 4, 4, 4])
    see("how many blocks are free in the end", scheduler.kv_cache_manager.num_free_blocks, equals=blocks)


def stream_beside_arrivals(lab, num_steps, *, v1):
    """What a does, step by step, while a prompt of 16 tokens arrives in every step; and then without them."""
    scheduler, (a,) = make(lab, [4], blocks=256, budget=64, seqs=64, max_tokens=100, v1=v1)
    steps = []
    for step in range(num_steps):
        add(lab, scheduler, f"p{step}", 16, max_tokens=1)
        steps.append(lab.drive(scheduler).scheduled.get("a", 0))
    return scheduler, a, steps


@concept(
    "What it does to the others: one short prompt a step, and a stream stands still for as long as they come.",
    invariant="I1",
    illustrates=True,
)
def test_a_stream_beside_arrivals(lab):
    """Forty steps, a prompt of 16 tokens in each. Budget and blocks would be enough for a's token in every one."""
    scheduler, a, steps = stream_beside_arrivals(lab, 40, v1=False)
    see = check()
    see("what a computes in the first 10 of 40 steps", steps[:10], equals=[4, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    see("tokens that a has after 40 steps, its first one included", len(a.output_token_ids), equals=1)
    see("what a computes when nobody arrives any more", turn(lab, scheduler), equals="a1")
    _, b, steps = stream_beside_arrivals(lab, 40, v1=True)
    see(
        "V1, same arrivals: what the stream computes in the first 10 steps",
        steps[:10],
        equals=[4, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    )
    see("V1: tokens that the stream has after 40 steps", len(b.output_token_ids), equals=40)


# --- any calls ----------------------------------------------------------------------------------------------------


class World:
    """A scheduler, and what its blocks hold: a token for each slot, as the model writes it."""

    def __init__(self, lab, blocks=64, block_size=4, budget=64, seqs=8, **options):
        self.lab = lab
        self.scheduler, _ = make(lab, blocks=blocks, block_size=block_size, budget=budget, seqs=seqs, **options)
        self.kv, self.size, self.budget = self.scheduler.kv_cache_manager, block_size, budget
        self.slots, self.params, self.num_added, self.earlier, self.at_admission = {}, {}, 0, None, {}

    def add(self, name, length=1, shared=0, max_tokens=16):
        """A request whose first `shared` tokens are those of all others; nothing if there is one of that name."""
        if name in names([*self.scheduler.running, *self.scheduler.waiting]):
            return
        self.num_added += 1
        own = 1000 * self.num_added
        prompt = [position if position < shared else own + position for position in range(length)]
        params = self.params.get(max_tokens) or self.lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        self.params[max_tokens] = params
        self.scheduler.add_request(self.lab.Request(name, prompt, params))

    def is_left_open(self):
        """Whether a head may be cut that has blocks for its chunk alone: contract.md leaves open what comes of it."""
        head = next(iter(self.scheduler.waiting), None)
        return head and head.num_tokens > self.budget and -(-head.num_tokens // self.size) > self.kv.num_free_blocks

    def write(self, output):
        """What each request of the step reads when all have written, as (its id, whether it is its own tokens)."""
        said = []
        for request in output.scheduled_requests:
            start, n = request.num_computed_tokens, output.num_scheduled_tokens[request.request_id]
            for position, token in enumerate((request.prompt_token_ids + request.output_token_ids)[: start + n]):
                if position >= start:
                    self.slots[self.place(request, position)] = token
        for request in output.scheduled_requests:
            end = request.num_computed_tokens + output.num_scheduled_tokens[request.request_id]
            tokens = (request.prompt_token_ids + request.output_token_ids)[:end]
            said.append((request.request_id, tokens == [self.slots.get(self.place(request, i)) for i in range(end)]))
        return said

    def place(self, request, position):
        blocks = table(self.scheduler, request)
        return (blocks[position // self.size] if position // self.size < len(blocks) else None, position % self.size)

    def draw(self):
        return picture(self.lab, self.scheduler)

    def step(self, ends="", how=""):
        """What may be seen of a step. ends: who ends while the model runs, and how; with how = "raises" it fails."""
        scheduler, picture = self.scheduler, self.draw()
        yield "I2", "who runs, and who waits", (names(scheduler.running), names(scheduler.waiting)), picture
        behind = {r.request_id: r.num_tokens - r.num_computed_tokens for r in scheduler.running}
        decodes = {r.request_id for r in scheduler.running if is_decode(r, self.at_admission[r.request_id])}
        goes_on = behind.keys() - decodes
        earlier, output = self.earlier, scheduler.schedule()
        self.earlier = output
        self.at_admission |= {r.request_id: r.num_tokens for r in scheduler.running if r.request_id not in behind}
        what = "num_scheduled_tokens of the step before, looked at after the next schedule()"
        yield "I2", what, plan(earlier) if earlier else "", picture
        counts = dict(output.num_scheduled_tokens)
        yield "I3", "tokens of the step", within(sum(counts.values()), self.budget), picture
        yield "I3", "requests that run", within(len(scheduler.running), scheduler.max_num_seqs), picture
        kinds = sorted({"decode" if name in decodes else "prefill" for name in counts})
        yield "I1", "what the step is", " and ".join(kinds) or "nothing", picture
        yield "I5", "who is preempted", list(output.preempted_req_ids), picture
        is_cut = any(r.num_computed_tokens + counts[r.request_id] < r.num_tokens for r in output.scheduled_requests)
        law = "I4" if goes_on or is_cut else "I3" if scheduler.charge_cached_tokens else "I2"
        yield law if kinds == ["prefill"] else "I1", "who computes how much", plan(output), picture
        yield "I2", "scheduled_requests", names(output.scheduled_requests), picture
        yield "I2", "who runs, and who waits", (names(scheduler.running), names(scheduler.waiting)), picture
        everybody = [*scheduler.running, *scheduler.waiting]
        state = [(r.request_id, r.status.name, r.num_computed_tokens, len(table(scheduler, r))) for r in everybody]
        yield "I2", "(id, status, computed tokens, number of blocks) of everybody", state, picture
        deferred = [(r.request_id, r.num_cached_tokens) for r in scheduler.waiting if r.status.name == "WAITING"]
        yield "I2", "(id, num_cached_tokens) of those that were not admitted yet", deferred, picture
        yield "I2", "how many blocks are free", self.kv.num_free_blocks, picture
        yield "I2", "whether each finds its own tokens in its blocks", self.write(output), picture
        if ends in counts:
            scheduler.finish_request(ends, how)
        what = "num_scheduled_tokens and scheduled_requests, while the model runs"
        yield "I2", what, (plan(output), names(output.scheduled_requests)), picture
        if how == "raises":
            scheduler.fail_step(output)
            return
        sampled = {
            r.request_id: [[*r.prompt_token_ids, *r.output_token_ids][-1] + 1]
            for r in output.scheduled_requests
            if r.num_computed_tokens + counts[r.request_id] == r.num_tokens
        }
        scheduler.update_from_output(output, sampled)


def within(count, most):
    """Equal for all counts that keep to a limit."""
    return f"at most {most}" if count <= most else f"{count}, and {most} is the limit"


def plan_any(rng):
    """Budgets that cut prompts, or too few blocks, or both; one scheduler or two; ids are used again and again."""
    if rng.random() < 0.2:
        return plan_crowd(rng)
    cuts = rng.random() < 0.4
    is_scarce = not cuts or rng.random() < 0.1
    size, longest = rng.choice((1, 2, 3, 4)), 12 if cuts else rng.choice((5, 9))
    limits = {
        "blocks": -(-(longest + 3) // size) + rng.choice((0, 1, 2, 4)) if is_scarce else 64,
        "block_size": size,
        "budget": rng.choice((3, 5, 7)) if cuts else 64,
        "seqs": rng.choice((1, 2, 3, 4)),
        "caching": rng.random() < 0.8,
    }
    if rng.random() < (0.5 if cuts else 0.1):
        limits["charge_cached_tokens"] = True
    calls = [("PrefillFirstScheduler", limits)]
    worlds = rng.choice((("",), ("",), ("", "other_")))
    for _ in range(rng.randint(10, 30)):
        which, name, kind = rng.choice(worlds), rng.choice("abc"), rng.random()
        if kind < 0.35:
            length = rng.choice((1, 2, rng.randint(1, longest), rng.randint(longest // 2, longest)))
            shared = rng.choice((0, length // 2, length - 1, length))
            options = {"length": length, "shared": shared, "max_tokens": rng.choice((1, 1, 2, 3, 6))}
            calls.append((which + "add_request", name, options))
        elif kind < 0.4:
            calls.append((which + "finish_request", name, rng.choice(("stop", "length", "abort", "error"))))
        elif kind < 0.45:
            calls.append((which + "step_while_it_ends", name, rng.choice(("stop", "abort"))))
        elif kind < (0.55 if cuts else 0.49):
            calls.append((which + "step_that_raises",))
        else:
            calls.append((which + "step",))
    return calls


def plan_crowd(rng):
    """Many short prompts at once: steps with several victims, and with more who run than the budget has tokens."""
    limits = {
        "blocks": rng.choice((8, 10, 64)),
        "block_size": rng.choice((1, 2, 4)),
        "budget": rng.choice((4, 6, 16)),
        "seqs": 8,
        "caching": rng.random() < 0.5,
        "charge_cached_tokens": rng.random() < 0.3,
    }
    calls = [("PrefillFirstScheduler", limits)]
    for _ in range(rng.randint(12, 24)):
        if rng.random() < 0.5:
            options = {"length": rng.choice((1, 1, 2, 4)), "shared": rng.choice((0, 4)), "max_tokens": 6}
            calls.append(("add_request", rng.choice("abcdefgh"), options))
        else:
            calls.append(("step_that_raises",) if rng.random() < 0.1 else ("step",))
    return calls


def play_any(lab, calls):
    """add_request has an id, the length of the prompt, how many of its tokens all have in common, and max_tokens."""
    for call, *arguments in calls:
        name = call.removeprefix("other_")
        which = call.removesuffix(name)
        if name == "PrefillFirstScheduler":
            worlds, limits = {}, arguments[0]
            continue
        world = worlds[which] = worlds.get(which) or World(lab, **limits)
        if name == "add_request":
            world.add(arguments[0], **dict(*arguments[1:]))
        elif name == "finish_request":
            world.scheduler.finish_request(*arguments)
        elif world.is_left_open():
            return
        elif name == "step_that_raises":
            yield from world.step(how="raises")
        else:
            yield from world.step(*arguments)


@concept(
    "After any calls every step is the one that the rules make of them, and nothing that was given has changed.",
    invariant="I2",
    searches=True,
)
def test_any_calls(lab):
    walk(lab, plan_any, play_any, 150)
