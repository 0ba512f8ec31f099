"""Lab 03.13: your parts as one engine, beside the reference's and beside steps recorded from vLLM 0.33.0."""

from labkit import cases, check, concept, far, walk


def make(lab, *, blocks=64, block_size=4, budget=64, seqs=8, caching=True, **options):
    """A scheduler with so many usable blocks; the null block comes on top."""
    manager = lab.KVCacheManager(blocks + 1, block_size, enable_prefix_caching=caching)
    return lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget, **options)


def make_request(lab, name, prompt, max_tokens=16, priority=0, arrival_time=0.0, salt=None):
    """prompt: a text, of which each letter is a token; or how many tokens, and then nobody else has them."""
    tokens = [1000 * ord(name) + i for i in range(prompt)] if isinstance(prompt, int) else [ord(c) for c in prompt]
    params = lab.SamplingParams(max_tokens=max_tokens, ignore_eos=False)
    more = {"priority": priority, "arrival_time": arrival_time, "cache_salt": salt, "eos_token_ids": (ord("e"),)}
    return lab.Request(name, tokens, params, **more)


def written(num_scheduled_tokens):
    """The number of tokens that each request computes, in scheduling order: "a4 b2"."""
    return " ".join(f"{name}{n}" if name.isalpha() else f"{name}: {n}" for name, n in num_scheduled_tokens.items())


def names(requests):
    return [request.request_id for request in requests]


# --- drop ---------------------------------------------------------------------------------------------------------


@concept(
    "A dropped request is in neither the list nor the counts of the step; the others keep their order.", invariant="I1"
)
@cases(
    first=("z", "z a p"),
    middle=("z", "a z p"),
    last=("z", "a p z"),
    alone=("z", "z"),
    a_beginning_of_other_names=("1", "10 1 a1"),
)
def test_drop(lab, case):
    victim, members = case
    output = lab.SchedulerOutput()
    requests = {name: make_request(lab, name, "abc") for name in members.split()}
    for number, (name, request) in enumerate(requests.items(), start=4):
        output.add(request, 9 if name == victim else number)
    see = check(lambda: f"in the step: {written(output.num_scheduled_tokens)}")
    see(f"the tokens that come back when {victim} leaves, of {members}", output.drop(requests[victim]), equals=9)
    rest = [name for name in requests if name != victim]
    see("who is in the list", names(output.scheduled_requests), equals=rest)
    see("who is in the counts", list(output.num_scheduled_tokens), equals=rest)


@concept("Most victims were not in the step: to drop one changes nothing and gives nothing back.", invariant="I1")
@cases(empty="", others="ab")
def test_drop_of_somebody_else(lab, case):
    output = lab.SchedulerOutput()
    for name in case:
        output.add(make_request(lab, name, 3), 3)
    z = make_request(lab, "z", 3)
    see = check(lambda: f"in the step: {written(output.num_scheduled_tokens)}")
    see("the tokens that come back when z leaves, which is not in the step", output.drop(z), equals=0)
    see("who is in the list", names(output.scheduled_requests), equals=list(case))
    see("who is in the counts", list(output.num_scheduled_tokens), equals=list(case))


# --- running: who gives way, and who has had its turn ---------------------------------------------------------------


def crowd(lab, members, *, policy="priority", budget=64):
    """They run in this order, each one token behind, and every block is held. members: "a0 b9! c0".

    The number is the priority. A request with a ! has filled its blocks, and lacks one for the next token.
    """
    members = members.split()
    scheduler = make(lab, policy=policy, blocks=2 * len(members), caching=False)
    for number, member in enumerate(members):
        computed = 8 if member.endswith("!") else 6
        length = computed - (len(members) - 1 - number)  # those before it have a step more for each that is behind
        request = make_request(lab, member[0], length, priority=int(member[1]), arrival_time=number / 8)
        scheduler.add_request(request)
        lab.drive(scheduler)
    scheduler.max_num_batched_tokens = budget
    return scheduler


