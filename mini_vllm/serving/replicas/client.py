"""The front's end of several engines, which looks to the front like one.

Each engine runs in a process of its own, with its own model and KV cache. If one of them dies, all
end, as in vLLM: a front that went on with fewer engines would be slow and would not say why.
Source: DPLBAsyncMPClient in vllm/v1/engine/core_client.py.
"""

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from mini_vllm.config import EngineConfig
from mini_vllm.serving.counted.reader import Loads
from mini_vllm.serving.engine_client import EngineClient, ProcessClient
from mini_vllm.serving.messages import Add, Command, Died, Event, Finish, Ready, StepDone
from mini_vllm.serving.replicas.router import PrefixRouter
from mini_vllm.spec_decode.scheduler import SpeculationStats


class ReplicasClient(EngineClient):
    """make: the front's end of one of them."""

    def __init__(
        self,
        make: Callable[..., EngineClient],
        num_replicas: int,
        config: EngineConfig,
        on_event: Callable[[Event], None],
        on_death: Callable[[], None],
    ) -> None:
        self._on_event, self._on_death = on_event, on_death
        self._lock = threading.Lock()  # events come in threads
        self._silent: set[int] = set()
        self._ready: dict[int, Ready] = {}
        self._last = [StepDone([], None, None, 0, 0, 0.0)] * num_replicas
        self._loads: dict[int, Loads] = {}  # of experts, by replica
        self._is_dead = False
        self._router = PrefixRouter(num_replicas, config.block_size, 1)
        if config.device != "cuda":
            # all share the cores, and each would take all of them
            cores = max(1, (os.cpu_count() or 1) // num_replicas)
            os.environ.setdefault("OMP_NUM_THREADS", str(cores))
        self._clients = [
            make(config_of(config, i, num_replicas), partial(self._take, i), partial(self._die, i))
            for i in range(num_replicas)
        ]

    @property
    def has_heard_all(self) -> bool:
        """No engine owes a word."""
        return not self._silent

    def send(self, command: Command) -> None:
        if isinstance(command, Add):
            with self._lock:
                place = self._router.place(
                    command.request_ids, command.prompt_token_ids, command.cache_salt
                )
            self._clients[place].send(command)
        elif isinstance(command, Finish):
            self._finish(command)

    def _finish(self, command: Finish) -> None:
        """Without a request it asks how an engine stands."""
        places: dict[int, list[str]] = {}
        with self._lock:
            if not command.request_ids:
                self._silent = {*range(len(self._clients))}
                places = {i: [] for i in self._silent}
            for request_id in command.request_ids:
                place = self._router.take_back(request_id)
                if place is not None:
                    places.setdefault(place, []).append(request_id)
        for place, request_ids in places.items():
            self._clients[place].send(Finish(request_ids, command.reason))

    def close(self, timeout: float) -> None:
        closing = [
            threading.Thread(target=client.close, args=(timeout,)) for client in self._clients
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def _take(self, place: int, event: Event) -> None:
        """What an engine says."""
        with self._lock:
            self._silent.discard(place)
            if isinstance(event, StepDone):
                self._last[place] = event
                self._router.replicas[place].num_waiting = event.num_waiting
                for delta in event.deltas:
                    if delta.finish_reason is not None:
                        self._router.take_back(delta.request_id)
                if event.expert_loads:  # which it tells now and then
                    self._loads[place] = event.expert_loads
                    event.expert_loads = added_loads(self._loads.values())
                self._on_event(together(event, self._last))
            elif isinstance(event, Ready):
                self._ready[place] = event
                if len(self._ready) == len(self._clients):
                    self._start()
            else:
                self._end(place, event.error)

    def _start(self) -> None:
        """All are ready, and the smallest one says what a request may be."""
        smallest = min(self._ready.values(), key=lambda ready: ready.num_slots)
        for replica in self._router.replicas:
            replica.max_blocks = smallest.num_slots // self._router.block_size
        facts = [
            f"replica {i}: {fact}"
            for i, ready in sorted(self._ready.items())
            for fact in ready.facts
        ]
        self._on_event(
            Ready(smallest.vocab_size, smallest.max_model_len, smallest.num_slots, facts)
        )

    def _die(self, place: int) -> None:
        with self._lock:
            self._end(place, "its process has ended")

    def _end(self, place: int, reason: str) -> None:
        """The first that ends says why all do."""
        if not self._is_dead:
            self._is_dead = True
            self._on_event(Died(f"replica {place}: {reason}"))
            self._on_death()


def clients_of(num_replicas: int) -> Callable[..., EngineClient]:
    """What makes the front's end of so many engines, each in a process of its own."""
    if num_replicas == 1:
        return ProcessClient
    return partial(ReplicasClient, ProcessClient, num_replicas)


def config_of(config: EngineConfig, place: int, num_replicas: int) -> EngineConfig:
    """Of one replica: a GPU of its own if the device is "cuda", else its share of the memory; and
    the files of its own for what outlives it.
    """
    for name in ("expert_loads", "kv_offload_path"):
        if file := getattr(config, name):
            config = replace(config, **{name: f"{file}.{place}"})  # type: ignore[arg-type]
    if config.device == "cuda":
        return replace(config, device=f"cuda:{place}")
    return replace(config, gpu_memory_utilization=config.gpu_memory_utilization / num_replicas)


def together(done: StepDone, last: list[StepDone]) -> StepDone:
    """What one engine has done, and how all of them stand after it."""
    tenants: dict[str, tuple[int, int, int]] = {}
    for each in last:
        for name, usage in each.tenants.items():
            before = tenants.get(name, (0, 0, 0))
            tenants[name] = (before[0] + usage[0], before[1] + usage[1], before[2] + usage[2])
    drafts = [each.speculation for each in last if each.speculation is not None]
    return StepDone(
        done.deltas,
        done.stats,
        done.plan,
        sum(each.num_running for each in last),
        sum(each.num_waiting for each in last),
        sum(each.kv_cache_usage for each in last) / len(last),
        added(drafts) if drafts else None,
        tenants,
        done.expert_loads,
    )


def added(drafts: list[SpeculationStats]) -> SpeculationStats:
    """Counts of all engines together."""
    by_accepted = [
        sum(counts) for counts in zip(*(d.num_drafts_by_accepted for d in drafts), strict=True)
    ]
    return SpeculationStats(by_accepted, sum(each.num_draft_tokens for each in drafts))


def added_loads(loads: Iterable[Loads]) -> Loads:
    """How often tokens have chosen an expert in all engines together."""
    found: Loads = {}
    for each in loads:
        for layer, numbers in each.items():
            before = found.get(layer, [0] * len(numbers))
            found[layer] = [*map(sum, zip(before, numbers, strict=True))]
    return found
