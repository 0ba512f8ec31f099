"""Completions, log-probabilities, tokens, figures and limits, from OpenAI's own client against a
live server.
"""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mini_vllm import LLM, SamplingParams
from mini_vllm.frontend.tokenizer import TokenNames
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.openai.answers import pieces_in
from mini_vllm.serving.routes import ENDPOINTS

PROMPT = "A KV block is a fixed-size piece of"
NAMES = re.compile(r"vllm:\w+")
REASONS = ("stop", "length", "abort", "error")
QUESTION = [{"role": "user", "content": "What is a KV block?"}]


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("tiny", device="cpu", num_kv_blocks=200)


def post(live: LiveServer, path: str, body: Any, raw: bytes | None = None) -> tuple[int, Any]:
    data = json.dumps(body).encode() if raw is None else raw
    try:
        with urlopen(Request(live.url + path, data), timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def test_prompts_and_choices_have_indices_and_the_engines_texts(
    client: openai.OpenAI, llm: LLM
) -> None:
    ids = llm.engine.tokenize("Chunked prefill")
    prompts: list[Any] = [PROMPT, "Chunked prefill"]
    params = SamplingParams(temperature=0.8, seed=5, n=2, max_tokens=12)
    wanted = [choice.text for output in llm.generate(prompts, params) for choice in output.outputs]
    asked: dict[str, Any] = {
        "model": "tiny",
        "temperature": 0.8,
        "seed": 5,
        "n": 2,
        "max_tokens": 12,
    }
    answer = client.completions.create(prompt=prompts, **asked)
    assert [(choice.index, choice.text) for choice in answer.choices] == list(enumerate(wanted))
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(llm.engine.tokenize(PROMPT)) + len(ids)
    by_ids = client.completions.create(prompt=[llm.engine.tokenize(PROMPT), ids], **asked)
    assert [choice.text for choice in by_ids.choices] == wanted
    texts = [""] * 4
    for chunk in client.completions.create(prompt=prompts, stream=True, **asked):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == wanted


def test_echo_with_logprobs_scores_the_prompt(client: openai.OpenAI, llm: LLM) -> None:
    (wanted,) = llm.generate(
        PROMPT, SamplingParams(temperature=0, max_tokens=3, prompt_logprobs=2, logprobs=2)
    )
    for max_tokens in (3, 0):
        answer = client.completions.create(
            model="tiny", prompt=PROMPT, echo=True, logprobs=2, max_tokens=max_tokens, temperature=0
        )
        (choice,) = answer.choices
        found = choice.logprobs
        assert found is not None
        assert found.tokens is not None
        assert found.token_logprobs is not None
        assert found.top_logprobs is not None
        assert found.text_offset is not None
        assert choice.text == PROMPT + (wanted.outputs[0].text if max_tokens else "")
        assert "".join(found.tokens) == choice.text
        assert [choice.text[offset:][:1] for offset in found.text_offset] == [
            token[:1] for token in found.tokens
        ]
        ids = wanted.prompt_token_ids + (wanted.outputs[0].token_ids if max_tokens else [])
        entries = (wanted.prompt_logprobs or []) + (
            wanted.outputs[0].logprobs or [] if max_tokens else []
        )
        assert found.token_logprobs[0] is None
        for token_id, logprob, entry in zip(
            ids[1:], found.token_logprobs[1:], entries[1:], strict=True
        ):
            assert entry is not None
            assert logprob == pytest.approx(entry[token_id].logprob, abs=2e-2)
        assert all(2 <= len(top) <= 3 for top in found.top_logprobs[1:])


@pytest.mark.parametrize("stop", [None, pytest.param(" b", marks=pytest.mark.slow), "e"])
@pytest.mark.parametrize(
    ("echo", "max_tokens"), [(False, 12), (True, 12), pytest.param(True, 0, marks=pytest.mark.slow)]
)
def test_offsets_are_those_of_the_text(
    client: openai.OpenAI, llm: LLM, stop: str | None, echo: bool, max_tokens: int
) -> None:
    """Streamed or not; with special tokens, which the text of a prompt may name, and cut texts."""
    reader = llm.engine.input_processor.text_reader
    assert reader is not None
    named = "<|im_start|>user\nWhat is é?<|im_end|>\n<|im_start|>assistant\nA"
    for prompt in (PROMPT, named, llm.engine.tokenize(named)):
        asked: dict[str, Any] = {"max_tokens": max_tokens, "echo": echo, "logprobs": 1}
        asked |= {"model": "tiny", "prompt": prompt, "stop": stop, "temperature": 0}
        whole = client.completions.create(**asked).choices[0]
        parts = [chunk.choices[0] for chunk in client.completions.create(**asked, stream=True)]
        told = [part.logprobs for part in parts if part.logprobs]
        assert "".join(part.text for part in parts) == whole.text
        for name in ("tokens", "text_offset", "token_logprobs", "top_logprobs"):
            rows = [row for each in told for row in getattr(each, name)]
            assert len(rows) == len(getattr(whole.logprobs, name))
            assert name != "text_offset" or rows == whole.logprobs.text_offset
        offsets = [*whole.logprobs.text_offset, len(whole.text)]
        for token, start, end in zip(whole.logprobs.tokens, offsets, offsets[1:], strict=False):
            is_hidden = token.startswith("<|") and (isinstance(prompt, list) or not echo)
            if "\\x" not in token and end < len(whole.text):  # whole, and not cut off
                assert whole.text[start:end] == ("" if is_hidden else token)


def test_offsets_of_a_prompt_lack_the_space_that_sentencepiece_puts_before_it() -> None:
    class Names(TokenNames):
        def all_bytes(self, token_id: int) -> bytes:
            return (b"<s>", b" a", b" b", b"c")[token_id]

        def shown_bytes(self, token_id: int) -> bytes:
            return b"" if token_id == 0 else self.all_bytes(token_id)

    for text, pieces in (
        ("a bc", [b"", b"a", b" b", b"c"]),
        (" a bc", [b"", b" a", b" b", b"c"]),
        ("<s>a bc", [b"<s>", b"a", b" b", b"c"]),
    ):
        assert [*pieces_in(text, [0, 1, 2, 3], Names(None))] == pieces


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_of_a_chat_are_bytes_that_join_to_the_text(
    client: openai.OpenAI, stream: bool
) -> None:
    asked: dict[str, Any] = {
        "model": "tiny",
        "messages": QUESTION,
        "temperature": 1.3,
        "seed": 4,
        "max_tokens": 60,
    }
    asked |= {"logprobs": True, "top_logprobs": 3}
    if stream:
        chunks = [
            chunk.choices[0] for chunk in client.chat.completions.create(**asked, stream=True)
        ]
        text = "".join(chunk.delta.content or "" for chunk in chunks)
        entries = [
            entry for chunk in chunks if chunk.logprobs for entry in chunk.logprobs.content or ()
        ]
    else:
        answer = client.chat.completions.create(**asked)
        text = answer.choices[0].message.content
        entries = answer.choices[0].logprobs.content
        assert len(entries) == answer.usage.completion_tokens
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == text
    for entry in entries:
        logprobs = [top.logprob for top in entry.top_logprobs]
        assert len(logprobs) == 3
        assert logprobs == sorted(logprobs, reverse=True)
        assert -9999 <= entry.logprob <= 0


def test_a_bias_by_the_id_of_a_token(client: openai.OpenAI, llm: LLM) -> None:
    (token_id,) = llm.engine.input_processor.tokenize(" cache", add_special_tokens=False)
    asked: dict[str, Any] = {"model": "tiny", "prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    assert (
        client.completions.create(**asked, logit_bias={str(token_id): 100}).choices[0].text
        == " cache" * 4
    )
    for bias in ({"cache": 1}, {"-1": 1}, {"9999999": 1}, {str(token_id): 101}):
        with pytest.raises(openai.BadRequestError) as refusal:
            client.completions.create(**asked, logit_bias=bias)
        assert isinstance(refusal.value.body, dict)
        assert str(refusal.value.body["param"]).startswith("logit_bias")


def test_tokenize_and_detokenize(live: LiveServer, llm: LLM) -> None:
    ids = llm.engine.tokenize("Tschüß 👍 KV")
    status, found = post(live, "/tokenize", {"prompt": "Tschüß 👍 KV", "return_token_strs": True})
    assert (status, found["count"], found["tokens"], found["max_model_len"]) == (
        200,
        len(ids),
        ids,
        2048,
    )
    assert len(found["token_strs"]) == len(ids)
    assert post(live, "/detokenize", {"tokens": ids}) == (200, {"prompt": "Tschüß 👍 KV"})
    assert post(live, "/tokenize", {"messages": QUESTION})[1]["tokens"] == llm.apply_chat_template(
        QUESTION
    )
    for body in ({}, {"prompt": "x", "messages": QUESTION}, {"prompt": 7}, {"tokens": [1]}):
        assert post(live, "/tokenize", body)[0] == 400
    for body in ({"tokens": [10**6]}, {"tokens": [-1]}, {"tokens": [True]}, {"tokens": ["a"]}):
        assert post(live, "/detokenize", body)[0] == 400


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b'{"a": NaN}',
        b"\xff",
        b"[" * 100_000,
        b'{"messages":' + b"[" * 5000,
    ],
)
def test_what_is_no_json_object_is_refused(live: LiveServer, raw: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"):
        status, body = post(live, path, None, raw)
        assert status == 400
        assert set(body["error"]) == {"message", "type", "param", "code"}


def test_a_body_that_is_too_large_is_refused(live: LiveServer) -> None:
    for mebibytes in (9, 30):
        assert post(live, "/v1/completions", {"prompt": "a" * (mebibytes << 20)})[0] == 413


def test_bad_prompts_are_refused_by_their_name(client: openai.OpenAI) -> None:
    for prompt in ([], [[]], [""], "", [[10**6]], [-1], ["a", [1]], [[True]], ["a"] * 1025):
        with pytest.raises(openai.BadRequestError) as refusal:
            client.completions.create(model="tiny", prompt=prompt, max_tokens=1)  # type: ignore[arg-type]
        assert isinstance(refusal.value.body, dict)
        assert str(refusal.value.body["param"]).startswith("prompt"), prompt


# --- figures --------------------------------------------------------------------------------------


def figures(server: LiveServer) -> dict[str, float]:
    """The metrics by name and labels, without the model's."""
    with urlopen(f"{server.url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {
        re.sub(r',?model_name="tiny",?', "", name).replace("{}", ""): float(value)
        for name, value in pairs
    }


def test_metrics_count_each_request_once(serve: Any) -> None:
    server: LiveServer = serve()
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        messages = [{"role": "system", "content": "You know what a KV cache is. " * 5}, *QUESTION]
        asked: dict[str, Any] = {"model": "tiny", "messages": messages, "temperature": 0}
        whole = client.chat.completions.create(**asked)
        client.chat.completions.create(**asked, n=3, max_tokens=4)
        stream = client.chat.completions.create(
            **asked, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        assert figures(server)["vllm:num_requests_running"] == 1
        stream.close()
        server.assert_idle()
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(**asked, max_tokens=10**6)
    server.until(
        lambda: server.engine.last is not None and server.engine.last.num_running == 0,
        "a last word",
    )
    found = figures(server)
    ended = {
        name: found[f'vllm:request_success_total{{finished_reason="{name}"}}'] for name in REASONS
    }
    assert sum(ended.values()) == 3
    assert (ended["abort"], ended["error"]) == (1, 0)
    assert found["vllm:time_to_first_token_seconds_count"] == 3
    assert found["vllm:e2e_request_latency_seconds_count"] == 3
    assert found["vllm:prompt_tokens_total"] == 3 * whole.usage.prompt_tokens
    assert found["vllm:generation_tokens_total"] >= whole.usage.completion_tokens + 12 + 1
    assert found["vllm:prefix_cache_queries_total"] > found["vllm:prefix_cache_hits_total"] > 0
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert found[f"vllm:{name}"] == 0
    assert found["vllm:request_params_n_sum"] == 1 + 3 + 1
    assert found["vllm:request_prompt_tokens_sum"] == 3 * whole.usage.prompt_tokens
    assert found["vllm:request_generation_tokens_sum"] == found["vllm:generation_tokens_total"]
    assert found["vllm:request_generation_tokens_count"] == 3
    assert found["vllm:iteration_tokens_total_sum"] > found["vllm:generation_tokens_total"]
    (config,) = [name for name in found if name.startswith("vllm:cache_config_info")]
    assert 'block_size="16"' in config
    assert 'num_gpu_blocks="199"' in config


# What the dashboards for vLLM 0.33.0 ask for in the panels that need no option of the server, and
# what a server without LoRA, images and connectors can tell.
OF_DASHBOARDS = """
    num_requests_running num_requests_waiting kv_cache_usage_perc prefix_cache_queries_total
    prefix_cache_hits_total num_preemptions_total prompt_tokens_total generation_tokens_total
    request_success_total request_prompt_tokens request_generation_tokens iteration_tokens_total
    request_max_num_generation_tokens request_params_n request_params_max_tokens
    time_to_first_token_seconds inter_token_latency_seconds request_time_per_output_token_seconds
    e2e_request_latency_seconds request_queue_time_seconds request_inference_time_seconds
    request_prefill_time_seconds request_decode_time_seconds cache_config_info
    num_requests_waiting_by_reason engine_sleep_state prompt_tokens_by_source_total
    prompt_tokens_cached_total prompt_tokens_cached_by_source_total
    request_prefill_kv_computed_tokens
""".split()
OF_THE_PROCESS = """
    http_requests_total http_request_duration_seconds process_cpu_seconds_total process_open_fds
    process_resident_memory_bytes process_start_time_seconds process_max_fds
""".split()


def test_dashboards_of_vllm_find_their_figures(live: LiveServer) -> None:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        client.completions.create(model="tiny", prompt="a b", max_tokens=1)
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="another", prompt="a b")
    with pytest.raises(HTTPError):
        urlopen(f"{live.url}/some/path/of/a/stranger", timeout=60)
    live.assert_idle()
    with urlopen(f"{live.url}/metrics", timeout=60) as answer:
        families = {
            each.name: each for each in text_string_to_metric_families(answer.read().decode())
        }
    known = {sample.name for family in families.values() for sample in family.samples}
    known |= families.keys()
    assert {f"vllm:{name}" for name in OF_DASHBOARDS} | {*OF_THE_PROCESS} <= known
    answers = {
        (sample.labels["handler"], sample.labels["status"])
        for sample in families["http_requests"].samples
        if sample.name == "http_requests_total"
    }
    assert answers >= {("/v1/completions", "2xx"), ("/v1/completions", "4xx"), ("none", "4xx")}
    assert not [path for path, _ in answers if path not in {*ENDPOINTS, "none"}]


def test_each_token_of_a_prompt_has_one_source(serve: Any) -> None:
    server: LiveServer = serve()
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        for _ in range(2):
            answer = client.completions.create(
                model="tiny", prompt="a KV block " * 20, max_tokens=2
            )
    server.assert_idle()
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    num_cached = answer.usage.prompt_tokens_details.cached_tokens
    assert num_cached
    found = figures(server)
    num_computed = 2 * answer.usage.prompt_tokens - num_cached
    by_source = 'vllm:prompt_tokens_by_source_total{source="'
    assert found[f'{by_source}local_cache_hit"}}'] == num_cached
    assert found[f'{by_source}local_compute"}}'] == num_computed
    assert found["vllm:prompt_tokens_cached_total"] == num_cached
    assert found["vllm:request_prefill_kv_computed_tokens_sum"] == num_computed
    assert found['vllm:num_requests_waiting_by_reason{reason="capacity"}'] == 0
    assert found['vllm:engine_sleep_state{sleep_state="awake"}'] == 1


def test_metrics_count_drafts(serve: Any) -> None:
    """Under vLLM's names, by place, from the first; without speculation there are none."""
    server: LiveServer = serve(
        {"num_kv_blocks": 200, "speculative": "ngram", "num_speculative_tokens": 2}
    )
    assert [value for name, value in figures(server).items() if "spec_decode" in name] == [0] * 5
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "tiny", "max_tokens": 30, "temperature": 0}
        prompt = "What is a KV block?"
        answer = client.completions.create(prompt=prompt, **asked).choices[0].text
        client.completions.create(prompt=f"{prompt}{answer}<|endoftext|>{prompt}", **asked)
    server.assert_idle()
    found, stats = figures(server), server.core.scheduler.speculation_stats
    assert 0 < stats.num_accepted_tokens < stats.num_draft_tokens
    assert found["vllm:spec_decode_num_drafts_total"] == stats.num_drafts
    assert found["vllm:spec_decode_num_draft_tokens_total"] == stats.num_draft_tokens
    assert found["vllm:spec_decode_num_accepted_tokens_total"] == stats.num_accepted_tokens
    by_place = [
        found[f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}}']
        for i in range(2)
    ]
    assert by_place == stats.num_accepted_tokens_per_pos
    assert not any("spec_decode" in name for name in figures(serve()))


