"""Lab 03.9: what a step says of itself, and how the figures of many steps are put together."""

from labkit import cases, check, concept, processor_seconds, scaled, walk


def make(lab, prompts, *, shared=0, blocks=64, budget=64, max_tokens=16, seqs=8, caching=True):
    """A scheduler with blocks of 4, and requests a, b, c ... of these lengths; `shared` tokens in front are equal."""
    manager = lab.KVCacheManager(blocks + 1, 4, enable_prefix_caching=caching)
    scheduler = lab.Scheduler(manager, max_num_seqs=seqs, max_num_batched_tokens=budget)
    for name, length in zip("abcdef", prompts):
        add(lab, scheduler, name, length, shared, max_tokens)
    return scheduler


def add(lab, scheduler, name, length, shared=0, max_tokens=16):
    prompt = [position if position < shared else 1000 * ord(name) + position for position in range(length)]
    scheduler.add_request(lab.Request(name, prompt, lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)))


def turn(lab, scheduler, recorder):
    """One step: schedule(), record(), a token 100 for everybody who caught up. Returns the figures."""
    output = scheduler.schedule()
    figures = recorder.record(output, lab.KVPlan())
    sampled = {
        request.request_id: [100]
        for request in output.scheduled_requests
        if scheduler.needs_sample(request, output.num_scheduled_tokens[request.request_id])
    }
    scheduler.update_from_output(output, sampled)
    return figures


def lookups(figures):
    return (figures.prefix_cache_queries, figures.prefix_cache_hits)


# --- record() -----------------------------------------------------------------------------------------------------


@concept(
    "A running request need not compute: one that gets no token in this step counts as running all the same.",
    invariant="I1",
)
def test_who_runs_and_who_computes(lab):
    scheduler = make(lab, [3, 3, 3, 5], seqs=3)
    recorder = lab.StatsRecorder(scheduler)
    turn(lab, scheduler, recorder)
    scheduler.max_num_batched_tokens = 2
    see = check(lab.draw.scheduler, scheduler)
    figures = turn(lab, scheduler, recorder)
    see("num_running_reqs, three run on a budget of 2", figures.num_running_reqs, equals=3)
    see("num_waiting_reqs", figures.num_waiting_reqs, equals=1)
    see("num_scheduled_reqs", figures.num_scheduled_reqs, equals=2)


@concept("A victim waits like every other request that does not run.", invariant="I1")
def test_a_victim_waits(lab):
    scheduler = make(lab, [4, 4, 4], blocks=2, seqs=2)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    figures = [turn(lab, scheduler, recorder) for _ in range(3)]
    see(
        "num_waiting_reqs: c never began, b is thrown out in step 2",
        [each.num_waiting_reqs for each in figures],
        equals=[1, 2, 2],
    )
    see("num_running_reqs", [each.num_running_reqs for each in figures], equals=[2, 1, 1])


@concept(
    "Usage is the share of the usable blocks that are held: a shared block counts once, a cached free one does not.",
    invariant="I1",
)
@cases(
    a_half=((13,), {}, [0.5]),
    all_of_them=((32,), {}, [1.0]),
    shared=((9, 9), {"shared": 8}, [0.5, 0.5]),
    with_the_next_token=((4,), {}, [0.125, 0.25]),
    only_cached=((16, 4), {"seqs": 1, "max_tokens": 1}, [0.5, 0.125]),
)
def test_usage(lab, case):
    prompts, options, usages = case
    scheduler = make(lab, prompts, blocks=8, **options)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    for usage in usages:
        output = scheduler.schedule()
        see(
            "kv_cache_usage between schedule() and the model",
            recorder.record(output, lab.KVPlan()).kv_cache_usage,
            equals=usage,
        )
        sampled = {request.request_id: [100] for request in output.scheduled_requests}
        scheduler.update_from_output(output, sampled)


@concept("The tokens of a step are those that it computes, not what was allowed and not what is known.", invariant="I2")
def test_tokens_of_a_step(lab):
    scheduler = make(lab, [10, 3], budget=8)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    figures = [turn(lab, scheduler, recorder) for _ in range(3)]
    see(
        "num_scheduled_tokens: 8 of a | 2 of a and 3 of b | two decodes",
        [each.num_scheduled_tokens for each in figures],
        equals=[8, 5, 2],
    )
    see("num_scheduled_reqs", [each.num_scheduled_reqs for each in figures], equals=[1, 2, 2])