@concept(
    "Under priority the victim may be in this step already: it leaves the step, and those behind get its tokens.",
    invariant="I2",
)
@cases(
    the_first=("a9 b0 c0! d0", 3, "a", "b1 c1 d1"),
    in_the_middle=("a0 b9 c0! d0", 3, "b", "a1 c1 d1"),
    and_no_more_than_these=("a9 b0 c0! d0 e0", 3, "a", "b1 c1 d1"),
    with_budget_for_all=("a9 b0 c0! d0", 64, "a", "b1 c1 d1"),
)
def test_a_victim_that_is_in_the_step(lab, case):
    members, budget, victim, computes = case
    scheduler = crowd(lab, members, budget=budget)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    about = f"of {members} (their priorities, ! lacks a block), budget {budget}"
    see(f"who is preempted {about}", list(output.preempted_req_ids), equals=[victim])
    see(f"who computes how much {about}", written(output.num_scheduled_tokens), equals=computes)
    see(f"who is in the list of the step {about}", names(output.scheduled_requests), equals=list(computes[::3]))


@concept(
    "A request that ran when the step began has its turn, whichever requests leave before or behind it.", invariant="I3"
)
@cases(
    a_victim_behind=("priority", "a0! b9 c0", "b", "a1 c1"),
    a_victim_before=("priority", "a9 b0! c0 d0", "a", "b1 c1 d1"),
    the_asker_itself=("priority", "a0 b9! c0", "b", "a1 c1"),
    the_first_itself=("priority", "a9! b0! c0", "a", "b1 c1"),
    the_last_itself=("priority", "a0 b0 c9!", "c", "a1 b1"),
    one_after_the_other=("priority", "a8! b9! c0! d0! e7! f0!", "ba", "c1 d1 e1 f1"),
    two_that_are_behind=("priority", "a0! b0! c0! d8 e9", "ed", "a1 b1 c1"),
    first_come=("fcfs", "a0! b0 c0", "c", "a1 b1"),
    first_come_the_last_itself=("fcfs", "a0 b0 c0!", "c", "a1 b1"),
)
def test_everybody_has_its_turn(lab, case):
    policy, members, victims, computes = case
    scheduler = crowd(lab, members, policy=policy)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    about = f"of {members} (their priorities, ! lacks a block), {policy}"
    see(f"who is preempted {about}", list(output.preempted_req_ids), equals=list(victims))
    see(f"who computes how much {about}", written(output.num_scheduled_tokens), equals=computes)
    see(
        f"who runs afterwards {about}",
        names(scheduler.running),
        equals=[m[0] for m in members.split() if m[0] not in victims],
    )


