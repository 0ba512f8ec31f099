"""Lab 03.5: the order of a queue in which not everybody is equal."""

from random import Random

from labkit import Options, cases, check, concept, far, plan_world, play_world, walk


def make(lab, policy="priority", *, blocks=64, seqs=8, budget=64):
    manager = lab.KVCacheManager(blocks + 1, 4)
    return lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget, policy=policy)


def make_request(lab, name, priority=0, arrival_time=0.0, length=3, max_tokens=16):
    prompt = [1000 * ord(name[0]) + position for position in range(length)]
    params = lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    return lab.Request(name, prompt, params, priority=priority, arrival_time=arrival_time)


def add(lab, scheduler, requests):
    """requests: (name, priority, arrival time) of each, in the order in which they are added."""
    for name, priority, arrival_time in requests:
        scheduler.add_request(make_request(lab, name, priority, arrival_time))


def run_them(lab, scheduler, requests):
    """Add the requests one at a time, each after the one before it runs."""
    for request in requests:
        add(lab, scheduler, [request])
        lab.drive(scheduler)


def names(requests):
    return [request.request_id for request in requests]


@concept(
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open.",
    invariant="I1",
)
@cases(
    by_priority=(("a", 1, 0.0), ("b", 0, 9.0)),
    negative=(("a", 0, 0.0), ("b", -1, 9.0)),
    numbers_not_digits=(("a", 10, 0.0), ("b", 9, 0.0)),
    by_arrival=(("a", 5, 2.5), ("b", 5, 2.25)),
    by_id=(("b", 5, 1.0), ("a", 5, 1.0)),
    by_id_as_text=(("a9", 5, 1.0), ("a10", 5, 1.0)),
    by_id_of_digits=(("9", 5, 1.0), ("10", 5, 1.0)),
    by_id_of_letters_beyond_ascii=(("\U0001f600", 5, 1.0), ("\uff5e", 5, 1.0)),
    far_below_zero=(("a", -1000, 0.0), ("b", -1001, 9.0)),
    very_far_below_zero=(("a", -2_000_000, 0.0), ("b", -3_000_000, 9.0)),
    farthest_below_zero=(("a", -(10**17), 0.0), ("b", -(10**18), 9.0)),
    far_above_zero=(("a", 2**40 + 1, 0.0), ("b", 2**40, 9.0)),
    beyond_a_float=(("a", 2**53 + 1, 0.0), ("b", 2**53, 9.0)),
    by_the_end_of_the_id=(("request-of-the-batch-2", 5, 1.0), ("request-of-the-batch-1", 5, 1.0)),
    by_a_number_in_the_id=(("request-9", 5, 1.0), ("request-10", 5, 1.0)),
)
def test_who_is_more_urgent(lab, case):
    second, first = (make_request(lab, *each) for each in case)
    see = check()
    found = lab.urgency(first), lab.urgency(second)
    is_less, is_more = found[0] < found[1], found[1] < found[0]
    see.true(f"urgency of {case[1]} is less than that of {case[0]}", is_less, "{!r} and {!r}".format(*found))
    see.true(f"urgency of {case[0]} is not less than that of {case[1]}", not is_more, "each is less than the other")


@concept(
    "The queue is in order of urgency, whatever the order in which requests come.", invariant="I2", illustrates=True
)
@cases(
    falling=([("a", 0, 0.0), ("b", 1, 0.0), ("c", 2, 0.0)], "a b c"),
    rising=([("a", 2, 0.0), ("b", 1, 0.0), ("c", 0, 0.0)], "c b a"),
    into_the_middle=([("a", 0, 0.0), ("b", 2, 0.0), ("c", 1, 0.0)], "a c b"),
    late_arrivals_first=([("a", 1, 3.0), ("b", 1, 1.0), ("c", 1, 2.0)], "b c a"),
    same_time=([("c", 1, 1.0), ("a", 1, 1.0), ("b", 1, 1.0)], "a b c"),
    mixed=([("a", 1, 1.0), ("b", 0, 5.0), ("c", 1, 0.5), ("d", 0, 2.0), ("e", -3, 9.0)], "e d b c a"),
)
def test_the_queue_is_in_order(lab, case):
    requests, expected = case
    scheduler = make(lab)
    see = check(lab.draw.scheduler, scheduler)
    add(lab, scheduler, requests)
    see("who waits, front first", " ".join(names(scheduler.waiting)), equals=expected)


@concept("Under priority a victim has no privilege: it waits where its urgency puts it.", invariant="I2")
@cases(behind=(5, "b c a"), between=(2, "b a c"), in_front=(0, "a b c"))
def test_a_victim_waits_in_its_place(lab, case):
    priority, expected = case
    scheduler = make(lab, seqs=1)
    run_them(lab, scheduler, [("a", priority, 0.0)])
    add(lab, scheduler, [("b", 1, 1.0), ("c", 3, 2.0)])
    see = check(lab.draw.scheduler, scheduler)
    scheduler._preempt(scheduler._pop_victim())
    see(f"who waits, a has priority {priority}, b 1, c 3", " ".join(names(scheduler.waiting)), equals=expected)