@concept("A preemption belongs to the step in which it happens, and to no other.", invariant="I2")
def test_preemptions_of_a_step(lab):
    scheduler = make(lab, [4, 4, 4], blocks=4, max_tokens=6)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    figures = [turn(lab, scheduler, recorder) for _ in range(5)]
    see(
        "num_preempted_reqs: in step 2 a takes the last block, then c gives way to b",
        [each.num_preempted_reqs for each in figures],
        equals=[0, 1, 0, 0, 0],
    )


@concept("Each pair of blocks is one copy, in its own direction; preempted requests are another count.", invariant="I2")
def test_blocks_that_are_copied(lab):
    scheduler = make(lab, [3])
    recorder = lab.StatsRecorder(scheduler)
    output = lab.SchedulerOutput()
    copies = ((9, 10), (9, 11), (9, 12), (13, 14), (8, 14))
    plan = lab.KVPlan(((4, 0), (4, 1), (6, 1)), ((7, 4), (7, 5), (8, 5), (9, 6)), copies)
    output.preempted_req_ids = ["x", "y"]
    output.num_scheduled_tokens["y"] = 1
    see = check(lambda: f"out {[*plan.swap_out]}\nin  {[*plan.swap_in]}\ncopy {[*plan.copy]}")
    figures = recorder.record(output, plan)
    see("num_swapped_out_blocks", figures.num_swapped_out_blocks, equals=3)
    see("num_swapped_in_blocks", figures.num_swapped_in_blocks, equals=4)
    see("num_copied_blocks", figures.num_copied_blocks, equals=5)
    see("num_preempted_reqs", figures.num_preempted_reqs, equals=2)


@concept("Levels are read at the call: the same output has others when the scheduler is another one by then.",
         invariant="I1")  # fmt: skip
def test_levels_are_read_at_the_call(lab):
    scheduler = make(lab, [4, 4, 4], blocks=8, seqs=2, max_tokens=1)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    output = scheduler.schedule()

    def levels(when, expected):
        figures = recorder.record(output, lab.KVPlan())
        got = (figures.num_running_reqs, figures.num_waiting_reqs, figures.kv_cache_usage)
        see(f"(num_running_reqs, num_waiting_reqs, kv_cache_usage) {when}", got, equals=expected)

    levels("at first", (2, 1, 0.25))
    scheduler.finish_request("c", "abort")
    levels("after c, which waits, has ended", (2, 0, 0.25))
    scheduler.update_from_output(output, {"a": [100], "b": [100]})
    levels("after a and b have ended with their step", (0, 0, 0))


@concept(
    "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before.",
    invariant="I3",
)
@cases(
    at_once=({"budget": 64}, [(9, 0), (0, 0), (0, 0), (0, 0), (9, 8), (0, 0)]),
    in_chunks=({"budget": 4}, [(9, 0), (0, 0), (0, 0), (0, 0), (9, 8), (0, 0)]),
    without_a_cache=({"caching": False}, [(0, 0)] * 6),
)
def test_lookups_of_a_step(lab, case):
    options, expected = case
    scheduler = make(lab, [9], shared=8, **options)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    got = [lookups(turn(lab, scheduler, recorder)) for _ in range(4)]
    add(lab, scheduler, "b", 9, shared=8)
    got += [lookups(turn(lab, scheduler, recorder)) for _ in range(2)]
    how = " ".join(f"{name} {value}" for name, value in options.items())
    what = f"(queries, hits) of six steps, {how}: a comes in step 1, b, which shares 8 tokens with it, in step 5"
    see(what, got, equals=expected)


def victim(lab):
    """a and b on three blocks; b gives way in step 2, and is back in step 4, where it finds its first block."""
    return make(lab, [4, 4], blocks=3, max_tokens=3)


