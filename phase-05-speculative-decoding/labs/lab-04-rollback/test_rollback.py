"""Lab 05.4: what a step with drafts leaves behind."""

from labkit import cases, check, concept, far, walk

K = 4  # most drafts of a request


def make(lab, *, blocks=64, block_size=4, budget=64, k=K, seqs=4, **options):
    """A scheduler with so many usable blocks; drafts come from the test alone."""
    manager = lab.KVCacheManager(blocks + 1, block_size)
    scheduler = lab.SpeculativeScheduler(
        manager, max_num_seqs=seqs, max_num_batched_tokens=budget, num_speculative_tokens=k, **options
    )
    scheduler.proposer = None
    return scheduler


def make_request(lab, name, length, max_tokens=30, **options):
    prompt = [1000 * ord(name) + position for position in range(length)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens), **options)


def add(lab, scheduler, name, length, max_tokens=30, **options):
    request = make_request(lab, name, length, max_tokens, **options)
    scheduler.add_request(request)
    return request


def says(position):
    """What the model says at a position of any text."""
    return 500 + position


def drafts_of(request, pattern):
    """Drafts behind the known tokens: r for a right one, w for a wrong one."""
    return [says(request.num_tokens + i) if kind == "r" else 7 for i, kind in enumerate(pattern)]


def answer(output, request):
    """Right drafts of the request, and the token behind them."""
    tokens = [says(request.num_tokens)]
    for draft in output.drafts.get(request.request_id, ()):
        if draft != tokens[-1]:
            break
        tokens.append(says(request.num_tokens + len(tokens)))
    return tokens


def compute(scheduler, output):
    """What the model gives all requests of a step."""
    return {
        request.request_id: answer(output, request)
        for request in output.scheduled_requests
        if scheduler.needs_sample(request, output.num_scheduled_tokens[request.request_id])
    }


def step(scheduler):
    """A whole step; what it decided, and which requests finished."""
    output = scheduler.schedule()
    decided = dict(output.num_scheduled_tokens), {name: list(drafts) for name, drafts in output.drafts.items()}
    return decided, scheduler.update_from_output(output, compute(scheduler, output))


def begin(lab, length=5, max_tokens=30, **options):
    """A scheduler and a request that has computed its prompt and has its first token."""
    scheduler = make(lab)
    request = add(lab, scheduler, "a", length, max_tokens, **options)
    step(scheduler)
    return scheduler, request


def num_found(lab, scheduler, request):
    """How many tokens of a request's text another request would find in the prefix cache."""
    text = [*request.all_token_ids, 1]
    other = lab.Request("other", text, lab.SamplingParams(max_tokens=1))
    return scheduler.kv_cache_manager.get_computed_blocks(other)[1]


def counted(scheduler):
    stats = scheduler.speculation_stats
    return [
        stats.num_drafts,
        stats.num_draft_tokens,
        stats.num_accepted_tokens,
        *stats.num_accepted_tokens_per_pos,
    ]


@concept("The counter goes back by the drafts that were wrong: they are behind what the request knows.", invariant="I1",
         illustrates=True)  # fmt: skip
@cases(none="wwww", one="rwww", two_of_three="rrw", fits_again="rwrr", all="rrrr", just_one="r", just_a_wrong_one="w")
def test_the_counter(lab, case):
    scheduler, request = begin(lab)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({"a": drafts_of(request, case)})
    num_right = len(case) - len(case.lstrip("r"))
    decided, _ = step(scheduler)
    see("tokens that the step computes of a", decided[0], equals={"a": 1 + len(case)})
    got = [request.num_computed_tokens, request.num_tokens]
    see(f"computed and known tokens of a, drafts {case}", got, equals=[6 + num_right, 7 + num_right])
    see("tokens that the next step computes", step(scheduler)[0], equals=({"a": 1}, {}))
    see("output of a", request.output_token_ids, equals=[says(5 + i) for i in range(3 + num_right)])


