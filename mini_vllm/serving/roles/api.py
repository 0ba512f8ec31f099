"""RoleApi: the API of a server that computes prompts for another one, or decodes for it.

A router asks the prefiller for one token, gives what it says in kv_transfer_params to the decoder
with the original request, and streams the decoder's answer. Source: vllm-router's
--vllm-pd-disaggregation; toy_proxy_server.py in vllm's tests/v1/kv_connector/nixl_integration;
request_finished in vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar
from uuid import uuid4

from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.routing import Route

from mini_vllm.errors import shown
from mini_vllm.offload.remote.options import KVTransferConfig
from mini_vllm.serving.admission.jobs import Read
from mini_vllm.serving.asgi import EventStream
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.openai.answers import Answer
from mini_vllm.serving.openai.foreign_fields import NEUTRAL
from mini_vllm.serving.openai.generate import Job
from mini_vllm.serving.openai.openapi import openapi_document
from mini_vllm.serving.openai.protocol import (
    ApiError,
    ChatCompletion,
    ChatCompletionRequest,
    Completion,
    CompletionRequest,
    ModelRequest,
    SharedRequest,
    Strict,
)
from mini_vllm.serving.options import ServerOptions
from mini_vllm.serving.routes import ENDPOINTS, Api

FIELD = "kv_transfer_params"
READ = {f"remote_{name}" for name in ("request_id", "host", "port")}
READ |= {"do_remote_decode", "do_remote_prefill"}  # what the engine looks at


class KVTransferParams(Strict):
    """What a router says of the blocks of a prompt, in the words of vLLM's NIXL connector. Blocks
    go by the names of their content here, so their numbers are not looked at.
    """

    do_remote_decode: bool = False
    """Keep the blocks: another server decodes."""
    do_remote_prefill: bool = False
    """Another server has the blocks: pull them."""
    remote_request_id: Annotated[str, Field(pattern=r"^[!-~]{1,200}\z")] | None = None
    remote_host: Annotated[str, Field(max_length=255)] | None = None
    remote_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    remote_engine_id: str | None = None
    remote_block_ids: Any = None
    remote_num_tokens: Any = None
    tp_size: Any = None
    dcp_size: Any = None
    pp_size: Any = None
    remote_blocks_expiry_time: Any = None
    remote_registration_generation: Any = None
    transfer_mode: Any = None


class WithTransfer(SharedRequest):
    """A chat or completion one half of which is done elsewhere."""

    NEUTRAL: ClassVar = {name: why for name, why in NEUTRAL.items() if name != FIELD}
    kv_transfer_params: KVTransferParams | None = None

    def sampling_options(self) -> dict[str, Any]:
        options = super().sampling_options()
        if self.kv_transfer_params is not None:
            options[FIELD] = self.kv_transfer_params.model_dump(include=READ, exclude_none=True)
        return options


class ChatWithTransfer(WithTransfer, ChatCompletionRequest):
    """The body of POST /v1/chat/completions."""


class CompletionWithTransfer(WithTransfer, CompletionRequest):
    """The body of POST /v1/completions."""


class RoleApi(Api):
    """Chats and completions take kv_transfer_params; a prefiller's answers have them, too."""

    def __init__(self, engine: AsyncEngine, options: ServerOptions) -> None:
        super().__init__(engine, options)
        self.transfer = KVTransferConfig(**engine.config.kv_transfer_config)
        self.engine_id = uuid4().hex
        self._document = openapi_document(ENDPOINTS | OWN)

    def routes(self) -> list[Route]:
        own = [self._json_route(path, handler) for path, handler in OWN.items()]
        return own + super().routes()

    async def chat_apart(self, asked: ChatWithTransfer, read: Read) -> ChatCompletion | EventStream:
        """Answer a conversation."""
        return await self.chat_completions(asked, read)

    async def completion_apart(
        self, asked: CompletionWithTransfer, read: Read
    ) -> Completion | EventStream:
        """Complete texts or token ids."""
        return await self.completions(asked, read)

    async def _asked(self, request: HttpRequest, kind: type[ModelRequest], read: Read) -> Any:
        asked = await super()._asked(request, kind, read)
        if isinstance(asked, WithTransfer) and asked.kv_transfer_params is not None:
            self._check(asked, asked.kv_transfer_params)
        return asked

    def _check(self, asked: WithTransfer, params: KVTransferParams) -> None:
        """Raises ApiError for the other role's half, and for a host that is not trusted."""
        role = self.transfer.kv_role
        wrong = params.do_remote_prefill if role == "prefill" else params.do_remote_decode
        if wrong:
            name = "do_remote_prefill" if role == "prefill" else "do_remote_decode"
            raise ApiError(400, f"{name} must be false: the role here is {role}", FIELD)
        if params.do_remote_decode:
            if asked.stream:
                raise ApiError(400, "do_remote_decode needs stream: false", "stream")
            params.remote_request_id = f"{asked.request_id}-{secrets.token_hex(16)}"
        host = params.remote_host
        if params.do_remote_prefill and host is not None and host not in self.transfer.trusted:
            trusted = ", ".join(self.transfer.trusted)
            message = f"{FIELD}.remote_host must be one of {trusted}, got {shown(host)}"
            raise ApiError(400, message, f"{FIELD}.remote_host")

    async def _respond(
        self, answer: Answer, jobs: Sequence[Job], asked: SharedRequest
    ) -> Any | EventStream:
        found: Any = await super()._respond(answer, jobs, asked)
        params = asked.kv_transfer_params if isinstance(asked, WithTransfer) else None
        if params is not None and params.do_remote_decode and has_ended_well(found):
            found[FIELD] = {
                "do_remote_prefill": True,
                "do_remote_decode": False,
                "remote_block_ids": [],
                "remote_engine_id": self.engine_id,
                "remote_request_id": params.remote_request_id,
                "remote_host": self.transfer.kv_ip,
                "remote_port": self.transfer.kv_port,
                "remote_num_tokens": found["usage"]["prompt_tokens"],
                "tp_size": 1,
            }
        return found


def has_ended_well(found: Any) -> bool:
    """Whether the blocks of all choices are there to be lent."""
    return all(choice["finish_reason"] != "abort" for choice in found["choices"])


OWN: dict[str, Callable[..., Any]] = {
    "/v1/chat/completions": RoleApi.chat_apart,
    "/v1/completions": RoleApi.completion_apart,
}