@concept(
    "A reader may not change what another one sees: the meter stays, and every reader has its own account.",
    invariant="I4",
)
def test_two_recorders(lab):
    scheduler = make(lab, [9], shared=8)
    one, other = lab.StatsRecorder(scheduler), lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    for expected in ((9, 0), (9, 8), (0, 0)):
        output = scheduler.schedule()
        see("(queries, hits) for one recorder", lookups(one.record(output, lab.KVPlan())), equals=expected)
        see(
            "(queries, hits) for another one on the same step",
            lookups(other.record(output, lab.KVPlan())),
            equals=expected,
        )
        sampled = {request.request_id: [100] for request in output.scheduled_requests}
        scheduler.update_from_output(output, sampled)
        if expected == (9, 0):
            add(lab, scheduler, "b", 9, shared=8)
    counts = scheduler.prefix_cache_stats
    see("the scheduler's own count", (counts.requests, counts.queries, counts.hits), equals=(2, 18, 8))


@concept("A victim that comes back looks up again: the figures have that lookup, too.", invariant="I3")
def test_lookups_of_a_victim(lab):
    scheduler = victim(lab)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    got = [lookups(turn(lab, scheduler, recorder)) for _ in range(5)]
    see(
        "(queries, hits) of five steps: in step 4 the victim b finds 4 of its 5 tokens",
        got,
        equals=[(8, 0), (0, 0), (0, 0), (5, 4), (0, 0)],
    )
    again = scheduler.preempted_prefix_cache_stats
    see("the scheduler's own count of victims", (again.requests, again.queries, again.hits), equals=(1, 5, 4))


@concept("What was counted before a recorder was made is none of its steps'.", invariant="I3")
def test_a_recorder_that_comes_late(lab):
    scheduler = make(lab, [9], shared=8)
    lab.drive(scheduler)
    recorder = lab.StatsRecorder(scheduler)
    add(lab, scheduler, "b", 9, shared=8)
    see = check(lab.draw.scheduler, scheduler)
    see("(queries, hits) of b alone", lookups(turn(lab, scheduler, recorder)), equals=(9, 8))
    scheduler = victim(lab)
    for _ in range(4):
        lab.drive(scheduler)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    got = lookups(turn(lab, scheduler, recorder))
    see("(queries, hits) of step 5: the recorder is made after step 4, in which a victim came back", got, equals=(0, 0))


@concept("Nothing gets lost: what was not recorded yet is in the next record.", invariant="I3")
def test_a_step_that_nobody_recorded(lab):
    scheduler = make(lab, [9], shared=8)
    recorder = lab.StatsRecorder(scheduler)
    lab.drive(scheduler)
    add(lab, scheduler, "b", 9, shared=8)
    see = check(lab.draw.scheduler, scheduler)
    see("(queries, hits) of a and b", lookups(turn(lab, scheduler, recorder)), equals=(18, 8))


@concept("A step in which nothing happens has figures, too: they are all 0.", invariant="I2")
def test_an_idle_step(lab):
    scheduler = make(lab, [9], max_tokens=1)
    recorder = lab.StatsRecorder(scheduler)
    turn(lab, scheduler, recorder)
    see = check(lab.draw.scheduler, scheduler)
    figures = turn(lab, scheduler, recorder)
    see.true("record() returns the figures of a step in which nobody computes", figures is not None, "None")
    for name in ("num_running_reqs", "num_waiting_reqs", "num_scheduled_reqs", "num_scheduled_tokens",
                 "kv_cache_usage", "prefix_cache_queries", "prefix_cache_hits", "num_preempted_reqs",
                 "num_swapped_out_blocks", "num_swapped_in_blocks", "num_copied_blocks"):  # fmt: skip
        see(f"{name} after the only request has ended", getattr(figures, name), equals=0)


@concept("Counts add up: the sum over the steps is what the run did.", invariant="I3", illustrates=True)
def test_the_sums_of_a_run(lab):
    scheduler = victim(lab)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    figures = []
    while scheduler.has_unfinished_requests() and len(figures) < 20:
        figures.append(turn(lab, scheduler, recorder))
    see("how many steps", len(figures), equals=5)
    see("all tokens: 4 + 2 of a, 4 + 2 of b", sum(each.num_scheduled_tokens for each in figures), equals=12)
    see("all preemptions", sum(each.num_preempted_reqs for each in figures), equals=1)
    see("all queries: 4 + 4, and 5 again", sum(each.prefix_cache_queries for each in figures), equals=13)
    see("all hits", sum(each.prefix_cache_hits for each in figures), equals=4)