@concept("What ends a request among accepted drafts ends it there, and the rest is thrown away.", invariant="I2")
@cases(
    length=({"max_tokens": 3}, 3, "length"),
    length_at_once=({"max_tokens": 2}, 2, "length"),
    stop_at_a_draft=({"eos_token_ids": [says(7)]}, 3, "stop"),
    stop_at_the_first=({"eos_token_ids": [says(6)]}, 2, "stop"),
    stop_behind_the_drafts=({"eos_token_ids": [says(10)]}, 6, "stop"),
    stop_before_length=({"eos_token_ids": [says(7)], "max_tokens": 5}, 3, "stop"),
    length_before_stop=({"eos_token_ids": [says(8)], "max_tokens": 3}, 3, "length"),
)
def test_the_end(lab, case):
    options, length, reason = case
    scheduler, request = begin(lab, **options)
    other = add(lab, scheduler, "b", 3)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({"a": drafts_of(request, "rrrr")})
    _, finished = step(scheduler)
    see("output of a, all drafts right", request.output_token_ids, equals=[says(5 + i) for i in range(length)])
    see("how a ended", request.finish_reason, equals=reason)
    see("the requests that finished", [each.request_id for each in finished], equals=["a"])
    see("blocks of a", scheduler.kv_cache_manager.get_block_ids("a"), equals=[])
    see("the requests that run", [each.request_id for each in scheduler.running], equals=["b"])
    see("output of b", other.output_token_ids, equals=[says(3)])


@concept("Requests that end in one step end in its order, whether they had drafts or not.", invariant="I2",
         illustrates=True)  # fmt: skip
