"""NumpyExecutor: the bundled model where torch is not installed. The same tokens as LocalExecutor's
in float32.

What is here is bookkeeping in plain Python, and the model as a list of what is done to the rows of
a step. All that it does with numbers is in numpy_ops.py; a page of the book has the same functions
in JavaScript.
"""

import json
from collections.abc import Sequence
from typing import Any

from mini_vllm.errors import ConnectorMissingError, InvalidParameterError, how_to_install, shown
from mini_vllm.light.plain_sampler import sample
from mini_vllm.models.checkpoint import BUNDLED_MODEL, SINGLE_FILE, load_hf_config, resolve_model
from mini_vllm.spec_decode.verify import PADDING, accept
from mini_vllm.step import (
    BlockPair,
    LayerKVSpec,
    ModelInfo,
    SampledToken,
    SamplingRow,
    StepInput,
    StepOutput,
)
from mini_vllm.worker.executor import InProcessExecutor
from mini_vllm.worker.memory import KVCachePlan, available_host_memory, host_bytes

OPTIONS = {  # of EngineConfig, and what they may be here
    "model": (BUNDLED_MODEL,),
    "device": ("auto", "cpu"),
    "dtype": ("auto", "float32"),
    "quantization": (None,),
    "tensor_parallel_size": (1,),
    "attention_backend": ("auto",),
    "speculative": (None, "ngram", "suffix"),
}
Array = Any  # of numpy_ops