# --- CachingMetrics -----------------------------------------------------------------------------------------------


def picture(steps):
    """Each step's lookups, as found/looked up."""
    return "\n".join(
        f"step {number}  {', '.join(f'{hits} of {tokens}' for tokens, hits in step) or 'nobody looks'}"
        for number, step in enumerate(steps, start=1)
    )


def look(lab, most, steps, rates, before=()):
    """After each of these steps, given as the (tokens, hits) of its lookups, the rate is to be the one in `rates`."""
    counts = lab.PrefixCacheStats()
    for lookup in before:
        counts.record(*lookup)
    metrics = lab.CachingMetrics(counts, most)
    for number, (step, rate) in enumerate(zip(steps, rates), start=1):
        for lookup in step:
            counts.record(*lookup)
        metrics.observe()
        see = check(picture, steps[:number])
        see(f"hit_rate after step {number}, of the last {most} requests", metrics.hit_rate, equals=rate)


@concept(
    "A rate is one division of two sums: a request that looks up more tokens weighs more.",
    invariant="I5",
    illustrates=True,
)
@cases(
    two_steps=([[(4, 0)], [(28, 16)]], [0.0, 0.5]),
    one_step=([[(4, 0), (28, 16)]], [0.5]),
    nothing_found=([[(4, 0)], [(5, 0)]], [0.0, 0.0]),
)
def test_the_rate_is_of_all_tokens(lab, case):
    steps, rates = case
    look(lab, 1000, steps, rates)


@concept("Before the first look-up there is nothing to divide by, and the rate is 0.", invariant="I5")
def test_an_empty_window(lab):
    metrics = lab.CachingMetrics(lab.PrefixCacheStats(), 4)
    see = check()
    see("hit_rate before the first step", metrics.hit_rate, equals=0)
    metrics.observe()
    see("hit_rate after a step in which nobody looked", metrics.hit_rate, equals=0)


MISS, HIT = (16, 0), (16, 8)


@concept("A request that looks up no token is a request: it takes its place in the window, and finds nothing.",
         invariant="I6")  # fmt: skip
@cases(
    alone=(1, [[(0, 0)], [HIT], [(0, 0)], []], [0.0, 0.5, 0.0, 0.0]),
    in_a_full_window=(2, [[HIT], [MISS], [(0, 0)], [HIT]], [0.5, 0.25, 0.0, 0.5]),
)
def test_a_request_without_tokens(lab, case):
    most, steps, rates = case
    look(lab, most, steps, rates)


@concept(
    "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first.",
    invariant="I6",
)
@cases(
    it_may_be_full=(4, [[MISS, MISS], [HIT, HIT]], [0.0, 0.25]),
    steps_of_two=(4, [[MISS, MISS], [HIT, HIT], [HIT, HIT]], [0.0, 0.25, 0.5]),
    hits_leave_too=(4, [[HIT, HIT], [MISS, MISS], [MISS, MISS]], [0.5, 0.25, 0.0]),
    as_a_whole=(5, [[MISS, MISS], [HIT, HIT], [HIT, HIT]], [0.0, 0.25, 0.5]),
    many_at_once=(3, [[MISS], [MISS], [MISS], [HIT, HIT, HIT]], [0.0, 0.0, 0.0, 0.5]),
    one_by_one=(2, [[MISS], [HIT], [HIT], [MISS], [MISS]], [0.0, 0.25, 0.5, 0.25, 0.0]),
    small_ones_before_a_large_one=(20, [[MISS]] * 20 + [[HIT] * 16], [0.0] * 20 + [0.4]),
    the_rest_stays=(4, [[HIT, HIT], [MISS, MISS], [HIT, HIT]], [0.5, 0.25, 0.25]),
    as_a_whole_of_many=(
        64,
        [[HIT] * 2, *([MISS] * num for num in (2, 4, 8, 16, 32, 1))],
        [0.5, 0.25, 0.125, 1 / 16, 1 / 32, 1 / 64, 0.0],
    ),
    two_of_many=(8, [*[[MISS]] * 8, [HIT, HIT], [HIT]], [*[0.0] * 8, 0.125, 3 / 16]),
)
def test_the_window(lab, case):
    most, steps, rates = case
    look(lab, most, steps, rates)


