"""What a server with a role takes, and what it refuses before it starts. tools/test_apart.py has a
router in front of two of them.
"""

from pathlib import Path
from typing import Any

import pytest

from mini_vllm.cli.server.roles import Disaggregation
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.remote.options import KVTransferConfig, Peer, lent_as, remote_prefill
from mini_vllm.params import SamplingParams
from mini_vllm.serving.openai.protocol import ApiError, ChatCompletionRequest, parse
from mini_vllm.serving.roles.api import ChatWithTransfer, CompletionWithTransfer

KEY = "a-secret-of-both-servers"
# as vllm-router 0.1.17 sends them
TO_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
TO_DECODE = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2]],
    "remote_engine_id": "e",
    "remote_request_id": "r1",
    "remote_host": "127.0.0.1",
    "remote_port": 5600,
    "tp_size": 1,
    "remote_num_tokens": 40,
}


@pytest.mark.parametrize("strict", [False, True])
def test_the_fields_of_a_router_reach_the_engine(strict: bool) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    asked = parse(ChatWithTransfer, {**body, "kv_transfer_params": TO_DECODE}, strict=strict)
    params = asked.sampling_options()["kv_transfer_params"]
    found = remote_prefill(params)
    assert found is not None
    assert (found.peer, found.request_id) == (Peer("127.0.0.1", 5600), "r1")
    assert lent_as(params) is None
    asked = parse(
        CompletionWithTransfer, {"prompt": "a", "kv_transfer_params": TO_PREFILL}, strict=strict
    )
    params = asked.sampling_options()["kv_transfer_params"]
    assert remote_prefill(params) is None
    assert lent_as({**params, "remote_request_id": "here"}) == "here"
    assert "kv_transfer_params" not in parse(ChatWithTransfer, body).sampling_options()


def test_of_a_router_only_what_the_engine_reads_is_passed_on() -> None:
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    given = {**TO_DECODE, "remote_block_ids": deep, "remote_num_tokens": 1 << 70}
    asked = parse(CompletionWithTransfer, {"prompt": "a", "kv_transfer_params": given})
    assert asked.sampling_options()["kv_transfer_params"] == {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_request_id": "r1",
        "remote_host": "127.0.0.1",
        "remote_port": 5600,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote_request_id", "a" * 201),
        ("remote_request_id", "\u00e9"),
        ("remote_request_id", "a\n"),
        ("remote_request_id", ""),
        ("remote_port", 0),
        ("remote_port", 1 << 64),
    ],
)
def test_what_names_no_lease_is_refused_and_the_engine_takes_it_for_none(
    name: str, value: Any
) -> None:
    given = {**TO_DECODE, name: value}
    with pytest.raises(ApiError, match=name):
        parse(CompletionWithTransfer, {"prompt": "a", "kv_transfer_params": given})
    if name == "remote_request_id":
        assert remote_prefill(given) is None
        assert lent_as({"do_remote_decode": True, name: value}) is None
    assert remote_prefill({**given, name: "a" * 200 if name != "remote_port" else 1}) is not None


def test_a_server_without_a_role_passes_no_blocks_on() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "kv_transfer_params": TO_PREFILL}
    with pytest.raises(ApiError, match="kv_transfer_params"):
        parse(ChatCompletionRequest, body)