class NumpyExecutor(InProcessExecutor):
    """The bundled Qwen3 in float32."""

    def load(self) -> ModelInfo:
        """Errors: InvalidParameterError for a model or an option that needs torch."""
        for name, allowed in OPTIONS.items():
            if (value := getattr(self.config, name)) not in allowed:
                raise InvalidParameterError(
                    f"{name} {shown(value)} needs torch. {how_to_install('engine')}"
                )
        path = resolve_model(BUNDLED_MODEL)
        self.hf_config = config = load_hf_config(path)
        self.ops = self.array_module()
        self.weights = read_weights((path / SINGLE_FILE).read_bytes(), self.ops)
        # by name: how it samples, its block table
        self.requests: dict[str, tuple[SamplingRow, list[int]]] = {}
        spec = LayerKVSpec(config.num_key_value_heads, config.head_dim, 4)
        return ModelInfo(config.vocab_size, (spec,) * config.num_hidden_layers)

    def array_module(self) -> Any:
        """numpy_ops, or what has the same functions."""
        from mini_vllm.light import numpy_ops

        return numpy_ops

    def available_bytes(self) -> int:
        return host_bytes(
            self.config, 32 * self.hf_config.intermediate_size * self.config.max_num_batched_tokens
        )

    def allocate(self, plan: KVCachePlan) -> None:
        """Make the KV cache.

        Raises KVCacheTooLargeError if main memory does not have so many bytes.
        """
        if any(plan.layout.layer_groups):
            raise InvalidParameterError(
                f"layer_groups {plan.layout.layer_groups} need torch. {how_to_install('engine')}"
            )
        plan.check(available_host_memory(), available_host_memory(), is_shared=True)
        self.block_size, config = plan.block_size, self.hf_config
        self.kv_caches, self.cpu_caches = (
            [
                self.ops.zeros(
                    num_blocks * plan.block_size, config.num_key_value_heads * config.head_dim
                )
                for _ in range(2 * config.num_hidden_layers)  # K and V
            ]
            for num_blocks in (plan.num_blocks, plan.num_cpu_blocks)
        )

    def __str__(self) -> str:
        return (
            "float32 on cpu, in NumPy; PyTorch adds models, GPUs, bfloat16 and int8: pip "
            "install -e '.[engine]'"
        )

    # --- one step ---------------------------------------------------------------------------------

    def run(self, step: StepInput) -> StepOutput:
        """As ModelRunner.execute: what is new, blocks that move, every chunk, and a token for each
        row asked for.
        """
        if step.kv.connector is not None:
            raise ConnectorMissingError(
                f"nobody here carries out {step.kv.connector!r}, which a KV connector asks for"
            )
        if step.forget_all:
            self.requests.clear()
        for request_id in step.finished_req_ids:
            self.requests.pop(request_id, None)
        self.requests |= {request_id: (row, []) for request_id, row in step.new_rows.items()}
        for request_id, (block_ids,) in step.new_block_ids.items():
            self.requests[request_id][1].extend(block_ids)
        self._copy_blocks(self.kv_caches, self.cpu_caches, step.kv.swap_out)
        self._copy_blocks(self.cpu_caches, self.kv_caches, step.kv.swap_in)
        self._copy_blocks(self.kv_caches, self.kv_caches, step.kv.copy)
        return accept(step, self._sample(step) if step.req_ids else ())

    def _copy_blocks(
        self, sources: list[Array], targets: list[Array], pairs: Sequence[BlockPair]
    ) -> None:
        if pairs:
            old, new = (
                self._slots(block_ids, range(len(pairs) * self.block_size))
                for block_ids in zip(*pairs, strict=True)
            )
            for source, target in zip(sources, targets, strict=True):
                self.ops.write(target, new, self.ops.take(source, old))

    def _slots(self, block_ids: Sequence[int], positions: range) -> list[int]:
        size = self.block_size
        return [block_ids[position // size] * size + position % size for position in positions]

    def _sample(self, step: StepInput) -> list[SampledToken | str]:
        tables = [self.requests[request_id][1] for request_id in step.req_ids]
        spans = list(zip(step.num_computed_tokens, step.num_scheduled_tokens, tables, strict=True))
        positions = [position for start, n, _ in spans for position in range(start, start + n)]
        assert min(step.token_ids) >= PADDING, f"token id {min(step.token_ids)} stands for no token"
        # padding is computed, and never accepted
        token_ids = [max(token_id, 0) for token_id in step.token_ids]
        hidden = self._forward(token_ids, positions, spans)
        rows = (
            self._logits(self.ops.take(hidden, list(step.sample_rows))) if step.sample_rows else []
        )
        asked = zip(step.sample_req_ids, step.sample_rows, rows, strict=True)
        masks = {name: iter(each) for name, each in step.masks.items()}
        return [
            sample(
                logits,
                self.requests[name][0],
                positions[row] + 1,
                next(masks.get(name, iter(())), None),
            )
            for name, row, logits in asked
        ]

    # --- the model --------------------------------------------------------------------------------

    def _forward(
        self, token_ids: list[int], positions: list[int], spans: list[tuple[int, int, list[int]]]
    ) -> Array:
        """Hidden states [T, hidden_size] of T tokens end to end: what models/decoder.py and
        models/qwen3.py compute.
        """
        ops, config = self.ops, self.hf_config
        eps, head_dim = config.rms_norm_eps, config.head_dim
        angles = ops.rotation(positions, head_dim, config.rope_parameters["rope_theta"])
        slots = [
            slot
            for start, n, table in spans
            for slot in self._slots(table, range(start, start + n))
        ]
        hidden = ops.take(self.weights["model.embed_tokens"], token_ids)
        for i, (keys, values) in enumerate(
            zip(self.kv_caches[::2], self.kv_caches[1::2], strict=True)
        ):
            w = {
                name.removeprefix(f"model.layers.{i}."): weight
                for name, weight in self.weights.items()
            }
            x = ops.rms_norm(hidden, w["input_layernorm"], eps)
            query, key, value = (ops.linear(x, w[f"self_attn.{name}_proj"]) for name in "qkv")
            query = ops.rotate(ops.rms_norm(query, w["self_attn.q_norm"], eps), angles)
            ops.write(
                keys, slots, ops.rotate(ops.rms_norm(key, w["self_attn.k_norm"], eps), angles)
            )
            ops.write(values, slots, value)
            mixed = ops.attend(query, keys, values, spans, self.block_size, head_dim)
            hidden = ops.add(hidden, ops.linear(mixed, w["self_attn.o_proj"]))
            x = ops.rms_norm(hidden, w["post_attention_layernorm"], eps)
            gated = ops.silu_mul(ops.linear(x, w["mlp.gate_proj"]), ops.linear(x, w["mlp.up_proj"]))
            hidden = ops.add(hidden, ops.linear(gated, w["mlp.down_proj"]))
        return hidden

    def _logits(self, hidden: Array) -> Sequence[Sequence[float]]:
        normalised = self.ops.rms_norm(
            hidden, self.weights["model.norm"], self.hf_config.rms_norm_eps
        )
        return self.ops.tolist(self.ops.linear(normalised, self.weights["model.embed_tokens"]))  # type: ignore[no-any-return]


def read_weights(data: bytes, ops: Any) -> dict[str, Array]:
    """The tensors of a safetensors file, by name without ".weight": 8 bytes of length, a header in
    JSON, the data.
    """
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {
        name.removesuffix(".weight"): ops.load(
            data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]],
            entry["dtype"],
            entry["shape"],
        )
        for name, entry in header.items()
    }
