"""Lab 03.4: what a step leaves behind."""

from labkit import cases, check, concept, far, plan_world, play_world, walk


def make(lab, prompts, *, budget=64, max_tokens=16, blocks=64, order="abcdef", **options):
    """A scheduler and its requests a, b, c ... (or others, in this order), one for each length of a prompt."""
    manager = lab.KVCacheManager(blocks + 1, 4)
    limits = {"max_model_len": options.pop("longest", 64), "long_prefill_token_threshold": options.pop("threshold", 0)}
    scheduler = lab.Scheduler(manager, max_num_seqs=8, max_num_batched_tokens=budget, **limits)
    requests = [
        lab.Request(
            name,
            [1000 * ord(name) + position for position in range(length)],
            lab.SamplingParams(max_tokens=max_tokens, **options),
            eos_token_ids=[2],
            choice_index=number,
        )
        for number, (name, length) in enumerate(zip(order, prompts))
    ]
    for request in requests:
        scheduler.add_request(request)
    return scheduler, requests


def names(requests):
    return [request.request_id for request in requests]


@concept(
    "What was scheduled is computed now: the counter moves by the chunk, whether or not a token came out.",
    invariant="I1",
    illustrates=True,
)
@cases(chunks=(10, 4, [4, 8, 10]), at_once=(5, 64, [5]), one_by_one=(3, 1, [1, 2, 3]))
def test_the_counter_moves_by_the_chunk(lab, case):
    length, budget, counters = case
    scheduler, (a,) = make(lab, [length], budget=budget)
    for expected in counters:
        output = scheduler.schedule()
        num_scheduled = output.num_scheduled_tokens["a"]
        tokens = [100] if expected == length else []
        see = check(lab.draw.scheduler, scheduler)
        scheduler.update_from_output(output, {"a": list(tokens)} if tokens else {})
        see(f"a's computed tokens, {num_scheduled} were scheduled", a.num_computed_tokens, equals=expected)
        see("a's output", a.output_token_ids, equals=tokens)


@concept(
    "A sampled token is known and not yet computed: the request is one behind again.", invariant="I2", illustrates=True
)
def test_a_sampled_token_is_one_behind(lab):
    scheduler, (a, b) = make(lab, [3, 5])
    see = check(lab.draw.scheduler, scheduler)
    for step in (1, 2, 3):
        output = scheduler.schedule()
        finished = scheduler.update_from_output(output, {"a": [10 + step], "b": [20 + step]})
        behind = [r.num_tokens - r.num_computed_tokens for r in (a, b)]
        see(f"how far a and b are behind after step {step}", behind, equals=[1, 1])
        see("who finished", names(finished), equals=[])
    see("a's output", a.output_token_ids, equals=[11, 12, 13])
    see("b's output", b.output_token_ids, equals=[21, 22, 23])
    see("all that a knows", a.all_token_ids[3:], equals=[11, 12, 13])


@concept("A step can yield several tokens; all of them count, in their order.", invariant="I2")
@cases(four=4, hundreds=far(300))
def test_several_tokens_of_one_step(lab, case):
    sampled = list(range(11, 11 + case))
    scheduler, (a,) = make(lab, [3], **({"max_tokens": 1000, "blocks": 300, "longest": 1000} if case > 4 else {}))
    output = scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_from_output(output, {"a": list(sampled)})
    see("a's output", a.output_token_ids, equals=sampled)


@concept(
    "A step adds to what a request has: neither an old hit nor a preemption changes the sum, or what ends it.",
    invariant="I1",
)
@cases(had_a_hit=(8, 0), preempted=(0, 3), both=(8, 3))
def test_the_past_is_in_the_counter(lab, case):
    num_cached, num_preemptions = case
    scheduler, (a,) = make(lab, [9], budget=4)
    a.num_cached_tokens, a.num_preemptions = num_cached, num_preemptions
    past = f"an old hit of {num_cached}, {num_preemptions} preemptions"
    for expected in (4, 8, 9):
        output = scheduler.schedule()
        see = check(lab.draw.scheduler, scheduler)
        a.num_cached_tokens = num_cached  # as it stays when a request comes back and finds less
        finished = scheduler.update_from_output(output, {"a": [2]} if expected == 9 else {})
        see(f"a's computed tokens; {past}", a.num_computed_tokens, equals=expected)
    see(f"who finished with the token that ends it; {past}", names(finished), equals=["a"])
    see("num_cached_tokens and num_preemptions at the end", [a.num_cached_tokens, a.num_preemptions], equals=[*case])