@pytest.mark.parametrize(
    "params",
    [{}, {"do_remote_prefill": True}, {**TO_DECODE, "remote_port": None}, TO_PREFILL, None],
)
def test_without_an_address_a_prompt_is_computed_here(params: Any) -> None:
    assert remote_prefill(params) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_role": "both"}, r"kv_role must be one of \('prefill', 'decode'\), got 'both'"),
        ({"kv_connector": "nixl"}, "kv_connector must be 'tcp': this engine has no NIXL to load"),
        ({"kv_ip": "\ud800"}, "kv_ip must be the name or the address of a host, in ASCII, got"),
        ({"kv_ip": "a..b"}, "kv_ip must be the name or the address of a host, in ASCII, got"),
        ({"kv_peers": ["::1", "\ud800"]}, "kv_peers must be names or addresses of hosts, in ASCII"),
        ({"kv_role": "\ud800"}, "kv_role must be one of"),
        ({"kv_port": 0}, "kv_port must be an integer in"),
        ({"kv_lease_duration": 0}, "kv_lease_duration must be in"),
        ({"kv_load_failure_policy": "retry"}, "kv_load_failure_policy must be one of"),
        ({"kv_ip": "0.0.0.0", "kv_key": KEY}, "kv_ip must be an address that a decoder can call"),
        ({"kv_ip": "10.0.0.1"}, "kv_key is missing: beyond this machine"),
        ({"kv_peers": ["10.0.0.1"]}, "kv_key is missing: beyond this machine"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        KVTransferConfig(**{"kv_role": "decode", **options})


@pytest.mark.parametrize("key", [123456789, ["secret"], b"secret" * 9, "\ud800" * 20, "short", ""])
def test_a_key_that_is_none_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(InvalidParameterError, match="kv_key must be None or a text") as refused:
        KVTransferConfig(kv_role="decode", kv_key=key)
    assert str(refused.value).endswith("got a value that is not shown")
    with pytest.raises(InvalidParameterError, match="kv_transfer_config must be") as refused:
        EngineConfig("tiny", kv_transfer_config=["kv_key", key])
    assert str(refused.value).endswith("got a value that is not shown")


@pytest.mark.parametrize(
    "params",
    [
        {"remote_host": "\ud800"},
        {"do_remote_prefill": True, "remote_request_id": "r\ud800"},
        {"\ud800": 1},
        {"remote_block_ids": [{"a": ["\ud800"]}]},
    ],
)
def test_what_no_socket_can_carry_is_refused_by_name(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match="kv_transfer_params must be a mapping whose"):
        SamplingParams(kv_transfer_params=params)
    body = {"prompt": "a", "kv_transfer_params": params}
    if "remote_host" in params or "remote_request_id" in params:
        with pytest.raises(ApiError, match="kv_transfer_params"):
            parse(CompletionWithTransfer, body)
    else:  # what the engine does not read is not passed on
        found = parse(CompletionWithTransfer, body).sampling_options()["kv_transfer_params"]
        assert not params.keys() & found.keys()


def command_line(**given: Any) -> Disaggregation:
    options = {
        "role": "prefill",
        "kv_connector": "tcp",
        "kv_ip": "127.0.0.1",
        "kv_port": 5600,
        "kv_peer": None,
        "kv_key_file": None,
        "kv_load_failure_policy": "recompute",
        "kv_lease_duration": 30,
        "kv_events_config": None,
    }
    return Disaggregation(**{**options, **given})


def test_a_role_of_the_command_line_is_one_of_the_engine(tmp_path: Path) -> None:
    config = EngineConfig("tiny")
    assert command_line(role=None).of(config) is config
    found = command_line().of(config)
    assert KVTransferConfig(**found.kv_transfer_config).kv_role == "prefill"
    assert found.kv_offload_bytes == 1 << 30, "blocks are lent from main memory"
    few = EngineConfig("tiny", kv_offload_bytes=1 << 20)
    assert command_line().of(few).kv_offload_bytes == 1 << 20
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    found = command_line(role="decode", kv_peer=["10.0.0.1"], kv_key_file=path).of(config)
    assert KVTransferConfig(**found.kv_transfer_config).kv_key == KEY
    path.write_text("short")
    with pytest.raises(InvalidParameterError, match="at least 16 characters, got 5"):
        command_line(kv_key_file=path).of(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "kv_events_config must be a JSON object"),
        ("[1]", "kv_events_config must be a JSON object"),
        ('{"endpoint": "5557"}', "endpoint must be tcp://ADDRESS:PORT"),
    ],
)
def test_events_that_cannot_be_published_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        command_line(role=None, kv_events_config=text).of(EngineConfig("tiny"))
