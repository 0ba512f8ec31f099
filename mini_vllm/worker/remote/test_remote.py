"""Prefill and decode apart, in one process: equal tokens whatever is lost between the two, and
nothing that stays held.

The engines run a random Qwen3 with sharp logits (fixture checkpoint) in whose cache whatever was
not written is not a number. The test steps both, so no clock decides.
"""

import itertools
import json
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import InvalidParameterError, RequestFailedError
from mini_vllm.models.test_models import CASES, write_checkpoint
from mini_vllm.offload.remote.connector import RemoteConnector
from mini_vllm.offload.remote.gate import wants_tiers
from mini_vllm.offload.remote.options import KVTransferConfig, Peer
from mini_vllm.offload.remote.work import Pull, Pulled, Tell, TransferStats
from mini_vllm.params import SamplingParams
from mini_vllm.step import CpuBlockId
from mini_vllm.worker.ranks.executor import MultiprocExecutor
from mini_vllm.worker.remote import client, executor
from mini_vllm.worker.remote.executor import RemoteExecutor, fingerprint
from mini_vllm.worker.remote.wire import LENGTH, PROTOCOL
from mini_vllm.worker.tiers.executor import with_tiers

PROMPTS = {f"r{i}": [11 + i, *range(20 + 5 * i, 42 + 5 * i), *range(1 + i)] for i in range(4)}
NUM_TOKENS = 6


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def make_engine(
    checkpoint: Path,
    block_size: int = 4,
    is_ahead: bool = False,
    num_kv_blocks: int = 60,
    **transfer: Any,
) -> LLMEngine:
    options: dict[str, Any] = {"num_kv_blocks": num_kv_blocks, "max_num_seqs": 2}
    if is_ahead:
        options["async_scheduling"] = True
    if transfer:
        options |= {"kv_offload_bytes": 1 << 20, "kv_transfer_config": transfer}
    engine = LLMEngine(
        EngineConfig(str(checkpoint), dtype="float32", block_size=block_size, **options),
        core_cls=RecoveringCore,
    )
    for caches in engine.executor.runner.kv_caches:  # type: ignore[attr-defined]
        for cache in caches:
            cache.fill_(torch.nan)
    return engine


def connector_of(engine: LLMEngine) -> RemoteConnector:
    found = engine.scheduler.kv_cache_manager.connector  # type: ignore[attr-defined]
    assert isinstance(found, RemoteConnector)
    return found


def params(max_tokens: int, **transfer: Any) -> SamplingParams:
    return SamplingParams(
        temperature=0,
        max_tokens=max_tokens,
        ignore_eos=True,
        kv_transfer_params=transfer or None,
    )


class Apart:
    """A prefiller, a decoder, and what a router tells them."""

    def __init__(
        self, checkpoint: Path, lender: Any = None, borrower: Any = None, **transfer: Any
    ) -> None:
        self.port = free_port()
        own = {"kv_role": "prefill", "kv_port": self.port, **transfer, **(lender or {})}
        self.prefiller = make_engine(checkpoint, **own)
        theirs = {"kv_role": "decode", **transfer, **(borrower or {})}
        self.decoder = make_engine(checkpoint, **theirs)
        self.lender, self.borrower = map(connector_of, (self.prefiller, self.decoder))

    def prefill(self, name: str, prompt: Sequence[int]) -> None:
        given = params(1, do_remote_decode=True, remote_request_id=name)
        self.prefiller.add_request(name, prompt, given)
        run(self.prefiller)

    def decode(self, name: str, prompt: Sequence[int], port: int | None = None) -> None:
        given = params(
            NUM_TOKENS,
            do_remote_prefill=True,
            remote_request_id=name,
            remote_host="127.0.0.1",
            remote_port=port or self.port,
        )
        self.decoder.add_request(name, prompt, given)

    def close(self) -> None:
        self.prefiller.shutdown()
        self.decoder.shutdown()