@concept(
    "Under first come, first served the numbers mean nothing: newcomers at the back, victims at the front.",
    invariant="I3",
)
def test_the_other_policy_stays(lab):
    scheduler = make(lab, "fcfs", seqs=2)
    run_them(lab, scheduler, [("a", 0, 5.0), ("b", 9, 4.0)])
    add(lab, scheduler, [("c", 3, 3.0), ("d", 1, 2.0), ("e", 2, 1.0)])
    see = check(lab.draw.scheduler, scheduler)
    see("who waits, front first", " ".join(names(scheduler.waiting)), equals="c d e")
    scheduler._preempt(scheduler._pop_victim())
    see("who waits after a victim", " ".join(names(scheduler.waiting)), equals="b c d e")
    f = make_request(lab, "f", 0)
    f.num_preemptions = 2
    scheduler.add_request(f)
    what = "who waits after a newcomer f, whose status is WAITING and which was preempted twice before a new start"
    see(what, " ".join(names(scheduler.waiting)), equals="b c d e f")


@concept("Under first come, first served the victim is the last that was admitted.", invariant="I3")
@cases(
    most_urgent_last=[("a", 9, 0.0), ("b", 5, 1.0), ("c", 0, 2.0)],
    earliest_last=[("a", 0, 3.0), ("b", 0, 2.0), ("c", 0, 1.0)],
)
def test_the_victim_of_the_other_policy(lab, case):
    scheduler = make(lab, "fcfs")
    run_them(lab, scheduler, case)
    see = check(lab.draw.scheduler, scheduler)
    see("the victim", scheduler._pop_victim().request_id, equals="c")
    see("who runs on", names(scheduler.running), equals=["a", "b"])


@concept("The victim is the least urgent of those that run, and the others keep their order.", invariant="I4")
@cases(
    first=([("a", 9, 0.0), ("b", 5, 1.0), ("c", 0, 2.0)], "a", "b c"),
    middle=([("a", 1, 0.0), ("b", 5, 1.0), ("c", 3, 2.0)], "b", "a c"),
    last=([("a", 1, 0.0), ("b", 2, 1.0), ("c", 3, 2.0)], "c", "a b"),
    by_arrival=([("a", 5, 2.0), ("b", 5, 3.0), ("c", 5, 1.0)], "b", "a c"),
    priority_before_arrival=([("a", 5, 1.0), ("b", 0, 3.0), ("c", 4, 2.0)], "a", "b c"),
    negative=([("a", -1, 1.0), ("b", -5, 2.0), ("c", -2, 3.0)], "a", "b c"),
    only_one=([("a", 7, 0.0)], "a", ""),
    by_arrival_of_many=(
        [(name, 5, 9.0 if name == "b" else float(i)) for i, name in enumerate("abcdef")],
        "b",
        "a c d e f",
    ),
    first_of_many=([(name, 9 - (name > "a"), float(i)) for i, name in enumerate("abcdefgh")], "a", "b c d e f g h"),
    first_of_fifteen=(
        [(f"r{i}", 9 - (i > 0), float(i)) for i in range(15)],
        "r0",
        " ".join(f"r{i}" for i in range(1, 15)),
    ),
    fifth_of_fifteen=(
        [(f"r{i}", 9 - (i != 4), float(i)) for i in range(15)],
        "r4",
        " ".join(f"r{i}" for i in range(15) if i != 4),
    ),
)
def test_the_least_urgent_gives_way(lab, case):
    requests, victim, others = case
    scheduler = make(lab, seqs=len(requests))
    run_them(lab, scheduler, requests)
    see = check(lab.draw.scheduler, scheduler)
    shown = ", ".join(f"{name} {priority} at {arrival_time}" for name, priority, arrival_time in requests)
    see(f"the victim of {shown}", scheduler._pop_victim().request_id, equals=victim)
    see("who runs on, in order of admission", " ".join(names(scheduler.running)), equals=others)


@concept("However many wait, all of them are in order.", invariant="I2")
@cases(priority="priority", fcfs="fcfs")
def test_a_crowd(lab, case):
    num = far(300)
    scheduler = make(lab, case)
    places = Random(num).sample(range(num), num)
    add(lab, scheduler, [(f"r{place}", 0, 0.25 * place) for place in places])
    order = [f"r{place}" for place in (range(num) if case == "priority" else places)]
    see = check()
    see(f"who waits of {num}, front first", names(scheduler.waiting), equals=order)
    see("the most that waiting holds, maxlen", getattr(scheduler.waiting, "maxlen", None), equals=None)


