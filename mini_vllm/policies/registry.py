"""Schedulers and KV cache managers by name and by their options. A class is imported when it is
asked for.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pkgutil import resolve_name
from types import UnionType
from typing import Any, TypedDict, Unpack, get_args, get_origin

from mini_vllm.errors import InvalidParameterError, is_int, is_number, plain, shown
from mini_vllm.kv_cache import PART, KVCacheManager
from mini_vllm.scheduler_interface import SchedulerInterface

SCHEDULERS = {
    "v1": "mini_vllm.scheduler:Scheduler",
    "prefill_first": "mini_vllm.policies.prefill_first:PrefillFirstScheduler",
    "nano_vllm": "mini_vllm.policies.nano_vllm:NanoVllmScheduler",
    "sequence_group": "mini_vllm.policies.v0.sequence_group:SequenceGroupScheduler",
    "warm_first": "mini_vllm.policies.warm_first:WarmFirstScheduler",
    "tenants": "mini_vllm.policies.tenants:TenantScheduler",
}
PREEMPTION_MODES = ("recompute", "swap", "cheaper")
SWAPPING = "mini_vllm.offload.manager:OffloadingKVCacheManager"  # for every mode but the first
# of options, as vLLM's traces have them
VLLM_NAMES = {"scheduler_reserve_full_isl": "reserve_full_sequence"}


class Classes(TypedDict, total=False):
    """Classes that stand in for those that options name; None is ours."""

    scheduler_cls: type[SchedulerInterface] | None
    kv_cache_manager_cls: type[KVCacheManager] | None


def get_scheduler_cls(name: str) -> type[SchedulerInterface]:
    """The scheduler of a name. Raises InvalidParameterError for an unknown one."""
    if not isinstance(name, str) or name not in SCHEDULERS:
        raise InvalidParameterError(
            f"scheduler must be one of {list(SCHEDULERS)}, got {shown(name)}"
        )
    found: type[SchedulerInterface] = resolve_name(SCHEDULERS[name])
    return found


def get_kv_cache_manager_cls(
    scheduler_cls: type[SchedulerInterface], preemption_mode: str
) -> type[KVCacheManager]:
    """The KV cache manager of a scheduler: its own, or the one that swaps, where any manager will
    do.
    """
    own = scheduler_cls.kv_cache_manager_cls
    if own is not KVCacheManager or preemption_mode == "recompute":
        return own
    swapping: type[KVCacheManager] = resolve_name(SWAPPING)
    return swapping


def options_of(cls: type) -> dict[str, Field[Any]]:
    """The options of a scheduler or a KV cache manager: the fields of the dataclass, less those
    that are parts.
    """
    found = fields(cls) if is_dataclass(cls) else ()
    return {field.name: field for field in found if field.metadata != PART}


def check_option(option: Field[Any], value: object) -> None:
    """Raise InvalidParameterError for a value that is not of the field's type.

    None will do where it is the default.
    """
    members = get_args(option.type) if isinstance(option.type, UnionType) else (option.type,)
    kinds = [get_origin(kind) or kind for kind in members]
    if (value, option.default) != (None, None) and not any(_is_a(value, kind) for kind in kinds):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise InvalidParameterError(f"{option.name} must be {names}, got {shown(value)}")


def _is_a(value: object, kind: type) -> bool:
    """Whether value is one: of int 32 bits, of float a finite number."""
    if kind is int:
        return is_int(value, -(1 << 31), (1 << 31) - 1)
    return is_number(value, -1e100, 1e100) if kind is float else isinstance(value, kind)


def all_options() -> dict[str, Any]:
    """The options of all schedulers of the family and their KV cache managers, each with its
    default or MISSING.
    """
    found: dict[str, Any] = {}
    for scheduler_cls in map(get_scheduler_cls, SCHEDULERS):
        for cls in (scheduler_cls.kv_cache_manager_cls, scheduler_cls, resolve_name(SWAPPING)):
            found |= {name: option.default for name, option in options_of(cls).items()}
    return found | {"preemption_mode": "recompute"}  # which is to have no OffloadingKVCacheManager


def get_classes(
    options: Mapping[str, Any],
    scheduler_cls: type[SchedulerInterface] | None = None,
    kv_cache_manager_cls: type[KVCacheManager] | None = None,
) -> tuple[type[SchedulerInterface], type[KVCacheManager]]:
    """The scheduler and the KV cache manager that `options` name; a class that is given stands in
    for ours.
    """
    scheduler_cls = scheduler_cls or get_scheduler_cls(options.get("scheduler", "v1"))
    mode = options.get("preemption_mode", "recompute")
    return scheduler_cls, kv_cache_manager_cls or get_kv_cache_manager_cls(scheduler_cls, mode)


def make_scheduler(options: Mapping[str, Any], **classes: Unpack[Classes]) -> SchedulerInterface:
    """Build the scheduler that `options` name, and its KV cache manager; a class that is given
    stands in for ours.

    options: any mapping, such as a trace's config. What is an option of neither class nor of the
    family is not looked at. An option of the family that these classes do not have may be there
    with its default. With any other value it raises InvalidParameterError.
    """
    if not isinstance(options, Mapping):
        raise InvalidParameterError(f"options must be a mapping, got {shown(options)}")
    given = {VLLM_NAMES.get(name, name): plain(value) for name, value in options.items()}
    scheduler_cls, manager_cls = get_classes(given, **classes)
    of_manager, of_scheduler = options_of(manager_cls), options_of(scheduler_cls)
    for name, option in (of_manager | of_scheduler).items():
        if name in given:
            check_option(option, given[name])
        elif option.default is MISSING:
            raise InvalidParameterError(
                f"{name} must be given: {scheduler_cls.__name__} has no default for it"
            )
    for name, default in all_options().items():
        if (
            given.get(name, default) != default
            and name not in of_manager
            and name not in of_scheduler
        ):
            names = f"{scheduler_cls.__name__} with {manager_cls.__name__}"
            raise InvalidParameterError(f"{names} has no option {name}, got {shown(given[name])}")
    manager = manager_cls(**{name: given[name] for name in of_manager if name in given})
    return scheduler_cls(manager, **{name: given[name] for name in of_scheduler if name in given})


def describe(scheduler: SchedulerInterface) -> dict[str, Any]:
    """What make_scheduler needs to build this scheduler again, less what has no default; {} for V1
    as it comes.
    """
    names = {get_scheduler_cls(name): name for name in SCHEDULERS if name != "v1"}
    described: dict[str, Any] = (
        {"scheduler": names[type(scheduler)]} if type(scheduler) in names else {}
    )
    for owner in (scheduler.kv_cache_manager, scheduler):
        for name, option in sorted(options_of(type(owner)).items()):
            default, value = all_options().get(name, option.default), getattr(owner, name)
            if default is not MISSING and value != default:
                described[name] = value
    return described
