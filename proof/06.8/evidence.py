"""What the three engines of lab 06.8 left behind: a model that says again what its prompt says, behind two tiers.

A slot of the device holds a letter, and a name stands for the text up to the end of a block. An io thread writes a file
in one step, and reads one in three.
"""

from collections import Counter

from labkit.labs.graft import ungrafted
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.remote.gate import attach_gate
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.disk import DiskTier
from mini_vllm.offload.tiers.host import HostTier
from mini_vllm.offload.tiers.manager import tiered
from mini_vllm.offload.tiers.work import TierPlan, TierResult
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVResult

SIZE = 2  # of a block
NUM_DEVICE_BLOCKS, NUM_FILES = 8, 20
STEPS_OF_A_JOB = {"write": 1, "read": 3}
UNWRITTEN = "?"
MOST_STEPS = {"a": 30, "b": 30, "c": 17}
DOCUMENT, LONG, OTHER = "abcdefg", "nopqrstuvwxyz", "ABCDEFGHIJKLM"  # LONG and OTHER fill the device

NUM_HOST_BLOCKS = {"a": 5, "b": 4, "c": 4}
COMES = {  # before which step, who, with which prompt, and how many letters it wants
    "a": [(0, "p", DOCUMENT, 1), (3, "q", LONG, 1), (6, "r", DOCUMENT, 7), (8, "s", "hi", 2), (16, "t", DOCUMENT, 7)],
    "b": [(0, "p", DOCUMENT, 1), (3, "q", LONG, 1), (6, "r", DOCUMENT, 7), (10, "s", OTHER, 1), (13, "t", LONG, 2)],
    "c": [(0, "p", DOCUMENT, 1), (3, "q", LONG, 1), (6, "r", DOCUMENT, 3), (11, "s", DOCUMENT, 3)],
}
GOES = {"b": {7: "r"}}  # before which step, whose client
VANISHES = {"c": {6: "abcd"}}  # before which step, which file


