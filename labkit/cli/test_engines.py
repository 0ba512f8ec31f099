"""The scheduler that a learner reads is the one that runs, in every engine that `lab run` makes."""

from inspect import getattr_static
from types import FunctionType
from typing import Any

import pytest

from labkit.cli.running import ENGINES, SIZES
from labkit.labs.catalog import labs
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.policies.tenants import TenantScheduler
from mini_vllm.scheduler import Scheduler

pytest.importorskip("torch", reason="the engine of 05.3 has a draft model")


ALL = {"03": {}, **ENGINES, "tenants": {"scheduler": "tenants"}}


@pytest.mark.parametrize("name", ALL)
def test_no_method_of_a_scheduler_or_its_manager_is_replaced(name: str) -> None:
    from mini_vllm import LLM

    llm = LLM("tiny", device="cpu", dtype="float32", **SIZES, **ALL[name])
    scheduler = llm.engine.scheduler
    told = {part: found_in(part) for part in (scheduler, scheduler.kv_cache_manager)}
    form = StructuredOutputs(choice=["yes", "no"]) if name == "04" else None
    llm.generate("A KV block is", SamplingParams(temperature=0, max_tokens=6, structured=form))
    for part, before in told.items():
        assert found_in(part) == before
        for method, function in before.items():
            owner = next(cls for cls in type(part).__mro__ if method in vars(cls))
            assert function.__qualname__ == f"{owner.__qualname__}.{method}"
            assert function.__module__ == owner.__module__
            assert function.__module__.startswith("mini_vllm.")


def test_of_what_labs_ask_of_v1s_scheduler_tenants_choose_the_victim_alone() -> None:
    names = {slot.name for lab in labs() for slot in lab.slots if slot.owner == "Scheduler"}
    assert "schedule" in names
    assert {name for name in names if getattr(TenantScheduler, name) is not getattr(Scheduler, name)} == {"_pop_victim"}


def found_in(part: Any) -> dict[str, FunctionType]:
    """By name, the functions that a call of a method of this object runs."""
    names = {name for name in dir(part) if isinstance(getattr_static(type(part), name, None), FunctionType)}
    assert not names & vars(part).keys(), "an attribute of the object hides a method of its class"
    return {name: getattr(part, name).__func__ for name in sorted(names) if not name.startswith("__")}