def test_the_dashboard_asks_for_figures_that_there_are(live: LiveServer) -> None:
    dashboard = json.loads(
        (Path(__file__).parents[2] / "examples" / "grafana" / "mini_vllm.json").read_text()
    )
    asked = {
        name
        for panel in dashboard["panels"]
        for t in panel["targets"]
        for name in NAMES.findall(t["expr"])
    }
    with urlopen(f"{live.url}/metrics", timeout=60) as answer:
        known = set(NAMES.findall(answer.read().decode()))
    assert len(asked) > 10
    assert asked <= known


# --- limits ---------------------------------------------------------------------------------------


def test_more_than_the_queue_holds_gets_a_clear_no(serve: Any) -> None:
    """n and lists of prompts count by their size, and what has ended leaves its place."""
    server: LiveServer = serve(options={"max_queue": 4})
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        for size in ({"prompt": ["a"] * 5}, {"prompt": "a", "n": 5}, {"prompt": ["a"] * 3, "n": 2}):
            with pytest.raises(openai.RateLimitError) as refusal:
                client.completions.create(model="tiny", max_tokens=1, **size)  # type: ignore[arg-type]
            assert int(refusal.value.response.headers["Retry-After"]) >= 1
        for _ in range(10):
            assert (
                len(
                    client.completions.create(
                        model="tiny", prompt=["a", "b"], n=2, max_tokens=1
                    ).choices
                )
                == 4
            )
    server.assert_idle()


