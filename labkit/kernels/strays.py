"""What a kernel touches outside of its tensors, and what two of its programs write at once.

Triton's interpreter guards nothing: a place outside of a tensor is read, or overwritten, or ends the process. It runs
one program after the other, so the later of two writes always wins, which on a GPU is chance. Within watched() each
place is looked up first:

    with watched(query=query, output=output) as strays:
        kernel[grid](output, query, ...)
    see("what is touched outside", strays, equals=[])

A number outside is read as 0 and never written, so the kernel goes on. A compiled kernel is not watched.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch


class Place(NamedTuple):
    """Where a tensor lies. A kernel sees its numbers `shift` bytes behind its pointer."""

    name: str
    start: int
    stop: int
    itemsize: int
    shift: int


def place_of(name: str, tensor: Any, far: int) -> Place:
    """The bytes from a tensor's first number to its last one."""
    start, size = tensor.data_ptr(), tensor.element_size()
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    stop = start + (last + 1) * size if tensor.numel() else start
    return Place(name, start, stop, size, far * size)


@contextmanager
def watched(far: Mapping[str, int] | None = None, first_program: int = 0, **tensors: Any) -> Iterator[list[str]]:
    """Kernels in this block should touch these tensors only. Gives a list with the first other place that they touch.

    far: {name: n}, a tensor that is to be seen n numbers behind its pointer, as the end of a large one would be.
    first_program: the number of the first program, so that those of a launch are the last of a large one.
    """
    strays: list[str] = []
    try:
        from triton.runtime import interpreter
        from triton.runtime.interpreter import InterpreterBuilder
    except ImportError:
        yield strays
        return
    watch = Watch([place_of(name, each, (far or {}).get(name, 0)) for name, each in tensors.items()], strays)
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def watched_load(builder: Any, ptrs: Any, mask: Any, other: Any, *options: Any, **named: Any) -> Any:
        ptrs, allowed = watch.look_up(builder, ptrs, mask, "reads")
        found = load(builder, ptrs, allowed, other, *options, **named)
        found.data[mask.data.astype(bool) & ~allowed.data] = 0
        return found

    def watched_store(builder: Any, ptrs: Any, value: Any, mask: Any, *options: Any, **named: Any) -> Any:
        ptrs, allowed = watch.look_up(builder, ptrs, mask, "writes")
        return store(builder, ptrs, value, allowed, *options, **named)

    def set_grid_idx(builder: Any, x: int, y: int, z: int) -> None:
        builder.grid_idx = (first_program + x, y, z)

    def patch_lang(function: Any) -> Any:
        return SimpleNamespace(restore=int) if is_patched(function) else patch_lang_again(function)

    patch_lang_again = interpreter._patch_lang
    with (
        patch.object(interpreter, "_patch_lang", patch_lang),
        patch.object(InterpreterBuilder, "set_grid_idx", set_grid_idx),
        patch.object(InterpreterBuilder, "create_masked_load", watched_load),
        patch.object(InterpreterBuilder, "create_masked_store", watched_store),
    ):
        yield strays


def is_patched(function: Any) -> bool:
    """Whether the interpreter's language is in place already, as it is for the helpers that a kernel calls.

    The interpreter puts it there again at each call of a helper, which takes as long as the rest of the kernel.
    """
    import triton.language as tl

    languages = [value for value in function.__globals__.values() if value is tl or value is tl.core]
    return bool(languages) and not any(
        tl.core.is_builtin(each) for lang in languages for each in (lang.load, lang.tensor.__add__)
    )


class Watch:
    """Looks up places, and remembers which program wrote where."""

    def __init__(self, places: list[Place], strays: list[str]) -> None:
        self.places = places
        self.strays = strays
        self.writers: dict[int, tuple[int, ...]] = {}

    def look_up(self, builder: Any, ptrs: Any, mask: Any, verb: str) -> tuple[Any, Any]:
        """The pointers where the numbers really are, and the mask without those that are nowhere."""
        import numpy as np
        from triton.runtime.interpreter import TensorHandle

        wanted = np.asarray(mask.data, dtype=bool)
        real, allowed = ptrs.data.copy(), np.zeros(ptrs.data.shape, dtype=bool)
        for place in self.places:
            inside = (ptrs.data >= np.uint64(place.start + place.shift)) & (
                ptrs.data < np.uint64(place.stop + place.shift)
            )
            real[inside] = ptrs.data[inside] - np.uint64(place.shift)
            allowed |= inside
        outside = ptrs.data[wanted & ~allowed]
        program = tuple(builder.grid_idx[:2])
        if outside.size:
            self.tell(f"program {program} {verb} {self.describe(int(outside.flat[0]))}")
        if verb == "writes":
            for address in real[wanted & allowed].tolist():
                writer = self.writers.setdefault(address, program)
                if writer != program:
                    self.tell(f"programs {writer} and {program} both write {self.describe(address)}")
        return TensorHandle(real, ptrs.dtype), TensorHandle(wanted & allowed, mask.dtype)

    def tell(self, line: str) -> None:
        """The first stray is enough: one wrong mask brings hundreds."""
        if not self.strays:
            self.strays.append(line)

    def describe(self, address: int) -> str:
        """A place, as a number of the nearest tensor."""

        def distance(place: Place) -> int:
            return max(place.start - address, address - (place.stop + place.shift) + 1, 0)

        nearest = min(self.places, key=distance)
        number = (address - nearest.start) // nearest.itemsize
        first = nearest.shift // nearest.itemsize
        last = first + (nearest.stop - nearest.start) // nearest.itemsize - 1
        return f"number {number} of {nearest.name}, which has {first} to {last}"
