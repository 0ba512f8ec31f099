"""Record which recorded forward vLLM's own dispatcher takes for the makeup of a batch.

    pip download vllm==0.33.0 --no-deps -d wheel && unzip -q wheel/vllm-*.whl -d wheel/src
    python tools/record_vllm_dispatcher.py wheel/src

The classes are taken out of the wheel's sources and run as they are: CudagraphDispatcher
(v1/cudagraph_dispatcher.py), CUDAGraphMode and adjust_cudagraph_sizes_for_spec_decode
(config/compilation.py), BatchDescriptor (forward_context.py) and VllmConfig._set_cudagraph_sizes
(config/vllm.py). What they read of a configuration stands in for it, so neither a GPU nor vLLM's other
packages are needed. The answers are the oracle of mini_vllm/worker/graphs/test_graphs.py.
"""

import ast
import enum
import json
import sys
import types
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RESULT = Path(__file__).resolve().parent.parent / "mini_vllm" / "worker" / "graphs" / "vllm_dispatcher.json"
# mode, max_num_seqs, max_num_batched_tokens, tokens of a decode
CASES = [
    *((mode, 8, 32, 1) for mode in ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")),
    *((mode, 256, 2048, 1) for mode in ("PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")),
    *((mode, 5, 64, 3) for mode in ("FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")),
    ("FULL_AND_PIECEWISE", 64, 2048, 5),
    ("FULL_AND_PIECEWISE", 100, 96, 1),
    ("FULL_DECODE_ONLY", 300, 8192, 2),
    ("FULL_AND_PIECEWISE", 1, 16, 1),
    ("FULL_AND_PIECEWISE", 37, 1000, 4),
]


def taken(path: Path, name: str, names: dict[str, Any]) -> Any:
    """A class or function at any depth of a source file, run with these names and nothing else of it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (each for each in ast.walk(tree) if isinstance(each, (ast.ClassDef, ast.FunctionDef)) and each.name == name)
    node = next(found)
    body: list[ast.stmt] = [ast.ImportFrom("__future__", [ast.alias("annotations")], 0), node]
    module = ast.fix_missing_locations(ast.Module(body, []))
    exec(compile(module, str(path), "exec"), names)
    return names[name]


def stub(name: str, **members: Any) -> None:
    """A module that the sources import inside a function."""
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module


def main(source: Path) -> None:
    """Ask for every case and every number of tokens that matters, and write the answers."""
    root = source / "vllm"
    stub("vllm.compilation.breakable_cudagraph", is_breakable_cudagraph_enabled=lambda: True)
    platform = SimpleNamespace(is_device_capability_family=lambda family: False)
    stub("vllm.platforms", current_platform=platform)
    mode_cls = taken(root / "config/compilation.py", "CUDAGraphMode", {"enum": enum})
    descriptor = taken(root / "forward_context.py", "BatchDescriptor", {"dataclass": dataclass, "NamedTuple": object})
    names = {"CUDAGraphMode": mode_cls, "BatchDescriptor": descriptor, "replace": replace, "product": product}
    names |= {"AbstractSet": AbstractSet, "logger": SimpleNamespace(warning=print)}
    dispatcher_cls = taken(root / "v1/cudagraph_dispatcher.py", "CudagraphDispatcher", dict(names))
    set_sizes = taken(root / "config/vllm.py", "_set_cudagraph_sizes", dict(names))
    round_up = {"round_up": lambda x, y: -(-x // y) * y}
    adjust = taken(root / "config/compilation.py", "adjust_cudagraph_sizes_for_spec_decode", round_up)

    def ask(mode: Any, seqs: int, budget: int, length: int) -> dict[str, Any]:
        compilation = SimpleNamespace(
            cudagraph_mode=mode_cls.FULL,
            max_cudagraph_capture_size=None,
            cudagraph_capture_sizes=None,
            compile_sizes=None,
            cudagraph_specialize_lora=False,
            post_init_cudagraph_sizes=lambda: None,
            is_attention_compiled_piecewise=lambda: True,
        )
        config = SimpleNamespace(
            compilation_config=compilation,
            scheduler_config=SimpleNamespace(max_num_seqs=seqs, max_num_batched_tokens=budget),
            model_config=SimpleNamespace(enforce_eager=False),
            uniform_decode_query_len=length,
            num_speculative_tokens=length - 1,
            speculative_config=None,
            lora_config=None,
            performance_mode="balanced",
        )
        set_sizes(config)
        compilation.cudagraph_mode = mode
        if mode.decode_mode() == mode_cls.FULL and length > 1:
            adjust(compilation, length)
        dispatcher = dispatcher_cls(config)
        dispatcher.initialize_cudagraph_keys(mode, length)
        answers = []
        most = compilation.max_cudagraph_capture_size
        for n in sorted({*range(1, 20), 33, 96, 100, 257, most - 1, most, most + 1} - {0}):
            for is_uniform in (False, True)[: 1 + (n % length == 0 and n // length <= seqs)]:
                runtime, key = dispatcher.dispatch(n, is_uniform)
                answers.append([n, is_uniform, runtime.name, key.num_tokens, key.num_reqs, key.uniform])
        capture = [
            [runtime.name, key.num_tokens, key.num_reqs, key.uniform]
            for runtime, keys in dispatcher.get_capture_descs()
            for key in keys
        ]
        return {
            "mode": mode.name,
            "max_num_seqs": seqs,
            "max_num_batched_tokens": budget,
            "decode_query_len": length,
            "sizes": compilation.cudagraph_capture_sizes,
            "capture": capture,
            "answers": answers,
        }

    cases = [ask(mode_cls[mode], *rest) for mode, *rest in CASES]
    lines = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    RESULT.write_text(f'{{"vllm": "0.33.0", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(cases)} cases, {sum(len(case['answers']) for case in cases)} answers: {RESULT}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
