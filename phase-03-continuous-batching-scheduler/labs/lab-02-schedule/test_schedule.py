"""Lab 03.2: one step of the scheduler."""

from labkit import Options, cases, check, concept, far, plan_world, play_world, walk


def make(lab, prompts=(), *, blocks=64, block_size=4, budget=64, seqs=8, max_tokens=16, caching=False):
    """A scheduler with so many usable blocks, and its requests a, b, c ... one for each prompt."""
    manager = lab.KVCacheManager(blocks + 1, block_size, enable_prefix_caching=caching)
    scheduler = lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget, reserve_full_sequence=False)
    requests = [add(lab, scheduler, name, prompt, max_tokens) for name, prompt in zip("abcdef", prompts)]
    return scheduler, requests


def add(lab, scheduler, name, prompt, max_tokens=16, **options):
    """prompt: its tokens, or how many; then nobody else has them."""
    if isinstance(prompt, int):
        prompt = [1000 * ord(name) + position for position in range(prompt)]
    request = lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True), **options)
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


def table(scheduler, request):
    return scheduler.kv_cache_manager.get_block_ids(request.request_id)


@concept(
    "An admitted request goes from waiting to running, and holds slots for what it computes.",
    invariant="I3",
    illustrates=True,
)
@cases(
    one_short=(3, 4, 1), full=(4, 4, 1), one_more=(5, 4, 2), two_full=(8, 4, 2), blocks_of_1=(3, 1, 3), large=(3, 16, 1)
)
def test_a_prompt_is_admitted(lab, case):
    length, block_size, num_blocks = case
    scheduler, (a,) = make(lab, [length], block_size=block_size)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see("who computes how much", plan(output), equals=f"a{length}")
    see("scheduled_requests", names(output.scheduled_requests), equals=["a"])
    see("who was preempted", list(output.preempted_req_ids), equals=[])
    see("who waits", names(scheduler.waiting), equals=[])
    see("who runs", names(scheduler.running), equals=["a"])
    see("a's status", a.status.name, equals="RUNNING")
    see("how many blocks a holds", len(table(scheduler, a)), equals=num_blocks)


@concept(
    "Running requests compute first; a newcomer gets what they leave of the budget.", invariant="I1", illustrates=True
)
def test_running_comes_first(lab):
    scheduler, _ = make(lab, [2], budget=4)
    lab.drive(scheduler)
    add(lab, scheduler, "b", 5)
    see = check(lab.draw.scheduler, scheduler)
    got = [turn(lab, scheduler) for _ in range(3)]
    see("three steps: a decodes, b has a prompt of 5, budget 4", got, equals=["a1 b3", "a1 b2", "a1 b1"])


