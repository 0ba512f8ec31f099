"""The outputs of the engine for one HTTP request: of all its prompts, in time, as one answer or as
events.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from mini_vllm.errors import GrammarError
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.params import SamplingParams
from mini_vllm.serving.async_engine import AsyncEngine, QueueTimeoutError, RequestTimeoutError
from mini_vllm.serving.openai.answers import Answer, event
from mini_vllm.serving.openai.errors import log_failure, refusals, to_api_error
from mini_vllm.serving.openai.protocol import ApiError, SharedRequest
from mini_vllm.serving.options import ServerOptions

Job = tuple[Sequence[int], SamplingParams]  # a prompt and how to sample


@dataclass(frozen=True)
class Generation:
    """What the engine generates for one HTTP request. jobs: one for each of its prompts."""

    engine: AsyncEngine
    options: ServerOptions
    asked: SharedRequest
    answer: Answer
    jobs: Sequence[Job]

    async def whole(self) -> Any:
        """The body of an answer that is not streamed."""
        with refusals(self.answer.prompt_field):
            async with aclosing(self._outputs()) as outputs:
                last = {prompt: output async for prompt, output in outputs}
        return await self.answer.whole(sorted(last.items()))

    async def events(self) -> AsyncGenerator[bytes]:
        """The events of a stream. An error before the first is raised, a later one is an event."""
        has_begun = False
        try:
            async with aclosing(self._outputs()) as outputs:
                async for prompt, output in outputs:
                    async for chunk in self.answer.chunks(prompt, output):
                        has_begun = True
                        yield event(chunk)
            for chunk in self.answer.last_chunks():
                yield event(chunk)
        except Exception as error:
            refused = to_api_error(error, self.answer.prompt_field)
            if not has_begun:
                raise refused from error
            log_failure(refused, error, self.asked.request_id or "")
            yield event(self.answer.failed(refused))
        yield self.answer.end

    async def _outputs(self) -> AsyncGenerator[tuple[int, RequestOutput]]:
        """The outputs of all prompts as they come, each with the number of its prompt.

        An error is raised.
        """
        with self.engine.admission.holding(self.asked.user or "", self.answer.num_held_bytes):
            # a client may give two requests one id, and the engine must tell them apart
            name = self.answer.id + secrets.token_hex(4)
            if len(self.jobs) == 1:
                async with aclosing(self._outputs_of(name, *self.jobs[0])) as outputs:
                    async for output in outputs:
                        yield 0, output
                return
            arrived: asyncio.Queue[tuple[int, RequestOutput] | asyncio.Task[None]] = asyncio.Queue()

            async def collect(number: int, job: Job) -> None:
                async with aclosing(self._outputs_of(f"{name}-{number}", *job)) as outputs:
                    async for output in outputs:
                        arrived.put_nowait((number, output))

            tasks: list[asyncio.Task[None]] = []
            try:
                for each in enumerate(self.jobs):
                    tasks.append(asyncio.create_task(collect(*each)))
                    tasks[-1].add_done_callback(arrived.put_nowait)
                    await asyncio.sleep(0)  # other clients are served between two prompts
                num_left = len(tasks)
                while num_left:
                    new = await arrived.get()
                    if isinstance(new, tuple):
                        yield new
                    else:
                        num_left -= 1
                        new.result()  # which raises what has ended it
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _outputs_of(
        self, request_id: str, prompt: Sequence[int], params: SamplingParams
    ) -> AsyncGenerator[RequestOutput]:
        """The outputs of a prompt, in time. An error that ends it is raised."""
        outputs = self.engine.generate(request_id, prompt, params, **self.asked.request_options())
        try:
            async with aclosing(outputs):
                async for output in within(
                    outputs, self.options.queue_timeout, self.options.request_timeout
                ):
                    for choice in output.outputs:
                        if choice.error is not None:
                            raise choice.error
                    yield output
        except GrammarError as error:
            form = self.asked.form()
            # the fields that leave no token together
            named = self.asked.model_fields_set.intersection(str(error).split())
            param = min(named, default=form[0] if form else "tools")
            raise ApiError(400, str(error), param) from error


async def within(
    outputs: AsyncGenerator[RequestOutput],
    queue_timeout: float | None,
    request_timeout: float | None,
) -> AsyncGenerator[RequestOutput]:
    """The same outputs.

    Raises QueueTimeoutError if the first takes too long, RequestTimeoutError if all do.
    """
    loop = asyncio.get_running_loop()
    end = None if request_timeout is None else loop.time() + request_timeout
    while True:
        try:
            async with asyncio.timeout_at(end), asyncio.timeout(queue_timeout) as first:
                output = await anext(outputs, None)
        except TimeoutError:
            if first.expired():
                raise QueueTimeoutError(
                    f"no token came within {queue_timeout} seconds: the server is busy"
                ) from None
            raise RequestTimeoutError(
                f"the request has taken more than {request_timeout} seconds"
            ) from None
        if output is None:
            return
        queue_timeout = None
        yield output
