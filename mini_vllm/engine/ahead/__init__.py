"""One step ahead: a step is decided and handed over while the one before it computes.

The host decides a step in a millisecond or more, in which the device would wait. So step n + 1 is
decided before the tokens of step n are known. It needs no token, only how many there will be: a
request in flight has a placeholder for each token that a step samples for it, and the executor puts
the token in its place when it has sampled it. Two things follow. A request that ends with a stop
token has one step too many, whose token is dropped. A block gets its name one step later, since a
name is made of tokens.

Source: AsyncScheduler in vllm/v1/core/sched/async_scheduler.py, EngineCore.step_with_batch_queue in
vllm/v1/engine/core.py. The decisions are those of vLLM 0.33.0 with async_scheduling=True.
"""

from mini_vllm.engine.ahead.core import AsyncCore
from mini_vllm.engine.ahead.drafts import AsyncSpeculativeScheduler, DraftingCore
from mini_vllm.engine.ahead.scheduler import AsyncScheduler
from mini_vllm.engine.core import EngineCore
from mini_vllm.errors import InvalidParameterError
from mini_vllm.scheduler import Scheduler, SchedulerInterface
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler


def one_step_ahead(base: type[SchedulerInterface]) -> type[AsyncScheduler]:
    """The scheduler `base`, one step ahead.

    Raises InvalidParameterError for one that shares too little with V1.
    """
    if issubclass(base, AsyncScheduler):
        return base
    if not issubclass(base, Scheduler):
        raise InvalidParameterError(
            "async_scheduling needs a scheduler that decides without the tokens in flight, got "
            f"{base.__name__}"
        )
    ahead = AsyncSpeculativeScheduler if issubclass(base, SpeculativeScheduler) else AsyncScheduler
    return type(f"Async{base.__name__}", (ahead, base), {})


def core_ahead(base: type[EngineCore], scheduler_cls: type[SchedulerInterface]) -> type[AsyncCore]:
    """The engine core `base`, one step ahead, for such a scheduler."""
    ahead = DraftingCore if issubclass(scheduler_cls, SpeculativeScheduler) else AsyncCore
    return type(f"Async{base.__name__}", (ahead, base), {})
