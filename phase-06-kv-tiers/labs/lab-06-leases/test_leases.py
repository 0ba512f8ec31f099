"""Lab 06.6: blocks that are kept for a reader, for some time."""

from labkit import cases, check, concept, raises, walk


class Clock:
    """Seconds, as a test has them pass."""

    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


def make(lab, *names, duration=30.0, extension=20.0, first_generation=1, start=100.0):
    """One lease is granted for each name, a second after the one before it."""
    clock = Clock()
    clock.seconds = start
    leases = lab.Leases(clock, duration, extension, first_generation)
    granted = []
    for name in names:
        granted.append(leases.grant(name, [f"{name}{len(granted) + 1}".encode()]))
        clock.seconds += 1.0
    return clock, leases, granted


def told(leases):
    """The first block of each of the leases, in order."""
    return sorted(str(lease.names[0], "ascii") for lease in leases)


def picture(clock, leases, granted):
    lines = [
        f"{each.request_id}  generation {each.generation}, end {each.end}, pins {each.num_pins}" for each in granted
    ]
    return "\n".join([*lines, f"the clock is at {clock()}, {len(leases)} to collect"])


@concept("No two leases have the same generation, whatever their requests are.", invariant="I1")
@cases(as_usual=1, after_a_restart=7_000, from_zero=0)
def test_generations(lab, case):
    clock, leases, granted = make(lab, "a", "b", "a", first_generation=case)
    see = check(picture, clock, leases, granted)
    see("the generations", [lease.generation for lease in granted], equals=[case, case + 1, case + 2])
    see("the ends", [lease.end for lease in granted], equals=[130.0, 131.0, 132.0])
    see("the names of the second one", granted[1].names, equals=(b"b2",))
    see("the request of the third one", granted[2].request_id, equals="a")


@concept("A lease is in force until its end, and at its end it is not.", invariant="I2")
@cases(before=(29.5, True), at_its_end=(30.0, False), after=(31.0, False))
def test_the_end(lab, case):
    passed, expected = case
    clock, leases, (lease,) = make(lab, "a")
    clock.seconds = 100.0 + passed
    see = check(picture, clock, leases, [lease])
    see(f"find(), {passed} seconds after it was granted", leases.find("a") is lease, equals=expected)
    see("find() of a request without a lease", leases.find("b"), equals=None)
    see("holds()", leases.holds(lease), equals=expected)
    see("the lease that is pinned", leases.pin("a") is lease, equals=expected)
    see("leases that are not collected", len(leases), equals=1)


@concept("A heartbeat puts the end off, and never brings it nearer.", invariant="I3")
@cases(early=(1.0, 130.0), late=(25.0, 145.0), just_in_time=(29.0, 149.0))
def test_heartbeats(lab, case):
    passed, expected = case
    clock, leases, (lease,) = make(lab, "a")
    clock.seconds = 100.0 + passed
    see = check(picture, clock, leases, [lease])
    see("extend()", leases.extend("a"), equals=True)
    see(f"the end after a heartbeat at {clock()}", lease.end, equals=expected)


@concept("What is over stays over: its blocks may be another request's already.", invariant="I3")
def test_a_late_heartbeat(lab):
    clock, leases, (lease,) = make(lab, "a")
    clock.seconds = 131.0
    see = check(picture, clock, leases, [lease])
    see("extend() of a lease that is over", leases.extend("a"), equals=False)
    see("its end", lease.end, equals=130.0)
    see("extend() of a request without a lease", leases.extend("b"), equals=False)
    see("holds()", leases.holds(lease), equals=False)


@concept("A reader that has begun reads on, however late it is.", invariant="I4")
def test_a_reader(lab):
    clock, leases, (lease,) = make(lab, "a")
    see = check(picture, clock, leases, [lease])
    see("the lease that is pinned", leases.pin("a") is lease, equals=True)
    see("the lease that is pinned again", leases.pin("a") is lease, equals=True)
    clock.seconds = 200.0
    see("what is collected while two read", told(leases.collect()), equals=[])
    leases.unpin(lease)
    see("what is collected while one reads", told(leases.collect()), equals=[])
    see("holds() while one reads", leases.holds(lease), equals=True)
    leases.unpin(lease)
    see("holds() when none reads", leases.holds(lease), equals=False)
    see("what is collected then", told(leases.collect()), equals=["a1"])
    with raises(AssertionError, "a lease is unpinned more often than it was pinned"):
        leases.unpin(lease)
    see("its pins after the refusal", lease.num_pins, equals=0)


@concept("What a reader looked up must be what it reads: the same lease, and not the same request.", invariant="I5")
def test_another_lease_of_the_request(lab):
    clock, leases, (first,) = make(lab, "a")
    pinned = leases.pin("a")
    second = leases.grant("a", [b"other"])
    see = check(picture, clock, leases, [first, second])
    see("holds() of the first one, which is pinned", leases.holds(pinned), equals=True)
    leases.unpin(pinned)
    see("holds() of the first one, without a pin", leases.holds(first), equals=False)
    see("holds() of the second one", leases.holds(second), equals=True)
    see("find()", leases.find("a") is second, equals=True)
    leases.collect()
    see("holds() of the first one, which is collected", leases.holds(first), equals=False)
    see("holds() of the second one, as before", leases.holds(second), equals=True)