@concept(
    "All requests share one budget: it is spent in order, and a request that finds it empty goes on waiting.",
    invariant="I2",
    illustrates=True,
)
@cases(
    third_waits=(5, ["a3 b2", "a1 b2 c2", "a1 b1 c1"]),
    second_waits=(3, ["a3", "a1 b2", "a1 b2", "a1 b1 c1", "a1 b1 c1"]),
    just_enough=(9, ["a3 b4 c2", "a1 b1 c1"]),
)
def test_prompts_share_the_budget(lab, case):
    budget, steps = case
    scheduler, _ = make(lab, [3, 4, 2], budget=budget)
    see = check(lab.draw.scheduler, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps of prompts of 3, 4 and 2 tokens, budget {budget}", got, equals=steps)


@concept(
    "Running requests are served in order of admission, however far each of them is behind, and keep this order.",
    invariant="I1",
    illustrates=True,
)
@cases(the_first=("a", "a3 b1 c1"), the_middle=("b", "a1 b3 c1"), the_last=("c", "a1 b1 c3"))
def test_the_order_of_admission_stays(lab, case):
    name, expected = case
    scheduler, _ = make(lab, [1, 1, 1])
    output = scheduler.schedule()
    scheduler.update_from_output(output, {"a": [100], "b": [100], "c": [100], name: [100, 101, 102]})
    see = check(lab.draw.scheduler, scheduler)
    see(f"who computes how much, {name} is 3 tokens behind, the others 1", plan(scheduler.schedule()), equals=expected)
    see("who runs, in order of admission", names(scheduler.running), equals=["a", "b", "c"])


@concept("A request that gets no token is not in the step: it keeps its place and takes no block.", invariant="I2")
def test_an_empty_budget(lab):
    scheduler, (_, b) = make(lab, [1, 1], budget=2, block_size=1)
    output = scheduler.schedule()
    scheduler.update_from_output(output, {"a": [100, 101], "b": [100]})  # a is 2 tokens behind, b is 1
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see("who computes how much, a 2 behind, b 1 behind, budget 2", plan(output), equals="a2")
    see("scheduled_requests", names(output.scheduled_requests), equals=["a"])
    see("who runs", names(scheduler.running), equals=["a", "b"])
    see("how many blocks b holds", len(table(scheduler, b)), equals=1)


@concept(
    "No new block is no refusal: [] says that the slots are there already, and only None that blocks are too few.",
    invariant="I4",
    illustrates=True,
    nearest=True,
)
def test_no_new_block_is_no_refusal(lab):
    scheduler, _ = make(lab, [1])
    lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    what = "who is preempted when a computes its second token, for which its block has a slot"
    see(what, list(scheduler.schedule().preempted_req_ids), equals=[])


@concept("max_num_seqs limits how many requests run, not how many are new in a step.", invariant="I2")
@cases(
    one=(1, ["a1", "a1", "b1", "b1", "c1", "c1", ""]),
    two=(2, ["a1 b1", "a1 b1", "c1", "c1", ""]),
    three=(3, ["a1 b1 c1", "a1 b1 c1", ""]),
)
def test_only_so_many_run(lab, case):
    limit, steps = case
    scheduler, _ = make(lab, [1, 1, 1], seqs=limit, max_tokens=2)
    see = check(lab.draw.scheduler, scheduler)
    got = [turn(lab, scheduler) for _ in steps]
    see(f"the steps of three requests of two tokens each, max_num_seqs {limit}", got, equals=steps)


@concept(
    "schedule() only decides; the counter of a request moves when the step is over.", invariant="I5", illustrates=True
)
def test_the_counters_stand_still(lab):
    scheduler, (a,) = make(lab, [5], budget=3)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see("a's computed tokens after the first schedule()", a.num_computed_tokens, equals=0)
    scheduler.update_from_output(output, {})
    scheduler.schedule()
    see("a's computed tokens after the second schedule()", a.num_computed_tokens, equals=3)


@concept(
    "A place that becomes free is taken in the next step; no request waits for the whole batch to end.",
    invariant="I3",
    illustrates=True,
)
def test_a_free_place_is_taken_at_once(lab):
    scheduler, _ = make(lab, [2], seqs=2)
    add(lab, scheduler, "b", 2, max_tokens=1)
    add(lab, scheduler, "c", 3)
    see = check(lab.draw.scheduler, scheduler)
    got = [turn(lab, scheduler) for _ in range(3)]
    see("three steps of max_num_seqs 2, b ends in the first", got, equals=["a2 b2", "a1 c3", "a1 c1"])
    see("who runs, in order of admission", names(scheduler.running), equals=["a", "c"])


@concept(
    "When blocks run out, the youngest gives way; the others compute as if it had never been there.", invariant="I4"
)
def test_the_youngest_gives_way(lab):
    scheduler, (_, _, c) = make(lab, [4, 3, 3], blocks=3)
    see_plan = turn(lab, scheduler)
    see = check(lab.draw.scheduler, scheduler)
    see("the first step, one block for each", see_plan, equals="a4 b3 c3")
    output = scheduler.schedule()
    see("who is preempted, since a needs a second block", list(output.preempted_req_ids), equals=["c"])
    see("who computes how much", plan(output), equals="a1 b1")
    see("scheduled_requests", names(output.scheduled_requests), equals=["a", "b"])
    see("who runs", names(scheduler.running), equals=["a", "b"])
    see("who waits", names(scheduler.waiting), equals=["c"])
    see("c's blocks", table(scheduler, c), equals=[])


@concept(
    "If no running request is younger, a request gives way itself; those before it keep what they have.",
    invariant="I4",
    illustrates=True,
)
@cases(a_decode=(4, 64), inside_its_prompt=(8, 5))
def test_the_youngest_may_be_the_one_that_asks(lab, case):
    length, budget = case
    scheduler, (a, b) = make(lab, [3, length], blocks=2, budget=budget)
    lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see("who is preempted, since b needs a second block", list(output.preempted_req_ids), equals=["b"])
    see("who computes how much", plan(output), equals="a1")
    see("who runs", names(scheduler.running), equals=["a"])
    see("who waits", names(scheduler.waiting), equals=["b"])
    see("blocks of a and b", [len(table(scheduler, r)) for r in (a, b)], equals=[1, 0])


@concept(
    "One victim may not be enough: each refusal preempts one more, until the request has its slots.", invariant="I4"
)
@cases(two=3, five=6, hundreds=far(200))
def test_several_give_way(lab, case):
    scheduler, _ = make(lab, blocks=case, block_size=1, budget=case, seqs=case)
    *others, last = [*"abcdef", *(f"r{number}" for number in range(6, case))][:case]
    for name in (*others, last):
        add(lab, scheduler, name, [7], max_tokens=1000)
    num_tokens = case - 1
    output = scheduler.schedule()
    sampled = {name: [100] for name in (*others, last)} | {"a": [100] * num_tokens}
    scheduler.update_from_output(output, sampled)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    what = f"who is preempted, in this order: a is {num_tokens} tokens behind, the others 1, no block of 1 is free"
    see(what, list(output.preempted_req_ids), equals=[last, *reversed(others[1:])])
    see("who computes how much", plan(output), equals=f"a{num_tokens}")
    see("who runs", names(scheduler.running), equals=["a"])
    see("who waits", names(scheduler.waiting), equals=[*others[1:], last])


@concept(
    "Each request without slots preempts one; those that still run behind it compute in the same step.", invariant="I1"
)
@cases(two=("abcde", "abc", "ed"), three=("abcdefg", "abcd", "gfe"), four=("abcdefghi", "abcde", "ihgf"))
def test_several_shortages_in_a_step(lab, case):
    everybody, left, victims = case
    scheduler, _ = make(lab, blocks=len(everybody), block_size=2, seqs=len(everybody))
    for name in everybody:
        add(lab, scheduler, name, 1 if name == left[-1] else 2)
    lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see("who is preempted, in this order", list(output.preempted_req_ids), equals=list(victims))
    what = f"who computes how much: {' '.join(left[:-1])} need a second block each, {left[-1]} has room in its first"
    see(what, plan(output), equals=" ".join(f"{name}1" for name in left))
    see("who runs", names(scheduler.running), equals=list(left))


@concept(
    "A request that runs alone is preempted itself when blocks are short, and that step admits no request.",
    invariant="I4",
)
@cases(nobody_waits="", one_waits="b", three_wait="bcd")
def test_one_that_is_alone_gives_way(lab, case):
    scheduler, (a,) = make(lab, [4], blocks=2, budget=4)
    lab.drive(scheduler)
    other = lab.Request("x", [1, 2], lab.SamplingParams())
    scheduler.kv_cache_manager.allocate_slots(other, 2)  # blocks that nobody in running holds
    for name in case:
        add(lab, scheduler, name, 1)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see(
        "who is preempted: a runs alone, and somebody outside of running has the last block",
        list(output.preempted_req_ids),
        equals=["a"],
    )
    see("who computes how much", plan(output), equals="")
    see("who runs", names(scheduler.running), equals=[])
    see("who waits", names(scheduler.waiting), equals=["a", *case])
    see("a's blocks", table(scheduler, a), equals=[])


@concept(
    "An admitted request stands last in running; so does a victim that comes back, however often it gave way.",
    invariant="I3",
)
@cases(newcomer=0, once=1, twice=2, five_times=5)
def test_admitted_means_last_in_running(lab, case):
    scheduler, _ = make(lab, [3, 3, 3])
    lab.drive(scheduler)
    for _ in range(case):
        scheduler._preempt(scheduler._pop_victim())
        lab.drive(scheduler)
    if not case:
        add(lab, scheduler, "d", 3)
        lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    what = f"who runs, in order of admission; c gave way and came back {case} times"
    see(what, names(scheduler.running), equals=["a", "b", "c"] if case else ["a", "b", "c", "d"])


HUNDREDS = far(400)


@concept(
    "All that wait are admitted in one step if budget, blocks and max_num_seqs have room for them.", invariant="I3"
)
@cases(
    twelve=(12, 12, 12), forty=(40, 40, 40), as_many_as_may_run=(40, 33, 33), hundreds=(HUNDREDS, HUNDREDS, HUNDREDS)
)
def test_a_crowd_is_admitted(lab, case):
    num, seqs, expected = case
    scheduler, _ = make(lab, blocks=max(64, num), budget=max(64, num), seqs=seqs)
    everybody = [f"r{number}" for number in range(num)]
    for name in everybody:
        add(lab, scheduler, name, [7])
    see = check()
    output = scheduler.schedule()
    see(
        f"who computes, {num} wait, max_num_seqs {seqs}", list(output.num_scheduled_tokens), equals=everybody[:expected]
    )
    see("who runs", names(scheduler.running), equals=everybody[:expected])
    see("who waits", names(scheduler.waiting), equals=everybody[expected:])
    if num == HUNDREDS:
        scheduler.update_from_output(output, {name: [100] for name in everybody})
        output = scheduler.schedule()
        see("who computes in the next step", list(output.num_scheduled_tokens), equals=everybody)


@concept(
    "A step that had to preempt admits no request; in the next step the victim may come back.",
    invariant="I4",
    illustrates=True,
)
def test_no_admission_beside_a_preemption(lab):
    scheduler, _ = make(lab, [3, 9], blocks=3, budget=5)
    first = [turn(lab, scheduler) for _ in range(2)]
    see = check(lab.draw.scheduler, scheduler)
    see("two steps of prompts of 3 and 9, budget 5", first, equals=["a3 b2", "a1 b4"])
    step = lab.drive(scheduler)
    see("who is preempted in step 3, since a needs a second block", step.preempted, equals=["b"])
    see(
        "who computes in step 3, with one block free and 4 tokens of the budget left",
        written(step.scheduled),
        equals="a1",
    )
    see("who computes in step 4", turn(lab, scheduler), equals="a1 b4")


@concept("While the head of the queue does not fit, those behind it wait too, so it cannot starve.", invariant="I3")
def test_the_head_of_the_queue_comes_first(lab):
    scheduler, _ = make(lab, [2], blocks=4, max_tokens=2)
    lab.drive(scheduler)
    add(lab, scheduler, "b", 16)  # needs all four blocks
    add(lab, scheduler, "c", 2)  # would fit now
    see = check(lab.draw.scheduler, scheduler)
    see("who computes while a holds a block", turn(lab, scheduler), equals="a1")
    see("who waits", names(scheduler.waiting), equals=["b", "c"])
    see("who computes when a is done", turn(lab, scheduler), equals="b16")


@concept(
    "A prefix hit is a head start: only what is missing is computed, the rest of the table is shared.", invariant="I3"
)
@cases(
    less_than_a_block=(3, 4, 0),
    one_block_to_the_last_token=(4, 4, 0),
    one_block_and_a_token=(5, 4, 4),
    two_blocks_to_the_last_token=(8, 4, 4),
    two_blocks_and_a_token=(9, 4, 8),
    blocks_of_1=(3, 1, 2),
    blocks_of_3=(7, 3, 6),
)
def test_a_head_start(lab, case):
    length, block_size, hit = case
    scheduler, (a,) = make(lab, [length], block_size=block_size, caching=True, max_tokens=1)
    output = scheduler.schedule()
    tables = table(scheduler, a)
    scheduler.update_from_output(output, {"a": [100]})
    b = add(lab, scheduler, "b", list(a.prompt_token_ids))
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see(f"who computes how much, {hit} of {length} tokens are cached", plan(output), equals=f"b{length - hit}")
    see("b's computed tokens", b.num_computed_tokens, equals=hit)
    see(
        "the blocks that b shares with what a left",
        table(scheduler, b)[: hit // block_size],
        equals=tables[: hit // block_size],
    )
    see("how many blocks b holds", len(table(scheduler, b)), equals=-(-length // block_size))


@concept("What the cache holds costs no budget.", invariant="I2")
@cases(two_blocks=(4, 8, "b5 c1"), nine_blocks=(1, 9, "b4 c2"))
def test_a_head_start_costs_nothing(lab, case):
    block_size, hit, expected = case
    scheduler, (a,) = make(lab, [9], block_size=block_size, budget=6, caching=True, max_tokens=1)
    got = [turn(lab, scheduler) for _ in range(2)]
    add(lab, scheduler, "b", [*a.prompt_token_ids, 5, 6, 7, 8])
    add(lab, scheduler, "c", 4)
    see = check(lab.draw.scheduler, scheduler)
    see("two steps of a prompt of 9, budget 6", got, equals=["a6", "a3"])
    what = f"who computes how much, {hit} of b's 13 tokens are cached in blocks of {block_size}, budget 6"
    see(what, turn(lab, scheduler), equals=expected)


@concept(
    "A refusal changes nothing: the request that does not fit keeps its counter, its status and its place.",
    invariant="I3",
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
    see = check(lab.draw.scheduler, scheduler)
    see("who computes how much: c hits 2 blocks and needs 3 more, 2 are free", turn(lab, scheduler), equals="b1")
    see("who waits", names(scheduler.waiting), equals=["c"])
    see("c's status", c.status.name, equals="WAITING")
    see("c's computed tokens", c.num_computed_tokens, equals=0)
    see("c's blocks", table(scheduler, c), equals=[])
    see("free blocks, front first", kv.free_block_ids(), equals=free)
    see("tokens that c would find", kv.get_computed_blocks(c)[1], equals=8)


@concept(
    "Only the manager knows whether there is room: it may keep more blocks than the prompt takes, and its None counts.",
    invariant="I3",
)
def test_none_is_believed(lab):
    scheduler, _ = make(lab, [3, 2])
    kv = scheduler.kv_cache_manager
    allocate_slots, kv.allocate_slots = kv.allocate_slots, lambda request, num_new_tokens, computed_blocks=(): None
    see = check(lab.draw.scheduler, scheduler)
    see("who computes when allocate_slots returns None", plan(scheduler.schedule()), equals="")
    see("running", names(scheduler.running), equals=[])
    see("waiting", names(scheduler.waiting), equals=["a", "b"])
    kv.allocate_slots = allocate_slots
    see("who computes when it gives slots again", plan(scheduler.schedule()), equals="a3 b2")


@concept("A victim that comes back computes all that it knows again, its own output included.", invariant="I5")
def test_a_victim_comes_back(lab):
    scheduler, (_, b) = make(lab, [3, 3], blocks=2, max_tokens=3)
    steps = [lab.drive(scheduler) for _ in range(3)]
    see = check(lab.draw.scheduler, scheduler)
    see("three steps", [written(step.scheduled) for step in steps], equals=["a3 b3", "a1 b1", "a1"])
    see("who is preempted in step 3", steps[2].preempted, equals=["b"])
    output = scheduler.schedule()
    see("who computes how much: b has a prompt of 3 and an output of 2", plan(output), equals="b5")
    see("b's status", b.status.name, equals="RUNNING")
    see("who runs", names(scheduler.running), equals=["b"])


@concept(
    "Whatever the sizes, every step keeps the limits and every request gets all its tokens.",
    invariant="I2",
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
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(100):
        output = scheduler.schedule()
        sampled = {}
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            held = len(table(scheduler, request)) * block_size
            name, end = request.request_id, request.num_computed_tokens + n
            see.between(f"slots of {name}, which has a place for each computed token", held, least=end)
            see.between(f"tokens that {name} will have computed, and knows", end, most=request.num_tokens)
            if end == request.num_tokens:
                sampled[request.request_id] = [100]
        see.between("tokens of the step, within the budget", sum(output.num_scheduled_tokens.values()), most=budget)
        see.between("requests that run, with max_num_seqs", len(scheduler.running), most=seqs)
        scheduler.update_from_output(output, sampled)
    see("tokens that a to e got", [len(request.output_token_ids) for request in requests], equals=[4, 4, 4, 4, 4])
    see("how many blocks are free in the end", scheduler.kv_cache_manager.num_free_blocks, equals=blocks)


@concept(
    "The cache is asked when a request stands at the head: those admitted before it may have changed the answer.",
    invariant="I3",
)
@cases(same_prompt=(5, 5, "a5 b1"), longer=(4, 9, "a4 b5"), shorter=(12, 6, "a12 b2"))
def test_a_hit_on_the_one_before(lab, case):
    first, second, expected = case
    scheduler, _ = make(lab, [list(range(first)), list(range(second))], caching=True)
    see = check(lab.draw.scheduler, scheduler)
    what = f"who computes how much: b's {second} tokens begin like a's {first}, blocks of 4"
    see(what, plan(scheduler.schedule()), equals=expected)


@concept("A newcomer gets free blocks only: no running request is preempted for it.", invariant="I3")
def test_the_head_takes_no_room(lab):
    scheduler, _ = make(lab, [3, 3], blocks=4)
    lab.drive(scheduler)
    add(lab, scheduler, "c", 9)
    see = check(lab.draw.scheduler, scheduler)
    step = lab.drive(scheduler)
    see("who is preempted: c needs 3 blocks, 2 are free", step.preempted, equals=[])
    see("who computes how much", written(step.scheduled), equals="a1 b1")
    see("who waits", names(scheduler.waiting), equals=["c"])


@concept(
    "The order of admission decides in running, the order of the queue in waiting; names, times and priorities do not.",
    invariant="I1",
)
def test_first_come_first_served(lab):
    scheduler, _ = make(lab, budget=6)
    for number, name in enumerate("cba"):
        add(lab, scheduler, name, 4, arrival_time=9.0 - number, priority=3 - number)
    see = check(lab.draw.scheduler, scheduler)
    got = [turn(lab, scheduler) for _ in range(3)]
    what = "three steps of prompts of 4, budget 6; c was added first, b and a arrived earlier and are more urgent"
    see(what, got, equals=["c4 b2", "c1 b2 a3", "c1 b1 a1"])


@concept("What schedule() returned stays as it was, whatever the next steps decide.", invariant="I6")
def test_an_output_stays(lab):
    scheduler, _ = make(lab, [2], max_tokens=8)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    scheduler.update_from_output(output, {"a": [100]})
    add(lab, scheduler, "b", 3)
    lab.drive(scheduler)
    see("what the first step computes, looked at after the second", plan(output), equals="a2")
    see("scheduled_requests of the first step, after the second", names(output.scheduled_requests), equals=["a"])


@concept(
    "A victim that was aborted leaves nothing behind: the next request of its name has a turn in every step.",
    invariant="I1",
)
def test_the_next_one_of_the_name(lab):
    scheduler, _ = make(lab, [3, 3], blocks=2, budget=6, max_tokens=3)
    steps = [lab.drive(scheduler) for _ in range(3)]
    scheduler.abort_request("b")
    add(lab, scheduler, "b", 7)
    see = check(lab.draw.scheduler, scheduler)
    see("who is preempted in step 3, in which a ends", steps[2].preempted, equals=["b"])
    got = [turn(lab, scheduler) for _ in range(3)]
    see("the next steps: b was aborted, and a new b has a prompt of 7, budget 6", got, equals=["b6", "b1", "b1"])


def plan_steps(rng):
    """Every third walk is one of a crowd, in which several give way in a step; some are preempted between steps."""
    rare = rng.choice((("finish", "late"), ("finish", "late", "preempt", "preempt")))
    if rng.random() < 0.67:
        return plan_world(rng, rare=rare)
    limits = {
        "max_num_seqs": (8, 12),
        "max_num_batched_tokens": (12, 64),
        "num_blocks": (9, 11, 14),
        "block_size": (1, 2),
    }
    world, *calls = plan_world(rng, rare=rare, tokens=((1,), (2,), (1, 3)), **limits)
    crowd = [("add", name, Options(prompt=rng.randint(1, 3), max_tokens=16)) for name in "kihgf"]
    return [world, *crowd, *calls]


def play_steps(lab, calls):
    """What a step decides: who gives way, what the others compute, who is admitted, and the state in which it ends."""
    decided = {"preempted": "I4", "continued": "I1", "admitted": "I3", "scheduled": "I2", "running": "I3"}
    decided |= {"waiting": "I3", "statuses": "I3", "computed": "I5", "blocks": "I3", "free": "I3", "earlier": "I6"}
    return play_world(lab, calls, decided=decided, updated={"outputs": "I5", "free": "I3"})


@concept(
    "In any run a step follows from the two lists, the free blocks and the budget, and from no step before.",
    invariant="I1",
    searches=True,
)
def test_any_run(lab):
    walk(lab, plan_steps, play_steps, 90)
