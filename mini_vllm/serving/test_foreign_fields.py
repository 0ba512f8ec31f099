"""Fields that clients, routers and users of vLLM send: what changes nothing is taken, what changes
the answer is done or refused by name.
"""

import json
import logging
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("torch")

from mini_vllm import __version__
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.openai import foreign_fields, protocol

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = {"messages": [{"role": "user", "content": "What is a KV block?"}], "max_tokens": 6}
GREEDY = ASK | {"temperature": 0}
CLIENTS: dict[str, Any] = {
    "store": False,
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "reasoning_effort": "low",
    "verbosity": "low",
    "modalities": ["text"],
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "stream": True,
    "stream_options": {"include_obfuscation": False, "include_usage": True},
    "best_of": 1,
    "suffix": "",
    "top_logprobs": 0,
    "user": "u",
    "functions": [],
    "function_call": "none",
    "audio": None,
    "prediction": {"type": "content", "content": "x"},
    "thinking_token_budget": -1,
    "spaces_between_special_tokens": False,
    "length_penalty": 2.0,
    "mm_processor_kwargs": {},
    "return_prompt_text": False,
    "web_search_options": None,
}
ROUTER: dict[str, Any] = {
    "logprobs": False,
    "no_stop_trim": False,
    "ignore_eos": False,
    "continue_final_message": False,
    "skip_special_tokens": True,
    "separate_reasoning": True,
    "stream_reasoning": True,
    "return_hidden_states": False,
    "include_reasoning": True,
    "kv_transfer_params": None,
}
BACK = {
    "role": "assistant",
    "content": "A KV block",
    "annotations": [],
    "refusal": None,
    "audio": None,
    "function_call": None,
    "tool_calls": None,
    "reasoning": "so",
    "cache_control": {"type": "ephemeral"},
    "provider_specific_fields": {"a": 1},
}
PARTS = [{"type": "text", "text": "Go on", "cache_control": {"type": "ephemeral"}}]
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "kv_transfer_params": ({"kv_transfer_params": {"do_remote_decode": True}}, "no KV blocks"),
    "suffix": ({"suffix": "x"}, "the end of a text"),
    "best_of": ({"best_of": 2}, "use n"),
    "modalities": ({"modalities": ["text", "audio"]}, "text alone"),
    "audio": ({"audio": {"voice": "v"}}, "text alone"),
    "functions": ({"functions": [{"name": "f"}]}, "use tools"),
    "function_call": ({"function_call": "auto"}, "use tool_choice"),
    "no_stop_trim": ({"no_stop_trim": True}, "include_stop_str_in_output"),
    "use_beam_search": ({"use_beam_search": 1}, "no beam search"),
    "logprob_token_ids": ({"logprob_token_ids": [5]}, "use logprobs with top_logprobs"),
    "repetition_detection": ({"repetition_detection": {"min_count": 2}}, "use a penalty"),
    "thinking_token_budget": ({"thinking_token_budget": 10}, "use max_tokens"),
    "return_prompt_text": ({"return_prompt_text": True}, "use return_token_ids"),
    "stop": ({"stop": list("abcde")}, "at most 4 stop strings are allowed"),
    "top_logprobs": ({"top_logprobs": 2}, "needs logprobs: true"),
    "chat_template_kwargs.messages": (
        {"chat_template_kwargs": {"messages": []}},
        "is no variable of a chat template",
    ),
    "messages[0].content[0]": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "only parts of text can be read",
    ),
    "messages[0].function_call": (
        {"messages": [{"role": "assistant", "content": "", "function_call": {"name": "f"}}]},
        "use tool_calls",
    ),
    "structured_outputs": (
        {"structured_outputs": {"regex": "a", "whitespace_pattern": " "}},
        "not 'whitespace_pattern'",
    ),
}


