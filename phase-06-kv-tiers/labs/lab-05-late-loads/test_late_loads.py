"""Lab 06.5: when a block may be stored, read, loaded and given up."""

from labkit import cases, check, concept, walk

NAMES = [b"n0", b"n1", b"n2", b"n3"]


def make(lab, *, host=8, ready="", on_disk="", max_waiting=9):
    """A connector with blocks of 4 tokens. ready, on_disk: digits of the names that a tier has."""
    tier = lab.HostTier(host)
    for digit in ready:
        block = tier.take(NAMES[int(digit)])
        block.state = "ready"
        tier.release(block)
    disk = lab.DiskTier([NAMES[int(digit)] for digit in on_disk], 99)
    return lab.TierConnector(4, tier, disk, max_waiting, clock=lambda: 0.0)  # no disk is slow


def make_request(lab, name="a", num_blocks=3):
    """A request with so many full blocks, and a token more."""
    request = lab.Request(name, range(4 * num_blocks + 1), lab.SamplingParams())
    request.block_hashes += NAMES[:num_blocks]
    return request


def computed(lab, *digits):
    """Blocks of the device with these names."""
    blocks = lab.BlockPool(99).get_new_blocks(len(digits))
    pool = lab.BlockPool(1)
    for block, digit in zip(blocks, digits):
        pool.cache_block(block, NAMES[int(digit)])
    return blocks


def begin(connector):
    """The plan of a step: what it stores, what it loads, and the names of the reads whose end is not known."""
    plan, reads = connector.begin_step().connector, numbers(connector)
    if plan is None:
        return [], [], []
    reads.update((job.name, job.number) for job in plan.jobs if job.kind == "read")
    return list(plan.store), list(plan.load), [*reads]


def numbers(connector):
    """By name, the numbers of the reads whose end is not known."""
    return vars(connector).setdefault("reads_under_way", {})


def end(lab, connector, **done):
    """The step ends; done: of each read that ends, n0=True or False."""
    begin(connector)
    ended = {numbers(connector).pop(name.encode()): well for name, well in done.items()}
    connector.end_step(lab.KVResult(connector=lab.TierResult(ended)))


def step(lab, connector, **done):
    plan = begin(connector)
    end(lab, connector, **done)
    return plan


def picture(connector):
    found = [(name, connector.host.get(name)) for name in NAMES]
    lines = [f"{str(name, 'ascii')}  {each.state}, held {each.ref_cnt} times" for name, each in found if each]
    return "\n".join([*lines, f"{connector.host.num_held_blocks} blocks of main memory are held"])


@concept("A copy comes before the computing, so what a step computes goes down in the next one.", invariant="I1")
def test_what_is_computed_goes_down(lab):
    connector, blocks = make(lab), computed(lab, 0, 1, 2)
    see = check(picture, connector)
    connector.publish(blocks[:2])
    connector.publish(blocks[2:])  # of another request
    see("what the step itself stores", step(lab, connector)[0], equals=[])
    see("lookup() behind it", connector.lookup(NAMES[0]).name, equals="MISS")
    stored = begin(connector)[0]
    see("the blocks that the next step stores", [number for number, _ in stored], [b.block_id for b in blocks])
    see("lookup() before that step has ended", connector.lookup(NAMES[0]).name, equals="HIT_PENDING")
    end(lab, connector)
    see("lookup() when it has ended", connector.lookup(NAMES[0]).name, equals="HIT")
    see("held blocks, but for files that are written", connector.host.num_held_blocks <= 3, equals=True)


@concept("What a failed step has copied or computed is unknown.", invariant="I8")
def test_a_failed_step(lab):
    connector = make(lab)
    see = check(picture, connector)
    connector.publish(computed(lab, 0))
    begin(connector)
    connector.end_step(None)
    see("what is stored behind a step that failed", step(lab, connector)[0], equals=[])
    connector.evict(NAMES[1], 9)
    begin(connector)
    connector.end_step(None)
    see("lookup() of what a failed step has stored", connector.lookup(NAMES[1]).name, equals="MISS")
    see("held blocks", connector.host.num_held_blocks, equals=0)


