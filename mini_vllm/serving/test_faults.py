"""What fails in the engine, as clients see it: a request ends by itself, and the rest get their own
tokens.
"""

import asyncio
import json
import multiprocessing
import os
import random
import re
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.config import EngineConfig
from mini_vllm.errors import EngineDeadError, InvalidParameterError
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.serving import async_engine
from mini_vllm.serving.async_engine import AsyncEngine, Stream
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.engine_client import EngineClient, ProcessClient
from mini_vllm.serving.messages import Add, Command, Died, Finish

PROMPTS = [f"{i}: a KV block holds" for i in range(64)]
CONFIG: dict[str, Any] = {
    "num_kv_blocks": 900,
    "dtype": "float32",
}  # no rounding that a batch could change
PARAMS = SamplingParams(temperature=0, max_tokens=10, ignore_eos=True, output_kind="final_only")


@pytest.fixture(scope="module")
def wanted() -> list[list[int]]:
    outputs = LLM("tiny", device="cpu", **CONFIG).generate(PROMPTS, PARAMS)
    return [output.outputs[0].token_ids for output in outputs]


class DyingClient(EngineClient):
    """An engine that has said why it dies, and whose process takes its time to end."""

    def __init__(self, config: Any, on_event: Callable[[Any], None], on_death: object) -> None:
        on_event(Died("ExecutorLostError: rank 1 of 2 has ended"))


def test_an_engine_that_says_that_it_dies_is_dead_before_its_process_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(async_engine, "make_input_processor", lambda config: None)
    engine = AsyncEngine(EngineConfig("tiny", device="cpu"), make_client=DyingClient)
    with pytest.raises(EngineDeadError, match="has stopped: ExecutorLostError: rank 1 of 2 has"):
        asyncio.run(engine.start())
    assert engine.is_dead


class NoProcess:
    """An engine process that reads nothing by itself."""

    last: ClassVar["NoProcess"]

    def __init__(self, args: tuple[Any, ...], **_: Any) -> None:
        self.commands = Connection(os.dup(args[3].fileno()), writable=False)
        self.events = Connection(os.dup(args[4].fileno()), readable=False)
        NoProcess.last = self

    def start(self) -> None: ...

    def join(self, timeout: float | None = None) -> None:
        self.commands.close()
        self.events.close()

    def is_alive(self) -> bool:
        return False


@pytest.mark.skipif(os.name != "posix", reason="pipes are files there")
def test_what_cannot_be_told_to_the_engine_is_refused_and_the_next_request_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=NoProcess)
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: context)
    died = threading.Event()
    client = ProcessClient(EngineConfig("tiny", device="cpu"), print, died.set)
    for value in (1 << 64, object()):
        params = SamplingParams(kv_transfer_params={"remote": value})
        with pytest.raises(InvalidParameterError, match="cannot be told to the engine"):
            client.send(Add(["a"], [1], params, [], 0.0, 0, None))
    client.send(Finish(["b"], "stop"))
    told = msgspec.msgpack.decode(NoProcess.last.commands.recv_bytes(), type=Command)
    assert told == Finish(["b"], "stop")
    client.close(0)
    assert died.is_set()


def generate_all(server: LiveServer, prompts: list[str]) -> list[RequestOutput]:
    """All prompts at once; the last output of each."""

    async def one(number: int, prompt: str) -> RequestOutput:
        return [output async for output in server.engine.generate(f"r{number}", prompt, PARAMS)][-1]

    async def all_of_them() -> list[RequestOutput]:
        return list(await asyncio.gather(*(one(*each) for each in enumerate(prompts))))

    return asyncio.run_coroutine_threadsafe(all_of_them(), server.loop).result(60)


def test_one_bad_row_among_64_ends_alone(serve: Any, wanted: list[list[int]]) -> None:
    server: LiveServer = serve(CONFIG)
    runner = server.core.executor.runner
    sample = runner._sample

    def spoil(step: Any, packed: Any, logits: Any) -> Any:
        for row, (request_id, position) in enumerate(
            zip(step.sample_req_ids, packed.sample_positions, strict=True)
        ):
            if request_id == "r17" and position > 12:
                logits[row] = float("nan")
        return sample(step, packed, logits)

    runner._sample = spoil
    outputs = generate_all(server, PROMPTS)
    assert outputs[17].outputs[0].finish_reason == "error"
    assert "r17" in str(outputs[17].outputs[0].error)
    for i, output in enumerate(outputs):
        assert i == 17 or output.outputs[0].token_ids == wanted[i]
    server.assert_idle()