def post(
    live: LiveServer, body: Any, path: str = CHAT, **headers: str
) -> tuple[int, dict[str, str], str]:
    connection = HTTPConnection("127.0.0.1", live.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"} | named)
    answer = connection.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    connection.close()
    return found


def content(live: LiveServer, **fields: Any) -> str:
    status, _, text = post(live, GREEDY | fields)
    assert status == 200, text
    return str(json.loads(text)["choices"][0]["message"]["content"])


def test_what_changes_nothing_is_taken(live: LiveServer) -> None:
    for fields in (CLIENTS, ROUTER):
        for name, value in fields.items():
            stream = {"stream": True} if name == "stream_options" else {}
            status, _, text = post(live, ASK | stream | {name: value})
            assert status == 200, (name, text)
        assert post(live, ASK | fields)[0] == 200
    plain = {"prompt": "A KV block", "max_tokens": 3}
    for name in ("suffix", "best_of", "store", "stream_options", "user"):
        stream = {"stream": name == "stream_options"}
        status, _, text = post(live, plain | stream | {name: CLIENTS[name]}, TEXT)
        assert status == 200, (name, text)
    assert post(live, plain | {"n": 2, "best_of": 2}, TEXT)[0] == 200


def test_null_is_as_good_as_absent_in_every_field(live: LiveServer) -> None:
    """Clients in typed languages write all of their fields."""
    of_vllm = "use_beam_search length_penalty truncate_prompt_tokens chat_template documents"
    others = dict.fromkeys([*CLIENTS, *ROUTER, *of_vllm.split()])
    for path, body, kind in (
        (CHAT, GREEDY, protocol.ChatCompletionRequest),
        (TEXT, {"prompt": "a", "max_tokens": 2}, protocol.CompletionRequest),
    ):
        nulls = others | dict.fromkeys(kind.model_fields.keys() - body.keys())
        status, _, text = post(live, body | nulls, path)
        assert status == 200, text
    for name, kind in (
        ("stream_options", protocol.StreamOptions),
        ("structured_outputs", protocol.StructuredOutputsField),
    ):
        fields = dict.fromkeys(field.alias or name for name, field in kind.model_fields.items())
        given = {name: fields | {"choice": ["a"]}, "stream": name == "stream_options"}
        protocol.parse(protocol.ChatCompletionRequest, ASK | given)
    message = dict.fromkeys(protocol.ChatMessage.model_fields) | {"role": "user", "content": "a"}
    assert post(live, ASK | {"messages": [message]})[0] == 200
    for missing, named in (({"role": None}, ".role"), ({"content": None}, "")):
        status, _, text = post(live, ASK | {"messages": [message | missing]})
        assert (status, json.loads(text)["error"]["param"]) == (400, f"messages[0]{named}")


def test_an_integer_may_be_written_as_a_float(live: LiveServer) -> None:
    """As clients do whose language has one type of number."""
    fields = {"n": 1.0, "max_tokens": 6.0, "seed": 7.0, "top_k": 5.0, "top_logprobs": 0.0}
    assert content(live, **fields) == content(live)
    for name in (*fields, "min_tokens", "priority"):
        for wrong in (1.5, True, "1", 1e300):
            status, _, text = post(live, ASK | {name: wrong})
            assert (status, json.loads(text)["error"]["param"]) == (400, name), (name, wrong)


def test_a_choice_of_tools_without_tools_asks_for_nothing(live: LiveServer) -> None:
    plain = content(live)
    for fields in (
        {"tool_choice": "none"},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": True},
        {"parallel_tool_calls": False},
    ):
        assert content(live, **fields) == plain


def test_types_that_can_be_one_alone_may_be_absent(live: LiveServer) -> None:
    """As for vLLM: of a tool, and of the choice of one."""
    tool = {"function": {"name": "f", "parameters": {"properties": {}}}}
    body = ASK | {"tools": [tool], "tool_choice": "none"}
    assert post(live, body)[0] == 200
    choice = {"function": {"name": "f"}}
    for kind in ({}, {"type": None}, {"type": "function"}):
        use = ToolUse([tool | kind], choice | kind)
        assert use.forced_schema() == ToolUse([tool], choice).forced_schema() is not None


def test_what_is_empty_in_a_message_asks_for_nothing(live: LiveServer) -> None:
    """A template may ask whether there are tool calls, and an empty list is there."""
    empty = {"tool_calls": [], "refusal": "", "reasoning": "", "reasoning_content": ""}
    for role in ("system", "user", "assistant"):
        plain = {"role": role, "content": "a"}
        found, wanted = (
            protocol.ChatMessage.model_validate(each).for_template()
            for each in (plain | empty, plain)
        )
        assert "tool_calls" not in found
        assert (found["role"], found["content"]) == (wanted["role"], wanted["content"])
    assert post(live, ASK | {"stream_options": {}, "messages": [plain | empty]})[0] == 200
    for harmless in ({}, {"include_usage": False}, {"include_obfuscation": True}):
        assert post(live, ASK | {"stream_options": harmless})[0] == 200


def test_a_text_that_has_its_special_tokens_gets_no_more(live: LiveServer) -> None:
    reader = live.engine.input_processor.text_reader
    assert reader is not None
    encode = reader.encode

    def with_beginning(text: str, *, add_special_tokens: bool) -> list[int]:
        return [1] * add_special_tokens + encode(text, add_special_tokens=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(reader), "encode", staticmethod(with_beginning))
        found = [
            json.loads(post(live, {"prompt": "a b"} | given, f"{TEXT}/render")[2])[0]["token_ids"]
            for given in ({}, {"add_special_tokens": True}, {"add_special_tokens": False})
        ]
    assert found[0] == found[1] == [1, *found[2]]


def test_a_content_may_be_empty(live: LiveServer) -> None:
    for empty in ("", []):
        for role in ("system", "user", "assistant"):
            messages = [{"role": role, "content": empty}, *GREEDY["messages"]]  # type: ignore[misc]
            assert post(live, GREEDY | {"messages": messages})[0] == 200


def test_what_is_left_out_is_told_once(live: LiveServer, caplog: pytest.LogCaptureFixture) -> None:
    foreign_fields._told.clear()
    with caplog.at_level(logging.WARNING, "mini_vllm"):
        for _ in range(2):
            assert post(live, ASK | {"reasoning_effort": "low", "store": False, "temprature": 1})
    told = [record.getMessage() for record in caplog.records]
    assert [line.split()[2] for line in told] == ["'reasoning_effort'", "'temprature'"]
    with caplog.at_level(logging.WARNING, "mini_vllm"):
        post(live, ASK | {f"field{i}": 1 for i in range(500)})
    assert len(caplog.records) == foreign_fields.MAX_NAMES_TOLD


def test_messages_come_back_as_other_servers_wrote_them(live: LiveServer) -> None:
    messages = [*ASK["messages"], BACK, {"role": "user", "content": PARTS}]  # type: ignore[misc]
    assert post(live, ASK | {"messages": messages})[0] == 200
    tool = {"type": "function", "function": {"name": "f"}, "cache_control": {"type": "ephemeral"}}
    body = ASK | {"tools": [tool], "tool_choice": "none"}
    count = json.loads(post(live, body)[2])["usage"]["prompt_tokens"]
    del tool["cache_control"]
    assert json.loads(post(live, body)[2])["usage"]["prompt_tokens"] == count


@pytest.mark.parametrize("param", WRONG)
def test_what_would_change_the_answer_is_refused_by_name(live: LiveServer, param: str) -> None:
    fields, why = WRONG[param]
    status, _, text = post(live, ASK | fields)
    error = json.loads(text)["error"]
    assert (status, error["param"]) == (400, param), error
    assert why in error["message"]


def test_a_strict_server_refuses_what_it_does_not_have(serve: Callable[..., LiveServer]) -> None:
    live = serve(None, None, {"strict": True})
    assert post(live, ASK | {"store": None, "stop_token_ids": [5]})[0] == 200
    for name in ("store", "metadata", "temprature"):
        status, _, text = post(live, ASK | {name: CLIENTS.get(name, 1)})
        assert status == 400
        assert json.loads(text)["error"]["param"] == name


# --- what users of vLLM send ----------------------------------------------------------------------


def test_fields_of_vllm_do_what_they_say(live: LiveServer) -> None:
    whole = content(live, max_tokens=40)
    assert whole.startswith("A KV block is a fixed-size piece")
    assert content(live, stop=["size"], max_tokens=40) == "A KV block is a fixed-"
    shown = content(live, stop=["size"], include_stop_str_in_output=True, max_tokens=40)
    assert shown == "A KV block is a fixed-size"
    assert "fixed" not in content(live, bad_words=["fixed"], max_tokens=40)
    text = post(live, {"prompt": "A KV block"}, "/tokenize")[2]
    last = json.loads(text)["tokens"][-1]
    assert content(live, stop_token_ids=[last]) == "A KV"
    assert content(live, stop_token_ids=[last], include_stop_str_in_output=True) == "A KV block"
    assert content(live, stop_token_ids=[last], min_tokens=6, max_tokens=6) != "A KV"
    assert set(content(live, allowed_token_ids=[last], ignore_eos=True).split()) == {"block"}
    ended = content(live, skip_special_tokens=False, ignore_eos=True, max_tokens=120)
    assert "<|im_end|>" in ended


def answers(live: LiveServer, path: str, body: dict[str, Any], stream: bool) -> list[Any]:
    """The whole answer, or the chunks of a stream."""
    status, _, text = post(live, body | {"stream": stream}, path)
    assert status == 200, text
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if "{" in line]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_tells_the_ids_of_its_tokens(live: LiveServer, stream: bool) -> None:
    body = GREEDY | {"n": 2, "return_token_ids": True, "max_tokens": 6}
    found = answers(live, CHAT, body, stream)
    rendered = json.loads(post(live, ASK, f"{CHAT}/render")[2])["token_ids"]
    told = [each["prompt_token_ids"] for each in found if "prompt_token_ids" in each]
    assert told == [rendered] * (2 if stream else 1)
    assert "prompt_token_ids" in found[0]
    ids: dict[int, list[int]] = {0: [], 1: []}
    for choice in (choice for each in found for choice in each["choices"]):
        ids[choice["index"]] += choice.get("token_ids", [])
    assert ids[0] == ids[1]
    text = json.loads(post(live, {"tokens": ids[0]}, "/detokenize")[2])["prompt"]
    assert text == content(live, max_tokens=6)
    prompts = [[5, 6, 7], [8]]
    body = {"prompt": prompts, "echo": True, "return_token_ids": True, "ignore_eos": True}
    for max_tokens in (4, 0):
        found = answers(live, TEXT, body | {"max_tokens": max_tokens}, stream)
        choices = [choice for each in found for choice in each["choices"]]
        for index, prompt in enumerate(prompts):
            mine = [choice for choice in choices if choice["index"] == index]
            assert [c["prompt_token_ids"] for c in mine if "prompt_token_ids" in c] == [prompt]
            assert sum(len(choice["token_ids"]) for choice in mine) == max_tokens
    for path, body in ((CHAT, ASK), (TEXT, {"prompt": "a"})):
        assert "token_ids" not in json.dumps(answers(live, path, body, stream))


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_tells_what_has_stopped_it(live: LiveServer, stream: bool) -> None:
    last = json.loads(post(live, {"prompt": "A KV block"}, "/tokenize")[2])["tokens"][-1]
    prompt = "What is a KV block? A"
    for path, body in ((CHAT, GREEDY), (TEXT, {"prompt": prompt, "temperature": 0})):
        for fields, wanted in (
            ({"stop": ["no", "size"]}, ("stop", "size")),
            ({"stop_token_ids": [last]}, ("stop", last)),
            ({"max_tokens": 1}, ("length", None)),
            ({}, ("stop", None)),
        ):
            found = answers(live, path, body | {"max_tokens": 200} | fields, stream)
            *before, end = [each["choices"][0] for each in found]
            assert (end["finish_reason"], end["stop_reason"]) == wanted
            assert not any("stop_reason" in each for each in before)


