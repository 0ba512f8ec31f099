"""The front's end of the engine: how commands and events travel, to a thread or to a process.

The front needs no torch: what runs the model is imported where it runs.
Source: vllm/v1/engine/core_client.py.
"""

import multiprocessing
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue
from typing import Protocol

import msgspec

from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, MiniVllmError
from mini_vllm.parallel.watch.parent import run_watched
from mini_vllm.serving.messages import Command, Died, Event, Stop

ENGINE_MAIN = "mini_vllm.serving.engine_process:engine_main"
PATIENCE = 1  # seconds for an engine to end by itself, as it does between steps, without a front


class EngineClient(Protocol):
    """The front's end of a transport. on_event is called in any thread, on_death once, when no more
    events come.
    """

    def send(self, command: Command) -> None:
        """Never waits for the engine."""

    def close(self, timeout: float) -> None:
        """Stop the engine, and wait for its end; after `timeout` seconds it is killed."""

    @property
    def has_heard_all(self) -> bool:
        """No engine has still to say how it stands."""
        return True


class ThreadClient(EngineClient):
    """The loop in a thread of this process."""

    def __init__(
        self, config: EngineConfig, on_event: Callable[[Event], None], on_death: Callable[[], None]
    ) -> None:
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._on_event, self._on_death = on_event, on_death
        self._thread = threading.Thread(
            target=self._run, args=(config,), name="engine", daemon=True
        )
        self._thread.start()

    def _run(self, config: EngineConfig) -> None:
        from mini_vllm.serving.engine_process import EngineLoop

        try:
            self.loop = EngineLoop(config)
            self.loop.run(self._take, self._on_event)
        except MiniVllmError as error:
            self._on_event(Died(f"{type(error).__name__}: {error}"))
        finally:
            self._on_death()

    def _take(self, wait: bool) -> list[Command]:
        taken = [self._commands.get()] if wait else []
        while not self._commands.empty():
            taken.append(self._commands.get())
        return taken

    def send(self, command: Command) -> None:
        self._commands.put(command)

    def close(self, timeout: float) -> None:
        self._commands.put(Stop())
        self._thread.join(timeout)


class ProcessClient(EngineClient):
    """The loop in a process of its own, over two pipes of one direction each.

    A thread writes, so that a full pipe holds up no event loop; another one reads, and tells when
    the process is gone.
    """

    def __init__(
        self, config: EngineConfig, on_event: Callable[[Event], None], on_death: Callable[[], None]
    ) -> None:
        context = multiprocessing.get_context("spawn")
        commands, self._writer = context.Pipe(duplex=False)
        self._reader, events = context.Pipe(duplex=False)
        self._process = context.Process(
            target=run_watched,
            args=(PATIENCE, ENGINE_MAIN, asdict(config), commands, events),
            name="mini-vllm engine",
            daemon=config.tensor_parallel_size == 1,  # one that is has no ranks of its own
        )
        self._process.start()
        commands.close()
        events.close()
        self._commands: SimpleQueue[bytes | None] = SimpleQueue()
        self._encode = msgspec.msgpack.Encoder().encode
        self._on_event, self._on_death = on_event, on_death
        threading.Thread(target=self._write, name="to the engine", daemon=True).start()
        self._listener = threading.Thread(target=self._listen, name="from the engine", daemon=True)
        self._listener.start()

    def send(self, command: Command) -> None:
        """Raises InvalidParameterError for what cannot be told to a process: the caller's own
        fault, and not the thread's that writes for all.
        """
        try:
            encoded = self._encode(command)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            text = f"a request cannot be told to the engine: {error}"
            raise InvalidParameterError(text) from error
        self._commands.put(encoded)

    def close(self, timeout: float) -> None:
        self.send(Stop())
        self._process.join(timeout)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._commands.put(None)
        self._listener.join()

    def _write(self) -> None:
        with suppress(OSError):  # the process is gone, which the listener tells
            while (command := self._commands.get()) is not None:
                self._writer.send_bytes(command)

    def _listen(self) -> None:
        decode = msgspec.msgpack.Decoder(Event).decode
        try:
            while True:
                self._on_event(decode(self._reader.recv_bytes()))
        except (EOFError, OSError):
            self._on_death()