def run(engine: LLMEngine) -> dict[str, Any]:
    """Step to the end: by request its tokens, or why it has failed."""
    found: dict[str, Any] = {}
    for _ in range(10_000):
        if not engine.has_unfinished_requests():
            break
        for output in engine.step():
            if output.finished:
                choice = output.outputs[0]
                found[output.request_id] = choice.error or choice.token_ids
    assert not engine.has_unfinished_requests()
    engine.scheduler.kv_cache_manager.block_pool.check_integrity()
    return found


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> dict[str, Any]:
    engine = make_engine(checkpoint)
    for name, prompt in PROMPTS.items():
        engine.add_request(name, prompt, params(NUM_TOKENS))
    return run(engine)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Iterator[Clock]:
    """Of the leases of every engine."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoteExecutor, "clock", staticmethod(clock))
        yield clock


@pytest.fixture(scope="module")
def both(checkpoint: Path, clock: Clock) -> Iterator[Apart]:
    apart = Apart(checkpoint)
    yield apart
    apart.close()


@pytest.fixture
def apart(both: Apart) -> Apart:
    """Engines that have nothing in their caches."""
    for engine in (both.prefiller, both.decoder):
        engine.reset()
    both.lender, both.borrower = map(connector_of, (both.prefiller, both.decoder))
    return both


def num_full_blocks(prompt: Sequence[int]) -> int:
    return (len(prompt) - 1) // 4


def test_a_file_of_weights_is_known_by_every_tensor(tmp_path: Path) -> None:
    weights = {f"layer.{number}": torch.zeros(5000) for number in range(40)} | {
        "norm": torch.zeros(2)
    }
    file = tmp_path / "model.safetensors"
    save_file(weights, file)
    found = {fingerprint(file)}
    for name, place in [(name, place) for name in ("layer.7", "norm") for place in (0, -1)]:
        changed = weights[name].clone()
        changed[place] = 1
        save_file({**weights, name: changed}, file)
        found.add(fingerprint(file))
    save_file({"other": torch.zeros(2), **weights}, file)
    assert len({*found, fingerprint(file)}) == 6
    save_file(weights, file)
    assert fingerprint(file) in found


def test_a_prompt_is_computed_there_and_decoded_here(
    apart: Apart, expected: dict[str, Any]
) -> None:
    for name, prompt in PROMPTS.items():
        apart.prefill(name, prompt)
    assert apart.lender.num_lent_blocks > 0
    for name, prompt in PROMPTS.items():
        apart.decode(name, prompt)
    assert run(apart.decoder) == expected
    num_blocks = sum(map(num_full_blocks, PROMPTS.values()))
    assert apart.borrower.num_pulled == num_blocks
    assert apart.borrower.num_missed == 0
    assert apart.lender.num_lent_blocks == 0, "all were pulled"
    assert apart.lender.transfer_stats == TransferStats(num_blocks, 0, 0, 0, 0)
    assert apart.borrower.transfer_stats == TransferStats(0, 0, num_blocks, 0, 0)
    assert apart.borrower.host.num_held_blocks == apart.lender.host.num_held_blocks == 0


# --- what may go wrong between the two ------------------------------------------------------------


class Link:
    """A connection of two machines that cuts or flips what the prefiller says.

    fault: "" for none, "refuse" for no connection, ("cut", i) for the end before byte i, ("flip",
    i) for another byte i.
    """

    def __init__(self, port: int) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._target = port
        self.faults: list[tuple[str, int]] = []  # of the next connections
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                borrower, _ = self._listening.accept()
            except OSError:
                return
            kind, place = self.faults.pop(0) if self.faults else ("", 0)
            if kind == "refuse":
                borrower.close()
                continue
            lender = socket.create_connection(("127.0.0.1", self._target))
            talks = [
                threading.Thread(target=self._carry, args=args, daemon=True)
                for args in ((borrower, lender, "", 0), (lender, borrower, kind, place))
            ]
            for each in talks:
                each.start()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket, kind: str, place: int) -> None:
        with suppress(OSError):
            num_carried = 0
            while data := bytearray(source.recv(1 << 16)):
                here = place - num_carried
                num_carried += len(data)
                if kind == "flip" and 0 <= here < len(data):
                    data[here] ^= 0xFF
                if kind == "cut" and here < len(data):
                    sink.sendall(data[: max(here, 0)])
                    break
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def link(apart: Apart) -> Iterator[Link]:
    link = Link(apart.port)
    yield link
    link.close()


def visit(apart: Apart, names: Sequence[str], port: int | None = None) -> dict[str, Any]:
    for name in names:
        apart.prefill(name, PROMPTS[name])
    for name in names:
        apart.decode(name, PROMPTS[name], port)
    return run(apart.decoder)


def assert_nothing_is_held(apart: Apart) -> None:
    run(apart.prefiller)
    assert apart.lender.num_lent_blocks == 0
    assert apart.lender.host.num_held_blocks == apart.borrower.host.num_held_blocks == 0
    for engine in (apart.prefiller, apart.decoder):
        kv = engine.scheduler.kv_cache_manager
        assert kv.num_free_blocks == kv.num_usable_blocks


def test_a_decode_that_comes_when_the_lease_is_over_is_computed(
    checkpoint: Path, clock: Clock, expected: dict[str, Any]
) -> None:
    apart = Apart(checkpoint, kv_lease_duration=0.2)
    apart.prefill("r0", PROMPTS["r0"])
    assert apart.lender.num_lent_blocks == num_full_blocks(PROMPTS["r0"])
    clock.now += 0.5
    apart.decode("r0", PROMPTS["r0"])
    assert run(apart.decoder) == {"r0": expected["r0"]}
    num_blocks = num_full_blocks(PROMPTS["r0"])
    assert apart.borrower.transfer_stats == TransferStats(0, 0, 0, num_blocks, 1)
    assert_nothing_is_held(apart)
    assert apart.lender.transfer_stats == TransferStats(num_blocks, 1, 0, 0, 0)
    apart.close()


def test_a_heartbeat_renews_the_lease_of_a_request_that_waits(
    apart: Apart, clock: Clock, expected: dict[str, Any]
) -> None:
    begun = clock.now
    for name, prompt in PROMPTS.items():
        apart.prefill(name, prompt)
    # two long requests have all the seats, and r0 waits behind them
    for name in ("a", "b"):
        apart.decoder.add_request(name, [7, 8, 9], params(60))
    apart.decode("r0", PROMPTS["r0"])
    for _ in range(8):
        clock.now += 5
        for _ in range(3):
            apart.decoder.step()
        while apart.borrower.num_told:  # a word is on its way
            apart.decoder.step()
    assert clock.now > begun + 30
    assert run(apart.decoder)["r0"] == expected["r0"]
    assert apart.borrower.num_pulled == num_full_blocks(PROMPTS["r0"])
    assert_nothing_is_held(apart)


def test_more_requests_wait_than_one_word_can_name(
    apart: Apart, clock: Clock, expected: dict[str, Any]
) -> None:
    apart.prefill("r0", PROMPTS["r0"])
    for name in ("a", "b"):  # which have all the seats
        apart.decoder.add_request(name, [7, 8, 9], params(8))
    for i in range(30):  # nobody lent for them
        apart.decode(f"{i:0>200}", PROMPTS["r1"])
    apart.decode("r0", PROMPTS["r0"])
    apart.decode("\u00e9" * 100, PROMPTS["r2"])  # which is no name of a lease
    clock.now += 20
    apart.decoder.step()
    while apart.borrower.num_told:
        apart.decoder.step()
    clock.now += 15
    assert apart.lender.num_lent_blocks == num_full_blocks(PROMPTS["r0"])
    assert run(apart.decoder)["r0"] == expected["r0"]
    assert_nothing_is_held(apart)


def test_a_prefiller_lends_while_the_next_step_is_under_way(
    checkpoint: Path, expected: dict[str, Any]
) -> None:
    apart = Apart(checkpoint, {"is_ahead": True})
    for name, prompt in PROMPTS.items():
        given = params(1, do_remote_decode=True, remote_request_id=name)
        apart.prefiller.add_request(name, prompt, given)
    apart.prefiller.add_request("long", [7, 8, 9], params(30))  # a step is always under way
    run(apart.prefiller)
    for name, prompt in PROMPTS.items():
        apart.decode(name, prompt)
    assert run(apart.decoder) == expected
    assert apart.borrower.num_missed == 0
    assert_nothing_is_held(apart)
    apart.close()


class AtOnce(ThreadPoolExecutor):
    """Does what it is given before it returns."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize("is_ahead", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("moment", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_what_is_preempted_or_aborted_has_its_blocks_all_the_same(
    checkpoint: Path, expected: dict[str, Any], moment: int, is_ahead: bool
) -> None:
    """Both engines decide one step ahead, or none does. The decoder has blocks for one request and
    a half, and what it pulls is there when a step has ended."""
    of_both = {"is_ahead": is_ahead}
    apart = Apart(checkpoint, of_both, {**of_both, "num_kv_blocks": 15})
    apart.decoder.executor._pullers = AtOnce()  # type: ignore[attr-defined]
    for name, prompt in PROMPTS.items():
        apart.prefill(name, prompt)
    for name, prompt in PROMPTS.items():
        apart.decode(name, prompt)
    apart.decode("gone", PROMPTS["r0"])
    apart.decoder.abort("gone")
    for _ in range(moment):
        apart.decoder.step()
    apart.decoder.abort("r2")
    answers = run(apart.decoder)
    assert answers == {name: expected[name] for name in answers}
    assert {*answers} | {"r2"} == {*PROMPTS}
    assert apart.decoder.scheduler.preempted_prefix_cache_stats.requests > 0
    assert apart.borrower.num_pulled >= sum(num_full_blocks(PROMPTS[name]) for name in answers)
    assert apart.borrower.num_missed == 0
    run(apart.prefiller)
    apart.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("case", ["gemma3-window", "mistral-window"])