@concept("What the device gives away goes down before it is written over.", invariant="I2", illustrates=True)
def test_what_is_given_away(lab):
    connector = make(lab, host=3, ready="012")
    see = check(picture, connector)
    connector.evict(NAMES[0], 5)
    connector.evict(NAMES[3], 6)
    see("the blocks that the same step stores", [number for number, _ in begin(connector)[0]], equals=[6])
    see("lookup() of the content that was not used", connector.lookup(NAMES[1]).name, equals="MISS")
    see("lookup() of the content that was", connector.lookup(NAMES[0]).name, equals="HIT")


@concept("A request waits until nothing of it is on its way, in whatever order it comes.", invariant="I3")
@cases(first_first=("n0", "n1", "n2"), last_first=("n2", "n1", "n0"), middle_last=("n0", "n2", "n1"))
def test_waiting(lab, case):
    connector, request = make(lab, on_disk="012"), make_request(lab)
    see = check(picture, connector)
    see("is_ready() at first", connector.is_ready(request, 0), equals=False)
    see("the reads of the first step", step(lab, connector)[2], equals=NAMES[:3])
    for place, name in enumerate(case):
        see(f"is_ready() when {place} of 3 blocks have come", connector.is_ready(request, 0), equals=False)
        step(lab, connector, **{name: True})
    see("is_ready() when all have come", connector.is_ready(request, 0), equals=True)
    see("the reads of the next step", step(lab, connector)[2], equals=[])


@concept("Behind a gap nothing is of use: no token can be computed from it.", invariant="I3")
@cases(gap=({"on_disk": "02"}, 3, [0]), no_place=({"on_disk": "012", "host": 2}, 3, [0, 1]), partly_there=(
    {"ready": "0", "on_disk": "12"}, 3, [1, 2]), on_the_device=({"on_disk": "0123"}, 4, [1, 2, 3]))  # fmt: skip
def test_what_is_read(lab, case):
    options, num_blocks, expected = case
    connector, request = make(lab, **options), make_request(lab, num_blocks=num_blocks)
    see = check(picture, connector)
    num_computed = 4 if num_blocks == 4 else 0
    see("is_ready()", connector.is_ready(request, num_computed), equals=False)
    see("the reads", step(lab, connector)[2], equals=[NAMES[i] for i in expected])


@concept("What has no place in main memory ends the lookup, whatever is behind it.", invariant="I3", illustrates=True)
def test_what_has_no_place(lab):
    connector, x, y = make(lab, host=1, on_disk="01"), make_request(lab, "x", 2), make_request(lab, "y", 2)
    see = check(picture, connector)
    see("is_ready() of x, for its second block", connector.is_ready(x, 4), equals=False)
    see("is_ready() of y, for whose first block there is no place", connector.is_ready(y, 0), equals=True)
    see("how often the second block is held: by the read, and by x", connector.host.get(NAMES[1]).ref_cnt, equals=2)


@concept("A hit is held from the lookup on, or another content takes its place.", invariant="I4")
def test_a_hit_is_held(lab):
    connector, request = make(lab, host=3, ready="01"), make_request(lab)
    see = check(picture, connector)
    see("is_ready()", connector.is_ready(request, 0), equals=True)
    for name in (b"x", b"y", b"z"):
        connector.host.take(name)
    see("lookup() when main memory is full", connector.lookup(NAMES[0]).name, equals="HIT")
    see("lookup() of the second block", connector.lookup(NAMES[1]).name, equals="HIT")


@concept("A load is made by the worker: until the step has ended, its blocks stay.", invariant="I4")
def test_a_load_is_held(lab):
    connector, request = make(lab, host=2, ready="01"), make_request(lab, num_blocks=2)
    see = check(picture, connector)
    connector.is_ready(request, 0)
    connector.load(request, [7, 8], 0)
    connector.evict(NAMES[2], 9)
    stored, loaded, _ = begin(connector)
    see("the device's blocks that are loaded", [number for _, number in loaded], equals=[7, 8])
    see("what is stored over them", stored, equals=[])
    see("held blocks while the step runs", connector.host.num_held_blocks, equals=2)
    connector.end_step(lab.KVResult())
    see("held blocks when it has ended", connector.host.num_held_blocks, equals=0)


@concept("What is given up is let go from the last block on, so that the first one is the newest.", invariant="I4",
         illustrates=True)  # fmt: skip
def test_the_order_of_letting_go(lab):
    connector, request = make(lab, host=2, ready="01"), make_request(lab, num_blocks=2)
    see = check(picture, connector)
    connector.is_ready(request, 0)
    connector.request_finished(request)
    connector.host.take(b"x")
    see("lookup() of the first block, when another content has come", connector.lookup(NAMES[0]).name, equals="HIT")
    see("lookup() of the second one", connector.lookup(NAMES[1]).name, equals="MISS")


