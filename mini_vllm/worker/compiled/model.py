"""The compiled forward of a model."""

import logging
import time
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from mini_vllm.attention import PagedAttention
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.worker.compiled.attention import OperatorAttention, no_attention, step

logger = logging.getLogger("mini_vllm")

SIZES = (2, 1)  # of a step: any number of tokens from 2 on, and one


class CompiledModel:
    """A model whose forward() is compiled; all else is the model's own.

    backend: a name that torch.compile knows, or a function of its own.
    """

    def __init__(self, model: DecoderModel, backend: str | Callable[..., Any]) -> None:
        self.model = model
        self._attend: Any = OperatorAttention()
        own = MethodType(copy_of(type(model).forward), model)
        self._forward = torch.compile(own, backend=backend, fullgraph=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    @torch.inference_mode()
    def compile(self, device: torch.device) -> None:
        """Make all graphs, before the first request; inductor keeps them on disk for the next
        start.
        """
        for number, size in enumerate(SIZES, 1):
            started = time.perf_counter()
            input_ids = torch.zeros(size, dtype=torch.int64, device=device)
            positions = torch.zeros_like(input_ids)
            if size > 1:
                torch._dynamo.mark_dynamic(input_ids, 0)
                torch._dynamo.mark_dynamic(positions, 0)
            self.forward(input_ids, positions, no_attention)
            seconds = time.perf_counter() - started
            logger.info("compiled graph %d of %d in %.1f s", number, len(SIZES), seconds)

    def forward(self, input_ids: Tensor, positions: Tensor, attend: PagedAttention | Any) -> Tensor:
        """As DecoderModel.forward."""
        token = step.set(attend)
        try:
            hidden: Tensor = self._forward(input_ids, positions, self._attend)
            return hidden
        finally:
            step.reset(token)


def copy_of(function: Callable[..., Any]) -> FunctionType:
    """The same function with code of its own: torch keeps graphs with the code, and few of them, so
    the engines of a process would share these few.
    """
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
