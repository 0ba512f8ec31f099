"""Lab 06.8: Debug it: loads that go wrong (60 minutes). You find the culprit, and write the tests.

`lab evidence 06.8` shows the cases; what must hold is in contract.md. Name the culprit of each. Then write tests that
catch it and its like: each is a function test_...(lab), green on every correct engine. The first test is an example,
and yours to change.
"""

from random import Random

from labkit import check, todo

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


CASE_A = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words
CASE_B = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words
CASE_C = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words


def test_what_catches_it(lab):
    """Yours: rename it, and write more of them."""
    todo("06.8")
