"""Lab 01.9's part of the reference: the decode kernel as a text in C, and what calls it.

A learner's C cannot be graded in the process that runs the tests: it may crash, and that process refuses ctypes to a
learner's file (labkit.grade.confined). So each call has a process of its own (labkit.kernels.c_process). There the
kernel is called twice, with its arrays at the end and at the beginning of pages. The pages around them may not be
touched, so a kernel that leaves its arrays is killed by a signal, and the test that called it says so.
"""

import atexit
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from labkit.kernels.c_process import MEMORY, SECONDS, STACK
from labkit.labs.catalog import ROOT
from labkit.testing.words import LabFailure

BACKSTOP = 60.0  # seconds on the wall, of a process that sleeps
SIGNALS = {"SIGSEGV": "a wild address", "SIGBUS": "a wild address", "SIGFPE": "a division by 0"}


def decode_source() -> str:
    """The kernel in C. The text begins behind these lines, which stand before it:

        #include <stdint.h>
        #define INFINITY __builtin_inff()
        float expf(float);

        typedef struct {
            float *output;                        // [num_seqs, num_heads, head_dim]
            const float *query;                   // the same
            const float *key_cache, *value_cache; // [num_blocks, num_kv_heads, block_size, head_dim]
            const int32_t *block_tables;          // [num_seqs, max_blocks]
            const int32_t *seq_lens;              // [num_seqs]
            int64_t num_seqs, num_heads, num_kv_heads, head_dim, block_size, max_blocks;
            float scale;
        } Decode;

    It has a function `void decode(const Decode *d)`, which fills d->output.
    """
    return r"""
void decode(const Decode *d) {
    int64_t group_size = d->num_heads / d->num_kv_heads;
    for (int64_t row = 0; row < d->num_seqs * d->num_heads; row++) {
        int64_t seq = row / d->num_heads, kv_head = row % d->num_heads / group_size;
        const float *query = d->query + row * d->head_dim;
        double sum[d->head_dim], maximum = -INFINITY, normaliser = 0;  // float would round once for each position
        for (int64_t c = 0; c < d->head_dim; c++) sum[c] = 0;
        for (int64_t position = 0; position < d->seq_lens[seq]; position++) {
            int64_t block = d->block_tables[seq * d->max_blocks + position / d->block_size];
            int64_t slot = (block * d->num_kv_heads + kv_head) * d->block_size + position % d->block_size;
            const float *key = d->key_cache + slot * d->head_dim, *value = d->value_cache + slot * d->head_dim;
            double score = 0;
            for (int64_t c = 0; c < d->head_dim; c++) score += (double)query[c] * key[c];
            score *= d->scale;
            double largest = score > maximum ? score : maximum;
            float factor = expf(maximum - largest), weight = expf(score - largest);
            for (int64_t c = 0; c < d->head_dim; c++) sum[c] = sum[c] * factor + weight * value[c];
            normaliser = normaliser * factor + weight;
            maximum = largest;
        }
        for (int64_t c = 0; c < d->head_dim; c++)
            d->output[row * d->head_dim + c] = normaliser > 0 ? sum[c] / normaliser : 0;
    }
}
"""