def test_an_answer_tells_how_likely_the_prompt_was(live: LiveServer) -> None:
    rendered = json.loads(post(live, ASK, f"{CHAT}/render")[2])["token_ids"]
    (chat,) = answers(live, CHAT, GREEDY | {"prompt_logprobs": 2, "n": 2}, False)
    body = {"prompt": [rendered, [5, 6]], "prompt_logprobs": 2, "max_tokens": 1}
    (text,) = answers(live, TEXT, body, False)
    assert chat["prompt_logprobs"] == text["choices"][0]["prompt_logprobs"]
    assert len(text["choices"][1]["prompt_logprobs"]) == 2
    first, *rows = chat["prompt_logprobs"]
    assert first is None
    assert len(rows) == len(rendered) - 1
    for token_id, row in zip(rendered[1:], rows, strict=True):
        assert row.keys() >= {str(token_id)}
        assert {1, 2} <= {each["rank"] for each in row.values()}
        for name, each in row.items():
            token = json.loads(post(live, {"tokens": [int(name)]}, "/detokenize")[2])["prompt"]
            assert each["decoded_token"] == token
    body = {"prompt": rendered, "echo": True, "logprobs": 2, "max_tokens": 0}
    (echoed,) = answers(live, TEXT, body, False)
    scores = [row[str(i)]["logprob"] for i, row in zip(rendered[1:], rows, strict=True)]
    assert echoed["choices"][0]["logprobs"]["token_logprobs"][1:] == pytest.approx(scores, abs=2e-2)
    status, _, refused = post(live, ASK | {"prompt_logprobs": 2, "stream": True})
    assert (status, json.loads(refused)["error"]["param"]) == (400, "prompt_logprobs")
    body = {"prompt": [[5] * 1000] * 7, "prompt_logprobs": 20, "max_tokens": 1}
    status, _, refused = post(live, body, TEXT)
    assert (status, json.loads(refused)["error"]["param"]) == (400, "prompt_logprobs")
    assert "147,000 logprobs, at most 131,072" in refused


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_may_name_tokens_by_their_ids(live: LiveServer, stream: bool) -> None:
    asked = {"return_token_ids": True, "return_tokens_as_token_ids": True, "max_tokens": 5}
    found = answers(live, CHAT, GREEDY | asked | {"logprobs": True, "top_logprobs": 2}, stream)
    choices = [choice for each in found for choice in each["choices"]]
    ids = [i for choice in choices for i in choice.get("token_ids", ())]
    entries = [e for choice in choices if choice["logprobs"] for e in choice["logprobs"]["content"]]
    assert [entry["token"] for entry in entries] == [f"token_id:{i}" for i in ids]
    assert [entry["top_logprobs"][0]["token"] for entry in entries] == [
        f"token_id:{i}" for i in ids
    ]
    body = {"prompt": [5, 6], "temperature": 0, "logprobs": 1}
    found = answers(live, TEXT, body | asked, stream)
    choices = [choice for each in found for choice in each["choices"]]
    ids = [i for choice in choices for i in choice["token_ids"]]
    names = [name for choice in choices for name in choice["logprobs"]["tokens"]]
    tops = [top for choice in choices for top in choice["logprobs"]["top_logprobs"]]
    assert names == [f"token_id:{i}" for i in ids]
    assert [[*top] for top in tops] == [[name] for name in names]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_may_go_on_with_the_last_message(live: LiveServer, stream: bool) -> None:
    messages = [*ASK["messages"], {"role": "assistant", "content": "A KV block is a"}]  # type: ignore[misc]
    going_on = {"continue_final_message": True, "add_generation_prompt": False}
    body = GREEDY | going_on | {"messages": messages, "stream": stream}
    for echo, begin in ((False, " fixed-size"), (True, "A KV block is a fixed-size")):
        status, _, text = post(live, body | {"echo": echo})
        assert status == 200, text
        if stream:
            events = [json.loads(line[6:]) for line in text.split("\n\n") if "{" in line]
            assert events[0]["choices"][0]["delta"]["content"] in ("", "A KV block is a")
            found = "".join(each["choices"][0]["delta"].get("content", "") for each in events)
        else:
            found = json.loads(text)["choices"][0]["message"]["content"]
        assert found.startswith(begin)
    status, _, text = post(live, GREEDY | {"continue_final_message": True})
    assert (status, "add_generation_prompt" in text) == (400, True)
    assert content(live, echo=True) == content(live)


