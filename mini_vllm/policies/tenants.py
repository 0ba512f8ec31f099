"""Tenants: requests of parties that do not trust each other, on one engine.

A request's cache_salt begins with the name of its tenant, so no tenant finds what another one has
computed. Four rules keep one tenant from taking what another one needs:

    admission   the tenant that was served least is next, and one that holds more gives way to it
    budget      tenants with prompts to compute have equal shares of it, and beside another tenant
                half at most
    victims     when blocks run out, the tenant that holds most gives way
    sweeper     before each step, cold cached blocks above the quotas and a watermark are forgotten

The sweeper is a Part, and so is the account that the first two rules read: Fairness does both
before each step. Which request is next, how many tokens it gets and which one gives way are no
parts: a part chooses nothing, and each choice depends on what the same step has given out so far.
So TenantScheduler makes them, where V1's own schedule() asks.

Source: the counter of what each tenant was served is that of "Fairness in Serving Large Language
Models" (Sheng et al., OSDI 2024), with blocks times steps in the place of tokens. All else is vLLM
V1, which knows no tenants.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar

from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.errors import InvalidParameterError, is_int, is_number, shown
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.scheduler_interface import Part, SchedulerInterface

MOST_PREEMPTIONS = 8  # of a request for the sake of other tenants: so each one ends


def salt_of(tenant: str, cache_salt: str | None) -> str:
    """The cache_salt of a tenant's request, which may bring one of its own.

    The tenant's name has no slash.
    """
    return f"{tenant}/{cache_salt or ''}"


def tenant_of(cache_salt: str | None) -> str:
    """The tenant whose salt it is. A salt that salt_of() did not make is a tenant of its own."""
    return (cache_salt or "").partition("/")[0]


class TenantBlockPool(BlockPool):
    """A pool that knows whose the cached blocks are. tenant: of those that are cached next."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self.tenant = ""
        self.num_cached: Counter[str] = Counter()  # by tenant
        self._owners = [""] * num_blocks

    def cache_block(self, block: KVCacheBlock, block_hash: Hashable) -> None:
        super().cache_block(block, block_hash)
        self._owners[block.block_id] = self.tenant
        self.num_cached[self.tenant] += 1

    def uncache_block(self, block: KVCacheBlock) -> None:
        if block.block_hash is not None:
            self.num_cached[self._owners[block.block_id]] -= 1
        super().uncache_block(block)

    def uncache_hash(self, block_hash: Hashable) -> None:
        for block in [*self._cached.get(block_hash, {}).values()]:
            self.uncache_block(block)

    def trim(self, num_blocks: Counter[str]) -> None:
        """Forget so many blocks of each tenant, the coldest first, if no request holds them.

        They are taken next.
        """
        free = self.free_queue.block_ids() if any(num_blocks.values()) else ()
        for block_id in free:
            block, owner = self.blocks[block_id], self._owners[block_id]
            if block.block_hash is not None and num_blocks[owner]:
                num_blocks[owner] -= 1
                self.uncache_block(block)
                self.free_queue.remove(block)
                self.free_queue.prepend_n([block])


