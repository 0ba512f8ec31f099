"""The family of schedulers, all on the interface of mini_vllm.scheduler.Scheduler, selectable by name.

    v1               vLLM V1: one token budget, running first, chunked prefill (mini_vllm/scheduler.py)
    prefill_first    nano-vllm: a step admits and prefills, or it decodes
    sequence_group   vLLM V0: prompts first; groups that fork, copy on write and swap
    warm_first       by a score: warm resumes, prefills, the tail of decodes; ageing

`policy` is something else: the order within a scheduler, "fcfs" or "priority".
"""

from collections.abc import Mapping
from typing import Any

from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.policies.prefill_first import PrefillFirstScheduler
from mini_vllm.policies.v0.sequence_group import SequenceGroupScheduler
from mini_vllm.policies.warm_first import WarmFirstScheduler
from mini_vllm.scheduler import Scheduler

SCHEDULERS: dict[str, type[Scheduler]] = {
    "v1": Scheduler,
    "prefill_first": PrefillFirstScheduler,
    "sequence_group": SequenceGroupScheduler,
    "warm_first": WarmFirstScheduler,
}
PREEMPTION_MODES = ("recompute", "swap", "cheaper")
OWN_OPTIONS: dict[str, Any] = {  # options that only some schedulers or KV cache managers have, and their defaults
    "block_aligned_chunks": False,
    "charge_cached_tokens": False,
    "preemption_mode": "recompute",
    "num_cpu_blocks": 0,
    "preemption_cost": None,
}
KV_OPTIONS = ("num_blocks", "block_size", "enable_prefix_caching", "hash_function")


def get_scheduler_cls(name: str) -> type[Scheduler]:
    """The scheduler of a name. Raises InvalidParameterError for an unknown one."""
    if name not in SCHEDULERS:
        raise InvalidParameterError(f"scheduler must be one of {list(SCHEDULERS)}, got {name!r}")
    return SCHEDULERS[name]


def get_kv_cache_manager_cls(scheduler_cls: type[Scheduler], preemption_mode: str) -> type[KVCacheManager]:
    """The KV cache manager of a scheduler: its own, or the one that swaps, where any manager will do."""
    own = scheduler_cls.kv_cache_manager_cls
    return OffloadingKVCacheManager if own is KVCacheManager and preemption_mode != "recompute" else own


def make_scheduler(
    scheduler_cls: type[Scheduler], kv_cache_manager_cls: type[KVCacheManager] | None, options: Mapping[str, Any]
) -> Scheduler:
    """Build a scheduler and its KV cache manager. options: those of both constructors, by name.

    A manager of None is chosen by get_kv_cache_manager_cls(). Options of OWN_OPTIONS that only say the default are left
    out, so that somebody else's class need not know them. Raises InvalidParameterError for one that the scheduler and
    its manager do not have.
    """
    defaults = {**OWN_OPTIONS, "hash_function": "exact"}
    given = {name: value for name, value in options.items() if name not in defaults or value != defaults[name]}
    mode = given.get("preemption_mode", "recompute")
    manager_cls = kv_cache_manager_cls or get_kv_cache_manager_cls(scheduler_cls, mode)
    for name in OWN_OPTIONS.keys() & given.keys() - scheduler_cls.own_options - manager_cls.own_options:
        raise InvalidParameterError(f"{scheduler_cls.__name__} has no option {name}, got {given[name]!r}")
    kv_options = {name: given.pop(name) for name in (*KV_OPTIONS, *manager_cls.own_options) if name in given}
    manager = manager_cls(kv_options.pop("num_blocks"), kv_options.pop("block_size"), **kv_options)
    return scheduler_cls(manager, **given)


def describe(scheduler: Scheduler) -> dict[str, Any]:
    """What make_scheduler needs beyond the shared options to build this scheduler again; {} for V1 as it comes."""
    names = {cls: name for name, cls in SCHEDULERS.items()}
    manager = scheduler.kv_cache_manager
    owners = dict.fromkeys(scheduler.own_options, scheduler) | dict.fromkeys(manager.own_options, manager)
    own = {name: getattr(owners[name], name) for name in sorted(owners)}
    described = {name: value for name, value in own.items() if value != OWN_OPTIONS[name]}
    name = names.get(type(scheduler), "v1")
    return described if name == "v1" else {"scheduler": name, **described}
