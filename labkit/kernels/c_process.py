"""The process in which labkit.kernels.in_c calls a learner's C: the file is run as it is, `python c_process.py`.

A wild address ends this process, and costs one test. So that it does end it: each array ends where a page ends, and the
pages around it may not be touched; what a kernel may only read lies in memory that cannot be written. What the array's
own pages hold beside it are bytes of 255, which is NaN as a float and -1 as an integer.

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
    """Bytes at the end of their pages, between two pages that may not be touched."""

    def __init__(self, content: bytes, *, is_constant: bool) -> None:
        size = -(-max(len(content), 1) // PAGE) * PAGE
        self.beside = b"\xff" * (size - len(content))
        self.map = mmap.mmap(-1, size + 2 * PAGE)
        self.map[PAGE : PAGE + size] = self.beside + content
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.address = begin + PAGE + len(self.beside)
        for start, length, rights in (
            (begin, PAGE, 0),
            (begin + PAGE, size, mmap.PROT_READ if is_constant else mmap.PROT_READ | mmap.PROT_WRITE),
            (begin + PAGE + size, PAGE, 0),
        ):
            ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(length), rights)

    @property
    def whole(self) -> bytes:
        """All that its own pages hold now."""
        return self.map[PAGE : len(self.map) - PAGE]


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
    arrays = {name: Array(content, is_constant=name != "output") for name, content in contents.items()}
    call = Call(**{name: array.address for name, array in arrays.items()}, **order["sizes"], scale=order["scale"])
    block = 4 * math.prod(order["sizes"][name] for name in ("num_kv_heads", "block_size", "head_dim"))
    call.key_cache -= order["first_block"] * block  # the blocks before that are nowhere
    call.value_cache -= order["first_block"] * block
    num_rounds = order.get("num_rounds", 0)
    limit(SECONDS * (1 + num_rounds))
    function.restype = None
    function(ctypes.byref(call))
    found: dict[str, Any] = {}
    if num_rounds:
        found["seconds"] = min(seconds_of(lambda: function(ctypes.byref(call))) for _ in range(num_rounds))
    whole, beside = arrays["output"].whole, arrays["output"].beside
    if whole[: len(beside)] != beside:
        found["changed"] = "the memory before the output"
    return found, whole[len(beside) :]


def seconds_of(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def address_space() -> int:
    """The bytes that this process has mapped; 0 where the system does not say."""
    with suppress(FileNotFoundError):
        return PAGE * int(Path("/proc/self/statm").read_text().split()[0])
    return 0


def limit(seconds: int) -> None:
    """Bounds for the calls; that of the memory where the system says how much there is. seconds: of the processor."""
    import resource

    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what this process has freed is not the kernel's
    if num_bytes := address_space():
        resource.setrlimit(resource.RLIMIT_AS, (num_bytes + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for what, most in (
        (resource.RLIMIT_CPU, math.ceil(time.process_time()) + seconds),
        (resource.RLIMIT_STACK, STACK),
    ):
        resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


if __name__ == "__main__":
    main()
