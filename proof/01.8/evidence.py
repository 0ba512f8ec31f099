"""What the two engines of lab 01.8 left behind: a model of one layer that says again what it said a period before.

The key of a token is its position, its value is its letter, and the query asks for the position one period back.
"""

import torch

from labkit.labs.graft import ungrafted
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec, PackedRequest
from mini_vllm.attention.reference import ReferenceBackend

SIZE = 64  # of a head: so many positions, and letters from "@" on
SCORE = 50.0  # of the key that is asked for; that of all others is 0
NUM_STEPS = 20
BLOCK_SIZES = {"a": 6, "b": 8}
PROMPTS = {"a": {"p": "paged ", "q": "ker"}, "b": {"p": "attention ", "q": "flash "}}
TABLES = {
    "a": {"p": [1, 4, 2, 7, 9], "q": [3, 5, 6, 8]},
    "b": {"p": [5, 2, 7, 3], "q": [1, 6, 4, 8]},
}


def one_hot(indices):
    return torch.nn.functional.one_hot(torch.tensor(indices) % SIZE, SIZE).float()[:, None]


def letter(index):
    return " " if index == 32 else chr(64 + index)


def run(case):
    """Each step: (slots, what comes of the last row of each request), and the texts."""
    size, tables, periods = BLOCK_SIZES[case], TABLES[case], {name: len(text) for name, text in PROMPTS[case].items()}
    texts, computed = dict(PROMPTS[case]), dict.fromkeys(PROMPTS[case], 0)
    key_cache, value_cache = torch.zeros(10, size, 1, SIZE), torch.zeros(10, size, 1, SIZE)
    spec, backend, steps = AttentionSpec(1, 1, SIZE, scale=1.0), ReferenceBackend(), []
    for _ in range(NUM_STEPS):
        batch = [(name, range(computed[name], len(text))) for name, text in texts.items()]
        requests = [PackedRequest(tables[name], each.start, len(each)) for name, each in batch]
        metadata = AttentionMetadata.pack(requests, size, torch.device("cpu"))
        keys = one_hot([position for _, each in batch for position in each])
        values = one_hot([ord(texts[name][position]) for name, each in batch for position in each])
        asked = [max(position + 1 - periods[name], 0) for name, each in batch for position in each]
        backend.write_kv(keys, values, key_cache, value_cache, metadata)
        plan = backend.plan(metadata, spec)
        result = backend.attend(SCORE * one_hot(asked), key_cache, value_cache, plan)[:, 0]
        seen, row = {}, 0
        for name, each in batch:
            slots = metadata.slot_mapping[row : row + len(each)].tolist()
            row += len(each)
            weights = [round(weight, 2) for weight in result[row - 1].tolist()]
            seen[name] = (each, slots, asked[row - 1], weights)
            said = max(range(SIZE), key=weights.__getitem__)
            texts[name] += letter(said).lower()
            computed[name] = each.stop
        steps.append(seen)
    return steps, texts


def evidence(case):
    steps, texts = run(case)
    with ungrafted():
        _, right = run(case)
    lines = [f"blocks of {BLOCK_SIZES[case]} slots", ""]
    for name, text in texts.items():
        lines += [
            f"{name}  block table {' '.join(map(str, TABLES[case][name]))}, prompt {PROMPTS[case][name]!r}",
            f"   text         {text!r}",
            f"   should be    {right[name]!r}",
        ]
    for number, step in enumerate(steps):
        lines += ["", f"step {number}"]
        for name, (positions, slots, asked, weights) in step.items():
            where = f"position {positions.start}" if len(positions) == 1 else f"positions 0 to {positions.stop - 1}"
            largest = sorted(range(SIZE), key=lambda index: -weights[index])[:4]
            comes = ", ".join(f"{letter(index).lower()!r} {weights[index]:.2f}" for index in largest if weights[index])
            lines += [
                f"  {name}  computes {where} in slots {' '.join(map(str, slots))}",
                f"     asks for position {asked}, gets {comes or 'nothing'}",
            ]
    return "\n".join(lines) + "\n"