@concept("However many tokens a victim was to compute, all of them come back.", invariant="I2")
def test_a_large_chunk_comes_back(lab):
    num = far(200)
    scheduler = make(lab, policy="priority", blocks=-(-(4 + num) // 4) + 3, budget=num + 100, caching=False)
    for name, length, priority in (("a", 3, 9), ("b", 8, 0), ("c", 3, 0)):
        scheduler.add_request(make_request(lab, name, length, max_tokens=2000, priority=priority))
        if name == "a":
            lab.drive(scheduler)
    scheduler.update_from_output(scheduler.schedule(), {"a": [100] * num, "b": [100], "c": [100] * num})
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    about = f"a, of priority 9, and c are {num} tokens behind, b lacks a block; budget {num + 100}"
    see(f"who is preempted: {about}", list(output.preempted_req_ids), equals=["a"])
    see(f"who computes how much: {about}", written(output.num_scheduled_tokens), equals=f"b1 c{num}")


@concept("However many run, each has its turn.", invariant="I3")
@cases(fcfs="fcfs", priority="priority")
def test_a_crowd_has_its_turns(lab, case):
    num = far(200)
    scheduler = make(lab, policy=case, blocks=num, seqs=num, budget=num)
    everybody = [f"r{number}" for number in range(num)]
    for number, name in enumerate(everybody):
        scheduler.add_request(lab.Request(name, [7], lab.SamplingParams(max_tokens=9), arrival_time=number / 8))
    see = check()
    got = [list(lab.drive(scheduler).scheduled) for _ in range(2)]
    see(f"who computes in two steps, {num} requests, {case}", got, equals=[everybody] * 2)


@concept(
    "A victim that was aborted leaves nothing behind: the next request of its name has a turn in every step.",
    invariant="I3",
)
def test_the_next_one_of_the_name(lab):
    scheduler = make(lab, blocks=2, budget=6, caching=False, reserve_full_sequence=False)
    for name in "ab":
        scheduler.add_request(make_request(lab, name, 3, max_tokens=3))
    steps = [lab.drive(scheduler) for _ in range(3)]
    scheduler.finish_request("b", "abort")
    scheduler.add_request(make_request(lab, "b", 7, max_tokens=3))
    see = check(lab.draw.scheduler, scheduler)
    see("who is preempted in step 3, in which a ends", steps[2].preempted, equals=["b"])
    got = [written(lab.drive(scheduler).scheduled) for _ in range(3)]
    see("the next steps: b was aborted, and a new b has a prompt of 7, budget 6", got, equals=["b6", "b1", "b1"])


# --- waiting --------------------------------------------------------------------------------------------------------


@concept(
    "Admission asks for more than slots: reservation and watermark may refuse, and then no request comes in.",
    invariant="I4",
)
@cases(
    reservation=({"blocks": 4, "budget": 4}, [3, 20, 2], "a3"),
    reservation_off=({"blocks": 4, "budget": 4, "reserve_full_sequence": False}, [3, 20, 2], "a3 b1"),
    watermark=({"blocks": 5, "watermark": 0.5}, [3, 8, 2], "a3"),
    watermark_off=({"blocks": 5}, [3, 8, 2], "a3 b8 c2"),
)
def test_admission_asks(lab, case):
    options, lengths, computes = case
    scheduler = make(lab, caching=False, **options)
    scheduler.max_num_batched_tokens = options.get("budget", 64)
    for name, length in zip("abc", lengths):
        request = make_request(lab, name, min(length, 16))
        for _ in range(length - 16):  # a prompt that would never fit is refused; what was said meanwhile is not
            request.append_output_token(100)
        scheduler.add_request(request)
    see = check(lab.draw.scheduler, scheduler)
    got = written(scheduler.schedule().num_scheduled_tokens)
    see(f"who computes how much: {lengths} tokens come, blocks of 4, {options}", got, equals=computes)


@concept(
    "Admission asks how far the first chunk reaches, hit included, and names the blocks of the hit.", invariant="I4"
)
@cases(
    reaches_too_far=({"reserve_full_sequence": False, "watermark": 0.3}, 6, "a1"),
    just_reaches=({"reserve_full_sequence": False, "watermark": 0.3}, 5, "a1 b4"),
    the_hit_is_held=({}, 64, "a1 b8"),
)
def test_admission_with_a_hit(lab, case):
    options, budget, computes = case
    scheduler = make(lab, blocks=6, **options)
    scheduler.add_request(make_request(lab, "a", "abcdabcd"))
    lab.drive(scheduler)
    scheduler.add_request(make_request(lab, "b", "abcdabcdxyzxyzxy"))
    scheduler.max_num_batched_tokens = budget
    see = check(lab.draw.scheduler, scheduler)
    got = written(scheduler.schedule().num_scheduled_tokens)
    see(f"who computes how much: 8 of b's 16 tokens are a's, budget {budget}, {options}", got, equals=computes)


@concept(
    "Without chunked prefill the budget cuts no newcomer: it waits for a step that holds it, and so do others.",
    invariant="I4",
)
@cases(
    waits=({}, [9, 9, 2], ["a9", "a1 b9 c2"]),
    just_fits=({}, [9, 7, 2], ["a9 b7", "a1 b1 c2"]),
    the_threshold_cuts=({"long_prefill_token_threshold": 6}, [9, 9, 2], ["a6 b6 c2", "a3 b3 c1"]),
)
def test_whole_prompts(lab, case):
    options, lengths, steps = case
    scheduler = make(
        lab, blocks=64, budget=16, max_model_len=16, caching=False, enable_chunked_prefill=False, **options
    )
    for name, length in zip("abc", lengths):
        scheduler.add_request(make_request(lab, name, length))
    see = check(lab.draw.scheduler, scheduler)
    got = [written(lab.drive(scheduler).scheduled) for _ in steps]
    see(f"the first steps of prompts of {lengths}, budget 16, no chunks, {options}", got, equals=steps)


@concept("A hit and a preemption change nothing in it: what is behind is computed in one piece.", invariant="I4")
@cases(with_a_hit=("WAITING", 0), back_again=("PREEMPTED", 1))
def test_whole_prompts_with_a_head_start(lab, case):
    status, num_preemptions = case
    scheduler = make(lab, budget=16, max_model_len=16, enable_chunked_prefill=False)
    scheduler.add_request(make_request(lab, "a", "abcdabcdabcd"))
    lab.drive(scheduler)
    scheduler.add_request(make_request(lab, "b", 6))
    c = make_request(lab, "c", "abcdxyzxyzxyzxyz")
    scheduler.add_request(c)
    c.status, c.num_preemptions = lab.RequestStatus[status], num_preemptions
    see = check(lab.draw.scheduler, scheduler)
    got = [written(lab.drive(scheduler).scheduled) for _ in range(2)]
    about = f"c is {status}, 4 of its 16 tokens are a's, budget 16, no chunks"
    see(f"who computes how much in two steps: {about}", got, equals=["a1 b6", "a1 b1 c12"])


@concept(
    "An admitted request has left waiting, from any place in it, and runs last, past its head start.", invariant="I5"
)
@cases(the_head=("a", "WAITING"), the_second=("b", "WAITING"), the_last=("c", "WAITING"), a_victim=("a", "PREEMPTED"))
def test_admitted(lab, case):
    case, status = case
    scheduler = make(lab)
    requests = {name: make_request(lab, name, 9) for name in "zabc"}
    for request in requests.values():
        scheduler.add_request(request)
        if request.request_id == "z":
            lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    requests[case].status, requests[case].num_preemptions = lab.RequestStatus[status], int(status == "PREEMPTED")
    scheduler._admit(requests[case], 4)
    see("who waits", names(scheduler.waiting), equals=[name for name in "abc" if name != case])
    see("who runs", names(scheduler.running), equals=["z", case])
    see(f"{case}'s status", requests[case].status.name, equals="RUNNING")
    see(f"{case}'s computed tokens, of which 4 are a head start", requests[case].num_computed_tokens, equals=4)


def counted(scheduler):
    """Both statistics: admissions, tokens looked up, tokens found; first ones | those after a preemption."""
    first, again = scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats
    return f"{first.requests} {first.queries} {first.hits} | {again.requests} {again.queries} {again.hits}"


@concept(
    "A first admission and one after a preemption are counted apart; the sender hears of the first.",
    invariant="I6",
    illustrates=True,
)
@cases(
    first=("WAITING", 8, "1 11 8 | 0 0 0", 8),
    first_without_a_hit=("WAITING", 0, "1 11 0 | 0 0 0", 0),
    again=("PREEMPTED", 4, "0 0 0 | 1 11 4", 2),
    again_without_a_hit=("PREEMPTED", 0, "0 0 0 | 1 11 0", 2),
)
def test_what_is_counted(lab, case):
    status, hit, expected, cached = case
    scheduler = make(lab)
    request = make_request(lab, "a", 7)
    scheduler.add_request(request)
    for token in (100, 100, 100, 100):  # what it knows is 11 tokens, prompt and output
        request.append_output_token(token)
    request.status, request.num_preemptions = lab.RequestStatus[status], int(status == "PREEMPTED")
    request.num_cached_tokens = 2
    see = check(lambda: f"{lab.draw.scheduler(scheduler)}\nstatistics {counted(scheduler)}")
    scheduler._admit(request, hit)
    about = f"{status}, 11 tokens, {hit} of them found"
    see(f"admissions, tokens, hits | the same after a preemption: {about}", counted(scheduler), equals=expected)
    see(f"num_cached_tokens, 2 before: {about}", request.num_cached_tokens, equals=cached)


@concept(
    "The statistics are of the prefix cache: what came from elsewhere is no hit, and without a cache there is none.",
    invariant="I7",
)
@cases(
    from_elsewhere=(True, "WAITING", 5, "1 9 3 | 0 0 0", 3),
    all_from_elsewhere=(True, "WAITING", 8, "1 9 0 | 0 0 0", 0),
    from_elsewhere_again=(True, "PREEMPTED", 5, "0 0 0 | 1 9 3", 0),
    no_cache=(False, "WAITING", 8, "0 0 0 | 0 0 0", 0),
    no_cache_again=(False, "PREEMPTED", 8, "0 0 0 | 0 0 0", 0),
)
def test_what_is_no_hit(lab, case):
    caching, status, num_external, expected, cached = case
    scheduler = make(lab, caching=caching)
    request = make_request(lab, "a", 9)
    scheduler.add_request(request)
    request.status, request.num_preemptions = lab.RequestStatus[status], int(status == "PREEMPTED")
    scheduler.kv_cache_manager.num_external_tokens = lambda request: num_external
    see = check(lambda: f"{lab.draw.scheduler(scheduler)}\nstatistics {counted(scheduler)}")
    scheduler._admit(request, 8)
    about = f"{status}, 9 tokens, a head start of 8, {num_external} of it from elsewhere, caching {caching}"
    see(f"admissions, tokens, hits | the same after a preemption: {about}", counted(scheduler), equals=expected)
    see(f"num_cached_tokens: {about}", request.num_cached_tokens, equals=cached)
    see(f"computed tokens: {about}", request.num_computed_tokens, equals=8)


@concept("A crowd is counted as a few are, and a request leaves it from any place.", invariant="I5")
@cases(near_the_front=0.1, in_the_middle=0.5, near_the_end=0.9)
def test_admitted_from_a_crowd(lab, case):
    scheduler, size, length = make(lab, blocks=20_000), far(300), far(70_000, 79_000)
    for number in range(size):
        scheduler.add_request(lab.Request(f"r{number}", [number] * 5, lab.SamplingParams()))
    request = list(scheduler.waiting)[int(case * size)]
    for _ in range(length - 5):
        request.append_output_token(7)
    scheduler.kv_cache_manager.num_external_tokens = lambda request: 20
    see = check(lambda: f"{size} requests wait, and one of them, {request.request_id}, knows {length} tokens")
    scheduler._admit(request, length - 8)
    see("whether it waits", request.request_id in names(scheduler.waiting), equals=False)
    see("how many requests wait", len(scheduler.waiting), equals=size - 1)
    see("who runs", names(scheduler.running), equals=[request.request_id])
    what = "admissions, tokens, hits | the same after a preemption; 20 tokens came from elsewhere"
    see(what, counted(scheduler), equals=f"1 {length} {length - 28} | 0 0 0")


# --- all parts together ---------------------------------------------------------------------------------------------

TEXTS = ("abcdabcdabcdabcd", "aaaaaaaaaaaaaaaa", "dcbadcbadcbadcba")


def traffic(rng, policy):
    """Calls of a walk: an engine, requests that meet in its cache and its pool, steps, and ends from outside."""
    number = rng.randrange(10**6)
    rng.seed(number)  # so the number alone says which walk it is
    size = rng.choice((1, 2, 3, 4))
    slots = size * rng.randint(-(-13 // size), -(-13 // size) + rng.choice((0, 2, 4, 8)))
    options = {
        "block_size": size,
        "blocks": slots // size,
        "budget": rng.choice((3, 5, 8, 16)),
        "seqs": rng.randint(1, 5),
    }
    for name, value, share in (
        ("long_prefill_token_threshold", rng.randint(1, 4), 0.4),
        ("watermark", rng.choice((0.1, 0.26, 0.5)), 0.4),
        ("reserve_full_sequence", False, 0.4),
        ("caching", False, 0.2),
    ):
        if rng.random() < share:
            options[name] = value
    if rng.random() < 0.2:
        options |= {"enable_chunked_prefill": False, "max_model_len": 16, "budget": 16, "blocks": 3 * slots // size}
        options["seqs"] += 2
    yield "engine", {"walk": number, "policy": policy, **options}
    ids = rng.sample(("z", "b", "1", "10", "A", "a"), 6)
    times = rng.sample(range(-3, 30), 6) if rng.random() < 0.8 else [0] * 6
    for name, arrival in zip(ids[: rng.randint(2, 6)], times):
        yield "add", *newcomer(rng, name, arrival)
        kind = rng.random()
        if kind < 0.5:
            yield "steps", rng.randint(1, 4)
        elif kind < 0.6:
            yield "finish", rng.choice(ids), rng.choice(("abort", "stop", "length"))
        elif kind < 0.7:
            yield "step_and_finish_meanwhile", rng.choice(ids), rng.choice(("abort", "stop", "length"))
        elif kind < 0.75:
            yield "step_and_replace_meanwhile", *newcomer(rng, name, arrival)
    yield "steps", 40


def newcomer(rng, name, arrival):
    """What make_request takes."""
    text = rng.choice(TEXTS)[: rng.randint(0, 9)] + "".join(rng.choice("xyz") for _ in range(rng.randint(1, 3)))
    options = {"max_tokens": rng.randint(1, 6), "arrival_time": float(arrival)}
    if priority := rng.choice((0, 0, 0, -1, 7)):
        options["priority"] = priority
    if rng.random() < 0.25:
        options["salt"] = "s"
    return name, text, options


def drive_along(lab, calls):
    """Do the calls; after each step what was decided, and in the end what came of it."""
    scheduler, known, records = None, {}, []
    for name, *arguments in calls:
        if name == "engine":
            options = {key: value for key, value in arguments[0].items() if key != "walk"}
            scheduler = make(lab, **options)
        elif name == "add":
            add(lab, scheduler, known, arguments)
        elif name == "finish":
            scheduler.finish_request(*arguments)
        elif name == "steps":
            for _ in range(arguments[0]):
                if scheduler.has_unfinished_requests():
                    yield from one_step(lab, scheduler, records)
        elif name == "step_and_finish_meanwhile":
            yield from one_step(lab, scheduler, records, [(scheduler.finish_request, *arguments)])
        else:
            events = [(scheduler.finish_request, arguments[0], "abort"), (add, lab, scheduler, known, arguments)]
            yield from one_step(lab, scheduler, records, events)
    picture = drawing(lab, records)
    for name, request in sorted(known.items()):
        yield "I8", f"what {name} said", "".join(map(chr, request.output_token_ids)), picture
        yield "I8", f"how {name} ended", request.finish_reason, picture
        yield "I6", f"num_cached_tokens of {name}", request.num_cached_tokens, picture
        yield "I8", f"how often {name} was preempted", request.num_preemptions, picture
    yield "I6", "admissions, tokens, hits | the same after a preemption", counted(scheduler), picture


def add(lab, scheduler, known, arguments):
    name, text, *options = arguments  # a walk that is cut short may leave out all options
    request = make_request(lab, name, text, **dict(*options))
    if name not in known or known[name].is_finished:
        known[name] = request
        scheduler.add_request(request)


def one_step(lab, scheduler, records, meanwhile=()):
    """One turn. meanwhile: what is called while the model runs."""
    kv, step = scheduler.kv_cache_manager, len(records)
    output = scheduler.schedule()
    record = {"step": step, "sched": list(output.num_scheduled_tokens.items()), "free_sched": kv.num_free_blocks}
    record |= {"preempted": list(output.preempted_req_ids), "waiting": names(scheduler.waiting)}
    record["output"] = output
    records.append(record)
    picture = drawing(lab, records)
    for earlier in records[-2:-1]:
        counts = list(earlier["output"].num_scheduled_tokens.items())
        yield "I3", f"the counts of step {step - 1}, looked at after the next schedule()", counts, picture
    where = f"step {step}: "
    yield "I2", where + "who is preempted", record["preempted"], picture
    yield "I8", where + "who computes how many tokens", record["sched"], picture
    yield "I2", where + "the list of the step", names(output.scheduled_requests), picture
    yield "I8", where + "who waits", record["waiting"], picture
    yield "I8", where + "who runs", names(scheduler.running), picture
    for request in scheduler.running:
        name = request.request_id
        yield "I5", where + f"computed tokens of {name}", request.num_computed_tokens, picture
        yield "I8", where + f"blocks of {name}", kv.get_block_ids(name), picture
    yield (
        "I8",
        where + "how many blocks are free, how many can be found",
        (kv.num_free_blocks, kv.num_cached_blocks),
        picture,
    )
    sampled = {
        request.request_id: [next_token(request)]
        for request in output.scheduled_requests
        if scheduler.needs_sample(request, output.num_scheduled_tokens[request.request_id])
    }
    yield "I8", where + "who is sampled", sorted(sampled), picture
    for call, *arguments in meanwhile:
        call(*arguments)
    ended = scheduler.update_from_output(output, sampled)
    ends = [(request.request_id, request.finish_reason) for request in ended]
    yield "I8", where + "who ended, and how", ends, picture
    yield "I8", where + "how many blocks are free in the end", kv.num_free_blocks, picture


def drawing(lab, records):
    """Makes the picture of the steps so far, if it is asked for."""
    so_far = len(records)
    return lambda: lab.draw.timeline(records[:so_far])


def next_token(request):
    """A letter that depends on all that the request knows: mostly what its text goes on with."""
    tokens = request.all_token_ids
    follows = {97: 98, 98: 99, 99: 100, 100: 97}.get(tokens[-1], 97)
    return 101 if sum(tokens) % 13 == 0 else 98 if sum(tokens) % 7 == 0 else follows


@concept("Your parts decide together as the reference does: first come, first served.", invariant="I8", searches=True)
def test_any_traffic(lab):
    walk(lab, lambda rng: traffic(rng, "fcfs"), drive_along, num=NUM_WALKS)


@concept("Your parts decide together as the reference does: by priority.", invariant="I8", searches=True)
def test_any_traffic_by_priority(lab):
    walk(lab, lambda rng: traffic(rng, "priority"), drive_along, num=NUM_WALKS)


NUM_WALKS = 60

# --- recorded steps of vLLM -------------------------------------------------------------------------------------------

FIELDS = {
    "preempted": "who is preempted",
    "sched": "who computes how many tokens",
    "new": "who is admitted, with how many tokens found",
    "resumed": "who comes back, with how many tokens found",
    "waiting": "who waits",
    "blocks": "the blocks that are handed out",
    "free_sched": "how many blocks are free",
    "finished": "who ended, and how",
    "free": "how many blocks are free in the end",
}


@concept("Step for step, your engine decides what vLLM 0.33.0 decided.", invariant="I9", illustrates=True)
@cases(
    aborts_291="aborts_291",
    long_prefill_269="long_prefill_269",
    max_num_seqs_1_142="max_num_seqs_1_142",
    mixed_015="mixed_015",
    mixed_050="mixed_050",
    mixed_127="mixed_127",
    multi_turn_039="multi_turn_039",
    no_caching_190="no_caching_190",
    no_chunked_prefill_063="no_chunked_prefill_063",
    priority_directed_158="priority_directed_158",
    priority_prefill_271="priority_prefill_271",
    priority_prefill_276="priority_prefill_276",
    watermark_007="watermark_007",
    watermark_149="watermark_149",
    watermark_289="watermark_289",
)
def test_recorded_steps(lab, case):
    replay(lab, lab.read_trace(case))


def replay(lab, trace):
    """Run what was recorded again; the first step that differs is shown beside vLLM's."""
    run, recorded, name = lab.ScenarioRun(trace), trace["steps"], trace["name"]
    ours = run.recorder.steps
    see = check(lambda: lab.draw.timeline(ours, recorded[: len(ours)], "vLLM"))
    for theirs in recorded:
        where = f"{name}, step {theirs['step']}"
        see.true(f"{where}: somebody is left to compute", not run.is_done(), "every request has ended")
        run.run_step()
        for field, what in FIELDS.items():
            see(f"{where}: {what}", ours[-1].get(field) or [], equals=theirs.get(field) or [])
    see.true(f"{name}: all is done after the last recorded step", run.is_done(), "a request is left")
    said = run.to_trace()
    for request_id, token_ids in said["outputs"].items():
        see(f"{name}: what {request_id} said", token_ids, equals=trace["outputs"][request_id])
    for total in ("requests", "queries", "hits"):
        for kind in ("prefix", "preempted"):
            see(f"{name}: {kind}_{total}", *(each["totals"][f"{kind}_{total}"] for each in (said, trace)))


# --- your tests -----------------------------------------------------------------------------------------------------


@concept("The tests that you wrote hold for the engine that you wrote.", invariant="I10", illustrates=True)
@cases(of_02_5="02.5", of_03_7="03.7")
def test_your_own_tests(lab, case):
    lab.yours.test(case)