def test_a_step_that_fails_is_tried_again(serve: Any, wanted: list[list[int]]) -> None:
    server: LiveServer = serve(CONFIG)
    runner, calls = server.core.executor.runner, iter(range(10**6))
    execute = runner.execute

    def fail_now_and_then(step: Any) -> Any:
        if next(calls) % 4 == 1:
            raise RuntimeError("the device has failed")
        return execute(step)

    runner.execute = fail_now_and_then
    assert [output.outputs[0].token_ids for output in generate_all(server, PROMPTS[:8])] == wanted[
        :8
    ]
    server.assert_idle()


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # it is raised where it is seen
@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_the_scheduler_ends_the_engine_and_every_client_hears_of_it(
    serve: Any, stream: bool
) -> None:
    import openai

    server: LiveServer = serve()

    def slip() -> Any:
        raise AttributeError("a slip")

    server.core.scheduler.schedule = slip
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        for _ in range(2):
            with pytest.raises(openai.APIStatusError) as refusal:
                client.completions.create(model="tiny", prompt="a", stream=stream)
            assert refusal.value.status_code == 503
            assert "AttributeError: AttributeError('a slip')" in str(refusal.value)


def health(server: LiveServer) -> tuple[int, str]:
    """The status, and what it says."""
    try:
        with urlopen(f"{server.url}/health", timeout=60) as answer:
            return answer.status, json.load(answer)["status"]
    except HTTPError as refusal:
        return refusal.code, json.load(refusal)["status"]


def silence(server: LiveServer) -> float:
    """The figure of /metrics."""
    with urlopen(f"{server.url}/metrics", timeout=60) as answer:
        (found,) = re.findall(
            r"^mini_vllm:engine_silence_seconds{.*} (.*)$", answer.read().decode(), re.MULTILINE
        )
    return float(found)


def test_an_engine_that_stands_still_ends_streams_and_serves_again(serve: Any) -> None:
    server: LiveServer = serve(None, {"engine_timeout": 60})
    stands_still, goes_on = threading.Event(), threading.Event()
    schedule = server.core.scheduler.schedule

    def stop_at_the_third() -> Any:
        if next(calls) == 3:
            stands_still.set()
            assert goes_on.wait(60)
        return schedule()

    def pass_seconds(number: int) -> None:
        """The heart beats that often; no wall clock counts."""
        server.in_loop(lambda: [server.engine.beat(1) for _ in range(number)])

    calls = iter(range(10**6))
    server.core.scheduler.schedule = stop_at_the_third
    body = b'{"prompt": "a", "stream": true, "ignore_eos": true, "max_tokens": 100}'
    with urlopen(f"{server.url}/v1/completions", body, timeout=60) as stream:
        assert stands_still.wait(60)
        pass_seconds(30)
        assert health(server) == (200, "ok")
        pass_seconds(31)
        *_, error, last = [line for line in stream if line.strip()]
    assert b"it has said nothing for 6" in error
    assert last == b"data: [DONE]\n"
    status, text = health(server)
    assert status == 503
    assert "the engine stands still" in text
    assert silence(server) > 60
    with pytest.raises(HTTPError, match="503"):
        urlopen(f"{server.url}/v1/completions", body, timeout=60)
    goes_on.set()
    server.until(lambda: server.engine.why_unable is None, "the engine has spoken")
    assert health(server) == (200, "ok")
    server.assert_idle()


def test_a_front_that_stood_still_itself_does_not_blame_its_engine(serve: Any) -> None:
    server: LiveServer = serve()
    server.in_loop(lambda: server.engine.beat(1000))
    assert health(server) == (200, "ok")


def test_an_idle_engine_answers_when_it_is_asked_for_a_word(serve: Any) -> None:
    server: LiveServer = serve()
    heard: list[Any] = []
    server.in_loop(lambda: server.engine.listeners.append(lambda *news: heard.append(news)))
    for _ in range(100):
        server.in_loop(lambda: server.engine.beat(1))
        server.until(lambda: server.engine._silence < 1, "it has spoken")
    assert len(heard) <= 1, "listeners hear what is new, and nothing was"


@pytest.mark.parametrize(
    "stop",
    [
        "s and v",
        *(
            pytest.param(s, marks=pytest.mark.slow)
            for s in ("piece", " of the KV", "KV cache that", "ck is a fi", "zzz")
        ),
    ],
)
def test_a_stop_string_ends_the_text_before_it_streamed_or_not(live: LiveServer, stop: str) -> None:
    import openai

    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {
            "model": "tiny",
            "prompt": "A KV block",
            "max_tokens": 30,
            "temperature": 0,
        }
        text = client.completions.create(**asked).choices[0].text
        (choice,) = client.completions.create(**asked, stop=[stop, "never"]).choices
        assert choice.text == text.partition(stop)[0]
        assert choice.finish_reason == ("stop" if stop in text else "length")
        streamed, reason = "", None
        for chunk in client.completions.create(**asked, stop=stop, stream=True):
            streamed += chunk.choices[0].text
            reason = chunk.choices[0].finish_reason
            assert text.startswith(streamed)
        assert (streamed, reason) == (choice.text, choice.finish_reason)


