"""The world of lab 06.7, and a few calls by hand for what is held."""

from random import Random

from labkit import check

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
        self.jobs += plan.jobs
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


CASE_A = {
    "culprit": "mini_vllm.offload.tiers.connector:TierConnector.load",
    "step": 9,
    "why": "A load holds its blocks no longer, so stores of the same step are copied into them before it reads them.",
}
CASE_B = {
    "culprit": "mini_vllm.offload.tiers.connector:TierConnector.request_finished",
    "step": 8,
    "why": "Three blocks stay held for a client that went during the reads, so main memory has one place for the rest.",
}
CASE_C = {
    "culprit": "mini_vllm.offload.tiers.connector:TierConnector.is_ready",
    "step": 9,
    "why": "A read failed, and the request waits until its block is ready, which it will never be.",
}


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


def tier_of(lab, names):
    """A tier that is full of these."""
    tier = lab.HostTier(len(names))
    for name in names:
        block = tier.take(name)
        block.state = "ready"
        tier.release(block)
    return tier


def test_what_is_held_stays(lab):
    see, tier = check(), tier_of(lab, [b"a"])
    block = tier.hold(tier.get(b"a"))
    see("whether b finds a place while a is held", tier.take(b"b"), equals=None)
    tier.drop(block)
    see("whether it finds one under a copy of what is lost", tier.take(b"b"), equals=None)
    tier.release(block)
    see("whether it finds one behind it", tier.take(b"b") is not None, equals=True)


def test_what_is_dropped_leaves_its_place(lab):
    see, tier = check(), tier_of(lab, [b"a"])
    tier.drop(tier.get(b"a"))
    see("held blocks", tier.num_held_blocks, equals=0)
    see("whether b finds a place", tier.take(b"b") is not None, equals=True)


def test_a_store_and_a_load_of_one_step(lab):
    """What is stored finds no place where a load of the same step reads."""
    connector = lab.TierConnector(2, tier_of(lab, [b"a", b"b"]), lab.DiskTier([], 9), clock=lambda: 0.0)
    request = lab.Request("r", [1, 2, 3, 4, 5], lab.SamplingParams())
    request.block_hashes.extend([b"a", b"b"])
    see = check()
    see("is_ready()", connector.is_ready(request, 0), equals=True)
    connector.load(request, [7, 8], 0)
    connector.evict(b"c", 9)
    see("what is stored over a block that is loaded", [*connector.begin_step().connector.store], equals=[])


def test_a_failed_step(lab):
    connector = lab.TierConnector(2, lab.HostTier(3))
    connector.evict(b"a", 5)
    connector.begin_step()
    connector.end_step(None)
    check()("what a failed step has stored", connector.lookup(b"a").name, equals="MISS")