@concept("However many tokens come out, the counter moves by what was computed.", invariant="I1")
def test_several_tokens_are_ahead(lab):
    scheduler, (a,) = make(lab, [3])
    output = scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_from_output(output, {"a": [11, 12, 13, 14]})
    see("a's computed tokens, 3 were scheduled and 4 came out", a.num_computed_tokens, equals=3)


@concept("Nothing counts after the token that ends the request.", invariant="I3")
@cases(
    eos=([11, 2, 12, 13], 16, [11, 2], "stop"),
    stop_token=([11, 9, 12, 2], 16, [11, 9], "stop"),
    length=([11, 12, 13, 14], 3, [11, 12, 13], "length"),
    eos_at_the_limit=([11, 12, 2, 2], 3, [11, 12, 2], "stop"),
)
def test_tokens_after_the_end_are_dropped(lab, case):
    sampled, max_tokens, kept, reason = case
    scheduler, (a,) = make(lab, [3], max_tokens=max_tokens, stop_token_ids=[9])
    output = scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    finished = scheduler.update_from_output(output, {"a": sampled})
    see(
        f"a's output, sampled were {sampled}, 2 and 9 end it, max_tokens is {max_tokens}",
        a.output_token_ids,
        equals=kept,
    )
    see("who finished", names(finished), equals=["a"])
    see("why", a.finish_reason, equals=reason)


@concept(
    "A request that ends leaves at once: it is not in running, its blocks are free, and so is its id.",
    invariant="I4",
    illustrates=True,
)
@cases(eos=(2, 16, "stop"), length=(100, 1, "length"))
def test_whoever_ends_leaves(lab, case):
    token, max_tokens, reason = case
    scheduler, (a,) = make(lab, [5], max_tokens=max_tokens)
    output = scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_from_output(output, {"a": [token]})
    see("why a finished", a.finish_reason, equals=reason)
    see("who runs", names(scheduler.running), equals=[])
    see("a's blocks", scheduler.kv_cache_manager.get_block_ids("a"), equals=[])
    see("how many blocks are free", scheduler.kv_cache_manager.num_free_blocks, equals=64)
    see("whether something is left to do", scheduler.has_unfinished_requests(), equals=False)
    scheduler.add_request(lab.Request("a", [1, 2], lab.SamplingParams()))
    see("who waits, after a new request of the same id", names(scheduler.waiting), equals=["a"])


@concept(
    "A request that ends changes nothing for its neighbours: each gets its token and keeps its order.", invariant="I4"
)
@cases(first=[2, 100, 100, 100], last=[100, 100, 100, 2], two_together=[100, 2, 2, 100], all=[2, 2, 2, 2])
def test_neighbours_of_one_that_ends(lab, case):
    scheduler, requests = make(lab, [3, 3, 3, 3], order="bdac")
    output = scheduler.schedule()
    for name in "fe":
        scheduler.add_request(lab.Request(name, [7], lab.SamplingParams()))
    scheduler.waiting[0].num_preemptions = 1
    see = check(lab.draw.scheduler, scheduler)
    finished = scheduler.update_from_output(output, {name: [token] for name, token in zip("bdac", case)})
    ended = [name for name, token in zip("bdac", case) if token == 2]
    others = [name for name in "bdac" if name not in ended]
    see("who finished, in the order of the step", names(finished), equals=ended)
    see("who runs, in the same order as before", names(scheduler.running), equals=others)
    see(
        "requests, those in the books, in the same order as before",
        names(scheduler.requests),
        equals=[*others, "f", "e"],
    )
    see("each output", [request.output_token_ids for request in requests], equals=[[token] for token in case])


@concept("An answer can come too late: a request that ended while the model ran gets nothing more.", invariant="I5")
@cases(abort="abort", stop="stop", length="length", error="error")
def test_an_answer_that_comes_too_late(lab, case):
    scheduler, (a, _) = make(lab, [5, 5])
    output = scheduler.schedule()
    scheduler.finish_request("a", case)
    see = check(lab.draw.scheduler, scheduler)
    finished = scheduler.update_from_output(output, {"a": [100], "b": [100]})
    ended = f", which was ended with {case!r} while the model ran"
    see(f"a's output{ended}", a.output_token_ids, equals=[])
    see(f"why a finished{ended}", a.finish_reason, equals=case)
    see(f"a's computed tokens{ended}", a.num_computed_tokens, equals=0)
    see("who finished in this step", names(finished), equals=[])
    see("how many blocks are free: b has 2", scheduler.kv_cache_manager.num_free_blocks, equals=62)


