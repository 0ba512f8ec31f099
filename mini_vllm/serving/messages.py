"""What crosses the boundary between the front process and the engine process: commands there,
events back.

Token ids only, no text and no pickle: msgpack, which msgspec checks against these types when it
reads. Source: EngineCoreRequest, EngineCoreOutputs and EngineCoreRequestType in
vllm/v1/engine/__init__.py.
"""

import msgspec

from mini_vllm.observe.stats import SchedulerStats
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.offload.remote.work import TransferStats
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.spec_decode.scheduler import SpeculationStats
from mini_vllm.step import TokenDelta


class Message(msgspec.Struct, tag=True, array_like=True):
    """Base of all: a tagged array."""


# --- commands -------------------------------------------------------------------------------------


class Add(Message):
    """The choices of one prompt, one request id each."""

    request_ids: list[str]
    prompt_token_ids: list[int]
    sampling_params: SamplingParams
    eos_token_ids: list[int]
    arrival_time: float
    priority: int
    cache_salt: str | None
    client: str = ""

    @classmethod
    def of(cls, requests: list[Request]) -> "Add":
        """The command that adds these requests, which differ in nothing but their ids and
        places.
        """
        first = requests[0]
        return cls(
            [request.request_id for request in requests],
            first.prompt_token_ids,
            first.sampling_params,
            sorted(first.eos_token_ids),
            first.arrival_time,
            first.priority,
            first.cache_salt,
            first.client,
        )

    def requests(self) -> list[Request]:
        """The requests again."""
        return [
            Request(
                request_id,
                self.prompt_token_ids,
                self.sampling_params,
                eos_token_ids=self.eos_token_ids,
                priority=self.priority,
                arrival_time=self.arrival_time,
                cache_salt=self.cache_salt,
                choice_index=index,
                client=self.client,
            )
            for index, request_id in enumerate(self.request_ids)
        ]


class Finish(Message):
    """End requests: "abort", or "stop" when a stop string was seen. Unknown ids are ignored."""

    request_ids: list[str]
    reason: str


class Stop(Message):
    """End the process."""


Command = Add | Finish | Stop


# --- events ---------------------------------------------------------------------------------------


class Ready(Message):
    """The model is loaded. Sizes in tokens; facts: what the log says of model and KV cache."""

    vocab_size: int
    max_model_len: int
    num_slots: int
    facts: list[str]


class StepDone(Message):
    """What one step brought, and how the engine stands after it; without a step, how it
    stands now.
    """

    deltas: list[TokenDelta]
    stats: SchedulerStats | None
    plan: StepPlan | None
    num_running: int
    num_waiting: int
    kv_cache_usage: float
    speculation: SpeculationStats | None = None  # of all steps so far
    tenants: dict[str, tuple[int, int, int]] = {}
    """As TenantScheduler.usage_by_tenant() tells them."""
    expert_loads: dict[int, list[int]] = {}
    """Now and then, as LoadsReader tells them."""
    transfers: TransferStats | None = None
    """Of an engine with a role."""


class Died(Message):
    """The engine has raised. The process ends."""

    error: str


Event = Ready | StepDone | Died