@dataclass(eq=False, repr=False)
class TenantKVCacheManager(KVCacheManager):
    """Blocks are cached for the tenant of their request, and swept before each step.

    Raises InvalidParameterError for a quota that is no number of blocks, and a watermark that is no
    share.
    """

    cache_quotas: Mapping[str, int] | None = None
    """By tenant, the most blocks that it may have cached; one that is not named has no quota."""
    cache_watermark: float = 0.85
    """The share of the blocks above which cold cached ones are trimmed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (
            is_number(self.cache_watermark, 0, 1)
            and all(is_int(quota, 0) for quota in (self.cache_quotas or {}).values())
        ):
            raise InvalidParameterError(
                "cache_quotas must be blocks, and cache_watermark in [0, 1], "
                f"got {shown(self.cache_quotas)} and {shown(self.cache_watermark)}"
            )
        self.block_pool = self.tenant_pool = TenantBlockPool(self.num_blocks)

    def sweep(self) -> None:
        """Trim each tenant to its quota, and all of them to the watermark.

        What the smaller ones leave of an equal share, the larger ones may have. Blocks that
        requests hold stay.
        """
        pool, excess = self.tenant_pool, Counter[str]()
        pool.num_cached = +pool.num_cached  # without those that have none
        num_left = int(self.cache_watermark * self.num_usable_blocks)
        for i, (tenant, num_cached) in enumerate(reversed(pool.num_cached.most_common())):
            num_allowed = min(
                num_cached,
                num_left // (len(pool.num_cached) - i),
                (self.cache_quotas or {}).get(tenant, num_cached),
            )
            excess[tenant] = num_cached - num_allowed
            num_left -= num_allowed
        pool.trim(excess)

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        self.tenant_pool.tenant = tenant_of(request.cache_salt)
        super()._cache_blocks(request, start, end)


class TenantQueue:
    """The waiting requests, as a scheduler uses a deque: a line for each tenant, that of the least
    served one first.
    """

    def __init__(self) -> None:
        self.lines: defaultdict[str, deque[Request]] = defaultdict(deque)
        # by tenant that has unfinished requests: blocks times steps
        self.served: Counter[str] = Counter()
        self.shares: dict[str, int] = {}  # by the same: tokens of the step that are left to it

    def append(self, request: Request) -> None:
        self.lines[tenant_of(request.cache_salt)].append(request)

    def appendleft(self, request: Request) -> None:
        self.lines[tenant_of(request.cache_salt)].appendleft(request)

    def extendleft(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.appendleft(request)

    def popleft(self) -> Request:
        self.remove(request := self[0])
        return request

    def remove(self, request: Request) -> None:
        self.lines[tenant_of(request.cache_salt)].remove(request)

    def __len__(self) -> int:
        return sum(map(len, self.lines.values()))

    def __iter__(self) -> Iterator[Request]:
        return chain.from_iterable(
            self.lines[tenant] for tenant in sorted(self.lines, key=self.served.__getitem__)
        )

    def __getitem__(self, index: int) -> Request:
        return next(islice(self, index, None))

    def charge(self, held: Counter[str]) -> None:
        """A step begins, in which each tenant is served as many blocks as it holds.

        One that comes, or comes back, has been served as much as the least served other tenant: it
        has no claim to what it did not ask for.
        """
        self.lines = defaultdict(
            deque, {tenant: line for tenant, line in self.lines.items() if line}
        )
        tenants = {*held, *self.lines}
        least = min((self.served[tenant] for tenant in tenants if tenant in self.served), default=0)
        self.served = Counter(
            {tenant: self.served.get(tenant, least) + held[tenant] for tenant in tenants}
        )


def held_by_tenant(scheduler: SchedulerInterface) -> Counter[str]:
    """How many blocks the running requests of each tenant hold."""
    held, kv = Counter[str](), scheduler.kv_cache_manager
    for request in scheduler.running:
        held[tenant_of(request.cache_salt)] += sum(kv.get_num_blocks(request.request_id))
    return held


class Fairness(Part):
    """What the rules do before each step: charge the tenants, sweep, and share out the budget."""

    def __init__(self, queue: TenantQueue) -> None:
        self.queue = queue

    def before_schedule(self, scheduler: SchedulerInterface) -> None:
        kv = scheduler.kv_cache_manager
        self.queue.charge(held_by_tenant(scheduler))
        if isinstance(kv, TenantKVCacheManager):
            kv.sweep()
        self.queue.shares = dict.fromkeys(self.queue.served, self._share_of_each(scheduler))

    def _share_of_each(self, scheduler: SchedulerInterface) -> int:
        """How many tokens of the step a tenant may compute.

        The tenants with prompts to compute have equal shares, and none has more than half of the
        budget beside another one. What a tenant does not use is used by none: a longer chunk would
        make the step longer for all requests. A tenant that is alone has the budget, and so has
        each one if prompts are not cut.
        """
        with_prompts = {
            tenant_of(request.cache_salt)
            for request in scheduler.running
            if request.num_tokens - request.num_computed_tokens > 1
        }.union(self.queue.lines)
        is_shared = scheduler.enable_chunked_prefill and len(self.queue.served) > 1
        num_shares = max(len(with_prompts), 2) if is_shared else 1
        return max(scheduler.max_num_batched_tokens // num_shares, 1)


@dataclass(eq=False, repr=False, kw_only=True)
class TenantScheduler(Scheduler):
    """V1, fair between tenants.

    Raises InvalidParameterError for policy "priority", an order across tenants.
    """

    kv_cache_manager_cls: ClassVar[type[KVCacheManager]] = TenantKVCacheManager
    policies = ("fcfs",)  # no order across tenants

    def __post_init__(self) -> None:
        super().__post_init__()
        self.waiting: TenantQueue = TenantQueue()  # type: ignore[assignment]
        self._preempted: Sequence[str] = ()  # in this step
        self.attach(Fairness(self.waiting))

    def usage_by_tenant(self) -> dict[str, tuple[int, int, int]]:
        """Of each tenant: requests that wait, blocks that its running ones hold, and blocks that
        are cached.
        """
        held, lines, kv = held_by_tenant(self), self.waiting.lines, self.kv_cache_manager
        cached = (
            kv.tenant_pool.num_cached if isinstance(kv, TenantKVCacheManager) else Counter[str]()
        )
        return {
            name: (len(lines.get(name, ())), held[name], cached[name])
            for name in sorted({*held, *lines, *cached})
        }

    def _chunk_size(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        """At most what is left of the tenant's share, from which it is taken.

        A decode goes on in any case.
        """
        tenant, shares = tenant_of(request.cache_salt), self.waiting.shares
        if self.enable_chunked_prefill:
            token_budget = min(token_budget, max(shares[tenant], 1))
        n = super()._chunk_size(request, num_computed_tokens, token_budget)
        shares[tenant] -= n
        return n

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        """Admit.

        If there is no room for the next request, a running one may give way first, and waits until
        later.
        """
        self._preempted, request = output.preempted_req_ids, self._next_admissible()
        if request is not None and self._may_displace(request, token_budget):
            victim = self._pop_victim()
            self._preempt(victim)
            output.preempted_req_ids.append(victim.request_id)
            token_budget += output.drop(victim)
            others = [
                each for each in self.running if each.request_id not in output.num_scheduled_tokens
            ]
            token_budget = self._schedule_running(others, output, token_budget)
        super()._schedule_waiting(output, token_budget)

    def _next_waiting(self) -> Request | None:
        """The first of the least served tenant whose share is not used up, unless it has given way
        in this step.
        """
        queue = self.waiting
        tenants = [
            tenant for tenant, line in queue.lines.items() if line and queue.shares[tenant] > 0
        ]
        request = queue.lines[min(tenants, key=queue.served.__getitem__)][0] if tenants else None
        return None if request is None or request.request_id in self._preempted else request

    def _may_displace(self, request: Request, token_budget: int) -> bool:
        """Whether a waiting request has no room, and the victim's tenant was served more and holds
        more.

        It would hold more even if the request were in. The victim, which is its tenant's next
        request, then may not displace it in turn.
        """
        kv, mine, served = self.kv_cache_manager, tenant_of(request.cache_salt), self.waiting.served
        has_room = (
            token_budget
            and len(self.running) < self.max_num_seqs
            and self._may_admit(request, request.num_tokens, kv.get_computed_blocks(request)[0])
        )
        if has_room or not self.running:
            return False
        held, victim = held_by_tenant(self), self._find_victim()
        theirs, num_needed = tenant_of(victim.cache_salt), -(-request.num_tokens // kv.block_size)
        return (
            served[theirs] > served[mine]
            and held[theirs] > held[mine] + num_needed
            and victim.num_preemptions < MOST_PREEMPTIONS
        )

    def _find_victim(self) -> Request:
        """The youngest request of the tenant that holds most; of those that were preempted often,
        the youngest.
        """
        held = held_by_tenant(self)
        candidates = [
            request for request in self.running if request.num_preemptions < MOST_PREEMPTIONS
        ]
        return max(
            reversed(candidates or self.running[-1:]),
            key=lambda each: held[tenant_of(each.cache_salt)],
        )

    def _pop_victim(self) -> Request:
        victim = self._find_victim()
        self.running.remove(victim)
        return victim
