"""What records a forward and runs it again on the same memory: a CUDA graph, or on a CPU a list of
closures.

A recording is a list of calls without arguments. Where the model calls break_at(), the recording
ends, the function given runs as it is, now and in every replay, and a new recording begins; so a
forward breaks at attention without a compiler that takes the model apart (vLLM:
BreakableCUDAGraphCapture in vllm/compilation/breakable_cudagraph.py, after an idea of SGLang's).
"""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mini_vllm.native.c_compiler import launch

Call = Callable[[], Any]

WAITING = {"aten::_local_scalar_dense", "aten::nonzero"}  # the host waits for the device


class MovedBufferError(RuntimeError):
    """A buffer that a recording reads is no longer where it was: a replay would read old memory."""


class WaitsForDeviceError(RuntimeError):
    """The forward asks the device for a number, which nothing that is recorded can do."""


class Recording:
    """The list of calls; a subclass says what records."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def replay(self) -> None:
        """Run all of it again."""
        for call in self.calls:
            call()

    def break_at(self, function: Call) -> None:
        """Run a function outside of what is recorded, now and at this place of every replay."""
        self.end()
        function()
        self.calls.append(function)
        self.begin()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError


class CUDARecording(Recording):
    """CUDA graphs between the breaks. Recordings of one pool use each other's memory again, so only
    the last one's results are good.
    """

    def __init__(self, pool: Any) -> None:
        super().__init__()
        self.pool = pool
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        self.context = torch.cuda.stream(self.stream)
        self.context.__enter__()  # type: ignore[no-untyped-call]
        self.graph = torch.cuda.CUDAGraph()
        self.graph.capture_begin(pool=self.pool)

    def end(self) -> None:
        self.graph.capture_end()
        self.context.__exit__(None, None, None)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.calls.append(self.graph.replay)


class CPURecording(Recording):
    """The operators of torch, and the kernels in C and Triton, each with the very memory that it
    ran on.

    What a CUDA graph could not take is refused here, too, so it is the test of a recording on every
    machine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []  # their memory stays

    def begin(self) -> None:
        self.mode = OperatorRecorder(self.calls, self.tensors)
        self.token = launch.set(self.mode.launch)
        self.mode.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        self.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        launch.reset(self.token)


class OperatorRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator, and appends to `calls` what repeats it."""

    def __init__(self, calls: list[Call], tensors: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls, self.tensors = calls, tensors
        self.is_in_kernel = False

    def launch(self, kernel: Any, *call: ctypes.Structure) -> None:
        """A kernel: the arguments of one in C have addresses, and may be changed for the next
        layer. What the interpreter of Triton asks of torch is no part of the forward.
        """
        kept = [type(each).from_buffer_copy(each) for each in call]
        again = partial(kernel, *map(ctypes.byref, kept))
        self.is_in_kernel = True
        again()
        self.is_in_kernel = False
        self.calls.append(again)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.is_in_kernel:
            return func(*args, **kwargs)
        if func.name() in WAITING:
            raise WaitsForDeviceError(f"{func} waits for the device and cannot be recorded")
        output = func(*args, **kwargs)
        results = tensors_of(output)
        self.tensors += results
        if func._schema.is_mutable:
            self.calls.append(lambda: func(*args, **kwargs))
        elif not is_view(results, tensors_of((args, kwargs))) and "empty" not in func.__name__:
            self.calls.append(lambda: copy_to(results, tensors_of(func(*args, **kwargs))))
        return output


def tensors_of(tree: Any) -> list[Tensor]:
    """All tensors in arguments or results."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def is_view(results: list[Tensor], sources: list[Tensor]) -> bool:
    """Whether the results have no memory of their own, so that nothing has to be repeated."""
    owned = {memory_of(each) for each in sources if not each.is_mkldnn}
    return all(memory_of(each) in owned for each in results)


def memory_of(x: Tensor) -> int:
    """Where the memory begins that a tensor is a view of."""
    return x.untyped_storage().data_ptr()


def copy_to(old: list[Tensor], new: list[Tensor]) -> None:
    """Bring new results to where the old ones are."""
    for target, source in zip(old, new, strict=True):
        target.copy_(source)