def test_variables_reach_the_chat_template(live: LiveServer) -> None:
    renderer = live.engine.input_processor._chat_templates
    tokenizer = renderer._tokenizer
    before = tokenizer.chat_template
    tokenizer.chat_template = "{{ messages[0].content }}{% if not enable_thinking %} x x{% endif %}"
    counts = [
        json.loads(post(live, ASK | given)[2])["usage"]["prompt_tokens"]
        for given in ({}, {"chat_template_kwargs": {"enable_thinking": True}})
    ]
    tokenizer.chat_template = before
    assert counts[0] > counts[1]


def test_a_request_keeps_the_id_that_it_was_given(live: LiveServer) -> None:
    status, headers, text = post(live, ASK, X_Request_Id="my-1")
    assert (headers["x-request-id"], json.loads(text)["id"]) == ("my-1", "chatcmpl-my-1")
    status, headers, text = post(live, ASK | {"request_id": "my-2"})
    assert (headers["x-request-id"], json.loads(text)["id"]) == ("my-2", "chatcmpl-my-2")
    status, headers, text = post(live, ASK | {"n": 0}, X_Request_Id="my-3")
    assert (status, headers["x-request-id"]) == (400, "my-3")
    status, headers, text = post(live, ASK, X_Request_Id="no id \x7f")
    assert json.loads(text)["id"] == f"chatcmpl-{headers['x-request-id']}"
    for wrong in ("", "a b", "é", "a" * 129):
        status, _, text = post(live, ASK | {"request_id": wrong})
        assert (status, json.loads(text)["error"]["param"]) == (400, "request_id")


