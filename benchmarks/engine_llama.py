"""The rows of engine_rows.py in llama.cpp, by llama-cpp-python's low-level API, on the same weights.

The weights are written as GGUF once, beside the checkpoint: in bfloat16, and in Q8_0 (8 bits, a scale for every 32
numbers). llama.cpp has no way to make a context up, so a decode stands behind a prefill that is not timed, and the
rows whose prefill would take minutes are left out.
"""

import argparse
import ctypes
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine_common import HEAD_DIM, HEADS, HIDDEN, INTERMEDIATE, KV_HEADS, LAYERS, VOCAB_SIZE
from engine_rows import NUM_STEPS, Row, prompts

MAX_TOKENS = 10_000  # of a row's contexts: beyond, the prefill takes longer than a minute
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def tensors(checkpoint: Path) -> Iterator[tuple[str, Any]]:
    """Names and bfloat16 bits (uint16) of a safetensors file; read here, since llama.cpp needs no PyTorch."""
    import numpy as np

    data = np.memmap(checkpoint / "model.safetensors", np.uint8, "r")
    size = int(data[:8].view(np.uint64)[0])
    for name, entry in json.loads(bytes(data[8 : 8 + size])).items():
        if name != "__metadata__":
            first, last = (8 + size + offset for offset in entry["data_offsets"])
            yield name, data[first:last].view(np.uint16).reshape(entry["shape"])


def gguf_name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def make_gguf(checkpoint: Path, kind: str) -> Path:
    """The checkpoint as GGUF, `kind` "BF16" or "Q8_0", unless it is there. The file appears last."""
    import gguf
    import numpy as np

    path = checkpoint / f"{kind}.gguf"
    if path.exists():
        return path
    unfinished = checkpoint / "unfinished.gguf"
    writer = gguf.GGUFWriter(unfinished, "qwen3")
    writer.add_context_length(40_960)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0)
    writer.add_vocab_size(VOCAB_SIZE)
    writer.add_tokenizer_model("no_vocab")
    dtype = gguf.GGMLQuantizationType[kind]
    for name, bits in tensors(checkpoint):
        if bits.ndim == 2 and kind == "BF16":
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(bits).view(np.uint8), raw_dtype=dtype)
            continue
        numbers = (bits.astype(np.uint32) << 16).view(np.float32)
        if bits.ndim == 2:
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(numbers, dtype), raw_dtype=dtype)
        else:
            writer.add_tensor(gguf_name(name), numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.rename(path)
    return path


def llama_rows(args: argparse.Namespace, rows: tuple[Row, ...], kind: str) -> Callable[[Row], float]:
    """A function that measures the seconds of a row."""
    import llama_cpp
    import numpy as np

    llama_cpp.llama_backend_init()
    options = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(str(make_gguf(args.checkpoint, kind)).encode(), options)
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = max(n * (length + NUM_STEPS + 2) for _, n, length in rows)
    settings.n_seq_max = max(n for _, n, _ in rows)
    settings.kv_unified = True
    at_once = 1024
    settings.n_batch, settings.n_ubatch = at_once, 512
    settings.n_threads = settings.n_threads_batch = args.threads
    context = llama_cpp.llama_init_from_model(model, settings)
    if not context:
        raise RuntimeError("llama.cpp made no context")
    batch = llama_cpp.llama_batch_init(at_once, 0, 1)

    def compute(entries: list[tuple[int, int, int, bool]]) -> None:
        """Entries: token, position, sequence, whether logits are wanted."""
        batch.n_tokens = len(entries)
        for i, (token, position, sequence, wanted) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, wanted
        if llama_cpp.llama_decode(context, batch):
            raise RuntimeError("llama.cpp refused a batch")
        for i, entry in enumerate(entries):
            if entry[3]:
                address = llama_cpp.llama_get_logits_ith(context, i)
                numbers = ctypes.cast(address, ctypes.POINTER(ctypes.c_float * VOCAB_SIZE)).contents
                np.frombuffer(numbers, np.float32).argmax()

    def prefill(num_requests: int, length: int) -> None:
        entries = [
            (token, i, sequence, i == length - 1)
            for sequence, prompt in enumerate(prompts(num_requests, length))
            for i, token in enumerate(prompt)
        ]
        for first in range(0, len(entries), at_once):
            compute(entries[first : first + at_once])

    def measure(row: Row) -> float:
        kind_of_row, num_requests, length = row
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        start = time.perf_counter()
        prefill(num_requests, length)
        if kind_of_row == "prefill":
            return time.perf_counter() - start
        start = time.perf_counter()
        for step in range(NUM_STEPS):
            compute([(7, length + step, sequence, True) for sequence in range(num_requests)])
        return time.perf_counter() - start

    return measure