@concept("A request that ended meanwhile is passed over, and those behind it are not.", invariant="I4")
def test_those_behind_a_late_one(lab):
    scheduler, (_, b, c) = make(lab, [5, 5, 5])
    output = scheduler.schedule()
    scheduler.finish_request("a", "abort")
    see = check(lab.draw.scheduler, scheduler)
    finished = scheduler.update_from_output(output, {"a": [100], "b": [100], "c": [2]})
    see("output of b and c, behind a, which was aborted", [b.output_token_ids, c.output_token_ids], equals=[[100], [2]])
    see("who finished: c, with its last token", names(finished), equals=["c"])
    see("who runs", names(scheduler.running), equals=["b"])


@concept("A late answer cannot end a request a second time.", invariant="I5")
@cases(eos=(2, 16), length=(100, 1))
def test_nobody_ends_twice(lab, case):
    token, max_tokens = case
    scheduler, (a, _) = make(lab, [5, 5], max_tokens=max_tokens)
    output = scheduler.schedule()
    scheduler.finish_request("a", "abort")
    newcomer = lab.Request("a", [1, 2], lab.SamplingParams())  # somebody else under the same id
    scheduler.add_request(newcomer)
    scheduler.add_request(lab.Request("c", [3], lab.SamplingParams()))
    see = check(lab.draw.scheduler, scheduler)
    finished = scheduler.update_from_output(output, {"a": [token], "b": [100]})
    see("whether the aborted a finished in this step", a in finished, equals=False)
    see("why the aborted a finished", a.finish_reason, equals="abort")
    see("who waits", names(scheduler.waiting), equals=["a", "c"])
    see("the output of the new a", newcomer.output_token_ids, equals=[])
    see("the computed tokens of the new a", newcomer.num_computed_tokens, equals=0)
    see("whether the new a is still to do", scheduler.has_unfinished_requests(), equals=True)


@concept(
    "A late answer changes neither the request that was in the step nor the next one of its id, which may run already.",
    invariant="I5",
)
@cases(aborted="abort", stopped="stop")
def test_the_next_of_the_name_runs_already(lab, case):
    scheduler, (first,) = make(lab, [5])
    output = scheduler.schedule()
    scheduler.finish_request("a", case)
    newcomer = lab.Request("a", [1, 2], lab.SamplingParams())
    scheduler.add_request(newcomer)
    scheduler.schedule()
    held = scheduler.kv_cache_manager.get_block_ids("a")
    see = check(lab.draw.scheduler, scheduler)
    finished = scheduler.update_from_output(output, {"a": [100]})
    see("who finished", names(finished), equals=[])
    see("who runs: the new a", names(scheduler.running), equals=["a"])
    see("the blocks of the new a", scheduler.kv_cache_manager.get_block_ids("a"), equals=held)
    see(f"the output of the first a, which was ended with {case!r}", first.output_token_ids, equals=[])
    see("the computed tokens of the first a", first.num_computed_tokens, equals=0)
    see("the output of the new a, which runs", newcomer.output_token_ids, equals=[])
    see("the computed tokens of the new a", newcomer.num_computed_tokens, equals=0)


@concept("Tokens are found by the id of a request: the order of the dictionary says nothing.", invariant="I2")
@cases(all_end=1, nobody_ends=16)
def test_the_order_of_the_dictionary(lab, case):
    scheduler, (c, b, a) = make(lab, [3, 3, 3], max_tokens=case, order="cba")
    see = check(lab.draw.scheduler, scheduler)
    finished = scheduler.update_from_output(scheduler.schedule(), {"a": [70], "c": [71], "b": [72]})
    outputs = [request.output_token_ids for request in (c, b, a)]
    see("the outputs of c, b and a, sampled as a: 70, c: 71, b: 72", outputs, equals=[[71], [72], [70]])
    see("who finished, in the order of the step", names(finished), equals=["c", "b", "a"] if case == 1 else [])