def test_two_requests_of_one_id_run_at_once(live: LiveServer) -> None:
    connections = [HTTPConnection("127.0.0.1", live.port, timeout=60) for _ in range(2)]
    body = json.dumps(ASK | {"request_id": "same", "max_tokens": 60, "stream": True})
    for connection in connections:
        connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
    answers = [connection.getresponse() for connection in connections]
    assert [answer.status for answer in answers] == [200, 200]
    assert all(b"[DONE]" in answer.read() for answer in answers)


def get(live: LiveServer, path: str) -> Any:
    with urlopen(live.url + path, timeout=60) as answer:
        return json.load(answer)


def test_a_router_learns_what_it_asks_for(live: LiveServer) -> None:
    status, _, text = post(live, ASK | ROUTER, f"{CHAT}/render")
    rendered = json.loads(text)
    usage = json.loads(post(live, ASK)[2])["usage"]
    assert (status, len(rendered["token_ids"])) == (200, usage["prompt_tokens"])
    assert rendered["request_id"].startswith("chatcmpl-")
    prompts = {"prompt": ["A KV block", "a"]}
    found = [each["token_ids"] for each in json.loads(post(live, prompts, f"{TEXT}/render")[2])]
    assert found == [live.engine.input_processor.tokenize(each) for each in prompts["prompt"]]
    assert post(live, ASK | {"messages": []}, f"{CHAT}/render")[0] == 400
    assert get(live, "/version") == {"version": __version__}
    assert get(live, "/get_load") == {"load": 0}
    connection = HTTPConnection("127.0.0.1", live.port, timeout=60)
    body = json.dumps(ASK | {"stream": True, "max_tokens": 2000, "ignore_eos": True})
    connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    assert get(live, "/get_load") == {"load": 1}
    connection.close()
    live.until(lambda: live.engine.num_unfinished == 0, "the request has gone")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "a " * 9000}]},
        {"messages": [{"role": "user", "content": "a" * 900_000}]},
        {"messages": [{"role": "user", "content": "a"}], "max_tokens": 99_999},
        {"prompt": "a " * 9000},
        {"prompt": [[5] * 2049]},
    ],
    ids=["tokens", "characters", "max_tokens", "completion", "ids"],
)
def test_what_is_too_long_says_so_in_the_words_that_clients_know(
    live: LiveServer, body: dict[str, Any]
) -> None:
    status, _, text = post(live, body, CHAT if "messages" in body else TEXT)
    error = json.loads(text)["error"]
    assert (status, error["code"]) == (400, "context_length_exceeded"), error
    assert error["message"].startswith("This model's maximum context length is 2048 tokens")