def decode(
    query: Sequence[float],
    key_cache: Sequence[float],
    value_cache: Sequence[float],
    block_tables: Sequence[int],
    seq_lens: Sequence[int],
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    block_size: int,
    scale: float,
    first_block: int = 0,
) -> list[float]:
    """Compile decode_source(), and call it: the output [num_seqs, num_heads, head_dim], flat as all arrays are.

    A cache may end behind the last number that is needed.

    first_block: the id of the first block in the caches; the memory of those before it does not exist.
    Errors: LabFailure if the text is refused, if the call does not come back, and if it writes elsewhere.
    """
    num_seqs = len(seq_lens)
    sizes = {"num_seqs": num_seqs, "num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
    sizes |= {"block_size": block_size, "max_blocks": len(block_tables) // max(num_seqs, 1)}
    contents = {name: array("f", values).tobytes() for name, values in (("query", query), ("key_cache", key_cache))}
    contents |= {"value_cache": array("f", value_cache).tobytes(), "output": b"\xff" * (4 * len(query))}
    contents |= {"block_tables": array("i", block_tables).tobytes(), "seq_lens": array("i", seq_lens).tobytes()}
    shape = f"num_heads {num_heads}, num_kv_heads {num_kv_heads}, head_dim {head_dim}, block_size {block_size}"
    state = f"seq_lens {list(seq_lens)}\n{shape}\nscale {scale:g}, first block {first_block}"
    _, output = order(decode_source(), sizes, contents, state, scale=scale, first_block=first_block)
    return array("f", output).tolist()


def order(
    source: str, sizes: Mapping[str, int], contents: Mapping[str, bytes], state: str, **options: float
) -> tuple[dict[str, Any], bytes]:
    """Compile a text, and call it in a process of its own: what the process says, and the bytes of the output.

    options: scale, first_block and num_rounds of c_process. Errors: LabFailure as decode() has it; state: for that.
    """
    if not isinstance(source, str):
        raise LabFailure("what decode_source() returns", "a text", type(source).__name__)
    told = {"source": source, "sizes": sizes, "scale": 0.125, "first_block": 0, "num_rounds": 0, **options}
    told["bytes"] = {name: len(content) for name, content in contents.items()}
    answer, output = call(json.dumps(told).encode() + b"\n" + b"".join(contents.values()), state)
    if "refused" in answer:
        raise LabFailure("the C text", "it compiles, and has a function decode", why_refused(answer["refused"]))
    if "static" in answer:
        most, got = (f"{size / 2**20:.0f} MiB" for size in (MEMORY - STACK, answer["static"]))
        raise LabFailure("the memory of static arrays in the C text", f"at most {most}", got)
    if "changed" in answer:
        raise LabFailure("what is written beside the output", "nothing", answer["changed"], state)
    return answer, output


class Measured(NamedTuple):
    """What a decode of the sizes MEASURED takes. num_bytes: of keys and values, which it has to read once."""

    seconds: float
    num_bytes: int


MEASURED = "32 sequences of 2,048 positions, 8 heads over 4 KV heads of 64 numbers"
READER = """
typedef uint64_t __attribute__((may_alias)) word;

void decode(const Decode *d) {
    const word *key = (const word *)d->key_cache, *value = (const word *)d->value_cache;
    int64_t size = d->num_seqs * d->max_blocks * d->num_kv_heads * d->block_size * d->head_dim;
    word sum = 0;
    for (int64_t i = 0; i < size / 2; i++) sum += key[i] + value[i];
    d->output[0] = (float)sum;
}
"""  # reads what a decode has to read, and nothing else


def measure(source: str, num_rounds: int = 5) -> Measured:
    """The fastest of some calls of a kernel. Few processors' caches hold the keys and values of MEASURED.

    Errors: LabFailure as decode() has it.
    """
    rng, block_size, num_blocks = random.Random(0), 16, 32 * 128
    sizes = {"num_seqs": 32, "num_heads": 8, "num_kv_heads": 4, "head_dim": 64, "block_size": block_size}
    some = array("f", (rng.uniform(-1, 1) for _ in range(block_size * 64)))
    cache, ids = (some * (4 * num_blocks)).tobytes(), rng.sample(range(num_blocks), num_blocks)
    contents = {"query": (some * 16).tobytes(), "key_cache": cache, "value_cache": cache}
    contents |= {"block_tables": array("i", ids).tobytes(), "seq_lens": array("i", [2048] * 32).tobytes()}
    contents["output"] = b"\xff" * len(contents["query"])
    answer, _ = order(source, sizes | {"max_blocks": num_blocks // 32}, contents, MEASURED, num_rounds=num_rounds)
    return Measured(answer["seconds"], 2 * len(cache))


def call(order: bytes, state: str) -> tuple[dict[str, Any], bytes]:
    """The answer of a process to an order. Errors: LabFailure that says how it ended instead."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(ROOT / "labkit" / "kernels" / "c_process.py")]
    environment = {**os.environ, "XDG_CACHE_HOME": libraries()}
    try:
        done = subprocess.run(command, input=order, stdout=subprocess.PIPE, env=environment, timeout=BACKSTOP)
    except subprocess.TimeoutExpired:
        how = "it did not come back, and did nothing"
        raise LabFailure("the call  decode()", "it comes back", how, state) from None
    if done.returncode or b"\n" not in done.stdout:
        raise LabFailure("the call  decode()", "it comes back", how_it_ended(done.returncode), state)
    answer, _, output = done.stdout.partition(b"\n")
    return json.loads(answer), output


def how_it_ended(status: int) -> str:
    """The status of a process in which the kernel ran, in words."""
    name = signal.Signals(-status).name if status < 0 else ""
    if name == "SIGXCPU":
        return f"it did not come back within {SECONDS} s"
    if name:
        return f"the kernel was killed by signal {-status} ({name}{': ' + SIGNALS[name] if name in SIGNALS else ''})"
    return f"the kernel ended its process (exit status {status})"


def why_refused(reason: str) -> str:
    """What the compiler said, from the place in the text on: "mine.c:3:5: error: ..."."""
    return reason[reason.rfind("mine.c:") :] if "mine.c:" in reason.partition("mine.c: ")[2] else reason


@cache
def libraries() -> str:
    """Where this process keeps what was compiled, so that each text is compiled once."""
    folder = tempfile.mkdtemp(prefix="lab-c-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