@concept("A lease that was replaced does not come back when the newer one has gone.", invariant="I2", illustrates=True)
def test_the_newer_one_goes_first(lab):
    clock, leases, (first,) = make(lab, "a")
    pinned = leases.pin("a")
    second = leases.grant("a", [b"other"])
    see = check(picture, clock, leases, [first, second])
    leases.release("a")
    see("what is collected", leases.collect() == [second], equals=True)
    see("find(), while a reader is at the first one", leases.find("a"), equals=None)
    see("extend()", leases.extend("a"), equals=False)
    see("pin()", leases.pin("a"), equals=None)
    see("holds() of the first one, which has a pin", leases.holds(pinned), equals=True)


@concept("Zero is a number of seconds, and a time, as any other.", invariant="I1", illustrates=True)
def test_zero(lab):
    clock, leases, (lease,) = make(lab, "a", duration=0.0, start=0.0)
    see = check(picture, clock, leases, [lease])
    see("the end of a lease of 0 seconds, granted at 0", lease.end, equals=0.0)
    see("find()", leases.find("a"), equals=None)
    clock, leases, (lease,) = make(lab, "a", start=-30.0)
    see = check(picture, clock, leases, [lease])
    clock.seconds = 0.0
    see("find() of a lease that ends at 0, at 0", leases.find("a"), equals=None)
    clock, leases, (lease,) = make(lab, "a", extension=0.0)
    clock.seconds = 125.0
    see = check(picture, clock, leases, [lease])
    see("extend() by 0 seconds", leases.extend("a"), equals=True)
    see("the end", lease.end, equals=130.0)
    clock, leases, (lease,) = make(lab, "a", start=-1.0)
    see = check(picture, clock, leases, [lease])
    see("release() at 0", leases.release("a"), equals=True)
    see("find() at 0", leases.find("a"), equals=None)


@concept("A reader that is done ends the lease at once.", invariant="I6", illustrates=True)
def test_release(lab):
    clock, leases, (a, b) = make(lab, "a", "b")
    see = check(picture, clock, leases, [a, b])
    see("release() of a", leases.release("a"), equals=True)
    see("find() of a", leases.find("a"), equals=None)
    see("release() of a once more", leases.release("a"), equals=False)
    see("what is collected", told(leases.collect()), equals=["a1"])
    clock.seconds = 140.0
    see("release() of b, which is over", leases.release("b"), equals=False)
    see("the end of b", b.end, equals=131.0)
    clock, leases, (a,) = make(lab, "a", extension=500.0)
    see = check(picture, clock, leases, [a])
    leases.extend("a")
    see("release(), behind a heartbeat of 500 seconds", leases.release("a"), equals=True)
    see("find()", leases.find("a"), equals=None)


@concept("A heartbeat lets an old lease outlive younger ones: look at all of them.", invariant="I7")
def test_behind_a_lease_that_was_put_off(lab):
    clock, leases, granted = make(lab, "a", "b", "c", "d")
    clock.seconds = 125.0
    leases.extend("a")
    leases.extend("c")
    clock.seconds = 132.5
    see = check(picture, clock, leases, granted)
    see("what is collected", told(leases.collect()), equals=["b2"])
    clock.seconds = 133.5
    see("what is collected a second later", told(leases.collect()), equals=["d4"])
    see("what is collected once more", told(leases.collect()), equals=[])
    see("leases that are not collected", len(leases), equals=2)


@concept("A lease that is replaced is over, and its blocks are given back, too.", invariant="I7")
def test_granted_again(lab):
    clock, leases, granted = make(lab, "a", "a", "a")
    see = check(picture, clock, leases, granted)
    see("leases that are not collected", len(leases), equals=3)
    see("what is collected", told(leases.collect()), equals=["a1", "a2"])
    see("leases that are left", len(leases), equals=1)


@concept("An engine that begins again takes all of them back.", invariant="I8", illustrates=True)
def test_clear(lab):
    clock, leases, granted = make(lab, "a", "b", "a")
    pinned = leases.pin("b")
    see = check(picture, clock, leases, granted)
    see("what is cleared", told(leases.clear()), equals=["a1", "a3", "b2"])
    see("leases that are left", len(leases), equals=0)
    see("holds() of the one with a pin", leases.holds(pinned), equals=False)
    see("find()", leases.find("a"), equals=None)
    see("the generation of the next one", leases.grant("a", []).generation, equals=4)


def plan(rng):
    names = ("grant", "grant", "extend", "pin", "unpin", "release", "collect", "wait", "wait")
    return [("Leases",)] + [(rng.choice(names), rng.choice("abc"), rng.choice((1, 7, 13, 30))) for _ in range(25)]


def play(lab, calls):
    clock, leases, granted = make(lab)
    readers = []
    for name, *arguments in calls:
        if name == "Leases":
            continue
        request_id, seconds = arguments
        found = None
        if name == "grant":
            granted.append(leases.grant(request_id, [f"{len(granted)}".encode()]))
        elif name == "wait":
            clock.seconds += seconds
        elif name == "unpin":
            if readers:
                leases.unpin(readers.pop(0))
        elif name == "collect":
            found = told(leases.collect())
        elif name == "pin":
            found = leases.pin(request_id)
            readers += [found] if found else []
            found = found and found.generation
        else:
            found = getattr(leases, name)(request_id)
        shown = picture(clock, leases, granted)
        yield "I7", f"what {name}() says", found, shown
        yield "I3", "the ends and the pins", [(each.end, each.num_pins) for each in granted], shown
        yield "I5", "the leases that hold", [leases.holds(each) for each in granted], shown
        yield "I7", "leases that are not collected", len(leases), shown


@concept("Whatever happens to leases: the account of the reference.", invariant="I7", illustrates=True, searches=True)
def test_any_calls(lab):
    walk(lab, plan, play)