@concept("What cannot be read is computed: no request waits for what will not come.", invariant="I5")
def test_a_read_that_fails(lab):
    connector, request = make(lab, on_disk="012"), make_request(lab)
    see = check(picture, connector)
    connector.is_ready(request, 0)
    step(lab, connector)
    step(lab, connector, n0=True, n1=False, n2=True)
    see("is_ready() when a read has failed", connector.is_ready(request, 0), equals=True)
    see("lookup() of what could not be read", connector.lookup(NAMES[1]).name, equals="MISS")
    connector.load(request, [7], 0)
    step(lab, connector)
    see("held blocks when what was read is loaded", connector.host.num_held_blocks, equals=0)


@concept("A client that has gone leaves nothing behind, wherever its blocks are.", invariant="I6")
@cases(before_the_first_step=0, on_the_way=1, arrived=2)
def test_abort(lab, case):
    connector, request = make(lab, ready="0", on_disk="12"), make_request(lab)
    see = check(picture, connector)
    connector.is_ready(request, 0)
    if case:
        step(lab, connector)
    if case == 2:
        step(lab, connector, n1=True, n2=True)
    connector.request_finished(request)
    if case < 2:
        step(lab, connector, n1=True, n2=True)
    see("held blocks when the reads have ended", connector.host.num_held_blocks, equals=0)
    connector.request_finished(request)
    see("held blocks when it is said twice", connector.host.num_held_blocks, equals=0)


@concept("Main memory cannot be held by all who wait: a further request computes.", invariant="I7", illustrates=True)
def test_how_many_wait(lab):
    connector = make(lab, on_disk="0123", max_waiting=2)
    see = check(picture, connector)
    answers = [connector.is_ready(make_request(lab, name, num_blocks), 0) for name, num_blocks in (("a", 1), ("b", 2))]
    see("is_ready() of two requests", answers, equals=[False, False])
    see("is_ready() of a third one", connector.is_ready(make_request(lab, "c", 4), 0), equals=True)
    see("the reads", step(lab, connector)[2], equals=NAMES[:2])


def plan(rng):
    calls = [("connector", rng.randint(1, 6), "".join(d for d in "0123" if rng.random() < 0.6), rng.randint(1, 3))]
    names = ("ask", "ask", "finish", "load", "evict", "step", "step", "step", "fail")
    return calls + [(rng.choice(names), rng.choice("abc"), rng.randint(0, 15)) for _ in range(20)]


def play(lab, calls):
    connector, requests, ready = None, {}, set()
    for name, *arguments in calls:
        if name == "connector":
            host, on_disk, most = arguments
            connector = make(lab, host=host, on_disk=on_disk, max_waiting=most)
            requests = {each: make_request(lab, each, 2 + place) for place, each in enumerate("abc")}
            continue
        request_id, number = arguments
        request, said = requests[request_id], None
        if name == "ask":
            said = connector.is_ready(request, 0)
            if said:
                ready.add(request_id)
        elif name == "finish":
            connector.request_finished(request)
            ready.discard(request_id)
        elif name == "load":
            if request_id in ready:  # as much as main memory has
                num = 0
                while num < len(request.block_hashes) and connector.lookup(NAMES[num]).name == "HIT":
                    num += 1
                connector.load(request, [20 + i for i in range(num)], 0)
                ready.discard(request_id)
        elif name == "evict":
            connector.evict(NAMES[number % 4], 40 + number)
        else:
            said = begin(connector)
            if name == "fail":
                connector.end_step(None)
            else:
                going = [str(each, "ascii") for each in said[2]]
                end(
                    lab,
                    connector,
                    **{each: bool(number & 8) for place, each in enumerate(going) if number >> place & 1},
                )
        law = {"ask": "I3", "finish": "I6", "fail": "I8"}.get(name, "I4")
        yield law, f"what {name} says", said, picture(connector)
        yield law, "lookup() of each name", [connector.lookup(each).name for each in NAMES], picture(connector)
        yield law, "held blocks", connector.host.num_held_blocks, picture(connector)


@concept(
    "Whatever comes, fails and is given up: the tiers of the reference.",
    invariant="I4",
    illustrates=True,
    searches=True,
)
def test_any_calls(lab):
    walk(lab, plan, play, num=120)