@concept("However many end in one step, all of them leave and all are returned.", invariant="I4")
@cases(twenty=20, hundred=100, hundreds=far(300))
def test_many_end_together(lab, case):
    scheduler = lab.Scheduler(lab.KVCacheManager(case + 2, 4), max_num_seqs=1000, max_num_batched_tokens=1000)
    everybody = [f"r{number}" for number in range(case, 0, -1)]
    for name in (*everybody, "z"):
        scheduler.add_request(lab.Request(name, [7], lab.SamplingParams(max_tokens=1 if name != "z" else 9)))
    see = check()
    finished = scheduler.update_from_output(scheduler.schedule(), {name: [100] for name in (*everybody, "z")})
    see(f"how many finished, of {case + 1}", len(finished), equals=case)
    see(f"who finished, {case} of {case + 1} in the order of the step", names(finished), equals=everybody)
    see("who runs", names(scheduler.running), equals=["z"])
    see("how many blocks are free, all but that of z", scheduler.kv_cache_manager.num_free_blocks, equals=case)


@concept("A request ends when it is as long as the model allows, even if max_tokens leaves more.", invariant="I3")
def test_the_longest_a_request_can_be(lab):
    scheduler, (a,) = make(lab, [3], longest=5, ignore_eos=True)
    see = check(lab.draw.scheduler, scheduler)
    ends = [names(scheduler.update_from_output(scheduler.schedule(), {"a": [2]})) for _ in range(2)]
    see("who finished in the two steps of a prompt of 3, the longest is 5", ends, equals=[[], ["a"]])
    see("why", a.finish_reason, equals="length")


