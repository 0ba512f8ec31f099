"""The family of schedulers, all subclasses of mini_vllm.scheduler.SchedulerInterface, selectable by name.

    v1               vLLM V1: one token budget, running first, chunked prefill (mini_vllm/scheduler.py)
    prefill_first    a step admits and prefills, or it decodes; with nano_vllm as nano-vllm does it
    sequence_group   vLLM V0: prompts first; groups that fork, copy on write and swap
    warm_first       by a score: warm resumes, prefills, the tail of decodes; ageing

`policy` is something else: the order within a scheduler, "fcfs" or "priority".

An option is a parameter of a scheduler's or a KV cache manager's constructor, and is named nowhere else: make_scheduler
picks from an engine's configuration or a trace's what the two classes take.
"""

from collections.abc import Mapping
from inspect import Parameter, signature
from types import UnionType
from typing import Any, get_args, get_origin

from mini_vllm.errors import InvalidParameterError, is_int, is_number, plain, shown
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.policies.nano_vllm import NanoVllmScheduler
from mini_vllm.policies.prefill_first import PrefillFirstScheduler
from mini_vllm.policies.v0.sequence_group import SequenceGroupScheduler
from mini_vllm.policies.warm_first import WarmFirstScheduler
from mini_vllm.scheduler import Scheduler, SchedulerInterface

SCHEDULERS: dict[str, type[SchedulerInterface]] = {
    "v1": Scheduler,
    "prefill_first": PrefillFirstScheduler,
    "sequence_group": SequenceGroupScheduler,
    "warm_first": WarmFirstScheduler,
}
PREEMPTION_MODES = ("recompute", "swap", "cheaper")
VLLM_NAMES = {"scheduler_reserve_full_isl": "reserve_full_sequence"}  # of options, as vLLM's traces have them


def get_scheduler_cls(name: str) -> type[SchedulerInterface]:
    """The scheduler of a name. Raises InvalidParameterError for an unknown one."""
    if not isinstance(name, str) or name not in SCHEDULERS:
        raise InvalidParameterError(f"scheduler must be one of {list(SCHEDULERS)}, got {shown(name)}")
    return SCHEDULERS[name]


def get_kv_cache_manager_cls(scheduler_cls: type[SchedulerInterface], preemption_mode: str) -> type[KVCacheManager]:
    """The KV cache manager of a scheduler: its own, or the one that swaps, where any manager will do."""
    own = scheduler_cls.kv_cache_manager_cls
    return OffloadingKVCacheManager if own is KVCacheManager and preemption_mode != "recompute" else own


def parameters_of(cls: type) -> dict[str, Parameter]:
    """What the constructor of a scheduler or a KV cache manager takes by name.

    A constructor that ends in **options hands them on to the next one in the order of the bases. What the class lists
    in refused_options is none of its options.
    """
    found: dict[str, Parameter] = {}
    for base in cls.__mro__:
        if "__init__" in vars(base):
            parameters = list(signature(vars(base)["__init__"]).parameters.values())[1:]
            named = [p for p in parameters if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]
            found = {parameter.name: parameter for parameter in named} | found
            if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
                break
    return {name: found[name] for name in found if name not in getattr(cls, "refused_options", ())}


def options_of(cls: type) -> dict[str, Any]:
    """The options of a class, and the default of each (Parameter.empty: none)."""
    return {name: parameter.default for name, parameter in parameters_of(cls).items()}


def check_option(name: str, value: object, annotation: Any) -> None:
    """Raise InvalidParameterError for a value that is not what the constructor's annotation says, if it says a kind."""
    kinds = [get_origin(kind) or kind for kind in _members(annotation)]
    if not all(isinstance(kind, type) and kind is not Parameter.empty for kind in kinds):
        return
    if not any(_is_a(value, kind) for kind in kinds):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise InvalidParameterError(f"{name} must be {names}, got {shown(value)}")


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)


