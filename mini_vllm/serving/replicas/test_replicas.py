"""Several engines behind one front: the answers of one, each prefix where it was."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("torch")
pytest.importorskip("starlette", reason="the server is the extra 'serve'")

from mini_vllm.config import EngineConfig
from mini_vllm.load.workload import TraceRequest
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.engine_client import ThreadClient
from mini_vllm.serving.messages import Add, Died, Event, Finish, Ready, StepDone
from mini_vllm.serving.replicas.client import ReplicasClient, config_of
from mini_vllm.serving.replicas.router import PrefixRouter
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.step import TokenDelta

# --- the router -----------------------------------------------------------------------------------


def test_a_conversation_stays_where_it_was() -> None:
    router = PrefixRouter(4, 4, 1000)
    talks = {name: [name] * 8 for name in range(8)}
    places: dict[int, int] = {}
    for turn in range(5):
        for name, talk in talks.items():
            request_id = f"{name}-{turn}"
            place = router.place([request_id], talk, None)
            assert places.setdefault(name, place) == place
            talk.extend(range(turn * 100 + name, turn * 100 + name + 5))
            assert router.take_back(request_id) == place
    assert {*places.values()} == {0, 1, 2, 3}, "no engine is left without work"


def test_a_shared_beginning_leaves_no_engine_idle_while_another_has_a_queue() -> None:
    rng = random.Random(0)
    router = PrefixRouter(3, 4, 1000)
    system, running = list(range(400)), []
    for number in range(300):
        place = router.place([str(number)], [*system, *rng.choices(range(99), k=9)], None)
        running.append(str(number))
        loads = [len(replica.num_tokens) for replica in router.replicas]
        before = [load - (i == place) for i, load in enumerate(loads)]
        assert not (router.replicas[place].num_waiting and 0 in before), (before, place)
        for replica in router.replicas:  # at most four run in an engine
            replica.num_waiting = max(0, len(replica.num_tokens) - 4)
        while len(running) > 8:
            router.take_back(running.pop(rng.randrange(len(running))))


def test_what_an_engine_had_to_evict_draws_nothing() -> None:
    router = PrefixRouter(2, 4, max_blocks=4)
    assert router.place(["a"], [1] * 16, None) == 0
    assert router.place(["b"], [2] * 16, None) == 1
    assert router.take_back("a") == 0
    assert router.take_back("b") == 1
    assert router.place(["c"], [3] * 16, None) == 0  # where [1] * 16 gives way
    assert router.place(["d"], [1] * 16, None) == 1, "the other one has less to do"


def test_a_salt_parts_what_is_equal() -> None:
    router = PrefixRouter(2, 4, 1000)
    first = router.place(["a"], [1] * 16, "alice")
    assert router.place(["b"], [1] * 16, "bob") != first
    router.take_back("a")
    assert router.place(["c"], [1] * 16, "alice") == first


# --- the front's end ------------------------------------------------------------------------------


class Recorded:
    """An engine that says what a test lets it say."""

    has_heard_all = True

    def __init__(self, config: EngineConfig, on_event: Any, on_death: Any) -> None:
        self.config, self.say, self.die = config, on_event, on_death
        self.sent: list[Any] = []

    def send(self, command: Any) -> None:
        self.sent.append(command)

    def close(self, timeout: float) -> None:
        self.sent.append("closed")


@pytest.fixture
def parts() -> Iterator[tuple[ReplicasClient, list[Recorded], list[Event | None]]]:
    engines: list[Recorded] = []
    heard: list[Event | None] = []

    def make(*args: Any) -> Recorded:
        engines.append(Recorded(*args))
        return engines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        config = EngineConfig("tiny", device="cpu", block_size=4)
        client = ReplicasClient(make, 2, config, heard.append, lambda: heard.append(None))
        for i, engine in enumerate(engines):
            engine.say(Ready(96, 128, 400 - i, ["a fact"]))
        yield client, engines, heard


def add(name: str, token: int) -> Add:
    return Add([name], [token] * 16, {}, [], 0.0, 0, None)


def test_it_looks_like_one_engine(
    parts: tuple[ReplicasClient, list[Recorded], list[Event | None]],
) -> None:
    client, engines, heard = parts
    assert heard == [Ready(96, 128, 399, ["replica 0: a fact", "replica 1: a fact"])]
    assert [engine.config.gpu_memory_utilization for engine in engines] == [0.45, 0.45]
    client.send(add("a", 1))
    client.send(add("b", 2))
    assert [[command.request_ids for command in engine.sent] for engine in engines] == [
        [["a"]],
        [["b"]],
    ]
    engines[0].say(StepDone([], None, None, 3, 1, 0.5, tenants={"x": (1, 2, 3)}))
    engines[1].say(StepDone([], None, None, 2, 0, 0.1, tenants={"x": (1, 0, 0)}))
    assert heard[-1] == StepDone([], None, None, 5, 1, 0.3, tenants={"x": (2, 2, 3)})
    client.send(Finish(["b", "nobody"], "abort"))
    assert engines[1].sent[-1] == Finish(["b"], "abort")
    assert len(engines[0].sent) == 1
    engines[0].say(StepDone([TokenDelta("a", [1], "length", 0)], None, None, 0, 0, 0.0))
    client.send(Finish(["a"], "abort"))
    assert len(engines[0].sent) == 1, "what has ended is not ended again"


def test_loads_of_experts_are_added_up_when_one_engine_tells_them(
    parts: tuple[ReplicasClient, list[Recorded], list[Event | None]],
) -> None:
    _, engines, heard = parts
    told = [{3: [1, 2]}, {3: [5, 0], 4: [1, 1]}, {}, {3: [2, 2]}]
    for number, loads in enumerate(told):
        engines[number % 2].say(StepDone([], None, None, 0, 0, 0.0, expert_loads=loads))
    found = [each.expert_loads for each in heard if isinstance(each, StepDone)]
    assert found == [{3: [1, 2]}, {3: [6, 2], 4: [1, 1]}, {}, {3: [3, 4]}]


def test_one_that_stands_still_is_noticed_though_the_other_one_speaks(
    parts: tuple[ReplicasClient, list[Recorded], list[Event | None]],
) -> None:
    client, engines, _ = parts
    state = StepDone([], None, None, 0, 0, 0.0)
    assert client.has_heard_all
    client.send(Finish([], "abort"))
    for _ in range(3):
        engines[0].say(state)
        assert not client.has_heard_all
    engines[1].say(state)
    assert client.has_heard_all


def test_the_end_of_one_is_told_once(
    parts: tuple[ReplicasClient, list[Recorded], list[Event | None]],
) -> None:
    client, engines, heard = parts
    engines[1].die()
    engines[0].say(Died("ExecutorLostError"))
    engines[0].die()
    assert heard[1:] == [Died("replica 1: its process has ended"), None]
    client.close(1)
    assert [engine.sent[-1] for engine in engines] == ["closed"] * 2


def test_each_has_a_gpu_of_its_own_where_gpus_are_asked_for() -> None:
    config = EngineConfig("tiny", device="cuda")
    assert [config_of(config, i, 2).device for i in range(2)] == ["cuda:0", "cuda:1"]
    assert config_of(config, 1, 2).gpu_memory_utilization == config.gpu_memory_utilization


def test_each_has_files_of_its_own_for_what_outlives_it() -> None:
    config = EngineConfig(
        "tiny",
        tensor_parallel_size=2,
        enable_expert_parallel=True,
        expert_loads="loads.json",
        kv_offload_bytes=1_000_000,
        kv_offload_path="blocks",
        kv_offload_disk_bytes=1_000_000,
    )
    own = [config_of(config, i, 3) for i in range(3)]
    assert [each.expert_loads for each in own] == ["loads.json.0", "loads.json.1", "loads.json.2"]
    assert [each.kv_offload_path for each in own] == ["blocks.0", "blocks.1", "blocks.2"]
    plain = config_of(EngineConfig("tiny"), 1, 3)
    assert (plain.expert_loads, plain.kv_offload_path) == (None, None)


# --- a server -------------------------------------------------------------------------------------


def complete(url: str, prompt: str | list[int], **more: Any) -> dict[str, Any]:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 5, "temperature": 0} | more
    request = Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_two_engines_answer_as_one_and_find_what_was_sent(plain_server: LiveServer) -> None:
    server = LiveServer(
        {"num_kv_blocks": 200}, {"make_client": partial(ReplicasClient, ThreadClient, 2)}, {}
    )
    cached = []
    for turn in range(3):
        for name in "abc":
            prompt = f"{name} is a letter. " * 12 + f"Turn {turn}"
            answers = [complete(each.url, prompt, n=2) for each in (server, plain_server)]
            assert answers[0]["choices"] == answers[1]["choices"]
            cached.append(answers[0]["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert [num > 0 for num in cached] == [False] * 3 + [True] * 6
    clients = server.engine._client._clients  # type: ignore[union-attr]
    served = [client.loop.core.scheduler.prefix_cache_stats.requests for client in clients]
    assert all(served), served
    server.stop()


NUM_TALKS, NUM_TURNS, GROWTH = 7, 4, 3  # an odd number: in turn, each talk goes to both replicas


def talks() -> list[TraceRequest]:
    """Turns of several talks, in Mooncake's scale of 512 tokens a block. A token of its own is the
    last of each.
    """
    return [
        TraceRequest(
            1000.0 * (turn * NUM_TALKS + talk),
            512 * GROWTH * (turn + 1) + 1,
            2,
            (*(100 * talk + i for i in range(GROWTH * (turn + 1))), 10_000 + 100 * talk + turn),
        )
        for turn in range(NUM_TURNS)
        for talk in range(NUM_TALKS)
    ]


def token_ids(spec: TraceRequest) -> list[int]:
    """The same prompt for the bundled model, 16 tokens a block."""
    num_blocks = spec.input_length // 512
    ids = [500 + (7 * hash_id + i) % 1500 for hash_id in spec.hash_ids for i in range(16)]
    return ids[: 16 * num_blocks + 1]


def num_found(url: str, spec: TraceRequest) -> int:
    found = complete(url, token_ids(spec), max_tokens=2)
    return int(found["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.slow
def test_a_trace_finds_by_prefix_what_the_simulator_says_and_in_turn_less() -> None:
    """Counted in tokens, on real engines: one server with two replicas, and two servers in turn."""
    config = {"num_kv_blocks": 200, "block_size": 16}
    two = {"make_client": partial(ReplicasClient, ThreadClient, 2)}
    in_turn = [LiveServer(config, {}, {}) for _ in range(2)]
    by_prefix = LiveServer(config, two, {})
    counted = {
        "prefix_aware": sum(num_found(by_prefix.url, spec) for spec in talks()),
        "round_robin": sum(num_found(in_turn[i % 2].url, spec) for i, spec in enumerate(talks())),
    }
    for server in (by_prefix, *in_turn):
        server.stop()
    engine = {"block_size": 512, "num_blocks": 200, "max_num_seqs": 8}
    engine |= {"max_num_batched_tokens": 65_536}
    steps = StepTimeModel((1.0, 0, 0, 0, 0, 0))
    simulated = {
        routing: simulate(talks(), engine, steps, num_replicas=2, routing=routing).report
        for routing in counted
    }
    assert counted == {name: each["prefix_hits"] // 32 for name, each in simulated.items()}
    # All but the first turn of a talk find what the turn before had; in turn, the one before that.
    assert counted["prefix_aware"] == NUM_TALKS * 16 * GROWTH * (1 + 2 + 3)
    assert counted["round_robin"] == NUM_TALKS * 16 * GROWTH * (1 + 2)


@pytest.mark.slow
def test_no_replica_is_idle_while_a_prompt_joins_the_queue_of_the_other_one(
    monkeypatch: pytest.MonkeyPatch, plain_server: LiveServer
) -> None:
    """Many clients at once, all prompts begin alike, and two requests run in each engine."""
    seen: list[tuple[int, list[int], list[int]]] = []
    place = PrefixRouter.place

    def watched(router: PrefixRouter, *args: Any) -> int:
        """It is called under the lock under which events change what the router knows."""
        loads = [len(replica.num_tokens) for replica in router.replicas]
        waiting = [replica.num_waiting for replica in router.replicas]
        seen.append((place(router, *args), loads, waiting))
        return seen[-1][0]

    monkeypatch.setattr(PrefixRouter, "place", watched)
    two = {"make_client": partial(ReplicasClient, ThreadClient, 2)}
    server = LiveServer({"num_kv_blocks": 300, "block_size": 16, "max_num_seqs": 2}, two, {})
    shared = [500 + i for i in range(160)]

    def ask(number: int) -> None:
        complete(server.url, [*shared, 1000 + number], max_tokens=8)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(ask, range(48)))
    server.stop()
    assert len(seen) == 48
    assert any(any(waiting) for _, _, waiting in seen), "there was a queue"
    assert not [each for each in seen if each[2][each[0]] and 0 in each[1]]
    served = [sum(chosen == i for chosen, _, _ in seen) for i in range(2)]
    assert min(served) >= 12, served


@pytest.mark.slow
def test_one_engine_process_that_is_killed_ends_the_server_with_its_name() -> None:
    command = ["import sys; from mini_vllm.cli import main; main()", "serve", "--port", "0"]
    options = ["--data-parallel-size", "2", "--num-kv-blocks", "100"]
    with subprocess.Popen(
        [sys.executable, "-c", *command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert "is served at" in line
        found = subprocess.run(
            ["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True
        )
        engines = [*map(int, found.stdout.split())]
        assert len(engines) == 2
        os.kill(engines[0], signal.SIGKILL)
        assert process.wait(60) != 0
        assert "the engine has stopped" in process.stderr.read()
        assert not any(os.path.exists(f"/proc/{engine}") for engine in engines)