@concept("However many run, the least urgent of all of them gives way.", invariant="I4")
def test_the_victim_of_a_crowd(lab):
    num = far(300)
    scheduler = make(lab, seqs=num, blocks=num, budget=3 * num)
    add(lab, scheduler, [(f"r{number}", 0, float(number)) for number in range(num)])
    lab.drive(scheduler)
    scheduler.running[1].priority = 9
    see = check()
    what = f"the victim of {num} that run; r1, the second of them, is the least urgent"
    see(what, scheduler._pop_victim().request_id, equals="r1")


@concept(
    "The queue stays a deque; a newcomer is put into it, and no request leaves it.",
    invariant="I2",
    illustrates=True,
)
def test_equal_neighbours_stay(lab):
    scheduler = make(lab)
    run_them(lab, scheduler, [("r9", 9, 0.0)])
    see = check(lab.draw.scheduler, scheduler)
    for number in range(7):
        scheduler.add_request(make_request(lab, f"r{number}", 3 - number % 3, float(number)))
    waiting = "r2 r5 r1 r4 r0 r3 r6"
    see(
        "who waits: r2 r5 have priority 1, r1 r4 have 2, r0 r3 r6 have 3",
        " ".join(names(scheduler.waiting)),
        equals=waiting,
    )
    scheduler.abort_request("r4")
    see("who waits without r4", " ".join(names(scheduler.waiting)), equals="r2 r5 r1 r0 r3 r6")
    scheduler._preempt(scheduler._pop_victim())
    see("who waits with a victim", " ".join(names(scheduler.waiting)), equals="r2 r5 r1 r0 r3 r6 r9")
    is_deque, kind = hasattr(scheduler.waiting, "popleft"), type(scheduler.waiting)
    see.true("waiting still is a deque, whose head others take with popleft()", is_deque, repr(kind))
    see("the most that waiting holds, maxlen", getattr(scheduler.waiting, "maxlen", None), equals=None)


@concept(
    "An urgent newcomer overtakes those that wait, and takes blocks from the least urgent only when it runs.",
    invariant="I4",
    illustrates=True,
)
def test_a_run_with_priorities(lab):
    scheduler = make(lab, blocks=3, seqs=2)
    scheduler.add_request(make_request(lab, "a", 5, 0.0, length=4, max_tokens=6))
    scheduler.add_request(make_request(lab, "b", 6, 1.0, length=4, max_tokens=2))
    steps = [lab.drive(scheduler)]
    scheduler.add_request(make_request(lab, "c", 0, 2.0, length=3, max_tokens=6))
    see = check(lab.draw.scheduler, scheduler)
    steps += [lab.drive(scheduler) for _ in range(3)]
    told = [" ".join(step.scheduled) + "".join(f" -{name}" for name in step.preempted) for step in steps]
    see("who computes in each step, and who gives way", told, equals=["a b", "a -b", "a c", "a c"])
    step = lab.drive(scheduler)
    see("who gives way when c needs a second block", step.preempted, equals=["a"])
    see("who computes: a was in the step already, and is taken out again", list(step.scheduled), equals=["c"])
    see("who waits", names(scheduler.waiting), equals=["a", "b"])


@concept(
    "Times are compared as they are: the smallest difference decides, between large numbers too.",
    invariant="I1",
)
@cases(
    microsecond=(1.000001, 1.000002),
    since_1970=(1_700_000_000.25, 1_700_000_000.5),
    less_than_a_second=(3.2, 3.7),
    below_zero=(-0.002, -0.001),
    days_and_priorities=(5.0, 9_000_000.0),
    next_number=(1.0, 1.0000000000000002),
)
def test_times_are_exact(lab, case):
    earlier, later = case
    requests = [("a", 1, later), ("b", 1, earlier)]  # by name it would be the other way round
    scheduler = make(lab)
    add(lab, scheduler, requests)
    see = check(lab.draw.scheduler, scheduler)
    see(f"who waits: b of {earlier} and a of {later}", " ".join(names(scheduler.waiting)), equals="b a")
    scheduler = make(lab)
    run_them(lab, scheduler, reversed(requests))
    see = check(lab.draw.scheduler, scheduler)
    see(f"the victim of b of {earlier} and a of {later}", scheduler._pop_victim().request_id, equals="a")
    scheduler._preempt(scheduler._pop_victim())
    add(lab, scheduler, [("aa", 1, later)])
    what = f"who waits: b of {earlier}, which was preempted, and a newcomer aa of {later}"
    see(what, " ".join(names(scheduler.waiting)), equals="b aa")