@concept("A step without a look-up pushes nothing out, and does not change the rate.", invariant="I6")
@cases(
    between=(2, [[HIT], [], [], [], [MISS]], [0.5, 0.5, 0.5, 0.5, 0.25]),
    when_full=(2, [[HIT], [MISS], [], [], [HIT]], [0.5, 0.25, 0.25, 0.25, 0.25]),
    when_more_than_full=(2, [[HIT] * 3, [], []], [0.5, 0.5, 0.5]),
)
def test_idle_steps(lab, case):
    most, steps, rates = case
    look(lab, most, steps, rates)


@concept("The last step counts however large it is: a window is never empty again.", invariant="I6")
@cases(
    larger_than_the_window=(2, [[HIT, HIT, HIT], [MISS]], [0.5, 0.0]),
    after_others=(2, [[MISS], [HIT, HIT, HIT], []], [0.0, 0.5, 0.5]),
    always_larger=(1, [[MISS, MISS], [HIT, HIT], [MISS, MISS]], [0.0, 0.5, 0.0]),
)
def test_a_large_step(lab, case):
    most, steps, rates = case
    look(lab, most, steps, rates)


@concept("What was looked up before it was made is in no window.", invariant="I6")
@cases(a_little=[(64, 0), (64, 32), (64, 0)], very_much=[(2**60 - 20, 2**59)])
def test_metrics_that_come_late(lab, case):
    look(lab, 4, [[HIT], [MISS]], [0.5, 0.25], before=case)


@concept("The rate changes when a step is observed, not when it is read, and not before.", invariant="I5")
def test_the_rate_is_of_the_last_look(lab):
    counts = lab.PrefixCacheStats()
    metrics = lab.CachingMetrics(counts, 2)
    counts.record(*HIT)
    metrics.observe()
    see = check(lambda: f"queries {counts.queries}, hits {counts.hits} since the beginning")
    counts.record(*MISS)
    see("hit_rate, a second request is counted but not observed", metrics.hit_rate, equals=0.5)
    counts.record(*MISS)
    metrics.observe()
    see("hit_rate of the last 2 requests, both of one step", metrics.hit_rate, equals=0.0)


@concept("Two windows on the same counts do not disturb each other, nor the counts.", invariant="I4", illustrates=True)
def test_two_windows(lab):
    counts = lab.PrefixCacheStats()
    short, long = lab.CachingMetrics(counts, 1), lab.CachingMetrics(counts, 100)
    see = check(lambda: f"requests {counts.requests}, queries {counts.queries}, hits {counts.hits}")
    for lookup, rates in ((MISS, [0.0, 0.0]), (HIT, [0.5, 0.25]), ((16, 4), [0.25, 0.25])):
        counts.record(*lookup)
        short.observe()
        long.observe()
        see("hit_rate of the last request, and of the last 100", [short.hit_rate, long.hit_rate], equals=rates)
    see("the counts themselves", (counts.requests, counts.queries, counts.hits), equals=(3, 48, 12))


@concept(
    "A victim finds its own blocks again, which says nothing about prompts: it is counted elsewhere.",
    invariant="I6",
    illustrates=True,
)
def test_victims_do_not_count(lab):
    scheduler = victim(lab)
    metrics = lab.CachingMetrics(scheduler.prefix_cache_stats, 100)
    see = check(lab.draw.scheduler, scheduler)
    for _ in range(4):
        lab.drive(scheduler)
        metrics.observe()
    see("what b found when it came back", scheduler.preempted_prefix_cache_stats.hits, equals=4)
    see("hit_rate of the newcomers a and b", metrics.hit_rate, equals=0)


@concept("A meter that is made without a number has a window of 1000 requests.", invariant="I6")
@cases(steps_of_500=500, steps_of_two=2, steps_of_one=1)
def test_the_window_if_nobody_says_how_large(lab, case):
    counts = lab.PrefixCacheStats()
    see_a_window(lab.CachingMetrics(counts), counts, 1000, case)


