"""The process in which labkit.kernels.in_c calls a learner's C: the file is run as it is, `python c_process.py`.

A wild address ends this process, and costs one test. So that it does end it, the kernel is called twice: with arrays
that end where a page ends, and with arrays that begin where a page begins. The pages around them may not be touched,
and what a kernel may only read lies in memory that cannot be written. What an array's own pages hold beside it are
bytes of 255, which is NaN as a float and -1 as an integer.

It needs the standard library alone, and imports neither labkit nor torch, so that it starts in a moment.
"""

import ctypes
import json
import math
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 2  # of the processor, for one call
STACK = 1 << 20  # bytes: a kernel that keeps a number for each position needs more
MEMORY = 3 << 20  # bytes: the stack, and what the kernel may allocate
PAGE = mmap.PAGESIZE
ARRAYS = ("output", "query", "key_cache", "value_cache", "block_tables", "seq_lens")
SIZES = ("num_seqs", "num_heads", "num_kv_heads", "head_dim", "block_size", "max_blocks")
HEADER = """
#include <stdint.h>
#define INFINITY __builtin_inff()
float expf(float);

typedef struct {
    float *output;
    const float *query, *key_cache, *value_cache;
    const int32_t *block_tables, *seq_lens;
    int64_t num_seqs, num_heads, num_kv_heads, head_dim, block_size, max_blocks;
    float scale;
} Decode;

#line 1 "mine.c"
"""


class Call(ctypes.Structure):
    """Decode in HEADER."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ARRAYS),
        *((name, ctypes.c_int64) for name in SIZES),
        ("scale", ctypes.c_float),
    )


class Array:
    """Bytes at the end of their pages, or at the beginning, between two pages that may not be touched."""

    def __init__(self, content: bytes, *, is_constant: bool, at_end: bool) -> None:
        size = -(-max(len(content), 1) // PAGE) * PAGE if content or at_end else 0
        beside = b"\xff" * (size - len(content))
        self.before, self.behind = (beside, b"") if at_end else (b"", beside)
        self.map = mmap.mmap(-1, size + 2 * PAGE)
        self.map[PAGE : PAGE + size] = self.before + content + self.behind
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.address = begin + PAGE + len(self.before)
        for start, length, rights in (
            (begin, PAGE, 0),
            (begin + PAGE, size, mmap.PROT_READ if is_constant else mmap.PROT_READ | mmap.PROT_WRITE),
            (begin + PAGE + size, PAGE, 0),
        ):
            ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(length), rights)

    @property
    def content(self) -> bytes:
        """What it holds now."""
        return self.map[PAGE + len(self.before) : len(self.map) - PAGE - len(self.behind)]

    @property
    def changed(self) -> str:
        """Which of the memory beside it was written: "before", "behind" or nothing."""
        end = len(self.map) - PAGE
        if self.map[PAGE : PAGE + len(self.before)] != self.before:
            return "before"
        return "behind" if self.map[end - len(self.behind) : end] != self.behind else ""


def main() -> None:
    """Read an order from standard input, carry it out, and answer with a line of JSON and the bytes of the output."""
    sys.path.insert(0, str(ROOT))  # for mini_vllm.native
    channel = os.dup(1)
    os.dup2(2, 1)  # what the kernel prints is no answer
    order = json.loads(sys.stdin.buffer.readline())
    contents = {name: sys.stdin.buffer.read(size) for name, size in order["bytes"].items()}
    answer, output = run(order, contents)
    with open(channel, "wb") as answers:
        answers.write(json.dumps(answer).encode() + b"\n" + output)
    os._exit(0)  # what the kernel has broken may show at the end


def run(order: Mapping[str, Any], contents: Mapping[str, bytes]) -> tuple[dict[str, Any], bytes]:
    """Compile and call. Returns what is wrong, if anything is, and the output; of rounds the fastest in seconds."""
    from mini_vllm.native import c_compiler

    with suppress(OSError):
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)  # expf
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "mine.c")
        source.write_text(HEADER + order["source"], encoding="utf-8")
        before = address_space()
        try:
            function = c_compiler.load_library(source).decode
        except (c_compiler.CannotBuildError, AttributeError) as error:
            return {"refused": str(error)}, b""
    if address_space() - before > MEMORY:
        return {"static": address_space() - before}, b""
    num_rounds = order.get("num_rounds", 0)
    function.restype = None
    found: dict[str, Any] = {}
    placed = [arrays_of(contents, at_end) for at_end in (True, False)[: 1 if num_rounds else 2]]
    limit_memory()
    for arrays in placed:
        decode = partial(function, ctypes.byref(call_of(arrays, order)))
        limit_time(SECONDS * (1 + num_rounds))
        decode()
        if num_rounds:
            found["seconds"] = min(seconds_of(decode) for _ in range(num_rounds))
        if where := arrays["output"].changed:
            found["changed"] = f"the memory {where} the output"
    return found, placed[-1]["output"].content


def arrays_of(contents: Mapping[str, bytes], at_end: bool) -> dict[str, Array]:
    return {name: Array(content, is_constant=name != "output", at_end=at_end) for name, content in contents.items()}


def call_of(arrays: Mapping[str, Array], order: Mapping[str, Any]) -> Call:
    """What the kernel gets. The blocks before the first one are nowhere."""
    call = Call(**{name: array.address for name, array in arrays.items()}, **order["sizes"], scale=order["scale"])
    block = 4 * math.prod(order["sizes"][name] for name in ("num_kv_heads", "block_size", "head_dim"))
    call.key_cache -= order["first_block"] * block
    call.value_cache -= order["first_block"] * block
    return call


def seconds_of(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def address_space() -> int:
    """The bytes that this process has mapped; 0 where the system does not say."""
    with suppress(FileNotFoundError):
        return PAGE * int(Path("/proc/self/statm").read_text().split()[0])
    return 0


def limit_memory() -> None:
    """The bound of the memory for the calls, where the system says how much there is; and that of the stack."""
    import resource

    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what this process has freed is not the kernel's
    if num_bytes := address_space():
        resource.setrlimit(resource.RLIMIT_AS, (num_bytes + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def limit_time(seconds: int) -> None:
    """The bound for a call. seconds: of the processor."""
    import resource

    most = math.ceil(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


if __name__ == "__main__":
    main()
