"""The busy loop around an engine core: take every command, one step, one message out.

It runs in a process of its own, so that no token waits for a socket and no socket for a token; or
in a thread, for tests and labs: the same loop, another transport. Only what a device raises is
tried again (RecoveringCore). Any other error ends the loop, since half a step is no state to go on
from. Source: EngineCoreProc.run_busy_loop in vllm/v1/engine/core.py.
"""

import gc
import logging
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Unpack

import torch
from msgspec import msgpack

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core_factory import CoreFactory, EngineClasses
from mini_vllm.engine.fair_places import FairPlaces
from mini_vllm.engine.planner import Planner
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import GrammarError, MiniVllmError, shown
from mini_vllm.observe.request_times import RequestTimes
from mini_vllm.observe.stats import StatsListener
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.policies.tenants import TenantScheduler
from mini_vllm.serving.counted.reader import LoadsReader
from mini_vllm.serving.messages import Add, Command, Died, Event, Finish, Ready, StepDone, Stop
from mini_vllm.step import TokenDelta

logger = logging.getLogger("mini_vllm")

# take(wait): the commands that are there; with wait, at least one
Take = Callable[[bool], list[Command]]
Send = Callable[[Event], None]


class EngineLoop:
    """An engine core that commands steer. One thread runs it.

    Raises what CoreFactory raises.
    """

    def __init__(
        self,
        config: EngineConfig,
        clock: Callable[[], float] = time.monotonic,
        **classes: Unpack[EngineClasses],
    ) -> None:
        classes.setdefault("core_cls", RecoveringCore)
        self._factory = factory = CoreFactory(config, **classes)
        self.clock = clock
        self.core = factory.make()
        self._stats = StatsListener(self.core.scheduler)
        self._planner, self._times = Planner(), RequestTimes(clock)
        self._experts = LoadsReader(factory.executor, clock)
        self.core.listeners = [self._stats, self._planner, self._times]
        scheduler = self.core.scheduler
        if config.policy == "fcfs" and config.scheduler != "tenants":  # which have an order
            scheduler.attach(FairPlaces())
        self.ready = Ready(
            factory.model_info.vocab_size,
            scheduler.max_model_len,
            scheduler.num_slots,
            [f"{config.model}: {factory.executor}", str(factory.kv_cache_plan)],
        )

    def run(self, take: Take, send: Send) -> None:
        """Until a Stop. What the engine raises is sent as Died, and raised."""
        try:
            send(self.ready)
            while True:
                refused: list[TokenDelta] = []
                for command in take(not self.core.has_unfinished_requests()):
                    if isinstance(command, Stop):
                        return
                    refused += self._obey(command)
                if self.core.has_unfinished_requests():
                    deltas = self._times.stamped(self.core.step())
                    send(self._state([*refused, *deltas], self._stats.last, self._planner.plan))
                else:
                    send(self._state(refused, None, None))
        except BrokenPipeError:  # the front is gone
            raise
        except Exception as error:
            words = error if isinstance(error, MiniVllmError) else shown(error)
            with suppress(OSError):
                send(Died(f"{type(error).__name__}: {words}"))
            logger.exception("the engine has stopped")
            raise
        finally:
            self._factory.shutdown()

    def _obey(self, command: Add | Finish) -> list[TokenDelta]:
        """Do it.

        The deltas say which requests were refused; the front has checked them, so there are few.
        """
        if isinstance(command, Finish):
            self.core.finish(command.request_ids, command.reason)
            return []
        try:
            self.core.add(command.requests())
        except MiniVllmError as error:
            is_refused = isinstance(error, GrammarError)  # the front has checked all else
            refused = TokenDelta("", [], "error", 0, str(error), is_refused, time=self.clock())
            return [refused._replace(request_id=name) for name in command.request_ids]
        return []

    def _state(self, deltas: list[TokenDelta], stats: Any, plan: StepPlan | None) -> StepDone:
        scheduler = self.core.scheduler
        connector = getattr(scheduler.kv_cache_manager, "connector", None)
        drafts = getattr(scheduler, "speculation_stats", None)
        tenants = scheduler.usage_by_tenant() if isinstance(scheduler, TenantScheduler) else {}
        return StepDone(
            deltas,
            stats,
            plan,
            len(scheduler.running),
            len(scheduler.waiting),
            scheduler.kv_cache_manager.usage,
            drafts,
            tenants,
            self._experts.read(),
            getattr(connector, "transfer_stats", None),
        )


def engine_main(options: Mapping[str, Any], commands: Connection, events: Connection) -> None:
    """The engine process, from its first line to its last. It ends when the front does."""
    # Ctrl-C reaches the whole group, and the front says what to do
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    encode, decode = msgpack.Encoder().encode, msgpack.Decoder(Command).decode

    def take(wait: bool) -> list[Command]:
        taken: list[Command] = []
        try:
            if wait:
                loop.core.executor.wait_for(commands)
            while commands.poll():
                taken.append(decode(commands.recv_bytes()))
        except EOFError:  # the front is gone
            taken.append(Stop())
        return taken

    def send(event: Event) -> None:
        events.send_bytes(encode(event))

    if options["model"] == "tiny":
        # its matrices are so small that threads would only wait for each other
        torch.set_num_threads(1)
    try:
        loop = EngineLoop(EngineConfig(**options))
    except MiniVllmError as error:
        with suppress(OSError):
            send(Died(f"{type(error).__name__}: {error}"))
        sys.exit(1)
    gc.freeze()  # what stays: a full collection would stop a step for a fifth of a second
    try:
        loop.run(take, send)
    except BrokenPipeError:  # the front is gone
        pass
    except Exception:  # it was logged and sent
        sys.exit(1)