def see_a_window(metrics, counts, size, per_step, rates=(0.5, 0.25, 0.0)):
    """Half a window of hits comes, then half a window of misses, and another one. The window has `size` requests."""
    see = check(lambda: f"requests {counts.requests}, queries {counts.queries}, hits {counts.hits}")
    for lookup, rate in zip((HIT, MISS, MISS), rates):
        for _ in range(size // 2 // per_step):
            for _ in range(per_step):
                counts.record(*lookup)
            metrics.observe()
        what = f"hit_rate: {size // 2} hits of 8 in 16 come, then {size // 2} misses, then {size // 2} more"
        see(f"{what}; requests of a step: {per_step}", metrics.hit_rate, equals=rate)


@concept("A window may have thousands of steps: none leaves before there are more requests than it may have.",
         invariant="I6")  # fmt: skip
def test_a_large_window(lab):
    counts = lab.PrefixCacheStats()
    see_a_window(lab.CachingMetrics(counts, 3000), counts, 3000, 1, rates=(0.5, 0.25))


@concept(
    "A recorder is of one scheduler, and a window of one meter: others do not change what they say.", invariant="I4"
)
def test_two_of_everything(lab):
    schedulers = make(lab, [9]), make(lab, [3, 5])
    recorders = [lab.StatsRecorder(scheduler) for scheduler in schedulers]
    see = check(lambda: "\n".join(map(lab.draw.scheduler, schedulers)))
    figures = [turn(lab, *each) for each in zip(schedulers, recorders)]
    see("num_running_reqs of both, (queries, hits) of both",
        [each.num_running_reqs for each in figures] + [lookups(each) for each in figures],
        equals=[1, 2, (9, 0), (8, 0)])  # fmt: skip
    meters = lab.PrefixCacheStats(), lab.PrefixCacheStats()
    windows = [lab.CachingMetrics(meter) for meter in meters]
    for meter, window, lookup in zip(meters, windows, (HIT, MISS)):
        meter.record(*lookup)
        window.observe()
    see("hit_rate of two windows, one of a meter with a hit, one of a meter with a miss",
        [window.hit_rate for window in windows], equals=[0.5, 0.0])  # fmt: skip


@concept("No figure is rounded: a third is a third, to the last digit that a float has.", invariant="I5")
def test_no_figure_is_rounded(lab):
    counts = lab.PrefixCacheStats()
    metrics = lab.CachingMetrics(counts)
    counts.record(3, 1)
    metrics.observe()
    scheduler = make(lab, [3], blocks=3)
    recorder = lab.StatsRecorder(scheduler)
    see = check(lab.draw.scheduler, scheduler)
    see.between("the hit_rate of 1 in 3", metrics.hit_rate, 1 / 3 - 1e-15, 1 / 3 + 1e-15)
    metrics = lab.CachingMetrics(counts, 1)
    for step in ((2**60, 0), (3, 1)):
        counts.record(*step)
        metrics.observe()
    what = "the hit_rate of 1 in 3, behind a very large step that has left the window"
    see.between(what, metrics.hit_rate, 1 / 3 - 1e-15, 1 / 3 + 1e-15)
    usage = turn(lab, scheduler, recorder).kv_cache_usage
    see.between("kv_cache_usage of 1 block in 3", usage, 1 / 3 - 1e-15, 1 / 3 + 1e-15)


@concept("A long run costs no more a step than a short one: what is long gone is not looked at again.", invariant="I7")
def test_a_long_run(lab):
    counts, scheduler = lab.PrefixCacheStats(), make(lab, [3])
    metrics, recorder = lab.CachingMetrics(counts, 4), lab.StatsRecorder(scheduler)
    see = check(lambda: f"requests {counts.requests}, queries {counts.queries}, hits {counts.hits}")
    output, plan = lab.SchedulerOutput(), lab.KVPlan()

    def take_500_steps():
        for number in range(500):
            counts.record(4, number % 2)
            metrics.observe()
            recorder.record(output, plan)

    times = [processor_seconds(take_500_steps) for _ in range(scaled(24, 12))]
    see("hit_rate of the last 4 steps, of which every second one has 1 hit in 4", metrics.hit_rate, equals=0.125)
    first, last = min(times[:4]), min(times[-4:])  # other work on this machine can only add to a time
    is_steady = last <= 6 * first + 0.005
    see.true("processor time of the last 500 steps, beside the first 500", is_steady, "more", "at most 6 times as much")


# --- any run ------------------------------------------------------------------------------------------------------

LAWS = {
    "num_running_reqs": "I1", "num_waiting_reqs": "I1", "kv_cache_usage": "I1", "num_scheduled_reqs": "I2",
    "num_scheduled_tokens": "I2", "num_preempted_reqs": "I2", "num_swapped_out_blocks": "I2",
    "num_swapped_in_blocks": "I2", "num_copied_blocks": "I2", "prefix_cache_queries": "I3", "prefix_cache_hits": "I3",
}  # fmt: skip


def plan_run(rng):
    """A scheduler with few blocks, recorders that are made at any time, and outputs that no scheduler made."""
    limits = {"blocks": rng.choice((4, 5, 7, 64)), "seqs": rng.choice((1, 3, 4)), "budget": rng.choice((3, 8, 64))}
    calls = [("Scheduler", limits), ("recorder", "one")]
    for _ in range(rng.randint(8, 25)):
        kind, name = rng.random(), rng.choice("dacb")
        if kind < 0.35:
            length = rng.randint(1, 12)
            shared, max_tokens = rng.choice((0, length // 2, length)), rng.choice((1, 3, 9))
            calls.append(("add_request", name, {"length": length, "shared": shared, "max_tokens": max_tokens}))
        elif kind < 0.42:
            calls.append(("finish_request", name, rng.choice(("stop", "length", "abort", "error"))))
        elif kind < 0.48:
            calls.append(("recorder", rng.choice(("one", "other"))))
        elif kind < 0.56:
            counts = {name: rng.choice((0, 1, 2, 3)) for name in ("victims", "swap_out", "swap_in", "copy")}
            calls.append(("record", {"tokens": rng.choice(([], [1], [5, 70], [1, 1, 9])), **counts}))
        else:
            calls.append(("step", *rng.choice((["one"], ["one"], ["other", "one"], ["other"], []))))
    return calls


def play_run(lab, calls):
    """step() has the recorders that look at it, record() what an output and a plan are to have."""
    recorders, num_added = {}, 0
    for name, *arguments in calls:
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        if name == "Scheduler":
            scheduler = make(lab, [], **options)
        elif name == "recorder":
            recorders[arguments[0]] = lab.StatsRecorder(scheduler)
        elif name == "add_request":
            names = [request.request_id for request in (*scheduler.running, *scheduler.waiting)]
            length, num_added = options.get("length", 1), num_added + 1
            if arguments[0] not in names and length <= 4 * scheduler.kv_cache_manager.num_usable_blocks:
                prompt = [i if i < options.get("shared", 0) else 1000 * num_added + i for i in range(length)]
                params = lab.SamplingParams(max_tokens=options.get("max_tokens", 16), ignore_eos=True)
                scheduler.add_request(lab.Request(arguments[0], prompt, params))
        elif name == "finish_request":
            scheduler.finish_request(*arguments)
        elif name == "record":
            output = lab.SchedulerOutput({f"r{i}": n for i, n in enumerate(options.get("tokens", ()))})
            output.preempted_req_ids = ["y", "r0", "z"][: options.get("victims", 0)]
            pairs = ((4, 4), (4, 0), (6, 0))
            plan = lab.KVPlan(*(pairs[: options.get(kind, 0)] for kind in ("swap_out", "swap_in", "copy")))
            yield from look_at(lab, scheduler, recorders, output, plan)
        else:
            output = scheduler.schedule()
            chosen = {which: recorders[which] for which in arguments if which in recorders}
            yield from look_at(lab, scheduler, chosen, output, lab.KVPlan())
            sampled = {
                request.request_id: [7]
                for request in output.scheduled_requests
                if scheduler.needs_sample(request, output.num_scheduled_tokens[request.request_id])
            }
            scheduler.update_from_output(output, sampled)


def look_at(lab, scheduler, recorders, output, plan):
    """What each of these recorders says, and whether anything else is another one now."""
    drawn = f"{counted(scheduler)}\n{lab.draw.scheduler(scheduler)}"
    for which, recorder in recorders.items():
        before = everything(scheduler, output, plan)
        figures = recorder.record(output, plan)
        for name, law in LAWS.items():
            value = getattr(figures, name)
            value = round(value, 9) if name == "kv_cache_usage" else value
            yield law, f"{name} of recorder {which}", value, drawn
        after = everything(scheduler, output, plan)
        changed = {name: after[name] for name in before if after[name] != before[name]}
        yield "I4", "what record() has changed", changed, drawn


def counted(scheduler):
    """The two meters, as the drawing has them."""
    meters = scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats
    newcomers, victims = (f"{each.hits} of {each.queries} tokens found" for each in meters)
    return f"newcomers {newcomers}, victims {victims}"


def everything(scheduler, output, plan):
    """What record() can see, as plain values."""
    held = scheduler.kv_cache_manager.get_block_ids
    meters = scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats
    return {
        "running": [(type(scheduler.running), r.request_id, r.num_computed_tokens) for r in scheduler.running],
        "waiting": [(type(scheduler.waiting), r.request_id, r.num_computed_tokens) for r in scheduler.waiting],
        "blocks": [held(request.request_id) for request in scheduler.running],
        "counters": [(each.requests, each.queries, each.hits) for each in meters],
        "num_scheduled_tokens": list(output.num_scheduled_tokens.items()),
        "scheduled_requests": [request.request_id for request in output.scheduled_requests],
        "preempted_req_ids": list(output.preempted_req_ids),
        "plan": (plan.swap_out, plan.swap_in, plan.copy),
    }


@concept(
    "After any run the figures of a step are those of that step, and to look has changed nothing.",
    invariant="I3",
    searches=True,
)
def test_any_run(lab):
    walk(lab, plan_run, play_run, 60)


def plan_window(rng):
    """Two windows on one meter that has begun already, and lookups of any size before each observe()."""
    calls = [("PrefixCacheStats", rng.choice(((0, 0), (5, 5), (9, 4))))]
    calls += [("CachingMetrics", which, rng.choice((0, 1, 2, 3, 5, 8, 16))) for which in ("one", "other")]
    for _ in range(rng.choice((5, 15, 25, 60))):
        kind = rng.random()
        if kind < 0.6:
            num_tokens = rng.choice((0, rng.randint(1, 9), rng.randint(1, 9)))
            calls.append(("record", num_tokens, rng.choice((0, num_tokens, rng.randint(0, num_tokens)))))
        elif kind < 0.95:
            calls.append(("observe", *rng.choice((["one"], ["one", "other"], ["other"]))))
        else:
            calls.append(("CachingMetrics", rng.choice(("one", "other")), rng.choice((0, 1, 2, 4))))
    return calls


def play_window(lab, calls):
    """CachingMetrics() has the size of the window, observe() has who observes."""
    windows, sizes = {}, {}
    for name, *arguments in calls:
        if name == "PrefixCacheStats":
            counts, lookups = lab.PrefixCacheStats(), [arguments[0]]
            counts.record(*arguments[0])
        elif name == "CachingMetrics":
            which, sizes[which] = arguments
            windows[which] = lab.CachingMetrics(counts, sizes[which])
        elif name == "record":
            counts.record(*arguments)
            lookups.append(arguments)
        else:
            for which in arguments:
                if which in windows:
                    windows[which].observe()
        now = f"lookups, found/tokens: {' '.join(f'{hits}/{tokens}' for tokens, hits in lookups)}"
        for which, metrics in windows.items():
            yield (
                "I6",
                f"hit_rate of {which}, whose window is {sizes[which]} requests",
                round(float(metrics.hit_rate), 9),
                now,
            )
        yield "I4", "requests, queries and hits that are counted", (counts.requests, counts.queries, counts.hits), now


@concept(
    "After any lookups the rate is that of the last whole steps that fit into the window.",
    invariant="I6",
    searches=True,
)
def test_any_window(lab):
    walk(lab, plan_window, play_window, 100)