def test_a_model_with_windows_lends_and_decodes(tmp_path: Path, case: str, is_ahead: bool) -> None:
    write_checkpoint(tmp_path, CASES[case])
    alone = make_engine(tmp_path)
    for name, prompt in PROMPTS.items():
        alone.add_request(name, prompt, params(NUM_TOKENS))
    of_both = {"is_ahead": is_ahead}
    apart = Apart(tmp_path, of_both, {**of_both, "num_kv_blocks": 16})
    assert visit(apart, [*PROMPTS]) == run(alone)
    assert apart.borrower.num_missed == 0 < apart.borrower.num_pulled
    assert_nothing_is_held(apart)
    apart.close()


@pytest.mark.parametrize("is_ahead", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("who", ["decoder", pytest.param("both", marks=pytest.mark.slow)])
def test_a_device_that_fails_loses_no_block_that_is_on_its_way(
    checkpoint: Path, expected: dict[str, Any], who: str, is_ahead: bool
) -> None:
    of_both = {"is_ahead": is_ahead}
    apart = Apart(checkpoint, of_both, of_both)
    engines = [apart.decoder] if who == "decoder" else [apart.prefiller, apart.decoder]
    for engine in engines:
        runner = engine.executor.runner  # type: ignore[attr-defined]
        name = "launch" if is_ahead else "execute"
        execute, number = getattr(runner, name), itertools.count()

        def fail(step: Any, execute: Any = execute, number: Any = number) -> Any:
            if next(number) in (0, 2, 5):
                raise RuntimeError("the device has failed")
            return execute(step)

        setattr(runner, name, fail)
    assert visit(apart, [*PROMPTS]) == expected
    if who == "decoder":  # a copy of the prefiller that has failed is a miss
        assert apart.borrower.num_pulled == sum(map(num_full_blocks, PROMPTS.values()))
        assert apart.borrower.num_missed == 0
    assert_nothing_is_held(apart)
    apart.close()


def test_a_server_that_is_silent_is_told_one_word_at_a_time(apart: Apart, clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for name in ("a", "b"):
            apart.decoder.add_request(name, [7, 8, 9], params(40))
        apart.decode("r0", PROMPTS["r0"], port)
        for _ in range(9):
            clock.now += 6
            apart.decoder.step()
            assert apart.borrower.num_told == 1
        silent.accept()[0].close()
        while apart.borrower.num_told:
            apart.decoder.step()
        clock.now += 6
        apart.decoder.step()
        assert apart.borrower.num_told == 1, "the next one"
        for name in ("a", "b", "r0"):
            apart.decoder.abort(name)
        silent.accept()[0].close()
    run(apart.decoder)
    assert_nothing_is_held(apart)


def test_a_failure_of_a_request_that_is_gone_is_not_one_of_its_successor(
    checkpoint: Path, clock: Clock, expected: dict[str, Any]
) -> None:
    apart = Apart(checkpoint, kv_load_failure_policy="fail")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        apart.decode("r0", PROMPTS["r0"], silent.getsockname()[1])
        apart.decoder.step()
        apart.decoder.abort("r0")  # while its blocks are pulled
        apart.prefill("r0", PROMPTS["r0"])
        apart.decode("r0", PROMPTS["r0"])
        silent.accept()[0].close()
        assert run(apart.decoder) == {"r0": expected["r0"]}
    assert not apart.borrower.failures
    assert apart.borrower.num_pulled == num_full_blocks(PROMPTS["r0"])
    assert_nothing_is_held(apart)
    apart.close()


def test_a_key_is_not_shown() -> None:
    transfer = {"kv_role": "prefill", "kv_key": "a-secret-of-both-of-them"}
    config = EngineConfig("tiny", kv_transfer_config=transfer)
    shown = [repr(config), repr(KVTransferConfig(**transfer))]
    for ask in (wants_tiers, lambda config: with_tiers(MultiprocExecutor, config)):
        with pytest.raises(InvalidParameterError, match="kv_transfer_config must be") as error:
            ask(config)
        shown.append(str(error.value))
    assert not any("secret" in text for text in shown)


def test_a_choice_does_not_compute_what_is_on_its_way_for_another(
    apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart.borrower.cost, "may_wait", lambda *_: False)  # as if it took long
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name in ("r0", "r1"):
            apart.decode(name, PROMPTS["r0"], silent.getsockname()[1])
        for _ in range(3):
            apart.decoder.step()
            assert not apart.decoder.scheduler.running
        silent.accept()[0].close()
    run(apart.decoder)
    assert_nothing_is_held(apart)


def test_both_sides_abort_and_nothing_is_held_after_the_lease(apart: Apart, clock: Clock) -> None:
    apart.prefill("r0", PROMPTS["r0"])
    given = params(1, do_remote_decode=True, remote_request_id="r1")
    apart.prefiller.add_request("r1", PROMPTS["r1"], given)
    apart.prefiller.abort("r1")
    apart.decode("r0", PROMPTS["r0"], port=free_port())  # nobody listens there, and so nobody hears
    apart.decoder.abort("r0")
    run(apart.decoder)
    assert apart.lender.num_lent_blocks == num_full_blocks(PROMPTS["r0"])
    clock.now += 30
    assert_nothing_is_held(apart)


def test_the_end_of_an_engine_waits_for_no_silent_server_and_tells_those_that_listen(
    checkpoint: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "GREETING_SECONDS", 1e6)
    monkeypatch.setattr(executor, "LAST_WORDS", 0.2)
    apart = Apart(checkpoint)
    apart.prefill("r0", PROMPTS["r0"])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = int(silent.getsockname()[1])
        apart.decode("r1", PROMPTS["r1"], port)
        apart.decoder.step()  # which begins to pull
        apart.decode("r0", PROMPTS["r0"])
        apart.decode("r2", PROMPTS["r2"], port)
        for name in PROMPTS:
            apart.decoder.abort(name)  # r0 and r2 are told to be forgotten
        assert apart.borrower.num_told == 2
        apart.decoder.shutdown()
    assert apart.borrower.num_told == 0
    assert apart.lender.num_lent_blocks == 0
    apart.prefiller.shutdown()


class BrokenCore(EngineCore):
    def __init__(self, *args: Any) -> None:
        raise RuntimeError("it cannot be made")


def test_what_is_open_is_closed_when_an_engine_cannot_be_made(checkpoint: Path) -> None:
    port, events = free_port(), f"tcp://127.0.0.1:{free_port()}"
    transfer = {"kv_role": "prefill", "kv_port": port}
    config = EngineConfig(
        str(checkpoint),
        num_kv_blocks=60,
        kv_offload_bytes=1 << 20,
        kv_transfer_config=transfer,
        **({"kv_events_config": {"endpoint": events}} if find_spec("zmq") else {}),
    )
    for _ in range(2):  # the second one, too, gets as far as this
        with pytest.raises(RuntimeError, match="cannot be made"):
            LLMEngine(config, core_cls=BrokenCore)
    with socket.create_server(("127.0.0.1", port)):
        for _ in range(2):
            with pytest.raises(InvalidParameterError, match=f"kv_port {port} cannot be opened"):
                LLMEngine(config)
    LLMEngine(config).shutdown()


@pytest.mark.parametrize("moment", range(3))
def test_a_lease_may_end_before_its_blocks_have_arrived(
    apart: Apart, clock: Clock, expected: dict[str, Any], moment: int
) -> None:
    given = params(1, do_remote_decode=True, remote_request_id="r0")
    apart.prefiller.add_request("r0", PROMPTS["r0"], given)
    for number in range(4):
        if number == moment:
            clock.now += 31
        apart.prefiller.step()
    clock.now += 31
    assert_nothing_is_held(apart)
    apart.decode("r0", PROMPTS["r0"])
    assert run(apart.decoder) == {"r0": expected["r0"]}


def test_a_decoder_that_aborts_says_so_and_the_lease_ends(apart: Apart) -> None:
    apart.prefill("r0", PROMPTS["r0"])
    apart.decode("r0", PROMPTS["r0"])
    apart.decoder.abort("r0")
    run(apart.decoder)
    assert apart.borrower.num_pulled == 0
    assert_nothing_is_held(apart)


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_byte_is_flipped_or_cut_the_tokens_are_right(
    apart: Apart, link: Link, clock: Clock, expected: dict[str, Any], every: int
) -> None:
    num_pulled = num_missed = 0
    size = apart.prefiller.kv_cache_plan.bytes_per_block + 32
    places = [*range(0, 60, 7), 100, 200, *(300 + size * i // 3 for i in range(9))][::every]
    for kind in ("flip", "cut"):
        for place in places:
            link.faults = [(kind, place)] * 9  # what is told late has a connection, too
            assert visit(apart, ["r0"], link.port) == {"r0": expected["r0"]}, (kind, place)
            link.faults.clear()
            if place >= 300:  # behind the head: the rest of the blocks is a miss
                assert apart.borrower.num_missed > 0, (kind, place)
            num_pulled += apart.borrower.num_pulled
            num_missed += apart.borrower.num_missed
            apart.decoder.reset()  # it has nothing in a cache again
            apart.borrower = connector_of(apart.decoder)
            clock.now += 30
    assert num_missed > 0 < num_pulled
    assert_nothing_is_held(apart)


def test_a_request_whose_blocks_do_not_come_fails_by_name_if_the_policy_says_so(
    checkpoint: Path, clock: Clock, expected: dict[str, Any]
) -> None:
    apart = Apart(checkpoint, kv_load_failure_policy="fail", kv_lease_duration=1)
    for name in ("r0", "r1"):
        apart.prefill(name, PROMPTS[name])
    apart.decode("r1", PROMPTS["r1"])
    answers = run(apart.decoder)
    clock.now += 1
    apart.decode("r0", PROMPTS["r0"])
    apart.decoder.add_request("r2", PROMPTS["r2"], params(NUM_TOKENS))  # it is computed here
    answers |= run(apart.decoder)
    error = answers.pop("r0")
    assert isinstance(error, RequestFailedError)
    assert "KVTransferError: the blocks of its prompt have not come" in str(error)
    assert answers == {name: expected[name] for name in ("r1", "r2")}
    assert_nothing_is_held(apart)
    apart.close()


@pytest.mark.parametrize("n", [1, 3])
def test_two_choices_pull_their_prompt_once(apart: Apart, expected: dict[str, Any], n: int) -> None:
    lent = params(1, do_remote_decode=True, remote_request_id="r0").changed(n=n)
    apart.prefiller.add_request("r0", PROMPTS["r0"], lent)  # its choices end one after the other
    run(apart.prefiller)
    given = params(
        NUM_TOKENS,
        do_remote_prefill=True,
        remote_request_id="r0",
        remote_host="127.0.0.1",
        remote_port=apart.port,
    ).changed(n=2)
    apart.decoder.add_request("r0", PROMPTS["r0"], given)
    found = []
    while apart.decoder.has_unfinished_requests():
        found += [each for each in apart.decoder.step() if each.finished]
    assert [choice.token_ids for choice in found[-1].outputs] == [expected["r0"]] * 2
    assert apart.borrower.num_pulled == num_full_blocks(PROMPTS["r0"])
    assert apart.borrower.num_missed == 0
    assert_nothing_is_held(apart)


@pytest.mark.parametrize(
    ("lender", "message"),
    [
        ({"kv_key": "another-secret-of-theirs"}, "kv_key is another one there"),
        ({"block_size": 8}, "its model, dtype, block layout or version is another one"),
    ],
)
def test_nothing_is_pulled_from_an_engine_that_is_another_one(
    checkpoint: Path,
    expected: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    lender: dict[str, Any],
    message: str,
) -> None:
    apart = Apart(checkpoint, lender, kv_key="a-secret-of-both-of-them")
    answers = visit(apart, ["r0"])
    assert answers == {"r0": expected["r0"]}
    assert apart.borrower.num_pulled == 0
    assert message in caplog.text
    apart.close()


def test_a_stranger_gets_nothing_and_holds_up_no_one(
    apart: Apart, expected: dict[str, Any]
) -> None:
    said = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00", LENGTH.pack(9) + b"{"]
    heads = [
        b"{}",
        b"[" * 4096,
        b'{"nonce": "\\ud800"}',
        b'{"nonce": "%s", "what": "pull"}' % (b"0" * 32),
        b"9" * 4096,
    ]
    said += [LENGTH.pack(len(head)) + head + bytes(32) for head in heads]
    silent = [socket.create_connection(("127.0.0.1", apart.port)) for _ in range(4)]
    for data in said:
        with socket.create_connection(("127.0.0.1", apart.port)) as stranger:
            heard = b""
            with suppress(OSError):  # the server may have hung up already
                stranger.sendall(data)
                stranger.shutdown(socket.SHUT_WR)
                while new := stranger.recv(4096):
                    heard += new
            assert len(heard) < 300, "a greeting and no, and nothing else"
    assert visit(apart, ["r0"]) == {"r0": expected["r0"]}
    assert apart.borrower.num_missed == 0
    for each in silent:
        each.close()


def greeting(**changed: Any) -> bytes:
    head = json.dumps({"protocol": PROTOCOL, "nonce": "0" * 32, **changed}).encode()
    return LENGTH.pack(len(head)) + head


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "the connection was closed"),
        (b"\x05\x00", "the connection was closed"),
        (LENGTH.pack(9) + b"{", "the connection was closed"),
        (b"\xff" * 64, "a head has at most 4096 bytes, got 4294967295"),
        (LENGTH.pack(2) + b"[]", "a head is a JSON object"),
        (greeting(protocol=2), "protocol 1 is spoken here, not 2"),
        (greeting(nonce="\ud800"), "a nonce has 32 hexadecimal digits"),
        (greeting() + LENGTH.pack(2) + b"{}" + bytes(32), "kv_key is another one there"),
    ],
)
def test_a_prefiller_that_says_something_else_is_a_miss(said: bytes, why: str) -> None:
    def speak() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        speaker = threading.Thread(target=speak)
        speaker.start()
        peer = Peer("127.0.0.1", int(listening.getsockname()[1]))
        borrower = client.Borrower(KVTransferConfig(kv_role="decode"), "the same")
        block = memoryview(bytearray(8))
        pulled = borrower.pull(Pull(0, peer, "r", (bytes(32),), (CpuBlockId(0),)), [block])
        assert pulled == Pulled(0, f"{peer.host}:{peer.port}: {why}")
        speaker.join()
        borrower.close()
        assert "this engine ends" in borrower.pull(Pull(1, peer, "r", (), ()), [block]).why
        assert not borrower.tell(Tell(2, peer, "release", ("r",)))


def test_strangers_of_one_address_do_not_take_the_place_of_another_one(
    apart: Apart, expected: dict[str, Any]
) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", apart.port), source_address=("127.0.0.2", 0))
        for _ in range(150)
    ]
    assert visit(apart, ["r0"]) == {"r0": expected["r0"]}
    assert apart.borrower.num_missed == 0
    for each in silent:
        each.close()


def test_blocks_that_may_be_spoilt_are_not_lent(apart: Apart, expected: dict[str, Any]) -> None:
    apart.prefill("r0", PROMPTS["r0"])
    (held,) = apart.lender.held_blocks()
    apart.lender.withdraw([held[1].name])
    apart.decode("r0", PROMPTS["r0"])
    assert run(apart.decoder) == {"r0": expected["r0"]}
    assert apart.borrower.num_missed > 0


def test_an_engine_that_begins_again_lends_nothing_of_before(
    apart: Apart, expected: dict[str, Any]
) -> None:
    apart.prefill("r0", PROMPTS["r0"])
    apart.prefiller.reset()
    apart.decode("r0", PROMPTS["r0"])
    assert run(apart.decoder) == {"r0": expected["r0"]}
    assert apart.borrower.num_pulled == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("policy", ["recompute", "fail"])
def test_300_requests_with_faults_are_answered_or_fail_by_name(
    checkpoint: Path, clock: Clock, policy: str, is_ahead: bool
) -> None:
    """Of each kind 5 %: a lost worker, a lost block, a lost link, a cut one, a flipped byte, a
    lease that has run out, and a client that goes away on either side.
    """
    rng = random.Random(62)
    prompts = {
        f"q{i}": [rng.randrange(5, 60) for _ in range(rng.randrange(6, 40))] for i in range(300)
    }
    plain = make_engine(checkpoint)
    for name, prompt in prompts.items():
        plain.add_request(name, prompt, params(NUM_TOKENS))
    expected = run(plain)
    apart = Apart(checkpoint, is_ahead=is_ahead, kv_load_failure_policy=policy)
    link = Link(apart.port)
    kinds = ["worker", "block", "refuse", "cut", "flip", "late", "abort", "abort there"]
    answers: dict[str, Any] = {}
    aborted, faulty = set(), Counter[str]()
    for name, prompt in prompts.items():
        kind = kinds[place] if (place := int(rng.random() * 20)) < len(kinds) else ""
        faulty[kind] += 1
        given = params(1, do_remote_decode=True, remote_request_id=name)
        apart.prefiller.add_request(name, prompt, given)
        if kind == "abort there":
            apart.prefiller.abort(name)
        run(apart.prefiller)
        if kind == "worker":
            apart.prefiller.reset()
            apart.lender = connector_of(apart.prefiller)
        if kind == "block" and (blocks := [*apart.lender.held_blocks()]):
            apart.lender.withdraw([rng.choice(blocks[-1]).name])
        if kind == "late":
            clock.now += 31
        if kind in ("cut", "flip", "refuse"):
            link.faults = [(kind, rng.randrange(3000))]
        apart.decode(name, prompt, link.port)
        if kind == "abort":
            for _ in range(rng.randrange(3)):
                apart.decoder.step()
            apart.decoder.abort(name)
            aborted.add(name)
        if rng.random() < 0.5:
            answers |= run(apart.decoder)
            link.faults.clear()
    answers |= run(apart.decoder)
    failed = {name for name, found in answers.items() if isinstance(found, Exception)}
    assert all("KVTransferError" in str(answers[name]) for name in failed)
    assert bool(failed) == (policy == "fail")
    assert {*answers} | aborted == {*prompts}
    assert {name: answers[name] for name in {*answers} - failed} == {
        name: expected[name] for name in {*answers} - failed
    }
    assert all(faulty[kind] >= 5 for kind in kinds)
    assert apart.borrower.num_pulled > apart.borrower.num_missed > 0
    clock.now += 31
    assert_nothing_is_held(apart)
    apart.close()
    link.close()
