# === one_entry_for_each_request
"""What a request holds is one list; who is still on the way is asked of the blocks."""

from mini_vllm.offload.tiers.connector import StepNotes
from mini_vllm.offload.tiers.connector import TierConnector as ReferenceTierConnector
from mini_vllm.offload.tiers.work import LookupResult, TierResult


class TierConnector(ReferenceTierConnector):
    def publish(self, blocks):
        for block in blocks:
            self._notes.published.append((block.block_hash, block))

    def evict(self, name, block_id):
        if (block := self.host.get(name)) is not None:
            self.host.touch(block)
        else:
            self._going[name] = block_id

    def is_ready(self, request, num_computed_tokens):
        name = request.request_id
        if name not in self._held:
            if len(self._held) >= self.max_waiting:
                return True
            found = []
            for content in self._names(request, num_computed_tokens):
                block = self.host.get(content)
                if block is None and self.lookup(content) is LookupResult.RETRY:
                    block = self.host.take(content)
                    if block is not None:
                        self._begin("read", content, block)
                if block is None:
                    break
                found.append(self.host.hold(block))
            if not found:
                return True
            self._held[name] = found
        return not any(block.state == "pending" for block in self._held[name])

    def give_up(self, request_id):
        for block in reversed(self._held.pop(request_id, ())):
            self.host.release(block)

    def load(self, request, block_ids, start):
        for place, block_id in enumerate(block_ids, start=start):
            block = self.host.get(request.block_hashes[place])
            self._notes.loaded.append((self.host.hold(block), block_id))
        self.give_up(request.request_id)

    def request_finished(self, request):
        self.give_up(request.request_id)

    def end_step(self, result):
        notes, self._notes = self._notes, StepNotes()
        for block, _ in notes.loaded:
            self.host.release(block)
        for block, _ in notes.stored:
            if result is None:
                self.host.drop(block)
            elif block.state == "pending":
                block.state = "ready"
                self._write(block)
            self.host.release(block)
        if result is None:
            return
        self.stats.num_stored += len(notes.stored)
        self.stats.num_loaded += len(notes.loaded)
        for name, block in notes.published:
            if block.block_hash == name:
                self._going[name] = block.block_id
        if isinstance(result.connector, TierResult):
            for number, went_well in result.connector.done.items():
                job, block = self._jobs.pop(number)
                self._end(job, block, went_well)


# === counts_what_is_left
"""The lookup is a generator, and a request that waits keeps those that have not come yet."""

from mini_vllm.offload.tiers.connector import StepNotes
from mini_vllm.offload.tiers.connector import TierConnector as ReferenceTierConnector
from mini_vllm.offload.tiers.work import LookupResult


class TierConnector(ReferenceTierConnector):
    def publish(self, blocks):
        self._notes.published.extend([(block.block_hash, block) for block in blocks])

    def evict(self, name, block_id):
        block = self.host.get(name)
        if block is None:
            self._going[name] = block_id
            return
        self.host.release(self.host.hold(block))

    def found(self, names):
        for name in names:
            answer = self.lookup(name)
            if answer is LookupResult.MISS:
                return
            block = self.host.get(name)
            if answer is LookupResult.RETRY:
                block = self.host.take(name)
                if block is None:
                    return
                self._begin("read", name, block)
            yield self.host.hold(block)

    def is_ready(self, request, num_computed_tokens):
        key = request.request_id
        if key not in self._held and len(self._held) < self.max_waiting:
            blocks = [*self.found(self._names(request, num_computed_tokens))]
            if blocks:
                self._held[key], self._waits[key] = blocks, blocks
        if key not in self._held:
            return True
        self._waits[key] = [block for block in self._waits[key] if block.state == "pending"]
        return len(self._waits[key]) == 0

    def load(self, request, block_ids, start):
        names = request.block_hashes[start : start + len(block_ids)]
        blocks = [self.host.hold(self.host.get(name)) for name in names]
        self._notes.loaded += list(zip(blocks, block_ids))
        self.request_finished(request)

    def request_finished(self, request):
        held = self._held.pop(request.request_id, [])
        self._waits.pop(request.request_id, None)
        while held:
            self.host.release(held.pop())

    def end_step(self, result):
        notes = self._notes
        self._notes = StepNotes()
        failed = result is None
        for block, _ in notes.loaded:
            self.host.release(block)
        for block, _ in notes.stored:
            if failed:
                self.host.drop(block)
            elif block.state != "lost" and block.state != "ready":
                block.state = "ready"
                self._write(block)
            self.host.release(block)
        if not failed:
            self.stats.num_stored += len(notes.stored)
            self.stats.num_loaded += len(notes.loaded)
            self._going |= {name: each.block_id for name, each in notes.published if each.block_hash == name}
            for number, went_well in getattr(result.connector, "done", {}).items():
                self._end(*self._jobs.pop(number), went_well)
