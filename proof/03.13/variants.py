# === all_in_one
"""One method from top to bottom; the step is a dictionary until it is decided, and drop() goes by identity."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput as ReferenceSchedulerOutput


class SchedulerOutput(ReferenceSchedulerOutput):
    """What is not defined here is the reference's."""

    def drop(self, request: Request) -> int:
        for place, other in enumerate(self.scheduled_requests):
            if other is request:
                del self.scheduled_requests[place]
                return self.num_scheduled_tokens.pop(request.request_id)
        return 0


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output, kv = SchedulerOutput(), self.kv_cache_manager
        preempted = output.preempted_req_ids
        for request in tuple(self.running):
            left = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, left)
            if request.status is RequestStatus.PREEMPTED or n <= 0:
                continue
            blocks = kv.allocate_slots(request, n)
            while blocks is None and request.status is RequestStatus.RUNNING:
                victim = self._pop_victim()
                output.drop(victim)
                self._preempt(victim)
                preempted.append(victim.request_id)
                if request.status is RequestStatus.RUNNING:
                    blocks = kv.allocate_slots(request, n)
            if blocks is not None:
                output.add(request, n)
        while self.waiting and not preempted and len(self.running) < self.max_num_seqs:
            left = self.max_num_batched_tokens - output.total_num_scheduled_tokens
            head = self.waiting[0]
            blocks, hit = kv.get_computed_blocks(head)
            behind = head.num_tokens - hit
            n = self._clamp_new_tokens(behind, left if self.enable_chunked_prefill else behind)
            if not 0 < n <= left or not self._may_admit(head, hit + n, blocks):
                break
            if kv.allocate_slots(head, n, blocks) is None:
                break
            self._admit(head, hit)
            output.add(head, n)
        return output

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        kv = self.kv_cache_manager
        hits = num_computed_tokens - kv.num_external_tokens(request)
        is_first = request.status is not RequestStatus.PREEMPTED
        if kv.enable_prefix_caching:
            stats = self.prefix_cache_stats if is_first else self.preempted_prefix_cache_stats
            stats.record(request.num_tokens, hits)
        if is_first:
            request.num_cached_tokens = hits
        request.num_computed_tokens = num_computed_tokens
        request.status = RequestStatus.RUNNING
        self.waiting.remove(request)
        self.running.append(request)


# === asks_how_often
"""It asks how often the request was preempted: a waiting request is PREEMPTED if, and only if, it was once."""

EDITS = [("if request.status is RequestStatus.WAITING:", "if request.num_preemptions == 0:")]


# === by_index
"""It walks running by index, and moves the finger back when somebody before it leaves; victims are a set of ids."""

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput as ReferenceSchedulerOutput


class SchedulerOutput(ReferenceSchedulerOutput):
    """What is not defined here is the reference's."""

    def drop(self, request: Request) -> int:
        num_tokens = self.num_scheduled_tokens.get(request.request_id)
        if num_tokens is None:
            return 0
        del self.num_scheduled_tokens[request.request_id]
        self.scheduled_requests[:] = [other for other in self.scheduled_requests if other is not request]
        return num_tokens


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        budget, finger = self.max_num_batched_tokens, 0
        while finger < len(self.running):
            request = self.running[finger]
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, budget)
            has_slots = n > 0
            while n > 0 and self.kv_cache_manager.allocate_slots(request, n) is None:
                before = list(self.running)
                victim = self._pop_victim()
                place = next(i for i, other in enumerate(before) if other is victim)
                budget += output.drop(victim)
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                if place < finger:
                    finger -= 1
                elif place == finger:
                    finger -= 1
                    has_slots = False
                    break
            if has_slots:
                output.add(request, n)
                budget -= n
            finger += 1
        if not output.preempted_req_ids:
            while self._take_the_head(output):
                pass
        return output

    def _take_the_head(self, output: SchedulerOutput) -> bool:
        left = self.max_num_batched_tokens - sum(output.num_scheduled_tokens.values())
        if not self.waiting or left <= 0 or len(self.running) >= self.max_num_seqs:
            return False
        request, kv = self.waiting[0], self.kv_cache_manager
        blocks, hit = kv.get_computed_blocks(request)
        most = left if self.enable_chunked_prefill else self.num_slots
        n = self._clamp_new_tokens(request.num_tokens - hit, most)
        fits = n <= left and self._may_admit(request, hit + n, blocks)
        if not fits or kv.allocate_slots(request, n, blocks) is None:
            return False
        self._admit(request, hit)
        output.add(request, n)
        return True

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        caching = self.kv_cache_manager.enable_prefix_caching
        found = num_computed_tokens - self.kv_cache_manager.num_external_tokens(request)
        if request.status is RequestStatus.WAITING:
            request.num_cached_tokens = found
            if caching:
                self.prefix_cache_stats.record(request.num_tokens, found)
        elif caching:
            self.preempted_prefix_cache_stats.record(request.num_tokens, found)
        place = next(i for i, other in enumerate(self.waiting) if other is request)
        del self.waiting[place]
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, num_computed_tokens
        self.running = [*self.running, request]