@concept(
    "The request of this call decides: no request of the same id, no count and no earlier call stands for it.",
    invariant="I4",
)
@cases(a_name_used_again="again", preempted_often="often", almost_as_urgent="close")
def test_only_urgency_decides(lab, case):
    scheduler = make(lab)
    if case == "again":
        run_them(lab, scheduler, [("a", 0, 1.0)])
        scheduler.abort_request("a")
    first = ("a", 3, 2.00000001) if case == "close" else ("a", 5, 1.0)
    run_them(lab, scheduler, [first, ("b", 3, 2.0)])
    if case != "again":
        scheduler.running[0].num_preemptions = 3
    see = check(lab.draw.scheduler, scheduler)
    past = "an earlier a had priority 0" if case == "again" else "a was preempted 3 times"
    what = f"the victim of a with priority {first[1]} of {first[2]} and b with 3 of 2.0; {past}"
    see(what, scheduler._pop_victim().request_id, equals="a")
    scheduler.waiting.clear()
    add(lab, scheduler, [("d", 4, 4.0), ("e", 6, 5.0)])
    scheduler._preempt(scheduler.running.pop())
    see(
        "who waits: b with priority 3, preempted; d with 4, e with 6",
        " ".join(names(scheduler.waiting)),
        equals="b d e",
    )


@concept("Each scheduler follows the policy that it has.", invariant="I3", illustrates=True)
@cases(fcfs_first=("fcfs", "priority"), priority_first=("priority", "fcfs"))
def test_two_schedulers(lab, case):
    see, requests = check(), [("a", 5, 1.0), ("b", 1, 2.0)]
    for policy in case:
        scheduler = make(lab, policy)
        add(lab, scheduler, requests)
        expected = "b a" if policy == "priority" else "a b"
        what = f"who waits under {policy!r}, the scheduler beside it has {case[policy == case[0]]!r}"
        see(what, " ".join(names(scheduler.waiting)), equals=expected)


def plan_queue(rng):
    """Newcomers with numbers, times and names that tie or almost do, and departures."""
    calls = [("Scheduler", rng.choice(("priority", "priority", "fcfs")))]
    priorities = rng.choice(
        ((0,), (0, 1, -1, 7, 8, 16, -9, -16), (0, 2**31, -(2**31) - 1), (2**53, 2**53 + 1), (-999, -1000, -1001, -5000))
    )
    priorities = rng.sample(priorities, rng.randint(1, min(3, len(priorities))))
    times = rng.sample((0.0, 1.0, 2.5, -1.0, 1e6, 5e6, 1_700_000_000.25, 1e100, 2e100), rng.randint(1, 3))
    all_names = [
        "r10",
        "r9",
        "R9",
        "r1",
        " r1",
        "r-1",
        "r 9",
        "b",
        "B",
        "a",
        "aa",
        "Z",
        "z",
        "9",
        "10",
        "\uff5e",
        "\U0001f600",
        "É",
        "Ā",
        "request-1-a",
        "request-1-b",
    ]
    more_names = rng.sample([f"r{number}" for number in range(20, 40)], 20)
    all_names = [*more_names, *rng.sample(all_names, len(all_names))]  # taken from the end
    for _ in range(rng.choice((*range(1, 11), 35, 35, 35))):
        options = Options(priority=rng.choice(priorities), arrival_time=rng.choice(times))
        calls.append(("add_request", all_names.pop(), options))
        if rng.random() < 0.1:
            calls.append(("abort_request", rng.choice(("r9", "a", "b"))))
    return calls


def play_queue(lab, calls):
    for call, *arguments in calls:
        if call == "Scheduler":
            (policy,) = arguments
            scheduler = make(lab, policy)
        elif call == "add_request":
            name, options = arguments[0], dict(*arguments[1:])
            scheduler.add_request(make_request(lab, name, **options))
        else:
            scheduler.abort_request(*arguments)
        yield "I3" if policy == "fcfs" else "I2", "who waits, front first", names(scheduler.waiting)


@concept(
    "Whatever the numbers, the times and the names are, the queue is in the order that they make.",
    invariant="I2",
    searches=True,
)
def test_any_queue(lab):
    walk(lab, plan_queue, play_queue, 50)


@concept(
    "In any order of newcomers, victims and departures the queue and the victim are those of the policy.",
    invariant="I2",
    searches=True,
)
@cases(priority=("priority", "I2", "I4"), fcfs=("fcfs", "I3", "I3"))
def test_any_run(lab, case):
    policy, queue, victim = case

    def plan(rng):
        return plan_world(rng, policy=(policy,), rare=("finish", "late", "preempt", "preempt"))

    def play(lab, calls):
        decided = {"preempted": victim, "running": victim, "waiting": queue}
        return play_world(lab, calls, decided=decided, updated={"waiting": queue})

    walk(lab, plan, play, 30)
