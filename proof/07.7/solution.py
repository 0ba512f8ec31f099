"""Runs with two steps in flight against the truth, and buffers that are read after each call."""

from random import Random

from labkit import check, raises


def make(lab, *, blocks=64, block_size=4, budget=64):
    """A scheduler one step ahead, with so many usable blocks."""
    manager = lab.KVCacheManager(blocks + 1, block_size)
    return lab.AsyncScheduler(manager, max_num_seqs=8, max_num_batched_tokens=budget)


def says(position):
    """What the model says at a position of any text."""
    return 500 + position


def make_request(lab, name, length, max_tokens=8, stop=None):
    """A prompt that no request of another name has. stop: the position at which the model says a stop token."""
    prompt = [1000 * ord(name[0]) + position for position in range(length)]
    eos_token_ids = [] if stop is None else [says(stop)]
    return lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens), eos_token_ids=eos_token_ids)


class Device:
    """The steps in flight, the oldest first, and the tokens that they sample."""

    def __init__(self, scheduler):
        self.scheduler, self.in_flight = scheduler, []

    def begin(self):
        """Decide a step, and work out what it samples; the tokens that it computes, by request."""
        output, sampled = self.scheduler.schedule(), {}
        for request in output.scheduled_requests:
            num_known = request.num_tokens + sum(request in earlier for _, earlier in self.in_flight)
            if request.num_computed_tokens + output.num_scheduled_tokens[request.request_id] >= num_known:
                sampled[request] = [says(num_known)]
        self.in_flight.append((output, sampled))
        return dict(output.num_scheduled_tokens)

    def end(self):
        """The oldest step ends; the requests that end with it."""
        output, sampled = self.in_flight.pop(0)
        tokens = {request.request_id: token_ids for request, token_ids in sampled.items()}
        return self.scheduler.update_from_output(output, tokens)


def test_a_request_alone(lab):
    """A prompt of 6 tokens in chunks of at most 4, and three output tokens."""
    scheduler = make(lab, budget=4)
    device, request = Device(scheduler), make_request(lab, "a", 6, max_tokens=3)
    scheduler.add_request(request)
    device.begin()
    for _ in range(5):
        device.begin()
        device.end()
    check()("the output of a", request.output_token_ids, equals=[506, 507, 508])


# --- one step ahead -----------------------------------------------------------------------------------------------


def run(lab, requests, meanwhile=lambda device, number: None, **sizes):
    """Two steps in flight until all have ended. What holds in each step is asked in each step."""
    scheduler, see = make(lab, **sizes), check()
    device, counts = Device(scheduler), scheduler.num_output_placeholders
    for request in requests:
        scheduler.add_request(request)
    for number in range(200):
        if not scheduler.has_unfinished_requests() and not device.in_flight:
            break
        while len(device.in_flight) < 2 and scheduler.has_unfinished_requests():
            device.begin()
            see("placeholders of requests that wait", [counts[each] for each in scheduler.waiting if counts[each]], [])
        meanwhile(device, number)
        device.end()
        see("counts below 0", [counts[each] for each in requests if counts[each] < 0], equals=[])
        left = [each.request_id for each in requests if each.is_finished and counts[each]]
        see("requests that have ended with a placeholder", left, equals=[])
    see("requests that have not ended", [each.request_id for each in requests if not each.is_finished], equals=[])
    see("free blocks at the end", scheduler.kv_cache_manager.num_free_blocks, equals=sizes.get("blocks", 64))
    return see


def expect(see, request, num_tokens):
    """It has this many output tokens, each where it belongs."""
    start = request.num_prompt_tokens
    see(f"output of {request.request_id}", request.output_token_ids, [says(start + i) for i in range(num_tokens)])


def test_a_crowd_with_long_prompts(lab):
    for budget in (3, 5, 9):
        requests = [make_request(lab, name, length) for name, length in zip("abcd", (3, 17, 8, 25))]
        see = run(lab, requests, budget=budget)
        for request in requests:
            expect(see, request, 8)


def test_a_pool_that_is_tight(lab):
    """Requests are preempted while a step with them is in flight, and the last token may be late."""
    for blocks in range(6, 11):
        for length in (3, 4, 5):
            for most in range(2, 7):
                requests = [make_request(lab, name, length, 8) for name in "ab"] + [make_request(lab, "c", 3, most)]
                see = run(lab, requests, blocks=blocks, block_size=2, budget=16)
                for request, num_tokens in zip(requests, (8, 8, most)):
                    expect(see, request, num_tokens)


def test_stops_and_aborts(lab):
    requests = [make_request(lab, name, 4, 12, stop=stop) for name, stop in zip("abcd", (6, 9, None, None))]

    def meanwhile(device, number):
        if number == 4:
            device.scheduler.abort_request("c")

    see = run(lab, requests, meanwhile)
    for name, num_tokens in zip("abd", (3, 6, 12)):
        expect(see, next(each for each in requests if each.request_id == name), num_tokens)


def test_the_last_token_is_foreseen(lab):
    scheduler = make(lab)
    device = Device(scheduler)
    scheduler.add_request(make_request(lab, "a", 3, max_tokens=2))
    see = check()
    see("two steps", [device.begin(), device.begin()], equals=[{"a": 3}, {"a": 1}])
    device.end()
    see("the step after them", device.begin(), equals={})