# === plan_first
"""It notes slots and tokens on a list of turns, and fills the output when the running half is decided."""

from collections import deque

from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler as ReferenceScheduler
from mini_vllm.scheduler import SchedulerOutput as ReferenceSchedulerOutput


class SchedulerOutput(ReferenceSchedulerOutput):
    """What is not defined here is the reference's."""

    def drop(self, request: Request) -> int:
        if request.request_id not in self.num_scheduled_tokens:
            return 0
        num_tokens = self.num_scheduled_tokens.pop(request.request_id)
        kept = [other for other in self.scheduled_requests if other.request_id != request.request_id]
        self.scheduled_requests = kept
        return num_tokens


class Scheduler(ReferenceScheduler):
    """What is not defined here is the reference's."""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        turns, left = [], self.max_num_batched_tokens
        ahead = deque(self.running)
        while ahead:
            request = ahead.popleft()
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, left)
            if n == 0:
                continue
            given = self.kv_cache_manager.allocate_slots(request, n)
            while given is None:
                victim = self._pop_victim()
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                left += sum(tokens for other, tokens in turns if other is victim)
                turns = [turn for turn in turns if turn[0] is not victim]
                ahead = deque(other for other in ahead if other is not victim)
                if victim is request:
                    break
                given = self.kv_cache_manager.allocate_slots(request, n)
            if given is not None:
                turns.append((request, n))
                left -= n
        for request, n in turns:
            output.add(request, n)
        if output.preempted_req_ids == []:
            self._let_in(output, left)
        return output

    def _let_in(self, output: SchedulerOutput, left: int) -> None:
        manager = self.kv_cache_manager
        for request in list(self.waiting):
            if left == 0 or len(self.running) == self.max_num_seqs:
                return
            shared, num_shared = manager.get_computed_blocks(request)
            behind = request.num_tokens - num_shared
            n = (
                self._clamp_new_tokens(behind, left)
                if self.enable_chunked_prefill
                else self._clamp_new_tokens(behind, behind)
            )
            if n > left:
                return
            if not self._may_admit(request, num_shared + n, shared):
                return
            if manager.allocate_slots(request, n, shared) is None:
                return
            self._admit(request, num_shared)
            output.add(request, n)
            left -= n

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        manager = self.kv_cache_manager
        found = num_computed_tokens - manager.num_external_tokens(request)
        if request.status is RequestStatus.PREEMPTED:
            statistics = self.preempted_prefix_cache_stats
        else:
            statistics = self.prefix_cache_stats
            request.num_cached_tokens = found
        if manager.enable_prefix_caching:
            statistics.record(request.num_tokens, found)
        self.waiting = deque(other for other in self.waiting if other is not request)
        self.running.append(request)
        request.num_computed_tokens = num_computed_tokens
        request.status = RequestStatus.RUNNING


# === statistics_by_hand
"""The reference with other words: counts are added by hand, the loop is a generator, drop() is one expression."""

BASE = "all_in_one"
EDITS = [
    (
        "            stats.record(request.num_tokens, hits)\n",
        "            stats.requests += 1\n"
        "            stats.queries += len(request.all_token_ids)\n"
        "            stats.hits += hits\n",
    ),
    (
        "        for request in tuple(self.running):\n",
        "        for request in (each for each in [*self.running]):\n",
    ),
    (
        "        for place, other in enumerate(self.scheduled_requests):\n"
        "            if other is request:\n"
        "                del self.scheduled_requests[place]\n"
        "                return self.num_scheduled_tokens.pop(request.request_id)\n"
        "        return 0\n",
        "        self.scheduled_requests = [each for each in self.scheduled_requests if each is not request]\n"
        "        return self.num_scheduled_tokens.pop(request.request_id, 0)\n",
    ),
]


# === victims_by_name
"""It knows victims by the ids that it noted, and asks nobody for a status."""

BASE = "all_in_one"
EDITS = [
    (
        "            if request.status is RequestStatus.PREEMPTED or n <= 0:\n",
        "            if request.request_id in preempted or n <= 0:\n",
    ),
    (
        "            while blocks is None and request.status is RequestStatus.RUNNING:\n",
        "            while blocks is None and request.request_id not in preempted:\n",
    ),
    (
        "                if request.status is RequestStatus.RUNNING:\n",
        "                if victim is not request:\n",
    ),
]
