"""Record which drafts vLLM 0.33.0's own code takes from a text: `python tools/record_vllm_ngram.py vllm-0.33.0-*.whl`.

vLLM has two proposers for `ngram`. The first model runner has NgramProposer, which takes the first match. The second
one, which runs by default, has NgramGPUSpeculator: it takes the last match and pads with the last token. Both files are
taken out of the wheel and run unchanged on a CPU: the first without Numba's compiler, as plain Python; the second's
Triton kernels by Triton's interpreter. What the files import of vLLM is only named there, for types, so that stand-ins
do. The texts are drawn from few tokens, so that most have several matches. Everything is seeded: the same command
writes the same traces/vllm-0.33.0-ngram/drafts.json, which mini_vllm/spec_decode/test_speculation.py reads.
"""

import importlib.util
import json
import os
import random
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import torch
import triton
import triton.language as tl

RECORDED = Path(__file__).resolve().parent.parent / "traces" / "vllm-0.33.0-ngram" / "drafts.json"
FIRST = "vllm/v1/spec_decode/ngram_proposer.py"
LAST = "vllm/v1/worker/gpu/spec_decode/ngram/speculator.py"
MAX_MODEL_LEN = 256  # two blocks of the scan kernel
NUM_CASES = 160
UNUSED = (  # what the second one is given for the sake of other speculators
    *("attn_metadata", "slot_mappings", "last_hidden_states", "aux_hidden_states", "num_rejected"),
    *("next_prefill_tokens", "temperature", "seeds"),
)


def unchanged(*_: Any, **__: Any) -> Any:
    """In Numba's place: a decorator that compiles nothing."""
    return lambda function: function


STAND_INS: dict[str, dict[str, Any]] = {
    "numba": {
        "jit": unchanged,
        "njit": unchanged,
        "prange": range,
        "get_num_threads": lambda: 1,
        "set_num_threads": lambda _: None,
    },
    "vllm.config": {"VllmConfig": object},
    "vllm.triton_utils": {"HAS_TRITON": True, "tl": tl, "triton": triton},
    "vllm.v1.worker.gpu.input_batch": {"InputBatch": object},
    "vllm.v1.worker.gpu.spec_decode.speculator": {"BaseSpeculator": object},
}


def load(wheel: zipfile.ZipFile, path: str, folder: Path) -> Any:
    """One file of the wheel as a module."""
    file = folder / Path(path).name
    file.write_bytes(wheel.read(path))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config(case: dict[str, Any]) -> Any:
    """As much of a VllmConfig as the proposers read."""
    return SimpleNamespace(
        speculative_config=SimpleNamespace(**{name: case[name] for name in case if name != "token_ids"}),
        model_config=SimpleNamespace(max_model_len=MAX_MODEL_LEN),
        scheduler_config=SimpleNamespace(max_num_seqs=1),
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
    )


def cases() -> Iterator[dict[str, Any]]:
    """Options and a text."""
    rng = random.Random(0)
    for _ in range(NUM_CASES):
        shortest = rng.randint(1, 3)
        vocabulary, length = rng.choice((2, 3, 4, 8)), rng.choice((1, 5, 12, 20, 30, 60, rng.randint(130, 240)))
        yield {
            "prompt_lookup_min": shortest,
            "prompt_lookup_max": shortest + rng.randint(0, 3),
            "num_speculative_tokens": rng.randint(1, 8),
            "token_ids": [rng.randrange(vocabulary) for _ in range(length)],
        }


def first(module: Any, case: dict[str, Any]) -> list[int]:
    """The drafts of the first model runner."""
    rows = torch.zeros((1, MAX_MODEL_LEN), dtype=torch.int32).numpy()
    length = len(case["token_ids"])
    rows[0, :length] = case["token_ids"]
    proposer = module.NgramProposer(config(case))
    lengths = torch.tensor([length], dtype=torch.int32).numpy()
    [drafts] = proposer.propose(case["num_speculative_tokens"], [case["token_ids"][-1:]], lengths, rows)
    return [int(token_id) for token_id in drafts]


def last(module: Any, case: dict[str, Any]) -> list[int]:
    """The drafts of the second one."""
    token_ids = case["token_ids"]
    rows = torch.zeros((1, MAX_MODEL_LEN), dtype=torch.int32)
    rows[0, : len(token_ids)] = torch.tensor(token_ids)
    states = SimpleNamespace(
        all_token_ids=SimpleNamespace(gpu=rows),
        total_len=SimpleNamespace(gpu=torch.tensor([len(token_ids)], dtype=torch.int32)),
    )
    speculator = module.NgramGPUSpeculator(config(case), torch.device("cpu"), states)
    batch = SimpleNamespace(num_reqs=1, idx_mapping=torch.zeros(1, dtype=torch.int64))
    num_sampled, last_sampled = torch.ones(1, dtype=torch.int32), torch.tensor([token_ids[-1]])
    unused = dict.fromkeys(UNUSED)
    drafts = speculator.propose(input_batch=batch, num_sampled=num_sampled, last_sampled=last_sampled, **unused)
    found: list[int] = drafts[0].tolist()
    return found


def main() -> None:
    """Write the file."""
    for name, values in STAND_INS.items():
        module = sys.modules[name] = ModuleType(name)
        vars(module).update(values)
    with zipfile.ZipFile(sys.argv[1]) as wheel, tempfile.TemporaryDirectory() as folder:
        modules = [load(wheel, path, Path(folder)) for path in (FIRST, LAST)]
        recorded = [case | {"first": first(modules[0], case), "last": last(modules[1], case)} for case in cases()]
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text("[\n" + ",\n".join(map(json.dumps, recorded)) + "\n]\n")


if __name__ == "__main__":
    main()