def test_blocks_are_found(lab):
    """The text of a request that has ended can be found, all of its full blocks."""
    scheduler, request = make(lab, block_size=2), make_request(lab, "a", 3, max_tokens=6)
    device, see = Device(scheduler), check()
    scheduler.add_request(request)
    device.begin()
    for _ in range(9):
        device.begin()
        device.end()
        if request.output_token_ids and not request.is_finished:
            expect_found(lab, see, scheduler, request)
    expect_found(lab, see, scheduler, request)


def expect_found(lab, see, scheduler, request):
    other = lab.Request("other", [*request.all_token_ids, 1], lab.SamplingParams(max_tokens=1))
    found = scheduler.kv_cache_manager.get_computed_blocks(other)[1]
    see(f"tokens found of {request.num_tokens}", found, equals=(request.num_tokens - 1) // 2 * 2)


# --- a recorded step ----------------------------------------------------------------------------------------------


def record(lab, size=4):
    """A graph of two kernels, its buffers, and what its kernels have read."""
    buffers = {name: [9] * 6 for name in ("input_ids", "positions", "slot_mapping", "hidden")}
    graph, seen = lab.StepGraph(size, buffers), []

    def forward(launch):
        launch(lambda ids, hidden: seen.append(list(ids)), "input_ids", "hidden")
        launch(lambda positions, slots: seen.append((list(positions), list(slots))), "positions", "slot_mapping")

    graph.record(forward)
    return graph, buffers, seen


def test_padded_steps(lab):
    graph, buffers, seen = record(lab)
    see = check()
    see("kernels that ran in the recording", seen, equals=[])
    lists = dict(buffers)
    for number in (4, 2, 3, 1, 4, 1):
        graph.pad([lab.Row(1 + i, 20 + i, 40 + i) for i in range(number)])
        rest = 4 - number
        wanted = [[*range(1, 1 + number)] + [0] * rest + [9] * 2]
        wanted += [
            ([*range(20, 20 + number)] + [0] * rest + [9] * 2, [*range(40, 40 + number)] + [-1] * rest + [9] * 2)
        ]
        seen.clear()
        graph.replay()
        see(f"what a replay of {number} rows reads", seen, equals=wanted)
    see("buffers that are other lists", [name for name in lists if buffers[name] is not lists[name]], equals=[])


def test_what_is_refused(lab):
    graph, buffers, seen = record(lab)
    see = check()
    see("steps that fit", [number for number in range(-1, 9) if graph.can_use(number)], equals=[1, 2, 3, 4])
    with raises(ValueError, "five rows in a graph of four"):
        graph.pad([lab.Row(1, 2, 3)] * 5)
    buffers["hidden"] = list(buffers["hidden"])
    with raises(lab.MovedBufferError, "a buffer is another list"):
        graph.replay()
    see("kernels that ran", seen, equals=[])
    graph.destroy()
    see("steps that fit, when it is destroyed", [number for number in range(9) if graph.can_use(number)], equals=[])


# --- which graph --------------------------------------------------------------------------------------------------


def test_the_graph_holds_the_step(lab):
    see, sizes = check(), [2, 4, 8]
    for mode in ("piecewise", "full", "full_decode_only", "full_and_piecewise"):
        dispatcher = lab.Dispatcher(mode, sizes, 4, query_len=2)
        for step in ([2], [2, 2], [2, 2, 2], [1, 3], [3], [1], [7], [8], [9], [2, 2, 2, 2, 2], [], [4, 2, 2]):
            total, is_uniform = sum(step), bool(step) and set(step) == {2}
            size = next((size for size in sizes if size >= total), None) if total else None
            kind, key = dispatcher.dispatch(step)
            what = f"graph of {mode} for {step}"
            if size is None:
                wanted = ("none", None)
            elif mode == "full":
                wanted = ("full", (size, min(size, 4), False))
            elif is_uniform and mode != "piecewise":
                wanted = ("full", (size, size // 2, True))
            else:
                wanted = ("none", None) if mode == "full_decode_only" else ("piecewise", (size, None, False))
            see(what, (kind, key and tuple(key)), equals=wanted)


# --- deltas -------------------------------------------------------------------------------------------------------


def test_rows_that_come_and_go(lab):
    """The buffers are what they would be if each step wrote all of them."""
    for seed in range(20):
        rng, batch, model = Random(seed), lab.DeltaBatch(4, 3), []
        see = check()
        for _ in range(30):
            names = [row[0] for row in model]
            name = rng.choice("abcd")
            if name not in names:
                blocks = [rng.randint(1, 99) for _ in range(rng.randint(0, 3))]
                batch.add(name, 5, 6, blocks)
                model.append([name, 5, 6, blocks])
                continue
            row = model[names.index(name)]
            action = rng.choice(("remove", "advance", "extend"))
            if action == "remove":
                batch.remove(name)
                model[names.index(name)] = model[-1]
                model.pop()
            elif action == "advance":
                token = rng.randint(10, 99)
                batch.advance(name, token)
                row[1:3] = token, row[2] + 1
            elif len(row[3]) < 3:
                batch.extend(name, [77])
                row[3].append(77)
            rest = 4 - len(model)
            see("requests by row", list(batch.req_ids), equals=[row[0] for row in model])
            see("input_ids", list(batch.input_ids), equals=[row[1] for row in model] + [0] * rest)
            see("positions", list(batch.positions), equals=[row[2] for row in model] + [0] * rest)
            tables = [block for row in model for block in row[3] + [-1] * (3 - len(row[3]))]
            see("block_tables", list(batch.block_tables), equals=tables + [-1] * (3 * rest))
