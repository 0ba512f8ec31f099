"""Lab 07.1: what the counters say while a step is in flight, and what arrives late."""

from labkit import cases, check, concept, walk


def make(lab, *, blocks=64, block_size=4, budget=64, seqs=8):
    """A scheduler with so many usable blocks."""
    return lab.AsyncScheduler(
        lab.KVCacheManager(blocks + 1, block_size), max_num_seqs=seqs, max_num_batched_tokens=budget
    )


def add(lab, scheduler, name, length, max_tokens=30, stop=None, longest=None):
    """stop: the position at which the model says a token that ends the request."""
    prompt = [1000 * ord(name) + position for position in range(length)]
    request = lab.Request(
        name,
        prompt,
        lab.SamplingParams(max_tokens=max_tokens),
        eos_token_ids=[] if stop is None else [says(stop)],
        max_model_len=longest,
    )
    scheduler.add_request(request)
    return request


def says(position):
    """What the model says at a position of any text."""
    return 500 + position


class Device:
    """The steps in flight, the oldest first, and the tokens that they sample."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.in_flight = []

    def begin(self):
        """Decide a step; the tokens that it computes, by request."""
        output = self.scheduler.schedule()
        sampled = {}
        for request in output.scheduled_requests:
            num_known = request.num_tokens + sum(request in step[1] for step in self.in_flight)
            if request.num_computed_tokens + output.num_scheduled_tokens[request.request_id] >= num_known:
                sampled[request] = [says(num_known)]
        self.in_flight.append((output, sampled))
        return dict(output.num_scheduled_tokens)

    def end(self):
        """The oldest step ends; the requests that end with it."""
        output, sampled = self.in_flight.pop(0)
        token_ids = {request.request_id: tokens for request, tokens in sampled.items()}
        return [request.request_id for request in self.scheduler.update_from_output(output, token_ids)]

    def go_on(self, most=60):
        """Two steps in flight at any time, until all requests have ended."""
        while most and (self.scheduler.has_unfinished_requests() or self.in_flight):
            while len(self.in_flight) < 2 and self.scheduler.has_unfinished_requests():
                self.begin()
            self.end()
            most -= 1


def counters(scheduler, request):
    return [request.num_computed_tokens, scheduler.num_output_placeholders[request]]


def num_found(lab, scheduler, request):
    """How many tokens of a request's text another request would find in the prefix cache."""
    other = lab.Request("other", [*request.all_token_ids, 1], lab.SamplingParams(max_tokens=1))
    return scheduler.kv_cache_manager.get_computed_blocks(other)[1]


@concept("A step in flight counts as if it had ended: what it computes, and the token that it samples.",
         invariant="I1")  # fmt: skip
