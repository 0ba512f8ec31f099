"""Prove that the tests of attention can fail: plant a bug in a kernel, or beside it, and run them.

    python tools/mutation/planted_kernel_bugs.py [part of a file's name ...]

Each bug is one replacement in a copy of the package: an error that kernels of this kind really have. It is found if
some test fails. Exit status 1 if one is not found, or no longer applies. A quarter of an hour in all.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TESTS = tuple(f"attention/test_{name}.py" for name in ("tiles", "attention", "triton"))
PA, WRITE, SIMPLE, TILES = (
    f"attention/{name}.py" for name in ("paged_attention", "write_kv", "triton_simple", "tiles")
)
FUSED, NUMERICS, BACKEND = "models/layers/fused_triton.py", "attention/numerics.py", "attention/triton_backend.py"
PLANS = "attention/groups/plans.py"

BUGS = [  # file, what stands there, the bug
    (PA, "visible = keys[None, :] <= positions", "visible = keys[None, :] < positions"),
    (PA, "> positions[:, None] - WINDOW", ">= positions[:, None] - WINDOW"),
    (PA, "head = kv_head * GROUP_SIZE + rows % GROUP_SIZE", "head = kv_head + rows % GROUP_SIZE * NUM_KV_HEADS"),
    (PA, "    query_index = rows // GROUP_SIZE\n", "    query_index = rows % (BLOCK_M // GROUP_SIZE)\n"),
    (PA, "first_position + 1) // BLOCK_N * BLOCK_N", "first_position + BLOCK_N) // BLOCK_N * BLOCK_N"),
    (PA, "            shift = tl.where(new_maximum", "            tl.where(new_maximum"),
    (PA, "weighted_sum = weighted_sum * correction[:, None] + matmul", "weighted_sum = weighted_sum + matmul"),
    (PA, "normaliser = normaliser * correction + tl.sum(weights, axis=1)", "normaliser += tl.sum(weights, axis=1)"),
    (PA, "slots = block_ids * BLOCK_SIZE + start % BLOCK_SIZE + tl", "slots = block_ids * BLOCK_SIZE + tl"),
    (PA, "[:, None], maximum + tl.log2(divisor)", "[:, None], maximum"),
    (PA, "[:, None], maximum + tl", "[:, None], tl.where(normaliser == 0.0, 0.0, maximum) + tl"),
    (PA, "mask=keys < end, other=0)", "mask=keys < end + BLOCK_N, other=0)"),
    (PA, "MASKED, BLOCK_D != HEAD_DIM,", "MASKED, False,"),
    (PA, "is_row = (query_index < num_queries)", "is_row = (query_index >= 0)"),
    (PA, "    output[tiles.num_rows :] = 0\n", ""),
    (PA, "index = start + tl.arange(0, BLOCK_P)", "index = tl.arange(0, BLOCK_P)"),
    (PA, "for start in range(0, num_partials, BLOCK_P)", "for start in range(0, BLOCK_P, BLOCK_P)"),
    (WRITE, "    if slot >= 0:\n        lanes", "    if slot > 0:\n        lanes"),
    (WRITE, "    if slot >= 0:\n        lanes", "    if slot >= -1:\n        lanes"),
    (WRITE, "    if slot >= 0:\n        row", "    if True:\n        slot = tl.maximum(slot, 0)\n        row"),
    (WRITE, "value_ptr + token * value_stride + lanes", "value_ptr + token * ROW + lanes"),
    (WRITE, "a * cos[None, :] - b * sin", "a * cos[None, :] + b * sin"),
    (WRITE, "mask = numbers < NUM_KV_HEADS * HEAD_DIM", "mask = numbers >= 0"),
    (SIMPLE, "(positions >= begin) & (positions < end)", "(positions >= begin) & (positions <= end)"),
    (SIMPLE, "kv_head = head // GROUP_SIZE", "kv_head = head % NUM_KV_HEADS"),
    (SIMPLE, "weighted_sum = weighted_sum * correction + ", "weighted_sum = weighted_sum + "),
    (SIMPLE, "tl.where(normaliser > 0.0, normaliser, 1.0)", "normaliser"),
    (SIMPLE, "np.full(len(metadata.slot_mapping), -1", "np.full(len(metadata.slot_mapping), 0"),
    (TILES, "-(-end // (SPLIT * MAX_SPLITS))", "np.full_like(end, len(end))"),
    (TILES, "begin = np.maximum(first - window + 1, 0)\n    split", "begin = first * 0 + 64\n    split"),
    (TILES, "np.minimum(span_begin + split[owner], end[owner])", "span_begin + split[owner]"),
    (TILES, "first = first[owner] + offset", "first = first[owner]"),
    (TILES, "np.maximum(-(-end // split) - begin // split, 1)", "-(-end // split) - begin // split"),
    (BACKEND, "short_queries=short.queries(spec.group_size)", "short_queries=short.rows"),
    (PLANS, "plan if spec.sinks is None else plan._replace(spec=spec)", "plan"),
    (FUSED, "rows // INNER * outer_stride + rows % INNER * inner_stride", "rows * inner_stride"),
    (FUSED, "tl.sum(x * x, axis=1) / SIZE", "tl.sum(x * x, axis=1) / BLOCK"),
    (FUSED, "        tl.store(residual_ptr + to, summed, mask=mask)\n", ""),
    (FUSED, "row * 2 * SIZE + SIZE + numbers", "row * 2 * SIZE + BLOCK + numbers"),
    (NUMERICS, "((bits >> 16) & 1)", "0"),
]  # fmt: skip

NO_VERDICT = (2, 3, 4, 5)  # of pytest: interrupted, an error of its own, a wrong call, no tests
NO_SHRINKING = """
import hypothesis
phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
hypothesis.settings.register_profile("any failure will do", phases=phases)
hypothesis.settings.load_profile("any failure will do")
"""


def is_found(file: str, old: str, new: str) -> bool:
    """Run the tests on a copy of the package that has the bug. Triton interprets, so a GPU is not needed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "mini_vllm"
        shutil.copytree(ROOT / "mini_vllm", copy, ignore=shutil.ignore_patterns("__pycache__"))
        path = copy / file
        source = path.read_text()
        if old not in source:
            raise SystemExit(f"{file} has no longer {old!r}")
        path.write_text(source.replace(old, new))
        (Path(folder) / "conftest.py").write_text((ROOT / "conftest.py").read_text() + NO_SHRINKING)
        arguments = [
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            f"--rootdir={folder}",
            "-m",
            "not slow and not nightly",
        ]
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments, *(str(copy / name) for name in TESTS)],
            cwd=folder,
            env=os.environ
            | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
        )
        if run.returncode in NO_VERDICT:
            raise SystemExit(f"the tests did not run: {run.stdout[-2000:]}{run.stderr[-2000:]}")
        return run.returncode != 0  # a crash of the interpreter is a find, too


def main() -> None:
    wanted = sys.argv[1:]
    missed = 0
    if is_found(BACKEND, "", ""):
        raise SystemExit("the tests fail on a copy of the package without a bug")
    for file, old, new in BUGS:
        if not wanted or any(part in file for part in wanted):
            found = is_found(file, old, new)
            print(f"{'found ' if found else 'MISSED'}  {file:30} {old.strip().splitlines()[0]}", flush=True)
            missed += not found
    if missed:
        sys.exit(f"{missed} not found")


if __name__ == "__main__":
    main()
