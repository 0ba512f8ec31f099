"""Lab 03.3: who gives way, and what it gives back."""

from labkit import cases, check, concept, plan_world, play_world, walk


def make(lab, prompts, *, blocks=64, block_size=4, caching=True, max_tokens=16, seqs=8, **options):
    """A scheduler with so many usable blocks, and its requests a, b, c ... one for each length of a prompt."""
    manager = lab.KVCacheManager(blocks + 1, block_size, enable_prefix_caching=caching)
    scheduler = lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=64, **options)
    requests = [make_request(lab, name, length, max_tokens) for name, length in zip("abcdef", prompts)]
    for request in requests:
        scheduler.add_request(request)
    return scheduler, requests


def make_request(lab, name, prompt, max_tokens=16, **options):
    """prompt: its tokens, or how many; then nobody else has them."""
    if isinstance(prompt, int):
        prompt = [1000 * ord(name) + position for position in range(prompt)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True), **options)


def preempt_one(scheduler):
    victim = scheduler._pop_victim()
    scheduler._preempt(victim)
    return victim


def names(requests):
    return [request.request_id for request in requests]


@concept(
    "The youngest gives way: the last that was admitted, whatever the size, the time or the priority of the others.",
    invariant="I1",
    illustrates=True,
)
@cases(
    plain=[("a", 3, {}), ("b", 3, {}), ("c", 3, {})],
    the_last_is_the_largest=[("a", 1, {}), ("b", 3, {}), ("c", 17, {})],
    the_last_is_the_smallest=[("a", 9, {}), ("b", 17, {}), ("c", 1, {})],
    the_last_arrived_first=[
        ("c", 3, {"arrival_time": 3}),
        ("b", 3, {"arrival_time": 2}),
        ("a", 3, {"arrival_time": 1}),
    ],
    the_last_is_the_most_urgent=[("a", 3, {"priority": 9}), ("b", 3, {"priority": 5}), ("c", 3, {"priority": 0})],
    only_one=[("a", 3, {})],
)
def test_who_gives_way(lab, case):
    scheduler, _ = make(lab, [])
    for name, length, options in case:
        scheduler.add_request(make_request(lab, name, length, **options))
    lab.drive(scheduler)
    order = [name for name, _, _ in case]
    see = check(lab.draw.scheduler, scheduler)
    victim = scheduler._pop_victim()
    see(f"the victim, admitted in the order {' '.join(order)}", victim.request_id, equals=order[-1])
    see("who runs on", names(scheduler.running), equals=order[:-1])


def run_three(lab, last):
    """Requests c, a and b that run, in this order, and have said a word. last: what is special about b."""
    scheduler, _ = make(lab, [])
    for name in "cab":
        scheduler.add_request(make_request(lab, name, 9, **(last if name == "b" else {})))
    lab.drive(scheduler)
    return scheduler


@concept("A victim gives back every block, the one it has just begun too.", invariant="I2", illustrates=True)
@cases(one=(3, 4, 1), full=(4, 4, 1), two=(5, 4, 2), three=(9, 4, 3), blocks_of_1=(3, 1, 3), large=(5, 16, 1))
def test_every_block_comes_back(lab, case):
    length, block_size, held = case
    scheduler, _ = make(lab, [length], block_size=block_size)
    lab.drive(scheduler)
    kv = scheduler.kv_cache_manager
    free = kv.num_free_blocks
    see = check(lab.draw.scheduler, scheduler)
    preempt_one(scheduler)
    see("a's blocks", kv.get_block_ids("a"), equals=[])
    see(f"how many blocks are free, a held {held}", kv.num_free_blocks, equals=free + held)


@concept("The counter goes back to 0; what the request knows, its output included, stays.", invariant="I3")
@cases(in_its_prompt=0, after_one_token=1, after_five_tokens=5, after_two_hundred_tokens=200)
def test_tokens_stay(lab, case):
    scheduler, (a,) = make(lab, [5], max_tokens=400)
    if case == 0:
        scheduler.max_num_batched_tokens = 3
        lab.drive(scheduler)
    for _ in range(case):
        lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    preempt_one(scheduler)
    see("a's computed tokens", a.num_computed_tokens, equals=0)
    see("how many tokens a knows", a.num_tokens, equals=5 + case)
    see("how many tokens a's output has", len(a.output_token_ids), equals=case)
    see("a's output", a.output_token_ids, equals=[100] * case)
    see("how many tokens a's prompt has", len(a.prompt_token_ids), equals=5)