@pytest.mark.slow
def test_what_waits_or_takes_too_long_is_ended(serve: Any) -> None:
    """The limits are set once the first request runs, so that a slow machine does not end it,
    too.
    """
    server: LiveServer = serve(
        {"num_kv_blocks": 200, "max_num_seqs": 1},
        server_options={"queue_timeout": None, "request_timeout": None},
    )
    endless: dict[str, Any] = {
        "model": "tiny",
        "messages": QUESTION,
        "extra_body": {"ignore_eos": True},
    }
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        with client.chat.completions.create(**endless, stream=True) as first:
            next(iter(first))
            object.__setattr__(server.server.api.options, "queue_timeout", 0.2)
            with pytest.raises(openai.InternalServerError) as refusal:  # one place, and it is taken
                client.chat.completions.create(**endless)
            assert refusal.value.status_code == 503
            assert int(refusal.value.response.headers["Retry-After"]) >= 1
        server.assert_idle()
        object.__setattr__(server.server.api.options, "queue_timeout", None)
        object.__setattr__(server.server.api.options, "request_timeout", 0.3)
        with pytest.raises(openai.APIError, match=r"more than 0\.3 seconds"):
            for _ in client.chat.completions.create(**endless, stream=True):
                pass
    server.assert_idle()


@pytest.mark.slow
def test_a_slow_reader_holds_up_nobody_and_loses_nothing(live: LiveServer, llm: LLM) -> None:
    """Its stream is not read before everything is there; meanwhile another one gets its tokens."""
    params = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True, output_kind="delta")
    (wanted,) = llm.generate(PROMPT, params)
    engine, seen = live.engine, threading.Event()

    async def read_late() -> tuple[int, str]:
        outputs = engine.generate("slow", PROMPT, params)
        parts = [await anext(outputs)]
        async for _ in engine.generate("quick", PROMPT, params):
            pass
        while engine.output_processor.has_request("slow"):
            await asyncio.sleep(0.001)
        seen.set()
        parts += [output async for output in outputs]
        return len(parts), "".join(part.outputs[0].text for part in parts)

    num_parts, text = asyncio.run_coroutine_threadsafe(read_late(), live.loop).result(60)
    assert seen.is_set()
    assert (num_parts, text) == (2, wanted.outputs[0].text)


