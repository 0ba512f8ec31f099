"""Lab 03.5: the order of a queue in which not everybody is equal."""

from labkit import cases, check, concept


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
    "A lower number is more urgent; then who arrived first; then the id, so that the order is never left open.",
    invariant="I1",
)
@cases(
    by_priority=(("a", 1, 0.0), ("b", 0, 9.0)),
    negative=(("a", 0, 0.0), ("b", -1, 9.0)),
    numbers_not_digits=(("a", 10, 0.0), ("b", 9, 0.0)),
    by_arrival=(("a", 5, 2.5), ("b", 5, 2.25)),
    by_id=(("b", 5, 1.0), ("a", 5, 1.0)),
    by_id_as_text=(("a9", 5, 1.0), ("a10", 5, 1.0)),
)
def test_who_is_more_urgent(lab, case):
    second, first = (make_request(lab, *each) for each in case)
    see = check()
    see.true(f"urgency of {case[1]} is less than that of {case[0]}", lab.urgency(first) < lab.urgency(second))
    see.true(f"urgency of {case[0]} is not less than that of {case[1]}", not lab.urgency(second) < lab.urgency(first))


@concept("The queue is in order of urgency, whatever the order in which requests come.", invariant="I2")
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


@concept("Under priority having begun is no privilege: a victim waits where its urgency puts it.", invariant="I2")
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
    by_arrival=([("a", 5, 1.0), ("b", 5, 3.0), ("c", 5, 2.0)], "b", "a c"),
    priority_before_arrival=([("a", 5, 1.0), ("b", 0, 3.0), ("c", 4, 2.0)], "a", "b c"),
    negative=([("a", -1, 1.0), ("b", -5, 2.0), ("c", -2, 3.0)], "a", "b c"),
    only_one=([("a", 7, 0.0)], "a", ""),
)
def test_the_least_urgent_gives_way(lab, case):
    requests, victim, others = case
    scheduler = make(lab)
    run_them(lab, scheduler, requests)
    see = check(lab.draw.scheduler, scheduler)
    shown = ", ".join(f"{name} {priority} at {arrival_time}" for name, priority, arrival_time in requests)
    see(f"the victim of {shown}", scheduler._pop_victim().request_id, equals=victim)
    see("who runs on, in order of admission", " ".join(names(scheduler.running)), equals=others)


@concept(
    "The queue stays what it is, a double-ended queue; a newcomer is put into it and nobody leaves it.",
    invariant="I2",
    illustrates=True,
)
def test_equal_neighbours_stay(lab):
    scheduler = make(lab)
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