class World:
    """An engine with tiers, and what lies in its places. It writes down what it does."""

    def __init__(self, case):
        def make_connector():
            tiers = HostTier(NUM_HOST_BLOCKS[case]), DiskTier([], NUM_FILES)
            return TierConnector(SIZE, *tiers, clock=lambda: 0.0)  # no disk is slow

        self.case, self.lines, self.jobs = case, [], []
        self.kv = tiered(KVCacheManager, make_connector)(NUM_DEVICE_BLOCKS, SIZE)
        self.scheduler = Scheduler(self.kv, max_num_seqs=2, max_num_batched_tokens=16)
        attach_gate(self.scheduler)
        self.device, self.memory, self.files = {}, {}, {}
        self.requests, self.num_computed = {}, Counter()  # by id
        self.names, self.ages = {}, Counter()  # by text; steps of a job by its number

    def tell(self, what, text):
        self.lines.append(f"  {what:9} {text}")

    def texts(self, request):
        """What the names of a request's full blocks stand for."""
        tokens = "".join(map(chr, request.all_token_ids))
        return [tokens[:end] for end in range(SIZE, len(tokens) + 1, SIZE)]

    def text_of(self, name):
        return next(text for text, other in self.names.items() if other == name)

    def learn_names(self):
        for request in self.requests.values():
            self.names.update(zip(self.texts(request), request.block_hashes))

    def where(self, text):
        """The answer of the lookup, or that the device has it."""
        name = self.names.get(text)
        if name is not None and self.kv.block_pool.get_cached_block(name):
            return "device"
        return "MISS" if name is None else self.kv.connector.lookup(name).name

    def step(self, number):
        """One step, with what happens before it."""
        self.lines += ["", f"step {number}"]
        self.arrive(number)
        waiting = [*self.scheduler.waiting]
        for request in waiting:
            found = [f"{text!r} {self.where(text)}" for text in self.texts(request)]
            self.tell("lookup", f"{request.request_id}: {', '.join(found)}")
        step = Step.decide(self.scheduler)
        self.learn_names()
        for request in waiting:
            if request in self.scheduler.waiting:
                self.tell("waits", request.request_id)
        plan, counts = step.plan.connector or TierPlan(""), step.output.num_scheduled_tokens
        scheduled = [(request, counts[request.request_id]) for request in step.output.scheduled_requests]
        self.copy(plan, [request for request, _ in scheduled])
        self.jobs += plan.jobs
        done = {number: went_well for job in self.jobs for number, went_well in self.work(job)}
        self.jobs = [job for job in self.jobs if job.number not in done]
        sampled = {request.request_id: said for request, count in scheduled if (said := self.compute(request, count))}
        step.end_kv(self.kv, KVResult(connector=TierResult(done)))
        step.update(self.scheduler, sampled)
        for request, _ in scheduled:
            if request.is_finished:
                self.tell("ends", request.request_id)
        self.learn_names()
        self.tell_memory()

    def arrive(self, number):
        for before, name, prompt, max_tokens in COMES[self.case]:
            if before == number:
                params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
                self.requests[name] = Request(name, [*map(ord, prompt)], params)
                self.scheduler.add_request(self.requests[name])
                self.tell("comes", f"{name}, prompt {prompt!r}, wants {max_tokens}")
        if name := GOES.get(self.case, {}).get(number):
            self.scheduler.abort_request(name)
            self.tell("goes", name)
        self.files.pop(VANISHES.get(self.case, {}).get(number), None)

    def copy(self, plan, requests):
        """Stores come before loads."""
        for block, cpu_block in plan.store:
            self.memory[cpu_block] = [self.device.get((block, place), UNWRITTEN) for place in range(SIZE)]
            stored = [text for text, name in self.names.items() if self.place_of(name) == cpu_block]
            self.tell("store", f"{stored[0]!r} from block {block} into memory {cpu_block}")
        for cpu_block, block in plan.load:
            for place in range(SIZE):
                self.device[block, place] = self.memory[cpu_block][place]
            for request in requests:
                table = self.kv.get_block_ids(request.request_id)
                if block in table:
                    loaded = self.texts(request)[table.index(block)]
                    self.tell("load", f"{loaded!r} from memory {cpu_block} into block {block}")

    def place_of(self, name):
        block = self.kv.connector.host.get(name)
        return None if block is None else block.cpu_block

    def work(self, job):
        """An io thread's step at a job; its number and how it went, if it ends."""
        self.ages[job.number] += 1
        text, went_well = self.text_of(job.name), True
        ends = self.ages[job.number] == STEPS_OF_A_JOB[job.kind]
        if ends and job.kind == "write":
            self.files[text] = self.memory[job.cpu_block]
        elif ends:
            went_well = text in self.files
            self.memory[job.cpu_block] = self.files.get(text)
        how = "goes on" if not ends else "ends" if went_well else "fails"
        where = "into" if job.kind == "read" else "from"
        self.tell(job.kind, f"{text!r} {where} memory {job.cpu_block} {how}")
        if ends:
            yield job.number, went_well

    def compute(self, request, num_tokens):
        """What the last token says: the letter that it reads one prompt back; nothing if others are left to compute."""
        start = request.num_computed_tokens
        end = start + num_tokens
        self.num_computed[request.request_id] += num_tokens
        table = self.kv.get_block_ids(request.request_id)
        for place in range(start, end):
            self.device[table[place // SIZE], place % SIZE] = chr(request.all_token_ids[place])
        computes = f"{request.request_id} {num_tokens} behind {start}, in blocks {' '.join(map(str, table))}"
        if end < request.num_tokens:
            self.tell("computes", computes)
            return []
        asked = end - request.num_prompt_tokens
        said = self.device[table[asked // SIZE], asked % SIZE]
        self.tell("computes", f"{computes}, and says {said!r}")
        return [ord(said)]

    def tell_memory(self):
        blocks = {}
        for text, name in self.names.items():
            if block := self.kv.connector.host.get(name):
                blocks[block.cpu_block] = f"{block.cpu_block} {text!r}" + " pending" * (block.state == "pending")
        there = ", ".join(blocks[number] for number in sorted(blocks)) or "nothing"
        self.tell("memory", f"{there}; {self.kv.connector.host.num_held_blocks} held")


def run(case):
    """The world of a case, until nobody waits, and at most so many steps."""
    world, number, last = World(case), 0, COMES[case][-1][0]
    while number < MOST_STEPS[case] and (number <= last or world.scheduler.has_unfinished_requests()):
        world.step(number)
        number += 1
    return world


def evidence(case):
    world = run(case)
    with ungrafted():
        right = run(case)
    left = [request_id for request_id, request in right.requests.items() if not request.is_finished]
    assert not left, f"the right engine leaves {left} unfinished"
    lines = [
        f"blocks of {SIZE} slots: {NUM_DEVICE_BLOCKS - 1} on the device, {NUM_HOST_BLOCKS[case]} in main memory, "
        f"{NUM_FILES} files",
        "",
    ]
    for name, request in world.requests.items():
        said, should = ("".join(map(chr, each.output_token_ids)) for each in (request, right.requests[name]))
        lines += [
            f"{name}  says {said!r}, should say {should!r}",
            f"   computes {world.num_computed[name]}, should compute {right.num_computed[name]}",
        ]
    waits = [f"and so on: {request.request_id} waits" for request in world.scheduler.waiting]
    return "\n".join([*lines, *world.lines, *[""][: len(waits)], *waits]) + "\n"