@concept("A victim stays what it is: its limits, its salt, its number, its time and its first hit.", invariant="I3")
@cases(once=(1, 0, 8), three_times=(3, 0, 8), twice_without_a_hit=(2, 50, 0))
def test_the_rest_stays(lab, case):
    times, first_token, hit = case
    scheduler, _ = make(lab, [])
    options = {"priority": 3, "arrival_time": 2.5, "cache_salt": "salt", "choice_index": 1}
    for name, start in (("x", 0), ("a", first_token)):
        prompt = [*range(start, start + 9)]
        scheduler.add_request(make_request(lab, name, prompt, max_tokens=20, **options))
        lab.drive(scheduler)
    a = scheduler.running[-1]
    params = a.sampling_params
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(times):
        for _ in range(3):
            lab.drive(scheduler)
        preempt_one(scheduler)
    kept = [a.max_tokens, a.num_prompt_tokens, a.priority, a.arrival_time, a.cache_salt, a.choice_index]
    what = f"a's max_tokens, num_prompt_tokens, priority, arrival_time, cache_salt and choice_index ({times} x)"
    see(what, kept, equals=[20, 9, 3, 2.5, "salt", 1])
    is_same = a.sampling_params is params
    see.true("a's sampling_params are those that it was added with", is_same, "another object")
    see("a's num_cached_tokens, the hit of its first admission", a.num_cached_tokens, equals=hit)


@concept("A salt may be an empty text, which is another one than none.", invariant="I3", illustrates=True)
@cases(empty="", none=None)
def test_the_salt_stays(lab, case):
    scheduler, _ = make(lab, [])
    scheduler.add_request(make_request(lab, "a", [1, 2, 3], cache_salt=case))
    lab.drive(scheduler)
    (a,) = scheduler.running
    see = check(lab.draw.scheduler, scheduler)
    preempt_one(scheduler)
    see("a's salt", a.cache_salt, equals=case)


@concept("A victim is marked as one that had begun: it is PREEMPTED, one time more.", invariant="I4")
@cases(nobody_waits=0, two_wait=2, many_wait=40)
def test_a_victim_is_marked(lab, case):
    scheduler, (a,) = make(lab, [5], seqs=1)
    for number in range(case):
        scheduler.add_request(make_request(lab, f"r{number}", [7]))
    see = check(lab.draw.scheduler, scheduler)
    for times in (1, 2, 3, 4, 5):
        if times == 1:
            scheduler.schedule()  # it has slots, and nothing is computed yet
        else:
            lab.drive(scheduler)
        preempt_one(scheduler)
        see(f"a's status, {case} others wait", a.status.name, equals="PREEMPTED")
        see("how often a was preempted", a.num_preemptions, equals=times)
    a.num_preemptions = 2**16 - 1
    lab.drive(scheduler)
    preempt_one(scheduler)
    see("how often a was preempted, the last time of very many", a.num_preemptions, equals=2**16)


@concept(
    "A victim goes before all that wait, and an older victim before a younger.",
    invariant="I4",
    illustrates=True,
)
@cases(after_a_token=True, before_anything_is_computed=False)
def test_a_victim_waits_in_front(lab, case):
    scheduler, _ = make(lab, [3, 3, 3, 3, 3], seqs=3)
    if case:
        lab.drive(scheduler)
    else:
        scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    preempt_one(scheduler)
    see("who waits, front first", names(scheduler.waiting), equals=["c", "d", "e"])
    preempt_one(scheduler)
    see("who waits after a second victim", names(scheduler.waiting), equals=["b", "c", "d", "e"])
    see("who runs", names(scheduler.running), equals=["a"])


@concept(
    "However many run, each victim is the last of those that are left, and goes before all that wait.", invariant="I1"
)
@cases(after_a_step=True, before_anything_is_computed=False)
def test_many_give_way(lab, case):
    scheduler, _ = make(lab, [], seqs=20)
    everybody = [f"r{number}" for number in range(20)]
    for name in (*everybody, "x", "y"):
        scheduler.add_request(make_request(lab, name, [7]))
    if case:
        lab.drive(scheduler)
    else:
        scheduler.schedule()
    see = check()
    for left in reversed(range(20)):
        preempt_one(scheduler)
        see(f"who runs after {20 - left} victims of 20", names(scheduler.running), equals=everybody[:left])
        see(
            f"who waits after {20 - left} victims of 20", names(scheduler.waiting), equals=[*everybody[left:], "x", "y"]
        )


@concept(
    "What was computed can still be found: until its blocks are taken, a victim gets them back as a hit.",
    invariant="I5",
)
@cases(one_block=(5, 4, 4), two_blocks=(9, 4, 8), blocks_of_1=(4, 1, 4), none=(3, 4, 0))
def test_what_was_computed_is_still_cached(lab, case):
    length, block_size, hit = case
    scheduler, (a,) = make(lab, [length], block_size=block_size)
    lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    preempt_one(scheduler)
    _, got = scheduler.kv_cache_manager.get_computed_blocks(a)
    see(f"tokens that a would find, {length} were computed in blocks of {block_size}", got, equals=hit)
    see("a's own counter", a.num_computed_tokens, equals=0)