def test_a_list_of_prompts_is_refused_before_one_of_them_starts(live: LiveServer) -> None:
    def ended() -> float:
        lines = live.engine.metrics.render().decode().splitlines()
        return sum(
            float(line.split()[-1])
            for line in lines
            if line.startswith("vllm:request_success_total")
        )

    before = ended()
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        for prompt in (["x", ""], [[1], [2048]], [[1], [10**6]]):
            for stream in (False, True):
                with pytest.raises(openai.BadRequestError) as refusal:
                    client.completions.create(model="tiny", prompt=prompt, stream=stream)  # type: ignore[call-overload]
                assert refusal.value.param == "prompt"
                assert "cmpl-" not in str(refusal.value)
    live.assert_idle()
    assert ended() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("prompt", list(range(3000))),
            ("logit_bias", {str(i): 1 for i in range(3000)}),
            ("max_tokens", 0),
        ),
        *(("logit_bias", {"05": 1}), ("max_completion_tokens", 7), ("suffix", "a" * 9000)),
    ],
)
def test_a_value_beyond_its_limit_is_named(live: LiveServer, field: str, value: Any) -> None:
    body = {"prompt": "a", "max_tokens": 5, field: value}
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refusal:
            client.post("/completions", body=body, cast_to=object)
        assert refusal.value.param in (field[:100], "max_tokens")
        assert len(str(refusal.value)) < 1000


def test_a_prompt_that_is_only_scored_counts_no_completion(live: LiveServer) -> None:
    """And computes none, which would end with "stop" here."""
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.completions.create(
            model="tiny", prompt="a b c", max_tokens=0, echo=True, logprobs=1, temperature=0
        )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens
