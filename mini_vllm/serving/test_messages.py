"""What travels between the processes, and how many shapes a token has on its way."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, get_type_hints

import msgspec
import pytest

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import GrammarError, RequestFailedError
from mini_vllm.frontend.output_processor import OutputProcessor, RequestOutput
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.serving import messages
from mini_vllm.serving.engine_process import EngineLoop
from mini_vllm.serving.messages import Add, Command, Event, Message, StepDone, Stop
from mini_vllm.serving.openai.answers import Answer, Json, event
from mini_vllm.step import Logprob, PromptLogprobs, SampledToken, StepOutput, TokenDelta
from mini_vllm.test_request import ALLOWED

ROW = {7: Logprob(-0.5, 1), 3: Logprob(float("-inf"), 9)}
DELTAS = [
    TokenDelta(
        "a",
        [SampledToken(7, None), SampledToken(3, ROW)],
        "length",
        4,
        time=1.5,
        scheduled_time=0.5,
    ),
    TokenDelta("b", [], prompt_logprobs=PromptLogprobs(1, [ROW, ROW]), num_preemptions=2),
    TokenDelta("c", [], "error", error="request 'c': why", is_refused=True),
]


def test_a_delta_travels_as_it_is() -> None:
    data = msgspec.msgpack.encode(StepDone(DELTAS, None, None, 1, 2, 0.5))
    done = msgspec.msgpack.decode(data, type=Event)
    assert isinstance(done, StepDone)
    assert done.deltas == DELTAS
    assert [type(delta) for delta in done.deltas] == [TokenDelta] * 3
    assert [type(token) for token in done.deltas[0].tokens] == [SampledToken] * 2


@pytest.mark.parametrize(("name", "value"), [(k, v) for k in ALLOWED for v in ALLOWED[k]])
def test_a_request_is_the_same_in_the_engine_process(name: str, value: Any) -> None:
    params = SamplingParams(**{name: value})
    data = msgspec.msgpack.encode(Add.of([Request("a", [1], params)]))
    (request,) = msgspec.msgpack.decode(data, type=Command).requests()
    assert request.sampling_params == params


@pytest.mark.parametrize(
    ("is_refused", "kind"), [(False, RequestFailedError), (True, GrammarError)]
)
def test_the_front_makes_the_error_of_the_text(is_refused: bool, kind: type[Exception]) -> None:
    processor = OutputProcessor(None)
    processor.add_request("c", None, [Request("c", [1], SamplingParams())])
    delta = TokenDelta("c", [], "error", error="request 'c': why", is_refused=is_refused)
    ((output,), _) = processor.process([delta])
    error = output.outputs[0].error
    assert (type(error), str(error)) == (kind, "request 'c': why")


def test_a_token_has_four_shapes_between_the_runner_and_a_client() -> None:
    """Each stage takes what the one before it gives, and no message is a copy of what it
    carries.
    """
    stages: list[Any] = [EngineCore.finish_step, OutputProcessor.process, Answer.chunks, event]
    taken = [set(get_type_hints(stage).values()) for stage in stages]
    shapes: list[Any] = [StepOutput, Sequence[TokenDelta], RequestOutput, Mapping[str, object]]
    for shape, hints in zip(shapes, taken, strict=True):
        assert shape in hints
    given = [get_type_hints(stage)["return"] for stage in stages]
    outputs = tuple[list[RequestOutput], list[str]]
    assert given == [list[TokenDelta], outputs, AsyncGenerator[Json], bytes]
    assert get_type_hints(StepDone)["deltas"] == list[TokenDelta]
    structs = [
        each
        for each in vars(messages).values()
        if isinstance(each, type) and issubclass(each, Message)
    ]
    assert StepDone in structs
    for struct in structs:
        assert len({*struct.__struct_fields__} & {*TokenDelta._fields}) <= 1, struct


def test_a_loop_runs_on_the_classes_that_it_is_given() -> None:
    """Another core and another scheduler, from a command to its tokens."""

    class Counting(RecoveringCore):
        num_begun = 0

        def begin_step(self) -> Step:
            Counting.num_begun += 1
            return super().begin_step()

    class LastComeFirstServed(Scheduler):
        def _enqueue(self, request: Request) -> None:
            self.waiting.appendleft(request)

    config = EngineConfig("tiny", device="cpu", dtype="float32", num_kv_blocks=40, max_num_seqs=1)
    loop = EngineLoop(config, core_cls=Counting, scheduler_cls=LastComeFirstServed)
    requests = [Request(name, [5, 6, 7], SamplingParams(max_tokens=2, seed=1)) for name in "ab"]
    commands: list[list[Command]] = [[Add.of([request]) for request in requests]]
    sent: list[Event] = []

    def take(wait: bool) -> list[Command]:
        return commands.pop(0) if commands else [Stop()] if wait else []

    loop.run(take, sent.append)
    deltas = [delta for event in sent if isinstance(event, StepDone) for delta in event.deltas]
    assert [delta.request_id for delta in deltas] == ["b", "b", "a", "a"]
    assert Counting.num_begun == 4
    assert type(loop.core.scheduler) is LastComeFirstServed