@concept("What was only promised is withdrawn: blocks that this step was to fill must not be found.", invariant="I5")
@cases(blocks_of_4=4, blocks_of_3=3, blocks_of_1=1)
def test_what_was_not_computed_is_withdrawn(lab, case):
    scheduler, (a,) = make(lab, [17], block_size=case)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.schedule()  # 17 tokens have slots and hashes; they are never computed
    preempt_one(scheduler)
    _, got = scheduler.kv_cache_manager.get_computed_blocks(a)
    see("tokens that a would find, 17 were planned and none computed", got, equals=0)


@concept("A shared block stays with the others that hold it, and is free when the last one lets go.", invariant="I2")
def test_shared_blocks_stay(lab):
    scheduler, (a,) = make(lab, [9])
    lab.drive(scheduler)
    b = lab.Request("b", a.prompt_token_ids, lab.SamplingParams(max_tokens=4, ignore_eos=True))
    scheduler.add_request(b)
    lab.drive(scheduler)
    kv = scheduler.kv_cache_manager
    table, free = kv.get_block_ids("a"), kv.num_free_blocks
    see = check(lab.draw.scheduler, scheduler)
    preempt_one(scheduler)
    see("a's blocks", kv.get_block_ids("a"), equals=table)
    see("how many blocks came back: b shared two of its three", kv.num_free_blocks - free, equals=1)
    preempt_one(scheduler)
    see("how many blocks are free when a has given way, too", kv.num_free_blocks, equals=64)


@concept(
    "The place in running decides: not a request's past, not what is left to do, not what it would give back.",
    invariant="I1",
)
@cases(
    preempted_often="preempted often",
    almost_done="almost done",
    in_its_prompt="in its prompt",
    had_a_hit="had a hit",
    shares="shares its blocks",
    gave_way_before="gave way before",
    second_choice="is a second choice",
    nothing_is_computed="has computed nothing",
)
def test_only_the_place_counts(lab, case):
    special = {"almost done": {"max_tokens": 2}, "is a second choice": {"choice_index": 1}}
    scheduler = run_three(lab, special.get(case, {}))
    last = scheduler.running[-1]
    if case == "preempted often":
        last.num_preemptions = 300
    elif case == "in its prompt":
        preempt_one(scheduler)
        scheduler.max_num_batched_tokens = 6
        scheduler.abort_request("b")
        scheduler.add_request(make_request(lab, "b", 17))
        lab.drive(scheduler)
    elif case == "had a hit":
        last.num_cached_tokens = 8
    elif case == "shares its blocks":
        preempt_one(scheduler)
        scheduler.abort_request("b")
        prompt = scheduler.running[-1].prompt_token_ids
        scheduler.add_request(lab.Request("b", prompt, lab.SamplingParams(max_tokens=16)))
        lab.drive(scheduler)
    elif case == "has computed nothing":
        preempt_one(scheduler)
        scheduler.abort_request("b")
        scheduler.add_request(make_request(lab, "b", [7, 8, 9]))
        scheduler.schedule()
    elif case == "gave way before":
        preempt_one(scheduler)
        lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    see(f"the victim; c, a, b run in this order, and b {case}", scheduler._pop_victim().request_id, equals="b")
    see("who runs on", names(scheduler.running), equals=["c", "a"])


@concept(
    "Preemption costs time, never a token: every request ends, and the oldest is never preempted.",
    invariant="I4",
    illustrates=True,
)
@cases(with_cache=True, without_cache=False)
def test_everybody_ends(lab, case):
    scheduler, requests = make(lab, [3, 3, 3], blocks=3, max_tokens=6, caching=case, reserve_full_sequence=False)
    see = check(lab.draw.scheduler, scheduler)
    steps = 0
    while scheduler.has_unfinished_requests() and steps < 60:
        lab.drive(scheduler)
        steps += 1
    see("tokens that a, b and c got", [len(request.output_token_ids) for request in requests], equals=[6, 6, 6])
    see("how often the oldest was preempted", requests[0].num_preemptions, equals=0)
    see.between("preemptions of the last request: three blocks are not enough", requests[2].num_preemptions, least=1)


def plan_preemptions(rng):
    return plan_world(rng, rare=("finish", "fail", "preempt", "preempt"))


def play_preemptions(lab, calls):
    decided = {"preempted": "I1", "running": "I1", "waiting": "I4", "statuses": "I4", "preemptions": "I4"}
    decided |= {"computed": "I3", "known": "I3", "prompts": "I3", "blocks": "I2", "free": "I2", "hits": "I5"}
    return play_world(lab, calls, decided=decided, updated={"computed": "I3", "free": "I2"})


@concept(
    "In any run a victim is the last, gives back all but its tokens, and stands at the front of the queue.",
    invariant="I1",
    searches=True,
)
def test_any_run(lab):
    walk(lab, plan_preemptions, play_preemptions, 60)