def test_what_has_come_is_read_before_the_error_that_ended_it() -> None:
    async def read() -> None:
        stream = Stream()
        output = RequestOutput("a", [1], 0, False, [])
        stream.put(output)
        stream.fail(EngineDeadError("the engine has stopped"))
        assert await stream.get() == output
        for _ in range(2):
            with pytest.raises(EngineDeadError):
                await stream.get()

    asyncio.run(read())


# --- clients that leave at any moment -------------------------------------------------------------

# A tight pool and a small budget: requests wait, prefill in chunks, decode and are preempted.
TIGHT = {
    "num_kv_blocks": 40,
    "block_size": 4,
    "max_num_seqs": 6,
    "max_num_batched_tokens": 12,
    "max_model_len": 120,
}
WORDS = "a KV block holds the keys and values of some tokens that a request has computed".split()


def draw_body(rng: random.Random) -> dict[str, Any]:
    text = " ".join(rng.choices(WORDS, k=rng.randint(1, 30)))
    body: dict[str, Any] = {
        "max_tokens": rng.randint(1, 40),
        "seed": rng.randrange(5),
        "ignore_eos": True,
    }
    body |= {"stream": rng.random() < 0.6, "n": rng.choice((1, 1, 1, 2))}
    return body | {"prompt": text if rng.random() < 0.8 else [text, text[: len(text) // 2 + 1]]}


async def leave_early(port: int, rng: random.Random) -> None:
    """Send a request or a part of it, read a part of the answer, and go."""
    data = json.dumps(draw_body(rng)).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(
        data
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        match rng.randrange(5):
            case 0:
                writer.write((head + data)[: rng.randrange(len(head) + len(data))])
                await writer.drain()
            case 1:
                writer.write(head + data)
                await writer.drain()
                for _ in range(rng.randrange(30)):
                    await asyncio.sleep(0)
            case _:
                writer.write(head + data)
                await writer.drain()
                await reader.read(rng.choice((1, 200, 500, 2000)))
    finally:
        if rng.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()


async def stay(port: int, body: dict[str, Any]) -> str:
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n"
    )
    writer.write(head % len(data) + data)
    answer = await reader.read()
    writer.close()
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"])


def watch_ends(server: LiveServer) -> Callable[[], list[int]]:
    """Returns what counts, for each request that was ended, the steps decided with it after its
    engine was told so.
    """
    steps: list[set[str]] = []
    ends: dict[str, int] = {}  # how many steps were decided when the engine had been told
    scheduler, client = server.core.scheduler, server.engine._client
    schedule, send = scheduler.schedule, client.send

    def watched_schedule() -> Any:
        output = schedule()
        steps.append({request.request_id for request in output.scheduled_requests})
        return output

    def watched_send(command: Any) -> None:
        send(command)
        if isinstance(command, Finish):
            ends.update(dict.fromkeys(command.request_ids, len(steps)))

    scheduler.schedule, client.send = watched_schedule, watched_send
    return lambda: [
        sum(request_id in step for step in steps[end:]) for request_id, end in ends.items()
    ]


@pytest.mark.parametrize(
    "num_clients",
    [pytest.param(500, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.nightly)],
)
def test_clients_that_leave_at_any_moment_leave_nothing(serve: Any, num_clients: int) -> None:
    bodies = [
        {
            "prompt": " ".join(WORDS[i : i + 4]),
            "max_tokens": 12,
            "seed": i,
            "temperature": 1,
            "ignore_eos": True,
        }
        for i in range(8)
    ]
    alone = LLM("tiny", device="cpu", **TIGHT)
    wanted = [
        alone.generate(body["prompt"], SamplingParams(max_tokens=12, seed=i, ignore_eos=True))[0]
        .outputs[0]
        .text
        for i, body in enumerate(bodies)
    ]
    server: LiveServer = serve(TIGHT)
    num_steps_behind_the_end = watch_ends(server)
    tasks_before = server.in_loop(lambda: len(asyncio.all_tasks()))
    rng = random.Random(num_clients)

    async def storm() -> list[str]:
        stayed = [asyncio.create_task(stay(server.port, body)) for body in bodies]
        seeds = iter([rng.randrange(1 << 30) for _ in range(num_clients)])

        async def several() -> None:
            for seed in seeds:
                await leave_early(server.port, random.Random(seed))

        await asyncio.gather(*(several() for _ in range(16)))
        return list(await asyncio.gather(*stayed))

    assert asyncio.run(storm()) == wanted
    server.assert_idle()
    server.until(lambda: not server._web.server_state.connections, "no connection is left")
    assert server.in_loop(lambda: len(asyncio.all_tasks())) <= tasks_before
    assert max(num_steps_behind_the_end()) <= 1, (
        "a request is gone within two steps: the one that runs, and one more"
    )
    if num_clients >= 500:
        assert server.core.scheduler.preempted_prefix_cache_stats.requests > 0, (
            "nobody was preempted"
        )
