"""A world with a device, main memory and a disk, in which each token says what it has read; and each part by itself."""

from random import Random

from labkit import check, raises

DOCUMENT = [1, 2, 3, 4, 5, 6]  # three blocks of 2 tokens
OTHER = [9, 8, 7, 6, 5, 4, 3, 2]  # it takes all blocks of a small device


class World:
    """A scheduler with tiers, and places that hold tokens. A slot holds all tokens up to its own."""

    def __init__(self, lab, blocks=6, host=6, disk=9):
        self.lab, self.device, self.host, self.disk = lab, {}, {}, {}
        self.jobs, self.ended = [], {}

        def make_connector():
            tiers = lab.HostTier(host), lab.DiskTier([], disk)
            return lab.TierConnector(2, *tiers, clock=lambda: 0.0)  # no disk is slow

        self.kv = lab.tiered(lab.KVCacheManager, make_connector)(blocks, 2)
        self.scheduler = lab.Scheduler(self.kv, max_num_seqs=3, max_num_batched_tokens=100)
        lab.attach_gate(self.scheduler)
        self.see = check()

    def add(self, name, prompt, max_tokens=2):
        request = self.lab.Request(name, prompt, self.lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True))
        self.scheduler.add_request(request)
        return request

    def end_job(self, job):
        """An io thread has done it. A file that is not there cannot be read."""
        went_well = True
        if job.kind == "write":
            self.disk[job.name] = self.host[job.cpu_block]
        elif job.kind == "read":
            self.host[job.cpu_block] = self.disk.get(job.name)
            went_well = job.name in self.disk
        self.jobs.remove(job)
        self.ended[job.number] = went_well

    def step(self, ends=()):
        """One step: store, load, compute; the jobs at these places end meanwhile."""
        step = self.lab.Step.decide(self.scheduler)
        plan = step.plan.connector or self.lab.TierPlan("")
        known = {*self.ended, *(job.number for job in self.jobs)}
        self.jobs += [job for job in plan.jobs if job.number not in known]
        for block, cpu_block in plan.store:
            self.host[cpu_block] = [self.device.get((block, place)) for place in range(2)]
        for cpu_block, block in plan.load:
            for place in range(2):
                self.device[block, place] = self.host[cpu_block] and self.host[cpu_block][place]
        for job in [self.jobs[i] for i in ends if i < len(self.jobs)]:
            self.end_job(job)
        sampled = {}
        for request in step.output.scheduled_requests:
            start = request.num_computed_tokens
            end = start + step.output.num_scheduled_tokens[request.request_id]
            slots = [(self.kv.get_block_ids(request.request_id)[i // 2], i % 2) for i in range(end)]
            for i in range(start, end):
                self.device[slots[i]] = tuple(request.all_token_ids[: i + 1])
            wanted = [tuple(request.all_token_ids[: i + 1]) for i in range(end)]
            self.see(f"what {request.request_id} reads", [self.device.get(slot) for slot in slots], equals=wanted)
            if end == request.num_tokens:
                sampled[request.request_id] = [end % 50]
        done, self.ended = self.ended, {}
        step.end_kv(self.kv, self.lab.KVResult(connector=self.lab.TierResult(done)))
        step.update(self.scheduler, sampled)

    def finish(self, ends=lambda: range(99)):
        """Until nobody waits, and then until every job has ended. Nothing may be held in the end."""
        for _ in range(80):
            if not self.scheduler.has_unfinished_requests() and not self.jobs:
                break
            self.step(ends())
        for _ in range(4):
            self.step(range(99))
        self.see("whether a request waits without end", self.scheduler.has_unfinished_requests(), equals=False)
        self.see("free blocks of the device", self.kv.num_free_blocks, equals=self.kv.num_usable_blocks)
        self.see("blocks of main memory that are held", self.kv.connector.host.num_held_blocks, equals=0)


def test_a_document_comes_back(lab):
    """It is computed, driven out of the device, and asked for again."""
    world = World(lab)
    for name, prompt in (("first", DOCUMENT), ("other", OTHER), ("again", [*DOCUMENT, 7])):
        world.add(name, prompt)
        world.finish()


# --- tiers --------------------------------------------------------------------------------------------------------


def test_any_order_of_jobs(lab):
    """Small tiers, files that vanish, clients that go, and io threads that end when they like."""
    for seed in range(16):
        rng = Random(seed)
        world = World(lab, blocks=rng.choice((6, 8)), host=rng.choice((3, 4, 6)))
        for number in range(10):
            prompt = rng.choice((DOCUMENT, OTHER, [*DOCUMENT, 7, 8], DOCUMENT[:4]))
            request = world.add(str(number), prompt)
            for _ in range(rng.randint(1, 4)):
                world.step([i for i in range(9) if rng.random() < 0.4])
            if rng.random() < 0.2:
                world.scheduler.abort_request(request.request_id)
            if rng.random() < 0.2 and world.disk:
                world.disk.pop(rng.choice(sorted(world.disk)))
        world.finish(lambda rng=rng: [i for i in range(9) if rng.random() < 0.5])


def tier_of(lab, num_blocks, names):
    tier = lab.HostTier(num_blocks)
    for name in names:
        block = tier.take(name)
        block.state = "ready"
        tier.release(block)
    return tier


def test_what_is_held(lab):
    see, tier = check(), tier_of(lab, 2, [b"a", b"b"])
    block = tier.hold(tier.hold(tier.get(b"a")))
    tier.release(block)
    see("whether c finds a place", tier.take(b"c") is not None, equals=True)
    see("whether a is there while it is held once", tier.get(b"a") is block, equals=True)
    see("whether d finds one", tier.take(b"d"), equals=None)


def test_what_is_lost(lab):
    see, tier = check(), tier_of(lab, 1, [b"a"])
    block = tier.hold(tier.get(b"a"))
    tier.drop(block)
    see("whether b finds a place under a copy", tier.take(b"b"), equals=None)
    tier.release(block)
    see("whether b finds one behind it", tier.take(b"b") is not None, equals=True)


def test_where_it_is(lab):
    tier = tier_of(lab, 2, [b"a"])
    tier.take(b"b")
    connector = lab.TierConnector(2, tier, lab.DiskTier([b"c"], 9))
    said = [connector.lookup(name).name for name in (b"a", b"b", b"c", b"d")]
    check()("the four answers", said, equals=["HIT", "HIT_PENDING", "RETRY", "MISS"])


# --- a connector --------------------------------------------------------------------------------------------------


def test_a_failed_step(lab):
    connector = lab.TierConnector(2, lab.HostTier(3))
    connector.evict(b"a", 5)
    connector.begin_step()
    connector.end_step(None)
    check()("what a failed step has stored", connector.lookup(b"a").name, equals="MISS")


def waiting(lab, names, on_disk):
    connector = lab.TierConnector(2, tier_of(lab, 3, names), lab.DiskTier(on_disk, 9), clock=lambda: 0.0)
    request = lab.Request("r", [1, 2, 3, 4, 5], lab.SamplingParams())
    request.block_hashes.extend([b"a", b"b"])
    return connector, request


def test_a_hit_stays(lab):
    see = check()
    connector, request = waiting(lab, [b"a"], [b"b"])
    see("is_ready()", connector.is_ready(request, 0), equals=False)
    connector.host.take(b"x")
    connector.host.take(b"y")
    see("lookup() of a", connector.lookup(b"a").name, equals="HIT")


def test_a_load_comes_behind_a_store(lab):
    see = check()
    connector, request = waiting(lab, [b"a", b"b"], [])
    connector.host.take(b"x")
    see("is_ready()", connector.is_ready(request, 0), equals=True)
    connector.load(request, [7, 8], 0)
    connector.evict(b"c", 9)
    plan = connector.begin_step().connector
    see("what is stored over a block that is loaded", [*plan.store], equals=[])


# --- groups -------------------------------------------------------------------------------------------------------


def test_groups(lab):
    """Each token finds what it sees in each group, and no text takes more blocks than its windows."""
    for seed in range(5):
        rng, slots, see = Random(seed), {}, check()
        size, window = rng.choice((1, 2, 4)), rng.randint(2, 9)
        groups = (lab.FullAttention(size), lab.SlidingWindow(size, window), lab.SlidingWindow(size, 2 * window))
        kv = lab.HybridKVCacheManager(400, size, groups=groups, max_num_batched_tokens=7)
        scheduler = lab.Scheduler(kv, max_num_seqs=2, max_num_batched_tokens=7)
        for name in range(4):
            prompt = [1, 2, 3, 4, 5, 6, 7, 8] * 3
            prompt = [*prompt[: rng.randint(1, 24)], *(rng.randint(1, 3) for _ in range(rng.randint(0, 4)))]
            params = lab.SamplingParams(max_tokens=rng.randint(1, 16), ignore_eos=True)
            scheduler.add_request(lab.Request(str(name), prompt, params))
        while scheduler.has_unfinished_requests():
            output, sampled = scheduler.schedule(), {}
            kv.begin_step()
            for request in output.scheduled_requests:
                start = request.num_computed_tokens
                end = start + output.num_scheduled_tokens[request.request_id]
                for g, (kind, table) in enumerate(zip(groups, kv.get_block_tables(request.request_id))):
                    first = max(0, start - kind.window + 1) if g else 0
                    texts = [tuple(request.all_token_ids[: i + 1]) for i in range(end)]
                    for i in range(start, end):
                        slots[g, table[i // size], i % size] = texts[i]
                    read = [table[i // size] and slots.get((g, table[i // size], i % size)) for i in range(first, end)]
                    see(f"what request {request.request_id} reads in group {g}", read, equals=texts[first:])
                    held = sum(block > 0 for block in table)
                    if g:
                        see.between("blocks of a window", held, most=-(-(kind.window + 6) // size) + 1)
                if end == request.num_tokens:
                    sampled[request.request_id] = [9]
            kv.end_step(lab.KVResult())
            scheduler.update_from_output(output, sampled)
        see("free blocks in the end", kv.num_free_blocks, equals=kv.num_usable_blocks)


def hit(lab, groups, cached, num_tokens, alignment=4):
    """The agreed hit, where each group has these blocks."""
    families = lab.families_of(groups)
    return lab.find_agreed_hit(families, lambda family: {*cached[family[1][0]]}.__contains__, num_tokens, alignment)


def test_hits(lab):
    see, window = check(), lab.SlidingWindow(4, 9)
    see("a hit behind the last whole block", window.find_longest_hit({8, 9}.__contains__, 39, 4), equals=(0, 0))
    see("a hit between two ends", window.find_longest_hit({4, 5, 6}.__contains__, 28, 8), equals=(4, 24))
    groups = (lab.SlidingWindow(4, 5), window)
    see("the agreed hit", hit(lab, groups, ((1, 4, 8), (0, 1, 5, 6, 7)), 39).num_tokens, equals=8)


# --- leases -------------------------------------------------------------------------------------------------------


def test_leases(lab):
    see, now = check(), [0.0]
    leases = lab.Leases(lambda: now[0], 30.0, 20.0)
    first, second = leases.grant("a", [b"x"]), leases.grant("b", [b"y"])
    now[0] = 25.0
    see("a heartbeat", leases.extend("a"), equals=True)
    now[0] = 31.0
    see("a heartbeat that is late", leases.extend("b"), equals=False)
    see("what is collected", leases.collect(), equals=[second])
    pinned = leases.pin("a")
    now[0] = 99.0
    see("what is collected from a reader", leases.collect(), equals=[])
    leases.unpin(pinned)
    again = leases.grant("a", [b"z"])
    see("whether the old lease holds", (leases.holds(first), leases.holds(again)), equals=(False, True))
    see("what is collected then", leases.collect(), equals=[first])
    with raises(AssertionError, "no pin is left"):
        leases.unpin(pinned)