@cases(
    one_piece=(5, 64, [5, 1, 1, 1], [[5, 1], [6, 1], [7, 1]]),
    two_chunks=(6, 4, [4, 2, 1, 1], [[4, 0], [6, 1], [7, 1]]),
    chunks_of_three=(7, 3, [3, 3, 1, 1, 1], [[3, 0], [6, 0], [7, 1], [8, 1]]),
    one_token=(1, 64, [1, 1, 1], [[1, 1], [2, 1]]),
)
def test_counters_of_a_step_in_flight(lab, case):
    length, budget, decisions, expected = case
    scheduler = make(lab, budget=budget)
    request, device = add(lab, scheduler, "a", length), Device(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    for number, num_tokens in enumerate(decisions, start=1):
        see(f"tokens of step {number}", device.begin(), equals={"a": num_tokens})
        if number > 1:
            what = f"num_computed_tokens, num_output_placeholders of a while step {number} is decided"
            see(what, counters(scheduler, request), equals=expected[number - 2])
            device.end()


@concept("A step goes ahead once, however often it is asked to.", invariant="I1", illustrates=True)
def test_a_step_counts_once(lab):
    scheduler = make(lab)
    request, device = add(lab, scheduler, "a", 5), Device(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    device.begin()
    device.begin()
    see("num_computed_tokens, num_output_placeholders of a, two steps ahead", counters(scheduler, request), [6, 2])


@concept("Each token takes the place of a placeholder, and no count is below 0.", invariant="I3", illustrates=True)
@cases(one_piece=(5, 64), two_chunks=(6, 4), chunks_of_three=(7, 3), chunks_of_one=(3, 1))
def test_no_count_below_0(lab, case):
    length, budget = case
    scheduler = make(lab, budget=budget)
    request, device = add(lab, scheduler, "a", length), Device(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    for number in range(1, 8):
        device.begin()
        device.end()
        see(f"num_output_placeholders of a after step {number} has ended", counters(scheduler, request)[1], equals=0)


@concept("A request whose last token is in flight waits for it, and gets no token in a step.", invariant="I2")
@cases(
    by_max_tokens=({"max_tokens": 3}, [5, 1, 1]),
    by_max_tokens_of_1=({"max_tokens": 1}, [5]),
    by_max_model_len=({"longest": 7}, [5, 1]),
    by_the_smaller=({"max_tokens": 2, "longest": 9}, [5, 1]),
)
def test_the_last_token_is_in_flight(lab, case):
    options, decisions = case
    scheduler = make(lab)
    request, device = add(lab, scheduler, "a", 5, **options), Device(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    for number, num_tokens in enumerate(decisions[1:], start=2):
        see(f"tokens of step {number}", device.begin(), equals={"a": num_tokens})
        device.end()
    see("tokens of the step that is decided while the last token of a is in flight", device.begin(), equals={})
    see("the requests that run meanwhile", [each.request_id for each in scheduler.running], equals=["a"])
    see("the requests that end when the token is there", device.end(), equals=["a"])
    see("output of a", request.output_token_ids, equals=[says(5 + i) for i in range(len(decisions))])
    see("how a ended", request.finish_reason, equals="length")


@concept("A request that has ended is not touched by the steps that are still in flight.", invariant="I5")
@cases(stop={"stop": 6}, abort={})
def test_one_step_too_many(lab, case):
    scheduler = make(lab)
    request, device = add(lab, scheduler, "a", 5, **case), Device(scheduler)
    add(lab, scheduler, "b", 3)
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    device.begin()
    device.end()
    device.begin()
    if case:
        see("the requests that end with step 2", device.end(), equals=["a"])
    else:
        scheduler.abort_request("a")
        see("the requests that end with step 2", device.end(), equals=[])
    output, num_computed = list(request.output_token_ids), request.num_computed_tokens
    see("blocks of a", scheduler.kv_cache_manager.get_block_ids("a"), equals=[])
    device.begin()
    see("num_output_placeholders of a, a step with it in flight", counters(scheduler, request)[1], equals=0)
    see("the requests that end with step 3", device.end(), equals=[])
    see("output of a after a step too many", request.output_token_ids, equals=output)
    see("num_computed_tokens, num_output_placeholders of a", counters(scheduler, request), equals=[num_computed, 0])


def preempt(lab, **options):
    """Two requests fill a pool of 4 blocks; step 3 preempts b, and step 2 with it is in flight."""
    scheduler = make(lab, blocks=4)
    a, b = add(lab, scheduler, "a", 7, max_tokens=6), add(lab, scheduler, "b", 7, **options)
    device = Device(scheduler)
    device.begin()
    device.begin()
    device.end()
    return scheduler, a, b, device


@concept("A preempted request begins again at 0: nothing in flight counts for it.", invariant="I4", illustrates=True)
def test_a_victim_has_no_placeholder(lab):
    scheduler, _, b, device = preempt(lab)
    see = check(lab.draw.scheduler, scheduler)
    see("tokens of step 3, for which b is preempted", device.begin(), equals={"a": 1})
    see("the requests that wait", [each.request_id for each in scheduler.waiting], equals=["b"])
    see("num_computed_tokens, num_output_placeholders of b", counters(scheduler, b), equals=[0, 0])


@concept("A token that was in flight when its request was preempted is delivered once.", invariant="I4")
def test_a_late_token(lab):
    scheduler, a, b, device = preempt(lab)
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    see("the requests that end with step 2", device.end(), equals=[])
    see("output of b, preempted while step 2 was in flight", b.output_token_ids, equals=[says(7), says(8)])
    see("num_computed_tokens, num_output_placeholders of b", counters(scheduler, b), equals=[0, 0])
    device.go_on()
    see(
        "output of b at its end", b.output_token_ids, equals=[says(7 + i) for i in range(30)][: len(b.output_token_ids)]
    )
    see("output of a at its end", a.output_token_ids, equals=[says(7 + i) for i in range(6)])


@concept("A late token may end its request, which then waits no more.", invariant="I4")
@cases(by_length={"max_tokens": 2}, by_a_stop_token={"stop": 8})
def test_a_late_token_ends(lab, case):
    scheduler, _, b, device = preempt(lab, **case)
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    see("the requests that end with step 2", device.end(), equals=["b"])
    see("output of b", b.output_token_ids, equals=[says(7), says(8)])
    see("the requests that wait", [each.request_id for each in scheduler.waiting], equals=[])
    see("the unfinished requests", [each.request_id for each in scheduler.requests], equals=["a"])
    device.go_on()
    kv = scheduler.kv_cache_manager
    see("free blocks at the end", kv.num_free_blocks, equals=kv.num_usable_blocks)


@concept("A late token ends its own request, which is told behind those that ran.", invariant="I4", illustrates=True)
@cases(the_first=(8, 99), the_second=(99, 8), both=(8, 8))
def test_two_late_tokens(lab, case):
    """Step 3 preempts d and c, and step 2 with them is in flight. In it a ends, and of c and d those that are given."""
    scheduler = make(lab, blocks=4, block_size=8)
    for name, stop in (("a", 8), ("b", None)):
        add(lab, scheduler, name, 7, stop=stop)
    others = [add(lab, scheduler, name, 7, stop=stop) for name, stop in zip("cd", case)]
    device = Device(scheduler)
    device.begin()
    device.begin()
    device.end()
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    waiting = [each.request_id for each in scheduler.waiting]
    late = [each for each, stop in zip("cd", case) if stop == 8]
    see("the requests that step 3 preempts", sorted(waiting), equals=["c", "d"])
    see("the requests that end with step 2", device.end(), equals=["a", *late])
    left = [name for name in waiting if name not in late]
    see("the requests that wait", [each.request_id for each in scheduler.waiting], equals=left)
    see("output of c and d", [each.output_token_ids for each in others], equals=[[says(7), says(8)]] * 2)


@concept("A block of generated tokens is found as soon as the step that fills it has ended.", invariant="I6")
@cases(goes_on=(30, [4, 8, 8, 8, 8, 12]), ends=(2, [4, 8]), ends_later=(6, [4, 8, 8, 8, 8, 12]))
def test_found_by_others(lab, case):
    max_tokens, expected = case
    scheduler = make(lab)
    request, device = add(lab, scheduler, "a", 7, max_tokens), Device(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    device.begin()
    found = []
    for _ in expected:
        device.begin()
        device.end()
        found.append(num_found(lab, scheduler, request))
    see("tokens of a that are found after each step, blocks of 4", found, equals=expected)


def plan(rng):
    """Requests that come, end and are aborted, in a pool that is tight."""
    size = rng.choice((1, 2, 3, 4))
    calls = [("scheduler", rng.randint(14, 30) // size + 1, size, rng.choice((3, 6, 64)))]
    for _ in range(rng.randint(8, 40)):
        kind = rng.choice(("add", "begin", "begin", "end", "end", "end", "abort")) if len(calls) > 2 else "add"
        if kind == "add":
            stop, longest = rng.choice((None, None, rng.randint(3, 14))), rng.choice((None, None, rng.randint(9, 13)))
            calls.append((kind, rng.choice("abcd"), rng.randint(1, 9), rng.choice((1, 2, 6, 12)), stop, longest))
        else:
            calls.append((kind, rng.choice("abcd")) if kind == "abort" else (kind,))
    return [*calls, *[("begin",), ("end",)] * 10]


def play(lab, calls):
    scheduler, device, requests = None, None, {}
    for name, *arguments in calls:
        before = lab.draw.scheduler(scheduler) if scheduler else ""
        if name == "scheduler":
            blocks, size, budget = arguments
            scheduler = make(lab, blocks=blocks, block_size=size, budget=budget)
            device = Device(scheduler)
        elif name == "add":
            if arguments[0] not in requests:
                requests[arguments[0]] = add(lab, scheduler, *arguments)
        elif name == "abort":
            scheduler.abort_request(arguments[0])
        elif name == "begin":
            if len(device.in_flight) < 2 and scheduler.has_unfinished_requests():
                decided = [*device.begin().items()], list(device.in_flight[-1][0].preempted_req_ids)
                yield "I2", "tokens and victims of the step", decided, before
        elif device.in_flight:
            ended = device.end()
            outputs = {each: list(request.output_token_ids) for each, request in requests.items()}
            yield "I3", "outputs, and the requests that ended", (outputs, ended), before
            found = {each: num_found(lab, scheduler, request) for each, request in requests.items()}
            yield "I6", "tokens of each text that are found", found, before
        if scheduler:
            seen = {each: counters(scheduler, request) for each, request in requests.items()}
            law = "I5" if name == "abort" else "I1" if name == "begin" else "I4"
            yield law, "num_computed_tokens, num_output_placeholders of each request", seen, before


@concept("Whatever comes, ends and is preempted: the same decisions, tokens and counters.", invariant="I3",
         illustrates=True, searches=True)  # fmt: skip
def test_any_run(lab):
    walk(lab, plan, play)
