# === a_plain_dictionary
"""A dictionary keeps its order: a name that is taken out and put back is the last one."""

from mini_vllm.offload.tiers.connector import TierConnector as ReferenceTierConnector
from mini_vllm.offload.tiers.host import HostBlock
from mini_vllm.offload.tiers.work import LookupResult
from mini_vllm.step import CpuBlockId


class HostTier:
    def __init__(self, num_blocks):
        self.num_blocks = num_blocks
        self.free = [CpuBlockId(number) for number in range(num_blocks)]
        self.blocks = {}
        self.idle = {}  # held by nobody, the least recently used one first

    @property
    def num_held_blocks(self):
        return self.num_blocks - len(self.free) - len(self.idle)

    def get(self, name):
        return self.blocks.get(name)

    def take(self, name):
        if not self.free:
            if not self.idle:
                return None
            oldest = self.idle.pop(next(iter(self.idle)))
            del self.blocks[oldest.name]
            self.free.append(oldest.cpu_block)
        block = HostBlock(name, self.free.pop())
        self.blocks[name] = block
        return block

    def hold(self, block):
        self.idle.pop(block.name, None)
        block.ref_cnt += 1
        return block

    def release(self, block):
        assert block.ref_cnt, "too many releases"
        block.ref_cnt -= 1
        if block.ref_cnt:
            return
        if block.state == "lost":
            self.free.append(block.cpu_block)
        else:
            self.idle[block.name] = block

    def touch(self, block):
        if not block.ref_cnt:
            self.idle[block.name] = self.idle.pop(block.name)

    def drop(self, block):
        if block.state == "lost":
            return
        del self.blocks[block.name]
        self.idle.pop(block.name, None)
        block.state = "lost"
        if not block.ref_cnt:
            self.free.append(block.cpu_block)


class TierConnector(ReferenceTierConnector):
    def lookup(self, name):
        block = self.host.get(name)
        if block is None:
            return LookupResult.RETRY if self.disk is not None and name in self.disk else LookupResult.MISS
        return LookupResult.HIT if block.state == "ready" else LookupResult.HIT_PENDING


# === times_of_last_use
"""Each use gets a number, and old entries of a queue are passed over when a block is needed."""

from collections import deque

from mini_vllm.offload.tiers.connector import TierConnector as ReferenceTierConnector
from mini_vllm.offload.tiers.host import HostBlock
from mini_vllm.offload.tiers.work import LookupResult
from mini_vllm.step import CpuBlockId

ANSWERS = {"ready": LookupResult.HIT, "pending": LookupResult.HIT_PENDING}


class HostTier:
    def __init__(self, num_blocks):
        self.num_blocks, self.num_in_use = num_blocks, 0
        self.unused, self.recycled = 0, []
        self.by_name, self.used, self.now, self.queue = {}, {}, 0, deque()

    @property
    def num_held_blocks(self):
        return self.num_in_use

    def get(self, name):
        return self.by_name.get(name)

    def _number(self):
        if self.recycled:
            return self.recycled.pop()
        if self.unused < self.num_blocks:
            self.unused += 1
            return CpuBlockId(self.unused - 1)
        while self.queue:
            block, when = self.queue.popleft()
            if self.used.get(block.cpu_block) == when and block.ref_cnt == 0 and block.state != "lost":
                del self.by_name[block.name]
                return block.cpu_block
        return None

    def take(self, name):
        number = self._number()
        if number is None:
            return None
        self.num_in_use += 1
        self.used.pop(number, None)
        self.by_name[name] = HostBlock(name, number)
        return self.by_name[name]

    def hold(self, block):
        if block.ref_cnt == 0:
            self.num_in_use += 1
        self.used.pop(block.cpu_block, None)
        block.ref_cnt += 1
        return block

    def _is_idle(self, block):
        self.now += 1
        self.used[block.cpu_block] = self.now
        self.queue.append((block, self.now))

    def release(self, block):
        if block.ref_cnt == 0:
            raise AssertionError("nobody holds it")
        block.ref_cnt -= 1
        if block.ref_cnt == 0:
            self.num_in_use -= 1
            if block.state == "lost":
                self.recycled.append(block.cpu_block)
            else:
                self._is_idle(block)

    def touch(self, block):
        if block.ref_cnt == 0:
            self._is_idle(block)

    def drop(self, block):
        if self.by_name.get(block.name) is block:
            del self.by_name[block.name]
            block.state = "lost"
            if block.ref_cnt == 0:
                self.used.pop(block.cpu_block, None)
                self.recycled.append(block.cpu_block)


class TierConnector(ReferenceTierConnector):
    def lookup(self, name):
        if (block := self.host.get(name)) is not None:
            return ANSWERS[block.state]
        return LookupResult.RETRY if name in (self.disk or ()) else LookupResult.MISS