@cases(
    drafts_first={"a": "rr", "b": "", "c": ""}, drafts_last={"a": "", "b": "", "c": "rr"},
    drafts_around={"a": "rr", "b": "", "c": "rrrr"}, drafts_within={"a": "", "b": "rw", "c": ""},
)  # fmt: skip
def test_order_of_the_ends(lab, case):
    scheduler = make(lab)
    requests = {name: add(lab, scheduler, name, 5, max_tokens=2) for name in case}
    step(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({name: drafts_of(requests[name], pattern) for name, pattern in case.items()})
    _, finished = step(scheduler)
    see("the requests that finished", [request.request_id for request in finished], equals=["a", "b", "c"])


@concept("Token 0 is a token, -1 as a draft is one that is never right.", invariant="I6", illustrates=True)
@cases(
    zeros_are_right=([0, 0, 0], [0, 0, 0, 5], None, [0, 0, 0, 5], [1, 3, 3]),
    zero_is_wrong=([0, 0], [5], None, [5], [1, 2, 0]),
    zero_ends_it=([0, 0, 0], [0, 0, 0, 5], 0, [0], [1, 3, 3]),
    no_token=([-1, -1, -1, -1], [5], None, [5], [1, 4, 0]),
    no_token_behind_a_right_one=([9, -1, -1], [9, 5], None, [9, 5], [1, 3, 1]),
)  # fmt: skip
def test_token_0_and_no_token(lab, case):
    drafts, sampled, stop, expected, counts = case
    scheduler, request = begin(lab, eos_token_ids=[] if stop is None else [stop])
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({"a": drafts})
    output = scheduler.schedule()
    see("drafts of the step", list(output.drafts["a"]), equals=drafts)
    scheduler.update_from_output(output, {"a": list(sampled)})
    see(f"output of a, drafts {drafts}, sampled {sampled}", request.output_token_ids, equals=[says(5), *expected])
    see("times, drafts, right ones", counted(scheduler)[:3], equals=counts)
    see("whether a has ended", request.is_finished, equals=stop is not None)


@concept("A request that was ended while the model ran has left the engine: nothing of it changes.", invariant="I2")
def test_ended_meanwhile(lab):
    scheduler, request = begin(lab)
    scheduler.update_draft_token_ids({"a": drafts_of(request, "rrrr")})
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    sampled = compute(scheduler, output)
    scheduler.abort_request("a")
    newcomer = add(lab, scheduler, "a", 3)
    see("the requests that finished", scheduler.update_from_output(output, sampled), equals=[])
    see("output of the request that was aborted", request.output_token_ids, equals=[says(5)])
    see("output of the next request of that id", newcomer.output_token_ids, equals=[])
    see("what was counted", counted(scheduler), equals=[0, 0, 0, 0, 0, 0, 0])


@concept("A block that accepted drafts fill can be found as soon as they are accepted.", invariant="I3")
@cases(
    one_block=(5, 30, "rrrr", 8),
    two_blocks=(7, 30, "rrrr", 12),
    with_wrong_ones=(5, 30, "rrw", 8),
    of_a_request_that_ends=(5, 6, "rrrr", 8),
)
def test_published_at_once(lab, case):
    length, max_tokens, pattern, expected = case
    scheduler, request = begin(lab, length, max_tokens)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({"a": drafts_of(request, pattern)})
    step(scheduler)
    see("tokens of a's text that are found, blocks of 4", num_found(lab, scheduler, request), equals=expected)


@concept("The newest token has no K and V yet, so no block that holds it is published.", invariant="I3")
@cases(behind_a_draft=(5, "rwww", 4), behind_none=(6, "www", 4), in_the_third_block=(9, "rw", 8))
def test_not_before_it_is_computed(lab, case):
    length, pattern, expected = case
    scheduler, request = begin(lab, length)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({"a": drafts_of(request, pattern)})
    step(scheduler)
    see("known tokens that are found, blocks of 4", num_found(lab, scheduler, request), equals=expected)
    scheduler.abort_request("a")
    see("the same when a was aborted", num_found(lab, scheduler, request), equals=expected)


@concept("A preempted request computes its tokens again when it comes back, and has no drafts.", invariant="I4")
@cases(with_drafts="rrrr", without_drafts="")
def test_drafts_of_a_victim(lab, case):
    scheduler = make(lab, blocks=4)
    a, b = add(lab, scheduler, "a", 7, max_tokens=6), add(lab, scheduler, "b", 7)
    step(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({"a": drafts_of(a, "rrrr"), "b": drafts_of(b, case)})
    see("tokens and drafts of the step", step(scheduler)[0], equals=({"a": 5}, {"a": [508, 509, 510, 511]}))
    see("the requests that wait", [each.request_id for each in scheduler.waiting], equals=["b"])
    see("tokens and drafts when b comes back", step(scheduler)[0], equals=({"b": 4}, {}))


@concept("Drafts are for requests that run and know all their tokens; they wait until a step has room.", invariant="I4",
         illustrates=True)  # fmt: skip
def test_whose_drafts(lab):
    scheduler = make(lab, budget=9)
    a, b, c = add(lab, scheduler, "a", 3), add(lab, scheduler, "b", 12), add(lab, scheduler, "c", 3)
    step(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    everyone = {"a": drafts_of(a, "rr"), "b": [1, 2], "c": [1, 2], "nobody": [1, 2], "": []}
    scheduler.update_draft_token_ids(everyone)
    see("a runs, b is in its prompt, c waits: the drafts", step(scheduler)[0][1], equals={"a": [504, 505]})
    scheduler.update_draft_token_ids({"a": (), "b": drafts_of(b, "rr"), "c": [1]})
    see("now b runs, too: the drafts of the step", step(scheduler)[0][1], equals={"b": [513, 514]})
    scheduler.update_draft_token_ids({"a": drafts_of(a, "rrrr"), "b": drafts_of(b, "rrrr"), "c": drafts_of(c, "rrrr")})
    those_of_c, decided = drafts_of(c, "rrrr"), step(scheduler)[0]
    see("a budget of 9 for three requests with four drafts each", decided[0], equals={"a": 5, "b": 4})
    see("the next step, in which the drafts of c had to wait", step(scheduler)[0][1], equals={"c": those_of_c})


@concept("Drafts wait until a step verifies them, or until there are newer ones for their request.", invariant="I4",
         illustrates=True)  # fmt: skip
def test_drafts_that_wait(lab):
    scheduler = make(lab, budget=9)
    a, b, c = (add(lab, scheduler, name, 3) for name in "abc")
    step(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({each.request_id: drafts_of(each, "rrrr") for each in (a, b, c)})
    first = drafts_of(c, "rrrr")
    see("a budget of 9 for three requests with four drafts each", step(scheduler)[0][0], equals={"a": 5, "b": 4})
    scheduler.update_draft_token_ids({"a": drafts_of(a, "w"), "c": []})
    output = scheduler.schedule()
    see("drafts of c, after drafts of a came", list(output.drafts["c"]), equals=first)
    scheduler.update_from_output(output, compute(scheduler, output))
    scheduler.update_draft_token_ids({each.request_id: drafts_of(each, "rrrr") for each in (a, b, c)})
    newer = drafts_of(c, "rw")
    scheduler.update_draft_token_ids({"c": newer})
    step(scheduler)
    see("drafts of c, after newer ones came", list(step(scheduler)[0][1]["c"]), equals=newer)


@concept("However many run, each of them may have drafts.", invariant="I4")
def test_a_crowd_has_drafts(lab):
    num = far(100)
    scheduler = make(lab, blocks=2 * num, budget=3 * num, seqs=num)
    requests = [add(lab, scheduler, chr(200 + number), 3) for number in range(num)]
    step(scheduler)
    scheduler.update_draft_token_ids({each.request_id: drafts_of(each, "rw") for each in requests})
    see = check()
    see(f"how many of {num} have drafts in the next step", len(step(scheduler)[0][1]), equals=num)


@concept("A draft model writes ahead of the target, but never past the end of the request or of the pool.",
         invariant="I5")  # fmt: skip
@cases(
    in_the_middle=(40, None, 10, 14),
    up_to_the_longest=(40, 14, 10, 14),
    past_the_longest=(40, 12, 10, 12),
    at_the_longest=(40, 10, 10, 10),
    past_the_pool=(12, None, 10, 12),
    at_the_pool=(10, None, 10, 10),
    the_smaller_limit=(12, 11, 10, 11),
    more_than_fits=(8, 9, 10, 10),
    blocks_of_4=(10, None, 37, 40, 4),
    blocks_of_4_and_the_longest=(10, 39, 37, 39, 4),
    blocks_of_16=(3, None, 40, 44, 16),
    no_lookahead=(40, None, 10, 10, 1, 0),
    far_ahead=(40_000, None, 10, 5_010, 1, 5_000),
    no_token=(40, None, 0, 4),
)
def test_lookahead(lab, case):
    blocks, max_model_len, num_tokens, expected, size, num_lookahead = (*case, *(1, 4)[len(case) - 4 :])
    manager = lab.KVCacheManager(blocks + 1, size)
    manager.num_lookahead_tokens = num_lookahead
    request = make_request(lab, "a", 5, max_model_len=max_model_len)
    see = check(
        lambda: f"{blocks} usable blocks of {size}, {num_lookahead} lookahead tokens, max_model_len {max_model_len}"
    )
    see(f"num_slots(request, {num_tokens})", manager.num_slots(request, num_tokens), equals=expected)


@concept("Statistics are counted once for each request and step, and each position for itself.", invariant="I6")
@cases(
    all_right=(["rrrr"], [1, 4, 4, 1, 1, 1, 1]),
    none_right=(["www"], [1, 3, 0, 0, 0, 0, 0]),
    several=(["rrrr", "rwww", "ww", "rr", "rrrw"], [5, 16, 10, 4, 3, 2, 1]),
    beyond_the_end=(["rr", "rrrr"] * 3, [4, 12, 12, 4, 4, 2, 2]),
)
def test_statistics(lab, case):
    patterns, expected = case
    scheduler, request = begin(lab, max_tokens=15)
    see = check(lab.draw.scheduler, scheduler)
    for pattern in patterns:
        if not request.is_finished:
            scheduler.update_draft_token_ids({"a": drafts_of(request, pattern)})
            step(scheduler)
    what = f"times, drafts, right ones, and right ones by position, after {' '.join(patterns)}"
    see(what, counted(scheduler), equals=expected)


@concept("There are as many counts as drafts may be right, whatever k is.", invariant="I6", illustrates=True)
@cases(
    one=([3, 2], 5, [2]),
    two=([0, 0, 7], 14, [7, 7]),
    nine=([1, 0, 2, 0, 0, 0, 0, 0, 0, 3], 50, [5, 5, 3, 3, 3, 3, 3, 3, 3]),
    nothing_yet=([0] * 41, 0, [0] * 40),
)
def test_numbers_of_the_statistics(lab, case):
    counts, num_drafts, by_position = case
    stats = lab.SpeculationStats(list(counts), num_drafts)
    see = check(lambda: f"num_drafts_by_accepted {counts}")
    see("num_drafts", stats.num_drafts, equals=sum(counts))
    see("num_draft_tokens", stats.num_draft_tokens, equals=num_drafts)
    see("num_accepted_tokens", stats.num_accepted_tokens, equals=sum(by_position))
    see("num_accepted_tokens_per_pos", list(stats.num_accepted_tokens_per_pos), equals=by_position)
    see("num_drafts_by_accepted", list(stats.num_drafts_by_accepted), equals=counts)


@concept("Each number of drafts is verified, counted and rolled back in the same way.", invariant="I6",
         illustrates=True)  # fmt: skip
@cases(
    one_right=(1, "r"), one_wrong=(1, "w"), nine=(9, "rrrrrrrrr"), five_of_nine=(9, "rrrrrwwww"), many=(40, "r" * 40)
)
def test_other_numbers_of_drafts(lab, case):
    k, pattern = case
    scheduler = make(lab, k=k)
    request = add(lab, scheduler, "a", 5, max_tokens=60)
    step(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_draft_token_ids({"a": drafts_of(request, pattern)})
    step(scheduler)
    num_right = len(pattern) - len(pattern.lstrip("r"))
    see("computed and known tokens", [request.num_computed_tokens, request.num_tokens], [6 + num_right, 7 + num_right])
    by_position = [1] * num_right + [0] * (k - num_right)
    see("what was counted", counted(scheduler), equals=[1, len(pattern), num_right, *by_position])
    see("num_drafts_by_accepted", list(scheduler.speculation_stats.num_drafts_by_accepted),
        equals=[int(i == num_right) for i in range(k + 1)])  # fmt: skip


class Drafts:
    """A proposer whose first drafts are right, so many of them."""

    def __init__(self, num_right):
        self.num_right = num_right

    def propose(self, request, num_tokens):
        return drafts_of(request, "r" * min(self.num_right, num_tokens) + "w" * (num_tokens - self.num_right))

    def forget(self, request):
        pass


@concept("The pace of a request hears how many drafts were right, and asks for fewer when they are not.",
         invariant="I6", illustrates=True)  # fmt: skip
@cases(
    all_wrong=(0, [1, 0, 0, 0, 0, 1]),
    all_right=(9, [1, 4, 4, 4, 4, 4]),
    one_right=(1, [1, 4, 3, 3, 3, 3]),
    two_right=(2, [1, 4, 3, 3, 3, 3]),
)
def test_the_pace_hears_of_it(lab, case):
    num_right, expected = case
    scheduler = make(lab)
    scheduler.proposer = Drafts(num_right)
    add(lab, scheduler, "a", 5)
    see = check(lab.draw.scheduler, scheduler)
    step(scheduler)
    lengths = [len(step(scheduler)[0][1].get("a", ())) for _ in range(6)]
    see(f"drafts of six steps, of which {num_right} are right at most", lengths, equals=expected)


def plan(rng):
    """Requests that share prefixes in a small pool, whose drafts are right more often than not."""
    size, method = rng.choice((1, 2, 3, 4)), rng.choice(("ngram", "draft_model"))
    calls = [("scheduler", rng.randint(12, 40) // size + 1, size, rng.choice((6, 9, 12, 64)), method)]
    for _ in range(rng.randint(8, 30)):
        kind = rng.choice(("add", "step", "step", "step", "step", "abort")) if len(calls) > 2 else "add"
        if kind == "add":
            stop = rng.choice((None, None, rng.randint(3, 14)))
            longest = rng.choice((None, None, rng.randint(9, 14)))
            calls.append((kind, rng.choice("abc"), rng.randint(1, 9), rng.choice((2, 6, 30)), stop, longest))
        elif kind == "abort":
            calls.append((kind, rng.choice("abc")))
        else:
            patterns = ["".join(rng.choice("rrrw") for _ in range(rng.randint(0, K))) for _ in range(3)]
            calls.append((kind, patterns, rng.choice((None, None, None, *"abc"))))
    return calls


def play(lab, calls):
    scheduler, requests = None, {}
    for name, *arguments in calls:
        if name == "scheduler":
            blocks, size, budget, method = arguments
            scheduler = make(lab, blocks=blocks, block_size=size, budget=budget, speculative=method)
        elif name == "add":
            request_id, length, max_tokens, stop, longest = arguments
            if request_id in requests and not requests[request_id].is_finished:
                continue
            options = {"eos_token_ids": [] if stop is None else [says(stop)], "max_model_len": longest}
            requests[request_id] = add(lab, scheduler, request_id, length, max_tokens, **options)
        elif name == "abort":
            scheduler.abort_request(arguments[0])
        else:
            patterns, ended = arguments
            before = lab.draw.scheduler(scheduler)
            output = scheduler.schedule()
            drafts = {name: list(drafts) for name, drafts in output.drafts.items()}
            decided = [*output.num_scheduled_tokens.items()], drafts, list(output.preempted_req_ids)
            yield "I4", "tokens, drafts and victims of the step", decided, before
            held = {each: len(scheduler.kv_cache_manager.get_block_ids(each)) for each in "abc"}
            yield "I5", "how many blocks each request holds", held, before
            sampled = compute(scheduler, output)
            if ended:
                scheduler.abort_request(ended)
            before = lab.draw.scheduler(scheduler)
            finished = [each.request_id for each in scheduler.update_from_output(output, sampled)]
            outputs = {each: list(request.output_token_ids) for each, request in requests.items()}
            yield "I2", "outputs, and the requests that finished", (outputs, finished), before
            computed = {each.request_id: each.num_computed_tokens for each in scheduler.running}
            yield "I1", "computed tokens of the running requests", computed, before
            found = {each: num_found(lab, scheduler, request) for each, request in requests.items()}
            yield "I3", "tokens of each text that are found", found, before
            yield "I6", "what was counted", counted(scheduler), before
            live = scheduler.requests
            scheduler.update_draft_token_ids(
                {each.request_id: drafts_of(each, pattern) for each, pattern in zip(live, patterns)}
            )


@concept("Whatever comes, ends and is drafted: the same tokens, counters, blocks and figures.", invariant="I2",
         illustrates=True, searches=True)  # fmt: skip
def test_any_run(lab):
    walk(lab, plan, play)