@concept("A request that was preempted is not in the step, and keeps its counter at 0.", invariant="I1")
def test_a_preempted_request_stays_where_it_is(lab):
    scheduler, (a, b) = make(lab, [4, 4], blocks=2)
    lab.drive(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()
    see("who is preempted, since a needs a second block", list(output.preempted_req_ids), equals=["b"])
    scheduler.update_from_output(output, {"a": [100]})
    see("b's computed tokens", b.num_computed_tokens, equals=0)
    see("a's output", a.output_token_ids, equals=[100, 100])
    see("who waits", names(scheduler.waiting), equals=["b"])


@concept(
    "Every number is a token, 0 as well; a request without a token is passed over, and those after it are not.",
    invariant="I2",
)
@cases(left_out={}, empty={"b": []})
def test_token_0_and_no_token(lab, case):
    scheduler, requests = make(lab, [2, 9, 2], order="cba", threshold=4)
    output = scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    sampled = {"c": [200_000], **case, "a": [0, 0]}
    scheduler.update_from_output(output, sampled)
    what = f"output of c, b and a; b computes an inner chunk, sampled were {sampled}"
    see(what, [request.output_token_ids for request in requests], equals=[[200_000], [], [0, 0]])
    computed = [request.num_computed_tokens for request in requests]
    see("computed tokens of c, b and a", computed, equals=[2, 4, 2])


@concept(
    "A request that got no token counts in the order of the step: those behind it that end are the ones that leave.",
    invariant="I4",
    illustrates=True,
)
@cases(left_out={}, empty={"c": []})
def test_no_token_before_an_end(lab, case):
    scheduler, requests = make(lab, [9, 2, 2, 2], order="cbad", threshold=4)
    output = scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    sampled = {**case, "b": [100], "a": [2], "d": [100]}
    finished = scheduler.update_from_output(output, sampled)
    see(f"who finished; c computes an inner chunk, sampled were {sampled}, and 2 ends a", names(finished), equals=["a"])
    see("who runs", names(scheduler.running), equals=["c", "b", "d"])
    see("blocks of a", scheduler.kv_cache_manager.get_block_ids("a"), equals=[])
    see("each output", [request.output_token_ids for request in requests], equals=[[], [100], [2], [100]])


@concept("The numbers of the tokens are the model's affair: none of them stands for no token.", invariant="I2")
@cases(minus_one=[11, -1, 12], zero=[11, 0, 12], first=[-1, 11], alone=[-1], least_of_64_bits=[-(2**63), 2**63])
def test_every_number_is_a_token(lab, case):
    scheduler, (a, b) = make(lab, [3, 3])
    output = scheduler.schedule()
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_from_output(output, {"a": list(case), "b": [13]})
    see(f"output of a, sampled were {case}", a.output_token_ids, equals=case)
    see("output of b", b.output_token_ids, equals=[13])


@concept(
    "Each call returns the requests that it ended, in the order of the step; an earlier answer stays as it is.",
    invariant="I4",
    illustrates=True,
)
def test_what_is_returned(lab):
    scheduler, _ = make(lab, [3, 3, 3], order="cba")
    other, _ = make(lab, [3], order="d")
    see = check(lab.draw.scheduler, scheduler)
    first = scheduler.update_from_output(scheduler.schedule(), {"c": [2], "b": [100], "a": [2]})
    see("who finished in step 1, c before a", names(first), equals=["c", "a"])
    elsewhere = other.update_from_output(other.schedule(), {"d": [2]})
    see("who finished in another scheduler", names(elsewhere), equals=["d"])
    second = scheduler.update_from_output(scheduler.schedule(), {"b": [100]})
    see("who finished in step 2", names(second), equals=[])
    see("what the call of step 1 returned, looked at again", names(first), equals=["c", "a"])


@concept("The list that is returned is the caller's: it is new each time, and no list of the output.", invariant="I6")
@cases(all_end=[2, 2], one_ends=[2, 100], nobody_ends=[100, 100])
def test_the_answer_is_the_callers(lab, case):
    scheduler, _ = make(lab, [3, 3, 3], order="cba", budget=6)
    output = scheduler.schedule()
    ended = [name for name, token in zip("cb", case) if token == 2]
    see = check(lab.draw.scheduler, scheduler)
    first = scheduler.update_from_output(output, {name: [token] for name, token in zip("cb", case)})
    see("who finished in step 1", names(first), equals=ended)
    second = scheduler.update_from_output(scheduler.schedule(), {"a": [2]})
    see("who finished in step 2", names(second), equals=["a"])
    see("what the call of step 1 returned, looked at again", names(first), equals=ended)
    first.clear()
    see(
        "scheduled_requests of step 1, after the caller emptied its list",
        names(output.scheduled_requests),
        equals=["c", "b"],
    )
    third, fourth = (scheduler.update_from_output(scheduler.schedule(), {}) for _ in range(2))
    see("who finished in steps 3 and 4", [names(third), names(fourth)], equals=[[], []])
    see.true("the two calls return two lists", third is not fourth, "one list, returned twice")


@concept("What the call is given stays as it is: the output of schedule() and the sampled tokens.", invariant="I6")
def test_what_is_given_stays(lab):
    scheduler, _ = make(lab, [3, 3, 3], order="cba")
    output, sampled = scheduler.schedule(), {"c": [100, 101], "b": [2, 3], "a": [100]}
    scheduler.finish_request("a", "abort")
    see = check(lab.draw.scheduler, scheduler)
    scheduler.update_from_output(output, sampled)
    see("the sampled tokens after the call", sampled, equals={"c": [100, 101], "b": [2, 3], "a": [100]})
    see("num_scheduled_tokens after the call", output.num_scheduled_tokens, equals={"c": 3, "b": 3, "a": 3})
    see("scheduled_requests after the call", names(output.scheduled_requests), equals=["c", "b", "a"])
    scheduler.update_from_output(scheduler.schedule(), {"c": [102]})
    see("the sampled tokens of step 1 after step 2", sampled["c"], equals=[100, 101])


@concept("An ended request is known by itself and not by its id, which the next one may have.", invariant="I5")
@cases(at_once=(64, 4), in_chunks=(2, 2))
def test_a_name_is_used_again(lab, case):
    budget, computed = case
    scheduler, (first,) = make(lab, [3])
    scheduler.update_from_output(scheduler.schedule(), {"a": [2]})
    scheduler.max_num_batched_tokens = budget
    second = lab.Request("a", [7, 8, 9, 10][: budget + 1], lab.SamplingParams())
    scheduler.add_request(second)
    see = check(lab.draw.scheduler, scheduler)
    sampled = [100] if budget > 4 else []
    scheduler.update_from_output(scheduler.schedule(), {"a": sampled})
    see("the output of the second a", second.output_token_ids, equals=sampled)
    see(f"its computed tokens, budget {budget}", second.num_computed_tokens, equals=computed)
    see("the output of the first a, which had ended", first.output_token_ids, equals=[2])


def plan_steps(rng):
    return plan_world(rng, rare=("finish", "late", "late"), long_prefill_token_threshold=(0, 0, 2, 3))


def play_steps(lab, calls):
    updated = {"computed": "I1", "outputs": "I2", "known": "I2", "finished": "I4", "running": "I4", "waiting": "I4"}
    updated |= {"statuses": "I3", "blocks": "I4", "free": "I4", "unfinished": "I4", "given": "I6"}
    return play_world(lab, calls, decided={"scheduled": "I1"}, updated=updated)


@concept(
    "In any run a step leaves the counters, the tokens, the lists and the blocks as they have to be.",
    invariant="I1",
    searches=True,
)
def test_any_run(lab):
    walk(lab, plan_steps, play_steps, 50)