def _is_a(value: object, kind: type) -> bool:
    """Whether value is one: of int 32 bits, of float a finite number."""
    if kind is int:
        return is_int(value, -(1 << 31), (1 << 31) - 1)
    return is_number(value, -1e100, 1e100) if kind is float else isinstance(value, kind)


def all_options() -> dict[str, Any]:
    """The options of all schedulers of the family and their KV cache managers, and what they are for the others."""
    found: dict[str, Any] = {}
    for scheduler_cls in SCHEDULERS.values():
        found |= options_of(scheduler_cls.kv_cache_manager_cls) | options_of(scheduler_cls)
    found |= options_of(OffloadingKVCacheManager)
    return found | {"preemption_mode": "recompute", "nano_vllm": None}  # a policy with the option has other values


def get_classes(
    options: Mapping[str, Any],
    scheduler_cls: type[SchedulerInterface] | None = None,
    kv_cache_manager_cls: type[KVCacheManager] | None = None,
) -> tuple[type[SchedulerInterface], type[KVCacheManager]]:
    """The scheduler and the KV cache manager that `options` name; a class that is given stands in for ours."""
    if scheduler_cls is None:
        scheduler_cls = get_scheduler_cls(options.get("scheduler", "v1"))
        if scheduler_cls is PrefillFirstScheduler and options.get("nano_vllm") is not None:
            scheduler_cls = NanoVllmScheduler
    mode = options.get("preemption_mode", "recompute")
    return scheduler_cls, kv_cache_manager_cls or get_kv_cache_manager_cls(scheduler_cls, mode)


def make_scheduler(
    options: Mapping[str, Any],
    *,
    scheduler_cls: type[SchedulerInterface] | None = None,
    kv_cache_manager_cls: type[KVCacheManager] | None = None,
) -> SchedulerInterface:
    """Build the scheduler that `options` name, and its KV cache manager; a class that is given stands in for ours.

    options: any mapping, such as a trace's config. What is an option of neither class nor of the family is not looked
    at. An option of the family that these classes do not have may be there with its default. With any other value it
    raises InvalidParameterError.
    """
    if not isinstance(options, Mapping):
        raise InvalidParameterError(f"options must be a mapping, got {shown(options)}")
    given = {VLLM_NAMES.get(name, name): plain(value) for name, value in options.items()}
    scheduler_cls, manager_cls = get_classes(given, scheduler_cls, kv_cache_manager_cls)
    of_manager, of_scheduler = parameters_of(manager_cls), parameters_of(scheduler_cls)
    for name, parameter in (of_manager | of_scheduler).items():
        is_option = name in of_manager or parameter.kind is Parameter.KEYWORD_ONLY  # a scheduler's manager is none
        if name in given:
            check_option(name, given[name], parameter.annotation)
        elif is_option and parameter.default is Parameter.empty:
            raise InvalidParameterError(f"{name} must be given: {scheduler_cls.__name__} has no default for it")
    for name, default in all_options().items():
        if given.get(name, default) != default and name not in of_manager and name not in of_scheduler:
            names = f"{scheduler_cls.__name__} with {manager_cls.__name__}"
            raise InvalidParameterError(f"{names} has no option {name}, got {shown(given[name])}")
    manager = manager_cls(**{name: given[name] for name in of_manager if name in given})
    return scheduler_cls(manager, **{name: given[name] for name in of_scheduler if name in given})


def describe(scheduler: SchedulerInterface) -> dict[str, Any]:
    """What make_scheduler needs to build this scheduler again, less what has no default; {} for V1 as it comes."""
    names = {cls: name for name, cls in SCHEDULERS.items() if name != "v1"} | {NanoVllmScheduler: "prefill_first"}
    cls, manager = type(scheduler), scheduler.kv_cache_manager
    described = {"scheduler": names[cls]} if cls in names else {}
    for owner in (manager, scheduler):
        defaults = options_of(type(owner)) | all_options()
        for name in sorted(options_of(type(owner))):
            value = getattr(owner, name, defaults[name])
            if defaults[name] is not Parameter.empty and value != defaults[name]:
                described[name] = value
    return described
