"""Clients that leave at any moment: then nothing is held, and those who stayed have got their own answers."""

import asyncio
import json
import random
from typing import Any

import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.serving.conftest import LiveServer

# A tight pool and a small budget: requests wait, prefill in chunks, decode and are preempted.
TIGHT = {"num_kv_blocks": 40, "block_size": 4, "max_num_seqs": 6, "max_num_batched_tokens": 12, "max_model_len": 120}
WORDS = "a KV block holds the keys and values of some tokens that a request has computed".split()


def draw_body(rng: random.Random) -> dict[str, Any]:
    text = " ".join(rng.choices(WORDS, k=rng.randint(1, 30)))
    body: dict[str, Any] = {"max_tokens": rng.randint(1, 40), "seed": rng.randrange(5), "ignore_eos": True}
    body |= {"stream": rng.random() < 0.6, "n": rng.choice((1, 1, 1, 2))}
    return body | {"prompt": text if rng.random() < 0.8 else [text, text[: len(text) // 2 + 1]]}


async def leave_early(port: int, rng: random.Random) -> None:
    """Send a request or a part of it, read a part of the answer, and go."""
    data = json.dumps(draw_body(rng)).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data)
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
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(data) + data)
    answer = await reader.read()
    writer.close()
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"])


@pytest.mark.parametrize(
    "num_clients", [60, pytest.param(500, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.nightly)]
)
def test_clients_that_leave_at_any_moment_leave_nothing(serve: Any, num_clients: int) -> None:
    bodies = [
        {"prompt": " ".join(WORDS[i : i + 4]), "max_tokens": 12, "seed": i, "temperature": 1, "ignore_eos": True}
        for i in range(8)
    ]
    alone = LLM("tiny", device="cpu", **TIGHT)
    wanted = [
        alone.generate(body["prompt"], SamplingParams(max_tokens=12, seed=i, ignore_eos=True))[0].outputs[0].text
        for i, body in enumerate(bodies)
    ]
    server: LiveServer = serve(TIGHT)
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
    if num_clients >= 500:
        assert server.core.scheduler.preempted_prefix_cache_stats.requests > 0, "nobody was preempted"
